/**
 * The tables of a provider that keeps whole states: `index.db` in its directory.
 * Promise: every released shape is reached by a migration; a file of another program is not written to. Rules: L1, L8, W23, G75.
 */
import { existsSync } from "node:fs"
import { Database, type Durability, type Migration, StoreMoved, whenFree } from "../../sqlite/Database.ts"
import { newId } from "../../base/Id.ts"
import { defineRowSum } from "./RowSums.ts"

const migrations: readonly Migration[] = [
  {
    version: 1,
    name: "first",
    sql: `
      CREATE TABLE store (format INTEGER NOT NULL, id TEXT NOT NULL, provider TEXT NOT NULL, made_at INTEGER NOT NULL) STRICT;
      CREATE TABLE projects (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, source BLOB, stored INTEGER, sum BLOB
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE commits (
        id TEXT PRIMARY KEY, project TEXT NOT NULL, parent TEXT, root BLOB NOT NULL, times BLOB NOT NULL,
        message TEXT NOT NULL, at INTEGER NOT NULL, operation TEXT NOT NULL, actor TEXT NOT NULL, live INTEGER NOT NULL,
        second_parent TEXT, dated INTEGER NOT NULL, sum BLOB
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE layers (
        id TEXT PRIMARY KEY, project TEXT NOT NULL, commit_id TEXT NOT NULL, sum BLOB
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE branches (
        id TEXT PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, base TEXT NOT NULL, head TEXT NOT NULL, sum BLOB
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX branches_by_project ON branches (project, id);
      CREATE TABLE operations (
        id TEXT PRIMARY KEY, commit_id TEXT NOT NULL, result TEXT NOT NULL, sum BLOB
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE moves (
        branch TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, from_commit TEXT NOT NULL, to_commit TEXT NOT NULL,
        at INTEGER NOT NULL, operation TEXT NOT NULL, actor TEXT NOT NULL, reason TEXT NOT NULL, undoes INTEGER, sum BLOB,
        PRIMARY KEY (branch, number)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE pins (key TEXT PRIMARY KEY, commit_id TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE workspaces (id TEXT PRIMARY KEY, state TEXT NOT NULL, row TEXT NOT NULL) STRICT, WITHOUT ROWID;
      -- What is being kept and has no commit yet: dropped when its maker is gone.
      CREATE TABLE keeping (commit_id TEXT PRIMARY KEY, project TEXT NOT NULL, maker TEXT NOT NULL) STRICT, WITHOUT ROWID;`
  }
]

const formatVersion = 1

const foreign = (message: string, actual: number): StoreMoved =>
  new StoreMoved({
    message,
    remedy: "Give another store directory, or use what wrote this one. Nothing was changed.",
    expected: formatVersion,
    actual
  })

const refuseForeign = (db: Database): void => {
  const seen = db.get(
    `SELECT (SELECT user_version FROM pragma_user_version) AS version, count(*) AS tables,
       count(*) FILTER (WHERE name IN ('store', 'keeping', 'commits')) AS ours FROM sqlite_schema WHERE type = 'table'`
  )
  const actual = Number(seen?.["version"])
  if (actual > 0 ? Number(seen?.["ours"]) === 3 : Number(seen?.["tables"]) === 0) return
  throw foreign("The store's index.db is the database of another program.", actual)
}

/** Opens `index.db`, made and migrated when needed. Rejects with `Busy`, `StorageFailure`, `StoreMoved`. */
export const openSnapshotIndex = async (path: string, provider: string, durability: Durability): Promise<Database> => {
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
  const db = await Database.openWithRetry(path, { durability })
  defineRowSum(db)
  try {
    await db.migrate(migrations)
    const made = () => db.get("SELECT format, provider FROM store")
    if (made() === undefined) {
      await db.transactWithRetry(() => {
        if (made() !== undefined) return
        const id = newId("project").replace("prj_", "sto_")
        const insert = "INSERT INTO store (format, id, provider, made_at) VALUES (?, ?, ?, ?)"
        db.run(insert, formatVersion, id, provider, Date.now())
      })
    }
    const { format, provider: of } = made()!
    if (Number(format) > formatVersion) throw foreign(`The store has format ${String(format)}.`, Number(format))
    if (of !== provider) throw foreign(`The store belongs to the provider ${String(of)}.`, Number(format))
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
