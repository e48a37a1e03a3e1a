/**
 * Large directories in pages, cut by their names: how their pages look, and how a whole one is written.
 * Promise: equal directories have equal pages by any route (L14): where a page ends depends on the names in it and on nothing
 * else, so that an edit of a file moves no end; up to `pagedFrom` entries a directory is one object as it was in format 1.
 * Rules: L3, L14, L15. All numbers are little endian.
 *
 * A prolly tree like the chunk list of a large file (ContentPages.ts), of `tree` objects as its leaves; the `times` objects beside
 * them have the same pages, so that times stay out of what is hashed into a root.
 * index of trees: `T` 2, flags u8 (as in a tree), level u8 (1: leaves are below), then per page: its last name (u16 length +
 *                 bytes), entries below u32, flags u8, id
 * index of times: `M` 2, level u8, then the id of each page
 */
import type { Digest } from "../../src/base/Digest.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import { idFromBytes, idLength, idToBytes, writeId } from "../../src/base/DigestBytes.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import { encodeTimes, encodeTree, isLinked, type StoredEntry, type StoredTime } from "./TreeCodec.ts"

/** A directory with more entries than this is paged. */
export const pagedFrom = 256

/** A page ends after a name whose hash says so (one in 64), never before it has `fewest` entries, always when it has `most`. */
const fewest = 32
const most = 256
const endMask = 0x3f

/** FNV-1a over the bytes of the name, mixed by MurmurHash3's finaliser; the level goes in first. Part of the format. */
const nameHash = (level: number, name: TreePath): number => {
  let sum = Math.imul(0x811c9dc5 ^ level, 0x01000193)
  for (let at = 0; at < name.length; at += 1) sum = Math.imul(sum ^ name.charCodeAt(at), 0x01000193)
  sum = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b)
  sum = Math.imul(sum ^ (sum >>> 13), 0xc2b2ae35)
  return sum ^ (sum >>> 16)
}

/** True when a page of this level that has `count` entries ends with the one of this name. */
export const endsTreePage = (level: number, name: TreePath, count: number): boolean =>
  count >= most || (count >= fewest && (nameHash(level, name) & endMask) === 0)

/** A page of one level as an entry of the next. */
export interface TreePage {
  readonly last: TreePath
  readonly count: number
  readonly linked: boolean
  readonly tree: Digest
  readonly times: Digest
}

export interface TreeIndex {
  readonly level: number
  readonly linked: boolean
  readonly count: number
  readonly pages: readonly Omit<TreePage, "times">[]
}

const check = (condition: boolean): void => {
  if (!condition) throw new Error("This object is no index of a directory of this format")
}

export const isTreeIndex = (bytes: Buffer): boolean => bytes.length > 4 && bytes[0] === 0x54 && bytes[1] === 2

export const encodeTreeIndex = (level: number, pages: readonly Omit<TreePage, "times">[]): Buffer => {
  const parts: Buffer[] = [Buffer.from([0x54, 2, pages.some((page) => page.linked) ? 1 : 0, level])]
  for (const { last, count, linked, tree } of pages) {
    const bytes = Buffer.alloc(2 + last.length + 5 + idLength)
    bytes.writeUInt16LE(last.length, 0)
    bytes.write(last, 2, "latin1")
    bytes.writeUInt32LE(count, 2 + last.length)
    bytes.writeUInt8(linked ? 1 : 0, 6 + last.length)
    writeId(bytes, tree, 7 + last.length)
    parts.push(bytes)
  }
  return Buffer.concat(parts)
}

