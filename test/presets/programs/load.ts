/**
 * Loads one entry point, by name or by its file, and does with it what is asked, in steps:
 * `node --import trace.mjs load.ts ENTRY STORE STEP...`.
 * Prints after each step what has been loaded and started so far, as one JSON line. Ends by itself or not at all.
 */
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import type * as EffectModule from "effect/Effect"

const [entry, store, ...steps] = process.argv.slice(2) as [string, string, ...string[]]
const root = pathToFileURL(join(import.meta.dirname, "..", "..", "..", "/")).href
const trace = (globalThis as any).coppiceTrace

const snapshot = (step: string, more: object = {}) => ({
  step,
  files: trace.modules.filter((url: string) => url.startsWith(root)).map((url: string) => url.slice(root.length)),
  modules: trace.modules,
  paths: trace.paths,
  threads: trace.threads,
  processes: trace.processes,
  sockets: trace.sockets,
  resources: process.getActiveResourcesInfo(),
  signals: ["SIGINT", "SIGTERM", "SIGHUP", "beforeExit", "exit"].filter((name) => process.listenerCount(name) > 0),
  store: existsSync(store) ? readdirSync(store).toSorted() : [],
  ...more
})
const say = (value: object) => console.log(JSON.stringify(value))

const names: Record<string, string> = { assembly: "src/assembly/Registry.ts" }
// What this program itself needed is not the entry point's.
for (const seen of [trace.modules, trace.paths]) seen.length = 0
const module: any = await import(
  new URL(entry.endsWith(".ts") ? entry : (names[entry] ?? `src/${entry}.ts`), root).href
)
say(snapshot("imported"))

const tables = (): readonly string[] => {
  const db = new DatabaseSync(join(store, "authority.db"), { readOnly: true })
  try {
    const rows = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").all()
    return rows.map((row) => String(row["name"]))
  } finally {
    db.close()
  }
}

if (entry === "assembly") {
  const Effect: typeof EffectModule = await import("effect/Effect")
  const registry = module.makeRegistry(new Map())
  const parts = registry.parts()
  const unknown: any = await Effect.runPromise(Effect.flip(module.providerName("no-such-provider")))
  say(snapshot("asked", { parts, unknown: unknown.code }))
} else if (entry !== "index" && steps.length > 0) {
  const Effect: typeof EffectModule = await import("effect/Effect")
  const { Goals } = await import("../../../src/governance/index.ts")
  const { Workspaces } = await import("../../../src/workspace/WorkspaceProvider.ts")
  const options = { store, ...(steps.includes("off") ? { workspaces: "off" } : {}) }
  const program: EffectModule.Effect<void, any, any> = Effect.gen(function* () {
    const assembly: any = yield* module.Assembly
    const report = () => ({ report: assembly.read() })
    yield* Goals.open({ title: "a goal", budget: { usd: 1 } })
    // A turn of the event loop, so that what the work itself left behind is gone.
    yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
    say(snapshot("governed", { ...report(), tables: tables() }))
    if (steps.includes("off")) {
      const workspaces = yield* Workspaces
      const calls: Record<string, EffectModule.Effect<unknown, any>> = {
        manifest: workspaces.manifest,
        probe: workspaces.probe,
        import: workspaces.importDirectory({ source: "." }),
        fork: workspaces.fork("cmt_1" as never),
        left: workspaces.left,
        stats: workspaces.stats
      }
      const answers: Record<string, unknown> = {}
      for (const [name, call] of Object.entries(calls)) {
        const { _tag, code, remedy, what }: any = yield* Effect.flip(call)
        answers[name] = { _tag, code, remedy, what }
      }
      say(snapshot("refused", { ...report(), answers }))
    }
    if (steps.includes("use")) {
      const workspaces = yield* Workspaces
      const [a, b]: any = yield* Effect.all([workspaces.createEmpty(), workspaces.stats], { concurrency: 2 })
      say(snapshot("used", { ...report(), made: a.layer, stats: b }))
    }
  }) as any
  const layer = module[entry](options)
  await Effect.runPromise(Effect.provide(program, layer) as EffectModule.Effect<void, any>)
  await new Promise((done) => setImmediate(done))
  say(snapshot("closed"))
}
