/**
 * Questions about the history: their pages, their cursors, and how long answers leave room for other calls.
 * Promise: a cursor is good for the very question that it was given for, and names commits, so that what it goes on with cannot
 * change; what cannot be meant is `QueryInvalid` by the name of its part; a long answer lets other calls of the worker go between
 * its steps, and ends when it is cancelled. Rules: W3, L3, L12.
 */
import { setImmediate } from "node:timers/promises"
import { type Json, digestJson } from "../../../src/base/Digest.ts"
import type { TreePath } from "../../../src/base/PathBytes.ts"
import { QueryInvalid } from "../../../src/workspace/WorkspaceError.ts"
import type { SqliteRefs } from "../SqliteRefs.ts"
import type { StoredTrees, ObjectSource } from "../StoredTrees.ts"

/** What every answer is read from. */
export interface History {
  readonly refs: SqliteRefs
  readonly trees: StoredTrees
  readonly reader: ObjectSource
  /** The calling side gave up. */
  readonly cancelled: () => boolean
}

/** The largest page of any call. */
const largestPage = 10_000

const messages: Readonly<Record<QueryInvalid["field"], readonly [string, string]>> = {
  ref: ["This is no ref, or no list of 1 to 1,000 refs.", "Give the id of a layer, a branch or a commit."],
  path: ["This path cannot lie in a tree.", "Give a path below the root, without `..`."],
  pattern: ["This is no pattern.", "Give a regular expression to grep, a text to glob."],
  limit: [`A page has 1 to ${largestPage} items.`, "Give a whole number in that range, or none."],
  after: [
    "This is not the cursor of a page of this question.",
    "Ask without `after`, and go on with `next` of each page."
  ]
}

export const invalid = (field: QueryInvalid["field"]): QueryInvalid =>
  new QueryInvalid({ message: messages[field][0], remedy: messages[field][1], field })

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

/** Where an answer stands, as text: base64url of JSON, with the digest of the question that it belongs to. */
export const cursorFor = (question: Json, at: Json): string =>
  Buffer.from(JSON.stringify({ of: digestJson(question).slice(7, 23), at })).toString("base64url")

/** What `cursorFor` was given; `fits` looks at its shape. Throws `QueryInvalid`. */
export const cursorAt = <At>(question: Json, cursor: string, fits: (at: unknown) => at is At): At => {
  let read: unknown
  try {
    read = JSON.parse(Buffer.from(cursor, "base64url").toString())
  } catch {
    throw invalid("after")
  }
  const { of, at } = (typeof read === "object" && read !== null ? read : {}) as {
    readonly of?: unknown
    readonly at?: unknown
  }
  if (of !== digestJson(question).slice(7, 23) || !fits(at)) throw invalid("after")
  return at
}

export const isText = (value: unknown): value is string => typeof value === "string"
export const isTexts = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText)

/** How long an answer may keep the worker's thread without a pause. */
const breathMs = 10

/** The caller that this error is for has gone. */
class Cancelled extends Error {}

/** Call it between two steps: it waits, when there was no pause for long, until other calls had their turn. Throws when cancelled. */
export const breathing = (cancelled: () => boolean): (() => Promise<void>) => {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < breathMs) return
    await setImmediate()
    since = performance.now()
    if (cancelled()) throw new Cancelled("The call was cancelled")
  }
}
