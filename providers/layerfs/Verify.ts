/**
 * Reading everything back, and counting what is there.
 * Promise: every object is compared with its id from the files, not from a cache; a damaged one is named with the paths and
 * so the commits that hold it; what was not measured is null. Rules: L10, L11, W3, W15.
 */
import { statSync } from "node:fs"
import type { Digest } from "../../src/base/Digest.ts"
import { join, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import type { Progress, StoreStats, VerifyReport } from "../../src/workspace/WorkspaceProvider.ts"
import { visitContent } from "./FileContent.ts"
import { zeroBlock } from "./ObjectId.ts"
import { kindNumber } from "./PackedObjects.ts"
import { packHeaderLength } from "./PackFile.ts"
import { changedRows } from "../../src/workspace/kit/RowSums.ts"
import type { LayerRefs } from "./LayerRefs.ts"
import type { StoreDirectories } from "./LayerDirectories.ts"
import { StoredTrees, visitPages } from "./StoredTrees.ts"
import type { StoreQuota } from "./StoreQuota.ts"
import { type PackedStore, type SeenObjects, verifyObjects } from "./VerifyObjects.ts"

/** Packs that end, by their row, before what lies in them. */
const shortPacks = (db: Database): string[] =>
  db
    .all(
      `SELECT p.id FROM (SELECT pack, max(offset + length) AS end FROM groups GROUP BY pack) g JOIN packs p ON p.id = g.pack
       WHERE p.length < g.end LIMIT 100`
    )
    .map((row) => `packs: the row of ${String(row["id"])} says that the pack ends before what lies in it`)

/** Paths and commits named per damaged object at most. */
const named = 20

export interface VerifyContext extends PackedStore {
  readonly refs: LayerRefs
  readonly progress: (progress: Progress) => void
}

/** The kinds of objects that `nameDamage` reads. */
const walked = new Set((["tree", "times", "list"] as const).map(kindNumber))

/** What is known of a lost object while the commits are walked. */
interface Damage {
  readonly paths: Set<TreePath>
  readonly commits: Set<string>
}

/** Bytes of the packs that no group covers; each pack begins with its header. */
const unreferenced = (db: Database): number =>
  Number(
    db.get(
      `SELECT (SELECT total(max(length - ${packHeaderLength}, 0)) FROM packs) -
              (SELECT total(length) FROM groups) AS n`
    )?.["n"] ?? 0
  )

/** Parents that no row has, although no bundle brought their child without them. */
const lostParents = (db: Database): string[] =>
  db
    .all(
      `SELECT c.id, p.value AS parent FROM commits c, json_each(json_array(c.parent, c.second_parent)) p
       WHERE p.value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM commits k WHERE k.id = p.value)
         AND NOT EXISTS (SELECT 1 FROM edges e WHERE e.commit_id = c.id) ORDER BY c.id LIMIT 100`
    )
    .map((row) => `commit ${String(row["parent"])} is lost: ${String(row["id"])} grew from it`)

export const verifyStore = (context: VerifyContext): VerifyReport => {
  const { reader, refs, progress } = context
  const damaged = new Map<Digest, Damage>()
  const totals = reader.totals()
  // Reachability too: an object that no index row names any more is as lost as a damaged one.
  const seen = verifyObjects(
    context,
    (kind) => walked.has(kind),
    (id) => damaged.set(id, { paths: new Set(), commits: new Set() }),
    (files, bytes) => progress({ phase: "verify", files, bytes, ...totals })
  )
  nameDamage(refs, seen, damaged)
  const index = context.db
    .all("PRAGMA integrity_check(100)")
    .map((row) => String(row["integrity_check"]))
    .filter((line) => line !== "ok")
    .concat(lostParents(context.db), changedRows(context.db), shortPacks(context.db))
  return {
    ok: damaged.size === 0 && index.length === 0,
    objects: seen.size,
    damaged: [...damaged].map(([object, { paths, commits }]) => ({
      object,
      paths: [...paths].slice(0, named).map(show),
      commits: [...commits].slice(0, named),
      commitCount: commits.size
    })),
    index,
    unreferencedBytes: unreferenced(context.db)
  }
}

/** Walks every commit, newest first, and puts the paths and commits that want lost objects beside their ids. */
const nameDamage = (refs: LayerRefs, objects: SeenObjects, damaged: Map<Digest, Damage>): void => {
  let commit = ""
  const trees = new StoredTrees(objects)
  const isLost = (id: Digest, path: TreePath): boolean => {
    if (id !== zeroBlock && !objects.has(id) && !damaged.has(id))
      damaged.set(id, { paths: new Set(), commits: new Set() })
    const known = damaged.get(id)
    known?.paths.add(path)
    known?.commits.add(commit)
    return known !== undefined
  }
  const pagesLost = (id: Digest, path: TreePath): boolean => {
    let lost = false
    visitPages(objects, id, (page) => {
      const isGone = isLost(page, path)
      lost ||= isGone
      return !isGone
    })
    return lost
  }
  // A subtree seen once under one path is not walked again, unless something in it is lost and wants all its names.
  const clean = new Set<string>()
  /** Without `timesId` where the times are lost: what lies in the tree wants its names all the same. */
  const walk = (id: Digest, timesId: Digest | undefined, path: TreePath): boolean => {
    const key = `${id} ${timesId}`
    if (clean.has(key)) return true
    if (isLost(id, path)) return false
    if (pagesLost(id, path)) return false
    const tree = trees.tree(id)
    const timesLost = timesId !== undefined && (isLost(timesId, path) || pagesLost(timesId, path))
    const times = timesLost || timesId === undefined ? [] : trees.times(timesId, tree)
    let whole = !timesLost
    for (const [i, entry] of tree.entries.entries()) {
      const child = join(path, entry.name)
      if (entry.type === "directory") {
        whole = walk(entry.id, times[i]?.times ?? undefined, child) && whole
      } else if (entry.type === "file") {
        visitContent(objects, entry, (id) => {
          const lost = isLost(id, child)
          whole = whole && !lost
          return !lost
        })
      }
    }
    if (whole) clean.add(key)
    return whole
  }
  for (const one of refs.states().toReversed()) {
    commit = one.id
    walk(one.root, isLost(one.times, "") ? undefined : trees.root(one.times).times, "")
  }
}

const sizeOf = (path: string): number => {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

export const readStats = (db: Database, directories: StoreDirectories, quota: StoreQuota): StoreStats => {
  const sum = (sql: string): number => Number(db.get(`SELECT total(length) AS n FROM ${sql}`)?.["n"] ?? 0)
  const uniqueBytes = sum("objects")
  const storedBytes = sum("packs")
  const indexBytes = sizeOf(directories.index) + sizeOf(`${directories.index}-wal`)
  const count = (table: string): number => Number(db.get(`SELECT count(*) AS n FROM ${table}`)?.["n"] ?? 0)
  return {
    objects: count("objects"),
    // The sum over what branches show is not kept; walking every tree for it is not what stats is for.
    logicalBytes: null,
    uniqueBytes,
    metadataBytes: sum(`objects WHERE kind IN (${kindNumber("tree")}, ${kindNumber("times")})`),
    storedBytes,
    freeBytes: unreferenced(db),
    indexBytes,
    dedupRatio: null,
    compressionRatio: storedBytes === 0 ? null : uniqueBytes / storedBytes,
    commits: count("commits"),
    layers: count("layers"),
    branches: count("branches"),
    quota: { storeBytes: quota.store, projectBytes: quota.project },
    projects: db.all("SELECT id, name, stored FROM projects ORDER BY id").map((row) => ({
      id: String(row["id"]),
      name: String(row["name"]),
      storedBytes: row["stored"] === null ? null : Number(row["stored"])
    }))
  }
}
