/**
 * Evidence: that something was seen, kept as a digest, a kind, a short public summary and an opaque reference.
 * Promise: append-only; what an executor produced is marked as the executor's and never accepts itself. Rules: G6, G35, G70.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { DigestText, Fence, IdText, Summary } from "./Field.ts"
import { goalTable } from "./Goal.ts"
import { type LeaseHeld, LeaseLost, type NotFound, notFound } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, recordTable } from "./Handler.ts"
import { loadLease, passFence } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { todoTable } from "./TodoRecord.ts"
import { turnTable } from "./TurnRecord.ts"

/** Who produced it: the executor of the work, a validator run apart from it, the evaluator, or a person. */
export const Producer = Schema.Struct({
  role: Schema.Literals(["executor", "validator", "evaluator", "person"]),
  name: IdText
})
export type Producer = typeof Producer.Type

export interface EvidenceRecord {
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  /** For example `patch`, `verdict`, `log`, `metric`, `receipt`. */
  readonly kind: string
  readonly digest: string
  readonly summary: string
  /** Where the thing itself is, in words of whoever keeps it; never an absolute path. */
  readonly ref: string | null
  readonly producer: Producer
  readonly recordedAt: number
}

export const evidenceTable = recordTable<EvidenceRecord>("evidence", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  turn: "value",
  kind: "value",
  digest: "value",
  summary: "value",
  ref: "value",
  producer: "json",
  recordedAt: "value"
})

/** The evidence of these ids, in their order; undefined where there is none. */
export function* loadEvidence(ids: readonly string[]): Load<readonly (EvidenceRecord | undefined)[]> {
  const found: (EvidenceRecord | undefined)[] = []
  for (const id of ids) found.push(yield* evidenceTable.first("id = ?", id))
  return found
}

/** All of them, or which one is not evidence of this goal. */
export const ofGoal = (
  goal: string,
  ids: readonly string[],
  found: readonly (EvidenceRecord | undefined)[]
): Result.Result<readonly EvidenceRecord[], NotFound> => {
  const missing = ids.find((_, i) => found[i]?.goal !== goal)
  return missing === undefined
    ? Result.succeed(found as readonly EvidenceRecord[])
    : Result.fail(notFound("evidence", missing))
}

const RecordEvidence = Schema.Struct({
  goal: IdText,
  todo: Schema.optional(IdText),
  turn: Schema.optional(IdText),
  kind: IdText,
  digest: DigestText,
  summary: Summary,
  ref: Schema.optional(Schema.NullOr(Schema.String.check(Schema.isMaxLength(500)))),
  producer: Producer,
  fence: Schema.optional(Fence)
})

const record = handler({
  type: "recordEvidence",
  payload: RecordEvidence,
  *load(input) {
    return {
      goal: yield* goalTable.first("id = ?", input.goal),
      todo: input.todo === undefined ? undefined : yield* todoTable.first("id = ?", input.todo),
      turn: input.turn === undefined ? undefined : yield* turnTable.first("id = ?", input.turn),
      lease: input.todo === undefined ? undefined : yield* loadLease(input.todo)
    }
  },
  decide: ({ goal, todo, turn, lease }, input, { now, newId }) =>
    Result.gen(function* () {
      if (goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (input.todo !== undefined && todo?.goal !== goal.id) return yield* Result.fail(notFound("todo", input.todo))
      if (input.turn !== undefined && turn?.goal !== goal.id) return yield* Result.fail(notFound("turn", input.turn))
      if (input.fence !== undefined) yield* passFence(lease, input.fence, now)
      else if (input.producer.role === "executor" && input.todo !== undefined) {
        // The holder's own writes are fenced (G35); a validator or a person is not the holder.
        return yield* Result.fail(
          new LeaseLost({
            message: `Evidence of an executor on todo ${input.todo} names no fence.`,
            remedy: "Pass the fence of the lease under which the work ran.",
            todo: input.todo,
            epoch: 0,
            currentEpoch: lease?.epoch ?? 0,
            why: "none"
          })
        )
      }
      const evidence: EvidenceRecord = {
        id: newId("evidence"),
        goal: input.goal,
        todo: input.todo ?? null,
        turn: input.turn ?? null,
        kind: input.kind,
        digest: input.digest,
        summary: input.summary,
        ref: input.ref ?? null,
        producer: input.producer,
        recordedAt: now
      }
      return decided([fact("evidence.recorded", evidence.id, evidence)], evidence)
    })
})

export const evidenceHandlers: Handlers = record

/** Evidence: what was seen, by digest. */
export const Evidence = {
  /**
   * Records evidence. An executor's evidence on a todo needs the fence of its lease.
   * Errors: `LeaseLost`, `NotPublic` (path or credential in a text), `NotFound` (the goal, or no todo or turn of it).
   */
  record: writer<typeof RecordEvidence.Type, EvidenceRecord, LeaseLost | LeaseHeld | NotFound>(
    "work",
    "recordEvidence"
  ),
  /** One piece of evidence. Errors: `NotFound`. */
  get: reader(
    (input: { readonly evidence: string }) => evidenceTable.first("id = ?", input.evidence),
    (input) => notFound("evidence", input.evidence)
  ),
  /** The evidence of a goal, oldest first. */
  list: reader(function* (input: {
    readonly goal: string
    readonly turn?: string
  }): Load<{ readonly items: readonly EvidenceRecord[] }> {
    const items = yield* evidenceTable.find("goal = ? ORDER BY recorded_at, id", input.goal)
    return { items: input.turn === undefined ? items : items.filter((e) => e.turn === input.turn) }
  })
}
