/** Which work is given next, and why other work was passed over: over scripted rows, without a store. Rules: G14, G15, G20, G22, G34, G40. */
import { assert, test } from "vitest"

import { type GateRecord, gateTable } from "../../../src/governance/GateRecord.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { type LeaseRecord, leaseTable } from "../../../src/governance/Lease.ts"
import { loadNextWork, nextWorkHandlers } from "../../../src/governance/NextWork.ts"
import {
  goesBefore,
  loadMovesAt,
  loadReadyQueue,
  loadUnavailable,
  nextReady,
  projectLease,
  projectTodo
} from "../../../src/governance/ReadyQueue.ts"
import { type TodoRecord, todoTable } from "../../../src/governance/TodoRecord.ts"
import type { Row } from "../../../src/sqlite/Database.ts"
import { decideBy, loaded, rowOf, tables } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { agent, gate, gateDecision, goal } from "./workRecords.ts"

interface Scene {
  readonly goal?: ReturnType<typeof goal> | null
  readonly agent?: ReturnType<typeof agent> | null
  readonly everywhere?: readonly GateRecord[]
  readonly naming?: { readonly [todo: string]: readonly GateRecord[] }
  readonly scoped?: readonly LeaseRecord[]
  readonly leases?: readonly LeaseRecord[]
  readonly dark?: readonly Row[]
  readonly due?: readonly TodoRecord[]
  readonly queue?: readonly TodoRecord[]
  readonly done?: readonly string[]
  readonly counts?: readonly Row[]
}

/** What the store would answer to each question about this scene. */
const answering =
  (scene: Scene) =>
  (sql: string, params: readonly unknown[]): readonly Row[] => {
    if (sql.includes("COUNT(*) AS n, SUM")) return scene.counts ?? []
    if (sql.includes("COUNT(*) AS n FROM gate")) return [{ n: 0 }]
    if (sql.includes("FROM lease l JOIN")) return (scene.scoped ?? []).map((one) => rowOf(leaseTable.put(one)))
    if (sql.includes("FROM source s JOIN")) return scene.dark ?? []
    if (sql.includes("FROM obligation o JOIN")) return (scene.due ?? []).map((one) => rowOf(todoTable.put(one)))
    if (sql.includes("state = 'done'")) return (scene.done ?? []).includes(String(params[0])) ? [{ 1: 1 }] : []
    if (sql.includes("FROM gate_todo"))
      return (scene.naming?.[String(params[0])] ?? []).map((one) => rowOf(gateTable.put(one)))
    if (sql.includes("FROM gate")) return (scene.everywhere ?? []).map((one) => rowOf(gateTable.put(one)))
    const page = /LIMIT (\d+) OFFSET/.exec(sql)
    if (page !== null) {
      const from = Number(params.at(-1))
      return (scene.queue ?? []).slice(from, from + Number(page[1])).map((one) => rowOf(todoTable.put(one)))
    }
    if (sql.startsWith("SELECT capabilities, excluded_agents")) return []
    return tables({
      goal: scene.goal === null ? [] : [rowOf(goalTable.put(scene.goal ?? goal()))],
      agent: scene.agent === null ? [] : [rowOf(agentTable.put(scene.agent ?? agent()))],
      lease: (scene.leases ?? []).map((one) => rowOf(leaseTable.put(one)))
    })(sql, params)
  }
const search = (scene: Scene) => loaded(loadNextWork({ goal: "goal-a", agent: "ada" }, now), answering(scene)).state
const of = (id: string, change: Partial<TodoRecord> = {}) => todo({ id, ...change })
const best = (scene: Scene) => search(scene).best?.todo.id
const stops = (change: Partial<GateRecord> = {}) => gate({ actions: ["claim"], ...change })

test("G22 nothing is looked for where the goal is not active or the agent not known", () => {
  const queue = [of("a")]
  for (const state of ["active", "paused", "stopped", "completed"] as const)
    assert.equal(best({ goal: goal({ state }), queue }), state === "active" ? "a" : undefined)
  for (const scene of [
    { goal: null, queue },
    { agent: null, queue }
  ]) {
    const { best: found, withheld, blocked, gated, unreadable } = search(scene)
    assert.deepEqual([found, withheld, blocked, gated, unreadable], [undefined, undefined, [], [], []])
  }
})

