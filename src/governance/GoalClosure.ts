/**
 * Reading a goal as a whole, and completing it.
 * Promise: a goal is completed by whoever says so and why, and only when nothing is open below it; the last todo ends no goal, and
 * a completed goal is never opened again. Rules: G12, G10, G11; what can be open: Frontier.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { loadEvidence, ofGoal } from "./Evidence.ts"
import { IdText, Ids, Reason } from "./Field.ts"
import { loadFrontier, mostNamed, type OpenPart, undeliveredPart } from "./Frontier.ts"
import { loadOpenGates } from "./GateRecord.ts"
import {
  activeGoal,
  type Closure,
  type Goal,
  goalCommands,
  type GoalRecord,
  loadGoal,
  loadWaiting,
  showGoal
} from "./Goal.ts"
import { FrontierNotEmpty, GoalNotActive, type NotFound, notFound } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { loadObligations, type ObligationRecord } from "./ObligationRecord.ts"
import { loadOwed, type Owed } from "./ReservationRecord.ts"

const CompleteGoal = Schema.Struct({
  goal: IdText,
  closure: Schema.Struct({ reason: Reason, evidence: Schema.optional(Ids) })
})

const notEmpty = (goal: string, parts: readonly OpenPart[]): FrontierNotEmpty =>
  new FrontierNotEmpty({
    message: `Goal ${goal} is not complete: ${parts.map(({ kind, count }) => `${kind} ${count}`).join(", ")}.`,
    remedy:
      "End each named part in its own way, or retire it; then complete the goal again. Goals.frontier lists them.",
    goal,
    parts
  })

/** The same reason and the same evidence, in whatever order it is named. */
const sameClosure = (closure: Closure | null, reason: string, evidence: readonly string[]): boolean =>
  closure?.reason === reason &&
  [...new Set(closure.evidence)].toSorted().join("\n") === [...new Set(evidence)].toSorted().join("\n")

const otherClosure = (goal: GoalRecord): GoalNotActive =>
  new GoalNotActive({
    message: `Goal ${goal.id} was completed before, with another reason or other evidence.`,
    remedy: "It stays as it was completed: read its closure with Goals.get.",
    goal: goal.id,
    state: goal.state,
    waiting: []
  })

const complete = handler({
  type: "completeGoal",
  payload: CompleteGoal,
  *load(input, now) {
    const goal = yield* loadGoal(input.goal)
    return {
      goal,
      waiting: yield* loadWaiting(goal, now),
      parts: yield* loadFrontier(input.goal, now),
      evidence: yield* loadEvidence(input.closure.evidence ?? [])
    }
  },
  decide: ({ goal: found, waiting, parts, evidence: shown }, input, { now }) =>
    Result.gen(function* () {
      const evidence = input.closure.evidence ?? []
      if (found?.state === "completed") {
        return sameClosure(found.closure, input.closure.reason, evidence)
          ? decided([], showGoal(found))
          : yield* Result.fail(otherClosure(found))
      }
      const goal = yield* activeGoal(found, input.goal, waiting)
      yield* ofGoal(goal.id, evidence, shown)
      if (parts.length > 0) return yield* Result.fail(notEmpty(goal.id, parts))
      const closure: Closure = { reason: input.closure.reason, evidence, closedAt: now }
      const next: GoalRecord = {
        ...goal,
        state: "completed",
        closure,
        revision: goal.revision + 1,
        changedAt: now
      }
      return decided([fact("goal.completed", goal.id, next)], showGoal(next))
    })
})

export const closureHandlers: Handlers = complete

// --- service ---------------------------------------------------------------------------------------------------------

/** What a goal still owes: costs that are unknown, results that did not get back, work that must be attempted, questions. */
export interface GoalDebts {
  /** The oldest hundred; `Quota.status` has the sums. */
  readonly owed: readonly Owed[]
  /** The count is whole; of the ids, the first hundred. */
  readonly undelivered: { readonly count: number; readonly ids: readonly string[] }
  /** The open ones, the oldest hundred; `Goals.frontier` counts them all. */
  readonly obligations: readonly ObligationRecord[]
  /** The open ones; the count is whole; of the ids, the first hundred. */
  readonly gates: { readonly count: number; readonly ids: readonly string[] }
}

/** Goals: what is to be done, within which budget. */
export const Goals = {
  ...goalCommands,
  /**
   * One goal, with what is owed in it, which of its results are not delivered (`Deliveries.undelivered`), what must be attempted, and
   * which questions are open. Errors: `NotFound`.
   */
  get: reader(
    function* (input: { readonly goal: string }, { now }): Load<(Goal & GoalDebts) | undefined> {
      const goal = yield* loadGoal(input.goal)
      if (goal === undefined) return undefined
      const { count, ids } = yield* undeliveredPart.load(goal.id, now)
      const open = yield* loadOpenGates(goal.id, now, mostNamed)
      return {
        ...showGoal(goal),
        owed: yield* loadOwed("goal", goal.id, mostNamed),
        undelivered: { count, ids },
        obligations: yield* loadObligations(goal.id, mostNamed),
        gates: { count: open.count, ids: open.items.map(({ id }) => id) }
      }
    },
    (input) => notFound("goal", input.goal)
  ),
  /**
   * Everything that is open below a goal: `parts`, each a kind with its whole count and the first hundred ids; none when the
   * goal may be completed. Errors: `NotFound`.
   */
  frontier: reader(
    function* (
      input: {
        readonly goal: string
      },
      { now }
    ): Load<{ readonly state: Goal["state"]; readonly parts: readonly OpenPart[] } | undefined> {
      const goal = yield* loadGoal(input.goal)
      return goal === undefined ? undefined : { state: goal.state, parts: yield* loadFrontier(goal.id, now) }
    },
    (input) => notFound("goal", input.goal)
  ),
  /**
   * Completes a goal, for good: `closure.reason` says why it is done, `closure.evidence` names what shows it. Nothing may be open below
   * it, and what cannot be read counts as open. Completing it again with the same reason and evidence changes nothing.
   * Errors: `FrontierNotEmpty` (`parts` names everything that is open), `GoalNotActive` (resume a paused goal first, `waiting` names
   * what waits with it; one that was completed otherwise stays as it is), `NotFound` (goal, evidence).
   */
  complete: writer<typeof CompleteGoal.Type, Goal, FrontierNotEmpty | GoalNotActive | NotFound>("work", "completeGoal")
}
