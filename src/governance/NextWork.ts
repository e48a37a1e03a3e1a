/**
 * Choosing work: which todo an agent gets next, and taking it, in one commit.
 * Promise: selecting and claiming is one step, so two agents never get the same todo; "nothing to do" comes with the count
 * of everything unfinished and why it was not given, whatever the length of the list. Rules: G22, G33, G34; C50, C53.
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
  /** Live leases with write scopes, for the conflicts. */
  readonly scoped: readonly LeaseRecord[]
  /** The best todo without an obstacle; when there is none, `unfinished` holds every unfinished one (G22). */
  readonly best: Considered | undefined
  readonly blocked: readonly Blocked[]
  readonly unfinished: readonly Considered[]
}

const page = 64
const mostBlocked = 100
const free = "(l.todo IS NULL OR l.released_at IS NOT NULL OR l.expires_at <= ?)"
const best = "ORDER BY t.priority DESC, t.added_at, t.id"
const unfinished =
  "SELECT t.* FROM todo t LEFT JOIN lease l ON l.todo = t.id WHERE t.goal = ? AND t.state IN ('open', 'deferred')"

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
  const scoped = yield* loadScoped(input.goal)
  if (agent === undefined) return { goal, agent, scoped, best: undefined, blocked: [], unfinished: [] }
  const blocked: Blocked[] = []
  // Pages keep the common case short; they end only with the list, so nothing is hidden by them.
  for (let offset = 0; ; offset += page) {
    const found = yield* rows(`${unfinished} AND ${free} ${best} LIMIT ${page} OFFSET ?`, input.goal, now, offset)
    for (const todo of found.map(todoTable.read)) {
      const seen = yield* consider(todo)
      const why = obstacle(seen, agent, scoped, now)
      if (why === undefined) return { goal, agent, scoped, best: seen, blocked, unfinished: [] }
      if (why === "scopeConflict" && blocked.length < mostBlocked)
        blocked.push({ todo: todo.id, conflicts: scopeConflicts(todo.id, todo.writeScopes, scoped, now) })
    }
    if (found.length < page) break
  }
  const all: Considered[] = []
  for (const todo of (yield* rows(unfinished, input.goal)).map(todoTable.read)) all.push(yield* consider(todo))
  return { goal, agent, scoped, best: undefined, blocked, unfinished: all }
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
        const withheld = { leased: 0, deferred: 0, blocked: 0, excluded: 0, capability: 0, scopeConflict: 0 }
        for (const seen of state.unfinished) {
          const why = obstacle(seen, agent, state.scoped, context.now)
          if (why !== undefined) withheld[why] += 1
        }
        const count = state.unfinished.length
        return decided([], {
          _tag: "none",
          blocked: state.blocked,
          reason: count === 0 ? "nothingUnfinished" : "allWithheld",
          withheld: { unfinished: count, ...withheld }
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
   * Selects the best todo that the agent may take now and claims it, in one commit.
   * Answers `{ _tag: "claimed", todo, lease }`, or `{ _tag: "none", reason, withheld }` with the count behind each reason.
   * Errors: `GoalNotActive`, `NotFound` (goal, or agent not registered).
   */
  nextWork: writer<typeof TakeNextWork.Type, NextWork, GoalNotActive | NotFound>("work", "nextWork")
}
