/**
 * Paths and lines of a kept state that match a pattern, without a directory of it.
 * Promise: the patterns mean what they mean in an open workspace; answers come in byte order of the paths, in pages of one immutable
 * commit; a page reads a bounded number of bytes and says how many files were no text or too large. Rules: L3, L12, W4.
 */
import { show, type TreePath } from "../../base/PathBytes.ts"
import type { GlobPage, GrepMatch, GrepPage } from "../WorkspaceProvider.ts"
import type { CommitTree, KeptEntry } from "./CommitTree.ts"
import { isBinary } from "./Grep.ts"
import type { GrepThread } from "./GrepThread.ts"
import { expressionOf, globOf, isPlaceFound } from "./Patterns.ts"
import { commitOf, cursorAt, cursorFor, limitOf, type RefHistory } from "./Question.ts"
import { breathing } from "./Steps.ts"
import type { GrepTexts, Paged } from "./Questions.ts"
import type { CommitRow } from "./RefStore.ts"
import type { Piece } from "./SnapshotBackend.ts"

/** Bytes that one page reads, and the largest file that is searched. */
const readAtMost = 64 * 1024 * 1024
/** Files and bytes that go to the thread at once. */
const atOnce = { files: 200, bytes: 1024 * 1024 }
/** Characters of a line that are told. */
const longestText = 2000

export interface SearchParts extends RefHistory {
  readonly treeOf: (commit: string) => Promise<CommitTree>
  readonly contents: (commit: CommitRow, paths: readonly TreePath[]) => AsyncIterable<Piece>
  readonly thread: GrepThread
}

/** Rejects with `RefNotFound`, `QueryInvalid`. */
export const globKept = async (
  parts: SearchParts,
  input: Paged & { readonly ref: string; readonly pattern: string }
): Promise<GlobPage> => {
  const limit = limitOf(input.limit, 1000)
  const wanted = globOf(input.pattern)
  const question = { glob: input.ref, pattern: input.pattern }
  const at = input.after === undefined ? undefined : cursorAt(parts.refs, question, input.after, isPlaceFound)
  const commit = commitOf(parts, input.ref, at?.commit)
  const breathe = breathing(parts.cancelled)
  const paths: TreePath[] = []
  for (const { path } of (await parts.treeOf(commit.id)).below("")) {
    await breathe()
    if ((at !== undefined && path <= at.path) || !wanted(path)) continue
    if (paths.length === limit) {
      const next = cursorFor(parts.refs, question, { commit: commit.id, path: paths.at(-1)!, line: 0 })
      return { paths: paths.map(show), next }
    }
    paths.push(path)
  }
  return { paths: paths.map(show), next: null }
}

/** The files of a batch with their bytes, whole. */
const texts = async function* (
  parts: SearchParts,
  commit: CommitRow,
  files: readonly KeptEntry[]
): AsyncGenerator<{ readonly path: TreePath; readonly bytes: Buffer }> {
  let pieces: Uint8Array[] = []
  for await (const { path, bytes, zeros = 0, last } of parts.contents(
    commit,
    files.map((file) => file.path)
  )) {
    pieces.push(bytes, new Uint8Array(zeros))
    if (!last) continue
    yield { path, bytes: Buffer.concat(pieces) }
    pieces = []
  }
}

/** The files in groups that are read and searched together. */
const batches = function* (files: readonly KeptEntry[]): Generator<readonly KeptEntry[]> {
  let batch: KeptEntry[] = []
  let bytes = 0
  for (const file of files) {
    batch.push(file)
    bytes += file.size <= readAtMost ? file.size : 0
    if (batch.length < atOnce.files && bytes < atOnce.bytes) continue
    yield batch
    batch = []
    bytes = 0
  }
  if (batch.length > 0) yield batch
}

export interface GrepKept extends Paged {
  readonly ref: string
  readonly pattern: RegExp
  readonly path: TreePath
  readonly glob: string | null
}

/**
 * `locate` finds what the caller's path stands for in a commit, links followed.
 * Rejects with `RefNotFound`, `PathError`, `OutsideWorkspace`, `QueryInvalid`, `PatternTooSlow`, `ObjectDamaged`.
 */
export const grepKept = async (
  parts: SearchParts,
  input: GrepKept,
  locate: (commit: CommitRow) => Promise<TreePath>
): Promise<GrepPage> => {
  const limit = limitOf(input.limit, 1000)
  const expression = expressionOf(input.pattern)
  const wanted = input.glob === null ? () => true : globOf(input.glob)
  const question = { grep: input.ref, pattern: String(input.pattern), path: input.path, glob: input.glob }
  const at = input.after === undefined ? undefined : cursorAt(parts.refs, question, input.after, isPlaceFound)
  const commit = commitOf(parts, input.ref, at?.commit)
  const below = await locate(commit)
  const tree = await parts.treeOf(commit.id)
  const files = [...tree.below(below)].filter(
    ({ type, path }) => type === "file" && (at === undefined || path >= at.path) && wanted(path)
  )
  const breathe = breathing(parts.cancelled)
  const matches: GrepMatch[] = []
  const skipped = { binary: 0, tooLarge: 0 }
  const skipOf = (path: TreePath): number => (path === at?.path ? at.line : 0)
  const page = (rest: { readonly path: TreePath; readonly line: number } | undefined): GrepPage => ({
    matches,
    skipped,
    next: rest === undefined ? null : cursorFor(parts.refs, question, { commit: commit.id, ...rest })
  })
  let read = 0
  for (const batch of batches(files)) {
    await breathe()
    if (read >= readAtMost) return page({ path: batch[0]!.path, line: skipOf(batch[0]!.path) })
    const small = batch.filter((file) => file.size <= readAtMost)
    const found: GrepTexts["texts"][number][] = []
    let binary = 0
    for await (const { path, bytes } of texts(parts, commit, small)) {
      read += bytes.length
      if (isBinary(bytes)) binary += 1
      else found.push({ path, bytes, skip: skipOf(path) })
    }
    // One more than fits: there is a next page.
    const lines = await parts.thread.find({ pattern: expression, texts: found, limit: limit - matches.length + 1 })
    const extra = lines[limit - matches.length]
    for (const line of lines.slice(0, limit - matches.length)) {
      const cut = line.text.length > longestText
      matches.push(cut ? { ...line, text: line.text.slice(0, longestText), cut } : line)
    }
    if (extra !== undefined) {
      const path = extra.pathBytes === undefined ? Buffer.from(extra.path) : Buffer.from(extra.pathBytes, "base64")
      return page({ path: path.toString("latin1"), line: extra.line - 1 })
    }
    skipped.binary += binary
    skipped.tooLarge += batch.length - small.length
  }
  return page(undefined)
}
