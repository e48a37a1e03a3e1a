/**
 * A stored chunk list: found by position, read in ranges, and changed at one place.
 * Promise: only the pages and chunks on the way are read; a changed list has the pages that building it anew would give (L14).
 * Rules: L10, L14, L15, C21.
 */
import type { Digest } from "../../src/base/Digest.ts"
import {
  decodePage,
  endsPage,
  isHole,
  type ObjectSink,
  type Page,
  PageBuilder,
  type PageEntry,
  writePage
} from "./ContentPages.ts"
import type { ObjectSource } from "./StoredTrees.ts"

export interface FoundEntry {
  readonly entry: PageEntry
  /** Where it begins in the file. */
  readonly start: number
  /** Where the page that holds it begins. */
  readonly pageStart: number
}

/** Pages kept decoded at most, by one list. */
const keptPages = 64

export class ChunkList {
  readonly size: number
  /** Level of the top page. */
  readonly topLevel: number
  readonly #objects: ObjectSource
  readonly #top: Digest
  readonly #pages = new Map<Digest, Page>()
  #chunk: { readonly id: Digest; readonly bytes: Buffer } | undefined

  constructor(objects: ObjectSource, content: { readonly id: Digest; readonly size: number }) {
    this.#objects = objects
    this.#top = content.id
    this.size = content.size
    const top = this.#page(content.id)
    if (top.starts.at(-1) !== content.size) throw new Error("A chunk list holds another number of bytes than its file")
    this.topLevel = top.level
  }

  #page(id: Digest): Page {
    const known = this.#pages.get(id)
    if (known !== undefined) return known
    const page = decodePage(this.#objects.read(id))
    for (const oldest of this.#pages.keys()) {
      if (this.#pages.size < keptPages) break
      this.#pages.delete(oldest)
    }
    this.#pages.set(id, page)
    return page
  }

  /** The page of a level that holds the byte at `offset`, which is below the size. */
  pageAt(level: number, offset: number): { readonly id: Digest; readonly page: Page; readonly start: number } {
    let id = this.#top
    let start = 0
    for (;;) {
      const page = this.#page(id)
      if (page.level === level) return { id, page, start }
      const n = indexIn(page, offset - start)
      start += page.starts[n]!
      id = page.entries[n]!.id
    }
  }

  /** Entries of a level in order, from the one that holds the byte at `offset`. */
  *entriesFrom(level: number, offset: number): Generator<FoundEntry> {
    for (let at = offset; at < this.size; ) {
      const { page, start } = this.pageAt(level, at)
      for (let n = indexIn(page, at - start); n < page.entries.length; n += 1) {
        yield { entry: page.entries[n]!, start: start + page.starts[n]!, pageStart: start }
      }
      at = start + page.starts.at(-1)!
    }
  }

  /** The chunk, or the run of zeros, that holds the byte at `offset`. */
  chunkAt(offset: number): FoundEntry {
    const { page, start } = this.pageAt(0, offset)
    const n = indexIn(page, offset - start)
    return { entry: page.entries[n]!, start: start + page.starts[n]!, pageStart: start }
  }

  /** Copies bytes of the file into `into`; the range lies inside the file. */
  read(into: Buffer, at: number, length: number, offset: number): number {
    let done = 0
    while (done < length) {
      const { entry, start } = this.chunkAt(offset + done)
      const from = offset + done - start
      const n = Math.min(entry.length - from, length - done)
      if (isHole(entry)) into.fill(0, at + done, at + done + n)
      else this.#bytes(entry).copy(into, at + done, from, from + n)
      done += n
    }
    return done
  }

  #bytes({ id, length }: PageEntry): Buffer {
    if (this.#chunk?.id !== id) this.#chunk = { id, bytes: this.#objects.read(id) }
    if (this.#chunk.bytes.length !== length) throw new Error("A chunk has another length than its list says")
    return this.#chunk.bytes
  }
}

const indexIn = (page: Page, offset: number): number => {
  let low = 0
  let high = page.entries.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (page.starts[middle]! <= offset) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * Replaces the entries of the list that cover `from` to `to` (both where entries begin or the list ends). Returns the new top.
 * Pages are made again from the one with the first replaced entry until one begins where an old one began; then their parents.
 */
export const replaceEntries = (
  sink: ObjectSink,
  list: ChunkList,
  from: number,
  to: number,
  replacement: readonly PageEntry[]
): PageEntry => {
  let entries = replacement
  let begin = from
  let end = to
  for (let level = 0; level <= list.topLevel; level += 1) {
    const first = list.pageAt(level, Math.min(begin, list.size - 1))
    const made: PageEntry[] = []
    let open: PageEntry[] = []
    const close = (): void => {
      made.push(writePage(sink, level, open, first.id))
      open = []
    }
    const add = (entry: PageEntry): void => {
      open.push(entry)
      if (endsPage(entry.id, open.length)) close()
    }
    for (const [n, entry] of first.page.entries.entries()) {
      if (first.start + first.page.starts[n]! < begin) add(entry)
    }
    for (const entry of entries) add(entry)
    for (const { entry, start, pageStart } of list.entriesFrom(level, end)) {
      if (open.length === 0 && start === pageStart) break
      add(entry)
      end = start + entry.length
    }
    if (open.length > 0) close()
    if (first.start === 0 && end === list.size && made.length === 1) return made[0]!
    entries = made
    begin = first.start
  }
  const builder = new PageBuilder(sink, list.topLevel + 1, () => undefined)
  for (const entry of entries) builder.add(entry)
  return builder.end()
}
