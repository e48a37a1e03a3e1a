/**
 * What gates cost those whom they do not concern: nothing that grows. And when a question is not asked any more.
 */
import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { Gates, Goals, Leases, Obligations, type Reach, Todos, workModule } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"
import { checkInvariants } from "./invariants.ts"

const owner = { role: "person", name: "Vera" } as const

const ask = (bench: Bench, goal: { readonly id: string }, question: string, more: object = {}) =>
  bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question, ...more }))

const decide = (bench: Bench, gate: { readonly id: string }, allow: boolean, reach: Reach) =>
  bench.run(Gates.decide({ gate: gate.id, by: owner, allow, reason: "discussed", reach }))

const openGates = async (bench: Bench, goal: { readonly id: string }) => {
  const { parts } = await bench.run(Goals.frontier({ goal: goal.id }))
  const { items } = await bench.run(Gates.list({ goal: goal.id, state: "open" }))
  const counted = parts.find(({ kind }) => kind === "gate")?.count ?? 0
  assert.equal(items.length, counted)
  return counted
}

const stopping = (bench: Bench, gate: { readonly id: string }) => {
  const db = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
  const may = db.prepare("SELECT may_stop FROM gate WHERE id = ?").get(gate.id)!["may_stop"]
  db.close()
  return may
}

const done = { continuation: { kind: "noFollowUp" } } as const

test("G12 G40 a gate whose named todos are all done or retired is open no more: used once, it lets its goal be completed", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [one, two] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const gate = await ask(bench, goal, "May I?", { todos: [one.id, two.id] })
  await decide(bench, gate, true, { kind: "once" })
  const { fence } = await hold(bench, one)
  assert.equal(await openGates(bench, goal), 1)
  await bench.run(Todos.complete({ todo: one.id, fence, ...done }))
  assert.deepEqual([await openGates(bench, goal), stopping(bench, gate)], [1, 1])
  await bench.run(Todos.supersede({ todo: two.id, reason: "no need" }))
  assert.deepEqual([await openGates(bench, goal), stopping(bench, gate)], [0, 0])
  // An answer that comes late brings nothing back.
  await decide(bench, gate, false, { kind: "until", at: bench.now + 10 })
  assert.equal(stopping(bench, gate), 0)
  const closed = await bench.run(Goals.complete({ goal: goal.id, closure: { reason: "done" } }))
  assert.equal(closed.state, "completed")
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test("G12 G40 below a completed goal no gate is open, whatever lapses there", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const gate = await ask(bench, goal, "Now?")
  await decide(bench, gate, false, { kind: "until", at: bench.now + 10 })
  await bench.run(Goals.complete({ goal: goal.id, closure: { reason: "done" } }))
  bench.now += 20
  assert.equal(await openGates(bench, goal), 0)
  assert.deepEqual((await bench.run(Goals.get({ goal: goal.id }))).gates, { count: 0, ids: [] })
})

test("G40 a decision that was used once is kept while its holder acts under it, however many come after", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal, "Each?", { actions: ["claim", "complete"] })
  await decide(bench, gate, true, { kind: "once" })
  const { fence } = await hold(bench, todo)
  for (let i = 0; i < 25; i++) {
    const other = await newTodo(bench, goal)
    await decide(bench, gate, true, { kind: "once" })
    const lease = await hold(bench, other, "bob")
    if (i % 2 === 0) await bench.run(Leases.release({ fence: lease.fence }))
  }
  assert.equal((await bench.run(Todos.complete({ todo: todo.id, fence, ...done }))).state, "done")
})

test("G40 a gate that was allowed for each todo that it names stops nothing more, and a refusal for one of them stands", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [one, two] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const gate = await ask(bench, goal, "Both?", { todos: [one.id, two.id] })
  await decide(bench, gate, true, { kind: "todo", todo: one.id })
  assert.equal(stopping(bench, gate), 1)
  await decide(bench, gate, false, { kind: "todo", todo: two.id })
  assert.equal(stopping(bench, gate), 1)
  assert.equal((await bench.fails(Leases.acquire({ todo: two.id, agent: "ada" }))).code, "GATED")
  await decide(bench, gate, true, { kind: "todo", todo: two.id })
  assert.equal(stopping(bench, gate), 0)
  await hold(bench, two)
})

test("G40 G22 nextWork looks no further when a gate refuses all of an agent's work, and goes on where one todo is allowed", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todos = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const gate = await ask(bench, goal, "All?")
  const next = () => bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  const all = [{ todo: null, gates: [gate.id] }]
  await decide(bench, gate, true, { kind: "until", at: bench.now + 5 })
  bench.now += 10
  assert.deepInclude(await next(), { _tag: "none", gated: all })
  await decide(bench, gate, false, { kind: "scope" })
  const none = await next()
  assert.deepInclude(none, { _tag: "none", gated: all })
  assert.equal(none._tag === "none" && none.withheld.gated, 2)
  await decide(bench, gate, true, { kind: "todo", todo: todos[1]!.id })
  const got = await next()
  assert.equal(got._tag === "claimed" && got.todo.id, todos[1]!.id)
})

