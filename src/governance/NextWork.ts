/**
 * Choosing work: which todo an agent gets next, and taking it, in one commit.
 * Promise: selecting and claiming is one step, so two agents never get the same todo; "nothing to do" comes with the count
 * of everything unfinished and why it was not given, whatever the length of the list. Rules: G15, G22, G33, G34; C50, C53.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { writer } from "./Authority.ts"
import { IdText } from "./Field.ts"
import { activeGoal, type AgentRecord, agentTable, type GoalRecord, knownAgent, loadGoal } from "./Goal.ts"
import type { GoalNotActive, NotFound, ScopeConflict } from "./GovernanceError.ts"
import { decided, type Handlers, handler, row, rows } from "./Handler.ts"
import {
  Binding,
  grant,
  isLive,
  type Lease,
  type LeaseRecord,
  loadLease,
  loadScoped,
  scopeConflicts,
  Ttl
} from "./Lease.ts"
import type { Load } from "./Module.ts"
import { loadUnavailable, loadReadyQueue, nextReady } from "./ReadyQueue.ts"
import { todoCommands } from "./Todo.ts"
import { claimable, obstacles, type TodoRecord, todoTable } from "./TodoRecord.ts"

/** Why unfinished todos were not given to this agent. Each todo counts once, under its first reason. */
export interface Withheld {
  readonly unfinished: number
  readonly leased: number
  readonly deferred: number
  readonly blocked: number
  readonly excluded: number
  readonly capability: number
  readonly scopeConflict: number
}

/** A todo that was passed over because live leases write where it would: all of them (G34). */
export interface Blocked {
  readonly todo: string
  readonly conflicts: ScopeConflict["conflicts"]
}

/** `blocked` names todos that were passed over for their write scopes, best first, at most 100. */
export type NextWork = { readonly blocked: readonly Blocked[] } & (
  | { readonly _tag: "claimed"; readonly todo: TodoRecord; readonly lease: Lease }
  | { readonly _tag: "none"; readonly reason: "nothingUnfinished" | "allWithheld"; readonly withheld: Withheld }
)

const TakeNextWork = Schema.Struct({
  goal: IdText,
  agent: IdText,
  binding: Schema.optional(Schema.NullOr(Binding)),
  ttlMs: Schema.optional(Ttl)
})

/** A todo with what decides whether it can be given. */
interface Considered {
  readonly todo: TodoRecord
  readonly lease: LeaseRecord | undefined
  readonly unmet: readonly string[]
}

interface State {
  readonly goal: GoalRecord | undefined
  readonly agent: AgentRecord | undefined
  /** The best todo without an obstacle. */
  readonly best: Considered | undefined
  readonly blocked: readonly Blocked[]
  /** There when nothing could be given: why, with everything counted (G22). */
  readonly withheld: Withheld | undefined
}

const mostBlocked = 100

/** What must be attempted goes before every priority: behind a stream of better-liked work it would be advice (G15). */
const obliged =
  "SELECT t.* FROM obligation o JOIN todo t ON t.id = o.todo LEFT JOIN lease l ON l.todo = t.id " +
  "WHERE o.goal = ? AND o.state = 'open' AND t.state IN ('open', 'deferred') " +
  "AND (l.todo IS NULL OR l.released_at IS NOT NULL OR l.expires_at <= ?) ORDER BY t.priority DESC, t.added_at, t.id"

function* consider(todo: TodoRecord): Load<Considered> {
  const unmet: string[] = []
  for (const id of todo.dependsOn) {
    if ((yield* row("SELECT 1 FROM todo WHERE id = ? AND state = 'done'", id)) === undefined) unmet.push(id)
  }
  return { todo, lease: yield* loadLease(todo.id), unmet }
}

const obstacle = (seen: Considered, agent: AgentRecord, scoped: readonly LeaseRecord[], now: number) =>
  isLive(seen.lease, now)
    ? "leased"
    : (obstacles(seen.todo, agent, seen.unmet, now)[0]?.kind ??
      (scopeConflicts(seen.todo.id, seen.todo.writeScopes, scoped, now).length > 0 ? "scopeConflict" : undefined))

function* load(input: { readonly goal: string; readonly agent: string }, now: number): Load<State> {
  const goal = yield* loadGoal(input.goal)
  const agent = yield* agentTable.first("goal = ? AND agent_id = ?", input.goal, input.agent)
  if (agent === undefined) return { goal, agent, best: undefined, blocked: [], withheld: undefined }
  // Live leases with write scopes, for the conflicts.
  const scoped = yield* loadScoped(input.goal)
  for (const todo of (yield* rows(obliged, input.goal, now)).map(todoTable.read)) {
    const seen = yield* consider(todo)
    if (obstacle(seen, agent, scoped, now) === undefined) {
      return { goal, agent, best: seen, blocked: [], withheld: undefined }
    }
  }
  const blocked: Blocked[] = []
  let conflicting = 0
  let queue = yield* loadReadyQueue(input.goal, agent, now)
  // Ends only with the queue, so nothing is hidden by its pages.
  for (;;) {
    const { todo, queue: rest } = yield* nextReady(queue)
    if (todo === undefined) break
    queue = rest
    const seen = yield* consider(todo)
    const why = obstacle(seen, agent, scoped, now)
    if (why === undefined) return { goal, agent, best: seen, blocked, withheld: undefined }
    // What else the records say of a proposed todo is counted by loadUnavailable.
    if (why !== "scopeConflict") continue
    conflicting += 1
    if (blocked.length < mostBlocked)
      blocked.push({ todo: todo.id, conflicts: scopeConflicts(todo.id, todo.writeScopes, scoped, now) })
  }
  const withheld = { ...(yield* loadUnavailable(input.goal, agent, now)), scopeConflict: conflicting }
  return { goal, agent, best: undefined, blocked, withheld }
}

const take = handler({
  type: "nextWork",
  payload: TakeNextWork,
  load,
  decide: (state, input, context) =>
    Result.gen(function* () {
      yield* activeGoal(state.goal, input.goal)
      const agent = yield* knownAgent(state.agent, input.agent)
      if (state.best === undefined) {
        const withheld = state.withheld!
        return decided([], {
          _tag: "none",
          blocked: state.blocked,
          reason: withheld.unfinished === 0 ? "nothingUnfinished" : "allWithheld",
          withheld
        } satisfies NextWork)
      }
      const { todo, lease: old, unmet } = state.best
      const ready = yield* claimable(todo, agent, unmet, context.now)
      const opened = (ready[0]?.data as unknown as TodoRecord | undefined) ?? todo
      const want = {
        todo: opened,
        owner: input.agent,
        binding: input.binding ?? null,
        ttlMs: input.ttlMs,
        reason: null,
        oldExecutor: "unknown" as const
      }
      const { lease, event } = grant(old, want, context)
      return decided([...ready, event], {
        _tag: "claimed",
        blocked: state.blocked,
        todo: opened,
        lease
      } satisfies NextWork)
    })
})

export const nextWorkHandlers: Handlers = take

/** Todos: the pieces of a goal's work. */
export const Todos = {
  ...todoCommands,
  /**
   * Selects the best todo that the agent may take now and claims it, in one commit. What must be attempted (an open obligation)
   * goes before everything else; then higher priority, then older.
   * Answers `{ _tag: "claimed", todo, lease }`, or `{ _tag: "none", reason, withheld }` with the count behind each reason.
   * Errors: `GoalNotActive`, `NotFound` (goal, or agent not registered).
   */
  nextWork: writer<typeof TakeNextWork.Type, NextWork, GoalNotActive | NotFound>("work", "nextWork")
}
