import * as Effect from "effect/Effect"
import { assert, describe, test } from "vitest"
import { normaliseUsage, type ReportedUsage } from "../../src/base/TokenUsage.ts"
import { Agents, Goals, Quota, Settlements, Turns } from "../../src/governance/index.ts"
import { hold, newBench, newGoal, newTodo, seed } from "./authority.ts"
import { checkInvariants } from "./invariants.ts"

const k = (known: number, unknown = 0) => ({ known, unknown })

describe("what a provider reports, in four disjoint buckets", () => {
  const cases: readonly (readonly [name: string, reported: readonly ReportedUsage[], expected: object])[] = [
    [
      "cached tokens inside the input are taken out of it",
      [{ cached: "inInput", input: 100, cacheRead: 60, cacheWrite: 10, output: 7 }],
      { inputUncached: k(30), cacheRead: k(60), cacheWrite: k(10), output: k(7), total: k(107) }
    ],
    [
      "cached tokens apart are added to it",
      [{ cached: "apart", input: 30, cacheRead: 60, cacheWrite: 10, output: 7 }],
      { inputUncached: k(30), cacheRead: k(60), cacheWrite: k(10), output: k(7), total: k(107) }
    ],
    [
      "what is missing is unknown and not zero; a sum may be known where its parts are not",
      [{ cached: "inInput", input: 100, output: 7 }],
      { inputUncached: k(0, 1), cacheRead: k(0, 1), cacheWrite: k(0, 1), output: k(7), total: k(107) }
    ],
    [
      "apart, what is missing of the cache leaves the sum unknown",
      [{ cached: "apart", input: 30, cacheRead: 60, output: 7 }],
      { inputUncached: k(30), cacheRead: k(60), cacheWrite: k(0, 1), output: k(7), total: k(0, 1) }
    ],
    [
      "one message that does not say leaves the others' tokens a lower bound",
      [{ cached: "apart", input: 1, cacheRead: 2, cacheWrite: 3, output: 4 }, { cached: "apart" }],
      { inputUncached: k(1, 1), output: k(4, 1), total: k(10, 1), messages: 2 }
    ],
    [
      "a zero that is said is a zero",
      [{ cached: "apart", input: 0, cacheRead: 0, cacheWrite: 0, output: 0 }],
      { inputUncached: k(0), total: k(0), messages: 1 }
    ],
    [
      "more cached than there was contradicts itself: nothing of it is known, nothing is negative",
      [{ cached: "inInput", input: 10, cacheRead: 60, cacheWrite: 0, output: 7 }],
      { inputUncached: k(0, 1), cacheRead: k(0, 1), output: k(0, 1), total: k(0, 1), inconsistent: 1 }
    ],
    [
      "a message that is told of again counts once, by its last account; what that leaves out stays",
      [
        { id: "m", cached: "apart", input: 5, cacheRead: 0, cacheWrite: 0, output: 1 },
        { id: "m", cached: "apart", output: 9 },
        { id: "n", cached: "apart", input: 1, cacheRead: 0, cacheWrite: 0, output: 1 }
      ],
      { inputUncached: k(6), output: k(10), total: k(16), messages: 2, repeated: 1, keys: ["/m", "/n"] }
    ],
    [
      "equal ids of two providers are two messages, and messages without an id cannot be told apart",
      [
        { id: "m", provider: "a", cached: "apart", output: 1 },
        { id: "m", provider: "b", cached: "apart", output: 1 },
        { cached: "apart", output: 1 },
        { cached: "apart", output: 1 }
      ],
      { output: k(4), messages: 4, repeated: 0 }
    ],
    ["no message is nothing, and that is known", [], { total: k(0), output: k(0), messages: 0 }]
  ]
  for (const [name, reported, expected] of cases) {
    test(`G56 C69 ${name}`, () => assert.deepInclude(normaliseUsage(reported), expected as never))
  }

  test("G56 C69 a message that counted before adds nothing, whatever it says now", () => {
    const again = normaliseUsage([{ id: "m", provider: "a", cached: "apart", output: 99 }], new Set(["a/m"]))
    assert.deepInclude(again, { output: k(0), total: k(0), messages: 0, repeated: 1, keys: [] })
  })

  test("G56 C69 over random reports no token is in two buckets, none is lost, and the order of messages changes nothing", () => {
    let state = seed()
    const below = (n: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return Math.floor((state / 2 ** 32) * n)
    }
    for (let round = 0; round < 300; round++) {
      const truth = Array.from({ length: 1 + below(6) }, () => [below(50), below(50), below(50), below(50)] as const)
      const reported = truth.map(([uncached, cacheRead, cacheWrite, output], index): ReportedUsage => {
        const cached = below(2) === 0 ? ("inInput" as const) : ("apart" as const)
        const input = cached === "apart" ? uncached : uncached + cacheRead + cacheWrite
        return { id: `m${index}`, cached, input, cacheRead, cacheWrite, output }
      })
      const sum = (at: 0 | 1 | 2 | 3) => truth.reduce((all, message) => all + message[at], 0)
      const used = normaliseUsage([...reported, ...reported].toReversed())
      assert.deepEqual(
        [used.inputUncached, used.cacheRead, used.cacheWrite, used.output, used.total],
        [k(sum(0)), k(sum(1)), k(sum(2)), k(sum(3)), k(sum(0) + sum(1) + sum(2) + sum(3))]
      )
      assert.equal(used.repeated, truth.length)
    }
  })
})

