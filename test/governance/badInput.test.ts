/** What plain JavaScript may hand in: every refusal is a typed one with a remedy, whichever call was given what. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import {
  Authority,
  type AuthorityModule,
  Deliveries,
  Gates,
  Goals,
  Loop,
  Quota,
  Sources,
  Todos,
  Turns,
  workModule
} from "../../src/governance/index.ts"
import { newBench, newGoal, newTodo } from "./authority.ts"

const refusal = (error: unknown): string => {
  const { _tag, remedy } = error as { readonly _tag?: string; readonly remedy?: string }
  assert.isString(remedy)
  return String(_tag)
}

test("V3 G1 a read with an id that is no text is refused by a typed error, whichever kind it asks for", async () => {
  const bench = await newBench()
  const reads = [
    (id: never) => Goals.get({ goal: id }),
    (id: never) => Goals.frontier({ goal: id }),
    (id: never) => Quota.status({ goal: id }),
    (id: never) => Quota.history({ goal: id }),
    (id: never) => Quota.usage({ goal: id }),
    (id: never) => Quota.get({ reservation: id }),
    (id: never) => Todos.get({ todo: id }),
    (id: never) => Turns.get({ turn: id }),
    (id: never) => Gates.get({ gate: id }),
    (id: never) => Sources.get({ source: id }),
    (id: never) => Loop.state({ goal: id, agent: id })
  ]
  for (const id of [5, 10n, null, undefined, new Uint8Array(3), {}, Number.NaN, Symbol("x"), new Date()]) {
    for (const read of reads) {
      const tag = refusal(await bench.fails(read(id as never) as Effect.Effect<unknown, unknown, Authority>))
      assert.include(["NotFound", "InvalidInput"], tag)
    }
  }
})

test("V3 G4 G7 a limit, an offset or a cursor that is no whole number is refused by name, in every list and in the journal", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const journal = (options: object | null) =>
    Effect.flatMap(Authority, (authority) => authority.journal(options as never))
  for (const wrong of [-1, 0.5, Number.NaN, 1e308, "x", {}, null]) {
    const given = wrong as number
    const calls: readonly Effect.Effect<unknown, unknown, Authority>[] = [
      Todos.list({ goal: goal.id, limit: given }),
      Todos.list({ goal: goal.id, offset: given }),
      Quota.history({ goal: goal.id, after: given }),
      Quota.usage({ goal: goal.id, limit: given }),
      Deliveries.list({ goal: goal.id, limit: given }),
      journal({ after: given }),
      journal({ limit: given })
    ]
    for (const call of calls) assert.equal(refusal(await bench.fails(call)), "InvalidInput")
  }
  assert.lengthOf(await bench.run(journal({ limit: 2 })), 2)
  assert.lengthOf(await bench.run(journal(null)), 3)
})

test("V3 G2 a command that is none, or whose module or type is no text, is refused and leaves nothing", async () => {
  const bench = await newBench()
  for (const command of [
    null,
    undefined,
    5,
    {},
    { id: "a", module: 1, type: "x" },
    { id: "a", module: "work", type: 2 }
  ]) {
    const commit = Effect.flatMap(Authority, (authority) => authority.commit(command as never))
    assert.equal(refusal(await bench.fails(commit)), "InvalidInput")
  }
  assert.equal((await bench.store.verify()).entries, 0)
})

test("V3 G1 a row that names what is not there is the command's mistake, and undoes that command alone", async () => {
  const tables =
    "CREATE TABLE note_book (id TEXT PRIMARY KEY); CREATE TABLE note (book TEXT REFERENCES note_book (id));"
  const notes: AuthorityModule = {
    name: "notes",
    version: 1,
    migrations: [{ version: 1, name: "notes", sql: tables }],
    *load() {
      return undefined
    },
    decide: () => Result.succeed({ events: [{ type: "note.made", entity: "n", data: {} }], reply: null }),
    project: () => [{ sql: "INSERT INTO note (book) VALUES ('none')", params: [] }]
  }
  const bench = await newBench({ modules: [workModule, notes] })
  const [outcome] = await bench.store.commit([{ id: "n", module: "notes", type: "make", payload: null }])
  assert.equal(outcome?._tag === "Refused" && outcome.error.code, "INVALID_INPUT")
  assert.equal((await bench.store.verify()).entries, 0)
  await newGoal(bench)
})

test("V3 G2 a payload that JSON cannot hold is refused with the name of its field", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const lone = await bench.fails(Todos.add({ goal: goal.id, title: "half \ud800" }))
  assert.match(lone.message, /title .*surrogate/)
  const budget = await bench.fails(Goals.open({ title: "t", budget: { usd: Number.NaN } }))
  assert.match(budget.message, /budget\.usd /)
})

test("V3 G40 blank titles and questions are refused", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const calls: readonly Effect.Effect<unknown, unknown, Authority>[] = [
    Goals.open({ title: " ", budget: { usd: 1 } }),
    Todos.add({ goal: goal.id, title: "\t\n" }),
    Gates.ask({ goal: goal.id, kind: "userDecision", question: "   " })
  ]
  for (const call of calls) assert.equal(refusal(await bench.fails(call)), "InvalidInput")
})

test("V3 G83 the loop's decision over what is no state, receipt or budget is a refusal", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  const state = await bench.run(Loop.state({ goal: goal.id, agent: "ada" }))
  const budget = { turns: 1 }
  const garbage: readonly (readonly [unknown, unknown, unknown])[] = [
    ...[undefined, null, 5, "x", {}, [], { ...state, open: null }, { ...state, ready: {} }].map(
      (wrong) => [undefined, wrong, budget] as const
    ),
    ...[null, 5, {}, []].map((wrong) => [wrong, state, budget] as const),
    ...[undefined, null, 5, {}, { turns: "x" }].map((wrong) => [undefined, state, wrong] as const)
  ]
  for (const [receipt, of, turns] of garbage) {
    const next = Loop.next(receipt as never, of as never, turns as never)
    assert.equal(Result.isFailure(next) && refusal(next.failure), "InvalidInput")
  }
  assert.isTrue(Result.isSuccess(Loop.next(undefined, state, budget)))
})
