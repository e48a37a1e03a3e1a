/**
 * Writes the files of a state into a directory, and where git stood into a git directory.
 * Promise: bytes as they were kept, links as links, through no link; no filter of git has touched them; `git status` in the result shows what
 * it showed where the state was kept. Rules: GW1, W7; C18, C24, C37.
 */
import {
  closeSync,
  constants,
  type BigIntStats,
  mkdirSync,
  openSync,
  symlinkSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { dirname, join as joinPath } from "node:path"
import { reach } from "../../src/base/LongPath.ts"
import { join, parent, show, type TreePath } from "../../src/base/PathBytes.ts"
import { lstat } from "../../src/workspace/kit/Harvest.ts"
import type { MakeInput } from "../../src/workspace/kit/SnapshotBackend.ts"
import { blobs, damaged } from "./Blobs.ts"
import { type IndexEntry, writeIndex } from "./GitIndex.ts"
import { type GitState, isId } from "./GitState.ts"
import { bringObjects, lackingInside } from "./Inside.ts"
import type { Project } from "./Project.ts"
import type { KeptFile, KeptGit } from "./States.ts"

/** Directories that were made already. */
class Directories {
  readonly #root: TreePath
  readonly #made = new Set<TreePath>([""])
  constructor(root: TreePath) {
    this.#root = root
  }
  make(path: TreePath): void {
    if (this.#made.has(path)) return
    this.make(parent(path))
    reach(join(this.#root, path), (short) => mkdirSync(short, { mode: 0o755 }))
    this.#made.add(path)
  }
}

const create = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

const writeAll = (descriptor: number, bytes: Buffer): void => {
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at)
}

/** Into `root`, which is there and has none of them. Answers the bytes written. */
export const writeFiles = async (
  repository: string,
  files: readonly KeptFile[],
  root: TreePath,
  { signal, onProgress }: Pick<MakeInput, "signal" | "onProgress">
): Promise<number> => {
  const directories = new Directories(root)
  let written = 0
  let done = 0
  let open: { readonly index: number; readonly descriptor: number } | undefined
  const ids = files.map(({ id }) => id)
  try {
    for await (const { index, bytes, last } of blobs(repository, ids, { asTheyCome: true, signal })) {
      const { path, kind, id } = files[index]!
      const at = join(root, path)
      if (open === undefined) directories.make(parent(path))
      if (kind === "link") {
        if (!last) throw damaged(id)
        reach(at, (short) => symlinkSync(bytes, short))
        continue
      }
      const mode = kind === "executable" ? 0o755 : 0o644
      open ??= { index, descriptor: reach(at, (short) => openSync(short, create, mode)) }
      writeAll(open.descriptor, bytes)
      written += bytes.length
      if (!last) continue
      closeSync(open.descriptor)
      open = undefined
      done += 1
      onProgress?.(done, written)
    }
  } finally {
    if (open !== undefined) closeSync(open.descriptor)
  }
  return written
}

const put = (gitDirectory: string, path: string, bytes: Uint8Array | string, mode = 0o644): void => {
  const at = joinPath(gitDirectory, path)
  mkdirSync(dirname(at), { recursive: true, mode: 0o755 })
  writeFileSync(at, bytes, { mode })
}

/** A git directory that stands where `state` says, over the user's objects. Its index comes last: see `settleIndex`. */
export const fillGitDirectory = async (
  project: Project,
  state: GitState,
  gitDirectory: string,
  signal: AbortSignal
): Promise<void> => {
  for (const directory of ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"]) {
    mkdirSync(joinPath(gitDirectory, directory), { recursive: true, mode: 0o755 })
  }
  put(gitDirectory, "objects/info/alternates", `${project.objects.join("\n")}\n`)
  put(gitDirectory, "HEAD", Buffer.from(`${state.head}\n`, "latin1"))
  for (const { path, bytes, executable } of state.files) put(gitDirectory, path, bytes, executable ? 0o755 : 0o644)
  await bringObjects(project, state, gitDirectory, { signal })
  // What the user's repository has dropped meanwhile would make every look at all references fail.
  const ids = [...new Set([...state.refs.values()].filter((value) => isId(value)))]
  const gone = new Set(await lackingInside(project, gitDirectory, ids, { signal }))
  const packed = [...state.refs].filter(([, value]) => isId(value) && !gone.has(value))
  packed.sort(([a], [b]) => (a < b ? -1 : 1))
  const lines = packed.map(([name, id]) => `${id} ${name}\n`).join("")
  put(gitDirectory, "packed-refs", Buffer.from(`# pack-refs with: sorted \n${lines}`, "latin1"))
  for (const [name, value] of state.refs) {
    if (!isId(value)) put(gitDirectory, show(name).path, Buffer.from(`${value}\n`, "latin1"))
  }
}

/** Writes the index, with the times of every file that is what its entry says. After the files have their own times. */
export const settleIndex = (
  project: Project,
  state: KeptGit,
  files: readonly KeptFile[],
  tree: TreePath,
  gitDirectory: string
): void => {
  const kept = new Map(files.map(({ path, id }) => [path, id]))
  const statOf = (entry: IndexEntry): BigIntStats | undefined => {
    const id = kept.get(entry.path)
    if (id === undefined || entry.stage !== 0 || entry.intentToAdd) return undefined
    return id === entry.id || id === state.raw.get(entry.path) ? lstat(join(tree, entry.path)) : undefined
  }
  put(gitDirectory, "index", writeIndex(state.index ?? [], project.algorithm, statOf))
}
