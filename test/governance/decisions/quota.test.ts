/** Bounds and costs, decided from accounts and reservations alone. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { costMicros, limitMicros, noUnits, plus, toUsd } from "../../../src/governance/Field.ts"
import {
  closed,
  reserve,
  spendReserved,
  spendUnreserved,
  voidReserved,
  voidSpent
} from "../../../src/governance/QuotaLedger.ts"
import { account, context, now } from "./records.ts"

const owner = { goal: "goal-a", todo: "todo-a", turn: null, agent: "ada" }
const reserved = (bound: object, accounts = [account()], required: readonly ("usd" | "tokens")[] = []) =>
  reserve(accounts, required, owner, "effect-a", bound, context())
const held = () => Result.getOrThrow(reserved({ usd: 2, slots: 1, tokens: 100 })).reservation

test("G50 G55 a bound that just fits is held, the next unit is refused and says what is left; zero is a limit", () => {
  const fits = Result.getOrThrow(reserved({ usd: 5, slots: 2 }))
  assert.deepInclude(fits.reservation, {
    ...owner,
    state: "open",
    heldUsdMicros: 5_000_000,
    heldSlots: 2,
    spentUsdMicros: null
  })
  assert.deepEqual(fits.delta, { reserved: { ...noUnits, usd: 5_000_000, slots: 2 } })
  assert.equal(fits.event.type, "quota.reserve")
  const beyond = reserved({ usd: 5.000001, slots: 0 })
  assert.deepInclude(Result.isFailure(beyond) ? beyond.failure : {}, {
    code: "QUOTA_EXCEEDED",
    goal: "goal-a",
    agent: null,
    meter: "usd",
    limit: 10,
    used: 5,
    asked: 5.000001
  })
  assert.equal(
    Result.isFailure(beyond) ? beyond.failure.message : "",
    "Goal goal-a has 5 usd left; 5.000001 were asked for."
  )
  const zero = account({ agent: "ada", limits: { units: { usd: 0 }, windowMs: 60_000 } })
  const none = reserved({ usd: 0.000001, slots: 0 }, [account(), zero])
  assert.equal(
    Result.isFailure(none) ? none.failure.message : "",
    "Agent ada of goal goal-a has 0 usd left in its window of 60000 ms; 0.000001 were asked for."
  )
})

test("G50 G55 every meter that is limited or required needs a bound; a limited one that is not named is missing, never zero", () => {
  for (const [bound, required, meter] of [
    [{ usd: 1 }, [], "slots"],
    [{ slots: 1 }, [], "usd"],
    [{ usd: 1, slots: 1 }, ["tokens"], "tokens"]
  ] as const) {
    const result = reserved(bound, [account()], required)
    assert.deepInclude(Result.isFailure(result) ? result.failure : {}, { code: "BOUND_MISSING", meter })
  }
  assert.isTrue(Result.isSuccess(reserved({ usd: 0, slots: 0, tokens: 5 }, [account()], ["tokens"])))
})

test("G55 G73 a known cost frees what was held and counts beyond the bound too; a meter not named cost what was held", () => {
  const { reservation, delta, event } = spendReserved(held(), { usd: 9, tokens: 40 }, "artifact", now + 1)
  assert.deepInclude(reservation, {
    state: "spent",
    heldUsdMicros: 0,
    heldSlots: 0,
    spentUsdMicros: 9_000_000,
    spentSlots: 1,
    evidence: "artifact",
    changedAt: now + 1
  })
  assert.deepEqual(reservation.spentMeters, { tokens: 40 })
  assert.deepEqual(delta, {
    reserved: { ...noUnits, usd: -2_000_000, slots: -1, tokens: -100 },
    spent: { ...noUnits, usd: 9_000_000, slots: 1, tokens: 40 }
  })
  assert.equal(event.type, "quota.spend")
})

test("G55 G73 an unknown cost keeps the dollars that were held and is owed; truing up puts the cost in their place", () => {
  const owed = spendReserved(held(), { usd: "unknown" }, null, now)
  assert.deepInclude(owed.reservation, {
    state: "owed",
    heldUsdMicros: 2_000_000,
    heldSlots: 0,
    spentUsdMicros: null,
    spentSlots: 1
  })
  assert.deepEqual(owed.delta, {
    reserved: { ...noUnits, slots: -1, tokens: -100 },
    spent: { ...noUnits, slots: 1, tokens: 100 }
  })
  const paid = spendReserved(owed.reservation, { usd: 0.5 }, null, now, "trueUp")
  assert.deepInclude(paid.reservation, { state: "spent", heldUsdMicros: 0, spentUsdMicros: 500_000, spentSlots: 1 })
  assert.deepEqual(paid.delta, { reserved: { ...noUnits, usd: -2_000_000 }, spent: { ...noUnits, usd: 500_000 } })
  assert.equal(paid.event.type, "quota.trueUp")
  const unbound = spendUnreserved(owner, "effect-b", { usd: "unknown" }, null, context())
  assert.deepInclude(unbound.reservation, { state: "owed", heldUsdMicros: null, effectId: "effect-b" })
})

test("G52 a void gives back its own amount and no more", () => {
  const back = voidReserved(held(), "not dispatched", now)
  assert.deepInclude(back.reservation, { state: "void", heldUsdMicros: 0, heldSlots: 0 })
  assert.deepEqual(back.delta, { reserved: { ...noUnits, usd: -2_000_000, slots: -1, tokens: -100 } })
  const spent = spendReserved(held(), { usd: 1 }, null, now).reservation
  const taken = voidSpent(spent, "charged twice", now)
  assert.deepInclude(taken.reservation, { state: "void", spentUsdMicros: 0, spentSlots: 0 })
  assert.deepEqual(taken.delta, { spent: { ...noUnits, usd: -1_000_000, slots: -1, tokens: -100 } })
  assert.deepEqual([back.event.type, taken.event.type], ["quota.void", "quota.void"])
})

test("G55 a closed reservation says whether its cost is owed or recorded", () => {
  assert.include(closed({ ...held(), state: "owed" }).remedy, "Quota.trueUp")
  assert.include(closed({ ...held(), state: "spent" }).remedy, "Quota.get")
})

test("G50 a limit is never rounded up and a cost never down; what a double cannot hold exactly stays what was meant", () => {
  assert.deepEqual([0.1, 1.1, 0.000001, 0.0000001, 2.0000005].map(costMicros), [100_000, 1_100_000, 1, 1, 2_000_001])
  assert.deepEqual([0.1, 1.1, 0.000001, 0.0000001, 2.0000005].map(limitMicros), [100_000, 1_100_000, 1, 0, 2_000_000])
  assert.equal(toUsd(1_500_000), 1.5)
  assert.deepEqual(plus({ ...noUnits, usd: 1 }, { usd: 2, slots: 3 }), { ...noUnits, usd: 3, slots: 3 })
})