test("G15 what must be attempted goes before the queue, the best of it first, as far as it can be taken and run", () => {
  const queue = [of("q", { priority: 9 })]
  const due = [of("b", { priority: 1 }), of("c", { priority: 5, addedAt: 9 }), of("a", { priority: 5, addedAt: 3 })]
  assert.equal(best({ queue, due }), "a")
  assert.equal(best({ queue, due: due.toReversed() }), "a")
  assert.equal(best({ queue, due, naming: { a: [stops()] } }), "c")
  assert.equal(best({ queue, due, dark: [{ todo: "a", source: "s" }] }), "c")
  assert.equal(best({ queue, due, leases: [lease({ todo: "a" })] }), "c")
  assert.equal(best({ queue, due: [of("a", { excludedAgents: ["ada"] })] }), "q")
  const found = search({ queue, due, naming: { a: [gate({ actions: ["settle"] })] } })
  assert.deepEqual([found.best?.todo.id, found.gated, found.withheld], ["a", [], undefined])
})

test("G22 the queue is walked to its end: what is held, waits, lacks or is excluded is passed over without a word", () => {
  const free = of("z")
  for (const [one, scene] of [
    [of("a"), { leases: [lease({ todo: "a" })] }],
    [of("a", { dependsOn: ["b"] }), {}],
    [of("a", { capabilities: ["gpu"] }), {}],
    [of("a", { excludedAgents: ["ada"] }), {}],
    [of("a", { state: "deferred", deferredUntil: now + 1 }), {}]
  ] as const) {
    const found = search({ queue: [one, free], ...scene })
    assert.deepEqual([found.best?.todo.id, found.blocked, found.gated, found.unreadable], ["z", [], [], []])
  }
  const waits = of("a", { dependsOn: ["b", "c", "d"] })
  assert.equal(best({ queue: [waits, free], done: ["b", "c"] }), "z")
  const ready = search({ queue: [waits], done: ["b", "c", "d"] })
  assert.deepEqual([ready.best?.todo.id, ready.best?.unmet], ["a", []])
  assert.equal(best({ queue: [of("a"), free], leases: [lease({ todo: "a", expiresAt: now })] }), "a")
})

test("G14 G34 G40 what was passed over for gates, write scopes or sources is named, each under its first reason", () => {
  const scoped = [lease({ todo: "h", owner: "bob", writeScopes: ["src"] })]
  const writes = { writeScopes: ["src/a"] }
  const dark = [
    { todo: "d", source: "s-2" },
    { todo: "d", source: "s-1" },
    { todo: "g", source: "s" },
    { todo: "w", source: "s" }
  ]
  const scene: Scene = {
    scoped,
    dark,
    naming: { g: [stops({ id: "gate-g" }), gate({ id: "gate-other", actions: ["settle"] })] },
    queue: [of("g", writes), of("w", writes), of("d"), of("z")]
  }
  const found = search(scene)
  assert.equal(found.best?.todo.id, "z")
  assert.deepEqual(found.gated, [{ todo: "g", gates: ["gate-g"] }])
  assert.deepEqual(
    found.blocked.map(({ todo: id, conflicts }) => [id, conflicts.map((one) => one.todo)]),
    [["w", ["h"]]]
  )
  assert.deepEqual(found.unreadable, [{ todo: "d", sources: ["s-1", "s-2"] }])
  const counts = [{ capabilities: "[]", excluded_agents: "[]", n: 7, leased: 1, deferred: 1, blocked: 1 }]
  const none = search({ ...scene, queue: scene.queue!.slice(0, 3), counts })
  assert.equal(none.best, undefined)
  assert.deepEqual(none.withheld, {
    unfinished: 7,
    leased: 1,
    deferred: 1,
    blocked: 1,
    excluded: 0,
    capability: 0,
    gated: 1,
    scopeConflict: 1,
    unreadable: 1
  })
  // Of each the first hundred are named, and all are counted.
  const many = (letter: string, change: Partial<TodoRecord> = {}) =>
    Array.from({ length: 101 }, (_, n) => of(`${letter}${n}`, change))
  const all = search({
    scoped,
    naming: Object.fromEntries(many("g").map(({ id }) => [id, [stops()]])),
    dark: many("d").map(({ id }) => ({ todo: id, source: "s" })),
    queue: [...many("g"), ...many("w", writes), ...many("d")]
  })
  assert.deepEqual([all.gated.length, all.blocked.length, all.unreadable.length], [100, 100, 100])
  assert.deepInclude(all.withheld, { gated: 101, scopeConflict: 101, unreadable: 101 })
})

