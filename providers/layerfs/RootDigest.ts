/**
 * The provider-neutral tree digest of a stored root.
 * Promise: content is read only of large files whose digest is not known yet. Rules: W5, W6.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import { type DigestEntry, treeDigest } from "../../src/workspace/TreeDigest.ts"
import type { StoredContent } from "./FileContent.ts"
import { inlineLimit } from "./ObjectId.ts"
import type { StoredTrees } from "./StoredTrees.ts"

/** What a root's digest is made of; `large` are the files whose ids are no content digests, by their place among the entries. */
export interface DigestParts {
  readonly entries: DigestEntry[]
  readonly large: readonly { readonly index: number; readonly content: StoredContent }[]
}

export const digestParts = (trees: StoredTrees, root: Digest): DigestParts => {
  const entries: DigestEntry[] = []
  const large: { readonly index: number; readonly content: StoredContent }[] = []
  const walk = (id: Digest, path: TreePath): void => {
    for (const entry of trees.tree(id).entries) {
      const child = join(path, entry.name)
      const shared = { path: child, type: entry.type, content: null, target: null, linkGroup: null }
      if (entry.type === "file") {
        if (entry.size > inlineLimit) large.push({ index: entries.length, content: { id: entry.id, size: entry.size } })
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
  return { entries, large }
}

/** `contentDigest` answers for one large file; see ContentDigest.ts. */
export const digestOfRoot = async (
  trees: StoredTrees,
  root: Digest,
  contentDigest: (content: StoredContent) => Promise<Digest>
): Promise<Digest> => {
  const { entries, large } = digestParts(trees, root)
  for (const { index, content } of large) {
    entries[index] = { ...entries[index]!, content: await contentDigest(content) }
  }
  return treeDigest(entries)
}
