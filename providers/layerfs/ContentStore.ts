/**
 * File contents into the store: whole up to 512 KiB, above that in chunks with a paged list; and changes of a part of one.
 * Promise: equal bytes have one id by any route: stored at once, from a stream, or by any sequence of splices (L14); a splice
 * reads and writes what lies around the edit; one window of 1 MiB and one page a level are held. Rules: L14, L15, C19, C23.
 *
 * Loads no library but Node's: an import's reader threads use it.
 */
import { readSync } from "node:fs"
import type { Digest } from "../../src/base/Digest.ts"
import { type ChunkList, replaceEntries } from "./ChunkList.ts"
import { chunkEnd, isHoleAt, maxChunk } from "./Chunker.ts"
import { EntryMerger, holeId, isHole, type ObjectSink, PageBuilder, type PageEntry } from "./ContentPages.ts"
import { idOf } from "../../src/base/DigestBytes.ts"
import { inlineLimit } from "./ObjectId.ts"
import type { Like } from "./ObjectStore.ts"
import type { Steps } from "../../src/workspace/kit/Steps.ts"

export interface StoredContent {
  readonly id: Digest
  readonly size: number
}

/** Copies up to `length` bytes from `offset` of a content to `into`; fewer only where the content ends. */
export type ReadBytes = (into: Buffer, at: number, length: number, offset: number) => number

/** Stores one whole object; the bytes may be used again by the caller. */
const storeObject = (sink: ObjectSink, kind: "blob" | "chunk", bytes: Buffer, like?: Like): Digest => {
  const id = idOf(bytes)
  if (!sink.has(id)) sink.writeKnown(kind, id, Buffer.from(bytes), like)
  return id
}

/** What splices cut from, one after the other: none is under way when the next begins, because commits wait in line. */
let oneChunk: Buffer | undefined

/** What the next chunk of a content is cut from. */
class Window {
  readonly #read: ReadBytes
  readonly #buffer: Buffer
  readonly #size: number
  /** Bytes to read beyond what one chunk needs. */
  readonly #ahead: boolean
  /** Where the bytes in hand begin and end in the buffer, and where the next ones begin in the content. */
  #start = 0
  #end = 0
  position: number

  constructor(read: ReadBytes, size: number, position: number, ahead: boolean) {
    this.#read = read
    this.#size = size
    this.position = position
    this.#ahead = ahead
    this.#buffer = ahead ? Buffer.allocUnsafeSlow(4 * maxChunk) : (oneChunk ??= Buffer.allocUnsafeSlow(maxChunk))
  }

