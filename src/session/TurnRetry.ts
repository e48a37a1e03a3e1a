/**
 * The dispatches of one turn: the first, and those that the policy adds after a failure that is tried again.
 * Promise: the same host, request and place; each further attempt is saved, with a bound of its own, before it is launched; what
 * the budget, the lease, a gate or the goal does not allow is not launched, and the failure then stands as the turn's result.
 * Rules: G55, G56, G84. The policy is governance's (governance/RetryPolicy.ts).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { crashPoint } from "../base/CrashPoint.ts"
import { type LeaseLost, type PacketRecord, triedAgain, type TurnRecord, Turns } from "../governance/index.ts"
import type { TurnEnvironment } from "../host/TurnEnvironment.ts"
import type { HostOutcome, ResultStore } from "./ResultFile.ts"
import { dispatch, publicFailure, reported, spendOf } from "./TurnDispatch.ts"
import { boundOf, type TurnSpec } from "./TurnStart.ts"

const usualBackoff: Schedule.Schedule<unknown> = Schedule.jittered(Schedule.exponential("2 seconds"))

/** A provider that wants a longer pause than this is not waited for: the failure stands, and the loop decides. */
const longestWaitMs = 10 * 60_000

/** The outcome of the last attempt, and the turn as that attempt left it. */
export interface Dispatched {
  readonly turn: TurnRecord
  readonly outcome: HostOutcome
}

export const dispatchAll = (
  spec: TurnSpec,
  saved: TurnRecord,
  /** Every attempt is given the same. */
  packet: PacketRecord,
  environment: TurnEnvironment,
  results: ResultStore,
  lost: Effect.Effect<never, LeaseLost>
) =>
  Effect.gen(function* () {
    const { diesWithParent, wholeTree } = yield* environment.guarantee
    const nextDelay = yield* Schedule.toStep(spec.backoff ?? usualBackoff)
    let turn = saved
    while (true) {
      const outcome = yield* dispatch(spec, turn, packet, environment, results, lost)
      const failed: Dispatched = { turn, outcome }
      if (outcome.status === "ok" || !wanted(spec) || !triedAgain(turn.attempts, outcome.class)) return failed
      const told = publicFailure(outcome)
      const least = outcome.retryAfterMs ?? 0
      const delay = yield* nextDelay(yield* Clock.currentTimeMillis, undefined).pipe(
        Effect.map(([, duration]) => Duration.max(duration, Duration.millis(least))),
        Effect.catch(() => Effect.succeed(undefined))
      )
      if (delay === undefined || least > longestWaitMs) return failed
      const spend = {
        usd: spendOf(outcome),
        wallMs: Math.ceil(outcome.wallMs)
      }
      const waited = yield* Effect.sleep(delay).pipe(
        Effect.raceFirst(lost),
        Effect.onInterrupt(() =>
          Effect.ignore(
            Turns.fail({
              turn: turn.id,
              reason: `${told.class} (${told.check}); cancelled before it was tried again`,
              class: "failed",
              spend
            })
          )
        ),
        Effect.result
      )
      if (waited._tag === "Failure") return failed
      const again = yield* Effect.result(
        Turns.retryAttempt({
          turn: turn.id,
          fence: spec.fence,
          failure: told,
          spend,
          ...reported(outcome),
          bound: boundOf(spec),
          guarantee: { diesWithParent, wholeTree },
          host: spec.host.descriptor.kind
        })
      )
      // Whatever refuses it changed nothing: the failure is what the turn came to.
      if (again._tag === "Failure") return failed
      turn = again.success
      crashPoint("turn.attemptSaved")
    }
  })

const wanted = ({ retries, host }: TurnSpec): boolean =>
  retries === undefined ? host.descriptor.retrySafe === true : retries === "policy"
