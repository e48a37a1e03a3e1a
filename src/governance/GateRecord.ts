/**
 * The record of a gate: a question that stops some actions of some agents until it is answered, and the answers to it.
 * Promise: pure readings of the record. What a gate does not name goes on; the latest decision that covers an action holds; a
 * decision that was used up or has lapsed leaves the question open. Rules: G40, G41; C66. The commands are in Gate.ts.
 */
import * as Result from "effect/Result"
import { digestJson, type Json } from "../base/Digest.ts"
import { Gated } from "./GovernanceError.ts"
import { fact, recordTable, row } from "./Handler.ts"
import type { JournalEvent, Load, Statement } from "./Module.ts"
import type { TodoRecord } from "./TodoRecord.ts"
import { scopesOverlap } from "./WriteScope.ts"

// --- model -----------------------------------------------------------------------------------------------------------

export const gateKinds = ["userDecision", "capability", "writeBoundary"] as const
export type GateKind = (typeof gateKinds)[number]

/**
 * What a gate can stop. `claim`: a lease is granted. `dispatch`: a turn is admitted or its host started. `settle`: work is
 * accepted; a settlement that only says what something cost is never stopped. `complete`: a todo is done. `effect`: an external
 * effect is dispatched.
 */
export const gateActions = ["claim", "dispatch", "settle", "complete", "effect"] as const
export type GateAction = (typeof gateActions)[number]

/** What a gate stops when it does not say: whatever would start something. What runs may end. */
export const startingActions: readonly GateAction[] = ["claim", "dispatch", "effect"]

export const capabilityClasses = [
  "network",
  "bridge",
  "tool",
  "runtime",
  "storage",
  "credential",
  "productionAccess"
] as const
export type CapabilityClass = (typeof capabilityClasses)[number]

/** A capability that is missing here. */
export interface Need {
  readonly class: CapabilityClass
  readonly name: string
}

/** Who is to move: `owner` is asked; `repair` is work that whoever runs this machine or its agents does by themselves. */
export type Lane = "owner" | "repair"

/** G41: what is missing locally is repaired; only credentials and access to production ask the owner. */
export const laneOf = (kind: GateKind, need: Need | null): Lane =>
  kind === "capability" && need !== null && need.class !== "credential" && need.class !== "productionAccess"
    ? "repair"
    : "owner"

/** How far a decision goes. `once`: one holding of one todo (or one effect), whichever acts first. `until` ends strictly at `at`. */
export type Reach =
  | { readonly kind: "once" }
  | { readonly kind: "todo"; readonly todo: string }
  | { readonly kind: "scope" }
  | { readonly kind: "until"; readonly at: number }

export interface Actor {
  readonly role: "person" | "agent"
  readonly name: string
}

export interface GateDecision {
  readonly allow: boolean
  readonly answer: string
  readonly reason: string
  readonly by: Actor
  readonly reach: Reach
  readonly decidedAt: number
  /** Which occasion used a decision of reach `once`. */
  readonly usedBy: string | null
}

/** What a gate is about: null says all. */
export interface GateScope {
  readonly agents: readonly string[] | null
  readonly actions: readonly GateAction[]
  readonly todos: readonly string[] | null
  /** Only work that claims to write here. */
  readonly writeScopes: readonly string[] | null
}

/** A gate as it is kept and journaled. */
export interface GateRecord extends GateScope {
  readonly id: string
  readonly goal: string
  readonly kind: GateKind
  readonly lane: Lane
  readonly question: string
  readonly need: Need | null
  readonly choices: readonly string[] | null
  readonly askedBy: string | null
  /** Digest of kind, question, need and scope: the same question has the same. */
  readonly digest: string
  /** Oldest first; the latest that covers an action holds. */
  readonly decisions: readonly GateDecision[]
  /** As of the last change; see `stateAt`. */
  readonly state: "open" | "decided" | "withdrawn"
  /** When a decided gate is open again by time alone. */
  readonly lapsesAt: number | null
  /** False once nothing can be stopped by it any more, so that it costs later commands nothing. */
  readonly mayStop: boolean
  readonly withdrawn: { readonly by: Actor; readonly reason: string } | null
  readonly openedAt: number
  readonly changedAt: number
}