const message = (id: string, output: number, more: Partial<ReportedUsage> = {}): ReportedUsage => ({
  id,
  provider: "p",
  cached: "apart",
  input: 10,
  cacheRead: 0,
  cacheWrite: 0,
  output,
  ...more
})

const turned = async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 10, slots: 10, tokens: 1000 })
  const run = async (usage: readonly ReportedUsage[] | undefined, usd: number | "unknown" = 0.5) => {
    const { fence } = await hold(bench, await newTodo(bench, goal))
    const bound = { usd: 1, tokens: 300 }
    const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
    await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
    const result = {
      status: "failed",
      claim: null,
      summary: "s",
      failure: { class: "rateLimited", check: "reported" },
      digest: null,
      usd,
      wallMs: 1,
      provenGone: null
    } as const
    const record = { commandId: `result-${turn.id}`, turn: turn.id, result, ...(usage === undefined ? {} : { usage }) }
    const recorded = await bench.run(Turns.recordResult(record))
    assert.deepEqual((await bench.run(Turns.recordResult(record))).usage, recorded.usage)
    await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "it failed" }))
    await bench.run(
      Settlements.settle({
        effectId: turn.effectId,
        goal: goal.id,
        fence,
        turn: turn.id,
        outcome: "failed",
        evidence: [],
        spend: {
          usd,
          ...(typeof recorded.usage?.total === "number" ? { tokens: recorded.usage.total } : {})
        },
        todo: { action: "keep", release: true }
      })
    )
    await bench.run(Turns.close({ turn: turn.id }))
    return recorded
  }
  const usage = async (scope: object = {}) => (await bench.run(Quota.usage({ goal: goal.id, ...scope }))).figures
  return { bench, goal, run, usage }
}

test("G56 C69 a provider's message counts once in a goal, across turns and replays; the tokens meter is settled from what is known", async () => {
  const { bench, goal, run, usage } = await turned()
  const spent = async () => (await bench.run(Quota.status({ goal: goal.id }))).spent.tokens
  await run([message("m1", 20), message("m2", 30)])
  assert.equal(await spent(), 70)
  // The next turn tells of a message of the first again.
  const second = await run([message("m2", 30), message("m3", 5)])
  assert.deepEqual(second.usage, { total: 15, messages: 1, repeated: 1 })
  assert.equal(await spent(), 85)
  assert.deepInclude(await usage(), { total: k(85), output: k(55), messages: 3, reports: 2, unreported: 0 })
  // One that nobody reported, and one of which a part is missing: what was held for them counts, none is zero.
  await run(undefined)
  assert.equal(await spent(), 385)
  const { cacheWrite: _, ...partial } = message("m4", 1)
  assert.deepEqual((await run([partial])).usage, { total: null, messages: 1, repeated: 0 })
  assert.equal(await spent(), 685)
  assert.deepInclude(await usage(), { total: k(85, 1), output: k(56), cacheWrite: k(0, 1), reports: 3, unreported: 1 })
  // Another goal has its own messages: a host of one cannot hide tokens of the other behind ids.
  const other = await newGoal(bench, { usd: 1, tokens: 100 })
  await bench.run(Quota.spend({ goal: other.id, effectId: "e", spend: { usd: 0 }, usage: [message("m1", 20)] }))
  assert.equal((await bench.run(Quota.status({ goal: other.id }))).spent.tokens, 30)
})

