/**
 * Merges a state into a branch, by the backend's own means.
 * Promise: one commit with two parents, or every conflict and nothing else; what the branch has already is no merge. Rules: W10, K2, GW2.
 */
import { newId } from "../../base/Id.ts"
import { MoveRefused } from "../WorkspaceError.ts"
import type { MergeOptions, MergeOutcome } from "../WorkspaceValues.ts"
import { leftBehind } from "./Moves.ts"
import { headMoved } from "./Refusals.ts"
import type { CommitRow } from "./RefStore.ts"
import type { SnapshotCheckpoints } from "./SnapshotCheckpoints.ts"
import type { CallScope, SnapshotStore } from "./SnapshotStore.ts"

interface MergeRequest {
  readonly from: string
  readonly into: string
  readonly options: MergeOptions
  readonly at: number
}

const unrelated = (branch: string): MoveRefused =>
  new MoveRefused({
    message: "The two states did not grow from one commit.",
    remedy: "Merge states of one import. Nothing was changed.",
    reason: "notInHistory",
    branch
  })

/** The newest commit that both grew from, and whether `theirs` has any that `ours` lacks. */
const baseOf = async (store: SnapshotStore, ours: CommitRow, theirs: CommitRow, scope: CallScope) => {
  const history = { refs: store.refs, cancelled: () => scope.signal.aborted }
  let isAhead = false
  for await (const { commit, kind } of leftBehind(history, theirs, ours)) {
    if (kind === "left") isAhead = true
    if (kind === "shared") return { base: commit, isAhead }
  }
  return { base: undefined, isAhead }
}

/** Rejects with `RefNotFound`, `HeadMoved`, `MoveRefused` and what the backend's merge rejects with. */
export const mergeKept = async (
  store: SnapshotStore,
  checkpoints: SnapshotCheckpoints,
  request: MergeRequest,
  scope: CallScope
): Promise<MergeOutcome> => {
  const { options, at } = request
  const operationId = options.operationId ?? newId("operation")
  const repeated = checkpoints.answered(operationId, request.into)
  const branch = store.branch(request.into)
  const theirs = store.resolve(request.from)
  if (repeated !== undefined && repeated.outcome === "committed") {
    const commit = store.resolve(repeated.commit)
    const { base } = await baseOf(store, store.resolve(commit.parent!), theirs, scope)
    const { root, changedPaths, durability } = repeated
    return { outcome: "merged", commit: commit.id, root, operationId, base: base?.id ?? "", changedPaths, durability }
  }
  const { expectedHead = branch.head } = options
  if (branch.head !== expectedHead) throw headMoved(branch.id, expectedHead, branch.head)
  const ours = store.resolve(branch.head)
  if (theirs.project !== ours.project) throw unrelated(branch.id)
  const { base, isAhead } = await baseOf(store, ours, theirs, scope)
  if (base === undefined) throw unrelated(branch.id)
  if (!isAhead) return { outcome: "unchanged", commit: ours.id, root: ours.root }
  const snapshotOf = (commit: CommitRow) => ({ project: commit.project, commit: commit.id })
  const merged = await store.backend.merge!({
    base: snapshotOf(base),
    ours: snapshotOf(ours),
    theirs: snapshotOf(theirs),
    trees: {
      base: await store.treeOf(base.id),
      ours: await store.treeOf(ours.id),
      theirs: await store.treeOf(theirs.id)
    },
    signal: scope.signal
  })
  if (merged.kind === "conflict") {
    return { outcome: "conflict", base: base.id, ours: ours.id, theirs: theirs.id, conflicts: merged.conflicts }
  }
  try {
    const { changes } = merged
    const common = { outcome: "merged", operationId, base: base.id, durability: store.durability } as const
    if (options.dryRun === true) return { ...common, commit: null, root: null, changedPaths: changes.length }
    const commit = {
      branch: branch.id,
      expectedHead,
      message: options.message ?? `Merge ${theirs.id}`,
      operationId,
      actor: options.actor ?? {},
      keepTimes: false,
      live: false,
      at
    }
    const outcome = await checkpoints.mergeChanges(commit, { ours, theirs, changes }, scope)
    const { root, changedPaths } = outcome
    return { ...common, commit: outcome.commit, root, changedPaths }
  } finally {
    await merged.done()
  }
}
