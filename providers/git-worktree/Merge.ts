/**
 * Three states into one, by `git merge-tree` over what is kept, and what git knows nothing of beside it.
 * Promise: text by lines up to 1 MiB, renames followed; a time never conflicts, equal bytes never conflict, a mode merges apart from the
 * content, an empty directory is merged like an entry, the names of one file stay one; every conflict is told, and then nothing else. Rules:
 * W10, W22, K2, GW2; 04 L4.
 */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { compare, type TreePath } from "../../src/base/PathBytes.ts"
import type { KeptEntry } from "../../src/workspace/kit/CommitTree.ts"
import type { MergeInput, Merged } from "../../src/workspace/kit/SnapshotBackend.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { blobs } from "./Blobs.ts"
import { conflictsOf, inOrder, modeConflicts, type Sides, sidesOf } from "./Conflicts.ts"
import { git, type GitOptions } from "./Git.ts"
import { type MergedLinks, mergeLinks } from "./MergeLinks.ts"
import { readMergeOutput } from "./MergeOutput.ts"
import type { Project } from "./Project.ts"
import { fromKept, stateRoot } from "./StatePath.ts"
import { type KeptFile, listFiles, listState, refOf } from "./States.ts"

const emptyTree = {
  sha1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
  sha256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
} as const

/** Contents up to this size are handed over in memory. */
const inMemory = 1 << 20

/** Of more files than this that came and went, git follows none: its own number. */
const renameLimit = 7000

const mergeTree = (ours: string, theirs: string, options: GitOptions): Promise<Buffer> =>
  git(["merge-tree", "--write-tree", "-z", "--messages", ours, theirs], {
    ...options,
    // 1 is a merge with conflicts. Of a run that was cut short nothing is taken: conflicts come last in its output.
    answers: [0, 1],
    settings: [
      "core.bigFileThreshold=1m",
      "merge.directoryRenames=false",
      "merge.renames=true",
      `merge.renameLimit=${renameLimit}`
    ]
  })

type Mode = { readonly kind: "same" | "conflict" } | { readonly kind: "theirs"; readonly mode: number }

/** A mode against its base; without one, both made it. */
const mergeMode = (base: KeptEntry | undefined, ours: KeptEntry, theirs: KeptEntry): Mode => {
  if (ours.mode === theirs.mode || theirs.mode === base?.mode) return { kind: "same" }
  if (ours.mode === base?.mode) return { kind: "theirs", mode: theirs.mode }
  return { kind: "conflict" }
}

interface Plan {
  readonly removed: readonly TreePath[]
  readonly put: readonly {
    readonly file: KeptFile
    readonly mode: number
    readonly mtimeNs: bigint
    /** Of a file with several names. */
    readonly inode?: string
  }[]
  readonly directories: readonly TreeChange[]
  readonly modes: readonly TreePath[]
  /** Directories against files, and directories that were changed here and removed there. */
  readonly types: readonly TreePath[]
  readonly removals: readonly TreePath[]
  /** Names of one file that would come to different contents. */
  readonly links: readonly TreePath[]
}

const parents = (path: TreePath): readonly TreePath[] => {
  const found: TreePath[] = []
  for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) found.push(path.slice(0, at))
  return found
}

/** Where each file of the base went on one side, as git follows it: the new path by the old one. */
type Renames = ReadonlyMap<TreePath, TreePath>

const renamesOf = async (base: string, side: string, options: GitOptions): Promise<Renames> => {
  const args = [
    "diff-tree",
    "-r",
    "-M",
    `-l${renameLimit}`,
    "-z",
    "--no-commit-id",
    "--diff-filter=R",
    "--name-status",
    base,
    side
  ]
  const fields = (await git(args, options)).toString("latin1").split("\0")
  const renames = new Map<TreePath, TreePath>()
  for (let at = 0; at + 2 < fields.length; at += 3) {
    renames.set(fromKept(stateRoot + fields[at + 1]!), fromKept(stateRoot + fields[at + 2]!))
  }
  return renames
}

