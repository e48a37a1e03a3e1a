/**
 * The contract that every workspace provider fulfils: complete, forkable, writable trees.
 * Promise: a fork is frozen, a checkpoint is immutable, nothing made in a workspace is dropped except by an explicit and
 * recorded discard, and the provider names what it did (projection, isolation, durability) instead of substituting.
 * Rules: W1 to W23, L1, L2; conformance K1 to K4.
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Context from "effect/Context"
import type { AuthorityGuard, AuthorityLost, AuthorityUnknown } from "../base/AuthorityGuard.ts"
import type { Digest } from "../base/Digest.ts"
import type { PathInput, ShownPath } from "../base/PathBytes.ts"
import type { Busy, StorageFailure, StoreMoved } from "../sqlite/Database.ts"
import type { SpawnEnvironment, SpawnFailed, SpawnedProcess, SpawnOptions } from "../base/Spawn.ts"
import type { Candidate, CandidateOpening } from "./Candidate.ts"
import type * as E from "./WorkspaceError.ts"
import type {
  BlamePage,
  BranchPage,
  DiffOptions,
  DiffPage,
  GlobPage,
  GrepOptions,
  GrepPage,
  LogOptions,
  LogPage,
  MovedHead,
  PageOptions,
  ResetOptions,
  RewindOptions,
  UndoLogPage,
  UndoOptions
} from "./HistoryValues.ts"
import type {
  Actor,
  BranchInfo,
  BundleOptions,
  BundleReceipt,
  Change,
  CheckpointOutcome,
  CommitInfo,
  CommitOptions,
  CompactOptions,
  CompactReport,
  Entering,
  ExecResult,
  ExportedBundle,
  ExportedPatch,
  FileOperation,
  FileStat,
  GrepMatch,
  ImportOptions,
  ImportReceipt,
  Isolation,
  IsolationOptions,
  LeftWorkspace,
  Manifest,
  MergeOptions,
  MergeOutcome,
  PatchOptions,
  Probe,
  Progress,
  Projection,
  ReadRange,
  Ref,
  SentinelReport,
  StoreStats,
  VerifyReport,
  VisiblePath
} from "./WorkspaceValues.ts"

export type * from "./HistoryValues.ts"
export type * from "./WorkspaceValues.ts"

/** What can fail in any call that touches the store. */
export type StoreError =
  | Busy
  | StorageFailure
  | StoreMoved
  | E.Unavailable
  | E.StoreLocation
  | E.ObjectDamaged
  | E.StoreQuotaExceeded
  | E.OperationUsed
  | E.ArgumentInvalid
  | E.FileSystemFailure

/** What a moved head may fail with; then nothing moved. */
export type MoveFailure = E.RefNotFound | E.HeadMoved | E.MoveRefused | StoreError

export type PathFailure = E.PathError | E.OutsideWorkspace

export interface ExecOptions extends SpawnOptions {
  /** Names of the host's variables to pass on; recorded with the result (W4). */
  readonly passEnv?: readonly string[]
  readonly stdin?: Uint8Array | string
  /** Milliseconds after which the whole process tree is ended (W9). */
  readonly timeLimitMs?: number
  readonly onOutput?: (stream: "stdout" | "stderr", bytes: Uint8Array) => void
  /** Ends every process inside when the command has ended: what it left running, and what was started before. */
  readonly endProcesses?: boolean
  /** A directory that exists, where output beyond the memory cap is spilled, up to 64 MiB; without it, it is counted and dropped. */
  readonly spillDirectory?: string
  /** `false` switches off the git settings that keep `git status` quick and quiet in a fork. */
  readonly gitDefaults?: boolean
}

