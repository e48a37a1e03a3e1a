/**
 * What a piece of work is required to be: the goal, the todo's title, its validator, where it may write and which sources it
 * requires, as one digest; and the revisions of these sources.
 * Promise: work that was begun under one requirement never counts as accepted under another, unless the validator ran against
 * the new one; what an edit changes beside these (priority, dependencies) makes nothing stale. Rules: G86; C72.
 */
import { digestJson, type Json } from "../base/Digest.ts"
import type { AcceptanceRecord } from "./Acceptance.ts"
import type { GoalRecord } from "./Goal.ts"
import type { SettlementOutcome } from "./SettlementRecord.ts"
import { missingReads, type ReadRevision, revisionsOf, type SourceRecord } from "./SourceRecord.ts"
import type { TodoRecord } from "./TodoRecord.ts"
import type { TurnRecord } from "./TurnRecord.ts"

export const requirementOf = (goal: Pick<GoalRecord, "title">, todo: TodoRecord): string =>
  digestJson({
    goal: goal.title,
    title: todo.title,
    acceptance: todo.acceptance,
    writeScopes: todo.writeScopes,
    // Left out where there are none: work that was admitted before there were any keeps its digest.
    ...(todo.requiredReads.length === 0 ? {} : { requiredReads: todo.requiredReads })
  } as unknown as Json)

/** The result and its cost are kept; what comes next is a new plan. */
export interface Stale {
  /** What was asked for instead of `staleContext`. */
  readonly asked: SettlementOutcome
  readonly admittedRevision: number | null
  readonly revision: number
  /** Required reads that the turn was not admitted under (by hand: not judged), with the revision that it had of them; if any. */
  readonly sources?: readonly (ReadRevision & { readonly admittedRevision: number | null })[]
  /** There when the work was done under another context than the turn was given. */
  readonly context?: { readonly admitted: string | null; readonly worked: string }
  readonly next: "replan"
}

/** Work by hand was admitted under nothing: what was accepted of it is what its verdict judged. */
const judgedBefore = (
  requirement: string,
  required: readonly ReadRevision[],
  verdict: AcceptanceRecord | undefined,
  todo: TodoRecord
): Stale | undefined => {
  const reads = verdict?.reads ?? []
  const revised = missingReads(required, reads)
  if (verdict === undefined || (verdict.requirement === requirement && revised.length === 0)) return undefined
  return {
    asked: "accepted",
    admittedRevision: null,
    revision: todo.revision,
    ...revisedReads(revised, reads),
    next: "replan"
  }
}

const revisedReads = (revised: readonly ReadRevision[], before: readonly ReadRevision[]): Pick<Stale, "sources"> =>
  revised.length === 0
    ? {}
    : {
        sources: revised.map((read) => ({
          ...read,
          admittedRevision: before.find(({ source }) => source === read.source)?.revision ?? null
        }))
      }

/** Why a settlement cannot stand for what is required now; undefined when it can (G86). */
export const staleness = (
  goal: GoalRecord,
  todo: TodoRecord,
  state: {
    readonly turn: TurnRecord | undefined
    readonly acceptance: AcceptanceRecord | undefined
    readonly required: readonly SourceRecord[]
  },
  settling: { readonly outcome: SettlementOutcome; readonly context?: string | undefined }
): Stale | undefined => {
  const requirement = requirementOf(goal, todo)
  if (state.turn === undefined) {
    if (settling.outcome !== "accepted") return undefined
    return judgedBefore(requirement, revisionsOf(state.required), state.acceptance, todo)
  }
  const admitted = state.turn.context
  if (admitted?.requirement === undefined) return undefined
  const reads = admitted.reads ?? []
  const revised = missingReads(revisionsOf(state.required), reads)
  const worked = settling.context ?? admitted.digest
  const elsewhere = worked !== admitted.digest
  if (admitted.requirement === requirement && revised.length === 0 && !elsewhere) return undefined
  // A verdict stands for what the turn was admitted under, and for what the validator says that it ran against.
  const verdict = state.acceptance
  // One that does not name the turn is of whatever stood when it was recorded, perhaps after the validator ran.
  const judged =
    verdict?.turn === state.turn.id &&
    verdict.requirement === requirement &&
    missingReads(revised, verdict.reads ?? []).length === 0
  if (judged && (!elsewhere || verdict.reads !== null)) return undefined
  return {
    asked: settling.outcome,
    admittedRevision: admitted.requirementRevision,
    revision: todo.revision,
    ...revisedReads(revised, reads),
    ...(elsewhere ? { context: { admitted: admitted.digest, worked: worked! } } : {}),
    next: "replan"
  }
}
