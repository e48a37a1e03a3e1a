/**
 * The quota ledger: its records, its one sum, and how a bound is held and a cost put in its place. Pure.
 * Promise: every figure is a sum over events; recording a cost that happened is never refused, reserving beyond the limit
 * always is; an unknown cost keeps what was held. Rules: G50, G51, G53, G55, G73. The commands are in Quota.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Amounts, Count, costMicros, type Meter, toUsd, Usd } from "./Field.ts"
import { type Budget, budgetOf, type GoalRecord } from "./Goal.ts"
import { BoundMissing, QuotaExceeded, ReservationClosed } from "./GovernanceError.ts"
import { fact, recordTable, row } from "./Handler.ts"
import type { DecideContext, JournalEvent, Load, Statement } from "./Module.ts"

// --- model -----------------------------------------------------------------------------------------------------------

/** Where a cost belongs. */
export interface CostOwner {
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly agent: string | null
}

/**
 * A reservation and what became of it. `open`: the work may still run. `owed`: it was settled, its cost is unknown and the
 * bound stays held. `spent`: trued up. `void`: nothing was dispatched, or the spend was taken back.
 */
export interface ReservationRecord extends CostOwner {
  readonly id: string
  /** The effect whose cost this is; a cost is recorded once per effect. */
  readonly effectId: string
  readonly state: "open" | "owed" | "spent" | "void"
  /** What is held; null when the bound itself was never known (a cost reported as unknown without a reservation). */
  readonly heldUsdMicros: number | null
  readonly heldSlots: number
  readonly spentUsdMicros: number | null
  readonly spentSlots: number
  readonly evidence: string | null
  readonly reservedAt: number
  readonly changedAt: number
}

export interface Totals {
  readonly reservedUsdMicros: number
  readonly spentUsdMicros: number
  readonly reservedSlots: number
  readonly spentSlots: number
}

/** What an unknown cost or an unpaid completion leaves open, and the exact call that settles it (G73). */
export interface Owed {
  readonly reservation: string
  readonly todo: string | null
  readonly turn: string | null
  readonly call: {
    readonly operation: "Quota.trueUp"
    /** `usd` is what the caller has to fill in. */
    readonly input: { readonly reservation: string; readonly usd: null }
  }
}

export interface QuotaStatus {
  readonly goal: string
  readonly budget: Budget
  readonly reserved: { readonly usd: number; readonly slots: number }
  readonly spent: { readonly usd: number; readonly slots: number }
  /** Limit minus spent minus reserved, not below zero; null where there is no limit. */
  readonly remaining: Budget
  readonly owed: readonly Owed[]
}

export interface Reservation extends CostOwner {
  readonly id: string
  readonly effectId: string
  readonly state: ReservationRecord["state"]
  readonly held: { readonly usd: number | null; readonly slots: number }
  readonly spent: { readonly usd: number | null; readonly slots: number }
  readonly owed: readonly Owed[]
}

export const reservationTable = recordTable<ReservationRecord>("reservation", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  turn: "value",
  agent: "value",
  effectId: "value",
  state: "value",
  heldUsdMicros: "value",
  heldSlots: "value",
  spentUsdMicros: "value",
  spentSlots: "value",
  evidence: "value",
  reservedAt: "value",
  changedAt: "value"
})

/** One event of the ledger: the reservation as it is now, and by how much each sum changes. */
export interface QuotaEvent {
  readonly kind: "reserve" | "spend" | "void" | "trueUp"
  readonly reservation: ReservationRecord
  readonly delta: Totals
  readonly reason: string | null
}

export const projectQuota = (
  event: JournalEvent,
  meta: { readonly seq: number; readonly at: number }
): readonly Statement[] => {
  const { kind, reservation, delta, reason } = event.data as unknown as QuotaEvent
  return [
    {
      sql:
        "INSERT INTO quota_event (seq, at, goal, kind, reservation, effect_id, reserved_usd_micros, spent_usd_micros, " +
        "reserved_slots, spent_slots, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      params: [
        meta.seq,
        meta.at,
        reservation.goal,
        kind,
        reservation.id,
        reservation.effectId,
        delta.reservedUsdMicros,
        delta.spentUsdMicros,
        delta.reservedSlots,
        delta.spentSlots,
        reason
      ]
    },
    reservationTable.put(reservation)
  ]
}

// --- rules -----------------------------------------------------------------------------------------------------------

