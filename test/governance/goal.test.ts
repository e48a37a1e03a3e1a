import { assert, test } from "vitest"
import { Agents, Goals, Leases, Quota, Todos, Turns } from "../../src/governance/index.ts"
import { newBench, newGoal, newTodo } from "./authority.ts"
import * as Effect from "effect/Effect"

const refused: readonly (readonly [string, unknown])[] = [
  ["usd", "3 "],
  ["usd", null],
  ["usd", -1],
  ["usd", true],
  ["usd", Number.NaN],
  ["usd", Number.POSITIVE_INFINITY],
  ["slots", "3 "],
  ["slots", null],
  ["slots", -1],
  ["slots", true],
  ["slots", 1.9],
  ["usd", []],
  ["euros", 5]
]

test.each(refused)("C56 a limit given as %s = %j is refused at the door and changes nothing", async (meter, value) => {
  const bench = await newBench()
  const error = await bench.fails(Goals.open({ title: "t", budget: { [meter]: value } as never }))
  assert.equal(error.code, "INVALID_INPUT")
  assert.isNotEmpty(error.remedy)
  assert.deepEqual((await bench.store.journal({ after: 0, limit: 10 })).length, 0)
})

test("C56 G50 a missing limit is refused and never means unlimited", async () => {
  const bench = await newBench()
  const none = await bench.fails(Goals.open({ title: "t", budget: {} }))
  assert.equal(none.code, "BOUND_MISSING")
  const other = await bench.fails(Goals.open({ title: "t", budget: { slots: 3 }, requiredMeters: ["usd"] }))
  assert.deepInclude(other, { code: "BOUND_MISSING", meter: "usd" })
  const ok = await bench.run(Goals.open({ title: "t", budget: { slots: 3 } }))
  assert.deepEqual(ok.budget, { usd: null, slots: 3 })
})

test("C58 G50 a limit of 0 is a real limit for every meter", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 0, slots: 0 })
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(status.remaining, { usd: 0, slots: 0 })
  const usd = await bench.fails(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 0.000001, slots: 0 } }))
  assert.deepInclude(usd, { code: "QUOTA_EXCEEDED", meter: "usd", limit: 0 })
  const slots = await bench.fails(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 0, slots: 1 } }))
  assert.deepInclude(slots, { code: "QUOTA_EXCEEDED", meter: "slots", limit: 0 })
  assert.equal(
    (await bench.run(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 0, slots: 0 } }))).state,
    "open"
  )
})

test("G10 a paused or stopped goal admits nothing below it, keeps its quota, and goes on when resumed", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  for (const halt of [Goals.pause, Goals.stop]) {
    await bench.run(halt({ goal: goal.id }))
    const attempts: Effect.Effect<unknown, { readonly code: string }, any>[] = [
      Todos.nextWork({ goal: goal.id, agent: "ada" }),
      Leases.acquire({ todo: todo.id, agent: "ada" }),
      Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 1, slots: 1 } })
    ]
    for (const attempt of attempts) assert.equal((await bench.fails(attempt)).code, "GOAL_NOT_ACTIVE")
    const resumed = await bench.run(Goals.resume({ goal: goal.id }))
    assert.deepEqual([resumed.state, resumed.budget], ["active", goal.budget])
  }
  assert.equal((await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" })))._tag, "claimed")
})

test("G11 a goal opened again under the same title is another goal, with books of its own", async () => {
  const bench = await newBench()
  const first = await newGoal(bench)
  await bench.run(Quota.spend({ goal: first.id, effectId: "e1", spend: { usd: 4 } }))
  const second = await newGoal(bench)
  assert.equal(second.title, first.title)
  assert.notEqual(second.id, first.id)
  assert.equal((await bench.run(Quota.status({ goal: second.id }))).spent.usd, 0)
})

test("G13 several agents register with a goal by their ids; registering starts nothing and makes nobody the default", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const agents = await bench.run(Agents.list({ goal: goal.id }))
  assert.deepEqual(
    agents.items.map((agent) => agent.agentId),
    ["ada", "bob"]
  )
  assert.equal((await bench.fails(Leases.inspect({ todo: todo.id }))).code, "NOT_FOUND")
  assert.deepEqual((await bench.run(Turns.list({ goal: goal.id }))).items, [])
  const unknown = await bench.fails(Todos.nextWork({ goal: goal.id, agent: "eve" }))
  assert.deepInclude(unknown, { code: "NOT_FOUND", kind: "agent", id: "eve" })
})
