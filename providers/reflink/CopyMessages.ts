/**
 * What `cp` of GNU coreutils says about entries that it could not copy (LC_ALL=C).
 * Promise: each message names its entry and its reason, or is `other`: a message that is not understood is never passed over.
 * Rules: RL1, W13. Names are quoted as a shell would read them (coreutils manual, "Formatting the file names", `shell-escape`).
 */
import type { TreePath } from "../../src/base/PathBytes.ts"

export interface Complaint {
  /**
   * `cannotClone`: the file system has no clones of this file; `denied`: it may not be read, or not be made; `gone`: it is not there any
   * more, or became another one while it was copied.
   */
  readonly kind: "cannotClone" | "denied" | "gone" | "other"
  /** From the root of the tree; null when the message names none. */
  readonly path: TreePath | null
  /** The system's name of the error, as far as it is known. */
  readonly code: string
  readonly message: string
}

const codes: ReadonlyMap<string, string> = new Map([
  ["No space left on device", "ENOSPC"],
  ["Disk quota exceeded", "EDQUOT"],
  ["Permission denied", "EACCES"],
  ["Operation not permitted", "EPERM"],
  ["No such file or directory", "ENOENT"],
  ["Not a directory", "ENOTDIR"],
  ["Input/output error", "EIO"],
  ["Read-only file system", "EROFS"],
  ["File name too long", "ENAMETOOLONG"],
  ["Invalid argument", "EINVAL"],
  ["Invalid cross-device link", "EXDEV"],
  ["Operation not supported", "EOPNOTSUPP"],
  ["Inappropriate ioctl for device", "ENOTTY"],
  ["Too many links", "EMLINK"],
  ["Text file busy", "ETXTBSY"]
])

const escapes: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  e: "\x1b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v"
}

/** `'…'`, `"…"`, `$'…'` and `\'`, one after the other, are one word. */
const word = /(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\\')+/g
const part = /\$'((?:[^'\\]|\\.)*)'|'([^']*)'|"([^"]*)"|\\(')/g

const unescape = (text: string): string =>
  text.replace(/\\([0-7]{1,3}|.)/g, (_, escaped: string) =>
    /^[0-7]/.test(escaped) ? String.fromCharCode(Number.parseInt(escaped, 8)) : (escapes[escaped] ?? escaped)
  )

/** The name that a quoted word stands for. */
const unquote = (quoted: string): TreePath =>
  [...quoted.matchAll(part)]
    .map(([, dollar, single, double, mark]) =>
      dollar === undefined ? (single ?? double ?? mark ?? "") : unescape(dollar)
    )
    .join("")

const below = (name: string, root: string): TreePath | null => {
  if (name === root) return ""
  return name.startsWith(`${root}/`) ? name.slice(root.length + 1).replace(/^(?:\.\/)+/, "") : null
}

const kindOf = (text: string, code: string): Complaint["kind"] => {
  if (text.startsWith("failed to clone ")) return ["EINVAL", "EXDEV"].includes(code) ? "cannotClone" : "other"
  if (text.startsWith("skipping file ")) return "gone"
  if (code === "ENOENT" || code === "ENOTDIR") return "gone"
  return code === "EACCES" || code === "EPERM" ? "denied" : "other"
}

/** No failure: an entry and a directory that it lies in were named in one run. */
const copiedAlready = /^\S*cp: warning: source (?:file|directory) .* specified more than once$/

/** Of everything that `cp` printed; `roots` are the names under which it knew the source and the target. */
export const complaintsOf = (messages: string, roots: readonly string[]): readonly Complaint[] =>
  messages
    .split("\n")
    .filter((line) => line !== "" && !copiedAlready.test(line))
    .map((line) => {
      const text = line.replace(/^\S*cp: /, "")
      const code = codes.get(/: ([^:]*)$/.exec(text)?.[1] ?? "") ?? "EIO"
      const names = (text.match(word) ?? []).map(unquote)
      const path = names.flatMap((name) => roots.flatMap((root) => below(name, root) ?? []))[0] ?? null
      return { kind: path === null ? "other" : kindOf(text, code), path, code, message: text }
    })
