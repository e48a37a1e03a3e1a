/**
 * A lower layer that is served instead of written out: what a provider brings for the projection `lazy`.
 * Promise: it is there before the workspace's own mounts are made, is seen by nobody but the holder, and ends with the workspace; one that has ended is
 * noticed. Rules: W2, W7, W12, W17, W23; 04 "Projections" 2.
 */
import type { Holder } from "./Holder.ts"

export interface ServedLower {
  /** /dev/fuse, where the holder brings the mount into its namespaces itself; null where whoever serves mounts it there. */
  readonly device: number | null
  /** Called as soon as the holder is started. Resolves when what is served is mounted at `at` in its namespaces. */
  readonly mounted: (holder: Holder, at: string) => Promise<void>
  /** False as soon as it is known that nobody answers any more. */
  readonly alive: boolean
  /** After the holder's end: whoever serves ends too. */
  readonly end: () => Promise<void>
}

export interface LowerServer {
  /** What stands for the layer in the row of a workspace. */
  readonly nameOf: (commit: string) => Promise<string>
  /** Begins to serve a commit. Rejects with `Unavailable`. */
  readonly begin: (commit: string) => Promise<ServedLower>
}

/** How the name of such a layer begins. */
export const servedPrefix = "lazy/"
