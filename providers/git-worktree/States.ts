/**
 * The states of a project: written, listed, read.
 * Promise: a state is all there when its reference is, and the reference is the last thing written; what is read was held against its id.
 * Rules: GW2, W13, W22, L8, L10; C17, C23, C24.
 */
import { existsSync, lstatSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join as joinPath } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { Descent } from "../../src/base/Descent.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import { linkTarget, lstat, namesOf, skipReason } from "../../src/workspace/kit/Harvest.ts"
import { refuseImport } from "../../src/workspace/kit/ImportSource.ts"
import { PlacedFiles } from "../../src/workspace/kit/PlacedFiles.ts"
import type { KeepInput } from "../../src/workspace/kit/SnapshotBackend.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { ImportRefused } from "../../src/workspace/WorkspaceError.ts"
import { blobs, damaged } from "./Blobs.ts"
import { flushRepository } from "./Durable.ts"
import { git, type GitOptions, saysNo } from "./Git.ts"
import { sawAs } from "./GitIndex.ts"
import { entryRoot, type GitState, stateFrom, stateSteps } from "./GitState.ts"
import type { Project } from "./Project.ts"
import { entriesOf } from "./ReadText.ts"
import { fromKept, stateRoot, toKept } from "./StatePath.ts"
import { flushed, type StateStep, writeState } from "./StateWriter.ts"

/** A name of every made tree that is git's and in no state. */
export const ownName = ".git"

const commits = "refs/coppice/commits/"
export const refOf = (commit: string): string => commits + commit

export interface KeptFile {
  readonly path: TreePath
  readonly id: string
  readonly kind: "file" | "executable" | "link"
}

export interface KeptState {
  readonly files: readonly KeptFile[]
  /** Ids of what git knows, by name below `entry/`. */
  readonly entry: ReadonlyMap<string, string>
}

const kinds: Readonly<Record<string, KeptFile["kind"]>> = { "100644": "file", "100755": "executable", "120000": "link" }

interface Listed {
  readonly path: string
  readonly id: string
  readonly kind: KeptFile["kind"]
}

/** What git cannot read of a repository of ours is damaged. */
const readOrDamaged = async <A>(what: string, read: () => Promise<A>): Promise<A> => {
  try {
    return await read()
  } catch (error) {
    throw saysNo(error) ? damaged(what) : error
  }
}

const list = async (repository: string, tree: string, options: GitOptions): Promise<readonly Listed[]> => {
  const args = ["ls-tree", "-r", "-z", "--full-tree", tree]
  const text = (await readOrDamaged(tree, () => git(args, { ...options, gitDir: repository }))).toString("latin1")
  return text.split("\0").flatMap((line) => {
    const tab = line.indexOf("\t")
    if (tab < 0) return []
    const [mode = "", , id = ""] = line.slice(0, tab).split(" ")
    return [{ path: line.slice(tab + 1), id, kind: kinds[mode]! }]
  })
}

/** The files of a state, and what git knew at it. */
export const listState = async (repository: string, ref: string, options: GitOptions = {}): Promise<KeptState> => {
  const files: KeptFile[] = []
  const entry = new Map<string, string>()
  for (const { path, id, kind } of await list(repository, ref, options)) {
    if (path.startsWith(stateRoot)) files.push({ path: fromKept(path), id, kind })
    else if (path.startsWith(entryRoot)) entry.set(path.slice(entryRoot.length), id)
  }
  return { files, entry }
}

/** The files of a tree that is that of a state alone. */
export const listFiles = async (repository: string, tree: string, options: GitOptions): Promise<readonly KeptFile[]> =>
  (await list(repository, tree, options)).map(({ path, id, kind }) => ({ path: fromKept(stateRoot + path), id, kind }))

/** With the ids of contents that a filter of git would store under another one, by path. */
export type KeptGit = GitState & { readonly raw: ReadonlyMap<string, string> }

