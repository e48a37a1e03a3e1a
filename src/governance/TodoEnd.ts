/**
 * The ways out of `open`: deferring, superseding and completing a todo.
 * Promise: done and superseded are final; each way passes the fence of the lease, waits for what must be attempted first, and
 * gives the lease back in the same commit. Rules: G15, G20, G21, G23, G35, G40, G61, G73; C65. Of a turn's work: Settlement.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { writer } from "./Authority.ts"
import { resultOf } from "./DeliveryRecord.ts"
import type { EffectUnresolved } from "./EffectError.ts"
import { loadUnresolvedOf, noneUnresolved } from "./EffectRecord.ts"
import { Fence, IdText, Summary } from "./Field.ts"
import { occasionOf, passGates } from "./GateRecord.ts"
import { activeGoal } from "./Goal.ts"
import {
  AcceptanceInvalid,
  type Gated,
  type GoalNotActive,
  type LeaseHeld,
  type LeaseLost,
  type NotFound,
  type ObligationOpen,
  type PhaseOrder,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput } from "./Handler.ts"
import { isLive, type LeaseRecord, passWayOut, released } from "./Lease.ts"
import type { DecideContext, JournalEvent } from "./Module.ts"
import { unobliged } from "./ObligationRecord.ts"
import { spendUnreserved } from "./QuotaLedger.ts"
import { type Owed, owedBy } from "./ReservationRecord.ts"
import { loadNamedReads, readsOfGoal } from "./SourceRecord.ts"
import { dependenciesOf, knownTodo, loadTodo, loadWaitedFor, mayDependOn, noCircle } from "./TodoLoad.ts"
import { type ContinuationRecord, revised, type TodoRecord, todoState } from "./TodoRecord.ts"
import { besideNone, openTurn } from "./TurnFence.ts"
import { Continuation, newTodo, successorsOf, TodoSpec } from "./TodoSpec.ts"

export interface Completed {
  readonly todo: TodoRecord
  readonly successors: readonly TodoRecord[]
  readonly events: readonly JournalEvent[]
}

/** Completes an open todo whose fence was passed: its successors and the end of its lease are part of the same commit. */
export const completeTodo = (
  todo: TodoRecord,
  lease: LeaseRecord | undefined,
  continuation: Continuation,
  context: DecideContext
): Result.Result<Completed, TodoState> => {
  if (todo.state !== "open") return Result.fail(todoState(todo))
  const successors = successorsOf(continuation).map((s) => newTodo(todo.goal, s, context))
  const record: ContinuationRecord =
    continuation.kind === "successors" ? { kind: "successors", todos: successors.map((s) => s.id) } : continuation
  const done = revised(todo, { state: "done", continuation: record }, context.now)
  return Result.succeed({
    todo: done,
    successors,
    events: [
      fact("todo.completed", todo.id, done),
      ...successors.map((s) => fact("todo.added", s.id, s)),
      ...(isLive(lease, context.now) ? [released(lease, context.now)] : [])
    ]
  })
}

// --- commands --------------------------------------------------------------------------------------------------------

const DeferTodo = Schema.Struct({
  todo: IdText,
  fence: Schema.optional(Fence),
  /** UTC milliseconds from which it may be taken again; without it only `reopen` brings it back. */
  until: Schema.optional(Schema.Int),
  reason: Summary
})

const defer = handler({
  type: "deferTodo",
  payload: DeferTodo,
  load: (input) => loadTodo(input.todo),
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const todo = yield* knownTodo(state.todo, input.todo)
      const lease = yield* passWayOut(state.lease, yield* fenceOf(input), now)
      if (todo.state !== "open") return yield* Result.fail(todoState(todo))
      yield* unobliged(todo.id, state.obligations)
      const next = revised(
        todo,
        { state: "deferred", deferredUntil: input.until ?? null, deferReason: input.reason },
        now
      )
      return decided(
        [fact("todo.deferred", todo.id, next), ...(lease === undefined ? [] : [released(lease, now)])],
        next
      )
    })
})