/** Paths that are one entry, whatever it is called on each side. */
class Identities {
  readonly #renames: Readonly<Record<"ours" | "theirs", Renames>>
  readonly #old: ReadonlyMap<TreePath, TreePath>
  constructor(renames: Readonly<Record<"ours" | "theirs", Renames>>) {
    this.#renames = renames
    this.#old = new Map([...renames.ours, ...renames.theirs].map(([from, to]) => [to, from]))
  }
  /** The entries behind a path of the merged tree. */
  of(path: TreePath, { base, ours, theirs }: Sides) {
    const old = this.#old.get(path) ?? path
    return {
      before: base.tree.entry(old),
      mine: ours.tree.entry(path) ?? ours.tree.entry(this.#renames.ours.get(old) ?? old),
      other: theirs.tree.entry(path) ?? theirs.tree.entry(this.#renames.theirs.get(old) ?? old)
    }
  }
  /** Whether a side has no entry any more that a file of the base has become. */
  isGone(side: "ours" | "theirs", path: TreePath, sides: Sides): boolean {
    return sides[side].tree.entry(path) === undefined && !this.#renames[side].has(path)
  }
}

/** Files of which one side changed the mode alone, and which the other one removed: git sees no more of a mode than one bit. */
const modeOrNothing = (sides: Sides, identities: Identities): readonly TreePath[] =>
  [...sides.base.files.keys()].filter((path) => {
    const mode = (side: "ours" | "theirs"): number | undefined => sides[side].tree.entry(path)?.mode
    const before = sides.base.tree.entry(path)?.mode
    const changed = (side: "ours" | "theirs"): boolean => mode(side) !== undefined && mode(side) !== before
    const sameContent = (side: "ours" | "theirs"): boolean =>
      sides[side].files.get(path)?.id === sides.base.files.get(path)?.id &&
      sides[side].files.get(path)?.kind === sides.base.files.get(path)?.kind
    const lost = (side: "ours" | "theirs", other: "ours" | "theirs"): boolean =>
      changed(side) && sameContent(side) && identities.isGone(other, path, sides)
    return lost("ours", "theirs") || lost("theirs", "ours")
  })

/** What has to be done to `ours`, so that it holds `merged`. `inConflict` are paths of which git says that they are. */
const planOf = (
  sides: Sides,
  identities: Identities,
  merged: readonly KeptFile[],
  inConflict: ReadonlySet<TreePath>,
  now: bigint
): Plan => {
  const { ours, theirs } = sides
  const wanted = new Map(merged.map((file) => [file.path, file]))
  const modes: TreePath[] = []
  const links = mergeLinks(
    merged.map((file) => {
      const behind = identities.of(file.path, sides)
      const idOn = (side: "ours" | "theirs", entry: KeptEntry | undefined): string | undefined =>
        entry === undefined ? undefined : sides[side].files.get(entry.path)?.id
      return { file, behind, ids: { mine: idOn("ours", behind.mine), other: idOn("theirs", behind.other) } }
    }),
    inConflict
  )
  const drafts = new Map<TreePath, Draft>()
  for (const file of merged) {
    const { path, id, kind } = file
    const { before, mine, other } = identities.of(path, sides)
    const bothFiles = mine?.type === "file" && other?.type === "file"
    const mode = bothFiles ? mergeMode(before?.type === "file" ? before : undefined, mine, other) : undefined
    if (mode?.kind === "conflict") modes.push(path)
    const own = ours.files.get(path)
    const changes = own?.id !== id || (own.kind === "link") !== (kind === "link") || mode?.kind === "theirs"
    const given = kind === "executable" ? 0o755 : 0o644
    const [minePart, otherPart] = [mine, other].map((entry) => (entry?.type === "file" ? entry.mode : undefined))
    drafts.set(path, {
      file,
      changes,
      mode: mode?.kind === "theirs" ? mode.mode : (minePart ?? otherPart ?? given),
      mtimeNs: theirs.files.get(path)?.id === id ? theirs.tree.entry(path)!.mtimeNs : now
    })
  }
  const put = putsOf(drafts, links)
  const removed = [...ours.files.keys()].filter((path) => !wanted.has(path))
  const { directories, conflicts, gone, types, removals } = planDirectories(sides, merged)
  return {
    removed: [...removed, ...gone],
    put,
    directories,
    modes: [...modes, ...conflicts],
    types,
    removals,
    links: links.conflicts
  }
}

type Draft = Plan["put"][number] & { readonly changes: boolean }

/** What is written: a file with several names under all of them, when anything of it changes. */
const putsOf = (drafts: ReadonlyMap<TreePath, Draft>, { of, regrouped }: MergedLinks): Plan["put"] => {
  const changed = new Set<TreePath>()
  for (const [path, { changes }] of drafts) {
    const link = of.get(path)
    if (link !== undefined && (changes || regrouped.has(path))) changed.add(link.group)
  }
  return [...drafts.values()].flatMap(({ changes, ...draft }) => {
    const { path } = draft.file
    const link = of.get(path)
    if (link === undefined) return changes || regrouped.has(path) ? [draft] : []
    if (!changed.has(link.group)) return []
    const { file, mode, mtimeNs } = drafts.get(link.leader)!
    return [{ file: { ...file, path }, mode, mtimeNs, inode: link.group }]
  })
}

/** Directories are entries too: also empty ones, and their modes. */
const planDirectories = ({ base, ours, theirs }: Sides, merged: readonly KeptFile[]) => {
  const needed = new Set(merged.flatMap(({ path }) => parents(path)))
  const directories: TreeChange[] = []
  const conflicts: TreePath[] = []
  const types: TreePath[] = []
  const removals: TreePath[] = []
  const gone: TreePath[] = []
  const isDirectory = (entry: KeptEntry | undefined): entry is KeptEntry => entry?.type === "directory"
  const paths = new Set([...ours.tree.entries, ...theirs.tree.entries].filter(isDirectory).map(({ path }) => path))
  const files = new Set(merged.map(({ path }) => path))
  for (const path of [...paths].toSorted(compare)) {
    const [before, mine, other] = [base, ours, theirs].map(({ tree }) => tree.entry(path))
    const here = isDirectory(mine)
    const there = isDirectory(other)
    const stays = needed.has(path) || (here && there) || (!isDirectory(before) && !files.has(path))
    if (here && !stays) gone.push(path)
    if (here !== there && !stays) {
      // An empty directory, of which git knows nothing: made where the other side made a file, or changed where it was removed.
      if (files.has(path) && !isDirectory(before)) types.push(path)
      const changed = isDirectory(before) && (mine ?? other)!.mode !== before.mode
      if (changed && (mine === undefined || other === undefined)) removals.push(path)
    }
    if (!here && there && stays) {
      directories.push({ op: "putDirectory", path, mode: other.mode, mtimeNs: other.mtimeNs, replace: false })
    }
    if (!here || !there) continue
    const mode = mergeMode(isDirectory(before) ? before : undefined, mine, other)
    if (mode.kind === "conflict") conflicts.push(path)
    if (mode.kind === "theirs") {
      directories.push({ op: "putDirectory", path, mode: mode.mode, mtimeNs: other.mtimeNs, replace: false })
    }
  }
  return { directories, conflicts, gone, types, removals }
}

/** Contents of the merged files: small ones in memory, others as files below `scratch`. */
const changesOf = async (plan: Plan, options: GitOptions, states: string, scratch: string): Promise<TreeChange[]> => {
  const changes: TreeChange[] = plan.removed.toSorted((a, b) => compare(b, a)).map((path) => ({ op: "remove", path }))
  changes.push(...plan.directories)
  let open: { readonly descriptor: number; readonly file: string } | undefined
  try {
    for await (const { index, bytes, last } of blobs(
      states,
      plan.put.map(({ file }) => file.id),
      options
    )) {
      const { file, mode, mtimeNs, inode } = plan.put[index]!
      const { path } = file
      const linked = inode === undefined ? {} : { inode }
      if (file.kind === "link") {
        changes.push({ op: "putSymlink", path, target: bytes.toString("latin1"), mtimeNs })
        continue
      }
      if (open === undefined && last && bytes.length <= inMemory) {
        changes.push({ op: "putFile", path, mode, mtimeNs, content: { bytes }, ...linked })
        continue
      }
      const at = join(scratch, String(index))
      open ??= { descriptor: openSync(at, "wx", 0o600), file: at }
      for (let from = 0; from < bytes.length; ) from += writeSync(open.descriptor, bytes, from)
      if (!last) continue
      closeSync(open.descriptor)
      changes.push({
        op: "putFile",
        path,
        mode,
        mtimeNs,
        content: { file: Buffer.from(open.file, "utf8").toString("latin1") },
        ...linked
      })
      open = undefined
    }
  } finally {
    if (open !== undefined) closeSync(open.descriptor)
  }
  return changes
}

/** `scratch` does not exist; it is gone when the merge has failed, was in conflict, or is `done`. */
export const mergeStates = async (project: Project, input: MergeInput, scratch: string): Promise<Merged> => {
  const done = (): Promise<void> => removeTree(scratch)
  mkdirSync(join(scratch, "objects/info"), { recursive: true, mode: 0o700 })
  try {
    // Not by GIT_ALTERNATE_OBJECT_DIRECTORIES, which a colon in the store's path would cut in two.
    writeFileSync(join(scratch, "objects/info/alternates"), `${join(project.states, "objects")}\n`)
    const options: GitOptions = {
      gitDir: project.states,
      // Commits for the sake of the merge alone.
      env: { GIT_OBJECT_DIRECTORY: join(scratch, "objects") },
      signal: input.signal
    }
    const commitOf = async (commit: string, onto: readonly string[]): Promise<string> => {
      const listed = (await git(["ls-tree", refOf(commit), "state"], options)).toString("latin1")
      const tree = /^040000 tree ([0-9a-f]+)\t/.exec(listed)?.[1] ?? emptyTree[project.algorithm]
      const args = ["commit-tree", tree, ...onto.flatMap((id) => ["-p", id]), "-m", "merge"]
      return (await git(args, options)).toString("latin1").trim()
    }
    const base = await commitOf(input.base.commit, [])
    const ours = await commitOf(input.ours.commit, [base])
    const theirs = await commitOf(input.theirs.commit, [base])
    const output = readMergeOutput(await mergeTree(ours, theirs, options))
    const filesAt = async (commit: string) => (await listState(project.states, refOf(commit), options)).files
    const sides = sidesOf(input, {
      base: await filesAt(input.base.commit),
      ours: await filesAt(input.ours.commit),
      theirs: await filesAt(input.theirs.commit)
    })
    const merged = await listFiles(project.states, output.tree, options)
    const identities = new Identities({
      ours: await renamesOf(base, ours, options),
      theirs: await renamesOf(base, theirs, options)
    })
    const inConflict = new Set(output.stages.map(({ path }) => path))
    const plan = planOf(sides, identities, merged, inConflict, BigInt(Date.now()) * 1_000_000n)
    const conflicts = [
      ...conflictsOf(output, sides),
      ...modeConflicts("mode", plan.modes, sides),
      ...modeConflicts("type", plan.types, sides),
      ...modeConflicts("link", plan.links, sides),
      ...modeConflicts("editDelete", [...modeOrNothing(sides, identities), ...plan.removals], sides)
    ]
    if (conflicts.length > 0) {
      await done()
      return { kind: "conflict", conflicts: inOrder(conflicts) }
    }
    return { kind: "clean", changes: await changesOf(plan, options, project.states, scratch), done }
  } catch (error) {
    await done()
    throw error
  }
}
