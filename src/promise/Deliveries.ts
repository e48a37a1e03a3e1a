/**
 * Deliveries as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands, reads and sending as `coppice/governance` and `coppice/session`, under the same names and with the
 * same refusals. Rules: G10, G90, G91.
 */
import type { CallOptions, Duration } from "./Plain.ts"
import type { Read, Todo, Write } from "./Governance.ts"

/** Where work was asked for, in the application's own words; no address with a secret in it. */
export interface Origin {
  readonly destination: string
  readonly channel: string
  readonly requestId: string
}
/** The facts of a settlement, or of a completion outside a turn. `effectId` reads the receipt. */
export interface DeliveredResult {
  readonly outcome: string
  readonly accepted: boolean
  readonly todoState: string
  readonly effectId: string
  readonly settlement: string | null
  readonly candidate: string | null
  readonly evidence: readonly string[]
  readonly spend: { readonly usd: number | "unknown"; readonly slots: number }
}
export interface Delivery {
  /** Also the key under which a receiver sees one message, however often it is sent. */
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly origin: Origin
  readonly result: DeliveredResult
  readonly state: "accepted" | "dispatched" | "confirmed" | "unknown" | "refused" | "withdrawn"
  readonly provider: string | null
  readonly attempts: number
  readonly receipt: string | null
  readonly resolvedBy: "reply" | "readBack" | "person" | "reader" | null
  readonly reason: string | null
  readonly acceptedAt: number
  readonly dispatchedAt: number | null
  readonly resolvedAt: number | null
  readonly readAt: number | null
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
      readonly seenGone?: string
    },
    options?: CallOptions
  ) => Promise<Delivery>
  readonly setOrigin: Write<{ readonly todo: string; readonly origin: Origin }, Todo>
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
  readonly dispatch: Write<
    OfDelivery & { readonly provider: string; readonly retry?: string; readonly seenGone?: string },
    Delivery
  >
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
  readonly readByUser: Write<OfDelivery, Delivery>
  readonly withdraw: Write<OfDelivery & { readonly reason: string }, Delivery>
  readonly get: Read<OfDelivery, Delivery>
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
