/**
 * What has to be written so that a directory shows a commit: the whole tree, or what it differs in from a tree that is there already.
 * Promise: a delta over the other tree, as a layer of an overlay, shows the commit exactly, times and hard links included; its
 * cost follows the difference. Rules: L14, L15, W7; 04 "Projections" 1.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { Steps } from "../../src/workspace/kit/Steps.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import type { TarEntry } from "./TarStream.ts"
import type { StoredEntry, StoredTime } from "./TreeCodec.ts"

export interface PlannedFile {
  readonly path: TreePath
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly id: Digest
}

export interface Plan {
  readonly directories: TarEntry[]
  readonly files: PlannedFile[]
  /** Symlinks, further names of hard-linked files, and whiteouts: after the files. */
  readonly links: TarEntry[]
  readonly bytes: number
}

type State = Pick<CommitRow, "root" | "times">

/** An entry with its time. */
interface Timed {
  readonly entry: StoredEntry
  readonly time: StoredTime
}

type FileEntry = Extract<StoredEntry, { readonly type: "file" }>

/** Collects entries; what is no directory comes after all directories. */
class Collected implements Plan {
  readonly directories: TarEntry[] = []
  readonly files: PlannedFile[] = []
  readonly links: TarEntry[] = []
  bytes = 0

  get entries(): number {
    return this.directories.length + this.files.length + this.links.length
  }

  directory(path: TreePath, mode: number, mtimeNs: bigint): void {
    this.directories.push({ path: path === "" ? "." : path, type: "directory", mode, mtimeNs, size: 0, target: "" })
  }

  add(path: TreePath, entry: Exclude<StoredEntry, { readonly type: "directory" }>, mtimeNs: bigint): void {
    if (entry.type === "symlink") {
      this.links.push({ path, type: "symlink", mode: 0o777, mtimeNs, size: 0, target: entry.target })
    } else if (entry.linkGroup !== null && entry.linkGroup !== path) {
      this.links.push({ path, type: "hardlink", mode: entry.mode, mtimeNs, size: 0, target: entry.linkGroup })
    } else {
      this.files.push({ path, mode: entry.mode, mtimeNs, size: entry.size, id: entry.id })
      this.bytes += entry.size
    }
  }

  whiteout(path: TreePath): void {
    this.links.push({ path, type: "whiteout", mode: 0, mtimeNs: 0n, size: 0, target: "" })
  }
}

/** Everything. A step is a directory. */
export function* planTree(trees: StoredTrees, commit: State): Steps<Plan> {
  const record = trees.root(commit.times)
  const plan = new Collected()
  function* walk(id: Digest, timesId: Digest, path: TreePath, mode: number, mtimeNs: bigint): Steps<void> {
    yield
    plan.directory(path, mode, mtimeNs)
    for (const { entry, time } of timed(trees, id, timesId)) {
      const child = join(path, entry.name)
      if (entry.type === "directory") yield* walk(entry.id, time.times!, child, entry.mode, time.mtimeNs)
      else plan.add(child, entry, time.mtimeNs)
    }
  }
  yield* walk(commit.root, record.times, "", record.mode, record.mtimeNs)
  return plan
}

const timed = (trees: StoredTrees, id: Digest, timesId: Digest): Timed[] => {
  const tree = trees.tree(id)
  const times = trees.times(timesId, tree)
  return tree.entries.map((entry, i) => ({ entry, time: times[i]! }))
}

const sameFile = (a: FileEntry, b: FileEntry): boolean =>
  a.id === b.id && a.size === b.size && a.mode === b.mode && a.linkGroup === b.linkGroup

const same = (a: Timed, b: Timed): boolean => {
  if (a.time.mtimeNs !== b.time.mtimeNs || a.entry.type !== b.entry.type) return false
  if (a.entry.type === "file") return sameFile(a.entry, b.entry as FileEntry)
  if (a.entry.type === "symlink") return a.entry.target === (b.entry as typeof a.entry).target
  return a.entry.mode === (b.entry as typeof a.entry).mode
}

/**
 * What `commit` needs above a view of `below`; undefined when that is more than `limit` entries. Needs no opaque directory: what was
 * replaced by a directory is no directory below, and of what was removed and made anew each name is told.
 */
export function* planDelta(trees: StoredTrees, commit: State, below: State, limit: number): Steps<Plan | undefined> {
  const groups = new Set<TreePath>()
  const first = new DeltaWalk(trees, limit, groups)
  const plan = yield* first.run(commit, below)
  // A name of a group that changed is a link to another one: all names of it lie in the same layer.
  return plan === undefined || groups.size === 0 ? plan : yield* new DeltaWalk(trees, limit, groups).run(commit, below)
}

