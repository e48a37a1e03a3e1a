/**
 * Patches: an object as pieces of its base and the bytes between them, for edits that touch little of it.
 * Promise: applying a patch to the bytes it was made from gives the object back; a damaged one gives undefined, never bytes beyond
 * the length that was promised. Rules: L8, L10, C21; 04 "Storage" ("splice costs the edit"; a zstd call costs 0.1 ms, a patch a few microseconds).
 *
 * Found are where the object's beginning and its end lie in the base, and, where both are equally long (ids and times in a
 * directory), what stayed at its place inside. Whatever moved elsewhere is for zstd to find (Frame.ts).
 *
 * payload: u8 (0: as it is, 1: zstd, without zstd's four magic bytes) · pieces
 * piece:   bytes to insert, varint · these bytes · bytes to copy, varint · where in the base, varint (left out when nothing is copied)
 */
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"

/** Equal bytes between two changes at least: fewer cost as much to name as to repeat. */
const shortestCopy = 12
/** Above this, inserted bytes are worth a zstd call. */
const compressFrom = 512

export const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** Number as 7 bits a byte, the lowest first; a high bit says that another byte follows. */
export const varint = (value: number): number[] => {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return bytes
}

/** Reads numbers one after the other; NaN where they end or are too large. */
export class VarintReader {
  readonly #bytes: Buffer
  position: number

  constructor(bytes: Buffer, position: number) {
    this.#bytes = bytes
    this.position = position
  }

