/**
 * What an attempt committed, staged or stashed inside its worktree: kept by id, beside the states.
 * Promise: every object that its git directory alone holds is kept before that directory goes, also what a rebase left behind; nothing of it
 * enters the user's repository; no configuration that an attempt could write is obeyed. Rules: GW2, GW4, W17; C32.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs"
import { join } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { show } from "../../src/base/PathBytes.ts"
import { Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { flushRepository } from "./Durable.ts"
import { ask, git, type GitOptions, pipeGit, type Stoppable } from "./Git.ts"
import type { IndexEntry } from "./GitIndex.ts"
import { type GitState, isId, loggedIds, readGitDirectory } from "./GitState.ts"
import { openInside, type Project } from "./Project.ts"
import { flushed } from "./StateWriter.ts"

const isDirectory = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/**
 * True when the index of a pack names its objects by ids of so many bytes. `git show-index` takes the other kind for its own and, where its
 * bits allow, prints ids that nobody has. By its length (gitformat-pack(5)): 1032 and a fanout that ends in the count, count ids with 8
 * bytes each, some long offsets of 8, two digests. The two kinds share no length.
 */
const isIndexOf = (bytes: Buffer, idBytes: number): boolean => {
  const isSecond = bytes.length > 1032 && bytes.readUInt32BE(0) === 0xff744f63
  const head = isSecond ? 1032 : 1024
  if (bytes.length < head) return false
  const count = bytes.readUInt32BE(head - 4)
  const rest = bytes.length - head - count * (idBytes + (isSecond ? 8 : 4)) - 2 * idBytes
  return isSecond ? rest >= 0 && rest % 8 === 0 && rest <= 8 * count : rest === 0
}

/** Ids of the objects that lie in this directory itself; of packs those of the project's own kind. */
const objectsIn = async (project: Project, objects: string, how: Stoppable = {}): Promise<readonly string[]> => {
  const options: GitOptions = { gitDir: project.states, ...how }
  if (!isDirectory(objects)) return []
  const ids: string[] = []
  for (const two of readdirSync(objects)) {
    if (!/^[0-9a-f]{2}$/.test(two) || !isDirectory(join(objects, two))) continue
    for (const rest of readdirSync(join(objects, two))) if (isId(two + rest)) ids.push(two + rest)
  }
  const packs = join(objects, "pack")
  for (const name of isDirectory(packs) ? readdirSync(packs) : []) {
    if (!name.endsWith(".idx") || !lstatSync(join(packs, name)).isFile()) continue
    const bytes = readFileSync(join(packs, name))
    if (!isIndexOf(bytes, project.base.length / 2)) continue
    // The index of a pack that cannot be read names nothing.
    const lines = await ask(["show-index"], { ...options, input: bytes })
    for (const line of lines?.split("\n") ?? []) {
      const id = line.split(" ")[1]
      if (id !== undefined) ids.push(id)
    }
  }
  return ids
}

/** Which of them a repository does not have. */
const lacking = async (ids: readonly string[], options: GitOptions): Promise<readonly string[]> => {
  if (ids.length === 0) return []
  const lines = await git(["cat-file", "--batch-check=%(objectname)"], { ...options, input: `${ids.join("\n")}\n` })
  return lines
    .toString("latin1")
    .split("\n")
    .flatMap((line) => (line.endsWith(" missing") ? [line.slice(0, -" missing".length)] : []))
}

export const lackingIn = (gitDir: string, ids: readonly string[], how: Stoppable): Promise<readonly string[]> =>
  lacking(ids, { gitDir, ...how })

/** The objects of a git directory that an attempt wrote, and those that it borrows, under a repository of ours: its configuration may be anything. */
const objectsOf = (project: Project, gitDirectory: string): GitOptions => ({
  gitDir: project.states,
  env: { GIT_OBJECT_DIRECTORY: join(gitDirectory, "objects") }
})

export const lackingInside = (
  project: Project,
  gitDirectory: string,
  ids: readonly string[],
  how: Stoppable = {}
): Promise<readonly string[]> => lacking(ids, { ...objectsOf(project, gitDirectory), ...how })

/** Every id that the state of a git directory names. */
const namedIds = (state: GitState): ReadonlySet<string> =>
  new Set([state.head, ...state.refs.values(), ...indexIds(state.index ?? [])].filter((id) => isId(id)))

/** A commit of a submodule lies elsewhere. */
const indexIds = (index: readonly IndexEntry[]): readonly string[] =>
  index.filter((entry) => entry.mode !== 0o160000 && !entry.intentToAdd).map((entry) => entry.id)

