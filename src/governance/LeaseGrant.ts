/**
 * The commands of a lease: taking a named todo, keeping it, handing it over and giving it back.
 * Promise: a grant passes the todo's gates, its write scopes and the agent's eligibility in the commit that makes it; every
 * change of a live lease names its exact version. Rules: G30 to G36, G40; C51, C64. What a lease is: Lease.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { Fence, IdText, Summary } from "./Field.ts"
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
import {
  type Gated,
  type GoalNotActive,
  type LeaseHeld,
  type LeaseLost,
  type NotEligible,
  notFound,
  type NotFound,
  ScopeConflict,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler } from "./Handler.ts"
import {
  Binding,
  grant,
  held,
  isLive,
  type Lease,
  leaseHeld,
  type LeaseRecord,
  type LeaseView,
  loadLease,
  loadLiveOf,
  loadScoped,
  passFence,
  released,
  scopeConflict,
  scopeConflicts,
  Ttl,
  viewLease
} from "./Lease.ts"
import type { Load } from "./Module.ts"
import { claimable, todoTable, type TodoRecord } from "./TodoRecord.ts"

// --- commands --------------------------------------------------------------------------------------------------------

const OldExecutor = Schema.Literals(["ended", "running", "unknown"])

const AcquireLease = Schema.Struct({
  todo: IdText,
  agent: IdText,
  binding: Schema.optional(Schema.NullOr(Binding)),
  ttlMs: Schema.optional(Ttl),
  /** Why a grant before this one is taken over, and what is known of its executor (G33). */
  reason: Schema.optional(Summary),
  oldExecutor: Schema.optional(OldExecutor)
})

interface AcquireState {
  readonly todo: TodoRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly agent: AgentRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly scoped: readonly LeaseRecord[]
  readonly unmet: readonly string[]
  readonly gates: readonly GateRecord[]
  readonly waiting: Waiting
}

function* loadForAcquire(input: { readonly todo: string; readonly agent: string }, now: number): Load<AcquireState> {
  const todo = yield* todoTable.first("id = ?", input.todo)
  if (todo === undefined) {
    return { todo, goal: undefined, agent: undefined, lease: undefined, scoped: [], unmet: [], gates: [], waiting: [] }
  }
  const unmet: string[] = []
  for (const id of todo.dependsOn) {
    const dependency = yield* todoTable.first("id = ?", id)
    if (dependency?.state !== "done") unmet.push(id)
  }
  const goal = yield* loadGoal(todo.goal)
  return {
    todo,
    goal,
    agent: yield* agentTable.first("goal = ? AND agent_id = ?", todo.goal, input.agent),
    lease: yield* loadLease(todo.id),
    scoped: todo.writeScopes.length === 0 ? [] : yield* loadScoped(todo.goal),
    unmet,
    gates: yield* loadGates(todo.goal, todo.id),
    waiting: yield* loadWaiting(goal, now)
  }
}

/** A new grant of this todo to this agent passes the gates on `claim`. */
const passClaim = (state: AcquireState, todo: TodoRecord, agent: string, now: number) => {
  const occasion = occasionOf(todo.id, (state.lease?.epoch ?? 0) + 1)
  return passGates(todo.goal, state.gates, { agent, action: "claim", todo, occasion }, now)
}

const acquire = handler({
  type: "acquireLease",
  payload: AcquireLease,
  load: loadForAcquire,
  decide: (state, input, context) =>
    Result.gen(function* () {
      if (state.todo === undefined) return yield* Result.fail(notFound("todo", input.todo))
      const todo = state.todo
      yield* activeGoal(state.goal, todo.goal, state.waiting)
      const agent = yield* knownAgent(state.agent, input.agent)
      if (isLive(state.lease, context.now)) return yield* Result.fail(leaseHeld(state.lease))
      const ready = yield* claimable(todo, agent, state.unmet, context.now)
      const conflicts = scopeConflicts(todo.id, todo.writeScopes, state.scoped, context.now)
      if (conflicts.length > 0) return yield* Result.fail(scopeConflict(todo.id, conflicts))
      const passed = yield* passClaim(state, todo, input.agent, context.now)
      const { lease, event } = grant(
        state.lease,
        {
          todo,
          owner: input.agent,
          binding: input.binding ?? null,
          ttlMs: input.ttlMs,
          reason: input.reason ?? null,
          oldExecutor: input.oldExecutor ?? "unknown"
        },
        context
      )
      return decided([...ready, ...passed, event], lease)
    })
})

const RenewLease = Schema.Struct({ fence: Fence, ttlMs: Schema.optional(Ttl) })

