/**
 * Todos, goals and settlements against plain models, in random order, with shrinking. Leases, sums and windows have theirs in
 * lease.test.ts, quota.test.ts and window.test.ts.
 */
import * as fc from "fast-check"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { type Authority, type Fence, type Goal, Goals, Quota, Settlements, Todos } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo, seed } from "./authority.ts"
import { checkInvariants } from "./invariants.ts"

interface Answer {
  readonly code: string
  readonly value: any
}

const ask = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<Answer> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isSuccess(result)
    ? { code: "ok", value: result.success }
    : { code: result.failure.code, value: result.failure }
}

interface Real {
  readonly bench: Bench
  readonly goal: Goal
}

type Step<Model extends object> = fc.AsyncCommand<Model, Real>

const step = <Model extends object>(name: string, run: (model: Model, real: Real) => Promise<void>): Step<Model> => ({
  check: () => true,
  async run(model, real) {
    real.bench.now += 1
    await run(model, real)
  },
  toString: () => name
})

/** Runs random sequences of steps, each on a store of its own; after each sequence the whole file is checked. */
const agrees = async <Model extends object>(
  steps: fc.Arbitrary<Step<Model>>[],
  model: () => Model,
  prepare: (real: Real, model: Model) => Promise<void>,
  budget: object = { usd: 100, slots: 100 }
): Promise<void> => {
  await fc.assert(
    fc.asyncProperty(fc.commands<Model, Real, false>(steps, { size: "+1" }), async (commands) => {
      const bench = await newBench({ durability: "disposable" })
      const real = { bench, goal: await newGoal(bench, budget) }
      const first = model()
      await prepare(real, first)
      await fc.asyncModelRun(() => ({ model: first, real }), commands)
      assert.deepEqual(checkInvariants(bench.directory), [])
      await bench.store.close()
    }),
    { seed: seed(), numRuns: 30 }
  )
}

// --- todos -----------------------------------------------------------------------------------------------------------

interface ModelTodo {
  readonly id: string
  state: "open" | "deferred" | "done" | "superseded"
  revision: number
  readonly priority: number
  dependsOn: string[]
  held: boolean
}

interface TodoModel {
  readonly todos: ModelTodo[]
}

const nth = <A>(list: readonly A[], n: number): A | undefined => list[n % Math.max(1, list.length)]
const final = (todo: ModelTodo): boolean => todo.state === "done" || todo.state === "superseded"
const priority = fc.integer({ min: 0, max: 3 })
const fresh = (record: any): ModelTodo => ({
  id: record.id,
  state: "open",
  revision: 1,
  priority: record.priority,
  dependsOn: [...record.dependsOn],
  held: false
})

/** What the store says of every todo, against the model. */
const sameTodos = async (model: TodoModel, { bench, goal }: Real): Promise<void> => {
  const { items } = await bench.run(Todos.list({ goal: goal.id, limit: 1000 }))
  const show = (todo: { id: string; state: string; revision: number; dependsOn: readonly string[] }) =>
    `${todo.id} ${todo.state} ${todo.revision} ${todo.dependsOn.join()}`
  assert.sameMembers(items.map(show), model.todos.map(show))
}

/** A step about the n-th todo, which must answer as the model says. */
const about = (
  name: string,
  call: (id: string) => Effect.Effect<unknown, any, Authority>,
  expect: (todo: ModelTodo) => string,
  change: (todo: ModelTodo, answer: any, model: TodoModel) => void
) =>
  fc.nat(30).map((n) =>
    step<TodoModel>(`${name} ${n}`, async (model, real) => {
      const todo = nth(model.todos, n)
      if (todo === undefined) return
      const { code, value } = await ask(real.bench, call(todo.id))
      assert.equal(code, expect(todo))
      if (code === "ok") change(todo, value, model)
      await sameTodos(model, real)
    })
  )

const out = (allowed: (todo: ModelTodo) => boolean) => (todo: ModelTodo) =>
  todo.held ? "LEASE_HELD" : allowed(todo) ? "ok" : "TODO_STATE"

