/**
 * What differs between two roots.
 * Promise: equal subtrees are skipped by their id, so the cost follows the change and not the tree; every changed path is
 * listed once, in byte order of the paths. Rules: W3 (diff), L3, L14.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { compare, join, type TreePath } from "../../src/base/PathBytes.ts"
import type { Change } from "../../src/workspace/WorkspaceProvider.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import type { StoredEntry } from "./TreeCodec.ts"

export interface TreeDifference {
  readonly path: TreePath
  readonly kind: Change["kind"]
  readonly before: StoredEntry | null
  readonly after: StoredEntry | null
}

const modeOf = (entry: StoredEntry): number => (entry.type === "symlink" ? 0 : entry.mode)

const sameContent = (a: StoredEntry, b: StoredEntry): boolean => {
  if (a.type === "symlink" || b.type === "symlink") {
    return a.type === "symlink" && b.type === "symlink" && a.target === b.target
  }
  if (a.type === "file" && b.type === "file") return a.id === b.id && a.size === b.size && a.linkGroup === b.linkGroup
  return a.type === "directory" && b.type === "directory"
}

export const diffTrees = (trees: StoredTrees, from: Digest, to: Digest): TreeDifference[] => {
  const found: TreeDifference[] = []
  const oneSided = (entry: StoredEntry, path: TreePath, kind: "added" | "removed"): void => {
    found.push({ path, kind, before: kind === "removed" ? entry : null, after: kind === "added" ? entry : null })
    if (entry.type !== "directory") return
    for (const child of trees.tree(entry.id).entries) oneSided(child, join(path, child.name), kind)
  }
  const both = (before: StoredEntry, after: StoredEntry, path: TreePath): void => {
    if (before.type !== after.type) {
      // The old subtree goes with its root entry; its children are listed as removed, the new one's as added.
      found.push({ path, kind: "typeChanged", before, after })
      if (before.type === "directory") {
        for (const child of trees.tree(before.id).entries) oneSided(child, join(path, child.name), "removed")
      }
      if (after.type === "directory") {
        for (const child of trees.tree(after.id).entries) oneSided(child, join(path, child.name), "added")
      }
      return
    }
    if (!sameContent(before, after)) found.push({ path, kind: "modified", before, after })
    else if (modeOf(before) !== modeOf(after)) found.push({ path, kind: "modeChanged", before, after })
    if (before.type === "directory" && after.type === "directory") directories(before.id, after.id, path)
  }
  const directories = (a: Digest, b: Digest, path: TreePath): void => {
    if (a === b) return
    const before = trees.tree(a).entries
    const after = trees.tree(b).entries
    let i = 0
    let j = 0
    while (i < before.length || j < after.length) {
      const x = before[i]
      const y = after[j]
      if (y === undefined || (x !== undefined && x.name < y.name)) {
        oneSided(x!, join(path, x!.name), "removed")
        i += 1
      } else if (x === undefined || y.name < x.name) {
        oneSided(y, join(path, y.name), "added")
        j += 1
      } else {
        both(x, y, join(path, x.name))
        i += 1
        j += 1
      }
    }
  }
  directories(from, to, "")
  return found.sort((a, b) => compare(a.path, b.path))
}
