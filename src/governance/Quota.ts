/**
 * Quota: the commands over the ledger of what a goal may cost, has reserved and has spent. The reads: QuotaStatus.ts.
 * Promise: admission, status, history and receipts read the same sum; an unknown cost is named as owed with the call that
 * settles it; a cost belongs to the todo it was reserved for, whatever the frontier shows by then. Rules: G50 to G57, G73; C63.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { writer } from "./Authority.ts"
import { Amounts, Fence, IdText, Summary, Usd } from "./Field.ts"
import { activeGoal, type AgentRecord, agentTable, type GoalRecord, limitsOf, loadGoal } from "./Goal.ts"
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
import { decided, type Handlers, handler, row } from "./Handler.ts"
import { type LeaseRecord, loadLease, passWayOut } from "./Lease.ts"
import type { JournalEvent, Load } from "./Module.ts"
import {
  type Booked,
  closed,
  reserve,
  Spend,
  spendReserved,
  spendUnreserved,
  voidReserved,
  voidSpent
} from "./QuotaLedger.ts"
import { quotaReads } from "./QuotaStatus.ts"
import {
  type Account,
  type Delta,
  type EventReceipt,
  eventReceipt,
  loadAccounts,
  loadTotals,
  negated,
  type QuotaEvent
} from "./QuotaSum.ts"
import {
  CostRole,
  type Reservation,
  type ReservationRecord,
  reservationTable,
  showReservation
} from "./ReservationRecord.ts"
import {
  knownTotal,
  loadCounted,
  recordUsage,
  type UsageOwner,
  UsageReport,
  usageTable,
  withdrawUsage
} from "./Usage.ts"

// --- commands --------------------------------------------------------------------------------------------------------

const Owner = {
  goal: IdText,
  todo: Schema.optional(IdText),
  turn: Schema.optional(IdText),
  agent: Schema.optional(IdText),
  /** Whose part of the work it is: a worker's when not given (G56). */
  role: Schema.optional(CostRole)
}
const ownerOf = (input: {
  goal: string
  todo?: string | undefined
  turn?: string | undefined
  agent?: string | undefined
  role?: CostRole | undefined
}) => ({
  goal: input.goal,
  todo: input.todo ?? null,
  turn: input.turn ?? null,
  agent: input.agent ?? null,
  role: input.role ?? "worker"
})

const ReserveQuota = Schema.Struct({ ...Owner, effectId: IdText, bound: Amounts, fence: Schema.optional(Fence) })
const SpendQuota = Schema.Struct({
  ...Owner,
  effectId: IdText,
  spend: Spend,
  reservation: Schema.optional(IdText),
  /** Digest or id of what shows the cost; a detail, never the source of the amount (G51). */
  evidence: Schema.optional(IdText),
  /** What the providers say of its tokens; the `tokens` of the spend are theirs where it names none and they are known. */
  usage: Schema.optional(UsageReport),
  fence: Schema.optional(Fence)
})

interface SpendState {
  readonly goal: GoalRecord | undefined
  readonly accounts: readonly Account[]
  readonly known: ReservationRecord | undefined
  readonly named: ReservationRecord | undefined
  /** The open turn whose reservation is named. */
  readonly turn: string | undefined
  readonly lease: LeaseRecord | undefined
  readonly counted: ReadonlySet<string>
  /** The first of todo, turn and agent that the cost is said to be of and that is none of the goal. */
  readonly unknown: NotFound | undefined
}

const loadAgent = (goal: string, agent: string | null | undefined): Load<AgentRecord | undefined> =>
  agentTable.first("goal = ? AND agent_id = ?", goal, agent ?? "")

interface Owners {
  readonly goal: string
  readonly todo?: string | undefined
  readonly turn?: string | undefined
  readonly agent?: string | undefined
}

/** A cost belongs to work and agents of the goal that pays it, or nobody would find it there. */
function* loadUnknown({ goal, todo, turn, agent }: Owners): Load<NotFound | undefined> {
  for (const [kind, id] of [
    ["todo", todo],
    ["turn", turn]
  ] as const) {
    if (id === undefined) continue
    if ((yield* row(`SELECT 1 FROM ${kind} WHERE id = ? AND goal = ?`, id, goal)) === undefined) {
      return notFound(kind, id)
    }
  }
  return agent !== undefined && (yield* loadAgent(goal, agent)) === undefined ? notFound("agent", agent) : undefined
}

