/**
 * What is asked for next by somebody who goes through a tree in the order of its listings, as find(1), tar(1), cp(1) and grep(1) do.
 * Promise: guesses, on which nothing but time depends; whoever goes another way pays next to nothing for them. Rules: 04 "Projections" 2.
 */
import type { TreePath } from "../../../src/base/PathBytes.ts"
import { firstFrom, type StoredTrees } from "../StoredTrees.ts"
import type { StoredEntry } from "../TreeCodec.ts"
import type { LikeTree } from "../TreePages.ts"

/** A file or a directory, and where it lies. */
export interface Placed {
  /** Null for the root. */
  readonly entry: StoredEntry | null
  /** What a directory holds. */
  readonly directory: LikeTree | null
  readonly parent: Placed | null
  /** Somebody wanted to see what is in it. */
  readonly listed: boolean
}

export interface Guess {
  readonly entry: StoredEntry
  /** The directory itself, or the one that the file lies in. */
  readonly like: LikeTree
}

/** A directory, and how far it is gone through: to an entry, which is found by its name once somebody comes back to it. */
interface Level {
  readonly like: LikeTree
  readonly listed: boolean
  at: number | TreePath
}

/** Directories that are gone through for a guess, where none has what is looked for. */
const mostLevels = 64

export class LazyAhead {
  readonly #trees: StoredTrees
  readonly #type: "file" | "directory"
  #current: Placed | undefined
  #isInOrder = false
  /** What comes after `#current`; undefined before it was looked for, null when there is none. */
  #next: Guess | null | undefined
  /** Where the guess lies, the root's directory first. */
  #levels: Level[] = []

  /** `type` is what is gone through: files that are read, or directories that are listed. */
  constructor(trees: StoredTrees, type: "file" | "directory") {
    this.#trees = trees
    this.#type = type
  }

  /** `now` is asked for. */
  seen(now: Placed): void {
    if (this.#current === now) return
    const guess = this.#next?.entry
    this.#isInOrder = isEqual(guess, now.entry)
    if (!this.#isInOrder) this.#levels = levelsOf(now)
    this.#current = now
    this.#next = undefined
  }

  /** What comes after what was seen last, when that came itself after the one before. Reads directories. */
  next(): Guess | undefined {
    if (this.#next === undefined) this.#next = this.#step() ?? null
    return this.#isInOrder ? (this.#next ?? undefined) : undefined
  }

  #step(): Guess | undefined {
    for (let levels = 0; levels < mostLevels; ) {
      const level = this.#levels.at(-1)
      // Nobody goes in the order of a listing that was not asked for, and a large directory is not decoded for a guess.
      if (level?.listed !== true) return undefined
      const { like, at } = level
      const tree = this.#trees.tree(like.tree)
      level.at = typeof at === "number" ? at + 1 : firstFrom(tree.entries, at, ({ name }) => name) + 1
      const entry = tree.entries[level.at]
      if (entry?.type === "file") {
        if (this.#type === "file") return { entry, like }
        continue
      }
      levels += 1
      if (entry === undefined) this.#levels.pop()
      else if (entry.type === "directory") {
        const { times } = this.#trees.times(like.times, tree)[level.at]!
        if (times === null) return undefined
        const below = { tree: entry.id, times }
        this.#levels.push({ like: below, listed: this.#trees.indexOf(entry.id) === undefined, at: -1 })
        if (this.#type === "directory") return { entry, like: below }
      }
    }
    return undefined
  }
}

const isEqual = (a: StoredEntry | undefined, b: StoredEntry | null): boolean =>
  a !== undefined && a.type !== "symlink" && b !== null && b.type === a.type && a.name === b.name && a.id === b.id

const levelsOf = (now: Placed): Level[] => {
  const levels: Level[] = now.directory === null ? [] : [{ like: now.directory, listed: now.listed, at: -1 }]
  for (let { entry, parent } = now; entry !== null && parent?.directory != null; { entry, parent } = parent) {
    levels.push({ like: parent.directory, listed: parent.listed, at: entry.name })
  }
  return levels.toReversed()
}
