/**
 * The turn driver: takes one claimed todo through admit, execute, result, validate, settle, close.
 * Promise: each phase is journaled before its work starts; after a crash it goes on from the last journaled phase, and a
 * host that may have been started is never started again by itself; what a turn cost is recorded whatever became of it.
 * Rules: G80, G82, G85, S23; principle 2. It drives any host in any environment: a plain directory, or a workspace.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { crashPoint } from "../base/CrashPoint.ts"
import { type LeaseLost, Settlements, type TurnRecord, Turns } from "../governance/index.ts"
import type { TurnEnvironment } from "../host/TurnEnvironment.ts"
import { keepLease } from "./LeaseKeeper.ts"
import type { HostOutcome, ResultStore } from "./ResultFile.ts"
import { acknowledgeContext, issueContext, workedUnder } from "./TurnContext.ts"
import { hostResult, reported, tokensOf } from "./TurnDispatch.ts"
import { dispatchAll } from "./TurnRetry.ts"
import { driving, findOrAdmit, type Found, interrupted, retryReason, startOver, type TurnSpec } from "./TurnStart.ts"

export { HostNotReady, TurnInterrupted, type TurnSpec } from "./TurnStart.ts"

/** What the settlement of a turn says beside its identity and its cost. */
export type Settling = Omit<
  Parameters<typeof Settlements.settle>[0],
  "effectId" | "goal" | "fence" | "turn" | "spend" | "commandId"
>

/**
 * The parts of a turn that depend on where it runs and on who judges it. `W` is an open place, `C` what was captured;
 * each part fails with errors of its own.
 */
export interface TurnWork<W, C, OpenError, CaptureError, JudgeError, SettleError, R> {
  /** Opens the place; it closes when the capture is done. Not called when the host does not have to run. */
  readonly open: (turn: TurnRecord) => Effect.Effect<W, OpenError, R | Scope.Scope>
  readonly environment: (place: W) => TurnEnvironment
  readonly results: ResultStore
  /**
   * Makes what the host left immutable. Called with the open place right after the result is journaled; with null when an
   * earlier process got that far. Must give the same answer however often it is called for one turn.
   */
  readonly capture: (
    turn: TurnRecord,
    outcome: HostOutcome | null,
    place: W | null
  ) => Effect.Effect<C, CaptureError, R>
  /** Judges the capture, apart from the executor. Gives the recorded acceptance, or why nothing was judged. */
  readonly validate: (
    turn: TurnRecord,
    outcome: HostOutcome | null,
    captured: C
  ) => Effect.Effect<{ readonly acceptance: string | null; readonly note?: string }, JudgeError, R>
  readonly settle: (
    turn: TurnRecord,
    outcome: HostOutcome | null,
    captured: C
  ) => Effect.Effect<Settling, SettleError, R>
}

export interface TurnDone<C> {
  readonly turn: TurnRecord
  /** Null when the saved result could not be read again: unknown, never invented. */
  readonly outcome: HostOutcome | null
  readonly captured: C
  readonly settlement: string
}

/**
 * Drives a turn to its close, or from wherever an earlier process left it.
 *
 * Errors beside those of the work itself: `HostNotReady` (nothing was admitted), `TurnInterrupted` (see there), `SupervisionFailed` (a process may survive: end it
 * by hand, no new executor starts before), `TurnCancelled`, and the refusals of governance: `QuotaExceeded` (nothing was
 * dispatched), `ContextTooLarge` and `SourceState` (nothing was dispatched: see `contextBytes`, or make it readable, and call again), `LeaseLost` (the host was
 * stopped first; its files are kept), `TurnInFlight`, `GoalNotActive` and `Gated` (what ran is kept: call again once it is resumed or
 * decided, and only what is left to do is done).
 */
export const driveTurn = <W, C, OpenError, CaptureError, JudgeError, SettleError, R>(
  spec: TurnSpec,
  work: TurnWork<W, C, OpenError, CaptureError, JudgeError, SettleError, R>
) =>
  Effect.gen(function* () {
    const found = yield* findOrAdmit(spec)
    return yield* driving(
      found,
      Effect.scoped(Effect.flatMap(leaseOf(spec, found), (lost) => driveFrom(spec, work, found, lost)))
    )
  })

