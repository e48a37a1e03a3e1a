/** Work that is settled without a turn: what its verdict must say, and that leaving out a turn passes no rule that the turn is held to. */
import * as Effect from "effect/Effect"
import { assert, describe, test } from "vitest"
import { digestJson } from "../../src/base/Digest.ts"
import {
  Acceptances,
  Candidates,
  Deliveries,
  Evidence,
  type Fence,
  Obligations,
  Quota,
  Settlements,
  Sources,
  type TodoRecord,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const d = (text: string) => digestJson(text)
const complete = { action: "complete", continuation: { kind: "noFollowUp" } } as const
const keep = { action: "keep" } as const
const judgedBy = (name: string) => ({ name, digestBefore: d("v"), digestAfter: d("v") })

const scene = async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const seen = async (name = "oracle") =>
    (
      await bench.run(
        Evidence.record({
          goal: goal.id,
          kind: "verdict",
          digest: d("seen"),
          summary: "seen",
          producer: { role: "validator", name }
        })
      )
    ).id
  const passed = async (more: object = {}) =>
    Acceptances.record({
      goal: goal.id,
      candidate: null,
      validator: judgedBy("oracle"),
      outcome: "passed",
      evidence: [await seen()],
      ...more
    })
  const settle = (fence: Fence, more: object = {}) =>
    Settlements.settle({
      effectId: `eff_${(effects += 1)}`,
      goal: goal.id,
      fence,
      outcome: "accepted",
      evidence: [],
      spend: { usd: 0.5 },
      todo: complete,
      ...more
    })
  let effects = 0
  const add = (more: object = {}) => newTodo(bench, goal, { acceptance: { validator: "oracle" }, ...more })
  return { bench, goal, seen, passed, settle, add }
}

/** What a call says: its error's code and why, or its outcome. */
const saidBy = async (bench: Bench, call: Effect.Effect<any, any, any>): Promise<string> =>
  bench.run(
    Effect.match(call as Effect.Effect<any, any, never>, {
      onFailure: (error) => (error.why === undefined ? error.code : `${error.code}:${error.why}`),
      onSuccess: (done) => done.outcome ?? done.state ?? "ok"
    })
  )

