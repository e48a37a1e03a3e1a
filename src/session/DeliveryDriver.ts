/**
 * The delivery driver: takes the result of some work back to where the work was asked for.
 * Promise: a sending is journaled before it starts, under an id that stays the same; what an earlier process left is read back
 * first and sent again only where that is safe; neither turn nor todo is touched, and no message has another destination than
 * its record. Rules: G10, G91. The facts are governance's (governance/Delivery.ts); the message goes through a provider.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { crashPoint } from "../base/CrashPoint.ts"
import { sha256 } from "../base/Digest.ts"
import { isWhole, madeWhole } from "../base/WholeText.ts"
import { inFlight, seenSending } from "../governance/Delivery.ts"
import { Deliveries, type DeliveredResult, type DeliveryRecord, type Origin, publicOr } from "../governance/index.ts"
import { privateField } from "../governance/PublicText.ts"

/** What is sent: the same however often it is sent. `id` is the key by which a receiver knows it again. */
export interface DeliveryMessage {
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly origin: Origin
  readonly result: DeliveredResult
}

/**
 * How a sending ended, in the receiver's word. `notSent`: it is known that nothing left (no connection, say), so that it may be
 * sent as if for the first time.
 */
export type Sent =
  | { readonly _tag: "confirmed"; readonly receipt?: string }
  | { readonly _tag: "refused"; readonly reason: string }
  | { readonly _tag: "notSent"; readonly reason: string }

/** What can be read back of a message, by its id. `absent`: the receiver has none, and none is on its way any more. */
export type ReadBack =
  | { readonly _tag: "delivered"; readonly receipt?: string }
  | { readonly _tag: "refused"; readonly reason: string }
  | { readonly _tag: "absent" }
  | { readonly _tag: "unknown" }

/** A way to a kind of destination: a chat, a webhook, a mailbox. It resolves the origin's words, and it alone. */
export interface DeliveryProvider {
  /** A name that stays: what one provider began, it also ends. */
  readonly name: string
  /** Whether the receiver keeps one message for an id however often it comes, so that sending again is safe. */
  readonly keyed: boolean
  /** Any failure, defect or time that ran out is an end that nobody knows: `unknown`. */
  readonly deliver: (message: DeliveryMessage) => Effect.Effect<Sent, unknown>
  /** Asks the receiver. Absent where it cannot be asked; a failure is `unknown`. */
  readonly readBack?: (message: DeliveryMessage) => Effect.Effect<ReadBack, unknown>
}

export interface SendOptions {
  readonly delivery: string
  readonly provider: DeliveryProvider
  /** Milliseconds for one call of the provider, 60,000 when not given; after it the end is unknown. */
  readonly timeLimitMs?: number
  /** Who saw that the process that sent before is gone, and how, where this one cannot see it. */
  readonly seenGone?: string
}

const messageOf = ({ id, goal, todo, origin, result }: DeliveryRecord): DeliveryMessage => ({
  id,
  goal,
  todo,
  origin,
  result
})

const inTime = <A>(call: Effect.Effect<A, unknown>, { timeLimitMs = 60_000 }: SendOptions) =>
  call.pipe(Effect.timeout(Duration.millis(timeLimitMs)))

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

/** An answer as it may be taken: one that is none of the known ones says nothing. */
const answerOf = <Tag extends string>(answer: unknown, tags: readonly Tag[]) => {
  const said = (typeof answer === "object" && answer !== null ? answer : {}) as { readonly [field: string]: unknown }
  const tag = tags.find((one) => one === said["_tag"])
  return { tag, receipt: text(said["receipt"]), reason: text(said["reason"]) }
}

/** The sendings under way in this process: two calls look alike to the journal, which tells processes apart. */
const sending = new Set<string>()

/**
 * Sends a result, or finds out what became of an earlier sending. Gives the record as it is then: `confirmed`, `refused`, or
 * `unknown` where only a person can say (neither a read-back nor a keyed receiver helps), or `accepted` when it is known that
 * nothing left. What is decided is given back as it is, and nothing is sent.
 *
 * Errors: `GoalNotActive` (nothing was sent; call again after the goal was resumed), `DeliveryInFlight` (somebody sends it),
 * `IdentityConflict` (another provider began it), `DeliveryState` (somebody decided it meanwhile: read it), `NotFound`, and
 * those of the store.
 */
export const sendDelivery = (options: SendOptions) =>
  Effect.suspend(() => {
    const { delivery: id } = options
    if (sending.has(id)) return Effect.flatMap(Deliveries.get({ delivery: id }), (found) => inFlight(found, true))
    sending.add(id)
    return Effect.ensuring(
      send(options),
      Effect.sync(() => sending.delete(id))
    )
  })

