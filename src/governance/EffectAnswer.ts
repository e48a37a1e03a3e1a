/**
 * What became of an external effect: what its provider answered, and what reading back gave.
 * Promise: nothing is concluded from silence; an answer counts for the attempt that it is about, and never overtakes a process that
 * is still handing the effect over. Rules: G10, G60, G61, G63; A3.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { driverOf, effectInFlight, nobodyElse } from "./EffectDriver.ts"
import { changed, type EffectRecord, effectState, effectTable, knownEffect } from "./EffectRecord.ts"
import { IdText, Summary } from "./Field.ts"
import { decided, type Handlers, handler, invalidInput } from "./Handler.ts"

/** The provider's own words and reference. */
const Told = {
  summary: Schema.optional(Summary),
  receipt: Schema.optional(Schema.String.check(Schema.isMaxLength(500)))
}

export const AnswerEffect = Schema.Struct({
  effect: IdText,
  /** The attempt that was answered. */
  attempt: Schema.Int,
  /** `lost`: there was no answer that could be understood. */
  answer: Schema.Literals(["confirmed", "refused", "lost"]),
  ...Told
})

const outcomeOf = (
  by: "provider" | "readBack",
  effect: EffectRecord,
  told: { readonly summary?: string | undefined; readonly receipt?: string | undefined },
  now: number
) => ({
  by,
  who: effect.provider,
  summary: told.summary ?? "",
  receipt: told.receipt ?? null,
  evidence: [],
  at: now
})

/** Not fenced, on a paused goal too: what happened outside is kept whatever became of the authority (G10). */
export const answer: Handlers = handler({
  type: "answerEffect",
  payload: AnswerEffect,
  load: (input) => effectTable.first("id = ?", input.effect),
  decide: (known, input, { now }, observed) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(known, input.effect)
      if (effect.state !== "dispatched" || effect.attempts !== input.attempt) {
        return yield* Result.fail(effectState(effect, "Read it again: this answer is of an earlier attempt."))
      }
      const alive = driverOf(effect, observed)
      if (alive !== "mine") {
        return yield* alive === false
          ? Result.fail(effectState(effect, "Its process died: read it back."))
          : Result.fail(effectInFlight(effect, alive))
      }
      // "Already open" may be the trace of an earlier attempt. A keyed provider speaks of its key, whichever request brought it.
      const refused = input.answer === "refused" && (!effect.earlierOpen || effect.declared.retry === "keyed")
      if (refused || (input.answer === "confirmed" && effect.declared.readBack === "yes")) {
        const next = changed(
          input.answer,
          effect,
          { state: input.answer, outcome: outcomeOf("provider", effect, input, now) },
          now
        )
        return decided([next.event], next.effect)
      }
      // A kind that cannot be read back is confirmed by a person only: what its provider says is a claim (G63).
      const claim = input.answer === "lost" ? null : input.answer
      const next = changed("unknown", effect, { state: "unknown", claim }, now)
      return decided([next.event], next.effect)
    })
})

export const ReadBackEffect = Schema.Struct({
  effect: IdText,
  /** Attempts that were made when it was asked. */
  attempt: Schema.Int,
  /** `unavailable`: the provider could not be asked, or its kind has no read-back. */
  found: Schema.Literals(["confirmed", "refused", "pending", "notFound", "notExecuted", "unavailable"]),
  ...Told
})

export const readBack: Handlers = handler({
  type: "readBackEffect",
  payload: ReadBackEffect,
  load: (input) => effectTable.first("id = ?", input.effect),
  decide: (known, input, { now }, observed) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(known, input.effect)
      if (effect.declared.readBack === "no" && input.found !== "unavailable") {
        return yield* Result.fail(invalidInput("readBackEffect", `operations of kind ${effect.kind} have no read-back`))
      }
      if (effect.state !== "dispatched" && effect.state !== "unknown") {
        return effect.state === input.found
          ? decided([], { ...effect, replayed: true })
          : yield* Result.fail(effectState(effect, "Nothing is open about it: read it with Effects.get."))
      }
      // That it was done is true whoever is still at it. That it was not is true only of attempts that have ended.
      if (input.found !== "confirmed") {
        yield* nobodyElse(effect, observed)
        if (effect.attempts !== input.attempt) {
          return yield* Result.fail(effectState(effect, "It was handed over again since: read it back again."))
        }
      }
      if (input.found === "confirmed" || input.found === "refused") {
        const next = changed(
          input.found,
          effect,
          { state: input.found, lastReadBack: input.found, outcome: outcomeOf("readBack", effect, input, now) },
          now
        )
        return decided([next.event], next.effect)
      }
      if (effect.state === "unknown" && effect.lastReadBack === input.found) return decided([], effect)
      // Having been vouched for, it stays so: a provider that cannot be reached later takes nothing back.
      const kept = effect.lastReadBack === "notExecuted" && input.found === "unavailable"
      if (kept) return decided([], effect)
      const next = changed("unknown", effect, { state: "unknown", lastReadBack: input.found }, now)
      return decided([next.event], next.effect)
    })
})
