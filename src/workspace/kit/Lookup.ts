/**
 * Paths that callers supply, resolved inside a stored tree the way the kernel would inside the mounted one.
 * Promise: nothing outside of the tree is ever named: `..` past the root and absolute targets are `OutsideWorkspace`, save
 * absolute ones below the path that the tree is mounted at, which mean the same file. 40 links are followed, the 41st is a
 * loop. Rules: W21, L3; C4, C27.
 */
import { longestTreePath } from "../../base/LongPath.ts"
import { join, meansDirectory, parent, show, type TreePath } from "../../base/PathBytes.ts"
import { OutsideWorkspace, PathError } from "../WorkspaceError.ts"

/** What resolution needs to know about one entry. */
export interface Looked {
  readonly type: "file" | "directory" | "symlink"
  readonly target?: TreePath | null
}

export interface Lookup {
  readonly get: (path: TreePath) => Looked | undefined
  /** The absolute path under which the tree is mounted by default (byte string); null when there is none. */
  readonly mountPath: TreePath | null
}

/** The limit of Linux (path_resolution(7)). */
const maxLinks = 40

const messages: Readonly<Record<PathError["reason"], readonly [string, string]>> = {
  notFound: ["Nothing lies at this path.", "List the parent directory to see what is there."],
  notAFile: ["What lies at this path is not a file.", "Give the path of a file."],
  notADirectory: ["A part of this path is not a directory.", "Give a path whose parents are directories."],
  exists: ["Something lies at this path already.", "Remove it first, or give another path."],
  notEmpty: ["The directory at this path is not empty.", "Remove what is in it first, or give another path."],
  loop: ["The links on this path lead in a circle, or are more than 40.", "Give the path that they stand for."],
  invalid: [
    "This path, or what was given along with it, cannot be used for that.",
    "Give a relative path below the root of at most 4,095 bytes, in names of 1 to 255, and bytes, offsets and operations as the call declares them."
  ],
  invalidMode: ["This is no file mode.", "Give permission bits from 0 to 0o7777."],
  renameDirectory: ["This directory cannot be renamed in place.", "Use move or copy, or open with ownDirs."],
  outOfBounds: ["The range does not lie inside the file.", "Look at the size with stat, then give a range inside it."],
  tooLarge: ["This is more than one call hands out.", "Read it in parts, with an offset and a length."],
  denied: ["This path may not be touched.", "Give a path inside the granted scope."]
}

/** `size` is that of the file where a range is what was wrong. */
export const pathError = (reason: PathError["reason"], path: TreePath, size?: number): PathError =>
  new PathError({
    message: size === undefined ? messages[reason][0] : `${messages[reason][0]} It has ${size} bytes.`,
    remedy: messages[reason][1],
    reason,
    path: show(path).path,
    ...(size === undefined ? {} : { size })
  })

export const outside = (path: TreePath): OutsideWorkspace =>
  new OutsideWorkspace({
    message: "The path, or a link on its way, leads out of the workspace.",
    remedy: "Give a path that stays inside; nothing was read or written outside.",
    path: show(path).path
  })

/**
 * The path with every link on its way resolved. With `follow` the last part is resolved too; the last part need not exist.
 * Throws `PathError`, `OutsideWorkspace`.
 */
export const resolvePath = (lookup: Lookup, input: TreePath, follow: boolean): TreePath => {
  const inTree = (path: TreePath): TreePath => {
    if (!path.startsWith("/")) return path
    const mount = lookup.mountPath
    if (mount !== null && (path === mount || path.startsWith(`${mount}/`))) return path.slice(mount.length)
    throw outside(input)
  }
  if (input.includes("\0")) throw pathError("invalid", input)
  const partsOf = (path: TreePath): string[] => path.split("/").filter((part) => part !== "" && part !== ".")
  const wantsDirectory = meansDirectory(input)
  const open = partsOf(inTree(input)).toReversed()
  let at: TreePath = ""
  let links = 0
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (part.length > 255) throw pathError("invalid", input)
    if (part === "..") {
      if (at === "") throw outside(input)
      at = parent(at)
      continue
    }
    const child = join(at, part)
    const entry = lookup.get(child)
    if (entry === undefined && open.length > 0) throw pathError("notFound", input)
    if (entry?.type === "file" && (open.length > 0 || wantsDirectory)) throw pathError("notADirectory", input)
    if (entry?.type !== "symlink" || (open.length === 0 && !follow)) {
      if (entry?.type === "symlink" && wantsDirectory) throw pathError("notADirectory", input)
      at = child
      continue
    }
    links += 1
    if (links > maxLinks) throw pathError("loop", input)
    const target = entry.target ?? ""
    if (target.startsWith("/")) at = ""
    open.push(...partsOf(inTree(target)).toReversed())
  }
  if (at.length > longestTreePath) throw pathError("invalid", input)
  return at
}
