/**
 * The explore graph: why the work went where it went. Nodes and typed edges, findings, candidates linked to nodes, handoffs.
 * Promise: append-only (a revision supersedes, nothing is rewritten); a handoff counts as adopted only after the receiver
 * verified the exact candidate, used a finding it was given and made new work. Rules: E1, E2, E5; written by Authority only (G1).
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { Json } from "../base/Digest.ts"
import type { AuthorityModule, Command, Decision, Load } from "../governance/Module.ts"
import type { Row } from "../sqlite/Database.ts"
import { migrations, project } from "./ExploreTables.ts"

// --- model -----------------------------------------------------------------------------------------------------------

export const NodeKind = Schema.Literals(["question", "hypothesis", "experiment", "artifact", "area"])
export type NodeKind = typeof NodeKind.Type

export const EdgeKind = Schema.Literals(["supports", "refutes", "answers", "dependsOn", "leadsTo", "subtopicOf"])
export type EdgeKind = typeof EdgeKind.Type

export const FindingStatus = Schema.Literals(["tentative", "confirmed", "refuted"])
export type FindingStatus = typeof FindingStatus.Type

/** Texts are bounded: a graph is an index of reasons, not a store of transcripts (G6). */
const BoundedText = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(2000))
const Title = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))
const Id = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(100))
/** A candidate's full identity digest (W5), never a branch name. */
const Identity = Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/))

export const AddNode = Schema.Struct({
  goal: Id,
  kind: NodeKind,
  title: Title,
  text: Schema.optionalKey(BoundedText),
  agent: Schema.NullOr(Id),
  /** The node that this one revises; the older stays readable. */
  supersedes: Schema.optionalKey(Id)
})
export const AddEdge = Schema.Struct({ goal: Id, kind: EdgeKind, from: Id, to: Id, agent: Schema.NullOr(Id) })
export const AddFinding = Schema.Struct({
  goal: Id,
  node: Id,
  status: FindingStatus,
  text: BoundedText,
  agent: Schema.NullOr(Id),
  /** Evidence ids; a finding without evidence may only be tentative. */
  evidence: Schema.Array(Id),
  supersedes: Schema.optionalKey(Id)
})
export const LinkCandidate = Schema.Struct({ goal: Id, node: Id, identity: Identity, commit: Id })
export const OfferHandoff = Schema.Struct({
  goal: Id,
  from: Id,
  to: Id,
  /** A candidate that is linked in this goal's graph. */
  identity: Identity,
  findings: Schema.Array(Id).check(Schema.isMinLength(1))
})
/** The receiver states the identity that it computed itself from what it forked. */
export const TakeHandoff = Schema.Struct({ handoff: Id, agent: Id, observedIdentity: Identity })
export const AdoptHandoff = Schema.Struct({
  handoff: Id,
  agent: Id,
  usedFindings: Schema.Array(Id),
  /** What the receiver made of it: a candidate linked in this goal's graph, and not the one that it was handed. */
  resultIdentity: Identity
})

// --- errors ----------------------------------------------------------------------------------------------------------

/** The goal, or a node, finding, candidate, piece of evidence or handoff that the command names in it, does not exist. */
export class ExploreNotFound extends Schema.TaggedError<ExploreNotFound>()("ExploreNotFound", {
  ...errorFields("EXPLORE_NOT_FOUND"),
  id: Schema.String
}) {}

/** The command is malformed, or breaks a rule of the graph. */
export class ExploreRefused extends Schema.TaggedError<ExploreRefused>()("ExploreRefused", {
  ...errorFields("EXPLORE_REFUSED"),
  reason: Schema.Literals([
    "malformed",
    "evidenceMissing",
    "selfEdge",
    "superseded",
    "notReceiver",
    "notVerified",
    "findingNotUsed",
    "noNewWork",
    "alreadyAdopted",
    "otherCommit",
    "unknownCommand"
  ])
}) {}

/** What the receiver forked is not what was handed over. Nothing was adopted. */
export class HandoffMismatch extends Schema.TaggedError<HandoffMismatch>()("HandoffMismatch", {
  ...errorFields("HANDOFF_MISMATCH"),
  expected: Schema.String,
  observed: Schema.String
}) {}

export type ExploreError = ExploreNotFound | ExploreRefused | HandoffMismatch

const refused = (reason: ExploreRefused["reason"], message: string, remedy: string) =>
  Result.fail(new ExploreRefused({ reason, message, remedy }))
const notFound = (id: string) =>
  Result.fail(
    new ExploreNotFound({
      id,
      message: `This goal has nothing with the id ${id}.`,
      remedy: "Read the graph again; candidates are linked and evidence is recorded before they are named."
    })
  )

// --- state: just the rows that a command names ------------------------------------------------------------------------

interface State {
  readonly rows: ReadonlyMap<
    string,
    { readonly kind: "node" | "finding"; readonly goal: string; readonly superseded: boolean }
  >
  readonly handoff: Row | undefined
  /** The first goal, candidate or piece of evidence that is named and does not exist. */
  readonly missing: string | undefined
  /** The commit under which the candidate of a link is known already. */
  readonly commit: string | undefined
}

