/**
 * A commit's tree as the kernel asks for it: nodes by number, entries by name, contents by range.
 * Promise: a directory is decoded when it is looked into, a content when it is read, each checked against its id; a path has one inode number for ever,
 * the names of a hard-link group share theirs; what the kernel has forgotten is forgotten. Rules: L10, L15, W22; 04 "Projections" 2.
 */
import { hash } from "node:crypto"
import type { Digest } from "../../../src/base/Digest.ts"
import type { TreePath } from "../../../src/base/PathBytes.ts"
import { ByteCache } from "../ByteCache.ts"
import { readBuffer, type ReadBytes } from "../ContentStore.ts"
import { contentReader, readContent, segmentsOf, type StoredContent } from "../FileContent.ts"
import { inlineLimit } from "../ObjectId.ts"
import type { StoredTrees } from "../StoredTrees.ts"
import type { StoredEntry } from "../TreeCodec.ts"
import type { LikeTree, TreeItem } from "../TreePages.ts"
import { type Attributes, errno, type Listed, longestAnswer, S_IFDIR, S_IFLNK, S_IFREG } from "./FuseWire.ts"

import { LazyAhead } from "./LazyAhead.ts"

/** The kernel's number for the root (fuse.h, FUSE_ROOT_ID). */
const rootNumber = 1

interface Node {
  readonly number: number
  readonly inode: number
  /** Null for the root. */
  readonly entry: StoredEntry | null
  readonly mode: number
  readonly mtimeNs: bigint
  /** What a directory holds. */
  readonly directory: LikeTree | null
  readonly parent: Node | null
  /** Nodes that the kernel knows below this one. */
  children: Map<TreePath, Node> | undefined
  /** How often the kernel was told of it since it last forgot. */
  told: number
  /** The kernel asked for its listing. */
  listed: boolean
}

/** An answer to the kernel that is an error. */
export class Refused extends Error {
  readonly errno: number
  constructor(number: number) {
    super("refused")
    this.errno = number
  }
}

/** Where contents come from: an object's bytes may lie in `into`, when it has the room for them. */
export interface Contents {
  readonly read: (id: Digest, into?: Buffer) => Buffer
}

interface Segment {
  readonly offset: number
  readonly length: number
}

/** Large contents that are open: where their pieces lie, or their bytes where they are one piece. */
const openBytes = 32 * 1024 * 1024
const costOfList = 64 * 1024

/** The kernel reads ahead so much: a smaller file is asked for once, and kept by the kernel. */
const atOnce = 128 * 1024

/** Files that are listed without looking whether they have holes: a list of pieces is short up to here. */
const listedWhole = 8 * 1024 * 1024

const inodeOf = (text: string): number => {
  const digest = hash("sha256", text, "buffer")
  // 52 bits: exact in a number, and never 0 or the root's.
  return 2 + digest.readUInt32LE(0) + (digest.readUInt32LE(4) & 0xf_ffff) * 0x1_0000_0000
}

export class LazyTree {
  readonly #objects: Contents
  readonly #trees: StoredTrees
  readonly #nodes = new Map<number, Node>()
  /** Nodes of hard-linked files, by the first path of their group. */
  readonly #groups = new Map<TreePath, Node>()
  readonly #readers = new ByteCache<ReadBytes>(openBytes)
  /** One answer is given before the next is made. */
  readonly #bytes = Buffer.allocUnsafeSlow(longestAnswer)
  readonly #files: LazyAhead
  readonly #directories: LazyAhead
  readonly #readyBytes = Buffer.allocUnsafeSlow(atOnce)
  /** A content that is probably read next. */
  #ready: { readonly id: Digest; readonly bytes: Buffer } | undefined
  readonly #segments = new ByteCache<readonly Segment[] | null>(openBytes)
  readonly #root: Node
  #linked: ReadonlyMap<TreePath, readonly TreePath[]> | undefined
  #next = rootNumber + 1

