/**
 * The origin of work: where it was asked for, set once, and changed with a receipt.
 * Promise: a change waits for every result whose fate at the old destination is open, and takes along, under new ids, what surely
 * is not there; one delivery id never has two destinations. Rules: G12, G90, G91. Sending is in Delivery.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { accepted, deliveryTable, Origin, sameOrigin, withdrawn } from "./DeliveryRecord.ts"
import { IdText, Summary } from "./Field.ts"
import { activeGoal, loadGoal } from "./Goal.ts"
import { DeliveryUnresolved, IdentityConflict, notFound } from "./GovernanceError.ts"
import { decided, fact, handler } from "./Handler.ts"
import type { JournalEvent } from "./Module.ts"
import { atRevision, revised, todoState, todoTable } from "./TodoRecord.ts"

const SetOrigin = Schema.Struct({ todo: IdText, origin: Origin })
export type SetOrigin = typeof SetOrigin.Type

/** Set once: the same again changes nothing, another is a change and has its own command. */
export const setOrigin = handler({
  type: "setOrigin",
  payload: SetOrigin,
  load: ({ todo }) => todoTable.first("id = ?", todo),
  decide: (todo, input, { now }) =>
    Result.gen(function* () {
      if (todo === undefined) return yield* Result.fail(notFound("todo", input.todo))
      if (todo.origin !== null && sameOrigin(todo.origin, input.origin)) return decided([], todo)
      if (todo.origin !== null) {
        return yield* Result.fail(
          new IdentityConflict({
            message: `Todo ${todo.id} was asked for elsewhere: its origin is set.`,
            remedy: "Where its result goes is changed by Deliveries.changeOrigin, with a reason.",
            kind: "origin",
            id: todo.id
          })
        )
      }
      if (todo.state !== "open" && todo.state !== "deferred") return yield* Result.fail(todoState(todo))
      const next = revised(todo, { origin: input.origin }, now)
      return decided([fact("todo.originSet", todo.id, next)], next)
    })
})

const ChangeOrigin = Schema.Struct({ todo: IdText, revision: Schema.Int, origin: Origin, reason: Summary })
export type ChangeOrigin = typeof ChangeOrigin.Type

/** The receipt of a change: from where to where, and which results were taken along. */
export interface OriginChanged {
  readonly todo: string
  readonly revision: number
  readonly from: Origin | null
  readonly to: Origin
  /** Results that the old destination never got; each goes to the new one under a new id. */
  readonly withdrawn: readonly string[]
  readonly accepted: readonly string[]
}

/**
 * A result whose fate at the old destination is open holds the change up: it might be there already. What surely is not there
 * (never sent, or refused) is withdrawn and accepted anew, so that one delivery id never has two destinations.
 */
export const changeOrigin = handler({
  type: "changeOrigin",
  payload: ChangeOrigin,
  *load(input) {
    const todo = yield* todoTable.first("id = ?", input.todo)
    return {
      todo,
      goal: todo === undefined ? undefined : yield* loadGoal(todo.goal),
      deliveries: yield* deliveryTable.find("todo = ? ORDER BY accepted_at, id", input.todo)
    }
  },
  decide: ({ todo: found, goal, deliveries }, input, context) =>
    Result.gen(function* () {
      if (found === undefined) return yield* Result.fail(notFound("todo", input.todo))
      // Nothing is sent below a completed goal: what were accepted anew would never go anywhere.
      if (goal?.state === "completed") yield* activeGoal(goal, goal.id)
      const todo = yield* atRevision(found, input.revision)
      const open = deliveries.filter(({ state }) => state === "dispatched" || state === "unknown")
      if (open.length > 0) {
        return yield* Result.fail(
          new DeliveryUnresolved({
            message: `Whether ${open.length} result(s) of todo ${todo.id} reached the old destination is not known.`,
            remedy: "Resolve them first: read them back, or let a person say so with Deliveries.resolve.",
            todo: todo.id,
            deliveries: open.map(({ id }) => id)
          })
        )
      }
      const next = revised(todo, { origin: input.origin }, context.now)
      const events: JournalEvent[] = [fact("todo.originChanged", todo.id, { ...next, reason: input.reason })]
      const taken = deliveries.filter(({ state }) => state === "accepted" || state === "refused")
      const again: string[] = []
      for (const old of taken) {
        const fresh = accepted({ ...old, origin: input.origin }, old.result, context)
        events.push(withdrawn(old, input.reason, context.now), fresh.event)
        again.push(fresh.delivery.id)
      }
      const receipt: OriginChanged = {
        todo: todo.id,
        revision: next.revision,
        from: todo.origin,
        to: input.origin,
        withdrawn: taken.map(({ id }) => id),
        accepted: again
      }
      return decided(events, receipt)
    })
})
