/**
 * Acceptance: the verdict of a declared validator, run apart from the executor, on one exact candidate.
 * Promise: a validator whose own files changed while it ran has given no verdict (void); an executor accepts nothing of its
 * own; what a verdict does not carry is refused by name. Rules: G70, G71.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { DigestText, IdText, Ids, Summary } from "./Field.ts"
import { type EvidenceRecord, loadEvidence, ofGoal } from "./Evidence.ts"
import { goalTable } from "./Goal.ts"
import { AcceptanceInvalid, type NotFound, notFound, type RevisionConflict } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, recordTable } from "./Handler.ts"
import { isLive, loadLease } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { requirementOf } from "./Requirement.ts"
import {
  loadRequired,
  loadSources,
  missingReads,
  newestReads,
  type ReadRevision,
  ReadRevisions,
  revisionsOf
} from "./SourceRecord.ts"
import { atRevision, todoTable } from "./TodoRecord.ts"
import { turnTable } from "./TurnRecord.ts"

/** `inconclusive`: it ran and could not tell, a timeout among them. `unavailable`: it could not run. */
export const AcceptanceOutcome = Schema.Literals(["passed", "progress", "failed", "inconclusive", "unavailable"])
export type AcceptanceOutcome = typeof AcceptanceOutcome.Type

const Validator = Schema.Struct({
  name: IdText,
  /** Digest of the validator's own files before and after it ran (G71). */
  digestBefore: DigestText,
  digestAfter: DigestText
})

export interface AcceptanceRecord {
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  /** Identity of the candidate that was judged; null where the work has no candidate (a plain directory). */
  readonly candidate: string | null
  readonly validator: typeof Validator.Type
  readonly outcome: AcceptanceOutcome
  /** True when the validator's files changed while it ran: the outcome counts for nothing. */
  readonly void: boolean
  readonly evidence: readonly string[]
  readonly summary: string
  /** Digest of the requirement that the validator ran against; null where it is not known. */
  readonly requirement: string | null
  /**
   * The source revisions that the validator says it ran against; null: it named nothing, neither these nor the todo's revision.
   * Without a turn: what the todo required to be read when the verdict was recorded.
   */
  readonly reads: readonly ReadRevision[] | null
  readonly recordedAt: number
}

export const acceptanceTable = recordTable<AcceptanceRecord>("acceptance", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  turn: "value",
  candidate: "value",
  validator: "json",
  outcome: "value",
  void: "flag",
  evidence: "json",
  summary: "value",
  requirement: "value",
  reads: "json",
  recordedAt: "value"
})

export const acceptanceTables = `
CREATE INDEX settlement_acceptance ON settlement (acceptance) WHERE accepted = 1;
`

const remedies: Record<AcceptanceInvalid["why"], string> = {
  missing: "Have the declared validator judge the candidate, and name its acceptance.",
  void: "Restore the validator's files and have it judge again.",
  notPassed: "Settle with the outcome that the validator gave.",
  otherCandidate: "Have the validator judge exactly this candidate.",
  otherWork: "Name the acceptance that was given for this todo and turn, by the validator that the todo declares.",
  ownProducer: "Have a validator apart from the executor judge, with evidence of its own.",
  unrecorded: "Record the candidate first (Candidates.record); a planned or unknown one is not accepted.",
  used: "Have the validator judge again: one verdict accepts one settlement."
}

export const invalid = (acceptance: string, why: AcceptanceInvalid["why"], message: string): AcceptanceInvalid =>
  new AcceptanceInvalid({ message, remedy: remedies[why], acceptance, why })

/** Whoever did the work neither judges it nor is the only one whose evidence a verdict stands on (G70). */
export const apart = (
  acceptance: string,
  validator: string,
  evidence: readonly (EvidenceRecord | undefined)[],
  executor: string | undefined
): Result.Result<undefined, AcceptanceInvalid> => {
  const no = (text: string) => Result.fail(invalid(acceptance, "ownProducer", text))
  if (validator === executor) return no(`${executor} does this work and is no validator of it.`)
  return evidence.some((e) => e !== undefined && e.producer.role !== "executor" && e.producer.name !== executor)
    ? Result.succeed(undefined)
    : no("A passed verdict names no evidence but the executor's own.")
}

/** Whether this verdict carries an accepted settlement of exactly this work. Without a candidate, or a turn, it names the todo. */
export const carries = (
  acceptance: AcceptanceRecord | undefined,
  work: {
    readonly goal: string
    readonly todo: string
    readonly turn: string | null
    readonly candidate: string | null
    readonly validator: string | null
  }
): Result.Result<AcceptanceRecord, AcceptanceInvalid> => {
  if (acceptance === undefined)
    return Result.fail(invalid("", "missing", "An accepted settlement names no acceptance."))
  const no = (why: AcceptanceInvalid["why"], text: string) =>
    Result.fail(invalid(acceptance.id, why, `Acceptance ${acceptance.id} ${text}.`))
  if (acceptance.void) return no("void", "is void: the validator's files changed while it ran")
  if (acceptance.outcome !== "passed") return no("notPassed", `says ${acceptance.outcome}`)
  if (acceptance.candidate !== work.candidate) return no("otherCandidate", "is of another candidate")
  const todo = acceptance.todo ?? (work.candidate === null || work.turn === null ? null : work.todo)
  if (acceptance.goal !== work.goal || todo !== work.todo) return no("otherWork", "is of other work")
  if (acceptance.turn !== work.turn && (acceptance.turn !== null || work.candidate === null)) {
    return no("otherWork", "is of another turn")
  }
  if (work.validator !== null && acceptance.validator.name !== work.validator) {
    return no("otherWork", `is by ${acceptance.validator.name}, the todo declares ${work.validator}`)
  }
  return Result.succeed(acceptance)
}

