/** What the service lets through: command ids, payloads, parameters, counts; and what it says of each answer. Rules: G1, G2, G7. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { assert, test } from "vitest"
import { Authority, reader, writeObserved, writer } from "../../../src/governance/Authority.ts"
import { invalidInput, row } from "../../../src/governance/Handler.ts"
import type { AuthorityStore, Command, CommandOutcome } from "../../../src/governance/Module.ts"
import type { Param } from "../../../src/sqlite/Database.ts"
import { loaded } from "./decide.ts"

/** A store that keeps what it is asked, and answers as it is told. */
const newStore = (outcome: Partial<CommandOutcome> | (() => never) = {}) => {
  const commands: Command[] = []
  const journal: unknown[] = []
  const store = {
    commit: async (batch: readonly Command[]) => {
      if (typeof outcome === "function") return outcome()
      commands.push(...batch)
      return [{ _tag: "Committed", replayed: false, reply: { n: 1 }, seq: 7, ...outcome }]
    },
    read: async (query: (context: { now: number }) => never) => ({
      value: loaded(query({ now: 5 }), (_sql, params) => [{ n: params.length }]).state,
      seq: 9
    }),
    journal: async (options: unknown) => {
      journal.push(options)
      return []
    },
    verify: async () => ({ ok: true, entries: 3, brokenAt: null })
  } as unknown as AuthorityStore
  const service = Authority.make(store)
  const run = <A, E>(effect: Effect.Effect<A, E, Authority>) =>
    Effect.runPromise(Effect.provideService(effect, Authority, service))
  const fails = <A, E>(effect: Effect.Effect<A, E, Authority>) => run(Effect.flip(effect))
  return { commands, journal, service, run, fails }
}

const write = writer<{ readonly title: string }, { readonly n: number }, never>("work", "openGoal")

test("G2 a command id is a text of 1 to 300 characters, or left out for a new command; it is no part of the payload", async () => {
  const { commands, run, fails } = newStore()
  for (const commandId of ["a", "x".repeat(300)]) await run(write({ title: "t", commandId }))
  assert.deepEqual(
    commands.map(({ id }) => id),
    ["a", "x".repeat(300)]
  )
  assert.deepEqual(commands[0], { id: "a", module: "work", type: "openGoal", payload: { title: "t" } })
  await run(write({ title: "t" }))
  await run(write({ title: "t", commandId: undefined }))
  assert.notEqual(commands[2]!.id, commands[3]!.id)
  assert.match(commands[2]!.id, /./)
  for (const commandId of ["", "x".repeat(301), 7, null, ["a"], { length: 3 }]) {
    const refused = await fails(write({ title: "t", commandId: commandId as never }))
    assert.deepInclude(refused, { _tag: "InvalidInput", command: "openGoal" })
    assert.match(refused.message, /1 to 300 characters/)
  }
  assert.equal(commands.length, 4)
})

test("G1 what is no object is refused by the call's name, and reaches no store", async () => {
  const { commands, fails } = newStore()
  const read = reader<object, object>(function* () {
    return yield* row("SELECT ?", 1)
  })
  for (const input of [undefined, null, 7, "text", true]) {
    assert.deepInclude(await fails(write(input as never)), { _tag: "InvalidInput", command: "openGoal" })
    const refused = await fails(read(input as never))
    assert.deepInclude(refused, { _tag: "InvalidInput", command: "read" })
    assert.match(refused.message, /not an object/)
  }
  assert.deepEqual(commands, [])
})

test("G2 G81 what was observed travels beside the payload, and only where something was", async () => {
  const { commands, run } = newStore()
  await run(writeObserved("work", "t", { a: 1 }, { alive: false }))
  await run(writeObserved("work", "t", { a: 1 }))
  assert.deepEqual(commands[0]!.observed, { alive: false })
  assert.deepEqual(commands[0]!.payload, { a: 1 })
  assert.isFalse("observed" in commands[1]!)
})

test("G2 G7 G72 a receipt says as of when it holds, and that it was replayed: by the command's id, or by what it asks for", async () => {
  for (const byId of [true, false]) {
    for (const byWork of [true, false, undefined, "yes"]) {
      const reply = { n: 1, ...(byWork === undefined ? {} : { replayed: byWork }) }
      const { run } = newStore({ replayed: byId, reply: reply as never })
      assert.deepEqual(await run(write({ title: "t" })), { n: 1, asOf: 7, replayed: byId || byWork === true })
    }
  }
})

