/** Adding, editing, deferring and reopening a todo: what each names, refuses and leaves. Rules: G15, G20, G22, G23, G34. */
import { assert, test } from "vitest"
import { goalTable } from "../../../src/governance/Goal.ts"
import { Todos } from "../../../src/governance/index.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { sourceTable } from "../../../src/governance/SourceRecord.ts"
import { todoHandlers } from "../../../src/governance/Todo.ts"
import { loadTodo, loadWaitedFor, mayDependOn } from "../../../src/governance/TodoLoad.ts"
import { type TodoRecord, todoTable } from "../../../src/governance/TodoRecord.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, loaded, recording, rowOf, tables, told } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { fence, goal, obligation, source, turn } from "./workRecords.ts"

const decide = decideBy(todoHandlers)
const load = loadBy(todoHandlers)
const states = ["open", "deferred", "done", "superseded"] as const
const of = (id: string, change: Partial<TodoRecord> = {}) => todo({ id, ...change })
const revisedOf = (record: TodoRecord, change: Partial<TodoRecord>) => ({
  ...record,
  ...change,
  revision: record.revision + 1,
  changedAt: now
})
const made = (change: Partial<TodoRecord> = {}): TodoRecord =>
  todo({ id: "todo-1", title: "Next", revision: 1, addedAt: now, changedAt: now, ...change })

test("G20 a todo is added to a goal that is not completed, with what it waits for, requires, and is waited for by", () => {
  const fresh = { goal: goal(), named: [], waitedFor: new Set(), reads: new Map() }
  const add = (state: object = {}, payload: object = {}) =>
    decide("addTodo", { ...fresh, ...state }, { goal: "goal-a", title: "Next", ...payload })
  assert.deepEqual([add().facts, add().reply], [["todo.added"], made()])
  const full = {
    priority: 4,
    capabilities: ["gpu"],
    writeScopes: ["src"],
    excludedAgents: ["bob"],
    acceptance: { validator: "oracle" },
    origin: { destination: "d", channel: "c", requestId: "r" }
  }
  assert.deepEqual(add({}, full).reply, made(full))
  const reads = new Map([["source-a", source()]])
  assert.deepEqual(add({ reads }, { requiredReads: ["source-a", "source-a"] }).reply["requiredReads"], ["source-a"])
  assert.deepInclude(add({}, { requiredReads: ["source-a"] }).error, { kind: "source", id: "source-a" })
  for (const state of ["active", "paused", "stopped", "completed"] as const)
    assert.equal(add({ goal: goal({ state }) }).refused, state === "completed" ? "GoalNotActive" : undefined, state)
  assert.deepInclude(add({ goal: undefined }).error, { kind: "goal", id: "goal-a" })
  const payload = { dependsOn: ["a"], unblocks: ["b", "c", "d", "e"] }
  const rest = [
    of("b"),
    of("c", { state: "deferred", dependsOn: ["z"] }),
    of("d", { state: "done" }),
    of("e", { state: "superseded" })
  ]
  const got = add({ named: [of("a"), ...rest] }, payload)
  assert.deepEqual(got.facts, ["todo.added", "todo.edited", "todo.edited"])
  assert.deepEqual(
    got.events.slice(1).map(({ data }) => data as object),
    [revisedOf(rest[0]!, { dependsOn: ["todo-1"] }), revisedOf(rest[1]!, { dependsOn: ["z", "todo-1"] })]
  )
  assert.deepEqual(got.reply["dependsOn"], ["a"])
  assert.deepInclude(add({ named: [undefined, ...rest] }, payload).error, { kind: "todo", id: "a" })
  assert.deepInclude(add({ named: [of("a"), undefined] }, { dependsOn: ["a"], unblocks: ["b"] }).error, { id: "b" })
  assert.equal(add({ named: [of("a", { goal: "goal-b" })] }, { dependsOn: ["a"] }).refused, "NotFound")
  assert.equal(add({ named: [of("a", { state: "superseded" })] }, { dependsOn: ["a"] }).refused, "TodoState")
  assert.equal(add({ named: [of("a", { state: "superseded" })] }, { unblocks: ["a"] }).refused, undefined)
  assert.equal(add({ named: [of("b")], waitedFor: new Set(["b"]) }, { unblocks: ["b"] }).refused, "InvalidInput")
})

