/**
 * The turn driver: takes one claimed todo through admit, execute, result, validate, settle, close.
 * Promise: each phase is journaled before its work starts; after a crash it goes on from the last journaled phase, and a
 * host that may have been started is never started again by itself; what a turn cost is recorded whatever became of it.
 * Rules: G80, G82, G85, S23; principle 2. It drives any host in any environment: a plain directory, or a workspace.
 */
import * as Cause from "effect/Cause"
import { PassThrough } from "node:stream"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { crashPoint } from "../base/CrashPoint.ts"
import { type CoppiceError, errorFields, isCoppiceError } from "../base/CoppiceError.ts"
import {
  type Authority,
  type Fence,
  NotFound,
  Settlements,
  TurnInFlight,
  type TurnRecord,
  Turns
} from "../governance/index.ts"
import type { Host } from "../host/Host.ts"
import type { SpawnedProcess, TurnEnvironment } from "../host/TurnEnvironment.ts"
import { type BriefFinding, protocolVersion, type TurnProgress, type TurnRequest } from "../host/TurnProtocol.ts"
import type { HostOutcome, ResultStore } from "./ResultFile.ts"

/**
 * An earlier attempt at this turn ended without a result: its process died while the host may have been running, or it was
 * cancelled. Its cost is unknown and it is not dispatched again by itself. Remedy: read what it left; then call again with `interrupted: "retry"`, which is a new, labelled attempt.
 */
export class TurnInterrupted extends Schema.TaggedError<TurnInterrupted>()("TurnInterrupted", {
  ...errorFields("TURN_INTERRUPTED"),
  turn: Schema.String
}) {}

/** The host says that it cannot run here. Nothing was admitted, held or dispatched (P3). */
export class HostNotReady extends Schema.TaggedError<HostNotReady>()("HostNotReady", {
  ...errorFields("HOST_NOT_READY"),
  host: Schema.String,
  missing: Schema.Array(Schema.String)
}) {}

/** What is to be done, by whom, with which authority and at what most. */
export interface TurnSpec {
  readonly goal: { readonly id: string; readonly title: string }
  readonly todo: { readonly id: string; readonly title: string }
  readonly agent: string
  readonly fence: Fence
  readonly host: Host
  readonly instruction: string
  readonly findings: readonly (typeof BriefFinding.Type)[]
  /** The most that the turn may cost; reserved before dispatch (G55). */
  readonly bound: { readonly usd?: number; readonly slots?: number }
  readonly timeLimitMs: number
  /**
   * The settled turn after which this one comes, where a todo was kept open and gets a further turn. Without it the todo's
   * one turn is meant: driving that again after its close gives its receipt.
   */
  readonly after?: string
  /** What to do with a turn whose earlier attempt ended without a result. */
  readonly interrupted: "explain" | "retry"
  readonly onProgress?: (progress: TurnProgress) => void
}

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

const requestOf = (spec: TurnSpec, turn: TurnRecord, environment: TurnEnvironment): TurnRequest => ({
  protocol: "coppice.turn",
  version: protocolVersion,
  turnKey: turn.id,
  goal: spec.goal,
  todo: spec.todo,
  instruction: spec.instruction,
  findings: spec.findings,
  root: environment.root,
  budget: { usd: spec.bound.usd ?? null, timeLimitMs: spec.timeLimitMs }
})

type Found = TurnRecord & { readonly next: string }

/** Asked before anything is held for a dispatch: what is missing is found before anything runs. */
const hostReady = ({ host }: TurnSpec) =>
  Effect.flatMap(host.probe, ({ ready, missing }) =>
    ready
      ? Effect.void
      : new HostNotReady({
          host: host.descriptor.kind,
          missing: [...missing],
          message: `The host ${host.descriptor.kind} is not ready: it lacks ${missing.join(", ")}.`,
          remedy: "Provide what it lacks, or choose another host; nothing was started."
        })
  )

/** A failed turn again, under the same id: a new bound, and a new attempt that says why (G82). */
const startOver = (spec: TurnSpec, failed: TurnRecord) =>
  Effect.gen(function* () {
    yield* hostReady(spec)
    const again = yield* Turns.retry({
      turn: failed.id,
      fence: spec.fence,
      bound: spec.bound,
      reason: retryReason(failed)
    })
    return { ...again, failure: failed.failure, next: "run" } satisfies Found
  })

const noTurn = (id: string) =>
  new NotFound({
    kind: "turn",
    id,
    message: `This todo has no turn with the id ${id}.`,
    remedy: "Name a turn of the same todo in `after`, or leave it out."
  })

