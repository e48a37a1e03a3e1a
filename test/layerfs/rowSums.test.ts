/** Rows of the index that rot or are changed by hand: what was said, by whom, and when. Rules: L10. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import { exportAndImport } from "./rowSumsGround.ts"
import { commitInto, open, scratch } from "./storeFixture.ts"
import { put } from "./storeChange.ts"

it("L10 whatever column of a row that is written once is changed, verify names its table and its key", async () => {
  const directory = join(scratch(), "s")
  const { index } = await exportAndImport(directory)
  const store = await open(directory)
  expect(await store.call("verify", {})).toMatchObject({ ok: true, index: [] })
  const db = new DatabaseSync(index)
  db.exec("PRAGMA foreign_keys = OFF")
  for (const table of ["projects", "commits", "layers", "branches", "operations", "moves"]) {
    const columns = db
      .prepare(`SELECT name, pk FROM pragma_table_info(?) WHERE name NOT IN ('sum', 'stored', 'head')`)
      .all(table)
    const row = db.prepare(`SELECT * FROM ${table} LIMIT 1`).get()!
    const keys = columns.filter(({ pk }) => Number(pk) > 0).map(({ name }) => String(name))
    const where = keys.map((key) => `${key} = ?`).join(" AND ")
    const values = keys.map((key) => row[key] as string)
    for (const { name, pk } of columns) {
      const column = String(name)
      const was = row[column] as string | number | Uint8Array | null
      const other =
        was === null || typeof was === "string"
          ? `${was ?? "something"}'`.replace("'", "!")
          : typeof was === "number"
            ? was + 1
            : Buffer.from(was).fill(7, 0, 1)
      // A column of numbers that was null takes no text.
      const put = column === "undoes" ? 9 : other
      db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${where}`).run(put, ...values)
      const report = await store.call("verify", {})
      expect(report.ok, `${table}.${column}`).toBe(false)
      const key = keys.map((one) => (one === column ? put : row[one])).join(" ")
      expect(report.index, `${table}.${column}`).toContain(`${table}: the row of ${key} is not as it was written`)
      if (column === "actor" && table === "commits")
        await expect(store.call("resolve", { ref: String(row["id"]) })).rejects.toMatchObject({
          _tag: "StorageFailure"
        })
      const back = keys.map((one) => (one === column ? (put as string) : (row[one] as string)))
      db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${where}`).run(was, ...back)
      if (Number(pk) > 0) expect((await store.call("verify", {})).ok).toBe(true)
    }
  }
  // What may change is held against what it names.
  for (const [table, column] of [
    ["branches", "head"],
    ["pins", "commit_id"]
  ]) {
    const row = db.prepare(`SELECT * FROM ${table} LIMIT 1`).get()!
    db.prepare(`UPDATE ${table} SET ${column} = 'cmt_x' WHERE ${column} = ?`).run(row[column!] as string)
    const { ok, index: said } = await store.call("verify", {})
    expect([ok, said.some((line) => line.startsWith(`${table}: `) && line.includes("names the commit cmt_x"))]).toEqual(
      [false, true]
    )
    db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${column} = 'cmt_x'`).run(row[column!] as string)
  }
  expect((await store.call("verify", {})).ok).toBe(true)
  db.close()
})

it("L10 one bit of a commit's message that flips in the file is found, although SQLite finds nothing", async () => {
  const directory = join(scratch(), "s")
  const { index, message } = await exportAndImport(directory)
  const bytes = readFileSync(index)
  const at = bytes.indexOf(message)
  expect(at).toBeGreaterThan(0)
  bytes[at]! ^= 1
  writeFileSync(index, bytes)
  const checked = new DatabaseSync(index, { readOnly: true })
  expect(checked.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }])
  checked.close()
  const store = await open(directory)
  const report = await store.call("verify", {})
  expect(report.ok).toBe(false)
  expect(report.index).toEqual([expect.stringMatching(/^commits: the row of cmt_\S+ is not as it was written$/)])
})

it("L10 a number of a row that became larger than any is damage: verify names it, and what reads the row says so", async () => {
  const directory = join(scratch(), "s")
  const { index } = await exportAndImport(directory)
  const store = await open(directory)
  const db = new DatabaseSync(index)
  db.exec("PRAGMA foreign_keys = OFF")
  const commit = String(db.prepare("SELECT id FROM commits").get()!["id"])
  const object = String(db.prepare("SELECT lower(hex(id)) AS id FROM objects").get()!["id"])
  const where = { commits: `id = '${commit}'`, objects: `id = x'${object}'`, moves: "TRUE", groups: "TRUE" }
  for (const [table, columns] of Object.entries({
    commits: ["at", "dated", "live"],
    moves: ["at", "undoes"],
    objects: ["grp", "offset", "length"],
    groups: ["pack", "offset", "length"]
  })) {
    for (const column of columns) {
      const of = `${table} WHERE ${where[table as keyof typeof where]}`
      db.exec(`UPDATE ${of.replace("WHERE", `SET ${column} = coalesce(${column}, 0) + (1 << 62) WHERE`)}`)
      const report = await store.call("verify", {})
      const said = [...report.index, ...report.damaged.map((one) => `${one.object}`)].join("\n")
      expect(report.ok, `${table}.${column}`).toBe(false)
      expect(said, `${table}.${column}`).toContain(
        { commits: commit, moves: "moves: the row of brn_" }[table] ?? object
      )
      expect(await store.call("stats", {})).toMatchObject({ commits: 2 })
      if (table === "commits")
        await expect(store.call("resolve", { ref: commit })).rejects.toMatchObject({ _tag: "StorageFailure" })
      db.exec(
        `UPDATE ${of.replace("WHERE", `SET ${column} = nullif(${column} - (1 << 62), iif('${column}' = 'undoes', 0, -1)) WHERE`)}`
      )
      expect((await store.call("verify", {})).ok, `${table}.${column}`).toBe(true)
    }
  }
  db.close()
})

it.each([0, 16, 20])(
  "L8 L10 a pack whose row says that it ends at %i is named, and not cut there by the next writer",
  async (length) => {
    const directory = join(scratch(), "s")
    const { index } = await exportAndImport(directory)
    const db = new DatabaseSync(index)
    const was = db.prepare("SELECT id, length FROM packs").all()
    db.exec(`UPDATE packs SET length = ${length}`)
    const store = await open(directory)
    const report = await store.call("verify", {})
    expect(report).toMatchObject({ ok: false, damaged: [] })
    expect(report.index.filter((line) => line.startsWith("packs: the row of "))).toHaveLength(was.length)
    const branch = String(db.prepare("SELECT id FROM branches").get()!["id"])
    await commitInto(store, branch, [put("new", "content")])
    await store.close()
    // Whoever had it may also have died.
    db.prepare("UPDATE packs SET writer = ? WHERE id = ?").run('{"pid":0}', Number(was[0]!["id"]))
    const again = await open(directory)
    expect(await again.call("verify", {})).toMatchObject({ ok: false, damaged: [] })
    for (const row of was) db.prepare("UPDATE packs SET length = ? WHERE id = ?").run(row["length"]!, row["id"]!)
    db.close()
    expect(await again.call("verify", {})).toMatchObject({ ok: true })
  }
)
