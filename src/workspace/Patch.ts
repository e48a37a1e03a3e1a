/**
 * A git patch between two states of a tree, source files only, made by the real git in a private repository.
 * Promise: the patch applies with `git apply` in a clean clone of the base; what git would not track (ignored and untracked
 * files, anything below a `.git`, nested repositories) is left out and counted; no configuration, hook or repository of the
 * user is read or touched. Rules: W16, W21.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { hash } from "node:crypto"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { once } from "node:events"
import { dirname, join } from "node:path"
import { compare, show, type TreePath } from "../base/PathBytes.ts"
import { FileSystemFailure, Unavailable } from "./WorkspaceError.ts"
import type { ExportedPatch } from "./WorkspaceProvider.ts"

/** A file or link of one side. */
export interface PatchFile {
  readonly type: "file" | "symlink"
  readonly mode: number
  readonly size: number
  /** The bytes of a file, or the target of a link. */
  readonly content: () => Iterable<Uint8Array>
}

export interface ChangedFile {
  readonly path: TreePath
  readonly before: PatchFile | null
  readonly after: PatchFile | null
}

export interface IgnoreRules {
  /** Every regular `.gitignore` above a changed path. */
  readonly files: readonly { readonly path: TreePath; readonly bytes: Uint8Array }[]
  /** `.git/info/exclude` of the tree, when it has one. */
  readonly exclude: Uint8Array | null
}

export interface PatchInput {
  /** An empty private directory; the caller removes it. */
  readonly scratch: string
  /** Ends the work, and git with it. */
  readonly signal?: AbortSignal
  readonly changed: readonly ChangedFile[]
  /** The ignore rules of either state. */
  readonly ignore: { readonly older: IgnoreRules; readonly newer: IgnoreRules }
  /** `.git/index` of both states, where there is one: what is tracked is source, ignored or not. */
  readonly indexes: readonly Uint8Array[]
  /** Directories with a repository of their own: what is below them belongs to that one. */
  readonly nestedRepositories: readonly TreePath[]
}

const environment = (scratch: string): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
  LC_ALL: "C",
  HOME: scratch,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CEILING_DIRECTORIES: dirname(scratch)
})

const noGit = (): Unavailable =>
  new Unavailable({
    message: "A patch needs git, and git was not found.",
    remedy: "Install git and put it on the PATH.",
    what: "exportPatch",
    missing: ["git"]
  })

interface GitResult {
  readonly code: number | null
  readonly stdout: Buffer
}

const finish = (child: ChildProcess, chunks: Buffer[]): Promise<GitResult> =>
  new Promise((resolve, reject) => {
    child.on("error", (error: NodeJS.ErrnoException) => reject(error.code === "ENOENT" ? noGit() : error))
    child.on("close", (code) => resolve({ code, stdout: Buffer.concat(chunks) }))
  })

type Place = Pick<PatchInput, "scratch" | "signal">

/** Runs git in the scratch repository and feeds it. When it is aborted, git is gone before that is told. */
const git = async (
  { scratch, signal }: Place,
  args: readonly string[],
  input: Iterable<Uint8Array> = [],
  env: Record<string, string> = {}
): Promise<GitResult> => {
  signal?.throwIfAborted()
  const child = spawn("git", args, {
    cwd: join(scratch, "repository"),
    env: { ...environment(scratch), ...env },
    stdio: ["pipe", "pipe", "ignore"]
  })
  const chunks: Buffer[] = []
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk))
  const stop = (): void => void child.kill("SIGKILL")
  signal?.addEventListener("abort", stop)
  const result = finish(child, chunks).finally(() => signal?.removeEventListener("abort", stop))
  // An early exit shows in its code; what was not written any more is of no interest then.
  child.stdin.on("error", () => undefined)
  const ended = result.then(
    () => undefined,
    () => undefined
  )
  for (const bytes of input) {
    if (!child.stdin.writable || signal?.aborted === true) break
    if (!child.stdin.write(bytes)) await Promise.race([once(child.stdin, "drain").catch(() => undefined), ended])
  }
  child.stdin.end()
  await ended
  signal?.throwIfAborted()
  return result
}

const failed = (what: string): FileSystemFailure =>
  new FileSystemFailure({
    message: `git could not ${what}.`,
    remedy: "Check the free space of the store's disk and the version of git (2.30 or newer), then repeat.",
    syscallCode: "EGIT"
  })

const must = async (what: string, run: Promise<GitResult>): Promise<Buffer> => {
  const { code, stdout } = await run
  if (code !== 0) throw failed(what)
  return stdout
}

const pathsOf = (output: Buffer): TreePath[] =>
  output
    .toString("latin1")
    .split("\0")
    .filter((path) => path !== "")

/**
 * The object format of an index, by the checksum that ends it (gitformat-index(5)): git itself reads one of the other format
 * as empty, without a word. An index written without a checksum is taken for sha1, which is git's default.
 */
const formatOf = (index: Uint8Array): "sha1" | "sha256" => {
  const end = index.length - 32
  if (end <= 0) return "sha1"
  const sum = hash("sha256", index.subarray(0, end), "hex")
  return sum === Buffer.from(index.subarray(end)).toString("hex") ? "sha256" : "sha1"
}

/**
 * Paths in a state's own index. An index that git cannot read (damaged by an attempt, or split into files that are not at hand)
 * names nothing: it only ever adds ignored files to what is source, so a patch without it is smaller, never wrong.
 */
