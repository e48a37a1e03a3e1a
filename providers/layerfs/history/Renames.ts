/**
 * Where what is new in a commit was before.
 * Promise: equal content first, nearest by place and name; then, for one file that is asked about, the most alike of what has gone, when
 * half of the lines are the same, as git has it (git-diff(1), `-M`: "The default similarity index is 50%"); every search is bounded.
 * Rules: L3; C25.
 */
import type { Digest } from "../../../src/base/Digest.ts"
import { basename, join, parent, type TreePath } from "../../../src/base/PathBytes.ts"
import { readContent } from "../FileContent.ts"
import type { StoredEntry } from "../TreeCodec.ts"
import { walkDiff } from "../TreeDiff.ts"
import { isBinary } from "../../../src/workspace/kit/Grep.ts"
import { largestText, likeness, linesOf } from "./Lines.ts"
import type { History } from "./History.ts"

type File = Extract<StoredEntry, { readonly type: "file" }>

/** New and gone entries of one comparison beyond which nobody is looked for. */
const oneSidedAtMost = 100_000

/** What makes two entries the same content; undefined for what is too common to tell anything: empty files and directories. */
const contentOf = (history: Pick<History, "trees">, entry: StoredEntry): string | undefined => {
  if (entry.type === "symlink") return `link ${entry.target}`
  if (entry.type === "file") return entry.size === 0 ? undefined : `file ${entry.id}`
  return history.trees.count(entry.id) === 0 ? undefined : `tree ${entry.id}`
}

/** Pairs of one comparison: where each new path was, and where each gone path is. */
export interface Moves {
  readonly from: ReadonlyMap<TreePath, TreePath>
  readonly to: ReadonlyMap<TreePath, TreePath>
}

/** Entries that went from one path to another, unchanged; null when more is new or gone than is looked through. */
export const exactMoves = async (
  history: Pick<History, "trees">,
  from: Digest,
  to: Digest,
  breathe: () => Promise<void> | undefined
): Promise<Moves | null> => {
  const gone = new Map<string, Set<TreePath>>()
  const added: (readonly [path: TreePath, content: string])[] = []
  let oneSided = 0
  for (const { path, kind, before, after } of walkDiff(history.trees, from, to)) {
    await breathe()
    if (kind !== "added" && kind !== "removed") continue
    oneSided += 1
    if (oneSided > oneSidedAtMost) return null
    const content = contentOf(history, (before ?? after)!)
    if (content === undefined) continue
    if (kind === "added") added.push([path, content])
    else gone.set(content, (gone.get(content) ?? new Set()).add(path))
  }
  const moves = { from: new Map<TreePath, TreePath>(), to: new Map<TreePath, TreePath>() }
  const names = new Map<string, Map<TreePath, TreePath[]>>()
  /** The gone paths of a content by their last part, first one last. */
  const namedAlike = (content: string, paths: ReadonlySet<TreePath>, name: TreePath): TreePath | undefined => {
    let byName = names.get(content)
    if (byName === undefined) {
      byName = new Map()
      for (const path of [...paths].toReversed()) {
        const found = byName.get(basename(path))
        if (found === undefined) byName.set(basename(path), [path])
        else found.push(path)
      }
      names.set(content, byName)
    }
    const named = byName.get(name) ?? []
    while (named.length > 0 && !paths.has(named.at(-1)!)) named.pop()
    return named.at(-1)
  }
  for (const [path, content] of added) {
    await breathe()
    const paths = gone.get(content)
    if (paths === undefined || paths.size === 0) continue
    // With its directory, else by its name, else whichever comes first.
    const above = moves.from.get(parent(path))
    const beside = above === undefined ? undefined : join(above, basename(path))
    const source =
      beside !== undefined && paths.has(beside)
        ? beside
        : (namedAlike(content, paths, basename(path)) ?? (paths.values().next().value as TreePath))
    paths.delete(source)
    moves.from.set(path, source)
    moves.to.set(source, path)
  }
  return moves
}

/** Files that have gone and are read to see how alike they are, and their bytes together. */
const candidatesAtMost = 100
const candidateBytes = 32 * 1024 * 1024

/** Git's default similarity index. */
const alike = 0.5

/** Where a file that is new at `path` was in the older root: the same content, else the most alike of the files that have gone. */
export const sourceOf = async (
  history: History,
  from: Digest,
  to: Digest,
  path: TreePath,
  file: File,
  lines: readonly string[],
  breathe: () => Promise<void> | undefined
): Promise<{ readonly path: TreePath; readonly file: File } | undefined> => {
  const gone: { readonly path: TreePath; readonly file: File }[] = []
  const same: typeof gone = []
  for (const { path: at, before, after } of walkDiff(history.trees, from, to)) {
    await breathe()
    if (before?.type !== "file") continue
    const found = { path: at, file: before }
    // Content that was written over may have been moved away first.
    if (before.id === file.id && before.size === file.size && before.size > 0) same.push(found)
    else if (after?.type !== "file" && gone.length < oneSidedAtMost) gone.push(found)
  }
  const name = basename(path)
  const namedAs = (one: TreePath): number => (basename(one) === name ? 0 : 1)
  same.sort((a, b) => namedAs(a.path) - namedAs(b.path))
  if (same[0] !== undefined) return same[0]
  // A file that shares half of its lines is seldom of a quite other size: those nearest in size are read.
  const distance = (one: File): number => Math.abs(one.size - file.size)
  gone.sort((a, b) => namedAs(a.path) - namedAs(b.path) || distance(a.file) - distance(b.file))
  let read = 0
  let best: { readonly path: TreePath; readonly file: File } | undefined
  let bestScore = 0
  for (const candidate of gone.slice(0, candidatesAtMost)) {
    if (candidate.file.size > largestText || candidate.file.size === 0) continue
    read += candidate.file.size
    if (read > candidateBytes) break
    await breathe()
    const bytes = readContent(history.reader, candidate.file)
    const score = isBinary(bytes) ? 0 : likeness(linesOf(bytes), lines)
    if (score >= alike && score > bestScore) {
      best = candidate
      bestScore = score
    }
  }
  return best
}
