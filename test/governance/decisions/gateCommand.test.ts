/** Asking, answering and withdrawing a question, condition by condition. Rules: G12, G40, G41. */
import { assert, test } from "vitest"
import { gateHandlers } from "../../../src/governance/Gate.ts"
import {
  type GateDecision,
  type GateRecord,
  gateTable,
  mostDecisions,
  mostGates,
  questionDigest
} from "../../../src/governance/GateRecord.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { Gates, Todos } from "../../../src/governance/index.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, recording, rowOf, tables } from "./decide.ts"
import { now, todo } from "./records.ts"
import { agent, gate, gateDecision, goal } from "./workRecords.ts"

const decide = decideBy(gateHandlers)
const load = loadBy(gateHandlers)
const once = (change: Partial<GateDecision> = {}) => gateDecision({ reach: { kind: "once" }, ...change })
const until = (at: number, change: Partial<GateDecision> = {}) =>
  gateDecision({ reach: { kind: "until", at }, ...change })
const forTodo = (id: string, change: Partial<GateDecision> = {}) =>
  gateDecision({ reach: { kind: "todo", todo: id }, ...change })

// --- commands --------------------------------------------------------------------------------------------------------

const { digest: _digest, mayStop: _mayStop, ...plain } = gate()
const asking = { goal: "goal-a", kind: "userDecision", question: "May it be done?" }
const fresh = { goal: goal(), unknown: undefined, full: false, asked: undefined }

test("G40 G41 a question is asked once, with all that it names; one that is incomplete, unknown, or one too many is not", () => {
  const ask = (state: object = {}, payload: object = {}) =>
    decide("askGate", { ...fresh, ...state }, { ...asking, ...payload })
  const got = ask()
  const opened = { ...plain, id: "gate-1", openedAt: now, changedAt: now }
  assert.deepEqual([got.facts, got.reply], [["gate.opened"], { ...opened, asked: true }])
  assert.deepInclude(got.events[0]!.data as object, { mayStop: true, digest: questionDigest(gate()) })
  const full = {
    agents: ["ada"],
    actions: ["settle"],
    todos: ["todo-a"],
    writeScopes: ["src"],
    choices: ["yes"],
    askedBy: "bob"
  }
  assert.deepInclude(ask({}, full).reply, full)
  const need = { class: "tool", name: "git" }
  assert.deepInclude(ask({}, { kind: "capability", need }).reply, { lane: "repair", need })
  for (const wrong of [
    { kind: "capability" },
    { need },
    { kind: "writeBoundary" },
    { kind: "writeBoundary", need, writeScopes: ["src"] }
  ])
    assert.equal(ask({}, wrong).refused, "InvalidInput", JSON.stringify(wrong))
  assert.equal(ask({}, { kind: "writeBoundary", writeScopes: ["src"] }).refused, undefined)
  for (const state of ["active", "paused", "stopped", "completed"] as const)
    assert.equal(ask({ goal: goal({ state }) }).refused, state === "completed" ? "GoalNotActive" : undefined)
  assert.deepInclude(ask({ goal: undefined }).error, { kind: "goal", id: "goal-a" })
  const unknown = ask({ goal: undefined }).error
  assert.equal(decide("askGate", { ...fresh, unknown }, asking).error, unknown)
  assert.equal(ask({ full: true }).refused, "InvalidInput")
  const known = gate({ decisions: [until(now)], state: "decided", lapsesAt: now })
  const again = ask({ asked: known, full: true })
  assert.deepEqual([again.facts, again.reply], [[], { ...plain, decisions: known.decisions, asked: false }])
})

test("G40 asking reads the agents and todos that are named, whether there is room, and whether it was asked", () => {
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    agent: [rowOf(agentTable.put(agent()))],
    todo: [rowOf(todoTable.put(todo()))],
    gate: [rowOf(gateTable.put(gate({ digest: questionDigest(gate()) })))]
  }
  const counts: Record<string, number> = { everywhere: 0, "todo-a": 0 }
  const state = (payload: object) =>
    load("askGate", { ...asking, ...payload }, (sql, params) =>
      sql.includes("COUNT(*)")
        ? [{ n: counts[sql.includes("gate_todo") ? String(params[0]) : "everywhere"] ?? 0 }]
        : tables(content)(sql, params)
    )["state"]
  assert.deepInclude(state({}), { goal: goal(), unknown: undefined, full: false })
  assert.equal(state({}).asked.id, "gate-a")
  assert.equal(state({ question: "Another?" }).asked, undefined)
  assert.equal(state({ agents: ["ada"], todos: ["todo-a"] }).unknown, undefined)
  assert.deepInclude(state({ agents: ["ada", "zoe"], todos: ["todo-z"] }).unknown, { kind: "agent", id: "zoe" })
  assert.deepInclude(state({ todos: ["todo-a", "todo-z"] }).unknown, { kind: "todo", id: "todo-z" })
  for (const [where, most, payload] of [
    ["everywhere", mostGates.everywhere, {}],
    ["todo-a", mostGates.todo, { todos: ["todo-a", "todo-b"] }]
  ] as const) {
    for (const [count, full] of [
      [most - 1, false],
      [most, true],
      [most + 1, true]
    ] as const) {
      counts[where] = count
      assert.equal(state(payload).full, full, `${where} ${count}`)
    }
    counts[where] = 0
  }
  counts["everywhere"] = 1000
  assert.isFalse(state({ todos: ["todo-a"] }).full)
})