test("G20 nothing can wait for what is superseded: it is told by what that was replaced", () => {
  const wait = (found: readonly (TodoRecord | undefined)[], ids: readonly string[] = ["a"]) =>
    told(mayDependOn("goal-a", ids, found))
  const alone = wait([of("a", { state: "superseded" })]).error
  assert.include(alone["message"], "is superseded: nothing")
  assert.match(alone["remedy"], /^Leave it out/)
  const replaced = wait([of("a", { state: "superseded", supersededBy: ["x", "y"] })]).error
  assert.include(replaced["message"], "is superseded by x, y: nothing")
  assert.match(replaced["remedy"], /^Name what took its place/)
  assert.equal(wait([of("a", { state: "superseded", supersededBy: [] })]).error["remedy"], alone["remedy"])
  for (const state of states)
    assert.equal(wait([of("a", { state })]).refused, state === "superseded" ? "TodoState" : undefined)
  // What is loaded beside the dependencies is not waited for.
  assert.equal(wait([of("a"), of("b", { state: "superseded" }), undefined]).refused, undefined)
  assert.equal(wait([of("a"), of("b", { state: "superseded" })], ["a", "b"]).refused, "TodoState")
})

test("G20 an unfinished todo is edited at the revision that was seen: what is named changes, the rest stays", () => {
  const full = todo({
    title: "Old",
    priority: 2,
    dependsOn: ["z"],
    capabilities: ["c"],
    writeScopes: ["w"],
    excludedAgents: ["e"],
    requiredReads: ["r"],
    acceptance: { validator: "v" }
  })
  const fresh = {
    todo: full,
    lease: undefined,
    named: [],
    scoped: [],
    waitedFor: new Set(),
    reads: new Map([["source-a", source()]])
  }
  const edit = (payload: object, state: object = {}) =>
    decide("editTodo", { ...fresh, ...state }, { todo: "todo-a", revision: 3, ...payload })
  const same = edit({})
  assert.deepEqual([same.facts, same.reply], [["todo.edited"], revisedOf(full, {})])
  for (const change of [
    { title: "New" },
    { priority: 0 },
    { dependsOn: [] },
    { capabilities: [] },
    { writeScopes: [] },
    { excludedAgents: [] },
    { requiredReads: [] },
    { acceptance: null },
    { acceptance: { validator: "w" } },
    { requiredReads: ["source-a"] }
  ])
    assert.deepEqual(edit(change).reply, revisedOf(full, change as Partial<TodoRecord>))
  assert.deepEqual(edit({ requiredReads: ["source-a", "source-a"] }).reply["requiredReads"], ["source-a"])
  for (const state of states) {
    const refused = state === "done" || state === "superseded" ? "TodoState" : undefined
    assert.equal(edit({}, { todo: { ...full, state } }).refused, refused, state)
  }
  assert.equal(edit({ revision: 2 }).refused, "RevisionConflict")
  assert.deepInclude(edit({}, { todo: undefined }).error, { kind: "todo", id: "todo-a" })
  assert.equal(edit({ dependsOn: ["a"] }, { named: [undefined] }).refused, "NotFound")
  assert.equal(edit({}, { waitedFor: new Set(["todo-a"]) }).refused, "InvalidInput")
  assert.deepInclude(edit({ requiredReads: ["source-x"] }).error, { kind: "source" })
  // Scopes of a held todo are not moved to where another live lease writes.
  const beside = lease({ todo: "todo-b", owner: "bob", writeScopes: ["src/a", "lib"] })
  const scoped = { lease: lease(), scoped: [beside, lease({ writeScopes: ["src"] })] }
  const moved = edit({ writeScopes: ["src"] }, scoped)
  assert.equal(moved.refused, "ScopeConflict")
  assert.deepEqual(
    moved.error["conflicts"].map((one: { todo: string; scopes: string[] }) => [one.todo, one.scopes]),
    [["todo-b", ["src/a"]]]
  )
  assert.equal(edit({ writeScopes: ["docs"] }, scoped).refused, undefined)
  assert.equal(edit({ title: "n" }, { ...scoped, todo: { ...full, writeScopes: ["src"] } }).refused, undefined)
  for (const held of [undefined, lease({ releasedAt: 1 }), lease({ expiresAt: now })])
    assert.equal(edit({ writeScopes: ["src"] }, { ...scoped, lease: held }).refused, undefined)
})

