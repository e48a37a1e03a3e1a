/**
 * Entries whose mode keeps their own owner out (000 and its like), in a tree that is ours alone: opened up for as long as it is worked on.
 * Promise: whatever was opened is told with its true mode, and can be closed again; nothing else is touched; root needs none of it.
 * Rules: W6, W12, W16, L15.
 */
import * as fs from "node:fs"
import { reach } from "../../base/LongPath.ts"
import { join, type TreePath } from "../../base/PathBytes.ts"
import type { KeptEntry } from "./CommitTree.ts"
import { breathing } from "./Steps.ts"
import type { TreeChange } from "./Tree.ts"

/** True modes by path. */
export type ClosedModes = Map<TreePath, number>

const needed = { directory: 0o700, file: 0o400, symlink: 0 } as const

const isClosed = ({ type, mode }: Pick<KeptEntry, "type" | "mode">): boolean => (mode & needed[type]) !== needed[type]

const at = (root: TreePath, path: TreePath): TreePath => (path === "" ? root : join(root, path))

export const openUp = async (root: TreePath, entries: readonly KeptEntry[]): Promise<ClosedModes> => {
  const closed: ClosedModes = new Map()
  if (process.getuid?.() === 0) return closed
  const breathe = breathing(() => false)
  // Parents stand before their children.
  for (const entry of entries) {
    await breathe()
    if (!isClosed(entry)) continue
    closed.set(entry.path, entry.mode)
    reach(at(root, entry.path), (short) => fs.chmodSync(short, entry.mode | needed[entry.type]))
  }
  return closed
}

/** Children first, in this tree or in a copy of it. */
export const closeAgain = (root: TreePath, closed: ClosedModes): void => {
  for (const [path, mode] of [...closed].toReversed()) reach(at(root, path), (short) => fs.chmodSync(short, mode))
}

/** What changes a tree that was opened up, without closing it; `closed` then tells the true modes of what comes of it. */
export const openChanges = (changes: readonly TreeChange[], closed: ClosedModes): readonly TreeChange[] =>
  changes.map((change) => {
    if (change.op !== "putFile" && change.op !== "putDirectory") return change
    const type = change.op === "putFile" ? "file" : "directory"
    closed.delete(change.path)
    if (process.getuid?.() === 0 || !isClosed({ type, mode: change.mode })) return change
    closed.set(change.path, change.mode)
    return { ...change, mode: change.mode | needed[type] }
  })

/** What was found in such a tree, with the true modes. */
export const closedChanges = (changes: readonly TreeChange[], closed: ClosedModes): readonly TreeChange[] =>
  changes.map((change) => {
    if (change.op !== "putFile" && change.op !== "putDirectory") return change
    return { ...change, mode: closed.get(change.path) ?? change.mode }
  })
