/**
 * Choosing work: which todo an agent gets next, and taking it, in one commit.
 * Promise: selecting and claiming is one step, so two agents never get the same todo; "nothing to do" comes with the count
 * of everything unfinished and why it was not given, whatever the length of the list. Rules: G15, G22, G33, G34, G40; C50, C53, C66.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { writer } from "./Authority.ts"
import { IdText } from "./Field.ts"
import {
  concerns,
  type GateRecord,
  loadEverywhere,
  loadNaming,
  occasionOf,
  passGates,
  stopping,
  stopsAll
} from "./GateRecord.ts"
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
import type { Gated, GoalNotActive, NotFound, ScopeConflict } from "./GovernanceError.ts"
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
import { goesBefore, loadUnavailable, loadReadyQueue, nextReady } from "./ReadyQueue.ts"
import { loadUnreadable } from "./SourceRecord.ts"
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
  readonly gated: number
  readonly scopeConflict: number
  /** A source that the work requires cannot be read: nothing of it could be admitted. */
  readonly unreadable: number
}

/** A todo that was passed over because live leases write where it would: all of them (G34). */
export interface Blocked {
  readonly todo: string
  readonly conflicts: ScopeConflict["conflicts"]
}

/** A todo that was passed over because gates stop this agent from taking it or from running it: all of them (G40). */
export interface GatedTodo {
  /** Null: every todo that it might have been given. */
  readonly todo: string | null
  readonly gates: readonly string[]
}

/** A todo that was passed over because sources that it requires cannot be read (G14). */
export interface UnreadableTodo {
  readonly todo: string
  readonly sources: readonly string[]
}

interface PassedOver {
  readonly blocked: readonly Blocked[]
  readonly gated: readonly GatedTodo[]
  readonly unreadable: readonly UnreadableTodo[]
}

/**
 * `blocked` names todos that were passed over for their write scopes, best first, at most 100; `gated` those that gates
 * stop; `unreadable` those whose sources have to be repaired first.
 */
export type NextWork = PassedOver &
  (
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
  /** The gates that name it; those about all work are in `State.gates`. */
  readonly named: readonly GateRecord[]
  readonly lease: LeaseRecord | undefined
  readonly unmet: readonly string[]
}

interface State extends PassedOver {
  readonly goal: GoalRecord | undefined
  readonly agent: AgentRecord | undefined
  /** The best todo without an obstacle. */
  readonly best: Considered | undefined
  /** Those about all work. */
  readonly gates: readonly GateRecord[]
  /** What waits with a goal that is not active. */
  readonly waiting: Waiting
  /** There when nothing could be given: why, with everything counted (G22). */
  readonly withheld: Withheld | undefined
}

/** How many todos that were passed over are named; the counts are whole. */
const mostNamed = 100

/** What must be attempted goes before every priority: behind a stream of better-liked work it would be advice (G15). */
const obliged =
  "SELECT t.* FROM obligation o JOIN todo t ON t.id = o.todo LEFT JOIN lease l ON l.todo = t.id " +
  "WHERE o.goal = ? AND o.state = 'open' AND t.state IN ('open', 'deferred') " +
  "AND t.unmet = 0 AND (t.not_before IS NULL OR t.not_before <= ?) " +
  "AND (l.todo IS NULL OR l.released_at IS NOT NULL OR l.expires_at <= ?)"

function* consider(todo: TodoRecord): Load<Considered> {
  const unmet: string[] = []
  for (const id of todo.dependsOn) {
    if ((yield* row("SELECT 1 FROM todo WHERE id = ? AND state = 'done'", id)) === undefined) unmet.push(id)
  }
  return { todo, named: yield* loadNaming(todo.id), lease: yield* loadLease(todo.id), unmet }
}

const obstacle = (seen: Considered, agent: AgentRecord, scoped: readonly LeaseRecord[], now: number) =>
  isLive(seen.lease, now)
    ? "leased"
    : (obstacles(seen.todo, agent, seen.unmet, now)[0]?.kind ??
      (scopeConflicts(seen.todo.id, seen.todo.writeScopes, scoped, now).length > 0 ? "scopeConflict" : undefined))

/** A gate stands in the way of taking work, or of running it once it was taken: then it is not worth taking. */
const before = ["claim", "dispatch"] as const

const gatesBefore = (gates: readonly GateRecord[], agent: string, { todo, named, lease }: Considered, now: number) => {
  const occasion = occasionOf(todo.id, (lease?.epoch ?? 0) + 1)
  return [...gates, ...named].filter((gate) =>
    before.some((action) => stopping([gate], { agent, action, todo, occasion }, now).length > 0)
  )
}

/** Those that stop this agent whatever it would take: with one of them there is nothing to look for. */
const gatesBeforeAll = (gates: readonly GateRecord[], agent: string, now: number) =>
  gates.filter(
    (gate) =>
      stopsAll(gate, now) && before.some((action) => concerns(gate, { agent, action, todo: null, occasion: "" }))
  )

