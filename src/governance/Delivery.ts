/**
 * Deliveries: where work was asked for, and what became of taking its result back there.
 * Promise: accepted, dispatched, confirmed, unknown, refused and read are facts of their own under one delivery id; nothing is
 * sent below a goal that is not active; a lost acknowledgement is resolved by reading back or by sending the same again, never
 * by running the work again and never to another destination. Rules: G10, G90, G91. The record is in DeliveryRecord.ts.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Json } from "../base/Digest.ts"
import { isAlive } from "../base/ProcessIdentity.ts"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { Authority, type Keyed, reader, type Sight, writeObserved, writer } from "./Authority.ts"
import { changeOrigin, type ChangeOrigin, type OriginChanged, setOrigin, type SetOrigin } from "./DeliveryOrigin.ts"
import { type DeliveryRecord, deliveryTable, findUndelivered, withdrawn } from "./DeliveryRecord.ts"
import { IdText, Summary } from "./Field.ts"
import { activeGoal, type GoalRecord, loadGoal } from "./Goal.ts"
import {
  DeliveryInFlight,
  DeliveryState,
  type DeliveryUnresolved,
  type GoalNotActive,
  IdentityConflict,
  type NotFound,
  notFound,
  type RevisionConflict,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, listLimit } from "./Handler.ts"
import type { Load } from "./Module.ts"
import type { TodoRecord } from "./TodoRecord.ts"
import { sameProcess, thisProcess } from "./TurnFence.ts"

// --- sending ---------------------------------------------------------------------------------------------------------

/** Beside a command: which process asks, and whether the one that sends, or sent last, may still run. */
interface Observed {
  readonly process: ProcessIdentity
  readonly sender: ProcessIdentity | null
  readonly alive: boolean | "unknown"
}

/** Whether another process may be sending this right now. */
export const sentElsewhere = (
  delivery: DeliveryRecord,
  observer: ProcessIdentity,
  sight: Sight = isAlive
): boolean | "unknown" =>
  delivery.state !== "dispatched" || delivery.fence === null || sameProcess(delivery.fence, observer)
    ? false
    : sight(delivery.fence)

/** `sentElsewhere` as this process sees it. */
export const seenSending = (delivery: DeliveryRecord): Effect.Effect<boolean | "unknown", never, Authority> =>
  Effect.gen(function* () {
    if (sentElsewhere(delivery, thisProcess(), () => true) === false) return false
    return sentElsewhere(delivery, thisProcess(), yield* (yield* Authority).look([delivery.fence]))
  })

export const inFlight = (delivery: DeliveryRecord, alive: boolean | "unknown"): DeliveryInFlight =>
  new DeliveryInFlight({
    message: `Delivery ${delivery.id} is being sent by another call or process (attempt ${delivery.attempts}).`,
    remedy:
      alive === "unknown"
        ? "Whether that process still runs cannot be seen from here: see to it, then dispatch with `seenGone` saying how that was seen."
        : "Wait until it ends. After that process has died, sending goes on from here.",
    delivery: delivery.id,
    alive
  })

const inState = (delivery: DeliveryRecord, asked: string): DeliveryState =>
  new DeliveryState({
    message: `Delivery ${delivery.id} is ${delivery.state}; it cannot be ${asked}.`,
    remedy:
      delivery.state === "withdrawn" || delivery.state === "refused"
        ? "That is decided. Deliveries.changeOrigin takes a refused result to another destination, under another id."
        : "Read it with Deliveries.get and call what its state allows.",
    delivery: delivery.id,
    state: delivery.state
  })

const known = (delivery: DeliveryRecord | undefined, id: string): Result.Result<DeliveryRecord, NotFound> =>
  delivery === undefined ? Result.fail(notFound("delivery", id)) : Result.succeed(delivery)

const DispatchDelivery = Schema.Struct({
  delivery: IdText,
  /** What sends it: the name of the delivery provider. */
  provider: IdText,
  /** Why it is sent again; required where an earlier sending may have arrived. */
  retry: Schema.optional(Summary),
  /** Who saw that the sending process is gone, and how, where this one cannot see it. */
  seenGone: Schema.optional(Summary)
})

