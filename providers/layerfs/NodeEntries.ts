/**
 * The entries of one directory that is being changed.
 * Promise: of a paged directory only what somebody asks for is read, until somebody asks for all of it; written is what
 * differs. Rules: L3, L14, W8.
 */
import type { TreePath } from "../../src/base/PathBytes.ts"
import { compare } from "../../src/base/PathBytes.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import { editPaged } from "./PagedEntries.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import { type LikeTree, pagedFrom, type TreeItem, type TreePage, writeDirectory } from "./TreePages.ts"

/** How an entry of the tree becomes a node that can be changed, and back. */
export interface NodeCodec<Node> {
  readonly load: (item: TreeItem) => Node
  readonly save: (name: TreePath, node: Node) => TreeItem
}

export class NodeEntries<Node> {
  readonly #trees: StoredTrees
  readonly #base: LikeTree | null
  readonly #load: NodeCodec<Node>["load"]
  /** Nodes that were asked for or put; null for what was taken away. Once `#isWhole`, all there are. */
  readonly #nodes = new Map<TreePath, Node | null>()
  #isWhole: boolean

  /** `base` is what the directory was; null for a new one. */
  constructor(trees: StoredTrees, base: LikeTree | null, load: NodeCodec<Node>["load"]) {
    this.#trees = trees
    this.#base = base
    this.#load = load
    this.#isWhole = base === null
    if (base !== null && trees.indexOf(base.tree) === undefined) this.#loadAll()
  }

  #loadAll(): void {
    if (this.#isWhole || this.#base === null) return
    for (const item of this.#trees.items(this.#base)) {
      const { name } = item.entry
      if (!this.#nodes.has(name)) this.#nodes.set(name, this.#load(item))
    }
    for (const [name, node] of this.#nodes) if (node === null) this.#nodes.delete(name)
    this.#isWhole = true
  }

  get(name: TreePath): Node | undefined {
    const known = this.#nodes.get(name)
    if (known !== undefined || this.#isWhole || this.#base === null) return known ?? undefined
    const item = this.#trees.lookupTimed(this.#base, name)
    if (item === undefined) return undefined
    const node = this.#load(item)
    this.#nodes.set(name, node)
    return node
  }

  set(name: TreePath, node: Node): void {
    this.#nodes.set(name, node)
  }

  delete(name: TreePath): boolean {
    if (this.get(name) === undefined) return false
    if (this.#isWhole) this.#nodes.delete(name)
    else this.#nodes.set(name, null)
    return true
  }

  clear(): void {
    this.#nodes.clear()
    this.#isWhole = true
  }

  /** In byte order. */
  names(): TreePath[] {
    this.#loadAll()
    return [...this.#nodes.keys()].sort(compare)
  }

  /** Those that were asked for or put. */
  known(each: (node: Node, name: TreePath) => void): void {
    this.#nodes.forEach((node, name) => {
      if (node !== null) each(node, name)
    })
  }

  /** All of them. */
  *all(): Generator<readonly [TreePath, Node]> {
    this.#loadAll()
    for (const [name, node] of this.#nodes) if (node !== null) yield [name, node]
  }

  write(objects: ObjectStore, save: NodeCodec<Node>["save"]): TreePage {
    const names = [...this.#nodes.keys()].sort(compare)
    if (this.#isWhole || this.#base === null) {
      const items = names.map((name) => save(name, this.#nodes.get(name)!))
      const page = writeDirectory(objects, items, this.#base ?? undefined)
      if (items.length <= pagedFrom) this.#trees.keepLeaf(page, items)
      return page
    }
    const edits = names.map((name) => {
      const node = this.#nodes.get(name) ?? null
      return [name, node === null ? null : save(name, node)] as const
    })
    return editPaged(objects, this.#trees, this.#base, edits)
  }
}
