/** What one entity's end means for the others: turns, effects, costs, sources and closures that meet. */
import type * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { digestJson } from "../../src/base/Digest.ts"
import {
  type Authority,
  Candidates,
  Effects,
  Evidence,
  Gates,
  Goals,
  Leases,
  Obligations,
  Quota,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, countRows, hold, newBench, newGoal, newTodo } from "./authority.ts"

const d = (text: string) => digestJson(text)
const noFollowUp = { kind: "noFollowUp" } as const
const result = {
  status: "ok",
  claim: "completed",
  summary: "s",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: true
} as const

const admitted = async (bench: Bench, more: object = {}) => {
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal, more)
  const { fence } = await hold(bench, todo)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  return { goal, todo, fence, turn }
}

test("G61 a todo is not retired while what became of an effect of it is not known, so nothing that waits for it goes on", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const first = await newTodo(bench, goal)
  const second = await newTodo(bench, goal, { dependsOn: [first.id] })
  const { fence } = await hold(bench, first)
  const effect = `${goal.id}/pay`
  const operation = { to: "lab" }
  const kind = { name: "pay", readBack: "yes", retry: "unsafe", stop: "none", supervision: "none" } as const
  const plan = { effect, goal: goal.id, todo: first.id, fence, provider: "bank", kind, operation, summary: "pays" }
  await bench.run(Effects.plan(plan))
  await bench.run(Effects.dispatch({ effect, operation, fence }))
  await bench.run(Effects.answer({ effect, attempt: 1, answer: "lost" }))
  const before = countRows(bench.directory)
  const supersede = Todos.supersede({ todo: first.id, fence, reason: "another way" })
  assert.deepInclude(await bench.fails(supersede), { _tag: "EffectUnresolved", effects: [effect] })
  assert.deepEqual(countRows(bench.directory), before)
  const next = await bench.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
  assert.deepInclude(next, { _tag: "none", reason: "allWithheld" })
  await bench.run(Effects.readBack({ effect, attempt: 1, found: "confirmed" }))
  await bench.run(supersede)
  const freed = await bench.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
  assert.equal(freed._tag === "claimed" ? freed.todo.id : freed._tag, second.id)
})

