import { spawnSync } from "node:child_process"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { Authority, Evidence, type Fence, Goals, Leases, leaseTtl, Quota, Todos } from "../../src/governance/index.ts"
import { scopesOverlap } from "../../src/governance/WriteScope.ts"
import { hold, newBench, newGoal, newTodo } from "./authority.ts"
import { leaseCode } from "./leaseCode.ts"
import { oneFile } from "../oneFile.ts"

const digest = `sha256:${"a".repeat(64)}`

test("G30 a lease lasts 45 minutes unless said otherwise, at most 24 hours, and its token cannot be guessed", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [a, b] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const lease = await hold(bench, a)
  assert.equal(lease.expiresAt - bench.now, 45 * 60_000)
  assert.equal(Buffer.from(lease.fence.token, "base64url").length, 32)
  const longest = await hold(bench, b, "ada", { ttlMs: leaseTtl.maxMs })
  assert.equal(longest.expiresAt - bench.now, 24 * 3_600_000)
  assert.notEqual(longest.fence.token, lease.fence.token)
  for (const ttlMs of [0, -1, 1.5, leaseTtl.maxMs + 1, Number.NaN]) {
    assert.equal(await leaseCode(bench, Leases.acquire({ todo: a.id, agent: "ada", ttlMs })), "INVALID_INPUT")
  }
})

test("G30 a released lease stays as a tombstone; epoch and version never go back; a used command id is burnt", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const first = await bench.run(Leases.acquire({ todo: todo.id, agent: "ada", commandId: "cmd_l" }))
  await bench.run(Leases.release({ fence: first.fence }))
  const tombstone = await bench.run(Leases.inspect({ todo: todo.id }))
  assert.deepInclude(tombstone, { owner: "ada", epoch: 1, version: 2, releasedAt: bench.now })
  const replay = await bench.run(Leases.acquire({ todo: todo.id, agent: "ada", commandId: "cmd_l" }))
  assert.isTrue(replay.replayed)
  assert.equal(await leaseCode(bench, Leases.renew({ fence: replay.fence })), "LEASE_LOST:released")
  const second = await hold(bench, todo, "bob")
  assert.deepInclude(second, { epoch: 2, version: 3 })
  assert.deepInclude(second.previous, { owner: "ada", epoch: 1, ended: "released" })
})

test("G31 renew, transfer and release name token, epoch and version; any that does not match loses and changes nothing", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo)
  const wrong: [Partial<Fence>, string][] = [
    [{ token: "x" }, "token"],
    [{ epoch: 2 }, "epoch"],
    [{ version: 9 }, "version"]
  ]
  for (const [change, why] of wrong) {
    const fence = { ...lease.fence, ...change }
    for (const call of [
      Leases.renew({ fence }),
      Leases.release({ fence }),
      Leases.transfer({ fence, to: "bob", reason: "r" })
    ]) {
      assert.equal(await leaseCode(bench, call as Effect.Effect<unknown, any, Authority>), `LEASE_LOST:${why}`)
    }
  }
  assert.deepInclude(await bench.run(Leases.inspect({ todo: todo.id })), { epoch: 1, version: 1, releasedAt: null })
  bench.now += 1000
  const renewed = await bench.run(Leases.renew({ fence: lease.fence, ttlMs: 5000 }))
  assert.deepInclude(renewed, { epoch: 1, version: 2, expiresAt: bench.now + 5000 })
  assert.equal(await leaseCode(bench, Leases.renew({ fence: lease.fence })), "LEASE_LOST:version")
  const moved = await bench.run(
    Leases.transfer({ fence: renewed.fence, to: "bob", reason: "bob knows it", oldExecutor: "ended" })
  )
  assert.deepInclude(moved, { owner: "bob", epoch: 2, version: 3 })
  assert.deepEqual(moved.previous, {
    owner: "ada",
    epoch: 1,
    ended: "transferred",
    oldExecutor: "ended",
    reason: "bob knows it"
  })
  assert.equal(await leaseCode(bench, Leases.release({ fence: renewed.fence })), "LEASE_LOST:epoch")
  await bench.run(Leases.release({ fence: moved.fence }))
})

test("G32 C51 two sessions with the same agent name: one holds, the other is refused, and its guess of the fence is worth nothing", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const mine = await hold(bench, todo)
  const program = await oneFile(join(import.meta.dirname, "programs", "claimer.ts"))
  const other = spawnSync(process.execPath, [program, bench.directory, goal.id, "ada"], { encoding: "utf8" })
  assert.deepEqual(JSON.parse(other.stdout), { claimed: [], errors: [], refusals: 1 })
  const error = await bench.fails(Leases.acquire({ todo: todo.id, agent: "ada" }))
  assert.deepInclude(error, { code: "LEASE_HELD", owner: "ada", epoch: 1 })
  assert.equal(await leaseCode(bench, Leases.renew({ fence: { ...mine.fence, token: "ada" } })), "LEASE_LOST:token")
  assert.equal((await bench.run(Leases.renew({ fence: mine.fence }))).version, 2)
})