export interface OpenOptions {
  /**
   * `auto` takes overlay where the probe allows it and names what was taken; a named one is never swapped. `lazy` is an overlay whose base is
   * served from the store: ready at once for a tree of any size, and only what is read is taken out of the store.
   */
  readonly projection?: Projection | "auto"
  /** Absolute path inside the namespace; by default the path of the imported source, so that absolute links inside it work. */
  readonly mountPath?: string
  /** Directories, relative to the root, copied into the upper at mount, so that rename(2) works on them and below; what is none there is passed over. */
  readonly ownDirs?: readonly string[]
  /** Absolute paths hidden inside (the authority store, held-out tests, the origin …) beside the built-in list (W17). */
  readonly hide?: readonly string[]
  /**
   * Absolute paths outside of the workspace that must be there and must not be written: directories below `/tmp` stay visible in the private
   * one, everything else outside is read-only anyway. What lies in the workspace stays writable, and `isolation.reachable` says so.
   */
  readonly readOnlyPaths?: readonly string[]
  /** What cannot be had is `Unavailable`; what is in force is `Workspace.isolation`, read back from the kernel. */
  readonly isolation?: "default" | "off" | IsolationOptions
  /**
   * Keeps a process at the workspace's door that starts its commands: `exec` then costs no launcher of its own. Nothing else of a command
   * changes. `Unavailable` where it cannot be had (no Perl, no namespaces).
   */
  readonly residentShell?: boolean
  readonly actor?: Actor
  /**
   * Asked before every mutating call, every `exec`, `start`, `discard` and checkpoint (W18). When it says no, the processes inside are
   * ended, what no checkpoint holds becomes a commit on a branch of its own named `quarantine/…`, and the call fails with
   * `AuthorityLost`; so does every further one. The branch itself does not move. Reading goes on.
   */
  readonly guard?: AuthorityGuard
  /**
   * Opens the branch as this candidate: its head must hold the candidate's tree, else `CandidateRefused`, and the environment here must be
   * the candidate's, else `EnvironmentMismatch` (W20).
   */
  readonly as?: CandidateOpening
  /**
   * Told, in the phase `materialise`, while files are written or cloned for the workspace: the base of a first opening, a tree of its own.
   * Nothing where there is nothing to write (W14).
   */
  readonly onProgress?: (progress: Progress) => void
}

export interface EnterOptions extends SpawnOptions {
  /** As for `exec`. */
  readonly passEnv?: readonly string[]
  readonly gitDefaults?: boolean
}

/** What a checkpoint does about processes that are still running inside; without either, it is `ProcessesRunning` (W19). */
export interface CheckpointOptions extends CommitOptions {
  /**
   * Stops every process inside, captures, and lets those that were stopped go on, also after a failure or a cancellation. The commit
   * holds one moment of all of them and may become a candidate. Where the workspace's guarantee is not `wholeTree`, a process
   * that hides from its owner is not stopped.
   */
  readonly quiesce?: boolean
  /** Captures beside running processes. The commit is labelled `live` for good and cannot become a candidate. */
  readonly allowLive?: boolean
  /** Commits also when nothing but times changed (W8). */
  readonly keepTimes?: boolean
}

/** A mounted, writable view of a branch. Lives as long as its scope; calls on one workspace run one after the other. */
export interface Workspace {
  readonly id: string
  readonly branch: string
  /** The commit it was opened on, or that its last checkpoint made. */
  readonly head: Effect.Effect<string>
  readonly projection: Projection
  /** The absolute path of the tree as processes inside see it. */
  readonly path: string
  readonly isolation: Isolation
  /**
   * What has changed by now at the watched places outside, where isolation is not `enforced`; null where it is, because nothing inside can
   * write there.
   */
  readonly sentinels: Effect.Effect<SentinelReport | null, WorkspaceError>
  /** Until the workspace ends; looked at when it is asked for. */
  readonly visiblePath: Effect.Effect<VisiblePath, WorkspaceError>
  /**
   * For a host that starts its processes itself: the command and environment by which one runs inside, with the same rights as `exec`.
   * It ends with the workspace, and counts as running inside until then. What leads in stops while the process inside is stopped, and
   * goes on with SIGCONT. Start it in a process group of its own: kill(2) on its own group reaches out of the workspace. Worthless after the
   * end of the workspace.
   */
  readonly enter: (
    argv: readonly [string, ...string[]],
    options?: EnterOptions
  ) => Effect.Effect<Entering, SpawnFailed | PathFailure | WorkspaceError>
  /** Starts processes inside; what a host is given for its turn. */
  readonly environment: SpawnEnvironment

