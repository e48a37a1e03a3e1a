/**
 * Directories of a tree by descriptor, one component after the other, no link followed.
 * Promise: whoever swaps a directory for a link meanwhile changes nothing about where is read or removed; a path of any depth can be
 * reached; every descriptor is closed again. Rules: W12, W13, W21, C18, C27; open(2), proc(5).
 *
 * `/proc/self/fd/N/name` stands in for openat(2), which Node does not have. Where there is no such directory (not Linux, or /proc is not
 * mounted), entries are named by their paths: see `isFixed`.
 */
import * as fs from "node:fs"
import { parent, toBytes, type TreePath } from "./PathBytes.ts"

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants
/** O_PATH, which Node does not name: a directory without read permission can still be walked through. */
const throughDirectory = O_DIRECTORY | (process.platform === "linux" ? 0o10000000 : O_RDONLY)
const directoryOnly = throughDirectory | O_NOFOLLOW

let named: boolean | undefined
/** Looked for when it is first asked: importing this touches no file. */
export const namesDescriptors = (): boolean =>
  (named ??= process.platform === "linux" && fs.existsSync("/proc/self/fd"))

/** A directory that a caller named, links on its way followed. */
export const openRoot = (path: TreePath): number => fs.openSync(toBytes(path), O_RDONLY | O_DIRECTORY)

/** As `openRoot`, only to walk through: also where its own names may not be read. */
export const openToWalk = (path: TreePath): number => fs.openSync(toBytes(path), throughDirectory)

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

/** Levels whose directories stay open; below them only the one that is being worked in does. */
const openLevels = 64

interface Level {
  readonly name: TreePath
  /** Undefined for one that was closed because the way goes on deeper. */
  descriptor: number | undefined
}

/** Keeps the way to the directory that was entered last, for calls on one entry after the other. */
export class Descent {
  /** False where entries are named by their paths: whoever opens one has to see for himself that it is the one he means, by device and inode. */
  readonly isFixed: boolean
  readonly #root: TreePath
  #own: number | undefined
  #levels: Level[] = []
  #path: TreePath = ""
  #at: TreePath

  /** Of the directory `root`; its descriptor may be somebody else's, and stays open that long. Null: by paths. */
  constructor(root: TreePath, descriptor?: number | null) {
    this.isFixed = namesDescriptors() && descriptor !== null
    this.#own = this.isFixed && descriptor === undefined ? openToWalk(root) : undefined
    this.#root = this.isFixed ? `/proc/self/fd/${descriptor ?? this.#own!}` : root
    this.#at = this.#root
  }

  /** A path that means the entry `path`, until the next one is asked for. Throws Node's errors; a component that is a link is ENOTDIR or ELOOP. */
  to(path: TreePath): TreePath {
    const directory = parent(path)
    const name = directory === "" ? path : path.slice(directory.length + 1)
    return `${this.enter(directory)}/${name}`
  }

  /** As `to`, of a directory, of which `name` may then be put behind it after a slash. */
  enter(path: TreePath): TreePath {
    if (path === this.#path) return this.#at
    if (!this.isFixed) return `${this.#root}/${path}`
    const names = path === "" ? [] : path.split("/")
    let shared = 0
    while (shared < names.length && this.#levels[shared]?.name === names[shared]) shared += 1
    while (this.#levels.length > shared || this.#isClosedAbove()) this.#leave()
    try {
      for (const name of names.slice(this.#levels.length)) {
        const descriptor = fs.openSync(toBytes(`${this.#top()}/${name}`), directoryOnly)
        if (this.#levels.length > openLevels) this.#close(this.#levels.at(-1)!)
        this.#levels.push({ name, descriptor })
      }
    } finally {
      this.#path = this.#levels.map((level) => level.name).join("/")
      this.#at = this.#top()
    }
    return this.#at
  }

  #isClosedAbove(): boolean {
    const last = this.#levels.at(-1)
    return last !== undefined && last.descriptor === undefined
  }

  #top(): TreePath {
    const last = this.#levels.at(-1)
    return last === undefined ? this.#root : `/proc/self/fd/${last.descriptor!}`
  }

  #leave(): void {
    this.#close(this.#levels.pop()!)
  }

  #close(level: Level): void {
    if (level.descriptor !== undefined) fs.closeSync(level.descriptor)
    level.descriptor = undefined
  }

  /** The next way is walked anew, in case that a directory of this one was replaced by another one. */
  restart(): void {
    while (this.#levels.length > 0) this.#leave()
    this.#path = ""
    this.#at = this.#root
  }

  close(): void {
    this.restart()
    if (this.#own !== undefined) fs.closeSync(this.#own)
    this.#own = undefined
  }
}
