import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { Agents, type Authority, type Continuation, Goals, Leases, Quota, Todos } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result) ? result.failure.code : "ok"
}

test("G20 an edit names the revision that it saw, and the second of two edits at one revision is told", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const edited = await bench.run(Todos.edit({ todo: todo.id, revision: 1, priority: 5 }))
  assert.deepInclude(edited, { revision: 2, priority: 5, title: todo.title })
  const late = await bench.fails(Todos.edit({ todo: todo.id, revision: 1, title: "mine" }))
  assert.deepInclude(late, { code: "REVISION_CONFLICT", expected: 1, actual: 2 })
  assert.deepInclude(await bench.run(Todos.get({ todo: todo.id })), { revision: 2, title: todo.title })
})

test("G20 done and superseded are final for every call", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  for (const end of [
    (todo: string) => Todos.complete({ todo, continuation: { kind: "noFollowUp" } }),
    (todo: string) => Todos.supersede({ todo, reason: "another way" })
  ]) {
    const todo = await newTodo(bench, goal)
    const { revision } = await bench.run(end(todo.id) as Effect.Effect<{ revision: number }, any, Authority>)
    const calls: Effect.Effect<unknown, any, Authority>[] = [
      Todos.edit({ todo: todo.id, revision, title: "x" }),
      Todos.defer({ todo: todo.id, reason: "r" }),
      Todos.reopen({ todo: todo.id }),
      Todos.supersede({ todo: todo.id, reason: "r" }),
      Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }),
      Leases.acquire({ todo: todo.id, agent: "ada" })
    ]
    for (const call of calls) assert.equal(await codeOf(bench, call), "TODO_STATE")
    assert.equal((await bench.run(Todos.get({ todo: todo.id }))).revision, revision)
  }
})

test("G20 dependencies, unblocks, capabilities and exclusions decide who may take a todo, each reason named", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const base = await newTodo(bench, goal)
  const after = await newTodo(bench, goal, { dependsOn: [base.id], capabilities: ["docker"], excludedAgents: ["ada"] })
  const error = await bench.fails(Leases.acquire({ todo: after.id, agent: "ada" }))
  assert.deepInclude(error, { code: "NOT_ELIGIBLE" })
  assert.deepEqual((error as unknown as { reasons: string[] }).reasons, ["blocked", "excluded", "capability"])
  const first = await newTodo(bench, goal, { unblocks: [after.id] })
  assert.deepEqual((await bench.run(Todos.get({ todo: after.id }))).dependsOn, [base.id, first.id])
  for (const id of [base.id, first.id])
    await bench.run(Todos.complete({ todo: id, continuation: { kind: "goalStaysActive" } }))
  await bench.run(Agents.register({ goal: goal.id, agentId: "bob", capabilities: ["docker"] }))
  assert.equal((await hold(bench, after, "bob")).owner, "bob")
  assert.equal(await codeOf(bench, Todos.add({ goal: goal.id, title: "t", dependsOn: ["todo_x"] })), "NOT_FOUND")
})

test("G20 todos that would wait for each other are refused, however long the circle", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const a = await newTodo(bench, goal)
  const b = await newTodo(bench, goal, { dependsOn: [a.id] })
  const c = await newTodo(bench, goal, { dependsOn: [b.id] })
  for (const id of [a.id, b.id, c.id]) {
    assert.equal(await codeOf(bench, Todos.edit({ todo: a.id, revision: 1, dependsOn: [id] })), "INVALID_INPUT")
  }
  assert.equal(
    await codeOf(bench, Todos.add({ goal: goal.id, title: "t", dependsOn: [c.id], unblocks: [a.id] })),
    "INVALID_INPUT"
  )
  assert.equal(await codeOf(bench, Todos.edit({ todo: c.id, revision: 1, dependsOn: [a.id] })), "ok")
})

