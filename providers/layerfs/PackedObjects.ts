/**
 * The object store over pack files and `index.db`.
 * Promise: as the contract in ObjectStore.ts. Every object is hashed when it is taken out of a group and compared with its
 * id; groups, not objects, are kept decompressed in a bounded cache. Rules: L8, L10, L12, L14.
 */
import { closeSync, openSync } from "node:fs"
import { join } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { ObjectDamaged } from "../../src/workspace/WorkspaceError.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { frameGroup, groupTarget, openGroup } from "./Group.ts"
import { idFromBytes, idOf, idToBytes } from "./ObjectId.ts"
import type { ObjectKind, ObjectStore, PackedObject } from "./ObjectStore.ts"
import { hasPackHeader, type PackAppender, packName, readAt } from "./PackFile.ts"

const kinds: readonly ObjectKind[] = ["blob", "tree", "times", "list"]
export const kindNumber = (kind: ObjectKind): number => kinds.indexOf(kind)

/** Decompressed bytes kept at most. */
const groupCacheBytes = 48 * 1024 * 1024

/** Where an object lies, as the index has it. */
export interface Place {
  readonly pack: number
  readonly groupOffset: number
  readonly groupLength: number
  readonly offset: number
  readonly length: number
}

const damaged = (id: Digest): ObjectDamaged =>
  new ObjectDamaged({
    message: "A stored object does not match its id; nothing of it was handed out.",
    remedy: "Run verify to see which paths and commits it belongs to, and restore the pack file from a backup.",
    object: id
  })

/** Reads objects through the index. One per worker. */
export class ObjectReader {
  readonly #db: Database
  readonly #directory: string
  readonly #files = new Map<number, number>()
  readonly #groups = new Map<string, Buffer>()
  #cached = 0

  constructor(db: Database, packDirectory: string) {
    this.#db = db
    this.#directory = packDirectory
  }

