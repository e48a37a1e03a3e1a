/**
 * What a compaction writes, and in which order: every object of the chosen packs beside the ones that it is like.
 * Promise: memory stays bounded, because the plan is a temporary SQLite file, which is gone with the process; a directory or
 * file of which something is damaged loses its place in the order, nothing else. Rules: L9, L12; 04 "Storage"; 01 (bounded memory).
 */
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { visitContent } from "./FileContent.ts"
import { idFromBytes, idToBytes } from "../../src/base/DigestBytes.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import { damaged } from "./StoreReader.ts"
import type { ObjectKind } from "./ObjectStore.ts"
import { kindNumber, kindOf, type ObjectUse, useOf } from "./PackedObjects.ts"
import { StoredTrees, visitPages } from "./StoredTrees.ts"

export interface PlannedObject {
  readonly id: Digest
  readonly kind: ObjectKind
  readonly length: number
  /** The group that it lies in now. */
  readonly group: number
  /** Objects of equal lines are versions of one path, the newest first. */
  readonly line: string
  readonly version: number
  /** The newest of its line. */
  readonly isHead: boolean
}

const extensionOf = (name: TreePath): string => {
  const dot = name.lastIndexOf(".")
  return dot > 0 ? name.slice(dot) : ""
}

/** Ids of a commit's root and of its root record. */
type Named = readonly [Digest, Digest]

export class CompactPlan {
  readonly #plan = new DatabaseSync("")
  readonly #place: StatementSync
  readonly #walked: StatementSync
  readonly #moved: StatementSync
  #unused: readonly number[] = []

