/**
 * Headers of a tar stream with exact mtimes, as GNU tar reads them (POSIX pax records for the time, GNU long names for the
 * bytes of a name, which pax would take for text).
 * Promise: every entry is exact to the nanosecond and byte. Rules: L15, W16; POSIX.1-2001 pax, GNU tar manual "Standard".
 *
 * Node's own utimes takes a double of seconds, which at today's dates is 200 ns coarse: that is why a tree is written by tar.
 */
import type { TreePath } from "../../src/base/PathBytes.ts"

export interface TarEntry {
  readonly path: TreePath
  /** A whiteout hides a name of the layers below: overlayfs's character device 0:0 (kernel, Documentation/filesystems/overlayfs.rst). */
  readonly type: "file" | "directory" | "symlink" | "hardlink" | "whiteout"
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly target: TreePath
  /** Where the bytes of a file with holes lie; absent for a file that is written in one piece. */
  readonly segments?: readonly Segment[]
}

export interface Segment {
  readonly offset: number
  readonly length: number
}

const flags = { file: "0", hardlink: "1", symlink: "2", whiteout: "3", directory: "5" } as const

const block = 512

const octal = (bytes: Buffer, value: number, at: number, length: number): void => {
  bytes.write(value.toString(8).padStart(length - 1, "0"), at, "latin1")
}

const sizeField = (bytes: Buffer, size: number, at: number): void => {
  if (size < 8 ** 11) return octal(bytes, size, at, 12)
  // GNU base-256 for sizes from 8 GiB.
  bytes.writeUInt8(0x80, at)
  bytes.writeBigUInt64BE(BigInt(size), at + 4)
}

interface Header {
  readonly name: string
  readonly flag: string
  readonly mode: number
  readonly size: number
  readonly seconds: number
  readonly target: string
}

/** Writes one header block into zeroed bytes. */
const writeHeader = (bytes: Buffer, at: number, { name, flag, mode, size, seconds, target }: Header): void => {
  bytes.write(name.slice(0, 100), at, "latin1")
  octal(bytes, mode, at + 100, 8)
  octal(bytes, 0, at + 108, 8)
  octal(bytes, 0, at + 116, 8)
  sizeField(bytes, size, at + 124)
  octal(bytes, Math.max(0, Math.min(seconds, 8 ** 11 - 1)), at + 136, 12)
  bytes.write("        ", at + 148, "latin1")
  bytes.write(flag, at + 156, "latin1")
  bytes.write(target.slice(0, 100), at + 157, "latin1")
  bytes.write("ustar\x0000", at + 257, "latin1")
  if (flag === flags.whiteout) for (const field of [329, 337]) octal(bytes, 0, at + field, 8)
  let sum = 0
  for (let i = at; i < at + block; i += 1) sum += bytes[i]!
  octal(bytes, sum, at + 148, 7)
  bytes.writeUInt8(0, at + 154)
  bytes.writeUInt8(0x20, at + 155)
}

const zeros = Buffer.alloc(block)

export const padding = (size: number): Buffer => zeros.subarray(0, (block - (size % block)) % block)

const padded = (size: number): number => Math.ceil(size / block) * block

/** `seconds.nanoseconds`, also for times before 1970. */
const paxTime = (ns: bigint): string => {
  const magnitude = ns < 0n ? -ns : ns
  const fraction = String(magnitude % 1_000_000_000n).padStart(9, "0")
  return `${ns < 0n ? "-" : ""}${magnitude / 1_000_000_000n}.${fraction}`
}

const paxRecord = (key: string, value: string): string => {
  const rest = ` ${key}=${value}\n`
  let length = rest.length + 1
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length
  return `${length}${rest}`
}

/** Zeroed bytes, as many as are asked for. */
export type Zeroed = (length: number) => Buffer

/** The header blocks of one entry; a file's bytes and their `padding` follow. `zeroed` gives the memory for it. */
export const tarHeader = (entry: TarEntry, zeroed: Zeroed = Buffer.alloc): Buffer => {
  const map = entry.segments === undefined ? undefined : sparseMap(entry.segments, entry.size)
  const name = entry.type === "directory" ? `${entry.path}/` : entry.path
  const times = paxRecord("mtime", paxTime(entry.mtimeNs))
  const records = map === undefined ? times : times + sparseRecords(entry)
  const extra: { readonly name: string; readonly flag: string; readonly body: string }[] = [
    { name: "././@PaxHeader", flag: "x", body: records }
  ]
  if (entry.target.length > 100) extra.push({ name: "././@LongLink", flag: "K", body: `${entry.target}\0` })
  if (name.length > 100 && map === undefined) extra.push({ name: "././@LongLink", flag: "L", body: `${name}\0` })
  const bytes = zeroed(extra.reduce((sum, { body }) => sum + block + padded(body.length), block))
  let at = 0
  for (const { name, flag, body } of extra) {
    writeHeader(bytes, at, { name, flag, mode: 0o644, size: body.length, seconds: 0, target: "" })
    bytes.write(body, at + block, "latin1")
    at += block + padded(body.length)
  }
  const { mode, type, target } = entry
  const seconds = Number(entry.mtimeNs / 1_000_000_000n)
  if (map !== undefined) {
    const size = map.length + entry.segments!.reduce((sum, segment) => sum + segment.length, 0)
    // The real name stands in the records: this one is what a tar without sparse files would extract.
    writeHeader(bytes, at, { name: "GNUSparseFile.0", flag: "0", mode, size, seconds, target: "" })
    return Buffer.concat([bytes, map])
  }
  const size = type === "file" ? entry.size : 0
  writeHeader(bytes, at, { name, flag: flags[type], mode, size, seconds, target })
  return bytes
}

/** GNU sparse format 1.0: the map comes before the data, as decimal lines in whole blocks, and ends at the real size. */
const sparseMap = (segments: readonly Segment[], size: number): Buffer => {
  const lines = [segments.length + 1, ...segments.flatMap(({ offset, length }) => [offset, length]), size, 0]
  const text = lines.map((line) => `${line}\n`).join("")
  return Buffer.concat([Buffer.from(text, "latin1"), padding(text.length)])
}

const sparseRecords = (entry: TarEntry): string =>
  paxRecord("GNU.sparse.major", "1") +
  paxRecord("GNU.sparse.minor", "0") +
  paxRecord("GNU.sparse.name", entry.path) +
  paxRecord("GNU.sparse.realsize", String(entry.size))

/** Two empty blocks end a stream. */
export const tarEnd = Buffer.alloc(1024)
