/**
 * The mutable half of a provider's store: projects, layers, branches, commits, pins, operations and workspaces.
 * Promise: every call is one SQLite transaction; a head moves only from the value the caller saw; an operation id names at
 * most one commit for ever (W10, G75). Rules: L1, L7, L8, W12, W23, G75.
 */
import type { Digest } from "../../base/Digest.ts"
import type { TreePath } from "../../base/PathBytes.ts"
import type { ProcessIdentity } from "../../base/Spawn.ts"
import type { Actor, HeadMove, Projection, Quarantine } from "../WorkspaceProvider.ts"

export interface CommitRow {
  readonly id: string
  readonly project: string
  readonly parent: string | null
  /** What was merged into the first parent; null for a commit that merges nothing. */
  readonly secondParent: string | null
  readonly root: Digest
  /** What keeps the times apart from the root: in LayerFS the id of its `times` object. */
  readonly times: Digest
  readonly message: string
  readonly at: number
  readonly operationId: string
  readonly actor: Actor
  /** Captured beside running processes (W19). */
  readonly live: boolean
  /**
   * Its time, or where a clock went back one more than the greatest of its parents': by it, every commit comes after its parents.
   * Source: the corrected commit date of git's commit-graph (gitformat-commit-graph(5), "generation number v2").
   */
  readonly dated: number
}

/** What a commit grew from, as far as the store has it; `beginsHere` when it lacks a parent because a bundle brought it without. */
export interface Parents {
  readonly parents: readonly CommitRow[]
  readonly beginsHere: boolean
}

/** A commit before the store has placed it among its parents. */
export type NewCommit = Omit<CommitRow, "dated" | "secondParent"> & { readonly secondParent?: string | null }

export interface BranchRow {
  readonly id: string
  readonly project: string
  readonly name: string
  /** The layer or commit it was forked from. */
  readonly base: string
  readonly head: string
}

/** Who recovers or drops a workspace that was left. */
export interface Decider {
  /** A name for this one try. */
  readonly claim: string
  readonly process: ProcessIdentity
  readonly thread: number
}

/** Everything that is needed to mount the same upper again, written before the first mount (W23). */
export interface WorkspaceRow {
  readonly id: string
  readonly branch: string
  /** The commit that the lower layers show. */
  readonly base: string
  readonly projection: Projection
  readonly state: "open" | "kept" | "quarantined" | "closed" | "discarded"
  readonly holderPid: number | null
  readonly holderStart: string | null
  readonly bootId: string | null
  /** The process that opened it: when that has died, its holder is about to. Rows of earlier versions do not name it. */
  readonly owner?: ProcessIdentity
  readonly lowers: readonly string[]
  readonly mountOptions: string
  readonly kernel: string
  readonly mountPath: string
  readonly at: number
  readonly note: string | null
  /** Where its files stand when its holder lost the authority (W18). */
  readonly quarantine?: Quarantine
  /** Counts only while the workspace waits for a decision (Deciding.ts). */
  readonly decider?: Decider | null
}

export interface ProjectRow {
  readonly id: string
  readonly name: string
  /** Absolute path of the imported directory (byte string); null for an empty project. */
  readonly source: TreePath | null
}

/** Writes are asynchronous only because a rival process may hold the file: each is one transaction (see Database). */
export interface RefStore<Input extends AddCommit = AddCommit> {
  readonly commit: (id: string) => CommitRow | undefined
  readonly branch: (id: string) => BranchRow | undefined
  readonly project: (id: string) => ProjectRow | undefined
  /** The commit that a layer, branch or commit id stands for. */
  readonly resolve: (ref: string) => CommitRow | undefined
  /** The commit that an operation made, and what it answered. */
  readonly operation: (operationId: string) => { readonly commit: string; readonly result: unknown } | undefined
  /**
   * One transaction: what the provider keeps with it, the commit, and the head moved from `expectedHead`.
   * With nothing written it answers the actual head when that differs, or what the operation answered before.
   */
  readonly addCommit: (input: Input) => Promise<Added>
  /**
   * All of these in one transaction and this order, or none: false when one of them cannot be, which `addCommit` then says of it.
   * They are of different branches.
   */
  readonly addCommits: (inputs: readonly Input[]) => Promise<boolean>
  /** One row, one fsync (L1). With nothing written it answers what the operation answered before. */
  readonly fork: (row: BranchRow, operationId: string | undefined) => Promise<{ readonly result: unknown } | undefined>
  /**
   * One transaction: the head moved from `from`, and the move in the undo log. Answers its number there; with nothing written the actual
   * head when that is another one, or what the operation answered before.
   */
  readonly moveHead: (move: NewMove, result: (number: number) => unknown) => Promise<Moved>
  /** Moves of a branch with smaller numbers than `before`, the largest first. */
  readonly moves: (branch: string, before: number, limit: number) => readonly HeadMove[]
  readonly pin: (key: string, commit: string) => Promise<void>
  readonly unpin: (key: string) => Promise<void>
  readonly putWorkspace: (row: WorkspaceRow) => Promise<void>
  /** False when there is no such workspace. */
  readonly updateWorkspace: (id: string, change: Partial<Omit<WorkspaceRow, "id">>) => Promise<boolean>
  /** One transaction: writes who decides. False, with nothing written, when that is another claim than `before`, or the workspace has ended. */
  readonly claimWorkspace: (id: string, before: string | null, decider: Decider) => Promise<boolean>
  readonly workspaces: (states: readonly WorkspaceRow["state"][]) => readonly WorkspaceRow[]
}

export type NewMove = Omit<HeadMove, "number" | "undoneBy"> & { readonly branch: string }

export type Moved =
  | { readonly kind: "moved"; readonly number: number }
  | { readonly kind: "headMoved"; readonly actualHead: string }
  | { readonly kind: "repeated"; readonly result: unknown }

export type Added =
  | { readonly kind: "added" }
  | { readonly kind: "headMoved"; readonly actualHead: string }
  | { readonly kind: "repeated"; readonly result: unknown }

export interface AddCommit {
  readonly commit: NewCommit
  /** What the operation answered, kept for a repeated call. */
  readonly result: unknown
  readonly branch?: { readonly id: string; readonly expectedHead: string }
  /** A branch that begins at this commit. */
  readonly newBranch?: BranchRow
  readonly layer?: { readonly id: string; readonly project: ProjectRow }
}
