/** What must be attempted: when it may be opened, what meets it, who waives it; over every state. Rules: G12, G15. */
import { assert, test } from "vitest"
import { Obligations } from "../../../src/governance/index.ts"
import { obligationHandlers } from "../../../src/governance/Obligation.ts"
import {
  attemptedByHand,
  attempts,
  countObligations,
  loadObligationsOver,
  mostObligations,
  type ObligationRecord,
  obligationTable,
  unobliged
} from "../../../src/governance/ObligationRecord.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { type SettlementRecord, settlementTable } from "../../../src/governance/SettlementRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { type TurnRecord, turnTable } from "../../../src/governance/TurnRecord.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, loaded, rowOf, tables, told } from "./decide.ts"
import { now, todo } from "./records.ts"
import { goal, hostResult, obligation, turn } from "./workRecords.ts"

const decide = decideBy(obligationHandlers)
const load = loadBy(obligationHandlers)
const outcomes = ["accepted", "progress", "failed", "inconclusive", "unavailable", "staleContext"] as const
const at = (startedAt: number) => ({ number: 1, startedAt, retry: null })
const answered = turn({ attempts: [at(now)], result: hostResult() })

test("G15 a turn is an attempt when it is of the work, was dispatched since, and its host answered", () => {
  const open = obligation({ openedAt: now - 5 })
  const tried = (change: Partial<TurnRecord>, asked: Partial<ObligationRecord> = {}) =>
    attempts({ ...answered, ...change }, { ...open, ...asked })
  assert.isTrue(tried({}))
  assert.isFalse(tried({ goal: "goal-b" }))
  assert.isFalse(tried({ todo: "todo-b" }))
  assert.isTrue(tried({ todo: "todo-b" }, { todo: null }))
  assert.isFalse(tried({ goal: "goal-b" }, { todo: null }))
  assert.isFalse(tried({ result: null }))
  assert.isFalse(tried({ result: hostResult({ status: "failed" }) }))
  assert.isFalse(tried({ attempts: [] }))
  assert.isFalse(tried({ attempts: [] }, { openedAt: 0 }))
  assert.isFalse(tried({ attempts: [at(now - 6)] }))
  assert.isTrue(tried({ attempts: [at(now - 5)] }))
  assert.isFalse(tried({ attempts: [at(now), at(now - 6)] }))
  for (const outcome of outcomes)
    assert.equal(attemptedByHand(outcome), outcome !== "inconclusive" && outcome !== "unavailable", outcome)
})

test("G15 an obligation is opened with its reason, on a goal that is not completed, or on open work of it; a hundred at most", () => {
  const open = (state: object = {}, payload: object = {}) =>
    decide(
      "openObligation",
      { goal: goal(), count: 0, todo: undefined, ...state },
      { goal: "goal-a", reason: "it was promised", ...payload }
    )
  const got = open()
  assert.deepEqual(got.facts, ["obligation.opened"])
  assert.deepEqual(got.reply, obligation({ id: "obligation-1", todo: null, openedAt: now, changedAt: now }))
  const named = { todo: "todo-a" }
  assert.deepInclude(open({ todo: todo() }, named).reply, { todo: "todo-a" })
  for (const state of ["active", "paused", "stopped", "completed"] as const)
    assert.equal(open({ goal: goal({ state }) }).refused, state === "completed" ? "GoalNotActive" : undefined, state)
  assert.deepInclude(open({ goal: undefined }).error, { kind: "goal", id: "goal-a" })
  for (const found of [undefined, todo({ goal: "goal-b" })])
    assert.deepInclude(open({ todo: found }, named).error, { kind: "todo", id: "todo-a" })
  for (const state of ["deferred", "done", "superseded"] as const)
    assert.equal(open({ todo: todo({ state }) }, named).refused, "TodoState", state)
  assert.equal(open({ count: mostObligations - 1 }).refused, undefined)
  assert.match(open({ count: mostObligations }).error["message"], /goal goal-a has 100/)
  assert.match(open({ count: mostObligations + 1, todo: todo() }, named).error["message"], /todo todo-a has 101/)
})

const settlement = (change: Partial<SettlementRecord> = {}): SettlementRecord => ({
  id: "settlement-a",
  effectId: "effect-a",
  goal: "goal-a",
  todo: "todo-a",
  turn: null,
  outcome: "progress",
  accepted: false,
  acceptance: null,
  candidate: null,
  evidence: [],
  reservation: "reservation-a",
  content: "digest",
  settledAt: now,
  ...change
})

