/**
 * External effects: operations in the world outside, each journaled before it is handed over and known, or unknown, after.
 * Promise: `planned -> dispatched -> confirmed | refused | unknown`; out of `unknown` leads only the provider, read back, or a person.
 * Rules: G60, G61, G62, G63; A3. Each step is taught by its file: EffectDispatch, EffectAnswer, EffectEnd. The driver: session/Operations.ts.
 */
import * as Effect from "effect/Effect"
import type { Json } from "../base/Digest.ts"
import { type Keyed, reader, writer } from "./Authority.ts"
import { answer, type AnswerEffect, readBack, type ReadBackEffect } from "./EffectAnswer.ts"
import { dispatch, type DispatchEffect, operationDigest, plan, type PlanEffect } from "./EffectDispatch.ts"
import { observing } from "./EffectDriver.ts"
import { abandon, confirmStopped, effectEndCalls, noteEnded, requestStop, resolve } from "./EffectEnd.ts"
import type { EffectBlocked, EffectInFlight, EffectState, RetryUnsafe, SupervisionRequired } from "./EffectError.ts"
import { type EffectRecord, effectTable } from "./EffectRecord.ts"
import {
  type Gated,
  type GoalNotActive,
  type IdentityConflict,
  type InvalidInput,
  type LeaseHeld,
  type LeaseLost,
  type NotFound,
  notFound,
  type TodoState
} from "./GovernanceError.ts"
import { type Handlers, invalidInput } from "./Handler.ts"
import type { Load } from "./Module.ts"

export const effectHandlers: Handlers = {
  ...plan,
  ...dispatch,
  ...answer,
  ...readBack,
  ...resolve,
  ...abandon,
  ...requestStop,
  ...confirmStopped,
  ...noteEnded
}

// --- service ---------------------------------------------------------------------------------------------------------

const planEffect = writer<
  PlanEffect,
  EffectRecord,
  GoalNotActive | NotFound | TodoState | LeaseHeld | LeaseLost | IdentityConflict
>("work", "planEffect")

const dispatchEffect = observing<
  DispatchEffect,
  EffectRecord,
  | EffectState
  | EffectInFlight
  | EffectBlocked
  | RetryUnsafe
  | SupervisionRequired
  | GoalNotActive
  | Gated
  | LeaseLost
  | IdentityConflict
  | NotFound
>("dispatchEffect")

/** What a digest would leave out, a function or what is in a Map, would be another operation under the same id (G62). */
const isPlainJson = (value: unknown, depth = 0): boolean => {
  if (typeof value !== "object") return ["string", "number", "boolean"].includes(typeof value)
  if (value === null) return true
  if (depth > 100) return false
  if (Array.isArray(value)) return value.every((one) => isPlainJson(one, depth + 1))
  const made: unknown = Object.getPrototypeOf(value)
  if (made !== null && Object.getPrototypeOf(made) !== null) return false
  return Object.values(value).every((one) => one === undefined || isPlainJson(one, depth + 1))
}

/** The input of a command that takes an operation, with the digest in its place; the rest is judged by the command itself. */
const digested = <Input extends { readonly operation: Json }>(
  command: string,
  input: Input,
  of: { readonly provider: string; readonly kind: string }
): Effect.Effect<Omit<Input, "operation"> & { readonly operation: string }, InvalidInput> =>
  input.operation === undefined
    ? Effect.fail(invalidInput(command, "`operation` is missing"))
    : !isPlainJson(input.operation)
      ? Effect.fail(invalidInput(command, "`operation` is no JSON value"))
      : Effect.try({
          try: () => ({ ...input, operation: operationDigest(of.provider, of.kind, input.operation) }),
          catch: () => invalidInput(command, "`operation` is no JSON value")
        })

/**
 * External effects: operations on devices and services. `Operations` of `coppice/session` drives them; these are its steps, and
 * what people add. An effect's cost, where it has one, is recorded under the same id with Quota.spend.
 */
