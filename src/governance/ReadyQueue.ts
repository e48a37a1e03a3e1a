/**
 * The ready queue: which todos could be given now, found by index however many cannot.
 * Promise: columns that only propose. Facts keep them, so a rebuilt projection has the same ones; what they propose is still
 * judged by the records, and what they do not propose is counted with its reason. Rules: G20, G22, G33, G34.
 *
 * `unmet` counts the dependencies that are not done. `not_before` is the time before which a lease or a deferral withholds the
 * todo; null when neither does. So work that waits for time, for other work or for another agent costs the search nothing.
 */
import type { AgentRecord } from "./Goal.ts"
import { row, rows } from "./Handler.ts"
import { type LeaseRecord, leaseTable } from "./Lease.ts"
import type { JournalEvent, Load, Statement } from "./Module.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"

/** Beyond every time: deferred until somebody reopens it. */
const never = Number.MAX_SAFE_INTEGER

const unfinished = "state IN ('open', 'deferred')"
const ready = `${unfinished} AND unmet = 0 AND not_before IS NULL`

/**
 * A list of ids is stored as JSON text; ids of todos have 41 characters, so the n-th begins at a known place: the step for
 * stores that were written before needs no JSON function, which SQLite and PostgreSQL do not share.
 */
export const readyQueueTables = `
ALTER TABLE todo ADD COLUMN unmet INTEGER NOT NULL DEFAULT 0;
ALTER TABLE todo ADD COLUMN not_before INTEGER;
CREATE TABLE todo_dependency (
  todo TEXT NOT NULL REFERENCES todo (id),
  depends_on TEXT NOT NULL REFERENCES todo (id),
  PRIMARY KEY (todo, depends_on)
);
CREATE INDEX todo_dependents ON todo_dependency (depends_on, todo);
INSERT INTO todo_dependency (todo, depends_on)
  WITH RECURSIVE part (todo, rest) AS (
    SELECT id, substr(depends_on, 3) FROM todo WHERE depends_on <> '[]'
    UNION ALL
    SELECT todo, substr(rest, 45) FROM part WHERE length(rest) > 44
  )
  SELECT DISTINCT todo, substr(rest, 1, 41) FROM part;
UPDATE todo SET
  unmet = (SELECT COUNT(*) FROM todo_dependency d JOIN todo n ON n.id = d.depends_on
           WHERE d.todo = todo.id AND n.state <> 'done'),
  not_before = CASE WHEN state = 'deferred' THEN COALESCE(deferred_until, ${never})
                    ELSE (SELECT l.expires_at FROM lease l WHERE l.todo = todo.id AND l.released_at IS NULL) END
  WHERE ${unfinished};
CREATE INDEX todo_ready ON todo (goal, capabilities, excluded_agents, priority DESC, added_at, id) WHERE ${ready};
CREATE INDEX todo_timed ON todo (goal, not_before) WHERE ${unfinished} AND not_before IS NOT NULL;
CREATE INDEX todo_withheld ON todo (goal, capabilities, excluded_agents, state, unmet, not_before) WHERE ${unfinished};
`

// --- keeping it ------------------------------------------------------------------------------------------------------

const recount =
  "UPDATE todo SET unmet = (SELECT COUNT(*) FROM todo_dependency d JOIN todo n ON n.id = d.depends_on " +
  "WHERE d.todo = todo.id AND n.state <> 'done') WHERE id = ?"

/** The record of a todo, and what its fact changes in the queue. */
export const projectTodo = (event: JournalEvent): readonly Statement[] => {
  const todo = event.data as unknown as TodoRecord
  const depends = todo.dependsOn.map((other) => ({
    sql: "INSERT INTO todo_dependency (todo, depends_on) VALUES (?, ?) ON CONFLICT (todo, depends_on) DO NOTHING",
    params: [todo.id, other]
  }))
  switch (event.type) {
    case "todo.added":
      return [todoTable.put(todo), ...depends, ...(depends.length > 0 ? [{ sql: recount, params: [todo.id] }] : [])]
    case "todo.edited":
      return [
        todoTable.put(todo),
        { sql: "DELETE FROM todo_dependency WHERE todo = ?", params: [todo.id] },
        ...depends,
        { sql: recount, params: [todo.id] }
      ]
    case "todo.deferred":
    case "todo.reopened":
      return [
        todoTable.put(todo),
        {
          sql: "UPDATE todo SET not_before = ? WHERE id = ?",
          params: [todo.state === "deferred" ? (todo.deferredUntil ?? never) : null, todo.id]
        }
      ]
    case "todo.completed":
      return [
        todoTable.put(todo),
        {
          sql: "UPDATE todo SET unmet = unmet - 1 WHERE id IN (SELECT todo FROM todo_dependency WHERE depends_on = ?)",
          params: [todo.id]
        }
      ]
    default:
      return [todoTable.put(todo)]
  }
}

