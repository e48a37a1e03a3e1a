/**
 * How effects end otherwise: a person says what became of one, one that never happened is given up, one that runs is stopped.
 * Promise: that a stop was asked for, that a model or a process ended, and that the device stands still are separate facts, and
 * none is taken for another; what a person says carries evidence and a name. Rules: G60, G61, G63.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { writer } from "./Authority.ts"
import { driverOf, effectInFlight, observing } from "./EffectDriver.ts"
import type { EffectInFlight, EffectState } from "./EffectError.ts"
import { changed, type EffectRecord, type EffectStop, effectState, effectTable, knownEffect } from "./EffectRecord.ts"
import { type EvidenceRecord, loadEvidence, ofGoal } from "./Evidence.ts"
import { IdText, Summary } from "./Field.ts"
import type { NotFound } from "./GovernanceError.ts"
import { decided, type Handlers, handler, invalidInput } from "./Handler.ts"
import type { Load } from "./Module.ts"

/** Some, so that nobody confirms with nothing in hand. */
const SomeEvidence = Schema.Array(IdText).check(Schema.isMinLength(1), Schema.isMaxLength(100))

interface Vouched {
  readonly effect: EffectRecord | undefined
  readonly evidence: readonly (EvidenceRecord | undefined)[]
}

function* loadVouched(input: { readonly effect: string; readonly evidence: readonly string[] }): Load<Vouched> {
  return {
    effect: yield* effectTable.first("id = ?", input.effect),
    evidence: yield* loadEvidence(input.evidence)
  }
}

/** Evidence of the goal, of which at least one piece is not the executor's own: a producer never accepts itself (G70). */
const passEvidence = (command: string, effect: EffectRecord, ids: readonly string[], found: Vouched["evidence"]) =>
  Result.flatMap(ofGoal(effect.goal, ids, found), (evidence) =>
    evidence.some((one) => one.producer.role !== "executor")
      ? Result.succeed(undefined)
      : Result.fail(invalidInput(command, "all of the evidence is the executor's own"))
  )

// --- a person's word -------------------------------------------------------------------------------------------------

const ResolveEffect = Schema.Struct({
  effect: IdText,
  outcome: Schema.Literals(["confirmed", "refused"]),
  /** Who looked. */
  person: IdText,
  reason: Summary.check(Schema.isMinLength(1)),
  evidence: SomeEvidence
})

export const resolve: Handlers = handler({
  type: "resolveEffect",
  payload: ResolveEffect,
  load: loadVouched,
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(state.effect, input.effect)
      if (effect.state !== "unknown" && effect.state !== "dispatched") {
        return yield* Result.fail(effectState(effect, "Only what is not known is for a person to say."))
      }
      if (effect.state === "dispatched") {
        const alive = driverOf(effect, observed)
        if (alive === true || alive === "mine") return yield* Result.fail(effectInFlight(effect, true))
      }
      yield* passEvidence("resolveEffect", effect, input.evidence, state.evidence)
      const next = changed(
        input.outcome,
        effect,
        {
          state: input.outcome,
          outcome: {
            by: "person",
            who: input.person,
            summary: input.reason,
            receipt: null,
            evidence: input.evidence,
            at: now
          }
        },
        now
      )
      return decided([next.event], next.effect)
    })
})

const AbandonEffect = Schema.Struct({ effect: IdText, by: IdText, reason: Summary.check(Schema.isMinLength(1)) })

export const abandon: Handlers = handler({
  type: "abandonEffect",
  payload: AbandonEffect,
  load: (input) => effectTable.first("id = ?", input.effect),
  decide: (known, input, { now }) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(known, input.effect)
      const never = effect.state === "planned" || (effect.state === "unknown" && effect.lastReadBack === "notExecuted")
      if (!never) {
        return yield* Result.fail(
          effectState(effect, "Only what certainly never happened can be given up: read it back, or stop it.")
        )
      }
      const next = changed(
        "refused",
        effect,
        {
          state: "refused",
          outcome: { by: "planner", who: input.by, summary: input.reason, receipt: null, evidence: [], at: now }
        },
        now
      )
      return decided([next.event], next.effect)
    })
})

// --- stopping --------------------------------------------------------------------------------------------------------

/** An effect that is being stopped is never handed over again. */
export const stopRefused = (effect: EffectRecord): EffectState =>
  effectState(
    effect,
    "A stop was asked for: it is not handed over any more. A further operation has another effect id."
  )

const RequestStop = Schema.Struct({ effect: IdText, by: IdText, reason: Summary })

/** Needs no lease and no active goal: stopping is always allowed. */
export const requestStop: Handlers = handler({
  type: "requestStop",
  payload: RequestStop,
  load: (input) => effectTable.first("id = ?", input.effect),
  decide: (known, input, { now }) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(known, input.effect)
      if (effect.declared.stop === "none") {
        return yield* Result.fail(
          invalidInput(
            "requestStop",
            `operations of kind ${effect.kind} are over when they are accepted: nothing stops them`
          )
        )
      }
      if (effect.state === "planned" || effect.state === "refused") {
        return yield* Result.fail(
          effectState(effect, "Nothing of it runs. What is planned is given up with Effects.abandon.")
        )
      }
      if (effect.stop !== null) return decided([], { ...effect, replayed: true })
      const stop: EffectStop = {
        state: "requested",
        requestedBy: input.by,
        reason: input.reason,
        requestedAt: now,
        confirmedBy: null,
        who: null,
        summary: "",
        evidence: [],
        confirmedAt: null
      }
      const next = changed("stopRequested", effect, { stop }, now)
      return decided([next.event], next.effect)
    })
})