const deciding = {
  gate: "gate-a",
  by: { role: "person", name: "vera" },
  allow: true,
  reason: "discussed",
  reach: { kind: "scope" }
}
const answer = (found: GateRecord | undefined, payload: object = {}, more: object = {}) =>
  decide("decideGate", { gate: found, live: new Set(), todo: todo(), ...more }, { ...deciding, ...payload })

test("G40 G41 a person answers, an agent only what is repaired; a withdrawn question is answered and withdrawn no more", () => {
  for (const lane of ["owner", "repair"] as const) {
    for (const role of ["person", "agent"] as const) {
      for (const state of ["open", "decided", "withdrawn"] as const) {
        const by = { role, name: "x" }
        const expected =
          state === "withdrawn" ? "GateClosed" : lane === "owner" && role === "agent" ? "OwnerOnly" : undefined
        assert.equal(answer(gate({ lane, state }), { by }).refused, expected, `${lane} ${role} ${state}`)
        const gone = decide("withdrawGate", gate({ lane, state, lapsesAt: 7 }), {
          gate: "gate-a",
          by,
          reason: "no need"
        })
        assert.equal(gone.refused, expected)
        if (expected !== undefined) continue
        const withdrawn = { by, reason: "no need" }
        assert.deepEqual(
          [gone.facts, gone.reply],
          [["gate.withdrawn"], { ...plain, lane, state: "withdrawn", withdrawn, changedAt: now }]
        )
        assert.deepInclude(gone.events[0]!.data as object, { mayStop: false, lapsesAt: null })
      }
    }
  }
  assert.deepInclude(answer(undefined).error, { kind: "gate", id: "gate-a" })
})

test("G40 an answer is kept as it was given, reaches what the gate is about, and is one of its choices", () => {
  const got = answer(gate())
  const decision = gateDecision({
    answer: "yes",
    reason: "discussed",
    by: { role: "person", name: "vera" },
    decidedAt: now
  })
  assert.deepEqual(
    [got.facts, got.reply],
    [["gate.decided"], { ...plain, decisions: [decision], state: "decided", changedAt: now }]
  )
  assert.equal(answer(gate(), { allow: false }).reply["decisions"][0].answer, "no")
  assert.equal(answer(gate(), { answer: "go on" }).reply["decisions"][0].answer, "go on")
  const lapsing = answer(gate(), { reach: { kind: "until", at: now + 5 } }).reply
  assert.deepInclude(lapsing, { state: "decided", lapsesAt: now + 5 })
  for (const [reach, allow, expected] of [
    [{ kind: "once" }, true, undefined],
    [{ kind: "once" }, false, "InvalidInput"],
    [{ kind: "until", at: now + 1 }, false, undefined],
    [{ kind: "until", at: now }, true, "InvalidInput"],
    [{ kind: "todo", todo: "todo-a" }, true, undefined],
    [{ kind: "scope" }, false, undefined]
  ] as const)
    assert.equal(answer(gate(), { reach, allow }).refused, expected, JSON.stringify([reach, allow]))
  const ofTodo = { reach: { kind: "todo", todo: "todo-a" } }
  assert.equal(answer(gate({ todos: ["todo-a"] }), ofTodo).refused, undefined)
  assert.match(answer(gate({ todos: ["todo-b"] }), ofTodo).error["message"], /not about todo todo-a/)
  for (const found of [undefined, todo({ goal: "goal-b" })])
    assert.deepInclude(answer(gate(), ofTodo, { todo: found }).error, { _tag: "NotFound", kind: "todo", id: "todo-a" })
  assert.equal(answer(gate(), {}, { todo: undefined }).refused, undefined)
  const chosen = gate({ choices: ["left", "right"] })
  assert.match(answer(chosen).error["message"], /left, right/)
  assert.equal(answer(chosen, { answer: "left" }).refused, undefined)
  assert.equal(answer(chosen, { answer: "neither", allow: false }).refused, undefined)
  const many = (count: number) => gate({ decisions: Array.from({ length: count }, (_, n) => forTodo(`t-${n}`)) })
  assert.equal(answer(many(mostDecisions - 1), ofTodo).refused, undefined)
  assert.equal(answer(many(mostDecisions), ofTodo).refused, "InvalidInput")
  assert.equal(answer(many(mostDecisions)).refused, undefined)
  const used = gate({ decisions: Array.from({ length: 22 }, (_, n) => once({ usedBy: `o-${n}` })) })
  assert.equal(
    answer(used, { reach: { kind: "once" } }, { live: new Set(["o-0", "o-1"]) }).reply["decisions"].length,
    23
  )
})

