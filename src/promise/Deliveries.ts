/**
 * Deliveries as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands, reads and sending as `coppice/governance` and `coppice/session`, under the same names and with the
 * same refusals. Rules: G10, G90, G91.
 */
import type { CallOptions, Duration } from "./Plain.ts"
import type { Read, Todo, Write } from "./Governance.ts"
import type { ProcessIdentity } from "./Turns.ts"

/** Where work was asked for, in the application's own words; no address with a secret in it. */
export interface Origin {
  readonly destination: string
  readonly channel: string
  readonly requestId: string
}
/** The facts of a settlement, or of a completion outside a turn. `effectId` reads the receipt. */
export interface DeliveredResult {
  /** A settlement's outcome; `completed` for a todo that was completed outside a turn. */
  readonly outcome: string
  readonly accepted: boolean
  readonly todoState: string
  readonly effectId: string
  /** Null outside a turn, and where there is none. */
  readonly settlement: string | null
  readonly candidate: string | null
  readonly evidence: readonly string[]
  readonly spend: { readonly usd: number | "unknown"; readonly slots: number }
}
/** One result of some work, on its way back to where the work was asked for. */
export interface Delivery {
  /** Also the key under which a receiver sees one message, however often it is sent. */
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly origin: Origin
  readonly result: DeliveredResult
  /**
   * `accepted`: the result stands, nothing is sent. `dispatched`: a sending was begun. `confirmed`, `refused`: the receiver's word.
   * `unknown`: the sending ended and nobody knows how. `withdrawn`: not there, and not to be sent any more.
   */
  readonly state: "accepted" | "dispatched" | "confirmed" | "unknown" | "refused" | "withdrawn"
  /** What sends it, once a sending was begun; fixed while its fate is open. */
  readonly provider: string | null
  /** How often a sending was begun. */
  readonly attempts: number
  /** Whether a sending before the last one may have arrived. */
  readonly earlierOpen: boolean
  /** The process that sends, or sent last; null: none did. */
  readonly fence: ProcessIdentity | null
  /** The receiver's own name for what it got, where it gave one. */
  readonly receipt: string | null
  /** Whose word decided it; null while it is open. `reader`: the user has read it. */
  readonly resolvedBy: "reply" | "readBack" | "person" | "reader" | null
  /** Why it was sent again, refused or withdrawn. */
  readonly reason: string | null
  /** UTC milliseconds. */
  readonly acceptedAt: number
  /** When it was sent last. */
  readonly dispatchedAt: number | null
  readonly resolvedAt: number | null
  /** When the user read it: a fact apart from its arrival. */
  readonly readAt: number | null
  readonly changedAt: number
}
export interface DeliveryMessage {
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly origin: Origin
  readonly result: DeliveredResult
}
/**
 * A way to a kind of destination. Whatever is thrown, and a time that ran out, is an end that nobody knows: the delivery is then
 * `unknown`, is read back, and is sent again only when the receiver is `keyed` or has been found not to have it.
 */
export interface DeliveryProvider {
  readonly name: string
  /** Whether the receiver keeps one message for an id, however often it comes. */
  readonly keyed: boolean
  readonly deliver: (
    message: DeliveryMessage,
    signal: AbortSignal
  ) => Promise<
    | { readonly _tag: "confirmed"; readonly receipt?: string }
    | { readonly _tag: "refused"; readonly reason: string }
    | { readonly _tag: "notSent"; readonly reason: string }
  >
  readonly readBack?: (
    message: DeliveryMessage,
    signal: AbortSignal
  ) => Promise<
    | { readonly _tag: "delivered"; readonly receipt?: string }
    | { readonly _tag: "refused"; readonly reason: string }
    | { readonly _tag: "absent" }
    | { readonly _tag: "unknown" }
  >
}

type OfDelivery = { readonly delivery: string }

export interface DeliveryCalls {
  /** Sends a result, or finds out what became of an earlier sending. `timeLimit` is for one call of the provider: a minute when absent. */
  readonly send: (
    input: OfDelivery & {
      readonly provider: DeliveryProvider
      readonly timeLimit?: Duration
      /** Who saw that the process that sent last is gone, and how, where this one cannot see it. */
      readonly seenGone?: string
    },
    options?: CallOptions
  ) => Promise<Delivery>
  /** Once; another origin is a change. */
  readonly setOrigin: Write<{ readonly todo: string; readonly origin: Origin }, Todo>
  /** At the `revision` of the todo that was read. `withdrawn` were on their way to the old one, `accepted` go in their place. */
  readonly changeOrigin: Write<
    { readonly todo: string; readonly revision: number; readonly origin: Origin; readonly reason: string },
    {
      readonly todo: string
      readonly revision: number
      readonly from: Origin | null
      readonly to: Origin
      readonly withdrawn: readonly string[]
      readonly accepted: readonly string[]
    }
  >
  /**
   * That a sending is about to begin; only after it may anything be sent, and once. `retry` says why, where an earlier one may have
   * arrived. `replayed: true` is of a sending that was begun before: send nothing, read it back.
   */
  readonly dispatch: Write<
    OfDelivery & { readonly provider: string; readonly retry?: string; readonly seenGone?: string },
    Delivery
  >
  /**
   * How a sending ended. `notSent`: it is known that nothing left. A reply that the last one did not arrive gives `unknown` while an
   * earlier one may have; a confirmation is taken in every state.
   */
  readonly resolve: Write<
    OfDelivery & {
      readonly attempt: number
      readonly outcome: "confirmed" | "unknown" | "refused" | "notSent"
      readonly by: "reply" | "readBack" | "person"
      readonly receipt?: string
      readonly reason?: string
    },
    Delivery
  >
  /** That the user has read it, which confirms what nobody had confirmed. */
  readonly readByUser: Write<OfDelivery, Delivery>
  /** Ends a delivery of which nothing was sent. */
  readonly withdraw: Write<OfDelivery & { readonly reason: string }, Delivery>
  readonly get: Read<OfDelivery, Delivery>
  /** Oldest first, at most `limit` (200); `more` says that there are others. */
  readonly list: Read<
    { readonly goal: string; readonly todo?: string; readonly limit?: number },
    { readonly items: readonly Delivery[]; readonly more: boolean }
  >
  /** What is not delivered yet, of a goal or of all, oldest first. */
  readonly undelivered: Read<
    { readonly goal?: string; readonly limit?: number },
    { readonly items: readonly Delivery[]; readonly more: boolean }
  >
}
