/** The frontier of a goal, its completion, and a pause before every lane. Rules: G10, G11, G12, G15, G21, G40; C67. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { assert, describe, test } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
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
import { frontierKinds, loadFrontier } from "../../src/governance/Frontier.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const owner = { role: "person", name: "Vera" } as const
const closure = { reason: "the ledger adds up again" }
const noFollowUp = { kind: "noFollowUp" } as const

const partsOf = async (bench: Bench, goal: string) =>
  (await bench.run(Goals.frontier({ goal }))).parts.map(({ kind, count }) => [kind, count])

const result = {
  status: "ok",
  claim: "completed",
  summary: "done",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: true
} as const

/** Everything that can keep a goal open: how it opens, and how it ends. */
const openings: readonly (readonly [
  kind: string,
  open: (bench: Bench, goal: { readonly id: string }) => Promise<() => Effect.Effect<unknown, any, Authority>>
])[] = [
  [
    "todo",
    async (bench, goal) => {
      const todo = await bench.run(Todos.add({ goal: goal.id, title: "Find the fault" }))
      return () => Todos.supersede({ todo: todo.id, reason: "not needed" })
    }
  ],
  [
    "todo",
    async (bench, goal) => {
      const todo = await bench.run(Todos.add({ goal: goal.id, title: "Find the fault" }))
      await bench.run(Todos.defer({ todo: todo.id, reason: "later" }))
      return () => Todos.supersede({ todo: todo.id, reason: "not needed" })
    }
  ],
  [
    "gate",
    async (bench, goal) => {
      const gate = await bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "Really?" }))
      return () => Gates.decide({ gate: gate.id, by: owner, allow: false, reason: "no need", reach: { kind: "scope" } })
    }
  ],
  [
    "gate",
    async (bench, goal) => {
      const gate = await bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "Still?" }))
      const reach = { kind: "until", at: bench.now + 1 } as const
      await bench.run(Gates.decide({ gate: gate.id, by: owner, allow: true, reason: "for now", reach }))
      assert.deepEqual(await partsOf(bench, goal.id), [])
      bench.now += 1
      return () => Gates.withdraw({ gate: gate.id, by: owner, reason: "no need" })
    }
  ],
  [
    "obligation",
    async (bench, goal) => {
      const one = await bench.run(Obligations.open({ goal: goal.id, reason: "promised" }))
      return () => Obligations.waive({ obligation: one.id, by: owner, reason: "withdrawn" })
    }
  ],
  [
    "candidate",
    async (bench, goal) => {
      await bench.run(Candidates.plan({ goal: goal.id, operationId: "op" }))
      return () => Candidates.resolve({ operationId: "op", state: "absent" })
    }
  ],
  [
    "effect",
    async (bench, goal) => {
      const operation = { axis: "x" }
      const kind = { name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" } as const
      await bench.run(Effects.plan({ effect: "e", goal: goal.id, provider: "stage", kind, operation, summary: "move" }))
      await bench.run(Effects.dispatch({ effect: "e", operation }))
      return () => Effects.answer({ effect: "e", attempt: 1, answer: "confirmed" })
    }
  ],
  [
    "reservation",
    async (bench, goal) => {
      const held = await bench.run(Quota.reserve({ goal: goal.id, effectId: "e", bound: { usd: 1, slots: 1 } }))
      return () => Quota.void({ reservation: held.id, reason: "nothing was started" })
    }
  ]
]

