/**
 * The question whether a fence still holds, asked without writing.
 * Promise: answered from the record as it stands now, by the same rule that every write of a holder passes; nothing is
 * remembered between two questions. Rules: G33, G35, G36, P7; W18.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Authority, type ReadError } from "./Authority.ts"
import type { Fence } from "./Field.ts"
import type { LeaseLost } from "./GovernanceError.ts"
import { loadLease, passFence } from "./Lease.ts"

/**
 * Succeeds while the fence's token is that of the live lease of its todo. The version is not compared: a renewal takes nothing away.
 * Errors: `LeaseLost` (stop, nothing may be written under this fence any more), and the store's own, when it cannot be read.
 */
export const leaseHolds = (fence: Fence): Effect.Effect<void, LeaseLost | ReadError, Authority> =>
  Effect.gen(function* () {
    const authority = yield* Authority
    // By the store's time, as every write is judged: a clock that was set back lets no expired lease hold (G36).
    const { value } = yield* authority.read(function* ({ now }) {
      return passFence(yield* loadLease(fence.todo), fence, now)
    })
    if (Result.isFailure(value)) return yield* value.failure
  })