const strings = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : typeof value === "string" ? [value] : []

const referenced = (command: Command): readonly string[] => {
  const p = command.payload as Record<string, unknown>
  const ends = command.type === "addEdge" ? [p["from"], p["to"]] : []
  return [p["supersedes"], ...ends, p["node"], p["findings"]].flatMap(strings)
}

/** What the command names outside the graph's own nodes and findings, and does not exist. */
function* findMissing(command: Command, goal: string | undefined): Load<string | undefined> {
  const p = command.payload as Record<string, unknown>
  if (goal === undefined) return undefined
  if ((yield { sql: "SELECT id FROM goal WHERE id = ?", params: [goal] }).length === 0) return goal
  for (const id of strings(p["evidence"])) {
    const found = yield { sql: "SELECT id FROM evidence WHERE id = ? AND goal = ?", params: [id, goal] }
    if (found.length === 0) return id
  }
  const candidates = [command.type === "offerHandoff" ? p["identity"] : undefined, p["resultIdentity"]].flatMap(strings)
  for (const identity of candidates) {
    const sql = "SELECT identity FROM explore_candidate WHERE identity = ? AND goal = ? LIMIT 1"
    if ((yield { sql, params: [identity, goal] }).length === 0) return identity
  }
  return undefined
}

function* knownCommit(command: Command): Load<string | undefined> {
  const { identity } = command.payload as Record<string, unknown>
  if (command.type !== "linkCandidate" || typeof identity !== "string") return undefined
  const known = yield {
    sql: "SELECT commit_id FROM explore_candidate WHERE identity = ? LIMIT 1",
    params: [identity]
  }
  return known[0] === undefined ? undefined : String(known[0]["commit_id"])
}

function* load(command: Command): Load<State> {
  const rows = new Map<string, { kind: "node" | "finding"; goal: string; superseded: boolean }>()
  for (const id of referenced(command)) {
    const nodes = yield { sql: "SELECT goal, superseded_by FROM explore_node WHERE id = ?", params: [id] }
    const findings = yield { sql: "SELECT goal, superseded_by FROM explore_finding WHERE id = ?", params: [id] }
    const row = nodes[0] ?? findings[0]
    if (row === undefined) continue
    rows.set(id, {
      kind: nodes[0] === undefined ? "finding" : "node",
      goal: String(row["goal"]),
      superseded: row["superseded_by"] !== null
    })
  }
  const wanted = (command.payload as Record<string, unknown>)["handoff"]
  const handoffs =
    typeof wanted === "string" ? yield { sql: "SELECT * FROM explore_handoff WHERE id = ?", params: [wanted] } : []
  const goal = strings((command.payload as Record<string, unknown>)["goal"])[0] ?? strings(handoffs[0]?.["goal"])[0]
  const missing = yield* findMissing(command, goal)
  return { rows, handoff: handoffs[0], missing, commit: yield* knownCommit(command) }
}

// --- decisions -------------------------------------------------------------------------------------------------------

type Decided = Result.Result<Decision, ExploreError>
type NewId = (kind: "node" | "edge" | "finding" | "handoff") => string

const one = (type: string, entity: string, data: Json, reply: Json): Decided =>
  Result.succeed({ events: [{ type, entity, data }], reply })

const decideNode = (state: State, p: typeof AddNode.Type, newId: NewId): Decided => {
  if (p.supersedes !== undefined) {
    const old = state.rows.get(p.supersedes)
    if (old?.kind !== "node" || old.goal !== p.goal) return notFound(p.supersedes)
    if (old.superseded) return refused("superseded", "That node was revised already.", "Revise its newest revision.")
  }
  const id = newId("node")
  return one("explore.nodeAdded", id, { id, ...p }, { id })
}

const decideEdge = (state: State, p: typeof AddEdge.Type, newId: NewId): Decided => {
  if (p.from === p.to) return refused("selfEdge", "An edge needs two different ends.", "Name two nodes or findings.")
  for (const end of [p.from, p.to]) if (state.rows.get(end)?.goal !== p.goal) return notFound(end)
  const id = newId("edge")
  return one("explore.edgeAdded", id, { id, ...p }, { id })
}

const decideFinding = (state: State, p: typeof AddFinding.Type, newId: NewId): Decided => {
  const node = state.rows.get(p.node)
  if (node?.kind !== "node" || node.goal !== p.goal) return notFound(p.node)
  if (p.status !== "tentative" && p.evidence.length === 0) {
    return refused(
      "evidenceMissing",
      `A ${p.status} finding needs evidence.`,
      "Record evidence first, or call it tentative."
    )
  }
  if (p.supersedes !== undefined) {
    const old = state.rows.get(p.supersedes)
    if (old?.kind !== "finding" || old.goal !== p.goal) return notFound(p.supersedes)
    if (old.superseded) return refused("superseded", "That finding was revised already.", "Revise its newest revision.")
  }
  const id = newId("finding")
  return one("explore.findingAdded", id, { id, ...p }, { id })
}