test("G21 a completion states exactly one continuation; its replay adds no second successor", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  for (const continuation of [
    undefined,
    {},
    { kind: "successors" },
    { kind: "successors", todos: [] },
    { kind: "noFollowUp", todos: [{ title: "x" }] }
  ]) {
    const call = Todos.complete({ todo: todo.id, continuation: continuation as unknown as Continuation })
    assert.equal(await codeOf(bench, call), "INVALID_INPUT")
  }
  const complete = Todos.complete({
    todo: todo.id,
    continuation: { kind: "successors", todos: [{ title: "next" }, { title: "and then" }] },
    commandId: "cmd_done"
  })
  const done = await bench.run(complete)
  const again = await bench.run(complete)
  assert.isTrue(again.replayed)
  assert.deepEqual(again.successors, done.successors)
  const open = await bench.run(Todos.list({ goal: goal.id, states: ["open"] }))
  assert.deepEqual(open.items.map((t) => t.id).toSorted(), done.successors.map((t) => t.id).toSorted())
  assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
})

test("G22 nextWork takes the highest priority first and never what is deferred, blocked, excluded or held", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const low = await newTodo(bench, goal, { priority: -1 })
  const high = await newTodo(bench, goal, { priority: 5 })
  await newTodo(bench, goal, { priority: 9, dependsOn: [low.id] })
  const deferred = await newTodo(bench, goal, { priority: 9 })
  await newTodo(bench, goal, { priority: 9, excludedAgents: ["ada"] })
  await newTodo(bench, goal, { priority: 9, capabilities: ["gpu"] })
  await bench.run(Todos.defer({ todo: deferred.id, until: bench.now + 1000, reason: "the service is down" }))
  const take = async () => {
    const got = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
    return got._tag === "claimed" ? got.todo.id : got
  }
  assert.equal(await take(), high.id)
  assert.equal(await take(), low.id)
  const none = await take()
  assert.deepInclude(none, { _tag: "none", reason: "allWithheld" })
  assert.deepEqual((none as { withheld: unknown }).withheld, {
    unfinished: 6,
    leased: 2,
    deferred: 1,
    blocked: 1,
    excluded: 1,
    capability: 1,
    gated: 0,
    scopeConflict: 0,
    unreadable: 0
  })
  bench.now += 1000
  assert.equal(await take(), deferred.id)
  assert.equal((await bench.run(Todos.get({ todo: deferred.id }))).state, "open")
})

test("G22 a long list hides no work: the last of 300 todos is found, and a list that was cut says so", async () => {
  const bench = await newBench({ durability: "disposable" })
  const goal = await newGoal(bench)
  await bench.run(
    Effect.all(
      Array.from({ length: 299 }, (_, i) =>
        Todos.add({ goal: goal.id, title: `n${i}`, priority: 1, capabilities: ["gpu"] })
      ),
      { concurrency: "unbounded" }
    )
  )
  const last = await newTodo(bench, goal)
  const page = await bench.run(Todos.list({ goal: goal.id, limit: 50 }))
  assert.deepEqual([page.items.length, page.total, page.more], [50, 300, true])
  const got = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  assert.equal(got._tag === "claimed" && got.todo.id, last.id)
  const none = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  assert.deepInclude(none._tag === "none" ? none.withheld : {}, { unfinished: 300, capability: 299, leased: 1 })
})

test("G22 64 agents asking at once never get the same todo", async () => {
  const bench = await newBench({ durability: "disposable" })
  const goal = await newGoal(bench)
  for (let i = 0; i < 40; i += 1) await newTodo(bench, goal)
  const got = await bench.run(
    Effect.all(
      Array.from({ length: 64 }, (_, i) => Todos.nextWork({ goal: goal.id, agent: i % 2 === 0 ? "ada" : "bob" })),
      { concurrency: "unbounded" }
    )
  )
  const claimed = got.flatMap((g) => (g._tag === "claimed" ? [g.todo.id] : []))
  assert.deepEqual([claimed.length, new Set(claimed).size], [40, 40])
})

test("G23 C65 every way out of open passes the lease's fence, supersede included, and gives the lease back", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const ways: ((todo: string, fence?: any) => Effect.Effect<unknown, any, Authority>)[] = [
    (todo, fence) => Todos.supersede({ todo, fence, reason: "r", replacements: [{ title: "instead" }] }),
    (todo, fence) => Todos.defer({ todo, fence, reason: "r" }),
    (todo, fence) => Todos.complete({ todo, fence, continuation: { kind: "goalStaysActive" } })
  ]
  for (const leave of ways) {
    const todo = await newTodo(bench, goal)
    const other = await hold(bench, await newTodo(bench, goal), "bob")
    const lease = await hold(bench, todo)
    assert.equal(await codeOf(bench, leave(todo.id)), "LEASE_HELD")
    assert.equal(await codeOf(bench, leave(todo.id, { ...lease.fence, token: "guess" })), "LEASE_LOST")
    assert.equal(await codeOf(bench, leave(todo.id, other.fence)), "INVALID_INPUT")
    assert.equal((await bench.run(Todos.get({ todo: todo.id }))).state, "open")
    assert.equal(await codeOf(bench, leave(todo.id, lease.fence)), "ok")
    assert.equal((await bench.run(Leases.inspect({ todo: todo.id }))).releasedAt, bench.now)
  }
})

