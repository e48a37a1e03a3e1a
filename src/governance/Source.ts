/**
 * Sources: what has to be read before work counts, each with its revision; and who has read which revision.
 * Promise: a revision is a digest and a reference that never change; that a source was read, or cannot be, is a fact on record;
 * what an open or finished todo requires stays part of the frontier until its newest revision was read. Rules: G12, G14, G86.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { DigestText, IdText, Summary, Title } from "./Field.ts"
import { type AgentRecord, agentTable, type GoalRecord, knownAgent, loadGoal } from "./Goal.ts"
import { IdentityConflict, type NotFound, notFound, RevisionConflict, SourceState } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, recordTable } from "./Handler.ts"
import type { DecideContext, JournalEvent, Load, Statement } from "./Module.ts"
import type { TodoRecord } from "./TodoRecord.ts"

// --- model -----------------------------------------------------------------------------------------------------------

/** A source as it is kept, journaled and shown. */
export interface SourceRecord {
  readonly id: string
  readonly goal: string
  /** Unique in its goal. */
  readonly name: string
  /** From 1; grows with every other content. */
  readonly revision: number
  readonly digest: string
  /** Where this revision is, in words of whoever keeps it; never an absolute path, never changed. */
  readonly ref: string
  readonly bytes: number
  readonly tokens: number | null
  /** `retired`: required of nobody any more, for good. */
  readonly state: "readable" | "unreadable" | "retired"
  /** Why it cannot be read, or was retired. */
  readonly reason: string | null
  readonly addedAt: number
  readonly changedAt: number
}

/** The newest revision of a source that an agent has read. */
export interface SourceRead {
  readonly source: string
  readonly goal: string
  readonly agent: string
  readonly revision: number
  /** The turn in which it was read; null outside of one. */
  readonly turn: string | null
  readonly readAt: number
}

/** A source at one of its revisions. */
export interface ReadRevision {
  readonly source: string
  readonly revision: number
}

export const sourceTable = recordTable<SourceRecord>("source", ["id"], {
  id: "value",
  goal: "value",
  name: "value",
  revision: "value",
  digest: "value",
  ref: "value",
  bytes: "value",
  tokens: "value",
  state: "value",
  reason: "value",
  addedAt: "value",
  changedAt: "value"
})

export const sourceReadTable = recordTable<SourceRead>("source_read", ["source", "agent"], {
  source: "value",
  goal: "value",
  agent: "value",
  revision: "value",
  turn: "value",
  readAt: "value"
})

export const sourceTables = `
CREATE TABLE source (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  name TEXT NOT NULL,
  revision INTEGER NOT NULL,
  digest TEXT NOT NULL,
  ref TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  tokens BIGINT,
  state TEXT NOT NULL CHECK (state IN ('readable', 'unreadable', 'retired')),
  reason TEXT,
  added_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX source_name ON source (goal, name);
CREATE INDEX source_unreadable ON source (goal) WHERE state = 'unreadable';
CREATE TABLE source_read (
  source TEXT NOT NULL REFERENCES source (id),
  goal TEXT NOT NULL REFERENCES goal (id),
  agent TEXT NOT NULL,
  revision INTEGER NOT NULL,
  turn TEXT,
  read_at BIGINT NOT NULL,
  PRIMARY KEY (source, agent)
);
ALTER TABLE todo ADD COLUMN required_reads TEXT NOT NULL DEFAULT '[]';
ALTER TABLE acceptance ADD COLUMN reads TEXT;
CREATE TABLE required_read (
  source TEXT NOT NULL REFERENCES source (id),
  todo TEXT NOT NULL REFERENCES todo (id),
  PRIMARY KEY (source, todo)
);
CREATE INDEX required_read_todo ON required_read (todo);
`

// --- rules -----------------------------------------------------------------------------------------------------------

/** A todo requires at most so many sources, so that a packet that names them all stays small. */
export const mostReads = 100
export const RequiredReads = Schema.Array(IdText).check(Schema.isMaxLength(mostReads))
export const ReadRevisions = Schema.Array(Schema.Struct({ source: IdText, revision: Schema.Int })).check(
  Schema.isMaxLength(mostReads)
)

const required = "EXISTS (SELECT 1 FROM required_read q WHERE q.source = source.id)"
const unread = "NOT EXISTS (SELECT 1 FROM source_read d WHERE d.source = source.id AND d.revision = source.revision)"

/** What of the sources keeps a goal open: the rows of `source` that satisfy these (G12). */
export const openSources = {
  unreadable: `state = 'unreadable' AND ${required}`,
  unread: `state = 'readable' AND ${required} AND ${unread}`
} as const

