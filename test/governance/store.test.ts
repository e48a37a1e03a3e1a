import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"
import {
  Agents,
  type Authority,
  type AuthorityModule,
  Goals,
  Leases,
  Quota,
  Todos,
  workModule
} from "../../src/governance/index.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { countRows, hold, newBench, newDirectory, newGoal, newTodo } from "./authority.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { checkInvariants } from "./invariants.ts"

const openerProgram = await oneFile(join(import.meta.dirname, "programs", "opener.ts"))

test("G1 a command writes journal, projection and receipt together, and a refused one writes none of them", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const before = countRows(bench.directory)
  await bench.fails(Todos.add({ goal: goal.id, title: "t", dependsOn: ["todo_none"], commandId: "cmd_x" }))
  assert.deepEqual(countRows(bench.directory), before)
  const todo = await newTodo(bench, goal)
  const after = countRows(bench.directory)
  assert.deepEqual(
    [after.journal - before.journal, after.command - before.command, after.todo - before.todo],
    [1, 1, 1]
  )
  const [entry] = await bench.store.journal({ after: before.journal, limit: 10 })
  assert.deepInclude(entry, { module: "work", type: "todo.added", entity: todo.id, seq: before.journal + 1 })
})

test("G1 every row of every projection is what the journal's facts say, when they are projected again into an empty file", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo)
  await bench.run(
    Quota.reserve({ goal: goal.id, todo: todo.id, effectId: "e1", bound: { usd: 2, slots: 1 }, fence: lease.fence })
  )
  await bench.run(Quota.spend({ goal: goal.id, effectId: "e2", spend: { usd: "unknown" } }))
  await bench.run(Leases.release({ fence: lease.fence }))
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test("G2 the same command id gives the stored receipt, another payload under it is refused, also after a reopen", async () => {
  const bench = await newBench()
  const first = await bench.run(Goals.open({ title: "a", budget: { usd: 1 }, commandId: "cmd_1" }))
  const again = await bench.run(Goals.open({ budget: { usd: 1 }, title: "a", commandId: "cmd_1" }))
  assert.deepEqual(again, { ...first, replayed: true })
  const other = await bench.fails(Goals.open({ title: "b", budget: { usd: 1 }, commandId: "cmd_1" }))
  assert.deepInclude(other, { code: "IDEMPOTENCY_KEY_REUSE", commandId: "cmd_1" })
  await bench.store.close()
  const reopened = await newBench({ directory: bench.directory })
  assert.deepEqual(await reopened.run(Goals.open({ title: "a", budget: { usd: 1 }, commandId: "cmd_1" })), again)
  assert.equal(countRows(bench.directory).journal, 1)
})

test("G2 a refused command leaves its id unused: it may succeed later", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  await bench.run(Goals.pause({ goal: goal.id }))
  const todo = await newTodo(bench, goal)
  const claim = Leases.acquire({ todo: todo.id, agent: "ada", commandId: "cmd_2" })
  assert.equal((await bench.fails(claim)).code, "GOAL_NOT_ACTIVE")
  await bench.run(Goals.resume({ goal: goal.id }))
  assert.deepInclude(await bench.run(claim), { epoch: 1, replayed: false })
})

for (const point of ["authority.afterJournal", "authority.beforeCommit"]) {
  test(`G2 G1 killed at ${point}, nothing happened; another process does it once`, async () => {
    const directory = newDirectory()
    const killed = await opener(directory, "cmd_k", "t", point)
    assert.deepEqual(killed, { signal: "SIGKILL", receipt: null })
    assert.deepEqual(await facts(directory), [])
    const done = await opener(directory, "cmd_k", "t")
    assert.equal(done.receipt.replayed, false)
    assert.deepEqual(await facts(directory), ["goal.opened"])
  })
}

test("G2 killed at authority.afterCommit before the answer, another process gets the stored receipt and nothing twice", async () => {
  const directory = newDirectory()
  assert.equal((await opener(directory, "cmd_k", "t", "authority.afterCommit")).signal, "SIGKILL")
  const recorded = await facts(directory)
  assert.deepEqual(recorded, ["goal.opened"])
  const again = await opener(directory, "cmd_k", "t")
  assert.equal(again.receipt.replayed, true)
  assert.deepEqual(await facts(directory), recorded)
  const conflict = spawnSync(process.execPath, [openerProgram, directory, "cmd_k", "other"], {
    encoding: "utf8",
    env: oneFileEnvironment()
  })
  assert.include(conflict.stderr, "IDEMPOTENCY_KEY_REUSE")
})

