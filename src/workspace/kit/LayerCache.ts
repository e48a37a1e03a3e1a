/**
 * Directories that show a commit: a base directory for a root, and frozen delta layers on top of it.
 * Promise: a cached directory is never written again once it was handed out as a lower layer; a damaged or missing one is
 * rebuilt from the object store and never poisons a workspace (L10). Rules: 04 "Projections" 1, W12, W23, C20.
 *
 * On disk: `cache/base/<root hex>-<times hex>/` (complete when its `.ok` sibling exists), `cache/delta/<commit>/`.
 */

import type { MakingScope } from "./StorePort.ts"

/** What a mount needs: directory names relative to `directory`, top layer first, as overlayfs wants them. */
export interface Lowers {
  readonly directory: string
  readonly names: readonly string[]
}

/** Layers that stay until `release`, which is called when a row of a workspace names them, or none will. */
export interface HeldLowers extends Lowers {
  readonly release: () => void
}

export interface LayerCache {
  /**
   * The layers of a commit, made when missing. The base directory is materialised from the object store. Whoever aborts stops waiting; a layer that
   * somebody else waits for is made all the same, and one that nobody waits for any more is taken back before the call rejects.
   */
  readonly ensure: (commit: string, scope: MakingScope) => Promise<HeldLowers>
  /** True when `ensure` would copy nothing. */
  readonly isCached: (commit: string) => Promise<boolean>
  /**
   * On close, an upper unchanged since its checkpoint becomes the delta layer of that commit, above the layers it was
   * mounted on, by one rename; it is never mounted as an upper again. Not where it no longer looks as `look` found it before it was
   * compared with the commit: a descriptor of a file in it may have been handed to a process outside.
   */
  readonly adopt: (
    commit: string,
    lowers: readonly string[],
    upper: string,
    looked: string | undefined
  ) => Promise<void>
  /** All of an upper, as text to be compared. */
  readonly look: (upper: string) => Promise<string>
  /** True when every layer is there, whole, and as it was made, as far as that can be told cheaply. */
  readonly available: (names: readonly string[]) => boolean
  /** Resolves when this process has looked at every entry of these layers once: `available` knows of it then. */
  readonly looked: (names: readonly string[]) => Promise<void>
  /**
   * Makes again, where it can, what is missing of the layers that showed a commit, after a boot or when somebody emptied the cache, and
   * what somebody has changed, where no workspace stands on it but those that are `left`. What is there by then stays until the answer is called.
   */
  readonly restore: (commit: string, names: readonly string[], left: readonly string[]) => Promise<() => void>
  /** Begins to take away what is beyond the limit and nobody needs, where there is a limit: for a moment when less is needed. */
  readonly trim: () => void
  /** Removes what processes that are gone had begun to make. */
  readonly sweep: () => Promise<void>
}
