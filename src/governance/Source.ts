/**
 * Sources: registering them, revising them, and saying who has read which revision.
 * Promise: that a source was read, or cannot be, is a fact on record; the same content is no new revision, and retired is final.
 * Rules: G12, G14, G86. The records, and what todos require: SourceRecord.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { DigestText, IdText, Summary, Title } from "./Field.ts"
import { activeGoal, type AgentRecord, agentTable, type GoalRecord, knownAgent, loadGoal } from "./Goal.ts"
import {
  type GoalNotActive,
  IdentityConflict,
  type NotFound,
  notFound,
  type RevisionConflict,
  type SourceState
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput } from "./Handler.ts"
import type { DecideContext, Load } from "./Module.ts"
import {
  atRevision,
  notState,
  openSources,
  type SourceRead,
  type SourceRecord,
  sourceReadTable,
  sourceTable
} from "./SourceRecord.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

// --- commands --------------------------------------------------------------------------------------------------------

const Size = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1_000_000_000_000))
const content = {
  digest: DigestText,
  ref: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(500)),
  bytes: Size,
  tokens: Schema.optional(Schema.NullOr(Size))
}

const RegisterSource = Schema.Struct({ goal: IdText, name: Title, ...content })

const register = handler({
  type: "registerSource",
  payload: RegisterSource,
  *load(input) {
    return {
      goal: yield* loadGoal(input.goal),
      same: yield* sourceTable.first("goal = ? AND name = ?", input.goal, input.name)
    }
  },
  decide: ({ goal, same }, input, { now, newId }) => {
    if (goal === undefined) return Result.fail(notFound("goal", input.goal))
    if (same !== undefined) {
      // A retired source is required by nobody: whoever registers it expects the opposite.
      if (same.state === "retired") return Result.map(inUse(same), (source) => decided([], source))
      if (same.digest === input.digest && same.ref === input.ref) return Result.succeed(decided([], same))
      return Result.fail(
        new IdentityConflict({
          message: `Goal ${goal.id} has a source of this name with another content: ${same.id}.`,
          remedy: "Record the other content with Sources.revise, or give another name.",
          kind: "source",
          id: same.id
        })
      )
    }
    const source: SourceRecord = {
      id: newId("source"),
      goal: goal.id,
      name: input.name,
      revision: 1,
      digest: input.digest,
      ref: input.ref,
      bytes: input.bytes,
      tokens: input.tokens ?? null,
      state: "readable",
      reason: null,
      addedAt: now,
      changedAt: now
    }
    return Result.succeed(decided([fact("source.registered", source.id, source)], source))
  }
})

const known = (source: SourceRecord | undefined, id: string): Result.Result<SourceRecord, NotFound> =>
  source === undefined ? Result.fail(notFound("source", id)) : Result.succeed(source)

const inUse = (source: SourceRecord): Result.Result<SourceRecord, SourceState> =>
  source.state === "retired"
    ? Result.fail(notState(source, "That is final: register another source under another name."))
    : Result.succeed(source)

const changed = (happened: string, source: SourceRecord, change: Partial<SourceRecord>, { now }: DecideContext) => {
  const next: SourceRecord = { ...source, ...change, changedAt: now }
  return decided([fact(happened, source.id, next)], next)
}

interface OfGoal {
  readonly found: SourceRecord | undefined
  readonly goal: GoalRecord | undefined
}

function* loadOfGoal(input: { readonly source: string }): Load<OfGoal> {
  const found = yield* sourceTable.first("id = ?", input.source)
  return { found, goal: found === undefined ? undefined : yield* loadGoal(found.goal) }
}

/** Below a completed goal nobody reads any more, so nothing may come to be unread there (G12). */
const notCompleted = (goal: GoalRecord | undefined, source: SourceRecord) =>
  goal?.state === "completed" ? activeGoal(goal, source.goal) : Result.succeed(undefined)

const ReviseSource = Schema.Struct({ source: IdText, revision: Schema.Int, ...content })

