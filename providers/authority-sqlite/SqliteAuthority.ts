/**
 * The authority on one SQLite file: an `AuthorityStore`.
 * Promise: a command is one savepoint of one `BEGIN IMMEDIATE` transaction with one fsync for all that wait (group commit);
 * once `commit` has answered, the answer survives a crash; a refusal leaves no trace. Rules: G1, G2, G3, G4, G5, G6, G7.
 */
import * as Result from "effect/Result"
import { type CoppiceError, isCoppiceError } from "../../src/base/CoppiceError.ts"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { canonicalJson, type Json, sha256 } from "../../src/base/Digest.ts"
import { isAliveIn, showLife } from "../../src/base/LifeSign.ts"
import { isAlive } from "../../src/base/ProcessIdentity.ts"
import type { ProcessIdentity } from "../../src/base/Spawn.ts"
import { isWhole } from "../../src/base/WholeText.ts"
import { newId, newToken } from "../../src/base/Id.ts"
import { IdempotencyKeyReuse, InvalidInput } from "../../src/governance/GovernanceError.ts"
import type {
  AuthorityModule,
  AuthorityStore,
  Command,
  CommandOutcome,
  DecideContext,
  Load
} from "../../src/governance/Module.ts"
import { notPublic, privateField } from "../../src/governance/PublicText.ts"
import { type Database, isBusyError, StoreMoved, toStorageFailure } from "../../src/sqlite/Database.ts"
import { type Monotonic, StoreClock } from "./StoreClock.ts"
import { entryOf, genesis, type Head, head, linkHash, receiptPage, type Verified, verifyPage } from "./Chain.ts"

/** A refusal on its way out of a savepoint; never leaves this file. */
class Refusal {
  readonly error: CoppiceError
  constructor(error: CoppiceError) {
    this.error = error
  }
}

interface Waiting {
  readonly commands: readonly Command[]
  readonly resolve: (outcomes: readonly CommandOutcome[]) => void
  readonly reject: (error: unknown) => void
}

/** What a call of `commit` came to inside the transaction, told to its caller only after the COMMIT. */
type Settled = { readonly waiting: Waiting } & (
  | { readonly outcomes: readonly CommandOutcome[] }
  | { readonly defect: unknown }
)

/** The event loop is the host's (01): after so many milliseconds the rest waits for the next transaction. */
const defaultBatchMs = 5

/** So many calls share a transaction however long they take: on a slow machine an fsync for each few would make it slower. */
const leastTogether = 12

/** Rows that `verify` looks at before it gives way to the event loop: a few milliseconds of work. */
const rowsAtOnce = 500

export interface SqliteAuthorityOptions {
  readonly writer: Database
  readonly openReader: () => Database
  readonly modules: readonly AuthorityModule[]
  /** UTC milliseconds. */
  readonly now: () => number
  /** The machine's clock that only goes forward; tests drive it. */
  readonly monotonic?: (() => Monotonic) | undefined
  /** How long a locked file is tried again before `Busy`. */
  readonly busyBoundMs?: number | undefined
  /** Calls share a transaction until it has run this long, a dozen in any case. Default 5 ms. */
  readonly batchMs?: number | undefined
  /** Where processes show that they live of which rows say that they are at something. Absent: nowhere. */
  readonly directory?: string | undefined
}

/** The kernel closes the files of a process a moment before it ends its children. */
const settleMs = 500

export class SqliteAuthority implements AuthorityStore {
  readonly #db: Database
  readonly #options: SqliteAuthorityOptions
  readonly #modules: ReadonlyMap<string, AuthorityModule>
  #reader: Database | undefined
  #queue: Waiting[] = []
  #running: Promise<void> | undefined
  #closed = false
  #shown = false
  #showing: Promise<() => void> | undefined
  readonly #clock: StoreClock
  #transactions = 0
  #commands = 0

  constructor(options: SqliteAuthorityOptions) {
    this.#db = options.writer
    this.#options = options
    this.#clock = new StoreClock(options.now, options.monotonic)
    this.#modules = new Map(options.modules.map((module) => [module.name, module]))
  }

