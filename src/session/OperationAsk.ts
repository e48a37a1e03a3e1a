/**
 * Asking a provider, within bounds: what became of an effect, what keeps one from starting, whether a device has stopped.
 * Promise: silence, a broken connection and a provider that breaks are one and the same: no answer. Nothing is concluded from it,
 * and nothing is handed over here. Rules: G60, G61, G63; A3.
 */
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { crashPoint } from "../base/CrashPoint.ts"
import { madeWhole } from "../base/WholeText.ts"
import {
  type EffectRecord,
  Effects,
  OperationLost,
  type OperationProvider,
  publicOr,
  type ReadBackAnswer,
  type StopAnswer
} from "../governance/index.ts"
import type { Interlock } from "../governance/OperationProvider.ts"
import { InterlockEngaged } from "./OperationError.ts"

/** How long and how often a provider is asked. */
export interface Asking {
  /** Milliseconds for one call of the provider; 30,000 unless told. */
  readonly timeLimitMs?: number
  /** How often a question is repeated that had no final answer; 5 unless told. A request is never repeated this way. */
  readonly times?: number
  /** Before the first repetition; doubled before each further one. 100 milliseconds unless told. */
  readonly backoff?: Duration.Input
}

const noAnswer = (provider: OperationProvider): OperationLost =>
  new OperationLost({
    provider: provider.name,
    message: `${provider.name} gave no answer.`,
    remedy: "Nothing is known of the operation: read it back."
  })

/** One call of the provider. Whatever goes wrong with it is no answer, and neither is a state that is none of `states`. */
export const called = <A>(
  provider: OperationProvider,
  { timeLimitMs = 30_000 }: Asking,
  call: () => Effect.Effect<A, OperationLost>,
  states?: readonly string[]
): Effect.Effect<A, OperationLost> =>
  Effect.suspend(call).pipe(
    Effect.filterOrFail(
      (answer) =>
        states === undefined || states.includes(String((answer as { readonly state?: unknown } | null)?.state)),
      () => noAnswer(provider)
    ),
    Effect.timeoutOrElse({ duration: timeLimitMs, orElse: () => Effect.fail(noAnswer(provider)) }),
    Effect.catchDefect((defect) =>
      Effect.andThen(Effect.logWarning(`${provider.name} broke`, defect), Effect.fail(noAnswer(provider)))
    )
  )

/** An answer that may change when it is asked for again. */
class Undecided<A> extends Data.TaggedError("Undecided")<{ readonly answer: A }> {}

/** Repeats a question until its answer is final, or the bound is reached: then the last answer. */
const until = <A>(asking: Asking, question: Effect.Effect<A>, final: (answer: A) => boolean): Effect.Effect<A> =>
  question.pipe(
    Effect.flatMap((answer) => (final(answer) ? Effect.succeed(answer) : Effect.fail(new Undecided({ answer })))),
    Effect.retry({ schedule: Schedule.exponential(asking.backoff ?? "100 millis"), times: asking.times ?? 5 }),
    Effect.catch(({ answer }) => Effect.succeed(answer))
  )

const publicText = (text: unknown, most: number): string | undefined =>
  typeof text === "string" ? madeWhole(publicOr(text.slice(0, most), "not for the public")) : undefined

/** What a provider says of itself, as it may stand in public. */
export const told = (answer: { readonly summary?: string; readonly receipt?: string }) => {
  const summary = publicText(answer.summary, 2000)
  const receipt = publicText(answer.receipt, 500)
  return { ...(summary === undefined ? {} : { summary }), ...(receipt === undefined ? {} : { receipt }) }
}

const callOf = (effect: EffectRecord) => ({ effectId: effect.id, attempt: effect.attempts, kind: effect.kind })

interface Found extends Omit<ReadBackAnswer, "state"> {
  readonly state: ReadBackAnswer["state"] | "unavailable"
}

