/** Who hands an external effect over, and when it may be: decided from records alone, over every state. Rules: G10, G35, G40, G60 to G63. */
import { assert, test } from "vitest"
import type { Json } from "../../../src/base/Digest.ts"
import { mayHandOver } from "../../../src/governance/EffectDispatch.ts"
import { driverOf, nobodyElse, observing } from "../../../src/governance/EffectDriver.ts"
import {
  changed,
  type EffectRecord,
  effectTable,
  knownEffect,
  loadUnresolvedOf,
  noneUnresolved
} from "../../../src/governance/EffectRecord.ts"
import { effectHandlers } from "../../../src/governance/ExternalEffect.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { thisProcess } from "../../../src/governance/TurnFence.ts"
import { decideBy, loadBy, loaded, recording, rowOf, tables, told } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import {
  effect,
  effectAt,
  fence,
  gate,
  gateDecision,
  goal,
  kind,
  me,
  mine,
  observers,
  operation,
  stopOf
} from "./workRecords.ts"

const decide = decideBy(effectHandlers)
const load = loadBy(effectHandlers)
const states = ["planned", "dispatched", "confirmed", "refused", "unknown"] as const

test("G61 who hands an effect over: nobody, the one that asks, one that is dead, one that lives, one that nobody looked at", () => {
  const got = observers.map(({ observed }) => driverOf(effectAt("dispatched"), observed as never))
  assert.deepEqual(got, ["mine", false, true, "unknown", "unknown", "unknown", "unknown"])
  for (const { observed } of observers)
    assert.isFalse(driverOf(effectAt("dispatched", { driver: null }), observed as never))
  for (const state of states) {
    for (const { name, observed, ...in_ } of observers) {
      const passed = told(nobodyElse(effectAt(state), observed as never))
      const held = state === "dispatched" && "alive" in in_
      assert.equal(passed.refused, held ? "EffectInFlight" : undefined, `${state} ${name}`)
      if (!held) continue
      assert.deepInclude(passed.error, { effect: "effect-a", alive: in_.alive })
      assert.match(passed.error["message"], in_.alive === true ? /by another call/ : /cannot be seen/)
      assert.match(passed.error["remedy"], in_.alive === true ? /^Wait/ : /Effects\.resolve/)
    }
  }
})

test("G60 G61 an effect is unresolved while its fate is open, or a stop of it is not confirmed", () => {
  for (const state of states) {
    for (const stop of [null, "requested", "unknown", "confirmed"] as const) {
      const record = changed("seen", effectAt(state), { stop: stop === null ? null : stopOf({ state: stop }) }, now)
      const open = state === "dispatched" || state === "unknown" || stop === "requested" || stop === "unknown"
      assert.deepInclude(record.effect, { unresolved: open, changedAt: now }, `${state} ${stop}`)
      assert.deepEqual([record.event.type, record.event.entity], ["effect.seen", "effect-a"])
    }
  }
  assert.deepInclude(told(knownEffect(undefined, "e-9")).error, { _tag: "NotFound", id: "e-9" })
  assert.equal(told(noneUnresolved("todo-a", [])).refused, undefined)
  const held = told(noneUnresolved("todo-a", ["e-1", "e-2"])).error
  assert.deepInclude(held, { _tag: "EffectUnresolved", id: "todo-a", effects: ["e-1", "e-2"] })
  assert.include(held["message"], "e-1, e-2")
})

test("G61 a write about an effect says who asks, who handed it over last, and whether that process still runs", async () => {
  const gone = { ...thisProcess(), startTime: "1" }
  for (const [driver, alive] of [
    [null, false],
    [thisProcess(), true],
    [gone, false]
  ] as const) {
    const { commands, run } = recording({ external_effect: [rowOf(effectTable.put(effect({ driver })))] })
    const write = (id: string) => run(observing("answerEffect")({ effect: id }))
    await write("effect-a")
    assert.deepEqual(commands[0]!.observed, { process: thisProcess(), driver, alive } as unknown as Json)
    await write("effect-b")
    assert.deepEqual(commands[1]!.observed, { process: thisProcess(), driver: null, alive: false } as unknown as Json)
  }
})

test("G61 the effects that hold a todo up are asked for by it, at most a hundred", () => {
  const { state, asked } = loaded(loadUnresolvedOf("todo-a"), () => [{ id: "e-1" }, { id: "e-2" }])
  assert.deepEqual([state, asked[0]!.params], [["e-1", "e-2"], ["todo-a"]])
})

// --- planning --------------------------------------------------------------------------------------------------------

