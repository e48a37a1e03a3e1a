/** The ways out of `open`: superseding and completing a todo, condition by condition. Rules: G20, G21, G23, G35, G40, G61, G73, G91. */
import { assert, test } from "vitest"
import { todoHandlers } from "../../../src/governance/Todo.ts"
import { type TodoRecord } from "../../../src/governance/TodoRecord.ts"
import { decideBy } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { fence, gate, gateDecision, goal, obligation, turn } from "./workRecords.ts"

const decide = decideBy(todoHandlers)
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
const origin = { destination: "d", channel: "c", requestId: "r" }

test("G20 G21 G61 superseding leaves its replacements: whoever waited waits for these, and who asked for it too", () => {
  const fresh = {
    todo: todo(),
    lease: undefined,
    named: [],
    dependents: [],
    obligations: [],
    effects: [],
    waitedFor: new Set(),
    reads: new Map()
  }
  const supersede = (state: object = {}, payload: object = {}) =>
    decide("supersedeTodo", { ...fresh, ...state }, { todo: "todo-a", reason: "better", ...payload })
  const over = revisedOf(todo(), { state: "superseded", supersededBy: [], deferReason: "better" })
  assert.deepEqual([supersede().facts, supersede().reply], [["todo.superseded"], { ...over, replacements: [] }])
  for (const state of states) {
    const got = supersede({ todo: todo({ state, deferredUntil: 7 }) })
    assert.equal(got.refused, state === "open" || state === "deferred" ? undefined : "TodoState", state)
    if (got.refused === undefined) assert.isNull(got.reply["deferredUntil"])
  }
  const waits = of("todo-w", { dependsOn: ["x", "todo-a", "y"] })
  const got = supersede(
    { dependents: [waits], lease: lease(), todo: todo({ origin }) },
    { fence: fence(), replacements: [{ title: "Next" }, { title: "Next", origin: null }] }
  )
  assert.deepEqual(got.facts, ["todo.superseded", "todo.added", "todo.added", "todo.edited", "lease.released"])
  assert.deepEqual(got.reply["replacements"], [made({ origin }), made({ id: "todo-2", origin: null })])
  assert.deepEqual(got.reply["supersededBy"], ["todo-1", "todo-2"])
  assert.deepEqual(got.events[3]!.data as object, revisedOf(waits, { dependsOn: ["x", "y", "todo-1", "todo-2"] }))
  const another = { ...origin, requestId: "other" }
  assert.deepEqual(
    supersede({ todo: todo({ origin }) }, { replacements: [{ title: "n", origin: another }] }).reply["replacements"][0]
      .origin,
    another
  )
  assert.equal(supersede({ lease: lease() }).refused, "LeaseHeld")
  assert.equal(supersede({}, { fence: fence({ todo: "todo-b" }) }).refused, "InvalidInput")
  assert.equal(
    supersede({ named: [undefined] }, { replacements: [{ title: "n", dependsOn: ["a"] }] }).refused,
    "NotFound"
  )
  assert.equal(supersede({ waitedFor: new Set(["todo-a"]) }).refused, "InvalidInput")
  assert.equal(supersede({}, { replacements: [{ title: "n", requiredReads: ["s"] }] }).refused, "NotFound")
  assert.equal(supersede({ obligations: [obligation()] }).refused, "ObligationOpen")
  assert.equal(supersede({ effects: ["e"] }).refused, "EffectUnresolved")
  assert.equal(supersede({ todo: undefined }).refused, "NotFound")
})

