/**
 * Reads objects through the index: out of solid groups, out of frames, and along chains of deltas.
 * Promise: every object is hashed when it is taken out and compared with its id, whatever it was put together from; groups and
 * frames are kept decoded in bounded caches; an object that a compaction moved meanwhile is found where it lies now.
 * Rules: L8, L10, L12, C21.
 */
import { closeSync, fstatSync, openSync } from "node:fs"
import { join } from "node:path"
import type { Digest } from "../../src/base/Digest.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { ByteCache } from "./ByteCache.ts"
import { costOf, deltaFrame, type Frame, longestChain, mostFrames, openFrame, parseFrame } from "./Frame.ts"
import { free, openGroup } from "./Group.ts"
import { idOf, idToBytes } from "../../src/base/DigestBytes.ts"
import type { Place } from "./ObjectStore.ts"
import { hasPackHeader, packName, readAt } from "./PackFile.ts"

/** Decompressed bytes kept at most. */
const groupCacheBytes = 48 * 1024 * 1024
const frameCacheBytes = 32 * 1024 * 1024
const recentBytes = 8 * 1024 * 1024
const smallObject = 32 * 1024
/** Most frames of an edited file are smaller: one read of the file for head and payload. */
const firstRead = 4096
/** How often an object whose pack went away is looked up again: each time means a whole compaction of that pack. */
const lookups = 3

/** The bytes at a place, with the deltas they went through and the bytes decoded for them along the chain. */
export interface Decoded {
  readonly raw: Buffer
  readonly depth: number
  readonly cost: number
}

/** Several objects, one behind the other, as the base of one. */
export const joined = (parts: readonly Decoded[]): Decoded =>
  parts.length === 1
    ? parts[0]!
    : {
        raw: Buffer.concat(parts.map((part) => part.raw)),
        depth: Math.max(...parts.map((part) => part.depth)),
        cost: parts.reduce((sum, part) => sum + part.cost, 0)
      }

/** Decoded groups beside the memory, by a key of the reader's. */
export interface GroupSpill {
  /** False when it was not kept. */
  readonly put: (key: string, group: Buffer) => boolean
  readonly get: (key: string, offset: number, length: number, into?: Buffer) => Buffer | undefined
}

/** What is needed of the index. */
export type IndexSource = Pick<Database, "get" | "raw">

type Find = (id: Digest) => Place | undefined

const placeOf = (row: Record<string, unknown>): Place => ({
  pack: Number(row["pack"]),
  groupOffset: Number(row["groupOffset"]),
  groupLength: Number(row["groupLength"]),
  framed: row["framed"] === 1,
  offset: Number(row["offset"]),
  length: Number(row["length"])
})

/** One per thread that reads. */
export class ObjectReader {
  readonly #db: IndexSource
  readonly #directory: string
  readonly #failure: (id: Digest) => Error
  readonly #spill: GroupSpill | undefined
  readonly #files = new Map<number, number>()
  readonly #groups = new ByteCache<Buffer>(groupCacheBytes)
  readonly #frames = new ByteCache<Decoded>(frameCacheBytes)
  readonly #find: Find
  /** Small objects that were checked: a directory that is edited is looked at, and then the base of the new one. */
  readonly #recent = new ByteCache<Decoded>(recentBytes)
  /** A pack named by the index was not there. */
  #missed = false
  /** The index is seen as it was when `reading` began. */
  #isReading = false
  #decodedBytes = 0

  /** `failure` makes what is thrown for an object that cannot be read; `spill` keeps decoded groups beyond the bound of memory. */
  constructor(db: IndexSource, packDirectory: string, failure: (id: Digest) => Error, spill?: GroupSpill) {
    this.#db = db
    this.#spill = spill
    this.#failure = failure
    this.#directory = packDirectory
    this.#find = (id) => this.place(id)
  }

  /** Bytes that were decompressed or taken from a file since the reader was made: what reading costs (C21). */
  get decodedBytes(): number {
    return this.#decodedBytes
  }

