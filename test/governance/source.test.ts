import { assert, test } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
import { loadFrontier } from "../../src/governance/Frontier.ts"
import { type Goal, Goals, Leases, Obligations, Sources, Todos } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const text = (content: string) => ({ digest: sha256(content), ref: `notes@${content}`, bytes: content.length })
const register = (bench: Bench, goal: Goal, name: string, content = "one") =>
  bench.run(Sources.register({ goal: goal.id, name, ...text(content) }))
const frontier = async (bench: Bench, goal: Goal) => {
  const { value } = await bench.store.read(({ now }) => loadFrontier(goal.id, now))
  return value.filter(({ kind }) => kind.endsWith("Source")).map(({ kind, ids }) => [kind, ids])
}

test("G14 a source has a revision of one digest and one reference: another of either is the next revision, the same again is none", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  assert.deepInclude(source, { revision: 1, state: "readable", tokens: null, bytes: 3, ref: "notes@one" })
  assert.equal((await register(bench, goal, "the contract")).id, source.id)
  const other = await bench.fails(Sources.register({ goal: goal.id, name: "the contract", ...text("two") }))
  assert.deepInclude(other, { code: "IDENTITY_CONFLICT", kind: "source", id: source.id })
  const facts = (await bench.store.journal({ after: 0, limit: 100 })).length
  assert.equal((await bench.run(Sources.revise({ source: source.id, revision: 1, ...text("one") }))).revision, 1)
  assert.equal((await bench.store.journal({ after: 0, limit: 100 })).length, facts)
  const second = await bench.run(Sources.revise({ source: source.id, revision: 1, ...text("two"), tokens: 1 }))
  assert.deepInclude(second, { revision: 2, digest: sha256("two"), ref: "notes@two", tokens: 1 })
  const stale = await bench.fails(Sources.revise({ source: source.id, revision: 1, ...text("three") }))
  assert.deepInclude(stale, { code: "REVISION_CONFLICT", expected: 1, actual: 2 })
  const listed = await bench.run(Sources.list({ goal: goal.id }))
  assert.deepEqual(
    listed.items.map(({ id, revision }) => [id, revision]),
    [[source.id, 2]]
  )
  // Moved: the reference is part of the revision, so what registering refuses, revising records.
  const moved = { source: source.id, revision: 2, ...text("two"), ref: "elsewhere" }
  const longer = await bench.fails(Sources.revise({ ...moved, bytes: 4 }))
  assert.equal(longer.code, "INVALID_INPUT")
  assert.deepInclude(await bench.run(Sources.revise(moved)), { revision: 3, digest: sha256("two"), ref: "elsewhere" })
  const { digest, ref, bytes } = moved
  const same = await bench.run(Sources.register({ goal: goal.id, name: "the contract", digest, ref, bytes }))
  assert.deepInclude(same, { id: source.id, revision: 3 })
})

test("G6 G14 the reference of a source is public: a path of a machine and a credential are refused", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  for (const ref of ["/home/somebody/contract.md", `see sk-${"a".repeat(24)}`]) {
    const refused = await bench.fails(Sources.register({ goal: goal.id, name: "n", ...text("one"), ref }))
    assert.deepInclude(refused, { code: "NOT_PUBLIC", field: "ref" })
  }
})

test("G14 who has read which revision is on record: once for a revision, never backwards, and only bytes that were there", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  const read = (revision: number, more: object = {}) =>
    Sources.read({ source: source.id, revision, agent: "ada", ...more })
  assert.deepInclude(await bench.fails(read(2)), { code: "REVISION_CONFLICT", expected: 2, actual: 1 })
  assert.equal((await bench.fails(read(0))).code, "INVALID_INPUT")
  assert.equal((await bench.fails(read(1, { digest: sha256("two") }))).code, "INVALID_INPUT")
  assert.deepInclude(await bench.fails(read(1, { agent: "eve" })), { code: "NOT_FOUND", kind: "agent" })
  await bench.run(read(1, { digest: sha256("one") }))
  await bench.run(Sources.revise({ source: source.id, revision: 1, ...text("two") }))
  await bench.run(read(2))
  const facts = (await bench.store.journal({ after: 0, limit: 100 })).length
  assert.equal((await bench.run(read(1))).revision, 2)
  assert.equal((await bench.store.journal({ after: 0, limit: 100 })).length, facts)
  const view = await bench.run(Sources.get({ source: source.id }))
  assert.deepEqual(
    view.reads.map(({ agent, revision, turn }) => [agent, revision, turn]),
    [["ada", 2, null]]
  )
})

test("G14 a todo requires sources of its own goal, and so do its successors and replacements; no other is taken", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const stranger = await register(bench, await newGoal(bench), "the contract")
  const source = await register(bench, goal, "the contract")
  const wrong = { requiredReads: [stranger.id] }
  const right = { title: "t", requiredReads: [source.id, source.id] }
  const missing = { code: "NOT_FOUND", kind: "source", id: stranger.id } as const
  const todo = await newTodo(bench, goal)
  const { fence } = await hold(bench, todo)
  const successors = (requiredReads: readonly string[]) =>
    ({ kind: "successors", todos: [{ title: "t", requiredReads }] }) as const
  assert.deepInclude(await bench.fails(Todos.add({ goal: goal.id, title: "t", ...wrong })), missing)
  assert.deepInclude(await bench.fails(Todos.edit({ todo: todo.id, revision: 1, ...wrong })), missing)
  const replaced = Todos.supersede({ todo: todo.id, fence, reason: "r", replacements: [{ title: "t", ...wrong }] })
  assert.deepInclude(await bench.fails(replaced), missing)
  const completed = (reads: string) => Todos.complete({ todo: todo.id, fence, continuation: successors([reads]) })
  assert.deepInclude(await bench.fails(completed(stranger.id)), missing)
  const done = await bench.run(completed(source.id))
  assert.deepEqual(done.successors[0]!.requiredReads, [source.id])
  assert.deepEqual((await bench.run(Todos.add({ goal: goal.id, ...right }))).requiredReads, [source.id])
})

