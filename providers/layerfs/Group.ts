/**
 * Groups: about 1 MiB of objects compressed together, the unit in which packs are written and read.
 * Promise: a group that compression does not make smaller is stored as it is; a damaged one is found when it is opened or
 * when an object in it is checked against its id (L10). Rules: L8, L10; 04 "Storage" (one zstd call per object costs 10x).
 */
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"

/** Raw bytes after which a group is closed. */
export const groupTarget = 1024 * 1024

/** The same for an import: neighbours share more, which saves 3 % of a `node_modules` and costs a reader 2 ms more (023). */
export const importGroup = 3 * groupTarget

const header = 5
const stored = 0
const zstd = 1

/** Level 3 is 10 % smaller than 1 on a `node_modules` of 400 MB, for 5 % more time (04 "Storage", the spikes). */
const commitLevel = 3

/** The bytes of a group as they lie in a pack: kind of compression, raw length, payload. */
export const frameGroup = (parts: readonly Uint8Array[], rawLength: number, level = commitLevel): Buffer => {
  const raw = parts.length === 1 ? parts[0]! : Buffer.concat(parts, rawLength)
  const compressed =
    rawLength < 64 ? undefined : zstdCompressSync(raw, { params: { [constants.ZSTD_c_compressionLevel]: level } })
  const small = compressed !== undefined && compressed.length < rawLength * 0.98
  const payload = small ? compressed : raw
  const frame = Buffer.allocUnsafeSlow(header + payload.length)
  frame.writeUInt8(small ? zstd : stored, 0)
  frame.writeUInt32LE(rawLength, 1)
  frame.set(payload, header)
  return frame
}

/** The raw bytes of a group, or undefined when the frame is damaged. */
export const openGroup = (frame: Buffer): Buffer | undefined => {
  if (frame.length < header) return undefined
  const rawLength = frame.readUInt32LE(1)
  const payload = frame.subarray(header)
  if (frame[0] === stored) return payload.length === rawLength ? payload : undefined
  if (frame[0] !== zstd || rawLength > 64 * 1024 * 1024) return undefined
  try {
    // One piece, and a byte that stays empty: Node's 16 KiB at a time, put together at the end, cost more than the decompression.
    const raw = zstdDecompressSync(payload, {
      maxOutputLength: Math.max(rawLength, 1),
      chunkSize: Math.max(rawLength + 1, constants.Z_MIN_CHUNK)
    })
    return raw.length === rawLength ? raw : undefined
  } catch {
    return undefined
  }
}

/** Frees the memory of bytes that nobody may read any more. Small ones share theirs with others (`Buffer.poolSize`). */
export const free = (bytes: Buffer | undefined): void => {
  const memory = bytes?.buffer as (ArrayBuffer & { transfer(length: number): ArrayBuffer }) | undefined
  if (memory !== undefined && memory.byteLength > 2 * Buffer.poolSize) memory.transfer(0)
}
