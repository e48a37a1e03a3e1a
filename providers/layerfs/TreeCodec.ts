/**
 * Trees as bytes: one `tree` object per directory, one `times` object beside it, one root record per commit.
 * Promise: equal directories have equal bytes, whatever route built them (L14); decoding is strict, so that bytes which no
 * encoder of ours wrote are refused. Rules: L14, L15, W22. All numbers are little endian.
 *
 * tree:  `T` 1, flags u8 (1: a hard-linked file lies in or below), count u32, then per entry in byte order of the names:
 *        type u8, mode u16, name (u16 length + bytes), and
 *        file: size u64, id, first path of its link group (u16 length + bytes, empty: none) · directory: flags u8, id ·
 *        link: target (u16 length + bytes)
 * times: `M` 1, count u32, then per entry: mtime i64 in ns; for a directory the id of its `times` object follows.
 * root:  `R` 1, mode u16 and mtime i64 of the root directory itself, id of its `times` object. (Not part of the root digest.)
 */
import type { Digest } from "../../src/base/Digest.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import { idFromBytes, idLength, writeId } from "../../src/base/DigestBytes.ts"

export type StoredEntry =
  | {
      readonly name: TreePath
      readonly type: "file"
      readonly mode: number
      readonly size: number
      readonly id: Digest
      readonly linkGroup: TreePath | null
    }
  | {
      readonly name: TreePath
      readonly type: "directory"
      readonly mode: number
      readonly id: Digest
      readonly linked: boolean
    }
  | { readonly name: TreePath; readonly type: "symlink"; readonly target: TreePath }

export interface StoredTree {
  /** A hard-linked file lies in this directory or below. */
  readonly linked: boolean
  readonly entries: readonly StoredEntry[]
}

export interface StoredTime {
  readonly mtimeNs: bigint
  /** The `times` object of a directory; null for anything else. */
  readonly times: Digest | null
}

export interface RootRecord {
  readonly mode: number
  readonly mtimeNs: bigint
  readonly times: Digest
}

const FILE = 1
const DIRECTORY = 2
const SYMLINK = 3
const LINKED = 1

const entrySize = (entry: StoredEntry): number => {
  const base = 5 + entry.name.length
  if (entry.type === "file") return base + 8 + idLength + 2 + (entry.linkGroup?.length ?? 0)
  if (entry.type === "directory") return base + 1 + idLength
  return base + 2 + entry.target.length
}

const writeText = (bytes: Buffer, text: string, at: number): number => {
  bytes.writeUInt16LE(text.length, at)
  bytes.write(text, at + 2, "latin1")
  return at + 2 + text.length
}

export const isLinked = (entry: StoredEntry): boolean =>
  entry.type === "file" ? entry.linkGroup !== null : entry.type === "directory" && entry.linked

/** `entries` must be in byte order of their names. */
export const encodeTree = (entries: readonly StoredEntry[]): Buffer => {
  let size = 7
  for (const entry of entries) size += entrySize(entry)
  const bytes = Buffer.allocUnsafe(size)
  bytes.write("T\x01", 0, "latin1")
  bytes.writeUInt8(entries.some(isLinked) ? LINKED : 0, 2)
  bytes.writeUInt32LE(entries.length, 3)
  let at = 7
  for (const entry of entries) {
    bytes.writeUInt8(entry.type === "file" ? FILE : entry.type === "directory" ? DIRECTORY : SYMLINK, at)
    bytes.writeUInt16LE(entry.type === "symlink" ? 0 : entry.mode, at + 1)
    at = writeText(bytes, entry.name, at + 3)
    if (entry.type === "file") {
      bytes.writeUInt32LE(entry.size % 0x100000000, at)
      bytes.writeUInt32LE(Math.floor(entry.size / 0x100000000), at + 4)
      writeId(bytes, entry.id, at + 8)
      at = writeText(bytes, entry.linkGroup ?? "", at + 8 + idLength)
    } else if (entry.type === "directory") {
      bytes.writeUInt8(entry.linked ? LINKED : 0, at)
      writeId(bytes, entry.id, at + 1)
      at += 1 + idLength
    } else {
      at = writeText(bytes, entry.target, at)
    }
  }
  return bytes
}

class Malformed extends Error {}