/** How many todos whose time has come one grant puts back into the queue: a bound on what one commit does. */
const mostReturned = 200

/**
 * The record of a lease, and what its fact changes in the queue. A grant also returns todos of the goal whose time has come: no
 * later decision has an earlier time (G36), so what has lapsed stays so.
 */
export const projectLease = (event: JournalEvent, { at }: { readonly at: number }): readonly Statement[] => {
  const lease = event.data as unknown as LeaseRecord
  const put = leaseTable.put(lease)
  if (lease.releasedAt !== null) {
    return [
      put,
      {
        sql: `UPDATE todo SET not_before = CASE WHEN state = 'deferred' THEN COALESCE(deferred_until, ${never}) END WHERE id = ?`,
        params: [lease.todo]
      }
    ]
  }
  return [
    put,
    { sql: "UPDATE todo SET not_before = ? WHERE id = ?", params: [lease.expiresAt, lease.todo] },
    {
      sql: `UPDATE todo SET not_before = NULL WHERE id IN (SELECT id FROM todo WHERE goal = ? AND ${unfinished} AND not_before IS NOT NULL AND not_before <= ? ORDER BY not_before LIMIT ${mostReturned})`,
      params: [lease.goal, at]
    }
  ]
}

// --- asking it -------------------------------------------------------------------------------------------------------

/** Todos that depend on this one. */
export const loadDependents = (todo: string): Load<readonly TodoRecord[]> =>
  todoTable.find(`id IN (SELECT todo FROM todo_dependency WHERE depends_on = ?) AND ${unfinished} ORDER BY id`, todo)

/** What todos ask of an agent, as it is stored: an index of the queue begins with it. */
interface Demand {
  readonly capabilities: string
  readonly excluded: string
}

const meets = (agent: AgentRecord, { capabilities, excluded }: Demand): boolean =>
  !(JSON.parse(excluded) as string[]).includes(agent.agentId) &&
  (JSON.parse(capabilities) as string[]).every((capability) => agent.capabilities.includes(capability))

const demandOf = (found: { readonly [column: string]: unknown }): Demand => ({
  capabilities: String(found["capabilities"]),
  excluded: String(found["excluded_agents"])
})

/** Each demand of ready todos once: two steps in the index for each, however many todos share it. */
function* loadDemands(goal: string): Load<readonly Demand[]> {
  const demands: Demand[] = []
  const after = (where: string, ...params: readonly string[]) =>
    row(
      `SELECT capabilities, excluded_agents FROM todo WHERE goal = ? AND ${ready} AND ${where} ` +
        // The whole order of `todo_ready`, so that no other index will do.
        "ORDER BY capabilities, excluded_agents, priority DESC, added_at, id LIMIT 1",
      goal,
      ...params
    )
  for (let last: Demand = { capabilities: "", excluded: "" }; ; ) {
    const found =
      (yield* after("capabilities = ? AND excluded_agents > ?", last.capabilities, last.excluded)) ??
      (yield* after("capabilities > ?", last.capabilities))
    if (found === undefined) return demands
    last = demandOf(found)
    demands.push(last)
  }
}

/** An ordered list of todos of the queue, read a page at a time; pages grow, so a long way costs few statements. */
interface Lane {
  readonly where: string
  readonly params: readonly string[] | readonly [string, number]
  readonly offset: number
  readonly page: number
  /** Read and not yet proposed. */
  readonly next: readonly TodoRecord[]
  readonly ended: boolean
}

export type ReadyQueue = readonly Lane[]

const lane = (where: string, params: Lane["params"]): Lane => ({
  where,
  params,
  offset: 0,
  page: 1,
  next: [],
  ended: false
})