  constructor() {
    this.#plan.exec(`
      PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;
      CREATE TABLE plan (
        id BLOB PRIMARY KEY, kind INTEGER NOT NULL, grp INTEGER NOT NULL, length INTEGER NOT NULL,
        ext TEXT NOT NULL DEFAULT '', name TEXT NOT NULL DEFAULT '', path TEXT, at INTEGER NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0, head INTEGER NOT NULL DEFAULT 0
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE left (grp INTEGER PRIMARY KEY, pack INTEGER NOT NULL, length INTEGER NOT NULL, objects INTEGER NOT NULL) STRICT;
      CREATE TABLE walked (id BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;`)
    this.#place = this.#plan.prepare(
      "UPDATE plan SET ext = ?, name = ?, path = ?, at = ?, version = ? WHERE id = ? AND path IS NULL"
    )
    this.#walked = this.#plan.prepare("INSERT OR IGNORE INTO walked (id) VALUES (?)")
    this.#moved = this.#plan.prepare(
      "UPDATE left SET objects = objects - 1 WHERE grp = ? RETURNING objects, pack, length"
    )
  }

  /** Takes in every object of the packs, then the groups in which none is left. */
  collect(db: Database, packs: readonly number[]): void {
    const addGroup = this.#plan.prepare("INSERT INTO left (grp, pack, length, objects) VALUES (?, ?, ?, 0)")
    const find = "SELECT id, pack, length FROM groups WHERE pack IN (SELECT value FROM json_each(?))"
    for (const row of db.raw.prepare(find).iterate(JSON.stringify(packs)))
      addGroup.run(Number(row["id"]), Number(row["pack"]), Number(row["length"]))
    const add = this.#plan.prepare("INSERT INTO plan (id, kind, grp, length) VALUES (?, ?, ?, ?)")
    const count = this.#plan.prepare("UPDATE left SET objects = objects + 1 WHERE grp = ?")
    for (const row of db.raw.prepare("SELECT id, kind, grp, length FROM objects").iterate()) {
      if (count.run(Number(row["grp"])).changes === 0) continue
      add.run(row["id"] as Uint8Array, Number(row["kind"]), Number(row["grp"]), Number(row["length"]))
    }
    this.#unused = this.#plan
      .prepare("SELECT grp FROM left WHERE objects = 0")
      .all()
      .map((row) => Number(row["grp"]))
  }

  /** Takes in every object that the commits need, and finds its path. Throws `ObjectDamaged`. */
  reach(
    db: Database,
    commits: readonly { readonly root: string; readonly times: string; readonly dated: number }[],
    reader: ObjectReader,
    cancelled: () => boolean
  ): void {
    const add = this.#plan.prepare("INSERT OR IGNORE INTO plan (id, kind, grp, length) VALUES (?, ?, ?, ?)")
    const admit = (id: Digest, use: ObjectUse): void => {
      const row = db.get("SELECT kind, grp, length FROM objects WHERE id = ?", idToBytes(id))
      if (row === undefined) throw damaged(id)
      // Of the same bytes in another use the store knows the kind that came first; here it is one that is used here.
      const stored = Number(row["kind"])
      const kind = useOf(kindOf(stored)) === use ? stored : kindNumber(use === "content" ? "blob" : use)
      add.run(idToBytes(id), kind, Number(row["grp"]), Number(row["length"]))
    }
    const newestFirst = commits.toSorted((a, b) => b.dated - a.dated)
    const named = newestFirst.map((one): Named => [`sha256:${one.root}`, `sha256:${one.times}`])
    this.#walk(named, reader, cancelled, admit)
  }

  /** Finds a path for each object, from the newest commit on. `cancelled` ends it early: what has no path comes first, unsorted. */
  findPaths(db: Database, reader: ObjectReader, cancelled: () => boolean): void {
    const commits = db.all("SELECT root, times FROM commits ORDER BY dated DESC, id")
    const named = commits.map(
      (row): Named => [idFromBytes(row["root"] as Uint8Array), idFromBytes(row["times"] as Uint8Array)]
    )
    this.#walk(named, reader, cancelled)
  }

  /** With `admit`, what is damaged ends it; else it only has no path. */
  #walk(
    commits: readonly Named[],
    reader: ObjectReader,
    cancelled: () => boolean,
    admit?: (id: Digest, use: ObjectUse) => void
  ): void {
    const trees = new StoredTrees(reader)
    const orSkip = admit === undefined ? skipDamaged : (run: () => void): void => run()
    let version = 0
    const put = (id: Digest, use: ObjectUse, path: TreePath, at: number): void => {
      admit?.(id, use)
      const name = path.slice(path.lastIndexOf("/") + 1)
      this.#place.run(extensionOf(name), name, path, at, version, idToBytes(id))
    }
    const walk = (id: Digest, timesId: Digest, path: TreePath): void => {
      if (this.#walked.run(Buffer.concat([idToBytes(id), idToBytes(timesId)])).changes === 0 || cancelled()) return
      put(id, "tree", path, 0)
      put(timesId, "times", path, 0)
      pages(id, "tree", path)
      pages(timesId, "times", path)
      const tree = trees.tree(id)
      const times = trees.times(timesId, tree)
      for (const [i, entry] of tree.entries.entries()) {
        const child = join(path, entry.name)
        if (entry.type === "file") orSkip(() => file(entry, child))
        const childTimes = times[i]?.times
        if (entry.type === "directory" && childTimes !== null && childTimes !== undefined)
          orSkip(() => walk(entry.id, childTimes, child))
      }
    }
    /** Those of a large directory: a page's place changes seldom, so versions of one page meet. */
    const pages = (id: Digest, use: ObjectUse, path: TreePath): void => {
      let at = 0
      visitPages(reader, id, (page) => {
        at += 1
        if (this.#walked.run(idToBytes(page)).changes > 0) put(page, use, path, at)
        return true
      })
    }
    const file = (entry: { readonly id: Digest; readonly size: number }, path: TreePath): void => {
      let at = 0
      visitContent(reader, entry, (id) => {
        // Pieces that versions share are the newest one's; what is left are pieces of an older one, about where it differs.
        if (this.#walked.run(idToBytes(id)).changes > 0) put(id, "content", path, at)
        else if (at === 0) return false
        at += 1
        return true
      })
    }
    for (const [rootId, timesId] of commits) {
      if (cancelled()) break
      put(timesId, "times", "", 0)
      orSkip(() => walk(rootId, trees.root(timesId).times, ""))
      version += 1
    }
    this.#plan.exec(`
      UPDATE plan SET path = '' WHERE path IS NULL;
      CREATE INDEX plan_order ON plan (kind, ext, name, path, at, version, id);
      CREATE TABLE heads AS SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY kind, ext, name, path ORDER BY at, version, id) AS n FROM plan
      ) WHERE n = 1;
      UPDATE plan SET head = 1 WHERE id IN (SELECT id FROM heads);`)
  }

  *objects(): Generator<PlannedObject> {
    const rows = this.#plan
      .prepare(
        "SELECT id, kind, grp, length, path, version, head FROM plan ORDER BY kind, ext, name, path, at, version, id"
      )
      .iterate()
    for (const row of rows) {
      yield {
        id: idFromBytes(row["id"] as Uint8Array),
        kind: kindOf(Number(row["kind"])),
        length: Number(row["length"]),
        group: Number(row["grp"]),
        line: `${String(row["kind"])} ${String(row["path"])}`,
        version: Number(row["version"]),
        isHead: row["head"] === 1
      }
    }
  }

  totals(): { readonly totalFiles: number; readonly totalBytes: number } {
    const row = this.#plan.prepare("SELECT count(*) AS n, coalesce(sum(length), 0) AS bytes FROM plan").get()
    return { totalFiles: Number(row?.["n"]), totalBytes: Number(row?.["bytes"]) }
  }

  /** Counts an object as moved out of its group; answers the group once it holds none any more. */
  moved(group: number): { readonly pack: number; readonly length: number } | undefined {
    const row = this.#moved.get(group)
    if (row === undefined || Number(row["objects"]) > 0) return undefined
    return { pack: Number(row["pack"]), length: Number(row["length"]) }
  }

  /** Groups of the packs that held nothing from the beginning: another writer had stored the same objects first. */
  unused(): readonly number[] {
    return this.#unused
  }

  close(): void {
    this.#plan.close()
  }
}

/** What is damaged is verify's to name; here it only has no path. */
const skipDamaged = (run: () => void): void => {
  try {
    run()
  } catch (error) {
    if ((error as { _tag?: string })._tag !== "ObjectDamaged") throw error
  }
}