const byId = (id: string): Load<DeliveryRecord | undefined> => deliveryTable.first("id = ?", id)

const dispatch = handler({
  type: "dispatchDelivery",
  payload: DispatchDelivery,
  *load(input): Load<{ readonly found: DeliveryRecord | undefined; readonly goal: GoalRecord | undefined }> {
    const found = yield* byId(input.delivery)
    return { found, goal: found === undefined ? undefined : yield* loadGoal(found.goal) }
  },
  decide: ({ found, goal }, input, { now }, observed) =>
    Result.gen(function* () {
      const delivery = yield* known(found, input.delivery)
      yield* activeGoal(goal, delivery.goal)
      const seen = observed as unknown as Observed | undefined
      if (seen === undefined) return yield* Result.fail(invalidInput("dispatchDelivery", "the sender is not named"))
      const open = delivery.state === "dispatched" || delivery.state === "unknown"
      if (!open && delivery.state !== "accepted") return yield* Result.fail(inState(delivery, "sent"))
      if (open) {
        const mine = delivery.fence !== null && sameProcess(delivery.fence, seen.process)
        const lookedAt = delivery.fence !== null && seen.sender !== null && sameProcess(delivery.fence, seen.sender)
        const alive = delivery.state === "unknown" || mine ? false : lookedAt ? seen.alive : "unknown"
        if (alive === true || (alive === "unknown" && input.seenGone === undefined)) {
          return yield* Result.fail(inFlight(delivery, alive))
        }
        if ((input.retry ?? "") === "") {
          return yield* Result.fail(invalidInput("dispatchDelivery", "sending again names its reason in `retry`"))
        }
        if (delivery.provider !== input.provider) {
          return yield* Result.fail(
            new IdentityConflict({
              message: `Delivery ${delivery.id} was begun by ${delivery.provider}.`,
              remedy: "Send it again by the same provider, which knows its destination; or resolve it first.",
              kind: "delivery",
              id: delivery.id
            })
          )
        }
      }
      const next: DeliveryRecord = {
        ...delivery,
        state: "dispatched",
        provider: input.provider,
        attempts: delivery.attempts + 1,
        earlierOpen: open,
        fence: seen.process,
        reason: input.retry ?? null,
        resolvedBy: null,
        resolvedAt: null,
        dispatchedAt: now,
        changedAt: now
      }
      return decided([fact("delivery.dispatched", delivery.id, next)], next)
    })
})

const ResolveDelivery = Schema.Struct({
  delivery: IdText,
  /** The attempt that this is the end of; a confirmation may come late, everything else is of the last one. */
  attempt: Schema.Int,
  /** `notSent`: it is known that nothing left, so that it may be sent as if for the first time. */
  outcome: Schema.Literals(["confirmed", "unknown", "refused", "notSent"]),
  by: Schema.Literals(["reply", "readBack", "person"]),
  receipt: Schema.optional(IdText),
  reason: Schema.optional(Summary)
})
type ResolveDelivery = typeof ResolveDelivery.Type

/**
 * Whether a delivery in this state may be resolved so. That it arrived is true whatever was concluded before, and of any attempt;
 * everything else is said of the last one, and of what is unknown by a read-back or a person alone.
 */
const mayResolve = (delivery: DeliveryRecord, { outcome, by, attempt }: ResolveDelivery): boolean => {
  if (attempt < 1 || attempt > delivery.attempts) return false
  if (outcome === "confirmed") return true
  if (attempt !== delivery.attempts) return false
  return delivery.state === "dispatched" || (delivery.state === "unknown" && by !== "reply")
}

/**
 * Needs no active goal: it writes down what has happened. A reply is about its own attempt, so one that says "not here" leaves the
 * delivery unknown while an earlier attempt may have arrived; a read-back and a person speak of the message as such.
 */