test("G21 G40 G61 G73 G91 a todo is completed by hand with one continuation: its cost is owed, its result delivered where it was asked for", () => {
  const fresh = {
    todo: todo(),
    goal: goal(),
    lease: undefined,
    open: undefined,
    named: [],
    obligations: [],
    effects: [],
    gates: [],
    reads: new Map()
  }
  const noFollowUp = { kind: "noFollowUp" }
  const complete = (state: object = {}, payload: object = {}) =>
    decide("completeTodo", { ...fresh, ...state }, { todo: "todo-a", continuation: noFollowUp, ...payload })
  const got = complete()
  assert.deepEqual(got.facts, ["todo.completed", "quota.spend"])
  const done = revisedOf(todo(), { state: "done", continuation: noFollowUp as TodoRecord["continuation"] })
  const { owed, ...reply } = got.reply
  assert.deepEqual(reply, { ...done, successors: [] })
  assert.deepEqual([owed.length, owed[0].todo, owed[0].turn], [1, "todo-a", null])
  const followed = complete(
    { lease: lease() },
    { fence: fence(), continuation: { kind: "successors", todos: [{ title: "Next" }] } }
  )
  assert.deepEqual(followed.facts, ["todo.completed", "todo.added", "lease.released", "quota.spend"])
  assert.deepEqual(followed.reply["continuation"], { kind: "successors", todos: ["todo-1"] })
  assert.deepEqual(followed.reply["successors"], [made()])
  const cost = (one: typeof got) =>
    (
      one.events.find(({ type }) => type === "quota.spend")!.data as unknown as {
        reservation: { agent: string | null }
      }
    ).reservation.agent
  assert.deepEqual(
    [
      cost(got),
      cost(followed),
      cost(complete({}, { agent: "bob" })),
      cost(complete({ lease: lease() }, { fence: fence(), agent: "bob" }))
    ],
    [null, "ada", "bob", "ada"]
  )
  const asked = complete({ todo: todo({ origin }) })
  assert.deepEqual(asked.facts, ["todo.completed", "quota.spend", "delivery.accepted"])
  const { result } = asked.events[2]!.data as unknown as { result: { effectId: string } }
  assert.deepEqual(result, {
    outcome: "completed",
    accepted: false,
    todoState: "done",
    effectId: result.effectId,
    settlement: null,
    candidate: null,
    evidence: [],
    spend: { usd: "unknown", slots: 0 }
  } as never)
  assert.equal(asked.reply["delivery"] !== undefined, true)
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(complete({ goal: goal({ state }) }).refused, "GoalNotActive")
  for (const state of states)
    assert.equal(complete({ todo: todo({ state }) }).refused, state === "open" ? undefined : "TodoState")
  const declared = complete({ todo: todo({ acceptance: { validator: "oracle" } }) }).error
  assert.deepInclude(declared, { _tag: "AcceptanceInvalid", why: "missing", acceptance: "" })
  assert.include(declared["message"], "the validator oracle")
  assert.equal(complete({ lease: lease() }).refused, "LeaseHeld")
  assert.equal(complete({}, { fence: fence({ todo: "todo-b" }) }).refused, "InvalidInput")
  assert.equal(complete({ obligations: [obligation()] }).refused, "ObligationOpen")
  assert.equal(complete({ effects: ["e"] }).refused, "EffectUnresolved")
  assert.equal(complete({ open: turn() }).refused, "PhaseOrder")
  assert.equal(complete({ open: turn({ todo: "todo-b" }) }).refused, undefined)
  assert.equal(
    complete(
      { named: [undefined] },
      { continuation: { kind: "successors", todos: [{ title: "n", dependsOn: ["a"] }] } }
    ).refused,
    "NotFound"
  )
  assert.equal(
    complete({}, { continuation: { kind: "successors", todos: [{ title: "n", requiredReads: ["s"] }] } }).refused,
    "NotFound"
  )
  const stops = gate({ actions: ["complete"], agents: ["bob"], todos: ["todo-a"] })
  assert.deepInclude(complete({ gates: [stops] }).error, {
    _tag: "Gated",
    agent: null,
    action: "complete",
    todo: "todo-a"
  })
  assert.equal(complete({ gates: [stops] }, { agent: "bob" }).error["agent"], "bob")
  assert.equal(complete({ gates: [stops] }, { agent: "ada" }).refused, undefined)
  assert.equal(complete({ gates: [stops], lease: lease() }, { fence: fence(), agent: "bob" }).refused, undefined)
  const once = gate({ actions: ["complete"], decisions: [gateDecision({ reach: { kind: "once" } })] })
  const usedBy = (state: object, payload: object = {}) =>
    (complete({ gates: [once], ...state }, payload).events[0]!.data as unknown as { decisions: { usedBy: string }[] })
      .decisions[0]!.usedBy
  assert.deepEqual(
    [usedBy({}), usedBy({ lease: lease() }, { fence: fence() }), usedBy({ lease: lease({ releasedAt: 1 }) })],
    ["todo-a/0", "todo-a/2", "todo-a/2"]
  )
})
