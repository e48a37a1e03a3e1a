/**
 * Quota: what a goal may cost, what is reserved, what was spent. A ledger of events; every figure is a sum over it.
 * Promise: admission, status and history read the same sum; an unknown cost keeps its reservation and is named as owed;
 * recording a cost that happened is never refused, reserving beyond the limit always is. Rules: G50, G51, G53, G55, G73.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { Amounts, Count, costMicros, Fence, IdText, type Meter, Summary, toUsd, Usd } from "./Field.ts"
import { activeGoal, type Budget, budgetOf, type GoalRecord, goalTable, loadGoal } from "./Goal.ts"
import {
  BoundMissing,
  type GoalNotActive,
  IdentityConflict,
  type LeaseHeld,
  type LeaseLost,
  type NotFound,
  notFound,
  QuotaExceeded,
  ReservationClosed
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, recordTable, row } from "./Handler.ts"
import { type LeaseRecord, loadLease, passWayOut } from "./Lease.ts"
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

const ledger = (
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

// --- commands --------------------------------------------------------------------------------------------------------

const Owner = {
  goal: IdText,
  todo: Schema.optional(IdText),
  turn: Schema.optional(IdText),
  agent: Schema.optional(IdText)
}
const ownerOf = (input: {
  goal: string
  todo?: string | undefined
  turn?: string | undefined
  agent?: string | undefined
}) => ({
  goal: input.goal,
  todo: input.todo ?? null,
  turn: input.turn ?? null,
  agent: input.agent ?? null
})

const ReserveQuota = Schema.Struct({ ...Owner, effectId: IdText, bound: Amounts, fence: Schema.optional(Fence) })
const SpendQuota = Schema.Struct({
  ...Owner,
  effectId: IdText,
  spend: Spend,
  reservation: Schema.optional(IdText),
  /** Digest or id of what shows the cost; a detail, never the source of the amount (G51). */
  evidence: Schema.optional(IdText),
  fence: Schema.optional(Fence)
})

interface SpendState {
  readonly goal: GoalRecord | undefined
  readonly totals: Totals
  readonly known: ReservationRecord | undefined
  readonly named: ReservationRecord | undefined
  readonly lease: LeaseRecord | undefined
}

function* loadSpend(input: {
  readonly goal: string
  readonly effectId: string
  readonly todo?: string | undefined
  readonly reservation?: string | undefined
}): Load<SpendState> {
  return {
    goal: yield* loadGoal(input.goal),
    totals: yield* loadTotals(input.goal),
    known: yield* reservationTable.first("effect_id = ?", input.effectId),
    named: input.reservation === undefined ? undefined : yield* reservationTable.first("id = ?", input.reservation),
    lease: input.todo === undefined ? undefined : yield* loadLease(input.todo)
  }
}

const sameEffect = (known: ReservationRecord): IdentityConflict =>
  new IdentityConflict({
    message: `A cost of effect ${known.effectId} is kept under reservation ${known.id}.`,
    remedy: "Name that reservation, or use the id of the other effect.",
    kind: "effect",
    id: known.effectId
  })

const reserveCommand = handler({
  type: "reserveQuota",
  payload: ReserveQuota,
  load: loadSpend,
  decide: (state, input, context) =>
    Result.gen(function* () {
      const goal = yield* activeGoal(state.goal, input.goal)
      if (input.todo !== undefined) yield* passWayOut(state.lease, input.fence, context.now)
      if (state.known !== undefined) return yield* Result.fail(sameEffect(state.known))
      const { reservation, event } = yield* reserve(
        goal,
        state.totals,
        ownerOf(input),
        input.effectId,
        input.bound,
        context
      )
      return decided([event], showReservation(reservation))
    })
})

/**
 * A spend names its reservation, or none was made. It is charged to the todo of its reservation whatever the frontier
 * shows by then (C63), so a late one needs no live lease; a first one under a held todo passes that todo's fence (G35).
 */