/** The sources of these ids, by id; ids that name none are absent. */
export function* loadSources(ids: readonly string[]): Load<ReadonlyMap<string, SourceRecord>> {
  const found = new Map<string, SourceRecord>()
  for (const id of ids) {
    const source = yield* sourceTable.first("id = ?", id)
    if (source !== undefined) found.set(id, source)
  }
  return found
}

/** The todos of a goal that require a source which cannot be read, each with those sources. */
export function* loadUnreadable(goal: string): Load<ReadonlyMap<string, readonly string[]>> {
  const found = yield {
    sql:
      "SELECT q.todo, q.source FROM source s JOIN required_read q ON q.source = s.id " +
      "WHERE s.goal = ? AND s.state = 'unreadable'",
    params: [goal]
  }
  const todos = new Map<string, string[]>()
  for (const row of found) {
    const todo = String(row["todo"])
    todos.set(todo, [...(todos.get(todo) ?? []), String(row["source"])].toSorted())
  }
  return todos
}

/** What the todo requires now: its sources without those that were retired, in the order in which it names them. */
export function* loadRequired(todo: TodoRecord | undefined): Load<readonly SourceRecord[]> {
  const found = yield* loadSources(todo?.requiredReads ?? [])
  return [...found.values()].filter((source) => source.state !== "retired")
}

/** What a todo to be made says of its required reads. */
interface Requiring {
  readonly requiredReads?: readonly string[] | undefined
}

/** The sources that todos to be made name. */
export const loadNamedReads = (todos: readonly Requiring[]): Load<ReadonlyMap<string, SourceRecord>> =>
  loadSources(todos.flatMap((todo) => todo.requiredReads ?? []))

/** Every required read must name a source of the goal. */
export const readsOfGoal = (
  goal: string,
  todos: readonly Requiring[],
  found: ReadonlyMap<string, SourceRecord>
): Result.Result<undefined, NotFound> => {
  const missing = todos.flatMap((todo) => todo.requiredReads ?? []).find((id) => found.get(id)?.goal !== goal)
  return missing === undefined ? Result.succeed(undefined) : Result.fail(notFound("source", missing))
}

/** What this agent has read of them, any revision. */
export function* loadReadBy(agent: string, sources: readonly SourceRecord[]): Load<readonly SourceRead[]> {
  const found: SourceRead[] = []
  for (const { id } of sources) {
    const read = yield* sourceReadTable.first("source = ? AND agent = ?", id, agent)
    if (read !== undefined) found.push(read)
  }
  return found
}

/** The sources when all of them can be read: nobody works under something that he cannot know. */
export const readableAll = (required: readonly SourceRecord[]): Result.Result<readonly SourceRecord[], SourceState> => {
  const dark = required.find((source) => source.state === "unreadable")
  return dark === undefined
    ? Result.succeed(required)
    : Result.fail(
        notState(dark, "Make it readable and call Sources.markReadable, or let its owner retire it; then admit again.")
      )
}

/** Each must be the newest revision of a source of the goal. */
export const newestReads = (
  goal: string,
  reads: readonly ReadRevision[],
  found: ReadonlyMap<string, SourceRecord>
): Result.Result<undefined, NotFound | RevisionConflict> =>
  Result.gen(function* () {
    for (const { source, revision } of reads) {
      const known = found.get(source)
      if (known?.goal !== goal) return yield* Result.fail(notFound("source", source))
      yield* atRevision(known, revision)
    }
    return undefined
  })

export const revisionsOf = (sources: readonly SourceRecord[]): readonly ReadRevision[] =>
  sources.map(({ id, revision }) => ({ source: id, revision }))

/** Which required revisions are not among these: what is not required any more makes nothing stale. */
export const missingReads = (
  required: readonly ReadRevision[],
  seen: readonly ReadRevision[]
): readonly ReadRevision[] =>
  required.filter(({ source, revision }) => !seen.some((s) => s.source === source && s.revision === revision))

/**
 * Which todos require which sources, beside the todos' own rows: a question about sources then reads no todo. It changes only
 * where a todo is added, edited or superseded; a superseded one requires nothing any more.
 */
export const projectRequired = (event: JournalEvent): readonly Statement[] => {
  const todo = event.data as unknown as TodoRecord
  const rows = (todo.requiredReads ?? []).map((source) => ({
    sql: "INSERT INTO required_read (source, todo) VALUES (?, ?) ON CONFLICT (source, todo) DO NOTHING",
    params: [source, todo.id]
  }))
  if (event.type === "todo.added") return rows
  const cleared = { sql: "DELETE FROM required_read WHERE todo = ?", params: [todo.id] }
  if (event.type === "todo.superseded") return [cleared]
  return event.type === "todo.edited" ? [cleared, ...rows] : []
}

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

