/**
 * The contract between the Authority (the single writer) and the rooms whose facts it writes.
 * Promise: a module is pure. It says which rows a command needs, decides, and says which rows change; only the
 * Authority store runs SQL, in one transaction per command batch. So one module serves SQLite and PostgreSQL alike.
 * Rules: G1, G2, G4, V2; 01 "Arrows", "A room from the inside".
 */
import type * as Result from "effect/Result"
import type { Json } from "../base/Digest.ts"
import type { ProcessIdentity } from "../base/Spawn.ts"
import type { CoppiceError } from "../base/CoppiceError.ts"
import type { IdKind } from "../base/Id.ts"
import type { Migration, Param, Row } from "../sqlite/Database.ts"

/** One SQL statement with `?` parameters, in the part of SQL that SQLite and PostgreSQL share. */
export interface Statement {
  readonly sql: string
  readonly params: readonly Param[]
}

/** Reads the rows that a decision needs: yields statements, is resumed with their rows, returns the state. */
export type Load<State> = Generator<Statement, State, readonly Row[]>

/** What a caller asks for. `id` is the caller's idempotency key (G2). */
export interface Command<Type extends string = string, Payload extends Json = Json> {
  readonly id: string
  readonly module: string
  readonly type: Type
  readonly payload: Payload
  /**
   * What the caller's process observed (is the old executor alive?), for the decision only: it is no part of the
   * command's identity, so that a retry from another process replays instead of conflicting (G2, G81).
   */
  readonly observed?: Json
}

/** A fact that was decided. Appended to the journal as it is, hash-chained (G4). Public-safe by construction (G6). */
export interface JournalEvent {
  readonly type: string
  readonly entity: string
  readonly data: Json
}

/**
 * What a decision gives: the facts, and the reply that is stored as the command's receipt. A decision without facts
 * changed nothing and leaves no receipt: the same command asked again is decided again.
 */
export interface Decision {
  readonly events: readonly JournalEvent[]
  readonly reply: Json
}

/** What the store hands to a pure decision: the time of the command, and sources of ids and tokens. */
export interface DecideContext {
  readonly now: number
  readonly newId: (kind: IdKind) => string
  readonly newToken: () => string
}

/** A fact as it stands in the journal: what was decided, by which command, when, and its link in the chain (G4). */
export interface JournalEntry extends JournalEvent {
  readonly seq: number
  readonly at: number
  readonly module: string
  readonly command: string
  readonly prevHash: string
  readonly hash: string
}

export interface AuthorityModule<State = any> {
  readonly name: string
  readonly version: number
  /** Steps of this module's tables; run once each, recorded per module name, on first activation. */
  readonly migrations: readonly Migration[]
  /** Says which rows the decision needs. `now` is the time that `decide` will be given: queries may choose by it. */
  readonly load: (command: Command, context: { readonly now: number }) => Load<State>
  /** Pure: no clock, no I/O, no randomness but the context's. An error means that nothing happened. */
  readonly decide: (state: State, command: Command, context: DecideContext) => Result.Result<Decision, CoppiceError>
  /**
   * Whether anything lost its authority by time alone after `from`, at the latest at `to`. A decision that saw this and wrote
   * nothing still lets the store keep its time, so that no earlier clock brings it back (G36).
   */
  readonly lapsed?: (from: number, to: number) => Load<boolean>
  /** The projection rows that one event changes. */
  readonly project: (event: JournalEvent, meta: { readonly seq: number; readonly at: number }) => readonly Statement[]
}

/** What came of one command of a batch. */
export type CommandOutcome =
  | {
      readonly _tag: "Committed"
      /** True when the same command had been committed before: the stored reply, no new facts. */
      readonly replayed: boolean
      readonly reply: Json
      /** The journal sequence as of which the reply holds (G7). */
      readonly seq: number
    }
  | { readonly _tag: "Refused"; readonly error: CoppiceError }

/** The seam of the authority: SQLite here, PostgreSQL later; in-thread first, a worker later without a change of callers. */
export interface AuthorityStore {
  /**
   * Commits a batch in one transaction, a savepoint for each command: one refusal never undoes its neighbours (G3).
   * Rejects with `Busy`, `StoreMoved` or `StorageFailure`, and then nothing of the batch happened.
   */
  readonly commit: (commands: readonly Command[]) => Promise<readonly CommandOutcome[]>
  /** Runs a read at one consistent snapshot and the store's time, with the journal sequence it holds for (G7). */
  readonly read: <A>(
    query: (context: { readonly now: number }) => Load<A>
  ) => Promise<{ readonly value: A; readonly seq: number }>
  /** Committed facts after a sequence, oldest first, at most `limit`; an observer's cursor is the last `seq` it saw (G4). */
  readonly journal: (options: { readonly after: number; readonly limit: number }) => Promise<readonly JournalEntry[]>
  /** Walks the hash chain and names the first broken link (G4). */
  readonly verify: () => Promise<{ readonly ok: boolean; readonly entries: number; readonly brokenAt: number | null }>
  /** Whether a process that wrote here may still run (G81); `isAlive` of base/ProcessIdentity.ts, or more where the store can tell more. */
  readonly isAlive: (process: ProcessIdentity) => Promise<boolean | "unknown">
}