  readonly read: (path: PathInput) => Effect.Effect<Uint8Array, PathFailure | WorkspaceError>
  readonly write: (
    path: PathInput,
    bytes: Uint8Array | string,
    options?: { readonly mode?: number }
  ) => Effect.Effect<void, PathFailure | WorkspaceError>
  /**
   * Replaces `deleteCount` bytes at `offset` by `bytes`; the range lies inside the file, else `PathError` names its size. Written in
   * place: the cost is that of `bytes` where as many come as go, else that of moving what lies behind them.
   */
  readonly splice: (
    path: PathInput,
    offset: number,
    deleteCount: number,
    bytes: Uint8Array
  ) => Effect.Effect<void, PathFailure | WorkspaceError>
  /** Replaces the one exact occurrence of `find`. */
  readonly edit: (
    path: PathInput,
    find: string,
    replace: string
  ) => Effect.Effect<void, PathFailure | E.EditRefused | WorkspaceError>
  readonly apply: (
    operations: readonly FileOperation[]
  ) => Effect.Effect<void, PathFailure | E.EditRefused | WorkspaceError>
  readonly list: (path: PathInput) => Effect.Effect<readonly FileStat[], PathFailure | WorkspaceError>
  readonly stat: (path: PathInput) => Effect.Effect<FileStat, PathFailure | WorkspaceError>
  readonly glob: (pattern: string) => Effect.Effect<readonly ShownPath[], PathFailure | WorkspaceError>
  /**
   * In a thread of the store's. A pattern at work for longer than 2 seconds on a file (5 above 2 MiB; above 16 MiB, 5 on each part of it) is
   * stopped: `PatternTooSlow`. Binary files (a NUL in the first 8,000 bytes), and those that this user may not read, have no lines.
   */
  readonly grep: (
    pattern: RegExp,
    options?: { readonly glob?: string; readonly limit?: number }
  ) => Effect.Effect<readonly GrepMatch[], E.PatternTooSlow | PathFailure | WorkspaceError>
  readonly copy: (from: PathInput, to: PathInput) => Effect.Effect<void, PathFailure | WorkspaceError>
  readonly move: (from: PathInput, to: PathInput) => Effect.Effect<void, PathFailure | WorkspaceError>
  readonly remove: (path: PathInput) => Effect.Effect<void, PathFailure | WorkspaceError>

  readonly exec: (
    command: readonly [string, ...string[]] | string,
    options?: ExecOptions
  ) => Effect.Effect<ExecResult, SpawnFailed | PathFailure | WorkspaceError>
  /** Starts a long-running process; it ends with the given scope, or by `kill`. */
  readonly start: (
    argv: readonly [string, ...string[]],
    options?: SpawnOptions
  ) => Effect.Effect<SpawnedProcess, SpawnFailed | WorkspaceError, Scope.Scope>

  readonly changes: Effect.Effect<readonly Change[], WorkspaceError>
  readonly checkpoint: (
    options?: CheckpointOptions
  ) => Effect.Effect<CheckpointOutcome, E.HeadMoved | E.ProcessesRunning | WorkspaceError>
  /** Drops everything since the last checkpoint, ends the workspace, and records that it was asked for (W12). */
  readonly discard: (reason: string) => Effect.Effect<void, WorkspaceError>
}

/** What any call on an open workspace may fail with; the last two only where it was opened with a guard. */
export type WorkspaceError = StoreError | E.WorkspaceClosed | AuthorityLost | AuthorityUnknown

