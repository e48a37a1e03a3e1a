/**
 * The tables of `index.db`.
 * Promise: rows stay small (binary ids, one row a group instead of its place repeated per object), so that the index never
 * weighs more than the packs it describes; every released shape is reached by a migration. Rules: L1, L8, L11, W23, G75.
 */
import { existsSync } from "node:fs"
import { Database, type Durability, type Migration, type Row, StoreMoved, whenFree } from "../../src/sqlite/Database.ts"
import { defineRowSum, sumAllRows } from "../../src/workspace/kit/RowSums.ts"

/** The version of the whole on-disk format: index and packs. 2 came with frames, 3 with patches; packs of before stay readable. */
export const formatVersion = 3

/**
 * Pages of the log after which SQLite writes them back: 16 MB. A commit of ten files dirties 80 pages of the index, ids being
 * noise; at SQLite's own 1,000 every twelfth commit pays for all of them.
 */
const checkpointPages = 4000
/** KiB of pages kept: the upper levels of an index of a million objects. */
const cacheKib = 8192

const migrations: readonly Migration[] = [
  {
    version: 1,
    name: "first",
    sql: `
      CREATE TABLE store (format INTEGER NOT NULL, id TEXT NOT NULL, made_at INTEGER NOT NULL) STRICT;
      CREATE TABLE packs (
        id INTEGER PRIMARY KEY, length INTEGER NOT NULL, writer TEXT
      ) STRICT;
      CREATE TABLE groups (
        id INTEGER PRIMARY KEY, pack INTEGER NOT NULL REFERENCES packs(id), offset INTEGER NOT NULL, length INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE objects (
        id BLOB NOT NULL PRIMARY KEY, kind INTEGER NOT NULL, grp INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE projects (id TEXT PRIMARY KEY, name TEXT NOT NULL, source BLOB) STRICT, WITHOUT ROWID;
      CREATE TABLE commits (
        id TEXT PRIMARY KEY, project TEXT NOT NULL, parent TEXT, root BLOB NOT NULL, times BLOB NOT NULL,
        message TEXT NOT NULL, at INTEGER NOT NULL, operation TEXT NOT NULL, actor TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE layers (id TEXT PRIMARY KEY, project TEXT NOT NULL, commit_id TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE branches (
        id TEXT PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, base TEXT NOT NULL, head TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE operations (
        id TEXT PRIMARY KEY, commit_id TEXT NOT NULL, result TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE pins (key TEXT PRIMARY KEY, commit_id TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE workspaces (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, row TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE digests (
        root BLOB NOT NULL, profile TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (root, profile)
      ) STRICT, WITHOUT ROWID;`
  },
  {
    version: 2,
    name: "live commits, bytes of a project",
    // What the outcome of a checkpoint said before it had a column; and an only project holds what the store holds.
    sql: `
      ALTER TABLE commits ADD COLUMN live INTEGER NOT NULL DEFAULT 0;
      UPDATE commits SET live = 1 WHERE operation IN (SELECT id FROM operations WHERE json_extract(result, '$.live') = 1);
      ALTER TABLE projects ADD COLUMN stored INTEGER;
      UPDATE projects SET stored = (SELECT coalesce(sum(length), 0) FROM packs) WHERE (SELECT count(*) FROM projects) = 1;`
  },
  {
    version: 3,
    name: "two parents, order of commits, moves of a head",
    sql: `
      ALTER TABLE commits ADD COLUMN second_parent TEXT;
      ALTER TABLE commits ADD COLUMN dated INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX commits_by_parent ON commits (parent);
      WITH RECURSIVE placed (id, dated) AS (
        SELECT id, at FROM commits WHERE parent IS NULL
        UNION ALL
        SELECT c.id, max(c.at, p.dated + 1) FROM placed p JOIN commits c ON c.parent = p.id
      )
      UPDATE commits SET dated = placed.dated FROM placed WHERE placed.id = commits.id;
      DROP INDEX commits_by_parent;
      CREATE INDEX branches_by_project ON branches (project, id);
      CREATE TABLE moves (
        branch TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, from_commit TEXT NOT NULL, to_commit TEXT NOT NULL,
        at INTEGER NOT NULL, operation TEXT NOT NULL, actor TEXT NOT NULL, reason TEXT NOT NULL, undoes INTEGER,
        PRIMARY KEY (branch, number)
      ) STRICT, WITHOUT ROWID;`
  },
  {
    version: 4,
    name: "groups of frames, bytes that a compaction left behind",
    sql: `
      ALTER TABLE groups ADD COLUMN framed INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE packs ADD COLUMN freed INTEGER NOT NULL DEFAULT 0;
      UPDATE store SET format = 2;`
  },
  {
    version: 5,
    name: "packs that a compaction wrote",
    sql: "ALTER TABLE packs ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;"
  },
  {
    version: 6,
    name: "patches",
    sql: "UPDATE store SET format = 3;"
  },
  {
    version: 7,
    name: "commits that came without all of their parents",
    // Up to now only a bundle of one state could bring one.
    sql: `
      CREATE TABLE edges (commit_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
      INSERT INTO edges SELECT id FROM commits c
      WHERE EXISTS (SELECT 1 FROM (SELECT c.parent AS id UNION ALL SELECT c.second_parent) p
        WHERE p.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM commits k WHERE k.id = p.id));`
  },
  {
    version: 8,
    name: "a sum beside every row that is written once",
    sql: sumAllRows
  }
]

/** A file of another program is not written to, not even our tables. */
const refuseForeign = (db: Database): void => {
  // One statement, so that a process which is just making the tables is seen before or after.
  const seen = db.get(
    `SELECT (SELECT user_version FROM pragma_user_version) AS version, count(*) AS tables,
       count(*) FILTER (WHERE name IN ('store', 'packs', 'objects')) AS ours FROM sqlite_schema WHERE type = 'table'`
  )
  const actual = Number(seen?.["version"])
  if (actual > 0 ? Number(seen?.["ours"]) === 3 : Number(seen?.["tables"]) === 0) return
  throw new StoreMoved({
    message: "The store's index.db is the database of another program.",
    remedy: "Give another store directory, or put the store's own index.db back. Nothing was changed.",
    expected: migrations.length,
    actual
  })
}

const newerFormat = (format: number): StoreMoved =>
  new StoreMoved({
    message: `The store has format ${format}; this Coppice knows up to ${formatVersion}.`,
    remedy: "Use the Coppice version that wrote the store, or a newer one. Nothing was changed.",
    expected: formatVersion,
    actual: format
  })

/** Opens `index.db`, made and migrated when needed. Rejects with `Busy`, `StorageFailure`, `StoreMoved`. */
export const openIndex = async (path: string, durability: Durability, storeId: () => string): Promise<Database> => {
  if (existsSync(path)) {
    await whenFree(() => {
      const seen = Database.open(path, { readOnly: true })
      try {
        refuseForeign(seen)
      } finally {
        seen.close()
      }
    })
  }
  const db = await Database.openWithRetry(path, { durability, checkpointPages })
  defineRowSum(db)
  db.raw.exec(`PRAGMA cache_size = -${cacheKib}`)
  try {
    await db.migrate(migrations)
    const made = (): Row | undefined => db.get("SELECT format FROM store")
    const format = made()?.["format"]
    if (typeof format === "number" && format > formatVersion) throw newerFormat(format)
    const isMade = (): boolean => made() !== undefined
    if (!isMade()) {
      await db.transactWithRetry(() => {
        if (isMade()) return
        db.run("INSERT INTO store (format, id, made_at) VALUES (?, ?, ?)", formatVersion, storeId(), Date.now())
      })
    }
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
