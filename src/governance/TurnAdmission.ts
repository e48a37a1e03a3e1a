/**
 * Admitting a turn, and starting a failed one over.
 * Promise: the turn in the way is looked at before anything is touched; the bound is held in the commit that admits; work of
 * a dead turn that was saved is never dropped in passing. Rules: G55, G81, G82.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Amounts, Fence, IdText, plus, Summary } from "./Field.ts"
import { type GateRecord, loadGates, occasionOf, passGates } from "./GateRecord.ts"
import {
  activeGoal,
  type AgentRecord,
  agentTable,
  type GoalRecord,
  knownAgent,
  loadGoal,
  loadWaiting,
  type Waiting
} from "./Goal.ts"
import { LeaseLost, notFound, TurnUnfinished } from "./GovernanceError.ts"
import { decided, fact, handler, invalidInput } from "./Handler.ts"
import { type LeaseRecord, loadLease, passFence } from "./Lease.ts"
import type { DecideContext, JournalEvent, Load } from "./Module.ts"
import { reserve, type Spend, spendReserved, voidReserved } from "./QuotaLedger.ts"
import { type Account, loadAccounts, negated } from "./QuotaSum.ts"
import {
  type CostOwner,
  heldOf,
  type Owed,
  owedBy,
  type ReservationRecord,
  reservationTable
} from "./ReservationRecord.ts"
import { requirementOf } from "./Requirement.ts"
import { loadRequired, readableAll, revisionsOf, type SourceRecord } from "./SourceRecord.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"
import { inFlight, type Observed, openTurn, sameProcess, seenAlive, seenBy } from "./TurnFence.ts"
import { type AdmittedContext, inPhase, TurnContext, type TurnRecord, turnTable } from "./TurnRecord.ts"

// --- rules -----------------------------------------------------------------------------------------------------------

/** The cost of a turn that ended without a settlement: nothing dispatched, nothing spent; else known, or owed (G55). */
export const unsettledCost = (
  turn: TurnRecord,
  held: ReservationRecord | undefined,
  spend: Spend,
  reason: string,
  now: number
) => {
  if (held === undefined || held.state !== "open") {
    return { events: [], owed: held === undefined ? ([] as readonly Owed[]) : owedBy(held) }
  }
  if (turn.phase === "admit") return { events: [voidReserved(held, reason, now).event], owed: [] as readonly Owed[] }
  const { reservation, event } = spendReserved(held, spend, null, now)
  return { events: [event], owed: owedBy(reservation) }
}

/** The accounts after what is freed by a void in the same commit. */
const without = (accounts: readonly Account[], held: ReservationRecord | undefined, turn: TurnRecord) =>
  turn.phase !== "admit" || held?.state !== "open"
    ? accounts
    : accounts.map((account) => ({
        ...account,
        totals: { ...account.totals, reserved: plus(account.totals.reserved, negated(heldOf(held))) }
      }))

interface Old {
  readonly turn: TurnRecord
  readonly held: ReservationRecord | undefined
}

/**
 * The turn in the way of an admission. Alive or not to be seen: in flight. Dead with a saved result: it is work that
 * somebody has to settle or fail by name, never dropped in passing. Dead before that: it is written down as lost.
 */
const clearOld = (old: Old | undefined, observed: Observed | undefined, now: number) =>
  Result.gen(function* () {
    if (old === undefined) return []
    const { turn, held } = old
    const alive = seenAlive(turn, observed)
    const mine = observed !== undefined && sameProcess(turn.fence, observed.process)
    if (alive !== false || mine) return yield* Result.fail(inFlight(turn, mine ? true : alive))
    if (turn.result !== null) {
      return yield* Result.fail(
        new TurnUnfinished({
          message: `Turn ${turn.id} has a saved result and was never closed (phase ${turn.phase}).`,
          remedy: "Take it over with Turns.resume and settle and close it, or end it with Turns.fail.",
          turn: turn.id,
          phase: turn.phase
        })
      )
    }
    const lost: TurnRecord = {
      ...turn,
      state: "failed",
      failure: { class: "lost", reason: "its process has died" },
      changedAt: now
    }
    const cost = unsettledCost(turn, held, { usd: "unknown" }, "the turn was lost before its dispatch", now)
    return [fact("turn.lost", turn.id, lost), ...cost.events]
  })

