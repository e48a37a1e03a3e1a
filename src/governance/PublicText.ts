/**
 * What may stand in the journal and in projections: no absolute path of a machine, no credential.
 * Promise: checked by the writer on every fact, whichever room decided it, so no reader has to. Rules: G6.
 */
import type { Json } from "../base/Digest.ts"
import { NotPublic } from "./GovernanceError.ts"

/**
 * Roots under which machines keep private things. A leading slash alone is no proof: web routes and repository-relative
 * names look like that too.
 */
const absolutePath =
  /(?:^|[\s"'`(=:,[{<>|])(?:\/(?:home|root|Users|tmp|var|private|etc|opt|usr|srv|mnt|media|run|proc|dev|work|workspace|data)\/|~\/|[A-Za-z]:\\|file:\/\/\/)/

/** Published shapes: API keys, forge tokens, cloud key ids, chat tokens, JWTs, bearer headers, private keys. */
const credential =
  /\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)|Bearer\s+[\w.~+/-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY/

/** The first field that may not be public, as a path of keys; undefined when all may. */
export const privateField = (value: Json | undefined, at = ""): string | undefined => {
  if (typeof value === "string") {
    return value.length > 2 && (absolutePath.test(value) || credential.test(value)) ? at : undefined
  }
  if (typeof value !== "object" || value === null) return undefined
  for (const [key, child] of Object.entries(value)) {
    const found = privateField(child as Json | undefined, at === "" ? key : `${at}.${key}`)
    if (found !== undefined) return found
  }
  return undefined
}

/** Absolute paths in words, wherever they lead; the last part is kept. */
const anyPath = /(^|[\s"'`(=:,[{<>|])(~?\/[^\s"'`)\],;]+)/g

/**
 * The text with its absolute paths cut to their last part (`…/agent.sh`), so that it may stand in public; `fallback` when it holds
 * more than paths that may not. For texts that were not written for the journal: a command line, the words of a tool.
 */
export const publicOr = (text: string, fallback: string): string => {
  const without = text.replace(anyPath, (_all, before: string, path: string) => `${before}…/${path.split("/").at(-1)}`)
  return privateField(without) === undefined ? without : fallback
}

export const notPublic = (type: string, field: string): NotPublic =>
  new NotPublic({
    message: `The field ${field} of ${type} holds an absolute path or a credential.`,
    remedy: "Name files relative to the work's root, and keep secrets out of summaries and references.",
    field
  })
