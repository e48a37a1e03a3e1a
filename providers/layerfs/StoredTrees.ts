/**
 * Reads trees out of the object store: directories by id, and whole roots by path.
 * Promise: every directory was checked against its id when it was loaded; the cache of decoded ones is bounded.
 * Rules: L3, L10, L12. Synchronous: runs in the worker.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { TreeEntry, TreeReader } from "../../src/workspace/kit/Tree.ts"
import {
  decodeRoot,
  decodeTimes,
  decodeTree,
  heldNs,
  type RootRecord,
  type StoredEntry,
  type StoredTime,
  type StoredTree,
  timesCount
} from "./TreeCodec.ts"
import {
  decodeTimesIndex,
  decodeTreeIndex,
  isTimesIndex,
  isTreeIndex,
  type LikeTree,
  type TreeIndex,
  type TreeItem,
  type TreePage
} from "./TreePages.ts"

/** What is needed of an object store to read trees. */
export interface ObjectSource {
  readonly read: (id: Digest) => Buffer
}

/** Entries kept decoded at most, over all directories, and pages of indexes. */
const cachedEntries = 200_000
const cachedIndexes = 2000

/** A page of a directory, found by a name. */
interface FoundPage<Item> {
  readonly last: TreePath
  /** No page follows. */
  readonly isLast: boolean
  readonly like: LikeTree
  readonly items: readonly Item[]
}

export class StoredTrees {
  readonly #objects: ObjectSource
  /** Decoded objects by id; a paged directory, once somebody wanted all of it, by `wholeKey`. */
  readonly #trees = new Map<string, StoredTree>()
  readonly #indexes = new Map<Digest, TreeIndex>()
  readonly #times = new WeakMap<StoredTree, { readonly id: Digest; readonly times: readonly StoredTime[] }>()
  readonly #timesIndexes = new WeakMap<TreeIndex, { readonly id: Digest; readonly ids: readonly Digest[] }>()
  readonly #directories = new WeakMap<StoredTree, { readonly id: Digest; readonly entries: readonly TreeEntry[] }>()
  #entries = 0

  constructor(objects: ObjectSource) {
    this.#objects = objects
  }

  /** A whole directory. For one name of a large one, see `lookup`. */
  tree(id: Digest): StoredTree {
    const known = this.#recall(id) ?? this.#recall(wholeKey(id))
    if (known !== undefined) return known
    const index = this.indexOf(id)
    return index === undefined ? this.#trees.get(id)! : this.#keep(wholeKey(id), this.#whole(index))
  }

