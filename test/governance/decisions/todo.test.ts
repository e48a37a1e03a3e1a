/** Who may take a todo when, decided from records alone. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import {
  atRevision,
  claimable,
  conditionMet,
  obstacles,
  revised,
  todoState
} from "../../../src/governance/TodoRecord.ts"
import { now, todo } from "./records.ts"

const ada = { goal: "goal-a", agentId: "ada", capabilities: ["gpu"], budget: null, registeredAt: 0 }
const failure = <A, E>(result: Result.Result<A, E>): E => {
  if (Result.isSuccess(result)) throw new Error("it was granted")
  return result.failure
}

test("G20 G22 a deferred todo's condition is met at its time and not a millisecond before; without a time it is never met", () => {
  const until = (deferredUntil: number | null) => todo({ state: "deferred", deferredUntil })
  assert.isTrue(conditionMet(until(now), now))
  assert.isTrue(conditionMet(until(now - 1), now))
  assert.isFalse(conditionMet(until(now + 1), now))
  assert.isFalse(conditionMet(until(null), now))
  assert.isFalse(conditionMet(todo({ state: "open", deferredUntil: now - 1 }), now))
})

test("G20 G22 each reason why an agent may not take a todo is named once, in one order, with what is missing", () => {
  assert.deepEqual(obstacles(todo(), ada, [], now), [])
  const all = todo({
    state: "deferred",
    deferredUntil: now + 1,
    excludedAgents: ["ada"],
    capabilities: ["gpu", "tpu", "net"]
  })
  assert.deepEqual(obstacles(all, ada, ["todo-b", "todo-c"], now), [
    { kind: "deferred", text: "it is deferred" },
    { kind: "blocked", text: "it depends on todo-b, todo-c" },
    { kind: "excluded", text: "ada is excluded" },
    { kind: "capability", text: "ada lacks tpu, net" }
  ])
  assert.deepEqual(obstacles(todo({ state: "deferred", deferredUntil: now }), ada, [], now), [])
  assert.deepEqual(obstacles(todo({ excludedAgents: ["bob"], capabilities: ["gpu"] }), ada, [], now), [])
})

test("G20 an open todo is claimed without a fact, a deferred one whose time came opens again first", () => {
  assert.deepEqual(Result.getOrThrow(claimable(todo(), ada, [], now)), [])
  const deferred = todo({ state: "deferred", deferredUntil: now, deferReason: "later" })
  assert.deepEqual(Result.getOrThrow(claimable(deferred, ada, [], now)), [
    {
      type: "todo.reopened",
      entity: "todo-a",
      data: { ...deferred, state: "open", deferredUntil: null, deferReason: null, revision: 4, changedAt: now }
    }
  ] as never)
})

test("G20 what is final is told as final, what is not eligible with every reason", () => {
  for (const state of ["done", "superseded"] as const) {
    const error = failure(claimable(todo({ state }), ada, [], now))
    assert.deepInclude(error, { code: "TODO_STATE", todo: "todo-a", state })
    assert.equal(error.remedy, "That is final: add another todo for further work.")
    assert.include(error.message, `Todo todo-a is ${state}.`)
  }
  for (const state of ["open", "deferred"] as const) {
    assert.equal(todoState(todo({ state })).remedy, "Read the todo again and call what its state allows.")
  }
  const excluded = todo({ excludedAgents: ["ada"], capabilities: ["tpu"] })
  const error = failure(claimable(excluded, ada, ["todo-b"], now))
  assert.deepInclude(error, { code: "NOT_ELIGIBLE", todo: "todo-a", agent: "ada" })
  assert.deepEqual((error as { reasons?: readonly string[] }).reasons, ["blocked", "excluded", "capability"])
  assert.include(error.message, "it depends on todo-b; ada is excluded; ada lacks tpu.")
})

test("G20 an edit passes only at the revision that it saw, and a new revision is the next one", () => {
  assert.equal(Result.getOrThrow(atRevision(todo(), 3)).id, "todo-a")
  for (const seen of [2, 4]) {
    assert.deepInclude(failure(atRevision(todo(), seen)), {
      code: "REVISION_CONFLICT",
      id: "todo-a",
      expected: seen,
      actual: 3
    })
  }
  assert.deepEqual(revised(todo(), { priority: 9 }, now), todo({ priority: 9, revision: 4, changedAt: now }))
})