  /** Transactions that were committed and commands that were in them: how well commands are grouped. */
  get counts(): { readonly transactions: number; readonly commands: number } {
    return { transactions: this.#transactions, commands: this.#commands }
  }

  readonly commit = (commands: readonly Command[]): Promise<readonly CommandOutcome[]> => {
    // What a process observed may end in a row that names it as the one that is at it: by then it shows that it lives.
    if (!this.#shown && !this.#closed && commands.some((command) => command?.observed !== undefined)) {
      return this.#showLife().then(() => this.#enqueue(commands))
    }
    return this.#enqueue(commands)
  }

  async #showLife(): Promise<void> {
    const { directory } = this.#options
    if (directory === undefined) return
    this.#showing ??= showLife(directory)
    await this.#showing
    this.#shown = true
  }

  #enqueue(commands: readonly Command[]): Promise<readonly CommandOutcome[]> {
    if (this.#closed) return Promise.reject(new Error("The authority is closed"))
    return new Promise((resolve, reject) => {
      this.#queue.push({ commands, resolve, reject })
      this.#running ??= this.#drain()
    })
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      // One turn of the event loop, so that everybody who is about to ask shares the transaction and its fsync.
      await new Promise((resolve) => setImmediate(resolve))
      await this.#flush()
    }
    // In the same synchronous stretch as the last look at the queue: whoever asks after it starts the next round.
    this.#running = undefined
  }

  async #flush(): Promise<void> {
    let taken: Waiting[] = []
    let settled: Settled[] = []
    try {
      await this.#db.transactWithRetry(() => {
        taken = []
        settled = []
        this.#checkModules()
        const clock = performance.now()
        const batchMs = this.#options.batchMs ?? defaultBatchMs
        let at = head(this.#db)
        let decidedAt = 0
        while (
          this.#queue.length > taken.length &&
          (taken.length < leastTogether || performance.now() - clock < batchMs)
        ) {
          const waiting = this.#queue[taken.length]!
          taken.push(waiting)
          const outcomes: CommandOutcome[] = []
          let result: Settled = { waiting, outcomes }
          for (const command of waiting.commands) {
            try {
              const done = this.#db.savepoint(() =>
                this.#one(command, at, (now) => {
                  decidedAt = now
                })
              )
              at = done.head
              outcomes.push(done.outcome)
            } catch (error) {
              if (error instanceof Refusal) outcomes.push({ _tag: "Refused", error: error.error })
              else if (isUnknownReference(error)) {
                outcomes.push({ _tag: "Refused", error: unknownReference(command.type) })
              } else if (isStorage(error)) throw error
              else result = { waiting, defect: storageError(error) }
            }
          }
          settled.push(result)
        }
        if (decidedAt > 0) this.#clock.keep(this.#db, at.at, decidedAt, this.#lapsed)
        crashPoint("authority.beforeCommit")
        faultPoint("authority.commit")
      }, this.#options.busyBoundMs)
      crashPoint("authority.afterCommit")
      this.#transactions += 1
      this.#queue.splice(0, taken.length)
      for (const result of settled) {
        this.#commands += result.waiting.commands.length
        if ("defect" in result) result.waiting.reject(result.defect)
        else result.waiting.resolve(result.outcomes)
      }
    } catch (error) {
      // Nothing of the transaction happened. Whoever was not in it waits for the next one; when it never began, that
      // would only let them wait for the same bound one after the other.
      const failed = this.#queue.splice(0, taken.length === 0 ? this.#queue.length : taken.length)
      for (const waiting of failed) waiting.reject(error)
    }
  }

  /** G5, for each module: a process that was open while another one migrated its tables changes nothing any more. */
  #checkModules(): void {
    for (const module of this.#modules.values()) {
      const row = this.#db.get("SELECT version FROM module WHERE name = ?", module.name)
      const actual = Number(row?.["version"] ?? 0)
      if (actual !== module.version) throw movedModule(module, actual)
    }
  }

  #one(
    command: Command,
    at: Head,
    decidedAt: (now: number) => void
  ): { readonly outcome: CommandOutcome; readonly head: Head } {
    const { id, module: name, type } = command ?? {}
    if (![id, name, type].every((text) => typeof text === "string" && isWhole(text)) || id === "") {
      throw new Refusal(
        new InvalidInput({
          command: typeof type === "string" ? type : "commit",
          message: "A command needs an id, a module and a type that are texts.",
          remedy: "Give the caller's idempotency key as the id. Nothing was changed."
        })
      )
    }
    const digest = commandDigest(command)
    const known = this.#db.get("SELECT digest, reply, seq FROM command WHERE id = ?", command.id)
    if (known !== undefined) {
      if (known["digest"] !== digest) throw new Refusal(keyReuse(command.id))
      const reply = JSON.parse(String(known["reply"])) as Json
      return { outcome: { _tag: "Committed", replayed: true, reply, seq: Number(known["seq"]) }, head: at }
    }
    const module = this.#modules.get(command.module)
    if (module === undefined) throw new Refusal(noModule(command.module))
    const now = this.#clock.decide(this.#db, at.at)
    decidedAt(now)
    const context: DecideContext = { now, newId, newToken }
    const state = this.#drive(module.load(command, context), this.#db)
    const decision = module.decide(state, command, context)
    if (Result.isFailure(decision)) throw new Refusal(decision.failure)
    const { events, reply } = decision.success
    let last = at
    for (const event of events) {
      const field = privateField(event.data)
      if (field !== undefined) throw new Refusal(notPublic(event.type, field))
      const seq = last.seq + 1
      const data = canonicalJson(event.data)
      const link = {
        seq,
        at: now,
        module: module.name,
        type: event.type,
        entity: event.entity,
        command: command.id,
        data,
        prevHash: last.hash
      }
      const hash = linkHash(link)
      this.#db.run(
        "INSERT INTO journal (seq, at, module, type, entity, command, data, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        seq,
        now,
        module.name,
        event.type,
        event.entity,
        command.id,
        data,
        last.hash,
        hash
      )
      crashPoint("authority.afterJournal")
      for (const statement of module.project(event, { seq, at: now })) this.#db.run(statement.sql, ...statement.params)
      crashPoint("authority.afterProjection")
      last = { seq, hash, at: now }
    }
    if (events.length > 0) {
      this.#db.run(
        "INSERT INTO command (id, digest, reply, seq, at) VALUES (?, ?, ?, ?, ?)",
        command.id,
        digest,
        JSON.stringify(reply),
        last.seq,
        now
      )
      crashPoint("authority.afterReceipt")
    }
    return { outcome: { _tag: "Committed", replayed: false, reply, seq: last.seq }, head: last }
  }

  /** Whether authority of any module ended after `from`, at the latest at `to`. */
  readonly #lapsed = (from: number, to: number): boolean =>
    [...this.#modules.values()].some((module) => {
      const query = module.lapsed?.(from, to)
      return query !== undefined && this.#drive(query, this.#db)
    })

  #drive<A>(query: Load<A>, db: Database): A {
    let step = query.next()
    while (step.done !== true) step = query.next(db.all(step.value.sql, ...step.value.params))
    return step.value
  }

  /** One snapshot of the file, on a connection of its own: readers never wait for the writer, nor it for them. */
  async #snapshot<A>(fn: (db: Database) => A): Promise<A> {
    if (this.#closed) throw new Error("The authority is closed")
    const db = (this.#reader ??= this.#options.openReader())
    for (let tries = 0; ; tries += 1) {
      try {
        db.raw.exec("BEGIN")
        try {
          return fn(db)
        } finally {
          if (db.raw.isTransaction) db.raw.exec("COMMIT")
        }
      } catch (error) {
        // A reader meets a lock only while another process recovers the log or closes the file.
        if (isBusyError(error) && tries < 200) await new Promise((resolve) => setTimeout(resolve, 5))
        else throw storageError(error)
      }
    }
  }

  readonly read: AuthorityStore["read"] = (query) =>
    this.#snapshot((db) => {
      const { seq, at } = head(db)
      return { value: this.#drive(query({ now: this.#clock.look(db, at) }), db), seq }
    })

  readonly journal: AuthorityStore["journal"] = ({ after, limit }) =>
    this.#snapshot((db) =>
      db
        .all("SELECT * FROM journal WHERE seq > ? ORDER BY seq LIMIT ?", after, Math.min(Math.max(limit, 0), 10_000))
        .map(entryOf)
    )

  /** Walks the chain in pages, giving way between them; ends with the receipts, which must not point past the journal. */
  readonly verify = async (): Promise<Verified> => {
    const giveWay = () => new Promise((resolve) => setImmediate(resolve))
    let at: Head = { seq: 0, hash: genesis, at: 0 }
    const upTo = await this.#snapshot((db) => head(db).seq)
    for (;;) {
      const page = await this.#snapshot((db) => verifyPage(db, at, rowsAtOnce))
      at = page.head
      if (page.brokenAt !== null) return { ok: false, entries: at.seq, brokenAt: page.brokenAt }
      if (page.done || at.seq >= upTo) break
      await giveWay()
    }
    for (let last: string | null = ""; last !== null; await giveWay()) {
      const after: string = last
      const page = await this.#snapshot((db) => receiptPage(db, after, rowsAtOnce))
      if (page.pointsPast) return { ok: false, entries: at.seq, brokenAt: at.seq + 1 }
      last = page.last
    }
    return { ok: true, entries: at.seq, brokenAt: null }
  }

  /** By its sign, where its pid tells nothing: as a process of another pid namespace. */
  readonly isAlive = async (process: ProcessIdentity): Promise<boolean | "unknown"> => {
    const known = isAlive(process)
    const { directory } = this.#options
    if (known !== "unknown" || directory === undefined) return known
    const seen = isAliveIn(directory, process)
    if (seen === false) await new Promise((resolve) => setTimeout(resolve, settleMs))
    return seen
  }

  /** Ends after what was asked for has been answered. Closing twice is no error. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#running
    this.#reader?.close()
    this.#db.close()
    ;(await this.#showing)?.()
  }
}

const commandDigest = (command: Command): string => {
  try {
    return sha256(canonicalJson({ module: command.module, type: command.type, payload: command.payload }))
  } catch {
    throw new Refusal(
      new InvalidInput({
        message: `${command.type}: ${unheld(command.payload)} holds what JSON cannot hold, such as NaN, Infinity or half of a character (a lone surrogate).`,
        remedy: "Give numbers, texts, booleans, lists and plain objects. Nothing was changed.",
        command: command.type
      })
    )
  }
}

/** The first field that JSON cannot hold, by its path; `the payload` where none can be named (it may hold itself). */
const unheld = (value: unknown, at = "the payload", depth = 0): string => {
  if (typeof value !== "object" || value === null || depth > 20) return at
  const below = Object.entries(value).find(([, child]) => {
    try {
      canonicalJson(child as Json)
      return false
    } catch {
      return true
    }
  })
  return below === undefined ? at : unheld(below[1], depth === 0 ? below[0] : `${at}.${below[0]}`, depth + 1)
}

