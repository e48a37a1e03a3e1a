/**
 * A lease as the guard of an open place.
 * Promise: token, epoch, release and expiry are read from the authority at every question; a store that cannot be read gives
 * "unknown", never a yes. Rules: W18, G35, P7.
 */
import * as Effect from "effect/Effect"
import { type AuthorityGuard, AuthorityLost, AuthorityUnknown } from "../base/AuthorityGuard.ts"
import { Authority, type Fence, leaseHolds } from "../governance/index.ts"

/**
 * What `open({ guard })` of a workspace takes, over the lease that `fence` names. It keeps the authority of the calling program.
 *
 * ```ts
 * const guard = yield* leaseGuard(work.lease.fence)
 * const workspace = yield* workspaces.open(branch, { guard })
 * ```
 */
export const leaseGuard = (fence: Fence): Effect.Effect<AuthorityGuard, never, Authority> =>
  Effect.map(Authority, (authority) => {
    const name = `lease on ${fence.todo}, epoch ${fence.epoch}`
    return leaseHolds(fence).pipe(
      Effect.provideService(Authority, authority),
      Effect.mapError((error) =>
        error._tag === "LeaseLost"
          ? new AuthorityLost({
              message: `The ${name} holds no authority any more (${error.why}).`,
              remedy: "Stop. Claim the todo again if it is still yours to do, then open the branch anew.",
              authority: name,
              why: error.why,
              workspace: null,
              quarantine: null
            })
          : new AuthorityUnknown({
              message: `Whether the ${name} still holds could not be read.`,
              remedy: `Nothing was changed. ${error.remedy}`,
              authority: name,
              because: error.code
            })
      )
    )
  })