const readBackStates: readonly ReadBackAnswer["state"][] = [
  "confirmed",
  "refused",
  "pending",
  "notFound",
  "notExecuted"
]
const stopStates: readonly StopAnswer["state"][] = ["stopped", "moving"]

/** Asks what became of an effect, and journals the answer. Errors: those of `Effects.readBack`. */
export const askBack = (provider: OperationProvider, asking: Asking, effect: EffectRecord) =>
  Effect.gen(function* () {
    const nothing: Found = { state: "unavailable" }
    const found: Found =
      effect.declared.readBack === "no"
        ? nothing
        : yield* until(
            asking,
            called<Found>(provider, asking, () => provider.readBack(callOf(effect)), readBackStates).pipe(
              Effect.catch(() => Effect.succeed(nothing))
            ),
            ({ state }) =>
              state === "confirmed" ||
              state === "refused" ||
              state === "notExecuted" ||
              // What may be sent again under its key need not be waited for.
              (state === "notFound" && effect.declared.retry !== "unsafe")
          )
    crashPoint("effect.readBack")
    const known = yield* Effects.readBack({
      effect: effect.id,
      attempt: effect.attempts,
      found: found.state,
      ...told(found)
    })
    crashPoint("effect.resolved")
    return known
  })

type Engaged = InterlockEngaged["interlocks"][number]

const unread: Engaged = { name: "interlocks", reason: "they could not be read" }

/** What is engaged for this kind; only what says that it is not engaged, or is for other kinds, is not. */
const engagedOf = (all: unknown, kind: string): readonly Engaged[] => {
  if (!Array.isArray(all)) return [unread]
  return all.flatMap((one: Partial<Interlock> | null | undefined): readonly Engaged[] => {
    if (typeof one?.name !== "string" || typeof one.engaged !== "boolean") return [unread]
    const concerned = !Array.isArray(one.kinds) || one.kinds.includes(kind)
    return one.engaged && concerned ? [{ name: one.name, reason: String(one.reason ?? "") }] : []
  })
}

/** Fails with what is engaged for this kind. What cannot be read counts as engaged. */
export const passInterlocks = (provider: OperationProvider, asking: Asking, effect: EffectRecord) =>
  Effect.gen(function* () {
    const engaged = yield* called(provider, asking, () => provider.interlocks).pipe(
      Effect.map((all): readonly Engaged[] => engagedOf(all, effect.kind)),
      Effect.catch(() => Effect.succeed([unread]))
    )
    if (engaged.length === 0) return
    return yield* new InterlockEngaged({
      message: `${effect.kind} is not started: ${engaged.map(({ name }) => name).join(", ")}.`,
      remedy: "Clear what is engaged, or make the provider reachable; then run the effect again under the same id.",
      provider: provider.name,
      effect: effect.id,
      interlocks: engaged
    })
  })

interface Seen extends Omit<StopAnswer, "state"> {
  readonly state: StopAnswer["state"] | "unknown"
}

/**
 * Asks for the stop that is journaled, then the device whether it stands still. Asking again for what was asked before is safe:
 * the request may have been lost, and so may its reply. Errors: those of `Effects.confirmStopped`.
 */
export const pursueStop = (provider: OperationProvider, asking: Asking, effect: EffectRecord) =>
  Effect.gen(function* () {
    yield* Effect.ignore(called(provider, asking, () => provider.requestStop(callOf(effect))))
    crashPoint("effect.stopAsked")
    // A person looks: nothing that the provider says stands for that.
    if (effect.declared.stop !== "device") return effect
    const seen = yield* until(
      asking,
      called<Seen>(provider, asking, () => provider.confirmStopped(callOf(effect)), stopStates).pipe(
        Effect.catch(() => Effect.succeed<Seen>({ state: "unknown" }))
      ),
      ({ state }) => state === "stopped"
    )
    crashPoint("effect.stopSeen")
    const known = yield* Effects.confirmStopped({
      effect: effect.id,
      by: "device",
      seen: seen.state,
      who: provider.name,
      ...told(seen)
    })
    crashPoint("effect.stopRecorded")
    return known
  })
