/**
 * Settlement: the one commit in which a piece of work ends and is paid: fence, evidence, acceptance, spend, todo, turn.
 * Promise: once per effect id; a replay gives the stored receipt, another content is a conflict; work and cost are never
 * apart; what stays owed is named with the call that settles it. Rules: G72, G73, G75, G86; C62, C72.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { digestJson, type Json } from "../base/Digest.ts"
import { acceptanceTable, invalid } from "./Acceptance.ts"
import { reader, writer } from "./Authority.ts"
import { candidateTable } from "./CandidateRecord.ts"
import { resultOf } from "./DeliveryRecord.ts"
import type { EffectUnresolved } from "./EffectError.ts"
import { loadUnresolvedOf, noneUnresolved } from "./EffectRecord.ts"
import { loadEvidence, ofGoal } from "./Evidence.ts"
import { DigestText, Fence, IdText, Ids, Summary } from "./Field.ts"
import { type GateAction, type GateRecord, loadGates, occasionOf, passGates } from "./GateRecord.ts"
import { activeGoal, type GoalRecord, loadGoal } from "./Goal.ts"
import {
  type AcceptanceInvalid,
  type EvidenceMissing,
  type Gated,
  type GoalNotActive,
  type IdentityConflict,
  type LeaseLost,
  type NotFound,
  notFound,
  type ObligationOpen,
  type PhaseOrder,
  type ReservationClosed,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler } from "./Handler.ts"
import { type LeaseRecord, loadLease, passFence, released } from "./Lease.ts"
import type { JournalEvent, Load } from "./Module.ts"
import {
  attemptedByHand,
  attempts,
  loadObligationsOver,
  met,
  type ObligationRecord,
  unobliged
} from "./ObligationRecord.ts"
import { Spend } from "./QuotaLedger.ts"
import { staleness } from "./Requirement.ts"
import { loadOwed, type Owed, owedBy, reservationTable } from "./ReservationRecord.ts"
import { accepted, conflict, type Ground, payFor, settledTurn } from "./SettlementGround.ts"
import { type Settlement, SettlementOutcome, type SettlementRecord, settlementTable } from "./SettlementRecord.ts"
import { loadNamedReads, loadRequired, readsOfGoal, type SourceRecord } from "./SourceRecord.ts"
import { completeTodo } from "./TodoEnd.ts"
import { dependenciesOf, loadTodos, mayDependOn } from "./TodoLoad.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"
import { Continuation, successorsOf } from "./TodoSpec.ts"
import { openTurn } from "./TurnFence.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

// --- payload ---------------------------------------------------------------------------------------------------------

const Settle = Schema.Struct({
  effectId: IdText,
  goal: IdText,
  fence: Fence,
  turn: Schema.optional(IdText),
  outcome: SettlementOutcome,
  evidence: Ids,
  acceptance: Schema.optional(Schema.NullOr(IdText)),
  /** Identity of the candidate; a recorded one when the outcome is `accepted`. */
  candidate: Schema.optional(Schema.NullOr(DigestText)),
  spend: Spend,
  /** Digest of the context that the work was done under, where the executor said so (`Packets`). */
  context: Schema.optional(DigestText),
  /** The reservation that the cost was held under; a turn brings its own. */
  reservation: Schema.optional(IdText),
  /** What becomes of the todo; `keep` leaves it open, with its lease or without. */
  todo: Schema.Union([
    Schema.Struct({ action: Schema.Literal("keep"), release: Schema.optional(Schema.Boolean) }),
    Schema.Struct({ action: Schema.Literal("complete"), continuation: Continuation })
  ]),
  note: Schema.optional(Summary)
})
type Settle = typeof Settle.Type

// --- rules -----------------------------------------------------------------------------------------------------------

interface State extends Ground {
  readonly settled: (SettlementRecord & { readonly receipt: Settlement }) | undefined
  readonly goal: GoalRecord | undefined
  readonly todo: TodoRecord | undefined
  readonly lease: LeaseRecord | undefined
  /** What the todo requires to be read now. */
  readonly required: readonly SourceRecord[]
  /** Todos that the successors depend on. */
  readonly named: readonly (TodoRecord | undefined)[]
  /** Sources that the successors require. */
  readonly reads: ReadonlyMap<string, SourceRecord>
  /** What must be attempted, and may be met by this. */
  readonly obligations: readonly ObligationRecord[]
  /** External effects of the todo that are not known. */
  readonly effects: readonly string[]
  readonly gates: readonly GateRecord[]
}

/** The todos that the settlement makes. */
const madeBy = ({ todo }: Settle) => (todo.action === "complete" ? successorsOf(todo.continuation) : [])

