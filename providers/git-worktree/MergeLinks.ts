/**
 * Hard-link groups of a merge: the names of one file are one file, whatever git, which knows nothing of it, makes of each.
 * Promise: two names are one file in the result when the side that changed that says so; all names of a file get its content and mode,
 * also one that the other side has added; names of one file that would come to different contents are a conflict. Rules: W22, L4, K2.
 */
import { compare, type TreePath } from "../../src/base/PathBytes.ts"
import type { KeptEntry } from "../../src/workspace/kit/CommitTree.ts"
import type { KeptFile } from "./States.ts"

/** The entries behind a path of the merged tree. */
export interface Behind {
  readonly before: KeptEntry | undefined
  readonly mine: KeptEntry | undefined
  readonly other: KeptEntry | undefined
}

export interface LinkedFile {
  readonly file: KeptFile
  readonly behind: Behind
  /** What git keeps of each side's entry. */
  readonly ids: Readonly<Record<Side, string | undefined>>
}

type Side = "mine" | "other"

export interface MergedLinks {
  /** By each name in a group of the result: the name whose content and mode all of it have, and the first one, which names the group. */
  readonly of: ReadonlyMap<TreePath, { readonly leader: TreePath; readonly group: TreePath }>
  /** Names that are written anew whatever git says: their file has other names than in `ours`. */
  readonly regrouped: ReadonlySet<TreePath>
  readonly conflicts: readonly TreePath[]
}

const isFile = (entry: KeptEntry | undefined): entry is KeptEntry => entry?.type === "file"

/** Whether a side has both names as one file; undefined when it lacks one of them. */
const linked = (a: KeptEntry | undefined, b: KeptEntry | undefined): boolean | undefined =>
  isFile(a) && isFile(b) ? a.linkGroup !== null && a.linkGroup === b.linkGroup : undefined

const areOne = (a: Behind, b: Behind): boolean => {
  const ours = linked(a.mine, b.mine)
  const theirs = linked(a.other, b.other)
  if (ours === undefined || theirs === undefined || ours === theirs) return ours ?? theirs ?? false
  return ours === (linked(a.before, b.before) ?? false) ? theirs : ours
}

/** Names of one file on a side, in order; a file with one name is no group. */
const groupsOn = (side: Side, files: readonly LinkedFile[]): readonly (readonly LinkedFile[])[] => {
  const groups = new Map<TreePath, LinkedFile[]>()
  for (const one of files) {
    const group = one.behind[side]?.linkGroup ?? null
    if (group !== null) groups.set(group, [...(groups.get(group) ?? []), one])
  }
  return [...groups.values()]
}

/** Names that have what a side made of them, where that side's file has become something else under another of its names. */
const behindOthers = (members: readonly LinkedFile[]): ReadonlySet<LinkedFile> => {
  const sides = ["mine", "other"] as const
  const found = new Set<LinkedFile>()
  for (const side of sides) {
    const groupOf = ({ behind }: LinkedFile): TreePath | null => behind[side]?.linkGroup ?? null
    const moved = new Set(members.filter(({ ids, file }) => ids[side] !== file.id).map(groupOf))
    for (const one of members)
      if (one.ids[side] === one.file.id && groupOf(one) !== null && moved.has(groupOf(one))) found.add(one)
  }
  return found
}

/** `inConflict` are paths of which git says so already. */
export const mergeLinks = (merged: readonly LinkedFile[], inConflict: ReadonlySet<TreePath>): MergedLinks => {
  const files = merged.filter(({ file }) => file.kind !== "link").toSorted((a, b) => compare(a.file.path, b.file.path))
  const roots = new Map<TreePath, TreePath>()
  const rootOf = (path: TreePath): TreePath => {
    const above = roots.get(path)
    return above === undefined ? path : rootOf(above)
  }
  const join = (a: LinkedFile, b: LinkedFile): void => {
    const [x, y] = [rootOf(a.file.path), rootOf(b.file.path)]
    if (x !== y && areOne(a.behind, b.behind)) roots.set(compare(x, y) < 0 ? y : x, compare(x, y) < 0 ? x : y)
  }
  for (const group of [...groupsOn("mine", files), ...groupsOn("other", files)]) {
    for (const [n, one] of group.entries()) {
      if (n > 0) join(group[0]!, one)
      if (n > 1) join(group[n - 1]!, one)
    }
  }

  const groups = new Map<TreePath, LinkedFile[]>()
  for (const one of files) groups.set(rootOf(one.file.path), [...(groups.get(rootOf(one.file.path)) ?? []), one])
  const of = new Map<TreePath, { readonly leader: TreePath; readonly group: TreePath }>()
  const conflicts: TreePath[] = []
  for (const [group, members] of groups) {
    if (members.length < 2) continue
    // A name that one side added or gave to the file was looked at by git for itself.
    const behind = behindOthers(members)
    const ahead = members.filter((one) => !behind.has(one))
    const deciding = ahead.length > 0 ? ahead : members
    const leader = deciding[0]!
    const different = deciding.find(({ file }) => file.id !== leader.file.id)
    if (different !== undefined && !members.some(({ file }) => inConflict.has(file.path)))
      conflicts.push(different.file.path)
    for (const { file } of members) of.set(file.path, { leader: leader.file.path, group })
  }
  return { of, regrouped: regrouped(files, rootOf), conflicts }
}

/** Names whose file would keep other names than it gets. */
const regrouped = (files: readonly LinkedFile[], rootOf: (path: TreePath) => TreePath): ReadonlySet<TreePath> => {
  const nowOf = new Map<string, Set<TreePath>>()
  const oursOf = new Map<TreePath, Set<string>>()
  const own = ({ file, behind: { mine } }: LinkedFile): string =>
    mine?.path === file.path && mine.linkGroup !== null ? `group ${mine.linkGroup}` : `path ${file.path}`
  for (const one of files) {
    const root = rootOf(one.file.path)
    nowOf.set(own(one), (nowOf.get(own(one)) ?? new Set()).add(root))
    oursOf.set(root, (oursOf.get(root) ?? new Set()).add(own(one)))
  }
  const moved = files.filter((one) => nowOf.get(own(one))!.size > 1 || oursOf.get(rootOf(one.file.path))!.size > 1)
  return new Set(moved.map(({ file }) => file.path))
}
