/**
 * Serves the trees of commits to the workspaces of the projection `lazy`: by a thread of this process where it is root, else by a process beside it.
 * Promise: nothing of it is there before somebody opens such a workspace; each ends with its workspace, and with this process by whatever cause.
 * Rules: P4, W2, W12, W17, S23; 04 "Projections" 2, and the trap about FUSE there.
 *
 * A thread is there sooner than a process that does not stand ready, and it may only serve as root: the kernel wants /dev/fuse to be opened in the user namespace that mounts, into which no thread of
 * ours can go. It may only do so for the main thread: one that waits in a read(2) lets nobody end the thread above it.
 */
import { isMainThread } from "node:worker_threads"
import type { LowerServer } from "../../../src/workspace/kit/ServedLower.ts"
import { servedPrefix } from "../../../src/workspace/kit/ServedLower.ts"
import { refNotFound } from "../../../src/workspace/kit/Refusals.ts"
import type { CommitRow } from "../../../src/workspace/kit/RefStore.ts"
import type { StoreDirectories } from "../LayerDirectories.ts"
import type { LayerStorePort } from "../StorePortOf.ts"
import { serveByProcess } from "./LazyProcess.ts"
import type { LazyStandby } from "./LazyStandby.ts"
import { serveByThread } from "./LazyThread.ts"

/** True where a thread of this process may serve. */
const threadMayServe = (): boolean => isMainThread && process.getuid!() === 0

/** `standby` is what stands ready; null where there is no pool. */
export const lazyLowers = (
  port: LayerStorePort,
  { index, packs, work: directory }: StoreDirectories,
  standby: LazyStandby | null
): LowerServer => {
  const commitOf = async (ref: string): Promise<CommitRow> => {
    const commit = await port.resolve(ref)
    if (commit === undefined) throw refNotFound(ref)
    return commit
  }
  return {
    nameOf: async (ref) => {
      const { root, times } = await commitOf(ref)
      return `${servedPrefix}${root.slice("sha256:".length)}-${times.slice("sha256:".length)}`
    },
    begin: async (ref) => {
      const { root, times } = await commitOf(ref)
      const work = { index, packs, work: directory, root, times }
      const isStanding = standby?.ready() === true
      return threadMayServe() && !isStanding
        ? serveByThread(work)
        : serveByProcess(work, (holder) => standby?.take(holder))
    }
  }
}
