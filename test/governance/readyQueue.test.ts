/**
 * The ready queue against the plain truth: what it proposes, how it is kept, and that no statement of a search sorts or scans.
 */
import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { Agents, Goals, type Lease, Leases, type TodoRecord, Todos, workModule } from "../../src/governance/index.ts"
import { readyQueueTables } from "../../src/governance/ReadyQueue.ts"
import { type Bench, newBench, newGoal, seed } from "./authority.ts"

/** A small generator of numbers (mulberry32), so that a seed repeats a run. */
const random = (start: number) => {
  let state = start
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

const agents: readonly { readonly id: string; readonly capabilities: readonly string[] }[] = [
  { id: "ada", capabilities: [] },
  { id: "bob", capabilities: ["gpu", "docker"] }
]

interface World {
  readonly bench: Bench
  readonly goal: string
  readonly todos: Map<string, TodoRecord>
  readonly leases: Map<string, Lease>
}

const opened = async (): Promise<World> => {
  const bench = await newBench({ durability: "disposable" })
  const goal = await newGoal(bench)
  await bench.run(Agents.register({ goal: goal.id, agentId: "bob", capabilities: ["gpu", "docker"] }))
  return { bench, goal: goal.id, todos: new Map(), leases: new Map() }
}

/** Why a todo may not be given, by its records alone: the model. */
const whyNot = ({ bench, todos, leases }: World, todo: TodoRecord, agent: (typeof agents)[number]) => {
  const lease = leases.get(todo.id)
  if (lease !== undefined && lease.expiresAt > bench.now) return "leased"
  if (todo.state === "deferred" && !(todo.deferredUntil !== null && todo.deferredUntil <= bench.now)) return "deferred"
  if (todo.dependsOn.some((id) => todos.get(id)!.state !== "done")) return "blocked"
  if (todo.excludedAgents.includes(agent.id)) return "excluded"
  if (!todo.capabilities.every((capability) => agent.capabilities.includes(capability))) return "capability"
  const writes = [...leases.values()].some(
    (other) =>
      other.todo !== todo.id &&
      other.expiresAt > bench.now &&
      other.writeScopes.some((scope) => todo.writeScopes.includes(scope))
  )
  return writes ? "scopeConflict" : undefined
}

const check = async (world: World, agent: (typeof agents)[number], commandId: string): Promise<void> => {
  const { bench, goal, todos, leases } = world
  const left = [...todos.values()].filter((todo) => todo.state === "open" || todo.state === "deferred")
  const reasons = left.map((todo) => [todo, whyNot(world, todo, agent)] as const)
  const best = reasons
    .filter(([, why]) => why === undefined)
    .map(([todo]) => todo)
    .toSorted((a, b) => b.priority - a.priority || a.addedAt - b.addedAt || (a.id < b.id ? -1 : 1))[0]
  const got = await bench.run(Todos.nextWork({ goal, agent: agent.id, ttlMs: 1000, commandId }))
  if (got._tag === "claimed") {
    assert.equal(got.todo.id, best?.id)
    todos.set(got.todo.id, got.todo)
    leases.set(got.todo.id, got.lease)
    return
  }
  assert.isUndefined(best)
  const counts = {
    leased: 0,
    deferred: 0,
    blocked: 0,
    excluded: 0,
    capability: 0,
    gated: 0,
    scopeConflict: 0,
    unreadable: 0
  }
  for (const [, why] of reasons) counts[why!] += 1
  assert.deepEqual(got.withheld, { ...counts, unfinished: left.length })
}

const step = async (world: World, pick: (below: number) => number): Promise<void> => {
  const { bench, goal, todos, leases } = world
  const ids = [...todos.keys()]
  const some = () => ids[pick(ids.length)]!
  const keep = (result: Result.Result<TodoRecord, unknown>) => {
    if (Result.isSuccess(result)) todos.set(result.success.id, { ...todos.get(result.success.id), ...result.success })
  }
  const fence = (todo: string) => {
    const lease = leases.get(todo)
    return lease === undefined || lease.expiresAt <= bench.now ? {} : { fence: lease.fence }
  }
  const move = ids.length === 0 ? 0 : pick(12)
  const todo = ids.length === 0 ? "" : some()
  if (move <= 3) {
    const spec = {
      priority: pick(3),
      ...(ids.length > 0 && pick(3) === 0 ? { dependsOn: [some(), some()] } : {}),
      ...(pick(3) === 0 ? { capabilities: [["gpu"], ["docker"], ["gpu", "docker"]][pick(3)]! } : {}),
      ...(pick(4) === 0 ? { excludedAgents: [agents[pick(2)]!.id] } : {}),
      ...(pick(3) === 0 ? { writeScopes: [`s${pick(2)}`] } : {})
    }
    keep(await bench.run(Effect.result(Todos.add({ goal, title: "t", ...spec }))))
  } else if (move === 4) {
    const until = [undefined, bench.now + 500, bench.now - 1][pick(3)]
    const more = { ...fence(todo), ...(until === undefined ? {} : { until }) }
    const done = await bench.run(Effect.result(Todos.defer({ todo, reason: "later", ...more })))
    if (Result.isSuccess(done)) leases.delete(todo)
    keep(done)
  } else if (move === 5) keep(await bench.run(Effect.result(Todos.reopen({ todo }))))
  else if (move === 6) {
    const { revision } = todos.get(todo)!
    const dependsOn = pick(2) === 0 ? [] : [some()]
    keep(await bench.run(Effect.result(Todos.edit({ todo, revision, priority: pick(3), dependsOn }))))
  } else if (move <= 8) {
    const continuation = { kind: "goalStaysActive" } as const
    const done = await bench.run(Effect.result(Todos.complete({ todo, continuation, ...fence(todo) })))
    if (Result.isSuccess(done)) leases.delete(todo)
    keep(done)
  } else if (move === 9) {
    const replacements = pick(2) === 0 ? [] : [{ title: "instead", priority: pick(3) }]
    const done = await bench.run(Effect.result(Todos.supersede({ todo, reason: "no", replacements, ...fence(todo) })))
    if (Result.isSuccess(done)) {
      leases.delete(todo)
      const { items } = await bench.run(Todos.list({ goal }))
      for (const item of items) todos.set(item.id, item)
    }
  } else if (move === 10) {
    const held = leases.get(todo)
    if (held !== undefined && held.expiresAt > bench.now) {
      await bench.run(Leases.release({ fence: held.fence }))
      leases.delete(todo)
    }
  } else bench.now += [1, 499, 1001][pick(3)]!
}

test("G20 G22 G33 G34 nextWork gives what the plain records say, and counts the rest, after every step of a random history", async () => {
  const from = seed()
  for (let run = 0; run < 6; run++) {
    const world = await opened()
    const pick = random(from + run)
    for (let i = 0; i < 120; i++) {
      await step(world, pick)
      if (i % 2 === 0) await check(world, agents[pick(2)]!, `check-${i}`)
    }
    // A step for older stores derives from the records what the projections kept.
    const file = join(world.bench.directory, "authority.db")
    const old = new DatabaseSync(":memory:")
    for (const { sql } of workModule.migrations.slice(0, 2)) old.exec(sql)
    old.exec(`ATTACH '${file}' AS kept`)
    for (const table of ["goal", "todo", "lease"]) {
      const columns = (
        old.prepare(`SELECT name FROM pragma_table_info('${table}', 'main')`).all() as { name: string }[]
      )
        .map((column) => column.name)
        .join(", ")
      old.exec(`INSERT INTO main.${table} (${columns}) SELECT ${columns} FROM kept.${table}`)
    }
    old.exec(readyQueueTables)
    const queue = (schema: string) => [
      old.prepare(`SELECT todo, depends_on FROM ${schema}.todo_dependency ORDER BY 1, 2`).all(),
      old
        .prepare(
          `SELECT id, unmet, CASE WHEN not_before > ? THEN not_before END AS not_before FROM ${schema}.todo WHERE state IN ('open', 'deferred') ORDER BY id`
        )
        .all(world.bench.now)
    ]
    assert.deepEqual(queue("main"), queue("kept"))
    old.close()
  }
})

test("G22 no statement of a search scans a table or sorts: each finds its rows by an index, whatever withholds the others", async () => {
  const { bench, goal } = await opened()
  const add = (more: object) => bench.run(Todos.add({ goal, title: "t", ...more }))
  const base = await add({ writeScopes: ["src"] })
  await bench.run(Leases.acquire({ todo: base.id, agent: "ada" }))
  for (let i = 0; i < 3; i++) await add({ dependsOn: [base.id] })
  for (let i = 0; i < 3; i++) await add({ capabilities: ["tpu"] })
  const conflicting = await add({ writeScopes: ["src/a"], capabilities: ["gpu"] })
  const db = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
  const statements = new Map<string, readonly unknown[]>()
  const command = { id: "c", module: "work", type: "nextWork", payload: { goal, agent: "bob" } }
  const load = workModule.load(command, { now: bench.now })
  let at = load.next()
  while (at.done !== true) {
    statements.set(at.value.sql, at.value.params)
    at = load.next(db.prepare(at.value.sql).all(...at.value.params) as never)
  }
  assert.deepInclude(at.value as object, { payload: { goal, agent: "bob" } })
  const plans = [...statements].map(([sql, params]) => [
    sql,
    db
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...(params as never[]))
      .map((row) => String(row["detail"]))
  ]) as (readonly [string, readonly string[]])[]
  db.close()
  assert.isAbove(plans.length, 6)
  for (const [sql, plan] of plans) {
    for (const line of plan) {
      assert.notMatch(line, /^SCAN (?!l\b)/, sql)
      // Sorted are only short lists: what time has returned, until a grant takes it out, and what is owed an attempt.
      if (!sql.includes("not_before <= ?") && !sql.includes("FROM obligation"))
        assert.notMatch(line, /TEMP B-TREE/, sql)
    }
  }
  // What is ready is looked for among what is ready, not beside all that is withheld.
  for (const [sql, plan] of plans) {
    if (sql.includes("l.write_scopes")) assert.include(plan.join(), "INDEX lease_scoped ", sql)
    if (sql.includes("not_before IS NULL AND")) assert.include(plan.join(), "INDEX todo_ready ", sql)
  }
  const uses = (index: string) => plans.some(([, plan]) => plan.some((line) => line.includes(`INDEX ${index} `)))
  for (const index of ["todo_ready", "todo_timed", "todo_withheld"]) assert.isTrue(uses(index), index)
  const got = await bench.run(Todos.nextWork({ goal, agent: "bob" }))
  assert.deepEqual(
    got.blocked.map((one) => one.todo),
    [conflicting.id]
  )
})