/** The same content is the same revision: only that it can be read is then said anew. */
const revise = handler({
  type: "reviseSource",
  payload: ReviseSource,
  load: loadOfGoal,
  decide: ({ found, goal }, input, context) =>
    Result.gen(function* () {
      const source = yield* atRevision(yield* inUse(yield* known(found, input.source)), input.revision)
      const readable = { state: "readable", reason: null } as const
      if (source.digest === input.digest && source.bytes !== input.bytes) {
        return yield* Result.fail(
          invalidInput("reviseSource", `\`bytes\` is not the length of this digest: it has ${source.bytes}`)
        )
      }
      // Whoever keeps the source may have moved it: a revision is a digest and a reference, and neither ever changes.
      if (source.digest === input.digest && source.ref === input.ref) {
        return source.state === "readable" ? decided([], source) : changed("source.readable", source, readable, context)
      }
      yield* notCompleted(goal, source)
      const { digest, ref, bytes } = input
      const next = { revision: source.revision + 1, digest, ref, bytes, tokens: input.tokens ?? null, ...readable }
      return changed("source.revised", source, next, context)
    })
})

const MarkSource = Schema.Struct({ source: IdText, reason: Summary })

/** Saying a state twice is no error: it is what was asked for, and no new fact is written. */
const mark = (type: string, state: "unreadable" | "retired"): Handlers =>
  handler({
    type,
    payload: MarkSource,
    load: loadOfGoal,
    decide: ({ found, goal }, input, context) =>
      Result.gen(function* () {
        const source = yield* known(found, input.source)
        if (source.state === state) return decided([], source)
        yield* inUse(source)
        if (state === "unreadable") yield* notCompleted(goal, source)
        return changed(`source.${state}`, source, { state, reason: input.reason }, context)
      })
  })

const SourceId = Schema.Struct({ source: IdText })

const readable = handler({
  type: "markReadable",
  payload: SourceId,
  load: (input) => sourceTable.first("id = ?", input.source),
  decide: (found, input, context) =>
    Result.gen(function* () {
      const source = yield* inUse(yield* known(found, input.source))
      if (source.state === "readable") return decided([], source)
      return changed("source.readable", source, { state: "readable", reason: null }, context)
    })
})

const RecordRead = Schema.Struct({
  source: IdText,
  /** The revision that was read. */
  revision: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  agent: IdText,
  turn: Schema.optional(IdText),
  /** Digest of the bytes that were read, where the reader took one. */
  digest: Schema.optional(DigestText)
})

interface ReadState {
  readonly source: SourceRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly agent: AgentRecord | undefined
  readonly before: SourceRead | undefined
  readonly turn: TurnRecord | undefined
}

/** Needs no lease and no active goal: that something was read is so, whoever holds what. */
const recordRead = handler({
  type: "recordRead",
  payload: RecordRead,
  *load(input): Load<ReadState> {
    const source = yield* sourceTable.first("id = ?", input.source)
    if (source === undefined) return { source, goal: undefined, agent: undefined, before: undefined, turn: undefined }
    return {
      source,
      goal: yield* loadGoal(source.goal),
      agent: yield* agentTable.first("goal = ? AND agent_id = ?", source.goal, input.agent),
      before: yield* sourceReadTable.first("source = ? AND agent = ?", source.id, input.agent),
      turn: input.turn === undefined ? undefined : yield* turnTable.first("id = ?", input.turn)
    }
  },
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const source = yield* known(state.source, input.source)
      yield* knownAgent(state.agent, input.agent)
      if (input.turn !== undefined && state.turn?.goal !== source.goal) {
        return yield* Result.fail(notFound("turn", input.turn))
      }
      if (input.revision > source.revision) yield* atRevision(source, input.revision)
      const newest = input.revision === source.revision
      if (newest && source.state === "unreadable") {
        return yield* Result.fail(notState(source, "Say that it can be read again with Sources.markReadable first."))
      }
      if (newest && input.digest !== undefined && input.digest !== source.digest) {
        return yield* Result.fail(invalidInput("recordRead", `the digest is not that of revision ${source.revision}`))
      }
      if (state.before !== undefined && state.before.revision >= input.revision) return decided([], state.before)
      const read: SourceRead = {
        source: source.id,
        goal: source.goal,
        agent: input.agent,
        revision: input.revision,
        turn: input.turn ?? null,
        readAt: now
      }
      return decided([fact("read.recorded", source.id, read)], read)
    })
})

