/**
 * One SQLite file, opened the way Coppice needs it, with a synchronous `transact` for the commit path.
 * Promise: WAL, the named durability, foreign keys, `BEGIN IMMEDIATE` for every write, all or nothing; a busy file never
 * holds the event loop for longer than 5 ms at a time and ends, after a bound, as a typed `Busy` with nothing done; no write is acknowledged
 * whose file is no longer there under its path. Rules: G3, G5, L8; 01 "The host's event loop". `node:sqlite` is synchronous: no yield happens inside a transaction.
 */
import { type BigIntStats, existsSync, statfsSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { Durability } from "../base/Durability.ts"
import { isBusyError } from "./BusyError.ts"

export type { Durability } from "../base/Durability.ts"
export { isBusyError } from "./BusyError.ts"

/** The file is locked by another process for longer than the bound. Nothing was done; the same call may be repeated. */
export class Busy extends Schema.TaggedError<Busy>()("Busy", {
  ...errorFields("BUSY"),
  waitedMs: Schema.Number
}) {}

/** The file was written by a newer Coppice, or was migrated while this process had it open (G5). Nothing was changed. */
export class StoreMoved extends Schema.TaggedError<StoreMoved>()("StoreMoved", {
  ...errorFields("STORE_MOVED"),
  expected: Schema.Number,
  actual: Schema.Number
}) {}

/** SQLite refused: disk full, read-only, corrupted, not a database. `errcode` is SQLite's extended result code. */
export class StorageFailure extends Schema.TaggedError<StorageFailure>()("StorageFailure", {
  ...errorFields("STORAGE_FAILURE"),
  errcode: Schema.Number
}) {}

/** One step of the schema. `version` counts from 1 without gaps; `sql` runs inside the migrating transaction. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

export type Row = Record<string, unknown>
export type Param = SQLInputValue

export interface OpenOptions {
  readonly durability?: Durability
  readonly readOnly?: boolean
  /** Milliseconds that SQLite itself waits for a lock before the asynchronous retry takes over. At most 5. */
  readonly busyTimeoutMs?: number
  /** Pages in the log after which a commit writes them back into the file, which takes as long as they are many. SQLite's own: 1000. */
  readonly checkpointPages?: number
}

const synchronous = { full: "FULL", normal: "NORMAL", disposable: "OFF" } as const

/** SQLITE_CORRUPT. */
const corrupt = 11

/** SQLITE_FULL. */
const full = 13

/** SQLITE_READONLY_DBMOVED: SQLite's own name for it, which it looks for in no write-ahead log. */
const moved = 1032

const storageRemedy = (errcode: number): string => {
  if (errcode === moved) return "The store's files are gone: restore them from a backup, or open another store."
  switch (errcode & 0xff) {
    case 8:
      return "The file or its directory cannot be written: check owner, mode and mount options."
    case 11:
    case 26:
      return "The file is damaged: keep a copy, then restore a backup."
    case 10:
      return "Look for free space on the store's disk, and for its health, then repeat the same call."
    case full:
      return "The disk is full: free space, then repeat the same call."
    default:
      return "Check that the store's directory exists, is on a local disk and belongs to this user."
  }
}

/** A number beyond 2^53 in a row: Coppice writes none, so something else did, or a bit flipped. `node:sqlite` refuses to read it. */
export const isUnreadableNumber = (error: unknown): boolean => {
  const { code, message = "" } = error as { code?: string; message?: string }
  return code === "ERR_OUT_OF_RANGE" && message.startsWith("Value is too large to be represented")
}

/** Turns an error thrown by `node:sqlite` into a typed one; anything else is rethrown as the bug that it is. */
export const toStorageFailure = (error: unknown): StorageFailure => {
  if (isUnreadableNumber(error)) {
    return new StorageFailure({
      message: "A row holds a number that nobody wrote there.",
      remedy: storageRemedy(corrupt),
      errcode: corrupt
    })
  }
  const e = error as { errcode?: number; message?: string; code?: string }
  if (typeof e.errcode !== "number" && e.code !== "ERR_SQLITE_ERROR") throw error
  const errcode = e.errcode ?? 1
  return new StorageFailure({ message: `SQLite: ${e.message ?? "error"}`, remedy: storageRemedy(errcode), errcode })
}

const gone = (): StorageFailure =>
  new StorageFailure({
    message:
      "The store's file is no longer where it was opened, or another one lies there: a write would be lost with it.",
    remedy: storageRemedy(moved),
    errcode: moved
  })

/** Less than SQLite takes at once, for the memory that the connections to one file share. */
const leastFree = 64 * 1024