function* load(input: Settle): Load<State> {
  const todo = yield* todoTable.first("id = ?", input.fence.todo)
  const turn = input.turn === undefined ? undefined : yield* turnTable.first("id = ?", input.turn)
  const lease = yield* loadLease(input.fence.todo)
  const reservation = turn?.reservation ?? input.reservation
  const acceptance =
    typeof input.acceptance === "string" ? yield* acceptanceTable.first("id = ?", input.acceptance) : undefined
  return {
    settled: yield* settlementTable.first("effect_id = ?", input.effectId),
    goal: yield* loadGoal(input.goal),
    todo,
    required: yield* loadRequired(todo),
    lease,
    turn,
    open: turn !== undefined || lease === undefined ? undefined : yield* openTurn(input.goal, lease.owner),
    kept: yield* reservationTable.first("effect_id = ?", input.effectId),
    held: reservation === undefined ? undefined : yield* reservationTable.first("id = ?", reservation),
    acceptance,
    carried:
      acceptance === undefined
        ? undefined
        : yield* settlementTable.first("acceptance = ? AND accepted = 1", acceptance.id),
    candidate:
      typeof input.candidate === "string"
        ? yield* candidateTable.first("identity = ? AND goal = ? AND state = 'recorded'", input.candidate, input.goal)
        : undefined,
    evidence: yield* loadEvidence(input.evidence),
    verdictEvidence: acceptance === undefined ? [] : yield* loadEvidence(acceptance.evidence),
    named: yield* loadTodos(dependenciesOf(madeBy(input))),
    reads: yield* loadNamedReads(madeBy(input)),
    obligations: yield* loadObligationsOver(input.goal, input.fence.todo),
    effects: yield* loadUnresolvedOf(input.fence.todo),
    gates: yield* loadGates(input.goal, input.fence.todo)
  }
}

/** What settles is the content, whoever sends it: the fence proves authority and is no part of it. */
const contentOf = ({ fence, ...content }: Settle): string =>
  digestJson({ ...content, todoId: fence.todo } as unknown as Json)

/** Accepting work and completing its todo pass their gates; what only records a cost is stopped by none. */
const passing = (
  gates: readonly GateRecord[],
  todo: TodoRecord,
  lease: LeaseRecord,
  actions: readonly GateAction[],
  now: number
) =>
  Result.gen(function* () {
    const occasion = occasionOf(todo.id, lease.epoch)
    const facts = new Map<string, JournalEvent>()
    for (const action of actions) {
      const used = yield* passGates(todo.goal, gates, { agent: lease.owner, action, todo, occasion }, now)
      for (const one of used) facts.set(one.entity, one)
    }
    return [...facts.values()]
  })

const settle = handler({
  type: "settle",
  payload: Settle,
  load,
  decide: (state, input, context) =>
    Result.gen(function* () {
      const content = contentOf(input)
      if (state.settled !== undefined) {
        return state.settled.content === content
          ? decided([], { ...state.settled.receipt, replayed: true })
          : yield* Result.fail(conflict(input.effectId, `Effect ${input.effectId} was settled with another content.`))
      }
      const goal = yield* activeGoal(state.goal, input.goal)
      const todo = state.todo
      if (todo === undefined || todo.goal !== goal.id) return yield* Result.fail(notFound("todo", input.fence.todo))
      const lease = yield* passFence(state.lease, input.fence, context.now)
      const turn = yield* settledTurn(state, input, lease)
      yield* ofGoal(goal.id, input.evidence, state.evidence)
      yield* mayDependOn(goal.id, dependenciesOf(madeBy(input)), state.named)
      yield* readsOfGoal(goal.id, madeBy(input), state.reads)
      if (typeof input.acceptance === "string" && state.acceptance?.goal !== goal.id) {
        return yield* Result.fail(notFound("acceptance", input.acceptance))
      }
      const stale = staleness(goal, todo, { ...state, turn }, input)
      const outcome = stale === undefined ? input.outcome : "staleContext"
      const fate = stale !== undefined && input.todo.action === "complete" ? ({ action: "keep" } as const) : input.todo
      // What was never a verdict of this work is refused, and is not a stale one of it.
      if (outcome === "accepted" || (turn === undefined && input.outcome === "accepted")) {
        yield* accepted(state, input, todo, lease)
      }
      if (outcome === "accepted" || fate.action === "complete") yield* noneUnresolved(todo.id, state.effects)
      if (todo.acceptance !== null && fate.action === "complete" && outcome !== "accepted") {
        return yield* Result.fail(
          invalid("", "notPassed", `Todo ${todo.id} is completed only by an accepted settlement.`)
        )
      }
      const used = yield* passing(
        state.gates,
        todo,
        lease,
        [
          ...(outcome === "accepted" ? (["settle"] as const) : []),
          ...(fate.action === "complete" ? (["complete"] as const) : [])
        ],
        context.now
      )
      const meets = state.obligations.filter((one) =>
        turn === undefined ? attemptedByHand(outcome) : attempts(turn, one)
      )
      if (fate.action === "complete") {
        yield* unobliged(
          todo.id,
          state.obligations.filter((one) => one.todo === todo.id && !meets.includes(one))
        )
      }
      const cost = yield* payFor(state, input, todo, lease, context)
      const done =
        fate.action === "complete"
          ? yield* completeTodo(todo, lease, fate.continuation, context)
          : {
              todo,
              successors: [],
              events: fate.release === true ? [released(lease, context.now)] : []
            }
      const record: SettlementRecord = {
        id: context.newId("settlement"),
        effectId: input.effectId,
        goal: goal.id,
        todo: todo.id,
        turn: turn?.id ?? null,
        outcome,
        accepted: outcome === "accepted",
        acceptance: input.acceptance ?? null,
        candidate: input.candidate ?? null,
        evidence: input.evidence,
        reservation: cost.reservation.id,
        content,
        settledAt: context.now
      }
      const spend = { usd: input.spend.usd, slots: cost.reservation.spentSlots }
      const { effectId, accepted: passed, candidate, evidence } = record
      const delivery =
        passed || fate.action === "complete"
          ? resultOf(
              done.todo,
              { outcome, accepted: passed, effectId, settlement: record.id, candidate, evidence, spend },
              context
            )
          : { events: [], named: {} }
      const receipt: Settlement = {
        ...record,
        todoState: done.todo.state,
        successors: done.successors.map((s) => s.id),
        spend,
        owed: owedBy(cost.reservation),
        ...(stale === undefined ? {} : { stale }),
        ...delivery.named
      }
      const settledTurnRecord: TurnRecord | undefined =
        turn === undefined ? undefined : { ...turn, phase: "settle", settlement: record.id, changedAt: context.now }
      return decided(
        [
          fact("settlement.settled", record.id, { ...record, receipt }),
          cost.event,
          ...used,
          ...done.events,
          ...meets.map((one) => met(one, { turn: turn?.id ?? null, settlement: input.effectId }, context.now)),
          ...delivery.events,
          ...(settledTurnRecord === undefined ? [] : [fact("turn.settled", settledTurnRecord.id, settledTurnRecord)])
        ],
        receipt
      )
    })
})