export const gateTable = recordTable<GateRecord>("gate", ["id"], {
  id: "value",
  goal: "value",
  kind: "value",
  lane: "value",
  question: "value",
  need: "json",
  choices: "json",
  askedBy: "value",
  agents: "json",
  actions: "json",
  todos: "json",
  writeScopes: "json",
  digest: "value",
  decisions: "json",
  state: "value",
  lapsesAt: "value",
  mayStop: "flag",
  withdrawn: "json",
  openedAt: "value",
  changedAt: "value"
})

export const gateTables = `
CREATE TABLE gate (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  kind TEXT NOT NULL CHECK (kind IN ('userDecision', 'capability', 'writeBoundary')),
  lane TEXT NOT NULL CHECK (lane IN ('owner', 'repair')),
  question TEXT NOT NULL,
  need TEXT,
  choices TEXT,
  asked_by TEXT,
  agents TEXT,
  actions TEXT NOT NULL,
  todos TEXT,
  write_scopes TEXT,
  digest TEXT NOT NULL,
  decisions TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'decided', 'withdrawn')),
  lapses_at BIGINT,
  may_stop INTEGER NOT NULL,
  withdrawn TEXT,
  opened_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL
);
CREATE INDEX gate_goal ON gate (goal, opened_at, id);
CREATE INDEX gate_stops ON gate (goal, opened_at, id, state, lapses_at) WHERE may_stop = 1;
CREATE INDEX gate_everywhere ON gate (goal, may_stop, opened_at, id) WHERE todos IS NULL;
CREATE TABLE gate_todo (
  todo TEXT NOT NULL REFERENCES todo (id),
  gate TEXT NOT NULL REFERENCES gate (id),
  PRIMARY KEY (todo, gate)
);
CREATE INDEX gate_todo_gate ON gate_todo (gate);
CREATE INDEX gate_lapse ON gate (lapses_at) WHERE lapses_at IS NOT NULL;
CREATE UNIQUE INDEX gate_question ON gate (goal, digest) WHERE state <> 'withdrawn';
`

// --- reading the record ----------------------------------------------------------------------------------------------

const inOrder = (values: readonly string[] | null): readonly string[] | null =>
  values === null ? null : [...new Set(values)].toSorted()

/** What makes two questions the same one. */
export const questionDigest = (gate: Pick<GateRecord, "kind" | "question" | "need"> & GateScope): string =>
  digestJson({
    kind: gate.kind,
    question: gate.question.trim().replaceAll(/\s+/g, " "),
    need: gate.need,
    agents: inOrder(gate.agents),
    actions: inOrder(gate.actions),
    todos: inOrder(gate.todos),
    writeScopes: inOrder(gate.writeScopes)
  } as unknown as Json)

/** Whether a decision speaks for the whole scope at this time. */
const coversAll = ({ reach, usedBy }: GateDecision, now: number): boolean =>
  reach.kind === "scope" || (reach.kind === "until" && now < reach.at) || (reach.kind === "once" && usedBy === null)

/** A gate is open while some part of its scope has no standing decision. */
export const stateAt = (gate: Pick<GateRecord, "state" | "decisions" | "todos">, now: number): GateRecord["state"] => {
  if (gate.state === "withdrawn") return "withdrawn"
  if (gate.decisions.some((decision) => coversAll(decision, now))) return "decided"
  const named = new Set(gate.decisions.map(({ reach }) => (reach.kind === "todo" ? reach.todo : null)))
  return gate.todos?.every((todo) => named.has(todo)) === true ? "decided" : "open"
}