describe("completing a goal", () => {
  test("G12 every kind of open thing keeps its goal open, is named with its count, and stops doing so when it has ended", async () => {
    for (const [kind, open] of openings) {
      const bench = await newBench()
      const goal = await newGoal(bench)
      const end = await open(bench, goal)
      assert.deepEqual(await partsOf(bench, goal.id), [[kind, 1]])
      const refused = await bench.fails(Goals.complete({ goal: goal.id, closure }))
      const { parts } = refused as unknown as { readonly parts: readonly { readonly ids: readonly string[] }[] }
      assert.equal(refused.code, "FRONTIER_NOT_EMPTY")
      assert.include(refused.message, `${kind} 1`)
      assert.equal(parts[0]!.ids.length, 1)
      assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
      await bench.run(end())
      assert.deepEqual(await partsOf(bench, goal.id), [], kind)
      assert.equal((await bench.run(Goals.complete({ goal: goal.id, closure }))).state, "completed")
    }
  })

  test("G12 a required source that cannot be read means not complete, even when all of its work is done", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const source = await bench.run(
      Sources.register({ goal: goal.id, name: "spec", digest: sha256("spec"), ref: "spec.md", bytes: 4 })
    )
    const todo = await newTodo(bench, goal, { requiredReads: [source.id] })
    await bench.run(Todos.complete({ todo: todo.id, continuation: noFollowUp }))
    assert.deepEqual(await partsOf(bench, goal.id), [["unreadSource", 1]])
    await bench.run(Sources.markUnreadable({ source: source.id, reason: "the disk is away" }))
    assert.deepEqual(await partsOf(bench, goal.id), [["unreadableSource", 1]])
    const refused = await bench.fails(Goals.complete({ goal: goal.id, closure }))
    assert.deepInclude(refused, {
      code: "FRONTIER_NOT_EMPTY",
      parts: [{ kind: "unreadableSource", count: 1, ids: [source.id] }]
    })
  })

  test("G12 a count is whole however many there are, and of the ids the first hundred are named", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    for (let n = 0; n < 103; n += 1) await newTodo(bench, goal)
    const [part] = (await bench.run(Goals.frontier({ goal: goal.id }))).parts
    assert.deepEqual([part!.kind, part!.count, part!.ids.length], ["todo", 103, 100])
  })

  test("G12 G21 the end of the last todo ends no goal, and an empty frontier completes none: somebody says so, and why", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const todo = await newTodo(bench, goal)
    await bench.run(Todos.complete({ todo: todo.id, continuation: noFollowUp }))
    assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
    assert.equal((await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" })))._tag, "none")
    assert.equal((await bench.run(Goals.get({ goal: goal.id }))).state, "active")
    for (const none of [{}, { closure: {} }, { closure: { reason: "" } }]) {
      assert.equal((await bench.fails(Goals.complete({ goal: goal.id, ...none } as never))).code, "INVALID_INPUT")
    }
    const unknown = await bench.fails(Goals.complete({ goal: goal.id, closure: { ...closure, evidence: ["evd_x"] } }))
    assert.deepInclude(unknown, { code: "NOT_FOUND", kind: "evidence" })
    const evidence = await bench.run(
      Evidence.record({ goal: goal.id, kind: "report", digest: sha256("r"), summary: "sums agree", producer: owner })
    )
    const done = await bench.run(Goals.complete({ goal: goal.id, closure: { ...closure, evidence: [evidence.id] } }))
    assert.deepEqual(done.closure, { ...closure, evidence: [evidence.id], closedAt: bench.now })
    // A cost that is owed keeps nothing open: it is known to be owed, and is settled later.
    const [owed] = (await bench.run(Goals.get({ goal: goal.id }))).owed
    await bench.run(Quota.trueUp({ reservation: owed!.reservation, usd: 0.25 }))
    assert.deepEqual((await bench.run(Goals.get({ goal: goal.id }))).owed, [])
  })

  test("G12 G11 a completed goal is final: no more work, no resuming, no other reason; its title opens another goal", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    await bench.run(Goals.complete({ goal: goal.id, closure }))
    const before = (await bench.store.journal({ after: 0, limit: 100 })).length
    assert.equal((await bench.run(Goals.complete({ goal: goal.id, closure }))).state, "completed")
    const calls: readonly Effect.Effect<unknown, any, Authority>[] = [
      Goals.complete({ goal: goal.id, closure: { reason: "another story" } }),
      Goals.resume({ goal: goal.id }),
      Goals.pause({ goal: goal.id }),
      Goals.stop({ goal: goal.id }),
      Todos.add({ goal: goal.id, title: "One more" }),
      Todos.nextWork({ goal: goal.id, agent: "ada" }),
      Gates.ask({ goal: goal.id, kind: "userDecision", question: "One more?" }),
      Obligations.open({ goal: goal.id, reason: "one more" }),
      Quota.reserve({ goal: goal.id, effectId: "e", bound: { usd: 1 } })
    ]
    for (const call of calls) {
      assert.deepInclude(await bench.fails(call), { code: "GOAL_NOT_ACTIVE", state: "completed" })
    }
    assert.equal((await bench.store.journal({ after: 0, limit: 100 })).length, before)
    const again = await bench.run(Goals.open({ title: goal.title, budget: { usd: 1 } }))
    assert.notEqual(again.id, goal.id)
    assert.deepInclude(again, { state: "active", closure: null })
  })

  test("G10 G12 a paused or stopped goal is completed only after it was resumed", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    await bench.run(Goals.stop({ goal: goal.id }))
    assert.equal((await bench.fails(Goals.complete({ goal: goal.id, closure }))).code, "GOAL_NOT_ACTIVE")
    await bench.run(Goals.resume({ goal: goal.id }))
    assert.equal((await bench.run(Goals.complete({ goal: goal.id, closure }))).state, "completed")
  })
})

