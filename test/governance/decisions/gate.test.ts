/** What a gate concerns, what stands and what lapses, over every kind of decision. Rules: G12, G36, G40, G41. */
import { assert, test } from "vitest"
import {
  capabilityClasses,
  concerns,
  decidedAnew,
  gateActions,
  type GateDecision,
  gateKinds,
  type GateRecord,
  gateTable,
  laneOf,
  gateLapsed,
  loadGates,
  loadOpenGates,
  loadQuestions,
  passGates,
  projectGate,
  projectGated,
  questionDigest,
  standing,
  stateAt,
  stopsAll,
  type Use,
  withDecisions
} from "../../../src/governance/GateRecord.ts"
import { loaded, rowOf, told } from "./decide.ts"
import { now } from "./records.ts"
import { gate, gateDecision } from "./workRecords.ts"

const use = (change: Partial<Use> = {}): Use => ({
  agent: "ada",
  action: "claim",
  todo: { id: "todo-a", writeScopes: ["src/a"] },
  occasion: "todo-a/2",
  ...change
})
const once = (change: Partial<GateDecision> = {}) => gateDecision({ reach: { kind: "once" }, ...change })
const scope = (change: Partial<GateDecision> = {}) => gateDecision({ reach: { kind: "scope" }, ...change })
const until = (at: number, change: Partial<GateDecision> = {}) =>
  gateDecision({ reach: { kind: "until", at }, ...change })
const forTodo = (id: string, change: Partial<GateDecision> = {}) =>
  gateDecision({ reach: { kind: "todo", todo: id }, ...change })

test("G41 only a missing local capability is repaired; credentials, production and every other question ask the owner", () => {
  for (const kind of gateKinds) {
    assert.equal(laneOf(kind, null), "owner")
    for (const of_ of capabilityClasses) {
      const local = kind === "capability" && of_ !== "credential" && of_ !== "productionAccess"
      assert.equal(laneOf(kind, { class: of_, name: "n" }), local ? "repair" : "owner", `${kind} ${of_}`)
    }
  }
})

test("G40 a gate concerns the agents, actions, todos and write scopes that it names", () => {
  for (const action of gateActions)
    assert.equal(concerns(gate({ actions: ["settle"] }), use({ action })), action === "settle")
  assert.isTrue(concerns(gate(), use()))
  for (const [agents, who, expected] of [
    [null, "ada", true],
    [["ada"], "ada", true],
    [["bob"], "ada", false],
    [["bob"], null, true]
  ] as const)
    assert.equal(concerns(gate({ agents }), use({ agent: who })), expected)
  for (const [todos, one, expected] of [
    [null, use().todo, true],
    [null, null, true],
    [["todo-a"], use().todo, true],
    [["todo-b"], use().todo, false],
    [["todo-a"], null, false]
  ] as const)
    assert.equal(concerns(gate({ todos }), use({ todo: one })), expected)
  for (const [writeScopes, theirs, expected] of [
    [["src"], ["lib", "src/a"], true],
    [["docs", "src"], ["src/a"], true],
    [["docs"], ["src/a"], false],
    [["src"], [], false]
  ] as const)
    assert.equal(concerns(gate({ writeScopes }), use({ todo: { id: "todo-a", writeScopes: theirs } })), expected)
  assert.isFalse(concerns(gate({ writeScopes: ["src"] }), use({ todo: null })))
})

test("G40 the same question is the same in whatever order and spacing it is put", () => {
  const asked = { ...gate(), agents: ["ada", "bob"], todos: ["t-2", "t-1"], question: "May  it\nbe " }
  const same = { ...asked, agents: ["bob", "ada", "bob"], todos: ["t-1", "t-2"], question: " May it be" }
  assert.equal(questionDigest(asked), questionDigest(same))
  for (const change of [
    { kind: "capability" },
    { question: "Must it?" },
    { need: { class: "tool", name: "n" } },
    { agents: null },
    { agents: ["ada"] },
    { actions: ["claim"] },
    { todos: null },
    { writeScopes: ["src"] }
  ] as const)
    assert.notEqual(questionDigest(asked), questionDigest({ ...asked, ...change }), JSON.stringify(change))
})

