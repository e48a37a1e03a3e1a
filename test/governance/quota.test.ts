import * as fc from "fast-check"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { type Authority, Quota, Todos } from "../../src/governance/index.ts"
import { costMicros, limitMicros } from "../../src/governance/Field.ts"
import { type Bench, hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result) ? result.failure.code : "ok"
}

test("G50 slots and dollars are one budget: what either meter does not hold is refused, and nothing is held", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 1, slots: 2 })
  const reserve = (effectId: string, usd: number, slots: number) =>
    Quota.reserve({ goal: goal.id, effectId, bound: { usd, slots } })
  assert.equal(await codeOf(bench, reserve("a", 1.000001, 1)), "QUOTA_EXCEEDED")
  assert.equal(await codeOf(bench, reserve("a", 1, 3)), "QUOTA_EXCEEDED")
  await bench.run(reserve("a", 0.6, 1))
  assert.deepInclude(await bench.fails(reserve("b", 0.5, 1)), { meter: "usd", limit: 1, used: 0.6, asked: 0.5 })
  await bench.run(reserve("b", 0.4, 1))
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(
    [status.reserved, status.remaining],
    [
      { usd: 1, slots: 2 },
      { usd: 0, slots: 0 }
    ]
  )
})

test("G50 money is exact to the micro-dollar; a finer limit is not rounded up, a finer cost not down", () => {
  for (let cents = 0; cents < 5000; cents += 1) assert.equal(costMicros(cents / 100), cents * 10_000)
  assert.equal(costMicros(0.1 + 0.2), 300_000)
  assert.deepEqual([costMicros(1e-9), limitMicros(1e-9), costMicros(0), limitMicros(0)], [1, 0, 0, 0])
})

test("G51 amount, effect, evidence and owner stand in the event of the same commit as the work", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo)
  const held = await bench.run(
    Quota.reserve({
      goal: goal.id,
      todo: todo.id,
      agent: "ada",
      effectId: "e1",
      bound: { usd: 2, slots: 1 },
      fence: lease.fence
    })
  )
  await bench.run(
    Quota.spend({ goal: goal.id, effectId: "e1", reservation: held.id, spend: { usd: 0.25 }, evidence: "evd_1" })
  )
  const spend = (await bench.store.journal({ after: 0, limit: 100 })).findLast((entry) => entry.type === "quota.spend")!
  const data = spend.data as { reservation: object; delta: object }
  assert.deepInclude(data.reservation, {
    effectId: "e1",
    evidence: "evd_1",
    todo: todo.id,
    agent: "ada",
    spentUsdMicros: 250_000
  })
  assert.deepEqual(data.delta, {
    reservedUsdMicros: -2_000_000,
    spentUsdMicros: 250_000,
    reservedSlots: -1,
    spentSlots: 1
  })
  const { items } = await bench.run(Quota.history({ goal: goal.id }))
  assert.deepEqual(
    items.map((item) => [item.kind, item.effectId, item.change]),
    [
      ["reserve", "e1", { reserved: { usd: 2, slots: 1 }, spent: { usd: 0, slots: 0 } }],
      ["spend", "e1", { reserved: { usd: -2, slots: -1 }, spent: { usd: 0.25, slots: 1 } }]
    ]
  )
})

test("G51 an effect's cost is recorded once: a second spend, with the same or another amount, is refused", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const held = await bench.run(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 2, slots: 1 } }))
  const spend = (usd: number) => Quota.spend({ goal: goal.id, effectId: "e1", reservation: held.id, spend: { usd } })
  await bench.run(spend(1))
  assert.equal(await codeOf(bench, spend(1)), "RESERVATION_CLOSED")
  assert.equal(
    await codeOf(bench, Quota.spend({ goal: goal.id, effectId: "e1", spend: { usd: 1 } })),
    "IDENTITY_CONFLICT"
  )
  assert.equal(
    await codeOf(bench, Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 1, slots: 1 } })),
    "IDENTITY_CONFLICT"
  )
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 1)
})

test("G55 an upper bound is needed for every meter that counts, and an unknown cost keeps its reservation until trued up", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 3, slots: 3 })
  for (const bound of [{}, { usd: 1 }, { slots: 1 }]) {
    assert.equal(await codeOf(bench, Quota.reserve({ goal: goal.id, effectId: "e1", bound })), "BOUND_MISSING")
  }
  const held = await bench.run(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 2, slots: 1 } }))
  const owing = await bench.run(
    Quota.spend({ goal: goal.id, effectId: "e1", reservation: held.id, spend: { usd: "unknown" } })
  )
  assert.deepEqual([owing.state, owing.spent.usd, owing.held.usd], ["owed", null, 2])
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual([status.reserved.usd, status.spent, status.remaining.usd], [2, { usd: 0, slots: 1 }, 1])
  assert.equal(
    await codeOf(bench, Quota.reserve({ goal: goal.id, effectId: "e2", bound: { usd: 1.5, slots: 1 } })),
    "QUOTA_EXCEEDED"
  )
  assert.equal(
    await codeOf(bench, Quota.void({ reservation: held.id, reason: "it cost nothing, surely" })),
    "RESERVATION_CLOSED"
  )
  const trued = await bench.run(Quota.trueUp({ reservation: held.id, usd: 0.75 }))
  assert.deepEqual([trued.state, trued.owed], ["spent", []])
  const after = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(
    [after.reserved.usd, after.spent, after.remaining.usd, after.owed],
    [0, { usd: 0.75, slots: 1 }, 2.25, []]
  )
  assert.equal(await codeOf(bench, Quota.trueUp({ reservation: held.id, usd: 0.1 })), "RESERVATION_CLOSED")
})