describe("the verdict", () => {
  test("G71 G72 a verdict that names no todo accepts no work by hand, and one of a todo accepts that todo alone, once", async () => {
    const { bench, goal, passed, settle, add } = await scene()
    const [one, other] = [await add({ origin: { destination: "a", channel: "c", requestId: "r" } }), await add()]
    const [mine, yours] = [await hold(bench, one), await hold(bench, other)]
    const nobodys = (await bench.run(await passed())).id
    const ofOne = (await bench.run(await passed({ todo: one.id }))).id
    for (const { fence } of [mine, yours]) {
      assert.equal(await saidBy(bench, settle(fence, { acceptance: nobodys })), "ACCEPTANCE_INVALID:otherWork")
    }
    assert.equal(await saidBy(bench, settle(yours.fence, { acceptance: ofOne })), "ACCEPTANCE_INVALID:otherWork")
    assert.equal(await saidBy(bench, settle(mine.fence, { acceptance: ofOne, todo: keep })), "accepted")
    assert.equal(await saidBy(bench, settle(mine.fence, { acceptance: ofOne, todo: keep })), "ACCEPTANCE_INVALID:used")
    assert.equal((await bench.run(Deliveries.list({ goal: goal.id }))).items.length, 1)
    const again = (await bench.run(await passed({ todo: one.id }))).id
    assert.equal((await bench.run(settle(mine.fence, { acceptance: again }))).todoState, "done")
    assert.equal((await bench.run(Settlements.list({ goal: goal.id }))).accepted, 2)
  })

  test("G70 whoever holds the todo does not judge it, nor vouch for it alone: neither while it is held, nor before it was taken", async () => {
    const { bench, seen, passed, settle, add } = await scene()
    const todo = await add({ acceptance: { validator: "ada" } })
    const validator = judgedBy("ada")
    const early = (await bench.run(await passed({ todo: todo.id, validator }))).id
    const vouched = (await bench.run(await passed({ todo: todo.id, evidence: [await seen("ada")] }))).id
    const { fence } = await hold(bench, todo)
    const own = "ACCEPTANCE_INVALID:ownProducer"
    assert.equal(await saidBy(bench, await passed({ todo: todo.id, validator })), own)
    assert.equal(await saidBy(bench, await passed({ todo: todo.id, evidence: [await seen("ada")] })), own)
    assert.equal(await saidBy(bench, settle(fence, { acceptance: early })), own)
    const plain = await bench.run(Todos.edit({ todo: todo.id, revision: 1, acceptance: null }))
    assert.equal(plain.revision, 2)
    assert.equal(await saidBy(bench, settle(fence, { acceptance: vouched })), own)
    const apart = (await bench.run(await passed({ todo: todo.id }))).id
    assert.equal(await saidBy(bench, settle(fence, { acceptance: apart })), "accepted")
  })

  test("G70 G71 a verdict on a candidate that names no turn is held to the turn's agent too, and a verdict names no other turn's todo", async () => {
    const { bench, goal, seen, passed, settle, add } = await scene()
    const [todo, other] = [await add({ acceptance: null }), await add()]
    const { fence } = await hold(bench, todo)
    const turn = await turnOn(bench, todo, fence)
    await bench.run(Turns.recordResult({ turn: turn.id, result: answered }))
    await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "judged below" }))
    const fields = { tree: d("tree") }
    const candidate = digestJson(fields)
    await bench.run(Candidates.plan({ goal: goal.id, operationId: "op", turn: turn.id }))
    await bench.run(Candidates.record({ operationId: "op", identity: candidate, candidate: fields }))
    const of = { turn: turn.id, effectId: turn.effectId, candidate }
    const own = (await bench.run(await passed({ candidate, validator: judgedBy("ada") }))).id
    assert.equal(await saidBy(bench, settle(fence, { ...of, acceptance: own })), "ACCEPTANCE_INVALID:ownProducer")
    assert.equal(await saidBy(bench, await passed({ turn: turn.id, todo: other.id })), "ACCEPTANCE_INVALID:otherWork")
    const patch = await bench.run(
      Evidence.record({
        goal: goal.id,
        kind: "patch",
        digest: d("patch"),
        summary: "the patch",
        producer: { role: "validator", name: "oracle" }
      })
    )
    const good = (await bench.run(await passed({ candidate, evidence: [await seen()] }))).id
    const content = { ...of, acceptance: good, evidence: [patch.id] }
    assert.equal(await saidBy(bench, settle(fence, content)), "accepted")
  })

  test("G86 a verdict on work by hand is of the todo and its sources as they stood: after either changed its settlement is stale, kept and paid", async () => {
    const { bench, goal, passed, settle, add } = await scene()
    const source = await bench.run(
      Sources.register({ goal: goal.id, name: "n", digest: d("one"), ref: "one", bytes: 1 })
    )
    const todo = await add({ requiredReads: [source.id] })
    const { fence } = await hold(bench, todo)
    const early = (await bench.run(await passed({ todo: todo.id }))).id
    await bench.run(Todos.edit({ todo: todo.id, revision: 1, title: "Something quite different" }))
    const stale = await bench.run(settle(fence, { acceptance: early }))
    assert.deepInclude(stale, { outcome: "staleContext", accepted: false, todoState: "open" })
    assert.deepEqual(stale.stale, { asked: "accepted", admittedRevision: null, revision: 2, next: "replan" })
    assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)

    const second = (await bench.run(await passed({ todo: todo.id, todoRevision: 2 }))).id
    await bench.run(Sources.revise({ source: source.id, revision: 1, digest: d("two"), ref: "two", bytes: 1 }))
    const revised = await bench.run(settle(fence, { acceptance: second }))
    assert.deepEqual(
      [revised.outcome, revised.stale?.sources],
      ["staleContext", [{ source: source.id, revision: 2, admittedRevision: 1 }]]
    )
    assert.equal(await saidBy(bench, await passed({ todo: todo.id, todoRevision: 1 })), "REVISION_CONFLICT")

    const third = (await bench.run(await passed({ todo: todo.id, reads: [{ source: source.id, revision: 2 }] }))).id
    assert.equal((await bench.run(settle(fence, { acceptance: third }))).todoState, "done")
  })
})

