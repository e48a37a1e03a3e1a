/**
 * The refusals of the operations driver.
 * Promise: nothing was handed to a provider, and nothing is journaled that would say so. Rules: G61, G63.
 */
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"

/** The provider has no operations of this kind. */
export class UnknownOperation extends Schema.TaggedError<UnknownOperation>()("UnknownOperation", {
  ...errorFields("UNKNOWN_OPERATION"),
  provider: Schema.String,
  kind: Schema.String,
  known: Schema.Array(Schema.String)
}) {}

/** Something keeps the operation from starting, or it could not be read whether something does. */
export class InterlockEngaged extends Schema.TaggedError<InterlockEngaged>()("InterlockEngaged", {
  ...errorFields("INTERLOCK_ENGAGED"),
  provider: Schema.String,
  effect: Schema.String,
  interlocks: Schema.Array(Schema.Struct({ name: Schema.String, reason: Schema.String }))
}) {}

/** The provider stays loaded: what became of these effects is not known, or they are being handed over (G61). */
export class ProviderBusy extends Schema.TaggedError<ProviderBusy>()("ProviderBusy", {
  ...errorFields("PROVIDER_BUSY"),
  provider: Schema.String,
  effects: Schema.Array(Schema.String)
}) {}

/** The provider was deactivated, or is on its way to it. */
export class ProviderInactive extends Schema.TaggedError<ProviderInactive>()("ProviderInactive", {
  ...errorFields("PROVIDER_INACTIVE"),
  provider: Schema.String
}) {}