test("G40 a gate is decided while a decision speaks for all of its scope, or one for each todo that it names", () => {
  const table: readonly (readonly [readonly string[] | null, readonly GateDecision[], GateRecord["state"]])[] = [
    [null, [], "open"],
    [null, [scope()], "decided"],
    [null, [once()], "decided"],
    [null, [once({ usedBy: "o" })], "open"],
    [null, [until(now + 1)], "decided"],
    [null, [until(now)], "open"],
    [null, [forTodo("a")], "open"],
    [["a"], [forTodo("a")], "decided"],
    [["a", "b"], [forTodo("a")], "open"],
    [["a", "b"], [forTodo("a"), forTodo("b")], "decided"],
    [["a"], [once({ usedBy: "o" })], "open"],
    [["a"], [once({ usedBy: "o" }), scope()], "decided"]
  ]
  for (const [todos, decisions, expected] of table) {
    const name = JSON.stringify([todos, decisions.map(({ reach, usedBy }) => [reach, usedBy])])
    assert.equal(stateAt(gate({ todos, decisions }), now), expected, name)
    assert.equal(stateAt(gate({ todos, decisions, state: "withdrawn" }), now), "withdrawn", name)
  }
})

test("G12 G40 what follows from decisions: when a gate lapses, and whether it may still stop something", () => {
  const follows = (todos: readonly string[] | null, ...decisions: readonly GateDecision[]) => {
    const { state, lapsesAt, mayStop, changedAt } = withDecisions(gate({ todos, lapsesAt: 1 }), decisions, now)
    assert.equal(changedAt, now)
    return [state, lapsesAt, mayStop]
  }
  const no = { allow: false }
  assert.deepEqual(follows(null), ["open", null, true])
  assert.deepEqual(follows(null, scope()), ["decided", null, false])
  assert.deepEqual(follows(null, scope(no)), ["decided", null, true])
  assert.deepEqual(follows(null, scope(), forTodo("a", no)), ["decided", null, true])
  assert.deepEqual(follows(null, once()), ["decided", null, true])
  assert.deepEqual(follows(null, until(now + 9)), ["decided", now + 9, true])
  assert.deepEqual(follows(null, until(now + 3), until(now + 9)), ["decided", now + 9, true])
  assert.deepEqual(follows(null, until(now - 3)), ["open", null, true])
  assert.deepEqual(follows(null, until(now + 9), scope()), ["decided", null, false])
  assert.deepEqual(follows(["a"], until(now + 9), forTodo("a")), ["decided", null, false])
  assert.deepEqual(follows(["a", "b"], until(now + 9), forTodo("a")), ["decided", now + 9, true])
  assert.deepEqual(follows(["a"], forTodo("a", no)), ["decided", null, true])
})

test("G40 a further decision replaces what it covers, and drops what can never hold again", () => {
  const after = (decisions: readonly GateDecision[], next: GateDecision, live: readonly string[] = []) => {
    const got = decidedAnew(decisions, next, new Set(live), now)
    assert.equal(got.at(-1), next)
    return got.slice(0, -1).map((one) => decisions.indexOf(one))
  }
  const old = [
    until(now),
    until(now + 1),
    until(now + 9),
    forTodo("a"),
    forTodo("b"),
    once(),
    once({ usedBy: "x" }),
    scope()
  ]
  assert.deepEqual(after(old, scope()), [])
  assert.deepEqual(after(old, until(now + 1)), [2, 3, 4, 5, 6, 7])
  assert.deepEqual(after(old, until(now + 9)), [3, 4, 5, 6, 7])
  assert.deepEqual(after(old, forTodo("a")), [1, 2, 4, 5, 6, 7])
  assert.deepEqual(after(old, once()), [1, 2, 3, 4, 6, 7])
  // Twenty that were used and are over stay, and whichever somebody still acts under.
  const used = Array.from({ length: 25 }, (_, n) => once({ usedBy: `o-${n}` }))
  assert.deepEqual(after(used, once(), ["o-0", "o-3"]), [0, 3, ...Array.from({ length: 20 }, (_, n) => n + 5)])
  assert.equal(after(used.slice(0, 20), once()).length, 20)
  assert.equal(after(used.slice(0, 21), once()).length, 20)
})

