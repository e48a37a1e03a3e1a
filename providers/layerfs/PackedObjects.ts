/**
 * Writes objects: into solid groups, or as frames (see Frame.ts) where an object is like another one or is read by itself.
 * Promise: as the contract in ObjectStore.ts. What a commit wrote is visible to it before the index knows it, read back from
 * the pack and checked like anything else. Rules: L8, L10, L14, C21; 04 "Storage".
 */
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { chainBytes, chainDepth, costOf, deltaFrame, deltaOf, mostBases, wholeFrame } from "./Frame.ts"
import { frameGroup, groupTarget } from "./Group.ts"
import { idOf, idToBytes } from "../../src/base/DigestBytes.ts"
import { type Decoded, joined, type ObjectReader } from "./ObjectReader.ts"
import { damaged } from "./StoreReader.ts"
import type { Like, ObjectKind, ObjectStore, PackedObject, Place } from "./ObjectStore.ts"
import type { PackAppender } from "./PackFile.ts"

const kinds: readonly ObjectKind[] = ["blob", "tree", "times", "list", "chunk"]
export const kindNumber = (kind: ObjectKind): number => kinds.indexOf(kind)
export const isKind = (number: number): boolean => kinds[number] !== undefined
/** What an object is used as: a file's content has several kinds. */
export type ObjectUse = "tree" | "times" | "content"
export const useOf = (kind: ObjectKind): ObjectUse => (kind === "tree" || kind === "times" ? kind : "content")
/** A number that no version wrote can only be damage: it is taken for the kind of which least is expected. */
export const kindOf = (number: number): ObjectKind => kinds[number] ?? "blob"

/** zstd's level for frames: 04 "Storage", the spikes. */
const level = 3
/** Below this the head of a delta costs more than the delta saves. */
export const smallestDelta = 96
/**
 * A delta is taken at once below this part of the object, and else below this part of what the object weighs whole. Directories, times
 * and lists are mostly ids and times, which zstd makes little smaller: what is half of one needs no trial, which costs 0.1 ms.
 */
const clearlySmall = (kind: ObjectKind): number => (kind === "blob" || kind === "chunk" ? 0.1 : 0.5)
const worthIt = 0.9
/** True when a delta saves enough. An edit costs next to nothing; only where it may be close is the other way tried out. */
export const isWorthIt = (kind: ObjectKind, delta: Buffer, object: Buffer): boolean =>
  delta.length <= object.length * clearlySmall(kind) || delta.length <= wholeFrame(object, level).length * worthIt
/** Bytes of objects that wait as frames at most. */
const framedRawBound = 8 * 1024 * 1024

/** An object since the last commit: its bytes while they wait for the pack, then its place there. */
interface Waiting {
  readonly id: Digest
  readonly kind: ObjectKind
  readonly bytes: Buffer
  readonly depth: number
  readonly cost: number
}