const decideOffer = (state: State, p: typeof OfferHandoff.Type, newId: NewId): Decided => {
  for (const id of p.findings) {
    const row = state.rows.get(id)
    if (row?.kind !== "finding" || row.goal !== p.goal) return notFound(id)
  }
  const id = newId("handoff")
  return one("explore.handoffOffered", id, { id, ...p }, { id })
}

const decideTake = (state: State, p: typeof TakeHandoff.Type): Decided => {
  if (state.handoff === undefined) return notFound(p.handoff)
  if (state.handoff["receiver"] !== p.agent) {
    return refused("notReceiver", "This handoff was offered to another agent.", "Take one that was offered to you.")
  }
  const expected = String(state.handoff["identity"])
  if (expected !== p.observedIdentity) {
    return Result.fail(
      new HandoffMismatch({
        message: "The state that was forked is not the candidate that was handed over.",
        remedy: "Fork the candidate's commit again, by its id and not by a branch name, and verify it.",
        expected,
        observed: p.observedIdentity
      })
    )
  }
  return one(
    "explore.handoffVerified",
    p.handoff,
    { handoff: p.handoff, agent: p.agent },
    { handoff: p.handoff, verified: true }
  )
}

const decideAdopt = (state: State, p: typeof AdoptHandoff.Type): Decided => {
  const row = state.handoff
  if (row === undefined) return notFound(p.handoff)
  if (row["receiver"] !== p.agent) {
    return refused("notReceiver", "This handoff was offered to another agent.", "Only its receiver may adopt it.")
  }
  if (Number(row["verified"]) !== 1) {
    return refused("notVerified", "The candidate was not verified by its receiver.", "Take the handoff first.")
  }
  if (Number(row["adopted"]) === 1) return refused("alreadyAdopted", "This handoff was adopted already.", "Read it.")
  const offered = JSON.parse(String(row["findings"])) as string[]
  const used = p.usedFindings.filter((id) => offered.includes(id))
  if (used.length === 0) {
    return refused("findingNotUsed", "The receiver used none of the findings.", "A copied state alone is not adoption.")
  }
  if (p.resultIdentity === row["identity"]) {
    return refused(
      "noNewWork",
      "The receiver made nothing new.",
      "A fork alone is not adoption: do the next piece of work."
    )
  }
  if (state.missing !== undefined) return notFound(state.missing)
  return one(
    "explore.handoffAdopted",
    p.handoff,
    { handoff: p.handoff, usedFindings: used, resultIdentity: p.resultIdentity },
    { handoff: p.handoff, adopted: true, usedFindings: used }
  )
}

const schemas = {
  addNode: AddNode,
  addEdge: AddEdge,
  addFinding: AddFinding,
  linkCandidate: LinkCandidate,
  offerHandoff: OfferHandoff,
  takeHandoff: TakeHandoff,
  adoptHandoff: AdoptHandoff
} as const

const decide: AuthorityModule<State>["decide"] = (state, command, context) => {
  const schema = (schemas as Record<string, Schema.Decoder<unknown>>)[command.type]
  if (schema === undefined) {
    return refused("unknownCommand", `The explore module has no command ${command.type}.`, "See ExploreGraph.ts.")
  }
  const decoded = Schema.decodeUnknownResult(schema, { onExcessProperty: "error" })(command.payload)
  if (Result.isFailure(decoded)) {
    return refused(
      "malformed",
      `The payload of ${command.type} is malformed: ${String(decoded.failure)}`.slice(0, 500),
      "Correct the payload."
    )
  }
  const p: any = decoded.success
  if (state.missing !== undefined && command.type !== "adoptHandoff") return notFound(state.missing)
  switch (command.type) {
    case "addNode":
      return decideNode(state, p, context.newId)
    case "addEdge":
      return decideEdge(state, p, context.newId)
    case "addFinding":
      return decideFinding(state, p, context.newId)
    case "linkCandidate": {
      const node = state.rows.get(p.node)
      if (node?.kind !== "node" || node.goal !== p.goal) return notFound(p.node)
      if (state.commit !== undefined && state.commit !== p.commit) {
        return refused(
          "otherCommit",
          `That candidate is known as commit ${state.commit}.`,
          "Link the identity that was computed for this commit: an identity names exactly one."
        )
      }
      return one("explore.candidateLinked", p.node, p, { node: p.node, identity: p.identity })
    }
    case "offerHandoff":
      return decideOffer(state, p, context.newId)
    case "takeHandoff":
      return decideTake(state, p)
    default:
      return decideAdopt(state, p)
  }
}

// --- module ----------------------------------------------------------------------------------------------------------

/** The explore room's part of the authority file, beside the work module. Activated only by a preset that offers explore. */
export const exploreModule: AuthorityModule<State> = {
  name: "explore",
  version: 1,
  migrations,
  load,
  decide,
  project
}
