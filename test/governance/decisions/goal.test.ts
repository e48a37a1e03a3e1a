/** Goals, agents, closures and what is open below: each state and limit. Rules: G10, G11, G12, G13, G50, G55. */
import { assert, test } from "vitest"
import { evidenceTable } from "../../../src/governance/Evidence.ts"
import { frontierKinds, loadFrontier, mostNamed, openRows } from "../../../src/governance/Frontier.ts"
import { gateTable } from "../../../src/governance/GateRecord.ts"
import {
  activeGoal,
  type AgentRecord,
  agentTable,
  goalHandlers,
  type GoalRecord,
  goalTable,
  knownAgent,
  limitsOf,
  loadWaiting,
  showGoal,
  showLimits,
  takeLimits
} from "../../../src/governance/Goal.ts"
import { closureHandlers } from "../../../src/governance/GoalClosure.ts"
import { Agents, Gates, Goals, Obligations } from "../../../src/governance/index.ts"
import { obligationTable } from "../../../src/governance/ObligationRecord.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, loaded, recording, rowOf, tables, told } from "./decide.ts"
import { now } from "./records.ts"
import { agent, evidence, gate, goal, obligation } from "./workRecords.ts"

const decide = decideBy({ ...goalHandlers, ...closureHandlers })
const load = loadBy({ ...goalHandlers, ...closureHandlers })
const states = ["active", "paused", "stopped", "completed"] as const

test("G50 G55 a goal is opened with at least one limit, and one for each meter that it requires; zero is a limit", () => {
  const open = (budget: object, requiredMeters?: readonly string[]) =>
    decide("openGoal", undefined, {
      title: "Repair",
      budget,
      ...(requiredMeters === undefined ? {} : { requiredMeters })
    })
  const got = open({ usd: 1.5, slots: 2, tokens: 9, windowMs: 100 }, ["tokens"])
  assert.deepEqual(got.facts, ["goal.opened"])
  const record = goal({
    id: "goal-1",
    title: "Repair",
    limitUsdMicros: 1_500_000,
    limitSlots: 2,
    limits: { tokens: 9 },
    windowMs: 100,
    requiredMeters: ["tokens"],
    openedAt: now,
    changedAt: now
  })
  assert.deepEqual(got.events[0]!.data as object, record)
  assert.deepEqual(got.reply, showGoal(record))
  const plain = (of: object) => open(of).events[0]!.data as unknown as GoalRecord
  assert.deepInclude(plain({ usd: 0 }), {
    limitUsdMicros: 0,
    limitSlots: null,
    limits: {},
    windowMs: null,
    requiredMeters: []
  })
  assert.deepInclude(plain({ slots: 0 }), { limitUsdMicros: null, limitSlots: 0 })
  assert.deepInclude(open({}).error, { _tag: "BoundMissing", meter: "usd" })
  assert.deepInclude(open({ windowMs: 5 }).error, { _tag: "BoundMissing", meter: "usd" })
  assert.deepInclude(open({ usd: 1 }, ["usd", "tokens"]).error, { _tag: "BoundMissing", meter: "tokens" })
  assert.equal(open({ usd: 1, tokens: 0 }, ["usd", "tokens"]).refused, undefined)
  assert.deepEqual(
    loaded(
      goalHandlers["openGoal"]!.load(
        { id: "c", module: "work", type: "openGoal", payload: { title: "t", budget: { usd: 1 } } },
        { now }
      ),
      () => []
    ).asked,
    []
  )
})

test("G50 limits are kept as they were given, and shown as they are kept", () => {
  assert.deepEqual(takeLimits({ usd: 1.0000019, slots: 3, attempts: 0 }), {
    units: { usd: 1_000_001, slots: 3, attempts: 0 },
    windowMs: null
  })
  assert.deepEqual(takeLimits({ tokens: undefined, usd: undefined, windowMs: 7 } as never), { units: {}, windowMs: 7 })
  assert.deepEqual(showLimits({ units: {}, windowMs: null }), { usd: null, slots: null })
  assert.deepEqual(showLimits({ units: { usd: 0, slots: 0, tokens: 5 }, windowMs: 0 }), {
    usd: 0,
    slots: 0,
    tokens: 5,
    windowMs: 0
  })
  assert.deepEqual(limitsOf(goal()), { units: {}, windowMs: null })
  assert.deepEqual(limitsOf(goal({ limitUsdMicros: 0, limitSlots: 0, limits: { attempts: 2 }, windowMs: 4 })), {
    units: { usd: 0, slots: 0, attempts: 2 },
    windowMs: 4
  })
})

