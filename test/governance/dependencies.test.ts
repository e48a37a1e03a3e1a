/** What a todo may wait for, whichever way it is made: added, edited, as a replacement, or as a successor. */
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { digestJson } from "../../src/base/Digest.ts"
import { Acceptances, Evidence, Settlements, Todos } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const codeOf = (bench: Bench, call: Effect.Effect<any, any, any>): Promise<string> =>
  bench.run(
    Effect.match(call as Effect.Effect<any, any, never>, {
      onFailure: (error) => `${error.code}${error.kind === undefined ? "" : `:${error.kind}`}`,
      onSuccess: () => "ok"
    })
  )

/** Two goals, and every way in which a todo of the first is made that waits for the todos named. */
const scene = async () => {
  const bench = await newBench()
  const [goal, elsewhere] = [await newGoal(bench), await newGoal(bench)]
  const held = await newTodo(bench, goal)
  const retired = await newTodo(bench, goal)
  const { fence } = await hold(bench, held)
  const edited = await newTodo(bench, goal)
  let effects = 0
  const ways = (dependsOn: readonly string[]) => {
    const spec = { title: "Next", dependsOn }
    const continuation = { kind: "successors", todos: [spec] } as const
    return [
      Todos.add({ goal: goal.id, ...spec }),
      Todos.edit({ todo: edited.id, revision: 1, dependsOn }),
      Todos.supersede({ todo: retired.id, reason: "r", replacements: [spec] }),
      Todos.complete({ todo: held.id, fence, continuation }),
      Settlements.settle({
        effectId: `eff_${(effects += 1)}`,
        goal: goal.id,
        fence,
        outcome: "progress",
        evidence: [],
        spend: { usd: 0 },
        todo: { action: "complete", continuation }
      })
    ]
  }
  return { bench, goal, elsewhere, ways, held, fence }
}

test("G20 G23 whichever way a todo is made, it waits for todos of its own goal that are there, and for none that is superseded", async () => {
  const { bench, goal, elsewhere, ways, held, fence } = await scene()
  const foreign = await newTodo(bench, elsewhere)
  const gone = await newTodo(bench, goal)
  const { replacements } = await bench.run(
    Todos.supersede({ todo: gone.id, reason: "split", replacements: [{ title: "instead" }] })
  )
  const facts = (await bench.store.verify()).entries
  const bad: readonly (readonly [string, string])[] = [
    ["tod_nowhere", "NOT_FOUND:todo"],
    [foreign.id, "NOT_FOUND:todo"],
    [gone.id, "TODO_STATE"]
  ]
  for (const [id, code] of bad) {
    for (const way of ways([id])) assert.equal(await codeOf(bench, way), code)
  }
  const named = await bench.fails(Todos.add({ goal: goal.id, title: "t", dependsOn: [gone.id] }))
  assert.include(named.message, replacements[0]!.id)
  assert.equal((await bench.store.verify()).entries, facts)
  for (const way of ways([replacements[0]!.id]).slice(0, 4)) assert.equal(await codeOf(bench, way), "ok")
  assert.equal((await bench.run(Todos.get({ todo: held.id }))).state, "done")
  assert.equal(fence.todo, held.id)
})

test("G23 what takes a todo's place waits neither for it nor for whoever waited for it, at any distance", async () => {
  const { bench, goal } = await scene()
  const first = await newTodo(bench, goal)
  const second = await newTodo(bench, goal, { dependsOn: [first.id] })
  const third = await newTodo(bench, goal, { dependsOn: [second.id] })
  const instead = (dependsOn: readonly string[]) =>
    Todos.supersede({ todo: first.id, reason: "r", replacements: [{ title: "instead", dependsOn }] })
  for (const id of [first.id, second.id, third.id]) {
    assert.equal(await codeOf(bench, instead([id])), "INVALID_INPUT")
  }
  const free = await newTodo(bench, goal)
  assert.equal(await codeOf(bench, instead([free.id])), "ok")
})

test("G70 evidence and verdicts name todos and turns of their own goal, or none", async () => {
  const { bench, goal, elsewhere } = await scene()
  const foreign = await newTodo(bench, elsewhere)
  const digest = digestJson("x")
  const of = { goal: goal.id, kind: "log", digest, summary: "s", producer: { role: "validator", name: "v" } } as const
  const judged = {
    goal: goal.id,
    candidate: null,
    validator: { name: "v", digestBefore: digest, digestAfter: digest },
    outcome: "failed",
    evidence: []
  } as const
  for (const todo of [foreign.id, "tod_nowhere"]) {
    assert.equal(await codeOf(bench, Evidence.record({ ...of, todo })), "NOT_FOUND:todo")
    assert.equal(await codeOf(bench, Acceptances.record({ ...judged, todo })), "NOT_FOUND:todo")
  }
  assert.equal(await codeOf(bench, Evidence.record({ ...of, turn: "trn_nowhere" })), "NOT_FOUND:turn")
  assert.equal(await codeOf(bench, Acceptances.record({ ...judged, turn: "trn_nowhere" })), "NOT_FOUND:turn")
})