const trackedIn = async (place: Place, index: Uint8Array, n: number): Promise<TreePath[]> => {
  const { scratch } = place
  const file = join(scratch, `index-${n}`)
  writeFileSync(file, index)
  const other = join(scratch, "sha256")
  const isOther = formatOf(index) === "sha256"
  if (isOther) {
    await must("make a repository", git(place, ["init", "-q", "--template=", "--object-format=sha256", other]))
  }
  const repository = isOther ? [`--git-dir=${join(other, ".git")}`] : []
  const list = await git(place, [...repository, "ls-files", "-z", "--cached"], [], { GIT_INDEX_FILE: file })
  // One that was ended has not said that it cannot.
  if (list.code === null || list.code > 129) throw failed("read an index")
  return list.code === 0 ? pathsOf(list.stdout) : []
}

/** Which of the paths these rules ignore. */
const ignoredBy = async (place: Place, rules: IgnoreRules, paths: readonly TreePath[]): Promise<Set<TreePath>> => {
  const repository = join(place.scratch, "repository")
  const exclude = join(repository, ".git/info/exclude")
  const written: Buffer[] = []
  for (const { path, bytes } of rules.files) {
    const at = Buffer.concat([Buffer.from(`${repository}/`), Buffer.from(path, "latin1")])
    mkdirSync(at.subarray(0, at.lastIndexOf(0x2f)), { recursive: true })
    writeFileSync(at, bytes)
    written.push(at)
  }
  mkdirSync(dirname(exclude), { recursive: true })
  writeFileSync(exclude, rules.exclude ?? "")
  // A leading `./` keeps a name that begins with `:` from being read as pathspec magic; git repeats it in its answer.
  const list = paths.map((path) => Buffer.from(`./${path}\0`, "latin1"))
  const checked = await git(place, ["check-ignore", "--no-index", "-z", "--stdin"], [Buffer.concat(list)])
  if (checked.code !== 0 && checked.code !== 1) throw failed("apply the ignore rules")
  for (const at of written) rmSync(at)
  return new Set(pathsOf(checked.stdout).map((path) => path.slice(2)))
}

/**
 * Which of the paths are source: tracked, or not ignored. What was ignored and untracked in the older state stays out
 * whatever became of the rules: an attempt that removes a `.gitignore` must not carry secrets or build output into a patch.
 */
const selectSource = async (input: PatchInput): Promise<Set<TreePath>> => {
  const tracked = new Set<TreePath>()
  for (const [n, index] of input.indexes.entries())
    for (const path of await trackedIn(input, index, n)) tracked.add(path)
  const inRepository = (path: TreePath): boolean =>
    path.split("/").includes(".git") || input.nestedRepositories.some((nested) => path.startsWith(`${nested}/`))
  const untracked = input.changed.filter((file) => !tracked.has(file.path) && !inRepository(file.path))
  const paths = untracked.map((file) => file.path)
  const now = await ignoredBy(input, input.ignore.newer, paths)
  const then = await ignoredBy(input, input.ignore.older, paths)
  return new Set([
    ...input.changed.map((file) => file.path).filter((path) => tracked.has(path)),
    ...untracked
      .filter((file) => !now.has(file.path) && !(file.before !== null && then.has(file.path)))
      .map((file) => file.path)
  ])
}

/** A path as fast-import reads it: C-quoted, every unusual byte in octal. */
const quoted = (path: TreePath): string =>
  `"${path.replace(/[^A-Za-z0-9_./-]/g, (byte) => `\\${byte.charCodeAt(0).toString(8).padStart(3, "0")}`)}"`

const gitMode = (file: PatchFile): string => {
  if (file.type === "symlink") return "120000"
  return (file.mode & 0o100) === 0 ? "100644" : "100755"
}

function* importStream(
  files: readonly { path: TreePath; file: PatchFile | null }[],
  branch: string
): Generator<Uint8Array> {
  yield Buffer.from(`commit refs/heads/${branch}\ncommitter coppice <coppice> 0 +0000\ndata 0\n\n`)
  for (const { path, file } of files) {
    if (file === null) continue
    yield Buffer.from(`M ${gitMode(file)} inline ${quoted(path)}\ndata ${file.size}\n`)
    yield* file.content()
    yield Buffer.from("\n")
  }
}

function* bothStates(changed: readonly ChangedFile[]): Generator<Uint8Array> {
  const side = (pick: "before" | "after") => changed.map((file) => ({ path: file.path, file: file[pick] }))
  yield* importStream(side("before"), "before")
  yield* importStream(side("after"), "after")
}

/** Makes the patch. Rejects with `Unavailable` (no git), `FileSystemFailure`, and whatever reading a content throws. */
export const makePatch = async (input: PatchInput): Promise<ExportedPatch> => {
  mkdirSync(join(input.scratch, "repository"), { mode: 0o700 })
  await must("make a repository", git(input, ["init", "-q", "--template=", "--object-format=sha1", "."]))
  const source = await selectSource(input)
  const changed = input.changed.filter((file) => source.has(file.path))
  const ignoredChanges = input.changed.length - changed.length
  await must("store the two states", git(input, ["fast-import", "--quiet", "--force"], bothStates(changed)))
  const options = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index"]
  const range = ["refs/heads/before", "refs/heads/after"]
  const patch = await must("write the patch", git(input, ["diff-tree", "-r", "-p", "--binary", ...options, ...range]))
  const names = await must(
    "list the patch",
    git(input, ["diff-tree", "-r", "-z", "--name-only", "--no-renames", ...range])
  )
  return { patch, files: pathsOf(names).sort(compare).map(show), ignoredChanges }
}
