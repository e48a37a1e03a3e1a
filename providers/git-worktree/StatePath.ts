/**
 * The paths of a state as paths of a git tree, and back.
 * Promise: every path of a tree can be kept, `.git` of a nested repository included, and comes back as it was: what git gives a
 * meaning of its own is kept under another name, and what already looks like such a name too (injective). Rules: GW2; C18, C24.
 */
import type { TreePath } from "../../src/base/PathBytes.ts"

/** Where the files lie in the tree of a commit of ours. */
export const stateRoot = "state/"

const special = /^\.git(?:modules)?(?:~kept)*$/i
const escaped = /^\.git(?:modules)?(?:~kept)+$/i

export const toKept = (path: TreePath): string =>
  stateRoot +
  (path.includes(".")
    ? path
        .split("/")
        .map((part) => (special.test(part) ? `${part}~kept` : part))
        .join("/")
    : path)

export const fromKept = (kept: string): TreePath => {
  const path = kept.slice(stateRoot.length)
  if (!path.includes("~kept")) return path
  return path
    .split("/")
    .map((part) => (escaped.test(part) ? part.slice(0, -"~kept".length) : part))
    .join("/")
}

/** A path as fast-import reads it (git-fast-import(1), "filemodify"); a byte string. */
export const quoted = (path: string): string =>
  `"${path.replace(/["\\\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`))}"`
