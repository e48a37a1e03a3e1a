/**
 * Candidates as governance keeps them: planned before the workspace store makes them, recorded after, resolved on open.
 * Promise: a candidate that was planned is never forgotten: it ends as recorded, absent, or stays unknown and is listed;
 * its pin in the workspace store goes only after a journaled release. Rules: G8, G75; C71 (authority side).
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { digestJson } from "../base/Digest.ts"
import { reader, writer } from "./Authority.ts"
import { DigestText, IdText, Summary } from "./Field.ts"
import { activeGoal, type GoalRecord, loadGoal } from "./Goal.ts"
import { type GoalNotActive, IdentityConflict, type NotFound, notFound } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, recordTable } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

/** The candidate's fields as the workspace room defines them; here they are content under a digest, no more. */
const CandidateFields = Schema.Record(Schema.String, Schema.NullOr(Schema.String.check(Schema.isMaxLength(1000))))

export interface CandidateRecord {
  /** Also the name of the pin in the workspace store. */
  readonly id: string
  readonly operationId: string
  readonly goal: string
  readonly turn: string | null
  readonly state: "planned" | "recorded" | "absent" | "unknown"
  readonly identity: string | null
  readonly candidate: { readonly [field: string]: string | null } | null
  readonly pin: "held" | "released" | null
  readonly plannedAt: number
  readonly resolvedAt: number | null
}

export const candidateTable = recordTable<CandidateRecord>("candidate", ["operationId"], {
  operationId: "value",
  id: "value",
  goal: "value",
  turn: "value",
  state: "value",
  identity: "value",
  candidate: "json",
  pin: "value",
  plannedAt: "value",
  resolvedAt: "value"
})

const conflict = (known: CandidateRecord): IdentityConflict =>
  new IdentityConflict({
    message: `Operation ${known.operationId} is ${known.state}${known.identity === null ? "" : ` as ${known.identity}`}.`,
    remedy: "Read it with Candidates.get; another state of the files is another operation.",
    kind: "operation",
    id: known.operationId
  })

interface State {
  readonly known: CandidateRecord | undefined
  readonly goal: GoalRecord | undefined
}

function* loadOperation(operationId: string, goal?: string): Load<State> {
  const known = yield* candidateTable.first("operation_id = ?", operationId)
  const id = goal ?? known?.goal
  return { known, goal: id === undefined ? undefined : yield* loadGoal(id) }
}

const PlanCandidate = Schema.Struct({ goal: IdText, operationId: IdText, turn: Schema.optional(IdText) })

const plan = handler({
  type: "planCandidate",
  payload: PlanCandidate,
  load: function* (input): Load<State & { readonly turn: TurnRecord | undefined }> {
    const state = yield* loadOperation(input.operationId, input.goal)
    return { ...state, turn: input.turn === undefined ? undefined : yield* turnTable.first("id = ?", input.turn) }
  },
  decide: ({ known, goal, turn }, input, { now, newId }) =>
    Result.gen(function* () {
      if (known !== undefined) {
        const same = known.goal === input.goal && known.turn === (input.turn ?? null)
        return same ? decided([], { ...known, replayed: true }) : yield* Result.fail(conflict(known))
      }
      yield* activeGoal(goal, input.goal)
      if (input.turn !== undefined && turn?.goal !== input.goal) {
        return yield* Result.fail(notFound("turn", input.turn))
      }
      const planned: CandidateRecord = {
        id: newId("candidate"),
        operationId: input.operationId,
        goal: input.goal,
        turn: input.turn ?? null,
        state: "planned",
        identity: null,
        candidate: null,
        pin: null,
        plannedAt: now,
        resolvedAt: null
      }
      return decided([fact("candidate.planned", planned.id, planned)], planned)
    })
})

const RecordCandidate = Schema.Struct({ operationId: IdText, identity: DigestText, candidate: CandidateFields })

const record = handler({
  type: "recordCandidate",
  payload: RecordCandidate,
  load: (input) => loadOperation(input.operationId),
  decide: ({ known }, input, { now }) =>
    Result.gen(function* () {
      if (known === undefined) return yield* Result.fail(notFound("operation", input.operationId))
      if (digestJson(input.candidate) !== input.identity) {
        return yield* Result.fail(
          invalidInput("recordCandidate", "the identity is not the digest of the candidate's fields")
        )
      }
      if (known.state === "recorded" && known.identity === input.identity) {
        return decided([], { ...known, replayed: true })
      }
      if (known.state !== "planned" && known.state !== "unknown") return yield* Result.fail(conflict(known))
      const next: CandidateRecord = {
        ...known,
        state: "recorded",
        identity: input.identity,
        candidate: input.candidate,
        pin: "held",
        resolvedAt: now
      }
      return decided([fact("candidate.recorded", known.id, next)], next)
    })
})