  /** The next chunk, valid until the next call; null for the longest one of zeros, empty at the end. */
  next(): Buffer | null {
    this.#fill()
    const start = this.#start
    const hole = isHoleAt(this.#buffer, start, this.#end)
    const end = hole ? start + maxChunk : chunkEnd(this.#buffer, start, this.#end)
    this.#start = end
    this.position += end - start
    return hole ? null : this.#buffer.subarray(start, end)
  }

  /** Goes on elsewhere. */
  skip(bytes: number): void {
    this.position += bytes
    this.#start = 0
    this.#end = 0
  }

  #fill(): void {
    const inHand = this.#end - this.#start
    if (inHand >= maxChunk) return
    const left = this.#size - this.position - inHand
    if (left <= 0) return
    this.#buffer.copyWithin(0, this.#start, this.#end)
    const room = (this.#ahead ? this.#buffer.length : maxChunk) - inHand
    this.#start = 0
    this.#end = inHand + this.#read(this.#buffer, inHand, Math.min(room, left), this.position + inHand)
  }
}

/** Chunks of an older version, taken for likely neighbours of the new ones in step. */
class Hints {
  readonly #entries: Generator<{ readonly entry: PageEntry }>
  #next: PageEntry[] = []

  constructor(list: ChunkList) {
    this.#entries = list.entriesFrom(0, 0)
  }

  /** The old chunk that the new one probably replaces. An equal one among the next few brings both back into step. */
  like(id: Digest): Digest | undefined {
    while (this.#next.length < 8) {
      const found = this.#entries.next()
      if (found.done === true) break
      this.#next.push(found.value.entry)
    }
    const same = this.#next.findIndex((entry) => entry.id === id)
    if (same >= 0) this.#next = this.#next.slice(same + 1)
    else if (this.#next.length > 1) return this.#next.shift()!.id
    return this.#next[0]?.id
  }
}

/**
 * Stores what `read` gives, at most `expected` bytes, which are more than `inlineLimit`. `older` is the version before, for hints.
 * The size that was read is returned; when it is no more than `inlineLimit`, the content must be stored whole instead.
 */
export function* storeChunks(
  sink: ObjectSink,
  read: ReadBytes,
  expected: number,
  older?: ChunkList
): Steps<StoredContent> {
  const window = new Window(read, expected, 0, true)
  const hints = older === undefined ? undefined : new Hints(older)
  const builder = new PageBuilder(sink, 0, (level, start) =>
    older !== undefined && level <= older.topLevel && start < older.size ? older.pageAt(level, start).id : undefined
  )
  const merger = new EntryMerger((entry) => builder.add(entry))
  for (;;) {
    yield
    const chunk = window.next()
    if (chunk === null) merger.add({ length: maxChunk, id: holeId })
    else if (chunk.length === 0) break
    else {
      const id = idOf(chunk)
      const like = hints?.like(id)
      if (!sink.has(id)) sink.writeKnown("chunk", id, Buffer.from(chunk), like)
      merger.add({ length: chunk.length, id })
    }
  }
  merger.end()
  return window.position <= inlineLimit
    ? { id: holeId, size: window.position }
    : { id: builder.end().id, size: window.position }
}

/** Stores what `read` gives, at most `expected` bytes. `older` is the id of the version before of a small file, or its list. */
export function* storeStream(
  sink: ObjectSink,
  read: ReadBytes,
  expected: number,
  older?: Digest | ChunkList
): Steps<StoredContent> {
  if (expected > inlineLimit) {
    const content = yield* storeChunks(sink, read, expected, typeof older === "object" ? older : undefined)
    // Fewer bytes came than were promised, so few that the content is small: its chunks are of no use.
    return content.size > inlineLimit ? content : yield* storeStream(sink, read, content.size, older)
  }
  const bytes = Buffer.allocUnsafeSlow(expected)
  const size = read(bytes, 0, expected, 0)
  return { id: storeObject(sink, "blob", bytes.subarray(0, size), typeof older === "string" ? older : undefined), size }
}

/** Reads an open file. Never past what is asked for. */
export const readDescriptor =
  (fd: number): ReadBytes =>
  (into, at, length, offset) => {
    let done = 0
    while (done < length) {
      const n = readSync(fd, into, at + done, length - done, offset + done)
      if (n === 0) break
      done += n
    }
    return done
  }

export const readBuffer =
  (bytes: Uint8Array): ReadBytes =>
  (into, at, length, offset) => {
    const part = bytes.subarray(offset, offset + length)
    into.set(part, at)
    return part.length
  }

/** A file of zeros that nobody needs to read (C19). `size` is more than `inlineLimit`. */
export const storeHole = (sink: ObjectSink, size: number): StoredContent => {
  const rest = size % maxChunk
  const builder = new PageBuilder(sink, 0, () => undefined)
  if (size > rest) builder.add({ length: size - rest, id: holeId })
  if (rest > 0) builder.add({ length: rest, id: storeObject(sink, "chunk", Buffer.alloc(rest)) })
  return { id: builder.end().id, size }
}

/** `deleteCount` bytes at `offset` become `bytes`. The range lies inside the content. */
export interface Splice {
  readonly offset: number
  readonly deleteCount: number
  readonly bytes: Uint8Array
}

/** What a content is after a splice, read from the old one. */
export const readSpliced =
  (old: ReadBytes, { offset, deleteCount, bytes }: Splice): ReadBytes =>
  (into, at, length, position) => {
    let done = 0
    if (position < offset) done += old(into, at, Math.min(length, offset - position), position)
    const inserted = position + done - offset
    if (done < length && inserted < bytes.length) {
      const part = bytes.subarray(inserted, inserted + length - done)
      into.set(part, at + done)
      done += part.length
    }
    if (done < length) {
      done += old(into, at + done, length - done, position + done - bytes.length + deleteCount)
    }
    return done
  }

/** Of an old chunk with fewer bytes than these the new one repeats them instead. */
const worthNaming = 2048

/** The old chunks that the new one from `begin` to `end` has bytes of, in order. Where it has none, the one at its place. */
const likesOf = (list: ChunkList, splice: Splice, begin: number, end: number): readonly Digest[] => {
  const { offset, deleteCount, bytes } = splice
  const common = new Map<Digest, number>()
  const add = (from: number, to: number): void => {
    for (let at = from; at < to; ) {
      const { entry, start } = list.chunkAt(at)
      const stop = Math.min(to, start + entry.length)
      if (!isHole(entry)) common.set(entry.id, (common.get(entry.id) ?? 0) + stop - at)
      at = stop
    }
  }
  add(begin, Math.min(end, offset))
  const moved = deleteCount - bytes.length
  add(Math.max(begin, offset + bytes.length) + moved, end + moved)
  if (common.size === 0) add(Math.min(offset, list.size - 1), Math.min(offset, list.size - 1) + 1)
  const most = Math.max(...common.values())
  return [...common].flatMap(([id, length]) => (length === most || length >= worthNaming ? [id] : []))
}

/**
 * A splice of a chunked content that stays one: cut again from the chunk before the edit until a chunk ends where an old one did.
 * Both sizes are more than `inlineLimit`.
 */
export function* spliceChunks(sink: ObjectSink, list: ChunkList, splice: Splice): Steps<StoredContent> {
  const { offset, deleteCount, bytes } = splice
  const delta = bytes.length - deleteCount
  const size = list.size + delta
  const read = readSpliced((into, at, length, position) => list.read(into, at, length, position), splice)
  const first = list.chunkAt(Math.min(offset, list.size - 1))
  // Inside a run of zeros every longest chunk is a place to begin at.
  const whole = isHole(first.entry) ? Math.floor((Math.min(offset, list.size - 1) - first.start) / maxChunk) : 0
  const window = new Window(read, size, first.start + whole * maxChunk, false)
  const made: PageEntry[] = []
  const merger = new EntryMerger((entry) => made.push(entry))
  // The run before the edit, and what ends right before it, may grow together with what follows.
  let from = first.start
  if (from > 0) {
    const before = list.chunkAt(from - 1)
    if (isHole(before.entry)) {
      from = before.start
      merger.add(before.entry)
    }
  }
  if (whole > 0) merger.add({ length: whole * maxChunk, id: holeId })
  let to = list.size
  while (window.position < size) {
    yield
    const old = window.position - delta
    if (old >= offset + deleteCount && old < list.size) {
      const found = list.chunkAt(old)
      const into = old - found.start
      if (into === 0 || (isHole(found.entry) && into % maxChunk === 0)) {
        to = old
        if (isHole(found.entry)) {
          to = found.start + found.entry.length
          merger.add({ length: to - old, id: holeId })
        }
        break
      }
      const zeros = isHole(found.entry) ? Math.floor((found.entry.length - into) / maxChunk) * maxChunk : 0
      if (zeros > 0) {
        merger.add({ length: zeros, id: holeId })
        window.skip(zeros)
        continue
      }
    }
    const begin = window.position
    const chunk = window.next()
    if (chunk === null) merger.add({ length: maxChunk, id: holeId })
    else {
      const likes = likesOf(list, splice, begin, window.position)
      merger.add({ length: chunk.length, id: storeObject(sink, "chunk", chunk, likes) })
    }
  }
  merger.end()
  return { id: replaceEntries(sink, list, from, to, made).id, size }
}