const planning = { effect: "effect-a", goal: "goal-a", provider: "stage", kind: kind(), operation, summary: "move x" }
const noneKnown = { known: undefined, goal: goal(), todo: undefined, lease: undefined, after: [] }

test("G60 G62 planning writes down all of the operation; planning the same again changes nothing, and anything else under its id is a conflict", () => {
  const planned = decide("planEffect", noneKnown, planning)
  assert.deepEqual(planned.facts, ["effect.planned"])
  assert.deepEqual(planned.reply, effect({ plannedAt: now, changedAt: now }))
  const known = effect({ todo: "todo-a", after: ["effect-b", "effect-c"] })
  const same = { ...planning, todo: "todo-a", after: ["effect-b", "effect-c"] }
  const again = decide("planEffect", { ...noneKnown, known, goal: goal({ state: "stopped" }) }, same)
  assert.deepEqual([again.facts, again.reply], [[], { ...known, replayed: true }])
  assert.deepEqual(decide("planEffect", { ...noneKnown, known: effect() }, planning).facts, [])
  const { todo: _todo, ...withoutTodo } = same
  for (const another of [
    { ...same, operation: `sha256:${"0".repeat(64)}` },
    { ...same, goal: "goal-b" },
    { ...same, todo: "todo-b" },
    withoutTodo,
    { ...same, after: ["effect-b"] },
    { ...same, after: undefined }
  ]) {
    const refused = decide("planEffect", { ...noneKnown, known }, another)
    assert.deepInclude(refused.error, { _tag: "IdentityConflict", kind: "effect", id: "effect-a" })
  }
})

test("G10 G23 an effect is planned for open work of an active goal, past its holder's fence, after effects of the same goal", () => {
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(decide("planEffect", { ...noneKnown, goal: goal({ state }) }, planning).refused, "GoalNotActive")
  assert.deepInclude(decide("planEffect", { ...noneKnown, goal: undefined }, planning).error, { kind: "goal" })
  const ofTodo = { ...planning, todo: "todo-a" }
  const free = { ...noneKnown, todo: todo() }
  assert.deepInclude(decide("planEffect", free, ofTodo).reply, { todo: "todo-a" })
  for (const found of [undefined, todo({ goal: "goal-b" })])
    assert.deepInclude(decide("planEffect", { ...free, todo: found }, ofTodo).error, { kind: "todo", id: "todo-a" })
  for (const state of ["deferred", "done", "superseded"] as const)
    assert.equal(decide("planEffect", { ...free, todo: todo({ state }) }, ofTodo).refused, "TodoState")
  const held = { ...free, lease: lease() }
  assert.equal(decide("planEffect", held, ofTodo).refused, "LeaseHeld")
  assert.equal(decide("planEffect", held, { ...ofTodo, fence: fence() }).refused, undefined)
  assert.equal(decide("planEffect", held, { ...ofTodo, fence: fence({ epoch: 1 }) }).refused, "LeaseLost")
  const second = { ...planning, after: ["effect-b", "effect-c"] }
  for (const [found, missing] of [
    [[effect(), undefined], "effect-c"],
    [[undefined, effect()], "effect-b"],
    [[effect({ goal: "goal-b" }), effect()], "effect-b"]
  ] as const) {
    assert.deepInclude(decide("planEffect", { ...noneKnown, after: found }, second).error, {
      kind: "effect",
      id: missing
    })
  }
  const [one, two] = [effect({ id: "effect-b" }), effect({ id: "effect-c" })]
  assert.deepEqual(decide("planEffect", { ...noneKnown, after: [one, two] }, second).reply["after"], second.after)
})

test("G60 planning reads the goal, what is known under the id, the todo and lease that are named, and each effect before it", () => {
  const [first, second] = [effect(), effect({ id: "effect-b" })]
  const content = tables({
    goal: [rowOf(goalTable.put(goal()))],
    external_effect: [first, second].map((one) => rowOf(effectTable.put(one))),
    todo: [rowOf(todoTable.put(todo()))],
    lease: [rowOf(leaseTable.put(lease()))]
  })
  const { state } = load("planEffect", { ...planning, todo: "todo-a", after: ["effect-b", "effect-x"] }, content)
  assert.deepEqual(state, { known: first, goal: goal(), todo: todo(), lease: lease(), after: [second, undefined] })
  const { state: bare } = load("planEffect", { ...planning, effect: "effect-z" }, content)
  assert.deepEqual(bare, noneKnown)
})

// --- handing over ----------------------------------------------------------------------------------------------------