test("G40 the latest decision that covers an action holds; one for once holds for whoever used it", () => {
  const which = (decisions: readonly GateDecision[], asked: Use = use()) => {
    const found = standing(gate({ decisions }), asked, now)
    return found === undefined ? undefined : decisions.indexOf(found)
  }
  assert.equal(which([]), undefined)
  assert.equal(which([scope(), scope()]), 1)
  assert.equal(which([scope(), until(now)]), 0)
  assert.equal(which([until(now + 1)]), 0)
  assert.equal(which([forTodo("todo-a")]), 0)
  assert.equal(which([forTodo("todo-b")]), undefined)
  assert.equal(which([forTodo("todo-a")], use({ todo: null })), undefined)
  assert.equal(which([once()]), 0)
  assert.equal(which([once({ usedBy: "todo-a/2" })]), 0)
  assert.equal(which([once({ usedBy: "todo-a/1" })]), undefined)
  // Used as an occasion only where it was for once.
  assert.equal(which([until(now, { usedBy: "todo-a/2" })]), undefined)
})

test("G40 whether a gate stops every grant that it concerns: no decision after the last refusal of all allows one", () => {
  const no = { allow: false }
  for (const [decisions, expected] of [
    [[], true],
    [[scope()], false],
    [[scope(no)], true],
    [[once()], false],
    [[once({ usedBy: "o" })], true],
    [[forTodo("a")], false],
    [[forTodo("a", no)], true],
    [[until(now + 1)], false],
    [[until(now)], true],
    [[scope(), until(now + 1, no)], true],
    [[scope(), until(now, no)], false],
    [[until(now + 1, no), forTodo("a")], false],
    [[forTodo("a"), until(now + 1, no)], true],
    [[forTodo("a"), forTodo("b", no)], false]
  ] as const)
    assert.equal(stopsAll(gate({ decisions }), now), expected, JSON.stringify(decisions))
})

test("G40 G41 what is stopped says by which gates, what stands, and who is to move; what passes uses what was for once", () => {
  const refusal = scope({ allow: false, answer: "never", by: { role: "person", name: "vera" } })
  const pass = (gates: readonly GateRecord[], asked: Use = use()) => told(passGates("goal-a", gates, asked, now))
  const stopped = pass([
    gate(),
    gate({ id: "gate-b", decisions: [refusal] }),
    gate({ id: "gate-c", decisions: [scope()] })
  ]).error
  assert.deepInclude(stopped, { _tag: "Gated", goal: "goal-a", agent: "ada", action: "claim", todo: "todo-a" })
  const shared = { kind: "userDecision", lane: "owner", question: "May it be done?" }
  assert.deepEqual(stopped["gates"], [
    { gate: "gate-a", ...shared, standing: "open", answer: null, by: null },
    { gate: "gate-b", ...shared, standing: "refused", answer: "never", by: "vera" }
  ])
  assert.include(stopped["message"], "claim is stopped by gate-a, gate-b: May it be done?")
  assert.match(stopped["remedy"], /decision that is named stands/)
  const repair = gate({ lane: "repair" })
  assert.match(pass([repair, gate()]).error["remedy"], /Wait until a person/)
  assert.match(pass([repair]).error["remedy"], /^Repair what is missing/)
  assert.equal(pass([gate({ question: "q".repeat(900) })]).error["message"].length, 600)
  assert.isNull(pass([gate()], use({ todo: null })).error["todo"])
  // What it concerns and is for once is used, each once; nothing else changes.
  const passes = [
    gate({ decisions: [once()] }),
    gate({ id: "b", decisions: [scope()] }),
    gate({ id: "c", actions: ["settle"], decisions: [once()] }),
    gate({ id: "d", decisions: [once({ usedBy: "todo-a/2" })] }),
    gate({ id: "e", decisions: [scope(), once()] })
  ]
  const result = passGates("goal-a", passes, use(), now)
  const facts = (result as unknown as { success: readonly { type: string; entity: string; data: GateRecord }[] })
    .success
  assert.deepEqual(
    facts.map(({ type, entity }) => [type, entity]),
    [
      ["gate.used", "gate-a"],
      ["gate.used", "e"]
    ]
  )
  assert.deepEqual(facts[0]!.data, withDecisions(passes[0]!, [once({ usedBy: "todo-a/2" })], now))
  assert.deepEqual(
    facts[1]!.data.decisions.map(({ usedBy }) => usedBy),
    [null, "todo-a/2"]
  )
})