test("G22 G33 G36 work that time returns is found at once, and a grant puts it back among the rest", async () => {
  const { bench, goal } = await opened()
  const todos: TodoRecord[] = []
  for (let i = 0; i < 5; i++) todos.push(await bench.run(Todos.add({ goal, title: "t", priority: i })))
  for (const todo of todos) await bench.run(Leases.acquire({ todo: todo.id, agent: "ada", ttlMs: 1000 }))
  assert.equal((await bench.run(Todos.nextWork({ goal, agent: "bob" })))._tag, "none")
  bench.now += 1000
  const timed = () => {
    const db = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
    const rows = db.prepare("SELECT id FROM todo WHERE not_before <= ? ORDER BY priority").all(bench.now)
    db.close()
    return rows.map((row) => row["id"])
  }
  assert.deepEqual(
    timed(),
    todos.map((todo) => todo.id)
  )
  const got = await bench.run(Todos.nextWork({ goal, agent: "bob" }))
  assert.equal(got._tag === "claimed" ? got.todo.id : undefined, todos[4]!.id)
  assert.deepEqual(timed(), [])
  const second = await bench.run(Todos.nextWork({ goal, agent: "bob" }))
  assert.equal(second._tag === "claimed" ? second.todo.id : undefined, todos[3]!.id)
})

test("G22 todos of another goal are never given, and never counted", async () => {
  const { bench, goal } = await opened()
  const other = await bench.run(Goals.open({ title: "Another", budget: { slots: 1 } }))
  await bench.run(Todos.add({ goal: other.id, title: "theirs", priority: 9 }))
  const got = await bench.run(Todos.nextWork({ goal, agent: "ada" }))
  assert.deepInclude(got, { _tag: "none", reason: "nothingUnfinished" })
})
