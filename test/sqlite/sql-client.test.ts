import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { SqlClient } from "effect/sql/SqlClient"
import { afterAll, assert, beforeAll, test } from "vitest"
import { layer } from "../../src/sqlite/SqlClient.ts"

let directory: string
let filename: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "coppice-sql-"))
  filename = join(directory, "a.db")
  const db = new DatabaseSync(filename)
  db.exec(
    "PRAGMA journal_mode = WAL; CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT UNIQUE); INSERT INTO note (text) VALUES ('a'), ('b'), ('c')"
  )
  db.close()
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const run = <A, E>(effect: Effect.Effect<A, E, SqlClient>) =>
  Effect.runPromise(Effect.provide(effect, layer({ filename })))

test("G1 a reading connection answers tagged queries with plain rows, streams them, and can write nothing", async () => {
  const { all, some, streamed, refused } = await run(
    Effect.gen(function* () {
      const sql = yield* SqlClient
      return {
        all: yield* sql<{ text: string }>`SELECT text FROM note WHERE id > ${1} ORDER BY id`,
        some: yield* sql`SELECT id FROM note WHERE ${sql.in("text", ["a", "c"])} ORDER BY id`.values,
        streamed: yield* Stream.runCollect(sql`SELECT id FROM note ORDER BY id`.stream),
        refused: yield* Effect.flip(sql`INSERT INTO note (text) VALUES ('d')`)
      }
    })
  )
  assert.deepEqual(all, [{ text: "b" }, { text: "c" }])
  assert.equal(Object.getPrototypeOf(all[0]), Object.prototype)
  assert.deepEqual(some, [[1], [3]])
  assert.deepEqual(streamed, [{ id: 1 }, { id: 2 }, { id: 3 }] as never)
  assert.equal(refused._tag, "SqlError")
})

test("G7 a transaction on a reading connection sees one snapshot while another connection commits", async () => {
  const counts = await run(
    Effect.gen(function* () {
      const sql = yield* SqlClient
      const count = Effect.map(sql<{ n: number }>`SELECT COUNT(*) AS n FROM note`, (rows) => rows[0]!.n)
      const inside = sql.withTransaction(
        Effect.gen(function* () {
          const before = yield* count
          const other = new DatabaseSync(filename)
          other.exec("INSERT INTO note (text) VALUES ('e')")
          other.close()
          return [before, yield* count]
        })
      )
      return [...(yield* inside), yield* count]
    })
  )
  assert.deepEqual(counts, [3, 3, 4])
})

test("G1 a missing file is a typed failure with a remedy, and errors of SQLite are classified by its code", async () => {
  const missing = await Effect.runPromise(
    Effect.flip(
      Effect.provide(
        Effect.flatMap(SqlClient, (sql) => sql`SELECT 1`),
        layer({ filename: join(directory, "none.db") })
      )
    )
  )
  assert.deepInclude(missing, { _tag: "StorageFailure", code: "STORAGE_FAILURE" } as never)
  const bad = await run(Effect.flip(Effect.flatMap(SqlClient, (sql) => sql`SELECT * FROM nothing`)))
  assert.equal(bad._tag === "SqlError" && bad.reason.operation, "execute")
})