export const settlementHandlers: Handlers = settle

// --- service ---------------------------------------------------------------------------------------------------------

/** Settlements: work and its cost, ended together. */
export const Settlements = {
  /**
   * Settles once per `effectId` (a turn's is in its record). Accepting a candidate needs a passed acceptance of exactly
   * that candidate, the candidate recorded, and evidence of kinds `patch` and `verdict`. `spend.usd` may be `"unknown"`:
   * the reservation is then kept and `owed` names the call that settles it. When the todo's requirement was corrected or a
   * required source was revised after the turn was admitted, or `context` is not the one that the turn was given, result and cost
   * are kept, the todo stays open, and the outcome is `staleContext` whatever was asked (`stale` says so), unless the acceptance is
   * of what is required now.
   * Open obligations that the turn attempted are met in this commit; a turn whose host never answered met none.
   * Work done by hand has no turn: its holder's word meets them (not `inconclusive` or `unavailable`), a verdict that was taken before
   * the todo or its sources changed is `staleContext`, and it is not settled beside a turn of its holder that is open (`PhaseOrder`).
   * Errors: `LeaseLost` (stop first), `ObligationOpen` (completing work that must be attempted first), `Gated` (accepting or
   * completing is stopped; the result is kept, settle it once that is decided), `EffectUnresolved` (an external effect of the todo
   * is not known), `AcceptanceInvalid`, `EvidenceMissing`, `IdentityConflict`, `PhaseOrder`,
   * `ReservationClosed`, `TodoState`, `GoalNotActive` (kept until resumed), `NotFound`.
   */
  settle: writer<
    Settle,
    Settlement,
    | LeaseLost
    | ObligationOpen
    | Gated
    | AcceptanceInvalid
    | EvidenceMissing
    | IdentityConflict
    | PhaseOrder
    | ReservationClosed
    | EffectUnresolved
    | TodoState
    | GoalNotActive
    | NotFound
  >("work", "settle"),
  /** The receipt by effect id: how a lost reply is read back (G82). `owed` is what is still owed now. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly effectId: string }): Load<Settlement | undefined> {
      const found = yield* settlementTable.first("effect_id = ?", input.effectId)
      if (found === undefined) return undefined
      const cost = yield* reservationTable.first("id = ?", found.reservation)
      return { ...found.receipt, owed: cost === undefined ? [] : owedBy(cost) }
    },
    (input) => notFound("settlement", input.effectId)
  ),
  /** The settlements of a goal, oldest first, with their count by acceptance and what is owed now. */
  list: reader(function* (input: { readonly goal: string }): Load<{
    readonly items: readonly Settlement[]
    readonly total: number
    readonly accepted: number
    readonly owed: readonly Owed[]
  }> {
    const found = yield* settlementTable.find("goal = ? ORDER BY settled_at, id", input.goal)
    return {
      items: found.map((settlement) => settlement.receipt),
      total: found.length,
      accepted: found.filter((settlement) => settlement.accepted).length,
      owed: yield* loadOwed("goal", input.goal)
    }
  })
}
