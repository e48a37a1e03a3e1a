/**
 * The tree of a commit as a list of its entries, for providers that keep a state as a whole.
 * Promise: immutable; entries stand in byte order of their paths, each file with its provider-neutral content digest, so that two trees are
 * compared, digested and searched without a byte of content. Rules: W6, W8, W22, L14, L15.
 */
import type { Digest } from "../../base/Digest.ts"
import { compare, type TreePath } from "../../base/PathBytes.ts"
import { type DigestEntry, TreeDigester } from "../TreeDigest.ts"
import { breathing } from "./Steps.ts"
import type { TreeEntry, TreeReader } from "./Tree.ts"

/** An entry and where it lies. The root is one, at the empty path. */
export interface KeptEntry extends TreeEntry {
  readonly path: TreePath
}

const parentOf = (path: TreePath): TreePath => path.slice(0, Math.max(0, path.lastIndexOf("/")))

export class CommitTree implements TreeReader {
  readonly entries: readonly KeptEntry[]
  readonly #byPath = new Map<TreePath, KeptEntry>()
  #children: Map<TreePath, KeptEntry[]> | undefined

  /** `entries` in byte order of their paths, the root first. */
  constructor(entries: readonly KeptEntry[]) {
    this.entries = entries
    for (const entry of entries) this.#byPath.set(entry.path, entry)
  }

  entry(path: TreePath): KeptEntry | undefined {
    return this.#byPath.get(path)
  }

  list(path: TreePath): readonly KeptEntry[] | undefined {
    if (this.#byPath.get(path)?.type !== "directory") return undefined
    return this.#childrenOf(path)
  }

  namesOf(group: TreePath): readonly TreePath[] {
    return this.entries.flatMap(({ path, linkGroup }) => (linkGroup === group ? [path] : []))
  }

  #childrenOf(path: TreePath): readonly KeptEntry[] {
    if (this.#children === undefined) {
      this.#children = new Map()
      for (const entry of this.entries) {
        if (entry.path === "") continue
        const above = parentOf(entry.path)
        const siblings = this.#children.get(above)
        if (siblings === undefined) this.#children.set(above, [entry])
        else siblings.push(entry)
      }
      // Byte order of whole paths is not that of the names of one directory: "a-b" stands before "a/c".
      for (const siblings of this.#children.values()) siblings.sort((a, b) => compare(a.name, b.name))
    }
    return this.#children.get(path) ?? []
  }

  /** The path and everything below it, in byte order. */
  *below(path: TreePath): Generator<KeptEntry> {
    for (const entry of this.entries) {
      if (path === "" ? entry.path !== "" : entry.path === path || entry.path.startsWith(`${path}/`)) yield entry
    }
  }
}

/** Entries in byte order of their paths. */
export const inOrder = (entries: Iterable<KeptEntry>): KeptEntry[] =>
  [...entries].sort((a, b) => compare(a.path, b.path))

const digestEntry = ({ path, type, mode, id, target, linkGroup }: KeptEntry): DigestEntry => ({
  path,
  type,
  mode,
  content: type === "file" ? id : null,
  target,
  linkGroup
})

/** The tree digest (W6), which is also the root of such a provider: it depends on content only (L14). */
export const digestOfTree = async (tree: CommitTree): Promise<Digest> => {
  const breathe = breathing(() => false)
  const digester = new TreeDigester()
  for (const entry of tree.entries) {
    if (entry.path !== "") digester.add(digestEntry(entry))
    await breathe()
  }
  return digester.end()
}
