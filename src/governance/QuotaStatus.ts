/**
 * Reading quota: one reservation, the status of a goal, the ledger's history and the tokens that were used.
 * Promise: status and history show the same sums as admission and receipts do, and what is owed with the call that settles it;
 * a figure that is not fully known says so. Rules: G50, G51, G54, G56, G57, G73.
 */
import * as Effect from "effect/Effect"
import { reader } from "./Authority.ts"
import { agentTable, goalTable, limitsOf } from "./Goal.ts"
import { notFound } from "./GovernanceError.ts"
import { oneOf } from "./Handler.ts"
import type { Load } from "./Module.ts"
import {
  type AccountFigures,
  type Figures,
  figures,
  loadAccounts,
  loadTotals,
  type QuotaEvent,
  showDelta
} from "./QuotaSum.ts"
import {
  CostRole,
  loadOwed,
  type Owed,
  type Reservation,
  reservationTable,
  showReservation
} from "./ReservationRecord.ts"
import {
  checkArtifacts,
  loadArtifacts,
  type SpendArtifact,
  type SpendArtifacts,
  type UnreadableEvidence
} from "./SpendEvidence.ts"
import { loadReports, loadUsage, type UsageFigures, type UsageRecord } from "./Usage.ts"

/** The figures of a goal, what is owed, and the agents whose budgets are their own. */
export interface QuotaStatus extends AccountFigures {
  readonly owed: readonly Owed[]
  readonly agents: readonly AccountFigures[]
  /** What each role took of the goal's one budget, by the same sum. */
  readonly roles: readonly RoleFigures[]
  /** The goal's tokens, for its whole life. */
  readonly usage: UsageFigures
  /** Costs whose artifact is missing or damaged at this moment; null when no reader was handed in, so nobody looked (G54). */
  readonly spendEvidenceUnreadable: readonly UnreadableEvidence[] | null
}

/** What coordinators, workers or evaluators took of a goal's budget, failed attempts included (G56). */
export interface RoleFigures {
  readonly goal: string
  readonly role: CostRole
  readonly reserved: Figures
  readonly spent: Figures
  readonly usage: UsageFigures
}

export interface QuotaHistoryEntry {
  readonly seq: number
  readonly at: number
  readonly kind: QuotaEvent["kind"]
  readonly reservation: string
  readonly effectId: string
  /** What this event changed; the aggregate is in the totals (G57). */
  readonly change: { readonly reserved: Figures; readonly spent: Figures }
  readonly reason: string | null
}

const readStatus = reader(
  function* (
    input: { readonly goal: string },
    { now }
  ): Load<
    (Omit<QuotaStatus, "spendEvidenceUnreadable"> & { readonly artifacts: readonly SpendArtifact[] }) | undefined
  > {
    const goal = yield* goalTable.first("id = ?", input.goal)
    if (goal === undefined) return undefined
    const [own] = yield* loadAccounts(goal, undefined, now)
    const agents: AccountFigures[] = []
    for (const agent of yield* agentTable.find("goal = ? AND budget IS NOT NULL ORDER BY agent_id", goal.id)) {
      agents.push(...(yield* loadAccounts(goal, agent, now)).slice(1).map((account) => figures(account, now)))
    }
    const artifacts = yield* loadArtifacts(goal.id)
    const { windowMs } = limitsOf(goal)
    const roles: RoleFigures[] = []
    for (const role of CostRole.literals) {
      const totals = yield* loadTotals({ goal: goal.id, role, windowMs }, now)
      const { reserved, spent } = figures({ ...own!, totals }, now)
      roles.push({ goal: goal.id, role, reserved, spent, usage: yield* loadUsage({ goal: goal.id, role }) })
    }
    const usage = yield* loadUsage({ goal: goal.id })
    return { ...figures(own!, now), owed: yield* loadOwed("goal", goal.id), agents, roles, usage, artifacts }
  },
  (input) => notFound("goal", input.goal)
)

/** What of `Quota` only reads; its other half is in Quota.ts. */
export const quotaReads = {
  /** One reservation. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly reservation: string }): Load<Reservation | undefined> {
      const found = yield* reservationTable.first("id = ?", input.reservation)
      return found === undefined ? undefined : showReservation(found)
    },
    (input) => notFound("reservation", input.reservation)
  ),
  /**
   * Limits, sums, what remains, what is owed, for the goal and for each agent with limits of its own. With `artifacts`, a reader
   * of whoever keeps them, also which costs have lost the file that shows them; the amounts stand in the ledger whatever it says.
   * Errors: `NotFound`.
   */
  status: (input: { readonly goal: string; readonly artifacts?: SpendArtifacts }) =>
    Effect.flatMap(readStatus(input), ({ artifacts, ...status }) =>
      Effect.map(
        input.artifacts === undefined ? Effect.succeed(null) : checkArtifacts(artifacts, input.artifacts),
        (spendEvidenceUnreadable) => ({ ...status, spendEvidenceUnreadable })
      )
    ),
  /** The ledger's events after a sequence (at most `limit`, default 1,000), beside the same totals and debts as `status`. Errors: `NotFound`. */
  history: reader(
    function* (
      input: { readonly goal: string; readonly after?: number; readonly limit?: number },
      { now }
    ): Load<
      | {
          readonly totals: AccountFigures
          readonly usage: UsageFigures
          readonly owed: readonly Owed[]
          readonly items: readonly QuotaHistoryEntry[]
        }
      | undefined
    > {
      const goal = yield* goalTable.first("id = ?", input.goal)
      if (goal === undefined) return undefined
      const [own] = yield* loadAccounts(goal, undefined, now)
      const found = yield {
        sql: "SELECT * FROM quota_event WHERE goal = ? AND seq > ? ORDER BY seq LIMIT ?",
        params: [goal.id, input.after ?? 0, input.limit ?? 1000]
      }
      return {
        totals: figures(own!, now),
        usage: yield* loadUsage({ goal: goal.id }),
        owed: yield* loadOwed("goal", goal.id),
        items: found.map((event) => ({
          seq: Number(event["seq"]),
          at: Number(event["at"]),
          kind: event["kind"] as QuotaEvent["kind"],
          reservation: String(event["reservation"]),
          effectId: String(event["effect_id"]),
          change: showDelta(event),
          reason: event["reason"] as string | null
        }))
      }
    },
    (input) => notFound("goal", input.goal)
  ),
  /**
   * The tokens of a goal, or of one agent or role in it, in four disjoint buckets, and the reports that they come from, oldest
   * first (at most `limit`, default 200). A figure whose `unknown` is not 0 is a lower bound. Errors: `NotFound`.
   */
  usage: reader(
    function* (input: {
      readonly goal: string
      readonly agent?: string
      readonly role?: CostRole
      readonly limit?: number
    }): Load<{ readonly figures: UsageFigures; readonly items: readonly UsageRecord[] } | undefined> {
      oneOf("role", input.role, CostRole.literals)
      if ((yield* goalTable.first("id = ?", input.goal)) === undefined) return undefined
      return { figures: yield* loadUsage(input), items: yield* loadReports(input, input.limit ?? 200) }
    },
    (input) => notFound("goal", input.goal)
  )
}
