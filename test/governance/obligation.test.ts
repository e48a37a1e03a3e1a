import { assert, test } from "vitest"
import { type Lease, Obligations, Settlements, Todos, Turns } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const answered = {
  status: "ok",
  claim: "completed",
  summary: "tried",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: true
} as const
const silent = {
  ...answered,
  status: "failed",
  claim: null,
  failure: { class: "transportLost", check: "eof" }
} as const
const completes = { action: "complete", continuation: { kind: "noFollowUp" } } as const

/** A goal with one todo that must be attempted. */
const obliged = async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const obligation = await bench.run(
    Obligations.open({ goal: goal.id, todo: todo.id, reason: "the owner was promised a try" })
  )
  return { bench, goal, todo, obligation }
}

/** A turn on a held todo, as far as the result that its host gave. */
const turnWith = async (bench: Bench, lease: Lease, result: typeof answered | typeof silent) => {
  const turn = await bench.run(
    Turns.admit({ goal: lease.goal, agent: "ada", fence: lease.fence, bound: { usd: 1, slots: 1 } })
  )
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence: lease.fence }))
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "nothing declared" }))
  const settle = (change: object = {}) =>
    Settlements.settle({
      effectId: turn.effectId,
      goal: lease.goal,
      fence: lease.fence,
      turn: turn.id,
      outcome: "progress",
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "keep" },
      ...change
    })
  return { turn, settle }
}
test("G15 work that must be attempted is not deferred, superseded or completed without an attempt: the refusal names the reason", async () => {
  const { bench, todo, obligation } = await obliged()
  const { fence } = await hold(bench, todo)
  const before = (await bench.store.journal({ after: 0, limit: 100 })).length
  const ways = [
    Todos.defer({ todo: todo.id, fence, reason: "it looks hard" }),
    Todos.supersede({ todo: todo.id, fence, reason: "another way", replacements: [{ title: "Something easier" }] }),
    Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } })
  ]
  for (const way of ways) {
    const error = await bench.fails(way)
    assert.deepInclude(error, {
      code: "OBLIGATION_OPEN",
      todo: todo.id,
      obligations: [{ id: obligation.id, reason: "the owner was promised a try" }]
    })
    assert.include(error.remedy, "Obligations.meet")
  }
  assert.equal((await bench.store.journal({ after: 0, limit: 100 })).length, before)
  assert.equal((await bench.run(Todos.get({ todo: todo.id }))).state, "open")
})

test("G15 G72 the settlement of a turn that attempted it meets the obligation in its own commit, and may complete the todo", async () => {
  const { bench, todo, obligation } = await obliged()
  const { turn, settle } = await turnWith(bench, await hold(bench, todo), answered)
  const receipt = await bench.run(settle({ todo: completes }))
  assert.equal(receipt.todoState, "done")
  const after = await bench.run(Obligations.get({ obligation: obligation.id }))
  assert.deepInclude(after, { state: "met", attempt: { turn: turn.id, settlement: turn.effectId } })
  const commands = (await bench.store.journal({ after: 0, limit: 100 }))
    .filter((entry) => entry.type === "obligation.met" || entry.type === "settlement.settled")
    .map((entry) => entry.command)
  assert.equal(new Set(commands).size, 1)
})

test("G15 a turn whose host never answered is no attempt: its cost settles, the obligation stays, completing is refused", async () => {
  const { bench, todo, obligation } = await obliged()
  const lease = await hold(bench, todo)
  const { turn, settle } = await turnWith(bench, lease, silent)
  assert.equal((await bench.fails(settle({ todo: completes }))).code, "OBLIGATION_OPEN")
  const named = await bench.fails(Obligations.meet({ obligation: obligation.id, turn: turn.id }))
  assert.deepInclude(named, { code: "NOT_ATTEMPTED", attempt: turn.id })
  await bench.run(settle({ outcome: "failed" }))
  const settled = await bench.fails(Obligations.meet({ obligation: obligation.id, settlement: turn.effectId }))
  assert.equal(settled.code, "NOT_ATTEMPTED")
  assert.equal((await bench.run(Obligations.get({ obligation: obligation.id }))).state, "open")
})

