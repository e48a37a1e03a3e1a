/**
 * Brings back what a backend does not keep by itself: modes, times, hard links and empty directories, from the commit's list of files.
 * Promise: touches nothing but the entries of the tree, follows no link, and costs the event loop no long stretch. Times are set to the
 * microsecond: Node cannot set finer ones. Rules: L15, W6, W12, W22; GW2.
 */
import * as fs from "node:fs"
import { reach } from "../../base/LongPath.ts"
import { join, type TreePath } from "../../base/PathBytes.ts"
import type { CommitTree, KeptEntry } from "./CommitTree.ts"
import { breathing } from "./Steps.ts"

const seconds = (ns: bigint): number => Number(ns / 1_000n) / 1_000_000

/** `root` is ours alone while it is made. */
export const restoreMetadata = async (
  root: TreePath,
  tree: CommitTree,
  own: readonly TreePath[],
  signal: AbortSignal
): Promise<void> => {
  const breathe = breathing(() => signal.aborted)
  const at = (path: TreePath): TreePath => (path === "" ? root : join(root, path))
  const isOwn = (path: TreePath): boolean => own.some((name) => path === name || path.startsWith(`${name}/`))
  const entries = tree.entries.filter((entry) => !isOwn(entry.path))
  const first = (entry: KeptEntry): boolean => entry.linkGroup === null || entry.linkGroup === entry.path
  for (const { path, type } of entries) {
    if (type !== "directory" || path === "") continue
    await breathe()
    // Parents stand before their children.
    reach(at(path), (short) => fs.mkdirSync(short, { recursive: true, mode: 0o700 }))
  }
  for (const entry of entries) {
    if (entry.type !== "file" || first(entry)) continue
    await breathe()
    reach(at(entry.path), (short) => fs.rmSync(short, { force: true }))
    const target = at(entry.linkGroup!)
    reach(target, (from) => reach(at(entry.path), (to) => fs.linkSync(from, to)))
  }
  for (const entry of entries) {
    if (entry.type === "directory" || !first(entry)) continue
    await breathe()
    const time = seconds(entry.mtimeNs)
    reach(at(entry.path), (short) => {
      if (entry.type === "symlink") return fs.lutimesSync(short, time, time)
      fs.chmodSync(short, entry.mode)
      fs.utimesSync(short, time, time)
    })
  }
  // Children first: what is made or linked in a directory moves its time.
  for (const entry of entries.toReversed()) {
    if (entry.type !== "directory") continue
    await breathe()
    const time = seconds(entry.mtimeNs)
    reach(at(entry.path), (short) => {
      fs.chmodSync(short, entry.mode)
      fs.utimesSync(short, time, time)
    })
  }
}
