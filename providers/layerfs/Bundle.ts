/**
 * Bundles out of a store.
 * Promise: a bundle appears under its name whole or not at all, and holds all that its commits need; where the store itself has no more of a
 * history, the bundle says so. Rules: L8, L10, L13, W14.
 */
import { closeSync, fsyncSync, lstatSync, openSync, renameSync, rmSync, writeSync } from "node:fs"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { parent, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Database, Row } from "../../src/sqlite/Database.ts"
import { ExportRefused } from "../../src/workspace/WorkspaceError.ts"
import type { ExportedBundle, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { BundleEncoder, type BundleObject } from "./BundleFormat.ts"
import { type BundleCommit, type BundleManifest, commitColumns, parentsOf } from "./BundleManifest.ts"
import { CompactPlan } from "./CompactPlan.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { LayerRefs } from "./LayerRefs.ts"
import { syncDirectory } from "../../src/workspace/kit/StoreDirectory.ts"

const groupBytes = 4 * 1024 * 1024
/** What the working name of a bundle ends with. */
const working = ".coppice-unfinished"

/** Lets other calls of the worker in between. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

interface Wanted {
  readonly commits: readonly BundleCommit[]
  /** Those that go without all of their parents. */
  readonly edges: readonly string[]
}

/** The commit, and with `history` all of its ancestors by both parents, each once. Undefined where the store lacks one unsaid. */
const commitsOf = (db: Database, refs: LayerRefs, head: string, history: boolean): Wanted | undefined => {
  const found = new Map<string, BundleCommit>()
  const edges: string[] = []
  const open = [head]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (found.has(id)) continue
    const row: Row | undefined = db.get(`SELECT ${commitColumns} FROM commits WHERE id = ?`, id)
    if (row === undefined) return undefined
    const commit = { ...row } as unknown as BundleCommit
    found.set(id, commit)
    const parents = parentsOf(commit)
    const isEdge = history ? refs.isEdge(id) : parents.length > 0
    if (isEdge) edges.push(id)
    if (history) open.push(...(isEdge ? parents.filter((above) => refs.commit(above) !== undefined) : parents))
  }
  return { commits: [...found.values()], edges }
}

const refuseTarget = (path: TreePath, message: string): ExportRefused =>
  new ExportRefused({
    message,
    remedy: "Give the path of a new file in a directory that this user can write to.",
    path: show(path).path
  })

const refuseIncomplete = (target: TreePath): ExportRefused =>
  new ExportRefused({
    message: "The store lacks a commit of this history, and nothing says that its history begins there.",
    remedy: "Restore index.db from a backup, or export with `history: false`. Nothing was written.",
    path: show(target).path
  })

/** Writes to a working name, flushed and renamed at the end. */
class NewFile {
  readonly #target: TreePath
  readonly #fd: number
  #at = 0

  constructor(target: TreePath) {
    this.#target = target
    const exists = lstatSync(this.#name(""), { throwIfNoEntry: false }) !== undefined
    if (exists) throw refuseTarget(target, "The file of the bundle exists already.")
    faultPoint("file.open")
    try {
      this.#fd = openSync(this.#name(working), "w", 0o600)
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException
      if (syscall === undefined || code === "ENOSPC") throw error
      throw refuseTarget(target, `The file of the bundle cannot be made (${code}).`)
    }
  }

  #name(suffix: string): Buffer {
    return Buffer.from(this.#target + suffix, "latin1")
  }

  write(bytes: Buffer): void {
    faultPoint("file.write")
    for (let done = 0; done < bytes.length; )
      done += writeSync(this.#fd, bytes, done, bytes.length - done, this.#at + done)
    this.#at += bytes.length
  }

  finish(): number {
    faultPoint("file.sync")
    fsyncSync(this.#fd)
    crashPoint("layerfs.bundle.written")
    faultPoint("file.rename")
    renameSync(this.#name(working), this.#name(""))
    faultPoint("file.syncDirectory")
    syncDirectory(Buffer.from(parent(this.#target) || "/", "latin1"))
    return this.#at
  }

  /** Leaves nothing under the working name. */
  close(): void {
    closeSync(this.#fd)
    rmSync(this.#name(working), { force: true })
  }
}

export interface ExportContext {
  readonly db: Database
  readonly refs: LayerRefs
  readonly reader: ObjectReader
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

/** Throws `ExportRefused`, `ObjectDamaged`, and what the file system says. */
export const exportBundle = async (
  { db, refs, reader, progress, cancelled }: ExportContext,
  head: CommitRow,
  { target, history }: { readonly target: TreePath; readonly history: boolean }
): Promise<ExportedBundle> => {
  const refuseCancelled = (): void => {
    if (cancelled()) throw refuseTarget(target, "The export was cancelled.")
  }
  const file = new NewFile(target)
  const plan = new CompactPlan()
  try {
    // A cancellation that came with the call is heard.
    await turn()
    const wanted = commitsOf(db, refs, head.id, history)
    if (wanted === undefined) throw refuseIncomplete(target)
    const { commits, edges } = wanted
    plan.reach(db, commits, reader, cancelled)
    // What broke the walk off has left something out.
    refuseCancelled()
    const { totalFiles, totalBytes } = plan.totals()
    const manifest: BundleManifest = {
      store: refs.storeId(),
      project: { id: head.project, name: refs.project(head.project)?.name ?? "" },
      head: head.id,
      history,
      edges,
      commits,
      objects: totalFiles
    }
    const encoder = new BundleEncoder()
    file.write(encoder.begin(manifest))
    let group: BundleObject[] = []
    let waiting = 0
    let [files, bytes] = [0, 0]
    const seal = (): void => {
      if (group.length > 0) file.write(encoder.group(group))
      files += group.length
      bytes += waiting
      progress({ phase: "export", files, bytes, totalFiles, totalBytes })
      group = []
      waiting = 0
    }
    for (const { id, kind } of plan.objects()) {
      refuseCancelled()
      const object = { id, kind, bytes: reader.read(id) }
      if (waiting > 0 && waiting + object.bytes.length > groupBytes) {
        seal()
        await turn()
      }
      group.push(object)
      waiting += object.bytes.length
    }
    seal()
    file.write(encoder.end())
    return { commit: head.id, commits: commits.length, beginsHere: edges, objects: totalFiles, bytes: file.finish() }
  } finally {
    plan.close()
    file.close()
  }
}