export const sourceHandlers: Handlers = {
  ...register,
  ...revise,
  ...mark("markUnreadable", "unreadable"),
  ...mark("retireSource", "retired"),
  ...readable,
  ...recordRead
}

// --- service ---------------------------------------------------------------------------------------------------------

/** A source, with who has read which revision of it. */
export type SourceView = SourceRecord & { readonly reads: readonly SourceRead[] }

type Changing = NotFound | SourceState

/** Sources: what has to be read before work counts. A todo names them in `requiredReads` (G14). */
export const Sources = {
  /**
   * Registers a source of a goal under a name: `digest` of its bytes (`sha256:…`), `ref` in words of whoever keeps it (never a
   * path of a machine), `bytes`, and `tokens` where they are known. The same name and content again gives the same source.
   * Errors: `IdentityConflict` (the name has another content: use `revise`), `SourceState` (the source of that name was retired: give
   * another name), `NotPublic`, `NotFound` (goal).
   */
  register: writer<typeof RegisterSource.Type, SourceRecord, IdentityConflict | SourceState | NotFound>(
    "work",
    "registerSource"
  ),
  /**
   * Records another content as the next revision, at the `revision` that was seen. Turns that were admitted under the older one
   * become stale (G86), packets after it are complete (G14). The same content and `ref` again is
   * no revision; either way it can be read.
   * Errors: `RevisionConflict` (read it again), `SourceState` (retired), `GoalNotActive` (completed goal), `NotPublic`, `NotFound`.
   */
  revise: writer<typeof ReviseSource.Type, SourceRecord, RevisionConflict | GoalNotActive | Changing>(
    "work",
    "reviseSource"
  ),
  /**
   * Says that a source cannot be read, and why: the goal cannot be completed while it is required (G12).
   * Errors: `SourceState` (retired), `GoalNotActive` (completed goal), `NotFound`.
   */
  markUnreadable: writer<typeof MarkSource.Type, SourceRecord, GoalNotActive | Changing>("work", "markUnreadable"),
  /** Says that its newest revision can be read again. Errors: `SourceState` (retired), `NotFound`. */
  markReadable: writer<typeof SourceId.Type, SourceRecord, Changing>("work", "markReadable"),
  /** Takes a source out of use for good, with a reason: nothing requires it any more. Errors: `NotFound`. */
  retire: writer<typeof MarkSource.Type, SourceRecord, Changing>("work", "retireSource"),
  /**
   * Records that an agent has read a revision. An older revision than one it has read changes nothing. With `digest` it is
   * checked that these were the bytes. Errors: `RevisionConflict` (there is no such revision yet), `SourceState` (it is said to be
   * unreadable), `InvalidInput` (other bytes), `NotFound` (source, agent, or no turn of the goal).
   */
  read: writer<typeof RecordRead.Type, SourceRead, RevisionConflict | Changing>("work", "recordRead"),
  /** One source, with who has read which revision. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly source: string }): Load<SourceView | undefined> {
      const source = yield* sourceTable.first("id = ?", input.source)
      if (source === undefined) return undefined
      return { ...source, reads: yield* sourceReadTable.find("source = ? ORDER BY agent", source.id) }
    },
    (input) => notFound("source", input.source)
  ),
  /** The sources of a goal by name; with `unread` only those that keep the goal open. */
  list: reader(function* (input: {
    readonly goal: string
    readonly unread?: boolean
  }): Load<{ readonly items: readonly SourceRecord[] }> {
    const open = input.unread === true ? ` AND (${openSources.unreadable} OR ${openSources.unread})` : ""
    return { items: yield* sourceTable.find(`goal = ?${open} ORDER BY name`, input.goal) }
  })
}
