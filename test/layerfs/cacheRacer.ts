/**
 * A process that opens and closes workspaces while others do: `STORE BRANCH ROUNDS WHAT`. As `evict` it takes away every layer that
 * nobody needs; as `look` it looks at what its own workspaces show. Prints what was wrong, `[]` when nothing was.
 */
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const [, , store, branch, rounds, what] = process.argv

const program = Effect.gen(function* () {
  const provider = yield* makeLayerFs({ store: store!, ...(what === "evict" ? { cacheLimit: 0 } : {}) })
  const faults: string[] = []
  for (let round = 0; round < Number(rounds); round += 1) {
    const shown = yield* Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch!, { projection: "overlay" })
        const names = yield* workspace.glob("**")
        const bytes = yield* workspace.read("deep/file")
        return `${names.length} ${bytes.length}`
      })
    ).pipe(Effect.catchCause((cause) => Effect.succeed(String(cause))))
    if (shown !== "4 40000") faults.push(shown)
  }
  return faults
})

console.log(JSON.stringify(await Effect.runPromise(Effect.scoped(program))))
