/** Races for the same work: callers of one process, real processes on one file, and one that was stopped past its lease. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { Agents, Leases, Todos } from "../../src/governance/index.ts"
import { hold, newBench, newGoal, newTodo, seed } from "./authority.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import type { Call } from "./calls.ts"
import { randomOf } from "./history.ts"
import { checkInvariants, factsOf } from "./invariants.ts"

const run = promisify(execFile)
const [claimer, racer, commander] = (await Promise.all(
  ["claimer", "racer", "commander"].map((name) => oneFile(join(import.meta.dirname, "programs", `${name}.ts`)))
)) as [string, string, string]

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
      const { stdout } = await run(process.execPath, [claimer, bench.directory, goal.id, agent], {
        env: oneFileEnvironment()
      })
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

test("G3 G32 four real processes, 2,500 claim attempts each: exactly one holder per todo, and nobody ever sees a busy file", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  const count = 2500
  const todos = await bench.run(
    Effect.forEach(
      Array.from({ length: count }, (_, i) => i),
      (i) => Todos.add({ goal: goal.id, title: `todo ${i}` }),
      { concurrency: 250 }
    )
  )
  const names = ["p0", "p1", "p2", "p3"]
  for (const agentId of names) await bench.run(Agents.register({ goal: goal.id, agentId }))
  const racers = names.map((agent) => {
    const child = spawn(process.execPath, [racer, bench.directory, agent, "25"], {
      stdio: ["pipe", "pipe", "inherit"],
      env: oneFileEnvironment()
    })
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
  })
  for (const { lines } of racers) assert.equal((await lines.next()).value, "ready")
  for (const { child } of racers) child.stdin.end(`${JSON.stringify(todos.map((todo) => todo.id))}\n`)
  const reports = await Promise.all(
    racers.map(async ({ lines }) => JSON.parse((await lines.next()).value!) as { won: string[]; refused: object })
  )
  const won = reports.flatMap((report) => report.won)
  assert.equal(won.length, count)
  assert.equal(new Set(won).size, count)
  const held = reports.reduce((sum, report) => sum + ((report.refused as { LEASE_HELD?: number }).LEASE_HELD ?? 0), 0)
  assert.equal(held, 3 * count)
  assert.deepEqual([...new Set(reports.flatMap((report) => Object.keys(report.refused)))], ["LEASE_HELD"])
  for (const { child } of racers) if (child.exitCode === null) await once(child, "close")
  assert.deepEqual(checkInvariants(bench.directory), [])
}, 300_000)

test("G3 G32 64 callers at once, 100 seeds of how they arrive: one winner each time, everybody else learns who holds", async () => {
  const random = randomOf(seed())
  const bench = await newBench()
  const goal = await newGoal(bench)
  for (let n = 0; n < 100; n += 1) {
    const todo = await newTodo(bench, goal)
    const outcomes = await bench.run(
      Effect.all(
        Array.from({ length: 64 }, () => {
          const agent = random(2) === 0 ? "ada" : "bob"
          // Some ask in a later turn of the event loop, when others may have been answered.
          const later =
            random(4) === 0 ? Effect.promise(() => new Promise((resolve) => setImmediate(resolve))) : Effect.void
          return Effect.result(Effect.andThen(later, Leases.acquire({ todo: todo.id, agent })))
        }),
        { concurrency: "unbounded" }
      )
    )
    const won = outcomes.filter(Result.isSuccess)
    assert.equal(won.length, 1)
    for (const lost of outcomes.filter(Result.isFailure)) {
      assert.deepInclude(lost.failure, { code: "LEASE_HELD", owner: won[0]!.success.owner, epoch: 1 })
    }
  }
  assert.deepEqual(checkInvariants(bench.directory), [])
}, 120_000)

test("G33 G35 G36 a process that is stopped past its lease and continued holds nothing: each of its writes is refused, whatever its own clock says", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const before = bench.now
  const child = spawn(process.execPath, [commander, bench.directory], {
    stdio: ["pipe", "pipe", "inherit"],
    env: oneFileEnvironment()
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const said = async () => JSON.parse((await lines.next()).value!)
  const ask = (calls: readonly Call[]) => child.stdin.write(`${JSON.stringify({ now: before, ms: 1, calls })}\n`)
  await said()
  ask([{ commandId: "c1", name: "Leases.acquire", input: { todo: todo.id, agent: "ada", ttlMs: 1000 } }])
  const { reply: lease } = await said()
  assert.isTrue((await said()).done)
  const { fence } = lease

  process.kill(child.pid!, "SIGSTOP")
  const state = () => readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]![0]
  while (state() !== "T") await new Promise((resolve) => setImmediate(resolve))
  // What it was about to do lies before it; its clock still shows a time at which its lease lived.
  const spend = { usd: 1 }
  ask([
    { commandId: "c2", name: "Leases.renew", input: { fence } },
    { commandId: "c3", name: "Quota.spend", input: { goal: goal.id, todo: todo.id, effectId: "e", spend, fence } },
    {
      commandId: "c4",
      name: "Settlements.settle",
      input: {
        effectId: "e2",
        goal: goal.id,
        fence,
        outcome: "progress",
        evidence: [],
        spend,
        todo: { action: "keep" }
      }
    },
    {
      commandId: "c5",
      name: "Todos.complete",
      input: { todo: todo.id, fence, continuation: { kind: "noFollowUp" } }
    },
    { commandId: "c6", name: "Leases.release", input: { fence } }
  ])
  bench.now += 1000
  const next = await hold(bench, todo, "bob")
  assert.deepInclude(next, { epoch: 2, owner: "bob" })
  const facts = factsOf(bench.directory).length
  process.kill(child.pid!, "SIGCONT")
  for (const commandId of ["c2", "c3", "c4", "c5", "c6"]) {
    assert.deepEqual(await said(), { commandId, refused: "LEASE_LOST" })
  }
  child.stdin.end()
  await once(child, "close")
  assert.equal(factsOf(bench.directory).length, facts)
  assert.equal((await bench.run(Leases.renew({ fence: next.fence }))).epoch, 2)
  assert.deepEqual(checkInvariants(bench.directory), [])
})