/** The queue of a goal for an agent: one lane for each demand that the agent meets, and one for what time has returned. */
export function* loadReadyQueue(goal: string, agent: AgentRecord, now: number): Load<ReadyQueue> {
  const demands = (yield* loadDemands(goal)).filter((demand) => meets(agent, demand))
  return [
    ...demands.map(({ capabilities, excluded }) =>
      lane(`goal = ? AND ${ready} AND capabilities = ? AND excluded_agents = ?`, [goal, capabilities, excluded])
    ),
    lane(`goal = ? AND ${unfinished} AND not_before IS NOT NULL AND not_before <= ? AND unmet = 0`, [goal, now])
  ]
}

const largestPage = 4096

function* filled(one: Lane): Load<Lane> {
  if (one.next.length > 0 || one.ended) return one
  const next = yield* todoTable.find(
    `${one.where} ORDER BY priority DESC, added_at, id LIMIT ${one.page} OFFSET ?`,
    ...one.params,
    one.offset
  )
  return {
    ...one,
    next,
    ended: next.length < one.page,
    offset: one.offset + next.length,
    page: Math.min(one.page * 8, largestPage)
  }
}

/** Higher priority first, then older. */
export const goesBefore = (a: TodoRecord, b: TodoRecord): boolean =>
  a.priority !== b.priority ? a.priority > b.priority : a.addedAt !== b.addedAt ? a.addedAt < b.addedAt : a.id < b.id

/** The best todo that the queue still has, and the queue after it. */
export function* nextReady(
  queue: ReadyQueue
): Load<{ readonly todo: TodoRecord | undefined; readonly queue: ReadyQueue }> {
  const lanes: Lane[] = []
  for (const one of queue) lanes.push(yield* filled(one))
  const best = lanes.reduce<Lane | undefined>((found, one) => {
    const [first] = one.next
    if (first === undefined) return found
    return found === undefined || goesBefore(first, found.next[0]!) ? one : found
  }, undefined)
  return {
    todo: best?.next[0],
    queue: lanes.map((one) => (one === best ? { ...one, next: one.next.slice(1) } : one))
  }
}

/** When the first lease or deferral of unfinished work ends; null: none does by time alone. */
export function* loadMovesAt(goal: string, now: number): Load<number | null> {
  const found = yield* row(
    `SELECT MIN(not_before) AS at FROM todo WHERE goal = ? AND ${unfinished} AND not_before IS NOT NULL AND not_before > ?`,
    goal,
    now
  )
  const at = found?.["at"] ?? null
  return at === null || Number(at) === never ? null : Number(at)
}

/** Unfinished todos that the agent cannot be given whoever writes where, each under its first reason, and all unfinished ones. */
export interface Unavailable {
  readonly unfinished: number
  readonly leased: number
  readonly deferred: number
  readonly blocked: number
  readonly excluded: number
  readonly capability: number
}

/** One walk through an index, without a row of the table. */
export function* loadUnavailable(goal: string, agent: AgentRecord, now: number): Load<Unavailable> {
  const counts = { unfinished: 0, leased: 0, deferred: 0, blocked: 0, excluded: 0, capability: 0 }
  const found = yield* rows(
    "SELECT capabilities, excluded_agents, COUNT(*) AS n, " +
      "SUM(CASE WHEN state = 'open' AND not_before > ? THEN 1 ELSE 0 END) AS leased, " +
      "SUM(CASE WHEN state = 'deferred' AND not_before > ? THEN 1 ELSE 0 END) AS deferred, " +
      "SUM(CASE WHEN unmet > 0 AND (not_before IS NULL OR not_before <= ?) THEN 1 ELSE 0 END) AS blocked " +
      `FROM todo WHERE goal = ? AND ${unfinished} GROUP BY capabilities, excluded_agents`,
    now,
    now,
    now,
    goal
  )
  for (const one of found) {
    const demand = demandOf(one)
    const [n, leased, deferred, blocked] = [one["n"], one["leased"], one["deferred"], one["blocked"]].map(Number) as [
      number,
      number,
      number,
      number
    ]
    counts.unfinished += n
    counts.leased += leased
    counts.deferred += deferred
    counts.blocked += blocked
    const free = n - leased - deferred - blocked
    if ((JSON.parse(demand.excluded) as string[]).includes(agent.agentId)) counts.excluded += free
    else if (!meets(agent, demand)) counts.capability += free
  }
  return counts
}
