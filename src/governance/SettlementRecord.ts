/**
 * The record of a settlement, and the receipt that whoever settled gets.
 * Promise: the receipt is kept whole, so that a replay and a later read give the same one; only `accepted` is an acceptance.
 * Rules: G72, G73, G86. Settling: Settlement.ts.
 */
import * as Schema from "effect/Schema"
import { recordTable } from "./Handler.ts"
import type { Spend } from "./QuotaLedger.ts"
import type { Owed } from "./ReservationRecord.ts"
import type { Stale } from "./Requirement.ts"
import type { TodoRecord } from "./TodoRecord.ts"

/** `accepted` needs a passed acceptance. Every other outcome settles the cost and says what the work came to. */
export const SettlementOutcome = Schema.Literals([
  "accepted",
  "progress",
  "failed",
  "inconclusive",
  "unavailable",
  "staleContext"
])
export type SettlementOutcome = typeof SettlementOutcome.Type

export interface SettlementRecord {
  readonly id: string
  readonly effectId: string
  readonly goal: string
  readonly todo: string
  readonly turn: string | null
  readonly outcome: SettlementOutcome
  readonly accepted: boolean
  readonly acceptance: string | null
  readonly candidate: string | null
  readonly evidence: readonly string[]
  readonly reservation: string
  /** Digest of what was settled; another content under the same effect id is a conflict. */
  readonly content: string
  readonly settledAt: number
}

/** The receipt: what was settled, and what it made of todo and cost. */
export interface Settlement extends SettlementRecord {
  readonly todoState: TodoRecord["state"]
  readonly successors: readonly string[]
  readonly spend: Spend
  readonly owed: readonly Owed[]
  /** There when the requirement or a required read changed while the turn ran, and no validator ran against the new one (G86). */
  readonly stale?: Stale
  /** The delivery of an accepted or final result, where the todo has an origin (G91). */
  readonly delivery?: string
}

export const settlementTable = recordTable<SettlementRecord & { readonly receipt: Settlement }>(
  "settlement",
  ["effectId"],
  {
    effectId: "value",
    id: "value",
    goal: "value",
    todo: "value",
    turn: "value",
    outcome: "value",
    accepted: "flag",
    acceptance: "value",
    candidate: "value",
    evidence: "json",
    reservation: "value",
    content: "value",
    settledAt: "value",
    receipt: "json"
  }
)