test("G10 a goal is paused, stopped and resumed from each state; saying it twice is no fact, and completed is final", () => {
  for (const [type, to, happened] of [
    ["pauseGoal", "paused", "goal.paused"],
    ["resumeGoal", "active", "goal.resumed"],
    ["stopGoal", "stopped", "goal.stopped"]
  ] as const) {
    for (const state of states) {
      const record = goal({ state, revision: 4 })
      const got = decide(type, record, { goal: "goal-a" })
      if (state === "completed") assert.deepInclude(got.error, { _tag: "GoalNotActive", state, waiting: [] })
      else if (state === to) assert.deepEqual([got.facts, got.reply], [[], showGoal(record)])
      else {
        const next = { ...record, state: to, revision: 5, changedAt: now }
        assert.deepEqual([got.facts, got.reply, got.events[0]!.data as object], [[happened], showGoal(next), next])
      }
    }
    assert.deepInclude(decide(type, undefined, { goal: "goal-z" }).error, {
      _tag: "NotFound",
      kind: "goal",
      id: "goal-z"
    })
  }
})

test("G10 what a goal that is not active refuses with, and what waits with it", () => {
  const obligations = [{ kind: "obligation", id: "o-1" }] as const
  const both = [...obligations, { kind: "obligation", id: "o-2" }, { kind: "gate", id: "g-1" }] as const
  for (const state of states) {
    const got = told(activeGoal(goal({ state }), "goal-a", both))
    assert.equal(got.refused, state === "active" ? undefined : "GoalNotActive")
    if (state === "active") continue
    assert.deepInclude(got.error, { goal: "goal-a", state, waiting: both })
    assert.equal(got.error["message"], `Goal goal-a is ${state}. With it wait: 2 obligations and 1 gate.`)
    assert.match(got.error["remedy"], state === "completed" ? /open another goal/ : /Goals\.resume/)
    assert.equal(
      told(activeGoal(goal({ state }), "goal-a", obligations)).error["message"],
      `Goal goal-a is ${state}. With it wait: 1 obligation.`
    )
    assert.equal(told(activeGoal(goal({ state }), "goal-a")).error["message"], `Goal goal-a is ${state}.`)
    assert.deepEqual(told(activeGoal(goal({ state }), "goal-a")).error["waiting"], [])
  }
  assert.deepInclude(told(activeGoal(undefined, "goal-z")).error, { kind: "goal", id: "goal-z" })
  assert.deepInclude(told(knownAgent(undefined, "zoe")).error, { kind: "agent", id: "zoe" })
  const answer = (sql: string) =>
    sql.includes("COUNT")
      ? [{ n: 1 }]
      : sql.includes("FROM gate")
        ? [rowOf(gateTable.put(gate()))]
        : [rowOf(obligationTable.put(obligation()))]
  const waiting = [
    { kind: "obligation", id: "obligation-a" },
    { kind: "gate", id: "gate-a" }
  ]
  for (const state of states) {
    const { state: found, asked } = loaded(loadWaiting(goal({ state }), now), answer)
    assert.deepEqual(found, state === "active" ? [] : (waiting as never))
    if (state === "active") assert.deepEqual(asked, [])
  }
  assert.deepEqual(loaded(loadWaiting(undefined, now), answer), { state: [], asked: [] })
})

test("G13 G50 registering an agent again changes what is named, and keeps the rest; null takes its limits away", () => {
  const known = agent({ capabilities: ["gpu"], budget: { units: { usd: 5 }, windowMs: null }, registeredAt: 3 })
  const register = (payload: object, before: AgentRecord | undefined = known) =>
    decide("registerAgent", { goal: goal(), agent: before }, { goal: "goal-a", agentId: "ada", ...payload }).events[0]
      ?.data as unknown as AgentRecord
  assert.deepEqual(register({}), known)
  assert.deepEqual(register({}, null as never), agent({ registeredAt: now }))
  assert.deepEqual(register({ capabilities: [] }), { ...known, capabilities: [] })
  assert.deepEqual(register({ budget: null }), { ...known, budget: null })
  assert.deepEqual(register({ budget: { slots: 2, windowMs: 9 } }), {
    ...known,
    budget: { units: { slots: 2 }, windowMs: 9 }
  })
  const shown = decide("registerAgent", { goal: goal(), agent: known }, { goal: "goal-a", agentId: "ada" })
  assert.deepEqual(
    [shown.facts, shown.reply],
    [["agent.registered"], { ...known, budget: { usd: 0.000005, slots: null } }]
  )
  assert.isNull(
    decide("registerAgent", { goal: goal(), agent: undefined }, { goal: "goal-a", agentId: "ada" }).reply["budget"]
  )
  assert.deepInclude(
    decide("registerAgent", { goal: undefined, agent: undefined }, { goal: "goal-z", agentId: "ada" }).error,
    { kind: "goal", id: "goal-z" }
  )
})