test("G40 answering reads which used decisions somebody still acts under, and the todo that it reaches", () => {
  const record = gate({
    decisions: [once({ usedBy: "a/b/7" }), once(), once({ usedBy: "effect" }), once({ usedBy: "t/3" })]
  })
  const asked: unknown[] = []
  const content = tables({ gate: [rowOf(gateTable.put(record))], todo: [rowOf(todoTable.put(todo()))] })
  const state = (payload: object) =>
    load(
      "decideGate",
      { ...deciding, ...payload },
      (sql, params) => {
        if (!sql.includes("FROM lease")) return content(sql, params)
        asked.push(params)
        return params[0] === "a/b" ? [{ 1: 1 }] : []
      },
      now
    )["state"]
  assert.deepEqual(state({}), { gate: record, live: new Set(["a/b/7"]), todo: undefined })
  assert.deepEqual(asked, [
    ["a/b", 7, now],
    ["", 0, now],
    ["t", 3, now]
  ])
  assert.deepEqual(state({ reach: { kind: "todo", todo: "todo-a" } }).todo, todo())
  assert.deepEqual(state({ gate: "gate-z" }), { gate: undefined, live: new Set(), todo: undefined })
})

test("G12 G40 gates are listed oldest first, by the state of this time and by lane; nobody is asked what nobody waits for", async () => {
  const bench = await newBench()
  const one = await newGoal(bench)
  const work = await newTodo(bench, one)
  const made: string[] = []
  const open = async (more: object) => {
    made.push(
      (await bench.run(Gates.ask({ goal: one.id, kind: "userDecision", question: `q-${made.length}`, ...more }))).id
    )
    bench.now += 1
  }
  await open({})
  await open({ kind: "capability", need: { class: "tool", name: "git" } })
  await open({})
  await open({ todos: [work.id] })
  const vera = { role: "person", name: "vera" } as const
  await bench.run(
    Gates.decide({ gate: made[2]!, by: vera, allow: true, reason: "r", reach: { kind: "until", at: bench.now + 5 } })
  )
  const list = async (input: object = {}) =>
    (await bench.run(Gates.list({ goal: one.id, ...input }))).items.map(({ id }) => made.indexOf(id))
  assert.deepEqual(await list(), [0, 1, 2, 3])
  assert.deepEqual(await list({ state: "open" }), [0, 1, 3])
  assert.deepEqual(await list({ state: "decided" }), [2])
  assert.deepEqual(await list({ lane: "repair" }), [1])
  assert.deepEqual(await list({ lane: "owner", state: "open" }), [0, 3])
  assert.equal((await bench.run(Gates.get({ gate: made[2]! }))).lapsesAt, bench.now + 5)
  bench.now += 5
  assert.deepEqual(await list({ state: "open" }), [0, 1, 2, 3])
  assert.deepInclude(await bench.run(Gates.get({ gate: made[2]! })), { state: "open", lapsesAt: null })
  await bench.run(Gates.withdraw({ gate: made[3]!, by: vera, reason: "r" }))
  assert.deepEqual(await list({ state: "withdrawn" }), [3])
  assert.deepEqual(await list({ state: "open" }), [0, 1, 2])
  // Of a todo that is done, and below a goal that is completed, nothing is asked; the record stays as it is.
  await open({ todos: [work.id] })
  assert.deepEqual(await list({ state: "open" }), [0, 1, 2, 4])
  await bench.run(Todos.complete({ todo: work.id, continuation: { kind: "noFollowUp" } }))
  assert.deepEqual(await list({ state: "open" }), [0, 1, 2])
  assert.deepEqual(await list(), [0, 1, 2, 3, 4])
  const ended = { goal: [rowOf(goalTable.put(goal({ state: "completed" })))], gate: [rowOf(gateTable.put(gate()))] }
  for (const [content, shown] of [
    [ended, 0],
    [{ gate: ended.gate }, 1]
  ] as const) {
    const { run } = recording(content)
    assert.equal((await run(Gates.list({ goal: "goal-a", state: "open" }))).items.length, shown)
    assert.equal((await run(Gates.list({ goal: "goal-a" }))).items.length, 1)
  }
  assert.deepInclude(await bench.fails(Gates.get({ gate: "g" })), { _tag: "NotFound", kind: "gate", id: "g" })
})