const RecordAcceptance = Schema.Struct({
  goal: IdText,
  todo: Schema.optional(IdText),
  turn: Schema.optional(IdText),
  candidate: Schema.NullOr(DigestText),
  validator: Validator,
  outcome: AcceptanceOutcome,
  /** The revision of the todo that the validator ran against; when not named, what the turn was admitted under. */
  todoRevision: Schema.optional(Schema.Int),
  /** The revisions of sources that the validator ran against; of those not named, what the turn was admitted under. */
  reads: Schema.optional(ReadRevisions),
  evidence: Ids,
  summary: Schema.optional(Summary)
})

const record = handler({
  type: "recordAcceptance",
  payload: RecordAcceptance,
  *load(input) {
    const turn = input.turn === undefined ? undefined : yield* turnTable.first("id = ?", input.turn)
    const named = input.todo ?? turn?.todo
    const todo = named === undefined ? undefined : yield* todoTable.first("id = ?", named)
    return {
      goal: yield* goalTable.first("id = ?", input.goal),
      turn,
      todo,
      lease: todo === undefined ? undefined : yield* loadLease(todo.id),
      required: yield* loadRequired(todo),
      evidence: yield* loadEvidence(input.evidence),
      sources: yield* loadSources((input.reads ?? []).map(({ source }) => source))
    }
  },
  decide: ({ goal, turn, todo, lease, required, evidence, sources }, input, { now, newId }) =>
    Result.gen(function* () {
      if (goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (input.turn !== undefined && turn?.goal !== goal.id) return yield* Result.fail(notFound("turn", input.turn))
      if (input.todo !== undefined && todo?.goal !== goal.id) return yield* Result.fail(notFound("todo", input.todo))
      if (turn !== undefined && todo?.id !== turn.todo) {
        return yield* Result.fail(invalid("", "otherWork", `Turn ${turn.id} is on todo ${turn.todo}.`))
      }
      if (input.todoRevision !== undefined) {
        if (todo === undefined) return yield* Result.fail(notFound("todo", input.todo ?? "that is not named"))
        yield* atRevision(todo, input.todoRevision)
      }
      yield* newestReads(goal.id, input.reads ?? [], sources)
      const seen: readonly EvidenceRecord[] = yield* ofGoal(goal.id, input.evidence, evidence)
      if (input.outcome === "passed") {
        const executor = turn?.agent ?? (isLive(lease, now) ? lease.owner : undefined)
        yield* apart("", input.validator.name, seen, executor)
      }
      // Without a turn a verdict is of the todo, and of what it requires to be read, as they stand now.
      const byHand = turn === undefined && todo !== undefined
      const named = input.reads ?? []
      const unnamed = missingReads(revisionsOf(required), named)
      const acceptance: AcceptanceRecord = {
        id: newId("verdict"),
        goal: goal.id,
        todo: input.todo ?? turn?.todo ?? null,
        turn: input.turn ?? null,
        candidate: input.candidate,
        validator: input.validator,
        outcome: input.outcome,
        void: input.validator.digestBefore !== input.validator.digestAfter,
        evidence: input.evidence,
        summary: input.summary ?? "",
        requirement:
          input.todoRevision !== undefined || byHand
            ? requirementOf(goal, todo!)
            : (turn?.context?.requirement ?? null),
        reads: byHand ? [...named, ...unnamed] : (input.reads ?? (input.todoRevision === undefined ? null : [])),
        recordedAt: now
      }
      return decided([fact("acceptance.recorded", acceptance.id, acceptance)], acceptance)
    })
})

export const acceptanceHandlers: Handlers = record

/** Acceptances: what a validator said of a candidate. */
export const Acceptances = {
  /**
   * Records a verdict. `passed` needs a validator and evidence that are not the executor's own: the turn's agent, or without a turn
   * whoever holds the todo. A changed validator digest makes it `void`. It accepts one settlement, once. Work without a candidate, or
   * without a turn, is accepted by a verdict that names its `todo`; without a turn it is of the todo and its required sources as they
   * stand when it is recorded (name `todoRevision` and `reads`, and what changed while the validator ran is a `RevisionConflict`).
   * After a requirement was corrected, name the `todoRevision` that the validator ran against, and after a required source was
   * revised its revision in `reads`: only then does its verdict carry an accepted settlement of a turn that was admitted before (G86).
   * Errors: `AcceptanceInvalid` (`ownProducer`; `otherWork`: the turn is on another todo), `RevisionConflict` (read the todo or the source again, and judge again), `NotPublic`, `NotFound`.
   */
  record: writer<typeof RecordAcceptance.Type, AcceptanceRecord, AcceptanceInvalid | RevisionConflict | NotFound>(
    "work",
    "recordAcceptance"
  ),
  /** One acceptance. Errors: `NotFound`. */
  get: reader(
    (input: { readonly acceptance: string }) => acceptanceTable.first("id = ?", input.acceptance),
    (input) => notFound("acceptance", input.acceptance)
  ),
  /** The acceptances of a goal, oldest first. */
  list: reader(function* (input: { readonly goal: string }): Load<{ readonly items: readonly AcceptanceRecord[] }> {
    return { items: yield* acceptanceTable.find("goal = ? ORDER BY recorded_at, id", input.goal) }
  })
}
