/**
 * The questions that the history of a store is asked, and their answers, as plain data. Rules: W3, L3, L7.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import type { Actor, MovedHead } from "../WorkspaceProvider.ts"
import type { CommitRow } from "./RefStore.ts"

/** A page that is asked for; checked in the worker. */
export interface Paged {
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/** A page, with the cursor of the next. */
export type Answer<Items> = Items & { readonly next: string | null }

export interface LogQuestion extends Paged {
  readonly refs: readonly string[]
  /** A caller's path, or null for the whole history. */
  readonly path: TreePath | null
}

export interface LogReply {
  readonly commits: readonly CommitRow[]
  readonly beginsHere: readonly string[]
}

export interface GrepTexts {
  readonly pattern: RegExp
  /** `skip`: lines at the beginning that are not told. */
  readonly texts: readonly { readonly path: TreePath; readonly bytes: Uint8Array; readonly skip?: number }[]
  readonly limit: number
}

/** A reset to a ref, or a move taken back: the numbered one, or with null the newest reset that stands. */
export type MoveQuestion = {
  readonly branch: string
  readonly expectedHead: string
  readonly reason: string
  readonly actor: Actor
  readonly operationId: string
  readonly at: number
} & ({ readonly to: string } | { readonly undo: number | null })

/** What the store tells of a moved head: nothing of effects. */
export type MoveReply = Omit<MovedHead, "effects">

export interface ForkQuestion {
  readonly from: string
  readonly name: string
  readonly operationId?: string | undefined
}

export interface RewindQuestion {
  readonly branch: string
  readonly to: string
  readonly name: string
  readonly operationId?: string | undefined
}
