/**
 * A tree being changed: directories are loaded when touched and written again only when they differ.
 * Promise: the result depends on the content alone (L14): the same entries give the same root whatever the order and route
 * of the changes; hard-link groups keep exactly the names that still share a file (W22). Rules: L14, L15, W8, W22.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { compare, join, type TreePath } from "../../src/base/PathBytes.ts"
import { PathError } from "../../src/workspace/WorkspaceError.ts"
import { show } from "../../src/base/PathBytes.ts"
import { NodeEntries } from "./NodeEntries.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import type { Steps } from "../../src/workspace/kit/Steps.ts"
import { encodeRoot } from "./TreeCodec.ts"
import type { TreeItem } from "./TreePages.ts"

interface FileNode {
  readonly type: "file"
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly id: Digest
  /** Names with the same key share one file. `base:` and a path from the tree, or `new:` and a key from the change list. */
  link: string | null
  /** Where the group's first name stood when this entry was loaded. */
  readonly linkGroup: TreePath | null
}
interface LinkNode {
  readonly type: "symlink"
  readonly mtimeNs: bigint
  readonly target: TreePath
}
interface DirectoryNode {
  readonly type: "directory"
  mode: number
  mtimeNs: bigint
  /** What it was when loaded; null for a new one. */
  readonly base: Written | null
  /** Null until somebody looks inside. */
  entries: NodeEntries<Node> | null
}
export type Node = FileNode | LinkNode | DirectoryNode

/** A directory as it was written. */
interface Written {
  readonly tree: Digest
  readonly times: Digest
  readonly linked: boolean
}

const pathError = (reason: PathError["reason"], path: TreePath): PathError =>
  new PathError({
    message:
      reason === "notADirectory" ? "A part of the path is not a directory." : "There is no such directory in the tree.",
    remedy: "List the parent directory, then give a path whose parent exists.",
    reason,
    path: show(path).path
  })

export class TreeEditor {
  readonly #trees: StoredTrees
  readonly #root: DirectoryNode
  /** The record of the root that the editor began with. */
  readonly #rootRecord: Digest
  #hasNewLinks = false