// --- admission -------------------------------------------------------------------------------------------------------

export const AdmitTurn = Schema.Struct({
  goal: IdText,
  agent: IdText,
  fence: Fence,
  /** The most that the turn may cost. One slot when `slots` is not given. */
  bound: Amounts,
  context: Schema.optional(TurnContext)
})
export type AdmitTurn = typeof AdmitTurn.Type

interface AdmitState {
  readonly goal: GoalRecord | undefined
  readonly agent: AgentRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly todo: TodoRecord | undefined
  readonly required: readonly SourceRecord[]
  readonly accounts: readonly Account[]
  readonly old: Old | undefined
  readonly gates: readonly GateRecord[]
  readonly waiting: Waiting
}

function* loadAdmission(input: { goal: string; agent: string; fence: Fence }, now: number): Load<AdmitState> {
  const turn = yield* openTurn(input.goal, input.agent)
  const goal = yield* loadGoal(input.goal)
  const agent = yield* agentTable.first("goal = ? AND agent_id = ?", input.goal, input.agent)
  const todo = yield* todoTable.first("id = ?", input.fence.todo)
  return {
    goal,
    agent,
    lease: yield* loadLease(input.fence.todo),
    todo,
    required: yield* loadRequired(todo),
    accounts: yield* loadAccounts(goal, agent, now),
    gates: yield* loadGates(input.goal, input.fence.todo),
    waiting: yield* loadWaiting(goal, now),
    old: turn === undefined ? undefined : { turn, held: yield* reservationTable.first("id = ?", turn.reservation) }
  }
}

/** The lease must be of this goal, and held by the agent that is to act. */
export const leaseOf = (lease: LeaseRecord | undefined, fence: Fence, goal: string, agent: string, now: number) =>
  Result.gen(function* () {
    const held = yield* passFence(lease, fence, now)
    if (held.goal === goal && held.owner === agent) return held
    return yield* Result.fail(
      new LeaseLost({
        message: `The lease on todo ${held.todo} is ${held.owner}'s in goal ${held.goal}.`,
        remedy: "Admit the turn for the agent that holds the lease, or transfer the lease first.",
        todo: held.todo,
        epoch: held.epoch,
        currentEpoch: held.epoch,
        why: "none"
      })
    )
  })

/** The host of whoever holds this lease may be started, as far as gates are concerned. */
export const passDispatch = (
  gates: readonly GateRecord[],
  lease: LeaseRecord,
  todo: TodoRecord | undefined,
  now: number
) =>
  passGates(
    lease.goal,
    gates,
    { agent: lease.owner, action: "dispatch", todo: todo ?? null, occasion: occasionOf(lease.todo, lease.epoch) },
    now
  )

/** What the turn is admitted under: taken here, so that no caller can forget it (G86). */
const contextOf = (
  goal: GoalRecord,
  todo: TodoRecord | undefined,
  required: readonly SourceRecord[],
  named: TurnContext | undefined
): AdmittedContext => ({
  requirementRevision: named?.requirementRevision ?? todo?.revision ?? null,
  digest: named?.digest ?? null,
  ...(todo === undefined ? {} : { requirement: requirementOf(goal, todo) }),
  reads: revisionsOf(required)
})