/** The open turn of this todo, or a new one. */
const findOrAdmit = (spec: TurnSpec) =>
  Effect.gen(function* () {
    const { items } = yield* Turns.list({ goal: spec.goal.id })
    const ofTodo = items.filter((turn) => turn.todo === spec.todo.id)
    const before = spec.after === undefined ? -1 : ofTodo.findIndex((turn) => turn.id === spec.after)
    if (spec.after !== undefined && before < 0) return yield* noTurn(spec.after)
    const mine = ofTodo.slice(before + 1)
    const known = mine.findLast((turn) => turn.state !== "failed")
    if (known !== undefined) {
      if (drivenHere.has(known.id)) return yield* inFlightHere(known)
      // Settling gave the lease back: what is left to do needs no authority over the todo any more.
      const settled = known.state === "closed" || known.phase === "settle"
      const resumed: Found = yield* Turns.resume({ turn: known.id, ...(settled ? {} : { fence: spec.fence }) })
      if (resumed.next === "run") yield* hostReady(spec)
      return resumed
    }
    const failed = mine.at(-1)
    if (failed !== undefined && failed.agent === spec.agent) {
      if (spec.interrupted === "explain") return yield* interrupted(failed)
      return yield* startOver(spec, failed)
    }
    yield* hostReady(spec)
    const turn = yield* Turns.admit({ goal: spec.goal.id, agent: spec.agent, fence: spec.fence, bound: spec.bound })
    return { ...turn, next: "run" as const }
  })

/**
 * The turns that this process is driving now. The journal tells one process from another (G81); two calls in one process
 * look alike to it, and the second would take the first for what a crash left.
 */
const drivenHere = new Set<string>()

const inFlightHere = (turn: TurnRecord) =>
  new TurnInFlight({
    turn: turn.id,
    phase: turn.phase,
    alive: true,
    message: `Turn ${turn.id} of ${turn.agent} is being driven by another call in this process.`,
    remedy: "Wait for that call, or interrupt it."
  })

/** Holds a turn while `effect` drives it. */
const driving = <A, E, R>(turn: TurnRecord, effect: Effect.Effect<A, E, R>) =>
  Effect.suspend((): Effect.Effect<A, E | TurnInFlight, R> => {
    if (drivenHere.has(turn.id)) return Effect.fail(inFlightHere(turn))
    drivenHere.add(turn.id)
    return Effect.ensuring(
      effect,
      Effect.sync(() => drivenHere.delete(turn.id))
    )
  })

const retryReason = (turn: TurnRecord): string =>
  turn.failure === null
    ? "the earlier attempt was lost with its process"
    : `the earlier attempt was ${turn.failure.class}: ${turn.failure.reason}`.slice(0, 500)

const interrupted = (turn: TurnRecord) =>
  new TurnInterrupted({
    turn: turn.id,
    message: `Turn ${turn.id} ended without a result (${turn.failure?.reason ?? "lost"}); its cost is unknown.`,
    remedy: 'Read what it left, then start it again by name (interrupted: "retry"): a new, labelled attempt.'
  })

/** The same process, with a copy of its stderr for the record. */
const recorded = (child: SpawnedProcess, keep: (chunk: Uint8Array) => void): SpawnedProcess => {
  const stderr = new PassThrough()
  child.stderr.on("data", (chunk: Buffer) => {
    keep(chunk)
    stderr.write(chunk)
  })
  child.stderr.once("close", () => stderr.end())
  return { ...child, stderr }
}

/** Journals which process the host is, as soon as the environment has started it (S20), and keeps its private text. */
const observedEnvironment = (
  environment: TurnEnvironment,
  turn: TurnRecord,
  keep: (chunk: Uint8Array) => void,
  run: <A, E>(effect: Effect.Effect<A, E, Authority>) => Effect.Effect<A, E>
): TurnEnvironment => ({
  root: environment.root,
  guarantee: environment.guarantee,
  spawn: (argv, options) =>
    Effect.tap(environment.spawn(argv, options), (child) =>
      child.identity === null
        ? Effect.void
        : run(
            Turns.executorStarted({
              turn: turn.id,
              executor: child.identity,
              guarantee: { diesWithParent: child.guarantee.diesWithParent, wholeTree: child.guarantee.wholeTree }
            })
          ).pipe(Effect.orDie)
    ).pipe(Effect.map((child) => recorded(child, keep)))
})

/** The supervision failure that an interrupted host carries as a defect: an interruption alone has no room for it. */
const survivorOf = (cause: Cause.Cause<unknown>): CoppiceError | undefined =>
  cause.reasons
    .map((reason) => (Cause.isDieReason(reason) ? reason.defect : undefined))
    .find((defect): defect is CoppiceError => isCoppiceError(defect) && defect._tag === "SupervisionFailed")