const answered = {
  status: "ok",
  claim: null,
  summary: "s",
  failure: null,
  digest: null,
  usd: 0.1,
  wallMs: 1,
  provenGone: true
} as const

const turnOn = async (bench: Bench, todo: TodoRecord, fence: Fence) => {
  const turn = await bench.run(Turns.admit({ goal: todo.goal, agent: "ada", fence, bound: { usd: 1 } }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  return turn
}

describe("leaving out the turn", () => {
  test("G80 G86 G15 the work of a turn is settled as that turn's: not under its effect id or reservation without it, and not beside it", async () => {
    const { bench, goal, settle, add } = await scene()
    const todo = await add({ acceptance: null })
    const due = await bench.run(Obligations.open({ goal: goal.id, todo: todo.id, reason: "promised" }))
    const { fence } = await hold(bench, todo)
    const turn = await turnOn(bench, todo, fence)
    const { effectId, reservation } = turn
    const facts = (await bench.store.verify()).entries
    const ways: readonly (readonly [object, string])[] = [
      [{ effectId, reservation }, "IDENTITY_CONFLICT"],
      [{ effectId }, "IDENTITY_CONFLICT"],
      [{ reservation }, "IDENTITY_CONFLICT"],
      [{}, "PHASE_ORDER"]
    ]
    for (const [way, code] of ways) {
      for (const fate of [complete, keep]) {
        const call = settle(fence, { outcome: "progress", todo: fate, ...way })
        assert.equal(await saidBy(bench, call), code)
      }
    }
    assert.equal((await bench.store.verify()).entries, facts)
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "open")

    // Another todo of the same agent is not held up, and neither is this one once the turn has ended.
    const other = await hold(bench, await add({ acceptance: null }))
    assert.equal(await saidBy(bench, settle(other.fence, { outcome: "progress" })), "progress")
    await bench.run(Turns.fail({ turn: turn.id, reason: "the host hung", seenGone: "by hand", spend: { usd: 0.1 } }))
    assert.equal(await saidBy(bench, settle(fence, { outcome: "progress", effectId })), "IDENTITY_CONFLICT")
    assert.equal((await bench.run(settle(fence, { outcome: "progress" }))).todoState, "done")
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "met")
  })

  test("G15 what its holder settles by hand as unavailable or inconclusive was not attempted, also when it is named later", async () => {
    const { bench, goal, settle, add } = await scene()
    const todo = await add({ acceptance: null })
    const due = await bench.run(Obligations.open({ goal: goal.id, todo: todo.id, reason: "promised" }))
    const { fence } = await hold(bench, todo)
    for (const outcome of ["unavailable", "inconclusive"]) {
      assert.equal(await saidBy(bench, settle(fence, { outcome })), "OBLIGATION_OPEN")
      const kept = await bench.run(settle(fence, { outcome, todo: keep }))
      const named = Obligations.meet({ obligation: due.id, settlement: kept.effectId })
      assert.equal(await saidBy(bench, named), "NOT_ATTEMPTED")
    }
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "open")
    await bench.run(settle(fence, { outcome: "failed", todo: keep }))
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "met")
  })

  test("G53 a todo is not paid from what was held for another one, nor beside what is kept for its effect", async () => {
    const { bench, goal, settle, add } = await scene()
    const [x, y] = [await add({ acceptance: null }), await add({ acceptance: null })]
    const [holderOfX, holderOfY] = [await hold(bench, x), await hold(bench, y)]
    const held = await bench.run(
      Quota.reserve({
        goal: goal.id,
        todo: x.id,
        fence: holderOfX.fence,
        effectId: "eff_x",
        bound: { usd: 1, slots: 1 }
      })
    )
    const of = { outcome: "progress", effectId: "eff_x" }
    assert.equal(await saidBy(bench, settle(holderOfY.fence, { ...of, reservation: held.id })), "IDENTITY_CONFLICT")
    assert.equal(await saidBy(bench, settle(holderOfX.fence, of)), "IDENTITY_CONFLICT")
    assert.equal((await bench.run(Quota.get({ reservation: held.id }))).state, "open")
    assert.equal(await saidBy(bench, settle(holderOfX.fence, { ...of, reservation: held.id })), "progress")
  })
})