/** A fence is for one todo; naming another's is a mistake, not authority. */
const fenceOf = (input: { readonly todo: string; readonly fence?: Fence | undefined }) =>
  input.fence === undefined || input.fence.todo === input.todo
    ? Result.succeed(input.fence)
    : Result.fail(invalidInput("fence", `the fence is of todo ${input.fence.todo}, the command is about ${input.todo}`))

const SupersedeTodo = Schema.Struct({
  todo: IdText,
  fence: Schema.optional(Fence),
  reason: Summary,
  /** What takes its place; whoever depended on it depends on these. */
  replacements: Schema.optional(Schema.Array(TodoSpec).check(Schema.isMaxLength(100)))
})

const supersede = handler({
  type: "supersedeTodo",
  payload: SupersedeTodo,
  *load(input) {
    const dependsOn = dependenciesOf(input.replacements ?? [])
    return {
      ...(yield* loadTodo(input.todo, dependsOn, true)),
      effects: yield* loadUnresolvedOf(input.todo),
      waitedFor: yield* loadWaitedFor(dependsOn),
      reads: yield* loadNamedReads(input.replacements ?? [])
    }
  },
  decide: (state, input, context) =>
    Result.gen(function* () {
      const todo = yield* knownTodo(state.todo, input.todo)
      const lease = yield* passWayOut(state.lease, yield* fenceOf(input), context.now)
      if (todo.state !== "open" && todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      yield* mayDependOn(todo.goal, dependenciesOf(input.replacements ?? []), state.named)
      // Whoever waited for this one waits for its replacements from now on: these cannot wait for it, or for them.
      yield* noCircle("supersedeTodo", state.waitedFor, [todo.id])
      yield* readsOfGoal(todo.goal, input.replacements ?? [], state.reads)
      yield* unobliged(todo.id, state.obligations)
      // Whoever waited for it waits for it no more: they would go on beside an effect that may have happened (G61).
      yield* noneUnresolved(todo.id, state.effects)
      // Who asked for this one waits for what takes its place.
      const replacements = (input.replacements ?? []).map((spec) =>
        newTodo(todo.goal, { ...spec, origin: spec.origin === undefined ? todo.origin : spec.origin }, context)
      )
      const ids = replacements.map((r) => r.id)
      const next = revised(
        todo,
        { state: "superseded", supersededBy: ids, deferReason: input.reason, deferredUntil: null },
        context.now
      )
      const rewired = state.dependents.map((other) =>
        revised(other, { dependsOn: [...other.dependsOn.filter((id) => id !== todo.id), ...ids] }, context.now)
      )
      return decided(
        [
          fact("todo.superseded", todo.id, next),
          ...replacements.map((r) => fact("todo.added", r.id, r)),
          ...rewired.map((other) => fact("todo.edited", other.id, other)),
          ...(lease === undefined ? [] : [released(lease, context.now)])
        ],
        { ...next, replacements }
      )
    })
})

const CompleteTodo = Schema.Struct({
  todo: IdText,
  fence: Schema.optional(Fence),
  continuation: Continuation,
  agent: Schema.optional(IdText)
})

const complete = handler({
  type: "completeTodo",
  payload: CompleteTodo,
  *load(input) {
    const loaded = yield* loadTodo(input.todo, dependenciesOf(successorsOf(input.continuation)))
    const { lease } = loaded
    return {
      ...loaded,
      open: lease === undefined ? undefined : yield* openTurn(lease.goal, lease.owner),
      reads: yield* loadNamedReads(successorsOf(input.continuation)),
      effects: yield* loadUnresolvedOf(input.todo)
    }
  },
  decide: (state, input, context) =>
    Result.gen(function* () {
      const todo = yield* knownTodo(state.todo, input.todo)
      yield* activeGoal(state.goal, todo.goal)
      const lease = yield* passWayOut(state.lease, yield* fenceOf(input), context.now)
      yield* unobliged(todo.id, state.obligations)
      if (todo.acceptance !== null) {
        return yield* Result.fail(
          new AcceptanceInvalid({
            message: `Todo ${todo.id} declares the validator ${todo.acceptance.validator}.`,
            remedy: "Complete it through Settlements.settle with an acceptance of that validator.",
            acceptance: "",
            why: "missing"
          })
        )
      }
      const successors = successorsOf(input.continuation)
      yield* mayDependOn(todo.goal, dependenciesOf(successors), state.named)
      yield* readsOfGoal(todo.goal, successors, state.reads)
      const agent = lease?.owner ?? input.agent ?? null
      const occasion = occasionOf(todo.id, state.lease?.epoch ?? 0)
      const passed = yield* passGates(
        todo.goal,
        state.gates,
        { agent, action: "complete", todo, occasion },
        context.now
      )
      const done = yield* completeTodo(todo, lease, input.continuation, context)
      yield* besideNone(state.open, todo.id, "complete")
      yield* noneUnresolved(todo.id, state.effects)
      // A completion without a turn says nothing of its cost: that is owed, not zero (G73).
      const owner = { goal: todo.goal, todo: todo.id, turn: null, agent }
      const cost = spendUnreserved(owner, context.newId("effect"), { usd: "unknown" }, null, context)
      const delivery = resultOf(
        done.todo,
        {
          outcome: "completed",
          accepted: false,
          effectId: cost.reservation.effectId,
          settlement: null,
          candidate: null,
          evidence: [],
          spend: { usd: "unknown", slots: 0 }
        },
        context
      )
      return decided([...passed, ...done.events, cost.event, ...delivery.events], {
        ...done.todo,
        successors: done.successors,
        owed: owedBy(cost.reservation),
        ...delivery.named
      })
    })
})

export const todoEndHandlers: Handlers = { ...defer, ...supersede, ...complete }

// --- calls -----------------------------------------------------------------------------------------------------------

type WayOut = NotFound | TodoState | LeaseLost | LeaseHeld | ObligationOpen

/** The ways out of `open`, as calls of `Todos`. */
export const todoEnds = {
  /** Puts an open todo aside. Errors: `ObligationOpen` (attempt it first), `LeaseHeld`, `LeaseLost`, `TodoState`, `NotFound`. */
  defer: writer<typeof DeferTodo.Type, TodoRecord, WayOut>("work", "deferTodo"),
  /**
   * Retires a todo, for good, in favour of others or of none.
   * Errors: `ObligationOpen` (attempt it first), `EffectUnresolved` (whoever waits for it would go on beside an external effect that
   * is not known), `LeaseHeld`, `LeaseLost`, `TodoState`, `NotFound`.
   */
  supersede: writer<
    typeof SupersedeTodo.Type,
    TodoRecord & { readonly replacements: readonly TodoRecord[] },
    WayOut | EffectUnresolved
  >("work", "supersedeTodo"),
  /**
   * Completes a todo outside a turn: its cost is then owed, see `owed`. Work of a turn is completed by its settlement.
   * Errors: `PhaseOrder` (a turn of its holder on it is open), `ObligationOpen` (attempt it first), `Gated` (gates on `complete`; whoever names no `agent` is held to all of them),
   * `EffectUnresolved` (an external effect of it is not known), `AcceptanceInvalid` (needs a settlement), `LeaseHeld`, `LeaseLost`,
   * `TodoState`, `GoalNotActive`, `NotFound`.
   */
  complete: writer<
    typeof CompleteTodo.Type,
    TodoRecord & {
      readonly successors: readonly TodoRecord[]
      readonly owed: readonly Owed[]
      /** The delivery of its result, where the todo has an origin. */
      readonly delivery?: string
    },
    WayOut | Gated | AcceptanceInvalid | EffectUnresolved | GoalNotActive | PhaseOrder
  >("work", "completeTodo")
}
