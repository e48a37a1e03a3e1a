/**
 * The area `governance` of the bench as a command, and its generated store.
 * Promise: the agreed row ids; a yardstick of the same statements and the same history; a generated store that is a real one.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { rowIds } from "../../bench/governance.ts"
import { runIn } from "../../bench/governance-scene.ts"
import { makeLargeStore } from "../../bench/large-store.ts"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"
import { Todos } from "../../src/governance/index.ts"

const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const temporary = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-bench-governance-"))
  made.push(directory)
  return directory
}

test("G3 G4 G22 the rows are those that the bars are written for", () => {
  expect([...rowIds]).toEqual([
    "claim.one",
    "settle.one",
    "claim.64",
    "settle.64",
    "eventLoopDelay",
    "open.large",
    "nextWork.large",
    "verify.rate"
  ])
})

test("G3 G72 settlements come out beside bare statements that wrote the same history, each committed once", {
  timeout: 240_000
}, () => {
  const scratch = temporary()
  const program = join(import.meta.dirname, "../../bench/main.ts")
  const { status, stdout } = spawnSync(
    process.execPath,
    [program, "governance", "--json", "--runs", "1", "--only", "settle.one"],
    { encoding: "utf8", env: { ...process.env, TMPDIR: scratch } }
  )
  const report = JSON.parse(stdout)
  const figures = { p50: expect.any(Number), p99: expect.any(Number), n: 40, perSecond: expect.any(Number) }
  expect(report).toMatchObject({ area: "governance", skipped: [] })
  expect(report.rows).toEqual([
    {
      id: "settle.one",
      unit: "ms",
      ours: figures,
      yardstick: { name: "bare node:sqlite, same statements", ...figures },
      peers: {},
      correct: true,
      note: expect.stringContaining("statements a transaction")
    }
  ])
  expect({ status, left: readdirSync(scratch) }).toEqual({ status: 0, left: [] })
})

test("G4 G22 the generated store verifies, gives the ready todos behind all others, and counts what it withholds", async () => {
  const directory = temporary()
  const facts = await makeLargeStore(directory, 400, 3000)
  const store = await openAuthority({ directory, now: () => facts.now })
  const run = runIn(store)
  expect(await store.verify()).toEqual({ ok: true, entries: 3000, brokenAt: null })
  const claimed = new Set<string>()
  for (let n = 0; n < facts.ready; n++) {
    const got = await run(Todos.nextWork({ goal: facts.goal, agent: "ada" }))
    if (got._tag === "claimed") claimed.add(got.todo.id)
  }
  expect(claimed.size).toBe(20)
  const none = await run(Todos.nextWork({ goal: facts.goal, agent: "ada" }))
  expect(none).toMatchObject({
    _tag: "none",
    withheld: { unfinished: 241, leased: 81, deferred: 60, blocked: 60, capability: 40, excluded: 0, scopeConflict: 0 }
  })
  await store.close()
})