const ConfirmStopped = Schema.Struct({
  effect: IdText,
  /** Who saw it: the device itself, or a person. */
  by: Schema.Literals(["device", "person"]),
  /** `unknown`: there was no answer. */
  seen: Schema.Literals(["stopped", "moving", "unknown"]),
  who: IdText,
  summary: Schema.optional(Summary),
  evidence: Schema.optional(SomeEvidence)
})

const notAsked = (effect: EffectRecord): EffectState =>
  effectState(effect, "Nobody asked for a stop: call Effects.requestStop first.")

export const confirmStopped: Handlers = handler({
  type: "confirmStopped",
  payload: ConfirmStopped,
  load: (input) => loadVouched({ effect: input.effect, evidence: input.evidence ?? [] }),
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(state.effect, input.effect)
      const { stop } = effect
      if (stop === null) return yield* Result.fail(notAsked(effect))
      if (stop.state === "confirmed") return decided([], { ...effect, replayed: true })
      const evidence = input.evidence ?? []
      if (input.by === "person") {
        if (evidence.length === 0) {
          return yield* Result.fail(invalidInput("confirmStopped", "a person names the evidence of what was seen"))
        }
        yield* passEvidence("confirmStopped", effect, evidence, state.evidence)
      } else if (effect.declared.stop !== "device") {
        return yield* Result.fail(
          invalidInput("confirmStopped", `a stop of kind ${effect.kind} is confirmed by a person who looks`)
        )
      }
      const stopped = input.seen === "stopped"
      if (!stopped && stop.state === "unknown") return decided([], effect)
      const seen: EffectStop = {
        ...stop,
        state: stopped ? "confirmed" : "unknown",
        confirmedBy: stopped ? input.by : null,
        who: stopped ? input.who : null,
        summary: input.summary ?? (input.seen === "moving" ? "it was seen to move" : ""),
        evidence,
        confirmedAt: stopped ? now : null
      }
      const next = changed(stopped ? "stopConfirmed" : "stopUnknown", effect, { stop: seen }, now)
      return decided([next.event], next.effect)
    })
})

const NoteEnded = Schema.Struct({
  effect: IdText,
  what: Schema.Literals(["model", "process"]),
  by: IdText,
  summary: Summary
})

/** A fact beside the others: neither the state of the effect nor its stop follows from it. */
export const noteEnded: Handlers = handler({
  type: "noteEnded",
  payload: NoteEnded,
  load: (input) => effectTable.first("id = ?", input.effect),
  decide: (known, input, { now }) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(known, input.effect)
      if (effect.ended[input.what] !== null) return decided([], { ...effect, replayed: true })
      const ended = { ...effect.ended, [input.what]: { by: input.by, summary: input.summary, at: now } }
      const next = changed(input.what === "model" ? "modelCancelled" : "processEnded", effect, { ended }, now)
      return decided([next.event], next.effect)
    })
})

// --- service ---------------------------------------------------------------------------------------------------------

export const effectEndCalls = {
  /**
   * What a person who looked says became of an effect that is not known, with the evidence of it (at least one piece that is not the
   * executor's). The only way for kinds without read-back to be confirmed. Errors: `EffectState`, `EffectInFlight`, `InvalidInput`, `NotFound`.
   */
  resolve: observing<typeof ResolveEffect.Type, EffectRecord, EffectState | EffectInFlight | NotFound>("resolveEffect"),
  /** Gives up an effect that was never handed over, or that its provider vouches was not carried out. Errors: `EffectState`, `NotFound`. */
  abandon: writer<typeof AbandonEffect.Type, EffectRecord, EffectState | NotFound>("work", "abandonEffect"),
  /**
   * Says that a stop is asked for, before the provider is: from then on the effect is never handed over again, and it is unresolved
   * until the stop is confirmed. Allowed on a paused goal and without a lease. Errors: `EffectState`, `InvalidInput` (the kind cannot be
   * stopped), `NotFound`.
   */
  requestStop: writer<typeof RequestStop.Type, EffectRecord, EffectState | NotFound>("work", "requestStop"),
  /**
   * Records what the device said of itself, or what a person saw (with evidence). Anything but `stopped` leaves the stop unknown.
   * Errors: `EffectState` (no stop was asked for), `InvalidInput`, `NotFound`.
   */
  confirmStopped: writer<typeof ConfirmStopped.Type, EffectRecord, EffectState | NotFound>("work", "confirmStopped"),
  /** Records that the model which wanted the effect was cancelled, or that a process of it ended. Says nothing of the device. Errors: `NotFound`. */
  noteEnded: writer<typeof NoteEnded.Type, EffectRecord, NotFound>("work", "noteEnded")
}