test("G12 a goal is completed once, over an empty frontier, with what shows it; with anything else it stays as it is", () => {
  const complete = (state: object, closure: object = { reason: "all done" }) =>
    decide(
      "completeGoal",
      { goal: goal(), waiting: [], parts: [], evidence: [], ...state },
      { goal: "goal-a", closure }
    )
  const got = complete({})
  const closure = { reason: "all done", evidence: [], closedAt: now }
  const done = goal({ state: "completed", closure, revision: 2, changedAt: now })
  assert.deepEqual([got.facts, got.reply, got.events[0]!.data as object], [["goal.completed"], showGoal(done), done])
  const shown = complete({ evidence: [evidence()] }, { reason: "all done", evidence: ["evidence-a"] })
  assert.deepEqual(shown.reply["closure"].evidence, ["evidence-a"])
  for (const found of [undefined, evidence({ goal: "goal-b" })])
    assert.deepInclude(complete({ evidence: [found] }, { reason: "r", evidence: ["evidence-a"] }).error, {
      kind: "evidence",
      id: "evidence-a"
    })
  const parts = [
    { kind: "todo", count: 2, ids: ["a", "b"] },
    { kind: "gate", count: 1, ids: ["g"] }
  ]
  const open = complete({ parts }).error
  assert.deepInclude(open, { _tag: "FrontierNotEmpty", goal: "goal-a", parts })
  assert.include(open["message"], "todo 2, gate 1")
  const waiting = [{ kind: "gate", id: "g" }]
  for (const state of ["paused", "stopped"] as const)
    assert.deepInclude(complete({ goal: goal({ state }), waiting }).error, { _tag: "GoalNotActive", state, waiting })
  assert.deepInclude(complete({ goal: undefined }).error, { kind: "goal", id: "goal-a" })
  // Completed before: the same reason and evidence in whatever order is no new fact, anything else is refused.
  const before = { ...done, closure: { reason: "all done", evidence: ["b", "a"], closedAt: 1 } }
  for (const [asked, same] of [
    [{ reason: "all done", evidence: ["a", "b"] }, true],
    [{ reason: "all done", evidence: ["a", "b", "a"] }, true],
    [{ reason: "all done", evidence: ["a"] }, false],
    [{ reason: "all done" }, false],
    [{ reason: "another", evidence: ["a", "b"] }, false]
  ] as const) {
    const again = complete({ goal: before, parts }, asked)
    if (same) assert.deepEqual([again.facts, again.reply], [[], showGoal(before)])
    else assert.deepInclude(again.error, { _tag: "GoalNotActive", state: "completed", waiting: [] })
  }
  assert.equal(complete({ goal: { ...before, closure: { ...before.closure, evidence: [] } } }).refused, undefined)
  assert.equal(complete({ goal: { ...before, closure: null } }).refused, "GoalNotActive")
})

/** Counts and ids of some tables' open rows. */
const counting = (open: { readonly [table: string]: readonly string[] }) => (sql: string) => {
  const table = /FROM (\w+)/.exec(sql)![1]!
  const beside = table === "reservation" && sql.includes("turn IS NOT NULL") ? "beside" : table
  const ids = open[beside] ?? []
  if (/count\(\*\)/i.test(sql)) return [{ n: ids.length }]
  return table === "gate" ? ids.map((id) => rowOf(gateTable.put(gate({ id })))) : ids.map((id) => ({ id }))
}

