// node promise.ts SOURCE STORE: run the tests of a directory in a workspace of its own, and keep what they left behind.
// No Effect here, and none needs to be installed. `await using` is Node 24; with an older one call `close()` in a `finally`.
import { open } from "coppice/promise"

const [source = ".", store] = process.argv.slice(2)
const stop = new AbortController()
process.once("SIGINT", () => stop.abort())
const { signal } = stop

try {
  await using coppice = await open(store === undefined ? {} : { store })
  const importing = coppice.workspaces.importDirectory(source, { signal }) // with its installed dependencies; only read
  for await (const step of importing.progress) console.error(step.phase, step.files)
  const base = await importing
  await using workspace = await coppice.workspaces.open(await coppice.workspaces.fork(base, "try-cache"))
  const tests = await workspace.exec(["npm", "test"], { timeLimit: "2 minutes", signal })
  const changed = await workspace.changes() // what the tests wrote
  const saved = await workspace.checkpoint("ran the tests") // { outcome: "unchanged" } when nothing changed
  console.log(tests.exitCode, changed.length, saved.outcome)
} catch (error) {
  // Every failure that you can act on is a plain Error with `_tag`, `code`, `message` and `remedy`.
  if (!(error instanceof Error && "remedy" in error)) throw error
  console.error(`${error.message} ${error.remedy}`)
  process.exitCode = 1
}
