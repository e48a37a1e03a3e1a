/**
 * One dispatch of a turn: the host is asked, watched while it runs, and its answer or failure is put into a record.
 * Promise: the host's process is journaled as soon as it is known; an interruption, and a process that survives it, are
 * written down as what they are; what a host said of itself stays a claim. Rules: S20, S23, G84, G85; principle 2.
 */
import { type Readable, Transform } from "node:stream"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { type CoppiceError, isCoppiceError } from "../base/CoppiceError.ts"
import {
  type Authority,
  type LeaseLost,
  type PacketRecord,
  publicWords,
  type TurnRecord,
  Turns
} from "../governance/index.ts"
import type { SpawnedProcess, TurnEnvironment } from "../host/TurnEnvironment.ts"
import { type HostUsage, protocolVersion, type TurnRequest } from "../host/TurnProtocol.ts"
import type { HostOutcome, PrivateText, ResultStore } from "./ResultFile.ts"
import type { TurnSpec } from "./TurnStart.ts"

const requestOf = (
  spec: TurnSpec,
  turn: TurnRecord,
  environment: TurnEnvironment,
  { id, digest, kind, body }: PacketRecord
): TurnRequest => ({
  protocol: "coppice.turn",
  version: protocolVersion,
  turnKey: turn.id,
  goal: spec.goal,
  todo: spec.todo,
  instruction: spec.instruction,
  findings: spec.findings,
  root: environment.root,
  budget: { usd: spec.bound.usd ?? null, timeLimitMs: spec.timeLimitMs },
  ...(spec.resume === undefined ? {} : { resume: spec.resume }),
  context: { packet: id, digest, kind, base: body.base, body: { ...body } }
})

/** The same stream, with a copy for the record. Piped, so that a host which floods is held back and not buffered here. */
const copied = (stream: Readable, text: PrivateText): Readable => {
  const tap = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      text.add(chunk)
      done(null, chunk)
    }
  })
  stream.once("close", () => tap.end())
  tap.once("close", text.end)
  return stream.pipe(tap)
}

/** The same process, with a copy of what it prints for the record. */
const recorded = (child: SpawnedProcess, keep: Keep): SpawnedProcess => ({
  ...child,
  stdout: copied(child.stdout, keep("stdout")),
  stderr: copied(child.stderr, keep("stderr"))
})

type Keep = (stream: "stdout" | "stderr") => PrivateText

/** Journals which process the host is, as soon as the environment has started it (S20), and keeps its private text. */
const observedEnvironment = (
  environment: TurnEnvironment,
  turn: TurnRecord,
  keep: Keep,
  run: <A, E>(effect: Effect.Effect<A, E, Authority>) => Effect.Effect<A, E>
): TurnEnvironment => ({
  root: environment.root,
  guarantee: environment.guarantee,
  spawn: (argv, options) =>
    Effect.tap(
      Effect.map(environment.spawn(argv, options), (child) => recorded(child, keep)),
      (child) =>
        child.identity === null
          ? Effect.void
          : run(
              Turns.executorStarted({
                turn: turn.id,
                executor: child.identity,
                guarantee: { diesWithParent: child.guarantee.diesWithParent, wholeTree: child.guarantee.wholeTree }
              })
            ).pipe(Effect.orDie)
    )
})

/** The supervision failure that an interrupted host carries as a defect: an interruption alone has no room for it. */
const survivorOf = (cause: Cause.Cause<unknown>): CoppiceError | undefined =>
  cause.reasons
    .map((reason) => (Cause.isDieReason(reason) ? reason.defect : undefined))
    .find((defect): defect is CoppiceError => isCoppiceError(defect) && defect._tag === "SupervisionFailed")

