import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { Agents, Quota, Settlements, Todos } from "../../src/governance/index.ts"
import { newBench, newGoal, seed } from "./authority.ts"

/** mulberry32: a small seeded generator, so that a failing history can be run again. */
const random = (state: number) => () => {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}

test("G2 G53 G72 three processes killed at random, again and again: no acknowledged receipt is lost, nothing is settled twice, spend is the sum of its events", async () => {
  const start = seed()
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench, { usd: 1000 })
  const agents = ["w0", "w1", "w2"]
  for (const agentId of agents) await bench.run(Agents.register({ goal: goal.id, agentId }))
  await bench.run(
    Effect.all(
      Array.from({ length: 24 }, (_, i) => Todos.add({ goal: goal.id, title: `n${i}` })),
      { concurrency: "unbounded" }
    )
  )
  /** Every receipt that some process was told, by command id. */
  const acknowledged = new Map<string, string>()
  let kills = 0
  const live = async (agent: string, index: number) => {
    const next = random(start + index)
    for (let life = 0; life < 4; life += 1) {
      const point = ["authority.beforeCommit", "authority.afterCommit", "authority.afterJournal"][
        Math.floor(next() * 3)
      ]!
      const crashAt = life === 3 ? "" : `${point}:${1 + Math.floor(next() * 12)}`
      const program = join(import.meta.dirname, "programs", "worker.ts")
      const child = spawn(process.execPath, [program, bench.directory, goal.id, agent, "8"], {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, COPPICE_CRASH_AT: crashAt }
      })
      let output = ""
      child.stdout.on("data", (chunk) => (output += chunk))
      const [code, signal] = await once(child, "close")
      for (const line of output.split("\n").slice(0, -1)) {
        const { commandId, receipt } = JSON.parse(line)
        const text = JSON.stringify(receipt)
        // "Nothing to do" leaves no receipt (it changed nothing); everything else is told the same way for ever.
        if (receipt._tag === "none") continue
        assert.equal(acknowledged.get(commandId) ?? text, text, commandId)
        acknowledged.set(commandId, text)
      }
      if (signal === null) return assert.equal(code, 0)
      assert.equal(signal, "SIGKILL")
      kills += 1
    }
  }
  await Promise.all(agents.map(live))

  const journal = await bench.store.journal({ after: 0, limit: 10_000 })
  const commands = new Set(journal.map((entry) => entry.command))
  for (const commandId of acknowledged.keys()) assert.isTrue(commands.has(commandId), commandId)
  const { items, total } = await bench.run(Settlements.list({ goal: goal.id }))
  assert.equal(total, 24)
  assert.equal(new Set(items.map((settlement) => settlement.todo)).size, 24)
  const todos = await bench.run(Todos.list({ goal: goal.id }))
  assert.isTrue(todos.items.every((todo) => todo.state === "done"))
  const status = await bench.run(Quota.status({ goal: goal.id }))
  const known = items.filter((settlement) => settlement.spend.usd !== "unknown")
  assert.equal(status.spent.usd, known.length * 0.25)
  assert.equal(status.owed.length, total - known.length)
  assert.equal(status.reserved.usd, status.owed.length)
  const history = await bench.run(Quota.history({ goal: goal.id, limit: 10_000 }))
  assert.equal(
    history.items.reduce((sum, event) => sum + event.change.spent.usd, 0),
    status.spent.usd
  )
  assert.isTrue((await bench.store.verify()).ok)
  console.log(`${kills} kills, ${acknowledged.size} receipts`)
}, 120_000)
