/**
 * The plain values of the workspace contract: what its calls take and give, without Effect.
 * Promise: a value that prints, serialises and compares; nothing here imports Effect, so that the declarations of an entry
 * point that needs none can name these types. Rules: W1, W2, W5, W8, W10, W13, W14, W17, L15.
 */
import type { Digest } from "../base/Digest.ts"
import type { Durability } from "../base/Durability.ts"
import type { PathInput, ShownPath } from "../base/PathBytes.ts"

export type * from "./StoreValues.ts"

/** The id of a layer (`lyr_`), branch (`brn_`) or commit (`cmt_`). A branch stands for its head. */
export type Ref = string

/** What a provider can do (W1). What it lacks is answered with `Unsupported`. */
export interface Manifest {
  readonly provider: string
  readonly version: string
  readonly keepsIgnoredFiles: boolean
  readonly copyFreeFork: boolean
  readonly visiblePath: boolean
  readonly unprivileged: boolean
  readonly mountAtChosenPath: boolean
  readonly symlinks: boolean
  readonly hardLinks: "preserved" | "splitOnWrite" | "none"
  readonly stableInodes: boolean
  readonly modes: boolean
  readonly nanosecondMtimes: boolean
  readonly xattrs: boolean
  readonly sparseFiles: boolean
  readonly nonUtf8Names: boolean
  readonly renameDirectory: "works" | "copyOnly"
  readonly merge: boolean
  /** A merge lists its conflicts one by one, with both sides and their base. */
  readonly conflictReport: boolean
  /** Every commit stays readable by `log`, `diff` and the calls at a ref. */
  readonly history: boolean
  readonly blame: boolean
  /** Space that no branch needs any more is freed. */
  readonly collect: boolean
  readonly quota: boolean
  readonly durability: Durability
  /**
   * Contents are checked against their digests also when a workspace is made of them. False: a workspace shows what the disk has, and damage
   * is found by `verify`, by reads at a ref and by exports.
   */
  readonly checksOpened: boolean
  readonly crossMachine: boolean
}

/** What the machine offers (W2). `ready` is false when a needed piece is missing; each is named with its remedy. */
export interface Probe {
  readonly ready: boolean
  readonly projections: readonly ProjectionProbe[]
  readonly missing: readonly { readonly what: string; readonly remedy: string }[]
}
export interface ProjectionProbe {
  readonly projection: Projection
  readonly available: boolean
  readonly missing: readonly { readonly what: string; readonly remedy: string }[]
}

/**
 * How a root becomes a directory. Named in every result, never swapped silently. `overlay`, `lazy` (an overlay over a tree that is served from the
 * store as it is read) and `copy` are LayerFS's; `reflink` and `worktree` are
 * what the providers of those names make; a provider of an application's own makes `copy`.
 */
export type Projection = "overlay" | "lazy" | "copy" | "reflink" | "worktree"

/** At most twenty a second beside the first and the last of a phase; within a phase no count goes down (W14). */
export interface Progress {
  readonly phase: "scan" | "store" | "commit" | "materialise" | "export" | "verify" | "compact"
  /** Entries in `scan`, stored objects in `verify` and `compact`, else files. */
  readonly files: number
  readonly bytes: number
  /** Null while it is not known. */
  readonly totalFiles: number | null
  readonly totalBytes: number | null
}

export interface ImportOptions {
  readonly source: PathInput
  readonly name?: string
  /** Found again by `findOperation` after a lost reply (G75). A new one is made when absent. */
  readonly operationId?: string
  readonly onProgress?: (progress: Progress) => void
}

/**
 * What an import may find worth knowing (W13). Nothing in these words is ever the content of a file.
 *
 * Left out of the tree: `skippedSpecialFile` (socket, fifo, device), `skippedUnreadable`, `skippedPathTooLong` (more than 4,095
 * bytes from the root; nothing below it was looked at), `skippedStore` (a store of Coppice), `skippedWorktree` (another worktree of the
 * repository that is imported), `vanished` (gone before it was read).
 * Kept, and to be known: `changedWhileRead` (in each of three readings), `gitPointerFile` and `gitAlternates` (git commands in a fork
 * reach a repository outside), `linkLeavesRoot`, `linkedPackage` (an installed package whose link leaves the root),
 * `virtualEnvironment` (its scripts name absolute paths), `likelySecret`, `foreignBinary` (another system or processor),
 * `nativeAbi` (an add-on built for another Node or C library), `normalised` (kept in another form than the source has it).
 *
 * Not of the tree: `staleLock` (a lock in the git directory that no process holds; git commands there fail until it is removed).
 */