const resolve = handler({
  type: "resolveDelivery",
  payload: ResolveDelivery,
  *load(input): Load<{ readonly found: DeliveryRecord | undefined; readonly instead: readonly DeliveryRecord[] }> {
    const found = yield* byId(input.delivery)
    if (found?.state !== "withdrawn") return { found, instead: [] }
    const others = yield* deliveryTable.find("todo = ? AND state = 'accepted' ORDER BY accepted_at, id", found.todo)
    return { found, instead: others.filter(({ result }) => result.effectId === found.result.effectId) }
  },
  decide: ({ found, instead }, input, { now }) =>
    Result.gen(function* () {
      const delivery = yield* known(found, input.delivery)
      if (delivery.state === input.outcome) return decided([], { ...delivery, replayed: true })
      if (!mayResolve(delivery, input)) return yield* Result.fail(inState(delivery, `resolved as ${input.outcome}`))
      const absent = input.outcome === "notSent" || input.outcome === "refused"
      const outcome = absent && input.by === "reply" && delivery.earlierOpen ? "unknown" : input.outcome
      const next: DeliveryRecord = {
        ...delivery,
        state: outcome === "notSent" ? "accepted" : outcome,
        earlierOpen: outcome === "unknown" && delivery.earlierOpen,
        receipt: input.receipt ?? delivery.receipt,
        reason: input.reason ?? null,
        resolvedBy: input.by,
        resolvedAt: now,
        changedAt: now
      }
      // It had arrived at its first destination after all: what was to go to another one instead, and has not left, stays here.
      const back = instead.map((other) => withdrawn(other, `${delivery.id} arrived after all`, now))
      return decided([fact(`delivery.${outcome}`, delivery.id, next), ...back], next)
    })
})

const ReadDelivery = Schema.Struct({ delivery: IdText })

/** Who has read a thing has got it: reading confirms what nobody had confirmed, as a fact of its own. */
const readByUser = handler({
  type: "readDelivery",
  payload: ReadDelivery,
  load: (input) => byId(input.delivery),
  decide: (found, input, { now }) =>
    Result.gen(function* () {
      const delivery = yield* known(found, input.delivery)
      if (delivery.readAt !== null) return decided([], { ...delivery, replayed: true })
      const open = delivery.state === "dispatched" || delivery.state === "unknown"
      if (!open && delivery.state !== "confirmed") return yield* Result.fail(inState(delivery, "read"))
      const there: DeliveryRecord = open
        ? { ...delivery, state: "confirmed", earlierOpen: false, resolvedBy: "reader", resolvedAt: now, changedAt: now }
        : delivery
      const next: DeliveryRecord = { ...there, readAt: now, changedAt: now }
      return decided(
        [
          ...(open ? [fact("delivery.confirmed", delivery.id, there)] : []),
          fact("delivery.readByUser", delivery.id, next)
        ],
        next
      )
    })
})

const WithdrawDelivery = Schema.Struct({ delivery: IdText, reason: Summary })

const withdraw = handler({
  type: "withdrawDelivery",
  payload: WithdrawDelivery,
  load: (input) => byId(input.delivery),
  decide: (found, input, { now }) =>
    Result.gen(function* () {
      const delivery = yield* known(found, input.delivery)
      if (delivery.state !== "accepted") return yield* Result.fail(inState(delivery, "withdrawn"))
      const event = withdrawn(delivery, input.reason, now)
      return decided([event], event.data as unknown as DeliveryRecord)
    })
})

export const deliveryHandlers: Handlers = {
  ...setOrigin,
  ...changeOrigin,
  ...dispatch,
  ...resolve,
  ...readByUser,
  ...withdraw
}

// --- service ---------------------------------------------------------------------------------------------------------

/** A write that carries which process sends, and whether the one that sent last may still run. */
const dispatchObserved = (input: typeof DispatchDelivery.Type & Keyed) =>
  Effect.gen(function* () {
    const authority = yield* Authority
    const id = (input as { readonly delivery?: unknown } | null)?.delivery
    const process = thisProcess()
    const { value } = yield* authority.read(() => byId(typeof id === "string" ? id : ""))
    const observed: Observed = {
      process,
      sender: value?.fence ?? null,
      alive: value === undefined ? "unknown" : yield* seenSending(value)
    }
    return yield* writeObserved<
      typeof DispatchDelivery.Type,
      DeliveryRecord,
      NotFound | GoalNotActive | DeliveryState | DeliveryInFlight | IdentityConflict
    >("work", "dispatchDelivery", input, observed as unknown as Json)
  })