/** What is settled needs no authority any more; everything before it is kept alive, whichever step it is found in. */
const leaseOf = (spec: TurnSpec, found: Found) =>
  found.next === "close" || found.next === "none"
    ? Effect.succeed(Effect.never)
    : keepLease(spec.fence, spec.renewEveryMs)

const driveFrom = <W, C, OpenError, CaptureError, JudgeError, SettleError, R>(
  spec: TurnSpec,
  work: TurnWork<W, C, OpenError, CaptureError, JudgeError, SettleError, R>,
  found: Found,
  lost: Effect.Effect<never, LeaseLost>
) =>
  Effect.gen(function* () {
    let turn = found
    if (turn.next === "readBackOrRetry") {
      // A plain program cannot be asked what became of it: its cost stays reserved, and only a caller starts it again.
      const lost = yield* Turns.fail({
        turn: turn.id,
        reason: "its process died while the host may have been running",
        class: "lost",
        spend: { usd: "unknown" }
      })
      crashPoint("turn.lost")
      if (spec.interrupted === "explain") return yield* interrupted(lost)
      turn = yield* startOver(spec, lost)
    }
    crashPoint("turn.admitted")

    let outcome: HostOutcome | null
    let captured: C
    if (turn.next === "run") {
      const started = turn
      const ran = yield* Effect.scoped(
        Effect.gen(function* () {
          const place = yield* work.open(started)
          const { diesWithParent, wholeTree } = yield* work.environment(place).guarantee
          const packet = yield* issueContext(spec, started)
          crashPoint("turn.contextIssued")
          const saved = yield* Turns.saveAttempt({
            turn: started.id,
            fence: spec.fence,
            guarantee: { diesWithParent, wholeTree },
            host: spec.host.descriptor.kind,
            ...(started.attempts.length === 0 ? {} : { retry: retryReason(started) })
          })
          crashPoint("turn.attemptSaved")
          const { outcome } = yield* dispatchAll(spec, saved, packet, work.environment(place), work.results, lost)
          crashPoint("turn.hostEnded")
          const digest = yield* work.results.save(started.id, outcome)
          const provenGone = spec.host.descriptor.inProcess ? null : true
          const record = yield* Turns.recordResult({
            turn: started.id,
            result: hostResult(outcome, digest, provenGone),
            ...reported(outcome)
          })
          crashPoint("turn.resultRecorded")
          const captured = yield* work.capture(record, outcome, place)
          crashPoint("turn.captured")
          return { record, outcome, captured }
        })
      )
      outcome = ran.outcome
      captured = ran.captured
      turn = { ...ran.record, next: "validate" }
    } else {
      outcome = yield* work.results.load(turn.id, turn.result?.digest ?? null)
      captured = yield* work.capture(turn, outcome, null)
    }

    if (turn.next === "validate") {
      yield* acknowledgeContext(turn, outcome)
      const verdict = yield* work.validate(turn, outcome, captured)
      turn = {
        ...(yield* Turns.recordVerdict({
          turn: turn.id,
          acceptance: verdict.acceptance,
          ...(verdict.note === undefined ? {} : { note: verdict.note })
        })),
        next: "settle"
      }
      crashPoint("turn.validated")
    }
    if (turn.next === "settle") {
      const settling = yield* work.settle(turn, outcome, captured)
      const worked = workedUnder(outcome)
      const receipt = yield* Settlements.settle({
        ...(worked === undefined ? {} : { context: worked.digest }),
        ...settling,
        effectId: turn.effectId,
        goal: spec.goal.id,
        fence: spec.fence,
        turn: turn.id,
        // The journaled amount: the file of the result is detail, never the source of an amount (G51).
        spend: {
          usd: turn.result?.usd ?? "unknown",
          ...(typeof turn.result?.wallMs === "number" ? { wallMs: Math.ceil(turn.result.wallMs) } : {}),
          ...tokensOf(turn)
        }
      })
      crashPoint("turn.settled")
      turn = { ...turn, settlement: receipt.id, next: "close" }
    }
    if (turn.next === "close") turn = { ...(yield* Turns.close({ turn: turn.id })), next: "none" }
    return { turn, outcome, captured, settlement: turn.settlement ?? "" } satisfies TurnDone<C>
  })
