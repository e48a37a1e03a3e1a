/** Diff in pages: the same as whole, anchored, with what moved. Rules: W3, L3. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { DiffPages } from "../../providers/layerfs/history/DiffPages.ts"
import { openIndex } from "../../providers/layerfs/IndexSchema.ts"
import type { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { storeReader } from "../../providers/layerfs/StoreReader.ts"
import { LayerRefs } from "../../providers/layerfs/LayerRefs.ts"
import { StoredTrees } from "../../providers/layerfs/StoredTrees.ts"
import type { Change, DiffOptions, FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const seeded = async (files: Readonly<Record<string, string>>) => {
  const source = scratch()
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(source, path, ".."), { recursive: true })
    writeFileSync(join(source, path), bytes)
  }
  const fs = await provider(join(scratch(), "s"))
  const { commit, layer } = await run(fs.importDirectory({ source }))
  const branch = (await run(fs.fork(layer))).id
  const apply = async (...operations: FileOperation[]) => (await run(fs.applyTo(branch, operations))).commit
  return { fs, commit, branch, apply }
}

const everything = async (fs: WorkspaceProvider, from: string, to: string, options: DiffOptions = {}) => {
  const changes: Change[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const page = await run(fs.diff(from, to, { ...options, ...(after === undefined ? {} : { after }) }))
    expect(page.changes.length).toBeLessThanOrEqual(options.limit ?? 1000)
    changes.push(...page.changes)
    after = page.next
  }
  return changes
}

const told = (changes: readonly Change[]): string[] =>
  changes.map(
    ({ path, kind, from, to }) => `${kind} ${path}${from ? ` from ${from.path}` : ""}${to ? ` to ${to.path}` : ""}`
  )

describe("diff", () => {
  it("W3 L3 lists every change once in byte order, also beside names that sort around the slash, whatever the size of a page", async () => {
    const { fs, commit, branch, apply } = await seeded({
      "a/x": "1",
      "a-b": "2",
      "a.c/y": "3",
      a0: "4",
      "gone/deep/f": "5",
      kind: "6"
    })
    await apply(
      { op: "write", path: "a/x", bytes: "11" },
      { op: "write", path: "a/z", bytes: "12" },
      { op: "write", path: "a-b", bytes: "13" },
      { op: "write", path: "a.c/y", bytes: "14" },
      { op: "chmod", path: "a0", mode: 0o600 },
      { op: "remove", path: "gone" },
      { op: "remove", path: "kind" },
      { op: "write", path: "kind/now/f", bytes: "15" }
    )
    const whole = [
      "modified a-b",
      "modified a.c/y",
      "modified a/x",
      "added a/z",
      "modeChanged a0",
      "removed gone",
      "removed gone/deep",
      "removed gone/deep/f",
      "typeChanged kind",
      "added kind/now",
      "added kind/now/f"
    ]
    for (const limit of [1, 2, 3, 5, 11, 1000]) {
      expect(told(await everything(fs, commit, branch, { limit })), `limit ${limit}`).toEqual(whole)
    }
    expect(await everything(fs, branch, branch)).toEqual([])
    for (const [path, count] of [
      ["a", 2],
      ["gone/deep", 2],
      ["kind", 3],
      ["a0", 1],
      ["none", 0],
      ["a/", 2]
    ] as const) {
      expect((await everything(fs, commit, branch, { path, limit: 1 })).length, path).toBe(count)
    }
    expect(told(await everything(fs, branch, commit)).length).toBe(whole.length)
  })

  it("L3 pages stay those of the two commits that the first one saw, while the branch moves", async () => {
    const { fs, commit, branch, apply } = await seeded({ a: "1", b: "2", c: "3" })
    await apply(...["a", "b", "c"].map((path): FileOperation => ({ op: "write", path, bytes: `${path}!` })))
    const first = await run(fs.diff(commit, branch, { limit: 1 }))
    await apply({ op: "remove", path: "b" }, { op: "write", path: "d", bytes: "4" })
    const rest = await run(fs.diff(commit, branch, { after: first.next! }))
    expect([...told(first.changes), ...told(rest.changes)]).toEqual(["modified a", "modified b", "modified c"])
    expect(await failure(fs.diff(commit, branch, { after: first.next!, path: "a" }))).toMatchObject({ field: "after" })
    expect(await failure(fs.diff(branch, commit, { after: first.next! }))).toMatchObject({ _tag: "QueryInvalid" })
    expect(await failure(fs.diff("cmt_none", commit))).toMatchObject({ _tag: "RefNotFound", ref: "cmt_none" })
  })

  it("L3 what went elsewhere unchanged says so: files, links, whole directories, across pages and filters; empty files do not", async () => {
    const { fs, commit, branch, apply } = await seeded({
      "old/one/LICENSE": "same text",
      "old/two/LICENSE": "same text",
      "old/two/code": "code",
      "x/name": "twin",
      "y/other": "twin",
      empty: ""
    })
    await apply({ op: "symlink", path: "link", target: "x/name" })
    const before = (await run(fs.branch(branch))).head
    await apply(
      { op: "move", from: "old/one", to: "new/1" },
      { op: "move", from: "old/two", to: "new/2" },
      { op: "move", from: "x/name", to: "z/name" },
      { op: "move", from: "empty", to: "void" },
      { op: "move", from: "link", to: "link2" },
      { op: "write", path: "fresh", bytes: "fresh" }
    )
    const found = told(await everything(fs, before, branch, { limit: 2 }))
    expect(found).toEqual([
      "removed empty",
      "added fresh",
      "removed link to link2",
      "added link2 from link",
      "added new",
      "added new/1 from old/one",
      "added new/1/LICENSE from old/one/LICENSE",
      "added new/2 from old/two",
      "added new/2/LICENSE from old/two/LICENSE",
      "added new/2/code from old/two/code",
      "removed old/one to new/1",
      "removed old/one/LICENSE to new/1/LICENSE",
      "removed old/two to new/2",
      "removed old/two/LICENSE to new/2/LICENSE",
      "removed old/two/code to new/2/code",
      "added void",
      "removed x/name to z/name",
      "added z",
      "added z/name from x/name"
    ])
    expect(told(await everything(fs, before, branch, { path: "new/2/code" }))).toEqual([
      "added new/2/code from old/two/code"
    ])
    void commit
  })

  it("L3 random changes: pages of any size tell what a plain comparison of both trees finds", async () => {
    const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
    console.log(`historyDiff seed ${seed}`)
    const next = seededRandom(seed)
    const names = ["a", "a-", "a.b", "a0", "b", "~"]
    const path = () => Array.from({ length: 1 + next(3) }, () => names[next(names.length)]).join("/")
    const files = new Map<string, string>()
    const isFree = (wanted: string) =>
      [...files.keys()].every((one) => one !== wanted && !one.startsWith(`${wanted}/`) && !wanted.startsWith(`${one}/`))
    for (let i = 0; i < 60; i += 1) {
      const wanted = path()
      if (isFree(wanted)) files.set(wanted, `f${i}`)
    }
    const { fs, commit, branch, apply } = await seeded(Object.fromEntries(files))
    const before = new Map(files)
    const operations: FileOperation[] = []
    for (const one of before.keys()) {
      const what = next(3)
      if (what === 0) {
        files.delete(one)
        operations.push({ op: "remove", path: one })
      } else if (what === 1) {
        files.set(one, "changed")
        operations.push({ op: "write", path: one, bytes: "changed" })
      }
    }
    await apply(...operations)
    const expected = [...new Set([...before.keys(), ...files.keys()])]
      .filter((one) => before.get(one) !== files.get(one))
      .sort()
      .map((one) => `${files.has(one) ? "modified" : "removed"} ${one}`)
    for (const limit of [1, 3, 7, 1000]) {
      const changes = await everything(fs, commit, branch, { limit })
      expect(changes.map((change) => change.path)).toEqual(changes.map((change) => change.path).sort())
      const ofFiles = changes.filter((change) => (change.before ?? change.after)?.type === "file")
      expect(told(ofFiles), `seed ${seed}, limit ${limit}`).toEqual(expected)
    }
  })

  it("L3 neighbours in a tree of many directories: what is read is what lies on the way to the change", async () => {
    const source = scratch()
    for (let i = 0; i < 300; i += 1) {
      mkdirSync(join(source, `d${i}`))
      writeFileSync(join(source, `d${i}`, "f"), `${i}`)
    }
    const directory = join(scratch(), "s")
    const fs = await provider(directory)
    const { commit, layer } = await run(fs.importDirectory({ source }))
    const branch = (await run(fs.fork(layer))).id
    await run(fs.applyTo(branch, [{ op: "write", path: "d7/f", bytes: "changed" }]))
    const db = await openIndex(join(directory, "layerfs/index.db"), "disposable", () => "sto_none")
    const reader = storeReader(db, join(directory, "layerfs/packs"))
    atEnd(() => {
      reader.close()
      db.close()
    })
    let read = 0
    const counted = { read: (id: Parameters<ObjectReader["read"]>[0]) => ((read += 1), reader.read(id)) }
    const refs = new LayerRefs(db, { storeBytes: null, projectBytes: null } as never)
    const history = { refs, trees: new StoredTrees(counted), reader: counted, cancelled: () => false }
    const page = await new DiffPages().page(history, { from: commit, to: branch, path: null })
    expect(told(page.changes)).toEqual(["modified d7/f"])
    // Both roots (paged or not) and both versions of the directory, however many others there are.
    expect(read).toBeLessThanOrEqual(12)
  })
})