test("G40 a gate stops what it stops to claim or to run, by the occasion that a grant would be; one that stops all ends the search", () => {
  const queue = [of("a")]
  for (const action of ["claim", "dispatch", "settle", "complete", "effect"] as const) {
    const stopped = action === "claim" || action === "dispatch"
    assert.equal(best({ queue, naming: { a: [gate({ actions: [action] })] } }), stopped ? undefined : "a", action)
    assert.equal(best({ queue, everywhere: [gate({ actions: [action] })] }), stopped ? undefined : "a", action)
  }
  assert.equal(best({ queue, everywhere: [gate({ agents: ["bob"] })] }), "a")
  // A use of a decision for once is of one holding: the next grant of it is the next epoch.
  const usedBy = (occasion: string) =>
    gate({ decisions: [gateDecision({ reach: { kind: "once" }, usedBy: occasion })] })
  assert.equal(best({ queue, naming: { a: [usedBy("a/1")] } }), "a")
  assert.equal(best({ queue, naming: { a: [usedBy("a/0")] } }), undefined)
  const ended = [lease({ todo: "a", epoch: 4, expiresAt: now })]
  assert.equal(best({ queue, leases: ended, naming: { a: [usedBy("a/5")] } }), "a")
  assert.equal(best({ queue, leases: ended, naming: { a: [usedBy("a/4")] } }), undefined)
  const counts = [{ capabilities: "[]", excluded_agents: "[]", n: 9, leased: 1, deferred: 2, blocked: 3 }]
  const all = search({ queue, everywhere: [stops({ id: "all" }), gate({ id: "other", agents: ["bob"] })], counts })
  assert.deepEqual(all.gated, [{ todo: null, gates: ["all"] }])
  assert.deepEqual(all.withheld, {
    unfinished: 9,
    leased: 1,
    deferred: 2,
    blocked: 3,
    excluded: 0,
    capability: 0,
    gated: 3,
    scopeConflict: 0,
    unreadable: 0
  })
  const lacking = [
    { capabilities: '["gpu"]', excluded_agents: "[]", n: 3, leased: 0, deferred: 1, blocked: 0 },
    { capabilities: "[]", excluded_agents: '["ada"]', n: 5, leased: 1, deferred: 0, blocked: 1 }
  ]
  const nobody = search({ everywhere: [stops()], counts: lacking })
  assert.deepEqual(
    [nobody.gated, nobody.withheld?.gated, nobody.withheld?.capability, nobody.withheld?.excluded],
    [[], 0, 2, 3]
  )
  // A decision that still lets something through: each todo is looked at.
  const some = stops({ decisions: [gateDecision({ reach: { kind: "todo", todo: "b" } })] })
  assert.equal(best({ queue: [of("a"), of("b")], everywhere: [some] }), "b")
})

