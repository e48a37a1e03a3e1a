/**
 * The record of an obligation: work that must be attempted, with its reason.
 * Promise: an obligation ends by an attempt that is on record, or by a person who waives it and says why; nothing else makes
 * it less. Rules: G15. The commands are in Obligation.ts.
 */
import * as Result from "effect/Result"
import { ObligationOpen } from "./GovernanceError.ts"
import { fact, recordTable, row } from "./Handler.ts"
import type { JournalEvent, Load } from "./Module.ts"
import type { SettlementOutcome } from "./SettlementRecord.ts"
import type { TurnRecord } from "./TurnRecord.ts"

/** An obligation as it is kept, journaled and shown. */
export interface ObligationRecord {
  readonly id: string
  readonly goal: string
  /** The todo that must be attempted; null: some work of the goal. */
  readonly todo: string | null
  readonly kind: "mustAttemptWork"
  readonly reason: string
  readonly state: "open" | "met" | "waived"
  /** What attempted it: a turn, or a settlement by its effect id. */
  readonly attempt: { readonly turn: string | null; readonly settlement: string | null } | null
  readonly waiver: { readonly by: string; readonly reason: string } | null
  readonly openedAt: number
  readonly changedAt: number
}

export const obligationTable = recordTable<ObligationRecord>("obligation", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  kind: "value",
  reason: "value",
  state: "value",
  attempt: "json",
  waiver: "json",
  openedAt: "value",
  changedAt: "value"
})

export const obligationTables = `
CREATE TABLE obligation (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT REFERENCES todo (id),
  kind TEXT NOT NULL CHECK (kind IN ('mustAttemptWork')),
  reason TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'met', 'waived')),
  attempt TEXT,
  waiver TEXT,
  opened_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
);
CREATE INDEX obligation_goal ON obligation (goal, opened_at, id);
CREATE INDEX obligation_open ON obligation (goal, todo, opened_at, id) WHERE state = 'open';
CREATE INDEX obligation_waits ON obligation (goal, opened_at, id) WHERE state = 'open';
`

/** How many open obligations one todo has, and a goal beside its todos: one attempt may meet them all, in one commit. */
export const mostObligations = 100

/** The open obligations of a goal, the oldest first, at most so many. */
export const loadObligations = (goal: string, limit: number): Load<readonly ObligationRecord[]> =>
  obligationTable.find(`goal = ? AND state = 'open' ORDER BY opened_at, id LIMIT ${limit}`, goal)

/** How many are open on this todo; null: on none. */
export function* countObligations(goal: string, todo: string | null): Load<number> {
  const open = "SELECT COUNT(*) AS n FROM obligation WHERE goal = ? AND state = 'open' AND todo"
  const found = todo === null ? yield* row(`${open} IS NULL`, goal) : yield* row(`${open} = ?`, goal, todo)
  return Number(found!["n"])
}

/** Those that name one of its todos. */
export const loadObligationsOn = (goal: string, todo: string): Load<readonly ObligationRecord[]> =>
  obligationTable.find("goal = ? AND todo = ? AND state = 'open' ORDER BY opened_at, id", goal, todo)

/** Those that work on this todo can meet: its own, and the goal's. */
export function* loadObligationsOver(goal: string, todo: string): Load<readonly ObligationRecord[]> {
  const own = yield* loadObligationsOn(goal, todo)
  const shared = yield* obligationTable.find(
    "goal = ? AND todo IS NULL AND state = 'open' ORDER BY opened_at, id",
    goal
  )
  return [...own, ...shared].toSorted((a, b) =>
    a.openedAt !== b.openedAt ? a.openedAt - b.openedAt : a.id < b.id ? -1 : 1
  )
}

/**
 * Whether a turn is an attempt at what an obligation asks for: it belongs to the work, was dispatched after the obligation was
 * opened, and the host answered. A host that never spoke, or a process that died, attempted nothing.
 */
export const attempts = (turn: TurnRecord, obligation: ObligationRecord): boolean =>
  turn.goal === obligation.goal &&
  (obligation.todo === null || obligation.todo === turn.todo) &&
  turn.result?.status === "ok" &&
  (turn.attempts.at(-1)?.startedAt ?? -1) >= obligation.openedAt

/** Work by hand, without a turn: its holder's word is an attempt unless it says that nothing could be done, or told. */
export const attemptedByHand = (outcome: SettlementOutcome): boolean =>
  outcome !== "unavailable" && outcome !== "inconclusive"

/** The fact that an obligation was met. */
export const met = (
  obligation: ObligationRecord,
  attempt: NonNullable<ObligationRecord["attempt"]>,
  now: number
): JournalEvent => {
  const next: ObligationRecord = { ...obligation, state: "met", attempt, changedAt: now }
  return fact("obligation.met", obligation.id, next)
}

/** Nobody puts a todo aside, retires or completes it while it must be attempted first. */
export const unobliged = (
  todo: string,
  obligations: readonly ObligationRecord[]
): Result.Result<undefined, ObligationOpen> =>
  obligations.length === 0
    ? Result.succeed(undefined)
    : Result.fail(
        new ObligationOpen({
          message: `Todo ${todo} must be attempted first: ${obligations[0]!.reason}`.slice(0, 600),
          remedy:
            "Attempt it in a turn and settle that, or name the attempt with Obligations.meet; a person may waive it with Obligations.waive.",
          todo,
          obligations: obligations.map(({ id, reason }) => ({ id, reason }))
        })
      )
