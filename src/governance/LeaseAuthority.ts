/**
 * The question whether a fence still holds, asked without writing.
 * Promise: answered from the record as it stands now, by the same rule that every write of a holder passes; nothing is
 * remembered between two questions. Rules: G33, G35, P7; W18.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Authority, type StoreError } from "./Authority.ts"
import type { Fence } from "./Field.ts"
import type { LeaseLost } from "./GovernanceError.ts"
import { loadLease, passFence } from "./Lease.ts"

/**
 * Succeeds while the fence's token is that of the live lease of its todo. The version is not compared: a renewal takes nothing away.
 * Errors: `LeaseLost` (stop, nothing may be written under this fence any more), and the store's own, when it cannot be read.
 */
export const leaseHolds = (fence: Fence): Effect.Effect<void, LeaseLost | StoreError, Authority> =>
  Effect.gen(function* () {
    const authority = yield* Authority
    const { value } = yield* authority.read(() => loadLease(fence.todo))
    const passed = passFence(value, fence, yield* Clock.currentTimeMillis)
    if (Result.isFailure(passed)) return yield* passed.failure
  })