const todoSteps: fc.Arbitrary<Step<TodoModel>>[] = [
  fc.tuple(priority, fc.option(fc.nat(30))).map(([level, n]) =>
    step<TodoModel>(`add ${level} after ${n}`, async (model, real) => {
      const before = n === null ? undefined : nth(model.todos, n)
      const dependsOn = before === undefined ? [] : [before.id]
      if (before?.state === "superseded") {
        const waiting = Todos.add({ goal: real.goal.id, title: "never ready", dependsOn })
        assert.equal((await ask(real.bench, waiting)).code, "TODO_STATE")
      } else model.todos.push(fresh(await newTodo(real.bench, real.goal, { priority: level, dependsOn })))
      await sameTodos(model, real)
    })
  ),
  fc.tuple(fc.nat(30), fc.boolean()).map(([n, stale]) =>
    step<TodoModel>(`edit ${n}${stale ? " with a stale revision" : ""}`, async (model, real) => {
      const todo = nth(model.todos, n)
      if (todo === undefined) return
      const revision = todo.revision - (stale ? 1 : 0)
      const { code } = await ask(real.bench, Todos.edit({ todo: todo.id, revision, title: "another" }))
      assert.equal(code, stale ? "REVISION_CONFLICT" : final(todo) ? "TODO_STATE" : "ok")
      if (code === "ok") todo.revision += 1
      await sameTodos(model, real)
    })
  ),
  about(
    "defer",
    (todo) => Todos.defer({ todo, reason: "later" }),
    out((todo) => todo.state === "open"),
    (todo) => Object.assign(todo, { state: "deferred", revision: todo.revision + 1 })
  ),
  about(
    "reopen",
    (todo) => Todos.reopen({ todo }),
    (todo) => (todo.state === "deferred" ? "ok" : "TODO_STATE"),
    (todo) => Object.assign(todo, { state: "open", revision: todo.revision + 1 })
  ),
  about(
    "supersede",
    (todo) => Todos.supersede({ todo, reason: "better", replacements: [{ title: "instead", priority: 1 }] }),
    out((todo) => !final(todo)),
    (todo, answer, model) => {
      Object.assign(todo, { state: "superseded", revision: todo.revision + 1 })
      const ids = answer.replacements.map((one: ModelTodo) => one.id)
      for (const other of model.todos.filter((one) => !final(one) && one.dependsOn.includes(todo.id))) {
        other.dependsOn = [...other.dependsOn.filter((id) => id !== todo.id), ...ids]
        other.revision += 1
      }
      model.todos.push(...answer.replacements.map(fresh))
    }
  ),
  about(
    "complete",
    (todo) =>
      Todos.complete({ todo, continuation: { kind: "successors", todos: [{ title: "and then", priority: 2 }] } }),
    out((todo) => todo.state === "open"),
    (todo, answer, model) => {
      Object.assign(todo, { state: "done", revision: todo.revision + 1 })
      model.todos.push(...answer.successors.map(fresh))
    }
  ),
  fc.constantFrom("ada", "bob").map((agent) =>
    step<TodoModel>(`next work for ${agent}`, async (model, real) => {
      const done = (id: string) => model.todos.find((todo) => todo.id === id)?.state === "done"
      const ready = model.todos.filter((todo) => todo.state === "open" && !todo.held && todo.dependsOn.every(done))
      // Highest priority first; of the same priority, the one that was added first.
      const best = ready.toSorted((a, b) => b.priority - a.priority)[0]
      const { value } = await ask(real.bench, Todos.nextWork({ goal: real.goal.id, agent }))
      assert.equal(value._tag === "claimed" ? value.todo.id : undefined, best?.id)
      if (best !== undefined) best.held = true
      const unfinished = model.todos.filter((todo) => !final(todo)).length
      if (best === undefined) assert.equal(value.withheld.unfinished, unfinished)
      await sameTodos(model, real)
    })
  )
]

test("G20 G21 G22 G23 todos in any order of calls agree with a plain model: states, revisions, what waits for what, and who gets what next", async () => {
  await agrees<TodoModel>(
    todoSteps,
    () => ({ todos: [] }),
    async () => {}
  )
}, 120_000)