export type ImportNoteKind =
  | "skippedSpecialFile"
  | "skippedUnreadable"
  | "skippedPathTooLong"
  | "skippedStore"
  | "skippedWorktree"
  | "vanished"
  | "changedWhileRead"
  | "gitPointerFile"
  | "gitAlternates"
  | "linkLeavesRoot"
  | "linkedPackage"
  | "virtualEnvironment"
  | "likelySecret"
  | "foreignBinary"
  | "nativeAbi"
  | "normalised"
  | "staleLock"

/** Something worth knowing about one path of an import. */
export interface ImportNote {
  readonly kind: ImportNoteKind
  readonly path: ShownPath
  readonly detail: string
}

export interface ImportReceipt {
  readonly operationId: string
  readonly project: string
  readonly layer: string
  readonly commit: string
  readonly root: Digest
  readonly files: number
  readonly directories: number
  readonly symlinks: number
  readonly hardLinkGroups: number
  readonly bytes: number
  readonly storedBytes: number
  readonly durability: Durability
  /** By kind and path; of each kind the first 500 by path. */
  readonly notes: readonly ImportNote[]
  /** How many notes of each kind there were in all; a kind without any is absent. */
  readonly noteCounts: Readonly<Partial<Record<ImportNoteKind, number>>>
}

export interface BranchInfo {
  readonly id: string
  readonly name: string
  readonly project: string
  readonly base: string
  readonly head: string
  readonly durability: Durability
}

export interface CommitInfo {
  readonly id: string
  readonly project: string
  /** The commit that it was made from; null for an import. */
  readonly parent: string | null
  /** What was merged into `parent`; null for a commit that merges nothing. */
  readonly secondParent: string | null
  readonly root: Digest
  readonly message: string
  readonly at: number
  readonly operationId: string
  readonly actor: Actor
  /** Captured beside running processes (W19). */
  readonly live: boolean
}

/** Who made a commit: recorded with it, so that history names the step that wrote each byte. */
export interface Actor {
  /** The call, or tool use, of the agent. */
  readonly call?: string
  readonly agent?: string
  readonly goal?: string
}

export type EntryType = "file" | "directory" | "symlink"

export interface FileStat extends ShownPath {
  readonly type: EntryType
  /** Permission bits, `mode & 0o7777`; 0 for a link. */
  readonly mode: number
  readonly size: number
  /** Nanoseconds since 1970 as a decimal string: beyond what a number holds exactly. */
  readonly mtimeNs: string
  readonly target?: ShownPath
}

export interface Change extends ShownPath {
  readonly kind: "added" | "modified" | "removed" | "typeChanged" | "modeChanged"
  readonly before: { readonly type: EntryType; readonly mode: number; readonly size: number } | null
  readonly after: { readonly type: EntryType; readonly mode: number; readonly size: number } | null
  /** Where an added entry was: it has gone there, unchanged. Only in a page of `diff`. */
  readonly from?: ShownPath
  /** Where a removed entry is. */
  readonly to?: ShownPath
}

/** One step of `apply`: all of a batch, or nothing. */
export type FileOperation =
  | { readonly op: "write"; readonly path: PathInput; readonly bytes: Uint8Array | string; readonly mode?: number }
  /**
   * Replaces `deleteCount` bytes at `offset` by `bytes`; the range lies inside the file, else `PathError` names its size. On a branch
   * it costs the edit and not the file.
   */
  | {
      readonly op: "splice"
      readonly path: PathInput
      readonly offset: number
      readonly deleteCount: number
      readonly bytes: Uint8Array | string
    }
  | { readonly op: "edit"; readonly path: PathInput; readonly find: string; readonly replace: string }
  | { readonly op: "remove"; readonly path: PathInput }
  | { readonly op: "move"; readonly from: PathInput; readonly to: PathInput }
  | { readonly op: "copy"; readonly from: PathInput; readonly to: PathInput }
  | { readonly op: "mkdir"; readonly path: PathInput; readonly mode?: number }
  | { readonly op: "symlink"; readonly path: PathInput; readonly target: PathInput }
  | { readonly op: "chmod"; readonly path: PathInput; readonly mode: number }

/** A part of a file: what there is of `length` bytes (to the end, when absent) from `offset` (0, when absent) on. */
export interface ReadRange {
  readonly offset?: number
  readonly length?: number
}

export interface CommitOptions {
  readonly message?: string
  readonly operationId?: string
  readonly actor?: Actor
}