test("G15 an obligation is met by a turn that attempted it, or by a settlement that did", () => {
  const meet = (state: object, payload: object, found: ObligationRecord | undefined = obligation()) =>
    decide(
      "meetObligation",
      { obligation: found, settlement: undefined, turn: undefined, ...state },
      { obligation: "obligation-a", ...payload }
    )
  const byTurn = { turn: "turn-a" }
  const met = meet({ turn: answered }, byTurn)
  assert.deepEqual(met.facts, ["obligation.met"])
  assert.deepEqual(
    met.reply,
    obligation({ state: "met", attempt: { turn: "turn-a", settlement: null }, changedAt: now })
  )
  assert.deepInclude(meet({}, byTurn).error, { _tag: "NotFound", kind: "turn", id: "turn-a" })
  assert.deepInclude(meet({ turn: turn() }, byTurn).error, {
    _tag: "NotAttempted",
    attempt: "turn-a",
    obligation: "obligation-a"
  })
  assert.deepInclude(meet({}, {}).error, { _tag: "NotAttempted", attempt: "(nothing)" })
  const bySettlement = { settlement: "effect-a" }
  assert.deepInclude(meet({}, bySettlement).error, { _tag: "NotFound", kind: "settlement", id: "effect-a" })
  const settled = (change: Partial<SettlementRecord>, its?: TurnRecord, asked: Partial<ObligationRecord> = {}) =>
    meet({ settlement: settlement(change), turn: its }, bySettlement, obligation(asked))
  assert.deepEqual(settled({}).reply["attempt"], { turn: null, settlement: "effect-a" })
  assert.equal(settled({ goal: "goal-b" }).refused, "NotAttempted")
  assert.equal(settled({ todo: "todo-b" }).refused, "NotAttempted")
  assert.equal(settled({ todo: "todo-b" }, undefined, { todo: null }).refused, undefined)
  assert.equal(settled({ goal: "goal-b" }, undefined, { todo: null }).refused, "NotAttempted")
  assert.equal(settled({ settledAt: now - 5 }).refused, undefined)
  assert.equal(settled({ settledAt: now - 6 }).refused, "NotAttempted")
  for (const outcome of outcomes)
    assert.equal(settled({ outcome }).refused, attemptedByHand(outcome) ? undefined : "NotAttempted", outcome)
  // Of a turn it is that turn's attempt, whatever it came to.
  const ofTurn = { turn: "turn-a", outcome: "unavailable", settledAt: 1 } as const
  assert.deepEqual(settled(ofTurn, answered).reply["attempt"], { turn: "turn-a", settlement: "effect-a" })
  assert.equal(settled({ turn: "turn-a" }, turn()).refused, "NotAttempted")
  assert.equal(settled({ turn: "turn-a" }, undefined).refused, "NotAttempted")
})

test("G15 only an open obligation is met or waived; a waiver keeps who and why", () => {
  const waiving = { obligation: "obligation-a", by: { role: "person", name: "mira" }, reason: "no need" }
  const waived = decide("waiveObligation", obligation(), waiving)
  assert.deepEqual(waived.facts, ["obligation.waived"])
  assert.deepEqual(
    waived.reply,
    obligation({ state: "waived", waiver: { by: "mira", reason: "no need" }, changedAt: now })
  )
  for (const state of ["met", "waived"] as const) {
    const refused = decide("waiveObligation", obligation({ state }), waiving)
    assert.deepInclude(refused.error, { _tag: "ObligationClosed", state, obligation: "obligation-a" })
    const closed = { obligation: obligation({ state }), settlement: undefined, turn: answered }
    assert.equal(
      decide("meetObligation", closed, { obligation: "obligation-a", turn: "turn-a" }).refused,
      "ObligationClosed"
    )
  }
  assert.deepInclude(decide("waiveObligation", undefined, waiving).error, { kind: "obligation", id: "obligation-a" })
  assert.equal(told(unobliged("todo-a", [])).refused, undefined)
  const long = told(
    unobliged("todo-a", [obligation({ reason: "r".repeat(700) }), obligation({ id: "obligation-b" })])
  ).error
  assert.equal(long["message"].length, 600)
  assert.deepEqual(
    long["obligations"].map(({ id }: { id: string }) => id),
    ["obligation-a", "obligation-b"]
  )
})

