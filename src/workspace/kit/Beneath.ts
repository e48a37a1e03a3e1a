/**
 * Resolves a path inside an open tree without ever leaving it, whatever links and rivals do meanwhile.
 * Promise: every step is taken from a directory descriptor with O_NOFOLLOW; a link is read and its target walked by the same
 * steps; an absolute target below the mount path is rebased, any other, and any `..` above the root, is refused. Rules: W21, C4, C27.
 *
 * `/proc/self/fd/N/name` stands in for openat(2), which Node does not have: the kernel takes N as the directory it already
 * is, so that only `name` is looked up.
 */
import * as fs from "node:fs"
import { types } from "node:util"
import { fromInput, type PathInput, show, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { OutsideWorkspace, PathError } from "../WorkspaceError.ts"

/** From <fcntl.h>, the same on every architecture that Node runs on under Linux; Node does not name it. */
const O_PATH = process.platform === "linux" ? 0o10000000 : 0
const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants

/** Linux follows at most 40 links in one path (path_resolution(7)). */
const maxLinks = 40

/** Where a path ends: the descriptor path of its directory, its name there, and what is there now. */
export interface Place {
  /** `/proc/self/fd/N`. Valid inside the callback only. */
  readonly directory: string
  /** "" for the root itself. */
  readonly name: TreePath
  /** Undefined: nothing has this name. */
  readonly stat: fs.BigIntStats | undefined
  /** The tree path after every link was followed. */
  readonly path: TreePath
}

/** `size` is that of the file where a range is what was wrong. */
export const pathError = (reason: PathError["reason"], path: TreePath, size?: number): PathError => {
  const { path: text } = show(path)
  const message = size === undefined ? messages[reason] : `${messages[reason]} It has ${size} bytes.`
  return new PathError({
    message,
    remedy: remedies[reason],
    reason,
    path: text,
    ...(size === undefined ? {} : { size })
  })
}

const messages: Record<PathError["reason"], string> = {
  notFound: "Nothing has this path.",
  notAFile: "The path does not name a regular file.",
  notADirectory: "A part of the path is not a directory.",
  exists: "Something with this path is there already.",
  notEmpty: "The directory is not empty.",
  loop: "The path runs through more than 40 links.",
  invalid: "The path or a number given with it is not valid.",
  invalidMode: "This is no file mode.",
  outOfBounds: "The range does not lie inside the file.",
  tooLarge: "This is more than one call hands out.",
  renameDirectory: "This directory comes from the base and cannot be renamed in one step.",
  denied: "The file's mode does not allow this."
}
const remedies: Record<PathError["reason"], string> = {
  notFound: "List the parent directory, or create the path first.",
  notAFile: "Name a regular file.",
  notADirectory: "Check each part of the path.",
  exists: "Remove it first, or choose another name.",
  notEmpty: "Remove what it holds first.",
  loop: "Remove the circle of links.",
  invalid: "Give a relative path inside the workspace, without NUL bytes, and whole numbers from 0.",
  invalidMode: "Give permission bits from 0 to 0o7777.",
  outOfBounds: "Look at the size with `stat`, then give a range inside it.",
  tooLarge: "Read it in parts, inside the workspace or at a commit.",
  renameDirectory: "Use `move`, which copies and removes, or list the directory in `ownDirs`.",
  denied: "Change the mode with an `exec` of chmod first."
}

const outside = (path: TreePath): OutsideWorkspace =>
  new OutsideWorkspace({
    message: "The path, or a link on its way, leads out of the workspace.",
    remedy: "Use a path below the workspace's root. Nothing was read or written.",
    path: show(path).path
  })

/** The tree path of a caller's input: absolute ones below the mount path are taken as what they name. */
export const inputPath = (input: PathInput, mountPath: TreePath): TreePath => {
  // Callers without a type checker pass other things too.
  if (typeof input !== "string" && !types.isUint8Array(input)) throw pathError("invalid", "")
  const path = fromInput(input)
  if (path.includes("\0")) throw pathError("invalid", path)
  if (!path.startsWith("/")) return path
  const rest = rebase(path, mountPath)
  if (rest === undefined) throw outside(path)
  return rest
}

const rebase = (path: TreePath, mountPath: TreePath): TreePath | undefined =>
  path === mountPath ? "" : path.startsWith(`${mountPath}/`) ? path.slice(mountPath.length + 1) : undefined

export const at = (directory: string, name: TreePath): Buffer => toBytes(`${directory}/${name}`)

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

export class Beneath {
  readonly #root: number
  readonly mountPath: TreePath

  /** `root` is a descriptor of the tree's root, which stays the caller's to close. */
  constructor(root: number, mountPath: TreePath) {
    this.#root = root
    this.mountPath = mountPath
  }

  /** Walks to `input` and calls `use` while the directory's descriptor is open. Throws PathError, OutsideWorkspace. */
  resolve<A>(input: PathInput, followLast: boolean, use: (place: Place) => A): A {
    const wanted = inputPath(input, this.mountPath)
    // Open directories on the way, root first. `..` steps back on this stack, never by the kernel.
    const stack: { readonly descriptor: number; readonly name: TreePath }[] = [{ descriptor: this.#root, name: "" }]
    const todo = wanted.split("/").toReversed()
    let links = 0
    const pop = (): void => {
      fs.closeSync(stack.pop()!.descriptor)
    }
    const here = (): string => `/proc/self/fd/${stack.at(-1)!.descriptor}`
    const pathTo = (name: TreePath): TreePath => [...stack.slice(1).map((part) => part.name), name].join("/")

    const follow = (name: TreePath): void => {
      links += 1
      if (links > maxLinks) throw pathError("loop", wanted)
      const target: TreePath = fs.readlinkSync(at(here(), name), { encoding: "latin1" })
      const rest = target.startsWith("/") ? rebase(target, this.mountPath) : target
      if (rest === undefined) throw outside(wanted)
      if (target.startsWith("/")) while (stack.length > 1) pop()
      todo.push(...rest.split("/").toReversed())
    }

    try {
      for (;;) {
        const name = todo.pop()
        if (name === undefined) {
          // The path ended on a directory that is open already: the root, or a trailing `.`, `..` or slash.
          const top = stack.at(-1)!
          const stat = fs.fstatSync(top.descriptor, { bigint: true })
          if (stack.length === 1) return use({ directory: here(), name: "", stat, path: "" })
          pop()
          return use({ directory: here(), name: top.name, stat, path: pathTo(top.name) })
        }
        if (name === "" || name === ".") continue
        if (name === "..") {
          if (stack.length === 1) throw outside(wanted)
          pop()
          continue
        }
        const last = todo.every((part) => part === "" || part === ".")
        // A slash or dot follows: only a directory has such a name; a link to one only where it is followed.
        const wantsDirectory = last && todo.length > 0
        const stat = lstatOrUndefined(at(here(), name))
        if (stat === undefined) {
          if (!last) throw pathError("notFound", wanted)
          return use({ directory: here(), name, stat, path: pathTo(name) })
        }
        if (stat.isSymbolicLink() && (!last || followLast)) {
          try {
            follow(name)
          } catch (error) {
            // No link any more: somebody replaced it just now. Look again.
            if (codeOf(error) !== "EINVAL" && codeOf(error) !== "ENOENT") throw error
            todo.push(name)
            links += 1
          }
          continue
        }
        if (wantsDirectory && !stat.isDirectory()) throw pathError("notADirectory", wanted)
        if (last) return use({ directory: here(), name, stat, path: pathTo(name) })
        if (!stat.isDirectory()) throw pathError("notADirectory", wanted)
        try {
          const descriptor = fs.openSync(at(here(), name), O_PATH | O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
          stack.push({ descriptor, name })
        } catch (error) {
          // A link or a file since the look above: look again, counted so that a rival cannot keep us here.
          if (!["ENOTDIR", "ELOOP", "ENOENT"].includes(codeOf(error) ?? "")) throw error
          links += 1
          if (links > maxLinks) throw pathError("loop", wanted)
          todo.push(name)
        }
      }
    } catch (error) {
      throw typed(error, wanted)
    } finally {
      while (stack.length > 1) pop()
    }
  }
}

/** System errors that speak about the path; anything else passes through. */
export const typed = (error: unknown, path: TreePath): unknown => {
  switch (codeOf(error)) {
    case "ENOENT":
      return pathError("notFound", path)
    case "ENOTDIR":
      return pathError("notADirectory", path)
    case "EISDIR":
      return pathError("notAFile", path)
    case "EEXIST":
      return pathError("exists", path)
    case "ENOTEMPTY":
      return pathError("notEmpty", path)
    case "ELOOP":
      return pathError("loop", path)
    case "EACCES":
    case "EPERM":
      return pathError("denied", path)
    case "ENAMETOOLONG":
    case "EINVAL":
      return pathError("invalid", path)
    default:
      return error
  }
}

export const lstatOrUndefined = (path: Buffer): fs.BigIntStats | undefined =>
  fs.lstatSync(path, { bigint: true, throwIfNoEntry: false })