test("G15 an attempt is of this work and after the obligation: other work, an earlier turn and nothing at all are refused", async () => {
  const { bench, goal, todo } = await obliged()
  const other = await newTodo(bench, goal)
  const { turn, settle } = await turnWith(bench, await hold(bench, other), answered)
  await bench.run(settle())
  await bench.run(Turns.close({ turn: turn.id }))
  bench.now += 1
  const late = await bench.run(Obligations.open({ goal: goal.id, todo: other.id, reason: "once more" }))
  const [first] = (await bench.run(Obligations.list({ goal: goal.id, state: "open" }))).items
  assert.equal(first!.todo, todo.id)
  for (const named of [{ turn: turn.id }, { settlement: turn.effectId }, {}]) {
    for (const obligation of [first!.id, late.id]) {
      assert.equal((await bench.fails(Obligations.meet({ obligation, ...named }))).code, "NOT_ATTEMPTED")
    }
  }
  const unknown = await bench.fails(Obligations.meet({ obligation: late.id, turn: "turn_nowhere" }))
  assert.deepInclude(unknown, { code: "NOT_FOUND", kind: "turn" })
})

test("G15 a turn that ended without a settlement counts once it is named, when its host answered", async () => {
  const { bench, todo, obligation } = await obliged()
  const { turn } = await turnWith(bench, await hold(bench, todo), answered)
  await bench.run(Turns.fail({ turn: turn.id, reason: "the result was of no use", spend: { usd: 0.5 } }))
  const met = await bench.run(Obligations.meet({ obligation: obligation.id, turn: turn.id }))
  assert.deepInclude(met, { state: "met", attempt: { turn: turn.id, settlement: null } })
  const again = await bench.fails(
    Obligations.waive({ obligation: obligation.id, by: { role: "person", name: "Vera" }, reason: "late" })
  )
  assert.deepInclude(again, { code: "OBLIGATION_CLOSED", state: "met" })
})

test("G15 only a person waives, with a reason, and then the planner may go on", async () => {
  const { bench, todo, obligation } = await obliged()
  const { fence } = await hold(bench, todo)
  const planner = { obligation: obligation.id, by: { role: "agent", name: "ada" }, reason: "not needed" }
  assert.equal((await bench.fails(Obligations.waive(planner as never))).code, "INVALID_INPUT")
  const by = { role: "person", name: "Vera" } as const
  assert.equal(
    (await bench.fails(Obligations.waive({ obligation: obligation.id, by, reason: "" }))).code,
    "INVALID_INPUT"
  )
  const waived = await bench.run(Obligations.waive({ obligation: obligation.id, by, reason: "the client withdrew" }))
  assert.deepInclude(waived, { state: "waived", waiver: { by: "Vera", reason: "the client withdrew" } })
  assert.equal((await bench.run(Todos.defer({ todo: todo.id, fence, reason: "later" }))).state, "deferred")
})

test("G15 an obligation on work that was put aside is refused until it is brought back; on the goal itself any attempt meets it", async () => {
  const { bench, goal, todo, obligation } = await obliged()
  const aside = await newTodo(bench, goal)
  await bench.run(Todos.defer({ todo: aside.id, reason: "later" }))
  const refused = await bench.fails(Obligations.open({ goal: goal.id, todo: aside.id, reason: "now" }))
  assert.deepInclude(refused, { code: "TODO_STATE", state: "deferred" })
  const ofGoal = await bench.run(Obligations.open({ goal: goal.id, reason: "try anything" }))
  const { settle } = await turnWith(bench, await hold(bench, todo), answered)
  await bench.run(settle())
  const states = (await bench.run(Obligations.list({ goal: goal.id }))).items.map((one) => [one.id, one.state])
  assert.deepEqual(states, [
    [obligation.id, "met"],
    [ofGoal.id, "met"]
  ])
})

test("G15 G22 nextWork gives what must be attempted before any priority, unless the agent may not take it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const urgent = await newTodo(bench, goal, { title: "Urgent", priority: 1000 })
  const second = await newTodo(bench, goal, { title: "Urgent too", priority: 999 })
  const due = await newTodo(bench, goal, { title: "Due", priority: -5, excludedAgents: ["bob"] })
  await bench.run(Obligations.open({ goal: goal.id, todo: due.id, reason: "promised" }))
  const taken = async (agent: string) => {
    const work = await bench.run(Todos.nextWork({ goal: goal.id, agent }))
    return work._tag === "claimed" ? work.todo.id : undefined
  }
  assert.equal(await taken("bob"), urgent.id)
  assert.equal(await taken("ada"), due.id)
  assert.equal(await taken("ada"), second.id)
})
