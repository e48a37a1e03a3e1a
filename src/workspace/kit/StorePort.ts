/**
 * What open workspaces need of a store: the one seam between it and the projections.
 * Promise: everything here leaves the caller's event loop free and is typed on failure; the projections keep no table of their own.
 * Rules: W8, W10, W12, W23, L10.
 */
import type { Durability } from "../../sqlite/Database.ts"
import type { Actor, Change, CheckpointOutcome, GrepMatch, Progress, SkippedEntries } from "../WorkspaceProvider.ts"
import type { BranchRow, CommitRow, Decider, WorkspaceRow } from "./RefStore.ts"
import type { GrepTexts } from "./Questions.ts"
import type { HarvestInput } from "./Harvest.ts"
import type { TreePath } from "../../base/PathBytes.ts"

/** A harvest and, when it is complete, the commit of what it found. */
export interface CheckpointRequest {
  readonly branch: string
  readonly expectedHead: string
  readonly harvest: HarvestInput
  readonly message: string
  readonly operationId: string
  readonly actor: Actor
  readonly keepTimes: boolean
  /** Kept with the commit and copied into the outcome. */
  readonly live: boolean
  /** Copied into the outcome. */
  readonly quiesced?: number
}

/** Nothing was committed when `unreadable` is not empty: the same request is repeated with a spool. */
export type CheckpointReply =
  | { readonly unreadable: readonly string[] }
  | {
      readonly outcome: CheckpointOutcome
      /** See HarvestResult. */
      readonly fingerprint: string
      readonly skipped: SkippedEntries
      /** Whether the operation had been done before: then its commit is the one after `expectedHead`, or an older one. */
      readonly repeats: "no" | "older" | "next"
    }

/** The same without a commit: what would be committed. */
export type PreviewReply =
  | { readonly unreadable: readonly string[] }
  | { readonly changes: readonly Change[]; readonly fingerprint: string }

/** What a tree that was made needs beside itself. */
export interface MadeTree {
  /** Places outside of the tree that commands inside reach in spite of the masks. */
  readonly reach?: readonly Reached[]
  /** Variables of every command inside. */
  readonly variables?: Readonly<Record<string, string>>
  /** It works at the path where it was made and nowhere else: it is mounted there. */
  readonly staysInPlace?: boolean
}
export interface Reached {
  /** Absolute real path of a directory. */
  readonly path: TreePath
  readonly access: "read" | "write"
}

/** A tree's part of an opening: who may end it, and who hears how far it is. */
export interface MakingScope {
  readonly signal: AbortSignal
  /** Absent where nobody listens: telling may cost something. */
  readonly progress?: ((progress: Progress) => void) | undefined
}

export interface StorePort {
  /** The provider's directory in the store, absolute. */
  readonly directory: string
  readonly durability: Durability
  readonly branch: (id: string) => Promise<BranchRow | undefined>
  readonly resolve: (ref: string) => Promise<CommitRow | undefined>
  /** Absolute path of the directory that the project was imported from, as a byte string; null for an empty project. */
  readonly originOf: (project: string) => Promise<string | null>
  /** Mode of the root directory of a commit. */
  readonly rootMode: (commit: string) => Promise<{ readonly mode: number; readonly mtimeNs: bigint }>
  /** The hard-link groups of a commit with a name below one of these directories, each with all of its names. Of stores whose trees are overlaid. */
  readonly linksBelow?: (commit: string, directories: readonly TreePath[]) => Promise<readonly (readonly TreePath[])[]>
  /**
   * Writes the whole tree into `target`, which must not exist, for a workspace or for a layer; it is complete when the call returns. Aborted, it
   * rejects when nothing of it writes any more, and nothing is left at the target.
   */
  readonly materialise: (
    commit: string,
    target: string,
    workspace: string | null,
    scope: MakingScope
  ) => Promise<MadeTree>
  /** Takes away a tree that `materialise` made, where that is quicker than entry by entry; what it leaves is removed as ever. */
  readonly clear?: (target: string) => Promise<void>
  /** After the files of such a workspace are gone, also those of a process that was killed: what else was set up for it goes. */
  readonly unmake?: (workspace: string, target: string) => Promise<void>
  /** Before a command begins in such a workspace, and before it is captured: what is the store's own in it is put right. */
  readonly beforeUse?: (workspace: string, target: string) => void
  /** Before they go: what only they reach is kept (GW4). */
  readonly beforeRemoval?: (workspace: string, target: string) => Promise<void>
  /** A new branch at `from`: for what a recovery finds. */
  readonly fork: (from: string, name: string, operationId: string) => Promise<BranchRow>
  /** Harvests and commits. Rejects with `HeadMoved` and everything of `StoreError`; aborted, before the commit stands, with nothing kept. */
  readonly checkpoint: (request: CheckpointRequest, signal?: AbortSignal) => Promise<CheckpointReply>
  /** Lines of texts that match, found in another thread. Rejects with `PatternTooSlow`. */
  readonly grepTexts: (input: GrepTexts) => Promise<readonly GrepMatch[]>
  /** Harvests against `base` and compares; commits nothing. */
  readonly preview: (base: string, harvest: HarvestInput, signal?: AbortSignal) => Promise<PreviewReply>
  readonly putWorkspace: (row: WorkspaceRow) => Promise<void>
  readonly updateWorkspace: (id: string, change: Partial<Omit<WorkspaceRow, "id">>) => Promise<void>
  /** See RefStore. */
  readonly claimWorkspace: (id: string, before: string | null, decider: Decider) => Promise<boolean>
  readonly workspaces: (states: readonly WorkspaceRow["state"][]) => Promise<readonly WorkspaceRow[]>
}
