/**
 * Which failures of a host are tried again, and how often.
 * Promise: a time limit twice in all, capacity, overload, rate limit and a lost connection three times, nothing else ever; a
 * failure without a name is none of them. Pure. Rules: G84.
 */
import * as Result from "effect/Result"
import { RetryRefused } from "./GovernanceError.ts"
import type { TurnAttempt } from "./TurnRecord.ts"

/** How often a turn is tried in all when it fails so; a class that is not here is tried once. */
export const triesOf: { readonly [failure: string]: number } = {
  executorTimeout: 2,
  capacity: 3,
  overloaded: 3,
  rateLimited: 3,
  transportLost: 3
}

/** How many attempts this run of them has had: those before it that failed and were tried again, and the one that failed now. */
const triedSoFar = (attempts: readonly TurnAttempt[]): number => {
  const before = attempts.slice(0, -1)
  const other = before.findLastIndex((attempt) => attempt.failure === undefined)
  return before.length - other
}

const mostTries = (failure: string): number => (Object.hasOwn(triesOf, failure) ? triesOf[failure]! : 1)

/** Whether the last of these attempts, failed with this class, is tried again. */
export const triedAgain = (attempts: readonly TurnAttempt[], failure: string): boolean =>
  attempts.length > 0 && triedSoFar(attempts) < mostTries(failure)

export const mayTryAgain = (
  turn: { readonly id: string; readonly attempts: readonly TurnAttempt[] },
  failure: string
): Result.Result<void, RetryRefused> =>
  triedAgain(turn.attempts, failure)
    ? Result.succeed(undefined)
    : Result.fail(
        new RetryRefused({
          message: `Turn ${turn.id} failed as ${failure} at attempt ${triedSoFar(turn.attempts)}: that is not tried again.`,
          remedy: "Record the failure as the turn's result and settle it; a further turn is a decision of the loop.",
          turn: turn.id,
          class: failure,
          tries: mostTries(failure)
        })
      )
