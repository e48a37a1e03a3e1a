/** Blame: lines through edits, renames and merges, what is refused, and what is not read. Rules: L3, W3; C25. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { blame } from "../../providers/layerfs/history/Blame.ts"
import { matchLines } from "../../providers/layerfs/history/Lines.ts"
import { openIndex } from "../../providers/layerfs/IndexSchema.ts"
import type { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { storeReader } from "../../providers/layerfs/StoreReader.ts"
import { LayerRefs } from "../../providers/layerfs/LayerRefs.ts"
import { StoredTrees } from "../../providers/layerfs/StoredTrees.ts"
import { newId } from "../../src/base/Id.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const text = (...lines: (string | number)[]): string => lines.map((line) => `${line}\n`).join("")

const seeded = async (files: Readonly<Record<string, string | Buffer>>) => {
  const source = scratch()
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(source, path, ".."), { recursive: true })
    writeFileSync(join(source, path), bytes)
  }
  const directory = join(scratch(), "s")
  const fs = await provider(directory)
  const receipt = await run(fs.importDirectory({ source, name: "first" }))
  const branch = (await run(fs.fork(receipt.layer, { name: "work" }))).id
  const apply = async (call: string, ...operations: FileOperation[]): Promise<string> =>
    (
      await run(
        fs.applyTo(branch, operations, { message: `message of ${call}`, actor: { call, agent: "a", goal: "g" } })
      )
    ).commit
  return { fs, directory, branch, apply, base: receipt.commit }
}

/** Each line as `call path:line text`; lines of the import have no call. */
const blamed = async (fs: WorkspaceProvider, ref: string, path: string): Promise<string[]> => {
  const { lines, commits } = await run(fs.blame(ref, path))
  return lines.map(
    (line) => `${commits[line.commit]!.actor.call ?? "-"} ${line.original.path}:${line.original.line} ${line.text}`
  )
}

