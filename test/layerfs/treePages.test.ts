/** Large directories in pages: one root by any route, cost of an edit, lookups, comparison. Rules: L3, L10, L14, L15, W8, W22. */
import * as fc from "fast-check"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { StoredTrees, visitPages } from "../../providers/layerfs/StoredTrees.ts"
import { encodeRoot } from "../../providers/layerfs/TreeCodec.ts"
import { walkDiff } from "../../providers/layerfs/TreeDiff.ts"
import { TreeEditor } from "../../providers/layerfs/TreeEditor.ts"
import { endsTreePage, pagedFrom, writeDirectory } from "../../providers/layerfs/TreePages.ts"
import { type Digest, sha256 } from "../../src/base/Digest.ts"
import { whole } from "../../src/workspace/kit/Steps.ts"
import { MemoryObjects } from "./contentMemory.ts"
import { put } from "./storeChange.ts"
import { apply, commitInto, importInto, open, scratch } from "./storeFixture.ts"

interface Commit {
  readonly root: Digest
  readonly times: Digest
}
/** Content and mtime by name. */
type Model = ReadonlyMap<string, { readonly id: Digest; readonly mtimeNs: bigint }>

const emptyRoot = (objects: MemoryObjects): Commit => {
  const { tree, times } = writeDirectory(objects, [])
  return { root: tree, times: objects.write("times", encodeRoot({ mode: 0o755, mtimeNs: 0n, times })) }
}

const edit = (
  objects: MemoryObjects,
  base: Commit,
  changes: ReadonlyMap<string, Model extends ReadonlyMap<string, infer V> ? V | null : never>
): Commit => {
  const editor = new TreeEditor(new StoredTrees(objects), base)
  for (const [name, value] of changes) {
    if (value === null) editor.remove(name)
    else editor.putFile(name, { mode: 0o644, size: 1, inode: undefined, ...value })
  }
  return whole(editor.write(objects))
}

const entryOf = (content: number, mtime: number) => ({ id: sha256(`content ${content}`), mtimeNs: BigInt(mtime) })

const nameOf = (n: number): string => `entry-${(n * 2_654_435_761) % 4_294_967_296}`