class DeltaWalk {
  readonly #trees: StoredTrees
  readonly #limit: number
  /** Hard-link groups of which a name is told, by their first path. Filled by the first walk; all their names are told by a second. */
  readonly #groups: Set<TreePath>
  readonly #whole: ReadonlySet<TreePath>
  readonly #plan = new Collected()

  constructor(trees: StoredTrees, limit: number, groups: Set<TreePath>) {
    this.#trees = trees
    this.#limit = limit
    this.#groups = groups
    this.#whole = new Set(groups)
  }

  *run(commit: State, below: State): Steps<Plan | undefined> {
    const [mine, theirs] = [this.#trees.root(commit.times), this.#trees.root(below.times)]
    this.#plan.directory("", mine.mode, mine.mtimeNs)
    const fits = yield* this.#walk("", { id: commit.root, times: mine.times }, { id: below.root, times: theirs.times })
    return fits ? this.#plan : undefined
  }

  /** False when the plan has grown too large. */
  *#walk(path: TreePath, mine: Directory, theirs: Directory | undefined): Steps<boolean> {
    yield
    const before = new Map<TreePath, Timed>()
    if (theirs !== undefined) {
      for (const other of timed(this.#trees, theirs.id, theirs.times)) before.set(other.entry.name, other)
    }
    for (const one of timed(this.#trees, mine.id, mine.times)) {
      const other = before.get(one.entry.name)
      before.delete(one.entry.name)
      if (!(yield* this.#entry(join(path, one.entry.name), one, other))) return false
    }
    for (const [name, other] of before) {
      yield* this.#left(other)
      this.#plan.whiteout(join(path, name))
    }
    return this.#plan.entries <= this.#limit
  }

  /** The names that stay of a group that a name has left are told: what lies below would still count it. */
  *#left({ entry, time }: Timed): Steps<void> {
    if (entry.type === "file" && entry.linkGroup !== null) this.#groups.add(entry.linkGroup)
    if (entry.type !== "directory" || !entry.linked) return
    yield
    for (const child of timed(this.#trees, entry.id, time.times!)) yield* this.#left(child)
  }

  *#entry(path: TreePath, one: Timed, other: Timed | undefined): Steps<boolean> {
    const { entry, time } = one
    const isSame = other !== undefined && same(one, other)
    if (other !== undefined && !isSame && !(entry.type === "directory" && other.entry.type === "directory"))
      yield* this.#left(other)
    if (entry.type !== "directory") {
      const group = entry.type === "file" ? entry.linkGroup : null
      if (isSame && (group === null || !this.#whole.has(group))) return true
      if (group !== null) this.#groups.add(group)
      this.#plan.add(path, entry, time.mtimeNs)
      return this.#plan.entries <= this.#limit
    }
    const below = directoryOf(other)
    const equal = below?.id === entry.id && below.times === time.times
    if (isSame && equal && !(entry.linked && this.#whole.size > 0)) return true
    const { directories } = this.#plan
    const at = this.#plan.entries
    this.#plan.directory(path, entry.mode, time.mtimeNs)
    if (!(yield* this.#walk(path, { id: entry.id, times: time.times! }, below))) return false
    // Nothing below it came of the look at linked files.
    if (isSame && this.#plan.entries === at + 1) directories.pop()
    return true
  }
}

/**
 * Whether a tree that grew from another one gave a name of one of its hard-link groups something else, or took it away. A layer that holds
 * no more than that shows the other names by an inode that still counts it.
 */
export function* touchesLinks(trees: StoredTrees, commit: State, below: State): Steps<boolean> {
  function* walk(mine: Directory, theirs: Directory): Steps<boolean> {
    yield
    const now = new Map(timed(trees, mine.id, mine.times).map((one) => [one.entry.name, one]))
    for (const other of timed(trees, theirs.id, theirs.times)) {
      const one = now.get(other.entry.name)
      if (other.entry.type === "file" && other.entry.linkGroup !== null && (one === undefined || !same(other, one))) {
        return true
      }
      if (other.entry.type !== "directory" || !other.entry.linked) continue
      const [after, before] = [directoryOf(one), directoryOf(other)!]
      const equal = after?.id === before.id && after.times === before.times
      if (after === undefined || (!equal && (yield* walk(after, before)))) return true
    }
    return false
  }
  const [mine, theirs] = [trees.root(commit.times), trees.root(below.times)]
  return yield* walk({ id: commit.root, times: mine.times }, { id: below.root, times: theirs.times })
}

interface Directory {
  readonly id: Digest
  readonly times: Digest
}

const directoryOf = (timed: Timed | undefined): Directory | undefined =>
  timed?.entry.type === "directory" ? { id: timed.entry.id, times: timed.time.times! } : undefined
