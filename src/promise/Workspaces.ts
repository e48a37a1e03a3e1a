/**
 * Workspaces as plain async functions: the declarations. No Effect in them.
 * Promise: the same operations as `coppice/workspace`; what a call may fail with stands there at the operation of the same
 * name. A workspace that is closed with changes in it keeps them until `recover` or `discardLeft` decides (W12).
 * Rules: W3, W4, W9 to W14, W16, L1, L2.
 */
import type { Readable, Writable } from "node:stream"
import type { PathInput, ShownPath } from "../base/PathBytes.ts"
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
} from "../workspace/HistoryValues.ts"
import type {
  Actor,
  BranchInfo,
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
  StoreStats,
  VerifyReport,
  VisiblePath
} from "../workspace/WorkspaceValues.ts"
import type { CallOptions, Duration, Task } from "./Plain.ts"

/** A state to start from: an id, or anything that a call gave for one (an import, a branch, a commit, a checkpoint). */
export type From = string | { readonly commit: string } | { readonly id: string }

export interface Watched extends CallOptions {
  readonly onProgress?: (progress: Progress) => void
}

export interface ExecOptions extends CallOptions {
  /** Directory inside the workspace, relative to its root; the root when absent. */
  readonly cwd?: string
  /** Variables added to the allow-listed ones. */
  readonly env?: Readonly<Record<string, string>>
  /** Names of this process's variables to pass on; recorded with the result. */
  readonly passEnv?: readonly string[]
  readonly stdin?: Uint8Array | string
  /** The whole process tree is ended after it; the result says `timedOut`. */
  readonly timeLimit?: Duration
  readonly onOutput?: (stream: "stdout" | "stderr", bytes: Uint8Array) => void
  /** Where output beyond the memory cap is spilled; without it, it is counted and dropped. */
  readonly spillDirectory?: string
  readonly gitDefaults?: boolean
}

/** `onProgress` is told while files are written or cloned for the workspace; what it throws is of no effect. */
export interface WorkspaceOpenOptions extends Watched {
  /** `auto` (the default) takes the overlay where the machine allows it and names what was taken. */
  readonly projection?: Projection | "auto"
  /** Absolute path under which processes inside see the tree. */
  readonly mountPath?: string
  /** Directories, relative to the root, copied when it is opened so that rename(2) works on them and below; what is none there is passed over. */
  readonly ownDirs?: readonly string[]
  /** Further absolute paths that processes inside may not see. */
  readonly hide?: readonly string[]
  /** Absolute paths outside that stay visible, read-only, also below the private `/tmp`. */
  readonly readOnlyPaths?: readonly string[]
  /** `{ network: "none" }`: no network but a loopback of its own; `UNAVAILABLE` where that cannot be had. */
  readonly isolation?: "default" | "off" | IsolationOptions
  /** A process stands ready that starts commands, so that `exec` costs no launcher of its own; `UNAVAILABLE` without Perl or namespaces. */
  readonly residentShell?: boolean
  readonly actor?: Actor
}

/** A process that runs inside a workspace until it ends, is killed, or the workspace closes. */
export interface StartedProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Its exit code, null when a signal ended it. */
  readonly wait: () => Promise<{ readonly code: number | null; readonly signal: string | null }>
  /** TERM to the whole tree, KILL after `grace` (2 seconds when absent). */
  readonly kill: (options?: { readonly grace?: Duration }) => Promise<void>
}

export interface CheckpointOptions extends CommitOptions, CallOptions {
  /** Stops every process inside, captures one moment of all of them, and lets them go on. */
  readonly quiesce?: boolean
  /** Captures beside running processes; the commit is labelled live for good and cannot become a candidate. */
  readonly allowLive?: boolean
  /** Commit a change of times alone. */
  readonly keepTimes?: boolean
}

/** A mounted, writable view of a branch. Calls on one workspace run one after the other. */
export interface Workspace extends AsyncDisposable {
  readonly id: string
  readonly branch: string
  readonly projection: Projection
  /** The absolute path of the tree as processes inside see it. */
  readonly path: string
  readonly isolation: Isolation
  /** The commit it was opened on, or that its last checkpoint made. */
  readonly head: (options?: CallOptions) => Promise<string>
  /** Where programs outside reach the tree, until the workspace closes. */
  readonly visiblePath: (options?: CallOptions) => Promise<VisiblePath>
  /** The command and environment by which a program starts a process of its own inside. */
  readonly enter: (
    argv: readonly [string, ...string[]],
    options?: CallOptions & {
      readonly cwd?: string
      readonly env?: Readonly<Record<string, string>>
      readonly passEnv?: readonly string[]
      readonly gitDefaults?: boolean
    }
  ) => Promise<Entering>