/** The provider's operations. All of them fail typed and leave everything as it was. */
export interface WorkspaceProvider {
  /** Effects, not values: a preset loads the provider when it is first used, and not before (P4, P9). */
  readonly manifest: Effect.Effect<Manifest, StoreError>
  readonly probe: Effect.Effect<Probe, StoreError>

  readonly createEmpty: (options?: { readonly name?: string }) => Effect.Effect<ImportReceipt, StoreError>
  readonly importDirectory: (
    options: ImportOptions
  ) => Effect.Effect<ImportReceipt, E.ImportRefused | E.StoreLocation | StoreError>
  /** One row, no file copied, whatever the size of the tree (L1). */
  readonly fork: (
    from: Ref,
    options?: { readonly name?: string; readonly operationId?: string }
  ) => Effect.Effect<BranchInfo, E.RefNotFound | StoreError>
  readonly open: (
    branch: string,
    options?: OpenOptions
  ) => Effect.Effect<
    Workspace,
    | E.RefNotFound
    | E.Unavailable
    | E.MountPathUnavailable
    | E.StoreLocation
    | E.WorkspaceClosed
    | E.CandidateRefused
    | E.EnvironmentMismatch
    | StoreError,
    Scope.Scope
  >

  readonly branch: (id: string) => Effect.Effect<BranchInfo, E.RefNotFound | StoreError>
  readonly commit: (ref: Ref) => Effect.Effect<CommitInfo, E.RefNotFound | StoreError>
  /** The branches of a project (its id, or that of anything in it), 1,000 a page. */
  readonly branches: (
    ref: Ref,
    options?: PageOptions
  ) => Effect.Effect<BranchPage, E.RefNotFound | E.QueryInvalid | StoreError>
  /**
   * The commits that a ref, or several of them, grew from, through both parents; 1,000 a page. Later pages go on from the commits
   * that the first one began at, wherever the branches are by then; a page looks at 5,000 commits at most (L3).
   */
  readonly log: (
    ref: Ref | readonly Ref[],
    options?: LogOptions
  ) => Effect.Effect<LogPage, E.RefNotFound | E.QueryInvalid | StoreError>
  /** What differs between two states, 1,000 changes a page; equal subtrees are skipped unread. */
  readonly diff: (
    from: Ref,
    to: Ref,
    options?: DiffOptions
  ) => Effect.Effect<DiffPage, E.RefNotFound | E.QueryInvalid | StoreError>
  /**
   * The commit of each line of a file, through renames and both parents of a merge; 1,000 lines a page. A line that was copied from
   * another file that stayed belongs to the commit that copied it. `NotText`: binary, or above 4 MiB (L3).
   */
  readonly blame: (
    ref: Ref,
    path: PathInput,
    options?: PageOptions
  ) => Effect.Effect<BlamePage, E.Unsupported | E.RefNotFound | E.NotText | E.QueryInvalid | PathFailure | StoreError>
  /** The whole file, or what there is of a range of it, which reads only what the range lies in. At most 2 GiB in one call. */
  readonly readAt: (
    ref: Ref,
    path: PathInput,
    range?: ReadRange
  ) => Effect.Effect<Uint8Array, E.RefNotFound | PathFailure | StoreError>
  readonly listAt: (
    ref: Ref,
    path: PathInput
  ) => Effect.Effect<readonly FileStat[], E.RefNotFound | PathFailure | StoreError>
  readonly statAt: (ref: Ref, path: PathInput) => Effect.Effect<FileStat, E.RefNotFound | PathFailure | StoreError>

