/**
 * The worktree of one workspace: its entry in the user's repository, a git directory of its own, and its files.
 * Promise: the user's repository gains the entry and nothing else; the entry names a commit of the user's for as long as it is there,
 * is locked against pruning and is the only one that is ever removed; a half-made worktree is taken back, also that of a killed
 * process, by the next that opens the store. Rules: GW1, GW2, GW3, W7, W12; C30, C31.
 *
 * The entry is made by `git worktree add --detach`, so that the user's own git lists the worktree and keeps the commit that it stands on.
 * The `.git` file of the worktree then names a git directory of the workspace's alone, which borrows the user's objects: what is
 * committed, stashed, branched or configured inside stays there (docs/decisions/063).
 */
import {
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  statSync,
  writeFileSync
} from "node:fs"
import { dirname, join, resolve } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { currentIdentity, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { git } from "./Git.ts"
import { lackingIn } from "./Inside.ts"
import type { Project } from "./Project.ts"
import { entriesOf, readText } from "./ReadText.ts"

/** Written before anything else of a worktree is made, removed after everything else of it is gone. */
export interface WorktreeRecord {
  readonly workspace: string
  readonly project: string
  readonly commonDir: string
  /** Where it is built. */
  readonly building: string
  /** Where it goes. */
  readonly target: string
  readonly maker: ProcessIdentity
  readonly made: boolean
}

const fileOf = (directory: string): string => join(directory, "worktree.json")

/** Undefined too for what a power cut left of one: then nothing else was made. */
export const recordIn = (directory: string): WorktreeRecord | undefined => {
  const text = readText(fileOf(directory))
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as WorktreeRecord
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The git directory of a worktree, below the directory of its record. */
export const gitDirectoryIn = (directory: string): string => join(directory, "git")

const writeRecord = (directory: string, record: WorktreeRecord): void => {
  writeFileSync(`${fileOf(directory)}.new`, JSON.stringify(record), { mode: 0o600, flush: true })
  renameSync(`${fileOf(directory)}.new`, fileOf(directory))
}

/** Whose entry it is, as `git worktree list` shows it. */
const reasonOf = (workspace: string): string => `workspace ${workspace} of coppice`

const unreachable = (message: string, missing: string): Unavailable =>
  new Unavailable({
    message,
    remedy: "Bring it back, or export the state: its files are kept whole in the store.",
    what: "git worktree",
    missing: [missing]
  })

/** How often another try is made when another git is at the same repository. */
const tries = 8
const isInTheWay = (error: unknown): boolean =>
  error instanceof Unavailable && /lock|File exists|could not (?:open|write|create)/i.test(error.message)

const addEntry = async ({ commonDir, base }: Project, record: WorktreeRecord, signal: AbortSignal): Promise<void> => {
  if (!existsSync(commonDir))
    throw unreachable("The repository that this project was imported from is gone.", "repository")
  const lacking = await lackingIn(commonDir, [base], { signal })
  if (lacking.length > 0) {
    throw unreachable(`The repository no longer has the commit ${base} that this project grew from.`, `commit ${base}`)
  }
  const args = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock"]
  for (let attempt = 1; ; attempt += 1) {
    try {
      await git([...args, "--reason", reasonOf(record.workspace), record.building, base], { gitDir: commonDir, signal })
      giveToOwner(record)
      return
    } catch (error) {
      await removeEntry(record)
      await removeTree(record.building)
      if (attempt === tries || !isInTheWay(error)) throw error
      await sleep(20 * attempt, undefined, { signal })
    }
  }
}

/** Where the entry of a worktree lies in the user's repository; undefined when it has none. */
const entryOf = ({ commonDir, building, target }: WorktreeRecord): string | undefined => {
  const worktrees = join(commonDir, "worktrees")
  const ours = new Set([join(building, ".git"), join(target, ".git")])
  for (const { name } of entriesOf(worktrees)) {
    const text = readText(join(worktrees, name, "gitdir"))
    if (text !== undefined && ours.has(resolve(worktrees, name, text.trimEnd()))) return join(worktrees, name)
  }
  return undefined
}

/** What root makes in somebody else's repository is that user's, or his own git could not add worktrees any more. */
const giveToOwner = (record: WorktreeRecord): void => {
  const { uid, gid } = statSync(record.commonDir)
  if (process.getuid?.() !== 0 || uid === 0) return
  const entry = entryOf(record)!
  const all = readdirSync(entry, { recursive: true, encoding: "utf8" }).map((name) => join(entry, name))
  for (const path of [dirname(entry), entry, ...all]) lchownSync(path, uid, gid)
}

/** As `git worktree remove` does, which wants the files to be there. */
export const removeEntry = async (record: WorktreeRecord): Promise<void> => {
  const entry = entryOf(record)
  if (entry === undefined) return
  await removeTree(entry)
  try {
    rmdirSync(dirname(entry))
  } catch (error) {
    if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error
  }
}

export interface WorktreeWork {
  /** Where the record and the git directory go; does not exist. */
  readonly directory: string
  readonly record: Omit<WorktreeRecord, "maker" | "made">
  readonly project: Project
  /** Runs alone among all that change the user's list of worktrees. */
  readonly alone: <A>(use: () => Promise<A>) => Promise<A>
  /** Fills the directory that is being built, and the git directory. */
  readonly fill: (building: string, gitDirectory: string) => Promise<void>
  readonly signal: AbortSignal
}

/** Makes a worktree, all of it or nothing. */
export const addWorktree = async ({
  directory,
  project,
  alone,
  fill,
  signal,
  ...work
}: WorktreeWork): Promise<void> => {
  const record: WorktreeRecord = { ...work.record, maker: currentIdentity(), made: false }
  mkdirSync(directory, { mode: 0o700 })
  try {
    writeRecord(directory, record)
    crashPoint("gitWorktree.make.recorded")
    await alone(() => addEntry(project, record, signal))
    crashPoint("gitWorktree.make.added")
    const gitDirectory = gitDirectoryIn(directory)
    await fill(record.building, gitDirectory)
    writeFileSync(join(record.building, ".git"), `gitdir: ${gitDirectory}\n`)
    crashPoint("gitWorktree.make.filled")
    writeFileSync(join(entryOf(record)!, "gitdir"), `${join(record.target, ".git")}\n`)
    renameSync(record.building, record.target)
    crashPoint("gitWorktree.make.placed")
    writeRecord(directory, { ...record, made: true })
  } catch (error) {
    await removeTree(record.target)
    await takeBack(directory, alone)
    throw error
  }
}

/** Removes what `addWorktree` made beside the files. Idempotent. */
export const takeBack = async (directory: string, alone: WorktreeWork["alone"]): Promise<void> => {
  const record = recordIn(directory)
  if (record !== undefined) {
    await alone(() => removeEntry(record))
    crashPoint("gitWorktree.unmake.entryGone")
    await removeTree(record.building)
    await removeTree(gitDirectoryIn(directory))
  }
  await removeTree(directory)
}

/**
 * `git worktree repair` takes the `.git` file of a worktree, which names a directory of the store, for damage, and lets it name the entry:
 * then git inside would write into the user's repository, or find none. It is written as it was made. Whatever else an attempt has put in
 * its place stays.
 */
export const keepOwnGit = (directory: string): void => {
  const record = recordIn(directory)
  if (record?.made !== true) return
  const at = join(record.target, ".git")
  const ours = `gitdir: ${gitDirectoryIn(directory)}\n`
  if (lstatSync(at, { throwIfNoEntry: false })?.isFile() !== true) return
  const named = /^gitdir: (.*)$/m.exec(readText(at) ?? "")?.[1]
  if (named === undefined || `gitdir: ${named}\n` === ours) return
  const entry = entryOf(record)
  if (entry === undefined || resolve(record.target, named) !== entry) return
  const fresh = join(directory, "dot-git")
  writeFileSync(fresh, ours)
  renameSync(fresh, at)
}

/** A killed process left it half-made, or its files are gone. A process that may live is left alone. */
export const isOrphan = (root: string, record: WorktreeRecord): boolean =>
  isAliveIn(root, record.maker) === false && (!record.made || !existsSync(record.target))
