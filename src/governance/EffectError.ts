/**
 * The refusals of external effects.
 * Promise: as in GovernanceError.ts: a refusal changed nothing, and nothing was handed to a provider. Rules: G60, G61, G62, G63.
 */
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"

/** The effect is in a state that does not allow this. */
export class EffectState extends Schema.TaggedError<EffectState>()("EffectState", {
  ...errorFields("EFFECT_STATE"),
  effect: Schema.String,
  state: Schema.String
}) {}

/** A process is handing the effect over right now, or cannot be shown to have ended. */
export class EffectInFlight extends Schema.TaggedError<EffectInFlight>()("EffectInFlight", {
  ...errorFields("EFFECT_IN_FLIGHT"),
  effect: Schema.String,
  alive: Schema.Union([Schema.Boolean, Schema.Literal("unknown")])
}) {}

/** It waits for other effects: for those that it comes `after`, or for an equal operation whose fate is open. */
export class EffectBlocked extends Schema.TaggedError<EffectBlocked>()("EffectBlocked", {
  ...errorFields("EFFECT_BLOCKED"),
  effect: Schema.String,
  waits: Schema.Array(
    Schema.Struct({
      effect: Schema.String,
      state: Schema.String,
      why: Schema.Literals(["after", "sameOperation"])
    })
  )
}) {}

/** Something is not complete while these effects are: their fate is unknown, or a stop of theirs is not confirmed (G61). */
export class EffectUnresolved extends Schema.TaggedError<EffectUnresolved>()("EffectUnresolved", {
  ...errorFields("EFFECT_UNRESOLVED"),
  /** What would have been completed. */
  id: Schema.String,
  /** At most a hundred. */
  effects: Schema.Array(Schema.String)
}) {}

/** It may have been carried out, and doing it again is not safe (G63). */
export class RetryUnsafe extends Schema.TaggedError<RetryUnsafe>()("RetryUnsafe", {
  ...errorFields("RETRY_UNSAFE"),
  effect: Schema.String,
  retry: Schema.String
}) {}

/** Operations of this kind need a named person who watches (G63). */
export class SupervisionRequired extends Schema.TaggedError<SupervisionRequired>()("SupervisionRequired", {
  ...errorFields("SUPERVISION_REQUIRED"),
  effect: Schema.String,
  kind: Schema.String
}) {}
