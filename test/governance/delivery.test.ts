import * as Effect from "effect/Effect"
import { assert, describe, test } from "vitest"
import { Deliveries, type DeliveryRecord, Goals, Settlements, Todos } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

const origin = { destination: "room-7", channel: "chat", requestId: "q-1" }
const elsewhere = { ...origin, destination: "room-8" }

const types = async (bench: Bench, after = 0) =>
  (await bench.store.journal({ after, limit: 1000 })).map((entry) => entry.type)

/** A todo that was asked for and completed, and its delivery. */
const delivered = async (options: { readonly origin?: typeof origin | null } = {}) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal, { origin: options.origin === undefined ? origin : options.origin })
  const done = await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  const get = () => bench.run(Deliveries.get({ delivery: done.delivery! }))
  return { bench, goal, todo, done, delivery: done.delivery!, get }
}

describe("origin", () => {
  test("G90 it is set once, at the making or later; the same again writes nothing, another is refused until it is changed by name", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const asked = await newTodo(bench, goal, { origin })
    assert.deepEqual(asked.origin, origin)
    const plain = await newTodo(bench, goal)
    assert.equal(plain.origin, null)
    const set = await bench.run(Deliveries.setOrigin({ todo: plain.id, origin }))
    assert.deepEqual([set.origin, set.revision], [origin, 2])
    const before = (await types(bench)).length
    assert.equal((await bench.run(Deliveries.setOrigin({ todo: plain.id, origin }))).revision, 2)
    for (const todo of [asked, plain]) {
      const refused = await bench.fails(Deliveries.setOrigin({ todo: todo.id, origin: elsewhere }))
      assert.deepInclude(refused, { code: "IDENTITY_CONFLICT", kind: "origin", id: todo.id })
    }
    // An edit is no way around it.
    const edit = { todo: plain.id, revision: 2, origin: elsewhere } as never
    assert.equal((await bench.fails(Todos.edit(edit))).code, "INVALID_INPUT")
    assert.equal((await types(bench)).length, before)
    await bench.run(Todos.edit({ todo: plain.id, revision: 2, title: "Find it" }))
    assert.deepEqual((await bench.run(Todos.get({ todo: plain.id }))).origin, origin)
  })

  test("G90 changing it names the revision and has a receipt, which a repetition gives again", async () => {
    const bench = await newBench()
    const todo = await newTodo(bench, await newGoal(bench), { origin })
    const change = { commandId: "c", todo: todo.id, revision: 1, origin: elsewhere, reason: "she moved" }
    const receipt = await bench.run(Deliveries.changeOrigin(change))
    assert.deepInclude(receipt, { from: origin, to: elsewhere, revision: 2, withdrawn: [], accepted: [] })
    assert.deepEqual(await bench.run(Deliveries.changeOrigin(change)), { ...receipt, replayed: true })
    const stale = await bench.fails(Deliveries.changeOrigin({ ...change, commandId: "d" }))
    assert.deepInclude(stale, { code: "REVISION_CONFLICT", actual: 2 })
    assert.equal((await types(bench)).filter((type) => type === "todo.originChanged").length, 1)
  })

  test("G90 what takes the place of a todo answers the same request; what follows it does not", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const first = await newTodo(bench, goal, { origin })
    const { replacements } = await bench.run(
      Todos.supersede({ todo: first.id, reason: "split", replacements: [{ title: "a" }, { title: "b", origin: null }] })
    )
    assert.deepEqual(
      replacements.map((todo) => todo.origin),
      [origin, null]
    )
    const done = await bench.run(
      Todos.complete({
        todo: replacements[0]!.id,
        continuation: { kind: "successors", todos: [{ title: "c" }, { title: "d", origin: elsewhere }] }
      })
    )
    assert.deepEqual(
      done.successors.map((todo) => todo.origin),
      [null, elsewhere]
    )
  })

  test("G90 G6 an origin that holds a credential or a path of a machine is refused", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    for (const destination of ["Bearer abcdefghijklmnopqrstuvwxyz", "/home/ada/inbox"]) {
      const refused = await bench.fails(Todos.add({ goal: goal.id, title: "t", origin: { ...origin, destination } }))
      assert.equal(refused.code, "NOT_PUBLIC")
    }
  })
})