test("G1 a refusal is the call's failure; so is a failure of the store, and anything else is a defect", async () => {
  const refusal = invalidInput("openGoal", "no")
  const refused = newStore({ _tag: "Refused", error: refusal } as never)
  assert.equal(await refused.fails(write({ title: "t" })), refusal)
  const busy = newStore(() => {
    throw refusal
  })
  assert.equal(await busy.fails(write({ title: "t" })), refusal)
  for (const thrown of [new Error("a bug"), { _tag: "Busy" }, null]) {
    const broken = newStore(() => {
      throw thrown
    })
    const exit = await broken.run(Effect.exit(write({ title: "t" })))
    assert.isTrue(Exit.isFailure(exit) && exit.cause.reasons.every((reason) => reason._tag === "Die"))
  }
})

test("G7 a read gives its value as of the journal, or the failure that it names for nothing found", async () => {
  const { run, fails } = newStore()
  const read = reader<{ readonly found: boolean }, { readonly n: number }, { readonly _tag: "None" }>(
    function* ({ found }, { now }) {
      const n = (yield* row("SELECT ?, ?", now, 1))?.["n"]
      return found ? { n: Number(n) + now } : undefined
    },
    ({ found }) => ({ _tag: "None", found }) as const
  )
  assert.deepEqual(await run(read({ found: true })), { n: 7, asOf: 9 })
  assert.deepEqual((await fails(read({ found: false }))) as object, { _tag: "None", found: false })
})

test("G1 C56 parameters are null, texts, finite numbers, bigints or bytes: one that is none is refused, wherever it stands", async () => {
  const { run, fails } = newStore()
  const read = reader<{ readonly params: readonly unknown[] }, object>(function* ({ params }) {
    return yield* row("SELECT 1", ...(params as readonly Param[]))
  })
  const good = [null, "", "text", 0, -1, 1.5, 7n, new Uint8Array(1)]
  assert.deepEqual(await run(read({ params: good })), { n: 8, asOf: 9 } as never)
  for (const value of good) assert.deepEqual(await run(read({ params: [value] })), { n: 1, asOf: 9 } as never)
  for (const wrong of [undefined, Number.NaN, Number.POSITIVE_INFINITY, true, {}, [], Symbol("s"), () => 1]) {
    for (const params of [[wrong], [1, wrong], [wrong, 1]]) {
      const refused = await fails(read({ params }))
      assert.deepInclude(refused, { _tag: "InvalidInput", command: "read" })
      assert.match(refused.message, /missing or of a wrong type/)
    }
  }
})

test("G4 G22 how much is asked for, and from where, is a whole number, 0 or more", async () => {
  const { run, fails, service, journal } = newStore()
  const read = reader<object, object>(function* () {
    return yield* row("SELECT 1")
  })
  for (const field of ["limit", "after", "offset"]) {
    for (const value of [0, 1, Number.MAX_SAFE_INTEGER, undefined]) {
      await run(read({ [field]: value }))
      await Effect.runPromise(service.journal({ [field]: value }))
    }
    for (const value of [-1, 1.5, Number.MAX_SAFE_INTEGER + 1, Number.NaN, "1", null, 1n]) {
      const refused = await fails(read({ [field]: value }))
      assert.deepInclude(refused, { _tag: "InvalidInput", command: "read" })
      assert.include(refused.message, `\`${field}\``)
      const ofJournal = await Effect.runPromise(Effect.flip(service.journal({ [field]: value } as never)))
      assert.deepInclude(ofJournal, { _tag: "InvalidInput", command: "journal" })
    }
  }
  journal.length = 0
  await Effect.runPromise(service.journal())
  await Effect.runPromise(service.journal({ after: 4, limit: 5 }))
  assert.deepEqual(journal, [
    { after: 0, limit: 1000 },
    { after: 4, limit: 5 }
  ])
  assert.deepEqual(await Effect.runPromise(service.verify), { ok: true, entries: 3, brokenAt: null })
})
