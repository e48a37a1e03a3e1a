/**
 * One entry of a stored root, found by its path, without times.
 * Promise: reads only the directories on the way; links are not followed. Rules: L3, L14. Synchronous: runs in the worker.
 */
import type { Digest } from "../../../src/base/Digest.ts"
import type { TreePath } from "../../../src/base/PathBytes.ts"
import type { StoredTrees } from "../StoredTrees.ts"
import type { StoredEntry } from "../TreeCodec.ts"

/** The root as an entry: a root has no name and no mode of its own in what is compared. */
export const rootEntry = (root: Digest): StoredEntry => ({
  name: "",
  type: "directory",
  mode: 0,
  id: root,
  linked: false
})

export const entryAt = (trees: StoredTrees, root: Digest, path: TreePath): StoredEntry | undefined => {
  let at: StoredEntry | undefined = rootEntry(root)
  for (const name of path === "" ? [] : path.split("/")) {
    if (at?.type !== "directory") return undefined
    at = trees.lookup(at.id, name)
  }
  return at
}

/** Equal in everything that a root says about them; names apart. */
export const sameEntry = (a: StoredEntry | undefined, b: StoredEntry | undefined): boolean => {
  if (a === undefined || b === undefined) return a === b
  if (a.type === "symlink" || b.type === "symlink")
    return a.type === b.type && a.type === "symlink" && b.type === "symlink" && a.target === b.target
  if (a.type !== b.type || a.mode !== b.mode || a.id !== b.id) return false
  return a.type === "directory" || (b.type === "file" && a.size === b.size && a.linkGroup === b.linkGroup)
}
