/** The journal: its chain, its observers, and what never stands in it. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { Authority, type AuthorityModule, Evidence, Leases, workModule } from "../../src/governance/index.ts"
import { countRows, hold, newBench, newGoal, newTodo } from "./authority.ts"

const damages: readonly (readonly [string, string, number])[] = [
  ["changed data", "UPDATE journal SET data = replace(data, 'Repair', 'repair') WHERE seq = 1", 1],
  ["a changed time", "UPDATE journal SET at = at + 1 WHERE seq = 3", 3],
  ["a changed hash", "UPDATE journal SET hash = prev_hash WHERE seq = 2", 2],
  ["a removed entry", "DELETE FROM journal WHERE seq = 2", 2],
  ["a removed tail", "DELETE FROM journal WHERE seq = 4", 4],
  ["another command", "UPDATE journal SET command = 'cmd_other' WHERE seq = 4", 4],
  [
    "swapped entries",
    "UPDATE journal SET seq = 99 WHERE seq = 2; UPDATE journal SET seq = 2 WHERE seq = 3; UPDATE journal SET seq = 3 WHERE seq = 99",
    2
  ]
]

test.each(damages)("G4 verify finds %s and names the first broken link", async (_, sql, brokenAt) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  assert.deepEqual(await bench.store.verify(), { ok: true, entries: 4, brokenAt: null })
  const direct = new DatabaseSync(join(bench.directory, "authority.db"))
  direct.exec(sql)
  direct.close()
  assert.deepEqual(await bench.store.verify(), { ok: false, entries: brokenAt - 1, brokenAt })
})

test("G4 an observer reads committed facts by cursor, each once and in order, whatever it does with them", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  for (let i = 0; i < 5; i += 1) await newTodo(bench, goal)
  const seen: number[] = []
  let cursor = 0
  for (;;) {
    const page = await bench.run(Effect.flatMap(Authority, (a) => a.journal({ after: cursor, limit: 3 })))
    if (page.length === 0) break
    seen.push(...page.map((entry) => entry.seq))
    cursor = page.at(-1)!.seq
  }
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8])
})

test("G4 journal rows of a module that is not loaded are kept and still verify", async () => {
  const notes: AuthorityModule = {
    name: "notes",
    version: 1,
    migrations: [{ version: 1, name: "notes", sql: "CREATE TABLE note (text TEXT)" }],
    *load() {
      return undefined
    },
    decide: () =>
      Result.succeed({ events: [{ type: "note.made", entity: "n", data: { text: "hello" } }], reply: null }),
    project: () => [{ sql: "INSERT INTO note (text) VALUES ('hello')", params: [] }]
  }
  const bench = await newBench({ modules: [workModule, notes] })
  await bench.store.commit([{ id: "n1", module: "notes", type: "make", payload: null }])
  await bench.store.close()
  const without = await newBench({ directory: bench.directory })
  await newGoal(without)
  assert.deepEqual(await without.store.verify(), { ok: true, entries: 4, brokenAt: null })
  const [outcome] = await without.store.commit([{ id: "n2", module: "notes", type: "make", payload: null }])
  assert.equal(outcome?._tag === "Refused" && outcome.error.code, "INVALID_INPUT")
})

const secrets: readonly (readonly [string, string])[] = [
  ["an absolute path", "see /home/ada/secret/log.txt"],
  ["a path in quotes", 'wrote "/tmp/x/y"'],
  ["a Windows path", "C:\\Users\\ada"],
  ["an API key", "used sk-abcdefghijklmnop1234"],
  ["a forge token", "ghp_abcdefghijklmnopqrstuvwx"],
  ["a private key", "-----BEGIN RSA PRIVATE KEY-----"]
]

test.each(secrets)("G6 %s in a text is refused by the writer, and the journal holds nothing of it", async (_, text) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const record = (summary: string, ref: string | null) =>
    Evidence.record({
      goal: goal.id,
      kind: "log",
      digest: `sha256:${"0".repeat(64)}`,
      summary,
      ref,
      producer: { role: "person", name: "eve" }
    })
  assert.deepInclude(await bench.fails(record(text, null)), { code: "NOT_PUBLIC", field: "summary" })
  assert.deepInclude(await bench.fails(record("fine", text)), { code: "NOT_PUBLIC", field: "ref" })
  assert.equal(countRows(bench.directory).journal, 3)
  await bench.run(
    record("the route /api/users and patches/a.patch are fine, and so is https://example.org/a/b", "record/a.patch")
  )
})

test("G6 the journal and the lease table hold the digest of a token, never the token", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const lease = await hold(bench, await newTodo(bench, goal))
  const journal = JSON.stringify(await bench.store.journal({ after: 0, limit: 100 }))
  assert.notInclude(journal, lease.fence.token)
  assert.notInclude(JSON.stringify(await bench.run(Leases.inspect({ todo: lease.todo }))), lease.fence.token)
})
