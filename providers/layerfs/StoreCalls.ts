/**
 * The calls that the store's worker answers: one function each, with plain data in and out.
 * Promise: inputs and results survive a structured clone; each function names the typed errors it may end with.
 * Rules: W3, W10, W14, L1, L2, L3, L10, W23.
 */
import type { Digest } from "../../src/base/Digest.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import type {
  Actor,
  CheckpointOutcome,
  BundleReceipt,
  CompactReport,
  DiffPage,
  ExportedBundle,
  ExportedPatch,
  FileOperation,
  GlobPage,
  GrepMatch,
  GrepPage,
  HeadMove,
  ImportReceipt,
  PathFailure,
  ReadRange,
  StoreError,
  StoreStats,
  VerifyReport
} from "../../src/workspace/WorkspaceProvider.ts"
import type * as E from "../../src/workspace/WorkspaceError.ts"
import type {
  Answer,
  GrepTexts,
  LogQuestion,
  LogReply,
  MoveQuestion,
  MoveReply,
  Paged,
  ForkQuestion,
  RewindQuestion
} from "../../src/workspace/kit/Questions.ts"
import type { HarvestInput } from "../../src/workspace/kit/Harvest.ts"
import type { CheckpointReply, CheckpointRequest, PreviewReply } from "../../src/workspace/kit/StorePort.ts"
import type { BranchRow, CommitRow, Decider, ProjectRow, WorkspaceRow } from "../../src/workspace/kit/RefStore.ts"
import type { TreeChange, TreeEntry } from "../../src/workspace/kit/Tree.ts"

/** Who asks for a commit, and under which operation it is found again. */
export interface CommitIntent {
  readonly message: string
  readonly operationId: string
  readonly actor: Actor
  /** Milliseconds since 1970, from the caller's clock. */
  readonly at: number
}

export interface CommitChanges extends CommitIntent {
  readonly branch: string
  readonly expectedHead: string
  readonly changes: readonly TreeChange[]
  /** Commit also when nothing but mtimes changed (W8). */
  readonly keepTimes?: boolean
  /** Reported in the outcome as they are given. */
  readonly linkSplit?: readonly TreePath[]
  readonly live?: boolean
  readonly quiesced?: number
}

export interface ImportInput {
  /** Absolute or relative path of the directory (byte string). */
  readonly source: TreePath
  readonly name: string
  readonly operationId: string
  readonly at: number
}

export interface MaterialiseInput {
  readonly commit: string
  /** Absolute path (byte string) of a directory that does not exist, or is empty and ours. */
  readonly target: TreePath
  readonly phase?: "materialise" | "export"
}

export interface MaterialiseDeltaInput extends Omit<MaterialiseInput, "phase"> {
  /** The commit that the layers below show. */
  readonly below: string
  /** Entries that are worth it. */
  readonly limit: number
}

export interface FoundEntry {
  /** Every link on the way resolved. */
  readonly path: TreePath
  readonly entry: TreeEntry
}

export interface DiffQuestion extends Paged {
  readonly from: string
  readonly to: string
  readonly path: TreePath | null
}

export interface BlameQuestion extends Paged {
  readonly ref: string
  readonly path: TreePath
}

/** A line (bytes as latin1) and where it comes from; lines count from 1. */
export interface LineOrigin {
  readonly line: number
  readonly text: string
  readonly commit: string
  readonly path: TreePath
  readonly originalLine: number
}

export interface BlameReply {
  readonly commit: string
  readonly path: TreePath
  readonly totalLines: number
  readonly lines: readonly LineOrigin[]
  readonly commits: readonly CommitRow[]
  readonly coarse: readonly string[]
  readonly beginsHere: readonly string[]
}

export interface GlobQuestion extends Paged {
  readonly ref: string
  readonly pattern: string
}

export interface GrepQuestion extends Paged {
  readonly ref: string
  readonly pattern: RegExp
  readonly path: TreePath
  readonly glob: string | null
}

export interface Calls {
  readonly open: (input: object) => Promise<object>
  readonly close: (input: object) => Promise<void>
  readonly storeId: (input: object) => string

  /** `ImportRefused`, `StoreLocation`. Progress: scan, store, commit. Can be cancelled between files. */
  readonly importDirectory: (input: ImportInput) => Promise<ImportReceipt>
  readonly createEmpty: (input: {
    readonly name: string
    readonly operationId: string
    readonly at: number
  }) => Promise<ImportReceipt>
  /** `RefNotFound`. Repeated with the same operation id it answers the same branch. */
  readonly fork: (input: ForkQuestion) => Promise<BranchRow>

  /** `RefNotFound`. */
  readonly branch: (input: { readonly id: string }) => BranchRow
  /** `RefNotFound`. */
  readonly resolve: (input: { readonly ref: string }) => CommitRow
  /** `RefNotFound`. */
  readonly project: (input: { readonly id: string }) => ProjectRow
  /** `RefNotFound`, `QueryInvalid`. */
  readonly branches: (input: Paged & { readonly ref: string }) => Answer<{ readonly branches: readonly BranchRow[] }>
  /** `RefNotFound`, `QueryInvalid`. Newest first; see `history/Log.ts`. Can be cancelled. */
  readonly log: (input: LogQuestion) => Promise<Answer<LogReply>>
  readonly findOperation: (input: { readonly operationId: string }) => { readonly commit: string } | null
  /** `RefNotFound`. */
  readonly pin: (input: { readonly key: string; readonly ref: string }) => Promise<void>
  readonly unpin: (input: { readonly key: string }) => Promise<void>