  #recall(key: string): StoredTree | undefined {
    const known = this.#trees.get(key)
    if (known === undefined) return undefined
    this.#trees.delete(key)
    this.#trees.set(key, known)
    return known
  }

  #keep(id: string, tree: StoredTree): StoredTree {
    this.#trees.set(id, tree)
    this.#entries += tree.entries.length + 1
    for (const [oldest, old] of this.#trees) {
      if (this.#entries <= cachedEntries || oldest === id) break
      this.#trees.delete(oldest)
      this.#entries -= old.entries.length + 1
    }
    return tree
  }

  /** A leaf that was just written: whoever looks at it next need not decode it. `items` are what it was made of. */
  keepLeaf({ tree: id, times, linked }: TreePage, items: readonly TreeItem[]): void {
    if (this.#trees.has(id)) return
    const tree = this.#keep(id, { linked, entries: items.map(({ entry }) => entry) })
    const held = items.map(({ time }) => ({ mtimeNs: heldNs(time.mtimeNs), times: time.times }))
    this.#times.set(tree, { id: times, times: held })
  }

  /** The same for a page of an index. */
  keepIndex(level: number, { tree: id, times, linked, count }: TreePage, pages: readonly TreePage[]): void {
    if (this.#indexes.has(id)) return
    const index = this.#keepIndex(id, { level, linked, count, pages })
    this.#timesIndexes.set(index, { id: times, ids: pages.map((page) => page.times) })
  }

  /** The index of a paged directory, or of one of its pages; undefined for one object with all entries. */
  indexOf(id: Digest): TreeIndex | undefined {
    const known = this.#indexes.get(id)
    if (known !== undefined || this.#trees.has(id)) return known
    const bytes = this.#objects.read(id)
    if (!isTreeIndex(bytes)) {
      this.#keep(id, decodeTree(bytes))
      return undefined
    }
    return this.#keepIndex(id, decodeTreeIndex(bytes))
  }

  #keepIndex(id: Digest, index: TreeIndex): TreeIndex {
    for (const oldest of this.#indexes.keys()) {
      if (this.#indexes.size < cachedIndexes) break
      this.#indexes.delete(oldest)
    }
    this.#indexes.set(id, index)
    return index
  }

  /** A hard-linked file lies in this directory or below. */
  linked(id: Digest): boolean {
    return (this.indexOf(id) ?? this.tree(id)).linked
  }

  /** How many entries a directory has. */
  count(id: Digest): number {
    return this.indexOf(id)?.count ?? this.tree(id).entries.length
  }

  #whole(index: TreeIndex): StoredTree {
    const entries: StoredEntry[] = []
    const add = ({ pages }: TreeIndex): void => {
      for (const { tree, last } of pages) {
        const below = this.indexOf(tree)
        if (below === undefined) for (const entry of this.tree(tree).entries) entries.push(entry)
        else add(below)
        if (entries.at(-1)?.name !== last) throw new Error("A page of a directory does not end where its index says")
      }
    }
    add(index)
    return { linked: index.linked, entries }
  }

  /** Kept as long as the tree that they belong to. */
  times(id: Digest, tree: StoredTree): readonly StoredTime[] {
    const known = this.#times.get(tree)
    if (known?.id === id) return known.times
    const bytes = this.#objects.read(id)
    const times = isTimesIndex(bytes) ? this.#wholeTimes(bytes, tree) : decodeTimes(bytes, tree)
    this.#times.set(tree, { id, times })
    return times
  }

  #wholeTimes(top: Buffer, tree: StoredTree): StoredTime[] {
    const times: StoredTime[] = []
    const add = (bytes: Buffer): void => {
      if (isTimesIndex(bytes)) {
        for (const id of decodeTimesIndex(bytes)) add(this.#objects.read(id))
        return
      }
      if (timesCount(bytes) === 0) throw new Error("A page of times is empty")
      const entries = tree.entries.slice(times.length, times.length + timesCount(bytes))
      for (const time of decodeTimes(bytes, { linked: tree.linked, entries })) times.push(time)
    }
    add(top)
    if (times.length !== tree.entries.length) throw new Error("A directory has other times than entries")
    return times
  }

  #timesOf(index: TreeIndex, id: Digest): readonly Digest[] {
    const known = this.#timesIndexes.get(index)
    if (known?.id === id) return known.ids
    const ids = decodeTimesIndex(this.#objects.read(id))
    if (ids.length !== index.pages.length) throw new Error("A directory has other pages of times than of entries")
    this.#timesIndexes.set(index, { id, ids })
    return ids
  }

  /** Goes down to a level by a name: to the page that holds it or would, behind all names to the last one. */
  #find(directory: LikeTree, name: TreePath, level: number): { readonly like: LikeTree; readonly isLast: boolean } {
    let like = directory
    let isLast = true
    for (;;) {
      const index = this.indexOf(like.tree)
      if (index === undefined || index.level <= level) return { like, isLast }
      const at = Math.min(
        firstFrom(index.pages, name, (page) => page.last),
        index.pages.length - 1
      )
      isLast &&= at === index.pages.length - 1
      like = { tree: index.pages[at]!.tree, times: this.#timesOf(index, like.times)[at]! }
    }
  }

  leafFor(directory: LikeTree, name: TreePath): FoundPage<TreeItem> {
    const { like, isLast } = this.#find(directory, name, 0)
    const tree = this.tree(like.tree)
    const times = this.times(like.times, tree)
    const items = tree.entries.map((entry, n) => ({ entry, time: times[n]! }))
    return { last: items.at(-1)?.entry.name ?? "", isLast, like, items }
  }

  pagesFor(directory: LikeTree, name: TreePath, level: number): FoundPage<TreePage> {
    const { like, isLast } = this.#find(directory, name, level)
    const index = this.indexOf(like.tree)!
    const times = this.#timesOf(index, like.times)
    const items = index.pages.map((page, n) => ({ ...page, times: times[n]! }))
    return { last: items.at(-1)!.last, isLast, like, items }
  }

  /** All entries of a directory with their times. */
  *items(directory: LikeTree): Generator<TreeItem> {
    const tree = this.tree(directory.tree)
    const times = this.times(directory.times, tree)
    for (const [n, entry] of tree.entries.entries()) yield { entry, time: times[n]! }
  }

  /** No index stands above a single page: the page itself is the directory. */
  withoutSingles(page: TreePage): TreePage {
    const index = this.indexOf(page.tree)
    if (index?.pages.length !== 1) return page
    return this.withoutSingles({ ...index.pages[0]!, times: this.#timesOf(index, page.times)[0]! })
  }

  /** One entry of a directory: reads the pages on the way to it. */
  lookup(id: Digest, name: TreePath): StoredEntry | undefined {
    const index = this.indexOf(id)
    if (index !== undefined) {
      const page = index.pages[firstFrom(index.pages, name, (one) => one.last)]
      return page === undefined ? undefined : this.lookup(page.tree, name)
    }
    const { entries } = this.tree(id)
    const entry = entries[firstFrom(entries, name, (one) => one.name)]
    return entry?.name === name ? entry : undefined
  }

  /** The same with its time. */
  lookupTimed(directory: LikeTree, name: TreePath): TreeItem | undefined {
    const { like } = this.#find(directory, name, 0)
    const tree = this.tree(like.tree)
    const at = firstFrom(tree.entries, name, (entry) => entry.name)
    const entry = tree.entries[at]
    return entry?.name === name ? { entry, time: this.times(like.times, tree)[at]! } : undefined
  }

  /**
   * The entries of two directories, in order, without those of pages that both have: what is left out is equal on both sides.
   */
  unequal(a: Digest, b: Digest): readonly [readonly StoredEntry[], readonly StoredEntry[]] {
    let left: readonly PageRef[] = [this.#ref(a)]
    let right: readonly PageRef[] = [this.#ref(b)]
    for (;;) {
      const [ofLeft, ofRight] = [new Set(left.map((page) => page.id)), new Set(right.map((page) => page.id))]
      left = left.filter((page) => !ofRight.has(page.id))
      right = right.filter((page) => !ofLeft.has(page.id))
      const level = Math.max(0, ...left.map((page) => page.level), ...right.map((page) => page.level))
      if (level === 0) return [this.#entriesOf(left), this.#entriesOf(right)]
      left = left.flatMap((page) => this.#below(page, level))
      right = right.flatMap((page) => this.#below(page, level))
    }
  }

  #ref(id: Digest): PageRef {
    return { id, level: this.indexOf(id)?.level ?? 0 }
  }

  #below(page: PageRef, level: number): readonly PageRef[] {
    if (page.level < level) return [page]
    return this.indexOf(page.id)!.pages.map(({ tree }) => ({ id: tree, level: level - 1 }))
  }

  #entriesOf(pages: readonly PageRef[]): readonly StoredEntry[] {
    return pages.length === 1 ? this.tree(pages[0]!.id).entries : pages.flatMap(({ id }) => this.tree(id).entries)
  }

  /** A whole directory with its times, kept as long as its tree: a checkpoint looks at every directory of an upper again. */
  directory({ tree: id, times: timesId }: LikeTree): readonly TreeEntry[] {
    const tree = this.tree(id)
    const known = this.#directories.get(tree)
    if (known?.id === timesId) return known.entries
    const times = this.times(timesId, tree)
    const entries = tree.entries.map((entry, n) => toTreeEntry(entry, times[n]!.mtimeNs))
    this.#directories.set(tree, { id: timesId, entries })
    return entries
  }

  root(id: Digest): RootRecord {
    return decodeRoot(this.#objects.read(id))
  }

  /** The hard-link groups of a root by their first names. Only the directories with hard links in or below them are walked. */
  linkGroups(root: Digest): ReadonlyMap<TreePath, readonly TreePath[]> {
    const groups = new Map<TreePath, TreePath[]>()
    const walk = (path: TreePath, id: Digest): void => {
      for (const entry of this.tree(id).entries) {
        const at = join(path, entry.name)
        if (entry.type === "directory" && entry.linked) walk(at, entry.id)
        if (entry.type !== "file" || entry.linkGroup === null) continue
        const names = groups.get(entry.linkGroup)
        if (names === undefined) groups.set(entry.linkGroup, [at])
        else names.push(at)
      }
    }
    walk("", root)
    return groups
  }

  reader(commit: Pick<CommitRow, "root" | "times">): TreeReader {
    return new RootReader(this, commit)
  }
}

const wholeKey = (id: Digest): string => `${id} whole`

interface PageRef {
  readonly id: Digest
  readonly level: number
}

/** Where the first one stands whose name is not before `name`. */
export const firstFrom = <Item>(items: readonly Item[], name: TreePath, nameOf: (item: Item) => TreePath): number => {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (nameOf(items[middle]!) < name) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * Every page below the object of a directory's entries or times, each before those below it: `visit` answers whether to go on
 * below. A directory of one object has none.
 */
export const visitPages = (objects: ObjectSource, id: Digest, visit: (page: Digest) => boolean): void => {
  const bytes = objects.read(id)
  const isTree = isTreeIndex(bytes)
  if (!isTree && !isTimesIndex(bytes)) return
  const level = isTree ? bytes[3]! : bytes[2]!
  const pages = isTree ? decodeTreeIndex(bytes).pages.map((page) => page.tree) : decodeTimesIndex(bytes)
  for (const page of pages) if (visit(page) && level > 1) visitPages(objects, page, visit)
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
  /** Where the directories lie that this reader was asked about; null where none is. */
  readonly #places = new Map<TreePath, LikeTree | null>()
  #groups: ReadonlyMap<TreePath, readonly TreePath[]> | undefined

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
    this.#places.set("", { tree: commit.root, times: record.times })
  }

  entry(path: TreePath): TreeEntry | undefined {
    if (path === "") return this.#root
    const found = this.#item(path)
    return found === undefined ? undefined : toTreeEntry(found.entry, found.time.mtimeNs)
  }

  namesOf(group: TreePath): readonly TreePath[] {
    this.#groups ??= this.#trees.linkGroups(this.#root.id!)
    return this.#groups.get(group) ?? []
  }

  list(path: TreePath): readonly TreeEntry[] | undefined {
    const place = this.#place(path)
    return place === undefined ? undefined : this.#trees.directory(place)
  }

  #item(path: TreePath): TreeItem | undefined {
    const slash = path.lastIndexOf("/")
    const place = this.#place(slash < 0 ? "" : path.slice(0, slash))
    return place === undefined ? undefined : this.#trees.lookupTimed(place, path.slice(slash + 1))
  }

  #place(path: TreePath): LikeTree | undefined {
    const known = this.#places.get(path)
    if (known !== undefined) return known ?? undefined
    const found = this.#item(path)
    const isDirectory = found?.entry.type === "directory" && found.time.times !== null
    const place = isDirectory ? { tree: found.entry.id, times: found.time.times } : undefined
    // Bounded: a reader lives for one call, but a call may walk a large tree.
    const root = this.#places.get("")!
    if (this.#places.size > 20_000) this.#places.clear()
    this.#places.set("", root).set(path, place ?? null)
    return place
  }
}