test("G22 G40 what was found is claimed in one commit, or it is said why there is none", () => {
  const decide = decideBy(nextWorkHandlers)
  const found = {
    goal: goal(),
    agent: agent(),
    best: { todo: todo(), named: [], lease: undefined, unmet: [] },
    gates: [],
    waiting: [],
    blocked: [],
    gated: [],
    unreadable: [],
    withheld: undefined
  }
  const take = (state: object = {}, payload: object = {}) =>
    decide("nextWork", { ...found, ...state }, { goal: "goal-a", agent: "ada", ...payload })
  const got = take()
  assert.equal(got.facts.length, 1)
  assert.match(got.facts[0]!, /^lease\./)
  assert.deepInclude(got.reply, { _tag: "claimed", todo: todo(), blocked: [], gated: [], unreadable: [] })
  assert.deepInclude(got.reply["lease"], { owner: "ada", binding: null, epoch: 1 })
  const binding = { id: "session", generation: 2 }
  assert.deepEqual(take({}, { binding }).reply["lease"].binding, binding)
  const late = of("todo-a", { state: "deferred", deferredUntil: now })
  const opened = take({ best: { ...found.best, todo: late } })
  assert.equal(opened.facts[0], "todo.reopened")
  assert.equal(opened.reply["todo"].state, "open")
  const once = (id: string) => gate({ id, decisions: [gateDecision({ reach: { kind: "once" } })] })
  const used = take({ gates: [once("g-1")], best: { ...found.best, named: [once("g-2")] } })
  assert.deepEqual(used.facts.slice(0, 2), ["gate.used", "gate.used"])
  assert.deepEqual(
    used.events.slice(0, 2).map(({ data }) => (data as unknown as GateRecord).decisions[0]!.usedBy),
    ["todo-a/1", "todo-a/1"]
  )
  assert.deepInclude(take({ gates: [stops({ todos: ["todo-a"], agents: ["ada"] })] }).error, {
    _tag: "Gated",
    agent: "ada",
    action: "claim",
    todo: "todo-a"
  })
  assert.equal(take({ gates: [gate({ actions: ["dispatch"] })] }).refused, undefined)
  for (const [unfinished, reason] of [
    [0, "nothingUnfinished"],
    [1, "allWithheld"]
  ] as const) {
    const none = take({ best: undefined, withheld: { unfinished } })
    assert.deepEqual(
      [none.facts, none.reply],
      [[], { _tag: "none", blocked: [], gated: [], unreadable: [], reason, withheld: { unfinished } }]
    )
  }
  const waiting = [{ kind: "gate", id: "g" }]
  assert.deepInclude(take({ goal: goal({ state: "paused" }), waiting }).error, { _tag: "GoalNotActive", waiting })
  assert.deepInclude(take({ agent: undefined }).error, { kind: "agent", id: "ada" })
})