  next(): number {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = this.#bytes[this.position++]
      if (byte === undefined || scale > 2 ** 35) return Number.NaN
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
}

/** How many bytes from `at` and `from` on are equal, at most `most`. Compares blocks first: a loop over bytes takes 1 ns each. */
const equalFrom = (a: Buffer, at: number, b: Buffer, from: number, most: number): number => {
  let done = 0
  for (let block = 4096; block >= 64; block = block >> 2) {
    while (done + block <= most && a.compare(b, from + done, from + done + block, at + done, at + done + block) === 0) {
      done += block
    }
  }
  while (done < most && a[at + done] === b[from + done]) done += 1
  return done
}

/** The same towards the beginning, ending before `end` and `until`. */
const equalUpTo = (a: Buffer, end: number, b: Buffer, until: number, most: number): number => {
  let done = 0
  for (let block = 4096; block >= 64; block = block >> 2) {
    while (
      done + block <= most &&
      a.compare(b, until - done - block, until - done, end - done - block, end - done) === 0
    ) {
      done += block
    }
  }
  while (done < most && a[end - done - 1] === b[until - done - 1]) done += 1
  return done
}

/** Bytes from `from` to `to` of the object are new; what follows up to the next ones lies in the base. */
interface Change {
  readonly from: number
  readonly to: number
}

/** Pieces at most: each takes some microseconds, and where there are more zstd is faster. */
const mostChanges = (length: number): number => 64 + (length >> 10)

/** Of an object as long as its base, from `head` to `end`. Undefined where more than `most` bytes are new, or in too many places. */
const changesOf = (bytes: Buffer, base: Buffer, head: number, end: number, most: number): Change[] | undefined => {
  const changes: Change[] = []
  let sum = 0
  for (let at = head; at < end; ) {
    const from = at
    let to = at
    // Up to where enough bytes in a row are equal again.
    for (let equal = 0; at < end && equal < shortestCopy; at += 1) {
      if (bytes[at] === base[at]) equal += 1
      else {
        equal = 0
        to = at + 1
      }
    }
    if (to > from) {
      changes.push({ from, to })
      sum += to - from
      if (sum > most || changes.length > mostChanges(bytes.length)) return undefined
    }
    at += equalFrom(bytes, at, base, at, end - at)
  }
  return changes
}

/** Bytes by which a place is found again. */
const probe = 48

/** Where the object's beginning lies in the base, and how far it goes on there. */
const headOf = (bytes: Buffer, base: Buffer): { readonly from: number; readonly length: number } => {
  const length = equalFrom(bytes, 0, base, 0, Math.min(bytes.length, base.length))
  if (length >= probe || bytes.length < probe) return { from: 0, length }
  const from = base.indexOf(bytes.subarray(0, probe))
  if (from < 0) return { from: 0, length }
  return { from, length: equalFrom(bytes, 0, base, from, Math.min(bytes.length, base.length - from)) }
}

/** The same of its end, `most` bytes at most; `until` is where it ends in the base. */
const tailOf = (bytes: Buffer, base: Buffer, most: number): { readonly until: number; readonly length: number } => {
  const back = (until: number): number => equalUpTo(bytes, bytes.length, base, until, Math.min(most, until))
  const length = back(base.length)
  if (length >= probe || most < probe) return { until: base.length, length }
  const from = base.lastIndexOf(bytes.subarray(bytes.length - probe))
  return from < 0 ? { until: base.length, length } : { until: from + probe, length: back(from + probe) }
}

/** The patch that makes `bytes` out of `base`; undefined where more than `most` bytes of it are new, or in too many places. */
export const patchPayload = (bytes: Buffer, base: Buffer, most: number): Buffer | undefined => {
  const head = headOf(bytes, base)
  const tail = tailOf(bytes, base, bytes.length - head.length)
  const isInPlace = bytes.length === base.length && head.from === 0 && tail.until === base.length
  const end = bytes.length - tail.length
  const changes = isInPlace ? changesOf(bytes, base, head.length, end, most) : [{ from: head.length, to: end }]
  if (changes === undefined || (!isInPlace && end - head.length > most)) return undefined
  const parts: (Uint8Array | readonly number[])[] = []
  const copy = (length: number, from: number): void => {
    parts.push(varint(length))
    if (length > 0) parts.push(varint(from))
  }
  if (head.length > 0 || changes.length === 0) {
    parts.push(varint(0))
    copy(head.length, head.from)
  }
  for (const [n, { from, to }] of changes.entries()) {
    const next = changes[n + 1]
    parts.push(varint(to - from), bytes.subarray(from, to))
    if (next === undefined) copy(bytes.length - to, tail.until - (bytes.length - to))
    else copy(next.from - to, to)
  }
  const plain = Buffer.concat(parts.map((part) => (part instanceof Uint8Array ? part : Uint8Array.from(part))))
  if (plain.length >= compressFrom) {
    const small = zstdCompressSync(plain, { params: { [constants.ZSTD_c_compressionLevel]: 3 } })
    if (small.length < plain.length * 0.95) return Buffer.concat([Buffer.from([1]), small.subarray(zstdMagic.length)])
  }
  return Buffer.concat([Buffer.from([0]), plain])
}

const piecesOf = (payload: Buffer, length: number): Buffer | undefined => {
  if (payload[0] === 0) return payload.subarray(1)
  if (payload[0] !== 1) return undefined
  try {
    // A piece of no bytes to insert and one to copy takes 4 bytes at most beyond what it stands for.
    return zstdDecompressSync(Buffer.concat([zstdMagic, payload.subarray(1)]), { maxOutputLength: 64 + 8 * length })
  } catch {
    return undefined
  }
}

/** The object of `length` bytes that a patch makes out of `base`; undefined when the patch is damaged. */
export const applyPatch = (payload: Buffer, base: Buffer, length: number): Buffer | undefined => {
  const pieces = piecesOf(payload, length)
  if (pieces === undefined) return undefined
  const bytes = Buffer.allocUnsafeSlow(length)
  const numbers = new VarintReader(pieces, 0)
  let done = 0
  while (numbers.position < pieces.length) {
    const inserted = numbers.next()
    const from = numbers.position
    if (!(inserted <= length - done) || from + inserted > pieces.length) return undefined
    pieces.copy(bytes, done, from, from + inserted)
    done += inserted
    numbers.position = from + inserted
    const copied = numbers.next()
    if (!(copied <= length - done)) return undefined
    if (copied === 0) continue
    const at = numbers.next()
    if (!(at + copied <= base.length)) return undefined
    base.copy(bytes, done, at, at + copied)
    done += copied
  }
  return done === length ? bytes : undefined
}
