/**
 * The tree that a list of changes makes of another one.
 * Promise: what is not named stays as it was; a hard-link group has at least two names in the tree and is told by its first one.
 * Rules: W8, W22, L15.
 */
import type { Digest } from "../../base/Digest.ts"
import type { TreePath } from "../../base/PathBytes.ts"
import { CommitTree, inOrder, type KeptEntry } from "./CommitTree.ts"
import type { TreeChange } from "./Tree.ts"

/** A file's content as it was kept. */
export interface KeptContent {
  readonly id: Digest
  readonly size: number
}

const nameOf = (path: TreePath): TreePath => path.slice(path.lastIndexOf("/") + 1)

export interface ChangesOf {
  readonly changes: readonly TreeChange[]
  /** Of every `putFile`. */
  readonly contents: ReadonlyMap<TreePath, KeptContent>
  /** Nanoseconds that a time is told in: 1, or 1,000 where the provider keeps no finer ones. */
  readonly timeUnit: bigint
}

const remove = (entries: Map<TreePath, KeptEntry>, base: CommitTree, path: TreePath): void => {
  entries.delete(path)
  for (const child of base.list(path) ?? []) remove(entries, base, child.path)
}

export const changedTree = (base: CommitTree, { changes, contents, timeUnit }: ChangesOf): CommitTree => {
  const entries = new Map(base.entries.map((entry) => [entry.path, entry]))
  /** Names of one inode among the changes, by its key. */
  const inodes = new Map<TreePath, string>()
  const put = (path: TreePath, entry: Omit<KeptEntry, "path" | "name">): void => {
    const mtimeNs = entry.mtimeNs - (entry.mtimeNs % timeUnit)
    inodes.delete(path)
    entries.set(path, { path, name: nameOf(path), ...entry, mtimeNs })
  }
  for (const change of changes) {
    const { path } = change
    if (change.op === "remove") {
      remove(entries, base, path)
    } else if (change.op === "putDirectory") {
      if (change.replace) remove(entries, base, path)
      const { mode, mtimeNs } = change
      put(path, { type: "directory", mode, mtimeNs, size: 0, id: null, target: null, linkGroup: null })
    } else if (change.op === "putSymlink") {
      remove(entries, base, path)
      const { target, mtimeNs } = change
      put(path, { type: "symlink", mode: 0, mtimeNs, size: target.length, id: null, target, linkGroup: null })
    } else {
      remove(entries, base, path)
      const { mode, mtimeNs } = change
      put(path, { type: "file", mode, mtimeNs, ...contents.get(path)!, target: null, linkGroup: null })
      if (change.inode !== undefined) inodes.set(path, change.inode)
    }
  }
  return new CommitTree(grouped(inOrder(entries.values()), inodes))
}

/** Sets the link groups: by inode where an entry was put, by its group of before where it was not. */
export const grouped = (entries: readonly KeptEntry[], inodes: ReadonlyMap<TreePath, string>): readonly KeptEntry[] => {
  const keyOf = (entry: KeptEntry): string | undefined => {
    const inode = inodes.get(entry.path)
    if (inode !== undefined) return `inode ${inode}`
    return entry.linkGroup === null ? undefined : `group ${entry.linkGroup}`
  }
  const names = new Map<string, { first: TreePath; count: number }>()
  for (const entry of entries) {
    const key = keyOf(entry)
    if (key === undefined) continue
    const known = names.get(key)
    if (known === undefined) names.set(key, { first: entry.path, count: 1 })
    else known.count += 1
  }
  if (names.size === 0) return entries
  return entries.map((entry) => {
    const key = keyOf(entry)
    if (key === undefined) return entry
    const { first, count } = names.get(key)!
    return { ...entry, linkGroup: count < 2 ? null : first }
  })
}