test("G20 G23 a deferred todo is reopened; an open one is put aside past its fence, once what must be attempted was", () => {
  for (const state of states) {
    const record = todo({ state, deferredUntil: 7, deferReason: "r" })
    const got = decide("reopenTodo", { todo: record }, { todo: "todo-a" })
    assert.equal(got.refused, state === "deferred" ? undefined : "TodoState", state)
    if (state === "deferred")
      assert.deepEqual(
        [got.facts, got.reply],
        [["todo.reopened"], revisedOf(record, { state: "open", deferredUntil: null, deferReason: null })]
      )
  }
  const defer = (state: object = {}, payload: object = {}) =>
    decide(
      "deferTodo",
      { todo: todo(), lease: undefined, obligations: [], ...state },
      { todo: "todo-a", reason: "later", ...payload }
    )
  assert.deepEqual(
    [defer().facts, defer().reply],
    [["todo.deferred"], revisedOf(todo(), { state: "deferred", deferReason: "later" })]
  )
  assert.equal(defer({}, { until: now + 9 }).reply["deferredUntil"], now + 9)
  assert.deepEqual(defer({ lease: lease() }, { fence: fence() }).facts, ["todo.deferred", "lease.released"])
  assert.equal(defer({ lease: lease() }).refused, "LeaseHeld")
  assert.equal(defer({ lease: lease() }, { fence: fence({ token: "guess" }) }).refused, "LeaseLost")
  assert.match(
    defer({ lease: lease() }, { fence: fence({ todo: "todo-b" }) }).error["message"],
    /the fence is of todo todo-b/
  )
  assert.equal(defer({ obligations: [obligation()] }).refused, "ObligationOpen")
  for (const state of states)
    assert.equal(defer({ todo: todo({ state }) }).refused, state === "open" ? undefined : "TodoState")
  assert.equal(defer({ todo: undefined }).refused, "NotFound")
})