/** One writer's view: what it wrote and did not commit yet, over what the index has. */
export class ObjectWriter implements ObjectStore {
  readonly #reader: ObjectReader
  readonly #pack: PackAppender
  /** The group that is being filled, and the frames beside it. */
  #open: Waiting[] = []
  #openBytes = 0
  #framed: { readonly object: Waiting; readonly frame: Buffer }[] = []
  #framedBytes = 0
  #framedRaw = 0
  readonly #pending = new Map<Digest, Waiting | PackedObject>()
  #packed: PackedObject[] = []
  /** What `keep` stands for: how many of the packed, and where the pack ended. What came since is `#since`. */
  #mark: { readonly packed: number; readonly position: number }
  #since: Digest[] = []
  readonly #find = (id: Digest): Place | undefined => {
    const pending = this.#pending.get(id)
    return pending !== undefined && "pack" in pending ? pending : this.#reader.place(id)
  }

  constructor(reader: ObjectReader, pack: PackAppender) {
    this.#reader = reader
    this.#pack = pack
    this.#mark = { packed: 0, position: pack.position }
  }

  has(id: Digest): boolean {
    return this.#pending.has(id) || this.#reader.has(id)
  }

  read(id: Digest): Buffer {
    const pending = this.#pending.get(id)
    return pending !== undefined && "bytes" in pending ? pending.bytes : this.#reader.readCosted(id, this.#find).raw
  }

  /** See `ObjectReader.reading`. */
  reading<A>(look: () => A): A {
    return this.#reader.reading(look)
  }

  size(id: Digest): number {
    const pending = this.#pending.get(id)
    if (pending !== undefined) return "bytes" in pending ? pending.bytes.length : pending.length
    const place = this.#reader.place(id)
    if (place === undefined) throw damaged(id)
    return place.length
  }

  /** The kind that an object was written as since the last commit; undefined for any other. */
  kindSinceFlush(id: Digest): ObjectKind | undefined {
    return this.#pending.get(id)?.kind
  }

  write(kind: ObjectKind, bytes: Buffer, like?: Like): Digest {
    const id = idOf(bytes)
    this.writeKnown(kind, id, bytes, like)
    return id
  }

  writeKnown(kind: ObjectKind, id: Digest, bytes: Buffer, like?: Like): void {
    if (this.has(id)) return
    const likes = typeof like === "string" ? [like] : (like?.slice(0, mostBases) ?? [])
    if (likes.length > 0 && this.#writeDelta(kind, id, bytes, likes)) return
    const object = { id, kind, bytes, depth: 0, cost: bytes.length }
    if (kind === "chunk")
      return this.#addFrame({ ...object, cost: costOf(bytes.length, false) }, wholeFrame(bytes, level))
    if (this.#openBytes > 0 && this.#openBytes + bytes.length > groupTarget) this.#seal()
    this.#open.push(object)
    this.#openBytes += bytes.length
    this.#add(id, object)
  }

  #add(id: Digest, object: Waiting | PackedObject): void {
    if (!this.#pending.has(id)) this.#since.push(id)
    this.#pending.set(id, object)
  }

  /** False where it would save too little, or make reading cost too much: then the object is stored whole. */
  #writeDelta(kind: ObjectKind, id: Digest, bytes: Buffer, likes: readonly Digest[]): boolean {
    if (bytes.length < smallestDelta || bytes.length > chainBytes / 2) return false
    const bases = this.#basesOf(likes, chainBytes - bytes.length)
    if (bases === undefined) return false
    if (bases.depth >= chainDepth || bases.cost > chainBytes) return false
    const delta = deltaOf(kind, bytes, bases.raw, level, likes.length)
    if (delta === undefined) return this.#writeDelta(kind, id, bytes, likes.slice(0, 1))
    const cost = bases.cost + costOf(bytes.length, delta.isPatch)
    const frame = deltaFrame(bytes.length, { ids: likes }, delta)
    if (cost > chainBytes || !isWorthIt(kind, frame, bytes)) return false
    this.#addFrame({ id, kind, bytes, depth: bases.depth + 1, cost }, frame)
    return true
  }

  /** Undefined where one is missing or damaged, which is no reason to refuse what is sound, or where they are longer than `most`. */
  #basesOf(likes: readonly Digest[], most: number): Decoded | undefined {
    const parts: Decoded[] = []
    let length = 0
    try {
      for (const id of likes) {
        const at = this.#pending.get(id) ?? this.#reader.place(id)
        if (at === undefined) return undefined
        const isWaiting = "bytes" in at
        length += isWaiting ? at.bytes.length : at.length
        if (length > most) return undefined
        parts.push(
          isWaiting ? { raw: at.bytes, depth: at.depth, cost: at.cost } : this.#reader.readCosted(id, this.#find, at)
        )
      }
    } catch (error) {
      if ((error as { _tag?: string })._tag === "ObjectDamaged") return undefined
      throw error
    }
    return length === 0 ? undefined : joined(parts)
  }

  #addFrame(object: Waiting, frame: Buffer): void {
    this.#framed.push({ object, frame })
    this.#framedBytes += frame.length
    this.#framedRaw += object.bytes.length
    this.#add(object.id, object)
    if (this.#framedBytes >= groupTarget || this.#framedRaw >= framedRawBound) this.#sealFramed()
  }

  /** Adds a group that was framed elsewhere (an import's reader thread). */
  addGroup(
    frame: Uint8Array,
    objects: readonly { id: Digest; kind: ObjectKind; offset: number; length: number }[],
    framed = false
  ): void {
    const groupOffset = this.#pack.append(frame)
    for (const object of objects) {
      if (this.#pending.has(object.id)) continue
      this.#place({ ...object, pack: this.#pack.id, groupOffset, groupLength: frame.length, framed })
    }
  }

  #place(place: PackedObject): void {
    this.#add(place.id, place)
    this.#packed.push(place)
  }

  #seal(): void {
    if (this.#open.length === 0) return
    const parts = this.#open.map((object) => object.bytes)
    const frame = frameGroup(parts, this.#openBytes)
    const group = { pack: this.#pack.id, groupOffset: this.#pack.append(frame), groupLength: frame.length }
    let offset = 0
    for (const { id, kind, bytes } of this.#open) {
      this.#place({ id, kind, ...group, framed: false, offset, length: bytes.length })
      offset += bytes.length
    }
    this.#open = []
    this.#openBytes = 0
  }

  #sealFramed(): void {
    if (this.#framed.length === 0) return
    const bytes = Buffer.concat(this.#framed.map((one) => one.frame))
    const group = { pack: this.#pack.id, groupOffset: this.#pack.append(bytes), groupLength: bytes.length }
    let offset = 0
    for (const { object, frame } of this.#framed) {
      this.#place({ id: object.id, kind: object.kind, ...group, framed: true, offset, length: object.bytes.length })
      offset += frame.length
    }
    this.#forgetFramed()
  }

  #forgetFramed(): void {
    this.#framed = []
    this.#framedBytes = 0
    this.#framedRaw = 0
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
    if (this.#writeOut()) this.#pack.sync()
    return this.#packed
  }

  /**
   * Writes out what came since the last commit or `keep`, not yet durable: the rows of one commit, and the pack lengths that belong to
   * them. Until `keep`, `abandon` forgets it too.
   */
  stage(): { readonly objects: readonly PackedObject[]; readonly packLengths: ReadonlyMap<number, number> } {
    this.#writeOut()
    return { objects: this.#packed.slice(this.#mark.packed), packLengths: this.packLengths() }
  }

  /** What was staged waits to be committed: only `abandonAll` forgets it. */
  keep(): void {
    this.#mark = { packed: this.#packed.length, position: this.#pack.position }
    this.#since = []
  }

  /** Makes what was staged durable beside other work of this thread, which writes nothing meanwhile. */
  syncBeside(): Promise<void> {
    const done = this.#packed.length > 0 ? this.#pack.syncBeside() : Promise.resolve()
    // Whoever waits for it is told; a caller that failed before is not failed twice.
    done.catch(() => undefined)
    return done
  }

  #writeOut(): boolean {
    this.#seal()
    this.#sealFramed()
    if (this.#packed.length > 0) crashPoint("layerfs.pack.written")
    return this.#packed.length > 0
  }

  /** Pack lengths that belong to what `flush` returned. */
  packLengths(): ReadonlyMap<number, number> {
    return new Map([[this.#pack.id, this.#pack.position]])
  }

  /** The index has everything that was flushed or staged. */
  committed(): void {
    this.#pending.clear()
    this.#packed = []
    this.#pack.committed()
    this.keep()
  }

  /** Forgets what was written since the last commit or `keep`. */
  abandon(): void {
    this.#open = []
    this.#openBytes = 0
    this.#forgetFramed()
    for (const id of this.#since) this.#pending.delete(id)
    this.#since = []
    this.#packed.length = this.#mark.packed
    this.#pack.rewind(this.#mark.position)
    // Read back while it waited, perhaps; the next commit writes other bytes there.
    this.#reader.forgetFrom(this.#pack.id, this.#pack.position)
  }

  /** The same with what was kept. */
  abandonAll(): void {
    this.#pending.clear()
    this.#mark = { packed: 0, position: this.#pack.committedPosition }
    this.abandon()
  }
}

/** Writes the index rows of flushed objects; answers how many the index did not have. Inside the caller's transaction. */
export const insertObjects = (
  db: Database,
  objects: readonly PackedObject[],
  packLengths: ReadonlyMap<number, number>
): number => {
  const groups = new Map<string, number>()
  const rows = objects.map((object) => {
    const key = `${object.pack}:${object.groupOffset}`
    let group = groups.get(key)
    if (group === undefined) {
      const made = db.get(
        "INSERT INTO groups (pack, offset, length, framed) VALUES (?, ?, ?, ?) RETURNING id",
        object.pack,
        object.groupOffset,
        object.groupLength,
        object.framed ? 1 : 0
      )
      group = Number(made!["id"])
      groups.set(key, group)
    }
    return { object, group }
  })
  // In key order the b-tree grows at its end instead of splitting pages everywhere.
  rows.sort((a, b) => (a.object.id < b.object.id ? -1 : 1))
  const insert = db.prepare("INSERT OR IGNORE INTO objects (id, kind, grp, offset, length) VALUES (?, ?, ?, ?, ?)")
  let added = 0
  for (const { object, group } of rows) {
    const { changes } = insert.run(idToBytes(object.id), kindNumber(object.kind), group, object.offset, object.length)
    added += Number(changes)
  }
  for (const [pack, length] of packLengths) db.run("UPDATE packs SET length = ? WHERE id = ?", length, pack)
  return added
}