export function* loadNextWork(input: { readonly goal: string; readonly agent: string }, now: number): Load<State> {
  const goal = yield* loadGoal(input.goal)
  const agent = yield* agentTable.first("goal = ? AND agent_id = ?", input.goal, input.agent)
  const gates = yield* loadEverywhere(input.goal)
  const found = { goal, agent, gates, waiting: yield* loadWaiting(goal, now) }
  const nothing = { ...found, best: undefined, blocked: [], gated: [], unreadable: [], withheld: undefined }
  if (agent === undefined || goal?.state !== "active") return nothing
  const all = gatesBeforeAll(gates, agent.agentId, now)
  if (all.length > 0) {
    const counts = yield* loadUnavailable(input.goal, agent, now)
    const { unfinished, leased, deferred, blocked, excluded, capability } = counts
    const gated = unfinished - leased - deferred - blocked - excluded - capability
    const named = gated === 0 ? [] : [{ todo: null, gates: all.map(({ id }) => id) }]
    return { ...nothing, gated: named, withheld: { ...counts, gated, scopeConflict: 0, unreadable: 0 } }
  }
  // Live leases with write scopes, for the conflicts.
  const scoped = yield* loadScoped(input.goal)
  const dark = yield* loadUnreadable(input.goal)
  const due = (yield* rows(obliged, input.goal, now, now)).map(todoTable.read)
  for (const todo of due.toSorted((a, b) => (goesBefore(a, b) ? -1 : 1))) {
    const seen = yield* consider(todo)
    if (gatesBefore(gates, agent.agentId, seen, now).length > 0 || dark.has(todo.id)) continue
    if (obstacle(seen, agent, scoped, now) === undefined) return { ...nothing, best: seen }
  }
  const blocked: Blocked[] = []
  const gated: GatedTodo[] = []
  const unreadable: UnreadableTodo[] = []
  const passedOver = { gated: 0, scopeConflict: 0, unreadable: 0 }
  let queue = yield* loadReadyQueue(input.goal, agent, now)
  // Ends only with the queue, so nothing is hidden by its pages.
  for (;;) {
    const { todo, queue: rest } = yield* nextReady(queue)
    if (todo === undefined) break
    queue = rest
    const seen = yield* consider(todo)
    const why = obstacle(seen, agent, scoped, now)
    // What else the records say of a proposed todo is counted by loadUnavailable.
    if (why !== undefined && why !== "scopeConflict") continue
    const stopped = gatesBefore(gates, agent.agentId, seen, now)
    if (stopped.length > 0) {
      passedOver.gated += 1
      if (gated.length < mostNamed) gated.push({ todo: todo.id, gates: stopped.map(({ id }) => id) })
    } else if (why === "scopeConflict") {
      passedOver.scopeConflict += 1
      if (blocked.length < mostNamed)
        blocked.push({ todo: todo.id, conflicts: scopeConflicts(todo.id, todo.writeScopes, scoped, now) })
    } else if (dark.has(todo.id)) {
      passedOver.unreadable += 1
      if (unreadable.length < mostNamed) unreadable.push({ todo: todo.id, sources: dark.get(todo.id)! })
    } else return { ...nothing, best: seen, blocked, gated, unreadable }
  }
  const withheld = { ...(yield* loadUnavailable(input.goal, agent, now)), ...passedOver }
  return { ...nothing, blocked, gated, unreadable, withheld }
}

const take = handler({
  type: "nextWork",
  payload: TakeNextWork,
  load: loadNextWork,
  decide: (state, input, context) =>
    Result.gen(function* () {
      yield* activeGoal(state.goal, input.goal, state.waiting)
      const agent = yield* knownAgent(state.agent, input.agent)
      const { blocked, gated, unreadable } = state
      if (state.best === undefined) {
        const withheld = state.withheld!
        return decided([], {
          _tag: "none",
          blocked,
          gated,
          unreadable,
          reason: withheld.unfinished === 0 ? "nothingUnfinished" : "allWithheld",
          withheld
        } satisfies NextWork)
      }
      const { todo, named, lease: old, unmet } = state.best
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
      const occasion = occasionOf(todo.id, lease.epoch)
      const passed = yield* passGates(
        todo.goal,
        [...state.gates, ...named],
        { agent: input.agent, action: "claim", todo, occasion },
        context.now
      )
      return decided([...ready, ...passed, event], {
        _tag: "claimed",
        blocked,
        gated,
        unreadable,
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
   * Work that gates stop for this agent, to claim or to dispatch, is passed over, and named in `gated`.
   * Answers `{ _tag: "claimed", todo, lease }`, or `{ _tag: "none", reason, withheld }` with the count behind each reason.
   * Errors: `GoalNotActive` (`waiting` names the obligations and gates that wait with the goal), `NotFound` (goal, or agent not
   * registered).
   */
  nextWork: writer<typeof TakeNextWork.Type, NextWork, GoalNotActive | Gated | NotFound>("work", "nextWork")
}
