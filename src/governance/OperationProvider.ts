/**
 * The port of operation providers: whoever carries out operations in the world outside, a device or a service.
 * Promise: types and one error, nothing that loads or runs; a provider is handed an effect id with everything it is asked, and
 * what it does not know it says, in words that cannot be taken for knowing. Rules: G60, G61, G62, G63; decision 052.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { Json } from "../base/Digest.ts"

/**
 * What a kind of operation declares of itself. It is stored with every effect: a later version of a provider that declares
 * otherwise changes nothing about operations which were handed over under the earlier one.
 */
export const OperationKind = Schema.Struct({
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)),
  /** Whether the provider can say later what became of an effect id. Without it only a person confirms. */
  readBack: Schema.Literals(["yes", "no"]),
  /**
   * `safe`: doing it twice is doing it once (open the valve), under whatever id. `keyed`: under one effect id the provider does it
   * once, however often it is asked. `unsafe`: every request that arrives may be carried out.
   */
  retry: Schema.Literals(["safe", "keyed", "unsafe"]),
  /** Who says that it has stopped: the device itself, or a person who looks. `none`: it is over when it is accepted (a payment). */
  stop: Schema.Literals(["device", "person", "none"]),
  /** `required`: a named person watches while it runs. */
  supervision: Schema.Literals(["none", "required"])
})
export type OperationKind = typeof OperationKind.Type

/**
 * No answer that could be understood: the request or its reply was lost, the connection broke, the service is not there. It says
 * nothing of whether the operation was carried out.
 */
export class OperationLost extends Schema.TaggedError<OperationLost>()("OperationLost", {
  ...errorFields("OPERATION_LOST"),
  provider: Schema.String
}) {}

/** What everything that a provider is asked names. */
export interface OperationCall {
  /** The idempotency key, unique over all stores. Send it along; never make another one for a repetition. */
  readonly effectId: string
  /** How many times the effect was handed over so far, this one included. It only grows: a fencing token. */
  readonly attempt: number
  /** Name of the kind. */
  readonly kind: string
}

/** An answer to a request. `summary` and `receipt` (the provider's own reference) may become public. */
export interface DispatchAnswer {
  /** `confirmed`: it is, or is being, carried out. `refused`: it is not, and never will be for this request. */
  readonly state: "confirmed" | "refused"
  readonly summary?: string
  readonly receipt?: string
}

export interface ReadBackAnswer {
  /**
   * `confirmed`, `refused`: as a dispatch would have been answered. `pending`: the provider has the request and has not decided.
   *
   * `notFound`: the provider knows nothing of the id. A request may still be on its way.
   * `notExecuted`: the provider vouches that no attempt up to this one was carried out, nor will be if it arrives later: it has
   * barred them. Only this lets an unsafe operation be handed over again. When in doubt say `notFound`.
   */
  readonly state: "confirmed" | "refused" | "pending" | "notFound" | "notExecuted"
  readonly summary?: string
  readonly receipt?: string
}

/** Something that keeps operations from starting, such as an open door or a limit that was reached. */
export interface Interlock {
  readonly name: string
  readonly engaged: boolean
  readonly reason?: string
  /** The kinds that it concerns; all when absent. */
  readonly kinds?: readonly string[]
}

export interface StopAnswer {
  /** `stopped`: the device was observed to stand still, by itself and after the request. `moving`: it was observed not to. */
  readonly state: "stopped" | "moving"
  readonly summary?: string
}

/** A provider. Every call is interruptible, and interrupting it is no answer. */
export interface OperationProvider {
  /** Names the provider for good: effects of an earlier process are found by it. */
  readonly name: string
  readonly kinds: readonly OperationKind[]
  /** Hands an operation over, once for each call. Never repeats by itself. */
  readonly dispatch: (
    call: OperationCall & { readonly operation: Json }
  ) => Effect.Effect<DispatchAnswer, OperationLost>
  /** What became of an effect. Asked of kinds that declare `readBack: "yes"`; changes nothing but what it bars. */
  readonly readBack: (call: OperationCall) => Effect.Effect<ReadBackAnswer, OperationLost>
  /** Everything that may keep an operation from starting, as it is now. */
  readonly interlocks: Effect.Effect<readonly Interlock[], OperationLost>
  /**
   * Asks for a stop of what runs under the effect, and bars the effect: a dispatch under its id that arrives later is refused.
   * May be asked any number of times. That it was asked proves nothing.
   */
  readonly requestStop: (call: OperationCall) => Effect.Effect<void, OperationLost>
  /** What the device itself observes. Asked of kinds that declare `stop: "device"`. */
  readonly confirmStopped: (call: OperationCall) => Effect.Effect<StopAnswer, OperationLost>
}
