/**
 * A further attempt within a turn, after a failure that the policy tries again.
 * Promise: one commit ends the failed attempt with its cost and saves the next one with a bound of its own, before anything is
 * launched; where the budget does not hold that bound nothing happens, and the failure stands. Rules: G55, G56, G80, G84.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Amounts, Fence, IdText, plus } from "./Field.ts"
import { activeGoal, type AgentRecord, agentTable } from "./Goal.ts"
import { decided, fact, type Handlers, handler } from "./Handler.ts"
import { reserve, Spend, spendReserved } from "./QuotaLedger.ts"
import { type Account, loadAccounts } from "./QuotaSum.ts"
import type { CostOwner } from "./ReservationRecord.ts"
import { mayTryAgain } from "./RetryPolicy.ts"
import { readableAll } from "./SourceRecord.ts"
import { leaseOf, passDispatch } from "./TurnAdmission.ts"
import { driven, known, seenBy } from "./TurnFence.ts"
import { Guarantee, loadForDispatch } from "./TurnLoad.ts"
import { inPhase, type TurnAttempt, type TurnRecord } from "./TurnRecord.ts"
import { loadCounted, turnUsage, UsageReport } from "./Usage.ts"

export const RetryAttempt = Schema.Struct({
  turn: IdText,
  fence: Fence,
  /** How the last attempt failed. */
  failure: Schema.Struct({ class: Schema.String.check(Schema.isMaxLength(100)), check: IdText }),
  /** What it cost; unknown keeps its bound, which is then owed. Its slot goes on to the next attempt. */
  spend: Spend,
  usage: Schema.optional(UsageReport),
  /** The most that the next attempt may cost. */
  bound: Amounts,
  guarantee: Schema.optional(Schema.NullOr(Guarantee)),
  host: Schema.optional(IdText)
})

const retryAttempt = handler({
  type: "retryAttempt",
  payload: RetryAttempt,
  *load(input, now) {
    const state = yield* loadForDispatch(input.turn)
    const { turn, goal } = state
    const agent: AgentRecord | undefined =
      turn && (yield* agentTable.first("goal = ? AND agent_id = ?", turn.goal, turn.agent))
    return {
      ...state,
      accounts: yield* loadAccounts(goal, agent, now),
      counted: yield* loadCounted(turn?.goal ?? "", input.usage)
    }
  },
  decide: (state, input, context, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state.turn, input.turn), seenBy(observed))
      const goal = yield* activeGoal(state.goal, turn.goal)
      const lease = yield* leaseOf(state.lease, input.fence, turn.goal, turn.agent, context.now)
      yield* readableAll(state.required)
      const passed = yield* passDispatch(state.gates, lease, state.todo, context.now)
      yield* inPhase(turn, "result")
      yield* mayTryAgain(turn, input.failure.class)
      // An open turn in this phase has its bound: both were written by one commit.
      const held = state.held!
      const ended = spendReserved(held, { ...input.spend, slots: 0 }, null, context.now)
      const accounts: readonly Account[] = state.accounts.map((account) => ({
        ...account,
        totals: {
          reserved: plus(account.totals.reserved, ended.delta.reserved ?? {}),
          spent: plus(account.totals.spent, ended.delta.spent ?? {})
        }
      }))
      const owner: CostOwner = {
        goal: goal.id,
        todo: turn.todo,
        turn: turn.id,
        agent: turn.agent,
        role: held.role ?? "worker"
      }
      const effectId = context.newId("effect")
      const bound = { slots: 1, attempts: 1, ...input.bound }
      const next = yield* reserve(accounts, goal.requiredMeters, owner, effectId, bound, context)
      const used = turnUsage(turn, held, input.usage, state.counted, context.now)
      const failed: TurnAttempt = { ...turn.attempts.at(-1)!, failure: input.failure, effectId: turn.effectId }
      const attempt: TurnAttempt = {
        number: turn.attempts.length + 1,
        startedAt: context.now,
        retry: `the attempt before failed as ${input.failure.class} (${input.failure.check})`,
        ...(input.host === undefined ? {} : { host: input.host })
      }
      const again: TurnRecord = {
        ...turn,
        effectId,
        reservation: next.reservation.id,
        epoch: lease.epoch,
        attempts: [...turn.attempts.slice(0, -1), failed, attempt],
        executor: null,
        guarantee: input.guarantee ?? null,
        usage: null,
        changedAt: context.now
      }
      return decided(
        [...passed, ended.event, ...used.events, next.event, fact("turn.attemptSaved", turn.id, again)],
        again
      )
    })
})

export const turnRetryHandlers: Handlers = retryAttempt