/** A git directory of a workspace, and what it is called where its references are kept. */
export interface GitPlace {
  readonly name: string
  readonly directory: string
}

/** Git directories of submodules that were set up inside lie below `modules`, those of theirs below them. */
const modulesIn = (directory: string, name = "modules"): readonly GitPlace[] => {
  const at = join(directory, name)
  if (!isDirectory(at)) return []
  return readdirSync(at).flatMap((child) => {
    const path = `${name}/${child}`
    if (!isDirectory(join(directory, path))) return []
    const isOne = isDirectory(join(directory, path, "objects")) && existsSync(join(directory, path, "HEAD"))
    if (!isOne) return modulesIn(directory, path)
    return [{ name: path, directory: join(directory, path) }, ...modulesIn(directory, `${path}/modules`)]
  })
}

/** Every git directory of a worktree: its own, one that was made in its place, and those of submodules. The one that git uses comes first. */
export const gitPlaces = (gitDirectory: string, tree: string): readonly GitPlace[] => {
  const own = [{ name: "", directory: gitDirectory }, ...modulesIn(gitDirectory)]
  const instead = join(tree, ".git")
  return isDirectory(instead) ? [{ name: "instead", directory: instead }, ...own] : own
}

const isOurs = (project: Project, id: string): boolean => id.length === project.base.length

/** A repository that was made inside with `--object-format`, or one of which nothing can be read. */
export const isOtherKind = async (project: Project, gitDirectory: string): Promise<boolean> => {
  const objects = join(gitDirectory, "objects")
  const ids = await objectsIn(project, objects)
  if (ids.some((id) => isOurs(project, id))) return false
  const packs = join(objects, "pack")
  return ids.length > 0 || (isDirectory(packs) && readdirSync(packs).some((name) => name.endsWith(".pack")))
}

/** A repository of another kind goes aside as it is, below the directory of the project. */
const putAside = (project: Project, workspace: string, { name, directory }: GitPlace): void => {
  const other = join(project.directory, "other")
  mkdirSync(other, { recursive: true, mode: 0o700 })
  renameSync(directory, join(other, `${workspace}.${name === "" ? "own" : name.replaceAll("/", "-")}`))
}

interface TakeOptions {
  readonly flush: boolean
  readonly signal?: AbortSignal
}

const signalOf = ({ signal }: TakeOptions): Stoppable => (signal === undefined ? {} : { signal })

/** Takes over whatever objects lie in a git directory of a workspace and in no repository of ours or the user's. Alone in the project. */
export const keepObjects = async (project: Project, gitDirectory: string, options: TakeOptions): Promise<void> => {
  const objects = join(gitDirectory, "objects")
  const ids = (await objectsIn(project, objects, signalOf(options))).filter((id) => isOurs(project, id))
  if (ids.length === 0) return
  await openInside(project)
  const wanted = await lacking(ids, { gitDir: project.inside, ...signalOf(options) })
  if (wanted.length === 0) return
  await takeOver(project, gitDirectory, wanted, options)
  crashPoint("gitWorktree.keep.inside")
}

/** Objects that cannot be read are left: a file that a killed git or a full disk left is none, and must not keep the rest from being kept. */
const takeOver = async (
  project: Project,
  gitDirectory: string,
  ids: readonly string[],
  how: TakeOptions
): Promise<void> => {
  const options = { ...objectsOf(project, gitDirectory), ...signalOf(how) }
  try {
    await pipeGit(
      {
        args: ["pack-objects", "--stdout", "-q", "--delta-base-offset"],
        options,
        input: `${ids.join("\n")}\n`
      },
      {
        args: ["index-pack", "--stdin"],
        options: { gitDir: project.inside, settings: flushed(how.flush), ...signalOf(how) }
      }
    )
  } catch (error) {
    if (!(error instanceof Unavailable) || error.what !== "git pack-objects") throw error
    if (ids.length > 1) {
      const half = ids.length >> 1
      await takeOver(project, gitDirectory, ids.slice(0, half), how)
      await takeOver(project, gitDirectory, ids.slice(half), how)
    } else if (await canBeRead(ids[0]!, options)) throw error
  }
}

const canBeRead = async (id: string, options: GitOptions): Promise<boolean> => {
  const read = await ask(["cat-file", "--batch"], { ...options, input: `${id}\n` })
  return read !== undefined && !read.endsWith(" missing")
}

