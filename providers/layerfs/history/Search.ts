/**
 * Paths and lines of a stored state that match a pattern, without a mount.
 * Promise: the patterns mean what they mean in an open workspace; answers come in byte order of the paths, in pages of one immutable
 * commit; a page reads a bounded number of bytes and says how many files were no text or too large; a pattern cannot hold the
 * thread for ever. Rules: L3, L12, W4.
 */
import type { TreePath } from "../../../src/base/PathBytes.ts"
import { show } from "../../../src/base/PathBytes.ts"
import type { GlobPage, GrepMatch, GrepPage } from "../../../src/workspace/WorkspaceProvider.ts"
import { readContent } from "../FileContent.ts"
import { expressionOf, globOf, isPlaceFound } from "../../../src/workspace/kit/Patterns.ts"
import { grepLines, isBinary } from "../../../src/workspace/kit/Grep.ts"
import type { CommitRow } from "../../../src/workspace/kit/RefStore.ts"
import type { GlobQuestion, GrepQuestion } from "../StoreCalls.ts"
import type { StoredEntry } from "../TreeCodec.ts"
import { walkDiff } from "../TreeDiff.ts"
import { Bounded } from "../../../src/workspace/kit/Bounded.ts"
import type { History } from "./History.ts"
import { commitOf, cursorAt, cursorFor, limitOf } from "../../../src/workspace/kit/Question.ts"
import { breathing } from "../../../src/workspace/kit/Steps.ts"

/** Bytes of text that one page reads; it ends early behind the file that passes it. */
const readAtMost = 64 * 1024 * 1024

/** A larger file is not searched. */
const largestSearched = 64 * 1024 * 1024

/** Files that are matched in one go, and their bytes together. */
const pieceFiles = 200
const pieceBytes = 1024 * 1024

/** Characters of a line that are told. */
const longestText = 2000

/** Entries that are matched in one go. */
const pieceEntries = 1000

/** Throws `RefNotFound`, `QueryInvalid`, `PatternTooSlow`. */
export const globAt = async (history: History, bounded: Bounded, input: GlobQuestion): Promise<GlobPage> => {
  const limit = limitOf(input.limit, 1000)
  const wanted = globOf(input.pattern)
  const question = { glob: input.ref, pattern: input.pattern }
  const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isPlaceFound)
  const commit = commitOf(history, input.ref, at?.commit)
  const breathe = breathing(history.cancelled)
  const found: TreePath[] = []
  let piece: TreePath[] = []
  const match = (): void => {
    if (piece.length === 0) return
    bounded.run(0, (busyWith) => {
      for (const path of piece) {
        busyWith(path)
        if (wanted(path)) found.push(path)
      }
    })
    piece = []
  }
  for (const { path } of walkDiff(history.trees, undefined, commit.root, { behind: at?.path })) {
    piece.push(path)
    if (piece.length === pieceEntries) match()
    if (found.length > limit) break
    await breathe()
  }
  match()
  const paths = found.slice(0, limit)
  const next =
    found.length > limit ? cursorFor(history.refs, question, { commit: commit.id, path: paths.at(-1)!, line: 0 }) : null
  return { paths: paths.map(show), next }
}

type File = Extract<StoredEntry, { readonly type: "file" }>
interface Piece {
  readonly path: TreePath
  readonly text: Buffer | keyof GrepPage["skipped"]
  /** Lines of it that an earlier page told. */
  readonly skip: number
}

/**
 * `locate` finds what the caller's path stands for in a commit, links followed.
 * Throws `RefNotFound`, `PathError`, `OutsideWorkspace`, `QueryInvalid`, `PatternTooSlow`, `ObjectDamaged`.
 */
export const grepAt = async (
  history: History,
  bounded: Bounded,
  input: GrepQuestion,
  locate: (commit: CommitRow) => TreePath
): Promise<GrepPage> => {
  const limit = limitOf(input.limit, 1000)
  const expression = expressionOf(input.pattern)
  const wanted = input.glob === null ? () => true : globOf(input.glob)
  const question = { grep: input.ref, pattern: String(input.pattern), path: input.path, glob: input.glob }
  const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isPlaceFound)
  const commit = commitOf(history, input.ref, at?.commit)
  const below = locate(commit)
  const breathe = breathing(history.cancelled)
  const matches: GrepMatch[] = []
  const skipped = { binary: 0, tooLarge: 0 }
  /** Where the next page begins: at this file, behind this line. */
  let rest: { readonly path: TreePath; readonly line: number } | undefined
  let piece: Piece[] = []
  let bytesOfPiece = 0
  const search = (): void => {
    bounded.run(bytesOfPiece, (busyWith) => {
      for (const { path, text: bytes, skip } of piece) {
        if (rest !== undefined) return
        busyWith(path)
        if (typeof bytes === "string") skipped[bytes] += 1
        else
          grepLines(expression, bytes, skip, (line, text) => {
            if (matches.length === limit) {
              rest = { path, line: line - 1 }
              return false
            }
            const cut = text.length > longestText
            matches.push({
              ...show(path),
              line,
              text: cut ? text.slice(0, longestText) : text,
              ...(cut ? { cut } : {})
            })
            return true
          })
      }
    })
    piece = []
    bytesOfPiece = 0
  }
  let read = 0
  const take = (path: TreePath, file: File, skip: number): void => {
    let text: Piece["text"] = "tooLarge"
    if (file.size <= largestSearched) {
      const bytes = readContent(history.reader, file)
      read += bytes.length
      text = isBinary(bytes) ? "binary" : bytes
      if (text !== "binary") bytesOfPiece += bytes.length
    }
    piece.push({ path, text, skip })
    if (piece.length >= pieceFiles || bytesOfPiece >= pieceBytes) search()
  }
  // The file that the cursor stands in comes again, for the lines behind; `behind` leaves it out.
  const files = function* (): Generator<{ readonly path: TreePath; readonly file: File; readonly skip: number }> {
    for (const { path, after } of walkDiff(history.trees, undefined, commit.root, { from: at?.path, below })) {
      if (after?.type === "file") yield { path, file: after, skip: path === at?.path ? at.line : 0 }
    }
  }
  for (const { path, file, skip } of files()) {
    if (read >= readAtMost) {
      search()
      rest ??= { path, line: skip }
    }
    if (rest !== undefined) break
    if (wanted(path)) take(path, file, skip)
    await breathe()
  }
  if (rest === undefined) search()
  const next = rest === undefined ? null : cursorFor(history.refs, question, { commit: commit.id, ...rest })
  return { matches, skipped, next }
}