/** Runs the host once. A host's failure is an outcome; a supervision failure or a cancellation ends the turn as failed. */
export const dispatch = (
  spec: TurnSpec,
  turn: TurnRecord,
  packet: PacketRecord,
  environment: TurnEnvironment,
  results: ResultStore,
  /** Fails when the authority to go on is lost: the host is then stopped before anything else is said (G31, G85). */
  lost: Effect.Effect<never, LeaseLost>
) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<Authority>()
    const watched = observedEnvironment(
      environment,
      turn,
      (stream) => results.privateText(turn.id, stream),
      (effect) => Effect.provide(effect, context)
    )
    const endFailed = (reason: string, kind: "failed" | "supervisionFailed") =>
      Turns.fail({
        turn: turn.id,
        reason: publicWords(reason, "a reason that may not be public"),
        class: kind,
        spend: { usd: "unknown" }
      }).pipe(Effect.ignore)
    const start = performance.now()
    let why = "cancelled by the caller"
    const noted = Effect.tapError(lost, (error) =>
      Effect.sync(() => {
        why = `stopped, because its lease was lost (${error.why})`
      })
    )
    const reported = yield* spec.host
      .turn({
        environment: watched,
        request: requestOf(spec, turn, environment, packet),
        timeLimitMs: spec.timeLimitMs,
        ...(spec.onProgress === undefined ? {} : { onProgress: spec.onProgress })
      })
      .pipe(
        Effect.onExit((exit) => {
          if (exit._tag === "Success") return Effect.void
          const survivor = survivorOf(exit.cause)
          if (survivor !== undefined) return endFailed(survivor.message, "supervisionFailed")
          return Cause.hasInterrupts(exit.cause) ? endFailed(why, "failed") : Effect.void
        }),
        // The loser is interrupted, which stops the host, before the loss is given on.
        Effect.raceFirst(noted),
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
        wallMs: performance.now() - start,
        ...(error.started === undefined ? {} : { started: error.started }),
        ...(error.usage === undefined ? {} : { usage: error.usage }),
        ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs })
      } satisfies HostOutcome
    }
    if (error._tag === "LeaseLost") return yield* error
    yield* endFailed(error.message, error._tag === "SupervisionFailed" ? "supervisionFailed" : "failed")
    return yield* error
  })

/** What the host says that it used; undefined where it does not say. */
const usageOf = (outcome: HostOutcome): HostUsage | undefined =>
  outcome.status === "ok" ? outcome.result.usage : outcome.usage

/** What it cost: what never started has cost nothing, which is known and frees what was held. */
export const spendOf = (outcome: HostOutcome): number | "unknown" =>
  outcome.status === "failed" && outcome.started === false ? 0 : (usageOf(outcome)?.usd ?? "unknown")

/** The messages of the host's providers, as the authority takes them. */
export const reported = (outcome: HostOutcome): { readonly usage?: NonNullable<HostUsage["messages"]> } => {
  const messages = usageOf(outcome)?.messages
  return messages === undefined ? {} : { usage: messages }
}

/** The tokens' part of a spend: named where every message told them, else what was held for them counts. */
export const tokensOf = ({ usage }: Pick<TurnRecord, "usage">): { readonly tokens?: number } =>
  typeof usage?.total === "number" ? { tokens: usage.total } : {}

/** What a host prints was not written for the journal; its own words lie in the result file, under the digest (G6). */
const unsaid = "The host's words may not be public: they are in the result of this turn."

/** How a host failed, for the journal. */
export const publicFailure = ({ class: kind, check }: { readonly class: string; readonly check: string }) => ({
  class: publicWords(kind, "unknown", 100),
  check: publicWords(check, "not for the public", 200)
})

export const hostResult = (outcome: HostOutcome, digest: string, provenGone: boolean | null) =>
  outcome.status === "ok"
    ? {
        status: "ok" as const,
        claim: outcome.result.outcome,
        summary: publicWords(outcome.result.summary, unsaid),
        failure: null,
        digest,
        usd: spendOf(outcome),
        wallMs: outcome.wallMs,
        provenGone
      }
    : {
        status: "failed" as const,
        claim: null,
        summary: publicWords(outcome.message, unsaid),
        failure: publicFailure(outcome),
        digest,
        usd: spendOf(outcome),
        wallMs: outcome.wallMs,
        provenGone
      }
