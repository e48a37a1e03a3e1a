/** What the tests of odd machines run there: opens a store and a workspace by each projection, and prints what came of it as JSON. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const home = process.argv[2] ?? process.env["HOME"]!
const source = join(home, "source")
fs.mkdirSync(source, { recursive: true })
fs.writeFileSync(join(source, "f"), "f")

const told = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.result(effect), (result) => {
    if (result._tag === "Success") return result.success
    const { _tag, message, remedy, what, missing } = result.failure as unknown as Record<string, unknown>
    return { _tag, message, remedy, what, missing }
  })

const seen = await Effect.runPromise(
  told(
    Effect.scoped(
      Effect.gen(function* () {
        const provider = yield* makeLayerFs({ store: join(home, "store") })
        const { commit } = yield* provider.importDirectory({ source })
        const by: Record<string, unknown> = { probe: yield* provider.probe }
        for (const projection of ["auto", "overlay", "lazy", "copy"] as const) {
          const branch = (yield* provider.fork(commit)).id
          by[projection] = yield* told(
            Effect.scoped(
              Effect.gen(function* () {
                const workspace = yield* provider.open(branch, { projection })
                const { exitCode } = yield* workspace.exec("cat f > g")
                const { outcome } = yield* workspace.checkpoint()
                const bytes = yield* provider.readAt(branch, "g")
                const content = Buffer.from(bytes).toString()
                const { level } = workspace.isolation
                return { projection: workspace.projection, level, exitCode, outcome, content }
              })
            )
          )
        }
        const offline = yield* told(
          Effect.scoped(
            Effect.gen(function* () {
              const branch = (yield* provider.fork(commit)).id
              const workspace = yield* provider.open(branch, { isolation: { network: "none" } })
              const reached = yield* workspace.exec(
                "cat < /dev/null; ls /proc/net > /dev/null; tail -n +3 /proc/net/dev | wc -l"
              )
              return [workspace.isolation.level, workspace.isolation.network, reached.stdout.text]
            })
          )
        )
        return { ...by, offline, left: yield* provider.left, work: fs.readdirSync(join(home, "store/layerfs/work")) }
      })
    )
  )
)
console.log(JSON.stringify(seen))
