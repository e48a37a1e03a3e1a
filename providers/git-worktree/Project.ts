/**
 * What this provider keeps of one project: a bare repository of its states, one of what was committed inside, and where it came from.
 * Promise: states are complete in themselves: no object of theirs is borrowed from the user's repository, which may drop it at any time;
 * what was committed inside borrows the history from there. Rules: GW2, GW4, W7, L8.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { rename } from "node:fs/promises"
import { join } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { newId } from "../../src/base/Id.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { syncDirectory } from "../../src/workspace/kit/StoreDirectory.ts"
import { git, pipeGit } from "./Git.ts"
import { readText } from "./ReadText.ts"
import type { Repository } from "./Repository.ts"
import { flushed } from "./StateWriter.ts"

export interface Project {
  readonly id: string
  readonly directory: string
  /** The repository of its states. */
  readonly states: string
  /** The repository of commits that were made inside; made when there is one. */
  readonly inside: string
  readonly algorithm: "sha1" | "sha256"
  /** The commit of the user's repository that it grew from. */
  readonly base: string
  readonly commonDir: string
  /** Directories of the user's objects. */
  readonly objects: readonly string[]
}

type Written = Pick<Project, "algorithm" | "base" | "commonDir" | "objects">

const fileOf = (directory: string): string => join(directory, "project.json")

export const projectAt = (projects: string, id: string): Project | undefined => {
  const directory = join(projects, id)
  const text = readText(fileOf(directory))
  if (text === undefined) return undefined
  const written = JSON.parse(text) as Written
  return { id, directory, states: join(directory, "states.git"), inside: join(directory, "inside.git"), ...written }
}

export const projectsIn = (projects: string): readonly Project[] =>
  readdirSync(projects).flatMap((id) => {
    const project = projectAt(projects, id)
    return project === undefined ? [] : [project]
  })

interface ProjectOptions {
  readonly flush: boolean
  readonly signal: AbortSignal
  /** Bytes of the user's history that were copied; called also while there are no more. */
  readonly onProgress: (bytes: number) => void
}

/** Packs of theirs, which no object of ours is borrowed from, hold the commit with its files and without what was before it. */
const copyBase = async (
  repository: Repository,
  states: string,
  { flush, signal, onProgress }: ProjectOptions
): Promise<void> => {
  writeFileSync(join(states, "shallow"), `${repository.head}\n`)
  let copied = 0
  // Both are silent for long where the history is large, before the first byte and after the last: what they say then is that they live.
  const onSaid = (): void => onProgress(copied)
  await pipeGit(
    {
      args: ["pack-objects", "--revs", "--stdout", "--progress", "--delta-base-offset"],
      options: { gitDir: repository.gitDir, signal, onSaid },
      input: `--shallow ${repository.head}\n${repository.head}\n`
    },
    { args: ["index-pack", "--stdin", "-v"], options: { gitDir: states, signal, settings: flushed(flush), onSaid } },
    (bytes) => onProgress((copied = bytes))
  )
}

const initialise = (
  at: string,
  algorithm: "sha1" | "sha256",
  options: { readonly signal?: AbortSignal } = {}
): Promise<Buffer> => git(["init", "--quiet", "--bare", "--template=", `--object-format=${algorithm}`, at], options)

/** A repository of ours for a project that has no user's: its base is an empty commit. Below the directory of the project. */
const ownRepository = "base.git"

const makeOwn = async (fresh: string, final: string): Promise<Repository> => {
  const at = join(fresh, ownRepository)
  await initialise(at, "sha1")
  const tree = (await git(["hash-object", "-t", "tree", "-w", "--stdin"], { gitDir: at })).toString("latin1").trim()
  const head = (await git(["commit-tree", "-m", "empty", tree], { gitDir: at })).toString("latin1").trim()
  await git(["update-ref", "HEAD", head], { gitDir: at })
  const commonDir = join(final, ownRepository)
  return {
    top: commonDir,
    gitDir: at,
    commonDir,
    algorithm: "sha1",
    head,
    objects: [join(commonDir, "objects")]
  }
}

/** A project for a user's repository, or for none; complete under its name, or not there. */
export const makeProject = async (
  projects: string,
  id: string,
  source: Repository | null,
  options: ProjectOptions
): Promise<Project> => {
  const fresh = join(projects, `.new-${newId("project")}`)
  try {
    mkdirSync(fresh, { mode: 0o700 })
    const states = join(fresh, "states.git")
    const repository = source ?? (await makeOwn(fresh, join(projects, id)))
    await initialise(states, repository.algorithm, { signal: options.signal })
    await copyBase(repository, states, options)
    await git(["update-ref", "refs/coppice/base", repository.head], {
      gitDir: states,
      settings: flushed(options.flush),
      signal: options.signal
    })
    const { algorithm, head, commonDir, objects } = repository
    const written: Written = { algorithm, base: head, commonDir, objects }
    writeFileSync(fileOf(fresh), JSON.stringify(written), { mode: 0o600, flush: options.flush })
    crashPoint("gitWorktree.project.made")
    await rename(fresh, join(projects, id))
    if (options.flush) syncDirectory(projects)
  } catch (error) {
    await removeTree(fresh)
    throw error
  }
  return projectAt(projects, id)!
}

/** Makes the repository of what was committed inside, when it is not there. To be called alone. */
export const openInside = async ({ inside, algorithm, objects, directory }: Project): Promise<void> => {
  if (existsSync(inside)) return
  const fresh = join(directory, `.new-${newId("project")}`)
  await initialise(fresh, algorithm)
  writeFileSync(join(fresh, "objects/info/alternates"), `${objects.join("\n")}\n`)
  await rename(fresh, inside)
}
