/**
 * What the history calls of a workspace provider take and give: pages of commits, changes, blamed lines, found paths, moves of a head.
 * Promise: a page never grows with the history; the cursor of a page names the commits that it was read from, so later pages stay
 * right while branches move; plain values without Effect. Rules: W3, W4, L3, L7.
 */
import type { PathInput, ShownPath } from "../base/PathBytes.ts"
import type { BranchInfo, Change, CommitInfo } from "./WorkspaceValues.ts"

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
}