/** The record with what follows from its decisions. */
export const withDecisions = (gate: GateRecord, decisions: readonly GateDecision[], now: number): GateRecord => {
  const state = stateAt({ ...gate, decisions }, now)
  const ends = decisions.flatMap(({ reach }) => (reach.kind === "until" ? [reach.at] : []))
  const later = Math.max(now, ...ends)
  const lapses = state === "decided" && stateAt({ ...gate, decisions }, later) === "open"
  const named = new Set(decisions.map(({ reach }) => (reach.kind === "todo" ? reach.todo : null)))
  const always =
    decisions.some(({ reach }) => reach.kind === "scope") || gate.todos?.every((todo) => named.has(todo)) === true
  return {
    ...gate,
    decisions,
    state,
    lapsesAt: lapses ? later : null,
    mayStop: !(always && decisions.every(({ allow }) => allow)),
    changedAt: now
  }
}

/** How many used decisions a record keeps beside those whose holder still acts under them. */
const mostUsed = 20

/** How many decisions a gate holds: each of its facts carries all of them. */
export const mostDecisions = 100

/**
 * The decisions with a further one, without those that it replaces or that can never hold again. `live` are the occasions
 * that go on: a decision that was used by one of them is kept, or its holder would be stopped midway.
 */
export const decidedAnew = (
  decisions: readonly GateDecision[],
  next: GateDecision,
  live: ReadonlySet<string>,
  now: number
): readonly GateDecision[] => {
  const { reach } = next
  if (reach.kind === "scope") return [next]
  const kept = decisions.filter(({ reach: old, usedBy }) => {
    if (old.kind === "until") return now < old.at && !(reach.kind === "until" && old.at <= reach.at)
    if (old.kind === "todo") return !(reach.kind === "todo" && old.todo === reach.todo)
    return !(old.kind === "once" && usedBy === null && reach.kind === "once")
  })
  const used = kept.filter(({ usedBy }) => usedBy !== null && !live.has(usedBy))
  const dropped = new Set(used.slice(0, Math.max(0, used.length - mostUsed)))
  return [...kept.filter((decision) => !dropped.has(decision)), next]
}

// --- asking it -------------------------------------------------------------------------------------------------------

/** What somebody is about to do. */
export interface Use {
  /** Null: not said. Whoever does not say who it is, is held to every gate. */
  readonly agent: string | null
  readonly action: GateAction
  readonly todo: Pick<TodoRecord, "id" | "writeScopes"> | null
  /** What a decision of reach `once` is used by: see `occasionOf`. */
  readonly occasion: string
}

/** One holding of one todo: what is done under one grant of its lease is one occasion. */
export const occasionOf = (todo: string, epoch: number): string => `${todo}/${epoch}`

/** Whether the gate is about this. A todo that claims to write nowhere crosses no write boundary. */
export const concerns = (gate: GateRecord, { agent, action, todo }: Use): boolean =>
  gate.actions.includes(action) &&
  (gate.agents === null || agent === null || gate.agents.includes(agent)) &&
  (gate.todos === null || (todo !== null && gate.todos.includes(todo.id))) &&
  (gate.writeScopes === null ||
    (todo !== null && gate.writeScopes.some((ours) => todo.writeScopes.some((theirs) => scopesOverlap(ours, theirs)))))

/** The decision that holds for this, the latest one that covers it; undefined while the question is open. */
export const standing = (gate: GateRecord, { todo, occasion }: Use, now: number): GateDecision | undefined =>
  gate.decisions.findLast(
    (decision) =>
      coversAll(decision, now) ||
      (decision.reach.kind === "todo" && decision.reach.todo === todo?.id) ||
      (decision.reach.kind === "once" && decision.usedBy === occasion)
  )

/** The gates that stop this. */
export const stopping = (gates: readonly GateRecord[], use: Use, now: number): readonly GateRecord[] =>
  gates.filter((gate) => concerns(gate, use) && standing(gate, use, now)?.allow !== true)

/** Whether the gate stops every new grant that it concerns, of whatever todo: no decision that still reaches one allows it. */
export const stopsAll = (gate: GateRecord, now: number): boolean => {
  const refused = gate.decisions.findLastIndex((decision) => !decision.allow && coversAll(decision, now))
  return !gate.decisions
    .slice(refused + 1)
    .some((decision) => decision.allow && (coversAll(decision, now) || decision.reach.kind === "todo"))
}

