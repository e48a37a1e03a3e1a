/**
 * The tree of a commit on disk: `trees/<commit>`, one file, written once.
 * Promise: whole or absent; a damaged one is `ObjectDamaged` and never a tree; reading and writing give the event loop its turns.
 * Rules: L8, L10, L15.
 *
 * zstd with its checksum (RFC 8878, 3.1.1.1.1.4) over lines of JSON: `["coppice.tree", 1, number of entries]`, then an entry a line:
 * `[path, type, mode, mtime ns, size, content digest, link target, link group]`, byte strings as latin1.
 */
import { readFile, rm } from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { constants, zstdCompress, zstdDecompress } from "node:zlib"
import type { Digest } from "../../base/Digest.ts"
import { writeBytesDurably } from "../../base/DurableFile.ts"
import type { TreePath } from "../../base/PathBytes.ts"
import { ObjectDamaged } from "../WorkspaceError.ts"
import { CommitTree, type KeptEntry } from "./CommitTree.ts"
import { breathing } from "./Steps.ts"

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

const format = "coppice.tree"
const version = 1
const types = { file: "f", directory: "d", symlink: "l" } as const
const typeOf: Readonly<Record<string, KeptEntry["type"]>> = { f: "file", d: "directory", l: "symlink" }

type Line = readonly [
  path: TreePath,
  type: string,
  mode: number,
  mtimeNs: string,
  size: number,
  id: Digest | null,
  target: TreePath | null,
  linkGroup: TreePath | null
]

const damaged = (commit: string): ObjectDamaged =>
  new ObjectDamaged({
    message: "The list of a commit's files is not there or not as it was written.",
    remedy: "Run verify to see what is damaged; restore the store from a backup.",
    object: commit
  })

const nameOf = (at: TreePath): TreePath => at.slice(at.lastIndexOf("/") + 1)

export class TreeFiles {
  readonly #directory: string
  readonly #sync: boolean
  readonly #known = new Map<string, Promise<CommitTree>>()
  /** Trees kept in memory: the heads of branches that are worked on. */
  readonly #most = 8

  constructor(directory: string, sync: boolean) {
    this.#directory = directory
    this.#sync = sync
  }

  #file(commit: string): string {
    return path.join(this.#directory, commit)
  }

  async write(commit: string, tree: CommitTree): Promise<void> {
    const breathe = breathing(() => false)
    const lines = [JSON.stringify([format, version, tree.entries.length])]
    for (const { path: at, type, mode, mtimeNs, size, id, target, linkGroup } of tree.entries) {
      const line: Line = [at, types[type], mode, String(mtimeNs), size, id, target, linkGroup]
      lines.push(JSON.stringify(line))
      await breathe()
    }
    const params = { [constants.ZSTD_c_checksumFlag]: 1, [constants.ZSTD_c_compressionLevel]: 1 }
    const bytes = await compress(Buffer.from(lines.join("\n"), "latin1"), { params })
    await writeBytesDurably(this.#file(commit), bytes, this.#sync)
    this.#remember(commit, Promise.resolve(tree))
  }

  #remember(commit: string, tree: Promise<CommitTree>): void {
    this.#known.delete(commit)
    this.#known.set(commit, tree)
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#most) break
      this.#known.delete(oldest)
    }
  }

  /** Rejects with `ObjectDamaged`. */
  read(commit: string): Promise<CommitTree> {
    const tree = this.#known.get(commit) ?? this.check(commit)
    this.#remember(commit, tree)
    tree.catch(() => this.#known.delete(commit))
    return tree
  }

  /** As `read`, from the disk. */
  async check(commit: string): Promise<CommitTree> {
    const bytes = await readFile(this.#file(commit)).catch((error: NodeJS.ErrnoException) => {
      throw error.code === "ENOENT" ? damaged(commit) : error
    })
    let lines: string[]
    try {
      lines = (await decompress(bytes)).toString("latin1").split("\n")
      const [name, of, count] = JSON.parse(lines[0]!) as readonly unknown[]
      if (name !== format || of !== version || count !== lines.length - 1) throw new Error("another file")
    } catch {
      throw damaged(commit)
    }
    const breathe = breathing(() => false)
    const entries: KeptEntry[] = []
    for (const line of lines.slice(1)) {
      const [at, type, mode, mtimeNs, size, id, target, linkGroup] = JSON.parse(line) as Line
      const entry = { mode, mtimeNs: BigInt(mtimeNs), size, id, target, linkGroup }
      entries.push({ path: at, name: nameOf(at), type: typeOf[type]!, ...entry })
      await breathe()
    }
    return new CommitTree(entries)
  }

  async drop(commit: string): Promise<void> {
    this.#known.delete(commit)
    await rm(this.#file(commit), { force: true })
  }
}
