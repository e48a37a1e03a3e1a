/**
 * The yardstick of the authority: the very statements that it executes, taken down once and executed by bare `node:sqlite`.
 * Promise: nothing is left out, neither reads nor savepoints nor pragmas, and the parameters are those of the recording, so that
 * both end with the same rows. Rules: G3; docs/decisions/056.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { baseMigrations } from "../providers/authority-sqlite/Schema.ts"
import { checkpointPages, SqliteAuthority } from "../providers/authority-sqlite/index.ts"
import { workModule } from "../src/governance/index.ts"
import { Database } from "../src/sqlite/Database.ts"

interface Executed {
  readonly how: "exec" | "all" | "get" | "run"
  readonly sql: string
  readonly params: readonly SQLInputValue[]
}

/** The statements of one transaction, `BEGIN` and `COMMIT` included. */
export type Transaction = readonly Executed[]

/** An authority on an existing file that takes down what it executes. */
export const recording = async (
  file: string
): Promise<{ readonly store: SqliteAuthority; readonly transactions: () => readonly Transaction[] }> => {
  const executed: Executed[] = []
  const writer = Database.open(file, { durability: "disposable" })
  await writer.migrate(baseMigrations)
  const exec = writer.raw.exec.bind(writer.raw)
  writer.raw.exec = (sql) => {
    executed.push({ how: "exec", sql, params: [] })
    exec(sql)
  }
  const prepare = writer.prepare.bind(writer)
  writer.prepare = (sql) => {
    const statement = prepare(sql)
    const taken =
      (how: "all" | "get" | "run") =>
      (...params: SQLInputValue[]): never => {
        executed.push({ how, sql, params })
        return statement[how](...params) as never
      }
    return { all: taken("all"), get: taken("get"), run: taken("run") } as unknown as StatementSync
  }
  const store = new SqliteAuthority({
    writer,
    openReader: () => Database.open(file, { readOnly: true }),
    modules: [workModule],
    now: Date.now,
    // All that wait together are one transaction of the recording.
    batchMs: 60_000
  })
  const transactions = (): readonly Transaction[] => {
    const found: Executed[][] = []
    for (const one of executed) {
      if (one.sql === "BEGIN IMMEDIATE") found.push([])
      found.at(-1)?.push(one)
    }
    return found
  }
  return { store, transactions }
}

/** Bare `node:sqlite` on a copy of the file: every statement is prepared before it is timed, as any careful caller would. */
export const bare = (
  file: string,
  all: readonly Transaction[]
): { readonly run: (transaction: Transaction) => number; readonly close: () => void } => {
  const db = new DatabaseSync(file, { timeout: 5 })
  // The same settings on both sides: the log is written back as seldom here as there.
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
  db.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`)
  const prepared = new Map<string, StatementSync>()
  for (const { how, sql } of all.flat()) {
    if (how !== "exec" && !prepared.has(sql)) prepared.set(sql, db.prepare(sql))
  }
  return {
    run: (transaction) => {
      const start = process.hrtime.bigint()
      for (const { how, sql, params } of transaction) {
        if (how === "exec") db.exec(sql)
        else prepared.get(sql)![how](...params)
      }
      return Number(process.hrtime.bigint() - start) / 1e6
    },
    close: () => db.close()
  }
}
