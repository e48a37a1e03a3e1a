/**
 * Keeps the lease of a turn alive while the turn is driven, and says when it is lost.
 * Promise: renewed at a third of its time to live, ended with the scope; a lease that was lost is told once, by the very error
 * of the renewal; a store that is busy for a while loses nothing. Rules: G31, G33, G35; P4.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type Fence, type LeaseLost, Leases } from "../governance/index.ts"

/** Milliseconds between two renewals: two of them may fail before the lease ends. */
export const renewalMs = (ttlMs: number): number => Math.max(1, Math.floor(ttlMs / 3))

/**
 * Renews the lease behind `fence` until the scope ends. Gives an effect that never succeeds and fails with `LeaseLost` once
 * a renewal was refused. A lease that is not held at the start is not renewed: whatever needs it says so itself.
 */
export const keepLease = (fence: Fence, everyMs?: number) =>
  Effect.gen(function* () {
    const lost = yield* Deferred.make<never, LeaseLost>()
    const renewed = Effect.gen(function* () {
      // Others who hold the same token may have renewed it; only its epoch says whose it is.
      const { version, ttlMs } = yield* Leases.inspect({ todo: fence.todo })
      yield* Leases.renew({ fence: { ...fence, version } }).pipe(
        Effect.catchTag("LeaseLost", (error) => (error.why === "version" ? Effect.void : Deferred.fail(lost, error)))
      )
      return ttlMs
    })
    const loop = Effect.gen(function* () {
      let { ttlMs } = yield* Leases.inspect({ todo: fence.todo })
      while (!(yield* Deferred.isDone(lost))) {
        yield* Effect.sleep(everyMs ?? renewalMs(ttlMs))
        // A busy or failing store is no lost lease; the next renewal, or the lease's own end, tells.
        ttlMs = yield* Effect.orElseSucceed(renewed, () => ttlMs)
      }
    })
    yield* Effect.forkScoped(Effect.ignore(loop))
    return Deferred.await(lost)
  })
