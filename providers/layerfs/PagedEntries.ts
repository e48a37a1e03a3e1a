/**
 * Edits of a paged directory: only the pages that hold an edited name, and those on the way to them, are read and written.
 * Promise: the pages are those that writing the whole directory would give (L14). Rules: L3, L14, W8.
 */
import type { TreePath } from "../../src/base/PathBytes.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import {
  endsTreePage,
  type LikeTree,
  pagedFrom,
  type TreeItem,
  type TreePage,
  writeAbove,
  writeDirectory,
  writeIndex,
  writeLeaf
} from "./TreePages.ts"

/** What becomes of a name: another entry, or nothing. In byte order of the names. */
export type Edits<Item> = readonly (readonly [TreePath, Item | null])[]

/** One level of a directory: its pages by key, and how a page of it is written. */
interface Level<Item> {
  readonly level: number
  readonly nameOf: (item: Item) => TreePath
  /** The page that holds `name` or would; behind all names the last one. */
  readonly find: (name: TreePath) => OldPage<Item>
  /** The page behind this one. */
  readonly next: (page: OldPage<Item>) => OldPage<Item> | undefined
  readonly write: (items: readonly Item[], like: LikeTree) => TreePage
}

interface OldPage<Item> {
  readonly last: TreePath
  readonly isLast: boolean
  readonly like: LikeTree
  readonly items: readonly Item[]
}

/** Old items and edits together, in order of the names. */
function* merged<Item>(items: readonly Item[], edits: Edits<Item>, nameOf: (item: Item) => TreePath): Generator<Item> {
  let at = 0
  for (const [name, item] of edits) {
    while (at < items.length && nameOf(items[at]!) < name) yield items[at++]!
    if (at < items.length && nameOf(items[at]!) === name) at += 1
    if (item !== null) yield item
  }
  while (at < items.length) yield items[at++]!
}

/** Writes the pages of one level that change; what changes for the level above is returned. */
const editLevel = <Item>(level: Level<Item>, edits: Edits<Item>): Edits<TreePage> => {
  const above = new Map<TreePath, TreePage | null>()
  let at = 0
  while (at < edits.length) {
    let page: OldPage<Item> | undefined = level.find(edits[at]![0])
    let like = page.like
    let open: Item[] = []
    const close = (): void => {
      const made = level.write(open, like)
      above.set(made.last, made)
      open = []
    }
    while (page !== undefined) {
      const { last, isLast, items }: OldPage<Item> = page
      like = page.like
      above.set(last, null)
      const begin = at
      if (isLast) at = edits.length
      while (at < edits.length && edits[at]![0] <= last) at += 1
      for (const item of merged(items, edits.slice(begin, at), level.nameOf)) {
        open.push(item)
        if (endsTreePage(level.level, level.nameOf(item), open.length)) close()
      }
      // Pages from here on begin where they began.
      if (open.length === 0) break
      page = level.next(page)
    }
    if (open.length > 0) close()
  }
  return [...above].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Applies edits to a paged directory. Names in `edits` are in byte order. */
export const editPaged = (
  objects: ObjectStore,
  trees: StoredTrees,
  base: LikeTree,
  edits: Edits<TreeItem>
): TreePage => {
  const top = trees.indexOf(base.tree)
  if (top === undefined) throw new Error("The directory is not paged")
  const leaves: Level<TreeItem> = {
    level: 0,
    nameOf: (item) => item.entry.name,
    find: (name) => trees.leafFor(base, name),
    next: (page) => (page.isLast ? undefined : trees.leafFor(base, `${page.last}\0`)),
    write: (items, like) => {
      const page = writeLeaf(objects, items, like)
      trees.keepLeaf(page, items)
      return page
    }
  }
  let above = editLevel(leaves, edits)
  for (let level = 1; level <= top.level; level += 1) {
    const at = level
    const pages: Level<TreePage> = {
      level: at,
      nameOf: (page) => page.last,
      find: (name) => trees.pagesFor(base, name, at),
      next: (page) => (page.isLast ? undefined : trees.pagesFor(base, `${page.last}\0`, at)),
      write: (items, like) => {
        const page = writeIndex(objects, at, items, like)
        trees.keepIndex(at, page, items)
        return page
      }
    }
    above = editLevel(pages, above)
  }
  const made = above.flatMap(([, page]) => (page === null ? [] : [page]))
  const whole = made.length === 0 ? writeLeaf(objects, [], undefined) : writeAbove(objects, top.level, made)
  // What one object holds is one object, and no index stands above a single page.
  if (whole.count <= pagedFrom) return writeDirectory(objects, [...trees.items(whole)], base)
  return trees.withoutSingles(whole)
}