test("G56 coordinator, workers, evaluator and failed attempts draw on one budget, and every figure says whose it is", async () => {
  const { bench, goal, run } = await turned()
  await run([message("w", 20)])
  const of = { goal: goal.id, spend: { usd: 1 } } as const
  await bench.run(Agents.register({ goal: goal.id, agentId: "lead" }))
  await bench.run(
    Quota.spend({ ...of, effectId: "plan", role: "coordinator", agent: "lead", usage: [message("c", 1)] })
  )
  const held = await bench.run(
    Quota.reserve({ goal: goal.id, effectId: "judge", role: "evaluator", bound: { usd: 3, slots: 0, tokens: 500 } })
  )
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual([status.spent.usd, status.reserved.usd, status.remaining.usd], [1.5, 3, 5.5])
  assert.deepEqual(
    status.roles.map(({ role, goal: whose, spent, reserved, usage }) => [
      role,
      whose,
      spent.usd,
      reserved.usd,
      usage.total.known,
      usage.role
    ]),
    [
      ["coordinator", goal.id, 1, 0, 11, "coordinator"],
      ["worker", goal.id, 0.5, 0, 30, "worker"],
      ["evaluator", goal.id, 0, 3, 0, "evaluator"]
    ]
  )
  assert.deepInclude(status.usage, { goal: goal.id, agent: null, role: null, total: k(41) })
  // What the evaluator holds is not there for a worker.
  const more = { goal: goal.id, effectId: "w2", bound: { usd: 5.6, slots: 1, tokens: 1 } }
  assert.deepInclude(await bench.fails(Quota.reserve(more)), { code: "QUOTA_EXCEEDED", used: 4.5 })
  const judged = { goal: goal.id, effectId: "judge", reservation: held.id, spend: { usd: 0.25 } }
  assert.equal((await bench.run(Quota.spend({ ...judged, usage: [message("j", 2)] }))).role, "evaluator")
  const after = await bench.run(Quota.status({ goal: goal.id }))
  const [sums, parts] = [after.spent, after.roles.map(({ spent }) => spent)]
  assert.equal(
    sums.usd,
    parts.reduce((sum, { usd }) => sum + usd, 0)
  )
  assert.equal(
    sums.tokens,
    parts.reduce((sum, { tokens }) => sum + (tokens ?? 0), 0)
  )
  assert.deepEqual((await bench.run(Quota.usage({ goal: goal.id, agent: "lead" }))).figures.total, k(11))
  assert.deepEqual((await bench.run(Quota.history({ goal: goal.id }))).usage, after.usage)
  const nobody = await bench.fails(Quota.usage({ goal: "goal_none" }))
  assert.equal(nobody.code, "NOT_FOUND")
})

