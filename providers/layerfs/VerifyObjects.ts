/**
 * Reads every object of the packs back, group by group.
 * Promise: an object passes only when bytes that were just read from its pack have its id; what does not is read once more the
 * way every reader goes, so that an object that a compaction moved meanwhile is no damage. Rules: L10, L12.
 */
import { hash } from "node:crypto"
import type { Digest } from "../../src/base/Digest.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { ByteCache } from "./ByteCache.ts"
import { type Group, GroupFiles, nothing } from "./GroupFiles.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import type { ObjectSource } from "./StoredTrees.ts"

export interface PackedStore {
  readonly db: Database
  readonly reader: ObjectReader
  /** The directory of the packs. */
  readonly packs: string
}

type ObjectRow = readonly [hex: string, kind: number, group: number, offset: number, length: number]

/** Columns of numbers; one that is damaged as a number that can be read, at which nothing lies. */
const numbers = (...columns: readonly string[]): string =>
  columns.map((one) => `iif(${one} BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER}, ${one}, -1) AS ${one}`).join(", ")

/** Every object in the order of the packs. Not one row after the other: an open statement would hide what a compaction moves. */
const objectRows = (db: Database): readonly ObjectRow[] => {
  const statement = db.raw.prepare(
    `SELECT lower(hex(id)), ${numbers("kind", "grp", "offset", "length")} FROM objects o ORDER BY o.grp, o.offset`
  )
  statement.setReturnArrays(true)
  return statement.all() as unknown as readonly ObjectRow[]
}

const groupRows = (db: Database): ReadonlyMap<number, Group> =>
  new Map(
    db.all(`SELECT ${numbers("id", "pack", "offset", "length", "framed")} FROM groups`).map((row) => [
      Number(row["id"]),
      {
        pack: Number(row["pack"]),
        groupOffset: Number(row["offset"]),
        groupLength: Number(row["length"]),
        framed: row["framed"] === 1
      }
    ])
  )

/** Bytes of trees and lists that are kept, so that who walks them next need not decompress what they lie among once more. */
const keptBytes = 32 * 1024 * 1024

/** What the index has, the damaged objects among it. */
export class SeenObjects implements ObjectSource {
  readonly #reader: ObjectReader
  readonly #ids = new Set<Digest>()
  readonly #kept = new ByteCache<Buffer>(keptBytes)

  constructor(reader: ObjectReader) {
    this.#reader = reader
  }

  get size(): number {
    return this.#ids.size
  }

  has(id: Digest): boolean {
    return this.#ids.has(id)
  }

  add(id: Digest): void {
    this.#ids.add(id)
  }

  keep(id: Digest, bytes: Buffer): void {
    this.#kept.put(id, Buffer.from(bytes), bytes.length)
  }

  /** The object, checked. Throws `ObjectDamaged`. */
  read(id: Digest): Buffer {
    return this.#kept.get(id) ?? this.#reader.read(id)
  }
}

/** Reads everything back from the files. `isWalked`: by its kind, an object that the caller will want from what is returned. */
export const verifyObjects = (
  { db, reader, packs }: PackedStore,
  isWalked: (kind: number) => boolean,
  onDamaged: (id: Digest) => void,
  onProgress: (objects: number, bytes: number) => void
): SeenObjects => {
  reader.forget()
  const rows = objectRows(db)
  const groups = groupRows(db)
  const seen = new SeenObjects(reader)
  const files = new GroupFiles(packs)
  let bytes = 0
  let open: number | undefined
  let take = nothing
  try {
    for (const [hex, kind, at, offset, length] of rows) {
      if (at !== open) {
        if (open !== undefined) onProgress(seen.size, bytes)
        const group = groups.get(at)
        take = group === undefined ? nothing : files.open(group)
        open = at
      }
      const id: Digest = `sha256:${hex}`
      const object = take(offset, length)
      if (object?.length !== length || hash("sha256", object, "hex") !== hex) readAgain(reader, id, onDamaged)
      else if (isWalked(kind)) seen.keep(id, object)
      seen.add(id)
      bytes += length
    }
  } finally {
    files.close()
  }
  onProgress(seen.size, bytes)
  return seen
}

const readAgain = (reader: ObjectReader, id: Digest, onDamaged: (id: Digest) => void): void => {
  try {
    reader.read(id)
  } catch (error) {
    if ((error as { _tag?: string })._tag !== "ObjectDamaged") throw error
    onDamaged(id)
  }
}