describe("a pause before every other lane", () => {
  test("G10 G15 C67 a goal that is paused while an obligation is open: the pause wins and says so, naming what waits", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const todo = await newTodo(bench, goal)
    const { fence } = await hold(bench, todo)
    const due = await bench.run(Obligations.open({ goal: goal.id, todo: todo.id, reason: "promised" }))
    const gate = await bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "Really?" }))
    for (const halt of [Goals.pause, Goals.stop]) {
      await bench.run(halt({ goal: goal.id }))
      const calls: readonly Effect.Effect<unknown, any, Authority>[] = [
        Todos.nextWork({ goal: goal.id, agent: "bob" }),
        Leases.acquire({ todo: todo.id, agent: "bob" }),
        Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
      ]
      for (const call of calls) {
        const error = await bench.fails(call)
        assert.deepInclude(error, {
          code: "GOAL_NOT_ACTIVE",
          waiting: [
            { kind: "obligation", id: due.id },
            { kind: "gate", id: gate.id }
          ]
        })
        assert.include(error.message, "With it wait: 1 obligation and 1 gate.")
        assert.include(error.remedy, "Goals.resume")
      }
      const seen = await bench.run(Goals.get({ goal: goal.id }))
      assert.deepEqual(seen.budget, goal.budget)
      assert.deepEqual([seen.obligations.map(({ id }) => id), seen.gates], [[due.id], { count: 1, ids: [gate.id] }])
      await bench.run(Goals.resume({ goal: goal.id }))
    }
    await bench.run(Gates.decide({ gate: gate.id, by: owner, allow: true, reason: "yes", reach: { kind: "scope" } }))
    const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
    assert.equal(turn.state, "open")
  })

  test("G10 what a running turn gave and cost is recorded on a paused goal, meets nothing yet, and settles after resume", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const todo = await newTodo(bench, goal)
    const { fence } = await hold(bench, todo)
    const due = await bench.run(Obligations.open({ goal: goal.id, todo: todo.id, reason: "promised" }))
    const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 2 } }))
    await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
    await bench.run(Goals.pause({ goal: goal.id }))
    await bench.run(Turns.recordResult({ turn: turn.id, result }))
    await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "nothing declared" }))
    const settle = Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: turn.id,
      outcome: "progress",
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "complete", continuation: noFollowUp }
    })
    assert.equal((await bench.fails(settle)).code, "GOAL_NOT_ACTIVE")
    assert.equal((await bench.run(Turns.get({ turn: turn.id }))).result?.usd, 0.5)
    assert.deepEqual(await partsOf(bench, goal.id), [
      ["obligation", 1],
      ["todo", 1],
      ["turn", 1]
    ])
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "open")
    await bench.run(Goals.resume({ goal: goal.id }))
    assert.equal((await bench.run(settle)).todoState, "done")
    assert.equal((await bench.run(Obligations.get({ obligation: due.id }))).state, "met")
    assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)
  })
})

test("G12 asking for the frontier scans no table: each kind finds its open rows by an index", async () => {
  const bench = await newBench()
  let asked = 0
  for (const [kind, open] of openings) {
    const goal = await newGoal(bench)
    await open(bench, goal)
    const db = new DatabaseSync(join(bench.directory, "authority.db"), { readOnly: true })
    const load = loadFrontier(goal.id, bench.now)
    let at = load.next()
    while (at.done !== true) {
      const { sql, params } = at.value
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...params)
      for (const line of plan) assert.notMatch(String(line["detail"]), /^SCAN/, sql)
      asked += 1
      at = load.next(db.prepare(sql).all(...params) as never)
    }
    db.close()
    assert.deepEqual(
      at.value.map((part) => part.kind),
      [kind]
    )
  }
  assert.isAtLeast(asked, openings.length * frontierKinds.length)
})