const ResolveCandidate = Schema.Struct({
  operationId: IdText,
  /** What reading back by operation id gave. `unknown` when the store could not be read: asked again on the next open. */
  state: Schema.Literals(["absent", "unknown"]),
  note: Schema.optional(Summary)
})

const resolve = handler({
  type: "resolveCandidate",
  payload: ResolveCandidate,
  load: (input) => loadOperation(input.operationId),
  decide: ({ known }, input, { now }) => {
    if (known === undefined) return Result.fail(notFound("operation", input.operationId))
    if (known.state === input.state) return Result.succeed(decided([], { ...known, replayed: true }))
    if (known.state !== "planned" && known.state !== "unknown") return Result.fail(conflict(known))
    const next: CandidateRecord = { ...known, state: input.state, resolvedAt: now }
    return Result.succeed(decided([fact(`candidate.${input.state}`, known.id, next)], next))
  }
})

const ReleasePin = Schema.Struct({ operationId: IdText, reason: Summary })

const releasePin = handler({
  type: "releasePin",
  payload: ReleasePin,
  load: (input) => loadOperation(input.operationId),
  decide: ({ known }, input) => {
    if (known === undefined) return Result.fail(notFound("operation", input.operationId))
    if (known.pin === "released") return Result.succeed(decided([], { ...known, replayed: true }))
    if (known.pin === null) return Result.fail(conflict(known))
    const next: CandidateRecord = { ...known, pin: "released" }
    return Result.succeed(decided([fact("candidate.pinReleased", known.id, { ...next, reason: input.reason })], next))
  }
})

export const candidateHandlers: Handlers = { ...plan, ...record, ...resolve, ...releasePin }

/** Candidates: immutable states of files, between the two stores. */
export const Candidates = {
  /**
   * Says, before the workspace store is asked, that it will be: `operationId` is what the store commits with.
   * The reply's `id` is the name of the pin to set there. Errors: `GoalNotActive`, `IdentityConflict`, `NotFound` (goal, or a turn that is not of this goal).
   */
  plan: writer<typeof PlanCandidate.Type, CandidateRecord, GoalNotActive | IdentityConflict | NotFound>(
    "work",
    "planCandidate"
  ),
  /**
   * Records what the store made, after it was read back and pinned under the candidate's id. Also from `unknown`.
   * Errors: `InvalidInput` (identity is not the digest of the fields), `IdentityConflict`, `NotFound`.
   */
  record: writer<typeof RecordCandidate.Type, CandidateRecord, IdentityConflict | NotFound>("work", "recordCandidate"),
  /** Records that reading back found nothing, or could not tell. Errors: `IdentityConflict`, `NotFound`. */
  resolve: writer<typeof ResolveCandidate.Type, CandidateRecord, IdentityConflict | NotFound>(
    "work",
    "resolveCandidate"
  ),
  /** Allows the workspace store to drop the pin. Errors: `IdentityConflict` (nothing is pinned), `NotFound`. */
  releasePin: writer<typeof ReleasePin.Type, CandidateRecord, IdentityConflict | NotFound>("work", "releasePin"),
  /** One candidate by operation id. Errors: `NotFound`. */
  get: reader(
    (input: { readonly operationId: string }) => candidateTable.first("operation_id = ?", input.operationId),
    (input) => notFound("operation", input.operationId)
  ),
  /** What has to be resolved on open (G75): planned and unknown ones, oldest first; of one goal or of all. */
  planned: reader(function* (input: { readonly goal?: string }): Load<{ readonly items: readonly CandidateRecord[] }> {
    const unresolved = "state IN ('planned', 'unknown')"
    return {
      items:
        input.goal === undefined
          ? yield* candidateTable.find(`${unresolved} ORDER BY planned_at, id`)
          : yield* candidateTable.find(`${unresolved} AND goal = ? ORDER BY planned_at, id`, input.goal)
    }
  }),
  /** The candidates of a goal, oldest first. */
  list: reader(function* (input: { readonly goal: string }): Load<{ readonly items: readonly CandidateRecord[] }> {
    return { items: yield* candidateTable.find("goal = ? ORDER BY planned_at, id", input.goal) }
  })
}
