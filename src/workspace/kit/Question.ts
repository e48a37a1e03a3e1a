/**
 * Questions about the history: their pages and their cursors.
 * Promise: a cursor is good for the very question and store that it was given for, and names commits, so that what it goes on with cannot
 * change; what cannot be meant is `QueryInvalid` by the name of its part. Rules: W3, L3.
 */
import { type Json, digestJson } from "../../base/Digest.ts"
import type { TreePath } from "../../base/PathBytes.ts"
import { refNotFound } from "./Refusals.ts"
import type { CommitRow } from "./RefStore.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"
import { invalid, isText, largestPage } from "./Invalid.ts"

/** The rows that questions about commits and branches are read from. */
type Refs = Omit<SqliteRefs, "addCommit">

/** What every answer is read from. */
export interface RefHistory {
  readonly refs: Refs
  /** The calling side gave up. */
  readonly cancelled: () => boolean
}

/** How many items a page may have. Throws `QueryInvalid`. */
export const limitOf = (limit: number | undefined, otherwise: number): number => {
  if (limit === undefined) return otherwise
  if (Number.isInteger(limit) && limit >= 1 && limit <= largestPage) return limit
  throw invalid("limit")
}

/** A caller's path as a filter over many states: no link is followed, because it may be another in each. Throws `QueryInvalid`. */
export const filterPath = (path: TreePath, mountPath: TreePath | null): TreePath => {
  const inside = mountPath !== null && (path === mountPath || path.startsWith(`${mountPath}/`))
  const relative = inside ? path.slice(mountPath.length + 1) : path
  const parts = relative.split("/").filter((part) => part !== "" && part !== ".")
  if (relative.startsWith("/") || relative.includes("\0") || parts.includes("..")) throw invalid("path")
  return parts.join("/")
}

type StoreName = Pick<SqliteRefs, "storeId">

/**
 * Where an answer stands, as text: base64url of JSON, with a digest of it, of the question and of the store that it belongs to. The digest is no
 * secret: it keeps what was cut, mixed up or brought along from being taken for a place in this history.
 */
export const cursorFor = (refs: StoreName, question: Json, at: Json): string => {
  const of = digestJson({ store: refs.storeId(), question, at }).slice(7, 23)
  return Buffer.from(JSON.stringify({ of, at })).toString("base64url")
}

/** What `cursorFor` was given; `fits` looks at its shape. Throws `QueryInvalid` for any text that it did not make. */
export const cursorAt = <At>(refs: StoreName, question: Json, cursor: string, fits: (at: unknown) => at is At): At => {
  let at: unknown
  let made: string
  try {
    at = (JSON.parse(Buffer.from(cursor, "base64url").toString()) as { readonly at?: unknown }).at
    made = cursorFor(refs, question, at as Json)
  } catch {
    throw invalid("after")
  }
  if (made !== cursor || !fits(at)) throw invalid("after")
  return at
}

/** The commit that a cursor names; before there is one, what the ref stands for. Throws `QueryInvalid`, `RefNotFound`. */
export const commitOf = ({ refs }: Pick<RefHistory, "refs">, ref: string, inCursor?: string): CommitRow => {
  const commit = inCursor === undefined ? refs.resolve(ref) : refs.commit(inCursor)
  if (commit !== undefined) return commit
  throw inCursor === undefined ? refNotFound(ref) : invalid("after")
}

export const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText)