test("G40 gates are read oldest first, by id where they are as old: about all work, and about the todo", () => {
  const rows = (...records: readonly GateRecord[]) => records.map((one) => rowOf(gateTable.put(one)))
  const everywhere = [gate({ id: "b", openedAt: 2 }), gate({ id: "a", openedAt: 5 })]
  const naming = [gate({ id: "d", openedAt: 5 }), gate({ id: "c", openedAt: 5 }), gate({ id: "e", openedAt: 1 })]
  const answer = (sql: string) =>
    sql.includes("may_stop = 0")
      ? rows(gate({ id: sql.includes("gate_todo") ? "told-of-todo" : "told" }))
      : rows(...(sql.includes("gate_todo") ? naming : everywhere))
  const ids = (found: readonly GateRecord[]) => found.map(({ id }) => id)
  assert.deepEqual(ids(loaded(loadGates("goal-a", "todo-a"), answer).state), ["e", "b", "a", "c", "d"])
  assert.deepEqual(ids(loaded(loadGates("goal-a", null), answer).state), ["b", "a"])
  assert.deepEqual(ids(loaded(loadQuestions("goal-a", "todo-a"), answer).state), [
    "e",
    "b",
    "a",
    "c",
    "d",
    "told",
    "told-of-todo"
  ])
})

test("G12 G40 what is kept of a gate beside its record: the unfinished todos that it names, and that it stops nothing once none is left", () => {
  const kept = (change: Partial<GateRecord>, type = "gate.opened") =>
    projectGate({ type, entity: "gate-a", data: gate(change) as never }).map(({ sql, params }) => [
      /^\w+ \w+/.exec(sql)![0],
      params
    ])
  const put = ["INSERT INTO", gateTable.put(gate()).params]
  assert.deepEqual(kept({}), [put])
  assert.deepEqual(kept({}, "gate.decided"), [put])
  const todos = ["todo-a", "todo-b"]
  const named = (change: Partial<GateRecord>) => ["INSERT INTO", gateTable.put(gate({ todos, ...change })).params]
  const over = ["UPDATE gate", ["gate-a"]]
  assert.deepEqual(kept({ todos }), [named({}), ["INSERT INTO", ["gate-a", ...todos]], over])
  assert.deepEqual(kept({ todos }, "gate.decided"), [named({}), over])
  const withdrawn = { todos, state: "withdrawn" } as const
  assert.deepEqual(kept(withdrawn, "gate.withdrawn"), [named(withdrawn), ["DELETE FROM", ["gate-a"]]])
  for (const type of ["todo.completed", "todo.superseded"])
    assert.deepEqual(
      projectGated({ type, entity: "todo-a", data: {} }).map(({ params }) => params),
      [["todo-a", "todo-a"], ["todo-a"]]
    )
  for (const type of ["todo.added", "todo.edited", "gate.opened"])
    assert.deepEqual(projectGated({ type, entity: "todo-a", data: {} }), [])
})

test("G36 G40 whether a decision lapsed, and what is open now", () => {
  assert.equal(loaded(gateLapsed(1, 2), () => []).state, false)
  const { state, asked } = loaded(gateLapsed(1, 2), () => [{ 1: 1 }])
  assert.deepEqual([state, asked[0]!.params], [true, [1, 2]])
  const open = loaded(loadOpenGates("goal-a", now, 5), (sql) =>
    sql.includes("COUNT") ? [{ n: 7 }] : [rowOf(gateTable.put(gate()))]
  )
  assert.deepEqual(open.state, { count: 7, items: [gate()] })
  assert.deepEqual(
    open.asked.map(({ params }) => params),
    [
      ["goal-a", now],
      ["goal-a", now]
    ]
  )
})
