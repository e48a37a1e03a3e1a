/**
 * A kept state as a directory or a patch outside of the store.
 * Promise: the target is new or empty, and gone or empty again when the call fails; times are kept as the store has them. Rules: W3, W16.
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { fromInput, join, parent, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { toolEnvironment } from "../../base/Command.ts"
import { type IgnoreRules, makePatch, type PatchFile } from "../Patch.ts"
import { FileSystemFailure, Unavailable } from "../WorkspaceError.ts"
import type { ExportedPatch, PatchOptions } from "../WorkspaceValues.ts"
import { claimFile, claimTarget } from "./ClaimTarget.ts"
import { closeAgain, type ClosedModes, openUp } from "./ClosedModes.ts"
import type { CommitTree, KeptEntry } from "./CommitTree.ts"
import { finished } from "./Holder.ts"
import { pathError } from "./Lookup.ts"
import type { CommitRow } from "./RefStore.ts"
import { type CallScope, damagedContent, digestOfFile, type SnapshotStore } from "./SnapshotStore.ts"
import { differences } from "./TreeCompare.ts"

const copyFailed = (said: string): FileSystemFailure => {
  const code = said.includes("No space left") ? "ENOSPC" : said.includes("Permission denied") ? "EACCES" : "EIO"
  return new FileSystemFailure({
    message: `The state could not be written to the target (${code}).`,
    remedy: "See that the target has room and may be written to, then export again. Nothing was left there.",
    syscallCode: code
  })
}

/** Everything in `from`, with modes, times, links and holes, into the empty directory `to`. */
const copyTree = async (from: string, to: Buffer, signal: AbortSignal): Promise<void> => {
  const argv = process.platform === "darwin" ? ["-a", `${from}/.`] : ["-a", "--reflink=auto", "--", `${from}/.`]
  const target = to.toString("utf8")
  const child = spawn("cp", [...argv, target], { stdio: ["ignore", "ignore", "pipe"], env: toolEnvironment(), signal })
  let said = ""
  child.stderr!.setEncoding("latin1").on("data", (text: string) => (said += said.length < 10_000 ? text : ""))
  if ((await finished(child)) !== 0) throw signal.aborted ? signal.reason : copyFailed(said)
}

/**
 * Every file against the digest that the commit has of it, before a byte of one is handed out (L10). The tree is left opened up for its
 * owner; what was closed is told.
 */
const checkFiles = async (
  tree: string,
  { files, entries }: Pick<Counted, "files" | "entries">,
  scope: CallScope
): Promise<ClosedModes> => {
  const closed = await openUp(fromInput(tree), entries)
  for (const file of files) {
    const { id } = await digestOfFile(join(fromInput(tree), file.path), scope.signal)
    if (id !== file.id) throw damagedContent(file)
  }
  return closed
}

/** The files that an export writes, and what its progress counts up to. */
const countFiles = async (store: SnapshotStore, ref: string) => {
  const commit = store.resolve(ref)
  const { entries } = await store.treeOf(commit.id)
  const files = entries.filter((entry) => entry.type === "file")
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  return { commit, entries, files, bytes, total: { totalFiles: files.length, totalBytes: bytes } }
}

type Counted = Awaited<ReturnType<typeof countFiles>>

/** Rejects with `RefNotFound`, `ExportRefused`, `FileSystemFailure`, `ObjectDamaged`. */
export const exportKept = async (
  store: SnapshotStore,
  ref: string,
  target: string,
  scope: CallScope
): Promise<{ readonly files: number; readonly bytes: number }> => {
  const counted = await countFiles(store, ref)
  const { commit, files, bytes, total } = counted
  const at = toBytes(fromInput(path.resolve(target)))
  const undo = claimTarget(at)
  try {
    scope.progress({ phase: "export", files: 0, bytes: 0, ...total })
    await store.withTree(commit.id, scope.signal, async (tree) => {
      const closed = await checkFiles(tree, counted, scope)
      for (const name of store.backend.ownNames ?? [])
        fs.rmSync(path.join(tree, name), { recursive: true, force: true })
      await copyTree(tree, at, scope.signal)
      closeAgain(at.toString("latin1"), closed)
    })
    scope.progress({ phase: "export", files: files.length, bytes, ...total })
    return { files: files.length, bytes }
  } catch (error) {
    await undo()
    throw error
  }
}

