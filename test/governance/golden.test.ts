import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import {
  type Authority,
  Candidates,
  Gates,
  Goals,
  Obligations,
  Quota,
  Settlements,
  Todos,
  Turns,
  workModule
} from "../../src/governance/index.ts"
import { newBench, newDirectory } from "./authority.ts"

const golden = join(import.meta.dirname, "..", "golden", "authority-v1.db")

const second = join(import.meta.dirname, "..", "golden", "authority-v2.db")

const third = join(import.meta.dirname, "..", "golden", "authority-v3.db")

const fourth = join(import.meta.dirname, "..", "golden", "authority-v4.db")

const schemaOf = (file: string): readonly unknown[] => {
  const db = new DatabaseSync(file, { readOnly: true })
  const schema = db.prepare("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name").all()
  db.close()
  return schema.map((row) => ({ ...row }))
}

test("G5 a file of format 1 opens, verifies, reads back and takes further work", async () => {
  const directory = join(newDirectory(), "store")
  mkdirSync(directory, { mode: 0o700 })
  copyFileSync(golden, join(directory, "authority.db"))
  const bench = await newBench({ directory })
  assert.deepEqual(await bench.store.verify(), { ok: true, entries: 20, brokenAt: null })
  const goal = (await bench.store.journal({ after: 0, limit: 1 }))[0]!.entity
  assert.deepInclude(await bench.run(Goals.get({ goal })), { title: "Repair the ledger", state: "active" })
  const status = await bench.run(Quota.status({ goal }))
  assert.deepEqual(
    [status.spent, status.reserved],
    [
      { usd: 0.25, slots: 1 },
      { usd: 2, slots: 0 }
    ]
  )
  assert.equal(status.owed.length, 1)
  const { items } = await bench.run(Todos.list({ goal }))
  assert.deepEqual(
    items.map((t) => [t.title, t.state]),
    [
      ["Find the fault", "done"],
      ["Write it down", "open"],
      ["Finish it", "open"]
    ]
  )
  const settlements = await bench.run(Settlements.list({ goal }))
  const turns = await bench.run(Turns.list({}))
  assert.deepEqual(
    turns.items.map((t) => [t.state, t.settlement]),
    [["closed", settlements.items[0]!.id]]
  )
  assert.equal((await bench.run(Candidates.planned({}))).items[0]?.operationId, "op_1")
  const next: Effect.Effect<{ readonly _tag: string }, unknown, Authority> = Todos.nextWork({
    goal,
    agent: "ada"
  })
  assert.equal((await bench.run(next))._tag, "claimed")
})

test("G5 G50 a file of format 2 opens as it is, and its windows, meters and limits of an agent read as they were written", async () => {
  const directory = join(newDirectory(), "store")
  mkdirSync(directory, { mode: 0o700 })
  copyFileSync(second, join(directory, "authority.db"))
  const now = 1_800_000_060_000
  const bench = await newBench({ directory, now: () => now })
  assert.isTrue((await bench.store.verify()).ok)
  const opened = (await bench.store.journal({ after: 0, limit: 100 })).filter((entry) => entry.type === "goal.opened")
  const status = await bench.run(Quota.status({ goal: opened[1]!.entity }))
  assert.deepEqual(
    [status.budget, status.spent, status.reserved],
    [
      { usd: 5, slots: null, tokens: 1000, windowMs: 3_600_000 },
      { usd: 0.25, slots: 0, tokens: 100 },
      { usd: 0.5, slots: 0, tokens: 400 }
    ]
  )
  assert.deepEqual(
    status.agents.map((figures) => [figures.agent, figures.remaining]),
    [["bob", { usd: 0.25, slots: null }]]
  )
})

test.each([
  ["3", third],
  ["4", fourth]
])(
  "G5 G12 G14 G56 G60 G90 a file of format %s opens as it is, and everything that keeps its goals open reads as it was written",
  async (_, file) => {
    const directory = join(newDirectory(), "store")
    mkdirSync(directory, { mode: 0o700 })
    copyFileSync(file, join(directory, "authority.db"))
    const bench = await newBench({ directory, now: () => 1_800_000_060_000 })
    assert.isTrue((await bench.store.verify()).ok)
    const opened = (await bench.store.journal({ after: 0, limit: 200 })).filter((entry) => entry.type === "goal.opened")
    const goal = opened[2]!.entity
    const { parts } = await bench.run(Goals.frontier({ goal }))
    assert.deepEqual(
      parts.map(({ kind, count }) => [kind, count]),
      [
        ["turn", 1],
        ["plannedEffect", 1],
        ["delivery", 1]
      ]
    )
    assert.deepInclude((await bench.run(Obligations.list({ goal }))).items[0], {
      state: "met",
      reason: "it was promised"
    })
    assert.deepInclude((await bench.run(Gates.list({ goal }))).items[0], { question: "May it be sent?" })
    assert.deepInclude((await bench.run(Quota.status({ goal }))).spent, { usd: 0.5, tokens: 22 })
    assert.deepEqual(
      await bench.run(Goals.frontier({ goal: opened[0]!.entity })).then(({ parts }) => parts.length > 0),
      true
    )
  }
)

test("G5 a released step of the schema is never edited: its steps alone give the schema of its golden file", async () => {
  for (const [version, file] of [golden, second, third, fourth].entries()) {
    const steps = workModule.migrations.slice(0, version + 1)
    const bench = await newBench({ modules: [{ ...workModule, version: steps.length, migrations: steps }] })
    assert.deepEqual(schemaOf(join(bench.directory, "authority.db")), schemaOf(file))
    assert.isAbove(readFileSync(file).length, 4096)
  }
})

test("G5 yesterday's file, brought to the newest version, has the schema of a new file, and a backup lies beside it", async () => {
  const directory = join(newDirectory(), "store")
  mkdirSync(directory, { mode: 0o700 })
  copyFileSync(golden, join(directory, "authority.db"))
  await newBench({ directory })
  const fresh = await newBench()
  assert.deepEqual(schemaOf(join(directory, "authority.db")), schemaOf(join(fresh.directory, "authority.db")))
  const [backup, ...more] = readdirSync(directory).filter((name) => name.endsWith(".backup.db"))
  assert.deepEqual(more, [])
  assert.deepEqual(schemaOf(join(directory, backup!)), schemaOf(golden))
})
