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
  readonly type: "file" | "directory" | "symlink" | "hardlink"
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly target: TreePath
}

const flags = { file: "0", hardlink: "1", symlink: "2", directory: "5" } as const

const octal = (bytes: Buffer, value: number, at: number, length: number): void => {
  bytes.write(value.toString(8).padStart(length - 1, "0"), at, "latin1")
}

const sizeField = (bytes: Buffer, size: number): void => {
  if (size < 8 ** 11) return octal(bytes, size, 124, 12)
  // GNU base-256 for sizes from 8 GiB.
  bytes.writeUInt8(0x80, 124)
  bytes.writeBigUInt64BE(BigInt(size), 128)
}

const header = (name: string, flag: string, mode: number, size: number, seconds: number, target: string): Buffer => {
  const bytes = Buffer.alloc(512)
  bytes.write(name.slice(0, 100), 0, "latin1")
  octal(bytes, mode, 100, 8)
  octal(bytes, 0, 108, 8)
  octal(bytes, 0, 116, 8)
  sizeField(bytes, size)
  octal(bytes, Math.max(0, Math.min(seconds, 8 ** 11 - 1)), 136, 12)
  bytes.write("        ", 148, "latin1")
  bytes.write(flag, 156, "latin1")
  bytes.write(target.slice(0, 100), 157, "latin1")
  bytes.write("ustar  \0", 257, "latin1")
  let sum = 0
  for (const byte of bytes) sum += byte
  octal(bytes, sum, 148, 7)
  bytes.writeUInt8(0, 154)
  bytes.writeUInt8(0x20, 155)
  return bytes
}

export const padding = (size: number): Buffer => Buffer.alloc((512 - (size % 512)) % 512)

const withBody = (name: string, flag: string, body: Buffer): Buffer[] => [
  header(name, flag, 0o644, body.length, 0, ""),
  body,
  padding(body.length)
]

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

/** The header blocks of one entry; a file's bytes and their `padding` follow. */
export const tarHeader = (entry: TarEntry): Buffer => {
  const parts: Buffer[] = []
  const name = entry.type === "directory" ? `${entry.path}/` : entry.path
  parts.push(...withBody("././@PaxHeader", "x", Buffer.from(paxRecord("mtime", paxTime(entry.mtimeNs)), "latin1")))
  if (entry.target.length > 100)
    parts.push(...withBody("././@LongLink", "K", Buffer.from(`${entry.target}\0`, "latin1")))
  if (name.length > 100) parts.push(...withBody("././@LongLink", "L", Buffer.from(`${name}\0`, "latin1")))
  const seconds = Number(entry.mtimeNs / 1_000_000_000n)
  parts.push(header(name, flags[entry.type], entry.mode, entry.type === "file" ? entry.size : 0, seconds, entry.target))
  return Buffer.concat(parts)
}

/** Two empty blocks end a stream. */
export const tarEnd = Buffer.alloc(1024)
