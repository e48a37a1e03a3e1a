/**
 * Todos: the pieces of a goal's work; adding and changing them, bringing them back, and reading them.
 * Promise: an edit names the revision it saw; done and superseded are final. What a todo is made of: TodoSpec.ts. Its ways out of
 * `open`: TodoEnd.ts. Rules: G20, G21, G23. Choosing: NextWork.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { IdText, Ids, Title } from "./Field.ts"
import { activeGoal, loadGoal } from "./Goal.ts"
import {
  type GoalNotActive,
  type NotFound,
  notFound,
  type RevisionConflict,
  type ScopeConflict,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, oneOf } from "./Handler.ts"
import { isLive, loadScoped, scopeConflict, scopeConflicts } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { loadOwed, type Owed } from "./ReservationRecord.ts"
import { loadNamedReads, readsOfGoal } from "./SourceRecord.ts"
import { todoEnds, todoEndHandlers } from "./TodoEnd.ts"
import { knownTodo, loadTodo, loadTodos, loadWaitedFor, mayDependOn, noCircle, ofGoal } from "./TodoLoad.ts"
import { atRevision, revised, type TodoRecord, todoState, todoTable } from "./TodoRecord.ts"
import { newTodo, todoFields, todoSpec } from "./TodoSpec.ts"

// --- commands --------------------------------------------------------------------------------------------------------

const AddTodo = Schema.Struct({ goal: IdText, ...todoSpec, unblocks: Schema.optional(Ids) })

const add = handler({
  type: "addTodo",
  payload: AddTodo,
  *load(input) {
    const goal = yield* loadGoal(input.goal)
    const named = yield* loadTodos([...(input.dependsOn ?? []), ...(input.unblocks ?? [])])
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
      yield* mayDependOn(goal.id, dependsOn, named)
      yield* noCircle("addTodo", waitedFor, unblocks)
      yield* readsOfGoal(goal.id, [input], reads)
      const todo = newTodo(goal.id, input, context)
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
  ...todoFields,
  title: Schema.optional(Title)
})

const edit = handler({
  type: "editTodo",
  payload: EditTodo,
  *load(input) {
    const dependsOn = input.dependsOn ?? []
    const loaded = yield* loadTodo(input.todo, dependsOn)
    return {
      ...loaded,
      scoped: input.writeScopes === undefined || loaded.todo === undefined ? [] : yield* loadScoped(loaded.todo.goal),
      waitedFor: yield* loadWaitedFor(dependsOn),
      reads: yield* loadNamedReads([input])
    }
  },
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const todo = yield* atRevision(yield* knownTodo(state.todo, input.todo), input.revision)
      if (todo.state !== "open" && todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      yield* mayDependOn(todo.goal, input.dependsOn ?? [], state.named)
      yield* noCircle("editTodo", state.waitedFor, [todo.id])
      yield* readsOfGoal(todo.goal, [input], state.reads)
      if (input.writeScopes !== undefined && isLive(state.lease, now)) {
        const conflicts = scopeConflicts(todo.id, input.writeScopes, state.scoped, now)
        if (conflicts.length > 0) return yield* Result.fail(scopeConflict(todo.id, conflicts))
      }
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

const ReopenTodo = Schema.Struct({ todo: IdText })

const reopen = handler({
  type: "reopenTodo",
  payload: ReopenTodo,
  load: (input) => loadTodo(input.todo),
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const todo = yield* knownTodo(state.todo, input.todo)
      if (todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      const next = revised(todo, { state: "open", deferredUntil: null, deferReason: null }, now)
      return decided([fact("todo.reopened", todo.id, next)], next)
    })
})

export const todoHandlers: Handlers = { ...add, ...edit, ...reopen, ...todoEndHandlers }

// --- service ---------------------------------------------------------------------------------------------------------

const todoStates: readonly TodoRecord["state"][] = ["open", "deferred", "done", "superseded"]

/** Todos: adding, changing, finishing. `nextWork` is in `Todos` too: see NextWork.ts. */
export const todoCommands = {
  /**
   * Adds a todo. `dependsOn` and `unblocks` name todos of the goal. Errors: `NotFound`, `TodoState` (it would wait for a superseded
   * todo: name what took its place), `GoalNotActive` (completed goal), `InvalidInput` (todos would wait for each other).
   */
  add: writer<typeof AddTodo.Type, TodoRecord, NotFound | TodoState | GoalNotActive>("work", "addTodo"),
  /**
   * Changes an unfinished todo at the revision that was read. It asks for no fence: what is required is the planner's to say, and a
   * turn that runs is told by `staleContext`. That holds for `acceptance` too: with null nobody's verdict is needed to complete the
   * todo any more, so an embedder gives this call to whoever may say so. `writeScopes` of a held todo are not moved to where another
   * live lease writes. Errors: `RevisionConflict`, `TodoState` (also: it would wait for a superseded todo), `ScopeConflict`, `NotFound`,
   * `InvalidInput` (todos would wait for each other).
   */
  edit: writer<typeof EditTodo.Type, TodoRecord, RevisionConflict | TodoState | ScopeConflict | NotFound>(
    "work",
    "editTodo"
  ),
  /** Brings a deferred todo back. Errors: `TodoState`, `NotFound`. */
  reopen: writer<typeof ReopenTodo.Type, TodoRecord, TodoState | NotFound>("work", "reopenTodo"),
  ...todoEnds,
  /** One todo, with what is owed for it. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly todo: string }): Load<(TodoRecord & { readonly owed: readonly Owed[] }) | undefined> {
      const todo = yield* todoTable.first("id = ?", input.todo)
      return todo === undefined ? undefined : { ...todo, owed: yield* loadOwed("todo", todo.id) }
    },
    (input) => notFound("todo", input.todo)
  ),
  /**
   * Todos of a goal, highest priority first, then oldest; `more` says that the page ended before the list did. Pages whose `asOf`
   * differ are of two moments: what was added between them may have moved a todo across their border. Errors: `InvalidInput`.
   */
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
    if (input.states !== undefined && !Array.isArray(input.states)) throw invalidInput("read", "`states` is a list")
    const states = [...new Set(input.states ?? todoStates)]
    for (const state of states) oneOf("states", state, todoStates)
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
