/**
 * Blame: for each line of a file the commit that it comes from, through renames and both parents of a merge.
 * Promise: a version whose content is that of its parent is passed over unread; a line goes to the parent that has it, the first one
 * first, as git has it; what lines cannot be matched is said; the answer is a page of lines of one immutable commit.
 * Rules: L3, W3; C25. Source of the way it is done: git's blame.c, `pass_blame`.
 */
import type { TreePath } from "../../../src/base/PathBytes.ts"
import { show } from "../../../src/base/PathBytes.ts"
import { NotText } from "../../../src/workspace/WorkspaceError.ts"
import { readContent } from "../FileContent.ts"
import type { CommitRow } from "../../../src/workspace/kit/RefStore.ts"
import type { BlameQuestion, BlameReply, LineOrigin } from "../StoreCalls.ts"
import type { Answer } from "../../../src/workspace/kit/Questions.ts"
import type { StoredEntry } from "../TreeCodec.ts"
import { isBinary } from "../../../src/workspace/kit/Grep.ts"
import { largestText, linesOf, matchLines } from "./Lines.ts"
import { invalid } from "../../../src/workspace/kit/Invalid.ts"
import { commitOf, cursorAt, cursorFor, limitOf } from "../../../src/workspace/kit/Question.ts"
import { breathing } from "../../../src/workspace/kit/Steps.ts"
import { sourceOf } from "./Renames.ts"
import type { History } from "./History.ts"
import { entryAt } from "./TreeAt.ts"

type File = Extract<StoredEntry, { readonly type: "file" }>

/** One version of the file that lines are still traced in. */
interface Version {
  readonly commit: CommitRow
  readonly path: TreePath
  readonly file: File
  /** Pairs of a line's index in the answer and its index here. */
  lines: (readonly [asked: number, here: number])[]
}

const refuse = (reason: NotText["reason"], path: TreePath): NotText =>
  new NotText({
    message:
      reason === "binary" ? "This file is binary; it has no lines." : "This file is too large to be blamed by line.",
    remedy: "Ask `log` with this path for the commits that changed it.",
    reason,
    path: show(path).path,
    limitBytes: largestText
  })

/** The file of a path in a commit, when it is one. */
const fileIn = (history: History, commit: CommitRow, path: TreePath): File | undefined => {
  const entry = entryAt(history.trees, commit.root, path)
  return entry?.type === "file" ? entry : undefined
}

interface At {
  readonly commit: string
  readonly line: number
}
const isAt = (at: unknown): at is At =>
  typeof at === "object" &&
  at !== null &&
  typeof (at as At).commit === "string" &&
  Number.isInteger((at as At).line) &&
  (at as At).line > 0

/**
 * A page of lines. `locate` finds the file of the caller's path in a commit, links followed.
 * Throws `RefNotFound`, `PathError`, `OutsideWorkspace`, `NotText`, `QueryInvalid`, `ObjectDamaged`.
 */
export const blame = async (
  history: History,
  input: BlameQuestion,
  locate: (commit: CommitRow) => TreePath
): Promise<Answer<BlameReply>> => {
  const limit = limitOf(input.limit, 1000)
  const question = { blame: input.ref, path: input.path }
  const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isAt)
  const commit = commitOf(history, input.ref, at?.commit)
  const path = locate(commit)
  const file = fileIn(history, commit, path)!
  const readable = (one: File): readonly string[] | NotText["reason"] => {
    if (one.size > largestText) return "tooLarge"
    const bytes = readContent(history.reader, one)
    return isBinary(bytes) ? "binary" : linesOf(bytes)
  }
  const asked = readable(file)
  if (typeof asked === "string") throw refuse(asked, path)
  const first = at?.line ?? 0
  if (first > 0 && first >= asked.length) throw invalid("after")
  const last = Math.min(asked.length, first + limit)

  const origins: LineOrigin[] = []
  const commits = new Map<string, CommitRow>()
  const coarse = new Set<string>()
  const beginsHere = new Set<string>()
  const breathe = breathing(history.cancelled)
  /** Versions in turn, the last dated commit first: all that can lead to a commit has been when its turn comes. */
  const open = new Map<string, Version>()
  const pass = (version: Omit<Version, "lines">, lines: Version["lines"]): void => {
    if (lines.length === 0) return
    const key = `${version.commit.id} ${version.path}`
    const known = open.get(key)
    if (known === undefined) open.set(key, { ...version, lines })
    else known.lines.push(...lines)
  }
  const settle = ({ commit: of, path: there }: Version, lines: Version["lines"]): void => {
    if (lines.length > 0) commits.set(of.id, of)
    for (const [index, here] of lines) {
      origins[index - first] = {
        line: index + 1,
        text: asked[index]!,
        commit: of.id,
        path: there,
        originalLine: here + 1
      }
    }
  }
  /** Hands the lines that the parent has to its version, and keeps the rest. */
  const handOver = async (version: Version, contents: { lines?: readonly string[] }, to: CommitRow): Promise<void> => {
    const same = fileIn(history, to, version.path)
    if (same?.id === version.file.id && same.size === version.file.size) {
      pass({ commit: to, path: version.path, file: same }, version.lines)
      version.lines = []
      return
    }
    contents.lines ??= readable(version.file) as readonly string[]
    const { lines } = contents
    const found =
      same === undefined
        ? await sourceOf(history, to.root, version.commit.root, version.path, version.file, lines, breathe)
        : { path: version.path, file: same }
    if (found === undefined) return
    if (found.file.id === version.file.id) {
      pass({ commit: to, ...found }, version.lines)
      version.lines = []
      return
    }
    const older = readable(found.file)
    // What was no text has no lines that could have come from it.
    if (typeof older === "string") return
    await breathe()
    const { before, coarse: tooMuch } = matchLines(older, lines)
    if (tooMuch) coarse.add(version.commit.id)
    const kept: Version["lines"] = []
    const handed: Version["lines"] = []
    for (const line of version.lines) {
      const there = before[line[1]]!
      if (there < 0) kept.push(line)
      else handed.push([line[0], there])
    }
    version.lines = kept
    pass({ commit: to, ...found }, handed)
  }

  pass(
    { commit, path, file },
    Array.from({ length: last - first }, (_, i) => [first + i, first + i] as const)
  )
  while (open.size > 0) {
    const version = [...open.values()].reduce((a, b) => (b.commit.dated > a.commit.dated ? b : a))
    open.delete(`${version.commit.id} ${version.path}`)
    const contents = {}
    const above = history.refs.parentsOf(version.commit)
    for (const parent of above.parents) {
      if (version.lines.length > 0) await handOver(version, contents, parent)
    }
    if (above.beginsHere && version.lines.length > 0) beginsHere.add(version.commit.id)
    settle(version, version.lines)
    await breathe()
  }
  const next = last >= asked.length ? null : cursorFor(history.refs, question, { commit: commit.id, line: last })
  const rows = [...commits.values()].sort((a, b) => b.dated - a.dated)
  return {
    commit: commit.id,
    path,
    totalLines: asked.length,
    lines: origins,
    commits: rows,
    coarse: [...coarse],
    beginsHere: [...beginsHere],
    next
  }
}