describe("paged directories", () => {
  it("L14 W8 any edits give the pages that writing the directory at once gives, and lookups, lists and comparisons agree", () => {
    const change = fc.record({
      /** How many names, from which on. */
      begin: fc.nat(1500),
      many: fc.oneof(fc.nat(3), fc.nat(40), fc.nat(900)),
      kind: fc.constantFrom("put" as const, "put" as const, "remove" as const, "touch" as const),
      content: fc.nat(3)
    })
    fc.assert(
      fc.property(fc.nat(1500), fc.array(change, { minLength: 1, maxLength: 6 }), (size, steps) => {
        const objects = new MemoryObjects()
        let model = new Map(Array.from({ length: size }, (_, n) => [nameOf(n), entryOf(n, n)]))
        let commit = edit(objects, emptyRoot(objects), model)
        for (const { begin, many, kind, content } of steps) {
          const changes = new Map<string, ReturnType<typeof entryOf> | null>()
          const next = new Map(model)
          for (let n = begin; n < begin + many; n += 1) {
            const name = nameOf(n)
            const before = model.get(name)
            if (kind === "put") changes.set(name, entryOf(content, n))
            else if (before !== undefined) changes.set(name, kind === "remove" ? null : { ...before, mtimeNs: 77n })
          }
          for (const [name, value] of changes) {
            if (value === null) next.delete(name)
            else next.set(name, value)
          }
          const after = edit(objects, commit, changes)
          const fresh = new MemoryObjects()
          expect(after).toEqual(edit(fresh, emptyRoot(fresh), next))
          const trees = new StoredTrees(objects)
          const told = [...walkDiff(trees, commit.root, after.root)].map(({ path }) => path)
          const names = new Set([...model.keys(), ...next.keys()])
          const differ = [...names].filter((name) => model.get(name)?.id !== next.get(name)?.id).sort()
          expect(told).toEqual(differ)
          const reader = trees.reader(after)
          expect(reader.list("")!.map((entry) => [entry.name, entry.id, entry.mtimeNs])).toEqual(
            [...next].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, { id, mtimeNs }]) => [name, id, mtimeNs])
          )
          for (const name of [nameOf(begin), nameOf(begin + 1), "a", "zz"]) {
            const found = new StoredTrees(objects).reader(after).entry(name)
            expect([found?.id, found?.mtimeNs]).toEqual([next.get(name)?.id, next.get(name)?.mtimeNs])
          }
          model = next
          commit = after
        }
      }),
      { numRuns: 60, verbose: 1, endOnFailure: true }
    )
  }, 120_000)

  it("L14 one edit of a directory of 20,000 entries reads and writes a few pages, and names nobody can foresee do not degrade it", () => {
    for (const name of [nameOf, (n: number) => String(n).padStart(6, "0"), (n: number) => adversary(n)]) {
      const objects = new MemoryObjects()
      const all = new Map(Array.from({ length: 20_000 }, (_, n) => [name(n), entryOf(n, n)]))
      const commit = edit(objects, emptyRoot(objects), all)
      for (const n of [0, 7, 10_000, 19_999]) {
        objects.forget()
        const after = edit(objects, commit, new Map([[name(n), entryOf(-1, 1)]]))
        expect(objects.written.length).toBeLessThan(12)
        expect(objects.reads.length).toBeLessThan(16)
        expect(objects.bytesWritten()).toBeLessThan(100_000)
        for (const id of objects.written) expect(objects.objects.get(id)!.like).toBeDefined()
        objects.forget()
        const trees = new StoredTrees(objects)
        expect([...walkDiff(trees, commit.root, after.root)].map(({ path }) => path)).toEqual([name(n)])
        expect(objects.reads.length).toBeLessThan(12)
        objects.forget()
        expect(new StoredTrees(objects).reader(after).entry(name(n))!.mtimeNs).toBe(1n)
        expect(objects.reads.length).toBeLessThan(9)
      }
    }
  }, 60_000)

  it("L14 a directory of two index levels that shrinks to one, to one object, to nothing, and grows again has the pages of a fresh one", () => {
    const name = (n: number): string => String(n).padStart(6, "0")
    const objects = new MemoryObjects()
    let model = new Map(Array.from({ length: 12_000 }, (_, n) => [name(n), entryOf(n, n)]))
    let commit = edit(objects, emptyRoot(objects), model)
    expect(new StoredTrees(objects).indexOf(commit.root)!.level).toBe(2)
    for (const [from, to] of [
      [3000, 12_000],
      [1000, 2900],
      [200, 3000],
      [0, 200],
      [2000, 9000],
      [0, 12_000]
    ] as const) {
      const removes = model.has(name(from))
      const changes = new Map(
        Array.from({ length: to - from }, (_, n) => [name(from + n), removes ? null : entryOf(n, n)])
      )
      const next = new Map(model)
      for (const [at, value] of changes) {
        if (value === null) next.delete(at)
        else next.set(at, value)
      }
      const editable = new Map([...changes].filter(([at, value]) => value !== null || model.has(at)))
      commit = edit(objects, commit, editable)
      const fresh = new MemoryObjects()
      expect(commit).toEqual(edit(fresh, emptyRoot(fresh), next))
      model = next
    }
  }, 60_000)

  it("L14 up to 256 entries a directory is one object, as in format 1", () => {
    for (const [size, paged] of [
      [pagedFrom, false],
      [pagedFrom + 1, true]
    ] as const) {
      const objects = new MemoryObjects()
      const { root } = edit(
        objects,
        emptyRoot(objects),
        new Map(Array.from({ length: size }, (_, n) => [nameOf(n), entryOf(n, n)]))
      )
      expect(new StoredTrees(objects).indexOf(root) !== undefined).toBe(paged)
      const pages: string[] = []
      visitPages(objects, root, (id) => pages.push(id) > 0)
      expect(pages.length > 0).toBe(paged)
    }
  })

  it("L14 L15 W22 imported, written at once, or piece by piece, a large directory with links has one root; copies and moves too", async () => {
    const source = scratch()
    fs.mkdirSync(join(source, "d"))
    const changes = Array.from({ length: 700 }, (_, n) => put(`d/${nameOf(n)}`, `${n}`))
    for (let n = 0; n < 700; n += 1) fs.writeFileSync(join(source, "d", nameOf(n)), `${n}`)
    fs.linkSync(join(source, "d", nameOf(5)), join(source, "d", "another"))
    const store = await open(join(scratch(), "s"))
    const imported = await importInto(store, source)
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = (await store.call("fork", { from: layer, name: "m" })).id
    await commitInto(store, branch, [{ op: "putDirectory", path: "d", mode: 0o755, mtimeNs: 1n, replace: true }])
    for (let at = 0; at < changes.length; at += 200) await commitInto(store, branch, changes.slice(at, at + 200))
    await commitInto(store, branch, [
      { ...put(`d/${nameOf(5)}`, "5"), inode: "k" } as never,
      { ...put("d/another", "5"), inode: "k" } as never
    ])
    expect((await store.call("resolve", { ref: branch })).root).toBe(imported.root)
    await apply(store, branch, [
      { op: "copy", from: "d", to: "e" },
      { op: "write", path: `d/${nameOf(5)}`, bytes: "changed" },
      { op: "remove", path: "d/another" },
      { op: "move", from: "d", to: "f" }
    ])
    const all = await store.call("listAt", { ref: branch, path: "f" })
    expect(all.length).toBe(700)
    expect(all.every(({ entry }) => entry.linkGroup === null)).toBe(true)
    expect((await store.call("listAt", { ref: branch, path: "e" })).length).toBe(701)
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
    const target = join(scratch(), "out")
    await store.call("materialise", { commit: branch, target })
    expect(fs.readdirSync(join(target, "f")).length).toBe(700)
    expect(fs.readFileSync(join(target, "f", nameOf(5)), "utf8")).toBe("changed")
  })

  it("L10 a flipped bit in any part of a paged directory is named with a path, and nothing is handed out that is wrong", async () => {
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = (await store.call("fork", { from: layer, name: "m" })).id
    await commitInto(store, branch, [
      { op: "putDirectory", path: "d", mode: 0o755, mtimeNs: 1n, replace: true },
      ...Array.from({ length: 400 }, (_, n) => put(`d/${nameOf(n)}`, ""))
    ])
    // A commit of its own for one edit: its frames are the pages on the way.
    await commitInto(store, branch, [put(`d/${nameOf(9)}`, "x")])
    await store.close()
    const pack = join(directory, "layerfs/packs/000001.pack")
    const whole = fs.readFileSync(pack)
    for (const back of [3, 40, 150, 400]) {
      const raw = Buffer.from(whole)
      raw[raw.length - back]! ^= 1
      fs.writeFileSync(pack, raw)
      const again = await open(directory)
      const report = await again.call("verify", {})
      expect(report.ok, `${back}`).toBe(false)
      expect(report.damaged.flatMap((one) => one.paths).length, `${back}`).toBeGreaterThan(0)
      await again.close()
    }
    fs.writeFileSync(pack, whole)
    expect(await (await open(directory)).call("verify", {})).toMatchObject({ ok: true })
  })
})

/** Names none of which ends a page by its hash. */
const adversary = (() => {
  const names: string[] = []
  let tried = 0
  return (n: number): string => {
    while (names.length <= n) {
      const name = `x${String(tried).padStart(7, "0")}`
      tried += 1
      if (![0, 1, 2].some((level) => endsTreePage(level, name, 100))) names.push(name)
    }
    return names[n]!
  }
})()