const nextStep = (gates: readonly GateRecord[], refused: boolean): string =>
  refused
    ? "The decision that is named stands: do other work (Todos.nextWork), or let a person decide anew with Gates.decide."
    : gates.every(({ lane }) => lane === "repair")
      ? "Repair what is missing here, and say so with Gates.decide: it is no question to the owner. Other work goes on (Todos.nextWork)."
      : "Wait until a person decides with Gates.decide. Other work and other agents go on (Todos.nextWork)."

const gated = (goal: string, gates: readonly GateRecord[], use: Use, now: number): Gated => {
  const found = gates.map((gate) => {
    const decision = standing(gate, use, now)
    return {
      gate: gate.id,
      kind: gate.kind,
      lane: gate.lane,
      question: gate.question,
      standing: decision === undefined ? ("open" as const) : ("refused" as const),
      answer: decision?.answer ?? null,
      by: decision?.by.name ?? null
    }
  })
  const refused = found.some((one) => one.standing === "refused")
  return new Gated({
    message: `${use.action} is stopped by ${gates.map(({ id }) => id).join(", ")}: ${found[0]!.question}`.slice(0, 600),
    remedy: nextStep(gates, refused),
    goal,
    agent: use.agent,
    action: use.action,
    todo: use.todo?.id ?? null,
    gates: found
  })
}

/** Passes every gate, or names those that stop it. The facts say which decisions of reach `once` were used up by it. */
export const passGates = (
  goal: string,
  gates: readonly GateRecord[],
  use: Use,
  now: number
): Result.Result<readonly JournalEvent[], Gated> => {
  const stopped = stopping(gates, use, now)
  if (stopped.length > 0) return Result.fail(gated(goal, stopped, use, now))
  return Result.succeed(
    gates.flatMap((gate) => {
      const decision = concerns(gate, use) ? standing(gate, use, now) : undefined
      if (decision?.reach.kind !== "once" || decision.usedBy !== null) return []
      const decisions = gate.decisions.map((one) => (one === decision ? { ...one, usedBy: use.occasion } : one))
      return [fact("gate.used", gate.id, withDecisions(gate, decisions, now))]
    })
  )
}

// --- finding them ----------------------------------------------------------------------------------------------------

/** How many gates that may stop something a goal has about all of its work, and about one todo: each command reads them. */
export const mostGates = { everywhere: 500, todo: 100 } as const

const byAge = (a: GateRecord, b: GateRecord): number =>
  a.openedAt !== b.openedAt ? a.openedAt - b.openedAt : a.id < b.id ? -1 : 1

/** The gates about all work of a goal that may stop something, oldest first. */
export const loadEverywhere = (goal: string): Load<readonly GateRecord[]> =>
  gateTable.find("goal = ? AND may_stop = 1 AND todos IS NULL ORDER BY opened_at, id", goal)

/** The gates that name this todo and may stop something, oldest first. */
export function* loadNaming(todo: string): Load<readonly GateRecord[]> {
  const found = yield* gateTable.find("id IN (SELECT gate FROM gate_todo WHERE todo = ?) AND may_stop = 1", todo)
  return found.toSorted(byAge)
}

/** The gates that may stop something of this todo, or of what belongs to none, oldest first. */
export function* loadGates(goal: string, todo: string | null): Load<readonly GateRecord[]> {
  const everywhere = yield* loadEverywhere(goal)
  return todo === null ? everywhere : [...everywhere, ...(yield* loadNaming(todo))].toSorted(byAge)
}

/** How many of the questions that are answered for good an executor is told of: the newest. */
const mostAnswered = 100