test("G55 a cost beyond the limit that happened is recorded in full, and then nothing more is admitted", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 1, slots: 9 })
  const held = await bench.run(Quota.reserve({ goal: goal.id, effectId: "e1", bound: { usd: 1, slots: 1 } }))
  await bench.run(Quota.spend({ goal: goal.id, effectId: "e1", reservation: held.id, spend: { usd: 4 } }))
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual([status.spent.usd, status.remaining.usd], [4, 0])
  assert.equal(
    await codeOf(bench, Quota.reserve({ goal: goal.id, effectId: "e2", bound: { usd: 0.000001, slots: 1 } })),
    "QUOTA_EXCEEDED"
  )
})

test("C63 todo A selected and completed, the frontier moves to B, then the spend for A arrives: it is charged to A", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const a = await newTodo(bench, goal, { priority: 2 })
  const b = await newTodo(bench, goal, { priority: 1 })
  const take = async () => {
    const got = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
    assert(got._tag === "claimed")
    return got.lease.fence
  }
  const fence = await take()
  assert.equal(fence.todo, a.id)
  const held = await bench.run(
    Quota.reserve({ goal: goal.id, todo: a.id, effectId: "e1", bound: { usd: 2, slots: 1 }, fence })
  )
  await bench.run(Todos.complete({ todo: a.id, fence, continuation: { kind: "goalStaysActive" } }))
  assert.equal((await take()).todo, b.id)
  const spent = await bench.run(
    Quota.spend({ goal: goal.id, effectId: "e1", reservation: held.id, spend: { usd: 1.5 } })
  )
  assert.deepEqual([spent.todo, spent.spent.usd], [a.id, 1.5])
})

// --- a model of the ledger, in random order --------------------------------------------------------------------------

test("G50 G53 G55 after any order of reservations, costs, unknown costs and voids, admission, status, history and events agree", async () => {
  const random = seed()
  const step = fc.record({
    op: fc.constantFrom("reserve", "reserve", "spend", "unknown", "trueUp", "void"),
    usd: fc.integer({ min: 0, max: 400 }).map((cents) => cents / 100),
    slots: fc.integer({ min: 0, max: 2 }),
    pick: fc.nat(20)
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const bench = await newBench({ durability: "disposable" })
      const goal = await newGoal(bench, { usd: 10, slots: 6 })
      /** Cents and slots held and spent by each reservation, kept by hand. */
      const model: {
        id: string
        effect: string
        state: string
        heldUsd: number
        heldSlots: number
        usd: number
        slots: number
      }[] = []
      const sum = (pick: (m: (typeof model)[number]) => number) => model.reduce((total, m) => total + pick(m), 0)
      let n = 0
      for (const { op, usd, slots, pick } of steps) {
        const target = model[pick % Math.max(1, model.length)]
        const cents = Math.round(usd * 100)
        if (op === "reserve") {
          n += 1
          const effect = `e${n}`
          const result = await bench.run(
            Effect.result(Quota.reserve({ goal: goal.id, effectId: effect, bound: { usd, slots } }))
          )
          const fits = sum((m) => m.heldUsd + m.usd) + cents <= 1000 && sum((m) => m.heldSlots + m.slots) + slots <= 6
          assert.equal(Result.isSuccess(result), fits)
          if (Result.isSuccess(result)) {
            model.push({
              id: result.success.id,
              effect,
              state: "open",
              heldUsd: cents,
              heldSlots: slots,
              usd: 0,
              slots: 0
            })
          }
        } else if (target !== undefined) {
          const call: Effect.Effect<unknown, any, Authority> =
            op === "trueUp"
              ? Quota.trueUp({ reservation: target.id, usd })
              : op === "void"
                ? Quota.void({ reservation: target.id, reason: "r" })
                : Quota.spend({
                    goal: goal.id,
                    effectId: target.effect,
                    reservation: target.id,
                    spend: { usd: op === "unknown" ? "unknown" : usd }
                  })
          const allowed =
            op === "trueUp"
              ? target.state === "owed"
              : op === "void"
                ? ["open", "spent"].includes(target.state)
                : target.state === "open"
          assert.equal((await codeOf(bench, call)) === "ok", allowed)
          if (!allowed) continue
          if (op === "void") Object.assign(target, { state: "void", heldUsd: 0, heldSlots: 0, usd: 0, slots: 0 })
          else {
            Object.assign(target, { slots: target.slots + target.heldSlots, heldSlots: 0 })
            if (op === "unknown") target.state = "owed"
            else Object.assign(target, { state: "spent", heldUsd: 0, usd: cents })
          }
        }
        const status = await bench.run(Quota.status({ goal: goal.id }))
        const { totals, items } = await bench.run(Quota.history({ goal: goal.id }))
        const { owed, roles } = status
        for (const key of ["reserved", "spent", "remaining", "budget", "window"] as const) {
          assert.deepEqual(totals[key], status[key])
        }
        assert.deepEqual(
          roles.map(({ role, spent }) => [role, spent.usd]).filter(([, usd]) => usd !== 0),
          status.spent.usd === 0 ? [] : [["worker", status.spent.usd]]
        )
        assert.equal(
          Math.round(status.spent.usd * 100),
          sum((m) => m.usd)
        )
        assert.equal(
          Math.round(status.reserved.usd * 100),
          sum((m) => m.heldUsd)
        )
        assert.deepEqual([status.spent.slots, status.reserved.slots], [sum((m) => m.slots), sum((m) => m.heldSlots)])
        assert.equal(owed.length, model.filter((m) => m.state === "owed").length)
        const events = items.reduce((total, item) => total + Math.round(item.change.spent.usd * 100), 0)
        assert.equal(
          events,
          sum((m) => m.usd)
        )
      }
      await bench.store.close()
    }),
    { seed: random, numRuns: 20 }
  )
}, 60_000)