test("G56 G6 a provider's raw record is kept whole where it is short and public, and by its digest always", async () => {
  const { bench, goal } = await turned()
  const spend = (effectId: string, raw: unknown) =>
    Quota.spend({ goal: goal.id, effectId, spend: { usd: 0 }, usage: [message(effectId, 1, { raw })] })
  await bench.run(spend("short", { usage: { output_tokens: 1 } }))
  await bench.run(spend("long", { text: "x".repeat(5000) }))
  await bench.run(spend("secret", { key: "Bearer abcdefghijklmnopqrstuvwxyz" }))
  const { items } = await bench.run(Quota.usage({ goal: goal.id }))
  assert.deepEqual(
    items.map(({ effectId, reported }) => [effectId, (reported?.[0]?.raw as object | undefined) ?? null]).toSorted(),
    [
      ["long", null],
      ["secret", null],
      ["short", { usage: { output_tokens: 1 } }]
    ]
  )
  for (const { digest } of items) assert.match(digest, /^sha256:/)
  assert.notInclude(JSON.stringify(await bench.store.journal({ after: 0, limit: 1000 })), "Bearer")
  const negative = [{ ...message("n", 1), output: -1 }]
  const refused = await bench.fails(Quota.spend({ goal: goal.id, effectId: "n", spend: { usd: 0 }, usage: negative }))
  assert.equal(refused.code, "INVALID_INPUT")
  assert.equal((await bench.run(Effect.result(Goals.get({ goal: goal.id }))))._tag, "Success")
})

test("G51 G53 G56 what a turn used is told once: a spend on its reservation is refused and wipes nothing, and the turn settles", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 10, slots: 10, tokens: 1000 })
  const { fence } = await hold(bench, await newTodo(bench, goal))
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1, tokens: 300 } }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  const usage = [message("m1", 101)]
  const result = {
    status: "ok",
    claim: null,
    summary: "s",
    failure: null,
    digest: null,
    usd: 0.1,
    wallMs: 1,
    provenGone: true
  } as const
  await bench.run(Turns.recordResult({ turn: turn.id, result, usage }))
  const { effectId, reservation } = turn
  const again = Quota.spend({ goal: goal.id, effectId, reservation, spend: { usd: 0.1 }, usage })
  assert.deepInclude(await bench.fails(again), { code: "IDENTITY_CONFLICT", id: effectId })
  assert.deepEqual((await bench.run(Quota.usage({ goal: goal.id }))).figures.total, k(111))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "n" }))
  await bench.run(
    Settlements.settle({
      effectId,
      goal: goal.id,
      turn: turn.id,
      fence,
      outcome: "progress",
      evidence: [],
      spend: { usd: 0.1, tokens: 111 },
      todo: { action: "keep" }
    })
  )
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.tokens, 111)
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test("G52 G56 a spend that is taken back gives its messages back: under the right effect they count", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 10, slots: 10, tokens: 1000 })
  const booked = (effectId: string) =>
    Quota.spend({ goal: goal.id, effectId, spend: { usd: 1 }, usage: [message("m1", 101)] })
  const wrong = await bench.run(booked("wrong"))
  await bench.run(Quota.void({ reservation: wrong.id, reason: "of another effect" }))
  const none = await bench.run(Quota.usage({ goal: goal.id }))
  assert.deepInclude(none.figures, { total: k(0), messages: 0, reports: 0 })
  await bench.run(booked("right"))
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual([status.spent.tokens, status.usage.total], [111, k(111)])
  assert.deepEqual(checkInvariants(bench.directory), [])
})

test("G50 G56 reports of more tokens than anybody uses are inconsistent: they stay unknown, and the goal's sums go on working", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 10, slots: 10 })
  const most = 1_000_000_000_000
  const bogus = Array.from({ length: 1000 }, () => ({
    cached: "apart" as const,
    input: most,
    cacheRead: most,
    cacheWrite: most,
    output: most
  }))
  for (const effectId of ["a", "b", "c"]) {
    await bench.run(Quota.spend({ goal: goal.id, effectId, spend: { usd: 1 }, usage: bogus }))
  }
  const { figures, items } = await bench.run(Quota.usage({ goal: goal.id }))
  assert.deepEqual([figures.total, items.map(({ inconsistent }) => inconsistent)], [k(0, 3000), [1000, 1000, 1000]])
  await bench.run(Quota.reserve({ goal: goal.id, effectId: "d", bound: { usd: 1, slots: 1 } }))
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.tokens ?? 0, 0)
  const honest = normaliseUsage([{ cached: "apart", input: most - 3, cacheRead: 1, cacheWrite: 1, output: 1 }])
  assert.deepEqual([honest.total, honest.inconsistent], [k(most), 0])
})