/** Throws a plain Error for bytes of another shape: with a checked id that can only be a bug or a newer format. */
export const decodeTreeIndex = (bytes: Buffer): TreeIndex => {
  check(isTreeIndex(bytes))
  const pages: Omit<TreePage, "times">[] = []
  let total = 0
  for (let at = 4; at < bytes.length; ) {
    const length = bytes.readUInt16LE(at)
    const after = at + 2 + length
    check(after + 5 + idLength <= bytes.length)
    const last = bytes.toString("latin1", at + 2, after)
    check(pages.length === 0 || pages.at(-1)!.last < last)
    const count = bytes.readUInt32LE(after)
    pages.push({ last, count, linked: bytes[after + 4] === 1, tree: idFromBytes(bytes, after + 5) })
    total += count
    at = after + 5 + idLength
  }
  check(pages.length > 0)
  return { level: bytes[3]!, linked: bytes[2] === 1, count: total, pages }
}

export const isTimesIndex = (bytes: Buffer): boolean => bytes.length > 3 && bytes[0] === 0x4d && bytes[1] === 2

export const encodeTimesIndex = (level: number, ids: readonly Digest[]): Buffer =>
  Buffer.concat([Buffer.from([0x4d, 2, level]), ...ids.map(idToBytes)])

export const decodeTimesIndex = (bytes: Buffer): Digest[] => {
  check(isTimesIndex(bytes) && (bytes.length - 3) % idLength === 0)
  const ids: Digest[] = []
  for (let at = 3; at < bytes.length; at += idLength) ids.push(idFromBytes(bytes, at))
  return ids
}

/** One entry of a directory with its time. */
export interface TreeItem {
  readonly entry: StoredEntry
  readonly time: StoredTime
}

/** The objects that stood at a page's place, as a hint. */
export interface LikeTree {
  readonly tree: Digest
  readonly times: Digest
}

/** Writes one leaf. */
export const writeLeaf = (
  objects: Pick<ObjectStore, "write">,
  items: readonly TreeItem[],
  like: LikeTree | undefined
): TreePage => {
  const entries = items.map((item) => item.entry)
  return {
    last: entries.at(-1)?.name ?? "",
    count: entries.length,
    linked: entries.some(isLinked),
    tree: objects.write("tree", encodeTree(entries), like?.tree),
    times: objects.write("times", encodeTimes(items.map((item) => item.time)), like?.times)
  }
}

/** Writes one page of an index. */
export const writeIndex = (
  objects: Pick<ObjectStore, "write">,
  level: number,
  pages: readonly TreePage[],
  like: LikeTree | undefined
): TreePage => ({
  last: pages.at(-1)!.last,
  count: pages.reduce((sum, page) => sum + page.count, 0),
  linked: pages.some((page) => page.linked),
  tree: objects.write("tree", encodeTreeIndex(level, pages), like?.tree),
  times: objects.write(
    "times",
    encodeTimesIndex(
      level,
      pages.map((page) => page.times)
    ),
    like?.times
  )
})

/** Cuts a level into its pages. */
const cut = <Item>(level: number, items: readonly Item[], nameOf: (item: Item) => TreePath): Item[][] => {
  const pages: Item[][] = []
  let open: Item[] = []
  for (const item of items) {
    open.push(item)
    if (!endsTreePage(level, nameOf(item), open.length)) continue
    pages.push(open)
    open = []
  }
  if (open.length > 0) pages.push(open)
  return pages
}

/** The levels above a complete one. */
export const writeAbove = (
  objects: Pick<ObjectStore, "write">,
  level: number,
  pages: readonly TreePage[]
): TreePage => {
  let below = pages
  for (let at = level + 1; below.length > 1; at += 1) {
    below = cut(at, below, (page) => page.last).map((page) => writeIndex(objects, at, page, undefined))
  }
  return below[0]!
}

/** Writes a whole directory, whose entries come in byte order of their names. `like` is what it was before. */
export const writeDirectory = (
  objects: Pick<ObjectStore, "write">,
  items: readonly TreeItem[],
  like?: LikeTree
): TreePage => {
  if (items.length <= pagedFrom) return writeLeaf(objects, items, like)
  const leaves = cut(0, items, (item) => item.entry.name).map((page) => writeLeaf(objects, page, undefined))
  return writeAbove(objects, 0, leaves)
}