test("G40 C66 what an agent does costs no more for gates and obligations about other work: every statement goes by an index", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [mine, other] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  await ask(bench, goal, "Of the other?", { todos: [other.id] })
  const everywhere = await ask(bench, goal, "Of all?", { actions: ["settle"] })
  await bench.run(Obligations.open({ goal: goal.id, todo: other.id, reason: "promised" }))
  const { fence } = await hold(bench, mine)
  const db = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
  const read = new Map<string, readonly string[]>()
  const gates = new Set<string>()
  const watched = (type: string, payload: object) => {
    const command = { id: "c", module: "work", type, payload: payload as never }
    const load = workModule.load(command, { now: bench.now })
    for (let step = load.next(); step.done !== true; ) {
      const { sql, params } = step.value
      const found = db.prepare(sql).all(...(params as never[])) as Record<string, never>[]
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...(params as never[]))
      read.set(
        sql,
        plan.map((line) => String(line["detail"]))
      )
      if (sql.includes("FROM gate")) for (const { id } of found) if (id !== undefined) gates.add(id)
      step = load.next(found)
    }
  }
  watched("nextWork", { goal: goal.id, agent: "bob" })
  gates.clear()
  watched("acquireLease", { todo: mine.id, agent: "ada" })
  watched("admitTurn", { goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
  const todo = { action: "keep" }
  const spend = { usd: 0 }
  watched("settle", { effectId: "e", goal: goal.id, fence, outcome: "progress", evidence: [], spend, todo })
  watched("completeTodo", { todo: mine.id, fence, ...done })
  db.close()
  assert.deepEqual([...gates], [everywhere.id])
  const plans = [...read].filter(([sql]) => /FROM (gate|obligation)/.test(sql))
  assert.isAbove(plans.length, 3)
  for (const [sql, plan] of plans) {
    for (const line of plan) assert.notMatch(line, /^SCAN (?!l\b)/, sql)
    if (sql.includes("todos IS NULL")) assert.include(plan.join(), "gate_everywhere", sql)
    if (sql.includes("obligation WHERE")) assert.include(plan.join(), "INDEX obligation_open", sql)
  }
})

test("G40 G15 G50 lists that commands read whole are bounded, and what is one too many is refused before anything is kept", async () => {
  const bench = await newBench({ durability: "disposable" })
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const tooMany = { code: "INVALID_INPUT" } as const
  const names = (n: number) => Array.from({ length: n }, (_, i) => `n${i}`)
  for (const field of ["excludedAgents", "capabilities"]) {
    await newTodo(bench, goal, { [field]: names(100) })
    const add = Todos.add({ goal: goal.id, title: "t", [field]: names(101) })
    assert.deepInclude(await bench.fails(add), tooMany)
  }
  const some = <A>(n: number, of: (i: number) => Effect.Effect<A, any, any>) =>
    bench.run(Effect.forEach(names(n), (_, i) => of(i)) as Effect.Effect<A[], never, never>)
  const asking = (i: number) =>
    Gates.ask({ goal: goal.id, kind: "userDecision", question: `q${i}`, todos: [todo.id], actions: ["settle"] })
  const asked = await some(100, asking)
  assert.deepInclude(await bench.fails(asking(100)), tooMany)
  // What was asked before is found again, and room is made by an answer.
  assert.equal((await bench.run(asking(3))).asked, false)
  await decide(bench, asked[0]!, true, { kind: "scope" })
  assert.equal((await bench.run(asking(100))).asked, true)
  for (const of of [{}, { todo: todo.id }]) {
    const oblige = (i: number) => Obligations.open({ goal: goal.id, reason: `r${i}`, ...of })
    await some(100, oblige)
    assert.deepInclude(await bench.fails(oblige(100)), tooMany)
  }
  assert.equal((await bench.run(Goals.get({ goal: goal.id }))).obligations.length, 100)
  const each = await ask(bench, goal, "Each?")
  const todos = await some(101, (i) => Todos.add({ goal: goal.id, title: `t${i}` }))
  const allow = (i: number) =>
    Gates.decide({ gate: each.id, by: owner, allow: true, reason: "r", reach: { kind: "todo", todo: todos[i]!.id } })
  await some(100, allow)
  assert.deepInclude(await bench.fails(allow(100)), tooMany)
  assert.equal((await decide(bench, each, true, { kind: "scope" })).decisions.length, 1)
})