  constructor(trees: StoredTrees, base: Pick<CommitRow, "root" | "times">) {
    this.#trees = trees
    const record = trees.root(base.times)
    this.#rootRecord = base.times
    this.#root = {
      type: "directory",
      mode: record.mode,
      mtimeNs: record.mtimeNs,
      base: { tree: base.root, times: record.times, linked: trees.linked(base.root) },
      entries: null
    }
  }

  #entries(directory: DirectoryNode): NodeEntries<Node> {
    return (directory.entries ??= new NodeEntries(this.#trees, directory.base, load))
  }

  #newEntries(): NodeEntries<Node> {
    return new NodeEntries<Node>(this.#trees, null, load)
  }

  get(path: TreePath): Node | undefined {
    if (path === "") return this.#root
    const directory = this.#directory(parentOf(path))
    return directory === undefined ? undefined : this.#entries(directory).get(nameOf(path))
  }

  /** Names in a directory, in byte order. */
  names(path: TreePath): TreePath[] | undefined {
    const directory = this.#directory(path)
    return directory === undefined ? undefined : this.#entries(directory).names()
  }

  #directory(path: TreePath): DirectoryNode | undefined {
    let node: DirectoryNode = this.#root
    if (path === "") return node
    for (const part of path.split("/")) {
      const child = this.#entries(node).get(part)
      if (child?.type !== "directory") return undefined
      node = child
    }
    return node
  }

  #parent(path: TreePath): NodeEntries<Node> {
    const parent = this.#directory(parentOf(path))
    if (parent !== undefined) return this.#entries(parent)
    const node = this.get(parentOf(path))
    throw pathError(node === undefined ? "notFound" : "notADirectory", path)
  }

  remove(path: TreePath): boolean {
    return this.#parent(path).delete(nameOf(path))
  }

  /**
   * Puts a file. The same bytes and mode as before change nothing but the mtime: such an entry stays in its link group.
   * Otherwise it leaves the group it was in, and joins the one named by `inode`.
   */
  putFile(
    path: TreePath,
    file: { mode: number; mtimeNs: bigint; size: number; id: Digest; inode: string | undefined }
  ): void {
    const entries = this.#parent(path)
    const before = entries.get(nameOf(path))
    const { mode, mtimeNs, size, id, inode } = file
    const same = before?.type === "file" && before.id === id && before.size === size && before.mode === mode
    if (inode !== undefined) this.#hasNewLinks = true
    const link = inode !== undefined ? `new:${inode}` : same ? before.link : null
    entries.set(nameOf(path), {
      type: "file",
      mode,
      mtimeNs,
      size,
      id,
      link,
      linkGroup: same ? before.linkGroup : null
    })
  }

  putSymlink(path: TreePath, target: TreePath, mtimeNs: bigint): void {
    this.#parent(path).set(nameOf(path), { type: "symlink", target, mtimeNs })
  }

  putDirectory(path: TreePath, mode: number, mtimeNs: bigint, replace: boolean): void {
    const before = this.get(path)
    if (before?.type === "directory" && !replace) {
      before.mode = mode
      before.mtimeNs = mtimeNs
    } else if (path === "") {
      this.#root.mode = mode
      this.#root.mtimeNs = mtimeNs
      this.#entries(this.#root).clear()
    } else {
      this.#parent(path).set(nameOf(path), {
        type: "directory",
        mode,
        mtimeNs,
        base: null,
        entries: this.#newEntries()
      })
    }
  }

  /** Puts a node that was removed elsewhere in this tree. */
  putNode(path: TreePath, node: Node): void {
    this.#parent(path).set(nameOf(path), node)
  }

  /** Puts a copy of a node: its files are files of their own, not further names. */
  putCopy(path: TreePath, node: Node, mtimeNs: bigint): void {
    this.#parent(path).set(nameOf(path), this.#copyOf(node, mtimeNs))
  }

  #copyOf(node: Node, mtimeNs: bigint): Node {
    if (node.type === "symlink") return { ...node, mtimeNs }
    if (node.type === "file") return { ...node, mtimeNs, link: null, linkGroup: null }
    const entries = this.#newEntries()
    for (const [name, child] of this.#entries(node).all()) entries.set(name, this.#copyOf(child, mtimeNs))
    return { type: "directory", mode: node.mode, mtimeNs, base: null, entries }
  }

  /** Every name of the file at `path`, itself included, in byte order. */
  namesOfFile(path: TreePath): TreePath[] {
    const node = this.get(path)
    if (node?.type !== "file" || node.link === null) return [path]
    const names = this.#groupNames().get(node.link) ?? []
    return names.map((name) => name.path).sort(compare)
  }

  /** Every name of every link group, walking only directories that hold one. */
  #groupNames(): Map<string, { path: TreePath; put: (link: TreePath | null) => void }[]> {
    const groups = new Map<string, { path: TreePath; put: (link: TreePath | null) => void }[]>()
    const walk = (directory: DirectoryNode, path: TreePath): void => {
      if (directory.entries === null && directory.base?.linked !== true) return
      const entries = this.#entries(directory)
      for (const [name, node] of entries.all()) {
        const child = join(path, name)
        if (node.type === "directory") walk(node, child)
        if (node.type !== "file" || node.link === null) continue
        const put = (linkGroup: TreePath | null): void => {
          if (node.linkGroup !== linkGroup) entries.set(name, { ...node, linkGroup })
        }
        const names = groups.get(node.link) ?? []
        names.push({ path: child, put })
        groups.set(node.link, names)
      }
    }
    walk(this.#root, "")
    return groups
  }

  #settleLinks(): void {
    if (!this.#hasNewLinks && this.#root.base?.linked !== true) return
    for (const names of this.#groupNames().values()) {
      const first = names.length < 2 ? null : names.map((name) => name.path).reduce((a, b) => (a < b ? a : b))
      for (const name of names) name.put(first)
    }
  }

  /** Writes what changed; returns the new root and its record. */
  *write(objects: ObjectStore): Steps<{ root: Digest; times: Digest }> {
    this.#settleLinks()
    const written = yield* this.#write(this.#root, objects)
    const { mode, mtimeNs } = this.#root
    const record = encodeRoot({ mode, mtimeNs, times: written.times })
    return { root: written.tree, times: objects.write("times", record, this.#rootRecord) }
  }

  *#write(directory: DirectoryNode, objects: ObjectStore): Steps<Written> {
    if (directory.entries === null) return directory.base!
    const below = new Map<DirectoryNode, Written>()
    for (const node of opened(directory.entries)) below.set(node, yield* this.#write(node, objects))
    yield
    return directory.entries.write(objects, (name, node): TreeItem => {
      if (node.type === "file") {
        const { mode, size, id, linkGroup, mtimeNs } = node
        return { entry: { name, type: "file", mode, size, id, linkGroup }, time: { mtimeNs, times: null } }
      }
      const { mtimeNs } = node
      if (node.type === "symlink") {
        return { entry: { name, type: "symlink", target: node.target }, time: { mtimeNs, times: null } }
      }
      const { tree: id, times, linked } = below.get(node) ?? node.base!
      return { entry: { name, type: "directory", mode: node.mode, id, linked }, time: { mtimeNs, times } }
    })
  }
}

/** The directories that somebody looked into, in byte order of their names. */
const opened = (entries: NodeEntries<Node>): DirectoryNode[] => {
  const found: { readonly name: TreePath; readonly node: DirectoryNode }[] = []
  entries.known((node, name) => {
    if (node.type === "directory" && node.entries !== null) found.push({ name, node })
  })
  return found.sort((a, b) => compare(a.name, b.name)).map(({ node }) => node)
}

const parentOf = (path: TreePath): TreePath => {
  const slash = path.lastIndexOf("/")
  return slash < 0 ? "" : path.slice(0, slash)
}
const nameOf = (path: TreePath): TreePath => path.slice(path.lastIndexOf("/") + 1)

const load = ({ entry, time }: TreeItem): Node => {
  const { mtimeNs } = time
  switch (entry.type) {
    case "file": {
      const { mode, size, id, linkGroup } = entry
      return { type: "file", mode, mtimeNs, size, id, link: linkGroup === null ? null : `base:${linkGroup}`, linkGroup }
    }
    case "symlink":
      return { type: "symlink", mtimeNs, target: entry.target }
    case "directory":
      return {
        type: "directory",
        mode: entry.mode,
        mtimeNs,
        base: { tree: entry.id, times: time.times!, linked: entry.linked },
        entries: null
      }
  }
}
