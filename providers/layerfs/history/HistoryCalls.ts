/**
 * The history calls of the provider, over the calls of the worker.
 * Promise: nothing is added but the shapes of the contract; a call whose fiber is interrupted ends in the worker too.
 * Rules: W3, L3, L7.
 */
import * as Effect from "effect/Effect"
import { fromInput } from "../../../src/base/PathBytes.ts"
import type { BranchInfo, CommitInfo, WorkspaceProvider } from "../../../src/workspace/WorkspaceProvider.ts"
import type { BranchRow, CommitRow } from "../RefStore.ts"
import type { Calls, FailureOf } from "../StoreCalls.ts"

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

export const historyCalls = ({
  call,
  cancellable,
  branchInfo
}: HistoryParts): Pick<WorkspaceProvider, "branches" | "log"> => ({
  branches: (ref, options = {}) =>
    Effect.suspend(() => call("branches", { ref, limit: options.limit, after: options.after })).pipe(
      Effect.map(({ branches, next }) => ({ branches: branches.map(branchInfo), next }))
    ),
  log: (ref, options = {}) =>
    Effect.suspend(() =>
      cancellable("log", {
        refs: typeof ref === "string" ? [ref] : ref,
        path: options.path === undefined ? null : fromInput(options.path),
        limit: options.limit,
        after: options.after
      })
    ).pipe(
      Effect.map(({ commits, next }) => ({ commits: commits.map(commitInfo), next })),
      Effect.withSpan("LayerFs.log")
    )
})
