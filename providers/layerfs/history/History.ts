/**
 * What the answers of LayerFS about its history are read from: rows, trees and objects. Rules: L3.
 */
import type { TreePath } from "../../../src/base/PathBytes.ts"
import type { LogHistory } from "../../../src/workspace/kit/Log.ts"
import type { RefHistory } from "../../../src/workspace/kit/Question.ts"
import type { CommitRow } from "../../../src/workspace/kit/RefStore.ts"
import type { LayerRefs } from "../LayerRefs.ts"
import type { ObjectSource, StoredTrees } from "../StoredTrees.ts"
import { entryAt, sameEntry } from "./TreeAt.ts"

export interface History extends RefHistory {
  readonly refs: LayerRefs
  readonly trees: StoredTrees
  readonly reader: ObjectSource
}

const touches = (history: History, commit: CommitRow, path: TreePath): boolean => {
  const before = commit.parent === null ? undefined : history.refs.commit(commit.parent)
  if (before?.root === commit.root) return false
  return !sameEntry(
    before === undefined ? undefined : entryAt(history.trees, before.root, path),
    entryAt(history.trees, commit.root, path)
  )
}

export const logHistory = (history: History): LogHistory => ({
  refs: history.refs,
  cancelled: history.cancelled,
  touches: (commit, path) => touches(history, commit, path)
})
