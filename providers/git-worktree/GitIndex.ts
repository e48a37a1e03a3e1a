/**
 * Git's index file: read without git, and written with times that are known, so that a made worktree is clean where its files are.
 * Promise: entries with their stage and flags come back as they were read; what this code does not know is `undefined` and never a
 * guess. Rules: GW1, GW2; gitformat-index(5).
 */
import { createHash } from "node:crypto"
import type { BigIntStats } from "node:fs"
import { compare, type TreePath } from "../../src/base/PathBytes.ts"

export interface IndexEntry {
  readonly path: TreePath
  readonly mode: number
  /** Hexadecimal. */
  readonly id: string
  /** 0, or 1 to 3 in a conflict. */
  readonly stage: number
  readonly assumeValid: boolean
  readonly skipWorktree: boolean
  readonly intentToAdd: boolean
  /** As the file was when it was last held against the index; null: it was not. */
  readonly seen: { readonly mtime: number; readonly mtimeNs: number; readonly size: number } | null
}

const lengthOf = (algorithm: "sha1" | "sha256"): number => (algorithm === "sha1" ? 20 : 32)

/** Extensions that change what the entries mean: a shared index, and directories as entries. In lower case: "must be understood". */
const unknownExtensions = new Set(["link", "sdir"])

export const readIndex = (bytes: Buffer, algorithm: "sha1" | "sha256"): readonly IndexEntry[] | undefined => {
  const idLength = lengthOf(algorithm)
  if (bytes.length < 12 + idLength || bytes.toString("latin1", 0, 4) !== "DIRC") return undefined
  const version = bytes.readUInt32BE(4)
  if (version < 2 || version > 4) return undefined
  const entries: IndexEntry[] = []
  const end = bytes.length - idLength
  let at = 12
  let previous = ""
  for (let left = bytes.readUInt32BE(8); left > 0; left -= 1) {
    const start = at
    if (at + 42 + idLength > end) return undefined
    const id = bytes.toString("hex", at + 40, at + 40 + idLength)
    const flags = bytes.readUInt16BE(at + 40 + idLength)
    let further = 0
    let nameAt = at + 42 + idLength
    if ((flags & 0x4000) !== 0) {
      if (version < 3) return undefined
      further = bytes.readUInt16BE(nameAt)
      nameAt += 2
    }
    let kept = ""
    if (version === 4) {
      const { value, next } = readOffset(bytes, nameAt)
      kept = previous.slice(0, previous.length - value)
      nameAt = next
    }
    const nul = bytes.indexOf(0, nameAt)
    if (nul < 0 || nul >= end) return undefined
    const path = kept + bytes.toString("latin1", nameAt, nul)
    previous = path
    // One to eight NUL bytes, so that an entry's length is a multiple of eight; none of it in version 4.
    at = version === 4 ? nul + 1 : start + (Math.floor((nul - start) / 8) + 1) * 8
    const mtime = bytes.readUInt32BE(start + 8)
    const size = bytes.readUInt32BE(start + 36)
    const mtimeNs = bytes.readUInt32BE(start + 12)
    entries.push({
      path,
      mode: bytes.readUInt32BE(start + 24),
      id,
      stage: (flags >> 12) & 3,
      assumeValid: (flags & 0x8000) !== 0,
      skipWorktree: (further & 0x4000) !== 0,
      intentToAdd: (further & 0x2000) !== 0,
      seen: mtime === 0 && size === 0 ? null : { mtime, mtimeNs, size }
    })
  }
  while (at + 8 <= end) {
    if (unknownExtensions.has(bytes.toString("latin1", at, at + 4))) return undefined
    at += 8 + bytes.readUInt32BE(at + 4)
  }
  return entries
}

/** "offset encoding" of gitformat-pack(5): each further byte counts one more. */
const readOffset = (bytes: Buffer, from: number): { readonly value: number; readonly next: number } => {
  let at = from
  let byte = bytes.readUInt8(at)
  let value = byte & 0x7f
  while ((byte & 0x80) !== 0) {
    at += 1
    byte = bytes.readUInt8(at)
    value = ((value + 1) << 7) | (byte & 0x7f)
  }
  return { value, next: at + 1 }
}

const low = (value: bigint): number => Number(BigInt.asUintN(32, value))

/** What git compares a file with. A size of 0 for a file that has bytes means: look at the content. */
const writeStat = (to: Buffer, stat: BigIntStats): void => {
  const billion = 1_000_000_000n
  to.writeUInt32BE(low(stat.ctimeNs / billion), 0)
  to.writeUInt32BE(low(stat.ctimeNs % billion), 4)
  to.writeUInt32BE(low(stat.mtimeNs / billion), 8)
  to.writeUInt32BE(low(stat.mtimeNs % billion), 12)
  to.writeUInt32BE(low(stat.dev), 16)
  to.writeUInt32BE(low(stat.ino), 20)
  to.writeUInt32BE(low(stat.uid), 28)
  to.writeUInt32BE(low(stat.gid), 32)
  to.writeUInt32BE(low(stat.size), 36)
}

/** An index of `entries`; `statOf` tells how a file looks that is known to be what its entry says. */
export const writeIndex = (
  entries: readonly IndexEntry[],
  algorithm: "sha1" | "sha256",
  statOf: (entry: IndexEntry) => BigIntStats | undefined = () => undefined
): Buffer => {
  const idLength = lengthOf(algorithm)
  const sorted = entries.toSorted((a, b) => compare(a.path, b.path) || a.stage - b.stage)
  const extended = sorted.some((entry) => entry.skipWorktree || entry.intentToAdd)
  const header = Buffer.alloc(12)
  header.write("DIRC", "latin1")
  header.writeUInt32BE(extended ? 3 : 2, 4)
  header.writeUInt32BE(sorted.length, 8)
  const parts: Buffer[] = [header]
  for (const entry of sorted) {
    const further = entry.skipWorktree || entry.intentToAdd
    const name = Buffer.from(entry.path, "latin1")
    const before = 42 + idLength + (further ? 2 : 0)
    const one = Buffer.alloc((Math.floor((before + name.length) / 8) + 1) * 8)
    const stat = statOf(entry)
    if (stat !== undefined) writeStat(one, stat)
    one.writeUInt32BE(entry.mode, 24)
    one.write(entry.id, 40, "hex")
    one.writeUInt16BE(
      (entry.assumeValid ? 0x8000 : 0) | (further ? 0x4000 : 0) | (entry.stage << 12) | Math.min(name.length, 0xfff),
      40 + idLength
    )
    if (further) {
      one.writeUInt16BE((entry.skipWorktree ? 0x4000 : 0) | (entry.intentToAdd ? 0x2000 : 0), 42 + idLength)
    }
    name.copy(one, before)
    parts.push(one)
  }
  const content = Buffer.concat(parts)
  return Buffer.concat([content, createHash(algorithm).update(content).digest()])
}

/** A file's times and size as an index holds them. */
export const sawAs = (entry: IndexEntry, stat: BigIntStats): boolean =>
  entry.seen !== null &&
  entry.seen.mtime === low(stat.mtimeNs / 1_000_000_000n) &&
  (entry.seen.mtimeNs === 0 || entry.seen.mtimeNs === low(stat.mtimeNs % 1_000_000_000n)) &&
  entry.seen.size === low(stat.size)
