/**
 * The conflicts of a merge, one by one, from what git says about it.
 * Promise: each path that git could not merge is in exactly one conflict, with what each side has of it; unknown kinds of git's are told by
 * what the sides have. Rules: K2, W1 (conflict report); 04 L4.
 */
import { compare, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { CommitTree, KeptEntry } from "../../src/workspace/kit/CommitTree.ts"
import type { MergeInput } from "../../src/workspace/kit/SnapshotBackend.ts"
import type { MergeConflict, MergeSide } from "../../src/workspace/WorkspaceValues.ts"
import type { MergeOutput, Stage } from "./MergeOutput.ts"
import type { KeptFile } from "./States.ts"

/** One of the three states: its commit, its list of files, and what git keeps of them. */
interface Side {
  readonly commit: string
  readonly tree: CommitTree
  readonly files: ReadonlyMap<TreePath, KeptFile>
}
export type Sides = Readonly<Record<"base" | "ours" | "theirs", Side>>

const sideOf = ({ commit }: Side, entry: KeptEntry | undefined): MergeSide | null => {
  if (entry === undefined) return null
  const { path, type, mode, size } = entry
  return { ...show(path), commit, type, mode, size: type === "directory" ? 0 : size }
}

/** The entry that a stage is about: there, or where the same content lies when git looks at it under its new name. */
const entryOf = (side: Side, stage: Stage | undefined): KeptEntry | undefined => {
  if (stage === undefined) return undefined
  if (side.files.get(stage.path)?.id === stage.id) return side.tree.entry(stage.path)
  const elsewhere = [...side.files.values()].find(({ id }) => id === stage.id)
  return elsewhere === undefined ? side.tree.entry(stage.path) : side.tree.entry(elsewhere.path)
}

/** A file on one side, a link on the other. */
const distinct = "CONFLICT (distinct modes)"

const kindOf = (
  [base, ours, theirs]: readonly (Stage | undefined)[],
  said: ReadonlySet<string>
): MergeConflict["kind"] => {
  if (said.has("CONFLICT (rename/rename)")) return "renameRename"
  if (said.has("CONFLICT (file/directory)") || said.has(distinct)) return "type"
  const both = ours !== undefined && theirs !== undefined
  if (!both) return "editDelete"
  if (ours.isLink !== theirs.isLink) return "type"
  if (ours.isLink) return "link"
  return base === undefined ? "addAdd" : "content"
}

/** Paths that one message of git's is about belong together. */
const together = ({ stages, messages }: MergeOutput): ReadonlyMap<TreePath, TreePath> => {
  const first = new Map<TreePath, TreePath>(stages.map(({ path }) => [path, path]))
  for (const { paths, type } of messages) {
    if (!["CONFLICT (rename/rename)", "CONFLICT (rename/delete)", distinct].includes(type)) continue
    const known = paths.filter((path) => first.has(path))
    for (const path of known) first.set(path, known[0]!)
  }
  return first
}

/** Where an entry stands that git moved out of the way of another one. */
const originals = ({ messages }: MergeOutput): ReadonlyMap<TreePath, TreePath> =>
  new Map(
    messages.flatMap(({ type, paths: [first = "", ...others] }) => {
      if (type === "CONFLICT (file/directory)") return others.map((original) => [first, original] as const)
      return type === distinct ? others.map((moved) => [moved, first] as const) : []
    })
  )

export const conflictsOf = (output: MergeOutput, sides: Sides): readonly MergeConflict[] => {
  const belongs = together(output)
  const moved = originals(output)
  const groups = new Map<TreePath, Stage[]>()
  for (const stage of output.stages) {
    const key = belongs.get(stage.path)!
    groups.set(key, [...(groups.get(key) ?? []), stage])
  }
  return [...groups.values()].map((stages) => {
    const paths = new Set(stages.map(({ path }) => path))
    const said = new Set(
      output.messages.filter(({ paths: of }) => of.some((path) => paths.has(path))).map((m) => m.type)
    )
    const staged = [1, 2, 3].map((number) => stages.find(({ stage }) => stage === number))
    const at = (stage: Stage | undefined): Stage | undefined =>
      stage === undefined ? undefined : { ...stage, path: moved.get(stage.path) ?? stage.path }
    const kind = kindOf(staged, said)
    const [base, ours, theirs] = [
      entryOf(sides.base, at(staged[0])),
      entryOf(sides.ours, at(staged[1])) ?? besideFile(kind, sides.ours, moved, stages),
      entryOf(sides.theirs, at(staged[2])) ?? besideFile(kind, sides.theirs, moved, stages)
    ]
    const path = ours?.path ?? theirs?.path ?? base?.path ?? moved.get(stages[0]!.path) ?? stages[0]!.path
    return {
      ...show(path),
      kind,
      base: sideOf(sides.base, base),
      ours: sideOf(sides.ours, ours),
      theirs: sideOf(sides.theirs, theirs)
    }
  })
}

/** The directory that one side has where the other one has a file: git names only the file. */
const besideFile = (
  kind: MergeConflict["kind"],
  { tree }: Side,
  moved: ReadonlyMap<TreePath, TreePath>,
  stages: readonly Stage[]
): KeptEntry | undefined => {
  if (kind !== "type") return undefined
  const { path } = stages[0]!
  const entry = tree.entry(moved.get(path) ?? path)
  return entry?.type === "directory" ? entry : undefined
}

/** Conflicts about modes, directories and hard links: git knows nothing of them. */
export const modeConflicts = (
  kind: "mode" | "editDelete" | "type" | "link",
  paths: readonly TreePath[],
  sides: Sides
): readonly MergeConflict[] =>
  paths.map((path) => ({
    ...show(path),
    kind,
    base: sideOf(sides.base, sides.base.tree.entry(path)),
    ours: sideOf(sides.ours, sides.ours.tree.entry(path)),
    theirs: sideOf(sides.theirs, sides.theirs.tree.entry(path))
  }))

export const inOrder = (conflicts: readonly MergeConflict[]): readonly MergeConflict[] =>
  conflicts.toSorted((a, b) => compare(a.path, b.path))

export const sidesOf = (
  { base, ours, theirs, trees }: MergeInput,
  files: Readonly<Record<"base" | "ours" | "theirs", readonly KeptFile[]>>
): Sides => {
  const side = (commit: string, tree: CommitTree, of: readonly KeptFile[]): Side => ({
    commit,
    tree,
    files: new Map(of.map((file) => [file.path, file]))
  })
  return {
    base: side(base.commit, trees.base, files.base),
    ours: side(ours.commit, trees.ours, files.ours),
    theirs: side(theirs.commit, trees.theirs, files.theirs)
  }
}
