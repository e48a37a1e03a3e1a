/**
 * The backend of `git-worktree`: what the kit's provider asks of it, put together.
 * Promise: as `SnapshotBackend`; every state is complete in the store, every worktree is the workspace's alone, and the user's repository
 * gains an entry for each open workspace and nothing else. Rules: W1, W2, GW1 to GW4.
 */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, realpathSync } from "node:fs"
import { join } from "node:path"
import type { Durability } from "../../src/base/Durability.ts"
import { newId } from "../../src/base/Id.ts"
import { fromInput, show, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type {
  KeepInput,
  Made,
  MakeInput,
  MergeInput,
  Merged,
  Missing,
  Moved,
  Piece,
  Snapshot,
  SnapshotBackend
} from "../../src/workspace/kit/SnapshotBackend.ts"
import { blobs, damaged } from "./Blobs.ts"
import { fillGitDirectory, settleIndex, writeFiles } from "./Fill.ts"
import { ask, oldestGit, type Stoppable } from "./Git.ts"
import { type GitState, readGitDirectory } from "./GitState.ts"
import { type GitPlace, gitPlaces, isOtherKind, keepObjects, keepStaged, keepWhatIsLeft } from "./Inside.ts"
import { Locks } from "./Locks.ts"
import { mergeStates } from "./Merge.ts"
import { forgetNote, noteIfLeft, notesIn } from "./LeftEntries.ts"
import { makeProject, type Project, projectAt, projectsIn } from "./Project.ts"
import { admit, findRepository, type Repository, sourceState } from "./Repository.ts"
import {
  bytesBelow,
  dropState,
  gatherPacks,
  hasManyPacks,
  keepState,
  keptIn,
  listState,
  ownName,
  isUntidy,
  type KeptGit,
  type KeptState,
  markUntidy,
  readEntry,
  refOf,
  secondsOf,
  tidy
} from "./States.ts"
import {
  addWorktree,
  gitDirectoryIn,
  isOrphan,
  keepOwnGit,
  recordIn,
  removeEntry,
  takeBack,
  type WorktreeRecord
} from "./Worktree.ts"

export const gitWorktreeVersion = "1"

export interface BackendOptions {
  /** `STORE/git-worktree`. */
  readonly directory: string
  readonly durability: Durability
  /** A source that is no repository is taken too, over an empty repository of the store's own. */
  readonly plainDirectories: boolean
}

const capabilities: SnapshotBackend["capabilities"] = {
  copyFreeFork: false,
  symlinks: true,
  hardLinks: "preserved",
  modes: true,
  // Times are set by Node, to the microsecond.
  nanosecondMtimes: false,
  xattrs: false,
  sparseFiles: false,
  nonUtf8Names: true,
  crossMachine: false,
  mountAtChosenPath: false,
  quota: true
}

/** The repository of a source, or why there is none; null for a tree of ours that has none. */
const stoppedBy = (signal: AbortSignal | undefined): Stoppable => (signal === undefined ? {} : { signal })

const repositoryOf = async (
  tree: TreePath,
  options: BackendOptions,
  signal: AbortSignal
): Promise<Repository | null> => {
  const path = show(tree).path
  const isOurs = path.startsWith(`${options.directory}/`)
  if ((isOurs || options.plainDirectories) && isPlain(tree)) return null
  return findRepository(tree, signal)
}

const isPlain = (tree: TreePath): boolean => !existsSync(toBytes(join(tree, ownName)))

class Backend {
  readonly #options: BackendOptions
  readonly #projects: string
  readonly #worktrees: string
  readonly #building: string
  readonly #merging: string
  readonly #locks: Locks
  readonly #flush: boolean
  /** What a worktree that is being made stands on, between `make` and `settle`. */
  readonly #making = new Map<string, KeptState & { readonly git: KeptGit }>()

  constructor(options: BackendOptions) {
    const { directory } = options
    this.#options = options
    this.#flush = options.durability === "full"
    const below = (name: string): string => {
      mkdirSync(join(directory, name), { recursive: true, mode: 0o700 })
      return join(directory, name)
    }
    this.#projects = below("projects")
    this.#worktrees = below("worktrees")
    this.#building = below("building")
    this.#merging = below("merging")
    this.#locks = new Locks(below("locks"))
  }

  /** Takes back what killed processes left half-made, and frees what nobody needs. What may be in use is left alone. */
  async recover(): Promise<void> {
    for (const name of readdirSync(this.#worktrees)) {
      const directory = join(this.#worktrees, name)
      const record = recordIn(directory)
      if (record !== undefined && isOrphan(this.#options.directory, record)) await this.#removeOrphan(directory, record)
    }
    for (const note of notesIn(this.#options.directory)) {
      if (!existsSync(note.commonDir)) continue
      await this.#aloneWith(note.commonDir)(() => removeEntry(note))
      forgetNote(this.#options.directory, note)
    }
    await this.#locks.ifFree("projects", async () => {
      for (const name of readdirSync(this.#projects)) {
        if (projectAt(this.#projects, name) === undefined || name.startsWith(".")) {
          await removeTree(join(this.#projects, name))
        }
      }
      for (const name of readdirSync(this.#merging)) await removeTree(join(this.#merging, name))
      await this.#tidyAll()
    })
  }

  async #tidyAll(): Promise<void> {
    for (const project of projectsIn(this.#projects)) if (isUntidy(project)) await tidy(project, this.#flush)
  }

  async #removeOrphan(directory: string, record: WorktreeRecord): Promise<void> {
    if (record.made) {
      await this.#keepInside(record)
      noteIfLeft(this.#options.directory, record)
    } else await removeTree(record.target)
    await takeBack(directory, this.#aloneWith(record.commonDir))
  }

  #aloneWith(commonDir: string): <A>(use: () => Promise<A>) => Promise<A> {
    const name = `repository-${createHash("sha256").update(commonDir).digest("hex").slice(0, 32)}`
    return (use) => this.#locks.alone(name, undefined, use)
  }

  #project(snapshot: Snapshot): Project {
    const project = projectAt(this.#projects, snapshot.project)
    if (project === undefined) throw damaged(snapshot.commit)
    return project
  }

  async probe(): Promise<readonly Missing[]> {
    const remedy = `Install git ${oldestGit.join(".")} or newer and make sure that it is on PATH.`
    let text: string | undefined
    try {
      text = await ask(["version"])
    } catch {
      return [{ what: "git", remedy }]
    }
    const [, major, minor] = /(\d+)\.(\d+)/.exec(text ?? "") ?? []
    const [wantedMajor, wantedMinor] = oldestGit
    const isNew = Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor)
    return isNew ? [] : [{ what: `git ${oldestGit.join(".")} (here: ${text ?? "unknown"})`, remedy }]
  }

  async keep(input: KeepInput): Promise<Moved> {
    // Shared: what is being made is not tidied away.
    const bytes = await this.#locks.shared("projects", input.signal, () =>
      input.isImport ? this.#keepFirst(input) : this.#keepNext(input)
    )
    return { method: "git", copiedBytes: bytes }
  }

  async #keepFirst(input: KeepInput): Promise<number> {
    const { snapshot, signal } = input
    const repository = await repositoryOf(input.tree, this.#options, signal)
    let copied = 0
    const made = { flush: this.#flush, signal, onProgress: (bytes: number) => input.onProgress(0, (copied = bytes)) }
    const project = await makeProject(this.#projects, snapshot.project, repository, made)
    const found = repository ?? { ...(await this.#ownOf(project)) }
    const entry = await sourceState(found, signal)
    const indexMtime = secondsOf(join(found.gitDir, "index"))
    await keepStaged(project, entry, found.gitDir, { flush: this.#flush, signal })
    const onProgress: KeepInput["onProgress"] = (files, bytes) => input.onProgress(files, copied + bytes)
    return keepState(project, { ...input, onProgress }, { flush: this.#flush, entry, indexMtime })
  }

  async #ownOf({ commonDir, base, algorithm, objects }: Project): Promise<Repository> {
    return { top: commonDir, gitDir: commonDir, commonDir, algorithm, head: base, objects }
  }

  async #keepNext(input: KeepInput): Promise<number> {
    const project = this.#project(input.snapshot)
    const record = this.#worktreeAt(input.tree)
    const entry = record === undefined ? null : await this.#keepEntry(project, record, input.signal)
    const options = { flush: this.#flush, entry, indexMtime: 0 }
    const name = `states-${project.id}`
    const bytes = await this.#locks.shared(name, input.signal, () => keepState(project, input, options))
    if (hasManyPacks(project)) await this.#locks.ifFree(name, () => gatherPacks(project, this.#flush, input.signal))
    return bytes
  }

  #placesOf(record: WorktreeRecord): readonly GitPlace[] {
    return gitPlaces(gitDirectoryIn(join(this.#worktrees, record.workspace)), record.target)
  }

  /** Where git stands in a worktree, with every object of it kept. Null: as before, because it is no repository any more. */
  async #keepEntry(project: Project, record: WorktreeRecord, signal: AbortSignal): Promise<GitState | null> {
    const [{ directory }] = this.#placesOf(record) as readonly [GitPlace]
    const state = readGitDirectory(directory, project.algorithm)
    if (state === undefined || (await isOtherKind(project, directory))) return null
    const options = { flush: this.#flush, signal }
    await this.#locks.alone(`inside-${project.id}`, signal, () => keepObjects(project, directory, options))
    return state
  }

  #worktreeAt(tree: TreePath): WorktreeRecord | undefined {
    const wanted = existsSync(show(tree).path) ? realpathSync(show(tree).path) : show(tree).path
    for (const name of readdirSync(this.#worktrees)) {
      const record = recordIn(join(this.#worktrees, name))
      if (record?.target === wanted) return record
    }
    return undefined
  }

  async make(input: MakeInput): Promise<Made> {
    const { snapshot, workspace, signal } = input
    const project = this.#project(snapshot)
    const state = await listState(project.states, refOf(snapshot.commit), { signal })
    if (workspace === null) {
      const target = show(input.target).path
      mkdirSync(target, { mode: 0o755 })
      try {
        return { method: "git", copiedBytes: await writeFiles(project.states, state.files, input.target, input) }
      } catch (error) {
        await removeTree(target)
        throw error
      }
    }
    const entry = await readEntry(project, state, { signal })
    this.#making.set(workspace, { ...state, git: entry })
    const directory = join(this.#worktrees, workspace)
    let copiedBytes = 0
    await addWorktree({
      directory,
      project,
      record: {
        workspace,
        project: project.id,
        commonDir: project.commonDir,
        building: join(this.#building, workspace),
        target: show(input.target).path
      },
      alone: this.#aloneWith(project.commonDir),
      fill: async (building, gitDirectory) => {
        await fillGitDirectory(project, entry, gitDirectory, signal)
        copiedBytes = await writeFiles(project.states, state.files, fromInput(building), input)
      },
      signal
    })
    return {
      method: "git",
      copiedBytes,
      reach: [
        { path: fromInput(gitDirectoryIn(directory)), access: "write" },
        ...project.objects.map((path) => ({ path: fromInput(path), access: "read" as const }))
      ],
      staysInPlace: true
    }
  }

  async settle(input: MakeInput): Promise<void> {
    if (input.workspace === null) return
    const project = this.#project(input.snapshot)
    const state = this.#making.get(input.workspace)
    if (state === undefined) throw new Error("Only what was made is settled")
    this.#making.delete(input.workspace)
    settleIndex(project, state.git, state.files, input.target, gitDirectoryIn(join(this.#worktrees, input.workspace)))
  }

  beforeUse({ workspace }: { readonly workspace: string }): void {
    keepOwnGit(join(this.#worktrees, workspace))
  }

  async beforeRemoval({ workspace }: { readonly workspace: string }): Promise<void> {
    const record = recordIn(join(this.#worktrees, workspace))
    if (record?.made === true) await this.#keepInside(record)
  }

  async #keepInside(record: WorktreeRecord): Promise<void> {
    const project = projectAt(this.#projects, record.project)
    if (project === undefined) return
    const places = this.#placesOf(record)
    await this.#locks.alone(`inside-${project.id}`, undefined, () =>
      keepWhatIsLeft(project, record.workspace, places, this.#flush)
    )
  }

  async unmake({ workspace }: { readonly workspace: string }): Promise<void> {
    this.#making.delete(workspace)
    const directory = join(this.#worktrees, workspace)
    const record = recordIn(directory)
    if (record?.made === true) noteIfLeft(this.#options.directory, record)
    await takeBack(directory, this.#aloneWith(record?.commonDir ?? ""))
  }

  async drop({ project: id, commit }: Snapshot): Promise<void> {
    const project = projectAt(this.#projects, id)
    if (project === undefined) return
    await dropState(project, commit)
    if ((await keptIn(project)).length === 0) {
      await removeTree(project.directory)
      return
    }
    markUntidy(project)
  }

  async kept(): Promise<readonly Snapshot[]> {
    const kept: Snapshot[] = []
    for (const project of projectsIn(this.#projects)) {
      for (const commit of await keptIn(project)) kept.push({ project: project.id, commit })
    }
    return kept
  }

  async *contents(snapshot: Snapshot, paths: readonly TreePath[], how: Stoppable): AsyncGenerator<Piece> {
    const project = this.#project(snapshot)
    const { files } = await listState(project.states, refOf(snapshot.commit), how)
    const ids = new Map(files.map(({ path, id }) => [path, id]))
    const wanted = paths.map((path) => {
      const id = ids.get(path)
      if (id === undefined) throw damaged(snapshot.commit)
      return id
    })
    for await (const { index, bytes, last } of blobs(project.states, wanted, how)) {
      yield { path: paths[index]!, bytes, last }
    }
  }

  async indexOf(snapshot: Snapshot, how: Stoppable): Promise<Uint8Array | null> {
    const project = this.#project(snapshot)
    const { entry } = await listState(project.states, refOf(snapshot.commit), how)
    const id = entry.get("index")
    if (id === undefined) return null
    const parts: Buffer[] = []
    for await (const { bytes } of blobs(project.states, [id], how)) parts.push(bytes)
    return Buffer.concat(parts)
  }

  merge(input: MergeInput): Promise<Merged> {
    return mergeStates(this.#project(input.ours), input, join(this.#merging, newId("operation")))
  }

  /** What was dropped goes first, where nobody is at it: it must not count against what comes next. */
  async storedBytes(): Promise<number> {
    if (projectsIn(this.#projects).some(isUntidy)) await this.#locks.ifFree("projects", () => this.#tidyAll())
    return projectsIn(this.#projects).reduce((sum, { directory }) => sum + bytesBelow(directory), 0)
  }
}

/** Opens the place of the store, and takes back what killed processes left. */
export const gitWorktreeBackend = async (options: BackendOptions): Promise<SnapshotBackend> => {
  const backend = new Backend(options)
  await backend.recover()
  return {
    provider: "git-worktree",
    version: gitWorktreeVersion,
    projection: "worktree",
    capabilities,
    restores: "metadata",
    ownNames: [ownName],
    admit: async (source, signal) =>
      options.plainDirectories && isPlain(source) ? { notes: [], leaveOut: [] } : admit(source, signal),
    probe: () => backend.probe(),
    keep: (input) => backend.keep(input),
    make: (input) => backend.make(input),
    settle: (input) => backend.settle(input),
    unmake: (input) => backend.unmake(input),
    beforeUse: (input) => backend.beforeUse(input),
    beforeRemoval: (input) => backend.beforeRemoval(input),
    drop: (snapshot) => backend.drop(snapshot),
    kept: () => backend.kept(),
    contents: (snapshot, paths, signal) => backend.contents(snapshot, paths, stoppedBy(signal)),
    indexOf: (snapshot, signal) => backend.indexOf(snapshot, stoppedBy(signal)),
    merge: (input) => backend.merge(input),
    storedBytes: () => backend.storedBytes()
  }
}