/** The checked tree as one archive. Rejects with `RefNotFound`, `ExportRefused`, `Unavailable`, `FileSystemFailure`, `ObjectDamaged`. */
export const tarOfKept = async (
  store: SnapshotStore,
  ref: string,
  target: string,
  scope: CallScope
): Promise<{ readonly files: number; readonly bytes: number }> => {
  const counted = await countFiles(store, ref)
  const { commit, files, bytes, total } = counted
  const { descriptor, undo } = claimFile(toBytes(fromInput(path.resolve(target))))
  try {
    scope.progress({ phase: "export", files: 0, bytes: 0, ...total })
    await store.withTree(commit.id, scope.signal, async (tree) => {
      const closed = await checkFiles(tree, counted, scope)
      // An archive has the modes that tar finds.
      closeAgain(fromInput(tree), closed)
      const own = (store.backend.ownNames ?? []).map((name) => `--exclude=./${toBytes(name).toString("utf8")}`)
      const names = ["--anchored", "--no-wildcards", ...own, `--directory=${tree}`, "."]
      await packTree(names, descriptor, { signal: scope.signal, closed: [...closed.keys()] })
    })
    await promisify(fs.fsync)(descriptor)
    scope.progress({ phase: "export", files: files.length, bytes, ...total })
    return { files: files.length, bytes }
  } catch (error) {
    undo()
    throw error
  } finally {
    fs.closeSync(descriptor)
  }
}

/** Mapped root of a user namespace has every right over this user's files, and none over others'. */
const mappedRoot = ["unshare", "--user", "--map-root-user", "--"]

const packTree = async (
  names: readonly string[],
  into: number,
  { signal, closed }: { readonly signal: AbortSignal; readonly closed: readonly TreePath[] }
): Promise<void> => {
  const options = ["--create", "--format=posix", "--sparse", "--sort=name", "--numeric-owner", "--owner=0", "--group=0"]
  const [program, ...argv] = [...(closed.length === 0 ? [] : mappedRoot), "tar", ...options, ...names] as [string]
  const child = spawn(program, argv, { stdio: ["ignore", into, "pipe"], env: toolEnvironment(), signal })
  let said = ""
  child.stderr!.setEncoding("latin1").on("data", (text: string) => (said += said.length < 10_000 ? text : ""))
  const code = await finished(child)
  if (code === 0) return
  if (signal.aborted) throw signal.reason
  if (closed.length > 0 && (code === null || said.startsWith("unshare: "))) throw pathError("denied", closed[0]!)
  if (code !== null) throw copyFailed(said)
  throw new Unavailable({
    message: "An archive needs GNU tar, and tar was not found.",
    remedy: "Install the package `tar` and put it on the PATH.",
    what: "exportTar",
    missing: ["tar"]
  })
}