test("G33 expiry ends authority at its very millisecond, but does not prove that the work stopped", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo, "ada", { ttlMs: 1000 })
  bench.now += 999
  assert.equal(await leaseCode(bench, Leases.acquire({ todo: todo.id, agent: "bob" })), "LEASE_HELD")
  bench.now += 1
  assert.equal(await leaseCode(bench, Leases.renew({ fence: lease.fence })), "LEASE_LOST:expired")
  const taken = await bench.run(
    Leases.acquire({ todo: todo.id, agent: "bob", reason: "ada's lease ran out", oldExecutor: "running" })
  )
  assert.equal(taken.epoch, 2)
  assert.deepEqual(taken.previous, {
    owner: "ada",
    epoch: 1,
    ended: "expired",
    oldExecutor: "running",
    reason: "ada's lease ran out"
  })
  const journal = await bench.store.journal({ after: 0, limit: 100 })
  assert.equal(journal.filter((entry) => entry.type === "lease.acquired").length, 2)
  bench.now += 10
  await bench.run(Leases.release({ fence: taken.fence }))
  const silent = await hold(bench, todo)
  assert.equal(silent.previous?.oldExecutor, "unknown")
})

test("G34 overlapping write scopes of live leases conflict, with every conflict listed; closed todos do not count", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const scoped = (writeScopes: string[]) => newTodo(bench, goal, { writeScopes })
  const core = await scoped(["packages/core"])
  const gate = await scoped(["packages/gate", "docs"])
  const both = await scoped(["packages/core/src/sum.ts", "docs/"])
  const apart = await scoped(["packages/corelib"])
  const held = await hold(bench, core)
  const second = await hold(bench, gate, "bob")
  await hold(bench, apart, "bob")
  const error = await bench.fails(Leases.acquire({ todo: both.id, agent: "ada" }))
  assert.deepInclude(error, { code: "SCOPE_CONFLICT" })
  assert.sameDeepMembers((error as unknown as { conflicts: unknown[] }).conflicts, [
    { todo: core.id, owner: "ada", epoch: 1, scopes: ["packages/core"], expiresAt: held.expiresAt },
    { todo: gate.id, owner: "bob", epoch: 1, scopes: ["docs"], expiresAt: second.expiresAt }
  ])
  await bench.run(Todos.complete({ todo: core.id, fence: held.fence, continuation: { kind: "goalStaysActive" } }))
  await bench.run(Leases.release({ fence: second.fence }))
  assert.equal((await hold(bench, both)).epoch, 1)
  assert.equal(await leaseCode(bench, Todos.add({ goal: goal.id, title: "t", writeScopes: ["/etc"] })), "INVALID_INPUT")
  assert.equal(
    await leaseCode(bench, Todos.add({ goal: goal.id, title: "t", writeScopes: ["a/../../b"] })),
    "INVALID_INPUT"
  )
})

test("G35 C64 release, acquire again: every write of the old holder is fenced, and completion gives the lease back in its commit", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const old = await hold(bench, todo)
  await bench.run(Leases.release({ fence: old.fence }))
  const now = await hold(bench, todo)
  const before = (await bench.store.verify()).entries
  const writes = (fence: Fence): Effect.Effect<unknown, any, Authority>[] => [
    Quota.reserve({ goal: goal.id, todo: todo.id, effectId: "e1", bound: { usd: 1, slots: 1 }, fence }),
    Quota.spend({ goal: goal.id, todo: todo.id, effectId: "e2", spend: { usd: 1 }, fence }),
    Evidence.record({
      goal: goal.id,
      todo: todo.id,
      kind: "log",
      digest,
      summary: "s",
      producer: { role: "executor", name: "ada" },
      fence
    }),
    Todos.defer({ todo: todo.id, fence, reason: "r" }),
    Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } })
  ]
  for (const write of writes(old.fence)) assert.equal(await leaseCode(bench, write), "LEASE_LOST:epoch")
  const unfenced = Evidence.record({
    goal: goal.id,
    todo: todo.id,
    kind: "log",
    digest,
    summary: "s",
    producer: { role: "executor", name: "ada" }
  })
  assert.equal(await leaseCode(bench, unfenced), "LEASE_LOST:none")
  const bare = Quota.spend({ goal: goal.id, todo: todo.id, effectId: "e2", spend: { usd: 1 } })
  assert.equal(await leaseCode(bench, bare), "LEASE_HELD")
  assert.equal((await bench.store.verify()).entries, before)
  const [reserve, spend, evidence, , complete] = writes(now.fence)
  for (const write of [reserve!, spend!, evidence!, complete!]) assert.equal(await leaseCode(bench, write), "ok")
  const journal = await bench.store.journal({ after: before, limit: 100 })
  const completion = journal.find((entry) => entry.type === "todo.completed")!
  const release = journal.find((entry) => entry.type === "lease.released")!
  assert.equal(release.command, completion.command)
})

