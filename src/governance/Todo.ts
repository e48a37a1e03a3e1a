/**
 * Todos: the pieces of a goal's work, and every way in which one changes.
 * Promise: done and superseded are final; an edit names the revision it saw; every way out of `open` passes the fence of
 * the lease, and gives the lease back in the same commit. Rules: G20, G21, G23, G35, G73; C65. Choosing: NextWork.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import type { EffectUnresolved } from "./EffectError.ts"
import { loadUnresolvedOf, noneUnresolved } from "./EffectRecord.ts"
import { Origin, resultOf } from "./DeliveryRecord.ts"
import { Fence, IdText, Ids, Scope, Summary, Title } from "./Field.ts"
import { type GateRecord, loadGates, occasionOf, passGates } from "./GateRecord.ts"
import { activeGoal, type GoalRecord, loadGoal } from "./Goal.ts"
import {
  AcceptanceInvalid,
  type Gated,
  type GoalNotActive,
  type LeaseHeld,
  type LeaseLost,
  type NotFound,
  notFound,
  type ObligationOpen,
  type RevisionConflict,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput } from "./Handler.ts"
import { isLive, type LeaseRecord, loadLease, passWayOut, released } from "./Lease.ts"
import type { DecideContext, JournalEvent, Load } from "./Module.ts"
import { loadObligationsOn, type ObligationRecord, unobliged } from "./ObligationRecord.ts"
import { spendUnreserved } from "./QuotaLedger.ts"
import { loadOwed, type Owed, owedBy } from "./ReservationRecord.ts"
import { loadDependents } from "./ReadyQueue.ts"
import { loadNamedReads, readsOfGoal, RequiredReads } from "./SourceRecord.ts"
import { atRevision, type ContinuationRecord, revised, type TodoRecord, todoState, todoTable } from "./TodoRecord.ts"

export type { ContinuationRecord, TodoRecord } from "./TodoRecord.ts"

// --- payloads --------------------------------------------------------------------------------------------------------

const Priority = Schema.Int.check(Schema.isBetween({ minimum: -1000, maximum: 1000 }))

const fields = {
  title: Title,
  priority: Schema.optional(Priority),
  dependsOn: Schema.optional(Ids),
  capabilities: Schema.optional(Schema.Array(IdText)),
  writeScopes: Schema.optional(Schema.Array(Scope)),
  excludedAgents: Schema.optional(Schema.Array(IdText)),
  /** Sources of the goal that have to be read for it (G14). */
  requiredReads: Schema.optional(RequiredReads),
  acceptance: Schema.optional(Schema.NullOr(Schema.Struct({ validator: IdText })))
}

/** Where it is asked for is said at its making; later only by a command of its own (G90, Delivery.ts). */
const spec = { ...fields, origin: Schema.optional(Schema.NullOr(Origin)) }

/** A todo to be made. */
export const TodoSpec = Schema.Struct(spec)
export type TodoSpec = typeof TodoSpec.Type

/** What a completion leads to: exactly one of three (G21). */
export const Continuation = Schema.Union([
  Schema.Struct({
    kind: Schema.Literal("successors"),
    todos: Schema.Array(TodoSpec).check(Schema.isMinLength(1), Schema.isMaxLength(100))
  }),
  Schema.Struct({ kind: Schema.Literal("goalStaysActive") }),
  Schema.Struct({ kind: Schema.Literal("noFollowUp") })
])
export type Continuation = typeof Continuation.Type

// --- rules -----------------------------------------------------------------------------------------------------------

const make = (goal: string, spec: TodoSpec, { now, newId }: DecideContext): TodoRecord => ({
  id: newId("todo"),
  goal,
  title: spec.title,
  state: "open",
  priority: spec.priority ?? 0,
  dependsOn: spec.dependsOn ?? [],
  capabilities: spec.capabilities ?? [],
  writeScopes: spec.writeScopes ?? [],
  excludedAgents: spec.excludedAgents ?? [],
  requiredReads: [...new Set(spec.requiredReads ?? [])],
  acceptance: spec.acceptance ?? null,
  deferredUntil: null,
  deferReason: null,
  continuation: null,
  supersededBy: null,
  origin: spec.origin ?? null,
  revision: 1,
  addedAt: now,
  changedAt: now
})

