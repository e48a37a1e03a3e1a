/** Sources, over each state and what is said of them; and what todos require of them. Rules: G12, G14, G86. */
import { assert, test } from "vitest"
import { sha256 } from "../../../src/base/Digest.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { Sources } from "../../../src/governance/index.ts"
import { sourceHandlers } from "../../../src/governance/Source.ts"
import {
  atRevision,
  loadNamedReads,
  loadReadBy,
  loadRequired,
  loadUnreadable,
  missingReads,
  newestReads,
  projectRequired,
  readableAll,
  readsOfGoal,
  revisionsOf,
  type SourceRead,
  sourceReadTable,
  sourceTable
} from "../../../src/governance/SourceRecord.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { newBench, newGoal } from "../authority.ts"
import { decideBy, loadBy, loaded, recording, rowOf, tables, told } from "./decide.ts"
import { now, todo } from "./records.ts"
import { agent, goal, source, turn } from "./workRecords.ts"

const decide = decideBy(sourceHandlers)
const load = loadBy(sourceHandlers)
const states = ["readable", "unreadable", "retired"] as const
const goals = ["active", "paused", "stopped", "completed"] as const
const content = { digest: sha256("plan"), ref: "plan.md", bytes: 4 }

test("G14 a source is registered under its name once: the same content is the same source, another one a conflict, a retired one final", () => {
  const register = (same: object | undefined, payload: object = {}, of: object | undefined = goal()) =>
    decide("registerSource", { goal: of, same }, { goal: "goal-a", name: "the plan", ...content, ...payload })
  const got = register(undefined)
  assert.deepEqual(
    [got.facts, got.reply],
    [["source.registered"], source({ id: "source-1", revision: 1, addedAt: now, changedAt: now })]
  )
  assert.equal(register(undefined, { tokens: 7 }).reply["tokens"], 7)
  for (const state of states) {
    const known = source({ state })
    const again = register(known)
    if (state === "retired") assert.deepInclude(again.error, { _tag: "SourceState", state })
    else assert.deepEqual([again.facts, again.reply], [[], known])
    for (const change of [{ digest: sha256("other") }, { ref: "other.md" }])
      assert.equal(register(known, change).refused, state === "retired" ? "SourceState" : "IdentityConflict")
  }
  assert.deepInclude(
    decide("registerSource", { goal: undefined, same: undefined }, { goal: "goal-z", name: "n", ...content }).error,
    { kind: "goal" }
  )
})

test("G14 G86 another content is the next revision, the same one says that it can be read; over state, goal and what changed", () => {
  for (const state of states) {
    for (const goalState of goals) {
      for (const [change, kind] of [
        [{}, "same"],
        [{ bytes: 5 }, "wrong"],
        [{ ref: "moved.md" }, "other"],
        [{ digest: sha256("other"), bytes: 9, tokens: 3 }, "other"]
      ] as const) {
        const record = source({ state, reason: state === "readable" ? null : "gone", tokens: 1 })
        const got = decide(
          "reviseSource",
          { found: record, goal: goal({ state: goalState }) },
          { source: "source-a", revision: 2, ...content, ...change }
        )
        const name = JSON.stringify([state, goalState, change])
        if (state === "retired") assert.equal(got.refused, "SourceState", name)
        else if (kind === "wrong") assert.equal(got.refused, "InvalidInput", name)
        else if (kind === "same") {
          const facts = state === "readable" ? [] : ["source.readable"]
          const next = state === "readable" ? record : { ...record, state: "readable", reason: null, changedAt: now }
          assert.deepEqual([got.facts, got.reply], [facts, next], name)
        } else if (goalState === "completed") assert.equal(got.refused, "GoalNotActive", name)
        else {
          const { digest, ref, bytes } = { ...content, ...change }
          const tokens = "tokens" in change ? 3 : null
          const next = {
            ...record,
            revision: 3,
            digest,
            ref,
            bytes,
            tokens,
            state: "readable",
            reason: null,
            changedAt: now
          }
          assert.deepEqual([got.facts, got.reply], [["source.revised"], next], name)
        }
      }
    }
  }
  const revise = (found: object | undefined, revision: number) =>
    decide("reviseSource", { found, goal: undefined }, { source: "source-a", revision, ...content })
  assert.equal(revise(source(), 1).refused, "RevisionConflict")
  assert.equal(revise(undefined, 1).refused, "NotFound")
  assert.deepEqual(
    decide(
      "reviseSource",
      { found: source(), goal: undefined },
      { source: "source-a", revision: 2, ...content, ref: "m" }
    ).facts,
    ["source.revised"]
  )
})