  /** Paths that match, files and directories, as `Workspace.glob` has them; 1,000 a page. */
  readonly globAt: (
    ref: Ref,
    pattern: string,
    options?: PageOptions
  ) => Effect.Effect<GlobPage, E.RefNotFound | E.QueryInvalid | E.PatternTooSlow | StoreError>
  /**
   * Lines that match, as `Workspace.grep` has them; 1,000 a page, which reads 64 MiB at most. A pattern is stopped when it is at work for
   * 2 seconds on one file, 5 on one above 2 MiB: `PatternTooSlow`.
   */
  readonly grepAt: (
    ref: Ref,
    pattern: RegExp,
    options?: GrepOptions
  ) => Effect.Effect<GrepPage, E.RefNotFound | E.QueryInvalid | E.PatternTooSlow | PathFailure | StoreError>
  /** A new branch at a state that a branch has had; the branch itself stays as it is (L7). Else `MoveRefused`. */
  readonly rewind: (
    branch: string,
    options: RewindOptions
  ) => Effect.Effect<BranchInfo, E.RefNotFound | E.MoveRefused | StoreError>
  /**
   * Moves the head of a branch, and keeps the old one in the undo log. No lease, spend, effect or running process changes with it; the result
   * tells which calls, agents and goals the undone commits name, and which effects of them stand (L7). A workspace of the branch
   * that is open keeps its files: its next checkpoint is `HeadMoved`.
   */
  readonly reset: (branch: string, options: ResetOptions) => Effect.Effect<MovedHead, MoveFailure>
  /** Moves the head back to where a move took it from: the newest reset that was not taken back, or the one that is named. */
  readonly undo: (branch: string, options: UndoOptions) => Effect.Effect<MovedHead, MoveFailure>
  /** How the head of a branch was moved, newest first; 1,000 a page. */
  readonly undoLog: (
    branch: string,
    options?: PageOptions
  ) => Effect.Effect<UndoLogPage, E.RefNotFound | E.QueryInvalid | StoreError>

  /** Direct calls on a branch head, one commit each, without a mount (W4, L2). */
  readonly applyTo: (
    branch: string,
    operations: readonly FileOperation[],
    options?: CommitOptions
  ) => Effect.Effect<CheckpointOutcome, E.RefNotFound | E.HeadMoved | E.EditRefused | PathFailure | StoreError>
  /** Mounted, run, captured, unmounted: nothing of it is left after the call (L2). */
  readonly execOn: (
    branch: string,
    command: readonly [string, ...string[]] | string,
    options?: ExecOptions & CommitOptions & OpenOptions
  ) => Effect.Effect<
    { readonly result: ExecResult; readonly checkpoint: CheckpointOutcome },
    | E.RefNotFound
    | E.Unavailable
    | E.MountPathUnavailable
    | E.StoreLocation
    | E.CandidateRefused
    | E.EnvironmentMismatch
    | E.HeadMoved
    | E.ProcessesRunning
    | SpawnFailed
    | PathFailure
    | WorkspaceError
  >

  /** The provider-neutral identity of a commit (W5, W6). A commit that was captured live is `CandidateRefused` (W19). */
  readonly candidate: (
    ref: Ref,
    options: { readonly environment: Digest; readonly parent: string | null }
  ) => Effect.Effect<Candidate, E.RefNotFound | E.CandidateRefused | StoreError>
  /** Keeps a commit from every collection under a caller's key, which is not empty, until `unpin` (G75). Idempotent. */
  readonly pin: (key: string, ref: Ref) => Effect.Effect<void, E.RefNotFound | StoreError>
  readonly unpin: (key: string) => Effect.Effect<void, StoreError>
  /** What became of an operation whose reply was lost (W10, G75): the commit it made, or `absent`. */
  readonly findOperation: (
    operationId: string
  ) => Effect.Effect<{ readonly state: "recorded"; readonly commit: string } | { readonly state: "absent" }, StoreError>