const spendCommand = handler({
  type: "spendQuota",
  payload: SpendQuota,
  load: loadSpend,
  decide: (state, input, context) =>
    Result.gen(function* () {
      if (state.goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (input.reservation !== undefined) {
        const named = state.named
        if (named === undefined || named.goal !== input.goal) {
          return yield* Result.fail(notFound("reservation", input.reservation))
        }
        if (named.effectId !== input.effectId) return yield* Result.fail(sameEffect(named))
        if (named.state !== "open") return yield* Result.fail(closed(named))
        const { reservation, event } = spendReserved(named, input.spend, input.evidence ?? null, context.now)
        return decided([event], showReservation(reservation))
      }
      if (state.known !== undefined) return yield* Result.fail(sameEffect(state.known))
      if (input.todo !== undefined) yield* passWayOut(state.lease, input.fence, context.now)
      const spent = spendUnreserved(ownerOf(input), input.effectId, input.spend, input.evidence ?? null, context)
      return decided([spent.event], showReservation(spent.reservation))
    })
})

const TrueUpQuota = Schema.Struct({ reservation: IdText, usd: Usd, evidence: Schema.optional(IdText) })

const trueUp = handler({
  type: "trueUpQuota",
  payload: TrueUpQuota,
  load: ({ reservation }) => reservationTable.first("id = ?", reservation),
  decide: (held, input, { now }) => {
    if (held === undefined) return Result.fail(notFound("reservation", input.reservation))
    if (held.state !== "owed") return Result.fail(closed(held))
    const { reservation, event } = spendReserved(held, { usd: input.usd }, input.evidence ?? null, now, "trueUp")
    return Result.succeed(decided([event], showReservation(reservation)))
  }
})

const VoidQuota = Schema.Struct({ reservation: IdText, reason: Summary })

/** Voids a reservation under which nothing was dispatched, or takes back a recorded spend: its own amount, once (G52). */
const voidCommand = handler({
  type: "voidQuota",
  payload: VoidQuota,
  load: ({ reservation }) => reservationTable.first("id = ?", reservation),
  decide: (held, input, { now }) => {
    if (held === undefined) return Result.fail(notFound("reservation", input.reservation))
    if (held.state === "open" && held.turn === null) {
      const event = voidReserved(held, input.reason, now)
      return Result.succeed(decided([event], showReservation((event.data as unknown as QuotaEvent).reservation)))
    }
    if (held.state !== "spent") return Result.fail(closed(held))
    const next: ReservationRecord = { ...held, state: "void", spentUsdMicros: 0, spentSlots: 0, changedAt: now }
    const delta = { spentUsdMicros: -(held.spentUsdMicros ?? 0), spentSlots: -held.spentSlots }
    return Result.succeed(decided([ledger("void", next, delta, input.reason)], showReservation(next)))
  }
})

export const quotaHandlers: Handlers = { ...reserveCommand, ...spendCommand, ...trueUp, ...voidCommand }

// --- service ---------------------------------------------------------------------------------------------------------

export interface QuotaHistoryEntry {
  readonly seq: number
  readonly at: number
  readonly kind: QuotaEvent["kind"]
  readonly reservation: string
  readonly effectId: string
  /** What this event changed; the aggregate is in the totals (G57). */
  readonly change: {
    readonly reserved: { readonly usd: number; readonly slots: number }
    readonly spent: { readonly usd: number; readonly slots: number }
  }
  readonly reason: string | null
}

/** Quota: bounds before, costs after, and what is owed in between. Amounts in US dollars and whole slots. */
export const Quota = {
  /** Holds an upper bound. Errors: `QuotaExceeded`, `BoundMissing`, `GoalNotActive`, `IdentityConflict` (effect used), lease errors. */
  reserve: writer<
    typeof ReserveQuota.Type,
    Reservation,
    QuotaExceeded | BoundMissing | GoalNotActive | NotFound | IdentityConflict | LeaseLost | LeaseHeld
  >("work", "reserveQuota"),
  /** Records what an effect cost, once. Errors: `ReservationClosed`, `IdentityConflict`, `NotFound`, lease errors. */
  spend: writer<
    typeof SpendQuota.Type,
    Reservation,
    ReservationClosed | NotFound | IdentityConflict | LeaseLost | LeaseHeld
  >("work", "spendQuota"),
  /** Settles a cost that was unknown. Errors: `ReservationClosed`, `NotFound`. */
  trueUp: writer<typeof TrueUpQuota.Type, Reservation, ReservationClosed | NotFound>("work", "trueUpQuota"),
  /** Gives back an undispatched reservation, or takes back a spend. Errors: `ReservationClosed`, `NotFound`. */
  void: writer<typeof VoidQuota.Type, Reservation, ReservationClosed | NotFound>("work", "voidQuota"),
  /** One reservation. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly reservation: string }): Load<Reservation | undefined> {
      const found = yield* reservationTable.first("id = ?", input.reservation)
      return found === undefined ? undefined : showReservation(found)
    },
    (input) => notFound("reservation", input.reservation)
  ),
  /** Limits, sums, what remains, what is owed. Errors: `NotFound`. */
  status: reader(
    function* (input: { readonly goal: string }): Load<QuotaStatus | undefined> {
      const goal = yield* goalTable.first("id = ?", input.goal)
      if (goal === undefined) return undefined
      return { ...figures(goal, yield* loadTotals(goal.id)), owed: yield* loadOwed("goal", goal.id) }
    },
    (input) => notFound("goal", input.goal)
  ),
  /** The ledger's events after a sequence (at most `limit`, default 1,000), beside the same totals as `status`. Errors: `NotFound`. */
  history: reader(
    function* (input: {
      readonly goal: string
      readonly after?: number
      readonly limit?: number
    }): Load<{ readonly totals: Omit<QuotaStatus, "owed">; readonly items: readonly QuotaHistoryEntry[] } | undefined> {
      const goal = yield* goalTable.first("id = ?", input.goal)
      if (goal === undefined) return undefined
      const found = yield {
        sql: "SELECT * FROM quota_event WHERE goal = ? AND seq > ? ORDER BY seq LIMIT ?",
        params: [goal.id, input.after ?? 0, input.limit ?? 1000]
      }
      return {
        totals: figures(goal, yield* loadTotals(goal.id)),
        items: found.map((event) => ({
          seq: Number(event["seq"]),
          at: Number(event["at"]),
          kind: event["kind"] as QuotaEvent["kind"],
          reservation: String(event["reservation"]),
          effectId: String(event["effect_id"]),
          change: {
            reserved: { usd: toUsd(Number(event["reserved_usd_micros"])), slots: Number(event["reserved_slots"]) },
            spent: { usd: toUsd(Number(event["spent_usd_micros"])), slots: Number(event["spent_slots"]) }
          },
          reason: event["reason"] as string | null
        }))
      }
    },
    (input) => notFound("goal", input.goal)
  )
}
