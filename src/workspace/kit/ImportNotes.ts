/**
 * Collects what an import finds worth knowing.
 * Promise: every note is counted, of each kind the first 500 by path are given, in an order that does not depend on which thread
 * was faster; no note holds content of a file or an absolute path. Rules: W13.
 */
import { compare, show, type TreePath } from "../../base/PathBytes.ts"
import type { ImportNote, ImportNoteKind, ImportReceipt } from "../WorkspaceProvider.ts"

/** Notes of one kind that a receipt holds at most: it is a row in the index and an answer to a call. */
const given = 500

export class ImportNotes {
  readonly #byKind = new Map<ImportNoteKind, { readonly path: TreePath; readonly detail: string }[]>()

  add(kind: ImportNoteKind, path: TreePath, detail: string): void {
    const notes = this.#byKind.get(kind)
    if (notes === undefined) this.#byKind.set(kind, [{ path, detail }])
    else notes.push({ path, detail })
  }

  /** Paths that were found and are no part of the import. */
  leftOut(): TreePath[] {
    const kinds: readonly ImportNoteKind[] = [
      "skippedSpecialFile",
      "skippedUnreadable",
      "skippedPathTooLong",
      "skippedStore"
    ]
    return kinds.flatMap((kind) => (this.#byKind.get(kind) ?? []).map(({ path }) => path))
  }

  forReceipt(): Pick<ImportReceipt, "notes" | "noteCounts"> {
    const notes: ImportNote[] = []
    const noteCounts: Partial<Record<ImportNoteKind, number>> = {}
    for (const [kind, found] of [...this.#byKind].sort(([a], [b]) => compare(a, b))) {
      noteCounts[kind] = found.length
      const first = found.sort((a, b) => compare(a.path, b.path)).slice(0, given)
      notes.push(...first.map(({ path, detail }) => ({ kind, path: show(path), detail })))
    }
    return { notes, noteCounts }
  }
}
