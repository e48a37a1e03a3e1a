/** What a served tree answers and keeps, asked as the kernel asks. */
import { execFileSync } from "node:child_process"
import { hash } from "node:crypto"
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import type { Attributes } from "../../providers/layerfs/lazy/FuseWire.ts"
import { type Contents, LazyTree } from "../../providers/layerfs/lazy/LazyTree.ts"
import { Spill } from "../../providers/layerfs/lazy/Spill.ts"
import { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { StoredTrees } from "../../providers/layerfs/StoredTrees.ts"
import { ReadOnlyDatabase } from "../../src/sqlite/ReadOnlyDatabase.ts"
import { idFromBytes } from "../../src/base/DigestBytes.ts"
import { atEnd, ground, run, write } from "./projFixture.ts"

const root = 1

/** A commit as it is served, and what its contents were asked for. */
const served = (store: string, commit: string) => {
  const db = new ReadOnlyDatabase(join(store, "layerfs/index.db"))
  const spill = new Spill(join(store, "layerfs/work"))
  const reader = new ObjectReader(db, join(store, "layerfs/packs"), (id) => new Error(id), spill)
  atEnd(() => {
    reader.close()
    spill.close()
    db.close()
  })
  const asked: string[] = []
  const contents: Contents = {
    read: (id, into) => {
      const bytes = reader.readPlace(id, reader.place(id)!, into)
      asked.push(bytes.toString())
      return bytes
    }
  }
  const row = db.get("SELECT root, times FROM commits WHERE id = ?", commit)!
  const [top, times] = [row["root"], row["times"]].map((id) => idFromBytes(Buffer.from(id as Uint8Array), 0))
  const tree = new LazyTree(contents, new StoredTrees(reader), { root: top!, times: times! })
  return { tree, reader, asked }
}

const listed = (tree: LazyTree, number: number): ReadonlyMap<string, Attributes> => {
  const found = new Map<string, Attributes>()
  tree.list(number, 0, true, ({ name, attributes }) => {
    if (attributes !== undefined) found.set(name, attributes)
    return true
  })
  return found
}

it("L15 W22 what the kernel has forgotten is kept no longer, and comes back as itself: inode numbers are those of the path or of the link group", async () => {
  const { store, commit } = await ground({
    a: "a",
    "d/b": "b",
    "d/c": "c",
    "d/e/f": "f",
    one: "1",
    "d/two": { hard: "one" }
  })
  const { tree } = served(store, commit)
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

it("W7 L10 whoever reads in the order of the listings gets each file's own bytes, the next one decoded before it is asked for; whoever does not is decoded nothing for", async () => {
  const { store, commit } = await ground({ a: "A", "b/c": "C", "b/d/e": "E", "b/d/f": "F", "b/g": "G", h: "H", i: "I" })
  const { tree, asked } = served(store, commit)
  const numbers = new Map<string, number>()
  const walk = (number: number): void => {
    for (const [name, { node, mode }] of listed(tree, number)) {
      numbers.set(name, node)
      if (mode >> 12 === 4) walk(node)
      tree.getReady()
    }
  }
  walk(root)
  const read = (name: string): string => {
    const bytes = tree.read(numbers.get(name)!, 0, 4096).toString()
    tree.getReady()
    return bytes
  }
  expect(["h", "c", "i", "a"].map(read)).toEqual(["H", "C", "I", "A"])
  expect(asked.splice(0)).toEqual(["H", "C", "I", "A"])
  expect(["c", "e", "f"].map(read)).toEqual(["C", "E", "F"])
  // What comes next is there already; whoever leaves the order gets what was asked for.
  expect(asked.splice(0)).toEqual(["C", "E", "F", "G"])
  expect(["a", "g", "h", "i"].map(read)).toEqual(["A", "G", "H", "I"])
  expect(asked.at(-1)).toBe("I")
})

it("L10 a damaged content that is decoded before it is asked for is refused to whoever asks, and to nobody else", async () => {
  const noise = (seed: number): Buffer =>
    Buffer.concat(Array.from({ length: 2800 }, (_, n) => hash("sha256", `${seed} ${n}`, "buffer")))
  const { store, commit } = await ground({ a: noise(1), b: noise(7), c: noise(99), d: "small" })
  const { tree } = served(store, commit)
  const files = listed(tree, root)
  const [pack] = readdirSync(join(store, "layerfs/packs"))
  const path = join(store, "layerfs/packs", pack!)
  const bytes = readFileSync(path)
  const at = bytes.indexOf(noise(99).subarray(1000, 2000))
  expect(at).toBeGreaterThan(0)
  chmodSync(path, 0o600)
  bytes[at + 500]! ^= 0xff
  writeFileSync(path, bytes)
  const read = (name: string): Buffer => Buffer.from(tree.read(files.get(name)!.node, 0, 131_072))
  for (const name of ["a", "b"]) {
    expect(read(name).equals(noise(name === "a" ? 1 : 7))).toBe(true)
    tree.getReady()
  }
  expect(() => read("c")).toThrow("sha256:")
  tree.getReady()
  expect(read("d").toString()).toBe("small")
})

it("C21 L15 to look at large files, with holes and without, decodes their lists of pieces and no content that lies around them", async () => {
  const text = (seed: number): Buffer => Buffer.from(Array.from({ length: 200_000 }, (_, n) => 97 + ((n * seed) % 23)))
  const small = Object.fromEntries([3, 5, 7, 11].map((seed) => [`small-${seed}`, text(seed)]))
  const { origin, store, provider } = await ground({ first: "1" })
  write(origin, { ...small, large: Buffer.concat([13, 17, 19, 29].map(text)) })
  execFileSync("truncate", ["-s", "3M", join(origin, "large")])
  const { commit } = await run(provider.importDirectory({ source: origin }))
  const { tree, reader } = served(store, commit)
  const large = listed(tree, root).get("large")!
  expect([large.size, large.blocks < 3 * 2048]).toEqual([3 << 20, true])
  expect(reader.decodedBytes).toBeLessThan(100_000)
})
