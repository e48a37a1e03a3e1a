/**
 * Leases: who holds a todo right now. One record per todo, never deleted.
 * Promise: only the token proves a holder, not a name; epoch and version only grow; expiry (`expiresAt > now` no longer
 * true) ends authority and proves nothing about the work. Rules: G30 to G36; C51, C64.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sha256 } from "../base/Digest.ts"
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
  LeaseHeld,
  LeaseLost,
  type NotEligible,
  notFound,
  type NotFound,
  ScopeConflict,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, recordTable, rows } from "./Handler.ts"
import type { DecideContext, JournalEvent, Load } from "./Module.ts"
import { scopesOverlap } from "./WriteScope.ts"
import { claimable, todoTable, type TodoRecord } from "./TodoRecord.ts"

// --- model -----------------------------------------------------------------------------------------------------------

const minute = 60_000
/** G30: 45 minutes when nothing is said, never more than a day. */
export const leaseTtl = { defaultMs: 45 * minute, maxMs: 24 * 60 * minute } as const

export const Binding = Schema.Struct({ id: IdText, generation: Schema.Int })
export type Binding = typeof Binding.Type

/** How the grant before this one ended, and what was known of its executor when this one was made (G33). */
export interface PreviousGrant {
  readonly owner: string
  readonly epoch: number
  readonly ended: "released" | "expired" | "transferred"
  readonly oldExecutor: "ended" | "running" | "unknown"
  readonly reason: string | null
}

/** A lease as it is kept and journaled: the digest of the token, never the token. */
export interface LeaseRecord {
  readonly todo: string
  readonly id: string
  readonly goal: string
  readonly owner: string
  readonly binding: Binding | null
  readonly epoch: number
  readonly version: number
  readonly tokenDigest: string
  readonly writeScopes: readonly string[]
  readonly ttlMs: number
  readonly acquiredAt: number
  readonly expiresAt: number
  readonly releasedAt: number | null
  readonly previous: PreviousGrant | null
}

/** What anybody may know of a lease. */
export interface LeaseView {
  readonly id: string
  readonly todo: string
  readonly goal: string
  readonly owner: string
  readonly binding: Binding | null
  readonly epoch: number
  readonly version: number
  readonly writeScopes: readonly string[]
  /** Milliseconds that a renewal adds when it names no others. */
  readonly ttlMs: number
  readonly acquiredAt: number
  readonly expiresAt: number
  readonly releasedAt: number | null
  readonly previous: PreviousGrant | null
}

/** What its holder gets: `fence` is what later writes name. */
export interface Lease extends LeaseView {
  readonly fence: Fence
}

/** Whose leases are live is asked before a session is ended as idle. */
export const leaseTables = "CREATE INDEX lease_owner ON lease (goal, owner) WHERE released_at IS NULL;"

export const leaseTable = recordTable<LeaseRecord>("lease", ["todo"], {
  todo: "value",
  id: "value",
  goal: "value",
  owner: "value",
  binding: "json",
  epoch: "value",
  version: "value",
  tokenDigest: "value",
  writeScopes: "json",
  ttlMs: "value",
  acquiredAt: "value",
  expiresAt: "value",
  releasedAt: "value",
  previous: "json"
})

export const viewLease = ({ tokenDigest: _token, ...view }: LeaseRecord): LeaseView => view

export const held = (lease: LeaseRecord, token: string): Lease => ({
  ...viewLease(lease),
  fence: { todo: lease.todo, token, epoch: lease.epoch, version: lease.version }
})

// --- rules -----------------------------------------------------------------------------------------------------------

export const loadLease = (todo: string): Load<LeaseRecord | undefined> => leaseTable.first("todo = ?", todo)

/** Whether an unreleased lease ended after `from`, at the latest at `to` (G36). */
export function* leaseLapsed(from: number, to: number): Load<boolean> {
  const found = yield* rows(
    "SELECT 1 FROM lease WHERE released_at IS NULL AND expires_at > ? AND expires_at <= ? LIMIT 1",
    from,
    to
  )
  return found.length > 0
}

/** Active means strictly before its end (G33). */
export const isLive = (lease: LeaseRecord | undefined, now: number): lease is LeaseRecord =>
  lease !== undefined && lease.releasedAt === null && lease.expiresAt > now

const lost = (lease: LeaseRecord | undefined, fence: Fence, why: LeaseLost["why"]): LeaseLost =>
  new LeaseLost({
    message: `The lease on todo ${fence.todo} at epoch ${fence.epoch} holds no authority (${why}).`,
    remedy: "Stop the executor first. Then read Leases.inspect, and acquire again if the work is still yours to do.",
    todo: fence.todo,
    epoch: fence.epoch,
    currentEpoch: lease?.epoch ?? 0,
    why
  })

/**
 * The fence that every write of a holder passes (G35): the token of the current epoch, not expired, not released.
 * `version` is compared only by the calls that change the lease itself, so that a renewal beside a long write is no loss.
 */