/** The one sum that admission, status and history read (G53). */
export function* loadTotals(goal: string): Load<Totals> {
  const sum = yield* row(
    "SELECT COALESCE(SUM(reserved_usd_micros), 0) AS reserved_usd, COALESCE(SUM(spent_usd_micros), 0) AS spent_usd, " +
      "COALESCE(SUM(reserved_slots), 0) AS reserved_slots, COALESCE(SUM(spent_slots), 0) AS spent_slots " +
      "FROM quota_event WHERE goal = ?",
    goal
  )
  return {
    reservedUsdMicros: Number(sum!["reserved_usd"]),
    spentUsdMicros: Number(sum!["spent_usd"]),
    reservedSlots: Number(sum!["reserved_slots"]),
    spentSlots: Number(sum!["spent_slots"])
  }
}

const left = (limit: number | null, used: number): number | null => (limit === null ? null : Math.max(0, limit - used))

/** The figures of a goal, all from one sum. */
export const figures = (goal: GoalRecord, totals: Totals): Omit<QuotaStatus, "owed"> => {
  const usd = left(goal.limitUsdMicros, totals.spentUsdMicros + totals.reservedUsdMicros)
  return {
    goal: goal.id,
    budget: budgetOf(goal),
    reserved: { usd: toUsd(totals.reservedUsdMicros), slots: totals.reservedSlots },
    spent: { usd: toUsd(totals.spentUsdMicros), slots: totals.spentSlots },
    remaining: {
      usd: usd === null ? null : toUsd(usd),
      slots: left(goal.limitSlots, totals.spentSlots + totals.reservedSlots)
    }
  }
}

export const owedBy = (reservation: ReservationRecord): readonly Owed[] =>
  reservation.state !== "owed"
    ? []
    : [
        {
          reservation: reservation.id,
          todo: reservation.todo,
          turn: reservation.turn,
          call: { operation: "Quota.trueUp", input: { reservation: reservation.id, usd: null } }
        }
      ]

export const loadOwed = function* (where: "goal" | "todo" | "turn", id: string): Load<readonly Owed[]> {
  const open = yield* reservationTable.find(`${where} = ? AND state = 'owed' ORDER BY reserved_at, id`, id)
  return open.flatMap(owedBy)
}

export const showReservation = (r: ReservationRecord): Reservation => ({
  id: r.id,
  goal: r.goal,
  todo: r.todo,
  turn: r.turn,
  agent: r.agent,
  effectId: r.effectId,
  state: r.state,
  held: { usd: r.heldUsdMicros === null ? null : toUsd(r.heldUsdMicros), slots: r.heldSlots },
  spent: { usd: r.spentUsdMicros === null ? null : toUsd(r.spentUsdMicros), slots: r.spentSlots },
  owed: owedBy(r)
})

const none: Totals = { reservedUsdMicros: 0, spentUsdMicros: 0, reservedSlots: 0, spentSlots: 0 }

export const ledger = (
  kind: QuotaEvent["kind"],
  reservation: ReservationRecord,
  delta: Partial<Totals>,
  reason: string | null = null
): JournalEvent =>
  fact(`quota.${kind}`, reservation.id, {
    kind,
    reservation,
    delta: { ...none, ...delta },
    reason
  } satisfies QuotaEvent)

const exceeded = (goal: string, meter: Meter, limit: number, used: number, asked: number): QuotaExceeded => {
  const shown = meter === "usd" ? toUsd : (n: number) => n
  return new QuotaExceeded({
    message: `Goal ${goal} has ${shown(Math.max(0, limit - used))} ${meter} left; ${shown(asked)} were asked for.`,
    remedy: "Ask for less, wait for reservations to be trued up, or let the owner open a goal with a larger budget.",
    goal,
    meter,
    limit: shown(limit),
    used: shown(used),
    asked: shown(asked)
  })
}

/** Holds an upper bound for an effect (G55). Every meter that the goal limits or requires needs a bound. */
export const reserve = (
  goal: GoalRecord,
  totals: Totals,
  owner: CostOwner,
  effectId: string,
  bound: Amounts,
  { now, newId }: DecideContext
): Result.Result<
  { readonly reservation: ReservationRecord; readonly event: JournalEvent },
  QuotaExceeded | BoundMissing
