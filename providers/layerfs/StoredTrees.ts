/**
 * Reads trees out of the object store: directories by id, and whole roots by path.
 * Promise: every directory was checked against its id when it was loaded; the cache of decoded ones is bounded.
 * Rules: L3, L10, L12. Synchronous: runs in the worker.
 */
import type { Digest } from "../../src/base/Digest.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import type { CommitRow } from "./RefStore.ts"
import type { TreeEntry, TreeReader } from "./Tree.ts"
import {
  decodeRoot,
  decodeTimes,
  decodeTree,
  type RootRecord,
  type StoredEntry,
  type StoredTime,
  type StoredTree
} from "./TreeCodec.ts"

/** What is needed of an object store to read trees. */
export interface ObjectSource {
  readonly read: (id: Digest) => Buffer
}

/** Entries kept decoded at most, over all directories. */
const cachedEntries = 200_000

export class StoredTrees {
  readonly #objects: ObjectSource
  readonly #trees = new Map<Digest, StoredTree>()
  readonly #times = new WeakMap<StoredTree, { readonly id: Digest; readonly times: readonly StoredTime[] }>()
  readonly #directories = new WeakMap<StoredTree, { readonly id: Digest; readonly directory: Directory }>()
  #entries = 0

  constructor(objects: ObjectSource) {
    this.#objects = objects
  }

  tree(id: Digest): StoredTree {
    const known = this.#trees.get(id)
    if (known !== undefined) {
      this.#trees.delete(id)
      this.#trees.set(id, known)
      return known
    }
    const tree = decodeTree(this.#objects.read(id))
    this.#trees.set(id, tree)
    this.#entries += tree.entries.length + 1
    for (const [oldest, old] of this.#trees) {
      if (this.#entries <= cachedEntries || oldest === id) break
      this.#trees.delete(oldest)
      this.#entries -= old.entries.length + 1
    }
    return tree
  }

  /** Kept as long as the tree that they belong to. */
  times(id: Digest, tree: StoredTree): readonly StoredTime[] {
    const known = this.#times.get(tree)
    if (known?.id === id) return known.times
    const times = decodeTimes(this.#objects.read(id), tree)
    this.#times.set(tree, { id, times })
    return times
  }

  /** A directory with its times, kept as long as its tree: a checkpoint looks at every directory of an upper again. */
  directory(id: Digest, timesId: Digest): Directory {
    const tree = this.tree(id)
    const known = this.#directories.get(tree)
    if (known?.id === timesId) return known.directory
    const stored = this.times(timesId, tree)
    const times = new Map<TreePath, Digest>()
    const entries = tree.entries.map((entry, i) => {
      const time = stored[i]!
      if (time.times !== null) times.set(entry.name, time.times)
      return toTreeEntry(entry, time.mtimeNs)
    })
    const directory = { entries, byName: new Map(entries.map((entry) => [entry.name, entry])), times }
    this.#directories.set(tree, { id: timesId, directory })
    return directory
  }

  root(id: Digest): RootRecord {
    return decodeRoot(this.#objects.read(id))
  }

  reader(commit: Pick<CommitRow, "root" | "times">): TreeReader {
    return new RootReader(this, commit)
  }
}

interface Directory {
  readonly entries: readonly TreeEntry[]
  readonly byName: ReadonlyMap<TreePath, TreeEntry>
  readonly times: ReadonlyMap<TreePath, Digest>
}

export const toTreeEntry = (stored: StoredEntry, mtimeNs: bigint): TreeEntry => {
  switch (stored.type) {
    case "file":
      return { ...stored, mtimeNs, target: null }
    case "directory":
      return {
        name: stored.name,
        type: "directory",
        mode: stored.mode,
        mtimeNs,
        size: 0,
        id: stored.id,
        target: null,
        linkGroup: null
      }
    case "symlink":
      return {
        name: stored.name,
        type: "symlink",
        mode: 0,
        mtimeNs,
        size: stored.target.length,
        id: null,
        target: stored.target,
        linkGroup: null
      }
  }
}

class RootReader implements TreeReader {
  readonly #trees: StoredTrees
  readonly #root: TreeEntry
  readonly #rootTimes: Digest
  readonly #directories = new Map<TreePath, Directory | null>()

  constructor(trees: StoredTrees, commit: Pick<CommitRow, "root" | "times">) {
    this.#trees = trees
    const record = trees.root(commit.times)
    this.#root = {
      name: "",
      type: "directory",
      mode: record.mode,
      mtimeNs: record.mtimeNs,
      size: 0,
      id: commit.root,
      target: null,
      linkGroup: null
    }
    this.#rootTimes = record.times
  }

  entry(path: TreePath): TreeEntry | undefined {
    if (path === "") return this.#root
    const slash = path.lastIndexOf("/")
    return this.#directory(slash < 0 ? "" : path.slice(0, slash))?.byName.get(path.slice(slash + 1))
  }

  list(path: TreePath): readonly TreeEntry[] | undefined {
    return this.#directory(path)?.entries
  }

  #directory(path: TreePath): Directory | undefined {
    const known = this.#directories.get(path)
    if (known !== undefined) return known ?? undefined
    const loaded = this.#load(path)
    // Bounded: a reader lives for one call, but a call may walk a large tree.
    if (this.#directories.size > 20_000) this.#directories.clear()
    this.#directories.set(path, loaded ?? null)
    return loaded
  }

  #load(path: TreePath): Directory | undefined {
    let id: Digest
    let timesId: Digest
    if (path === "") {
      id = this.#root.id!
      timesId = this.#rootTimes
    } else {
      const slash = path.lastIndexOf("/")
      const name = path.slice(slash + 1)
      const parent = this.#directory(slash < 0 ? "" : path.slice(0, slash))
      const entry = parent?.byName.get(name)
      const times = parent?.times.get(name)
      if (entry?.type !== "directory" || times === undefined) return undefined
      id = entry.id!
      timesId = times
    }
    return this.#trees.directory(id, timesId)
  }
}
