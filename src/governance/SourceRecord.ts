/**
 * The records of sources and of their reads: what has to be read before work counts, each with its revision.
 * Promise: a revision is a digest and a reference that never change; what an open or finished todo requires stays part of the
 * frontier until its newest revision was read. Rules: G12, G14, G86. The commands are in Source.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { IdText } from "./Field.ts"
import { type NotFound, notFound, RevisionConflict, SourceState } from "./GovernanceError.ts"
import { recordTable } from "./Handler.ts"
import type { JournalEvent, Load, Statement } from "./Module.ts"
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

export const notState = (source: SourceRecord, remedy: string): SourceState =>
  new SourceState({
    message: `Source ${source.id} (${source.name}) is ${source.state}.`,
    remedy,
    source: source.id,
    state: source.state
  })

/** The sources when all of them can be read: nobody works under something that he cannot know. */
export const readableAll = (required: readonly SourceRecord[]): Result.Result<readonly SourceRecord[], SourceState> => {
  const dark = required.find((source) => source.state === "unreadable")
  return dark === undefined
    ? Result.succeed(required)
    : Result.fail(
        notState(dark, "Make it readable and call Sources.markReadable, or let its owner retire it; then admit again.")
      )
}

export const atRevision = (source: SourceRecord, expected: number) =>
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