test("G3 commands committed together keep apart: a refusal and a broken module undo only themselves", async () => {
  const broken: AuthorityModule = {
    name: "broken",
    version: 1,
    migrations: [{ version: 1, name: "broken", sql: "CREATE TABLE broken (id TEXT PRIMARY KEY)" }],
    *load() {
      return undefined
    },
    decide: (_, command) => Result.succeed({ events: [{ type: command.type, entity: "x", data: {} }], reply: null }),
    project: (event) =>
      event.type === "throws"
        ? (() => {
            throw new TypeError("a bug")
          })()
        : [
            { sql: "INSERT INTO broken (id) VALUES ('a')", params: [] },
            { sql: "INSERT INTO broken (id) VALUES ('a')", params: [] }
          ]
  }
  const bench = await newBench({ modules: [workModule, broken], batchMs: 60_000 })
  const goal = await newGoal(bench)
  const before = bench.store.counts.transactions
  const work = (title: string) =>
    bench.store.commit([{ id: title, module: "work", type: "addTodo", payload: { goal: goal.id, title } }])
  const [first, constraint, bug, refused, last] = await Promise.allSettled([
    work("one"),
    bench.store.commit([{ id: "c", module: "broken", type: "constraint", payload: null }]),
    bench.store.commit([{ id: "t", module: "broken", type: "throws", payload: null }]),
    work(""),
    work("two")
  ])
  assert.equal(bench.store.counts.transactions - before, 1)
  assert.deepEqual(
    [first.status, constraint.status, bug.status, refused.status, last.status],
    ["fulfilled", "rejected", "rejected", "fulfilled", "fulfilled"]
  )
  assert.equal(refused.status === "fulfilled" && refused.value[0]!._tag, "Refused")
  const titles = (await bench.run(Todos.list({ goal: goal.id }))).items.map((todo) => todo.title)
  assert.deepEqual(titles.toSorted(), ["one", "two"])
  assert.deepEqual(await bench.store.verify(), { ok: true, entries: 5, brokenAt: null })
})

test("G3 the file is in WAL mode with every commit synced and foreign keys on, unless a weaker durability is asked for by name", () => {
  const directory = newDirectory()
  const pragma = (db: Database, name: string) => db.get(`PRAGMA ${name}`)![name]
  for (const [durability, synchronous] of [
    [undefined, 2],
    ["full", 2],
    ["normal", 1],
    ["disposable", 0]
  ] as const) {
    const db = Database.open(join(directory, "a.db"), durability === undefined ? {} : { durability })
    assert.deepEqual(
      [pragma(db, "journal_mode"), pragma(db, "synchronous"), pragma(db, "foreign_keys")],
      ["wal", synchronous, 1]
    )
    db.close()
  }
})

test("G8 the authority's directory and file are this user's alone", async () => {
  const bench = await newBench()
  assert.equal(statSync(join(bench.directory, "authority.db")).mode & 0o7777, 0o600)
  assert.equal(statSync(bench.directory).mode & 0o7777, 0o700)
})

test("G7 every read says as of which journal sequence it holds, and every write which sequence it made", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const asOf = goal as unknown as { asOf: number }
  assert.equal(asOf.asOf, 1)
  assert.equal((await bench.run(Goals.get({ goal: goal.id }))).asOf, 3)
  const todo = await newTodo(bench, goal)
  for (const read of [
    Goals.get({ goal: goal.id }),
    Todos.get({ todo: todo.id }),
    Todos.list({ goal: goal.id }),
    Quota.status({ goal: goal.id }),
    Quota.history({ goal: goal.id }),
    Agents.list({ goal: goal.id })
  ] as Effect.Effect<{ readonly asOf: number }, unknown, Authority>[]) {
    assert.equal((await bench.run(read)).asOf, 4)
  }
})

test("G8 the authority is one directory of its own: what happens to a store beside it changes no fact", async () => {
  const parent = newDirectory()
  const bench = await newBench({ directory: join(parent, "authority") })
  const goal = await newGoal(bench)
  const other = new DatabaseSync(join(parent, "index.db"))
  other.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
  other.close()
  rmSync(join(parent, "index.db"))
  assert.deepEqual(
    readdirSync(join(parent, "authority")).filter((n) => !/^authority\.db(-wal|-shm)?$/.test(n)),
    []
  )
  assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
})

const opener = async (directory: string, commandId: string, title: string, crashAt?: string): Promise<any> => {
  const env = { ...oneFileEnvironment(), COPPICE_CRASH_AT: crashAt ?? "" }
  const done = spawnSync(process.execPath, [openerProgram, directory, commandId, title], {
    encoding: "utf8",
    env
  })
  return { signal: done.signal, receipt: done.stdout === "" ? null : JSON.parse(done.stdout) }
}

const facts = async (directory: string): Promise<readonly string[]> => {
  assert.isTrue(existsSync(join(directory, "authority.db")))
  const store = await openAuthority({ directory })
  const verified = await store.verify()
  assert.isTrue(verified.ok)
  const types = (await store.journal({ after: 0, limit: 100 })).map((entry) => entry.type)
  await store.close()
  return types
}