/** The todos that a continuation makes. */
export const successorsOf = (continuation: Continuation): readonly TodoSpec[] =>
  continuation.kind === "successors" ? continuation.todos : []

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
  const successors = successorsOf(continuation).map((s) => make(todo.goal, s, context))
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

interface Loaded {
  readonly todo: TodoRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly lease: LeaseRecord | undefined
  /** Todos that the command names. */
  readonly named: readonly (TodoRecord | undefined)[]
  /** Open todos of the goal that depend on this one. */
  readonly dependents: readonly TodoRecord[]
  /** Why it must be attempted first. */
  readonly obligations: readonly ObligationRecord[]
  readonly gates: readonly GateRecord[]
}

function* loadTodo(id: string, named: readonly string[] = [], dependents = false): Load<Loaded> {
  const todo = yield* todoTable.first("id = ?", id)
  const others: (TodoRecord | undefined)[] = []
  for (const other of named) others.push(yield* todoTable.first("id = ?", other))
  if (todo === undefined) {
    return { todo, goal: undefined, lease: undefined, named: others, dependents: [], obligations: [], gates: [] }
  }
  return {
    todo,
    goal: yield* loadGoal(todo.goal),
    lease: yield* loadLease(id),
    named: others,
    dependents: dependents ? yield* loadDependents(id) : [],
    obligations: yield* loadObligationsOn(todo.goal, id),
    gates: yield* loadGates(todo.goal)
  }
}

const known = (todo: TodoRecord | undefined, id: string): Result.Result<TodoRecord, NotFound> =>
  todo === undefined ? Result.fail(notFound("todo", id)) : Result.succeed(todo)

/** Everything that these todos wait for, directly or not. */
function* loadWaitedFor(ids: readonly string[]): Load<ReadonlySet<string>> {
  const seen = new Set<string>()
  const open = [...ids]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (seen.has(id)) continue
    seen.add(id)
    open.push(...((yield* todoTable.first("id = ?", id))?.dependsOn ?? []))
  }
  return seen
}

/** Todos that wait for each other would wait for ever. */
const noCircle = (command: string, waitedFor: ReadonlySet<string>, ids: readonly string[]) => {
  const circular = ids.find((id) => waitedFor.has(id))
  return circular === undefined
    ? Result.succeed(undefined)
    : Result.fail(invalidInput(command, `todo ${circular} would wait for itself`))
}

/** Every id must name a todo of this goal. */
const ofGoal = (goal: string, ids: readonly string[], found: readonly (TodoRecord | undefined)[]) => {
  const missing = ids.find((_, i) => found[i] === undefined || found[i].goal !== goal)
  return missing === undefined ? Result.succeed(undefined) : Result.fail(notFound("todo", missing))
}

// --- commands --------------------------------------------------------------------------------------------------------

const AddTodo = Schema.Struct({ goal: IdText, ...spec, unblocks: Schema.optional(Ids) })