  readonly exportDirectory: (
    ref: Ref,
    target: string,
    options?: { readonly onProgress?: (progress: Progress) => void }
  ) => Effect.Effect<
    { readonly files: number; readonly bytes: number },
    E.RefNotFound | E.ExportRefused | E.Unavailable | StoreError
  >
  /**
   * One POSIX archive (pax) of a state, with exact times, modes, links and holes; `target` is a file that does not exist yet, and does not
   * when the call fails (W16).
   */
  readonly exportTar: (
    ref: Ref,
    target: string,
    options?: { readonly onProgress?: (progress: Progress) => void }
  ) => Effect.Effect<
    { readonly files: number; readonly bytes: number },
    E.RefNotFound | E.ExportRefused | E.Unavailable | StoreError
  >
  readonly exportPatch: (
    options: PatchOptions
  ) => Effect.Effect<ExportedPatch, E.RefNotFound | E.Unavailable | StoreError>

  /**
   * Merges a state into a branch: one commit with two parents, or the complete list of conflicts and nothing else (W10, K2). Both must have
   * grown from one commit, else `MoveRefused`. `Unsupported` where the manifest says that it cannot.
   */
  readonly merge: (
    from: Ref,
    into: string,
    options?: MergeOptions
  ) => Effect.Effect<MergeOutcome, E.Unsupported | E.Unavailable | MoveFailure>

  /** What a provider of this version may lack: `Unsupported` names the capability and what to do without it (W1, W3). */
  readonly importGit: (options: {
    readonly repository: PathInput
    readonly revision?: string
  }) => Effect.Effect<never, E.Unsupported | StoreError>
  readonly retire: (branch: string) => Effect.Effect<never, E.Unsupported | StoreError>
  readonly collect: Effect.Effect<never, E.Unsupported | StoreError>

  /** Workspaces that wait for a decision: checkpoint by `recover`, or drop by `discardLeft` (W12, W23). */
  readonly left: Effect.Effect<readonly LeftWorkspace[], StoreError>
  /**
   * Commits what the workspace held to a branch of its own, under the given operation id; the original branch does not move. The files
   * of a quarantined one are a commit already: the new branch begins at it, and the outcome is `unchanged`. Of several who recover or drop
   * one workspace at once, one does; the others wait, and then hear by `RefNotFound` what came of it, or are `Busy` after 5 seconds.
   */
  readonly recover: (
    workspace: string,
    options?: CommitOptions
  ) => Effect.Effect<
    { readonly branch: string; readonly checkpoint: CheckpointOutcome },
    E.RefNotFound | E.WorkspaceUnreadable | E.Unavailable | StoreError
  >
  readonly discardLeft: (workspace: string, reason: string) => Effect.Effect<void, E.RefNotFound | StoreError>

  /** One file with the state of a ref, and its history, for `importBundle` of another store (L13). */
  readonly exportBundle: (
    options: BundleOptions
  ) => Effect.Effect<ExportedBundle, E.RefNotFound | E.ExportRefused | E.Unsupported | StoreError>
  /** Takes a bundle in: every object is checked before anything counts, ids of commits stay; twice adds nothing (L13). */
  readonly importBundle: (options: {
    readonly source: PathInput
    readonly onProgress?: (progress: Progress) => void
  }) => Effect.Effect<BundleReceipt, E.BundleRefused | E.Unsupported | StoreError>
  /**
   * Writes what commits and imports left behind anew, smaller; deletes nothing that is named. Goes on beside everything else; interrupted,
   * it ends its step and keeps what it did.
   */
  readonly compact: (options?: CompactOptions) => Effect.Effect<CompactReport, E.Unsupported | StoreError>
  readonly stats: Effect.Effect<StoreStats, StoreError>
  /** Reads every object back against its id, and looks whether somebody has changed a cached tree (L10). */
  readonly verify: (options?: {
    readonly onProgress?: (progress: Progress) => void
  }) => Effect.Effect<VerifyReport, StoreError>
}

/** The service under which the standard preset offers its workspace provider. */
export class Workspaces extends Context.Service<Workspaces, WorkspaceProvider>()("coppice/Workspaces") {}
