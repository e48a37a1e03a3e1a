/**
 * Explore: reads and writes of the graph of questions, hypotheses, findings and handoffs.
 * Promise: every write is one Authority command; every read says as of which journal sequence it holds; the graph links to
 * candidates by full identity and never merges with file history. Rules: E1, E2, E5, G7.
 */
import { reader, writer } from "../governance/Authority.ts"
import type { Load } from "../governance/Module.ts"
import type { Row } from "../sqlite/Database.ts"
import type {
  AddEdge,
  AddFinding,
  AddNode,
  AdoptHandoff,
  EdgeKind,
  ExploreNotFound,
  ExploreRefused,
  FindingStatus,
  HandoffMismatch,
  LinkCandidate,
  NodeKind,
  OfferHandoff,
  TakeHandoff
} from "./ExploreGraph.ts"

export interface GraphNode {
  readonly id: string
  readonly kind: NodeKind
  readonly title: string
  readonly text: string | null
  readonly agent: string | null
  readonly supersededBy: string | null
  readonly at: number
}
export interface GraphEdge {
  readonly id: string
  readonly kind: EdgeKind
  readonly from: string
  readonly to: string
}
export interface Finding {
  readonly id: string
  readonly node: string
  readonly status: FindingStatus
  readonly text: string
  readonly agent: string | null
  readonly evidence: readonly string[]
  readonly supersededBy: string | null
  readonly at: number
}
export interface CandidateLink {
  readonly node: string
  readonly identity: string
  readonly commit: string
}
export interface Handoff {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly identity: string
  readonly findings: readonly string[]
  /** The receiver computed the identity itself and it was equal. */
  readonly verified: boolean
  /** Verified, a finding used, and new work made of it. */
  readonly adopted: boolean
  readonly usedFindings: readonly string[]
  readonly resultIdentity: string | null
}

/** Everything of one goal, at one journal sequence. */
export interface Graph {
  readonly goal: string
  readonly nodes: readonly GraphNode[]
  readonly edges: readonly GraphEdge[]
  readonly findings: readonly Finding[]
  readonly candidates: readonly CandidateLink[]
  readonly handoffs: readonly Handoff[]
}

const text = (value: unknown): string | null => (value === null || value === undefined ? null : String(value))
const list = (value: unknown): string[] => (value === null || value === undefined ? [] : JSON.parse(String(value)))

const handoffOf = (row: Row): Handoff => ({
  id: String(row["id"]),
  from: String(row["sender"]),
  to: String(row["receiver"]),
  identity: String(row["identity"]),
  findings: list(row["findings"]),
  verified: Number(row["verified"]) === 1,
  adopted: Number(row["adopted"]) === 1,
  usedFindings: list(row["used"]),
  resultIdentity: text(row["result_identity"])
})

function* readGraph(input: { readonly goal: string }): Load<Graph> {
  const of = (table: string) => ({ sql: `SELECT * FROM ${table} WHERE goal = ? ORDER BY seq`, params: [input.goal] })
  const nodes = yield of("explore_node")
  const edges = yield of("explore_edge")
  const findings = yield of("explore_finding")
  const candidates = yield of("explore_candidate")
  const handoffs = yield of("explore_handoff")
  return {
    goal: input.goal,
    nodes: nodes.map((row) => ({
      id: String(row["id"]),
      kind: row["kind"] as NodeKind,
      title: String(row["title"]),
      text: text(row["text"]),
      agent: text(row["agent"]),
      supersededBy: text(row["superseded_by"]),
      at: Number(row["at"])
    })),
    edges: edges.map((row) => ({
      id: String(row["id"]),
      kind: row["kind"] as EdgeKind,
      from: String(row["source"]),
      to: String(row["target"])
    })),
    findings: findings.map((row) => ({
      id: String(row["id"]),
      node: String(row["node"]),
      status: row["status"] as FindingStatus,
      text: String(row["text"]),
      agent: text(row["agent"]),
      evidence: list(row["evidence"]),
      supersededBy: text(row["superseded_by"]),
      at: Number(row["at"])
    })),
    candidates: candidates.map((row) => ({
      node: String(row["node"]),
      identity: String(row["identity"]),
      commit: String(row["commit_id"])
    })),
    handoffs: handoffs.map(handoffOf)
  }
}

const write = <Input extends object, Reply extends object>(type: string) =>
  writer<Input, Reply, ExploreNotFound | ExploreRefused>("explore", type)

/** The explore service's calls. All fail with `ExploreNotFound` or `ExploreRefused`, and with the authority's write errors. */
export const Explore = {
  /** Adds a question, hypothesis, experiment, artifact or area; `supersedes` names the node it revises. */
  addNode: write<typeof AddNode.Type, { readonly id: string }>("addNode"),
  /** Links two nodes or findings of one goal. */
  addEdge: write<typeof AddEdge.Type, { readonly id: string }>("addEdge"),
  /** Records what was learned at a node. `confirmed` and `refuted` need evidence. */
  addFinding: write<typeof AddFinding.Type, { readonly id: string }>("addFinding"),
  /** Links a node to an immutable candidate by its full identity (W5). */
  linkCandidate: write<typeof LinkCandidate.Type, { readonly node: string }>("linkCandidate"),
  /** Offers a candidate and named findings to another agent. */
  offerHandoff: write<typeof OfferHandoff.Type, { readonly id: string }>("offerHandoff"),
  /** The receiver states the identity it computed from its own fork. Fails with `HandoffMismatch` when it differs. */
  takeHandoff: writer<
    typeof TakeHandoff.Type,
    { readonly handoff: string; readonly verified: boolean },
    ExploreNotFound | ExploreRefused | HandoffMismatch
  >("explore", "takeHandoff"),
  /** Records adoption: verified, at least one offered finding used, and a result that differs from what was handed over. */
  adoptHandoff: write<
    typeof AdoptHandoff.Type,
    { readonly handoff: string; readonly adopted: boolean; readonly usedFindings: readonly string[] }
  >("adoptHandoff"),
  /** The whole graph of a goal. */
  graph: reader(readGraph)
}

const label = (value: string): string => value.replace(/["\n\r<>[\]{}|]/g, " ").slice(0, 60)

/** The graph as a Mermaid flowchart (E1): nodes, findings and edges; candidates as short identities. */
export const toMermaid = (graph: Graph): string => {
  const names = new Map<string, string>()
  const name = (id: string) => names.get(id) ?? names.set(id, `n${names.size}`).get(id)!
  const lines = ["flowchart TD"]
  for (const node of graph.nodes) lines.push(`  ${name(node.id)}["${node.kind}: ${label(node.title)}"]`)
  for (const finding of graph.findings) {
    lines.push(`  ${name(finding.id)}(["${finding.status}: ${label(finding.text)}"])`)
    lines.push(`  ${name(finding.node)} --> ${name(finding.id)}`)
  }
  for (const link of graph.candidates) {
    lines.push(`  ${name(link.identity)}[("candidate ${link.identity.slice(7, 19)}")]`)
    lines.push(`  ${name(link.node)} -.-> ${name(link.identity)}`)
  }
  for (const edge of graph.edges) lines.push(`  ${name(edge.from)} -- ${edge.kind} --> ${name(edge.to)}`)
  return `${lines.join("\n")}\n`
}