const notState = (source: SourceRecord, remedy: string): SourceState =>
  new SourceState({
    message: `Source ${source.id} (${source.name}) is ${source.state}.`,
    remedy,
    source: source.id,
    state: source.state
  })

const inUse = (source: SourceRecord): Result.Result<SourceRecord, SourceState> =>
  source.state === "retired"
    ? Result.fail(notState(source, "That is final: register another source under another name."))
    : Result.succeed(source)

const changed = (happened: string, source: SourceRecord, change: Partial<SourceRecord>, { now }: DecideContext) => {
  const next: SourceRecord = { ...source, ...change, changedAt: now }
  return decided([fact(happened, source.id, next)], next)
}

const atRevision = (source: SourceRecord, expected: number) =>
  source.revision === expected
    ? Result.succeed(source)
    : Result.fail(
        new RevisionConflict({
          message: `Source ${source.id} is at revision ${source.revision}, not ${expected}.`,
          remedy: "Read the source again, and go on with what it says now.",
          id: source.id,
          expected,
          actual: source.revision
        })
      )

const ReviseSource = Schema.Struct({ source: IdText, revision: Schema.Int, ...content })

/** The same content is the same revision: only that it can be read is then said anew. */
const revise = handler({
  type: "reviseSource",
  payload: ReviseSource,
  load: (input) => sourceTable.first("id = ?", input.source),
  decide: (found, input, context) =>
    Result.gen(function* () {
      const source = yield* atRevision(yield* inUse(yield* known(found, input.source)), input.revision)
      const readable = { state: "readable", reason: null } as const
      if (source.digest === input.digest) {
        return source.state === "readable" ? decided([], source) : changed("source.readable", source, readable, context)
      }
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
    load: (input) => sourceTable.first("id = ?", input.source),
    decide: (found, input, context) =>
      Result.gen(function* () {
        const source = yield* known(found, input.source)
        if (source.state === state) return decided([], source)
        yield* inUse(source)
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
}

/** Needs no lease and no active goal: that something was read is so, whoever holds what. */
const recordRead = handler({
  type: "recordRead",
  payload: RecordRead,
  *load(input): Load<ReadState> {
    const source = yield* sourceTable.first("id = ?", input.source)
    if (source === undefined) return { source, goal: undefined, agent: undefined, before: undefined }
    return {
      source,
      goal: yield* loadGoal(source.goal),
      agent: yield* agentTable.first("goal = ? AND agent_id = ?", source.goal, input.agent),
      before: yield* sourceReadTable.first("source = ? AND agent = ?", source.id, input.agent)
    }
  },
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const source = yield* known(state.source, input.source)
      yield* knownAgent(state.agent, input.agent)
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
   * Errors: `IdentityConflict` (the name has another content: use `revise`), `NotPublic`, `NotFound` (goal).
   */
  register: writer<typeof RegisterSource.Type, SourceRecord, IdentityConflict | NotFound>("work", "registerSource"),
  /**
   * Records another content as the next revision, at the `revision` that was seen. Turns that were admitted under the older one
   * become stale (G86), packets after it are complete (G14). The same content again is no revision; either way it can be read.
   * Errors: `RevisionConflict` (read it again), `SourceState` (retired), `NotPublic`, `NotFound`.
   */
  revise: writer<typeof ReviseSource.Type, SourceRecord, RevisionConflict | Changing>("work", "reviseSource"),
  /** Says that a source cannot be read, and why: the goal cannot be completed while it is required (G12). Errors: `SourceState` (retired), `NotFound`. */
  markUnreadable: writer<typeof MarkSource.Type, SourceRecord, Changing>("work", "markUnreadable"),
  /** Says that its newest revision can be read again. Errors: `SourceState` (retired), `NotFound`. */
  markReadable: writer<typeof SourceId.Type, SourceRecord, Changing>("work", "markReadable"),
  /** Takes a source out of use for good, with a reason: nothing requires it any more. Errors: `NotFound`. */
  retire: writer<typeof MarkSource.Type, SourceRecord, Changing>("work", "retireSource"),
  /**
   * Records that an agent has read a revision. An older revision than one it has read changes nothing. With `digest` it is
   * checked that these were the bytes. Errors: `RevisionConflict` (there is no such revision yet), `SourceState` (it is said to be
   * unreadable), `InvalidInput` (other bytes), `NotFound` (source, agent).
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