describe("a result", () => {
  test("G91 is accepted for delivery in the commit that settles or completes its work, with its cost, once; work without an origin has none", async () => {
    const { bench, goal, todo, done, get } = await delivered()
    assert.deepInclude(await get(), { state: "accepted", todo: todo.id, origin, attempts: 0 })
    assert.deepInclude((await get()).result, { outcome: "completed", accepted: false, todoState: "done" })
    const commit = (await bench.store.journal({ after: 0, limit: 1000 })).slice(-3)
    assert.deepEqual(
      commit.map(({ type, command }) => [type, command === commit[0]!.command]),
      [
        ["todo.completed", true],
        ["quota.spend", true],
        ["delivery.accepted", true]
      ]
    )
    assert.equal(done.owed.length, 1)
    assert.equal((await delivered({ origin: null })).done.delivery, undefined)

    const next = await newTodo(bench, goal, { origin: elsewhere })
    const { fence } = await hold(bench, next)
    const settle = {
      effectId: "e",
      goal: goal.id,
      fence,
      outcome: "failed",
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "keep" }
    } as const
    // A result that leaves the todo open and is not accepted is nobody's answer.
    assert.equal((await bench.run(Settlements.settle(settle))).delivery, undefined)
    const last = {
      ...settle,
      effectId: "f",
      todo: { action: "complete", continuation: { kind: "noFollowUp" } }
    } as const
    const settled = await bench.run(Settlements.settle(last))
    assert.deepEqual((await bench.run(Settlements.settle(last))).delivery, settled.delivery)
    const { items } = await bench.run(Deliveries.list({ goal: goal.id, todo: next.id }))
    assert.deepEqual(
      items.map(({ id, result }) => [id, result.outcome, result.spend.usd, result.effectId]),
      [[settled.delivery, "failed", 0.5, "f"]]
    )
    const open = await bench.run(Deliveries.undelivered({}))
    assert.equal(open.items.length, 2)
    assert.equal((await bench.run(Deliveries.undelivered({ limit: 1 }))).more, true)
    assert.deepEqual((await bench.run(Goals.get({ goal: goal.id }))).undelivered, {
      count: 2,
      ids: open.items.map(({ id }) => id).toSorted()
    })
  })

  test("G91 a list of no sensible length is refused, never answered with nothing", async () => {
    const { bench, goal } = await delivered()
    for (const limit of [-1, 0, 0.5, Number.NaN, 1e308, "9", null]) {
      const input = { goal: goal.id, limit } as { goal: string; limit: number }
      for (const list of [Deliveries.list(input), Deliveries.undelivered(input)]) {
        assert.equal((await bench.fails(list)).code, "INVALID_INPUT")
      }
    }
  })

  test("G91 accepted, dispatched, unknown, confirmed and read are facts of their own; a repetition writes none", async () => {
    const { bench, delivery, get } = await delivered()
    const from = (await types(bench)).length
    const dispatch = { delivery, provider: "chat" }
    assert.equal((await bench.fails(Deliveries.readByUser({ delivery }))).code, "DELIVERY_STATE")
    const early = { delivery, attempt: 1, outcome: "confirmed", by: "person" } as const
    assert.equal((await bench.fails(Deliveries.resolve(early))).code, "DELIVERY_STATE")
    await bench.run(Deliveries.dispatch({ ...dispatch, commandId: "first" }))
    assert.equal((await bench.run(Deliveries.dispatch({ ...dispatch, commandId: "first" }))).replayed, true)
    // A second sending needs its reason, and the provider that began it.
    assert.equal((await bench.fails(Deliveries.dispatch(dispatch))).code, "INVALID_INPUT")
    const other = await bench.fails(Deliveries.dispatch({ ...dispatch, provider: "mail", retry: "again" }))
    assert.equal(other.code, "IDENTITY_CONFLICT")
    const end = { delivery, attempt: 1, by: "reply" } as const
    await bench.run(Deliveries.resolve({ ...end, outcome: "unknown", reason: "no answer" }))
    // That it is not there is found out by reading back or by a person, never by a late word of nobody.
    for (const outcome of ["refused", "notSent"] as const) {
      assert.equal((await bench.fails(Deliveries.resolve({ ...end, outcome }))).code, "DELIVERY_STATE")
    }
    await bench.run(Deliveries.resolve({ ...end, by: "readBack", outcome: "confirmed", receipt: "m-1" }))
    assert.equal((await bench.run(Deliveries.resolve({ ...end, outcome: "confirmed" }))).replayed, true)
    await bench.run(Deliveries.readByUser({ delivery }))
    assert.equal((await bench.run(Deliveries.readByUser({ delivery }))).replayed, true)
    assert.deepEqual((await types(bench)).slice(from), [
      "delivery.dispatched",
      "delivery.unknown",
      "delivery.confirmed",
      "delivery.readByUser"
    ])
    assert.deepInclude(await get(), { state: "confirmed", receipt: "m-1", resolvedBy: "readBack", attempts: 1 })
    assert.notEqual((await get()).readAt, null)
  })

  test("G91 a reply of an earlier sending confirms, and says nothing else of the later one; who has read it has got it", async () => {
    const { bench, delivery, get } = await delivered()
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat", retry: "the receiver keeps one" }))
    const late = { delivery, attempt: 1, by: "reply" } as const
    for (const outcome of ["refused", "unknown", "notSent"] as const) {
      assert.equal((await bench.fails(Deliveries.resolve({ ...late, outcome }))).code, "DELIVERY_STATE")
    }
    await bench.run(Deliveries.resolve({ ...late, outcome: "confirmed" }))
    assert.equal((await get()).state, "confirmed")

    const second = await delivered()
    await second.bench.run(Deliveries.dispatch({ delivery: second.delivery, provider: "chat" }))
    const from = (await types(second.bench)).length
    await second.bench.run(Deliveries.readByUser({ delivery: second.delivery }))
    assert.deepEqual((await types(second.bench)).slice(from), ["delivery.confirmed", "delivery.readByUser"])
    assert.deepInclude(await second.get(), { state: "confirmed", resolvedBy: "reader" })
  })

  test("G91 that a later sending did not arrive says nothing of an earlier one that may have: it stays unknown, and goes nowhere else", async () => {
    for (const outcome of ["notSent", "refused"] as const) {
      const { bench, todo, delivery, get } = await delivered()
      const end = { delivery, by: "reply" } as const
      await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
      await bench.run(Deliveries.resolve({ ...end, attempt: 1, outcome: "unknown", reason: "no answer" }))
      await bench.run(Deliveries.dispatch({ delivery, provider: "chat", retry: "the receiver keeps one" }))
      await bench.run(Deliveries.resolve({ ...end, attempt: 2, outcome, reason: "no connection" }))
      assert.deepInclude(await get(), { state: "unknown", earlierOpen: true, reason: "no connection" })
      const moved = { todo: todo.id, revision: 2, origin: elsewhere, reason: "she moved" }
      assert.equal((await bench.fails(Deliveries.changeOrigin(moved))).code, "DELIVERY_UNRESOLVED")
      const other = { delivery, provider: "mail", retry: "another way" }
      assert.equal((await bench.fails(Deliveries.dispatch(other))).code, "IDENTITY_CONFLICT")
      assert.equal((await bench.fails(Deliveries.withdraw({ delivery, reason: "no more" }))).code, "DELIVERY_STATE")
      // Reading back is about the message, whichever sending brought it.
      await bench.run(Deliveries.resolve({ ...end, by: "readBack", attempt: 2, outcome }))
      assert.deepInclude(await get(), { state: outcome === "notSent" ? "accepted" : "refused", earlierOpen: false })
      assert.equal((await bench.run(Deliveries.changeOrigin(moved))).withdrawn.length, 1)
    }
  })

  test("G91 a late confirmation is kept in whatever state it comes; what went out in place of the result and was not sent yet is withdrawn", async () => {
    const { bench, todo, delivery, get } = await delivered()
    const late = { delivery, attempt: 1, by: "reply", outcome: "confirmed", receipt: "m-1" } as const
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
    await bench.run(Deliveries.resolve({ delivery, attempt: 1, by: "person", outcome: "refused" }))
    const change = { todo: todo.id, revision: 2, origin: elsewhere, reason: "she moved" }
    const { accepted } = await bench.run(Deliveries.changeOrigin(change))
    const from = (await types(bench)).length
    await bench.run(Deliveries.resolve(late))
    assert.deepInclude(await get(), { state: "confirmed", receipt: "m-1", attempts: 1 })
    assert.equal((await bench.run(Deliveries.get({ delivery: accepted[0]! }))).state, "withdrawn")
    assert.deepEqual((await types(bench)).slice(from), ["delivery.confirmed", "delivery.withdrawn"])

    for (const outcome of ["refused", "notSent", "unknown"] as const) {
      const again = await delivered()
      const said = { delivery: again.delivery, attempt: 1, by: "reply" } as const
      await again.bench.run(Deliveries.dispatch({ delivery: again.delivery, provider: "chat" }))
      await again.bench.run(Deliveries.resolve({ ...said, outcome }))
      await again.bench.run(Deliveries.resolve({ ...said, outcome: "confirmed" }))
      assert.equal((await again.get()).state, "confirmed")
    }
  })

  test("G90 G91 its destination stays while its fate is open; what surely is not there is taken to another one under another id", async () => {
    const { bench, goal, todo, delivery, get } = await delivered()
    const change = async (to: typeof origin) => {
      const { revision } = await bench.run(Todos.get({ todo: todo.id }))
      return Deliveries.changeOrigin({ todo: todo.id, revision, origin: to, reason: "she moved" })
    }
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
    const end = { delivery, attempt: 1 } as const
    const held = await bench.fails(await change(elsewhere))
    assert.deepInclude(held, { code: "DELIVERY_UNRESOLVED", deliveries: [delivery] })
    await bench.run(Deliveries.resolve({ ...end, by: "reply", outcome: "unknown" }))
    assert.equal((await bench.fails(await change(elsewhere))).code, "DELIVERY_UNRESOLVED")
    await bench.run(Deliveries.resolve({ ...end, by: "readBack", outcome: "refused" }))
    const moved = await bench.run(await change(elsewhere))
    assert.deepEqual([moved.withdrawn, moved.accepted.length], [[delivery], 1])
    assert.deepInclude(await get(), { state: "withdrawn", origin })
    const [again] = (await bench.run(Deliveries.undelivered({ goal: goal.id }))).items
    assert.deepEqual([again!.id, again!.origin, again!.result], [moved.accepted[0], elsewhere, (await get()).result])
    assert.equal((await bench.fails(Deliveries.dispatch({ delivery, provider: "chat" }))).code, "DELIVERY_STATE")
    // What was delivered stays where it is.
    await bench.run(Deliveries.dispatch({ delivery: again!.id, provider: "chat" }))
    await bench.run(Deliveries.resolve({ delivery: again!.id, attempt: 1, by: "reply", outcome: "confirmed" }))
    assert.deepEqual((await bench.run(await change(origin))).withdrawn, [])
  })

  test("G12 G90 below a completed goal an origin is not changed any more: what were accepted anew would never be sent", async () => {
    const { bench, goal, todo, delivery } = await delivered()
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
    await bench.run(Deliveries.resolve({ delivery, attempt: 1, by: "reply", outcome: "refused" }))
    await bench.run(Goals.complete({ goal: goal.id, closure: { reason: "done" } }))
    const change = { todo: todo.id, revision: 2, origin: elsewhere, reason: "she moved" }
    assert.deepInclude(await bench.fails(Deliveries.changeOrigin(change)), {
      code: "GOAL_NOT_ACTIVE",
      state: "completed"
    })
    assert.deepEqual((await bench.run(Goals.frontier({ goal: goal.id }))).parts, [])
  })

  test("G10 G91 below a paused or stopped goal nothing is dispatched; what has happened is written down all the same", async () => {
    const { bench, goal, delivery } = await delivered()
    await bench.run(Deliveries.dispatch({ delivery, provider: "chat" }))
    await bench.run(Goals.pause({ goal: goal.id }))
    const again = { delivery, provider: "chat", retry: "again" }
    assert.deepInclude(await bench.fails(Deliveries.dispatch(again)), { code: "GOAL_NOT_ACTIVE", state: "paused" })
    await bench.run(Deliveries.resolve({ delivery, attempt: 1, by: "reply", outcome: "confirmed" }))
    await bench.run(Deliveries.readByUser({ delivery }))
    const stopped = await delivered()
    await stopped.bench.run(Goals.stop({ goal: stopped.goal.id }))
    const first = { delivery: stopped.delivery, provider: "chat" }
    assert.equal((await stopped.bench.fails(Deliveries.dispatch(first))).code, "GOAL_NOT_ACTIVE")
  })

  test("G91 in any order of sendings, ends, readings and changes each id has one destination, one content and one decided end", async () => {
    const random = randomOf(seed())
    const { bench, todo, delivery } = await delivered()
    const seen = new Map<string, DeliveryRecord>()
    const ids = [delivery]
    const pick = <A>(from: readonly A[]): A => from[Math.floor(random() * from.length)]!
    for (let step = 0; step < 150; step++) {
      const id = pick(ids)
      const old = await bench.run(Deliveries.get({ delivery: id }))
      const attempt = pick([old.attempts, old.attempts, old.attempts - 1, old.attempts + 1])
      const { revision } = await bench.run(Todos.get({ todo: todo.id }))
      const moves: readonly (() => Effect.Effect<unknown, unknown, any>)[] = [
        () => Deliveries.dispatch({ delivery: id, provider: "chat", retry: "again" }),
        () =>
          Deliveries.resolve({
            delivery: id,
            attempt,
            by: pick(["reply", "readBack", "person"]),
            outcome: pick(["confirmed", "unknown", "refused", "notSent", "notSent"])
          }),
        () => Deliveries.readByUser({ delivery: id }),
        () => Deliveries.withdraw({ delivery: id, reason: "no more" }),
        () => Deliveries.changeOrigin({ todo: todo.id, revision, origin: pick([origin, elsewhere]), reason: "moved" })
      ]
      await bench.run(Effect.result(pick(moves)() as Effect.Effect<unknown, unknown, never>))
      const { items } = await bench.run(Deliveries.list({ goal: old.goal }))
      for (const item of items) {
        const before = seen.get(item.id)
        if (before !== undefined) {
          assert.deepEqual([item.origin, item.result], [before.origin, before.result])
          assert.isAtLeast(item.attempts, before.attempts)
          if (before.state === "confirmed") assert.equal(item.state, before.state)
          // That it arrived may become known later than that it did not.
          if (before.state === "withdrawn") assert.include(["withdrawn", "confirmed"], item.state)
          if (before.state === "refused") assert.include(["refused", "withdrawn", "confirmed"], item.state)
          if (before.readAt !== null) assert.equal(item.readAt, before.readAt)
        } else if (!ids.includes(item.id)) ids.push(item.id)
        if (item.readAt !== null) assert.equal(item.state, "confirmed")
        seen.set(item.id, item)
      }
      // One result has at most one live way: what is accepted or under way is at one id only.
      assert.isAtMost(items.filter(({ state }) => state !== "withdrawn" && state !== "confirmed").length, 1)
    }
  })
})

/** Mulberry32. */
const randomOf = (from: number) => {
  let state = from
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
