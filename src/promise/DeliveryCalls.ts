/**
 * Sending results with a provider of plain async functions.
 * Promise: adds no rule; it is the session's own driver, run on the open store. Rules: G91; W14.
 */
import * as Effect from "effect/Effect"
import { sendDelivery } from "../session/DeliveryDriver.ts"
import { type Calls, milliseconds } from "./Calls.ts"
import type { DeliveryCalls } from "./Deliveries.ts"
import { badArgument } from "./Failure.ts"

export const sendCall =
  (calls: Calls): DeliveryCalls["send"] =>
  async (input, options) => {
    if (typeof input !== "object" || input === null || typeof input.provider?.deliver !== "function") {
      throw badArgument("provider", "The provider has no `deliver`.", "Give a provider: see DeliveryProvider.")
    }
    const { delivery, provider, timeLimit, seenGone } = input
    const { deliver, readBack } = provider
    const sending = sendDelivery({
      delivery,
      provider: {
        name: provider.name,
        keyed: provider.keyed,
        deliver: (message) => Effect.promise((signal) => deliver.call(provider, message, signal)),
        ...(readBack === undefined
          ? {}
          : { readBack: (message) => Effect.promise((signal) => readBack.call(provider, message, signal)) })
      },
      ...(timeLimit === undefined ? {} : { timeLimitMs: milliseconds("timeLimit", timeLimit) }),
      ...(seenGone === undefined ? {} : { seenGone })
    })
    return calls.run(sending, options)
  }