const handing = { effect: "effect-a", operation }
const ready = (change: Partial<EffectRecord> = {}, state: object = {}) => ({
  effect: effect(change),
  goal: goal(),
  lease: undefined,
  waits: [],
  todo: undefined,
  gates: [],
  ...state
})
const dispatch = (state: object, payload: object = {}, observed: object | undefined = mine) =>
  decide("dispatchEffect", state, { ...handing, ...payload }, observed)

test("G60 G63 what may be handed over again: only what surely did not happen, or what its kind lets happen twice", () => {
  for (const state of states) {
    for (const retry of ["safe", "keyed", "unsafe"] as const) {
      for (const lastReadBack of [null, "pending", "notFound", "notExecuted", "unavailable"] as const) {
        for (const claim of [null, "confirmed", "refused"] as const) {
          const may =
            state === "planned" ||
            (state === "unknown" && (lastReadBack === "notExecuted" || (retry !== "unsafe" && claim === null)))
          const record = effectAt(state, { declared: kind({ retry }), lastReadBack, claim })
          const name = `${state} ${retry} ${lastReadBack} ${claim}`
          assert.equal(mayHandOver(record), may, name)
          if (state !== "planned" && state !== "unknown") continue
          const got = dispatch({ ...ready(), effect: record })
          assert.equal(got.refused, may ? undefined : "RetryUnsafe", name)
          if (!may) {
            assert.deepInclude(got.error, { retry })
            continue
          }
          assert.deepEqual(got.facts, ["effect.dispatched"])
          assert.deepEqual(got.reply, {
            ...record,
            state: "dispatched",
            attempts: 3,
            earlierOpen: state === "unknown" && lastReadBack !== "notExecuted",
            driver: me,
            claim: null,
            lastReadBack: null,
            dispatchedAt: now,
            changedAt: now,
            unresolved: true
          })
        }
      }
    }
  }
})

test("G60 a hand-over of which nobody says who asks is kept without a driver", () => {
  assert.deepInclude(decide("dispatchEffect", ready(), handing).reply, { state: "dispatched", driver: null })
})

test("G61 G62 another operation, one that is handed over, one that is final, one that is stopped: none is handed over", () => {
  assert.equal(dispatch(ready(), { operation: `sha256:${"0".repeat(64)}` }).refused, "IdentityConflict")
  assert.deepInclude(dispatch({ ...ready(), effect: undefined }).error, { _tag: "NotFound", id: "effect-a" })
  for (const { name, observed, ...in_ } of observers) {
    const got = decide("dispatchEffect", { ...ready(), effect: effectAt("dispatched") }, handing, observed)
    if (name === "dead") assert.match(got.error["remedy"], /^Read it back first/)
    assert.equal(got.refused, name === "dead" ? "EffectState" : "EffectInFlight", name)
    if (name !== "dead") assert.equal(got.error["alive"], "alive" in in_ ? in_.alive : true, name)
  }
  for (const state of ["confirmed", "refused"] as const)
    assert.match(dispatch({ ...ready(), effect: effectAt(state) }).error["remedy"], /^That is final/)
  assert.match(dispatch(ready({ stop: stopOf() })).error["remedy"], /^A stop was asked for/)
  assert.match(dispatch({ ...ready(), effect: effectAt("unknown", { stop: stopOf() }) }).error["remedy"], /^A stop/)
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(dispatch(ready({}, { goal: goal({ state }) })).refused, "GoalNotActive")
})

test("G35 an effect of a todo is handed over under the fence of its lease, by the name of its holder", () => {
  const held = ready({ todo: "todo-a", agent: "bob" }, { todo: todo(), lease: lease() })
  assert.deepInclude(dispatch(held, { fence: fence() }).reply, { state: "dispatched", agent: "ada" })
  assert.deepInclude(dispatch(held).error, {
    _tag: "LeaseLost",
    todo: "todo-a",
    epoch: 0,
    currentEpoch: 2,
    why: "none"
  })
  assert.deepInclude(dispatch(held, { fence: fence({ todo: "todo-b", epoch: 7 }) }).error, {
    why: "none",
    epoch: 7,
    currentEpoch: 2
  })
  assert.deepInclude(dispatch({ ...held, lease: undefined }).error, { why: "none", epoch: 0, currentEpoch: 0 })
  assert.deepInclude(dispatch(held, { fence: fence({ token: "guess" }) }).error, { why: "token" })
  // Work without a todo has no lease: whoever handed it over before stays named.
  assert.deepInclude(dispatch(ready({ agent: "bob" }), { fence: fence() }).reply, { agent: "bob" })
})