/** An I/O error where there is no room is told as that: beside the log SQLite maps a file, and says nothing else when it cannot grow. */
const toldFull = (error: unknown, path: string): unknown => {
  const { errcode, message } = error as { errcode?: number; message?: string }
  if (typeof errcode !== "number" || (errcode & 0xff) !== 10) return error
  try {
    const { bavail, bsize } = statfsSync(dirname(path))
    if (bavail * bsize >= leastFree) return error
  } catch {
    return error
  }
  return new StorageFailure({ message: `SQLite: ${message}, on a full disk`, remedy: storageRemedy(full), errcode })
}

const defaultBoundMs = 5000

/**
 * Does what needs the file to be free; asynchronous backoff while another process holds it, up to `boundMs`. Rejects with `Busy` (nothing
 * done), `StorageFailure`, or whatever `fn` threw.
 */
export const whenFree = async <A>(fn: () => A, boundMs = defaultBoundMs): Promise<A> => {
  const start = performance.now()
  let delay = 1
  for (;;) {
    try {
      return fn()
    } catch (error) {
      if (!isBusyError(error)) {
        if ((error as { code?: string }).code === "ERR_SQLITE_ERROR") throw toStorageFailure(error)
        throw error
      }
      const waitedMs = performance.now() - start
      if (waitedMs > boundMs) {
        throw new Busy({
          message: `The store stayed locked by another process for ${Math.round(waitedMs)} ms.`,
          remedy: "Nothing was done. Repeat the same call, or find out which process holds the store.",
          waitedMs
        })
      }
      // Jitter keeps several waiting processes from meeting again at the same moment.
      await new Promise((resolve) => setTimeout(resolve, delay * (0.5 + Math.random())))
      delay = Math.min(delay * 2, 50)
    }
  }
}

/** Throws `StorageFailure` for a row that cannot be read. */
const readable = <A>(read: () => A): A => {
  try {
    return read()
  } catch (error) {
    throw isUnreadableNumber(error) ? toStorageFailure(error) : error
  }
}

/** An open file. Statements are prepared once per text and kept. */
export class Database {
  readonly raw: DatabaseSync
  readonly #path: string
  /** The file that was opened. */
  readonly #file: BigIntStats
  /** Where its writes go first; none where the file system can have no write-ahead log. */
  readonly #log: string | undefined
  readonly #statements = new Map<string, StatementSync>()
  #schemaVersion: number | undefined

  private constructor(raw: DatabaseSync, path: string, file: BigIntStats) {
    this.raw = raw
    this.#path = path
    this.#file = file
    this.#log = raw.prepare("PRAGMA journal_mode").get()?.["journal_mode"] === "wal" ? `${path}-wal` : undefined
  }

  /**
   * Opens or creates the file at `path`. Throws `StorageFailure`.
   * The directory must exist; callers check its owner and file system first.
   */
  static open(given: string, options: OpenOptions = {}): Database {
    const path = resolve(given)
    let raw: DatabaseSync | undefined
    try {
      raw = new DatabaseSync(path, {
        readOnly: options.readOnly ?? false,
        timeout: Math.min(options.busyTimeoutMs ?? 5, 5)
      })
      if (!options.readOnly) {
        raw.exec("PRAGMA journal_mode = WAL")
        if (options.checkpointPages !== undefined) raw.exec(`PRAGMA wal_autocheckpoint = ${options.checkpointPages}`)
      }
      raw.exec(`PRAGMA synchronous = ${synchronous[options.durability ?? "full"]}`)
      raw.exec("PRAGMA foreign_keys = ON")
      const file = statSync(path, { bigint: true, throwIfNoEntry: false })
      if (file === undefined) throw gone()
      return new Database(raw, path, file)
    } catch (error) {
      if (raw?.isOpen === true) raw.close()
      const told = toldFull(error, path)
      throw told instanceof StorageFailure ? told : toStorageFailure(told)
    }
  }

  /**
   * `open`, tried again like `transactWithRetry`: two processes that open a new file at once meet in the switch to WAL, and the log of a
   * killed one is read back under a lock. Rejects with `Busy` (nothing done), `StorageFailure`.
   */
  static openWithRetry(path: string, options: OpenOptions = {}, boundMs = defaultBoundMs): Promise<Database> {
    return whenFree(() => {
      const db = Database.open(path, options)
      try {
        db.userVersion()
        return db
      } catch (error) {
        db.close()
        throw error
      }
    }, boundMs)
  }