/** Where git stood at a state. */
export const readEntry = async (
  { states, algorithm }: Project,
  { entry }: KeptState,
  options: GitOptions = {}
): Promise<KeptGit> => {
  const names = [...entry.keys()]
  const parts = new Map<string, Buffer[]>()
  for await (const { index, bytes } of blobs(states, [...entry.values()], options)) {
    const name = names[index]!
    parts.set(name, [...(parts.get(name) ?? []), bytes])
  }
  return stateFrom(new Map([...parts].map(([name, all]) => [name, Buffer.concat(all)])), algorithm)
}

/** All of a directory, parents before children. The path of a file is good until the next step is asked for. */
function* walk(descent: Descent, leaveOut: ReadonlySet<TreePath>, at: TreePath = ""): Generator<StateStep> {
  for (const name of namesOf(`${descent.enter(at)}/.`)) {
    const path = join(at, name)
    if (path === ownName || leaveOut.has(path)) continue
    const file = descent.to(path)
    const stat = lstat(file)
    if (skipReason(path, stat) !== undefined) continue
    if (stat.isDirectory()) yield* walk(descent, leaveOut, path)
    else if (stat.isSymbolicLink()) yield { op: "link", path: toKept(path), target: linkTarget(file) }
    else yield { op: "file", path: toKept(path), file, executable: (stat.mode & 0o100n) !== 0n }
  }
}

function* allOf(tree: TreePath, leaveOut: ReadonlySet<TreePath>): Generator<StateStep> {
  const descent = new Descent(tree)
  try {
    yield* walk(descent, leaveOut)
  } finally {
    descent.close()
  }
}

const isOwn = (path: TreePath): boolean => path === "" || path === ownName || path.startsWith(`${ownName}/`)

/** The path of a file is good until the next step is asked for. */
function* changed(tree: TreePath, changes: readonly TreeChange[]): Generator<StateStep> {
  const placed = new PlacedFiles()
  try {
    yield* changedFrom(placed, tree, changes)
  } finally {
    placed.close()
  }
}

function* changedFrom(placed: PlacedFiles, tree: TreePath, changes: readonly TreeChange[]): Generator<StateStep> {
  for (const change of changes) {
    if (isOwn(change.path)) continue
    const path = toKept(change.path)
    if (change.op === "remove" || (change.op === "putDirectory" && change.replace)) yield { op: "remove", path }
    else if (change.op === "putSymlink") yield { op: "link", path, target: change.target }
    else if (change.op === "putFile") {
      const { content } = change
      if ("bytes" in content) {
        yield { op: "bytes", path, bytes: content.bytes, executable: (change.mode & 0o100) !== 0 }
      } else {
        const file = placed.at("file" in content ? content : { file: join(tree, change.path), root: tree })
        yield { op: "file", path, file, executable: (change.mode & 0o100) !== 0 }
      }
    }
  }
}

/** Contents that a filter of git would store under another id, of files that git held against the index and found the same. */
const filtered = (
  tree: TreePath,
  ids: ReadonlyMap<string, string>,
  entry: GitState,
  indexMtime: number
): ReadonlyMap<string, string> => {
  const raw = new Map<string, string>()
  for (const one of entry.index ?? []) {
    const id = ids.get(toKept(one.path))
    if (id === undefined || id === one.id || one.stage !== 0 || one.seen === null) continue
    if (one.seen.mtime < indexMtime && sawAs(one, lstat(join(tree, one.path)))) raw.set(one.path, id)
  }
  return raw
}

export interface KeepOptions {
  readonly flush: boolean
  /** Where git stands; null: as at the first parent. */
  readonly entry: GitState | null
  /** Of the index that `entry` was read from, in seconds since 1970. */
  readonly indexMtime: number
}