test("G40 the gates on effects are asked with the holder's name, the todo and its holding; a decision for once is used by it", () => {
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" } })] })
  const free = dispatch(ready({}, { gates: [once] }))
  assert.deepEqual(free.facts, ["gate.used", "effect.dispatched"])
  const usedBy = (events: typeof free.events) =>
    (events[0]!.data as unknown as { decisions: { usedBy: string }[] }).decisions[0]!.usedBy
  assert.equal(usedBy(free.events), "effect-a")
  const ofTodo = ready({ todo: "todo-a" }, { todo: todo(), lease: lease(), gates: [once] })
  assert.equal(usedBy(dispatch(ofTodo, { fence: fence() }).events), "todo-a/2")
  const stopped = dispatch({ ...ofTodo, gates: [gate({ agents: ["ada"], todos: ["todo-a"] })] }, { fence: fence() })
  assert.deepInclude(stopped.error, { _tag: "Gated", agent: "ada", action: "effect", todo: "todo-a" })
  assert.equal(dispatch({ ...ofTodo, gates: [gate({ agents: ["bob"] })] }, { fence: fence() }).refused, undefined)
  assert.deepInclude(dispatch(ready({ agent: "bob" }, { gates: [gate()] })).error, { agent: "bob", todo: null })
  // Not an effect, or about another todo.
  assert.equal(dispatch(ready({}, { gates: [gate({ actions: ["claim"] })] })).refused, undefined)
  assert.equal(dispatch(ready({}, { gates: [gate({ todos: ["todo-a"] })] })).refused, undefined)
})

test("G61 G63 it waits for what it comes after, each named with its state; a watched kind names who watches", () => {
  const waits = [
    { effect: "effect-b", state: "unknown", why: "after" },
    { effect: "effect-c", state: "dispatched", why: "sameOperation" }
  ]
  const blocked = dispatch(ready({}, { waits }))
  assert.deepInclude(blocked.error, { _tag: "EffectBlocked", waits })
  assert.include(blocked.error["message"], "effect-b (unknown), effect-c (dispatched)")
  const watched = ready({ declared: kind({ supervision: "required" }) })
  assert.deepInclude(dispatch(watched).error, { _tag: "SupervisionRequired", kind: "move" })
  assert.deepInclude(dispatch(watched, { supervisor: "mira" }).reply, { supervisor: "mira" })
  assert.deepInclude(dispatch(ready(), { supervisor: "mira" }).reply, { supervisor: "mira" })
  assert.deepInclude(dispatch(ready()).reply, { supervisor: null })
})

test("G61 what an effect waits for: every one before it that is not confirmed and resolved, and equal operations of open fate", () => {
  const before = [
    effect({ id: "b-confirmed", state: "confirmed" }),
    effect({ id: "b-stopping", state: "confirmed", unresolved: true }),
    effect({ id: "b-unknown", state: "unknown", unresolved: true }),
    effect({ id: "b-refused", state: "refused" })
  ]
  const own = effect({ after: ["b-confirmed", "b-stopping", "b-gone", "b-unknown", "b-refused"], todo: "todo-a" })
  const equal = [{ id: "effect-z", state: "unknown" }]
  const answers = (record: EffectRecord) => {
    const content = tables({
      goal: [rowOf(goalTable.put(goal()))],
      external_effect: [record, ...before].map((one) => rowOf(effectTable.put(one))),
      todo: [rowOf(todoTable.put(todo()))],
      lease: [rowOf(leaseTable.put(lease()))]
    })
    return (sql: string, params: readonly unknown[]) =>
      sql.includes("id <> ?")
        ? params[0] === record.operation && params[1] === record.id
          ? equal
          : []
        : content(sql, params)
  }
  const waited = [
    { effect: "b-stopping", state: "confirmed", why: "after" },
    { effect: "b-gone", state: "planned", why: "after" },
    { effect: "b-unknown", state: "unknown", why: "after" },
    { effect: "b-refused", state: "refused", why: "after" }
  ]
  for (const retry of ["safe", "keyed", "unsafe"] as const) {
    const record = { ...own, declared: kind({ retry }) }
    const { state } = load("dispatchEffect", handing, answers(record))
    assert.deepEqual(state, {
      effect: record,
      goal: goal(),
      lease: lease(),
      todo: todo(),
      gates: [],
      waits: retry === "safe" ? waited : [...waited, { effect: "effect-z", state: "unknown", why: "sameOperation" }]
    })
  }
  const free = effect({ declared: kind({ retry: "safe" }) })
  assert.deepEqual(load("dispatchEffect", handing, answers(free))["state"], ready({ declared: free.declared }))
  assert.deepEqual(load("dispatchEffect", handing)["state"], {
    ...ready(),
    effect: undefined,
    goal: undefined
  })
})
