/**
 * What an ordinary user meets on a file system with clones: run by `runAsUser`, with a directory that anybody may write to as argument.
 * Promise: exits with 0 only when everything was as it must be; prints how states were kept and made.
 */
import assert from "node:assert/strict"
import * as fs from "node:fs"
import { join } from "node:path"
import { reflinkBackend } from "../../providers/reflink/Backend.ts"
import { fromInput } from "../../src/base/PathBytes.ts"
import { lookOf, oddTree, specials } from "./trees.ts"

const place = join(process.argv[2]!, "mine")
const directory = join(place, "store/reflink")
fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
const backend = await reflinkBackend({ directory, durability: "full" })
assert.deepEqual(await backend.probe(), [])
const signal = new AbortController().signal
const keep = (commit: string, tree: string, leaveOut: readonly string[]) =>
  backend.keep({
    snapshot: { project: "prj_1", commit },
    parents: [],
    tree: fromInput(tree),
    isImport: true,
    changes: null,
    leaveOut,
    message: "",
    at: 0,
    onProgress: () => undefined,
    signal
  })
const make = (commit: string, target: string) =>
  backend.make({ snapshot: { project: "prj_1", commit }, target: fromInput(target), workspace: null, signal })
const contents = async (commit: string, path: string): Promise<string> => {
  const pieces: Uint8Array[] = []
  for await (const { bytes } of backend.contents({ project: "prj_1", commit }, [path])) pieces.push(bytes)
  return Buffer.concat(pieces).toString()
}

const source = join(place, "source")
fs.mkdirSync(source)
oddTree(source, "seed")
const whole = lookOf(source).filter((line) => !specials.some((path) => line.startsWith(JSON.stringify(path))))
const methods = [(await keep("cmt_a", source, specials)).method]

const work = join(directory, "work")
methods.push((await make("cmt_a", work)).method)
assert.deepEqual(lookOf(work), whole)

// What nobody but its owner may read, and not even the owner without asking.
fs.mkdirSync(join(work, "shut"))
fs.writeFileSync(join(work, "shut/in"), "shut in")
fs.writeFileSync(join(work, "secret"), "secret")
const open = lookOf(work)
const shut = (at: string): void => {
  for (const name of ["shut", "secret"]) fs.chmodSync(join(at, name), 0)
}
const unshut = (at: string): void => {
  fs.chmodSync(join(at, "shut"), 0o755)
  fs.chmodSync(join(at, "secret"), 0o644)
}
shut(work)
methods.push((await keep("cmt_b", work, [])).method)
assert.equal(await contents("cmt_b", "secret"), "secret")
assert.equal(await contents("cmt_b", "shut/in"), "shut in")
const again = join(directory, "again")
methods.push((await make("cmt_b", again)).method)
for (const at of [work, again]) {
  assert.equal(fs.lstatSync(join(at, "shut")).mode & 0o777, 0)
  assert.equal(fs.lstatSync(join(at, "secret")).mode & 0o777, 0)
  unshut(at)
}
const without = (look: readonly string[]) => look.filter((line) => !/^"(shut|secret)?" /.test(line))
assert.deepEqual(without(lookOf(again)), without(open))
assert.notEqual(await backend.storedBytes(), undefined)

await backend.drop({ project: "prj_1", commit: "cmt_b" })
await backend.drop({ project: "prj_1", commit: "cmt_a" })
assert.deepEqual(await backend.kept(), [])
assert.deepEqual(fs.readdirSync(join(directory, "states")), [])
console.log(methods.join(" "))