test("G12 a source is said to be unreadable, readable or retired: twice is no fact, retired is final", () => {
  for (const state of states) {
    for (const goalState of goals) {
      const record = source({ state, reason: "old" })
      const of = { found: record, goal: goal({ state: goalState }) }
      for (const [type, to] of [
        ["markUnreadable", "unreadable"],
        ["retireSource", "retired"]
      ] as const) {
        const got = decide(type, of, { source: "source-a", reason: "why" })
        const name = `${state} ${goalState} ${type}`
        if (state === to) assert.deepEqual([got.facts, got.reply], [[], record], name)
        else if (state === "retired") assert.equal(got.refused, "SourceState", name)
        else if (to === "unreadable" && goalState === "completed") assert.equal(got.refused, "GoalNotActive", name)
        else
          assert.deepEqual(
            [got.facts, got.reply],
            [[`source.${to}`], { ...record, state: to, reason: "why", changedAt: now }],
            name
          )
      }
    }
    const record = source({ state, reason: "old" })
    const back = decide("markReadable", record, { source: "source-a" })
    if (state === "retired") assert.equal(back.refused, "SourceState")
    else if (state === "readable") assert.deepEqual([back.facts, back.reply], [[], record])
    else
      assert.deepEqual(
        [back.facts, back.reply],
        [["source.readable"], { ...record, state: "readable", reason: null, changedAt: now }]
      )
  }
  assert.deepInclude(decide("markReadable", undefined, { source: "s" }).error, { kind: "source", id: "s" })
  assert.equal(
    decide("retireSource", { found: undefined, goal: undefined }, { source: "s", reason: "r" }).refused,
    "NotFound"
  )
})

test("G12 G14 what an agent has read is kept once, of a revision that there is, of the bytes that it has", () => {
  const fresh = { source: source(), goal: goal(), agent: agent(), before: undefined, turn: undefined }
  const read = (payload: object = {}, state: object = {}) =>
    decide("recordRead", { ...fresh, ...state }, { source: "source-a", revision: 2, agent: "ada", ...payload })
  const record: SourceRead = { source: "source-a", goal: "goal-a", agent: "ada", revision: 2, turn: null, readAt: now }
  assert.deepEqual([read().facts, read().reply], [["read.recorded"], record])
  assert.deepEqual(read({ turn: "turn-a" }, { turn: turn() }).reply, { ...record, turn: "turn-a" })
  for (const found of [undefined, turn({ goal: "goal-b" })])
    assert.deepInclude(read({ turn: "turn-a" }, { turn: found }).error, { kind: "turn", id: "turn-a" })
  assert.deepInclude(read({}, { agent: undefined }).error, { kind: "agent", id: "ada" })
  assert.deepInclude(read({}, { source: undefined }).error, { kind: "source", id: "source-a" })
  assert.deepInclude(read({ revision: 3 }).error, { _tag: "RevisionConflict", actual: 2 })
  for (const state of states) {
    assert.equal(
      read({}, { source: source({ state }) }).refused,
      state === "unreadable" ? "SourceState" : undefined,
      state
    )
    assert.equal(read({ revision: 1 }, { source: source({ state }) }).refused, undefined, state)
  }
  assert.equal(read({ digest: sha256("plan") }).refused, undefined)
  assert.equal(read({ digest: sha256("other") }).refused, "InvalidInput")
  assert.equal(read({ revision: 1, digest: sha256("other") }).refused, undefined)
  for (const [before, facts] of [
    [1, ["read.recorded"]],
    [2, []],
    [3, []]
  ] as const) {
    const kept = { ...record, revision: before, readAt: 1 }
    const got = read({}, { before: kept })
    assert.deepEqual([got.facts, got.reply], [facts, before === 1 ? record : kept])
  }
})

