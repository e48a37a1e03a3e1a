/** Imports a directory of somebody else's into a store of its own: run by `runAsUser`, with both as arguments. Prints what came of it. */
import * as Effect from "effect/Effect"
import { openReflink } from "../../providers/reflink/index.ts"

const [source = "", store = ""] = process.argv.slice(2)
const imported = Effect.gen(function* () {
  const provider = yield* openReflink({ store })
  const { commit, files, notes } = yield* provider.importDirectory({ source })
  const listed = yield* provider.listAt(commit, "")
  return {
    files,
    listed: listed.map(({ path, mode }) => [path, mode]),
    notes: notes.map(({ kind, path }) => [kind, path.path])
  }
})
console.log(JSON.stringify(await Effect.runPromise(Effect.scoped(imported))))