// --- goals -----------------------------------------------------------------------------------------------------------

interface GoalModel {
  state: "active" | "paused" | "stopped" | "completed"
  unfinished: string[]
  spent: number
}

const change = (name: "pause" | "resume" | "stop", to: GoalModel["state"]) =>
  fc.constant(
    step<GoalModel>(name, async (model, { bench, goal }) => {
      const { code } = await ask(bench, Goals[name]({ goal: goal.id }))
      assert.equal(code, model.state === "completed" ? "GOAL_NOT_ACTIVE" : "ok")
      if (code === "ok") model.state = to
    })
  )

const goalSteps: fc.Arbitrary<Step<GoalModel>>[] = [
  change("pause", "paused"),
  change("resume", "active"),
  change("stop", "stopped"),
  fc.constant(
    step<GoalModel>("add a todo", async (model, { bench, goal }) => {
      const { code, value } = await ask(bench, Todos.add({ goal: goal.id, title: "t" }))
      assert.equal(code, model.state === "completed" ? "GOAL_NOT_ACTIVE" : "ok")
      if (code === "ok") model.unfinished.push(value.id)
    })
  ),
  fc.constant(
    step<GoalModel>("retire a todo", async (model, { bench }) => {
      const todo = model.unfinished.pop()
      if (todo !== undefined) await bench.run(Todos.supersede({ todo, reason: "not needed" }))
    })
  ),
  fc.constant(
    step<GoalModel>("ask for work and for money", async (model, { bench, goal }) => {
      const want = model.state === "active" ? "ok" : "GOAL_NOT_ACTIVE"
      const effectId = `e${bench.now}`
      const held = await ask(bench, Quota.reserve({ goal: goal.id, effectId, bound: { usd: 1, slots: 1 } }))
      assert.equal(held.code, want)
      if (held.code === "ok") await bench.run(Quota.void({ reservation: held.value.id, reason: "not needed" }))
      const work = await ask(bench, Todos.nextWork({ goal: goal.id, agent: "ada" }))
      assert.equal(work.code, want)
      if (work.value._tag === "claimed") {
        assert.include(model.unfinished, work.value.todo.id)
        await bench.run(
          Todos.supersede({ todo: work.value.todo.id, fence: work.value.lease.fence, reason: "not needed" })
        )
        model.unfinished = model.unfinished.filter((id) => id !== work.value.todo.id)
      }
    })
  ),
  fc.constant(
    step<GoalModel>("record what was spent", async (model, { bench, goal }) => {
      const effectId = `e${bench.now}`
      assert.equal((await ask(bench, Quota.spend({ goal: goal.id, effectId, spend: { usd: 0.5 } }))).code, "ok")
      model.spent += 0.5
    })
  ),
  fc.constant(
    step<GoalModel>("complete", async (model, { bench, goal }) => {
      const { code } = await ask(bench, Goals.complete({ goal: goal.id, closure: { reason: "done" } }))
      const open = model.state === "active" && model.unfinished.length > 0
      const may = model.state === "active" || model.state === "completed"
      assert.equal(code, open ? "FRONTIER_NOT_EMPTY" : may ? "ok" : "GOAL_NOT_ACTIVE")
      if (code === "ok") model.state = "completed"
    })
  )
].map((one) =>
  one.map((inner) =>
    step<GoalModel>(inner.toString(), async (model, real) => {
      await inner.run(model, real)
      const seen = await real.bench.run(Goals.get({ goal: real.goal.id }))
      assert.deepEqual([seen.state, seen.budget], [model.state, real.goal.budget])
      const { spent } = await real.bench.run(Quota.status({ goal: real.goal.id }))
      assert.equal(spent.usd, model.spent)
    })
  )
)

test("G10 G12 G50 a goal in any order of calls agrees with a plain model: its state decides before every other lane, its quota stays, what was spent is recorded, and it is completed only over an empty frontier", async () => {
  await agrees<GoalModel>(
    goalSteps,
    () => ({ state: "active", unfinished: [], spent: 0 }),
    async () => {}
  )
}, 120_000)

// --- settlements -----------------------------------------------------------------------------------------------------

