/**
 * Bundles out of a store and into another one.
 * Promise: a bundle appears under its name whole or not at all; an import compares every object with its id and looks that
 * nothing is missing before anything counts, then counts in one transaction; commits keep their ids and roots; what is there
 * already is not stored again. Rules: L8, L10, L13, W14, W15.
 */
import { closeSync, fsyncSync, lstatSync, openSync, renameSync, rmSync, writeSync } from "node:fs"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { parent, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Database, Durability, Row } from "../../src/sqlite/Database.ts"
import { ExportRefused } from "../../src/workspace/WorkspaceError.ts"
import type { BundleReceipt, ExportedBundle, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import {
  type BundleCommit,
  BundleEncoder,
  BundleFile,
  type BundleManifest,
  type BundleObject,
  refused
} from "./BundleFormat.ts"
import { CompactPlan } from "./CompactPlan.ts"
import { visitContent } from "./FileContent.ts"
import { idToBytes } from "./ObjectId.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import { insertObjects, type ObjectWriter } from "./PackedObjects.ts"
import type { CommitRow } from "./RefStore.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"
import { syncDirectory } from "./StoreDirectory.ts"
import { StoredTrees, visitPages } from "./StoredTrees.ts"
import { charge, type StoreQuota } from "./StoreQuota.ts"

const groupBytes = 4 * 1024 * 1024
/** What the working name of a bundle ends with. */
const working = ".coppice-unfinished"

interface Scope {
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

const columns =
  "id, parent, second_parent, lower(hex(root)) AS root, lower(hex(times)) AS times, message, at, dated, operation, actor, live"

const lacksParent = ["parent", "second_parent"]
  .map((name) => `(c.${name} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM commits p WHERE p.id = c.${name}))`)
  .join(" OR ")

/** Lets other calls of the worker in between. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

interface Wanted {
  readonly commits: readonly BundleCommit[]
  /** Those that go without all of their parents. */
  readonly edges: readonly string[]
}

/** The commit, and with `history` all of its ancestors by both parents, each once. Undefined where the store lacks one unsaid. */
const commitsOf = (db: Database, refs: SqliteRefs, head: string, history: boolean): Wanted | undefined => {
  const found = new Map<string, BundleCommit>()
  const edges: string[] = []
  const open = [head]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (found.has(id)) continue
    const row: Row | undefined = db.get(`SELECT ${columns} FROM commits WHERE id = ?`, id)
    if (row === undefined) return undefined
    const commit = { ...row } as unknown as BundleCommit
    found.set(id, commit)
    const parents = [commit.parent, commit.second_parent].filter((above) => above !== null)
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

export interface ExportContext extends Scope {
  readonly db: Database
  readonly refs: SqliteRefs
  readonly reader: ObjectReader
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

export interface BundleContext extends Scope {
  readonly db: Database
  readonly refs: SqliteRefs
  /** A writer with a pack of its own. */
  readonly objects: ObjectWriter
  readonly quota: StoreQuota
  readonly durability: Durability
}

/** Throws `BundleRefused`, `StoreQuotaExceeded`, and what the store's writing throws. */
export const importBundle = async (context: BundleContext, source: TreePath): Promise<BundleReceipt> => {
  const { objects } = context
  const shown = show(source).path
  const file = new BundleFile(source, shown)
  try {
    const manifest = file.manifest()
    let seen = 0
    let bytes = 0
    for (const group of file.groups()) {
      if (context.cancelled()) throw refused("cancelled", shown)
      let before: BundleObject | undefined
      for (const object of group) {
        // They come in the order of a compaction: what lies beside is often another version.
        const isLike = before?.kind === object.kind && isClose(before.bytes.length, object.bytes.length)
        objects.writeKnown(object.kind, object.id, Buffer.from(object.bytes), isLike ? before?.id : undefined)
        before = object
        bytes += object.bytes.length
      }
      seen += group.length
      context.progress({ phase: "store", files: seen, bytes, totalFiles: manifest.objects, totalBytes: null })
      await turn()
    }
    if (context.cancelled()) throw refused("cancelled", shown)
    if (seen !== manifest.objects) throw refused("damaged", shown)
    checkClosure(context, manifest, shown)
    return await commit(context, manifest, shown)
  } catch (error) {
    objects.abandon()
    throw error
  } finally {
    file.close()
  }
}

const isClose = (a: number, b: number): boolean => a <= 2 * b && b <= 2 * a

/** Looks that every commit of the bundle is whole, here or there, before the store says that it has it. */
const checkClosure = ({ refs, objects }: BundleContext, manifest: BundleManifest, shown: string): void => {
  const given = new Set(manifest.commits.map((one) => one.id))
  const edges = new Set(manifest.edges)
  const trees = new StoredTrees(objects)
  const seen = new Set<string>()
  const need = (id: Digest): void => {
    if (!objects.has(id)) throw refused("incomplete", shown)
  }
  const pages = (id: Digest): void =>
    visitPages(objects, id, (page) => {
      need(page)
      return true
    })
  const walk = (id: Digest, timesId: Digest): void => {
    if (seen.has(`${id}${timesId}`)) return
    seen.add(`${id}${timesId}`)
    need(id)
    need(timesId)
    pages(id)
    pages(timesId)
    const tree = trees.tree(id)
    const times = trees.times(timesId, tree)
    for (const [i, entry] of tree.entries.entries()) {
      const childTimes = times[i]?.times
      if (entry.type === "directory" && childTimes !== null && childTimes !== undefined) walk(entry.id, childTimes)
      if (entry.type !== "file" || seen.has(entry.id)) continue
      seen.add(entry.id)
      visitContent(objects, entry, (part) => {
        need(part)
        return true
      })
    }
  }
  try {
    for (const one of manifest.commits) {
      const isRooted = [one.parent, one.second_parent].every(
        (id) => id === null || given.has(id) || refs.commit(id) !== undefined
      )
      if (!isRooted && !edges.has(one.id)) throw refused("incomplete", shown)
      need(`sha256:${one.times}`)
      walk(`sha256:${one.root}`, trees.root(`sha256:${one.times}`).times)
    }
  } catch (error) {
    // Bytes that match their id and mean nothing: no Coppice wrote them.
    if ((error as { _tag?: string })._tag === undefined) throw refused("damaged", shown)
    throw error
  }
}

const commit = async (context: BundleContext, manifest: BundleManifest, shown: string): Promise<BundleReceipt> => {
  const { db, refs, objects, quota, durability } = context
  const { project, head } = manifest
  const packed = objects.flush()
  const added = await db.transactWithRetry(() => {
    const fresh = manifest.commits.filter((one) => {
      const known = db.get(`SELECT project, ${columns} FROM commits WHERE id = ?`, one.id)
      if (known === undefined) return true
      const same =
        known["project"] === project.id &&
        ["root", "times", "parent", "second_parent"].every((name) => known[name] === one[name as keyof BundleCommit])
      if (!same) throw refused("conflict", shown)
      return false
    })
    db.run("INSERT OR IGNORE INTO projects (id, name, source, stored) VALUES (?, ?, NULL, 0)", project.id, project.name)
    charge(db, quota, project.id, objects.packLengths())
    insertObjects(db, packed, objects.packLengths())
    for (const one of fresh) {
      db.run(
        `INSERT INTO commits (id, project, parent, second_parent, root, times, message, at, dated, operation, actor, live)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        one.id,
        project.id,
        one.parent,
        one.second_parent,
        idToBytes(`sha256:${one.root}`),
        idToBytes(`sha256:${one.times}`),
        one.message,
        one.at,
        one.dated,
        one.operation,
        one.actor,
        one.live
      )
    }
    // Where history begins here: at what came without a parent, until another bundle brings it.
    for (const id of manifest.edges)
      db.run(`INSERT OR IGNORE INTO edges SELECT id FROM commits c WHERE c.id = ? AND (${lacksParent})`, id)
    db.run(
      `DELETE FROM edges WHERE commit_id NOT IN (SELECT c.id FROM edges e JOIN commits c ON c.id = e.commit_id WHERE ${lacksParent})`
    )
    crashPoint("layerfs.bundle.inTransaction")
    faultPoint("layerfs.index.commit")
    return { commits: fresh.length, beginsHere: manifest.edges.filter((id) => refs.isEdge(id)) }
  })
  objects.committed()
  crashPoint("layerfs.bundle.imported")
  return { project: project.id, commit: head, ...added, objects: packed.length, durability }
}
