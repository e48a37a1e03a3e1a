/**
 * What may stand in the journal and in projections: no absolute path of a machine, no credential.
 * Promise: checked by the writer on every fact, whichever room decided it, so no reader has to. Rules: G6.
 */
import type { Json } from "../base/Digest.ts"
import { madeWhole } from "../base/WholeText.ts"
import { NotPublic } from "./GovernanceError.ts"

/**
 * Roots under which machines keep private things. A leading slash alone is no proof: web routes and repository-relative
 * names look like that too. Roots that are web routes as well count where a directory of sources follows.
 */
const root = [
  "(?:home|root|Users|Volumes|tmp|var|private|etc|opt|usr|srv|mnt|media|run|proc|dev|work|workspace|data|nix/store)/",
  "github/(?:workspace|home|workflow|runner_temp)/",
  "(?:app|builds|workspaces|github)/(?:[\\w.@-]+/){0,4}(?:src|lib|dist|tests?|packages|node_modules|bin|\\.git)/"
].join("|")

/**
 * A path begins where no name, glob, variable, import alias or relative step goes on (`a/tmp/x`, a glob's stars, `${root}/etc/`,
 * `@/home/page`, `./tmp/`); behind a compiler's flag (`-I/home/…`) it begins too.
 */
const absolutePath = new RegExp(
  `(?:^|[^\\p{L}\\p{N}_/.\\-~*@)}\\]#^!…]|(?:^|\\s)-[A-Za-z])(?:/(?:${root})|~/|[A-Za-z]:\\\\|[A-Z]:/[A-Za-z]|file:/+\\w)` +
    "|(?:^|\\s)\\*/(?:home|Users|root)/\\w" +
    "|(?:^|[^\\\\\\w])\\\\\\\\[A-Za-z0-9][\\w.-]{2,}\\\\[A-Za-z]",
  "u"
)

/** Published shapes: API keys, forge and registry tokens, cloud key ids, chat tokens and hooks, JWTs, headers, private keys. */
const credential = new RegExp(
  [
    "\\b(?:sk-[\\w-]{16,}|gh[pousr]_\\w{20,}|github_pat_\\w{20,}|glpat-[\\w-]{16,}|A[KS]IA[0-9A-Z]{16}|AIza[\\w-]{30,})",
    "\\b(?:xox[abprs]-[\\w-]{10,}|eyJ[\\w-]{10,}\\.eyJ[\\w-]{10,}\\.|[rs]k_(?:live|test)_\\w{16,})",
    "\\b(?:npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{24,})",
    "Bearer\\s+[\\w.~+/-]{20,}|\\b(?:bearer|BEARER)\\s+[A-Za-z0-9_~+/]{20,}",
    "Authorization\\s*:\\s*Basic\\s+\\S{8,}|\\bBasic\\s+[A-Za-z0-9+/]{12,}={1,2}",
    "-----BEGIN [A-Z ]*PRIVATE KEY",
    "hooks\\.slack\\.com/services/T\\w+/B\\w+/\\w{16,}",
    // A name and a password before a host; a variable in the place of the password is none.
    "://[^\\s/:@\"'<>]{1,100}:(?![$<{*])[^\\s/@\"'<>]{1,200}@"
  ].join("|")
)

/** A secret by its name: a value of letters and digits, as nobody writes of a variable. */
const assigned =
  /(?:secret|token|passwd|password|api[_-]?key|access[_-]?key|private[_-]?key)=["']?(?=[\w+/~-]{0,200}\d)(?=[\w+/~-]{0,200}[a-z])[\w+/~-]{10,200}(?=[\s"',;&.]|$)/i

const isPrivate = (text: string): boolean =>
  text.length > 2 && (absolutePath.test(text) || credential.test(text) || assigned.test(text))

/** The first field that may not be public, as a path of keys; undefined when all may. A key that may not is not named itself. */
export const privateField = (value: Json | undefined, at = ""): string | undefined => {
  if (typeof value === "string") return isPrivate(value) ? at : undefined
  if (typeof value !== "object" || value === null) return undefined
  const below = (key: string) => (at === "" ? key : `${at}.${key}`)
  for (const [key, child] of Object.entries(value)) {
    if (isPrivate(key)) return below("(a key)")
    const found = privateField(child as Json | undefined, below(key))
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * Absolute paths in words, wherever they lead; the last part is kept. A name follows the slash: in `s/<=/</` there is none, and a
 * command that is shown otherwise than it ran says something false.
 */
const anyPath = /(^|[\s"'`(=:,;[{<>|«“‘&])(~?\/+[\p{L}\p{N}_.~@$%+-][^\s"'`)\],;]*)/gu

/**
 * The text with its absolute paths cut to their last part (`…/agent.sh`), so that it may stand in public; `fallback` when it holds
 * more than paths that may not. For texts that were not written for the journal: a command line, the words of a tool.
 */
export const publicOr = (text: string, fallback: string): string => {
  const without = text.replace(anyPath, (_all, before: string, path: string) => `${before}…/${path.split("/").at(-1)}`)
  return privateField(without) === undefined ? without : fallback
}

/** The same for what must be kept whatever it says: at most so long, and every character whole. */
export const publicWords = (text: string, fallback: string, most = 2000): string =>
  madeWhole(publicOr(text, fallback).slice(0, most))

export const notPublic = (type: string, field: string): NotPublic =>
  new NotPublic({
    message: `The field ${field} of ${type} holds an absolute path or a credential.`,
    remedy: "Name files relative to the work's root, and keep secrets out of summaries and references.",
    field
  })