const add = handler({
  type: "addTodo",
  payload: AddTodo,
  *load(input) {
    const goal = yield* loadGoal(input.goal)
    const named: (TodoRecord | undefined)[] = []
    for (const id of [...(input.dependsOn ?? []), ...(input.unblocks ?? [])]) {
      named.push(yield* todoTable.first("id = ?", id))
    }
    const waitedFor = input.unblocks === undefined ? new Set<string>() : yield* loadWaitedFor(input.dependsOn ?? [])
    return { goal, named, waitedFor, reads: yield* loadNamedReads([input]) }
  },
  decide: ({ goal, named, waitedFor, reads }, input, context) =>
    Result.gen(function* () {
      if (goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (goal.state === "completed") yield* activeGoal(goal, goal.id)
      const dependsOn = input.dependsOn ?? []
      const unblocks = input.unblocks ?? []
      yield* ofGoal(goal.id, [...dependsOn, ...unblocks], named)
      yield* noCircle("addTodo", waitedFor, unblocks)
      yield* readsOfGoal(goal.id, [input], reads)
      const todo = make(goal.id, input, context)
      const waiting = named
        .slice(dependsOn.length)
        .filter((other) => other !== undefined)
        .filter((other) => other.state === "open" || other.state === "deferred")
        .map((other) => revised(other, { dependsOn: [...other.dependsOn, todo.id] }, context.now))
      return decided(
        [fact("todo.added", todo.id, todo), ...waiting.map((other) => fact("todo.edited", other.id, other))],
        todo
      )
    })
})

const EditTodo = Schema.Struct({
  todo: IdText,
  revision: Schema.Int,
  ...fields,
  title: Schema.optional(Title)
})

const edit = handler({
  type: "editTodo",
  payload: EditTodo,
  *load(input) {
    const dependsOn = input.dependsOn ?? []
    return {
      ...(yield* loadTodo(input.todo, dependsOn)),
      waitedFor: yield* loadWaitedFor(dependsOn),
      reads: yield* loadNamedReads([input])
    }
  },
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const todo = yield* atRevision(yield* known(state.todo, input.todo), input.revision)
      if (todo.state !== "open" && todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      yield* ofGoal(todo.goal, input.dependsOn ?? [], state.named)
      yield* noCircle("editTodo", state.waitedFor, [todo.id])
      yield* readsOfGoal(todo.goal, [input], state.reads)
      const next = revised(
        todo,
        {
          title: input.title ?? todo.title,
          priority: input.priority ?? todo.priority,
          dependsOn: input.dependsOn ?? todo.dependsOn,
          capabilities: input.capabilities ?? todo.capabilities,
          writeScopes: input.writeScopes ?? todo.writeScopes,
          excludedAgents: input.excludedAgents ?? todo.excludedAgents,
          requiredReads: input.requiredReads === undefined ? todo.requiredReads : [...new Set(input.requiredReads)],
          acceptance: input.acceptance === undefined ? todo.acceptance : input.acceptance
        },
        now
      )
      return decided([fact("todo.edited", todo.id, next)], next)
    })
})

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
      const todo = yield* known(state.todo, input.todo)
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

const ReopenTodo = Schema.Struct({ todo: IdText })

