/** Who holds a todo, decided from the lease's record alone. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { sha256 } from "../../../src/base/Digest.ts"
import {
  grant,
  held,
  isLive,
  leaseTtl,
  passFence,
  passWayOut,
  released,
  scopeConflicts,
  viewLease
} from "../../../src/governance/Lease.ts"
import { scopesOverlap } from "../../../src/governance/WriteScope.ts"
import { context, lease, now, todo } from "./records.ts"

const fence = { todo: "todo-a", token: "secret", epoch: 2, version: 5 }
const why = <A>(result: Result.Result<A, { readonly why?: string; readonly code: string }>) =>
  Result.isSuccess(result) ? "passed" : (result.failure.why ?? result.failure.code)

test("G33 a lease is live strictly before its end, unless it was given back", () => {
  assert.isTrue(isLive(lease({ expiresAt: now + 1 }), now))
  assert.isFalse(isLive(lease({ expiresAt: now }), now))
  assert.isFalse(isLive(lease({ releasedAt: now - 1 }), now))
  assert.isFalse(isLive(undefined, now))
})

test("G31 G32 G35 the fence names epoch, token, release, end and, where it is asked, version: the first that fails is told", () => {
  assert.equal(why(passFence(lease(), fence, now)), "passed")
  assert.equal(why(passFence(undefined, fence, now)), "none")
  for (const epoch of [1, 3]) assert.equal(why(passFence(lease({ epoch }), fence, now)), "epoch")
  assert.equal(why(passFence(lease(), { ...fence, token: "guess" }, now)), "token")
  assert.equal(why(passFence(lease({ releasedAt: now }), fence, now)), "released")
  assert.equal(why(passFence(lease({ expiresAt: now }), fence, now)), "expired")
  assert.equal(why(passFence(lease({ version: 6 }), fence, now)), "passed")
  assert.equal(why(passFence(lease({ version: 6 }), fence, now, true)), "version")
  assert.equal(why(passFence(lease(), fence, now, true)), "passed")
  const lost = passFence(lease({ epoch: 3 }), fence, now)
  assert.deepInclude(Result.isFailure(lost) ? lost.failure : {}, {
    code: "LEASE_LOST",
    todo: "todo-a",
    epoch: 2,
    currentEpoch: 3
  })
  const none = passFence(undefined, fence, now)
  assert.deepInclude(Result.isFailure(none) ? none.failure : {}, { currentEpoch: 0 })
})

test("G23 with a live lease only its holder passes the way out; without one its planner does; a named fence must hold", () => {
  assert.equal(why(passWayOut(lease(), undefined, now)), "LEASE_HELD")
  assert.equal(why(passWayOut(lease({ expiresAt: now }), undefined, now)), "passed")
  assert.isUndefined(Result.getOrThrow(passWayOut(undefined, undefined, now)))
  assert.equal(Result.getOrThrow(passWayOut(lease(), fence, now))?.id, "lease-a")
  assert.equal(why(passWayOut(lease({ expiresAt: now }), fence, now)), "expired")
  assert.equal(why(passWayOut(undefined, fence, now)), "none")
})

test("G30 G33 a grant over nothing, over a tombstone, over an expired one and by transfer says how the old one ended", () => {
  const want = {
    todo: todo({ writeScopes: ["src"] }),
    owner: "bob",
    binding: null,
    ttlMs: undefined,
    reason: null,
    oldExecutor: "unknown" as const
  }
  const first = grant(undefined, want, context())
  assert.deepInclude(first.lease, { epoch: 1, version: 1, owner: "bob", previous: null, ttlMs: leaseTtl.defaultMs })
  assert.deepEqual(
    [first.lease.acquiredAt, first.lease.expiresAt, first.lease.releasedAt],
    [now, now + leaseTtl.defaultMs, null]
  )
  assert.deepEqual(first.lease.fence, { todo: "todo-a", token: "token-1", epoch: 1, version: 1 })
  assert.deepEqual(first.event.type, "lease.acquired")
  assert.equal((first.event.data as { tokenDigest: string }).tokenDigest, sha256("token-1"))
  assert.notInclude(JSON.stringify(first.event), '"token-1"')
  const ended = (old: Parameters<typeof grant>[0], how?: "transferred") =>
    grant(old, { ...want, ttlMs: 7, reason: "it hung", oldExecutor: "ended" }, context(), how)
  assert.deepEqual(ended(lease()).lease.previous, {
    owner: "ada",
    epoch: 2,
    ended: "expired",
    oldExecutor: "ended",
    reason: "it hung"
  })
  assert.equal(ended(lease({ releasedAt: 1 })).lease.previous?.ended, "released")
  const moved = ended(lease(), "transferred")
  assert.deepInclude(moved.lease, { epoch: 3, version: 6, ttlMs: 7, expiresAt: now + 7, writeScopes: ["src"] })
  assert.deepEqual([moved.event.type, moved.lease.previous?.ended], ["lease.transferred", "transferred"])
})

test("G30 a released lease stays as a tombstone of the next version, and nobody is shown a token", () => {
  assert.deepEqual(released(lease(), now), {
    type: "lease.released",
    entity: "todo-a",
    data: { ...lease(), version: 6, releasedAt: now }
  } as never)
  assert.notProperty(viewLease(lease()), "tokenDigest")
  assert.deepEqual(held(lease(), "secret").fence, fence)
})

test("G34 every live lease that writes where this one would is a conflict, with the scopes that overlap; its own is none", () => {
  const others = [
    lease({ todo: "todo-b", writeScopes: ["src/a", "docs", "src"] }),
    lease({ todo: "todo-c", writeScopes: ["test"] }),
    lease({ todo: "todo-d", writeScopes: ["src"], expiresAt: now }),
    lease({ todo: "todo-a", writeScopes: ["src"] })
  ]
  assert.deepEqual(scopeConflicts("todo-a", ["src/a/b"], others, now), [
    { todo: "todo-b", owner: "ada", epoch: 2, scopes: ["src/a", "src"], expiresAt: now + 500 }
  ])
  assert.deepEqual(scopeConflicts("todo-a", [], others, now), [])
  assert.isTrue(scopesOverlap("src/**", "src/x"))
  assert.isFalse(scopesOverlap("src", "srcs"))
  assert.isTrue(scopesOverlap(".", "anything/below"))
})