const check = (condition: boolean): void => {
  if (!condition) throw new Malformed("This object is not a tree of this format")
}

/** Throws a plain Error for bytes of another shape: with a checked id that can only be a bug or a newer format. */
export const decodeTree = (bytes: Buffer): StoredTree => {
  check(bytes.length >= 7 && bytes[0] === 0x54 && bytes[1] === 1)
  const count = bytes.readUInt32LE(3)
  const entries: StoredEntry[] = []
  let at = 7
  const text = (): TreePath => {
    const length = bytes.readUInt16LE(at)
    check(at + 2 + length <= bytes.length)
    const value = bytes.toString("latin1", at + 2, at + 2 + length)
    at += 2 + length
    return value
  }
  for (let i = 0; i < count; i += 1) {
    const type = bytes.readUInt8(at)
    const mode = bytes.readUInt16LE(at + 1)
    at += 3
    const name = text()
    check(name !== "" && name !== "." && name !== ".." && !name.includes("/") && !name.includes("\0"))
    check(i === 0 || entries[i - 1]!.name < name)
    if (type === FILE) {
      const size = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x100000000
      const id = idFromBytes(bytes, at + 8)
      at += 8 + idLength
      const group = text()
      entries.push({ name, type: "file", mode, size, id, linkGroup: group === "" ? null : group })
    } else if (type === DIRECTORY) {
      entries.push({ name, type: "directory", mode, id: idFromBytes(bytes, at + 1), linked: bytes[at] === LINKED })
      at += 1 + idLength
    } else {
      check(type === SYMLINK)
      entries.push({ name, type: "symlink", target: text() })
    }
  }
  check(at === bytes.length)
  return { linked: bytes[2] === LINKED, entries }
}

/** What 64 bits of nanoseconds hold ends in the year 2262 (ext4 counts to 2446, xfs and btrfs further): a later time is kept as that. */
const latestNs = 2n ** 63n - 1n
const earliestNs = -(2n ** 63n)
export const heldNs = (ns: bigint): bigint => (ns > latestNs ? latestNs : ns < earliestNs ? earliestNs : ns)

export const encodeTimes = (times: readonly StoredTime[]): Buffer => {
  let size = 6
  for (const time of times) size += time.times === null ? 8 : 8 + idLength
  const bytes = Buffer.allocUnsafe(size)
  bytes.write("M\x01", 0, "latin1")
  bytes.writeUInt32LE(times.length, 2)
  let at = 6
  for (const time of times) {
    bytes.writeBigInt64LE(heldNs(time.mtimeNs), at)
    at += 8
    if (time.times !== null) {
      writeId(bytes, time.times, at)
      at += idLength
    }
  }
  return bytes
}

/** How many times an object of times holds. */
export const timesCount = (bytes: Buffer): number => {
  check(bytes.length >= 6)
  return bytes.readUInt32LE(2)
}

/** `tree` tells which entries are directories. */
export const decodeTimes = (bytes: Buffer, tree: StoredTree): StoredTime[] => {
  check(bytes.length >= 6 && bytes[0] === 0x4d && bytes[1] === 1 && bytes.readUInt32LE(2) === tree.entries.length)
  let at = 6
  const times = tree.entries.map((entry): StoredTime => {
    const mtimeNs = bytes.readBigInt64LE(at)
    at += 8
    if (entry.type !== "directory") return { mtimeNs, times: null }
    at += idLength
    return { mtimeNs, times: idFromBytes(bytes, at - idLength) }
  })
  check(at === bytes.length)
  return times
}

export const encodeRoot = (root: RootRecord): Buffer => {
  const bytes = Buffer.alloc(12 + idLength)
  bytes.write("R\x01", 0, "latin1")
  bytes.writeUInt16LE(root.mode, 2)
  bytes.writeBigInt64LE(heldNs(root.mtimeNs), 4)
  writeId(bytes, root.times, 12)
  return bytes
}

export const decodeRoot = (bytes: Buffer): RootRecord => {
  check(bytes.length === 12 + idLength && bytes[0] === 0x52 && bytes[1] === 1)
  return { mode: bytes.readUInt16LE(2), mtimeNs: bytes.readBigInt64LE(4), times: idFromBytes(bytes, 12) }
}
