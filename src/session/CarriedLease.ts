/**
 * A lease on its way from whoever claimed it to the session that is spawned for it.
 * Promise: a session that was spawned carries the fence of the claim that it was spawned for; one that carries none, or one that
 * has ended, has nothing to work on. The claim comes first, so a pool never starts a session for work that is another's.
 * Rules: G32, G35; C52.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { Fence } from "../governance/Field.ts"
import { leaseHolds } from "../governance/index.ts"

/** The variable that carries it. It holds the token: only the session that the lease is for may see it. */
export const leaseVariable = "COPPICE_LEASE"

/** This process was spawned without a lease: somebody started a session before its claim. Nothing was done. */
export class NoLeaseCarried extends Schema.TaggedError<NoLeaseCarried>()("NoLeaseCarried", {
  ...errorFields("NO_LEASE_CARRIED")
}) {}

/** What a spawner passes in the environment of the session, after its claim. */
export const carryLease = (fence: Fence): { readonly [leaseVariable]: string } => ({
  [leaseVariable]: JSON.stringify(fence)
})

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(Fence), { onExcessProperty: "error" })

/**
 * The fence that this session was spawned with, if it still holds. Errors: `NoLeaseCarried` (claim first, then spawn with
 * `carryLease`), `LeaseLost` (stop: the work is another's by now), and those of the store.
 */
export const carriedLease = (environment: Readonly<Record<string, string | undefined>>) =>
  Effect.gen(function* () {
    const fence = decode(environment[leaseVariable] ?? "")
    if (Result.isFailure(fence)) {
      return yield* new NoLeaseCarried({
        message: "This session was spawned without a lease.",
        remedy: `Claim the work first (Todos.nextWork), then spawn the session with ${leaseVariable} as carryLease gives it.`
      })
    }
    yield* leaseHolds(fence.success)
    return fence.success
  })
