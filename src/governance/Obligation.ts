/**
 * Obligations: work that must be attempted, whatever a planner thinks of it.
 * Promise: opened with a reason; met by an attempt that is checked, or waived by a person with a reason; until then its todo
 * is neither put aside nor retired nor completed, and its goal stays open. Rules: G15, G12; C67.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { IdText, Person, Reason } from "./Field.ts"
import { activeGoal, loadGoal } from "./Goal.ts"
import {
  type GoalNotActive,
  NotAttempted,
  type NotFound,
  notFound,
  ObligationClosed,
  type TodoState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, oneOf } from "./Handler.ts"
import type { Load } from "./Module.ts"
import {
  attemptedByHand,
  attempts,
  countObligations,
  met,
  mostObligations,
  type ObligationRecord,
  obligationTable
} from "./ObligationRecord.ts"
import { settlementTable, type SettlementRecord } from "./SettlementRecord.ts"
import { todoState, todoTable } from "./TodoRecord.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

const OpenObligation = Schema.Struct({
  goal: IdText,
  /** The todo that must be attempted; absent: some work of the goal. */
  todo: Schema.optional(IdText),
  reason: Reason
})

const open = handler({
  type: "openObligation",
  payload: OpenObligation,
  *load(input) {
    return {
      goal: yield* loadGoal(input.goal),
      count: yield* countObligations(input.goal, input.todo ?? null),
      todo: input.todo === undefined ? undefined : yield* todoTable.first("id = ?", input.todo)
    }
  },
  decide: ({ goal, count, todo }, input, { now, newId }) =>
    Result.gen(function* () {
      if (goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (goal.state === "completed") yield* activeGoal(goal, goal.id)
      if (input.todo !== undefined) {
        if (todo === undefined || todo.goal !== goal.id) return yield* Result.fail(notFound("todo", input.todo))
        // What was put aside before it was required would otherwise stay aside: it is brought back first, in the open.
        if (todo.state !== "open") return yield* Result.fail(todoState(todo))
      }
      if (count >= mostObligations) {
        const where = input.todo === undefined ? `goal ${goal.id}` : `todo ${input.todo}`
        const why = `${where} has ${count} open obligations: attempt or waive them first, or name what must be attempted by todo`
        return yield* Result.fail(invalidInput("openObligation", why))
      }
      const obligation: ObligationRecord = {
        id: newId("obligation"),
        goal: goal.id,
        todo: input.todo ?? null,
        kind: "mustAttemptWork",
        reason: input.reason,
        state: "open",
        attempt: null,
        waiver: null,
        openedAt: now,
        changedAt: now
      }
      return decided([fact("obligation.opened", obligation.id, obligation)], obligation)
    })
})

/** The obligation while it is open. */
const isOpen = (
  obligation: ObligationRecord | undefined,
  id: string
): Result.Result<ObligationRecord, NotFound | ObligationClosed> => {
  if (obligation === undefined) return Result.fail(notFound("obligation", id))
  if (obligation.state === "open") return Result.succeed(obligation)
  return Result.fail(
    new ObligationClosed({
      message: `Obligation ${id} is ${obligation.state}.`,
      remedy: "That is final: read it with Obligations.get, or open another.",
      obligation: id,
      state: obligation.state
    })
  )
}

const MeetObligation = Schema.Struct({
  obligation: IdText,
  /** The turn that attempted it. */
  turn: Schema.optional(IdText),
  /** Or the settlement that did, by its effect id. */
  settlement: Schema.optional(IdText)
})

const notAttempted = (obligation: ObligationRecord, attempt: string, why: string) =>
  new NotAttempted({
    message: `${attempt} is no attempt at what obligation ${obligation.id} asks for: ${why}.`,
    remedy: "Name a turn or settlement of this work whose host answered after the obligation was opened.",
    obligation: obligation.id,
    attempt
  })

/** A settlement without a turn is its holder's word, under the fence of the lease, that the work was done by hand. */
const settledAttempt = (
  obligation: ObligationRecord,
  settlement: SettlementRecord,
  turn: TurnRecord | undefined
): boolean =>
  settlement.goal === obligation.goal &&
  (obligation.todo === null || obligation.todo === settlement.todo) &&
  (settlement.turn === null
    ? settlement.settledAt >= obligation.openedAt && attemptedByHand(settlement.outcome)
    : turn !== undefined && attempts(turn, obligation))

const meet = handler({
  type: "meetObligation",
  payload: MeetObligation,
  *load(input) {
    const settlement =
      input.settlement === undefined ? undefined : yield* settlementTable.first("effect_id = ?", input.settlement)
    const named = input.turn ?? settlement?.turn ?? null
    return {
      obligation: yield* obligationTable.first("id = ?", input.obligation),
      settlement,
      turn: named === null ? undefined : yield* turnTable.first("id = ?", named)
    }
  },
  decide: ({ obligation: found, settlement, turn }, input, { now }) =>
    Result.gen(function* () {
      const obligation = yield* isOpen(found, input.obligation)
      if (input.settlement !== undefined) {
        if (settlement === undefined) return yield* Result.fail(notFound("settlement", input.settlement))
        if (!settledAttempt(obligation, settlement, turn)) {
          return yield* Result.fail(
            notAttempted(obligation, input.settlement, "it is of other work, or its host never answered")
          )
        }
      } else if (input.turn === undefined) {
        return yield* Result.fail(notAttempted(obligation, "(nothing)", "neither a turn nor a settlement is named"))
      } else {
        if (turn === undefined) return yield* Result.fail(notFound("turn", input.turn))
        if (!attempts(turn, obligation)) {
          return yield* Result.fail(
            notAttempted(obligation, input.turn, "it is of other work, or its host never answered")
          )
        }
      }
      const attempt = { turn: turn?.id ?? null, settlement: settlement?.effectId ?? null }
      const event = met(obligation, attempt, now)
      return decided([event], event.data as unknown as ObligationRecord)
    })
})

const WaiveObligation = Schema.Struct({
  obligation: IdText,
  /** Only a person waives. */
  by: Person,
  reason: Reason
})

const waive = handler({
  type: "waiveObligation",
  payload: WaiveObligation,
  load: (input) => obligationTable.first("id = ?", input.obligation),
  decide: (found, input, { now }) =>
    Result.map(isOpen(found, input.obligation), (obligation) => {
      const waiver = { by: input.by.name, reason: input.reason }
      const next: ObligationRecord = { ...obligation, state: "waived", waiver, changedAt: now }
      return decided([fact("obligation.waived", next.id, next)], next)
    })
})

export const obligationHandlers: Handlers = { ...open, ...meet, ...waive }

// --- service ---------------------------------------------------------------------------------------------------------

/** Obligations: what must be attempted. The settlement of an attempt meets them in its own commit. */
export const Obligations = {
  /**
   * Records that work must be attempted, and why. With `todo`, that todo: it goes before all other work (see `Todos.nextWork`), and
   * is not deferred, superseded or completed without an attempt. Without, some work of the goal.
   * Errors: `NotFound`, `TodoState` (reopen a deferred todo first), `GoalNotActive` (completed goal), `InvalidInput` (100 are
   * open on that todo, or on the goal as a whole).
   */
  open: writer<typeof OpenObligation.Type, ObligationRecord, NotFound | TodoState | GoalNotActive>(
    "work",
    "openObligation"
  ),
  /**
   * Names the attempt, by its `turn` or by the effect id of its `settlement`. It is one when it is of this work and its host answered
   * after the obligation was opened. Settling a turn does this by itself. Errors: `NotAttempted`, `ObligationClosed`, `NotFound`.
   */
  meet: writer<typeof MeetObligation.Type, ObligationRecord, NotAttempted | ObligationClosed | NotFound>(
    "work",
    "meetObligation"
  ),
  /** A person lets it go, and says why. Errors: `ObligationClosed`, `NotFound`, `InvalidInput` (not a person, no reason). */
  waive: writer<typeof WaiveObligation.Type, ObligationRecord, ObligationClosed | NotFound>("work", "waiveObligation"),
  /** One obligation. Errors: `NotFound`. */
  get: reader(
    (input: { readonly obligation: string }) => obligationTable.first("id = ?", input.obligation),
    (input) => notFound("obligation", input.obligation)
  ),
  /** Obligations of a goal, oldest first; all, or those in one state. */
  list: reader(function* (input: {
    readonly goal: string
    readonly state?: ObligationRecord["state"]
  }): Load<{ readonly items: readonly ObligationRecord[] }> {
    oneOf("state", input.state, ["open", "met", "waived"])
    const items =
      input.state === undefined
        ? yield* obligationTable.find("goal = ? ORDER BY opened_at, id", input.goal)
        : yield* obligationTable.find("goal = ? AND state = ? ORDER BY opened_at, id", input.goal, input.state)
    return { items }
  })
}
