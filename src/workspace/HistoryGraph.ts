/**
 * The history as a graph: commits in lanes, and reading what is drawn from any provider.
 * Promise: pure; each commit has one row, below every commit that was made from it; a lane holds one line of work until it joins the one it
 * came from; branches that begin at the same commit share nothing else; a commit whose parents are not in the store says so. Rules: W3, L3. Drawn by HistoryGraphText and HistoryGraphSvg.
 */
import * as Effect from "effect/Effect"
import type { CommitInfo } from "./WorkspaceValues.ts"
import type { QueryInvalid, RefNotFound } from "./WorkspaceError.ts"
import type { Ref, StoreError, WorkspaceProvider } from "./WorkspaceProvider.ts"

/** A line between two rows, from a lane of the upper one to a lane of the lower one. */
export interface GraphEdge {
  readonly from: number
  readonly to: number
}

export interface GraphRow {
  readonly commit: CommitInfo
  /** Names of the branches whose head it is. */
  readonly labels: readonly string[]
  readonly lane: number
  /** Other lanes that pass this row. */
  readonly passing: readonly number[]
  /** Lines to the next row, or out of the picture below the last one. */
  readonly edges: readonly GraphEdge[]
  /** The store has not all of its parents: no line leads to those. */
  readonly beginsHere: boolean
}

export interface HistoryGraph {
  readonly rows: readonly GraphRow[]
  /** How many lanes there are side by side at most. */
  readonly lanes: number
  /** Older commits follow that are not in it. */
  readonly more: boolean
}

/** Puts commits, newest first as `log` gives them, into lanes. `labels` names heads, by commit; `beginsHere` is that of the log. */
export const historyGraph = (
  commits: readonly CommitInfo[],
  labels: ReadonlyMap<string, readonly string[]> = new Map(),
  more = false,
  beginsHere: readonly string[] = []
): HistoryGraph => {
  const edgesOfStore = new Set(beginsHere)
  const shown = new Set(edgesOfStore.size === 0 ? [] : commits.map(({ id }) => id))
  /** What each lane leads to; null: free. */
  const lanes: (string | null)[] = []
  const free = (): number => {
    const at = lanes.indexOf(null)
    return at < 0 ? lanes.length : at
  }
  const laneOf = (id: string): number => {
    const at = lanes.indexOf(id)
    return at < 0 ? free() : at
  }
  let widest = 0
  const rows = commits.map((commit, index): GraphRow => {
    const lane = laneOf(commit.id)
    // Every line that leads here has ended above.
    for (const [at, target] of lanes.entries()) if (target === commit.id) lanes[at] = null
    const passing = lanes.flatMap((target, at) => (target === null ? [] : [at]))
    const begins = edgesOfStore.has(commit.id)
    const parents = [commit.parent, commit.secondParent]
      .filter((id) => id !== null)
      .filter((id) => !begins || shown.has(id))
    const begun: GraphEdge[] = []
    for (const [place, parent] of parents.entries()) {
      // The first parent goes on below the commit, the other one where it is wanted already or in a lane of its own.
      const to = place === 0 ? lane : laneOf(parent)
      lanes[to] = parent
      begun.push({ from: lane, to })
    }
    widest = Math.max(widest, lanes.length, lane + 1)
    const next = commits[index + 1]
    const target = next === undefined ? -1 : laneOf(next.id)
    const arrives = (at: number): number => (next !== undefined && lanes[at] === next.id ? target : at)
    const edges = new Map<string, GraphEdge>()
    for (const edge of [...passing.map((at) => ({ from: at, to: at })), ...begun]) {
      const bent = { from: edge.from, to: arrives(edge.to) }
      edges.set(`${bent.from} ${bent.to}`, bent)
    }
    return {
      commit,
      labels: labels.get(commit.id) ?? [],
      lane,
      passing,
      edges: [...edges.values()],
      beginsHere: begins
    }
  })
  return { rows, lanes: widest, more }
}

/** Branches of a project that are looked at. */
const branchesAtMost = 1000

export interface GraphOptions {
  /** How many commits; 200 when absent. */
  readonly limit?: number
  /** Only the history of the ref itself, instead of that of every branch of its project. */
  readonly only?: boolean
}

/** The graph of a project: of all its branches (the first 1,000), or of one ref. */
export const readHistoryGraph = (
  provider: Pick<WorkspaceProvider, "branches" | "log">,
  ref: Ref,
  { limit = 200, only = false }: GraphOptions = {}
): Effect.Effect<HistoryGraph, RefNotFound | QueryInvalid | StoreError> =>
  Effect.gen(function* () {
    const { branches } = yield* provider.branches(ref, { limit: branchesAtMost })
    const labels = new Map<string, string[]>()
    for (const { name, head } of branches) labels.set(head, [...(labels.get(head) ?? []), name])
    const heads = only ? [] : [...labels.keys()]
    const refs = ref.startsWith("prj_") ? heads : [...new Set([ref, ...heads])].slice(0, branchesAtMost)
    if (refs.length === 0) return historyGraph([])
    const { commits, next, beginsHere } = yield* provider.log(refs, { limit })
    return historyGraph(commits, labels, next !== null, beginsHere)
  })

/** What is told where the store has no more of a history. */
export const beginsHereText = "the history of this store begins here"

/** What is told of a commit beside its place: who made it, in one line. */
export const actorText = ({ actor: { call, agent, goal } }: CommitInfo): string =>
  [agent, call, goal].filter((part) => part !== undefined && part !== "").join(" ")

/** One line of text that cannot move a cursor, turn the writing direction or end a document: such characters become `?`. */
export const plainLine = (text: string): string =>
  (text.split(/\r?\n/u, 1)[0] ?? "").replaceAll(
    /[\p{Cc}\p{Cs}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/gu,
    "?"
  )
