/**
 * The host contract: how Coppice has a turn carried out by some agent runtime.
 * Promise: what a host says is a candidate result, never acceptance (principle 2); a capability that a host lacks is a
 * typed answer; cancelling is decided by our record, not by the host's stop reason. Rules: S50, S51, S54, G84, G85.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { ResumeMismatch, ResumeUnsupported } from "./HostSession.ts"
import type { SpawnGuarantee, TurnEnvironment } from "./TurnEnvironment.ts"
import { HostUsage, type TurnProgress, type TurnRequest, type TurnResult } from "./TurnProtocol.ts"

/** Why a host did not give a usable result (G84). Only some classes are ever retried, by the session, never by a host. */
export const FailureClass = Schema.Literals([
  "auth",
  "contract",
  "executorTimeout",
  "outputBudget",
  "capacity",
  "overloaded",
  "quotaExhausted",
  "rateLimited",
  "sessionMissing",
  "transportLost",
  "unknown"
])
export type FailureClass = typeof FailureClass.Type

/** The host failed: it did not speak the protocol, ended with an error, or ran out of time. Its files are kept. */
export class HostFailure extends Schema.TaggedError<HostFailure>()("HostFailure", {
  ...errorFields("HOST_FAILURE"),
  class: FailureClass,
  /** Which check failed, for example `stdout-empty`, `two-objects`, `turn-key`, `unknown-field`, `exit-code`. */
  check: Schema.String,
  exitCode: Schema.NullOr(Schema.Number),
  /** False when it is known that nothing was started, so that nothing was spent; absent: it may have run. */
  started: Schema.optionalKey(Schema.Boolean),
  /** What is known of what the failed attempt used; it counts like any other (G56). */
  usage: Schema.optionalKey(HostUsage),
  /** Milliseconds before which the provider wants no further attempt. */
  retryAfterMs: Schema.optionalKey(Schema.Number)
}) {}

/** Stopping the executor could not be proven: a process of it may still run (S23, G85). No new executor may start. */
export class SupervisionFailed extends Schema.TaggedError<SupervisionFailed>()("SupervisionFailed", {
  ...errorFields("SUPERVISION_FAILED")
}) {}

/** The turn was cancelled by the caller or by lost authority; the group was ended and proven gone. */
export class TurnCancelled extends Schema.TaggedError<TurnCancelled>()("TurnCancelled", {
  ...errorFields("TURN_CANCELLED")
}) {}

export type TurnError = HostFailure | SupervisionFailed | TurnCancelled | ResumeUnsupported | ResumeMismatch

export interface HostDescriptor {
  /** For example `host-process`, `in-process`. */
  readonly kind: string
  readonly version: string
  /** `in-process` hosts are labelled in every receipt (S54). */
  readonly inProcess: boolean
  /**
   * Whether a turn that failed by time limit, capacity, overload, rate limit or a lost connection may be started again in the same
   * place: the host either did nothing, or goes on from what it finds. Absent: not known, and nothing is tried again by itself.
   */
  readonly retrySafe?: boolean
  readonly capabilities: readonly ("turn" | "resume" | "fork" | "steer" | "interrupt" | "usage" | "models")[]
}

/** What a turn came to, beside its result. */
export interface TurnReport {
  readonly result: TurnResult
  /** What is known about how the executor was held; null for an in-process host. */
  readonly guarantee: SpawnGuarantee | null
  readonly wallMs: number
  /** True when the executor had answered but did not exit, and was ended: its exit code is then unknown (C90). */
  readonly lingered: boolean
}

export interface HostTurnOptions {
  readonly environment: TurnEnvironment
  readonly request: TurnRequest
  /** Milliseconds; the whole group is ended after it and the failure is `executorTimeout`. */
  readonly timeLimitMs: number
  readonly onProgress?: (progress: TurnProgress) => void
}

/**
 * A host. A request that names a session to resume is refused with `ResumeUnsupported` by a host that does not declare it,
 * and fails with `ResumeMismatch` when another one was read back (S22). `turn` is interruptible: interrupting it stops the executor (S23) before it returns.
 * Further operations of S50 join here as hosts that have them arrive; none is a stub.
 */
export interface Host {
  readonly descriptor: HostDescriptor
  /** Finds out before any work whether this host can run here, and what is missing. */
  readonly probe: Effect.Effect<{ readonly ready: boolean; readonly missing: readonly string[] }>
  readonly turn: (options: HostTurnOptions) => Effect.Effect<TurnReport, TurnError>
}