const renew = handler({
  type: "renewLease",
  payload: RenewLease,
  load: ({ fence }) => loadLease(fence.todo),
  decide: (lease, input, { now }) =>
    Result.gen(function* () {
      const mine = yield* passFence(lease, input.fence, now, true)
      const ttlMs = input.ttlMs ?? mine.ttlMs
      const next: LeaseRecord = { ...mine, version: mine.version + 1, ttlMs, expiresAt: now + ttlMs }
      return decided([fact("lease.renewed", mine.todo, next)], held(next, input.fence.token))
    })
})

const TransferLease = Schema.Struct({
  fence: Fence,
  to: IdText,
  binding: Schema.optional(Schema.NullOr(Binding)),
  ttlMs: Schema.optional(Ttl),
  reason: Summary,
  oldExecutor: Schema.optional(OldExecutor)
})

const transfer = handler({
  type: "transferLease",
  payload: TransferLease,
  load: (input, now) => loadForAcquire({ todo: input.fence.todo, agent: input.to }, now),
  decide: (state, input, context) =>
    Result.gen(function* () {
      if (state.todo === undefined) return yield* Result.fail(notFound("todo", input.fence.todo))
      yield* activeGoal(state.goal, state.todo.goal, state.waiting)
      const mine = yield* passFence(state.lease, input.fence, context.now, true)
      const receiver = yield* knownAgent(state.agent, input.to)
      yield* claimable(state.todo, receiver, state.unmet, context.now)
      // The todo's scopes may have been edited since the first grant; the new one is held to what they say now.
      const conflicts = scopeConflicts(state.todo.id, state.todo.writeScopes, state.scoped, context.now)
      if (conflicts.length > 0) return yield* Result.fail(scopeConflict(state.todo.id, conflicts))
      const passed = yield* passClaim(state, state.todo, input.to, context.now)
      const { lease, event } = grant(
        mine,
        {
          todo: state.todo,
          owner: input.to,
          binding: input.binding ?? null,
          ttlMs: input.ttlMs,
          reason: input.reason,
          oldExecutor: input.oldExecutor ?? "unknown"
        },
        context,
        "transferred"
      )
      return decided([...passed, event], lease)
    })
})

const ReleaseLease = Schema.Struct({ fence: Fence })

const release = handler({
  type: "releaseLease",
  payload: ReleaseLease,
  load: ({ fence }) => loadLease(fence.todo),
  decide: (lease, input, { now }) =>
    Result.gen(function* () {
      const mine = yield* passFence(lease, input.fence, now, true)
      const event = released(mine, now)
      return decided([event], viewLease(event.data as unknown as LeaseRecord))
    })
})

export const leaseHandlers: Handlers = { ...acquire, ...renew, ...transfer, ...release }

// --- service ---------------------------------------------------------------------------------------------------------

/** Leases: holding, keeping, handing over and giving back one todo. */
export const Leases = {
  /**
   * Takes a named todo. `ttlMs` in milliseconds (default 45 minutes, at most 24 hours).
   * Errors: `LeaseHeld` (take other work), `Gated` (its gates are named), `ScopeConflict`, `NotEligible`, `TodoState`,
   * `GoalNotActive`, `NotFound`.
   */
  acquire: writer<
    typeof AcquireLease.Type,
    Lease,
    LeaseHeld | Gated | ScopeConflict | NotEligible | TodoState | GoalNotActive | NotFound
  >("work", "acquireLease"),
  /** Extends a live lease by `ttlMs` from now; its fence has the next version. Errors: `LeaseLost` (stop the executor first). */
  renew: writer<typeof RenewLease.Type, Lease, LeaseLost>("work", "renewLease"),
  /** Hands a live lease to another agent: next epoch, new token. Errors: `LeaseLost`, `Gated`, `NotEligible`, `NotFound`, … */
  transfer: writer<
    typeof TransferLease.Type,
    Lease,
    LeaseLost | Gated | ScopeConflict | NotEligible | TodoState | GoalNotActive | NotFound
  >("work", "transferLease"),
  /** Gives a live lease back; the record stays as a tombstone. Errors: `LeaseLost`. */
  release: writer<typeof ReleaseLease.Type, LeaseView, LeaseLost>("work", "releaseLease"),
  /** The lease record of a todo as it is kept, live or not; `expiresAt` against your clock says which. Errors: `NotFound`. */
  inspect: reader(
    function* (input: { readonly todo: string }): Load<LeaseView | undefined> {
      const lease = yield* loadLease(input.todo)
      return lease === undefined ? undefined : viewLease(lease)
    },
    (input) => notFound("lease", input.todo)
  ),
  /** The leases that an agent holds in a goal at the store's time: whoever ends idle sessions looks here first (C54). */
  heldBy: reader(function* (
    input: { readonly goal: string; readonly agent: string },
    { now }
  ): Load<{ readonly items: readonly LeaseView[] }> {
    return { items: (yield* loadLiveOf(input.goal, input.agent, now)).map(viewLease) }
  })
}