  /** The entry at exactly this path, links not followed; null when there is none. `RefNotFound`. */
  readonly entry: (input: { readonly ref: string; readonly path: TreePath }) => TreeEntry | null
  /** Entries of exactly this directory; null when it is not one. `RefNotFound`. */
  readonly list: (input: { readonly ref: string; readonly path: TreePath }) => readonly TreeEntry[] | null
  /** Bytes of a file by its content id and size, checked. `ObjectDamaged`. */
  readonly content: (input: { readonly id: Digest; readonly size: number }) => Uint8Array

  /** `RefNotFound`, `HeadMoved`, `PathError`. See `CommitBuilder.ts`. Can be cancelled until its transaction: then nothing of it is kept. */
  readonly commitChanges: (input: CommitChanges) => Promise<CheckpointOutcome>
  /** The hard-link groups with a name below one of `directories`, each with all of its names. `RefNotFound`. */
  readonly linksBelow: (input: {
    readonly ref: string
    readonly directories: readonly TreePath[]
  }) => readonly (readonly TreePath[])[]
  /** The entry at a caller's path, links on the way followed, the last one only with `follow`. `RefNotFound`, `PathError`, `OutsideWorkspace`. */
  readonly look: (input: { readonly ref: string; readonly path: TreePath; readonly follow: boolean }) => FoundEntry
  /** A directory's entries, by a caller's path. `RefNotFound`, `PathError`, `OutsideWorkspace`. */
  readonly listAt: (input: { readonly ref: string; readonly path: TreePath }) => readonly FoundEntry[]
  /** A file's bytes, by a caller's path. `RefNotFound`, `PathError`, `OutsideWorkspace`, `ObjectDamaged`. */
  readonly readAt: (input: {
    readonly ref: string
    readonly path: TreePath
    /** What there is of these bytes; all of them when absent. */
    readonly range?: ReadRange
  }) => Uint8Array
  /** `RefNotFound`, `QueryInvalid`. In byte order of the paths; see `history/DiffPages.ts`. Can be cancelled. */
  readonly diff: (input: DiffQuestion) => Promise<DiffPage>
  /** `RefNotFound`, `PathError`, `OutsideWorkspace`, `NotText`, `QueryInvalid`. See `history/Blame.ts`. Can be cancelled. */
  readonly blame: (input: BlameQuestion) => Promise<Answer<BlameReply>>
  /** `RefNotFound`, `QueryInvalid`, `PatternTooSlow`. See `history/Search.ts`. Can be cancelled, as `grep`. */
  readonly glob: (input: GlobQuestion) => Promise<GlobPage>
  /** `RefNotFound`, `PathError`, `OutsideWorkspace`, `QueryInvalid`, `PatternTooSlow`. */
  readonly grep: (input: GrepQuestion) => Promise<GrepPage>
  /** Lines of these texts, one after the other, at most `limit`: for an open workspace, whose caller's thread they do not hold. `PatternTooSlow`. */
  readonly grepTexts: (input: GrepTexts) => readonly GrepMatch[]
  /** `RefNotFound`, `MoveRefused`. Repeated with the same operation id it answers the same branch. */
  readonly rewind: (input: RewindQuestion) => Promise<BranchRow>
  /** `RefNotFound`, `HeadMoved`, `MoveRefused`. See `history/Moves.ts`. */
  readonly moveHead: (input: MoveQuestion) => Promise<MoveReply>
  /** `RefNotFound`, `QueryInvalid`. Newest first. */
  readonly undoLog: (input: Paged & { readonly branch: string }) => Answer<{ readonly moves: readonly HeadMove[] }>
  /** One commit for the batch. `RefNotFound`, `HeadMoved`, `PathError`, `OutsideWorkspace`, `EditRefused`. Can be cancelled as `commitChanges`. */
  readonly applyTo: (
    input: CommitIntent & { readonly branch: string; readonly operations: readonly FileOperation[] }
  ) => Promise<CheckpointOutcome>
  /** The provider-neutral tree digest of a commit, cached by root. `RefNotFound`, `ObjectDamaged`. */
  readonly treeDigest: (input: {
    readonly ref: string
  }) => Promise<{ readonly digest: Digest; readonly profile: string }>
  /** A git patch from one commit to another. `RefNotFound`, `ObjectDamaged`, `Unavailable` (git). */
  readonly exportPatch: (input: {
    readonly from: string
    readonly to: string
    /** Null for all that differ. */
    readonly paths: readonly TreePath[] | null
  }) => Promise<ExportedPatch>
  /** `RefNotFound`, `ExportRefused`, `ObjectDamaged`. Progress: export. Can be cancelled between objects. */
  readonly exportBundle: (input: {
    readonly ref: string
    readonly target: TreePath
    readonly history: boolean
  }) => Promise<ExportedBundle>
  /** `BundleRefused`. Progress: store. Can be cancelled between groups. */
  readonly importBundle: (input: { readonly source: TreePath }) => Promise<BundleReceipt>
  /** Progress: compact. Can be cancelled between steps: then it answers what it did. */
  readonly compact: (input: {
    readonly maxMs: number | null
    readonly maxBytes: number | null
  }) => Promise<CompactReport>
  readonly stats: (input: object) => StoreStats
  /** Progress: verify. */
  readonly verify: (input: object) => VerifyReport
  /** Harvests an open directory and commits what it found. `RefNotFound`, `HeadMoved`, `FileSystemFailure`. Can be cancelled as `commitChanges`. */
  readonly checkpoint: (input: CheckpointRequest & { readonly at: number }) => Promise<CheckpointReply>
  /** Harvests against a commit and compares; commits nothing. `RefNotFound`, `FileSystemFailure`. Can be cancelled. */
  readonly preview: (input: { readonly base: string; readonly harvest: HarvestInput }) => Promise<PreviewReply>
  /** Writes a commit's tree as a directory. `RefNotFound`, `ObjectDamaged`, `ExportRefused`, `Unavailable` (GNU tar). */
  readonly materialise: (input: MaterialiseInput) => Promise<{ readonly files: number; readonly bytes: number }>
  /** Writes what a commit needs above a view of another one, as a layer of an overlay. False, and nothing is written, when it is too much. */
  readonly materialiseDelta: (input: MaterialiseDeltaInput) => Promise<boolean>
  /** See MaterialisePlan. `RefNotFound`. */
  readonly touchesLinks: (input: { readonly commit: string; readonly below: string }) => Promise<boolean>