/** Keeps a state. Answers the bytes of contents that were read. */
export const keepState = async (project: Project, input: KeepInput, options: KeepOptions): Promise<number> => {
  const { snapshot, tree, parents, changes, signal } = input
  const { entry, flush } = options
  let files = 0
  let bytes = 0
  const ids = new Map<string, string>()
  async function* steps(): AsyncGenerator<StateStep> {
    if (changes === null || parents.length === 0) {
      if (parents.length > 0) yield { op: "remove", path: stateRoot.slice(0, -1) }
      yield* allOf(tree, new Set(input.leaveOut))
    } else yield* changed(tree, changes)
    if (entry === null) return
    const raw = input.isImport ? filtered(tree, ids, entry, options.indexMtime) : undefined
    yield* stateSteps(entry, project.algorithm, raw)
  }
  const ref = refOf(snapshot.commit)
  try {
    await writeState({
      repository: project.states,
      ref,
      parents: parents.map(({ commit }) => refOf(commit)),
      message: input.message,
      at: input.at,
      steps: steps(),
      onFile: (size) => {
        files += 1
        bytes += size
        input.onProgress(files, bytes)
      },
      ...(input.isImport ? { onId: (path: string, id: string) => void ids.set(path, id) } : {}),
      algorithm: project.algorithm,
      flush,
      signal
    })
  } catch (error) {
    // It was there a moment ago, and the scan of the same import tells that it is in the state.
    const isGone = ["ENOENT", "ENOTDIR", "ELOOP"].includes(String((error as NodeJS.ErrnoException).code))
    if (error instanceof ImportRefused || (input.isImport && isGone)) throw refuseImport("changing", tree)
    throw error
  }
  crashPoint("gitWorktree.keep.written")
  if (flush) flushRepository(project.states, [ref])
  crashPoint("gitWorktree.keep.flushed")
  return bytes
}

/** Commits that have a state. */
export const keptIn = async ({ states }: Project): Promise<readonly string[]> =>
  (await git(["for-each-ref", "--format=%(refname)", commits], { gitDir: states }))
    .toString("latin1")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.slice(commits.length))

const untidy = ({ directory }: Project): string => joinPath(directory, "untidy")

/** Something in it is of no state any more, or was left half-made. */
export const markUntidy = (project: Project): void => writeFileSync(untidy(project), "")
export const isUntidy = (project: Project): boolean => existsSync(untidy(project))

/** Its objects go when the store is opened the next time. */
export const dropState = (project: Project, commit: string): Promise<Buffer> =>
  git(["update-ref", "-d", refOf(commit)], { gitDir: project.states })

/** Packs from which on they are brought together. */
const manyPacks = 50

const packsOf = ({ states }: Project): readonly string[] =>
  readdirSync(joinPath(states, "objects/pack")).filter((name) => name.endsWith(".pack"))

export const hasManyPacks = (project: Project): boolean => packsOf(project).length > manyPacks

/** Fewer, larger packs; nothing is dropped. */
export const gatherPacks = (project: Project, flush: boolean, signal: AbortSignal): Promise<Buffer> =>
  git(["repack", "--geometric=2", "-d", "-q"], { gitDir: project.states, settings: flushed(flush), signal })

/** Frees what no state needs, and what killed processes left. Alone in the project. */
export const tidy = async (project: Project, flush: boolean): Promise<void> => {
  const packs = joinPath(project.states, "objects/pack")
  for (const name of readdirSync(packs)) if (name.startsWith("tmp_")) rmSync(joinPath(packs, name), { force: true })
  for (const name of readdirSync(project.states)) {
    if (name.startsWith("fast_import_crash_")) rmSync(joinPath(project.states, name), { force: true })
  }
  await git(["repack", "-a", "-d", "-q", "--no-write-bitmap-index"], {
    gitDir: project.states,
    settings: flushed(flush)
  })
  rmSync(untidy(project), { force: true })
}

/** Bytes of the files below a directory of ours. */
export const bytesBelow = (directory: string): number => {
  let bytes = 0
  for (const entry of entriesOf(directory)) {
    const path = joinPath(directory, entry.name)
    if (entry.isDirectory()) bytes += bytesBelow(path)
    else bytes += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
  }
  return bytes
}

export const secondsOf = (file: string): number =>
  Math.floor((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) / 1000)
