/**
 * The provider-neutral tree digest of a stored root.
 * Promise: no content is read: a file's id is its content digest already. Rules: W5, W6.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import { type DigestEntry, treeDigest } from "../../src/workspace/TreeDigest.ts"
import type { StoredTrees } from "./StoredTrees.ts"

export const digestOfRoot = (trees: StoredTrees, root: Digest): Digest => {
  const entries: DigestEntry[] = []
  const walk = (id: Digest, path: TreePath): void => {
    for (const entry of trees.tree(id).entries) {
      const child = join(path, entry.name)
      const shared = { path: child, type: entry.type, content: null, target: null, linkGroup: null }
      if (entry.type === "file") {
        entries.push({ ...shared, mode: entry.mode, content: entry.id, linkGroup: entry.linkGroup })
      } else if (entry.type === "symlink") {
        entries.push({ ...shared, mode: 0, target: entry.target })
      } else {
        entries.push({ ...shared, mode: entry.mode })
        walk(entry.id, child)
      }
    }
  }
  walk(root, "")
  return treeDigest(entries)
}
