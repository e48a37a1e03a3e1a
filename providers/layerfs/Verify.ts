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
import { type ObjectReader, verifyObjects } from "./ObjectReader.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"
import type { StoreDirectories } from "./StoreDirectory.ts"
import { StoredTrees, visitPages } from "./StoredTrees.ts"
import type { StoreQuota } from "./StoreQuota.ts"

/** Paths named per damaged object at most. */
const namedPaths = 20

export interface VerifyContext {
  readonly refs: SqliteRefs
  readonly trees: StoredTrees
  readonly reader: ObjectReader
  readonly progress: (progress: Progress) => void
}

export const verifyStore = (context: VerifyContext): VerifyReport => {
  const { reader, refs, progress } = context
  const damaged = new Map<Digest, Set<TreePath>>()
  const totals = reader.totals()
  const objects = verifyObjects(
    reader,
    (id) => damaged.set(id, new Set()),
    (files, bytes) => progress({ phase: "verify", files, bytes, ...totals })
  )
  // Reachability too: an object that no index row names any more is as lost as a damaged one.
  const present = new Set<Digest>([zeroBlock])
  for (const { id } of reader.all()) present.add(id)
  nameDamage(refs, reader, present, damaged)
  return {
    ok: damaged.size === 0,
    objects,
    damaged: [...damaged].map(([object, paths]) => ({ object, paths: [...paths].slice(0, namedPaths).map(show) }))
  }
}

/** Walks every commit and puts the paths of lost objects beside their ids. */
const nameDamage = (
  refs: SqliteRefs,
  reader: ObjectReader,
  present: ReadonlySet<Digest>,
  damaged: Map<Digest, Set<TreePath>>
): void => {
  const trees = new StoredTrees(reader)
  const isLost = (id: Digest, path: TreePath): boolean => {
    if (!present.has(id) && !damaged.has(id)) damaged.set(id, new Set())
    const paths = damaged.get(id)
    paths?.add(path)
    return paths !== undefined
  }
  const pagesLost = (id: Digest, path: TreePath): boolean => {
    let lost = false
    visitPages(reader, id, (page) => {
      const isGone = isLost(page, path)
      lost ||= isGone
      return !isGone
    })
    return lost
  }
  // A subtree seen once under one path is not walked again, unless something in it is lost and wants all its names.
  const clean = new Set<string>()
  const walk = (id: Digest, timesId: Digest, path: TreePath): boolean => {
    const key = `${id} ${timesId}`
    if (clean.has(key)) return true
    if (isLost(id, path)) return false
    if (pagesLost(id, path)) return false
    const tree = trees.tree(id)
    const timesLost = isLost(timesId, path) || pagesLost(timesId, path)
    const times = timesLost ? [] : trees.times(timesId, tree)
    let whole = !timesLost
    for (const [i, entry] of tree.entries.entries()) {
      const child = join(path, entry.name)
      if (entry.type === "directory") {
        const childTimes = times[i]?.times
        if (childTimes !== null && childTimes !== undefined) whole = walk(entry.id, childTimes, child) && whole
      } else if (entry.type === "file") {
        visitContent(reader, entry, (id) => {
          const lost = isLost(id, child)
          whole = whole && !lost
          return !lost
        })
      }
    }
    if (whole) clean.add(key)
    return whole
  }
  for (const commit of refs.commits()) {
    if (isLost(commit.times, "")) continue
    walk(commit.root, trees.root(commit.times).times, "")
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
  const count = (table: string): number => Number(db.get(`SELECT count(*) AS n FROM ${table}`)?.["n"] ?? 0)
  return {
    objects: count("objects"),
    // The sum over what branches show is not kept; walking every tree for it is not what stats is for.
    logicalBytes: null,
    storedBytes: Number(db.get("SELECT coalesce(sum(length), 0) AS n FROM packs")?.["n"] ?? 0),
    indexBytes: sizeOf(directories.index) + sizeOf(`${directories.index}-wal`),
    commits: count("commits"),
    branches: count("branches"),
    quota: { storeBytes: quota.store, projectBytes: quota.project },
    projects: db.all("SELECT id, name, stored FROM projects ORDER BY id").map((row) => ({
      id: String(row["id"]),
      name: String(row["name"]),
      storedBytes: row["stored"] === null ? null : Number(row["stored"])
    }))
  }
}
