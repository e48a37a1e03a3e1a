/**
 * The port of providers that keep a state as a whole: a clone of a directory, a commit of git. They say how a tree is kept and made;
 * everything else (rows, branches, history, open workspaces, isolation, candidates, exports) is the kit's, in `SnapshotProvider.ts`.
 * Promise of an implementer: `keep` and `drop` are all or nothing across a kill; `tree` and a kept snapshot are only ever read; nothing is
 * copied where the provider says that nothing is; a failure is a typed error or Node's own and leaves what was there before.
 * Rules: W1, W2, W3, W7, W8, W12, W22; GW1 to GW4, RL1, RL2.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import type { ImportNote, Manifest, MergeConflict, Projection } from "../WorkspaceValues.ts"
import type { CommitTree } from "./CommitTree.ts"
import type { MadeTree } from "./StorePort.ts"
import type { TreeChange } from "./Tree.ts"

/** One lacking piece of the machine, and what to do about it. */
export interface Missing {
  readonly what: string
  readonly remedy: string
}

/** What the backend decides of the manifest; the kit fills in the rest. */
export type SnapshotCapabilities = Pick<
  Manifest,
  | "copyFreeFork"
  | "symlinks"
  | "hardLinks"
  | "modes"
  | "nanosecondMtimes"
  | "xattrs"
  | "sparseFiles"
  | "nonUtf8Names"
  | "crossMachine"
  /** False where `make` answers `staysInPlace`. */
  | "mountAtChosenPath"
  /** True where `storedBytes` is a number. */
  | "quota"
>

/** A kept state: the commit that it stands for, and its project. */
export interface Snapshot {
  readonly project: string
  readonly commit: string
}

export interface KeepInput {
  readonly snapshot: Snapshot
  /** What it grew from, the first parent first; empty for an import. */
  readonly parents: readonly Snapshot[]
  /** Absolute path of the directory to keep. It may be somebody's source: nothing in it is changed. */
  readonly tree: TreePath
  /** True for the first state of a project, whose `tree` is the imported source. */
  readonly isImport: boolean
  /** Against the first parent, as the scan found them; null for an import. A hint: what is kept is all of `tree`. */
  readonly changes: readonly TreeChange[] | null
  /** Entries of `tree` that no state holds: sockets, fifos, devices, and what an import leaves out. */
  readonly leaveOut: readonly TreePath[]
  readonly message: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly onProgress: (files: number, bytes: number) => void
  readonly signal: AbortSignal
}

/** How it was kept or made: told in results, and counted. */
export interface Moved {
  /** `reflink`, `subvolume`, `git`, `copy` … */
  readonly method: string
  /** Bytes of file contents that were copied; 0 where they are shared. */
  readonly copiedBytes: number
}

export interface MakeInput {
  readonly snapshot: Snapshot
  /** Absolute path of a directory that does not exist; its parent does, and is ours. */
  readonly target: TreePath
  /** The workspace that it is for; null for an export or a scratch tree. */
  readonly workspace: string | null
  readonly signal: AbortSignal
  /** How many files, or entries, and bytes are there so far. Absent where nobody listens. */
  readonly onProgress?: (files: number, bytes: number) => void
}

/** With what commands inside need beside the tree, for example the directory of the repository that a worktree belongs to. */
export interface Made extends Moved, MadeTree {}

export interface MergeInput {
  readonly base: Snapshot
  readonly ours: Snapshot
  readonly theirs: Snapshot
  /** What the kit knows of each beside the contents: exact modes, times, empty directories. */
  readonly trees: { readonly base: CommitTree; readonly ours: CommitTree; readonly theirs: CommitTree }
  readonly signal: AbortSignal
}

export type Merged =
  /** Against `ours`, contents as bytes or as files that live until `done` is called. */
  | { readonly kind: "clean"; readonly changes: readonly TreeChange[]; readonly done: () => Promise<void> }
  | { readonly kind: "conflict"; readonly conflicts: readonly MergeConflict[] }

/** A piece of a file. The pieces of one file follow each other; `last` ends it, an empty file has one empty piece. */
export interface Piece {
  readonly path: TreePath
  readonly bytes: Uint8Array
  /** So many NUL bytes behind `bytes`: a hole that nobody read. */
  readonly zeros?: number
  readonly last: boolean
}

