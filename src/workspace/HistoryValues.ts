/**
 * What the history calls of a workspace provider take and give: pages of commits, changes, blamed lines, found paths, moves of a head.
 * Promise: a page never grows with the history; the cursor of a page names the commits that it was read from, so later pages stay
 * right while branches move; plain values without Effect. Rules: W3, W4, L3, L7.
 */
import type { BranchInfo, CommitInfo } from "./WorkspaceValues.ts"
import type { PathInput } from "../base/PathBytes.ts"

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