export const Effects = {
  /**
   * Says, before a provider is asked, that it will be. `effect` is the id, chosen by the caller: the same one after a crash, and
   * unique over every store that uses the provider, so name the goal in it (`${goal}/pay-invoice-17`). `operation` is any JSON; only
   * its digest is kept. `after` names effects that must be confirmed before it. Planning the same again changes nothing.
   * Errors: `IdentityConflict` (the id names another operation), `GoalNotActive`, `LeaseHeld` and `LeaseLost` (of its todo),
   * `TodoState`, `NotFound`.
   */
  plan: (input: Omit<PlanEffect, "operation"> & Keyed & { readonly operation: Json }) =>
    Effect.suspend(() => {
      const { provider, kind } = (input ?? {}) as {
        readonly provider?: unknown
        readonly kind?: { name?: unknown } | null
      }
      const name = kind?.name
      if (typeof provider !== "string" || typeof name !== "string") {
        return invalidInput("planEffect", "`provider` is a text, and `kind` says what the operation is")
      }
      return Effect.flatMap(digested("planEffect", input, { provider, kind: name }), planEffect)
    }),
  /**
   * Journals that the effect is about to be handed over; only after that the provider is called, once. The reply's `attempts` is the
   * attempt that the provider is told. A replayed reply (same `commandId`) means that it may have been handed over: read it back.
   * Errors: `IdentityConflict` (another operation), `EffectState` (final, being stopped, or to be read back first), `EffectInFlight`,
   * `RetryUnsafe`, `EffectBlocked`, `SupervisionRequired`, `GoalNotActive`, `Gated` (gates on `effect`), `LeaseLost` (effects of a
   * todo need its fence), `NotFound`.
   */
  dispatch: (input: Omit<DispatchEffect, "operation"> & Keyed & { readonly operation: Json }) =>
    Effect.gen(function* () {
      if (typeof (input as { readonly effect?: unknown } | null | undefined)?.effect !== "string") {
        return yield* invalidInput("dispatchEffect", "`effect` is the id of an effect")
      }
      const effect = yield* Effects.get({ effect: input.effect })
      return yield* dispatchEffect(yield* digested("dispatchEffect", input, effect))
    }),
  /**
   * Records the provider's answer to an attempt, or that there was none. An answer that it was done is a claim, and the state
   * `unknown`, for kinds without read-back; so is a refusal, while an earlier attempt may have been carried out (`earlierOpen`) and
   * the kind is not keyed. Errors: `EffectState` (of an earlier attempt), `EffectInFlight`, `NotFound`.
   */
  answer: observing<typeof AnswerEffect.Type, EffectRecord, EffectState | EffectInFlight | NotFound>("answerEffect"),
  /**
   * Records what the provider said when it was asked what became of the effect. The journal tells processes apart, not calls of one:
   * ask only after your own call to the provider has ended, or its answer may come after `notExecuted` let it be handed over again.
   * `Operations` sees to that. Errors: `EffectInFlight` (another process is still handing it over), `EffectState`, `InvalidInput` (the kind has no read-back), `NotFound`.
   */
  readBack: observing<typeof ReadBackEffect.Type, EffectRecord, EffectState | EffectInFlight | NotFound>(
    "readBackEffect"
  ),
  ...effectEndCalls,
  /** One effect. Errors: `NotFound`. */
  get: reader(
    (input: { readonly effect: string }) => effectTable.first("id = ?", input.effect),
    (input) => notFound("effect", input.effect)
  ),
  /** The effects of a goal, oldest first. */
  list: reader(function* (input: { readonly goal: string }): Load<{ readonly items: readonly EffectRecord[] }> {
    return { items: yield* effectTable.find("goal = ? ORDER BY planned_at, id", input.goal) }
  }),
  /** Effects that hold up what depends on them, oldest first: of a goal, or of a provider. */
  unresolved: reader(function* (
    input: { readonly goal: string } | { readonly provider: string }
  ): Load<{ readonly items: readonly EffectRecord[] }> {
    return {
      items:
        "goal" in input
          ? yield* effectTable.find("goal = ? AND unresolved = 1 ORDER BY id", input.goal)
          : yield* effectTable.find("provider = ? AND unresolved = 1 ORDER BY planned_at, id", input.provider)
    }
  })
}