  place(id: Digest): Place | undefined {
    const row = this.#db.get(
      `SELECT g.pack, g.offset AS groupOffset, g.length AS groupLength, o.offset, o.length
       FROM objects o JOIN groups g ON g.id = o.grp WHERE o.id = ?`,
      idToBytes(id)
    )
    return row as unknown as Place | undefined
  }

  has(id: Digest): boolean {
    return this.#db.get("SELECT 1 FROM objects WHERE id = ?", idToBytes(id)) !== undefined
  }

  /** The object, checked. Throws `ObjectDamaged`. */
  read(id: Digest): Buffer {
    const place = this.place(id)
    if (place === undefined) throw damaged(id)
    return this.readPlace(id, place)
  }

  readPlace(id: Digest, place: Place): Buffer {
    const group = this.#group(place)
    const bytes = group?.subarray(place.offset, place.offset + place.length)
    if (bytes === undefined || bytes.length !== place.length || idOf(bytes) !== id) throw damaged(id)
    return bytes
  }

  #group(place: Place): Buffer | undefined {
    const key = `${place.pack}:${place.groupOffset}`
    const known = this.#groups.get(key)
    if (known !== undefined) {
      this.#groups.delete(key)
      this.#groups.set(key, known)
      return known
    }
    const fd = this.#file(place.pack)
    if (fd === undefined) return undefined
    const frame = readAt(fd, place.groupOffset, place.groupLength)
    const raw = frame.length === place.groupLength ? openGroup(frame) : undefined
    if (raw !== undefined) this.#remember(key, raw)
    return raw
  }

  #remember(key: string, raw: Buffer): void {
    this.#groups.set(key, raw)
    this.#cached += raw.length
    for (const [oldest, bytes] of this.#groups) {
      if (this.#cached <= groupCacheBytes || oldest === key) break
      this.#groups.delete(oldest)
      this.#cached -= bytes.length
    }
  }

  #file(pack: number): number | undefined {
    const known = this.#files.get(pack)
    if (known !== undefined) return known
    let fd: number
    try {
      fd = openSync(join(this.#directory, packName(pack)), "r")
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
      throw error
    }
    if (!hasPackHeader(fd)) {
      closeSync(fd)
      return undefined
    }
    this.#files.set(pack, fd)
    return fd
  }

  /** What `all` will go through. */
  totals(): { readonly totalFiles: number; readonly totalBytes: number } {
    const row = this.#db.get("SELECT count(*) AS objects, coalesce(sum(length), 0) AS bytes FROM objects")
    return { totalFiles: Number(row?.["objects"] ?? 0), totalBytes: Number(row?.["bytes"] ?? 0) }
  }

  /** Forgets decompressed groups, so that the next read goes to the file. */
  forget(): void {
    this.#groups.clear()
    this.#cached = 0
  }

  /** Every id in the index with its place, in the order of the packs. */
  *all(): Generator<{ id: Digest; place: Place }> {
    const rows = this.#db.all("SELECT id, pack, offset, length FROM groups ORDER BY pack, offset")
    const objects = this.#db.raw.prepare("SELECT id, grp, offset, length FROM objects ORDER BY grp").all()
    const groups = new Map(rows.map((row) => [Number(row["id"]), row]))
    for (const object of objects) {
      const group = groups.get(Number(object["grp"]))
      yield {
        id: idFromBytes(object["id"] as Uint8Array),
        place: {
          pack: Number(group?.["pack"] ?? -1),
          groupOffset: Number(group?.["offset"] ?? 0),
          groupLength: Number(group?.["length"] ?? 0),
          offset: Number(object["offset"]),
          length: Number(object["length"])
        }
      }
    }
  }

  close(): void {
    for (const fd of this.#files.values()) closeSync(fd)
    this.#files.clear()
    this.forget()
  }
}

/** One writer's view: what it wrote and did not commit yet, over what the index has. */
export class ObjectWriter implements ObjectStore {
  readonly #reader: ObjectReader
  readonly #pack: PackAppender
  #open: { id: Digest; kind: ObjectKind; bytes: Buffer }[] = []
  #openBytes = 0
  /** Everything since the last commit: open objects (null place) and those already in the pack. */
  readonly #pending = new Map<Digest, { bytes: Buffer } | { place: PackedObject }>()
  #packed: PackedObject[] = []
  #opened: { readonly at: number; readonly raw: Buffer | undefined } | undefined

  constructor(reader: ObjectReader, pack: PackAppender) {
    this.#reader = reader
    this.#pack = pack
  }

  has(id: Digest): boolean {
    return this.#pending.has(id) || this.#reader.has(id)
  }

  read(id: Digest): Buffer {
    const pending = this.#pending.get(id)
    if (pending === undefined) return this.#reader.read(id)
    if ("bytes" in pending) return pending.bytes
    const bytes = this.#ownGroup(pending.place)?.subarray(
      pending.place.offset,
      pending.place.offset + pending.place.length
    )
    if (bytes === undefined || idOf(bytes) !== id) throw damaged(id)
    return bytes
  }

  /** Objects are asked for in the order they were written, many of one group in a row: the last one is kept. */
  #ownGroup({ groupOffset, groupLength }: PackedObject): Buffer | undefined {
    if (this.#opened?.at !== groupOffset) {
      this.#opened = { at: groupOffset, raw: openGroup(this.#pack.read(groupOffset, groupLength)) }
    }
    return this.#opened.raw
  }

  size(id: Digest): number {
    const pending = this.#pending.get(id)
    if (pending !== undefined) return "bytes" in pending ? pending.bytes.length : pending.place.length
    const place = this.#reader.place(id)
    if (place === undefined) throw damaged(id)
    return place.length
  }

  write(kind: ObjectKind, bytes: Buffer, like?: Digest): Digest {
    const id = idOf(bytes)
    this.writeKnown(kind, id, bytes, like)
    return id
  }

  writeKnown(kind: ObjectKind, id: Digest, bytes: Buffer, _like?: Digest): void {
    if (this.has(id)) return
    if (this.#openBytes > 0 && this.#openBytes + bytes.length > groupTarget) this.#seal()
    this.#open.push({ id, kind, bytes })
    this.#openBytes += bytes.length
    this.#pending.set(id, { bytes })
  }

  /** Adds a group that was framed elsewhere (an import's reader thread). */
  addGroup(
    frame: Uint8Array,
    objects: readonly { id: Digest; kind: ObjectKind; offset: number; length: number }[]
  ): void {
    const groupOffset = this.#pack.append(frame)
    for (const object of objects) {
      if (this.#pending.has(object.id)) continue
      const place = { ...object, pack: this.#pack.id, groupOffset, groupLength: frame.length }
      this.#pending.set(object.id, { place })
      this.#packed.push(place)
    }
  }

  #seal(): void {
    if (this.#open.length === 0) return
    const frame = frameGroup(
      this.#open.map((object) => object.bytes),
      this.#openBytes
    )
    const groupOffset = this.#pack.append(frame)
    let offset = 0
    for (const { id, kind, bytes } of this.#open) {
      const place = {
        id,
        kind,
        pack: this.#pack.id,
        groupOffset,
        groupLength: frame.length,
        offset,
        length: bytes.length
      }
      this.#pending.set(id, { place })
      this.#packed.push(place)
      offset += bytes.length
    }
    this.#open = []
    this.#openBytes = 0
  }

  /** See `PackAppender.allow`. */
  allow(allowed: ((appended: number) => void) | undefined): void {
    this.#pack.allow(allowed)
  }

  /** Starts writing pack bytes to the disk early, so that the last `flush` waits for little. */
  syncSoFar(): void {
    this.#pack.sync()
  }

  flush(): readonly PackedObject[] {
    this.#seal()
    if (this.#packed.length > 0) {
      crashPoint("layerfs.pack.written")
      this.#pack.sync()
    }
    return this.#packed
  }

  /** Pack lengths that belong to what `flush` returned. */
  packLengths(): ReadonlyMap<number, number> {
    return new Map([[this.#pack.id, this.#pack.position]])
  }

  /** The index has everything that was flushed. */
  committed(): void {
    this.#pending.clear()
    this.#packed = []
    this.#opened = undefined
    this.#pack.committed()
  }

  abandon(): void {
    this.#open = []
    this.#openBytes = 0
    this.#pending.clear()
    this.#packed = []
    this.#opened = undefined
    this.#pack.rewind()
  }

  verify(onDamaged: (id: Digest) => void, onProgress?: (objects: number, bytes: number) => void): number {
    return verifyObjects(this.#reader, onDamaged, onProgress)
  }
}

/** Reads everything back from the files; returns how many objects were looked at. */
export const verifyObjects = (
  reader: ObjectReader,
  onDamaged: (id: Digest) => void,
  onProgress?: (objects: number, bytes: number) => void
): number => {
  reader.forget()
  let count = 0
  let bytes = 0
  for (const { id, place } of reader.all()) {
    try {
      reader.readPlace(id, place)
    } catch (error) {
      if ((error as { _tag?: string })._tag !== "ObjectDamaged") throw error
      onDamaged(id)
    }
    count += 1
    bytes += place.length
    onProgress?.(count, bytes)
  }
  return count
}

/** Writes the index rows of flushed objects. Inside the caller's transaction. */
export const insertObjects = (
  db: Database,
  objects: readonly PackedObject[],
  packLengths: ReadonlyMap<number, number>
): void => {
  const groups = new Map<string, number>()
  const rows = objects.map((object) => {
    const key = `${object.pack}:${object.groupOffset}`
    let group = groups.get(key)
    if (group === undefined) {
      const made = db.get(
        "INSERT INTO groups (pack, offset, length) VALUES (?, ?, ?) RETURNING id",
        object.pack,
        object.groupOffset,
        object.groupLength
      )
      group = Number(made!["id"])
      groups.set(key, group)
    }
    return { object, group, id: idToBytes(object.id) }
  })
  // In key order the b-tree grows at its end instead of splitting pages everywhere.
  rows.sort((a, b) => (a.object.id < b.object.id ? -1 : 1))
  const insert = db.prepare("INSERT OR IGNORE INTO objects (id, kind, grp, offset, length) VALUES (?, ?, ?, ?, ?)")
  for (const { object, group, id } of rows) {
    insert.run(id, kindNumber(object.kind), group, object.offset, object.length)
  }
  for (const [pack, length] of packLengths) db.run("UPDATE packs SET length = ? WHERE id = ?", length, pack)
}
