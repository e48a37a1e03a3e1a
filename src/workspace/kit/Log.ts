/**
 * The log: the commits that some refs grew from, newest first.
 * Promise: a commit comes after every commit that was made from it, also where a clock went back (see `dated`); a page costs what it
 * looks at, wherever in the history it stands; its cursor holds the commits that the first page began at and those that come next; where
 * the store has no more of a history, the page says so.
 * Rules: W3, L3.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import { refNotFound } from "./Refusals.ts"
import type { BranchRow, CommitRow, Parents } from "./RefStore.ts"
import type { Answer, LogQuestion, LogReply, Paged } from "./Questions.ts"
import { invalid, isText } from "./Invalid.ts"
import { commitOf, cursorAt, cursorFor, filterPath, type RefHistory, isTexts, limitOf } from "./Question.ts"
import { breathing } from "./Steps.ts"

/** Commits that one page looks at when a path leaves most of them out. */
const lookedAtMost = 5000

/** Refs of one question, and so the ids in its cursor. */
const refsAtMost = 1000

export interface LogHistory extends RefHistory {
  /** Whether the entry at the path, or anything below it, is another than in the first parent; of one that is not here nothing is known. */
  readonly touches: (commit: CommitRow, path: TreePath) => boolean | Promise<boolean>
}

interface At {
  readonly from: readonly string[]
  readonly open: readonly string[]
}
const isAt = (at: unknown): at is At =>
  typeof at === "object" &&
  at !== null &&
  isTexts((at as At).from) &&
  (at as At).from.length > 0 &&
  isTexts((at as At).open)

/** Commits whose turn comes next: each once, the last dated first. */
export class OpenCommits {
  readonly #open = new Map<string, CommitRow>()
  readonly #parentsOf: (commit: CommitRow) => Parents
  /** Commits that were taken and came without all of their parents. */
  readonly edges: string[] = []

  constructor(parentsOf: (commit: CommitRow) => Parents) {
    this.#parentsOf = parentsOf
  }

  add(commit: CommitRow): void {
    this.#open.set(commit.id, commit)
  }

  /** The next commit; its parents take its place. */
  take(): CommitRow | undefined {
    let next: CommitRow | undefined
    for (const commit of this.#open.values()) {
      if (next === undefined || commit.dated > next.dated || (commit.dated === next.dated && commit.id > next.id))
        next = commit
    }
    if (next === undefined) return undefined
    this.#open.delete(next.id)
    const { parents, beginsHere } = this.#parentsOf(next)
    for (const parent of parents) this.add(parent)
    if (beginsHere) this.edges.push(next.id)
    return next
  }

  ids(): string[] {
    return [...this.#open.keys()]
  }
}

/** Throws `RefNotFound`, `QueryInvalid`. */
export const readLog = async (history: LogHistory, input: LogQuestion): Promise<Answer<LogReply>> => {
  const limit = limitOf(input.limit, 1000)
  const { refs } = input
  if (refs.length === 0 || refs.length > refsAtMost || !refs.every(isText)) throw invalid("ref")
  // Refs are part of the question as they were asked; what they stood for is in the cursor.
  const question = { log: refs, path: input.path }
  const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isAt)
  const open = new OpenCommits((commit) => history.refs.parentsOf(commit))
  if (at === undefined) for (const ref of refs) open.add(commitOf(history, ref))
  else for (const id of at.open) open.add(commitOf(history, "", id))
  const from = at?.from ?? open.ids()
  const { project } = commitOf(history, "", from[0]!)
  const path = input.path === null ? null : filterPath(input.path, history.refs.project(project)?.source ?? null)
  const breathe = breathing(history.cancelled)
  const commits: CommitRow[] = []
  for (let looked = 0; commits.length < limit && looked < lookedAtMost; looked += 1) {
    const commit = open.take()
    if (commit === undefined) break
    if (path === null || (await history.touches(commit, path))) commits.push(commit)
    await breathe()
  }
  const rest = open.ids()
  return {
    commits,
    beginsHere: open.edges,
    next: rest.length === 0 ? null : cursorFor(history.refs, question, { from, open: rest })
  }
}

/** The branches of a ref's project. Throws `RefNotFound`, `QueryInvalid`. */
export const readBranches = (
  history: Pick<RefHistory, "refs">,
  input: Paged & { readonly ref: string }
): Answer<{ readonly branches: readonly BranchRow[] }> => {
  const limit = limitOf(input.limit, 1000)
  const isProject = input.ref.startsWith("prj_")
  if (isProject && history.refs.project(input.ref) === undefined) throw refNotFound(input.ref)
  const project = isProject ? input.ref : commitOf(history, input.ref).project
  const after = input.after === undefined ? "" : cursorAt(history.refs, { branches: project }, input.after, isText)
  const branches = history.refs.branches(project, after, limit)
  return {
    branches,
    next: branches.length < limit ? null : cursorFor(history.refs, { branches: project }, branches.at(-1)!.id)
  }
}