const admission = (state: AdmitState, input: AdmitTurn, observed: Observed | undefined, context: DecideContext) =>
  Result.gen(function* () {
    const goal = yield* activeGoal(state.goal, input.goal, state.waiting)
    yield* knownAgent(state.agent, input.agent)
    const cleared: readonly JournalEvent[] = yield* clearOld(state.old, observed, context.now)
    const lease = yield* leaseOf(state.lease, input.fence, input.goal, input.agent, context.now)
    const required = yield* readableAll(state.required)
    const passed = yield* passDispatch(state.gates, lease, state.todo, context.now)
    if (observed === undefined) return yield* Result.fail(invalidInput("admitTurn", "the driving process is not named"))
    const id = context.newId("turn")
    const effectId = context.newId("effect")
    const owner: CostOwner = { goal: goal.id, todo: lease.todo, turn: id, agent: input.agent }
    const { old, accounts } = state
    const free = old === undefined ? accounts : without(accounts, old.held, old.turn)
    const bound = { slots: 1, attempts: 1, ...input.bound }
    const { reservation, event } = yield* reserve(free, goal.requiredMeters, owner, effectId, bound, context)
    const turn: TurnRecord = {
      id,
      goal: goal.id,
      todo: lease.todo,
      agent: input.agent,
      epoch: lease.epoch,
      phase: "admit",
      state: "open",
      effectId,
      reservation: reservation.id,
      fence: observed.process,
      executor: null,
      guarantee: null,
      attempts: [],
      result: null,
      usage: null,
      verdict: null,
      settlement: null,
      failure: null,
      context: contextOf(goal, state.todo, required, input.context),
      admittedAt: context.now,
      changedAt: context.now
    }
    return { turn, events: [...cleared, ...passed, event, fact("turn.admitted", id, turn)] }
  })

export const admit = handler({
  type: "admitTurn",
  payload: AdmitTurn,
  load: loadAdmission,
  decide: (state, input, context, observed) =>
    Result.map(admission(state, input, seenBy(observed), context), ({ turn, events }) => decided(events, turn))
})

// --- starting over ---------------------------------------------------------------------------------------------------

export const RetryTurn = Schema.Struct({ turn: IdText, fence: Fence, bound: Amounts, reason: Summary })

/** A failed turn starts over under the same id: a new bound under a new effect; its earlier cost stays where it is. */
export const retry = handler({
  type: "retryTurn",
  payload: RetryTurn,
  *load(input, now) {
    const turn = yield* turnTable.first("id = ?", input.turn)
    if (turn === undefined) return undefined
    const { goal, agent } = turn
    return { turn, admission: yield* loadAdmission({ goal, agent, fence: input.fence }, now) }
  },
  decide: (state, input, context, observed) =>
    Result.gen(function* () {
      if (state === undefined) return yield* Result.fail(notFound("turn", input.turn))
      const { turn } = state
      if (turn.state !== "failed" || input.fence.todo !== turn.todo) yield* inPhase(turn, "admit")
      const fresh = yield* admission(
        state.admission,
        { goal: turn.goal, agent: turn.agent, fence: input.fence, bound: input.bound },
        seenBy(observed),
        context
      )
      const again: TurnRecord = {
        ...fresh.turn,
        id: turn.id,
        // It runs anew, under what is required now; the packet of the attempt that failed is not its context any more.
        context: {
          ...fresh.turn.context!,
          digest: turn.context?.packet === undefined ? (turn.context?.digest ?? null) : null
        },
        attempts: turn.attempts,
        admittedAt: turn.admittedAt
      }
      const events = fresh.events.map((event) => renamed(event, fresh.turn.id, again, input.reason))
      return decided(events, again)
    })
})

const renamed = (event: JournalEvent, from: string, turn: TurnRecord, reason: string): JournalEvent => {
  if (event.type === "turn.admitted") return fact("turn.retried", turn.id, { ...turn, reason })
  const quota = event.data as { readonly reservation?: ReservationRecord }
  if (quota.reservation?.turn !== from) return event
  return fact(event.type, event.entity, { ...quota, reservation: { ...quota.reservation, turn: turn.id } })
}
