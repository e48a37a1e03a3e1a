/**
 * What the calls on a whole store take and give: merges, patches, bundles, compaction, figures, what a check found.
 * Promise: plain values without Effect, as WorkspaceValues, which hands them on. Rules: W3, W10, W16, L4, L9, L10, L11, L13.
 */
import type { Digest } from "../base/Digest.ts"
import type { Durability } from "../base/Durability.ts"
import type { PathInput, ShownPath } from "../base/PathBytes.ts"
import type { CommitOptions, EntryType, Progress, Ref } from "./WorkspaceValues.ts"

export interface MergeOptions extends CommitOptions {
  /** The head that the caller saw: another one is `HeadMoved`, and nothing is merged. */
  readonly expectedHead?: string
  /** Tells what would come of it; no commit, no head moved. */
  readonly dryRun?: boolean
}

/** One side of a conflict: readable by `readAt(commit, path)`. */
export interface MergeSide extends ShownPath {
  readonly commit: string
  readonly type: EntryType
  readonly mode: number
  readonly size: number
}

/**
 * One thing that two states changed in ways that do not go together (L4). A side is null where it has nothing there. The path is where it
 * lies in the branch that was merged into, else where the other side has it.
 */
export interface MergeConflict extends ShownPath {
  readonly kind: "content" | "editDelete" | "renameRename" | "addAdd" | "type" | "mode" | "link"
  readonly base: MergeSide | null
  readonly ours: MergeSide | null
  readonly theirs: MergeSide | null
}

export type MergeOutcome =
  | {
      readonly outcome: "merged"
      /** Null in a dry run. */
      readonly commit: string | null
      readonly root: Digest | null
      readonly operationId: string
      /** The commit from which both sides grew. */
      readonly base: string
      readonly changedPaths: number
      readonly durability: Durability
    }
  /** The branch has all of it already. */
  | { readonly outcome: "unchanged"; readonly commit: string; readonly root: Digest }
  /** Every conflict; the branch stays as it was. */
  | {
      readonly outcome: "conflict"
      readonly base: string
      readonly ours: string
      readonly theirs: string
      readonly conflicts: readonly MergeConflict[]
    }

export interface PatchOptions {
  readonly from: Ref
  readonly to: Ref
  /** Only these paths, exactly; all that differ unless given. */
  readonly paths?: readonly PathInput[]
}

/** A git patch of source files only; ignored files are left out and listed (W16). */
export interface ExportedPatch {
  readonly patch: Uint8Array
  readonly files: readonly ShownPath[]
  readonly ignoredChanges: number
}

export interface StoreStats {
  readonly objects: number
  /** Bytes that all branches and layers show, each file counted each time; null: it was not measured, which would walk every tree. */
  readonly logicalBytes: number | null
  /** Bytes of all objects as they are read: each content once. Null, here and below: it was not measured. */
  readonly uniqueBytes: number | null
  /** Of these, directories and times. */
  readonly metadataBytes: number | null
  /** Bytes of the packs, or of whatever holds the contents. */
  readonly storedBytes: number | null
  /** Of these, such as no row names: a compaction gives them back. */
  readonly freeBytes: number | null
  readonly indexBytes: number
  /** `logicalBytes / uniqueBytes`; null when the first was not measured. */
  readonly dedupRatio: number | null
  /** `uniqueBytes / storedBytes`; null for an empty store. */
  readonly compressionRatio: number | null
  readonly commits: number
  readonly layers: number
  readonly branches: number
  /** What the store and each project may hold at most, in bytes as `storedBytes` counts them; null is no cap (W15). */
  readonly quota: { readonly storeBytes: number | null; readonly projectBytes: number | null }
  /**
   * What cached layers take on the disk, and may; null is unknown, and no limit. Absent where the provider has no cache. Layers that open
   * and kept workspaces stand on count, and stay beyond the limit.
   */
  readonly cache?: { readonly bytes: number | null; readonly limitBytes: number | null }
  /** Holders that this process keeps for the next workspaces, and how many of them stand ready. Absent where the provider has none. */
  readonly pool?: { readonly size: number; readonly ready: number }
  /** What each project added to the store; null for one that is older than the count. */
  readonly projects: readonly { readonly id: string; readonly name: string; readonly storedBytes: number | null }[]
}

export interface BundleOptions {
  /** The layer, branch or commit whose state is exported. */
  readonly ref: Ref
  /** A file that does not exist yet. */
  readonly target: PathInput
  /**
   * With all ancestors that this store has (the default), or this one state: where that is imported, history begins with it (`beginsHere` of
   * its log), until a bundle with the history comes.
   */
  readonly history?: boolean
  readonly onProgress?: (progress: Progress) => void
}

export interface ExportedBundle {
  readonly commit: string
  readonly commits: number
  /** Commits of it that go without all of their parents: the one of a bundle without history, and those that this store has so. */
  readonly beginsHere: readonly string[]
  readonly objects: number
  /** Length of the file. */
  readonly bytes: number
}

export interface BundleReceipt {
  readonly project: string
  /** The commit that was exported, under its own id: fork it to go on from there. */
  readonly commit: string
  /** Commits and objects that the store did not have. */
  readonly commits: number
  readonly objects: number
  /** Commits of the bundle that this store has without all of their parents. */
  readonly beginsHere: readonly string[]
  readonly durability: Durability
}

/** How long one compaction may go on: it stops between two steps, and the next one goes on from there. */
export interface CompactOptions {
  /** No step begins after this many milliseconds. No bound when absent. */
  readonly maxMs?: number
  /** No step begins after this many bytes of objects were written. No bound when absent. */
  readonly maxBytes?: number
  readonly onProgress?: (progress: Progress) => void
}

export interface CompactReport {
  /** False when it was stopped by a bound or a cancellation; what was done stands. */
  readonly complete: boolean
  /** Objects that were written anew. */
  readonly objects: number
  /** Objects that stayed where they are because they are damaged: `verify` names them. */
  readonly unreadable: number
  readonly packsBefore: number
  readonly packsAfter: number
  readonly bytesBefore: number
  readonly bytesAfter: number
  readonly durability: Durability
}

export interface VerifyReport {
  /** No damaged object, and nothing wrong with the index. Bytes that nobody names are no damage. */
  readonly ok: boolean
  readonly objects: number
  readonly damaged: readonly DamagedObject[]
  /** What SQLite's own check (`PRAGMA integrity_check`) says of the index, at most 100 lines, and lost commits; empty when it is in order. */
  readonly index: readonly string[]
  /** Bytes of the packs that no row names: a compaction gives them back. */
  readonly unreferencedBytes: number
  /**
   * Cached trees that somebody else has changed since they were made; no damage of the store, from which they are made anew. Absent where
   * a provider keeps none.
   */
  readonly changedLayers?: readonly ChangedLayer[]
}

/** `layer` is its directory below the cache. */
export interface ChangedLayer {
  readonly layer: string
  /** False while an open workspace stands on it, whose checkpoints are then `ObjectDamaged`: end it, then recover or discard it. */
  readonly removed: boolean
}

/** An object that does not match its id or is not there, and what cannot be read for want of it. */
export interface DamagedObject {
  readonly object: string
  /** At most 20, in the order in which they were met. */
  readonly paths: readonly ShownPath[]
  /** Commits in which it is wanted, at most 20, newest first. */
  readonly commits: readonly string[]
  /** How many commits want it in all. */
  readonly commitCount: number
}
