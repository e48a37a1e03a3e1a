import { execFile, spawnSync } from "node:child_process"
import { existsSync, readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, expect, test } from "vitest"
import { openAuthority, SqliteAuthority } from "../../providers/authority-sqlite/index.ts"
import {
  Agents,
  Authority,
  type AuthorityModule,
  Evidence,
  Goals,
  Leases,
  Quota,
  Todos,
  workModule
} from "../../src/governance/index.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { hold, newBench, newDirectory, newGoal, newTodo } from "./authority.ts"

const run = promisify(execFile)
const program = (name: string) => join(import.meta.dirname, "programs", name)

test("G1 a command writes journal, projection and receipt together, and a refused one writes none of them", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const before = rows(bench.directory)
  await bench.fails(Todos.add({ goal: goal.id, title: "t", dependsOn: ["todo_none"], commandId: "cmd_x" }))
  assert.deepEqual(rows(bench.directory), before)
  const todo = await newTodo(bench, goal)
  const after = rows(bench.directory)
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
  const copy = new DatabaseSync(":memory:")
  for (const migration of workModule.migrations) copy.exec(migration.sql)
  for (const entry of await bench.store.journal({ after: 0, limit: 1000 })) {
    for (const { sql, params } of workModule.project(entry, entry)) copy.prepare(sql).run(...params)
  }
  const original = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
  for (const table of ["goal", "agent", "todo", "lease", "reservation", "quota_event"]) {
    const all = `SELECT * FROM ${table} ORDER BY 1, 2`
    assert.deepEqual(copy.prepare(all).all(), original.prepare(all).all(), table)
    assert.isNotEmpty(copy.prepare(all).all(), table)
  }
  copy.close()
  original.close()
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
  assert.equal(rows(bench.directory).journal, 1)
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
  const conflict = spawnSync(process.execPath, [program("opener.ts"), directory, "cmd_k", "other"], {
    encoding: "utf8"
  })
  assert.include(conflict.stderr, "IDEMPOTENCY_KEY_REUSE")
})

