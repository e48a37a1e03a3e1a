/**
 * Bundles into a store.
 * Promise: every object is compared with its id, what the bundle says is held against itself and against the store, and nothing is missing
 * before anything counts; it counts in one transaction; commits keep their ids and roots; what is there already is not stored again,
 * also where another process brings it at the same time. Rules: L8, L10, L13, W14, W15.
 */
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Database, Durability } from "../../src/sqlite/Database.ts"
import type { BundleReceipt, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { checkClosure } from "./BundleClosure.ts"
import { BundleFile, type BundleObject } from "./BundleFormat.ts"
import {
  type BundleCommit,
  type BundleManifest,
  commitColumns,
  notAfter,
  parentsOf,
  refused
} from "./BundleManifest.ts"
import { idToBytes } from "../../src/base/DigestBytes.ts"
import { insertObjects, type ObjectWriter } from "./PackedObjects.ts"
import { insertRow } from "../../src/workspace/kit/RowSums.ts"
import type { LayerRefs } from "./LayerRefs.ts"
import { charge, type StoreQuota } from "./StoreQuota.ts"

/** How often a bundle is read again because somebody else has stored objects of it meanwhile; then some may lie there twice. */
const readings = 3

export interface BundleContext {
  readonly db: Database
  readonly refs: LayerRefs
  /** A writer with a pack of its own. */
  readonly objects: ObjectWriter
  readonly quota: StoreQuota
  readonly durability: Durability
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

/** Somebody else has stored some of these objects since they were looked for. */
class StoredMeanwhile extends Error {}

/** Throws `BundleRefused`, `StoreQuotaExceeded`, and what the store's writing throws. */
export const importBundle = async (context: BundleContext, source: TreePath): Promise<BundleReceipt> => {
  for (let reading = 1; ; reading += 1) {
    try {
      return await read(context, source, reading)
    } catch (error) {
      context.objects.abandon()
      if (!(error instanceof StoredMeanwhile)) throw error
    }
  }
}

const read = async (context: BundleContext, source: TreePath, reading: number): Promise<BundleReceipt> => {
  const { refs, objects } = context
  const shown = show(source).path
  const file = new BundleFile(source, shown)
  try {
    const manifest = file.manifest()
    objects.allow(refs.allowance(manifest.project.id))
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
      // Read again, it was told already.
      if (reading === 1)
        context.progress({ phase: "store", files: seen, bytes, totalFiles: manifest.objects, totalBytes: null })
      // Lets other calls of the worker in between.
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (context.cancelled()) throw refused("cancelled", shown)
    if (seen !== manifest.objects) throw refused("damaged", shown)
    crashPoint("layerfs.bundle.read")
    checkClosure(objects, manifest, shown)
    return await commit(context, manifest, shown, reading)
  } finally {
    file.close()
  }
}

const isClose = (a: number, b: number): boolean => a <= 2 * b && b <= 2 * a

const lacksParent = ["parent", "second_parent"]
  .map((name) => `(c.${name} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM commits p WHERE p.id = c.${name}))`)
  .join(" OR ")

/** Commits that the store does not have. One that it has is the same in every part, or `BundleRefused`. */
const freshOf = (db: Database, { commits, project }: BundleManifest, shown: string): readonly BundleCommit[] =>
  commits.filter((one) => {
    const known = db.get(`SELECT project, ${commitColumns} FROM commits WHERE id = ?`, one.id)
    if (known === undefined) return true
    const other = Object.entries({ ...one, project: project.id }).find(([name, value]) => known[name] !== value)
    if (other === undefined) return false
    throw refused("conflict", shown, { commit: one.id, detail: `${one.id} has another ${other[0]}` })
  })

/** Parents of new commits that the store has: of the same project, and earlier. */
const checkParents = (
  refs: LayerRefs,
  { commits, edges, project }: BundleManifest,
  fresh: readonly BundleCommit[],
  shown: string
): void => {
  const given = new Set(commits.map(({ id }) => id))
  const begins = new Set(edges)
  for (const one of fresh) {
    for (const above of parentsOf(one)) {
      const parent = given.has(above) ? undefined : refs.commit(above)
      const about = { commit: one.id, detail: notAfter(one.id, above) }
      if (parent !== undefined && (parent.project !== project.id || parent.dated >= one.dated))
        throw refused("invalid", shown, about)
      if (parent === undefined && !given.has(above) && !begins.has(one.id))
        throw refused("incomplete", shown, { commit: one.id })
    }
  }
}

/** History begins at what came without a parent, until another bundle brings it: then the two must fit. */
const markEdges = (db: Database, edges: readonly string[], shown: string): void => {
  const wrong = db.get(
    `SELECT c.id, p.id AS parent FROM edges e JOIN commits c ON c.id = e.commit_id
     JOIN commits p ON p.id IN (c.parent, c.second_parent) WHERE p.dated >= c.dated OR p.project <> c.project`
  )
  if (wrong !== undefined) {
    const [id, parent] = [String(wrong["id"]), String(wrong["parent"])]
    throw refused("invalid", shown, { commit: parent, detail: notAfter(id, parent) })
  }
  for (const id of edges)
    db.run(`INSERT OR IGNORE INTO edges SELECT id FROM commits c WHERE c.id = ? AND (${lacksParent})`, id)
  db.run(
    `DELETE FROM edges WHERE commit_id NOT IN (SELECT c.id FROM edges e JOIN commits c ON c.id = e.commit_id WHERE ${lacksParent})`
  )
}

const insertCommit = (db: Database, project: string, one: BundleCommit): void => {
  insertRow(db, "commits", {
    id: one.id,
    project,
    parent: one.parent,
    second_parent: one.second_parent,
    root: idToBytes(`sha256:${one.root}`),
    times: idToBytes(`sha256:${one.times}`),
    message: one.message,
    at: one.at,
    dated: one.dated,
    operation: one.operation,
    actor: one.actor,
    live: one.live
  })
}

const commit = async (
  context: BundleContext,
  manifest: BundleManifest,
  shown: string,
  reading: number
): Promise<BundleReceipt> => {
  const { db, refs, objects, quota, durability } = context
  const { project, head, edges } = manifest
  const packed = objects.flush()
  crashPoint("layerfs.bundle.packSynced")
  const added = await db.transactWithRetry(() => {
    const fresh = freshOf(db, manifest, shown)
    checkParents(refs, manifest, fresh, shown)
    insertRow(db, "projects", { id: project.id, name: project.name, source: null, stored: 0 }, "OR IGNORE")
    // Where nothing was written, the pack stays as it was, and so does what the store weighs.
    const lengths = packed.length === 0 ? new Map<number, number>() : objects.packLengths()
    charge(db, quota, project.id, lengths)
    const stored = insertObjects(db, packed, lengths)
    if (stored < packed.length && reading < readings) throw new StoredMeanwhile()
    for (const one of fresh) insertCommit(db, project.id, one)
    markEdges(db, edges, shown)
    crashPoint("layerfs.bundle.inTransaction")
    faultPoint("refs.index.commit")
    return { commits: fresh.length, objects: stored, beginsHere: edges.filter((id) => refs.isEdge(id)) }
  })
  objects.committed()
  crashPoint("layerfs.bundle.imported")
  return { project: project.id, commit: head, ...added, durability }
}