test("G23 superseding rewires whoever depended on the todo to what takes its place", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const old = await newTodo(bench, goal)
  const waiting = await newTodo(bench, goal, { dependsOn: [old.id] })
  const gone = await bench.run(
    Todos.supersede({ todo: old.id, reason: "split", replacements: [{ title: "a" }, { title: "b" }] })
  )
  assert.deepEqual(
    (await bench.run(Todos.get({ todo: waiting.id }))).dependsOn,
    gone.replacements.map((t) => t.id)
  )
})

test("C61 G73 a completion without a turn owes its cost: the reply and every later read name the call that settles it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const done = await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  assert.equal(done.owed.length, 1)
  await bench.store.close()
  const later = await newBench({ directory: bench.directory })
  const { owed } = await later.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(owed, done.owed)
  assert.deepEqual((await later.run(Todos.get({ todo: todo.id }))).owed, done.owed)
  const { operation, input } = owed[0]!.call
  assert.equal(operation, "Quota.trueUp")
  await later.run(Quota.trueUp({ ...input, usd: 0.5 }))
  const status = await later.run(Quota.status({ goal: goal.id }))
  assert.deepEqual([status.spent.usd, status.owed], [0.5, []])
})

test("C55 a completion of which one row cannot be written is a typed failure, and nothing of it is done", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo)
  const direct = new DatabaseSync(join(bench.directory, "authority.db"))
  direct.exec("CREATE TRIGGER refuse BEFORE INSERT ON quota_event BEGIN SELECT RAISE(ABORT, 'no'); END")
  const before = (await bench.store.verify()).entries
  const complete = Todos.complete({
    todo: todo.id,
    fence: lease.fence,
    continuation: { kind: "noFollowUp" },
    commandId: "cmd_c"
  })
  assert.equal(await codeOf(bench, complete), "STORAGE_FAILURE")
  assert.equal((await bench.run(Todos.get({ todo: todo.id }))).state, "open")
  assert.equal((await bench.run(Leases.inspect({ todo: todo.id }))).releasedAt, null)
  assert.deepEqual(await bench.store.verify(), { ok: true, entries: before, brokenAt: null })
  direct.exec("DROP TRIGGER refuse")
  direct.close()
  assert.equal((await bench.run(complete)).state, "done")
})

test("C50 two workers see the same todo and claim minutes apart: the loser learns owner and epoch, and takes other work in one step", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const wanted = await newTodo(bench, goal, { priority: 1 })
  const other = await newTodo(bench, goal)
  const seen = (await bench.run(Todos.list({ goal: goal.id, states: ["open"] }))).items[0]!
  assert.equal(seen.id, wanted.id)
  const ada = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  assert.equal(ada._tag === "claimed" && ada.todo.id, wanted.id)
  bench.now += 120_000
  const late = await bench.fails(Leases.acquire({ todo: seen.id, agent: "bob" }))
  assert.deepInclude(late, { code: "LEASE_HELD", owner: "ada", epoch: 1 })
  const bob = await bench.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
  assert.equal(bob._tag === "claimed" && bob.todo.id, other.id)
})

test("C68 user, reviewer and worker edit one todo at the same revision: one wins, the others are told", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const results = await bench.run(
    Effect.all(
      ["user", "reviewer", "worker"].map((title) => Effect.result(Todos.edit({ todo: todo.id, revision: 1, title }))),
      { concurrency: "unbounded" }
    )
  )
  const won = results.filter(Result.isSuccess)
  const told = results.filter(Result.isFailure).map((r) => r.failure.code)
  assert.deepEqual([won.length, told], [1, ["REVISION_CONFLICT", "REVISION_CONFLICT"]])
  assert.equal((await bench.run(Todos.get({ todo: todo.id }))).title, won[0]!.success.title)
})
