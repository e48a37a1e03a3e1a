import * as fc from "fast-check"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, describe, test } from "vitest"
import { Agents, type Authority, Goals, Quota, Turns } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result) ? result.failure.code : "ok"
}

const spend = (goal: string, effectId: string, usd: number, more: object = {}) =>
  Quota.spend({ goal, effectId, spend: { usd, ...more } })

const spentUsd = async (bench: Bench, goal: string) => (await bench.run(Quota.status({ goal }))).spent.usd

describe("several meters in one budget", () => {
  test("G50 C58 each meter limits by itself, zero included, and needs a bound where it is limited", async () => {
    const bench = await newBench()
    const limits = { usd: 1, slots: 2, tokens: 1000, wallMs: 5000, computeMs: 4000, attempts: 3 }
    const meters = Object.keys(limits) as (keyof typeof limits)[]
    for (const meter of meters) {
      const goal = (await newGoal(bench, { [meter]: limits[meter] })).id
      const reserve = (amount: number) =>
        Quota.reserve({ goal, effectId: `${goal}/${amount}`, bound: { [meter]: amount } })
      assert.equal(await codeOf(bench, Quota.reserve({ goal, effectId: "e", bound: {} })), "BOUND_MISSING", meter)
      const over = await bench.fails(reserve(limits[meter] + 1))
      assert.deepInclude(over, { code: "QUOTA_EXCEEDED", meter, limit: limits[meter], used: 0, agent: null })
      const held = await bench.run(reserve(limits[meter]))
      assert.equal(held.held[meter], limits[meter])
      assert.equal(
        await codeOf(bench, Quota.reserve({ goal, effectId: "one more", bound: { [meter]: 1 } })),
        "QUOTA_EXCEEDED",
        meter
      )
      const none = (await newGoal(bench, { [meter]: 0 })).id
      assert.equal(
        await codeOf(bench, Quota.reserve({ goal: none, effectId: none, bound: { [meter]: 1 } })),
        "QUOTA_EXCEEDED"
      )
    }
    const all = (await newGoal(bench, limits)).id
    assert.deepEqual((await bench.run(Goals.get({ goal: all }))).budget, limits)
    const bound = { usd: 0.5, slots: 1, tokens: 600, wallMs: 3000, computeMs: 1000, attempts: 1 }
    const held = await bench.run(Quota.reserve({ goal: all, effectId: "all", bound }))
    // A meter that the spend does not name cost what was held for it: never less than may have been used.
    await bench.run(
      Quota.spend({ goal: all, effectId: "all", reservation: held.id, spend: { usd: 0.25, tokens: 100, wallMs: 0 } })
    )
    const status = await bench.run(Quota.status({ goal: all }))
    assert.deepEqual(status.spent, { usd: 0.25, slots: 1, tokens: 100, wallMs: 0, computeMs: 1000, attempts: 1 })
    assert.deepEqual(status.reserved, { usd: 0, slots: 0, tokens: 0, wallMs: 0, computeMs: 0, attempts: 0 })
    assert.deepEqual(status.remaining, { usd: 0.75, slots: 1, tokens: 900, wallMs: 5000, computeMs: 3000, attempts: 2 })
  })

  test("G50 C56 a limit, a window or a bound that does not parse is refused at the door and never means unlimited", async () => {
    const bench = await newBench()
    const entries = (await bench.store.verify()).entries
    for (const bad of ["3 ", null, -1, true, 1.9, Number.NaN, Number.POSITIVE_INFINITY, "unlimited"] as never[]) {
      for (const meter of ["slots", "tokens", "wallMs", "computeMs", "attempts", "windowMs"]) {
        const budget = { usd: 1, [meter]: bad }
        assert.equal(await codeOf(bench, Goals.open({ title: "t", budget })), "INVALID_INPUT", `${meter} ${bad}`)
      }
    }
    assert.equal(await codeOf(bench, Goals.open({ title: "t", budget: { usd: 1, windowMs: 0 } })), "INVALID_INPUT")
    assert.equal(
      await codeOf(bench, Goals.open({ title: "t", budget: { usd: 1, window: 5 } as never })),
      "INVALID_INPUT"
    )
    assert.equal(await codeOf(bench, Goals.open({ title: "t", budget: { windowMs: 5 } })), "BOUND_MISSING")
    for (const call of [Goals.open, Goals.get, Quota.status, Quota.reserve, Turns.admit, Turns.get]) {
      for (const input of [undefined, null, {}, "goal"]) {
        assert.equal(await codeOf(bench, (call as (input: unknown) => never)(input)), "INVALID_INPUT", String(input))
      }
    }
    assert.equal((await bench.store.verify()).entries, entries)
  })

  test("G50 G56 an agent's own limits hold beside the goal's, and every figure says whose it is", async () => {
    const bench = await newBench()
    const goal = (await newGoal(bench, { usd: 10, slots: 10 })).id
    await bench.run(Agents.register({ goal, agentId: "ada", budget: { usd: 2, slots: 9 } }))
    const reserve = (agent: string, effectId: string, usd: number) =>
      Quota.reserve({ goal, agent, effectId, bound: { usd, slots: 1 } })
    await bench.run(reserve("ada", "a", 1.5))
    assert.deepInclude(await bench.fails(reserve("ada", "b", 1)), { meter: "usd", agent: "ada", limit: 2, used: 1.5 })
    await bench.run(reserve("bob", "c", 8))
    assert.deepInclude(await bench.fails(reserve("ada", "d", 0.51)), { agent: null, limit: 10, used: 9.5 })
    const status = await bench.run(Quota.status({ goal }))
    assert.deepInclude(status, { agent: null, reserved: { usd: 9.5, slots: 2 } })
    assert.deepEqual(
      status.agents.map((figures) => [figures.agent, figures.reserved, figures.remaining]),
      [["ada", { usd: 1.5, slots: 1 }, { usd: 0.5, slots: 8 }]]
    )
    // Registering again without a budget keeps it; null takes it away.
    await bench.run(Agents.register({ goal, agentId: "ada", capabilities: ["node"] }))
    assert.deepEqual((await bench.run(Agents.list({ goal }))).items[0]!.budget, { usd: 2, slots: 9 })
    await bench.run(Agents.register({ goal, agentId: "ada", budget: null }))
    assert.deepEqual((await bench.run(Quota.status({ goal }))).agents, [])
  })

  test("G50 G55 a turn is one attempt and one slot, and its agent's own limits are looked at when it is admitted", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench, { usd: 5, attempts: 5 })
    await bench.run(Agents.register({ goal: goal.id, agentId: "ada", budget: { attempts: 0 } }))
    const mine = await hold(bench, await newTodo(bench, goal))
    const error = await bench.fails(Turns.admit({ goal: goal.id, agent: "ada", fence: mine.fence, bound: { usd: 1 } }))
    assert.deepInclude(error as object, { code: "QUOTA_EXCEEDED", agent: "ada", meter: "attempts", limit: 0 })
    const his = await hold(bench, await newTodo(bench, goal), "bob")
    await bench.run(Turns.admit({ goal: goal.id, agent: "bob", fence: his.fence, bound: { usd: 1 } }))
    assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).reserved, { usd: 1, slots: 1, attempts: 1 })
  })
})