  /** Writes a commit's tree as one archive. `RefNotFound`, `ObjectDamaged`, `ExportRefused`. Progress: export. Can be cancelled. */
  readonly exportTar: (input: {
    readonly ref: string
    readonly target: TreePath
  }) => Promise<{ readonly files: number; readonly bytes: number }>

  readonly putWorkspace: (input: WorkspaceRow) => Promise<void>
  /** `RefNotFound`. */
  readonly updateWorkspace: (input: {
    readonly id: string
    readonly change: Partial<Omit<WorkspaceRow, "id">>
  }) => Promise<void>
  readonly claimWorkspace: (input: {
    readonly id: string
    readonly before: string | null
    readonly decider: Decider
  }) => Promise<boolean>
  readonly workspaces: (input: { readonly states: readonly WorkspaceRow["state"][] }) => readonly WorkspaceRow[]
}

/** What each call may fail with, beside `StoreError`. A call that is not named fails with nothing more. */
export interface CallFailures {
  readonly importDirectory: E.ImportRefused | E.StoreLocation
  readonly fork: E.RefNotFound
  readonly branch: E.RefNotFound
  readonly resolve: E.RefNotFound
  readonly project: E.RefNotFound
  readonly branches: E.RefNotFound | E.QueryInvalid
  readonly log: E.RefNotFound | E.QueryInvalid
  readonly pin: E.RefNotFound
  readonly entry: E.RefNotFound
  readonly linksBelow: E.RefNotFound
  readonly list: E.RefNotFound
  readonly look: E.RefNotFound | PathFailure
  readonly listAt: E.RefNotFound | PathFailure
  readonly readAt: E.RefNotFound | PathFailure
  readonly diff: E.RefNotFound | E.QueryInvalid
  readonly glob: E.RefNotFound | E.QueryInvalid | E.PatternTooSlow
  readonly grep: E.RefNotFound | E.QueryInvalid | E.PatternTooSlow | PathFailure
  readonly grepTexts: E.PatternTooSlow
  readonly rewind: E.RefNotFound | E.MoveRefused
  readonly moveHead: E.RefNotFound | E.HeadMoved | E.MoveRefused
  readonly undoLog: E.RefNotFound | E.QueryInvalid
  readonly blame: E.RefNotFound | E.NotText | E.QueryInvalid | PathFailure
  readonly applyTo: E.RefNotFound | E.HeadMoved | E.EditRefused | PathFailure
  readonly treeDigest: E.RefNotFound
  readonly exportPatch: E.RefNotFound | E.Unavailable
  readonly commitChanges: E.RefNotFound | E.HeadMoved | E.PathError
  readonly checkpoint: E.RefNotFound | E.HeadMoved | E.PathError
  readonly preview: E.RefNotFound | E.PathError
  readonly exportBundle: E.RefNotFound | E.ExportRefused
  readonly importBundle: E.BundleRefused
  readonly materialise: E.RefNotFound | E.ExportRefused | E.Unavailable
  readonly exportTar: E.RefNotFound | E.ExportRefused
  readonly materialiseDelta: E.RefNotFound | E.ExportRefused | E.Unavailable
  readonly touchesLinks: E.RefNotFound
  readonly updateWorkspace: E.RefNotFound
}

export type FailureOf<K extends keyof Calls> = (K extends keyof CallFailures ? CallFailures[K] : never) | StoreError