  readonly read: (path: PathInput, options?: CallOptions) => Promise<Uint8Array>
  /** As UTF-8 text; what is none is `NOT_TEXT`. */
  readonly readText: (path: PathInput, options?: CallOptions) => Promise<string>
  readonly write: (
    path: PathInput,
    bytes: Uint8Array | string,
    options?: CallOptions & { readonly mode?: number }
  ) => Promise<void>
  /** Replaces `deleteCount` bytes at `offset` by `bytes`; the range lies inside the file, else `PathError` names its size. */
  readonly splice: (
    path: PathInput,
    offset: number,
    deleteCount: number,
    bytes: Uint8Array,
    options?: CallOptions
  ) => Promise<void>
  /** Replaces the one exact occurrence of `find`. */
  readonly edit: (path: PathInput, find: string, replace: string, options?: CallOptions) => Promise<void>
  /** All of the operations, or none. */
  readonly apply: (operations: readonly FileOperation[], options?: CallOptions) => Promise<void>
  readonly list: (path?: PathInput, options?: CallOptions) => Promise<readonly FileStat[]>
  readonly stat: (path: PathInput, options?: CallOptions) => Promise<FileStat>
  readonly glob: (pattern: string, options?: CallOptions) => Promise<readonly ShownPath[]>
  readonly grep: (
    pattern: RegExp,
    options?: CallOptions & { readonly glob?: string; readonly limit?: number }
  ) => Promise<readonly GrepMatch[]>
  readonly copy: (from: PathInput, to: PathInput, options?: CallOptions) => Promise<void>
  readonly move: (from: PathInput, to: PathInput, options?: CallOptions) => Promise<void>
  readonly remove: (path: PathInput, options?: CallOptions) => Promise<void>

  /** Runs to its end. A non-zero exit is a result, and so is a time limit that ran out. */
  readonly exec: (command: readonly [string, ...string[]] | string, options?: ExecOptions) => Promise<ExecResult>
  readonly start: (
    argv: readonly [string, ...string[]],
    options?: CallOptions & Pick<ExecOptions, "cwd" | "env">
  ) => Promise<StartedProcess>

  readonly changes: (options?: CallOptions) => Promise<readonly Change[]>
  /** `outcome` is `unchanged` when there was nothing to save. A text is the message. */
  readonly checkpoint: (options?: string | CheckpointOptions) => Promise<CheckpointOutcome>
  /** Drops everything since the last checkpoint and ends the workspace; recorded with the reason. */
  readonly discard: (reason: string, options?: CallOptions) => Promise<void>
  /** Ends it. Changes that no checkpoint holds are kept: see `workspaces.left`. Idempotent. */
  readonly close: () => Promise<void>
}

export interface WorkspaceCalls {
  readonly manifest: (options?: CallOptions) => Promise<Manifest>
  readonly probe: (options?: CallOptions) => Promise<Probe>
  readonly createEmpty: (options?: CallOptions & { readonly name?: string }) => Promise<ImportReceipt>
  /** Reads a directory with everything in it, installed dependencies and ignored files too. It is never changed. */
  readonly importDirectory: (
    source: PathInput,
    options?: Watched & { readonly name?: string; readonly operationId?: string }
  ) => Task<ImportReceipt, Progress>
  /** One row, no file copied. A text is the name. */
  readonly fork: (
    from: From,
    options?: string | (CallOptions & { readonly name?: string; readonly operationId?: string })
  ) => Promise<BranchInfo>
  readonly open: (branch: string | { readonly id: string }, options?: WorkspaceOpenOptions) => Promise<Workspace>