/** The changed files of both sides, spooled: a patch is made by a program that reads them one after the other. */
class Sides {
  readonly #directory: string
  #next = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Writes the files below the scratch directory, and answers where each lies. */
  async spool(
    store: SnapshotStore,
    commit: CommitRow,
    files: readonly KeptEntry[],
    signal: AbortSignal
  ): Promise<Map<TreePath, string>> {
    const places = new Map<TreePath, string>()
    let open: number | undefined
    for await (const { path: at, bytes, zeros = 0, last } of store.contents(
      commit,
      files.map((file) => file.path),
      signal
    )) {
      if (open === undefined) {
        const place = path.join(this.#directory, String(this.#next++))
        places.set(at, place)
        open = fs.openSync(place, "wx", 0o600)
      }
      fs.writeSync(open, bytes)
      if (zeros > 0) fs.ftruncateSync(open, fs.fstatSync(open).size + zeros)
      if (!last) continue
      fs.closeSync(open)
      open = undefined
    }
    return places
  }
}

function* blocksOf(place: string): Generator<Uint8Array> {
  const descriptor = fs.openSync(place, "r")
  try {
    for (;;) {
      const block = Buffer.allocUnsafe(1024 * 1024)
      const length = fs.readSync(descriptor, block)
      if (length === 0) return
      yield block.subarray(0, length)
    }
  } finally {
    fs.closeSync(descriptor)
  }
}

const patchFile = (entry: KeptEntry | null, places: ReadonlyMap<TreePath, string>): PatchFile | null => {
  if (entry === null || entry.type === "directory") return null
  if (entry.type === "symlink") {
    const target = toBytes(entry.target!)
    return { type: "symlink", mode: 0, size: target.length, content: () => [target] }
  }
  const place = places.get(entry.path)!
  return { type: "file", mode: entry.mode, size: entry.size, content: () => blocksOf(place) }
}

/** Every directory above the paths, the root too. */
const above = (paths: readonly TreePath[]): Set<TreePath> => {
  const found = new Set<TreePath>([""])
  for (const at of paths) for (let up = parent(at); !found.has(up); up = parent(up)) found.add(up)
  return found
}

/** Rejects with `RefNotFound`, `Unavailable` (git), `ObjectDamaged`. */
export const patchOfKept = async (
  store: SnapshotStore,
  { from, to, paths }: PatchOptions,
  scope: CallScope
): Promise<ExportedPatch> => {
  const [older, newer] = [store.resolve(from), store.resolve(to)]
  const [before, after] = [await store.treeOf(older.id), await store.treeOf(newer.id)]
  const only = paths === undefined ? null : new Set(paths.map(fromInput))
  const changed = [...differences(before, after)].filter(({ path: at }) => only === null || only.has(at))
  return store.inScratch(async (scratch) => {
    const spooled = path.join(scratch, "files")
    const repository = path.join(scratch, "patch")
    for (const directory of [spooled, repository]) fs.mkdirSync(directory, { mode: 0o700 })
    const sides = new Sides(spooled)
    const filesOf = (entries: readonly (KeptEntry | null)[]) =>
      entries.flatMap((entry) => (entry?.type === "file" ? [entry] : []))
    const old = await sides.spool(store, older, filesOf(changed.map((one) => one.before)), scope.signal)
    const now = await sides.spool(store, newer, filesOf(changed.map((one) => one.after)), scope.signal)
    scope.signal.throwIfAborted()
    const files = changed
      .map((one) => ({ path: one.path, before: patchFile(one.before, old), after: patchFile(one.after, now) }))
      .filter((file) => file.before !== null || file.after !== null)
    const directories = above(files.map((file) => file.path))
    const fileAt = async (commit: CommitRow, tree: CommitTree, at: TreePath): Promise<Uint8Array | null> => {
      const entry = tree.entry(at)
      return entry?.type === "file"
        ? store.read(commit, entry, { offset: 0, length: entry.size, signal: scope.signal })
        : null
    }
    const rules = async (commit: CommitRow, tree: CommitTree): Promise<IgnoreRules> => {
      const ignores: { path: TreePath; bytes: Uint8Array }[] = []
      for (const directory of directories) {
        const at = join(directory, ".gitignore")
        const bytes = await fileAt(commit, tree, at)
        if (bytes !== null) ignores.push({ path: at, bytes })
      }
      return { files: ignores, exclude: await fileAt(commit, tree, ".git/info/exclude") }
    }
    const indexes: Uint8Array[] = []
    for (const [commit, tree] of [
      [older, before],
      [newer, after]
    ] as const) {
      const index =
        (await store.backend.indexOf?.({ project: commit.project, commit: commit.id }, scope.signal)) ?? null
      const bytes = index ?? (await fileAt(commit, tree, ".git/index"))
      if (bytes !== null) indexes.push(bytes)
    }
    return makePatch({
      scratch: repository,
      signal: scope.signal,
      changed: files,
      ignore: { older: await rules(older, before), newer: await rules(newer, after) },
      indexes,
      nestedRepositories: [...directories].filter(
        (at) => at !== "" && [before, after].some((tree) => tree.entry(join(at, ".git")) !== undefined)
      )
    })
  })
}
