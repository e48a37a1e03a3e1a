/**
 * The list of a large file's chunks: a tree of pages, cut by content as the file itself is.
 * Promise: equal content has equal pages by any route (L14); an edit rewrites the pages on its way and no others; decoding is
 * strict. Rules: L10, L14, L15, C23.
 *
 * A prolly tree (Dolt's and Noms' name for it): a page ends after an entry whose id says so, not after a number of them.
 * page: 15 bytes of magic, level u8 (0: entries are chunks, else pages), then entries: bytes below u64, id (all little endian).
 * A run of chunks of zeros is one entry with the id of the longest chunk of zeros and the length of the run; no two such
 * entries follow each other. The file's id is that of the first level that has one page only.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { maxChunk } from "./Chunker.ts"
import type { Like } from "./ObjectStore.ts"
import { idFromBytes, idLength, idOf, writeId } from "../../src/base/DigestBytes.ts"

export interface PageEntry {
  /** Bytes of the file below it. */
  readonly length: number
  readonly id: Digest
}

export interface Page {
  readonly level: number
  readonly entries: readonly PageEntry[]
  /** Where each entry begins, counted from the page's begin; one more for the end. */
  readonly starts: readonly number[]
}

/** Sixteen bytes that no list of block ids of format 1 begins with: nobody can choose a sha256. */
const magic = Buffer.from("Coppice chunks\n", "latin1")
const header = magic.length + 1
const entryLength = 8 + idLength

/** A page ends after an entry whose id says so (one in 64), never before it has `fewest`, always when it has `most`. */
const fewest = 16
const most = 256
const endMask = 0x3f

/** The id of a hole's entry; nothing is stored under it. */
export const holeId: Digest = idOf(Buffer.alloc(maxChunk))

export const isHole = (entry: PageEntry): boolean => entry.id === holeId

export const isPage = (bytes: Buffer): boolean =>
  bytes.length >= header && bytes.compare(magic, 0, magic.length, 0, magic.length) === 0

export const encodePage = (level: number, entries: readonly PageEntry[]): Buffer => {
  const bytes = Buffer.allocUnsafeSlow(header + entries.length * entryLength)
  bytes.set(magic, 0)
  bytes.writeUInt8(level, magic.length)
  let at = header
  for (const { length, id } of entries) {
    bytes.writeUInt32LE(length % 0x100000000, at)
    bytes.writeUInt32LE(Math.floor(length / 0x100000000), at + 4)
    writeId(bytes, id, at + 8)
    at += entryLength
  }
  return bytes
}

/** Throws a plain Error for bytes of another shape: with a checked id that can only be a bug or a newer format. */
export const decodePage = (bytes: Buffer): Page => {
  const count = (bytes.length - header) / entryLength
  if (!isPage(bytes) || !Number.isInteger(count) || count < 1) throw new Error("This object is no page of a chunk list")
  const entries: PageEntry[] = []
  const starts = [0]
  let total = 0
  for (let at = header; at < bytes.length; at += entryLength) {
    const length = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 0x100000000
    entries.push({ length, id: idFromBytes(bytes, at + 8) })
    total += length
    starts.push(total)
  }
  return { level: bytes.readUInt8(magic.length), entries, starts }
}

/** True when a page that has `count` entries ends with this one. */
export const endsPage = (id: Digest, count: number): boolean =>
  count >= most || (count >= fewest && id !== holeId && (Number.parseInt(id.slice(7, 9), 16) & endMask) === 0)

/** What is needed to keep objects: see ObjectStore. */
export interface ObjectSink {
  readonly has: (id: Digest) => boolean
  readonly writeKnown: (kind: "blob" | "chunk" | "list", id: Digest, bytes: Buffer, like?: Like) => void
}

/** Writes one page; `like` is the page that stood at its place. */
export const writePage = (
  sink: ObjectSink,
  level: number,
  entries: readonly PageEntry[],
  like: Digest | undefined
): PageEntry => {
  const bytes = encodePage(level, entries)
  const id = idOf(bytes)
  if (!sink.has(id)) sink.writeKnown("list", id, bytes, like)
  return { length: entries.reduce((sum, entry) => sum + entry.length, 0), id }
}

interface OpenLevel {
  open: PageEntry[]
  /** Where the open page begins in the file. */
  start: number
  /** The only page so far, held back: when it stays the only one, it is the top. */
  first: PageEntry | undefined
  pages: number
}

/** The page of an older version that stood at a place, as a hint. */
export type LikePage = (level: number, start: number) => Digest | undefined

/** Makes the pages of a whole list, from its entries in order. Holds one open page a level. */
export class PageBuilder {
  readonly #sink: ObjectSink
  readonly #from: number
  readonly #like: LikePage
  readonly #levels: OpenLevel[] = []

  /** `from` is the level of the pages that the added entries go to. */
  constructor(sink: ObjectSink, from: number, like: LikePage) {
    this.#sink = sink
    this.#from = from
    this.#like = like
  }

  add(entry: PageEntry): void {
    this.#add(0, entry)
  }

  #add(n: number, entry: PageEntry): void {
    const level = (this.#levels[n] ??= { open: [], start: 0, first: undefined, pages: 0 })
    level.open.push(entry)
    if (endsPage(entry.id, level.open.length)) this.#close(n, level)
  }

  #close(n: number, level: OpenLevel): void {
    const at = this.#from + n
    const page = writePage(this.#sink, at, level.open, this.#like(at, level.start))
    level.open = []
    level.start += page.length
    level.pages += 1
    if (level.pages === 1) level.first = page
    else {
      if (level.first !== undefined) this.#add(n + 1, level.first)
      level.first = undefined
      this.#add(n + 1, page)
    }
  }

  /** The top page. At least one entry was added. */
  end(): PageEntry {
    for (let n = 0; ; n += 1) {
      const level = this.#levels[n]
      if (level === undefined) throw new Error("A chunk list has no entries")
      if (level.open.length > 0) this.#close(n, level)
      if (level.first !== undefined) return level.first
    }
  }
}

/** Adds chunks in order; a run of holes becomes one entry. */
export class EntryMerger {
  readonly #add: (entry: PageEntry) => void
  #hole = 0

  constructor(add: (entry: PageEntry) => void) {
    this.#add = add
  }

  add(entry: PageEntry): void {
    if (isHole(entry)) {
      this.#hole += entry.length
      return
    }
    this.end()
    this.#add(entry)
  }

  end(): void {
    if (this.#hole > 0) this.#add({ length: this.#hole, id: holeId })
    this.#hole = 0
  }
}