test("G20 G22 what the commands of a todo read", () => {
  const chain = [todo({ dependsOn: ["b"] }), of("b", { dependsOn: ["c", "d"] }), of("c", { dependsOn: ["d"] }), of("d")]
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    todo: chain.map((one) => rowOf(todoTable.put(one))),
    lease: [rowOf(leaseTable.put(lease()))],
    turn: [rowOf(turnTable.put(turn()))],
    source: [rowOf(sourceTable.put(source()))]
  }
  const answer = tables(content)
  const waited = loaded(loadWaitedFor(["todo-a", "x"]), answer)
  assert.deepEqual([...waited.state].toSorted(), ["b", "c", "d", "todo-a", "x"])
  assert.equal(waited.asked.length, 5)
  const base = { todo: chain[0], goal: goal(), lease: lease(), named: [], dependents: [], obligations: [], gates: [] }
  assert.deepEqual(loaded(loadTodo("todo-a"), answer).state, base)
  assert.deepEqual(loaded(loadTodo("x", ["b"], true), answer).state, {
    ...base,
    todo: undefined,
    goal: undefined,
    lease: undefined,
    named: [chain[1]]
  })
  assert.equal(
    loaded(loadTodo("todo-a"), answer).asked.length + 1,
    loaded(loadTodo("todo-a", [], true), answer).asked.length
  )
  const adding = { goal: "goal-a", title: "n" }
  assert.deepEqual(load("addTodo", adding, answer)["state"], {
    goal: goal(),
    named: [],
    waitedFor: new Set(),
    reads: new Map()
  })
  const full = load("addTodo", { ...adding, dependsOn: ["b"], unblocks: ["d"], requiredReads: ["source-a"] }, answer)[
    "state"
  ]
  assert.deepEqual(full, {
    goal: goal(),
    named: [chain[1], chain[3]],
    waitedFor: new Set(["b", "c", "d"]),
    reads: new Map([["source-a", source()]])
  })
  assert.deepEqual(load("addTodo", { ...adding, dependsOn: ["b"] }, answer)["state"].waitedFor, new Set())
  assert.deepEqual(load("addTodo", { ...adding, unblocks: ["b"] }, answer)["state"].waitedFor, new Set())
  const scoped = (sql: string, params: readonly unknown[]) =>
    sql.includes("FROM lease l JOIN") ? [rowOf(leaseTable.put(lease({ todo: "b" })))] : answer(sql, params)
  const editing = { todo: "todo-a", revision: 3 }
  assert.deepInclude(load("editTodo", editing, scoped)["state"], {
    ...base,
    scoped: [],
    waitedFor: new Set(),
    reads: new Map()
  })
  const edited = load(
    "editTodo",
    { ...editing, dependsOn: ["b"], writeScopes: ["src"], requiredReads: ["source-a"] },
    scoped
  )["state"]
  assert.deepInclude(edited, {
    named: [chain[1]],
    scoped: [lease({ todo: "b" })],
    waitedFor: new Set(["b", "c", "d"]),
    reads: new Map([["source-a", source()]])
  })
  assert.deepEqual(load("editTodo", { ...editing, todo: "x", writeScopes: ["src"] }, scoped)["state"].scoped, [])
  const superseding = load("supersedeTodo", { todo: "todo-a", reason: "r" }, answer)["state"]
  assert.deepInclude(superseding, { named: [], effects: [], waitedFor: new Set(), reads: new Map() })
  const completing = load("completeTodo", { todo: "todo-a", continuation: { kind: "noFollowUp" } }, answer)["state"]
  assert.deepInclude(completing, { ...base, open: turn(), effects: [], reads: new Map() })
  assert.equal(
    load("completeTodo", { todo: "b", continuation: { kind: "noFollowUp" } }, answer)["state"].open,
    undefined
  )
})

test("G22 todos are listed by priority and age, page by page, and say whether there are others", async () => {
  const bench = await newBench()
  const one = await newGoal(bench)
  const ids: string[] = []
  for (const priority of [0, 5, 0]) {
    ids.push((await newTodo(bench, one, { priority })).id)
    bench.now += 1
  }
  await bench.run(Todos.defer({ todo: ids[2]!, reason: "later" }))
  await bench.run(Todos.complete({ todo: ids[0]!, continuation: { kind: "noFollowUp" } }))
  const list = async (input: object = {}) => {
    const { items, total, more } = await bench.run(Todos.list({ goal: one.id, ...input }))
    return [items.map(({ id }) => ids.indexOf(id)), total, more]
  }
  assert.deepEqual(await list(), [[1, 0, 2], 3, false])
  assert.deepEqual(await list({ limit: 2 }), [[1, 0], 3, true])
  assert.deepEqual(await list({ limit: 2, offset: 1 }), [[0, 2], 3, false])
  assert.deepEqual(await list({ limit: 1, offset: 1 }), [[0], 3, true])
  assert.deepEqual(await list({ offset: 3 }), [[], 3, false])
  assert.deepEqual(await list({ states: ["deferred"] }), [[2], 1, false])
  assert.equal((await bench.run(Todos.list({ goal: one.id }))).owed.length, 1)
  assert.equal((await bench.run(Todos.get({ todo: ids[0]! }))).owed.length, 1)
  assert.deepInclude(await bench.fails(Todos.get({ todo: "t" })), { _tag: "NotFound", id: "t" })
  assert.equal(
    (await recording({ todo: [rowOf(todoTable.put(todo()))] }).run(Todos.get({ todo: "todo-a" }))).id,
    "todo-a"
  )
})
