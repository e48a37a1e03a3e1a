/**
 * The history calls of the provider, over the calls of the worker.
 * Promise: nothing is added but the shapes of the contract; a call whose fiber is interrupted ends in the worker too.
 * Rules: W3, L3, L7.
 */
import * as Effect from "effect/Effect"
import { fromInput, type PathInput, show, type TreePath } from "../../../src/base/PathBytes.ts"
import { newId } from "../../../src/base/Id.ts"
import type { BlamePage, BranchInfo, MoveOptions, WorkspaceProvider } from "../../../src/workspace/WorkspaceProvider.ts"
import type { BranchRow } from "../../../src/workspace/kit/RefStore.ts"
import { commitInfo, movedHead } from "../../../src/workspace/kit/Shown.ts"
import type { StoreCaller } from "../StoreCaller.ts"
import type { BlameReply } from "../StoreCalls.ts"
import type { Answer } from "../../../src/workspace/kit/Questions.ts"

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

type HistoryService = Pick<
  WorkspaceProvider,
  "branches" | "log" | "diff" | "blame" | "globAt" | "grepAt" | "rewind" | "reset" | "undo" | "undoLog"
>

export const historyCalls = (
  { call, cancellable }: StoreCaller,
  branchInfo: (row: BranchRow) => BranchInfo,
  now: () => number
): HistoryService => {
  const moveOf = (branch: string, { expectedHead, reason = "", actor = {}, operationId }: MoveOptions) => ({
    branch,
    expectedHead,
    reason,
    actor,
    operationId: operationId ?? newId("operation"),
    at: now()
  })
  return {
    branches: (ref, { limit, after } = {}) =>
      Effect.suspend(() => call("branches", { ref, limit, after })).pipe(
        Effect.map(({ branches, next }) => ({ branches: branches.map(branchInfo), next }))
      ),
    log: (ref, { path, limit, after } = {}) =>
      Effect.suspend(() =>
        cancellable("log", { refs: typeof ref === "string" ? [ref] : ref, path: pathOf(path), limit, after })
      ).pipe(
        Effect.map(({ commits, ...rest }) => ({ commits: commits.map(commitInfo), ...rest })),
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
      ),
    globAt: (ref, pattern, { limit, after } = {}) =>
      cancellable("glob", { ref, pattern, limit, after }).pipe(Effect.withSpan("LayerFs.globAt")),
    grepAt: (ref, pattern, { path = "", glob, limit, after } = {}) =>
      Effect.suspend(() =>
        cancellable("grep", { ref, pattern, path: fromInput(path), glob: glob ?? null, limit, after })
      ).pipe(Effect.withSpan("LayerFs.grepAt")),
    rewind: (branch, { to, name = "rewind", operationId }) =>
      call("rewind", { branch, to, name, operationId }).pipe(Effect.map(branchInfo)),
    reset: (branch, options) =>
      Effect.suspend(() => call("moveHead", { ...moveOf(branch, options), to: options.to })).pipe(
        Effect.map(movedHead),
        Effect.withSpan("LayerFs.reset")
      ),
    undo: (branch, options) =>
      Effect.suspend(() => call("moveHead", { ...moveOf(branch, options), undo: options.number ?? null })).pipe(
        Effect.map(movedHead),
        Effect.withSpan("LayerFs.undo")
      ),
    undoLog: (branch, { limit, after } = {}) => call("undoLog", { branch, limit, after })
  }
}
