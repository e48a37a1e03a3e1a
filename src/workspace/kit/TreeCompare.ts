/**
 * What differs between two trees of commits.
 * Promise: every changed path is told once, in byte order; times never differ. Rules: W3 (diff), W8, L3, L14.
 */
import { compare, show, type TreePath } from "../../base/PathBytes.ts"
import type { Change } from "../WorkspaceValues.ts"
import type { CommitTree, KeptEntry } from "./CommitTree.ts"

export interface Difference {
  readonly path: TreePath
  readonly kind: Change["kind"]
  readonly before: KeptEntry | null
  readonly after: KeptEntry | null
}

const sameContent = (a: KeptEntry, b: KeptEntry): boolean =>
  a.target === b.target && a.id === b.id && a.size === b.size && a.linkGroup === b.linkGroup

const pair = (before: KeptEntry | undefined, after: KeptEntry | undefined, path: TreePath): Difference | undefined => {
  if (before === undefined) return { path, kind: "added", before: null, after: after! }
  if (after === undefined) return { path, kind: "removed", before, after: null }
  if (before === after) return undefined
  if (before.type !== after.type) return { path, kind: "typeChanged", before, after }
  if (before.type !== "directory" && !sameContent(before, after)) return { path, kind: "modified", before, after }
  return before.mode === after.mode ? undefined : { path, kind: "modeChanged", before, after }
}

/** The differences one by one; the root itself is no path. */
export function* differences(from: CommitTree, to: CommitTree): Generator<Difference> {
  const [a, b] = [from.entries, to.entries]
  let i = 1
  let j = 1
  while (i < a.length || j < b.length) {
    const [x, y] = [a[i], b[j]]
    const order = x === undefined ? 1 : y === undefined ? -1 : compare(x.path, y.path)
    if (order <= 0) i += 1
    if (order >= 0) j += 1
    const found = pair(order <= 0 ? x : undefined, order >= 0 ? y : undefined, (order <= 0 ? x : y)!.path)
    if (found !== undefined) yield found
  }
}

/** True when the trees hold the same at the path, and below it. */
export const sameBelow = (from: CommitTree, to: CommitTree, path: TreePath): boolean => {
  for (const difference of differences(from, to)) {
    if (path === "" || difference.path === path || difference.path.startsWith(`${path}/`)) return false
  }
  return true
}

/** True when not even a time differs. */
export const sameTimes = (from: CommitTree, to: CommitTree): boolean =>
  from.entries.length === to.entries.length &&
  from.entries.every(
    (entry, index) => entry.path === to.entries[index]!.path && entry.mtimeNs === to.entries[index]!.mtimeNs
  )

const side = (entry: KeptEntry | null): Change["before"] =>
  entry === null ? null : { type: entry.type, mode: entry.mode, size: entry.type === "directory" ? 0 : entry.size }

/** A difference as callers see it. */
export const changeOf = (difference: Difference): Change => ({
  ...show(difference.path),
  kind: difference.kind,
  before: side(difference.before),
  after: side(difference.after)
})
