/** What a served tree answers and keeps, asked as the kernel asks. */
import { join } from "node:path"
import { expect, it } from "vitest"
import { LazyTree } from "../../providers/layerfs/lazy/LazyTree.ts"
import { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { StoredTrees } from "../../providers/layerfs/StoredTrees.ts"
import { ReadOnlyDatabase } from "../../src/sqlite/ReadOnlyDatabase.ts"
import { idFromBytes } from "../../src/base/DigestBytes.ts"
import { atEnd, ground } from "./projFixture.ts"

const root = 1

it("L15 W22 what the kernel has forgotten is kept no longer, and comes back as itself: inode numbers are those of the path or of the link group", async () => {
  const { store, commit } = await ground({
    a: "a",
    "d/b": "b",
    "d/c": "c",
    "d/e/f": "f",
    one: "1",
    "d/two": { hard: "one" }
  })
  const db = new ReadOnlyDatabase(join(store, "layerfs/index.db"))
  const reader = new ObjectReader(db, join(store, "layerfs/packs"), (id) => new Error(id))
  atEnd(() => {
    reader.close()
    db.close()
  })
  const row = db.get("SELECT root, times FROM commits WHERE id = ?", commit)!
  const [top, times] = [row["root"], row["times"]].map((id) => idFromBytes(Buffer.from(id as Uint8Array), 0))
  const tree = new LazyTree(reader, new StoredTrees(reader), { root: top!, times: times! })
  const walk = (number: number, seen: Map<string, number>, told: number[], path = ""): void => {
    const below: [number, string][] = []
    tree.list(number, 0, true, ({ name, attributes, inode }) => {
      if (attributes === undefined) return true
      expect(attributes.inode).toBe(inode)
      seen.set(path + name, inode)
      told.push(attributes.node)
      if (attributes.mode >> 12 === 4) below.push([attributes.node, `${path}${name}/`])
      return true
    })
    for (const [node, at] of below) walk(node, seen, told, at)
  }
  const first = new Map<string, number>()
  const told: number[] = []
  walk(root, first, told)
  expect([...first.keys()].toSorted()).toEqual(["a", "d", "d/b", "d/c", "d/e", "d/e/f", "d/two", "one"])
  expect(first.get("one")).toBe(first.get("d/two"))
  expect(new Set(first.values()).size).toBe(7)
  const a = tree.lookup(root, "a")!
  const group = tree.lookup(root, "one")!
  expect([group.links, a.links, tree.lookup(root, "none")]).toEqual([2, 1, undefined])
  // One look more at each of the two is not forgotten with the listing.
  for (const node of told.toReversed()) tree.forget(node, 1)
  expect([tree.attributes(a.node).inode, tree.attributes(group.node).inode]).toEqual([first.get("a"), first.get("one")])
  tree.forget(a.node, 1)
  tree.forget(group.node, 1)
  expect(tree.known).toBe(1)
  for (const node of told) expect(() => tree.attributes(node)).toThrow("refused")
  const again = new Map<string, number>()
  walk(root, again, [])
  expect(again).toEqual(first)
})
