/**
 * Faults of the disk, of other processes and of other versions: each is a typed error with a remedy, nothing is lost or half
 * done, and what can be read still is.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, rmSync, writeSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, expect, test } from "vitest"
import { openAuthority, SqliteAuthority } from "../../providers/authority-sqlite/index.ts"
import { Authority, type AuthorityModule, Goals, Todos, workModule } from "../../src/governance/index.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { mayMount, smallDisk } from "../layerfs/smallDisk.ts"
import { countRows, newBench, newGoal, newTodo } from "./authority.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { checkInvariants } from "./invariants.ts"

const opener = await oneFile(join(import.meta.dirname, "programs", "opener.ts"))

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
  const before = countRows(bench.directory)
  const error = await bench.fails(Todos.add({ goal: goal.id, title: "late" }))
  assert.equal(error.code, "STORE_MOVED")
  assert.deepEqual(countRows(bench.directory), before)
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
  const before = countRows(bench.directory)
  const several = await run(
    Effect.all([add(attempt - 1), add(attempt), add(attempt + 1)].map(Effect.result), { concurrency: "unbounded" })
  )
  assert.isTrue(several.every((r) => Result.isFailure(r) && r.failure.code === "STORAGE_FAILURE"))
  assert.deepEqual(countRows(bench.directory), before)
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
      opener
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
  assert.equal(countRows(bench.directory).journal, 0)
  await bench.run(Goals.open({ title: "a", budget: { usd: 1 } }))
})

test("G3 a file that another process holds can be read all the while", async () => {
  const bench = await newBench({ busyBoundMs: 1 })
  const goal = await newGoal(bench)
  const rival = new DatabaseSync(join(bench.directory, "authority.db"))
  rival.exec("BEGIN IMMEDIATE")
  const error = await bench.fails(Goals.pause({ goal: goal.id }))
  assert.equal(error.code, "BUSY")
  assert.isNotEmpty((error as unknown as { remedy: string }).remedy)
  assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
  rival.exec("ROLLBACK")
  rival.close()
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test.runIf(mayMount)(
  "G3 G8 a disk that runs full is a typed error with a remedy; what was acknowledged is there, is read, and work goes on once there is room",
  async () => {
    const disk = smallDisk(8 * 1024 * 1024)
    try {
      const directory = join(disk.path, "store")
      mkdirSync(directory, { mode: 0o700 })
      const bench = await newBench({ directory, durability: "full" })
      const goal = await newGoal(bench, { usd: 10 })
      disk.leave(256 * 1024)
      const add = (n: number) => Todos.add({ goal: goal.id, title: "x".repeat(300), commandId: `cmd_${n}` })
      let refused: { readonly code: string; readonly remedy?: string } | undefined
      let told = 0
      for (; told < 5000 && refused === undefined; told += 1) {
        const outcome = await bench.run(Effect.result(add(told)))
        if (Result.isFailure(outcome)) refused = outcome.failure as never
      }
      assert.equal(refused?.code, "STORAGE_FAILURE")
      assert.match(refused!.remedy!, /full/)
      assert.equal((await bench.run(Todos.list({ goal: goal.id, limit: 1 }))).total, told - 1)
      disk.leave(4 * 1024 * 1024)
      assert.equal((await bench.run(add(told - 1))).replayed, false)
      assert.equal((await bench.run(add(0))).replayed, true)
      assert.deepEqual(checkInvariants(directory), [])
      await bench.store.close()
    } finally {
      disk.remove()
    }
  }
)

for (const code of ["ENOSPC", "EIO"]) {
  test(`G3 G1 a commit that fails with ${code} is a typed error and leaves nothing; the same command succeeds in the next process`, async () => {
    const bench = await newBench()
    await newGoal(bench)
    const before = countRows(bench.directory)
    const call = [opener, bench.directory, "cmd_f", "t"]
    const failed = spawnSync(process.execPath, call, {
      encoding: "utf8",
      env: { ...oneFileEnvironment(), COPPICE_FAULT_AT: `authority.commit:1:${code}` }
    })
    assert.notEqual(failed.status, 0)
    assert.match(failed.stderr, /STORAGE_FAILURE/)
    assert.deepEqual(countRows(bench.directory), before)
    assert.include(
      execFileSync(process.execPath, call, { encoding: "utf8", env: oneFileEnvironment() }),
      '"replayed":false'
    )
    assert.deepEqual(checkInvariants(bench.directory), [])
  })
}

test("G3 G4 a damaged page is a typed error that says so, whoever meets it; other tables are read, and nothing is written over it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  for (let n = 0; n < 40; n += 1) await newTodo(bench, goal, { title: "x".repeat(200) })
  await bench.store.close()
  const path = join(bench.directory, "authority.db")
  const look = new DatabaseSync(path)
  look.exec("PRAGMA wal_checkpoint(TRUNCATE)")
  const size = Number(look.prepare("PRAGMA page_size").get()!["page_size"])
  const root = Number(look.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'journal'").get()!["rootpage"])
  look.close()
  const sound = readFileSync(path)
  const file = openSync(path, "r+")
  const page = Buffer.alloc(size)
  readSync(file, page, 0, size, (root - 1) * size)
  writeSync(file, Buffer.alloc(size, 0xff), 0, size, (root - 1) * size)

  const damaged = await newBench({ directory: bench.directory })
  for (const call of [Goals.get({ goal: goal.id }), Todos.add({ goal: goal.id, title: "t" })]) {
    const error = (await damaged.fails(call as Effect.Effect<unknown, { readonly code: string }, Authority>)) as {
      readonly code: string
      readonly remedy?: string
    }
    assert.equal(error.code, "STORAGE_FAILURE")
    assert.match(error.remedy!, /damaged/)
  }
  await expect(damaged.store.verify()).rejects.toMatchObject({ code: "STORAGE_FAILURE" })
  await damaged.store.close()
  const direct = new DatabaseSync(path, { readOnly: true })
  assert.equal(direct.prepare("SELECT COUNT(*) AS n FROM todo").get()!["n"], 40)
  direct.close()

  writeSync(file, page, 0, size, (root - 1) * size)
  closeSync(file)
  assert.isTrue(readFileSync(path).equals(sound))
  const mended = await newBench({ directory: bench.directory })
  assert.isTrue((await mended.store.verify()).ok)
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test("G3 L8 an authority whose file is deleted while it is open acknowledges nothing any more and says that its files are gone", async () => {
  const bench = await newBench()
  await newGoal(bench)
  rmSync(bench.directory, { recursive: true })
  for (const title of ["a", "b"]) {
    const error = await bench.fails(Goals.open({ title, budget: { usd: 1 }, commandId: `cmd_${title}` }))
    assert.deepInclude(error, { _tag: "StorageFailure", errcode: 1032 })
    assert.match((error as { remedy: string }).remedy, /files are gone: restore/)
  }
})