> => {
  const needs = (meter: Meter, limit: number | null) => limit !== null || goal.requiredMeters.includes(meter)
  for (const [meter, limit] of [
    ["usd", goal.limitUsdMicros],
    ["slots", goal.limitSlots]
  ] as const) {
    if (bound[meter] === undefined && needs(meter, limit)) {
      return Result.fail(
        new BoundMissing({
          message: `Goal ${goal.id} counts ${meter}; the reservation names no upper bound for it.`,
          remedy: `Give the most that this can cost as \`${meter}\`.`,
          meter
        })
      )
    }
  }
  const usd = costMicros(bound.usd ?? 0)
  const slots = bound.slots ?? 0
  const usedUsd = totals.spentUsdMicros + totals.reservedUsdMicros
  const usedSlots = totals.spentSlots + totals.reservedSlots
  if (goal.limitUsdMicros !== null && usedUsd + usd > goal.limitUsdMicros) {
    return Result.fail(exceeded(goal.id, "usd", goal.limitUsdMicros, usedUsd, usd))
  }
  if (goal.limitSlots !== null && usedSlots + slots > goal.limitSlots) {
    return Result.fail(exceeded(goal.id, "slots", goal.limitSlots, usedSlots, slots))
  }
  const reservation: ReservationRecord = {
    ...owner,
    id: newId("reservation"),
    effectId,
    state: "open",
    heldUsdMicros: usd,
    heldSlots: slots,
    spentUsdMicros: null,
    spentSlots: 0,
    evidence: null,
    reservedAt: now,
    changedAt: now
  }
  return Result.succeed({
    reservation,
    event: ledger("reserve", reservation, { reservedUsdMicros: usd, reservedSlots: slots })
  })
}

/** What an effect came to cost. Unknown is a value of its own and never zero. */
export const Spend = Schema.Struct({
  usd: Schema.Union([Usd, Schema.Literal("unknown")]),
  slots: Schema.optional(Count)
})
export type Spend = typeof Spend.Type

export const closed = (reservation: ReservationRecord): ReservationClosed =>
  new ReservationClosed({
    message: `Reservation ${reservation.id} is ${reservation.state}.`,
    remedy:
      reservation.state === "owed"
        ? "Its cost is unknown: settle it with Quota.trueUp once the cost is known."
        : "Its cost is recorded: read it with Quota.get. A further cost is a spend of its own effect.",
    reservation: reservation.id,
    state: reservation.state
  })

/**
 * Puts the cost of an effect in the place of its reservation. A known cost frees what was held and counts, also beyond
 * the limit: it happened. An unknown one keeps what was held, and is owed (G55, G73).
 */
export const spendReserved = (
  held: ReservationRecord,
  spend: Spend,
  evidence: string | null,
  now: number,
  kind: "spend" | "trueUp" = "spend"
): { readonly reservation: ReservationRecord; readonly event: JournalEvent } => {
  const slots = spend.slots ?? (held.state === "open" ? held.heldSlots : held.spentSlots)
  const slotsDelta = { reservedSlots: -held.heldSlots, spentSlots: slots - held.spentSlots }
  const common = { ...held, heldSlots: 0, spentSlots: slots, evidence: evidence ?? held.evidence, changedAt: now }
  if (spend.usd === "unknown") {
    const reservation: ReservationRecord = { ...common, state: "owed" }
    return { reservation, event: ledger(kind, reservation, slotsDelta) }
  }
  const usd = costMicros(spend.usd)
  const reservation: ReservationRecord = { ...common, state: "spent", heldUsdMicros: 0, spentUsdMicros: usd }
  return {
    reservation,
    event: ledger(kind, reservation, {
      ...slotsDelta,
      reservedUsdMicros: -(held.heldUsdMicros ?? 0),
      spentUsdMicros: usd
    })
  }
}

/** A cost that was never reserved: it happened, so it counts; unknown, it is owed with no bound. */
export const spendUnreserved = (
  owner: CostOwner,
  effectId: string,
  spend: Spend,
  evidence: string | null,
  { now, newId }: DecideContext
): { readonly reservation: ReservationRecord; readonly event: JournalEvent } => {
  const fresh: ReservationRecord = {
    ...owner,
    id: newId("reservation"),
    effectId,
    state: "open",
    heldUsdMicros: null,
    heldSlots: 0,
    spentUsdMicros: null,
    spentSlots: 0,
    evidence: null,
    reservedAt: now,
    changedAt: now
  }
  return spendReserved(fresh, spend, evidence, now)
}

/** Gives back what was held for an effect that was never dispatched. */
export const voidReserved = (held: ReservationRecord, reason: string, now: number): JournalEvent =>
  ledger(
    "void",
    { ...held, state: "void", heldUsdMicros: 0, heldSlots: 0, changedAt: now },
    { reservedUsdMicros: -(held.heldUsdMicros ?? 0), reservedSlots: -held.heldSlots },
    reason
  )