const reopen = handler({
  type: "reopenTodo",
  payload: ReopenTodo,
  load: (input) => loadTodo(input.todo),
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const todo = yield* known(state.todo, input.todo)
      if (todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      const next = revised(todo, { state: "open", deferredUntil: null, deferReason: null }, now)
      return decided([fact("todo.reopened", todo.id, next)], next)
    })
})

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
    return { ...(yield* loadTodo(input.todo, [], true)), reads: yield* loadNamedReads(input.replacements ?? []) }
  },
  decide: (state, input, context) =>
    Result.gen(function* () {
      const todo = yield* known(state.todo, input.todo)
      const lease = yield* passWayOut(state.lease, yield* fenceOf(input), context.now)
      if (todo.state !== "open" && todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      yield* readsOfGoal(todo.goal, input.replacements ?? [], state.reads)
      yield* unobliged(todo.id, state.obligations)
      // Who asked for this one waits for what takes its place.
      const replacements = (input.replacements ?? []).map((spec) =>
        make(todo.goal, { ...spec, origin: spec.origin === undefined ? todo.origin : spec.origin }, context)
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
    return {
      ...(yield* loadTodo(input.todo)),
      reads: yield* loadNamedReads(successorsOf(input.continuation)),
      effects: yield* loadUnresolvedOf(input.todo)
    }
  },
  decide: (state, input, context) =>
    Result.gen(function* () {
      const todo = yield* known(state.todo, input.todo)
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
      yield* readsOfGoal(todo.goal, successorsOf(input.continuation), state.reads)
      const agent = lease?.owner ?? input.agent ?? null
      const occasion = occasionOf(todo.id, state.lease?.epoch ?? 0)
      const passed = yield* passGates(
        todo.goal,
        state.gates,
        { agent, action: "complete", todo, occasion },
        context.now
      )
      const done = yield* completeTodo(todo, lease, input.continuation, context)
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

export const todoHandlers: Handlers = { ...add, ...edit, ...defer, ...reopen, ...supersede, ...complete }

// --- service ---------------------------------------------------------------------------------------------------------

type WayOut = NotFound | TodoState | LeaseLost | LeaseHeld | ObligationOpen

/** Todos: adding, changing, finishing. `nextWork` is in `Todos` too: see NextWork.ts. */
export const todoCommands = {
  /** Adds a todo. `dependsOn` and `unblocks` name todos of the goal. Errors: `NotFound`, `GoalNotActive` (completed goal). */
  add: writer<typeof AddTodo.Type, TodoRecord, NotFound | GoalNotActive>("work", "addTodo"),
  /** Changes an unfinished todo at the revision that was read. Errors: `RevisionConflict`, `TodoState`, `NotFound`. */
  edit: writer<typeof EditTodo.Type, TodoRecord, RevisionConflict | TodoState | NotFound>("work", "editTodo"),
  /** Puts an open todo aside. Errors: `ObligationOpen` (attempt it first), `LeaseHeld`, `LeaseLost`, `TodoState`, `NotFound`. */
  defer: writer<typeof DeferTodo.Type, TodoRecord, WayOut>("work", "deferTodo"),
  /** Brings a deferred todo back. Errors: `TodoState`, `NotFound`. */
  reopen: writer<typeof ReopenTodo.Type, TodoRecord, TodoState | NotFound>("work", "reopenTodo"),
  /**
   * Retires a todo, for good, in favour of others or of none.
   * Errors: `ObligationOpen` (attempt it first), `LeaseHeld`, `LeaseLost`, `TodoState`, `NotFound`.
   */
  supersede: writer<typeof SupersedeTodo.Type, TodoRecord & { readonly replacements: readonly TodoRecord[] }, WayOut>(
    "work",
    "supersedeTodo"
  ),
  /**
   * Completes a todo outside a turn: its cost is then owed, see `owed`. Work of a turn is completed by its settlement.
   * Errors: `ObligationOpen` (attempt it first), `Gated` (gates on `complete`; whoever names no `agent` is held to all of them),
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
    WayOut | Gated | AcceptanceInvalid | EffectUnresolved | GoalNotActive
  >("work", "completeTodo"),
  /** One todo, with what is owed for it. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly todo: string }): Load<(TodoRecord & { readonly owed: readonly Owed[] }) | undefined> {
      const todo = yield* todoTable.first("id = ?", input.todo)
      return todo === undefined ? undefined : { ...todo, owed: yield* loadOwed("todo", todo.id) }
    },
    (input) => notFound("todo", input.todo)
  ),
  /** Todos of a goal, highest priority first, then oldest; `more` says that the page ended before the list did. */
  list: reader(function* (input: {
    readonly goal: string
    readonly states?: readonly TodoRecord["state"][]
    readonly limit?: number
    readonly offset?: number
  }): Load<{
    readonly items: readonly TodoRecord[]
    readonly total: number
    readonly more: boolean
    readonly owed: readonly Owed[]
  }> {
    const states = input.states ?? ["open", "deferred", "done", "superseded"]
    const marks = states.map(() => "?").join(", ")
    const counted = yield {
      sql: `SELECT COUNT(*) AS n FROM todo WHERE goal = ? AND state IN (${marks})`,
      params: [input.goal, ...states]
    }
    const total = Number(counted[0]!["n"])
    const offset = input.offset ?? 0
    const items = yield* todoTable.find(
      `goal = ? AND state IN (${marks}) ORDER BY priority DESC, added_at, id LIMIT ? OFFSET ?`,
      input.goal,
      ...states,
      input.limit ?? 200,
      offset
    )
    return { items, total, more: offset + items.length < total, owed: yield* loadOwed("goal", input.goal) }
  })
}