test("G15 what the commands read: the goal and its count, the todo, the attempt that is named or that the settlement names", () => {
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    todo: [rowOf(todoTable.put(todo()))],
    obligation: [rowOf(obligationTable.put(obligation()))],
    turn: [turn(), turn({ id: "turn-b" })].map((one) => rowOf(turnTable.put(one))),
    settlement: [settlement(), settlement({ effectId: "effect-b", turn: "turn-b" })].map((one) =>
      rowOf(settlementTable.put({ ...one, receipt: {} as never }))
    )
  }
  const counted = (sql: string, params: readonly unknown[]) =>
    sql.includes("COUNT(*)")
      ? [{ n: params.length === 2 ? 7 : sql.includes("IS NULL") ? 3 : -1 }]
      : tables(content)(sql, params)
  const reading = { goal: "goal-a", reason: "r" }
  assert.deepEqual(load("openObligation", reading, counted)["state"], { goal: goal(), count: 3, todo: undefined })
  assert.deepEqual(load("openObligation", { ...reading, todo: "todo-a" }, counted)["state"], {
    goal: goal(),
    count: 7,
    todo: todo()
  })
  assert.equal(loaded(countObligations("goal-a", null), counted).state, 3)
  const meeting = (payload: object) => {
    const state = load("meetObligation", { obligation: "obligation-a", ...payload }, tables(content))["state"]
    return [state.obligation?.id, state.settlement?.effectId, state.turn?.id]
  }
  assert.deepEqual(meeting({}), ["obligation-a", undefined, undefined])
  assert.deepEqual(meeting({ turn: "turn-a" }), ["obligation-a", undefined, "turn-a"])
  assert.deepEqual(meeting({ settlement: "effect-a" }), ["obligation-a", "effect-a", undefined])
  assert.deepEqual(meeting({ settlement: "effect-b" }), ["obligation-a", "effect-b", "turn-b"])
  assert.deepEqual(meeting({ settlement: "effect-b", turn: "turn-a" }), ["obligation-a", "effect-b", "turn-a"])
})

test("G15 what work on a todo can meet: its own and the goal's, the oldest first, by id where they are as old", () => {
  const own = [
    obligation({ id: "c", openedAt: 1 }),
    obligation({ id: "a", openedAt: 3 }),
    obligation({ id: "e", openedAt: 3 })
  ]
  const shared = [obligation({ id: "d", todo: null, openedAt: 2 }), obligation({ id: "b", todo: null, openedAt: 3 })]
  const { state } = loaded(loadObligationsOver("goal-a", "todo-a"), (sql, params) =>
    (sql.includes("todo IS NULL") ? shared : params[1] === "todo-a" ? own : []).map((one) =>
      rowOf(obligationTable.put(one))
    )
  )
  assert.deepEqual(
    state.map(({ id }) => id),
    ["c", "d", "a", "b", "e"]
  )
})

test("G15 obligations are listed by goal and state, oldest first", async () => {
  const bench = await newBench()
  const [one, two] = [await newGoal(bench), await newGoal(bench)]
  const work = await newTodo(bench, one)
  const made: string[] = []
  for (const [owner, more] of [
    [one.id, { todo: work.id }],
    [two.id, {}],
    [one.id, {}]
  ] as const) {
    made.push((await bench.run(Obligations.open({ goal: owner, reason: "r", ...more }))).id)
    bench.now += 1
  }
  await bench.run(Obligations.waive({ obligation: made[2]!, by: { role: "person", name: "mira" }, reason: "r" }))
  const list = async (input: { goal: string; state?: ObligationRecord["state"] }) =>
    (await bench.run(Obligations.list(input))).items.map(({ id }) => made.indexOf(id))
  assert.deepEqual(await list({ goal: one.id }), [0, 2])
  assert.deepEqual(await list({ goal: one.id, state: "open" }), [0])
  assert.deepEqual(await list({ goal: one.id, state: "met" }), [])
  assert.deepInclude(await bench.fails(Obligations.get({ obligation: "o" })), { _tag: "NotFound", id: "o" })
  assert.equal((await bench.run(Obligations.get({ obligation: made[2]! }))).state, "waived")
})