test("G20 G22 the order of the queue, its pages, and when something moves by time alone", () => {
  const order = [
    of("c", { priority: 5, addedAt: 9 }),
    of("a", { priority: 1, addedAt: 1 }),
    of("b", { priority: 1, addedAt: 1 }),
    of("0", { priority: 1, addedAt: 2 })
  ]
  for (const [i, a] of order.entries())
    for (const [j, b] of order.entries()) assert.equal(goesBefore(a, b), i < j, `${i} ${j}`)
  // Two demands and what time returned, each in its own order: the best of all goes first, whatever the pages.
  const lanes = [
    Array.from({ length: 12 }, (_, n) => of(`x${n}`, { priority: 100 - 2 * n })),
    Array.from({ length: 9 }, (_, n) => of(`y${n}`, { priority: 99 - 2 * n })),
    [of("t", { priority: 95, addedAt: 0 })]
  ]
  const demands = [
    { capabilities: "[]", excluded_agents: "[]" },
    { capabilities: '["gpu"]', excluded_agents: "[]" },
    { capabilities: '["other"]', excluded_agents: "[]" }
  ]
  const pages: string[] = []
  const answer = (sql: string, params: readonly unknown[]): readonly Row[] => {
    const page = /LIMIT (\d+) OFFSET/.exec(sql)
    if (page === null) {
      const after = demands.findIndex(({ capabilities }) => capabilities === params[1])
      return sql.includes("capabilities > ?") && after + 1 < demands.length ? [demands[after + 1]!] : []
    }
    const which = params[1] === now ? 2 : demands.findIndex(({ capabilities }) => capabilities === params[1])
    const from = Number(params.at(-1))
    pages.push(`${which}:${page[1]}@${from}`)
    return lanes[which]!.slice(from, from + Number(page[1])).map((one) => rowOf(todoTable.put(one)))
  }
  let queue = loaded(loadReadyQueue("goal-a", agent({ capabilities: ["gpu"] }), now), answer).state
  assert.equal(queue.length, 3)
  const got: string[] = []
  for (;;) {
    const { state } = loaded(nextReady(queue), answer)
    if (state.todo === undefined) break
    got.push(state.todo.id)
    queue = state.queue
  }
  assert.deepEqual(
    got,
    lanes
      .flat()
      .toSorted((a, b) => (goesBefore(a, b) ? -1 : 1))
      .map(({ id }) => id)
  )
  assert.deepEqual(pages.toSorted(), ["0:1@0", "0:64@9", "0:8@1", "1:1@0", "1:64@9", "1:8@1", "2:1@0", "2:8@1"])
  const moves = (at: unknown) =>
    loaded(loadMovesAt("goal-a", now), () => (at === undefined ? [] : [{ at } as Row])).state
  assert.deepEqual([moves(undefined), moves(null), moves(7)], [null, null, 7])
  const deferred = projectTodo({ type: "todo.deferred", entity: "a", data: of("a", { state: "deferred" }) as never })
  assert.isNull(moves(deferred[1]!.params[0]))
  const counts = loaded(loadUnavailable("goal-a", agent({ capabilities: ["gpu"] }), now), () => [
    { capabilities: '["gpu"]', excluded_agents: "[]", n: 4, leased: 1, deferred: 0, blocked: 0 },
    { capabilities: '["gpu","tpu"]', excluded_agents: '["bob"]', n: 8, leased: 1, deferred: 2, blocked: 3 },
    { capabilities: '["tpu"]', excluded_agents: '["ada"]', n: 5, leased: 0, deferred: 0, blocked: 1 }
  ])
  assert.deepEqual(counts.state, { unfinished: 17, leased: 2, deferred: 2, blocked: 4, excluded: 4, capability: 2 })
})

test("G20 G36 what a todo and a lease change of the queue, with each of their facts", () => {
  const kept = (type: string, record: TodoRecord) =>
    projectTodo({ type, entity: record.id, data: record as never }).map(({ sql, params }) => [
      sql.split(" ").slice(0, 3).join(" "),
      params
    ])
  const plain = of("a")
  const waits = of("a", { dependsOn: ["b", "c"] })
  const put = (record: TodoRecord) => ["INSERT INTO todo", todoTable.put(record).params]
  const edges = [
    ["INSERT INTO todo_dependency", ["a", "b"]],
    ["INSERT INTO todo_dependency", ["a", "c"]]
  ]
  const counted = ["UPDATE todo SET", ["a"]]
  assert.deepEqual(kept("todo.added", plain), [put(plain)])
  assert.deepEqual(kept("todo.added", waits), [put(waits), ...edges, counted])
  assert.deepEqual(kept("todo.edited", waits), [put(waits), ["DELETE FROM todo_dependency", ["a"]], ...edges, counted])
  const late = of("a", { state: "deferred", deferredUntil: 7 })
  assert.deepEqual(kept("todo.deferred", late)[1], ["UPDATE todo SET", [7, "a"]])
  assert.deepEqual(kept("todo.reopened", plain)[1], ["UPDATE todo SET", [null, "a"]])
  assert.deepEqual(kept("todo.reopened", of("a", { deferredUntil: 7 }))[1], ["UPDATE todo SET", [null, "a"]])
  assert.deepEqual(kept("todo.completed", plain), [put(plain), counted])
  assert.deepEqual(kept("todo.superseded", plain), [put(plain)])
  const leased = (record: LeaseRecord) =>
    projectLease({ type: "lease", entity: record.todo, data: record as never }, { at: now }).map(({ params }) => params)
  const released = lease({ releasedAt: 0 })
  assert.deepEqual(leased(released), [leaseTable.put(released).params, ["todo-a"]])
  const live = lease()
  assert.deepEqual(leased(live), [leaseTable.put(live).params, [live.expiresAt, "todo-a"], ["goal-a", now]])
})