/** A row that names what is not there (SQLITE_CONSTRAINT_FOREIGNKEY): the command's mistake, and no fault of the store. */
const isUnknownReference = (error: unknown): boolean =>
  (error as { readonly code?: string }).code === "ERR_SQLITE_ERROR" &&
  (error as { readonly errcode?: number }).errcode === 787

const unknownReference = (command: string): InvalidInput =>
  new InvalidInput({
    message: `${command}: an id in it names nothing in this authority`,
    remedy: "Check the ids that the command names. Nothing was changed.",
    command
  })

const keyReuse = (commandId: string): IdempotencyKeyReuse =>
  new IdempotencyKeyReuse({
    message: `The command id ${commandId} was used before for another payload.`,
    remedy: "Use a new command id for another command; use the old one only to ask for the same thing again.",
    commandId
  })

const noModule = (name: string): InvalidInput =>
  new InvalidInput({
    message: `No module named ${name} was given to this authority.`,
    remedy: "Pass the module when the authority is opened (a preset does so).",
    command: name
  })

export const movedModule = (module: AuthorityModule, actual: number): StoreMoved =>
  new StoreMoved({
    message: `The tables of module ${module.name} are at version ${actual}; this process knows ${module.version}.`,
    remedy: "Restart this process with the newer Coppice. Nothing was changed.",
    expected: module.version,
    actual
  })

/** SQLite's own errors end the whole transaction; a constraint (19) is a fault of one command and undoes only that. */
const isStorage = (error: unknown): boolean => {
  const e = error as { readonly code?: string; readonly errcode?: number }
  return e.code === "ERR_SQLITE_ERROR" && ((e.errcode ?? 0) & 0xff) !== 19
}

const storageError = (error: unknown): unknown =>
  isCoppiceError(error) || (error as { code?: string }).code !== "ERR_SQLITE_ERROR" ? error : toStorageFailure(error)