function* loadSpend(
  input: {
    readonly goal: string
    readonly effectId: string
    readonly todo?: string | undefined
    readonly turn?: string | undefined
    readonly agent?: string | undefined
    readonly reservation?: string | undefined
    readonly usage?: UsageReport | undefined
  },
  now: number
): Load<SpendState> {
  const goal = yield* loadGoal(input.goal)
  const named = input.reservation === undefined ? undefined : yield* reservationTable.first("id = ?", input.reservation)
  return {
    goal,
    accounts: yield* loadAccounts(goal, yield* loadAgent(input.goal, input.agent), now),
    known: yield* reservationTable.first("effect_id = ?", input.effectId),
    named,
    turn: named === undefined ? undefined : yield* loadTurnOf(named),
    lease: input.todo === undefined ? undefined : yield* loadLease(input.todo),
    counted: yield* loadCounted(input.goal, input.usage),
    unknown: yield* loadUnknown(input)
  }
}

/** The open turn that this is the reservation of. A cost may name a turn as its owner without being the turn's own. */
function* loadTurnOf({ id, turn }: ReservationRecord): Load<string | undefined> {
  if (turn === null) return undefined
  const found = yield* row("SELECT id FROM turn WHERE id = ? AND reservation = ? AND state = 'open'", turn, id)
  return found === undefined ? undefined : String(found["id"])
}

/** What a turn costs and used is recorded once, by the turn: a second report could only replace it, and close it for the turn. */
const ofTurn = (turn: string, { effectId }: ReservationRecord): IdentityConflict =>
  new IdentityConflict({
    message: `Effect ${effectId} is that of turn ${turn}; its cost is recorded when the turn is settled or fails.`,
    remedy:
      "Settle the turn with Settlements.settle or end it with Turns.fail. A further cost has an effect id of its own.",
    kind: "effect",
    id: effectId
  })

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
      if (state.unknown !== undefined) return yield* Result.fail(state.unknown)
      if (input.todo !== undefined) yield* passWayOut(state.lease, input.fence, context.now)
      if (state.known !== undefined) return yield* Result.fail(sameEffect(state.known))
      const { accounts } = state
      const held = yield* reserve(accounts, goal.requiredMeters, ownerOf(input), input.effectId, input.bound, context)
      return decided([held.event], showReservation(held.reservation))
    })
})

/** The reply of a command that changed the ledger: the reservation, and its event apart from the goal's aggregate (G57). */
const booked = (
  kind: QuotaEvent["kind"],
  { event, reservation, delta }: Booked,
  { accounts: [own] }: { readonly accounts: readonly Account[] },
  now: number,
  counted?: Delta,
  more: readonly JournalEvent[] = []
) => decided([event, ...more], { ...showReservation(reservation), ...eventReceipt(kind, delta, own!, now, counted) })

/** A reservation with its goal's account, for the commands that name it by its id. */
function* loadBooked(id: string, now: number) {
  const held = yield* reservationTable.first("id = ?", id)
  if (held === undefined) return undefined
  const goal = yield* loadGoal(held.goal)
  const accounts = yield* loadAccounts(goal, undefined, now)
  const windowMs = goal === undefined ? null : limitsOf(goal).windowMs
  return {
    held,
    turn: yield* loadTurnOf(held),
    accounts,
    counted: yield* loadTotals({ goal: held.goal, reservation: id, windowMs }, now),
    used: yield* usageTable.first("effect_id = ?", held.effectId)
  }
}

/** What was reported of a cost's tokens, and the spend with them where they are known and it names none. */
const used = (
  owner: UsageOwner,
  { spend, usage }: { readonly spend: Spend; readonly usage?: UsageReport | undefined },
  { counted }: SpendState,
  now: number
): { readonly spend: Spend; readonly usage: readonly JournalEvent[] } => {
  if (usage === undefined) return { spend, usage: [] }
  const recorded = recordUsage(owner, usage, counted, now)
  const tokens = knownTotal(recorded.used)
  return { spend: tokens === null ? spend : { tokens, ...spend }, usage: [recorded.event] }
}

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
      if (state.unknown !== undefined) return yield* Result.fail(state.unknown)
      if (input.reservation !== undefined) {
        const named = state.named
        if (named === undefined || named.goal !== input.goal) {
          return yield* Result.fail(notFound("reservation", input.reservation))
        }
        if (named.effectId !== input.effectId) return yield* Result.fail(sameEffect(named))
        if (named.state !== "open") return yield* Result.fail(closed(named))
        if (state.turn !== undefined) return yield* Result.fail(ofTurn(state.turn, named))
        const { spend, usage } = used(named, input, state, context.now)
        return booked(
          "spend",
          spendReserved(named, spend, input.evidence ?? null, context.now),
          state,
          context.now,
          undefined,
          usage
        )
      }
      if (state.known !== undefined) return yield* Result.fail(sameEffect(state.known))
      if (input.todo !== undefined) yield* passWayOut(state.lease, input.fence, context.now)
      const owner = { ...ownerOf(input), effectId: input.effectId }
      const { spend, usage } = used(owner, input, state, context.now)
      const spent = spendUnreserved(ownerOf(input), input.effectId, spend, input.evidence ?? null, context)
      return booked("spend", spent, state, context.now, undefined, usage)
    })
})