export interface SnapshotBackend {
  /** `reflink`, `git-worktree` …: part of every candidate, and the name of its directory in the store. */
  readonly provider: string
  readonly version: string
  /** What a workspace's directory is called in results. */
  readonly projection: Projection
  readonly capabilities: SnapshotCapabilities
  /**
   * Times, modes, links and empty directories that `make` does not bring back by itself: the kit sets them from the manifest that it
   * keeps of each commit. `false`: `make` brings back everything.
   */
  readonly restores: false | "metadata"
  /**
   * Names at the root of every made tree, and of a source, that belong to the backend and to no state, whatever lies there: `.git` of a
   * worktree. Neither a scan nor a restoration of metadata nor a comparison looks at them.
   */
  readonly ownNames?: readonly TreePath[]
  /** What this machine and the store's file system lack; empty when it works (W2). Tried, not guessed; cleans up. */
  readonly probe: () => Promise<readonly Missing[]>
  /** Looks at a source before it is imported. Rejects with `ImportRefused` or `Unavailable`; the notes go into the receipt. */
  readonly admit?: (
    source: TreePath,
    signal: AbortSignal
  ) => Promise<{ readonly notes: readonly ImportNote[]; readonly leaveOut: readonly TreePath[] }>
  /** Keeps `tree` as a state that survives a kill and, at durability `full`, a power cut. */
  readonly keep: (input: KeepInput) => Promise<Moved>
  /** A writable directory with the state, complete and independent of every other one. */
  readonly make: (input: MakeInput) => Promise<Made>
  /** After the kit has set what `restores` names, and before anybody works in the tree: what depends on times, such as git's index. */
  readonly settle?: (input: MakeInput) => Promise<void>
  /** After the directory of a workspace was emptied or left: whatever else `make` had set up for it goes. Idempotent, also after a crash. */
  readonly unmake?: (input: { readonly workspace: string; readonly target: TreePath }) => Promise<void>
  /**
   * Before a command begins in a workspace, and before it is captured: what somebody outside has changed of the backend's own names is put
   * right. A few small reads where nothing was.
   */
  readonly beforeUse?: (input: { readonly workspace: string; readonly target: TreePath }) => void
  /** Before a workspace's directory is removed: what only it reaches is made reachable otherwise (GW4). */
  readonly beforeRemoval?: (input: { readonly workspace: string; readonly target: TreePath }) => Promise<void>
  /** Frees a state that no commit stands for. Idempotent. */
  readonly drop: (snapshot: Snapshot) => Promise<void>
  /** States that are kept, half-made ones included: for a look at the backend by itself. The kit knows its own by their rows. */
  readonly kept: () => Promise<readonly Snapshot[]>
  /**
   * Where a kept state lies as a directory, absolute; absent where it does not. An import is then looked at there, so that what is told of
   * it is what was kept, whatever its source does meanwhile.
   */
  readonly directoryOf?: (snapshot: Snapshot) => TreePath
  /**
   * False when what is kept of a state may have been changed since: all of it is then compared with its commit before a tree is made of it
   * (L10). Absent where `make` checks what it hands out.
   */
  readonly isUntouched?: (snapshot: Snapshot) => Promise<boolean>
  /** Takes away a tree that `make` made, where that is quicker than entry by entry; what it leaves, the kit removes. Idempotent. */
  readonly clear?: (target: TreePath) => Promise<void>
  /** Files of a state, in the order of `paths`; given up with `signal`. Rejects with `ObjectDamaged` when what is kept is not what was kept, where it can tell. */
  readonly contents: (snapshot: Snapshot, paths: readonly TreePath[], signal?: AbortSignal) => AsyncIterable<Piece>
  /** The index of git that tells which files of a state are tracked, where the state has no `.git` of its own (W16). */
  readonly indexOf?: (snapshot: Snapshot, signal?: AbortSignal) => Promise<Uint8Array | null>
  /** Three states into one (`merge` of the manifest). Absent: `Unsupported`. */
  readonly merge?: (input: MergeInput) => Promise<Merged>
  /** Bytes on the disk that all kept states take, each once; null when it cannot be known cheaply (L11). */
  readonly storedBytes: () => Promise<number | null>
}