test("G14 G86 what is required of a todo: readable sources of its goal at their newest revision, without those that were retired", () => {
  const [one, dark, gone] = [
    source(),
    source({ id: "dark", state: "unreadable" }),
    source({ id: "gone", state: "retired" })
  ]
  const answer = tables({
    source: [one, dark, gone].map((record) => rowOf(sourceTable.put(record))),
    source_read: [
      rowOf(
        sourceReadTable.put({ source: "source-a", goal: "goal-a", agent: "ada", revision: 1, turn: null, readAt: 1 })
      )
    ]
  })
  assert.deepEqual(loaded(loadRequired(todo({ requiredReads: ["dark", "x", "gone", "source-a"] })), answer).state, [
    dark,
    one
  ])
  assert.deepEqual(loaded(loadRequired(undefined), answer), { state: [], asked: [] })
  assert.deepEqual([...loaded(loadNamedReads([{ requiredReads: ["gone"] }, {}]), answer).state.keys()], ["gone"])
  assert.equal(loaded(loadNamedReads([{}]), answer).asked.length, 0)
  assert.deepEqual(
    loaded(loadReadBy("ada", [one, dark]), answer).state.map(({ revision }) => revision),
    [1]
  )
  assert.deepEqual(loaded(loadReadBy("bob", [one]), answer).state, [])
  assert.deepInclude(told(readableAll([one, dark])).error, { _tag: "SourceState", source: "dark" })
  assert.equal(told(readableAll([one, gone])).refused, undefined)
  const found = new Map([["source-a", one]])
  assert.equal(told(readsOfGoal("goal-a", [{ requiredReads: ["source-a"] }, {}], found)).refused, undefined)
  assert.deepInclude(told(readsOfGoal("goal-a", [{}, { requiredReads: ["source-a", "x"] }], found)).error, {
    kind: "source",
    id: "x"
  })
  assert.equal(told(readsOfGoal("goal-b", [{ requiredReads: ["source-a"] }], found)).refused, "NotFound")
  assert.equal(told(newestReads("goal-a", [{ source: "source-a", revision: 2 }], found)).refused, undefined)
  assert.equal(told(newestReads("goal-a", [{ source: "source-a", revision: 1 }], found)).refused, "RevisionConflict")
  for (const goalOf of ["goal-a", "goal-b"])
    assert.equal(
      told(newestReads(goalOf, [{ source: goalOf === "goal-a" ? "x" : "source-a", revision: 2 }], found)).refused,
      "NotFound"
    )
  assert.equal(told(atRevision(one, 2)).refused, undefined)
  assert.deepInclude(told(atRevision(one, 3)).error, { id: "source-a", expected: 3, actual: 2 })
  assert.deepEqual(revisionsOf([one, dark]), [
    { source: "source-a", revision: 2 },
    { source: "dark", revision: 2 }
  ])
  const [a1, a2, b1] = [
    { source: "a", revision: 1 },
    { source: "a", revision: 2 },
    { source: "b", revision: 1 }
  ]
  assert.deepEqual(missingReads([a2, b1], [a1, b1]), [a2])
  assert.deepEqual(missingReads([a1], [a2, a1]), [])
  assert.deepEqual(missingReads([a1, b1], []), [a1, b1])
  assert.deepEqual(missingReads([b1], [a1]), [b1])
})

test("G12 which todos require a source that cannot be read, and what is kept of what todos require", () => {
  const rows = [
    { todo: "t-1", source: "b" },
    { todo: "t-2", source: "a" },
    { todo: "t-1", source: "a" }
  ]
  const { state } = loaded(loadUnreadable("goal-a"), (_sql, params) => (params[0] === "goal-a" ? rows : []))
  assert.deepEqual(
    [...state],
    [
      ["t-1", ["a", "b"]],
      ["t-2", ["a"]]
    ]
  )
  const kept = (type: string, data: object = todo({ requiredReads: ["a", "b"] })) =>
    projectRequired({ type, entity: "todo-a", data: data as never }).map(({ sql, params }) => [
      sql.split(" ")[0],
      params
    ])
  const put = [
    ["INSERT", ["a", "todo-a"]],
    ["INSERT", ["b", "todo-a"]]
  ]
  const cleared = ["DELETE", ["todo-a"]]
  assert.deepEqual(kept("todo.added"), put)
  assert.deepEqual(kept("todo.edited"), [cleared, ...put])
  assert.deepEqual(kept("todo.superseded"), [cleared])
  for (const type of ["todo.completed", "todo.deferred", "todo.reopened"]) assert.deepEqual(kept(type), [])
  assert.deepEqual(kept("todo.added", { id: "todo-a" }), [])
})

test("G12 G14 what the commands of a source read, and what is read of it", async () => {
  const content_ = {
    goal: [rowOf(goalTable.put(goal()))],
    source: [rowOf(sourceTable.put(source()))],
    agent: [rowOf(agentTable.put(agent()))],
    turn: [rowOf(turnTable.put(turn()))]
  }
  const answer = tables(content_)
  assert.deepEqual(load("registerSource", { goal: "goal-a", name: "the plan", ...content }, answer)["state"], {
    goal: goal(),
    same: source()
  })
  assert.deepEqual(load("retireSource", { source: "source-a", reason: "r" }, answer)["state"], {
    found: source(),
    goal: goal()
  })
  assert.deepEqual(load("retireSource", { source: "x", reason: "r" }, answer)["state"], {
    found: undefined,
    goal: undefined
  })
  const none = { source: undefined, goal: undefined, agent: undefined, before: undefined, turn: undefined }
  const reading = { source: "source-a", revision: 1, agent: "ada" }
  assert.deepEqual(load("recordRead", { ...reading, source: "x" }, answer)["state"], none)
  assert.deepEqual(load("recordRead", reading, answer)["state"], {
    ...none,
    source: source(),
    goal: goal(),
    agent: agent()
  })
  assert.deepEqual(load("recordRead", { ...reading, turn: "turn-a" }, answer)["state"].turn, turn())
  assert.deepEqual((await recording(content_).run(Sources.get({ source: "source-a" }))).reads, [])
  const bench = await newBench()
  assert.deepInclude(await bench.fails(Sources.get({ source: "x" })), { _tag: "NotFound", id: "x" })
  const one = await newGoal(bench)
  await bench.run(Sources.register({ goal: one.id, name: "n", ...content }))
  assert.equal((await bench.run(Sources.list({ goal: one.id }))).items.length, 1)
  assert.equal((await bench.run(Sources.list({ goal: one.id, unread: true }))).items.length, 0)
})
