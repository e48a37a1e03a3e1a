/** What the SDK and whoever serves a tree for it tell each other. Rules: S23; 04 "Projections" 2. */
import type { LazyWork } from "./ServeCommit.ts"

export interface ThreadSetup {
  readonly work: LazyWork
  readonly device: number
  /** See `flag`. */
  readonly flags: SharedArrayBuffer
}

/** Places in the flags: whether it is to stop; whether it serves; whether it has given back its device. */
export const flag = { stop: 0, serving: 1, closed: 2 } as const

/** A line on the process's stdin. */
export interface ProcessSetup {
  readonly work: LazyWork
  /** Mounts what is served through the descriptor 3. */
  readonly mount: readonly string[]
}

/** A line on its stdout. */
export const said = { standing: "standing", mounted: "mounted", failed: "failed", noDevice: "device " } as const
