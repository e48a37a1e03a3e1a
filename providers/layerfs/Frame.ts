/**
 * Frames: objects that lie in a group each for itself, whole or as what differs from a similar object, their base.
 * Promise: a frame says how long it is and what it needs; a damaged one is found when it is opened or when the object is
 * checked against its id (L10). Rules: L8, L10, C21; 04 "Storage" (versions of one path as zstd with the previous as dictionary).
 *
 * frame: kind u8 · length of the object, varint · length of the payload, varint · the base · payload
 *        kind 0: stored as it is, 1: zstd, 2: zstd with a base named by its 32-byte id, 3: zstd with a base in the same group,
 *        named by how many bytes before this frame it begins (varint). A zstd payload is without zstd's four magic bytes.
 * Ids survive a compaction, places do not; a group moves as a whole or not at all, so a place inside of it is as good as an id.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"
import type { Digest } from "../../src/base/Digest.ts"
import { idFromBytes, idLength, idToBytes } from "./ObjectId.ts"

/** Bytes that a chain of deltas may make a reader decode, all its objects together (about 10 ms on one core). */
export const chainBytes = 8 * 1024 * 1024
/** Deltas that a commit puts one on another at most: 0.1 ms each to read (04, the spikes). */
export const chainDepth = 32
/** A reader refuses chains longer than this: only damage or malice makes one. A compaction may have put its own chain below. */
export const longestChain = 1000

const largest = 64 * 1024 * 1024
const [plain, zstd, onId, onPlace] = [0, 1, 2, 3]
const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** What a frame's base is: another object, or the frame that begins this many bytes before it. */
export type FrameBase = { readonly id: Digest } | { readonly back: number }

export interface Frame {
  readonly rawLength: number
  readonly base: FrameBase | undefined
  readonly isPlain: boolean
  /** May be shorter than `payloadLength` when fewer bytes were given. */
  readonly payload: Buffer
  readonly payloadLength: number
  /** Bytes before the payload. */
  readonly headLength: number
}

const varint = (value: number): number[] => {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return bytes
}

/** The window must hold base and object, or the base's far end is out of reach (RFC 8878, 3.1.1.1.2). */
const windowFor = (bytes: number): number => Math.min(27, Math.max(10, Math.ceil(Math.log2(bytes))))

/** Above this, levels 3 and up index only a part of a dictionary unless their table grows with it (tried: 1 MiB of noise). */
const largeBase = 512 * 1024

const deltaOptions = (base: Uint8Array, length: number, level: number) => {
  const windowLog = windowFor(base.length + length)
  const isLarge = base.length > largeBase
  return {
    dictionary: base,
    params: {
      [constants.ZSTD_c_compressionLevel]: isLarge ? 1 : level,
      [constants.ZSTD_c_windowLog]: windowLog,
      ...(isLarge ? { [constants.ZSTD_c_hashLog]: windowLog } : {})
    }
  }
}

const encode = (kind: number, rawLength: number, base: Uint8Array | readonly number[], payload: Buffer): Buffer =>
  Buffer.concat([Uint8Array.from([kind, ...varint(rawLength), ...varint(payload.length), ...base]), payload])

/** The frame of an object that needs no other. */
export const wholeFrame = (bytes: Buffer, level: number): Buffer => {
  if (bytes.length >= 64) {
    const payload = zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } })
    if (payload.length < bytes.length * 0.98) return encode(zstd, bytes.length, [], payload.subarray(magic.length))
  }
  return encode(plain, bytes.length, [], bytes)
}

/** The payload of a delta: to be framed once its base's place is known. */
export const deltaPayload = (bytes: Buffer, base: Buffer, level: number): Buffer =>
  zstdCompressSync(bytes, deltaOptions(base, bytes.length, level)).subarray(magic.length)

export const deltaFrame = (rawLength: number, base: FrameBase, payload: Buffer): Buffer =>
  "id" in base
    ? encode(onId, rawLength, idToBytes(base.id), payload)
    : encode(onPlace, rawLength, varint(base.back), payload)

/** The head of the frame that begins at `at`; undefined when it is damaged. */
export const parseFrame = (bytes: Buffer, at = 0): Frame | undefined => {
  let position = at + 1
  const number = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[position++]
      if (byte === undefined || scale > 2 ** 35) return Number.NaN
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
  const kind = bytes[at]
  const rawLength = number()
  const payloadLength = number()
  let base: FrameBase | undefined
  if (kind === onId) {
    if (position + idLength > bytes.length) return undefined
    base = { id: idFromBytes(bytes, position) }
    position += idLength
  } else if (kind === onPlace) {
    base = { back: number() }
    if (!(base.back > 0)) return undefined
  } else if (kind !== plain && kind !== zstd) return undefined
  if (!(rawLength <= largest) || !(payloadLength <= largest)) return undefined
  const payload = bytes.subarray(position, position + payloadLength)
  return { rawLength, base, isPlain: kind === plain, payload, payloadLength, headLength: position - at }
}

/** The object, or undefined when frame or base are damaged. It is not checked against its id here. */
export const openFrame = (frame: Frame, base: Buffer | undefined): Buffer | undefined => {
  if (frame.payload.length !== frame.payloadLength) return undefined
  if (frame.isPlain) return frame.payloadLength === frame.rawLength ? frame.payload : undefined
  try {
    const raw = zstdDecompressSync(Buffer.concat([magic, frame.payload]), {
      maxOutputLength: Math.max(frame.rawLength, 1),
      ...(base === undefined ? {} : { dictionary: base })
    })
    return raw.length === frame.rawLength ? raw : undefined
  } catch {
    return undefined
  }
}