const TrueUpQuota = Schema.Struct({ reservation: IdText, usd: Usd, evidence: Schema.optional(IdText) })

const trueUp = handler({
  type: "trueUpQuota",
  payload: TrueUpQuota,
  load: ({ reservation }, now) => loadBooked(reservation, now),
  decide: (state, input, { now }) => {
    if (state === undefined) return Result.fail(notFound("reservation", input.reservation))
    const { held } = state
    if (held.state !== "owed") return Result.fail(closed(held))
    const paid = spendReserved(held, { usd: input.usd }, input.evidence ?? null, now, "trueUp")
    return Result.succeed(booked("trueUp", paid, state, now))
  }
})

const VoidQuota = Schema.Struct({ reservation: IdText, reason: Summary })

/** Voids a reservation under which nothing was dispatched, or takes back a recorded spend: its own amount and tokens, once (G52). */
const voidCommand = handler({
  type: "voidQuota",
  payload: VoidQuota,
  load: ({ reservation }, now) => loadBooked(reservation, now),
  decide: (state, input, { now }) => {
    if (state === undefined) return Result.fail(notFound("reservation", input.reservation))
    const { held, counted } = state
    // The bound of an open turn ends with the turn; one that only names a turn is nobody else's to give back.
    const undispatched = held.state === "open" && state.turn === undefined
    if (!undispatched && held.state !== "spent") return Result.fail(closed(held))
    const taken = (undispatched ? voidReserved : voidSpent)(held, input.reason, now)
    // What has left the window leaves it no second time.
    const change = { reserved: negated(counted.reserved), spent: negated(counted.spent) }
    return Result.succeed(
      booked("void", taken, state, now, change, state.used === undefined ? [] : [withdrawUsage(state.used)])
    )
  }
})

export const quotaHandlers: Handlers = { ...reserveCommand, ...spendCommand, ...trueUp, ...voidCommand }

// --- service ---------------------------------------------------------------------------------------------------------

/** Quota: bounds before, costs after, and what is owed in between. Amounts in US dollars and whole slots. */
export const Quota = {
  /**
   * Holds an upper bound. Errors: `QuotaExceeded`, `BoundMissing`, `GoalNotActive`, `IdentityConflict` (effect used), `NotFound` (the
   * goal, or no todo, turn or agent of it), lease errors.
   */
  reserve: writer<
    typeof ReserveQuota.Type,
    Reservation,
    QuotaExceeded | BoundMissing | GoalNotActive | NotFound | IdentityConflict | LeaseLost | LeaseHeld
  >("work", "reserveQuota"),
  /**
   * Records what an effect cost, once; what a turn cost is recorded by the turn. Errors: `ReservationClosed`, `IdentityConflict`
   * (recorded under another reservation, or the effect of an open turn), `NotFound` (the goal, its reservation, or no todo, turn or
   * agent of it), lease errors.
   */
  spend: writer<
    typeof SpendQuota.Type,
    Reservation & EventReceipt,
    ReservationClosed | NotFound | IdentityConflict | LeaseLost | LeaseHeld
  >("work", "spendQuota"),
  /** Settles a cost that was unknown. Errors: `ReservationClosed`, `NotFound`. */
  trueUp: writer<typeof TrueUpQuota.Type, Reservation & EventReceipt, ReservationClosed | NotFound>(
    "work",
    "trueUpQuota"
  ),
  /** Gives back an undispatched reservation, or takes back a spend with the tokens reported under it. Errors: `ReservationClosed`, `NotFound`. */
  void: writer<typeof VoidQuota.Type, Reservation & EventReceipt, ReservationClosed | NotFound>("work", "voidQuota"),
  ...quotaReads
}
