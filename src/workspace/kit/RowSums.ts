/**
 * A sum beside every row that is written once: who said what when is no object with an id, and a bit that flips in it is still sound SQLite.
 * Promise: a column that is summed and changed outside of Coppice is found by `verify` and named by table and key; what may change later
 * (a branch's head, how long a pack is) is held against the rows that it names or that name it. Against accidents: whoever can write the file can
 * write the sum. Rules: L10.
 */
import { hash } from "node:crypto"
import type { Database, Param, Row } from "../../sqlite/Database.ts"

interface Summed {
  readonly table: string
  /** The row's name in a report. */
  readonly key: readonly string[]
  readonly columns: readonly string[]
}

const summed: readonly Summed[] = [
  { table: "projects", key: ["id"], columns: ["id", "name", "source"] },
  {
    table: "commits",
    key: ["id"],
    columns: "id project parent second_parent root times message at dated operation actor live".split(" ")
  },
  { table: "layers", key: ["id"], columns: ["id", "project", "commit_id"] },
  { table: "branches", key: ["id"], columns: ["id", "project", "name", "base"] },
  { table: "operations", key: ["id"], columns: ["id", "commit_id", "result"] },
  {
    table: "moves",
    key: ["branch", "number"],
    columns: "branch number kind from_commit to_commit at operation actor reason undoes".split(" ")
  }
]

/** Bytes of a sum: of sha256, for which a chance hit is out of the question at this length too. */
const sumLength = 16

const encoded = (value: unknown): Uint8Array => {
  if (value instanceof Uint8Array) return Buffer.concat([Buffer.from(`b${value.length}:`), value])
  const text =
    value === null ? "n" : typeof value === "string" ? `s${Buffer.byteLength(value)}:${value}` : `i${String(value)};`
  return Buffer.from(text)
}

const rowSum = (...values: readonly unknown[]): Uint8Array =>
  hash("sha256", Buffer.concat(values.map(encoded)), "buffer").subarray(0, sumLength)

/** Makes SQL's `row_sum(…)` known to a connection that writes such rows or verifies them. */
export const defineRowSum = ({ raw }: Database): void => {
  // Whole numbers of any size: a bit may have flipped in one.
  raw.function(
    "row_sum",
    { deterministic: true, varargs: true, useBigIntArguments: true },
    rowSum as (...values: unknown[]) => Uint8Array
  )
}

const sumOf = ({ columns }: Summed): string => `row_sum(${columns.join(", ")})`

/** A migration that sums every row as it stands. */
export const sumAllRows = summed
  .map((one) => `ALTER TABLE ${one.table} ADD COLUMN sum BLOB; UPDATE ${one.table} SET sum = ${sumOf(one)};`)
  .join("\n")

/** Inserts a row with its sum; `or` is SQLite's conflict clause. Columns that are not summed may be among the values. */
export const insertRow = (db: Database, table: string, values: Readonly<Record<string, Param>>, or = ""): void => {
  const { columns } = summed.find((one) => one.table === table)!
  const names = Object.keys(values)
  const places = names.map((_, n) => `?${n + 1}`)
  const sums = columns.map((column) => places[names.indexOf(column)] ?? "NULL")
  db.run(
    `INSERT ${or} INTO ${table} (${names.join(", ")}, sum) VALUES (${places.join(", ")}, row_sum(${sums.join(", ")}))`,
    ...Object.values(values)
  )
}

/** Names told at most of each kind. */
const most = 100

const keyOf = (row: Row): string => Object.values(row).map(String).join(" ")

/** Rows that are not what was written, and names of rows that are not there. */
export const changedRows = (db: Database): string[] => {
  const changed = summed.flatMap((one) =>
    db
      .all(
        `SELECT ${one.key.map((key) => `CAST(${key} AS TEXT) AS ${key}`).join(", ")} FROM ${one.table} WHERE sum IS NOT ${sumOf(one)} LIMIT ${most}`
      )
      .map((row) => `${one.table}: the row of ${keyOf(row)} is not as it was written`)
  )
  const missing = (table: string, key: string, column: string): string[] =>
    db
      .all(
        `SELECT ${key} AS key, ${column} AS missing FROM ${table} t
         WHERE NOT EXISTS (SELECT 1 FROM commits c WHERE c.id = t.${column}) LIMIT ${most}`
      )
      .map((row) => `${table}: ${String(row["key"])} names the commit ${String(row["missing"])}, which is not there`)
  return [...changed, ...missing("branches", "id", "head"), ...missing("pins", "key", "commit_id")]
}