describe("a window", () => {
  test("G52 C60 both ends are inclusive, and what is dated ahead counts after the clock was set back", async () => {
    const bench = await newBench()
    const goal = (await newGoal(bench, { usd: 10, windowMs: 1000 })).id
    const start = bench.now
    await bench.run(spend(goal, "first", 1))
    bench.now = start + 1000
    await bench.run(spend(goal, "last", 2))
    assert.equal(await spentUsd(bench, goal), 3)
    assert.deepEqual((await bench.run(Quota.status({ goal }))).window, { ms: 1000, from: start, to: start + 1000 })
    bench.now = start + 1001
    assert.equal(await spentUsd(bench, goal), 2)
    bench.now = start + 2000
    assert.equal(await spentUsd(bench, goal), 2)
    await bench.run(spend(goal, "ahead", 4))
    // A process whose clock is a second behind, and which has seen none of this: nothing is hidden from it.
    const other = await newBench({ directory: bench.directory, now: () => start })
    assert.equal(await spentUsd(other, goal), 6)
    bench.now = start + 3001
    assert.equal(await spentUsd(bench, goal), 0)
  })

  test("G52 G55 a reservation is held for as long as it is open, also when the window has passed it", async () => {
    const bench = await newBench()
    const goal = (await newGoal(bench, { usd: 3, windowMs: 1000 })).id
    const held = await bench.run(Quota.reserve({ goal, effectId: "long", bound: { usd: 2 } }))
    bench.now += 5000
    const over = { goal, effectId: "more", bound: { usd: 1.5 } }
    assert.equal(await codeOf(bench, Quota.reserve(over)), "QUOTA_EXCEEDED")
    await bench.run(Quota.spend({ goal, effectId: "long", reservation: held.id, spend: { usd: "unknown" } }))
    bench.now += 5000
    assert.equal(await codeOf(bench, Quota.reserve(over)), "QUOTA_EXCEEDED")
    await bench.run(Quota.trueUp({ reservation: held.id, usd: 1 }))
    assert.equal(await codeOf(bench, Quota.reserve(over)), "ok")
  })

  test("G52 C59 a void nets only the spend that it names: out of the window, twice, unknown, never below zero", async () => {
    const bench = await newBench()
    const goal = (await newGoal(bench, { usd: 10, windowMs: 1000 })).id
    const old = await bench.run(spend(goal, "old", 5))
    bench.now += 2000
    const recent = await bench.run(spend(goal, "recent", 1))
    const voided = await bench.run(Quota.void({ reservation: old.id, reason: "billed twice", commandId: "v" }))
    // The spend had left the window: taking it back gives nothing back a second time.
    assert.equal(await spentUsd(bench, goal), 1)
    assert.deepEqual(
      [voided.event, voided.aggregate.before.spent.usd, voided.aggregate.after.spent.usd],
      [{ kind: "void", reserved: { usd: 0, slots: 0 }, spent: { usd: -5, slots: 0 } }, 1, 1]
    )
    assert.isTrue(
      (await bench.run(Quota.void({ reservation: old.id, reason: "billed twice", commandId: "v" }))).replayed
    )
    assert.equal(await codeOf(bench, Quota.void({ reservation: old.id, reason: "again" })), "RESERVATION_CLOSED")
    assert.equal(await codeOf(bench, Quota.void({ reservation: "rsv_none", reason: "r" })), "NOT_FOUND")
    assert.equal(await spentUsd(bench, goal), 1)
    await bench.run(Quota.void({ reservation: recent.id, reason: "r" }))
    assert.equal(await spentUsd(bench, goal), 0)
  })

  test("G57 C70 a receipt states its event apart from the aggregate, which falls by itself and gives nothing back", async () => {
    const bench = await newBench()
    const goal = (await newGoal(bench, { usd: 10, windowMs: 1000 })).id
    const first = await bench.run(spend(goal, "first", 6, { slots: 1 }))
    assert.deepEqual(first.event, {
      kind: "spend",
      reserved: { usd: 0, slots: 0 },
      spent: { usd: 6, slots: 1 }
    })
    bench.now += 1001
    const second = await bench.run(Quota.spend({ goal, effectId: "second", spend: { usd: 1 }, commandId: "s" }))
    assert.equal(second.event.spent.usd, 1)
    assert.deepEqual(
      [second.aggregate.before.spent.usd, second.aggregate.after.spent.usd, second.aggregate.window],
      [0, 1, { ms: 1000, from: bench.now - 1000, to: bench.now }]
    )
    bench.now += 5000
    const again = await bench.run(Quota.spend({ goal, effectId: "second", spend: { usd: 1 }, commandId: "s" }))
    assert.deepEqual([again.replayed, again.event, again.aggregate], [true, second.event, second.aggregate])
    const { items } = await bench.run(Quota.history({ goal }))
    assert.deepEqual(
      items.map((item) => item.change.spent.usd),
      [6, 1]
    )
  })

  test("G50 G52 G53 after any order of costs, voids and waiting, admission, status and history agree with a model of the window", async () => {
    const random = seed()
    const windowMs = 100
    const step = fc.record({
      op: fc.constantFrom("spend", "spend", "reserve", "settle", "void", "wait", "wait"),
      cents: fc.integer({ min: 0, max: 400 }),
      ms: fc.constantFrom(0, 1, 49, 50, 99, 100, 101),
      pick: fc.nat(20)
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const bench = await newBench({ durability: "disposable" })
        const goal = (await newGoal(bench, { usd: 10, windowMs })).id
        const model: { id: string; effect: string; held: number; spent: number; at: number; state: string }[] = []
        const sum = (of: (entry: (typeof model)[number]) => number) => model.reduce((all, entry) => all + of(entry), 0)
        const inWindow = () => sum((entry) => (entry.at >= bench.now - windowMs ? entry.spent : 0))
        for (const { op, cents, ms, pick } of steps) {
          const target = model[pick % Math.max(1, model.length)]
          const effect = `e${model.length}`
          if (op === "wait") bench.now += ms
          else if (op === "spend") {
            const { id } = await bench.run(spend(goal, effect, cents / 100))
            model.push({ id, effect, held: 0, spent: cents, at: bench.now, state: "spent" })
          } else if (op === "reserve") {
            const asked = Quota.reserve({ goal, effectId: effect, bound: { usd: cents / 100 } })
            const result = await bench.run(Effect.result(asked))
            assert.equal(Result.isSuccess(result), inWindow() + sum((entry) => entry.held) + cents <= 1000)
            if (Result.isSuccess(result))
              model.push({ id: result.success.id, effect, held: cents, spent: 0, at: bench.now, state: "open" })
          } else if (op === "settle" && target?.state === "open") {
            await bench.run(
              Quota.spend({ goal, effectId: target.effect, reservation: target.id, spend: { usd: cents / 100 } })
            )
            Object.assign(target, { held: 0, spent: cents, at: bench.now, state: "spent" })
          } else if (op === "void" && target !== undefined && target.state !== "void") {
            await bench.run(Quota.void({ reservation: target.id, reason: "r" }))
            Object.assign(target, { held: 0, spent: 0, state: "void" })
          }
          const status = await bench.run(Quota.status({ goal }))
          const held = sum((entry) => entry.held)
          assert.deepEqual(
            [Math.round(status.spent.usd * 100), Math.round(status.reserved.usd * 100)],
            [inWindow(), held]
          )
          assert.equal(Math.round(status.remaining.usd! * 100), Math.max(0, 1000 - inWindow() - held))
          const { totals } = await bench.run(Quota.history({ goal }))
          assert.deepEqual(
            [totals.spent, totals.reserved, totals.remaining],
            [status.spent, status.reserved, status.remaining]
          )
        }
        await bench.store.close()
      }),
      { seed: random, numRuns: 15 }
    )
  }, 60_000)
})
