/**
 * Frames: objects that lie in a group each for itself, whole or as what differs from a similar object, their base.
 * Promise: a frame says how long it is and what it needs; a damaged one is found when it is opened or when the object is
 * checked against its id (L10). Rules: L8, L10, C21; 04 "Storage" (versions of one path as zstd with the previous as dictionary).
 *
 * frame: kind u8 · length of the object, varint · length of the payload, varint · the base · payload
 *        kind 0: stored as it is, 1: zstd, 2: zstd with a base named by its 32-byte id, 3: zstd with a base in the same group,
 *        named by how many bytes before this frame it begins (varint), 4 (from format 3 on): a patch (Patch.ts) of several bases,
 *        one behind the other: their number u8 and their ids, 5: a patch of a base in the same group, named like that of 3.
 *        A zstd payload is without zstd's four magic bytes.
 * Ids survive a compaction, places do not; a group moves as a whole or not at all, so a place inside of it is as good as an id.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"
import type { Digest } from "../../src/base/Digest.ts"
import type { ObjectKind } from "./ObjectStore.ts"
import { idFromBytes, idLength, idToBytes } from "../../src/base/DigestBytes.ts"
import { applyPatch, patchPayload, varint, VarintReader, zstdMagic as magic } from "./Patch.ts"

/** What a chain of deltas may cost a reader, all its objects together: bytes through zstd, 5 ms of them on one core. See `costOf`. */
export const chainBytes = 4 * 1024 * 1024
/** Deltas that a commit puts one on another at most: 0.1 ms each to read (04, the spikes). */
export const chainDepth = 32
/**
 * A reader refuses chains longer than this, and more frames for one object: only damage or malice makes them. A commit's own are 500 at
 * most, whatever is built on several bases; a compaction may have put a chain of its own below each of them.
 */
export const longestChain = 1000
export const mostFrames = 50_000

const largest = 64 * 1024 * 1024
const [plain, zstd, onId, onPlace, patchOfIds, patchOfPlace] = [0, 1, 2, 3, 4, 5]
/** Objects that a patch is made from at most. */
export const mostBases = 4

/** What a frame's base is: other objects, one behind the other, or the frame that begins this many bytes before it. */
export type FrameBase = { readonly ids: readonly Digest[] } | { readonly back: number }

export interface Frame {
  readonly rawLength: number
  readonly base: FrameBase | undefined
  readonly form: "plain" | "zstd" | "patch"
  /** May be shorter than `payloadLength` when fewer bytes were given. */
  readonly payload: Buffer
  readonly payloadLength: number
  /** Bytes before the payload. */
  readonly headLength: number
}

/** What the smallest frame costs, so that they are 500 at most. */
const frameCost = Math.ceil(chainBytes / 500)

/** What opening a frame adds to a chain's cost: a patch is copied, which is some ten times faster than zstd. */
export const costOf = (length: number, isPatch: boolean): number => Math.max(frameCost, isPatch ? length >> 3 : length)

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

/** What makes an object out of its base: to be framed once the base's place is known. */
export interface Delta {
  readonly isPatch: boolean
  readonly payload: Buffer
}

/**
 * New bytes that a patch may hold at most. Ids and times in directories and lists are noise, which zstd makes no smaller; what is
 * written by people it does, with the base as dictionary. A patch of several bases saves what no other form could.
 */
const patchBound = (kind: ObjectKind, length: number, bases: number): number => {
  if (kind === "chunk" || bases > 1) return length / 2
  return kind === "blob" ? Math.max(96, length >> 10) : 2048
}

/** The smaller or faster way from base to object; undefined when `bases` is more than one and they have little in common with it. */
export const deltaOf = (kind: ObjectKind, bytes: Buffer, base: Buffer, level: number, bases = 1): Delta | undefined => {
  const patch = patchPayload(bytes, base, patchBound(kind, bytes.length, bases))
  if (patch !== undefined) return { isPatch: true, payload: patch }
  if (bases > 1) return undefined
  return {
    isPatch: false,
    payload: zstdCompressSync(bytes, deltaOptions(base, bytes.length, level)).subarray(magic.length)
  }
}

export const deltaFrame = (rawLength: number, base: FrameBase, { isPatch, payload }: Delta): Buffer => {
  if (!("ids" in base)) return encode(isPatch ? patchOfPlace : onPlace, rawLength, varint(base.back), payload)
  const ids = base.ids.map(idToBytes)
  return isPatch
    ? encode(patchOfIds, rawLength, Buffer.concat([Uint8Array.from([ids.length]), ...ids]), payload)
    : encode(onId, rawLength, ids[0]!, payload)
}

/** The head of the frame that begins at `at`; undefined when it is damaged. */
export const parseFrame = (bytes: Buffer, at = 0): Frame | undefined => {
  const numbers = new VarintReader(bytes, at + 1)
  const kind = bytes[at]
  const rawLength = numbers.next()
  const payloadLength = numbers.next()
  let base: FrameBase | undefined
  if (kind === onId || kind === patchOfIds) {
    const count = kind === onId ? 1 : bytes[numbers.position++]
    if (count === undefined || count < 1 || count > mostBases) return undefined
    const from = numbers.position
    numbers.position += count * idLength
    if (numbers.position > bytes.length) return undefined
    base = { ids: Array.from({ length: count }, (_, n) => idFromBytes(bytes, from + n * idLength)) }
  } else if (kind === onPlace || kind === patchOfPlace) {
    base = { back: numbers.next() }
    if (!(base.back > 0)) return undefined
  } else if (kind !== plain && kind !== zstd) return undefined
  if (!(rawLength <= largest) || !(payloadLength <= largest)) return undefined
  const { position } = numbers
  const payload = bytes.subarray(position, position + payloadLength)
  const form = kind === plain ? "plain" : kind === patchOfIds || kind === patchOfPlace ? "patch" : "zstd"
  return { rawLength, base, form, payload, payloadLength, headLength: position - at }
}

/** The object, or undefined when frame or base are damaged. It is not checked against its id here. */
export const openFrame = (frame: Frame, base: Buffer | undefined): Buffer | undefined => {
  const { payload, payloadLength, rawLength, form } = frame
  if (payload.length !== payloadLength) return undefined
  if (form === "plain") return payloadLength === rawLength ? payload : undefined
  if (form === "patch") return base === undefined ? undefined : applyPatch(payload, base, rawLength)
  try {
    const raw = zstdDecompressSync(Buffer.concat([magic, payload]), {
      maxOutputLength: Math.max(rawLength, 1),
      // In one piece: see `openGroup`.
      chunkSize: Math.max(rawLength + 1, constants.Z_MIN_CHUNK),
      ...(base === undefined ? {} : { dictionary: base })
    })
    return raw.length === rawLength ? raw : undefined
  } catch {
    return undefined
  }
}