  readonly branch: (id: string, options?: CallOptions) => Promise<BranchInfo>
  readonly commit: (ref: From, options?: CallOptions) => Promise<CommitInfo>
  readonly branches: (ref: From, options?: CallOptions & PageOptions) => Promise<BranchPage>
  /** The commits that a ref, or several, grew from; newest first, in pages. */
  readonly log: (ref: From | readonly From[], options?: CallOptions & LogOptions) => Promise<LogPage>
  /** The history of all branches of a project, or with `only` that of one ref, drawn as text or as an SVG document. */
  readonly graph: (
    ref: From,
    options?: CallOptions & {
      readonly as?: "text" | "ascii" | "svg"
      /** How many commits; 200 when absent. */
      readonly limit?: number
      readonly only?: boolean
    }
  ) => Promise<string>
  readonly diff: (from: From, to: From, options?: CallOptions & DiffOptions) => Promise<DiffPage>
  /** The commit of each line of a file, through renames. */
  readonly blame: (ref: From, path: PathInput, options?: CallOptions & PageOptions) => Promise<BlamePage>
  /** Paths of a state that match, without opening it. */
  readonly globAt: (ref: From, pattern: string, options?: CallOptions & PageOptions) => Promise<GlobPage>
  /** Lines of a state that match, without opening it. */
  readonly grepAt: (ref: From, pattern: RegExp, options?: CallOptions & GrepOptions) => Promise<GrepPage>
  /** A new branch at a state that a branch has had. A text is where to. */
  readonly rewind: (
    branch: string | { readonly id: string },
    options: string | (CallOptions & Omit<RewindOptions, "to"> & { readonly to: From })
  ) => Promise<BranchInfo>
  /** Moves the head; the old one stands in the undo log. Leases, spends, effects and running processes stay as they are. */
  readonly reset: (
    branch: string | { readonly id: string },
    options: CallOptions & Omit<ResetOptions, "to"> & { readonly to: From }
  ) => Promise<MovedHead>
  /** Moves the head back to where a move took it from. */
  readonly undo: (branch: string | { readonly id: string }, options: CallOptions & UndoOptions) => Promise<MovedHead>
  readonly undoLog: (
    branch: string | { readonly id: string },
    options?: CallOptions & PageOptions
  ) => Promise<UndoLogPage>
  /** The whole file, or what there is of a range of it. At most 2 GiB in one call. */
  readonly readAt: (ref: From, path: PathInput, options?: CallOptions & ReadRange) => Promise<Uint8Array>
  readonly listAt: (ref: From, path?: PathInput, options?: CallOptions) => Promise<readonly FileStat[]>
  readonly statAt: (ref: From, path: PathInput, options?: CallOptions) => Promise<FileStat>
  /** Direct calls on the head of a branch, one commit each, without a mount. */
  readonly applyTo: (
    branch: string | { readonly id: string },
    operations: readonly FileOperation[],
    options?: CallOptions & CommitOptions
  ) => Promise<CheckpointOutcome>
  /** Mounted, run, saved, unmounted: nothing of it is left after the call. */
  readonly execOn: (
    branch: string | { readonly id: string },
    command: readonly [string, ...string[]] | string,
    options?: ExecOptions & WorkspaceOpenOptions & CommitOptions
  ) => Promise<{ readonly result: ExecResult; readonly checkpoint: CheckpointOutcome }>
  readonly pin: (key: string, ref: From, options?: CallOptions) => Promise<void>
  readonly unpin: (key: string, options?: CallOptions) => Promise<void>
  readonly findOperation: (
    operationId: string,
    options?: CallOptions
  ) => Promise<{ readonly state: "recorded"; readonly commit: string } | { readonly state: "absent" }>
  readonly exportDirectory: (
    ref: From,
    target: string,
    options?: Watched
  ) => Task<{ readonly files: number; readonly bytes: number }, Progress>
  /** One archive; `target` is a file that does not exist yet. */
  readonly exportTar: (
    ref: From,
    target: string,
    options?: Watched
  ) => Task<{ readonly files: number; readonly bytes: number }, Progress>
  /** A git patch of source files; ignored files are left out and counted. */
  readonly exportPatch: (
    options: CallOptions & Omit<PatchOptions, "from" | "to"> & { readonly from: From; readonly to: From }
  ) => Promise<ExportedPatch>
  /**
   * Merges a state into a branch: one commit with two parents, or the complete list of conflicts and nothing else. `UNSUPPORTED` where the
   * manifest says that the provider cannot.
   */
  readonly merge: (
    from: From,
    into: string | { readonly id: string },
    options?: CallOptions & MergeOptions
  ) => Promise<MergeOutcome>
  /** Workspaces that ended without a decision about their changes. */
  readonly left: (options?: CallOptions) => Promise<readonly LeftWorkspace[]>
  readonly recover: (
    workspace: string,
    options?: CallOptions & CommitOptions
  ) => Promise<{ readonly branch: string; readonly checkpoint: CheckpointOutcome }>
  readonly discardLeft: (workspace: string, reason: string, options?: CallOptions) => Promise<void>
  /** One file with a state and, unless `history` is false, all that led to it. */
  readonly exportBundle: (
    ref: From,
    target: PathInput,
    options?: Watched & { readonly history?: boolean }
  ) => Task<ExportedBundle, Progress>
  /** Takes in what `exportBundle` of another store wrote, under the same ids of commits. */
  readonly importBundle: (source: PathInput, options?: Watched) => Task<BundleReceipt, Progress>
  /** Writes the store anew, smaller; deletes nothing. Goes on beside everything else and may be stopped at any time. */
  readonly compact: (options?: CompactOptions & Watched) => Task<CompactReport, Progress>
  readonly stats: (options?: CallOptions) => Promise<StoreStats>
  /** Reads every object back against its id, and looks whether somebody has changed a cached tree. */
  readonly verify: (options?: Watched) => Task<VerifyReport, Progress>
}