/**
 * Deliveries: results on their way to where their work was asked for. A todo with an origin (`Todos.add({ origin })`) whose
 * settlement is accepted, or which is completed, gets its delivery in that very commit.
 */
export const Deliveries = {
  /** Names where a todo was asked for, once. Errors: `IdentityConflict` (another origin is set), `TodoState`, `NotFound`. */
  setOrigin: writer<SetOrigin, TodoRecord, IdentityConflict | TodoState | NotFound>("work", "setOrigin"),
  /**
   * Changes where the results of a todo go, at the revision that was read; the receipt names what was taken along.
   * Errors: `DeliveryUnresolved` (a result may be at the old destination: resolve it), `GoalNotActive` (completed goal),
   * `RevisionConflict`, `NotFound`.
   */
  changeOrigin: writer<ChangeOrigin, OriginChanged, DeliveryUnresolved | GoalNotActive | RevisionConflict | NotFound>(
    "work",
    "changeOrigin"
  ),
  /**
   * Journals that a sending is about to begin; only after it may anything be sent, and once. A reply with `replayed: true` (same
   * `commandId`) is of a sending that was begun before and may have arrived: send nothing, read it back.
   * Errors: `GoalNotActive` (send nothing), `DeliveryInFlight` (another process sends it), `DeliveryState` (it is decided),
   * `IdentityConflict` (another provider began it, and what became of that is not known), `NotFound`.
   */
  dispatch: dispatchObserved,
  /**
   * Journals how a sending ended: by the receiver's reply, by reading back, or by a person's word. A reply that the last attempt did
   * not arrive gives the state `unknown` while an earlier one may have arrived. A confirmation is taken in every state.
   * Errors: `DeliveryState` (it is decided otherwise, or was never sent), `NotFound`.
   */
  resolve: writer<ResolveDelivery, DeliveryRecord, DeliveryState | NotFound>("work", "resolveDelivery"),
  /** Journals that the user has read it. Errors: `DeliveryState` (it was never sent, or was refused), `NotFound`. */
  readByUser: writer<typeof ReadDelivery.Type, DeliveryRecord, DeliveryState | NotFound>("work", "readDelivery"),
  /** Ends a delivery of which nothing was sent. Errors: `DeliveryState`, `NotFound`. */
  withdraw: writer<typeof WithdrawDelivery.Type, DeliveryRecord, DeliveryState | NotFound>("work", "withdrawDelivery"),
  /** One delivery. Errors: `NotFound`. */
  get: reader(
    (input: { readonly delivery: string }) => byId(input.delivery),
    (input) => notFound("delivery", input.delivery)
  ),
  /** The deliveries of a goal or of one of its todos, oldest first; at most `limit` (200; to 10,000), `more` says that there are others. Errors: `InvalidInput`. */
  list: reader(function* (input: {
    readonly goal: string
    readonly todo?: string
    readonly limit?: number
  }): Load<{ readonly items: readonly DeliveryRecord[]; readonly more: boolean }> {
    const limit = listLimit(input.limit)
    const found =
      input.todo === undefined
        ? yield* deliveryTable.find("goal = ? ORDER BY accepted_at, id LIMIT ?", input.goal, limit + 1)
        : yield* deliveryTable.find(
            "todo = ? AND goal = ? ORDER BY accepted_at, id LIMIT ?",
            input.todo,
            input.goal,
            limit + 1
          )
    return { items: found.slice(0, limit), more: found.length > limit }
  }),
  /** What is not delivered, of a goal or of all, oldest first: what a sender looks at when it opens. Errors: `InvalidInput` (limit). */
  undelivered: reader(function* (input: { readonly goal?: string; readonly limit?: number }): Load<{
    readonly items: readonly DeliveryRecord[]
    readonly more: boolean
  }> {
    const limit = listLimit(input.limit)
    const found = yield* findUndelivered(input.goal, limit + 1)
    return { items: found.slice(0, limit), more: found.length > limit }
  })
}
