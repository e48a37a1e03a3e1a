/**
 * Directories of a tree by descriptor, one component after the other, no link followed.
 * Promise: whoever swaps a directory for a link meanwhile changes nothing about where is read or removed; every descriptor is closed again.
 * Rules: W12, W21, C27; open(2), proc(5).
 */
import * as fs from "node:fs"
import { parent, toBytes, type TreePath } from "../../src/base/PathBytes.ts"

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants
/** O_PATH, which Node does not name: a directory without read permission can still be walked through. */
const directoryOnly = O_DIRECTORY | O_NOFOLLOW | (process.platform === "linux" ? 0o10000000 : O_RDONLY)

/** A directory that a caller named, links on its way followed. */
export const openRoot = (path: TreePath): number => fs.openSync(toBytes(path), O_RDONLY | O_DIRECTORY)

/** `/proc/self/fd/N/name`, where `name` is one component. */
export const within = (directory: number, name: TreePath): TreePath => `/proc/self/fd/${directory}/${name}`

/** The directory `path` below `root`. Throws Node's errors; a component that is a link is ENOTDIR or ELOOP. */
export const openBelow = (root: number, path: TreePath): number => {
  let at = fs.openSync(toBytes(within(root, ".")), directoryOnly)
  for (const name of path === "" ? [] : path.split("/")) {
    const above = at
    try {
      at = fs.openSync(toBytes(within(above, name)), directoryOnly)
    } finally {
      fs.closeSync(above)
    }
  }
  return at
}

/** Keeps the directory that was opened last, for calls on one entry after the other. */
export class Descent {
  readonly #root: number
  #path: TreePath | undefined
  #at = -1

  constructor(root: TreePath) {
    this.#root = openRoot(root)
  }

  /** A path by which the entry `path` can be named in one system call, until the next one is asked for. */
  to(path: TreePath): TreePath {
    const directory = parent(path)
    if (directory !== this.#path) {
      this.#leave()
      this.#at = openBelow(this.#root, directory)
      this.#path = directory
    }
    return within(this.#at, path.slice(directory === "" ? 0 : directory.length + 1))
  }

  #leave(): void {
    if (this.#path !== undefined) fs.closeSync(this.#at)
    this.#path = undefined
  }

  close(): void {
    this.#leave()
    fs.closeSync(this.#root)
  }
}
