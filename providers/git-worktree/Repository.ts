/**
 * The user's repository behind a source: found, judged, and only read.
 * Promise: what a worktree cannot be made of is refused before anything is written, with the reason and what to do; a lock that a dead
 * process left is told, never removed. Rules: GW1, GW2, GW3, W13; C32, C35, C37.
 */
import { existsSync, lstatSync, readFileSync, readdirSync, realpathSync, statSync } from "node:fs"
import { copyFile, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, isAbsolute, join, resolve } from "node:path"
import { show, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { ImportRefused } from "../../src/workspace/WorkspaceError.ts"
import type { ImportNote } from "../../src/workspace/WorkspaceValues.ts"
import { ask, git } from "./Git.ts"
import { configOf } from "./Config.ts"
import { readIndex, type IndexEntry } from "./GitIndex.ts"
import { type GitState, readFiles } from "./GitState.ts"

export interface Repository {
  /** The top of the worktree that is imported. */
  readonly top: string
  /** Its own git directory. */
  readonly gitDir: string
  /** What all worktrees of the repository share. */
  readonly commonDir: string
  readonly algorithm: "sha1" | "sha256"
  readonly head: string
  /** Every directory that its objects come from. */
  readonly objects: readonly string[]
}

const refused = (
  reason: "notARepository" | "unsupportedRepository",
  source: TreePath,
  message: string,
  remedy: string
): ImportRefused => new ImportRefused({ reason, path: show(source).path, message, remedy })

const elsewhere = "Or import it with the provider layerfs, which takes any directory."

/** The directory of objects and those that it borrows from, each once. */
const objectDirectories = (first: string, known: Set<string> = new Set()): ReadonlySet<string> => {
  if (!existsSync(first)) return known
  const real = realpathSync(first)
  if (known.has(real)) return known
  known.add(real)
  const alternates = join(real, "info/alternates")
  const lines = existsSync(alternates) ? readFileSync(alternates, "utf8").split("\n") : []
  for (const line of lines) {
    if (line !== "" && !line.startsWith("#")) objectDirectories(isAbsolute(line) ? line : join(real, line), known)
  }
  return known
}

/** Looks at a source. Throws `ImportRefused`. */
export const findRepository = async (source: TreePath, signal: AbortSignal): Promise<Repository> => {
  const { path: top, pathBytes } = show(source)
  if (pathBytes !== undefined) {
    throw refused("unsupportedRepository", source, "The path of the source is not UTF-8.", `Rename it. ${elsewhere}`)
  }
  const found = existsSync(join(top, ".git"))
    ? await ask(
        [
          "rev-parse",
          "--path-format=absolute",
          "--git-dir",
          "--git-common-dir",
          "--show-object-format",
          "--show-toplevel"
        ],
        { cwd: top, env: { GIT_CEILING_DIRECTORIES: dirname(top) }, signal }
      )
    : undefined
  const [gitDir, commonDir, format, toplevel, ...more] = found?.split("\n") ?? []
  if (more.length > 0) {
    throw refused(
      "unsupportedRepository",
      source,
      "A path of the repository has a line feed.",
      `Rename it. ${elsewhere}`
    )
  }
  if (gitDir === undefined || commonDir === undefined || toplevel === undefined) {
    const bare = existsSync(join(top, "HEAD")) && existsSync(join(top, "objects"))
    throw refused(
      "notARepository",
      source,
      bare ? "The source is a bare repository: it has no files." : "The source is not the top of a git repository.",
      bare
        ? `Give a worktree of it (git worktree add). ${elsewhere}`
        : `Give the top of a repository, or make it one (git init, git add, git commit). ${elsewhere}`
    )
  }
  if (realpathSync(toplevel) !== realpathSync(top)) {
    throw refused(
      "unsupportedRepository",
      source,
      "The repository keeps its files elsewhere (core.worktree).",
      `Give the directory of its files, with a .git of its own. ${elsewhere}`
    )
  }
  const head = await ask(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], { gitDir, signal })
  if (head === undefined || head === "") {
    throw refused("notARepository", source, "The repository has no commit yet.", `Commit something first. ${elsewhere}`)
  }
  const promises = await ask(["config", "--get-regexp", "^(extensions\\.partialclone|remote\\..*\\.promisor)$"], {
    gitDir,
    signal
  })
  if (promises !== undefined && promises !== "") {
    throw refused(
      "unsupportedRepository",
      source,
      "The repository is a partial clone: some of its objects are not here.",
      `Fetch them and drop the filter (git fetch --refetch --no-filter, git config --unset), or clone it whole. ${elsewhere}`
    )
  }
  return {
    top,
    gitDir,
    commonDir,
    algorithm: format === "sha256" ? "sha256" : "sha1",
    head,
    objects: [...objectDirectories(join(commonDir, "objects"))]
  }
}

/** Where a `.git` file points to; undefined for what is none. */
const pointerTarget = (directory: string, file: string): string | undefined => {
  if (statSync(file).size > 8192) return undefined
  const target = /^gitdir: (.+?)\n?$/s.exec(readFileSync(file, "utf8"))?.[1]
  return target === undefined ? undefined : resolve(directory, target)
}

/** Directories below the top in which a `.git` file lies, as byte strings from the top. */
const pointers = (top: TreePath): readonly TreePath[] => {
  const found: TreePath[] = []
  const open: TreePath[] = [""]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const here = at
    let entries: readonly { readonly name: string; isDirectory(): boolean; isFile(): boolean }[] = []
    try {
      entries = readdirSync(toBytes(here === "" ? top : `${top}/${here}`), { withFileTypes: true, encoding: "latin1" })
    } catch {
      // The scan of the import tells what cannot be read.
    }
    for (const entry of entries) {
      const path = here === "" ? entry.name : `${here}/${entry.name}`
      if (entry.isDirectory() && path !== ".git") open.push(path)
      else if (entry.name === ".git" && entry.isFile() && here !== "") found.push(here)
    }
  }
  return found
}

