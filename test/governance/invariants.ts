/**
 * What must hold of an authority's file at every moment, whatever was killed, raced or failed before.
 * Promise: reads only the file, none of the code that wrote it but the projections; each fault is one sentence; a table or a
 * kind of fact that comes later is compared with its replay without a line here. Rules: G1, G2, G4, G20, G30 to G36, G50 to
 * G53, G72, G73, G80, G81; 02 "Numbers". The rules of single kinds are in factRules.ts.
 */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { entryOf, genesis, type Head, verifyPage } from "../../providers/authority-sqlite/Chain.ts"
import { canonicalJson, type Json } from "../../src/base/Digest.ts"
import { type AuthorityModule, type JournalEntry, workModule } from "../../src/governance/index.ts"
import { privateField } from "../../src/governance/PublicText.ts"
import { Database, type Row } from "../../src/sqlite/Database.ts"
import { factFaults } from "./factRules.ts"

/** Every fault of the authority in this directory; nothing when all holds. Other processes may have it open. */
export const checkInvariants = (
  directory: string,
  modules: readonly AuthorityModule[] = [workModule]
): readonly string[] => {
  const db = Database.open(join(directory, "authority.db"), { readOnly: true })
  try {
    db.raw.exec("BEGIN")
    // A process that died before it had made the tables leaves an empty file.
    if (db.userVersion() === 0) return fileFaults(db)
    const journal = db.all("SELECT * FROM journal ORDER BY seq").map(entryOf)
    return [
      ...fileFaults(db),
      ...chainFaults(db, journal),
      ...receiptFaults(db, journal),
      ...projectionFaults(db, activeOf(db, modules), journal),
      ...factFaults(journal)
    ]
  } finally {
    db.close()
  }
}

/** The facts of an authority's file, oldest first. */
export const factsOf = (directory: string): readonly JournalEntry[] => {
  const db = Database.open(join(directory, "authority.db"), { readOnly: true })
  const journal = db.all("SELECT * FROM journal ORDER BY seq").map(entryOf)
  db.close()
  return journal
}

/** The sequence of the last fact. */
export const headOf = (directory: string): number => {
  const db = Database.open(join(directory, "authority.db"), { readOnly: true })
  const head = Number(db.get("SELECT MAX(seq) AS seq FROM journal")?.["seq"] ?? 0)
  db.close()
  return head
}

/** Every stored receipt, by command id. */
export const receiptsOf = (directory: string): ReadonlyMap<string, string> => {
  const db = Database.open(join(directory, "authority.db"), { readOnly: true })
  const rows = db.all("SELECT id, reply FROM command")
  db.close()
  return new Map(rows.map((row) => [String(row["id"]), String(row["reply"])]))
}

const fileFaults = (db: Database): readonly string[] => [
  ...db
    .all("PRAGMA integrity_check")
    .map((row) => String(row["integrity_check"]))
    .filter((said) => said !== "ok"),
  ...db.all("PRAGMA foreign_key_check").map((row) => `a row of ${String(row["table"])} points at nothing`)
]

const chainFaults = (db: Database, journal: readonly JournalEntry[]): readonly string[] => {
  const faults: string[] = []
  for (let at: Head = { seq: 0, hash: genesis, at: 0 }; ; ) {
    const page = verifyPage(db, at, 1000)
    if (page.brokenAt !== null) faults.push(`the journal is broken at ${page.brokenAt}`)
    at = page.head
    if (page.done) break
  }
  let time = 0
  for (const entry of journal) {
    if (entry.at < time) faults.push(`fact ${entry.seq} is dated before the fact before it`)
    time = entry.at
    const field = privateField(entry.data)
    if (field !== undefined) faults.push(`fact ${entry.seq} holds something private in ${field}`)
  }
  return faults
}

/** A command's facts lie together, and its one receipt points at the last of them (G1, G2). */
const receiptFaults = (db: Database, journal: readonly JournalEntry[]): readonly string[] => {
  const faults: string[] = []
  const last = new Map<string, number>()
  for (const [index, entry] of journal.entries()) {
    const before = journal[index - 1]
    if (last.has(entry.command) && before?.command !== entry.command)
      faults.push(`the facts of command ${entry.command} lie apart: it was committed twice`)
    last.set(entry.command, entry.seq)
  }
  for (const row of db.all("SELECT id, seq, reply FROM command")) {
    const id = String(row["id"])
    if (last.get(id) !== row["seq"])
      faults.push(`the receipt of ${id} says ${String(row["seq"])}, its last fact is ${last.get(id)}`)
    last.delete(id)
    JSON.parse(String(row["reply"]))
  }
  for (const id of last.keys()) faults.push(`command ${id} has facts and no receipt`)
  return faults
}

/** The modules whose tables stand at their newest version; one that was never activated has neither tables nor facts. */
const activeOf = (db: Database, modules: readonly AuthorityModule[]): readonly AuthorityModule[] =>
  modules.filter(
    ({ name, version }) => db.get("SELECT version FROM module WHERE name = ?", name)?.["version"] === version
  )

const tablesOf = (db: DatabaseSync): readonly string[] =>
  db
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map((row) => String(row["name"]))

/** A row as one text. Lists and objects lie in it as JSON, whose keys may come in any order: the journal's are sorted. */
const lineOf = (row: Row): string =>
  canonicalJson(
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => [
        column,
        typeof value === "string" && /^[[{]/.test(value) ? canonicalJson(JSON.parse(value)) : (value as Json)
      ])
    )
  )

const linesOf = (rows: readonly Row[]): ReadonlySet<string> => new Set(rows.map(lineOf))

/** Every table of the modules, row by row, beside what the journal's facts give in an empty file (G1). */
const projectionFaults = (
  db: Database,
  modules: readonly AuthorityModule[],
  journal: readonly JournalEntry[]
): readonly string[] => {
  const fresh = new DatabaseSync(":memory:")
  try {
    for (const { sql } of modules.flatMap((module) => module.migrations)) fresh.exec(sql)
    const byName = new Map(modules.map((module) => [module.name, module]))
    for (const entry of journal) {
      for (const { sql, params } of byName.get(entry.module)?.project(entry, entry) ?? [])
        fresh.prepare(sql).run(...params)
    }
    return tablesOf(fresh).flatMap((table) => {
      const wanted = linesOf(fresh.prepare(`SELECT * FROM ${table}`).all() as Row[])
      const found = linesOf(db.all(`SELECT * FROM ${table}`))
      const extra = [...found].find((line) => !wanted.has(line))
      const missing = [...wanted].find((line) => !found.has(line))
      return [
        ...(extra === undefined ? [] : [`table ${table} has a row that no fact gives: ${extra}`]),
        ...(missing === undefined ? [] : [`table ${table} lacks a row that the facts give: ${missing}`])
      ]
    })
  } finally {
    fresh.close()
  }
}