  constructor(objects: Contents, trees: StoredTrees, commit: { readonly root: Digest; readonly times: Digest }) {
    this.#objects = objects
    this.#files = new LazyAhead(trees, "file")
    this.#directories = new LazyAhead(trees, "directory")
    this.#trees = trees
    const { mode, mtimeNs, times } = trees.root(commit.times)
    this.#root = {
      number: rootNumber,
      inode: rootNumber,
      entry: null,
      mode: S_IFDIR | mode,
      mtimeNs,
      directory: { tree: commit.root, times },
      parent: null,
      children: undefined,
      told: 1,
      listed: false
    }
    this.#nodes.set(rootNumber, this.#root)
  }

  #node(number: number): Node {
    const node = this.#nodes.get(number)
    if (node === undefined) throw new Refused(errno.ENOENT)
    return node
  }

  #directory(node: Node): LikeTree {
    if (node.directory === null) throw new Refused(errno.ENOENT)
    return node.directory
  }

  /** Undefined when there is no such name. What is answered is known to the kernel from now on. */
  lookup(parent: number, name: TreePath): Attributes | undefined {
    const node = this.#node(parent)
    const item = node.children?.has(name) === true ? undefined : this.#trees.lookupTimed(this.#directory(node), name)
    const child = node.children?.get(name) ?? (item === undefined ? undefined : this.#learn(node, item))
    if (child === undefined) return undefined
    const attributes = this.#attributes(child)
    child.told += 1
    return attributes
  }

  attributes(number: number): Attributes {
    return this.#attributes(this.#node(number))
  }

  target(number: number): TreePath {
    const { entry } = this.#node(number)
    if (entry?.type !== "symlink") throw new Refused(errno.EINVAL)
    return entry.target
  }

  #learn(parent: Node, { entry, time }: TreeItem): Node {
    const known = parent.children?.get(entry.name)
    if (known !== undefined) return known
    const group = entry.type === "file" ? entry.linkGroup : null
    const inGroup = group === null ? undefined : this.#groups.get(group)
    const node: Node = inGroup ?? {
      number: this.#next++,
      inode: this.#inode(parent, entry),
      entry,
      mode: typeOf(entry) | (entry.type === "symlink" ? 0o777 : entry.mode),
      mtimeNs: time.mtimeNs,
      directory: entry.type === "directory" && time.times !== null ? { tree: entry.id, times: time.times } : null,
      parent,
      children: undefined,
      told: 0,
      listed: false
    }
    if (group === null) (parent.children ??= new Map()).set(entry.name, node)
    else this.#groups.set(group, node)
    this.#nodes.set(node.number, node)
    return node
  }

  #inode(parent: Node, entry: StoredEntry): number {
    return entry.type === "file" && entry.linkGroup !== null
      ? inodeOf(`group ${entry.linkGroup}`)
      : inodeOf(`${parent.inode}/${entry.name}`)
  }

  #attributes(node: Node): Attributes {
    const { number, inode, entry, mode, mtimeNs } = node
    const size = entry === null || entry.type === "directory" ? 4096 : sizeOf(entry)
    return {
      node: number,
      inode,
      size,
      blocks: entry?.type === "file" ? this.#blocks(entry) : entry?.type === "symlink" ? 0 : 8,
      mtimeNs,
      mode,
      // One, as other file systems without counts have it: find(1) and overlayfs take it for "not known".
      links: entry?.type === "file" && entry.linkGroup !== null ? this.#linksOf(entry.linkGroup) : 1
    }
  }

  /** In whole pages, as on a disk. Of a file with holes what is not a hole: programs look at it to find out. */
  #blocks(file: StoredContent): number {
    const segments = this.#segmentsOf(file)
    const bytes = segments === null ? file.size : segments.reduce((sum, { length }) => sum + length, 0)
    return Math.ceil(bytes / 4096) * 8
  }

  /** How many names a group has. The directories with hard links in or below them are walked for it, once. */
  #linksOf(group: TreePath): number {
    this.#linked ??= this.#trees.linkGroups(this.#root.directory!.tree)
    return this.#linked.get(group)?.length ?? 1
  }

  /**
   * The entries of a directory from the `from`th on, until `take` says that it has enough; `plus` gives their attributes along, and the kernel knows them
   * from then on.
   */
  list(number: number, from: number, plus: boolean, take: (entry: Listed, next: number) => boolean): void {
    const node = this.#node(number)
    const like = this.#directory(node)
    node.listed = true
    this.#directories.seen(node)
    const own = [
      { name: ".", inode: node.inode, mode: S_IFDIR },
      { name: "..", inode: (node.parent ?? node).inode, mode: S_IFDIR }
    ]
    for (let n = from; n < own.length; n += 1) if (!take(own[n]!, n + 1)) return
    const tree = this.#trees.tree(like.tree)
    const times = plus ? this.#trees.times(like.times, tree) : []
    for (let n = Math.max(0, from - own.length); n < tree.entries.length; n += 1) {
      const entry = tree.entries[n]!
      const listed = { name: entry.name, inode: this.#inode(node, entry), mode: typeOf(entry) }
      // Of a large file the holes would be looked for: the kernel asks for it when somebody wants to know.
      const child =
        plus && (entry.type !== "file" || entry.size <= listedWhole)
          ? this.#learn(node, { entry, time: times[n]! })
          : undefined
      const attributes = child === undefined ? undefined : this.#tryAttributes(child)
      if (!take({ ...listed, attributes }, n + own.length + 1)) return
      if (child !== undefined && attributes !== undefined) child.told += 1
    }
  }

  /** A damaged content is that file's own trouble. */
  #tryAttributes(node: Node): Attributes | undefined {
    try {
      return this.#attributes(node)
    } catch {
      return undefined
    }
  }

  /** Bytes of a file, as many as there are up to `length`, valid until the next call of `getReady`. Throws `ObjectDamaged`. */
  read(number: number, offset: number, length: number): Buffer {
    const node = this.#node(number)
    const file = fileOf(node)
    const wanted = Math.max(0, Math.min(length, file.size - offset))
    if (wanted === 0) return this.#bytes.subarray(0, 0)
    this.#files.seen(node)
    if (file.size <= atOnce) {
      const bytes = this.#ready?.id === file.id ? this.#ready.bytes : this.#objects.read(file.id, this.#bytes)
      return bytes.subarray(offset, offset + wanted)
    }
    let reader = this.#readers.get(file.id)
    if (reader === undefined) {
      // A slice of a group would hold all of the group.
      const whole = file.size <= inlineLimit ? Buffer.from(readContent(this.#objects, file)) : undefined
      reader = whole === undefined ? contentReader(this.#objects, file) : readBuffer(whole)
      this.#readers.put(file.id, reader, whole?.length ?? costOfList)
    }
    const bytes = wanted <= this.#bytes.length ? this.#bytes.subarray(0, wanted) : Buffer.allocUnsafe(wanted)
    reader(bytes, 0, wanted, offset)
    return bytes
  }

  /** Called when an answer is given: while whoever asked looks at it, what is probably asked for next is decoded. */
  getReady(): void {
    try {
      const directory = this.#directories.next()
      if (directory !== undefined) this.#trees.times(directory.like.times, this.#trees.tree(directory.like.tree))
      const file = this.#files.next()?.entry
      if (file?.type !== "file" || file.size > atOnce || file.id === this.#ready?.id) return
      this.#ready = undefined
      this.#ready = { id: file.id, bytes: this.#objects.read(file.id, this.#readyBytes) }
    } catch {
      // Whoever asks for it is told why.
    }
  }

  #segmentsOf(file: StoredContent): readonly Segment[] | null {
    if (file.size <= inlineLimit) return null
    const known = this.#segments.get(file.id)
    if (known !== undefined) return known
    const segments = segmentsOf(this.#objects, file) ?? null
    this.#segments.put(file.id, segments, 100 + (segments?.length ?? 0) * 50)
    return segments
  }

  /** lseek(2) with SEEK_DATA and SEEK_HOLE. */
  seek(number: number, offset: number, what: "data" | "hole"): number {
    const file = fileOf(this.#node(number))
    if (offset >= file.size) throw new Refused(errno.ENXIO)
    const segments = this.#segmentsOf(file) ?? [{ offset: 0, length: file.size }]
    const at = segments.find((segment) => segment.offset + segment.length > offset)
    if (what === "hole") return at === undefined || at.offset > offset ? offset : at.offset + at.length
    if (at === undefined) throw new Refused(errno.ENXIO)
    return Math.max(offset, at.offset)
  }

  forget(number: number, times: number): void {
    const node = this.#nodes.get(number)
    if (node === undefined || node === this.#root) return
    node.told -= times
    if (node.told > 0) return
    this.#nodes.delete(number)
    const { entry, parent } = node
    if (entry?.type === "file" && entry.linkGroup !== null) this.#groups.delete(entry.linkGroup)
    else if (entry !== null) parent?.children?.delete(entry.name)
  }

  /** What the kernel knows of. */
  get known(): number {
    return this.#nodes.size
  }
}

const fileOf = ({ entry }: Node): StoredEntry & { readonly type: "file" } => {
  if (entry?.type !== "file") throw new Refused(errno.EINVAL)
  return entry
}

const typeOf = (entry: StoredEntry): number =>
  entry.type === "directory" ? S_IFDIR : entry.type === "symlink" ? S_IFLNK : S_IFREG

const sizeOf = (entry: StoredEntry & { readonly type: "file" | "symlink" }): number =>
  entry.type === "file" ? entry.size : entry.target.length
