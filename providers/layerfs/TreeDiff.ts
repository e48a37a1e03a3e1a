/**
 * What differs between two roots.
 * Promise: equal subtrees are skipped by their id, so the cost follows the change and not the tree; every changed path is
 * told once, in byte order of the paths, and the telling can begin behind any path. Rules: W3 (diff), L3, L14.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import type { Change } from "../../src/workspace/WorkspaceProvider.ts"
import { entryAt } from "./history/TreeAt.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import type { StoredEntry } from "./TreeCodec.ts"

export interface TreeDifference {
  readonly path: TreePath
  readonly kind: Change["kind"]
  readonly before: StoredEntry | null
  readonly after: StoredEntry | null
}

export interface DiffBounds {
  /** Only what comes behind this path in byte order. */
  readonly behind?: TreePath | undefined
  /** Only this path and what comes behind it. */
  readonly from?: TreePath | undefined
  /** Only this path and what lies below it. */
  readonly below?: TreePath | undefined
}

const modeOf = (entry: StoredEntry): number => (entry.type === "symlink" ? 0 : entry.mode)

const sameContent = (a: StoredEntry, b: StoredEntry): boolean => {
  if (a.type === "symlink" || b.type === "symlink") {
    return a.type === "symlink" && b.type === "symlink" && a.target === b.target
  }
  if (a.type === "file" && b.type === "file") return a.id === b.id && a.size === b.size && a.linkGroup === b.linkGroup
  return a.type === "directory" && b.type === "directory"
}

/** How the entry itself differs; what lies below a directory is told on its own. */
const differs = (
  before: StoredEntry | undefined,
  after: StoredEntry | undefined,
  path: TreePath
): TreeDifference | undefined => {
  if (before === undefined) return after && { path, kind: "added", before: null, after }
  if (after === undefined) return { path, kind: "removed", before, after: null }
  if (before.type !== after.type) return { path, kind: "typeChanged", before, after }
  if (!sameContent(before, after)) return { path, kind: "modified", before, after }
  return modeOf(before) === modeOf(after) ? undefined : { path, kind: "modeChanged", before, after }
}

const directoryOf = (entry: StoredEntry | undefined): Digest | undefined =>
  entry?.type === "directory" ? entry.id : undefined

/** The differences one by one, in byte order of the paths. From no root at all, every entry of the other is new. */
export function* walkDiff(
  trees: StoredTrees,
  from: Digest | undefined,
  to: Digest,
  { behind, from: first, below = "" }: DiffBounds = {}
): Generator<TreeDifference> {
  const start = first ?? behind
  const isTold = (path: TreePath): boolean => start === undefined || path > start || path === first
  /** Everything below this directory comes before the place where the telling begins. */
  const isPassed = (path: TreePath): boolean =>
    start !== undefined && `${path}/` <= start && !start.startsWith(`${path}/`)

  function* pair(before: StoredEntry | undefined, after: StoredEntry | undefined, path: TreePath) {
    const found = differs(before, after, path)
    if (found !== undefined && isTold(path)) yield found
  }

  function* directories(a: Digest | undefined, b: Digest | undefined, path: TreePath): Generator<TreeDifference> {
    if (a === b) return
    const [before, after] =
      a === undefined || b === undefined
        ? [a === undefined ? [] : trees.tree(a).entries, b === undefined ? [] : trees.tree(b).entries]
        : trees.unequal(a, b)
    /**
     * Directories whose content comes later: `x/` sorts behind names that go on with a byte below the slash, such as `x-y`. One
     * that was put aside later comes first, because its name begins with that of the one before.
     */
    const aside: { readonly name: TreePath; readonly a: Digest | undefined; readonly b: Digest | undefined }[] = []
    let i = 0
    let j = 0
    while (i < before.length || j < after.length || aside.length > 0) {
      const x = before[i]
      const y = after[j]
      const name = x === undefined || (y !== undefined && y.name < x.name) ? y?.name : x.name
      const open = aside.at(-1)
      if (open !== undefined && (name === undefined || `${open.name}/` < name)) {
        aside.pop()
        yield* directories(open.a, open.b, join(path, open.name))
        continue
      }
      const one = x?.name === name ? x : undefined
      const other = y?.name === name ? y : undefined
      if (one !== undefined) i += 1
      if (other !== undefined) j += 1
      const at = join(path, name!)
      yield* pair(one, other, at)
      const [p, q] = [directoryOf(one), directoryOf(other)]
      if (p !== q && !isPassed(at)) aside.push({ name: name!, a: p, b: q })
    }
  }

  if (below === "") {
    yield* directories(from, to, "")
    return
  }
  const before = from === undefined ? undefined : entryAt(trees, from, below)
  const after = entryAt(trees, to, below)
  yield* pair(before, after, below)
  yield* directories(directoryOf(before), directoryOf(after), below)
}

export const diffTrees = (trees: StoredTrees, from: Digest, to: Digest): TreeDifference[] => [
  ...walkDiff(trees, from, to)
]