const send = (options: SendOptions) =>
  Effect.gen(function* () {
    const { provider } = options
    const found = yield* Deliveries.get({ delivery: options.delivery })
    switch (found.state) {
      case "confirmed":
      case "refused":
      case "withdrawn":
        return found satisfies DeliveryRecord
      case "accepted":
        return yield* sendNow(options, found, undefined)
      case "dispatched":
      case "unknown": {
        const elsewhere = yield* seenSending(found)
        if (elsewhere === true || (elsewhere === "unknown" && options.seenGone === undefined)) {
          return yield* inFlight(found, elsewhere)
        }
        const answer = yield* readBack(options, found)
        if (answer.tag === "delivered") {
          return yield* resolved(found, { outcome: "confirmed", by: "readBack", receipt: answer.receipt })
        }
        if (answer.tag === "refused") {
          return yield* resolved(found, { outcome: "refused", by: "readBack", reason: answer.reason })
        }
        if (answer.tag === "absent") {
          // Said of every sending so far, and kept as that: what a later one is told is then the whole truth.
          yield* resolved(found, {
            outcome: "notSent",
            by: "readBack",
            reason: "read back: the receiver does not have it"
          })
          return yield* sendNow(options, found, undefined)
        }
        if (provider.keyed) return yield* sendNow(options, found, "the same message again: the receiver keeps one")
        return yield* resolved(found, {
          outcome: "unknown",
          by: "readBack",
          reason: "its sending was interrupted, and the receiver cannot be asked"
        })
      }
    }
  })

const readBack = (options: SendOptions, found: DeliveryRecord) =>
  Effect.gen(function* () {
    const { provider } = options
    const asked = provider.readBack !== undefined && provider.name === found.provider
    const exit = yield* Effect.exit(
      asked
        ? inTime(
            Effect.suspend(() => provider.readBack!(messageOf(found))),
            options
          )
        : Effect.succeed(undefined)
    )
    return answerOf(exit._tag === "Success" ? exit.value : undefined, ["delivered", "refused", "absent"])
  })

/**
 * Journals that it is sent, sends it, and journals the end of that: an interruption reaches the provider, and what it leaves behind is
 * written down before it goes on.
 */
const sendNow = (options: SendOptions, found: DeliveryRecord, retry: string | undefined) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const { provider } = options
      const dispatched = yield* Deliveries.dispatch({
        delivery: found.id,
        provider: provider.name,
        ...(retry === undefined ? {} : { retry }),
        ...(options.seenGone === undefined ? {} : { seenGone: options.seenGone })
      })
      crashPoint("delivery.dispatched")
      let begun = false
      const call = Effect.suspend(() => {
        begun = true
        return provider.deliver(messageOf(dispatched))
      })
      const exit = yield* Effect.exit(restore(inTime(call, options)))
      crashPoint("delivery.sent")
      if (exit._tag === "Failure") {
        // Cancelled before the provider was called: nothing left. Cancelled while it sends: what left, left.
        if (!begun) {
          return yield* resolved(dispatched, {
            outcome: "notSent",
            by: "reply",
            reason: "cancelled before it was sent"
          })
        }
        const reason = Cause.hasInterruptsOnly(exit.cause)
          ? "its sending was cancelled"
          : Cause.isTimeoutError(Cause.squash(exit.cause))
            ? "the receiver did not answer in time"
            : "its sending ended with a failure"
        return yield* resolved(dispatched, { outcome: "unknown", by: "reply", reason })
      }
      const { tag, receipt, reason } = answerOf(exit.value, ["confirmed", "refused", "notSent"])
      if (tag === "confirmed") return yield* resolved(dispatched, { outcome: tag, by: "reply", receipt })
      return yield* resolved(
        dispatched,
        tag === undefined
          ? { outcome: "unknown", by: "reply", reason: "the provider's answer is none that is known" }
          : { outcome: tag, by: "reply", reason }
      )
    })
  )

/** A receiver's words may be anything; that it confirmed is written down whatever they are (G6). */
const publicReceipt = (text: string): string =>
  text.length <= 200 && isWhole(text) && privateField(text) === undefined ? text : sha256(text)

const resolved = (
  delivery: DeliveryRecord,
  end: {
    readonly outcome: "confirmed" | "unknown" | "refused" | "notSent"
    readonly by: "reply" | "readBack"
    readonly receipt?: string | undefined
    readonly reason?: string | undefined
  }
) =>
  Effect.map(
    Deliveries.resolve({
      delivery: delivery.id,
      attempt: delivery.attempts,
      outcome: end.outcome,
      by: end.by,
      ...(end.receipt === undefined || end.receipt === "" ? {} : { receipt: publicReceipt(end.receipt) }),
      ...(end.reason === undefined
        ? {}
        : { reason: madeWhole(publicOr(end.reason, "a reason that may not be public").slice(0, 2000)) })
    }),
    (record): DeliveryRecord => {
      crashPoint("delivery.resolved")
      return record
    }
  )