/** The gates that the executor of a todo may meet: those that may stop something, and the newest that were answered for good. */
export function* loadQuestions(goal: string, todo: string): Load<readonly GateRecord[]> {
  const newest = `may_stop = 0 AND state = 'decided' ORDER BY opened_at DESC, id DESC LIMIT ${mostAnswered}`
  return [
    ...(yield* loadGates(goal, todo)),
    ...(yield* gateTable.find(`goal = ? AND todos IS NULL AND ${newest}`, goal)),
    ...(yield* gateTable.find(`id IN (SELECT gate FROM gate_todo WHERE todo = ?) AND ${newest}`, todo))
  ]
}

/** How many gates that may stop something there are about all work of a goal, or about one todo. */
export function* countGates(goal: string, todo: string | null): Load<number> {
  const found =
    todo === null
      ? yield* row("SELECT COUNT(*) AS n FROM gate WHERE goal = ? AND may_stop = 1 AND todos IS NULL", goal)
      : yield* row(
          "SELECT COUNT(*) AS n FROM gate WHERE id IN (SELECT gate FROM gate_todo WHERE todo = ?) AND may_stop = 1",
          todo
        )
  return Number(found!["n"])
}

/**
 * The record of a gate, and the unfinished todos that it names. A gate that names todos can stop nothing once none of them is
 * left: its column says so, whatever the record said.
 */
export const projectGate = (event: JournalEvent): readonly Statement[] => {
  const gate = event.data as unknown as GateRecord
  const put = gateTable.put(gate)
  if (gate.todos === null) return [put]
  if (gate.state === "withdrawn") return [put, { sql: "DELETE FROM gate_todo WHERE gate = ?", params: [gate.id] }]
  const named = {
    sql:
      "INSERT INTO gate_todo (todo, gate) SELECT id, ? FROM todo WHERE state IN ('open', 'deferred') " +
      `AND id IN (${gate.todos.map(() => "?").join(", ")}) ON CONFLICT (todo, gate) DO NOTHING`,
    params: [gate.id, ...gate.todos]
  }
  return [
    put,
    ...(event.type === "gate.opened" ? [named] : []),
    {
      sql: "UPDATE gate SET may_stop = 0 WHERE id = ? AND NOT EXISTS (SELECT 1 FROM gate_todo n WHERE n.gate = gate.id)",
      params: [gate.id]
    }
  ]
}

/** What the end of a todo changes of the gates that name it. */
export const projectGated = (event: JournalEvent): readonly Statement[] => {
  if (event.type !== "todo.completed" && event.type !== "todo.superseded") return []
  const todo = event.entity
  return [
    {
      sql:
        "UPDATE gate SET may_stop = 0 WHERE id IN (SELECT gate FROM gate_todo WHERE todo = ?) " +
        "AND NOT EXISTS (SELECT 1 FROM gate_todo n WHERE n.gate = gate.id AND n.todo <> ?)",
      params: [todo, todo]
    },
    { sql: "DELETE FROM gate_todo WHERE todo = ?", params: [todo] }
  ]
}

/** Whether a decision ended after `from`, at the latest at `to`: no earlier clock brings it back (G36). */
export function* gateLapsed(from: number, to: number): Load<boolean> {
  const found = yield* row(
    "SELECT 1 FROM gate WHERE lapses_at IS NOT NULL AND lapses_at > ? AND lapses_at <= ? LIMIT 1",
    from,
    to
  )
  return found !== undefined
}

/** Below a completed goal nothing is asked any more: whatever lapses there stops nothing. */
const openNow =
  "goal = ? AND may_stop = 1 AND (state = 'open' OR (state = 'decided' AND lapses_at <= ?)) " +
  "AND EXISTS (SELECT 1 FROM goal g WHERE g.id = gate.goal AND g.state <> 'completed')"

/** How many questions of the goal are open, and the oldest of them. */
export function* loadOpenGates(
  goal: string,
  now: number,
  limit: number
): Load<{ readonly count: number; readonly items: readonly GateRecord[] }> {
  const count = Number((yield* row(`SELECT COUNT(*) AS n FROM gate WHERE ${openNow}`, goal, now))!["n"])
  return { count, items: yield* gateTable.find(`${openNow} ORDER BY opened_at, id LIMIT ${limit}`, goal, now) }
}