export const passFence = (
  lease: LeaseRecord | undefined,
  fence: Fence,
  now: number,
  exactVersion = false
): Result.Result<LeaseRecord, LeaseLost> => {
  if (lease === undefined) return Result.fail(lost(lease, fence, "none"))
  if (lease.epoch !== fence.epoch) return Result.fail(lost(lease, fence, "epoch"))
  if (lease.tokenDigest !== sha256(fence.token)) return Result.fail(lost(lease, fence, "token"))
  if (lease.releasedAt !== null) return Result.fail(lost(lease, fence, "released"))
  if (!(lease.expiresAt > now)) return Result.fail(lost(lease, fence, "expired"))
  if (exactVersion && lease.version !== fence.version) return Result.fail(lost(lease, fence, "version"))
  return Result.succeed(lease)
}

export const leaseHeld = (lease: LeaseRecord): LeaseHeld =>
  new LeaseHeld({
    message: `Todo ${lease.todo} is held by ${lease.owner} at epoch ${lease.epoch}.`,
    remedy: "Take other work (Todos.nextWork), or wait until the lease is released or expires.",
    todo: lease.todo,
    owner: lease.owner,
    epoch: lease.epoch,
    expiresAt: lease.expiresAt
  })

/**
 * The way out of `open` (G23): with a live lease only its holder passes; a fence that is named must hold; where nobody
 * holds the todo, its planner passes without one.
 */
export const passWayOut = (
  lease: LeaseRecord | undefined,
  fence: Fence | undefined,
  now: number
): Result.Result<LeaseRecord | undefined, LeaseLost | LeaseHeld> => {
  if (fence !== undefined) return passFence(lease, fence, now)
  return isLive(lease, now) ? Result.fail(leaseHeld(lease)) : Result.succeed(undefined)
}

/** The live leases of an agent in a goal. */
export const loadLiveOf = (goal: string, agent: string, now: number): Load<readonly LeaseRecord[]> =>
  leaseTable.find("goal = ? AND owner = ? AND released_at IS NULL AND expires_at > ? ORDER BY todo", goal, agent, now)

/** Unreleased leases of unfinished todos of the goal, as far as they claim write scopes. */
export function* loadScoped(goal: string): Load<readonly LeaseRecord[]> {
  const found = yield* rows(
    "SELECT l.* FROM lease l JOIN todo t ON t.id = l.todo " +
      "WHERE l.goal = ? AND l.released_at IS NULL AND l.write_scopes <> '[]' AND t.state IN ('open', 'deferred')",
    goal
  )
  return found.map(leaseTable.read)
}

/** Every live lease that writes where this one would (G34), whoever holds it: two leases of one agent conflict too. */
export const scopeConflicts = (
  todo: string,
  scopes: readonly string[],
  others: readonly LeaseRecord[],
  now: number
): ScopeConflict["conflicts"] =>
  others
    .filter((other) => other.todo !== todo && isLive(other, now))
    .map((other) => ({
      todo: other.todo,
      owner: other.owner,
      epoch: other.epoch,
      scopes: other.writeScopes.filter((theirs) => scopes.some((ours) => scopesOverlap(ours, theirs))),
      expiresAt: other.expiresAt
    }))
    .filter((conflict) => conflict.scopes.length > 0)

export interface Grant {
  readonly todo: TodoRecord
  readonly owner: string
  readonly binding: Binding | null
  readonly ttlMs: number | undefined
  readonly reason: string | null
  readonly oldExecutor: PreviousGrant["oldExecutor"]
}

/** A new grant over whatever was there: the epoch grows, and the record says how the old grant ended (G33). */
export const grant = (
  old: LeaseRecord | undefined,
  want: Grant,
  { now, newId, newToken }: DecideContext,
  ended?: "transferred"
): { readonly lease: Lease; readonly event: JournalEvent } => {
  const token = newToken()
  const ttlMs = want.ttlMs ?? leaseTtl.defaultMs
  const lease: LeaseRecord = {
    todo: want.todo.id,
    id: newId("lease"),
    goal: want.todo.goal,
    owner: want.owner,
    binding: want.binding,
    epoch: (old?.epoch ?? 0) + 1,
    version: (old?.version ?? 0) + 1,
    tokenDigest: sha256(token),
    writeScopes: want.todo.writeScopes,
    ttlMs,
    acquiredAt: now,
    expiresAt: now + ttlMs,
    releasedAt: null,
    previous:
      old === undefined
        ? null
        : {
            owner: old.owner,
            epoch: old.epoch,
            ended: ended ?? (old.releasedAt === null ? "expired" : "released"),
            oldExecutor: want.oldExecutor,
            reason: want.reason
          }
  }
  return {
    lease: held(lease, token),
    event: fact(ended === undefined ? "lease.acquired" : "lease.transferred", lease.todo, lease)
  }
}

/** The tombstone of a lease (G30): the record stays, with epoch and version. */
export const released = (lease: LeaseRecord, now: number): JournalEvent =>
  fact("lease.released", lease.todo, { ...lease, version: lease.version + 1, releasedAt: now } satisfies LeaseRecord)

export const Ttl = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: leaseTtl.maxMs }))
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
    gates: yield* loadGates(todo.goal),
    waiting: yield* loadWaiting(goal, now)
  }
}

export const scopeConflict = (todo: string, conflicts: ScopeConflict["conflicts"]): ScopeConflict =>
  new ScopeConflict({
    message: `The write scopes of todo ${todo} overlap with ${conflicts.length} live lease(s).`,
    remedy: "Take other work, or wait for the leases named in `conflicts`.",
    todo,
    conflicts
  })

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