  /** Undefined also where its row is damaged. */
  place(id: Digest): Place | undefined {
    try {
      const row = this.#db.get(
        `SELECT g.pack, g.offset AS groupOffset, g.length AS groupLength, g.framed, o.offset, o.length
         FROM objects o JOIN groups g ON g.id = o.grp WHERE o.id = ?`,
        idToBytes(id)
      )
      return row === undefined ? undefined : placeOf(row)
    } catch (error) {
      if ((error as { _tag?: string })._tag === "StorageFailure") return undefined
      throw error
    }
  }

  /**
   * Runs `look`, which does not wait, with one look at the index for all that it reads: each by itself takes and gives back the
   * index's locks, which costs as much as the look.
   */
  reading<A>(look: () => A): A {
    if (this.#db.raw.isTransaction) return look()
    this.#db.raw.exec("BEGIN")
    this.#isReading = true
    try {
      return look()
    } finally {
      this.#isReading = false
      if (this.#db.raw.isTransaction) this.#db.raw.exec("COMMIT")
    }
  }

  has(id: Digest): boolean {
    return this.#db.get("SELECT 1 FROM objects WHERE id = ?", idToBytes(id)) !== undefined
  }

  /** The object, checked. Throws the failure given. */
  read(id: Digest): Buffer {
    return this.readCosted(id, this.#find).raw
  }

  /**
   * Same, where it was seen to lie a moment ago: saves a look into the index. The bytes may lie in `into`, where one is given and has the room: memory that is made
   * for each object costs more than the object.
   */
  readPlace(id: Digest, place: Place, into?: Buffer): Buffer {
    const raw = place.framed ? this.decodeAt(place)?.raw : this.#part(place, into)
    return raw?.length === place.length && idOf(raw) === id ? raw : this.read(id)
  }

  /** Same, with what it cost. `find` knows where objects lie that the index does not know yet, `seen` where it lay a moment ago. */
  readCosted(id: Digest, find: Find, seen?: Place): Decoded {
    const known = this.#recent.get(id)
    if (known !== undefined) return known
    for (let attempt = 1; ; attempt += 1) {
      this.#missed = false
      const place = attempt === 1 && seen !== undefined ? seen : find(id)
      if (place === undefined) throw this.#failure(id)
      const decoded = this.decodeAt(place, find)
      if (decoded !== undefined && decoded.raw.length === place.length && idOf(decoded.raw) === id) {
        return decoded.raw.length <= smallObject ? this.#keep(id, decoded) : decoded
      }
      // Another process compacts: a pack that went away between two looks at the index, this object's or a base's.
      if (!this.#missed || attempt === lookups) throw this.#failure(id)
      if (this.#isReading) this.#db.raw.exec("COMMIT; BEGIN")
    }
  }

  /** In memory of its own: a slice would hold the whole group that it was taken from, long after the groups' own bound. */
  #keep(id: Digest, { raw, depth, cost }: Decoded): Decoded {
    const own = Buffer.allocUnsafeSlow(raw.length)
    raw.copy(own)
    const kept = { raw: own, depth, cost }
    this.#recent.put(id, kept, own.length + 200)
    return kept
  }

  /** The frame of an object that is built on others by their ids, as it lies in its pack; undefined for any other. */
  deltaFrameOf(id: Digest): Buffer | undefined {
    const place = this.place(id)
    const frame = place?.framed === true ? this.#frame(place) : undefined
    if (frame?.base === undefined || !("ids" in frame.base)) return undefined
    const { rawLength, base, form, payload } = frame
    return deltaFrame(rawLength, base, { isPatch: form === "patch", payload })
  }

  /** The bytes at a place, not compared with any id; undefined when they cannot be had. */
  decodeAt(place: Place, find: Find = this.#find): Decoded | undefined {
    return this.#decode(place, find, { frames: mostFrames }, 0)
  }

  /** `left` bounds the frames that are opened, all bases together; `above` are those that wait for this one. */
  #decode(place: Place, find: Find, left: { frames: number }, above: number): Decoded | undefined {
    const chain: { readonly key: string; readonly frame: Frame }[] = []
    let decoded: Decoded | undefined
    for (let at = place; decoded === undefined; ) {
      if (!at.framed) {
        const raw = this.#part(at)
        if (raw?.length !== at.length) return undefined
        decoded = { raw, depth: 0, cost: raw.length }
        break
      }
      const key = `${at.pack}:${at.groupOffset + at.offset}`
      decoded = this.#frames.get(key)
      if (decoded !== undefined) break
      const frame = this.#frame(at)
      if (frame === undefined || --left.frames < 0 || above + chain.length >= longestChain) return undefined
      chain.push({ key, frame })
      const { base } = frame
      if (base === undefined) break
      if ("ids" in base && base.ids.length > 1) {
        decoded = this.#joined(base.ids, find, left, above + chain.length)
        if (decoded === undefined) return undefined
        break
      }
      const next = "ids" in base ? find(base.ids[0]!) : { ...at, offset: at.offset - base.back, length: 0 }
      if (next === undefined || next.offset < 0) return undefined
      at = next
    }
    for (const { key, frame } of chain.toReversed()) {
      const raw = openFrame(frame, decoded?.raw)
      if (raw === undefined) return undefined
      this.#decodedBytes += raw.length
      decoded = {
        raw,
        depth: decoded === undefined ? 0 : decoded.depth + 1,
        cost: (decoded?.cost ?? 0) + costOf(raw.length, frame.form === "patch")
      }
      this.#frames.put(key, decoded, raw.length)
    }
    return decoded
  }

  /** Several bases, one behind the other. */
  #joined(ids: readonly Digest[], find: Find, left: { frames: number }, above: number): Decoded | undefined {
    const parts: Decoded[] = []
    for (const id of ids) {
      const place = find(id)
      const part = place === undefined ? undefined : this.#decode(place, find, left, above)
      if (part === undefined) return undefined
      parts.push(part)
    }
    return joined(parts)
  }

  /** An object of a solid group. */
  #part(place: Place, into?: Buffer): Buffer | undefined {
    const key = `${place.pack}:${place.groupOffset}`
    const { offset, length } = place
    const known = this.#groups.get(key)
    const kept = known?.subarray(offset, offset + length) ?? this.#spill?.get(key, offset, length, into)
    if (kept !== undefined) return kept
    const group = this.#group(place)
    const part = group?.subarray(offset, offset + length)
    if (group === undefined || part === undefined) return undefined
    if (this.#spill?.put(key, group) !== true) {
      this.#groups.put(key, group, group.length)
      return part
    }
    const own =
      into !== undefined && part.length <= into.length ? into.subarray(0, part.length) : Buffer.allocUnsafe(part.length)
    part.copy(own)
    // Left to the collector, which is called for every few of them, they cost as much as their decompression.
    free(group)
    return own
  }

  #group(place: Place): Buffer | undefined {
    const fd = this.#file(place.pack)
    if (fd === undefined) return undefined
    const frame = readAt(fd, place.groupOffset, place.groupLength)
    const raw = frame.length === place.groupLength ? openGroup(frame) : undefined
    if (raw?.buffer !== frame.buffer) free(frame)
    this.#decodedBytes += raw?.length ?? 0
    return raw
  }

  #frame(place: Place): Frame | undefined {
    const fd = this.#file(place.pack)
    if (fd === undefined) return undefined
    const from = place.groupOffset + place.offset
    const rest = place.groupLength - place.offset
    const frame = parseFrame(readAt(fd, from, Math.min(firstRead, rest)))
    if (frame === undefined) return undefined
    const { headLength, payloadLength, payload } = frame
    if (payload.length === payloadLength) return frame
    if (headLength + payloadLength > rest) return undefined
    return { ...frame, payload: readAt(fd, from + headLength, payloadLength) }
  }

  #file(pack: number): number | undefined {
    const known = this.#files.get(pack)
    if (known !== undefined) return known
    let fd: number
    try {
      fd = openSync(join(this.#directory, packName(pack)), "r")
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
      this.#missed = true
      return undefined
    }
    if (!hasPackHeader(fd)) {
      closeSync(fd)
      return undefined
    }
    this.closeRemoved()
    this.#files.set(pack, fd)
    return fd
  }

  /** Lets go of packs that a compaction removed: an open file keeps its space. */
  closeRemoved(): void {
    for (const [pack, fd] of this.#files) {
      if (fstatSync(fd).nlink > 0) continue
      closeSync(fd)
      this.#files.delete(pack)
    }
  }

  /** What there is in all. */
  totals(): { readonly totalFiles: number; readonly totalBytes: number } {
    const row = this.#db.get("SELECT count(*) AS objects, total(length) AS bytes FROM objects")
    return { totalFiles: Number(row?.["objects"] ?? 0), totalBytes: Number(row?.["bytes"] ?? 0) }
  }

  /** Forgets what is decoded, so that the next read goes to the file. */
  forget(): void {
    this.#recent.clear()
    this.#groups.clear()
    this.#frames.clear()
  }

  /** Forgets what lies in a pack from `offset` on: it was never committed, and other bytes may follow there. */
  forgetFrom(pack: number, offset: number): void {
    const isAbove = (key: string): boolean => {
      const [of, at] = key.split(":")
      return Number(of) === pack && Number(at) >= offset
    }
    this.#groups.dropWhere(isAbove)
    this.#frames.dropWhere(isAbove)
  }

  close(): void {
    for (const fd of this.#files.values()) closeSync(fd)
    this.#files.clear()
    this.forget()
  }
}
