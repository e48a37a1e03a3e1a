/**
 * A todo as its commands see it: with its goal, its lease, and all that may hold it up; and what its dependencies may be.
 * Promise: every todo that a command names is one of its goal, and no todo ever waits for itself.
 * Rules: G20, G23. The commands are in Todo.ts and TodoEnd.ts.
 */
import * as Result from "effect/Result"
import { type GateRecord, loadGates } from "./GateRecord.ts"
import { type GoalRecord, loadGoal } from "./Goal.ts"
import { type NotFound, notFound, TodoState } from "./GovernanceError.ts"
import { invalidInput } from "./Handler.ts"
import { type LeaseRecord, loadLease } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { loadObligationsOn, type ObligationRecord } from "./ObligationRecord.ts"
import { loadDependents } from "./ReadyQueue.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"

/** A todo with what its commands decide by. */
export interface LoadedTodo {
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

export function* loadTodo(id: string, named: readonly string[] = [], dependents = false): Load<LoadedTodo> {
  const todo = yield* todoTable.first("id = ?", id)
  const others = yield* loadTodos(named)
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
    gates: yield* loadGates(todo.goal, todo.id)
  }
}

export const knownTodo = (todo: TodoRecord | undefined, id: string): Result.Result<TodoRecord, NotFound> =>
  todo === undefined ? Result.fail(notFound("todo", id)) : Result.succeed(todo)

/** Everything that these todos wait for, directly or not. */
export function* loadWaitedFor(ids: readonly string[]): Load<ReadonlySet<string>> {
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
export const noCircle = (command: string, waitedFor: ReadonlySet<string>, ids: readonly string[]) => {
  const circular = ids.find((id) => waitedFor.has(id))
  return circular === undefined
    ? Result.succeed(undefined)
    : Result.fail(invalidInput(command, `todo ${circular} would wait for itself`))
}

/** What todos to be made depend on, all of them together. */
export const dependenciesOf = (specs: readonly { readonly dependsOn?: readonly string[] | undefined }[]) => [
  ...new Set(specs.flatMap((spec) => spec.dependsOn ?? []))
]

/** The todos of these ids, in their order; undefined where there is none. */
export function* loadTodos(ids: readonly string[]): Load<readonly (TodoRecord | undefined)[]> {
  const found: (TodoRecord | undefined)[] = []
  for (const id of ids) found.push(yield* todoTable.first("id = ?", id))
  return found
}

/** Every dependency is a todo of this goal that can still be done: on a superseded one a todo would wait for ever. */
export const mayDependOn = (goal: string, ids: readonly string[], found: readonly (TodoRecord | undefined)[]) =>
  Result.gen(function* () {
    yield* ofGoal(goal, ids, found)
    const retired = found.find((todo, i) => i < ids.length && todo?.state === "superseded")
    if (retired === undefined) return undefined
    const instead = retired.supersededBy ?? []
    return yield* Result.fail(
      new TodoState({
        message: `Todo ${retired.id} is superseded${instead.length === 0 ? "" : ` by ${instead.join(", ")}`}: nothing can wait for it.`,
        remedy:
          instead.length === 0 ? "Leave it out of `dependsOn`." : "Name what took its place in `dependsOn` instead.",
        todo: retired.id,
        state: retired.state
      })
    )
  })

/** Every id must name a todo of this goal. */
export const ofGoal = (goal: string, ids: readonly string[], found: readonly (TodoRecord | undefined)[]) => {
  const missing = ids.find((_, i) => found[i] === undefined || found[i].goal !== goal)
  return missing === undefined ? Result.succeed(undefined) : Result.fail(notFound("todo", missing))
}