test("G12 a required source that nobody has read, or that cannot be read, is part of the frontier, of finished todos too", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  await register(bench, goal, "required of nobody")
  assert.deepEqual(await frontier(bench, goal), [])
  const todo = await newTodo(bench, goal, { requiredReads: [source.id] })
  assert.deepEqual(await frontier(bench, goal), [["unreadSource", [source.id]]])
  await bench.run(Sources.read({ source: source.id, revision: 1, agent: "bob" }))
  assert.deepEqual(await frontier(bench, goal), [])
  await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  await bench.run(Sources.revise({ source: source.id, revision: 1, ...text("two") }))
  assert.deepEqual(await frontier(bench, goal), [["unreadSource", [source.id]]])
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "the server is down" }))
  assert.deepEqual(await frontier(bench, goal), [["unreadableSource", [source.id]]])
  const read = Sources.read({ source: source.id, revision: 2, agent: "ada" })
  assert.deepInclude(await bench.fails(read), { code: "SOURCE_STATE", state: "unreadable" })
  assert.deepEqual(
    (await bench.run(Sources.list({ goal: goal.id, unread: true }))).items.map(({ id }) => id),
    [source.id]
  )
  await bench.run(Sources.markReadable({ source: source.id }))
  await bench.run(read)
  assert.deepEqual(await frontier(bench, goal), [])
})

test("G14 G22 work whose source cannot be read is passed over and named: other work is given, and it comes back with its source", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  const dark = await newTodo(bench, goal, { requiredReads: [source.id], priority: 9 })
  const obliged = await newTodo(bench, goal, { requiredReads: [source.id] })
  await bench.run(Obligations.open({ goal: goal.id, todo: obliged.id, reason: "it was promised" }))
  const other = await newTodo(bench, goal)
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "the server is down" }))
  const take = () => bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  const first = await take()
  assert.equal(first._tag === "claimed" && first.todo.id, other.id)
  assert.deepEqual(first.unreadable, [
    { todo: dark.id, sources: [source.id] },
    { todo: obliged.id, sources: [source.id] }
  ])
  const none = await take()
  assert.deepInclude(none._tag === "none" && none.withheld, { unfinished: 3, leased: 1, unreadable: 2 })
  await bench.run(Sources.markReadable({ source: source.id }))
  for (const next of [obliged, dark]) {
    const got = await take()
    assert.equal(got._tag === "claimed" && got.todo.id, next.id)
  }
})

test("G12 G14 what is no longer required keeps nothing open: after an edit, a supersession, a retirement", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [a, b, c] = [
    await register(bench, goal, "a"),
    await register(bench, goal, "b"),
    await register(bench, goal, "c")
  ]
  const edited = await newTodo(bench, goal, { requiredReads: [a.id] })
  const superseded = await newTodo(bench, goal, { requiredReads: [b.id] })
  const kept = await newTodo(bench, goal, { requiredReads: [c.id] })
  assert.deepEqual(await frontier(bench, goal), [["unreadSource", [a.id, b.id, c.id].toSorted()]])
  await bench.run(Todos.edit({ todo: edited.id, revision: 1, requiredReads: [] }))
  assert.deepEqual(await frontier(bench, goal), [["unreadSource", [b.id, c.id].toSorted()]])
  await bench.run(Todos.supersede({ todo: superseded.id, reason: "no need" }))
  assert.deepEqual(await frontier(bench, goal), [["unreadSource", [c.id]]])
  await bench.run(Sources.retire({ source: c.id, reason: "withdrawn by its owner" }))
  assert.deepEqual(await frontier(bench, goal), [])
  const again = await bench.fails(Sources.register({ goal: goal.id, name: "c", ...text("one") }))
  assert.deepInclude(again, { code: "SOURCE_STATE", source: c.id, state: "retired" })
  // Retired is final, and other edits of the todo do not bring it back.
  await bench.run(Todos.edit({ todo: kept.id, revision: 1, priority: 3 }))
  for (const call of [
    Sources.revise({ source: c.id, revision: 1, ...text("two") }),
    Sources.markReadable({ source: c.id }),
    Sources.markUnreadable({ source: c.id, reason: "r" })
  ]) {
    assert.deepInclude(await bench.fails(call), { code: "SOURCE_STATE", state: "retired" })
  }
  assert.deepEqual(await frontier(bench, goal), [])
  assert.equal((await bench.fails(Leases.inspect({ todo: kept.id }))).code, "NOT_FOUND")
})

test("G12 below a completed goal no source gets a revision or becomes unreadable: nothing may come to be unread there", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  const todo = await newTodo(bench, goal, { requiredReads: [source.id] })
  await bench.run(Sources.read({ source: source.id, revision: 1, agent: "ada" }))
  await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  await bench.run(Goals.complete({ goal: goal.id, closure: { reason: "done" } }))
  const revise = (content: string) => Sources.revise({ source: source.id, revision: 1, ...text(content) })
  for (const change of [revise("two"), Sources.markUnreadable({ source: source.id, reason: "the disk is gone" })]) {
    assert.deepInclude(await bench.fails<unknown, unknown>(change), { code: "GOAL_NOT_ACTIVE", state: "completed" })
  }
  assert.equal((await bench.run(revise("one"))).revision, 1)
  assert.deepEqual((await bench.run(Goals.frontier({ goal: goal.id }))).parts, [])
  assert.equal((await bench.run(Sources.retire({ source: source.id, reason: "old" }))).state, "retired")
})
