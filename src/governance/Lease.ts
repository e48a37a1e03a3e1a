/**
 * Leases: who holds a todo right now. One record per todo, never deleted.
 * Promise: only the token proves a holder, not a name; epoch and version only grow; expiry (`expiresAt > now` no longer
 * true) ends authority and proves nothing about the work. Rules: G30 to G36; C51, C64. The commands: LeaseGrant.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sha256 } from "../base/Digest.ts"
import { Fence, IdText } from "./Field.ts"
import { LeaseHeld, LeaseLost, ScopeConflict } from "./GovernanceError.ts"
import { fact, recordTable, rows } from "./Handler.ts"
import type { DecideContext, JournalEvent, Load } from "./Module.ts"
import { scopesOverlap } from "./WriteScope.ts"
import type { TodoRecord } from "./TodoRecord.ts"

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

/**
 * Unreleased leases of unfinished todos of the goal, as far as they claim write scopes. In the order of the index over just these
 * (`lease_scoped`): without it SQLite walks every live lease of the goal.
 */
export function* loadScoped(goal: string): Load<readonly LeaseRecord[]> {
  const found = yield* rows(
    "SELECT l.* FROM lease l JOIN todo t ON t.id = l.todo " +
      "WHERE l.goal = ? AND l.released_at IS NULL AND l.write_scopes <> '[]' AND t.state IN ('open', 'deferred') ORDER BY l.todo",
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

export const scopeConflict = (todo: string, conflicts: ScopeConflict["conflicts"]): ScopeConflict =>
  new ScopeConflict({
    message: `The write scopes of todo ${todo} overlap with ${conflicts.length} live lease(s).`,
    remedy: "Take other work, or wait for the leases named in `conflicts`.",
    todo,
    conflicts
  })

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
