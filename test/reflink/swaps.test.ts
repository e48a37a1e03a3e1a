/** Which entries of a clone are held against the source: those below a directory that may have been moved. Rules: W13; C17. */
import * as fs from "node:fs"
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { differing, type Directories, directoriesOf, doubtful } from "../../providers/reflink/Swaps.ts"
import { openRoot } from "../../src/base/Descent.ts"
import { endAll } from "./loopImage.ts"

const cleanups: (() => void)[] = []
afterEach(() => endAll(cleanups))

const { signal } = new AbortController()

const tree = (text: string) => {
  const at = fs.mkdtempSync("/var/tmp/coppice-swaps-")
  cleanups.push(() => fs.rmSync(at, { recursive: true }))
  for (const path of ["a/x", "d/e/f", "d/e/g", "d/h", "top"]) {
    fs.mkdirSync(join(at, path, ".."), { recursive: true })
    fs.writeFileSync(join(at, path), text)
  }
  fs.symlinkSync(text, join(at, "d/link"))
  const descriptor = openRoot(at)
  cleanups.push(() => fs.closeSync(descriptor))
  return { at, descriptor }
}

/** A look in which every directory is old enough to tell of a change. */
const settled = async (root: number): Promise<Directories> => {
  for (;;) {
    const found = await directoriesOf(root, signal)
    if (![...found.values()].includes("young")) return found
  }
}

it("W13 C17 nothing is doubted where no directory was moved, also where entries came and went; what lies below one that was, is", async () => {
  const [source, clone] = [tree("inside!"), tree("inside!")]
  const doubts = async (before: Directories) =>
    (await doubtful(clone.descriptor, before, await directoriesOf(source.descriptor, signal), signal)).toSorted()
  let before = await settled(source.descriptor)
  expect([...before.keys()].toSorted()).toEqual(["", "a", "d", "d/e"])
  expect(await doubts(before)).toEqual([])
  fs.writeFileSync(join(source.at, "d/e/new"), "")
  expect(await doubts(before)).toEqual([])
  before = await settled(source.descriptor)
  fs.renameSync(join(source.at, "d"), join(source.at, "away"))
  fs.symlinkSync("a", join(source.at, "d"))
  fs.unlinkSync(join(source.at, "d"))
  fs.renameSync(join(source.at, "away"), join(source.at, "d"))
  expect(await doubts(before)).toEqual(["d/e", "d/e/f", "d/e/g", "d/h", "d/link"])
  before = await settled(source.descriptor)
  fs.renameSync(join(source.at, "d/e"), join(source.at, "d/away"))
  fs.renameSync(join(source.at, "d/away"), join(source.at, "d/e"))
  expect(await doubts(before)).toEqual(["d/e/f", "d/e/g"])
  // One that was there for a moment only is in neither look.
  before = await settled(source.descriptor)
  fs.mkdirSync(join(source.at, "moment"))
  fs.rmdirSync(join(source.at, "moment"))
  fs.mkdirSync(join(clone.at, "moment"))
  fs.writeFileSync(join(clone.at, "moment/x"), "")
  expect(await doubts(before)).toEqual(["moment/x"])
  // A change right before the look could not be told from one after it.
  fs.mkdirSync(join(source.at, "young"))
  expect((await directoriesOf(source.descriptor, signal)).get("young")).toBe("young")
})

it("W13 C17 what differs is found by its bytes, its type and its target, and never looked for behind a link", async () => {
  const [source, clone] = [tree("inside!"), tree("inside!")]
  for (const [path, text] of [
    ["d/e/f", "outside"],
    ["d/h", "inside!?"]
  ] as const) {
    const { atime, mtime } = fs.statSync(join(source.at, path))
    fs.writeFileSync(join(clone.at, path), text)
    fs.utimesSync(join(clone.at, path), atime, mtime)
  }
  fs.mkdirSync(join(clone.at, "d/only-here"))
  fs.rmSync(join(clone.at, "d/link"))
  fs.symlinkSync("outside", join(clone.at, "d/link"))
  const paths = ["a", "a/x", "d", "d/e", "d/e/f", "d/e/g", "d/h", "d/link", "d/only-here", "top"]
  const different = () => differing([source.descriptor, clone.descriptor], paths, signal)
  expect(await different()).toEqual(["d/e/f", "d/h", "d/link", "d/only-here"])
  const outside = tree("inside!")
  fs.rmSync(join(source.at, "a"), { recursive: true })
  fs.symlinkSync(join(outside.at, "a"), join(source.at, "a"))
  expect(await different()).toEqual(["a", "a/x", "d/e/f", "d/h", "d/link", "d/only-here"])
})