test("G80 G86 a todo is not completed by hand beside its holder's open turn, as no settlement is: with a lease or after it", async () => {
  const bench = await newBench()
  const { todo, fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  const beside = { _tag: "PhaseOrder", turn: turn.id, phase: "execute", asked: "complete" } as const
  assert.deepInclude(await bench.fails(Todos.complete({ todo: todo.id, fence, continuation: noFollowUp })), beside)
  bench.now += 24 * 3_600_000
  assert.deepInclude(await bench.fails(Todos.complete({ todo: todo.id, continuation: noFollowUp })), beside)
  await bench.run(Turns.fail({ turn: turn.id, reason: "by hand", spend: { usd: 0.1 }, seenGone: "seen" }))
  assert.equal((await bench.run(Todos.complete({ todo: todo.id, continuation: noFollowUp }))).state, "done")
})

test("G73 ending a turn again still says what is owed, and so does the end of one that a process survived", async () => {
  const bench = await newBench()
  const { fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  const survived = { turn: turn.id, reason: "killed", class: "supervisionFailed", spend: { usd: "unknown" } } as const
  const first = await bench.run(Turns.fail(survived))
  assert.deepEqual(
    first.owed.map(({ reservation }) => reservation),
    [turn.reservation]
  )
  const seen = { turn: turn.id, reason: "gone", seenGone: "by ps", spend: { usd: 0.2 } } as const
  assert.deepEqual((await bench.run(Turns.fail(seen))).owed, first.owed)
  const again = await bench.run(Turns.fail(seen))
  assert.deepInclude(again, { replayed: true, owed: first.owed })
  await bench.run(Quota.trueUp({ reservation: turn.reservation, usd: 0.2 }))
  assert.deepEqual((await bench.run(Turns.fail(seen))).owed, [])
})

test("G12 G55 a bound that names a turn and is not the turn's own keeps its goal open, and can be given back", async () => {
  const bench = await newBench()
  const { goal, todo, fence, turn } = await admitted(bench)
  const bound = { usd: 1, slots: 0 }
  const judge = await bench.run(Quota.reserve({ goal: goal.id, turn: turn.id, effectId: "judge", bound }))
  const parts = async () =>
    (await bench.run(Goals.frontier({ goal: goal.id }))).parts.map(({ kind, ids }) => [kind, ids])
  assert.deepInclude(await parts(), ["reservation", [judge.id]])
  // The turn's own bound ends with the turn and in no other way.
  const own = await bench.fails(Quota.void({ reservation: turn.reservation, reason: "no" }))
  assert.deepInclude(own, { _tag: "ReservationClosed", state: "open" })
  assert.include(own.remedy, "Turns.fail")
  await bench.run(Turns.fail({ turn: turn.id, reason: "no", spend: { usd: 0 } }))
  await bench.run(Todos.complete({ todo: todo.id, fence, continuation: noFollowUp }))
  assert.deepEqual(await parts(), [["reservation", [judge.id]]])
  const complete = Goals.complete({ goal: goal.id, closure: { reason: "done" } })
  assert.equal((await bench.fails(complete))._tag, "FrontierNotEmpty")
  assert.equal((await bench.run(Quota.void({ reservation: judge.id, reason: "not judged" }))).state, "void")
  const twice = await bench.fails(Quota.void({ reservation: judge.id, reason: "not judged" }))
  assert.include(twice.remedy, "given back")
  assert.equal((await bench.run(complete)).state, "completed")
})

test("G51 G53 a cost, a candidate and a read belong to todos, turns and agents of their own goal", async () => {
  const bench = await newBench()
  const other = await admitted(bench)
  const goal = await newGoal(bench)
  const source = await bench.run(Sources.register({ goal: goal.id, name: "n", digest: d("1"), ref: "r", bytes: 1 }))
  const before = countRows(bench.directory)
  for (const owner of [{ todo: other.todo.id }, { turn: other.turn.id }, { turn: "turn_x" }, { agent: "nobody" }]) {
    const bound = { usd: 1, slots: 1 }
    const asked = { goal: goal.id, effectId: "e", ...owner }
    const id = String(Object.values(owner)[0])
    assert.deepInclude(await bench.fails(Quota.reserve({ ...asked, bound })), { _tag: "NotFound", id })
    assert.deepInclude(await bench.fails(Quota.spend({ ...asked, spend: { usd: 1 } })), { _tag: "NotFound", id })
  }
  const turn = other.turn.id
  const refused = { _tag: "NotFound", kind: "turn", id: turn } as const
  assert.deepInclude(await bench.fails(Candidates.plan({ goal: goal.id, operationId: "op", turn })), refused)
  assert.deepInclude(await bench.fails(Sources.read({ source: source.id, agent: "ada", revision: 1, turn })), refused)
  assert.deepEqual(countRows(bench.directory), before)
})

test("G14 no host is started for work whose required source became unreadable after its turn was admitted", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await bench.run(Sources.register({ goal: goal.id, name: "n", digest: d("1"), ref: "r", bytes: 1 }))
  const todo = await newTodo(bench, goal, { requiredReads: [source.id] })
  const { fence } = await hold(bench, todo)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "the wiki is down" }))
  const save = Turns.saveAttempt({ turn: turn.id, fence })
  assert.deepInclude(await bench.fails(save), { _tag: "SourceState", source: source.id, state: "unreadable" })
  await bench.run(Sources.markReadable({ source: source.id }))
  assert.equal((await bench.run(save)).phase, "execute")
  // A further attempt is a start as well.
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "the wiki is down" }))
  const again = {
    turn: turn.id,
    fence,
    failure: { class: "overloaded", check: "503" },
    spend: { usd: 0 },
    bound: { usd: 1 }
  }
  assert.deepInclude(await bench.fails(Turns.retryAttempt(again)), { _tag: "SourceState", source: source.id })
})