test("G12 the frontier names each kind that is open with its count and at most a hundred ids, and no other", () => {
  const frontier = (open: { readonly [table: string]: readonly string[] }) =>
    loaded(loadFrontier("goal-a", now), counting(open)).state
  assert.deepEqual(frontier({}), [])
  assert.deepEqual(frontier({ gate: ["g-1", "g-2"], turn: ["t"] }), [
    { kind: "gate", count: 2, ids: ["g-1", "g-2"] },
    { kind: "turn", count: 1, ids: ["t"] }
  ])
  assert.deepEqual(frontier({ reservation: ["r"], beside: ["b"] }), [
    { kind: "reservation", count: 2, ids: ["r", "b"] }
  ])
  const many = Array.from({ length: 80 }, (_, n) => `r-${n}`)
  const [bounds] = frontier({ reservation: many, beside: many })
  assert.deepEqual([bounds!.count, bounds!.ids.length], [160, mostNamed])
  const kind = openRows("x", "todo", "1 = 1")
  assert.deepEqual(loaded(kind.load("goal-a", now), () => [{ n: 0 }]).asked.length, 1)
  assert.deepEqual(new Set(frontierKinds.map((one) => one.kind)).size, frontierKinds.length)
})

test("G10 G11 G12 what is read of a goal: itself, what it owes and what is open; agents with their limits", async () => {
  const rows = {
    goal: [rowOf(goalTable.put(goal()))],
    agent: [agent({ budget: { units: { slots: 1 }, windowMs: null } }), agent({ agentId: "bob" })].map((one) =>
      rowOf(agentTable.put(one))
    )
  }
  const closing = { goal: "goal-a", closure: { reason: "r" } }
  const answer = (sql: string, params: readonly unknown[]) =>
    /count\(\*\)/i.test(sql)
      ? [{ n: 0 }]
      : tables({ ...rows, evidence: [rowOf(evidenceTable.put(evidence()))] })(sql, params)
  assert.deepEqual(load("completeGoal", closing, answer, now)["state"], {
    goal: goal(),
    waiting: [],
    parts: [],
    evidence: []
  })
  const named = { ...closing, closure: { reason: "r", evidence: ["evidence-a", "x"] } }
  assert.deepEqual(load("completeGoal", named, answer, now)["state"].evidence, [evidence(), undefined])
  const { run } = recording(rows)
  const { items } = await run(Agents.list({ goal: "goal-a" }))
  assert.deepEqual(
    items.map(({ agentId, budget }) => [agentId, budget]),
    [
      ["ada", { usd: null, slots: 1 }],
      ["bob", null]
    ]
  )
  const bench = await newBench()
  assert.deepInclude(await bench.fails(Goals.get({ goal: "goal-z" })), { _tag: "NotFound", id: "goal-z" })
  assert.deepInclude(await bench.fails(Goals.frontier({ goal: "goal-z" })), { _tag: "NotFound", id: "goal-z" })
  const one = await newGoal(bench)
  const work = await newTodo(bench, one)
  const asked = await bench.run(Gates.ask({ goal: one.id, kind: "userDecision", question: "May it be done?" }))
  const must = await bench.run(Obligations.open({ goal: one.id, todo: work.id, reason: "promised" }))
  const { obligations, gates, undelivered, owed, title } = await bench.run(Goals.get({ goal: one.id }))
  assert.deepEqual([title, obligations.map(({ id }) => id)], [one.title, [must.id]])
  assert.deepEqual([gates, undelivered, owed], [{ count: 1, ids: [asked.id] }, { count: 0, ids: [] }, []])
  const { state, parts } = await bench.run(Goals.frontier({ goal: one.id }))
  assert.deepEqual(
    [state, parts.map(({ kind, ids }) => [kind, ids[0]])],
    [
      "active",
      [
        ["gate", asked.id],
        ["obligation", must.id],
        ["todo", work.id]
      ]
    ]
  )
  // Of each table it is asked with the goal; what is not there is registered as new.
  const { asked: statements } = loaded(openRows("x", "todo", "1 = 1").load("goal-a", now), () => [{ n: 1, id: "a" }])
  assert.deepEqual(
    statements.map(({ params }) => params),
    [["goal-a"], ["goal-a"]]
  )
  assert.deepEqual(loaded(openRows("x", "todo", "1 = 1").load("goal-a", now), () => [{ n: 0 }]).state.ids, [])
  const registering = load("registerAgent", { goal: "goal-a", agentId: "bob" }, tables(rows))["state"]
  assert.deepEqual(registering, { goal: goal(), agent: agent({ agentId: "bob" }) })
  assert.equal(told(knownAgent(agent(), "ada")).refused, undefined)
})
