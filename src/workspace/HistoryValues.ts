/**
 * What the history calls of a workspace provider take and give: pages of commits, changes, blamed lines, found paths, moves of a head.
 * Promise: a page never grows with the history; the cursor of a page names the commits that it was read from, so later pages stay
 * right while branches move; plain values without Effect. Rules: W3, W4, L3, L7.
 */
import type { PathInput, ShownPath } from "../base/PathBytes.ts"
import type { Durability } from "../base/Durability.ts"
import type { Actor, BranchInfo, Change, CommitInfo, GrepMatch, Ref } from "./WorkspaceValues.ts"

/** How the next part of a long answer is asked for. */
export interface PageOptions {
  /** How many items at most; each call says what it takes when absent. */
  readonly limit?: number
  /** `next` of the page before. It belongs to the same question: with another one it is refused as `QueryInvalid`. */
  readonly after?: string
}

export interface Page {
  /** For `after` of the next call; null at the end. A page may be short, or empty, and still have a next one. */
  readonly next: string | null
}

export interface LogOptions extends PageOptions {
  /** Only commits in which the entry at this path, or below it, is another than in their first parent. Links are not followed. */
  readonly path?: PathInput
}

/** Commits, newest first: no commit comes before one that was made from it. */
export interface LogPage extends Page {
  readonly commits: readonly CommitInfo[]
  /**
   * Commits that this page came to and that the store has without all of their parents: a bundle brought them so (`history: false`). What was
   * before them is not in this store.
   */
  readonly beginsHere: readonly string[]
}

/** Branches of a project, in the order of their making. */
export interface BranchPage extends Page {
  readonly branches: readonly BranchInfo[]
}

export interface DiffOptions extends PageOptions {
  /** Only this path and what lies below it. Links are not followed. */
  readonly path?: PathInput
}

/** What differs, in byte order of the paths. */
export interface DiffPage extends Page {
  readonly changes: readonly Change[]
  /**
   * `exact`: entries that went elsewhere with the same content say so in `from` and `to`, also across the edge of a page or of `path`.
   * `notLooked`: more than 100,000 entries are new or gone, and none says so.
   */
  readonly renames: "exact" | "notLooked"
}

/** One line, and where it comes from. */
export interface BlamedLine {
  /** Counted from 1. */
  readonly line: number
  readonly text: string
  /** The exact bytes in base64, when they are not UTF-8. */
  readonly textBytes?: string
  /** The commit that brought the line; `commits` of the page has it. */
  readonly commit: string
  /** The file that the line was in there, and its number in it. */
  readonly original: ShownPath & { readonly line: number }
}

/** Lines of a file at a commit. */
export interface BlamePage extends Page {
  readonly commit: string
  /** The file, links resolved. */
  readonly path: ShownPath
  readonly totalLines: number
  readonly lines: readonly BlamedLine[]
  /** The commits that the lines name, by id, with message, time, call, agent and goal of each. */
  readonly commits: Readonly<Record<string, CommitInfo>>
  /**
   * Commits that changed more than 5,000 lines of the file in one piece: there, lines were not matched one by one, and some that are
   * older may name such a commit.
   */
  readonly coarse: readonly string[]
  /** Those of `commits` that the store has without all of their parents, as in `LogPage`: their lines may be older. */
  readonly beginsHere: readonly string[]
}

/** Paths of a state, in byte order. */
export interface GlobPage extends Page {
  readonly paths: readonly ShownPath[]
}

export interface GrepOptions extends PageOptions {
  /** The directory, or the file, to search; the whole tree when absent. Links are followed on the way, not inside. */
  readonly path?: PathInput
  /** Only files whose path from the root matches, as `glob` matches it. */
  readonly glob?: string
}

/** Lines of a state that match, by path in byte order and line. */
export interface GrepPage extends Page {
  readonly matches: readonly GrepMatch[]
  /** Files of this page that were not searched: a NUL in the first 8,000 bytes, or more than 64 MiB. */
  readonly skipped: { readonly binary: number; readonly tooLarge: number }
}

export interface RewindOptions {
  /** A state that the branch has had. */
  readonly to: Ref
  /** Name of the new branch; `rewind` when absent. */
  readonly name?: string
  readonly operationId?: string
}

export interface MoveOptions {
  /** The head that the caller saw: with any other one the call is `HeadMoved`, and nothing moved. */
  readonly expectedHead: string
  /** Why, for the undo log. */
  readonly reason?: string
  readonly actor?: Actor
  /** Repeated with the same id, the call moves nothing and answers the same. */
  readonly operationId?: string
}

export interface ResetOptions extends MoveOptions {
  /** Where the head goes: any state of the same project. */
  readonly to: Ref
}

export interface UndoOptions extends MoveOptions {
  /** Number of the move to take back; the newest reset that was not taken back yet, when absent. */
  readonly number?: number
}

/** The commits that a moved head no longer reaches. They stay readable by id, and `undo` gives them back. */
export interface UndoneSpan {
  readonly commits: number
  /**
   * False beyond 10,000 commits, where the rest was not looked at, where a list below was cut, and where the history of this store begins
   * before the two states meet.
   */
  readonly complete: boolean
  /** The first 1,000 of each that the commits name. */
  readonly calls: readonly string[]
  readonly agents: readonly string[]
  readonly goals: readonly string[]
  /** How many of the commits name no goal. */
  readonly withoutGoal: number
  /** Time of the newest commit that the head still reaches; null when there is none, or when nothing was undone. */
  readonly since: number | null
}

/** An operation outside that the goals of an undone span have dispatched since. Moving a head does not take it back. */
export interface StandingEffect {
  readonly id: string
  readonly goal: string
  readonly agent: string | null
  readonly provider: string
  readonly kind: string
  readonly summary: string
  readonly state: "dispatched" | "confirmed" | "refused" | "unknown"
  readonly dispatchedAt: number
}

/**
 * What is known of effects since the undone span began. `none`: nothing was undone. `unknown`: nobody could tell, and `reason` says why; there
 * may be some. `known`: those of the goals that the commits name; commits without a goal, and goals that the authority does not have,
 * are told beside them, because theirs are not known.
 */
export type EffectsOfSpan =
  | { readonly state: "none" }
  | { readonly state: "unknown"; readonly reason: string }
  | {
      readonly state: "known"
      /** False where the span was not told whole: there may be further effects. */
      readonly complete: boolean
      readonly effects: readonly StandingEffect[]
      readonly withoutGoal: number
      readonly unknownGoals: readonly string[]
    }

/** A head that was moved. No lease, spend, effect or running process changed with it (L7). */
export interface MovedHead {
  readonly operationId: string
  readonly branch: string
  /** Its place in the undo log; null when the head stood there already. */
  readonly number: number | null
  readonly head: string
  readonly previous: string
  readonly undone: UndoneSpan
  readonly effects: EffectsOfSpan
  /** Workspaces of the branch that were open: each keeps its files, and its next checkpoint is `HeadMoved`. */
  readonly openWorkspaces: readonly string[]
  readonly durability: Durability
}

/** One move of a head. */
export interface HeadMove {
  /** Counted from 1 on each branch. */
  readonly number: number
  readonly kind: "reset" | "undo"
  readonly from: string
  readonly to: string
  readonly at: number
  readonly reason: string
  readonly actor: Actor
  readonly operationId: string
  /** The move that this one took back. */
  readonly undoes: number | null
  /** The move that took this one back. */
  readonly undoneBy: number | null
}

/** Moves of a head, newest first. */
export interface UndoLogPage extends Page {
  readonly moves: readonly HeadMove[]
}