interface SettlementModel {
  readonly settled: Map<string, { readonly content: string; readonly id: string }>
  /** Reservations by effect. */
  readonly held: Map<string, string>
  readonly owed: string[]
  reserved: number
  spent: number
  fence: Fence
}

const effects = fc.constantFrom("eff_a", "eff_b", "eff_c", "eff_d")

const settlementSteps: fc.Arbitrary<Step<SettlementModel>>[] = [
  effects.map((effectId) =>
    step<SettlementModel>(`reserve for ${effectId}`, async (model, { bench, goal }) => {
      const used = model.held.has(effectId) || model.settled.has(effectId)
      const { code, value } = await ask(bench, Quota.reserve({ goal: goal.id, effectId, bound: { usd: 2, slots: 0 } }))
      assert.equal(code, used ? "IDENTITY_CONFLICT" : "ok")
      if (code !== "ok") return
      model.held.set(effectId, value.id)
      model.reserved += 2
    })
  ),
  fc.tuple(effects, fc.constantFrom(0, 0.5, 1, "unknown" as const), fc.boolean()).map(([effectId, usd, wrong]) =>
    step<SettlementModel>(
      `settle ${effectId} at ${usd}${wrong ? " with a wrong fence" : ""}`,
      async (model, { bench, goal }) => {
        const known = model.settled.get(effectId)
        const reservation = model.held.get(effectId)
        const { code, value } = await ask(
          bench,
          Settlements.settle({
            effectId,
            goal: goal.id,
            fence: wrong ? { ...model.fence, token: "guessed" } : model.fence,
            outcome: "progress",
            evidence: [],
            ...(reservation === undefined ? {} : { reservation }),
            spend: { usd, slots: 0 },
            todo: { action: "keep" }
          })
        )
        // What was settled is told again to whoever asks for the same; another content under its name is a conflict.
        if (known !== undefined) {
          assert.equal(code, known.content === String(usd) ? "ok" : "IDENTITY_CONFLICT")
          if (code === "ok") assert.deepEqual([value.id, value.replayed], [known.id, true])
          return
        }
        assert.equal(code, wrong ? "LEASE_LOST" : "ok")
        if (code !== "ok") return
        assert.equal(value.replayed, false)
        model.settled.set(effectId, { content: String(usd), id: value.id })
        if (usd === "unknown") model.owed.push(value.reservation)
        else {
          model.spent += usd
          if (reservation !== undefined) model.reserved -= 2
        }
      }
    )
  ),
  fc.nat(5).map((n) =>
    step<SettlementModel>(`true up ${n}`, async (model, { bench }) => {
      const reservation = nth(model.owed, n)
      if (reservation === undefined) return
      await bench.run(Quota.trueUp({ reservation, usd: 1.5 }))
      assert.equal((await ask(bench, Quota.trueUp({ reservation, usd: 1.5 }))).code, "RESERVATION_CLOSED")
      model.owed.splice(n % model.owed.length, 1)
      model.spent += 1.5
      if ([...model.held.values()].includes(reservation)) model.reserved -= 2
    })
  )
].map((one) =>
  one.map((inner) =>
    step<SettlementModel>(inner.toString(), async (model, real) => {
      await inner.run(model, real)
      const status = await real.bench.run(Quota.status({ goal: real.goal.id }))
      assert.deepEqual(
        [status.spent.usd, status.reserved.usd, status.owed.map((one) => one.reservation).toSorted()],
        [model.spent, model.reserved, model.owed.toSorted()]
      )
    })
  )
)

test("G53 G55 G72 G73 settlements in any order of calls agree with a plain model: once per effect, the same receipt for ever, the sum of what was paid, and what is owed", async () => {
  await agrees<SettlementModel>(
    settlementSteps,
    () => ({
      settled: new Map(),
      held: new Map(),
      owed: [],
      reserved: 0,
      spent: 0,
      fence: { todo: "", token: "", epoch: 0, version: 0 }
    }),
    async ({ bench, goal }, model) => {
      model.fence = (await hold(bench, await newTodo(bench, goal))).fence
    }
  )
}, 120_000)