  /** A prepared statement, cached by its text. */
  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const made = this.raw.prepare(sql)
    this.#statements.set(sql, made)
    return made
  }

  all(sql: string, ...params: readonly Param[]): Row[] {
    const statement = this.prepare(sql)
    return readable(() => statement.all(...params) as Row[])
  }

  get(sql: string, ...params: readonly Param[]): Row | undefined {
    const statement = this.prepare(sql)
    return readable(() => statement.get(...params) as Row | undefined)
  }

  run(sql: string, ...params: readonly Param[]): { changes: number | bigint } {
    return this.prepare(sql).run(...params)
  }

  /** `PRAGMA user_version`. */
  userVersion(): number {
    return Number(this.get("PRAGMA user_version")!["user_version"])
  }

  /** Throws `StoreMoved` when another process has migrated the file since this one opened it: what is in it may mean something else now. */
  checkVersion(): void {
    if (this.#schemaVersion === undefined) return
    const actual = this.userVersion()
    if (actual === this.#schemaVersion) return
    throw new StoreMoved({
      message: `The store is at schema version ${actual}; this process opened it at ${this.#schemaVersion}.`,
      remedy: "Restart this process with the newer Coppice. Nothing was changed.",
      expected: this.#schemaVersion,
      actual
    })
  }

  /**
   * Runs `fn` in one `BEGIN IMMEDIATE` transaction: committed when it returns, rolled back when it throws.
   * A busy file throws SQLite's own error at BEGIN, before `fn` ran: see `transactWithRetry`.
   */
  transact<A>(fn: () => A): A {
    try {
      this.raw.exec("BEGIN IMMEDIATE")
      this.#checkThere()
      this.checkVersion()
      const value = fn()
      this.raw.exec("COMMIT")
      this.#checkThere()
      return value
    } catch (error) {
      if (this.raw.isTransaction) this.raw.exec("ROLLBACK")
      throw toldFull(error, this.#path)
    }
  }

  /** Throws `StorageFailure` where the file or its log was removed, or replaced: SQLite goes on writing to what nobody can open again. */
  #checkThere(): void {
    const now = statSync(this.#path, { bigint: true, throwIfNoEntry: false })
    const isThere = now?.ino === this.#file.ino && now.dev === this.#file.dev
    if (!isThere || (this.#log !== undefined && !existsSync(this.#log))) throw gone()
  }

  /** Runs `fn` inside a savepoint of the open transaction; when it throws, only its own writes are undone. */
  savepoint<A>(fn: () => A): A {
    this.raw.exec("SAVEPOINT item")
    try {
      const value = fn()
      this.raw.exec("RELEASE item")
      return value
    } catch (error) {
      // A full disk or an I/O error ends the whole transaction by itself (sqlite.org/lang_transaction.html §2).
      if (this.raw.isTransaction) {
        this.raw.exec("ROLLBACK TO item")
        this.raw.exec("RELEASE item")
      }
      throw error
    }
  }

  /**
   * `transact`, retried with asynchronous backoff while another process holds the file, up to `boundMs` (default 5 s).
   * Rejects with `Busy` (nothing done), `StorageFailure`, or whatever `fn` threw.
   */
  transactWithRetry<A>(fn: () => A, boundMs = defaultBoundMs): Promise<A> {
    return whenFree(() => this.transact(fn), boundMs)
  }

  /**
   * Brings the schema to the newest of `migrations` in one transaction and remembers it: every later `transact` checks
   * that the file still has that version. A file newer than the newest migration throws `StoreMoved`.
   * When an older file with content is about to be migrated, `beforeMigrate(from, to)` may keep a backup.
   */
  async migrate(
    migrations: readonly Migration[],
    beforeMigrate?: (from: number, to: number) => void
  ): Promise<{ from: number; to: number }> {
    const to = migrations.length
    // A file of the right version is only looked at: opening it does not wait for whoever writes.
    if (this.userVersion() === to) {
      this.#schemaVersion = to
      return { from: to, to }
    }
    this.#schemaVersion = undefined
    const from = await this.transactWithRetry(() => {
      const current = this.userVersion()
      if (current > to) {
        throw new StoreMoved({
          message: `The store is at schema version ${current}; this Coppice knows up to ${to}.`,
          remedy: "Use the Coppice version that wrote the store, or a newer one. Nothing was changed.",
          expected: to,
          actual: current
        })
      }
      if (current < to) {
        if (current > 0) beforeMigrate?.(current, to)
        for (const migration of migrations.slice(current)) this.raw.exec(migration.sql)
        this.raw.exec(`PRAGMA user_version = ${to}`)
      }
      return current
    })
    this.#schemaVersion = to
    return { from, to }
  }

  close(): void {
    this.#statements.clear()
    if (this.raw.isOpen) this.raw.close()
  }
}