const isBelow = (path: string, directory: string): boolean => path.startsWith(`${directory}/`)

/** Nested worktrees are left out, set-up submodules refused. */
const judgePointers = (
  source: TreePath,
  { commonDir }: Repository
): { readonly notes: readonly ImportNote[]; readonly leaveOut: readonly TreePath[] } => {
  const notes: ImportNote[] = []
  const leaveOut: TreePath[] = []
  const common = realpathSync(commonDir)
  for (const directory of pointers(source)) {
    const { path, pathBytes } = show(directory)
    if (pathBytes !== undefined) continue
    const absolute = join(show(source).path, path)
    const target = pointerTarget(absolute, join(absolute, ".git"))
    if (target === undefined || !existsSync(target)) continue
    const real = realpathSync(target)
    if (isBelow(real, join(common, "worktrees"))) {
      leaveOut.push(directory)
      notes.push({
        kind: "skippedWorktree",
        path: { path },
        detail: "another worktree of this repository; not imported"
      })
    } else if (isBelow(real, join(common, "modules"))) {
      throw refused(
        "unsupportedRepository",
        source,
        `The submodule ${path} is set up, and its git directory belongs to this checkout alone.`,
        `Put it away (git submodule deinit ${path}), and set it up inside. ${elsewhere}`
      )
    }
  }
  return { notes, leaveOut }
}

/** Locks in the git directory, which no process holds open. */
const staleLocks = ({ gitDir, commonDir }: Repository): readonly ImportNote[] =>
  [...new Set([join(gitDir, "index.lock"), join(gitDir, "HEAD.lock"), join(commonDir, "packed-refs.lock")])].flatMap(
    (lock) => {
      const stat = lstatSync(lock, { throwIfNoEntry: false })
      if (stat === undefined || isHeldOpen(stat.dev, stat.ino)) return []
      const name = lock.slice(lock.lastIndexOf("/") + 1)
      const detail =
        "no process has it open: most likely left by a git that was killed. Nothing here waits for it; other commands do, until it is removed"
      return [{ kind: "staleLock" as const, path: { path: `.git/${name}` }, detail }]
    }
  )

/** Whether a process that this one may look at has the file open. */
const isHeldOpen = (dev: number, ino: number): boolean =>
  readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readdirSync(`/proc/${pid}/fd`).some((fd) => {
        const stat = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false })
        return stat?.dev === dev && stat.ino === ino
      })
    } catch {
      return false
    }
  })

/** Judges a source before it is imported. Throws `ImportRefused`. */
export const admit = async (
  source: TreePath,
  signal: AbortSignal
): Promise<{ readonly notes: readonly ImportNote[]; readonly leaveOut: readonly TreePath[] }> => {
  const repository = await findRepository(source, signal)
  const { notes, leaveOut } = judgePointers(source, repository)
  return { notes: [...notes, ...staleLocks(repository)], leaveOut }
}

const noFlags = { assumeValid: false, skipWorktree: false, intentToAdd: false, seen: null }

/**
 * As git tells it, for an index of a kind that is not read here (split, or with directories as entries). Of a copy: git marks a shared
 * index as used by whoever reads it.
 */
const indexByGit = async ({
  gitDir,
  algorithm,
  objects: [objects = ""]
}: Repository): Promise<readonly IndexEntry[]> => {
  const copy = await mkdtemp(join(tmpdir(), "coppice-index-"))
  try {
    await git(["init", "--quiet", "--bare", "--template=", `--object-format=${algorithm}`, copy])
    for (const name of readdirSync(gitDir)) {
      if (name === "index" || name.startsWith("sharedindex.")) await copyFile(join(gitDir, name), join(copy, name))
    }
    const options = { gitDir: copy, env: { GIT_OBJECT_DIRECTORY: objects } }
    const lines = (await git(["ls-files", "-s", "-z"], options)).toString("latin1").split("\0")
    return lines.flatMap((line) => {
      const [, mode = "", id = "", stage, path] = /^(\d+) ([0-9a-f]+) (\d)\t(.+)$/s.exec(line) ?? []
      return path === undefined ? [] : [{ path, mode: Number.parseInt(mode, 8), id, stage: Number(stage), ...noFlags }]
    })
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

/** Where git stands in the source. HEAD is the commit, as in a detached worktree. */
export const sourceState = async (repository: Repository, signal: AbortSignal): Promise<GitState> => {
  const { gitDir, commonDir, algorithm, head } = repository
  const lines = (
    await git(["for-each-ref", "--format=%(refname) %(objectname) %(symref)"], { gitDir, signal })
  ).toString("latin1")
  const refs = lines.split("\n").flatMap((line) => {
    const [name, id, symbolic] = line.split(" ")
    if (name === undefined || id === undefined || /^refs\/(?:worktree|bisect|rewritten)\//.test(name)) return []
    return [[name, symbolic === undefined || symbolic === "" ? id : `ref: ${symbolic}`] as const]
  })
  const index = join(gitDir, "index")
  const shared = readFiles(commonDir).filter(({ path }) => path !== "config" && path !== "info/sparse-checkout")
  const own = readFiles(gitDir).filter(({ path }) => path === "info/sparse-checkout")
  return {
    head,
    refs: new Map(refs),
    index: existsSync(index) ? (readIndex(readFileSync(index), algorithm) ?? (await indexByGit(repository))) : [],
    files: [{ path: "config", bytes: await configOf(gitDir, algorithm, signal), executable: false }, ...shared, ...own]
  }
}