test("G12 completing a goal again says the same only for the same closure, and a paused goal names what waits with it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const producer = { role: "person", name: "Vera" } as const
  const seen = await bench.run(
    Evidence.record({ goal: goal.id, kind: "log", digest: d("1"), summary: "seen", producer })
  )
  const gate = await bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "Enough?" }))
  const obligation = await bench.run(Obligations.open({ goal: goal.id, reason: "promised" }))
  await bench.run(Goals.pause({ goal: goal.id }))
  const closed = (evidence: readonly string[], reason = "done") =>
    Goals.complete({ goal: goal.id, closure: { reason, evidence } })
  assert.deepInclude(await bench.fails(closed([])), {
    _tag: "GoalNotActive",
    waiting: [
      { kind: "obligation", id: obligation.id },
      { kind: "gate", id: gate.id }
    ]
  })
  await bench.run(Goals.resume({ goal: goal.id }))
  await bench.run(Gates.withdraw({ gate: gate.id, by: producer, reason: "yes" }))
  await bench.run(Obligations.waive({ obligation: obligation.id, by: producer, reason: "no need" }))
  const done = await bench.run(closed([seen.id]))
  assert.deepEqual((await bench.run(closed([seen.id, seen.id]))).closure, done.closure)
  for (const other of [closed([]), closed(["evidence_x"]), closed([seen.id], "something else")]) {
    const refused = await bench.fails(other)
    assert.deepInclude(refused, { _tag: "GoalNotActive", state: "completed" })
    assert.include(refused.message, "another reason or other evidence")
  }
})

test("G72 a refused settlement names a way that is open: after its cost was recorded, and after its todo went to another agent", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const { fence } = await hold(bench, todo)
  const settling = { goal: goal.id, outcome: "progress", evidence: [], todo: { action: "keep" } } as const
  await bench.run(Quota.spend({ goal: goal.id, todo: todo.id, fence, effectId: "paid", spend: { usd: 1 } }))
  const paid = await bench.fails(Settlements.settle({ ...settling, effectId: "paid", fence, spend: { usd: 1 } }))
  assert.deepInclude(paid, { _tag: "IdentityConflict", id: "paid" })
  assert.include(paid.remedy, "another effect id")
  assert.notInclude(paid.remedy, "Name that reservation")
  await bench.run(Settlements.settle({ ...settling, effectId: "work", fence, spend: { usd: 0 } }))
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 1)

  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "none" }))
  const bobs = (await bench.run(Leases.transfer({ fence, to: "bob", reason: "shift" }))).fence
  const { effectId } = turn
  const lost = await bench.fails(
    Settlements.settle({ ...settling, effectId, turn: turn.id, fence: bobs, spend: { usd: 0 } })
  )
  assert.deepInclude(lost, { _tag: "LeaseLost", why: "epoch" })
  assert.include(lost.remedy, "Turns.fail")
  assert.notInclude(lost.remedy, "Turns.resume")
  assert.equal((await bench.run(Turns.fail({ turn: turn.id, reason: "moved", spend: { usd: 0.5 } }))).state, "failed")
})

test("G2 a command id that no file can keep is refused by its name, and takes nobody else's receipt", async () => {
  const bench = await newBench()
  const open = (commandId: string) => Goals.open({ commandId, title: "g", budget: { usd: 1 } })
  // What UTF-8 makes of half of a character.
  const kept = await bench.run(open("x\ufffd"))
  for (const id of ["x\ud800", "x\udc00"]) {
    assert.deepInclude(await bench.fails(open(id)), { _tag: "InvalidInput", command: "openGoal" })
    const raw = { id, module: "work", type: "openGoal", payload: { title: "g", budget: { usd: 1 } } }
    const [outcome] = await bench.store.commit([raw])
    assert.equal(outcome!._tag, "Refused")
  }
  assert.deepEqual((await bench.run(open("x\ufffd"))).id, kept.id)
  assert.deepInclude(await bench.fails(open("")), { _tag: "InvalidInput" })
})

test("G7 G22 a list that is narrowed by a word which names nothing is refused: empty would read as nothing to do", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  const wrong: readonly Effect.Effect<unknown, unknown, Authority>[] = [
    Todos.list({ goal: goal.id, states: ["opne" as "open"] }),
    Todos.list({ goal: goal.id, states: "open" as never }),
    Obligations.list({ goal: goal.id, state: "closed" as "met" }),
    Gates.list({ goal: goal.id, state: "closed" as "open" }),
    Gates.list({ goal: goal.id, lane: "person" as "owner" }),
    Quota.usage({ goal: goal.id, role: "judge" as "worker" })
  ]
  for (const list of wrong) assert.deepInclude(await bench.fails(list), { _tag: "InvalidInput" } as object)
  const many = await bench.run(Todos.list({ goal: goal.id, states: Array.from({ length: 40_000 }, () => "open") }))
  assert.equal(many.total, 1)
  assert.equal((await bench.run(Todos.list({ goal: goal.id, states: [] }))).total, 0)
})