/** W10. `unknown` is an error of the transport, resolved by `findOperation`, never by repeating. */
export type CheckpointOutcome =
  | ({
      readonly outcome: "committed"
      readonly commit: string
      readonly root: Digest
      readonly operationId: string
      readonly changedPaths: number
      /** Hard-link groups that the projection split by a write (L15). */
      readonly linkSplit: readonly ShownPath[]
      /** Captured beside running processes: it may hold a half-made change, and is no candidate (W19). */
      readonly live: boolean
      /** How many processes stood still while it was captured; absent when none was inside. */
      readonly quiesced?: number
      readonly durability: Durability
    } & SkippedEntries)
  | ({ readonly outcome: "unchanged"; readonly commit: string; readonly root: Digest } & SkippedEntries)

/** What a checkpoint found and no tree can hold, with the reason. It stays in the open workspace and is in no commit. */
export interface SkippedEntry extends ShownPath {
  /** `pathTooLong`: more than 4,095 bytes from the root, so that no tool could write it back; nothing below it is listed. */
  readonly reason: "socket" | "fifo" | "device" | "pathTooLong"
}

export interface SkippedEntries {
  /** The first 1,000 of them; absent when there were none. */
  readonly skipped?: readonly SkippedEntry[]
  /** How many there were in all; absent when there were none. */
  readonly skippedTotal?: number
}

export interface Captured {
  /** All of it up to 1 MiB, else the first and the last half MiB. */
  readonly bytes: Uint8Array
  readonly text: string
  readonly totalBytes: number
  readonly truncated: boolean
  readonly spill: string | null
}

export interface ExecResult {
  readonly argv: readonly string[]
  readonly exitCode: number | null
  readonly signal: string | null
  readonly timedOut: boolean
  readonly stdout: Captured
  readonly stderr: Captured
  /** A child kept the output pipe open after the leader had ended; the pipe was closed. */
  readonly pipeHeldByChild: boolean
  readonly passedEnv: readonly string[]
  readonly wallMs: number
}

/** What is reachable from inside (W17). */
export interface Isolation {
  readonly level: "enforced" | "advisory" | "none"
  /** Named things that are absent or read-only inside. */
  readonly protected: readonly string[]
  /** What stays reachable and why. */
  readonly reachable: readonly string[]
  /** `none`: the kernel shows no interface inside but a loopback of its own. */
  readonly network: "host" | "none"
}

/** How a program that starts its processes itself starts one inside. */
export interface Entering {
  /** The whole command: what leads in, then the given one. */
  readonly argv: readonly [string, ...string[]]
  /** The whole environment of the process: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>
  /** Where to start it; null where what leads in sees to that. */
  readonly cwd: string | null
  /** Of `passEnv`, what the host has. */
  readonly passedEnv: readonly string[]
}

/** Where programs outside reach the tree, and by what. */
export interface VisiblePath {
  /**
   * Absolute. Only this user and root get there. An absolute link in the tree leads to the place of that name **outside** for whoever
   * follows it from there: read and write through `Workspace`, or enter, where links matter.
   */
  readonly path: string
  /** `procRoot`: the mount of the workspace, through its first process; `directory`: a directory of the store. */
  readonly by: "procRoot" | "directory"
}

/** What of the isolation is asked for; what is left out is as by default. */
export interface IsolationOptions {
  /** `none`: no network but a loopback of its own, and none of the machine's abstract sockets; `reachable` names the sockets that stay. `host` by default. */
  readonly network?: "host" | "none"
}

/** What changed outside of a workspace since it was opened, at the places that are watched where isolation is off or partial (W17). */
export interface SentinelReport {
  /** The origin, and what `hide` and `readOnlyPaths` name. */
  readonly watched: readonly string[]
  /** They hold too much to be watched whole: a change beyond what was looked at is not seen. */
  readonly partial: boolean
  /** Named by whoever made it: an attempt, or somebody else meanwhile. A directory changes when its entries do. */
  readonly changed: readonly SentinelChange[]
}
export interface SentinelChange extends ShownPath {
  readonly kind: "added" | "modified" | "removed"
}

export interface GrepMatch extends ShownPath {
  readonly line: number
  readonly text: string
  /** The line is longer than the 2,000 characters that `grepAt` tells of it. */
  readonly cut?: boolean
}

/** Where files stand that were kept when their holder had lost its authority (W18). */
export interface Quarantine {
  readonly branch: string
  readonly commit: string
}

/** A workspace that ended without a decision about its changes: kept files, a dead holder, or lost authority (W12, W18, W23). */
export interface LeftWorkspace {
  readonly id: string
  readonly branch: string
  readonly base: string
  readonly state: "kept" | "interrupted" | "quarantined"
  readonly quarantine?: Quarantine
  readonly projection: Projection
  readonly since: number
}