test("G3 64 callers at once: one winner, everybody else learns who holds it, and commits are shared", async () => {
  const bench = await newBench({ batchMs: 60_000 })
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const before = bench.store.counts
  const outcomes = await bench.run(
    Effect.all(
      Array.from({ length: 64 }, () => Effect.result(Leases.acquire({ todo: todo.id, agent: "ada" }))),
      { concurrency: "unbounded" }
    )
  )
  const won = outcomes.filter(Result.isSuccess)
  assert.equal(won.length, 1)
  for (const lost of outcomes.filter(Result.isFailure)) {
    assert.deepInclude(lost.failure, { code: "LEASE_HELD", owner: "ada", epoch: 1 })
  }
  const { transactions, commands } = bench.store.counts
  assert.equal(commands - before.commands, 64)
  assert.isAtMost(transactions - before.transactions, 8)
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

test("G3 four processes racing for the same todos: each todo has one holder, no busy error", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  const count = 120
  await bench.run(
    Effect.all(
      Array.from({ length: count }, (_, i) => Todos.add({ goal: goal.id, title: `todo ${i}` })),
      { concurrency: "unbounded" }
    )
  )
  for (const agent of ["p0", "p1", "p2", "p3"]) await bench.run(Agents.register({ goal: goal.id, agentId: agent }))
  const reports = await Promise.all(
    ["p0", "p1", "p2", "p3"].map(async (agent) => {
      const { stdout } = await run(process.execPath, [program("claimer.ts"), bench.directory, goal.id, agent])
      return JSON.parse(stdout) as { claimed: { todo: string; epoch: number }[]; errors: string[] }
    })
  )
  const claimed = reports.flatMap((report) => report.claimed)
  assert.deepEqual(
    reports.flatMap((report) => report.errors),
    []
  )
  assert.equal(claimed.length, count)
  assert.equal(new Set(claimed.map((c) => c.todo)).size, count)
  assert.isTrue(claimed.every((c) => c.epoch === 1))
  assert.isTrue((await bench.store.verify()).ok)
}, 60_000)

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

test("G5 a file or a module of a newer version is refused untouched; a process left open across a migration changes nothing", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const newer: AuthorityModule = {
    ...workModule,
    version: workModule.version + 1,
    migrations: [
      ...workModule.migrations,
      { version: workModule.version + 1, name: "next", sql: "ALTER TABLE goal ADD COLUMN extra TEXT" }
    ]
  }
  const next = await newBench({ directory: bench.directory, modules: [newer] })
  assert.isTrue((await next.store.verify()).ok)
  assert.equal(readdirSync(bench.directory).filter((name) => name.endsWith(".backup.db")).length, 1)
  const before = rows(bench.directory)
  const error = await bench.fails(Todos.add({ goal: goal.id, title: "late" }))
  assert.equal(error.code, "STORE_MOVED")
  assert.deepEqual(rows(bench.directory), before)
  await expect(openAuthority({ directory: bench.directory })).rejects.toMatchObject({ code: "STORE_MOVED" })
  const direct = new DatabaseSync(join(bench.directory, "authority.db"))
  direct.exec("PRAGMA user_version = 2")
  direct.close()
  await expect(openAuthority({ directory: bench.directory, modules: [newer] })).rejects.toMatchObject({
    code: "STORE_MOVED",
    actual: 2
  })
  assert.equal((await next.fails(Goals.open({ title: "t", budget: { usd: 1 } }))).code, "STORE_MOVED")
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
  assert.equal(rows(bench.directory).journal, 3)
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

test("G3 a full file is a typed error, nothing is half done, and the same call succeeds when there is room", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const path = join(bench.directory, "authority.db")
  const writer = Database.open(path)
  const direct = writer.raw
  const full = new SqliteAuthority({
    writer,
    openReader: () => Database.open(path, { readOnly: true }),
    modules: [workModule],
    now: Date.now
  })
  const run = <A, E>(effect: Effect.Effect<A, E, Authority>) =>
    Effect.runPromise(Effect.provideService(effect, Authority, Authority.make(full)))
  const pages = Number(direct.prepare("PRAGMA page_count").get()!["page_count"])
  direct.exec(`PRAGMA max_page_count = ${pages}`)
  const codes: string[] = []
  let attempt = 0
  const add = (id: number) =>
    Todos.add({ goal: goal.id, title: "x".repeat(300), capabilities: ["y".repeat(200)], commandId: `cmd_${id}` })
  for (; attempt < 200 && codes.length === 0; attempt += 1) {
    const result = await run(Effect.result(add(attempt)))
    if (Result.isFailure(result)) codes.push(result.failure.code)
  }
  assert.deepEqual(codes, ["STORAGE_FAILURE"])
  const before = rows(bench.directory)
  const several = await run(
    Effect.all([add(attempt - 1), add(attempt), add(attempt + 1)].map(Effect.result), { concurrency: "unbounded" })
  )
  assert.isTrue(several.every((r) => Result.isFailure(r) && r.failure.code === "STORAGE_FAILURE"))
  assert.deepEqual(rows(bench.directory), before)
  assert.equal(before.command, before.journal)
  direct.exec("PRAGMA max_page_count = 1000000")
  assert.equal((await run(add(attempt - 1))).replayed, false)
  assert.isTrue((await full.verify()).ok)
  await full.close()
})

test("G3 a store on a read-only mount is refused with a typed error and stays as it was", async () => {
  const bench = await newBench()
  await newGoal(bench)
  await bench.store.close()
  const before = readdirSync(bench.directory).toSorted()
  const script = `mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" "$3" "$1" cmd_ro t`
  const outcome = spawnSync(
    "unshare",
    [
      ...(process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"]),
      "--mount",
      "sh",
      "-c",
      script,
      "sh",
      bench.directory,
      process.execPath,
      program("opener.ts")
    ],
    { encoding: "utf8" }
  )
  assert.notEqual(outcome.status, 0)
  assert.match(outcome.stderr, /AUTHORITY_LOCATION|STORAGE_FAILURE/)
  assert.deepEqual(readdirSync(bench.directory).toSorted(), before)
})

test("G3 a file held by another process is Busy after the bound, with nothing done, and the event loop stays free", async () => {
  const bench = await newBench({ busyBoundMs: 150 })
  const rival = new DatabaseSync(join(bench.directory, "authority.db"))
  rival.exec("BEGIN IMMEDIATE")
  let turns = 0
  const timer = setInterval(() => (turns += 1), 1)
  const both = await Promise.all([
    bench.fails(Goals.open({ title: "a", budget: { usd: 1 } })),
    bench.fails(Goals.open({ title: "b", budget: { usd: 1 } }))
  ])
  clearInterval(timer)
  assert.deepEqual(
    both.map((error) => error.code),
    ["BUSY", "BUSY"]
  )
  assert.isAbove(turns, 3)
  rival.exec("ROLLBACK")
  rival.close()
  assert.equal(rows(bench.directory).journal, 0)
  await bench.run(Goals.open({ title: "a", budget: { usd: 1 } }))
})

const opener = async (directory: string, commandId: string, title: string, crashAt?: string): Promise<any> => {
  const env = crashAt === undefined ? process.env : { ...process.env, COPPICE_CRASH_AT: crashAt }
  const done = spawnSync(process.execPath, [program("opener.ts"), directory, commandId, title], {
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

const rows = (directory: string): { journal: number; command: number; todo: number } => {
  const db = new DatabaseSync(join(directory, "authority.db"), { readOnly: true })
  const count = (table: string) => Number(db.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get()!["n"])
  const counted = { journal: count("journal"), command: count("command"), todo: count("todo") }
  db.close()
  return counted
}
