/**
 * Append-only pack files, each with one writer at a time.
 * Promise: bytes past the length that the index knows belong to nobody and are cut before the next append; a pack whose
 * writer may still live is never touched; an append is durable when `sync` returned (L8). Rules: L8, L12; 01 "On disk".
 */
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { syncDirectory } from "../../src/workspace/kit/StoreDirectory.ts"
import { formatVersion } from "./IndexSchema.ts"

/** A pack that has grown past this is sealed: no new writer takes it. */
export const sealAt = 512 * 1024 * 1024

const magic = Buffer.from("COPPACK\n", "latin1")
export const packHeaderLength = 16

export const packName = (id: number): string => `${String(id).padStart(6, "0")}.pack`

const headerBytes = (): Buffer => {
  const bytes = Buffer.alloc(packHeaderLength)
  bytes.set(magic, 0)
  bytes.writeUInt32LE(formatVersion, magic.length)
  return bytes
}

/** The pack that one writer appends to. */
export class PackAppender {
  readonly id: number
  readonly #fd: number
  readonly #directory: string
  #isNew: boolean
  #position: number
  #committed: number
  /** Throws when what was appended since it was set is more than may be. */
  #allowed: ((appended: number) => void) | undefined
  #allowedFrom = 0

  constructor(directory: string, id: number, length: number) {
    this.id = id
    this.#directory = directory
    faultPoint("layerfs.pack.create")
    this.#fd = openSync(join(directory, packName(id)), length === 0 ? "w+" : "r+", 0o600)
    this.#isNew = length === 0
    this.#position = length === 0 ? packHeaderLength : length
    this.#committed = this.#position
    try {
      if (length === 0) writeSync(this.#fd, headerBytes(), 0, packHeaderLength, 0)
      else if (fstatSync(this.#fd).size > length) ftruncateSync(this.#fd, length)
    } catch (error) {
      closeSync(this.#fd)
      throw error
    }
  }

  get position(): number {
    return this.#position
  }

  /** Where the last commit ended. */
  get committedPosition(): number {
    return this.#committed
  }

  /** Until the next commit or rewind, `append` asks first, and throws what it throws (W15). */
  allow(allowed: ((appended: number) => void) | undefined): void {
    this.#allowed = allowed
    this.#allowedFrom = this.#position
  }

  /** Appends bytes; returns where they begin. Nothing is durable before `sync`. */
  append(bytes: Uint8Array): number {
    const at = this.#position
    this.#allowed?.(at + bytes.length - this.#allowedFrom)
    let done = 0
    faultPoint("layerfs.pack.append")
    while (done < bytes.length) done += writeSync(this.#fd, bytes, done, bytes.length - done, at + done)
    this.#position = at + bytes.length
    return at
  }

  /** `sync` beside other work of this thread, which must not append meanwhile. */
  async syncBeside(): Promise<void> {
    if (this.#isNew) return this.sync()
    faultPoint("layerfs.pack.sync")
    await promisify(fdatasync)(this.#fd)
  }

  sync(): void {
    faultPoint("layerfs.pack.sync")
    if (this.#isNew) {
      fsyncSync(this.#fd)
      faultPoint("layerfs.pack.syncDirectory")
      syncDirectory(this.#directory)
      this.#isNew = false
    } else {
      fdatasyncSync(this.#fd)
    }
  }

  /** The index now knows everything up to here. */
  committed(): void {
    this.#committed = this.#position
    this.#allowed = undefined
  }

  /** Cuts what was appended since the last commit, or behind `to`. */
  rewind(to = this.#committed): void {
    this.#allowed = undefined
    if (this.#position === to) return
    try {
      faultPoint("layerfs.pack.truncate")
      ftruncateSync(this.#fd, to)
      this.#position = to
    } catch {
      // Called where a commit has failed already, whose error is the one to tell. The bytes belong to nobody: the next commit
      // goes on behind them, or the next writer cuts them.
    }
  }

  read(offset: number, length: number): Buffer {
    return readAt(this.#fd, offset, length)
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** No pack is as long, and nothing in one: a row that says so is damaged. */
const farthest = 2 ** 40
const longest = 256 * 1024 * 1024

/** Reads exactly `length` bytes, or fewer where the file ends. */
export const readAt = (fd: number, offset: number, length: number): Buffer => {
  if (!(offset >= 0 && offset <= farthest && length >= 0 && length <= longest)) return Buffer.alloc(0)
  const bytes = Buffer.allocUnsafe(length)
  let done = 0
  while (done < length) {
    const n = readSync(fd, bytes, done, length - done, offset + done)
    if (n === 0) return bytes.subarray(0, done)
    done += n
  }
  return bytes
}

/** The pack format of a file; undefined when it is no pack, or one of a newer format. */
const packFormat = (fd: number): number | undefined => {
  const bytes = readAt(fd, 0, packHeaderLength)
  if (bytes.length < packHeaderLength || !bytes.subarray(0, magic.length).equals(magic)) return undefined
  const format = bytes.readUInt32LE(magic.length)
  return format >= 1 && format <= formatVersion && bytes.readUInt32LE(magic.length + 4) === 0 ? format : undefined
}

/** True when the file begins like a pack that this version can read. */
export const hasPackHeader = (fd: number): boolean => packFormat(fd) !== undefined

/** True when a pack waits for `reclaimPacks`. Reads only: opening a store in order does not wait for whoever writes (L12). */
export const hasAbandonedPacks = (db: Database, hasEnded: (writer: string) => boolean): boolean =>
  db.all("SELECT writer FROM packs WHERE writer IS NOT NULL").some((row) => hasEnded(String(row["writer"])))

/** Where the last group of a pack ends. A row that says less is damaged: what lies behind it is not cut, and nobody appends there. */
const groupsEnd = (db: Database, pack: number): number =>
  Number(db.get("SELECT offset + length AS n FROM groups WHERE pack = ? ORDER BY id DESC LIMIT 1", pack)?.["n"] ?? 0)

/**
 * Frees the packs of writers that have ended and cuts what those left behind unindexed; a pack that got no byte goes. Inside the caller's transaction.
 */
export const reclaimPacks = (db: Database, directory: string, hasEnded: (writer: string) => boolean): void => {
  for (const row of db.all("SELECT id, length, writer FROM packs WHERE writer IS NOT NULL")) {
    if (!hasEnded(String(row["writer"]))) continue
    const id = Number(row["id"])
    const length = Math.max(Number(row["length"]), groupsEnd(db, id))
    const path = join(directory, packName(id))
    if (length === 0) rmSync(path, { force: true })
    else cutTail(path, length)
    crashPoint("layerfs.open.reclaimed")
    if (length === 0) db.run("DELETE FROM packs WHERE id = ?", id)
    else db.run("UPDATE packs SET writer = NULL WHERE id = ?", id)
  }
}

/** Removes pack files that no row names: a compaction died between the last row and the file. A row always comes first. */
export const removeOrphans = (db: Database, directory: string): void => {
  const files = readdirSync(directory).filter((name) => /^\d{6,}\.pack$/.test(name))
  const known = new Set(db.all("SELECT id FROM packs").map((row) => packName(Number(row["id"]))))
  for (const name of files) if (!known.has(name)) rmSync(join(directory, name), { force: true })
}

const cutTail = (path: string, length: number): void => {
  let fd: number
  try {
    fd = openSync(path, "r+")
  } catch (error) {
    // Its writer died before it made the file, or the pack is lost: then its objects are damaged, and the rest is not.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return
    throw error
  }
  try {
    if (fstatSync(fd).size > length) ftruncateSync(fd, length)
  } finally {
    closeSync(fd)
  }
}

/**
 * True when new bytes may follow: a lost or shortened pack is left as it is, for whoever repairs it, and one of an older
 * format keeps to that format.
 */
const isAppendable = (path: string, length: number): boolean => {
  if (length === 0) return true
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) < length) return false
  const fd = openSync(path, "r")
  try {
    return packFormat(fd) === formatVersion
  } finally {
    closeSync(fd)
  }
}

/** Takes a free pack, or a new number. Rejects with `Busy`, `StorageFailure`. */
export const acquirePack = async (db: Database, directory: string, writer: string): Promise<PackAppender> => {
  const { id, length } = await db.transactWithRetry(() => {
    const free = db
      .all("SELECT id, length FROM packs WHERE writer IS NULL AND compacted = 0 AND length < ? ORDER BY id", sealAt)
      .map((row) => ({ id: Number(row["id"]), length: Number(row["length"]) }))
      .find(({ id, length }) => length >= groupsEnd(db, id) && isAppendable(join(directory, packName(id)), length))
    if (free !== undefined) {
      db.run("UPDATE packs SET writer = ? WHERE id = ?", writer, free.id)
      return free
    }
    const made = db.get("INSERT INTO packs (length, writer) VALUES (0, ?) RETURNING id", writer)
    return { id: Number(made!["id"]), length: 0 }
  })
  crashPoint("layerfs.pack.acquired")
  try {
    return new PackAppender(directory, id, length)
  } catch (error) {
    // A full disk, or too many open files: the next one takes it, and makes no other.
    await db
      .transactWithRetry(() => void db.run("UPDATE packs SET writer = NULL WHERE id = ? AND writer = ?", id, writer))
      .catch(() => undefined)
    throw error
  }
}