/** Runs the host once. A host's failure is an outcome; a supervision failure or a cancellation ends the turn as failed. */
const dispatch = (spec: TurnSpec, turn: TurnRecord, environment: TurnEnvironment, results: ResultStore) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<Authority>()
    const watched = observedEnvironment(environment, turn, results.privateText(turn.id), (effect) =>
      Effect.provide(effect, context)
    )
    const endFailed = (reason: string, kind: "failed" | "supervisionFailed") =>
      Turns.fail({ turn: turn.id, reason, class: kind, spend: { usd: "unknown" } }).pipe(Effect.ignore)
    const start = performance.now()
    const reported = yield* spec.host
      .turn({
        environment: watched,
        request: requestOf(spec, turn, environment),
        timeLimitMs: spec.timeLimitMs,
        ...(spec.onProgress === undefined ? {} : { onProgress: spec.onProgress })
      })
      .pipe(
        Effect.onExit((exit) => {
          if (exit._tag === "Success") return Effect.void
          const survivor = survivorOf(exit.cause)
          if (survivor !== undefined) return endFailed(survivor.message, "supervisionFailed")
          return Cause.hasInterrupts(exit.cause) ? endFailed("cancelled by the caller", "failed") : Effect.void
        }),
        Effect.result
      )
    if (reported._tag === "Success") {
      const { result, wallMs } = reported.success
      return { status: "ok", result, wallMs } satisfies HostOutcome
    }
    const error = reported.failure
    if (error._tag === "HostFailure") {
      return {
        status: "failed",
        class: error.class,
        check: error.check,
        message: error.message,
        wallMs: performance.now() - start
      } satisfies HostOutcome
    }
    yield* endFailed(error.message, error._tag === "SupervisionFailed" ? "supervisionFailed" : "failed")
    return yield* error
  })

const spendOf = (outcome: HostOutcome): number | "unknown" =>
  outcome.status === "ok" ? (outcome.result.usage?.usd ?? "unknown") : "unknown"

const hostResult = (outcome: HostOutcome, digest: string, provenGone: boolean | null) =>
  outcome.status === "ok"
    ? {
        status: "ok" as const,
        claim: outcome.result.outcome,
        summary: outcome.result.summary,
        failure: null,
        digest,
        usd: spendOf(outcome),
        wallMs: outcome.wallMs,
        provenGone
      }
    : {
        status: "failed" as const,
        claim: null,
        summary: outcome.message,
        failure: { class: outcome.class, check: outcome.check },
        digest,
        usd: "unknown" as const,
        wallMs: outcome.wallMs,
        provenGone
      }

/**
 * Drives a turn to its close, or from wherever an earlier process left it.
 *
 * Errors beside those of the work itself: `HostNotReady` (nothing was admitted), `TurnInterrupted` (see there), `SupervisionFailed` (a process may survive: end it
 * by hand, no new executor starts before), `TurnCancelled`, and the refusals of governance: `QuotaExceeded` (nothing was
 * dispatched), `LeaseLost` (stop; the files are kept), `TurnInFlight`, `GoalNotActive`.
 */
export const driveTurn = <W, C, OpenError, CaptureError, JudgeError, SettleError, R>(
  spec: TurnSpec,
  work: TurnWork<W, C, OpenError, CaptureError, JudgeError, SettleError, R>
) =>
  Effect.gen(function* () {
    const found = yield* findOrAdmit(spec)
    return yield* driving(found, driveFrom(spec, work, found))
  })

const driveFrom = <W, C, OpenError, CaptureError, JudgeError, SettleError, R>(
  spec: TurnSpec,
  work: TurnWork<W, C, OpenError, CaptureError, JudgeError, SettleError, R>,
  found: Found
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
          yield* Turns.saveAttempt({
            turn: started.id,
            fence: spec.fence,
            guarantee: { diesWithParent, wholeTree },
            host: spec.host.descriptor.kind,
            ...(started.attempts.length === 0 ? {} : { retry: retryReason(started) })
          })
          crashPoint("turn.attemptSaved")
          const outcome = yield* dispatch(spec, started, work.environment(place), work.results)
          crashPoint("turn.hostEnded")
          const digest = yield* work.results.save(started.id, outcome)
          const provenGone = spec.host.descriptor.inProcess ? null : true
          const record = yield* Turns.recordResult({
            turn: started.id,
            result: hostResult(outcome, digest, provenGone)
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
      const receipt = yield* Settlements.settle({
        ...settling,
        effectId: turn.effectId,
        goal: spec.goal.id,
        fence: spec.fence,
        turn: turn.id,
        // The journaled amount: the file of the result is detail, never the source of an amount (G51).
        spend: { usd: turn.result?.usd ?? "unknown" }
      })
      crashPoint("turn.settled")
      turn = { ...turn, settlement: receipt.id, next: "close" }
    }
    if (turn.next === "close") turn = { ...(yield* Turns.close({ turn: turn.id })), next: "none" }
    return { turn, outcome, captured, settlement: turn.settlement ?? "" } satisfies TurnDone<C>
  })
