/** What the tests run as an ordinary user: opens workspaces by each projection and prints what it saw as JSON. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"
import type { Workspace } from "../../src/workspace/WorkspaceProvider.ts"

const home = process.env["HOME"]!
const origin = join(home, "origin")
fs.mkdirSync(join(origin, "d"), { recursive: true })
fs.writeFileSync(join(origin, "f"), "f")
fs.writeFileSync(join(origin, "d/g"), "g")
fs.writeFileSync(join(origin, "closed"), "closed", { mode: 0o000 })
fs.mkdirSync(join(origin, "shut"), { mode: 0o700 })
fs.writeFileSync(join(origin, "shut/inside"), "")
fs.chmodSync(join(origin, "shut"), 0o000)
fs.mkdirSync(join(home, ".ssh"))
fs.writeFileSync(join(home, ".ssh/id"), "private key")
fs.mkdirSync(join(home, "held"))
fs.writeFileSync(join(home, "held/test"), "expected")

const out = (workspace: Workspace, command: string) =>
  Effect.map(workspace.exec(command), (result) => `${result.exitCode} ${result.stdout.text}`.trim())

const seen = await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* makeLayerFs({ store: join(home, "store") })
      const probe = yield* provider.probe
      const { commit, notes } = yield* provider.importDirectory({ source: origin })
      const byProjection: Record<string, unknown> = {}
      for (const projection of ["overlay", "lazy", "copy"] as const) {
        const branch = (yield* provider.fork(commit)).id
        byProjection[projection] = yield* Effect.scoped(
          Effect.gen(function* () {
            const workspace = yield* provider.open(branch, {
              projection,
              hide: [join(home, "held")],
              residentShell: projection === "copy"
            })
            const results = {
              level: workspace.isolation.level,
              reachable: workspace.isolation.reachable,
              path: workspace.path === origin,
              id: yield* out(workspace, "id -u"),
              key: yield* out(workspace, `cat '${home}/.ssh/id' 2>/dev/null`),
              held: yield* out(workspace, `ls -A '${home}/held'`),
              store: yield* out(workspace, `ls -A '${home}/store'`),
              outside: yield* out(workspace, `: 2>/dev/null > '${home}/probe'`),
              lift: yield* out(workspace, `umount -l '${home}/held' 2>/dev/null || echo refused`),
              nested: yield* out(workspace, `unshare -r -m umount -l '${home}/held' 2>/dev/null || echo refused`),
              device: yield* out(workspace, "rm -f /dev/null 2>/dev/null || echo refused; echo > /dev/null"),
              changed: yield* out(
                workspace,
                "echo new > f; mkdir m; echo secret > m/s; chmod 000 m/s m; mv d e; echo ok"
              )
            }
            const outcome = yield* workspace.checkpoint()
            const started = yield* workspace.start(["sh", "-c", "(setsid sleep 1000 &); sleep 1000"])
            const ticking = yield* workspace.start(["sh", "-c", "while :; do echo tick >> ticks; done"])
            while ((yield* Effect.result(workspace.stat("ticks")))._tag === "Failure") yield* Effect.sleep(5)
            const still = yield* workspace.checkpoint({ quiesce: true })
            const ticks = Effect.map(workspace.stat("ticks"), (stat) => stat.size)
            const size = yield* ticks
            // It was let go again: the file grows.
            while ((yield* ticks) === size) yield* Effect.sleep(5)
            const quiesced = still.outcome === "committed" ? [still.live, (still.quiesced ?? 0) > 2] : still.outcome
            yield* ticking.kill({ graceMs: 0 })
            yield* workspace.remove("ticks")
            yield* workspace.checkpoint({ quiesce: true })
            yield* started.kill({ graceMs: 0 })
            const gone = yield* started.provenGone
            return {
              ...results,
              outcome: outcome.outcome,
              quiesced,
              gone,
              origin: fs.readFileSync(join(origin, "f"), "utf8")
            }
          })
        )
        const at = (path: string) => Effect.map(provider.readAt(branch, path), (bytes) => Buffer.from(bytes).toString())
        const mode = Effect.map(provider.statAt(branch, "m"), (stat) => stat.mode)
        byProjection[`${projection}Tree`] = Effect.runSync(
          Effect.succeed([yield* at("f"), yield* at("e/g"), yield* mode, yield* at("m/s")])
        )
        // A directory that its owner may not look into can be owned all the same.
        const again = yield* provider.execOn(branch, "cat f e/g; stat -c %a m", { projection, ownDirs: ["m", "e"] })
        const owned = yield* provider.execOn(branch, "mv m n && mv e o", { projection, ownDirs: ["m", "e"] })
        byProjection[`${projection}Again`] = [again.result.stdout.text, again.checkpoint.outcome, owned.result.exitCode]
      }
      // A commit that no workspace made: its layer comes from the store, whiteouts included.
      const direct = (yield* provider.fork(commit)).id
      yield* provider.applyTo(direct, [
        { op: "remove", path: "d" },
        { op: "write", path: "h", bytes: "h" }
      ])
      const ofDirect = yield* provider.execOn(direct, "ls; cat f h", { projection: "overlay" })
      const isLayer = (name: string) => !/\.(?:ok|size|at)$/.test(name)
      const bases = fs.readdirSync(join(home, "store/layerfs/cache/base")).filter(isLayer)
      const left = yield* provider.left
      const unread = notes.map(({ kind, path }) => `${kind} ${path.path}`)
      return {
        probe: probe.projections,
        unread,
        ...byProjection,
        direct: [ofDirect.result.stdout.text, bases.length],
        left,
        work: fs.readdirSync(join(home, "store/layerfs/work"))
      }
    })
  )
)
console.log(JSON.stringify(seen))