test.for([
  ["a", "a/b", true],
  ["a/b", "a/bc", false],
  ["./a//b/", "a/b/./c", true],
  [".", "x", true],
  ["src/**", "src/deep/file.ts", true],
  ["src/*.ts", "docs", false],
  ["*.md", "packages/core", true],
  ["packages/{a,b}", "packages/b/x", true],
  ["A", "a", false]
] as const)("G34 the scopes %s and %s overlap: %s", ([one, other, overlap]) => {
  assert.equal(scopesOverlap(one, other), overlap)
  assert.equal(scopesOverlap(other, one), overlap)
})

test("G34 choosing passes over a todo whose scopes are taken and says by whom, for a second lease of the same agent too", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const scoped = (title: string, priority: number, ...writeScopes: string[]) =>
    newTodo(bench, goal, { title, priority, writeScopes })
  const first = await scoped("first", 3, "src")
  const second = await scoped("second", 2, "src/a.ts", "docs")
  const third = await scoped("third", 1, "docs")
  const next = () => bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  const one = await next()
  assert(one._tag === "claimed")
  assert.deepEqual([one.todo.id, one.blocked], [first.id, []])
  const conflict = {
    todo: first.id,
    owner: "ada",
    epoch: 1,
    scopes: ["src"],
    expiresAt: one.lease.expiresAt
  }
  const two = await next()
  assert(two._tag === "claimed")
  assert.deepEqual([two.todo.id, two.blocked], [third.id, [{ todo: second.id, conflicts: [conflict] }]])
  const three = await next()
  assert(three._tag === "none")
  assert.deepInclude(three.withheld, { unfinished: 3, leased: 2, scopeConflict: 1 })
  assert.deepEqual(
    three.blocked.map((blocked) => [blocked.todo, blocked.conflicts.map((c) => c.todo).toSorted()]),
    [[second.id, [first.id, third.id].toSorted()]]
  )
  // An expired lease is in nobody's way, and nobody has to sweep it.
  bench.now = one.lease.expiresAt
  const four = await next()
  assert(four._tag === "claimed")
  assert.deepEqual([four.todo.id, four.lease.epoch], [first.id, 2])
})

test("G34 a transfer is a new grant: scopes that were edited meanwhile are held against the other leases", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const a = await newTodo(bench, goal, { writeScopes: ["a"] })
  const b = await newTodo(bench, goal, { writeScopes: ["b"] })
  const mine = await hold(bench, a)
  await bench.run(Todos.edit({ todo: a.id, revision: 1, writeScopes: ["b/c"] }))
  const other = await hold(bench, b, "bob")
  const error = await bench.fails(Leases.transfer({ fence: mine.fence, to: "bob", reason: "hand over" }))
  assert.deepInclude(error as object, { code: "SCOPE_CONFLICT", todo: a.id })
  assert.deepEqual(
    (error as unknown as { conflicts: { expiresAt: number }[] }).conflicts[0]!.expiresAt,
    other.expiresAt
  )
  assert.equal(await leaseCode(bench, Leases.renew({ fence: mine.fence })), "ok")
})

test("G34 the scopes of a held todo are not moved to where another live lease writes; those of one that nobody holds are", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [a, b, free] = [
    await newTodo(bench, goal, { writeScopes: ["a"] }),
    await newTodo(bench, goal, { writeScopes: ["b"] }),
    await newTodo(bench, goal, { writeScopes: ["c"] })
  ]
  await hold(bench, a)
  const theirs = await hold(bench, b, "bob")
  const move = (todo: string) => Todos.edit({ todo, revision: 1, writeScopes: ["b/deep"] })
  const refused = await bench.fails(move(a.id))
  assert.deepInclude(refused as object, { code: "SCOPE_CONFLICT", todo: a.id })
  assert.deepEqual((await bench.run(Todos.get({ todo: a.id }))).writeScopes, ["a"])
  assert.equal((await bench.run(move(free.id))).revision, 2)
  await bench.run(Leases.release({ fence: theirs.fence }))
  assert.equal((await bench.run(move(a.id))).revision, 2)
})

test("G31 a lease outlives a pause of its goal, so that its holder can still be told to stop and release", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const lease = await hold(bench, await newTodo(bench, goal))
  await bench.run(Goals.pause({ goal: goal.id }))
  assert.equal(await leaseCode(bench, Leases.release({ fence: lease.fence })), "ok")
})
