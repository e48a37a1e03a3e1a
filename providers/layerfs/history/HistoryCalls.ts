/**
 * The history calls of the provider, over the calls of the worker.
 * Promise: nothing is added but the shapes of the contract; a call whose fiber is interrupted ends in the worker too.
 * Rules: W3, L3, L7.
 */
import * as Effect from "effect/Effect"
import { fromInput, type PathInput, show, type TreePath } from "../../../src/base/PathBytes.ts"
import type { BlamePage, BranchInfo, CommitInfo, WorkspaceProvider } from "../../../src/workspace/WorkspaceProvider.ts"
import type { BranchRow, CommitRow } from "../RefStore.ts"
import type { Answer, BlameReply, Calls, FailureOf } from "../StoreCalls.ts"

type Call = <K extends keyof Calls>(
  name: K,
  input: Parameters<Calls[K]>[0]
) => Effect.Effect<Awaited<ReturnType<Calls[K]>>, FailureOf<K>>

export interface HistoryParts {
  readonly call: Call
  /** The same; cancelled when its fiber is interrupted. */
  readonly cancellable: Call
  readonly branchInfo: (row: BranchRow) => BranchInfo
  readonly now: () => number
}

export const commitInfo = (row: CommitRow): CommitInfo => ({
  id: row.id,
  project: row.project,
  parent: row.parent,
  secondParent: row.secondParent,
  root: row.root,
  message: row.message,
  at: row.at,
  operationId: row.operationId,
  actor: row.actor,
  live: row.live
})

/** Text of a line, and its bytes where they are no UTF-8. */
const lineText = (text: string): { readonly text: string; readonly textBytes?: string } => {
  const { path, pathBytes } = show(text)
  return pathBytes === undefined ? { text: path } : { text: path, textBytes: pathBytes }
}

const blamePage = ({ path, lines, commits, ...rest }: Answer<BlameReply>): BlamePage => ({
  ...rest,
  path: show(path),
  lines: lines.map(({ line, text, commit, path: there, originalLine }) => ({
    line,
    ...lineText(text),
    commit,
    original: { ...show(there), line: originalLine }
  })),
  commits: Object.fromEntries(commits.map((row) => [row.id, commitInfo(row)]))
})

const pathOf = (path: PathInput | undefined): TreePath | null => (path === undefined ? null : fromInput(path))

type HistoryService = Pick<WorkspaceProvider, "branches" | "log" | "diff" | "blame">

export const historyCalls = ({ call, cancellable, branchInfo }: HistoryParts): HistoryService => ({
  branches: (ref, { limit, after } = {}) =>
    Effect.suspend(() => call("branches", { ref, limit, after })).pipe(
      Effect.map(({ branches, next }) => ({ branches: branches.map(branchInfo), next }))
    ),
  log: (ref, { path, limit, after } = {}) =>
    Effect.suspend(() =>
      cancellable("log", { refs: typeof ref === "string" ? [ref] : ref, path: pathOf(path), limit, after })
    ).pipe(
      Effect.map(({ commits, next }) => ({ commits: commits.map(commitInfo), next })),
      Effect.withSpan("LayerFs.log")
    ),
  diff: (from, to, { path, limit, after } = {}) =>
    Effect.suspend(() => cancellable("diff", { from, to, path: pathOf(path), limit, after })).pipe(
      Effect.withSpan("LayerFs.diff")
    ),
  blame: (ref, path, { limit, after } = {}) =>
    Effect.suspend(() => cancellable("blame", { ref, path: fromInput(path), limit, after })).pipe(
      Effect.map(blamePage),
      Effect.withSpan("LayerFs.blame")
    )
})