describe("blame", () => {
  it("L3 W3 names for each line the commit, its call, agent, goal, message and time, and the line that it was there", async () => {
    const { fs, branch, apply, base } = await seeded({ f: text("one", "two", "three") })
    const second = await apply("c1", { op: "edit", path: "f", find: "two", replace: "TWO" })
    await apply("c2", { op: "write", path: "f", bytes: text("zero", "one", "TWO", "three", "four") })
    expect(await blamed(fs, branch, "f")).toEqual([
      "c2 f:1 zero",
      "- f:1 one",
      "c1 f:2 TWO",
      "- f:3 three",
      "c2 f:5 four"
    ])
    const page = await run(fs.blame(branch, "f"))
    expect(page).toMatchObject({ path: { path: "f" }, totalLines: 5, next: null, coarse: [] })
    expect(page.commits[second]).toMatchObject({
      actor: { call: "c1", agent: "a", goal: "g" },
      message: "message of c1",
      parent: base
    })
    expect(page.commits[second]!.at).toBeGreaterThan(1_600_000_000_000)
    // At an older commit the file is what it was.
    expect(await blamed(fs, second, "f")).toEqual(["- f:1 one", "c1 f:2 TWO", "- f:3 three"])
  })

  it("L3 C25 follows a file that moved, moved with its directory, and moved and changed in one commit", async () => {
    const body = ["a", "b", "c", "d", "e", "f", "g", "h"]
    const { fs, branch, apply } = await seeded({ "src/x": text(...body), "src/y": text("y"), other: text("o") })
    await apply("edit", { op: "edit", path: "src/x", find: "a\n", replace: "A\n" })
    await apply("rename", { op: "move", from: "src/x", to: "lib/deep/x2" })
    await apply("directory", { op: "move", from: "lib", to: "moved" })
    await apply(
      "both",
      { op: "remove", path: "moved/deep/x2" },
      { op: "write", path: "z", bytes: text("A", "b", "c", "D", "e", "f", "g", "h") }
    )
    await apply("last", { op: "write", path: "z", bytes: text("A", "b", "c", "D", "e", "f", "g", "h", "i") })
    expect(await blamed(fs, branch, "z")).toEqual([
      "edit src/x:1 A",
      "- src/x:2 b",
      "- src/x:3 c",
      "both z:4 D",
      "- src/x:5 e",
      "- src/x:6 f",
      "- src/x:7 g",
      "- src/x:8 h",
      "last z:9 i"
    ])
  })

  it("L3 a new file that shares less than half of the lines of what has gone is new, and a copy belongs to who copied it", async () => {
    const { fs, branch, apply } = await seeded({ x: text(1, 2, 3, 4), keep: text("k", "l") })
    await apply("new", { op: "remove", path: "x" }, { op: "write", path: "y", bytes: text(1, "b", "c", "d") })
    expect(await blamed(fs, branch, "y")).toEqual(["new y:1 1", "new y:2 b", "new y:3 c", "new y:4 d"])
    await apply("copy", { op: "copy", from: "keep", to: "kept" })
    expect(await blamed(fs, branch, "kept")).toEqual(["copy kept:1 k", "copy kept:2 l"])
    // What was moved away and written again in one commit is found by its content.
    await apply("swap", { op: "copy", from: "keep", to: "away" }, { op: "write", path: "keep", bytes: text("other") })
    expect(await blamed(fs, branch, "away")).toEqual(["- keep:1 k", "- keep:2 l"])
  })

  it("L3 a page of lines goes on at the commit where the first one began, and links are followed", async () => {
    const { fs, branch, apply } = await seeded({ "d/f": text(1, 2, 3, 4, 5) })
    await apply("link", { op: "symlink", path: "l", target: "d/f" })
    await apply("c1", { op: "edit", path: "d/f", find: "4\n", replace: "four\n" })
    const first = await run(fs.blame(branch, "l", { limit: 2 }))
    expect(first).toMatchObject({ path: { path: "d/f" }, totalLines: 5 })
    await apply("later", { op: "write", path: "d/f", bytes: "" })
    const second = await run(fs.blame(branch, "l", { limit: 2, after: first.next! }))
    const third = await run(fs.blame(branch, "l", { limit: 2, after: second.next! }))
    expect(third.next).toBe(null)
    const lines = [first, second, third].flatMap((page) => page.lines.map(({ line, text: t }) => [line, t]))
    expect(lines).toEqual([
      [1, "1"],
      [2, "2"],
      [3, "3"],
      [4, "four"],
      [5, "5"]
    ])
    expect(second.commits[second.lines[1]!.commit]!.actor.call).toBe("c1")
    expect(await run(fs.blame(branch, "d/f"))).toMatchObject({ totalLines: 0, lines: [], next: null })
  })

  it("L3 a binary or too large file, a directory and what is not there are typed refusals; bytes that are no UTF-8 are kept", async () => {
    const { fs, branch, apply } = await seeded({
      binary: Buffer.from("a\0b"),
      large: Buffer.alloc(4 * 1024 * 1024 + 1, "x"),
      latin: Buffer.from([0xe9, 0x0a, 0x61]),
      "d/f": "f"
    })
    expect(await failure(fs.blame(branch, "binary"))).toMatchObject({
      _tag: "NotText",
      reason: "binary",
      path: "binary"
    })
    expect(await failure(fs.blame(branch, "large"))).toMatchObject({ _tag: "NotText", reason: "tooLarge" })
    expect(await failure(fs.blame(branch, "d"))).toMatchObject({ _tag: "PathError", reason: "notAFile" })
    expect(await failure(fs.blame(branch, "none"))).toMatchObject({ _tag: "PathError", reason: "notFound" })
    expect(await failure(fs.blame(branch, "d/f", { after: "x" }))).toMatchObject({
      _tag: "QueryInvalid",
      field: "after"
    })
    const { lines } = await run(fs.blame(branch, "latin"))
    expect(lines.map(({ text: t, textBytes }) => [t, textBytes])).toEqual([
      ["\ufffd", Buffer.from([0xe9]).toString("base64")],
      ["a", undefined]
    ])
    // Text that was binary before has no older lines.
    await apply("text", { op: "write", path: "binary", bytes: "a\n" })
    expect(await blamed(fs, branch, "binary")).toEqual(["text binary:1 a"])
  })

  it("L3 where more changed than is matched line by line, the lines name that commit and the page says so", () => {
    const lines = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`)
    const same = matchLines(["h", ...lines("a", 2000), "t"], ["h", ...lines("b", 2000), "t"])
    expect(same.coarse).toBe(false)
    const much = matchLines(["h", ...lines("a", 3000), "t"], ["h", ...lines("b", 3000), "t"])
    expect(much.coarse).toBe(true)
    expect([much.before[0], much.before[1], much.before.at(-1)]).toEqual([0, -1, 3001])
    // Nothing is given up for a large insertion alone.
    const inserted = matchLines(["h", "t"], ["h", ...lines("b", 20_000), "t"])
    expect([inserted.coarse, inserted.before[0], inserted.before.at(-1)]).toEqual([false, 0, 1])
  })
})

/** The parts of a store that a scene has filled, to put a merge into it and to count what is read. */
const inside = async (directory: string) => {
  const db = await openIndex(join(directory, "layerfs/index.db"), "disposable", () => "sto_none")
  const refs = new LayerRefs(db, { storeBytes: null, projectBytes: null } as never)
  const reader = storeReader(db, join(directory, "layerfs/packs"))
  atEnd(() => {
    reader.close()
    db.close()
  })
  const read: string[] = []
  const counted = { read: (id: Parameters<ObjectReader["read"]>[0]) => (read.push(id), reader.read(id)) }
  const history = { refs, trees: new StoredTrees(reader), reader: counted, cancelled: () => false }
  return { refs, history, read }
}

it("L3 both parents of a merge are followed: each line names the side that wrote it, and the merge what neither has", async () => {
  const { fs, directory, branch, apply, base } = await seeded({ f: text("top", "middle", "bottom") })
  const ours = await apply("ours", { op: "write", path: "f", bytes: text("TOP", "middle", "bottom") })
  const side = (await run(fs.fork(base, { name: "side" }))).id
  const theirs = (
    await run(
      fs.applyTo(side, [{ op: "write", path: "f", bytes: text("top", "middle", "BOTTOM") }], {
        actor: { call: "theirs" }
      })
    )
  ).commit
  const merged = (
    await run(fs.applyTo(branch, [{ op: "write", path: "f", bytes: text("TOP", "middle", "BOTTOM", "merged") }]))
  ).commit
  const { refs, history } = await inside(directory)
  const row = refs.commit(merged)!
  await refs.addCommit({
    objects: [],
    packLengths: new Map(),
    commit: { ...row, id: "cmt_merge", parent: ours, secondParent: theirs, operationId: newId("operation") },
    result: null
  })
  const { lines } = await blame(history, { ref: "cmt_merge", path: "f" }, () => "f")
  expect(lines.map((line) => [line.text, line.commit, line.originalLine])).toEqual([
    ["TOP", ours, 1],
    ["middle", base, 2],
    ["BOTTOM", theirs, 3],
    ["merged", "cmt_merge", 4]
  ])
})

it("L3 a history of many commits in which the file did not change reads it twice in all", async () => {
  const { fs, directory, branch, apply } = await seeded({ f: text(1, 2, 3), other: "o" })
  const changed = await apply("change", { op: "write", path: "f", bytes: text(1, "two", 3) })
  for (let i = 0; i < 40; i += 1) await apply(`c${i}`, { op: "write", path: "other", bytes: `o${i}` })
  const { history, read } = await inside(directory)
  const { lines } = await blame(history, { ref: branch, path: "f" }, () => "f")
  expect(lines.map(({ commit }) => commit === changed)).toEqual([false, true, false])
  // The newest version for the answer and once more against its parent, and the parent's.
  expect(read.length).toBeLessThanOrEqual(3)
  void fs
})
