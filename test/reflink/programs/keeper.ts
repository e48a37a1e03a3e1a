/**
 * Keeps, makes and drops states, for tests that kill it. Arguments: the provider's directory, then `keep COMMIT TREE`, `make COMMIT TARGET`
 * or `drop COMMIT`. Prints what came of it as JSON.
 */
import { reflinkBackend } from "../../../providers/reflink/Backend.ts"
import { fromInput } from "../../../src/base/PathBytes.ts"

const [directory = "", what, commit = "", place = ""] = process.argv.slice(2)
const backend = await reflinkBackend({ directory, durability: "full" })
const snapshot = { project: "prj_1", commit }
const signal = new AbortController().signal

if (what === "keep") {
  const tree = fromInput(place)
  const input = { parents: [], tree, isImport: true, changes: null, leaveOut: [], message: "", at: 0, signal }
  console.log(JSON.stringify(await backend.keep({ snapshot, ...input, onProgress: () => undefined })))
} else if (what === "make") {
  console.log(JSON.stringify(await backend.make({ snapshot, target: fromInput(place), workspace: null, signal })))
} else {
  await backend.drop(snapshot)
}