/** Objects of the user's repository that only his index names: it may drop them when he commits. */
export const keepStaged = async (
  project: Project,
  state: GitState,
  sourceGitDir: string,
  options: TakeOptions
): Promise<void> => {
  const wanted = await lacking(indexIds(state.index ?? []), { gitDir: project.states, ...signalOf(options) })
  const there = new Set(await lacking(wanted, { gitDir: sourceGitDir, ...signalOf(options) }))
  const staged = [...new Set(wanted.filter((id) => !there.has(id)))]
  if (staged.length === 0) return
  await openInside(project)
  await pipeGit(
    {
      args: ["pack-objects", "--stdout", "-q", "--delta-base-offset"],
      options: { gitDir: sourceGitDir, ...signalOf(options) },
      input: `${staged.join("\n")}\n`
    },
    {
      args: ["index-pack", "--stdin"],
      options: { gitDir: project.inside, settings: flushed(options.flush), ...signalOf(options) }
    }
  )
}

/** Brings to a git directory of ours what its state names and what it does not reach. */
export const bringObjects = async (
  project: Project,
  state: GitState,
  gitDirectory: string,
  how: Stoppable
): Promise<void> => {
  if (!existsSync(project.inside)) return
  const missing = await lackingInside(project, gitDirectory, [...namedIds(state)], how)
  const away = new Set(await lacking(missing, { gitDir: project.inside, ...how }))
  const wanted = missing.filter((id) => !away.has(id))
  if (wanted.length === 0) return
  await pipeGit(
    {
      args: ["pack-objects", "--revs", "--local", "--stdout", "-q", "--delta-base-offset"],
      options: { gitDir: project.inside, ...how },
      input: `${wanted.join("\n")}\n--not\n${project.base}\n`
    },
    {
      args: ["index-pack", "--stdin"],
      options: { ...objectsOf(project, gitDirectory), settings: ["core.fsync=none"], ...how }
    }
  )
}

/** What a reference may be called (git-check-ref-format(1)), a little narrower. */
const isRefName = (name: string): boolean =>
  /^[\w/.@+=,\x80-\xff-]+$/.test(name) && !/\.\.|@\{|\/\/|\/\.|\.(?:\/|$)|\.lock(?:\/|$)|\/$/.test(name)

/** What each git directory names, and what its reflogs named, under the names that it gets here. */
const namesOf = (project: Project, below: string, place: GitPlace): ReadonlyMap<string, string> => {
  const { name: prefix, directory } = place
  const names = new Map<string, string>()
  const state = readGitDirectory(directory, project.algorithm)
  const at = prefix === "" ? below : `${below}/${prefix}`
  for (const id of loggedIds(directory)) names.set(`${at}/left/${id}`, id)
  if (state === undefined) return names
  if (isId(state.head)) names.set(`${at}/HEAD`, state.head)
  for (const [name, id] of state.refs) {
    if (isId(id)) names.set(isRefName(name) ? `${at}/${name}` : `${at}/left/${id}`, id)
  }
  return names
}

/**
 * Keeps every object of a workspace's git directories, and names it in the repository of its project:
 * `refs/coppice/inside/WORKSPACE/…`. What the user's repository had at the import is not named again. Alone in the project.
 */
export const keepWhatIsLeft = async (
  project: Project,
  workspace: string,
  places: readonly GitPlace[],
  flush: boolean
): Promise<void> => {
  const known: GitPlace[] = []
  for (const place of places) {
    if (await isOtherKind(project, place.directory)) putAside(project, workspace, place)
    else known.push(place)
  }
  for (const { directory } of known) await keepObjects(project, directory, { flush })
  if (!existsSync(project.inside)) return
  const names = new Map(known.flatMap((place) => [...namesOf(project, `refs/coppice/inside/${workspace}`, place)]))
  const ids = [...new Set(names.values())]
  const away = new Set(await lacking(ids, { gitDir: project.inside }))
  const made = new Set(existsSync(project.commonDir) ? await lacking(ids, { gitDir: project.commonDir }) : ids)
  const named = [...names].filter(([, id]) => made.has(id) && !away.has(id))
  if (named.length === 0) return
  const input = Buffer.from(named.map(([name, id]) => `update ${name} ${id}\n`).join(""), "latin1")
  await git(["update-ref", "--stdin"], { gitDir: project.inside, input, settings: flushed(flush) })
  const written = named.map(([name]) => show(name).path)
  if (flush) flushRepository(project.inside, written)
}
