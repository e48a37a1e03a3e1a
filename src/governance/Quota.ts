/**
 * Quota: the commands and reads over the ledger of what a goal may cost, has reserved and has spent.
 * Promise: admission, status and history read the same sum; an unknown cost is named as owed with the call that settles
 * it; a cost belongs to the todo it was reserved for, whatever the frontier shows by then. Rules: G50 to G55, G73; C63.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { Amounts, Fence, IdText, Summary, toUsd, Usd } from "./Field.ts"
import { activeGoal, type GoalRecord, goalTable, loadGoal } from "./Goal.ts"
import {
  type BoundMissing,
  type GoalNotActive,
  IdentityConflict,
  type LeaseHeld,
  type LeaseLost,
  type NotFound,
  notFound,
  type QuotaExceeded,
  type ReservationClosed
} from "./GovernanceError.ts"
import { decided, type Handlers, handler } from "./Handler.ts"
import { type LeaseRecord, loadLease, passWayOut } from "./Lease.ts"
import type { Load } from "./Module.ts"
import {
  closed,
  figures,
  ledger,
  loadOwed,
  loadTotals,
  type QuotaEvent,
  type QuotaStatus,
  type Reservation,
  type ReservationRecord,
  reservationTable,
  reserve,
  showReservation,
  Spend,
  spendReserved,
  spendUnreserved,
  type Totals,
  voidReserved
} from "./QuotaLedger.ts"

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
