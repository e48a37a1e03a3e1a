/** Reserving, spending, truing up and voiding: whose cost it is, what it passes, what its receipt says. Rules: G35, G50 to G57, G73. */
import { assert, test } from "vitest"
import { noUnits } from "../../../src/governance/Field.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { Quota } from "../../../src/governance/index.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { quotaHandlers } from "../../../src/governance/Quota.ts"
import {
  eventReceipt,
  figures,
  loadAccounts,
  loadTotals,
  showHeld,
  windowOf
} from "../../../src/governance/QuotaSum.ts"
import { type ReservationRecord, reservationTable, showReservation } from "../../../src/governance/ReservationRecord.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { loadUsage, recordUsage, turnUsage } from "../../../src/governance/Usage.ts"
import { decideBy, type Decided, loadBy, loaded, recording, rowOf, tables } from "./decide.ts"
import { account, lease, now } from "./records.ts"
import { agent, fence, goal, reservation, turn } from "./workRecords.ts"

const decide = decideBy(quotaHandlers)
const load = loadBy(quotaHandlers)
const states = ["open", "owed", "spent", "void"] as const
const fresh = {
  goal: goal(),
  accounts: [account()],
  known: undefined,
  named: undefined,
  turn: undefined,
  lease: undefined,
  counted: new Set(),
  unknown: undefined
}
const held = (change: Partial<ReservationRecord> = {}) => reservation({ turn: null, effectId: "effect-a", ...change })
const kept = ({ events }: Decided) => (events[0]!.data as unknown as { reservation: ReservationRecord }).reservation
const notThere = { ...decide("trueUpQuota", undefined, { reservation: "x", usd: 1 }).error }

test("G50 G55 a bound is held for a goal that is active, past the fence of its todo, once for an effect", () => {
  const reserve = (state: object = {}, payload: object = {}) =>
    decide(
      "reserveQuota",
      { ...fresh, ...state },
      { goal: "goal-a", effectId: "effect-a", bound: { usd: 1, slots: 1 }, ...payload }
    )
  const got = reserve()
  assert.deepEqual(got.facts, ["quota.reserve"])
  assert.deepInclude(kept(got), {
    goal: "goal-a",
    todo: null,
    turn: null,
    agent: null,
    role: "worker",
    effectId: "effect-a",
    heldUsdMicros: 1_000_000
  })
  assert.deepEqual(got.reply, showReservation(kept(got)))
  const owner = { todo: "todo-a", turn: "turn-a", agent: "ada", role: "evaluator" } as const
  assert.deepInclude(kept(reserve({}, owner)), owner)
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(reserve({ goal: goal({ state }) }).refused, "GoalNotActive")
  assert.equal(reserve({ goal: undefined }).refused, "NotFound")
  assert.deepEqual(reserve({ unknown: notThere }).error, notThere)
  const known = reserve({ known: held() }).error
  assert.deepInclude(known, { _tag: "IdentityConflict", kind: "effect", id: "effect-a" })
  assert.equal(reserve({ lease: lease() }, { todo: "todo-a" }).refused, "LeaseHeld")
  assert.equal(reserve({ lease: lease() }).refused, undefined)
  assert.equal(reserve({ lease: lease() }, { todo: "todo-a", fence: fence() }).refused, undefined)
  assert.equal(reserve({}, { bound: { usd: 6, slots: 1 } }).refused, "QuotaExceeded")
  assert.equal(reserve({ goal: goal({ requiredMeters: ["tokens"] }) }).refused, "BoundMissing")
})

test("G51 G53 G55 G56 a cost is recorded once, in the place of the reservation that it names, and never of an open turn's", () => {
  const spend = (state: object = {}, payload: object = {}) =>
    decide(
      "spendQuota",
      { ...fresh, ...state },
      { goal: "goal-a", effectId: "effect-a", spend: { usd: 1, slots: 1 }, ...payload }
    )
  const named = { reservation: "reservation-a" }
  const plain = spend()
  assert.deepEqual(plain.facts, ["quota.spend"])
  const { delta } = plain.events[0]!.data as unknown as { delta: object }
  assert.deepEqual(delta, { reservedUsdMicros: 0, reservedSlots: 0, spentUsdMicros: 1_000_000, spentSlots: 1 })
  const metered = spend({}, { spend: { usd: 0, tokens: 5 } }).events[0]!.data as unknown as { delta: object }
  assert.deepEqual(metered.delta, {
    reservedUsdMicros: 0,
    reservedSlots: 0,
    spentUsdMicros: 0,
    spentSlots: 0,
    spentTokens: 5
  })
  assert.deepInclude(kept(plain), {
    todo: null,
    agent: null,
    role: "worker",
    evidence: null,
    spentUsdMicros: 1_000_000,
    state: "spent"
  })
  assert.deepInclude(plain.reply, {
    id: "reservation-1",
    event: { kind: "spend", reserved: { usd: 0, slots: 0 }, spent: { usd: 1, slots: 1 } }
  })
  assert.deepInclude(kept(spend({}, { evidence: "receipt", todo: "todo-a", agent: "ada", role: "coordinator" })), {
    evidence: "receipt",
    todo: "todo-a",
    agent: "ada",
    role: "coordinator"
  })
  for (const state of ["active", "paused", "stopped", "completed"] as const)
    assert.equal(spend({ goal: goal({ state }) }).refused, undefined)
  assert.equal(spend({ goal: undefined }).refused, "NotFound")
  assert.deepEqual(spend({ unknown: notThere }).error, notThere)
  assert.equal(spend({ known: held() }).refused, "IdentityConflict")
  assert.equal(spend({ lease: lease() }, { todo: "todo-a" }).refused, "LeaseHeld")
  assert.equal(spend({ lease: lease() }).refused, undefined)
  const booked = spend({ named: held(), lease: lease() }, { ...named, todo: "todo-a", evidence: "receipt" })
  assert.deepInclude(kept(booked), { id: "reservation-a", todo: "todo-a", state: "spent", evidence: "receipt" })
  assert.isNull(kept(spend({ named: held() }, named)).evidence)
  for (const found of [undefined, held({ goal: "goal-b" })])
    assert.deepInclude(spend({ named: found }, named).error, { _tag: "NotFound", kind: "reservation" })
  assert.equal(spend({ named: held({ effectId: "other" }) }, named).refused, "IdentityConflict")
  for (const state of states)
    assert.equal(
      spend({ named: held({ state }) }, named).refused,
      state === "open" ? undefined : "ReservationClosed",
      state
    )
  const turns = spend({ named: held(), turn: "turn-a" }, named).error
  assert.deepInclude(turns, { _tag: "IdentityConflict", kind: "effect", id: "effect-a" })
  assert.include(turns["message"], "that of turn turn-a")
})

test("G52 G57 an owed cost is trued up once; a void takes back what was never dispatched, or a recorded spend", () => {
  const counted = { reserved: noUnits, spent: { ...noUnits, usd: 300_000 } }
  const state = (record: ReservationRecord, more: object = {}) => ({
    held: record,
    turn: undefined,
    accounts: [account()],
    counted,
    used: undefined,
    ...more
  })
  for (const is of states) {
    const record = held({
      state: is,
      spentUsdMicros: is === "spent" ? 300_000 : null,
      ...(is === "owed" ? { heldSlots: 0 } : {})
    })
    const paid = decide("trueUpQuota", state(record), { reservation: "reservation-a", usd: 0.25 })
    assert.equal(paid.refused, is === "owed" ? undefined : "ReservationClosed", is)
    if (is === "owed") {
      assert.deepEqual(paid.facts, ["quota.trueUp"])
      assert.deepInclude(kept(paid), { state: "spent", spentUsdMicros: 250_000, evidence: null })
      assert.deepInclude(paid.reply["event"], { kind: "trueUp" })
      assert.equal(
        kept(decide("trueUpQuota", state(record), { reservation: "reservation-a", usd: 1, evidence: "bill" })).evidence,
        "bill"
      )
    }
    for (const turnOf of [undefined, "turn-a"]) {
      const taken = decide("voidQuota", state(record, { turn: turnOf }), {
        reservation: "reservation-a",
        reason: "not so"
      })
      const may = is === "spent" || (is === "open" && turnOf === undefined)
      assert.equal(taken.refused, may ? undefined : "ReservationClosed", `${is} ${turnOf}`)
      if (!may) continue
      assert.deepEqual(taken.facts, ["quota.void"])
      assert.deepInclude(
        kept(taken),
        is === "open"
          ? { state: "void", heldUsdMicros: 0 }
          : { state: "void", spentUsdMicros: 0, heldUsdMicros: 2_000_000 }
      )
      assert.deepEqual(
        taken.reply["event"],
        is === "open"
          ? { kind: "void", reserved: { usd: -2, slots: -1 }, spent: { usd: 0, slots: 0 } }
          : { kind: "void", reserved: { usd: 0, slots: 0 }, spent: { usd: -0.3, slots: 0 } }
      )
      // The aggregate changes by what was counted in it.
      const { before, after } = taken.reply["aggregate"]
      assert.deepEqual([before.spent.usd, after.spent.usd], [3, 2.7])
      const used = decide("voidQuota", state(record, { used: { effectId: "effect-a" } }), {
        reservation: "reservation-a",
        reason: "r"
      })
      assert.deepEqual(used.facts, ["quota.void", "usage.withdrawn"])
    }
  }
  for (const [type, more] of [
    ["trueUpQuota", { usd: 1 }],
    ["voidQuota", { reason: "r" }]
  ] as const)
    assert.deepInclude(decide(type, undefined, { reservation: "x", ...more }).error, {
      _tag: "NotFound",
      kind: "reservation",
      id: "x"
    })
})

const content = {
  goal: [rowOf(goalTable.put(goal({ windowMs: 50 })))],
  agent: [rowOf(agentTable.put(agent({ budget: { units: { usd: 1 }, windowMs: null } })))],
  lease: [rowOf(leaseTable.put(lease()))],
  turn: [rowOf(turnTable.put(turn()))],
  todo: [{ id: "todo-a", goal: "goal-a" }],
  reservation: [reservation(), held({ id: "reservation-b" })].map((one) => rowOf(reservationTable.put(one)))
}

test("G53 G56 what a cost reads: its owners, which must be of the goal, what is kept of its effect, and whose turn its reservation is", () => {
  const state = (payload: object, more: object = {}) =>
    load(
      "spendQuota",
      { goal: "goal-a", effectId: "effect-a", spend: { usd: 1 }, ...payload },
      tables({ ...content, ...more }),
      now
    )["state"]
  const bare = state({})
  assert.deepInclude(bare, {
    named: undefined,
    turn: undefined,
    lease: undefined,
    counted: new Set(),
    unknown: undefined,
    known: held({ id: "reservation-b" })
  })
  assert.deepEqual(
    bare.accounts.map((one: { agent: string | null }) => one.agent),
    [null]
  )
  const full = state({ todo: "todo-a", turn: "turn-a", agent: "ada", reservation: "reservation-a" })
  assert.deepInclude(full, { named: reservation(), turn: "turn-a", lease: lease(), unknown: undefined })
  assert.deepEqual(
    full.accounts.map((one: { agent: string | null }) => one.agent),
    [null, "ada"]
  )
  assert.equal(state({ reservation: "reservation-b" }).turn, undefined)
  assert.equal(state({ reservation: "reservation-a" }, { turn: [] }).turn, undefined)
  for (const [payload, missing] of [
    [
      { todo: "todo-x", turn: "turn-x" },
      { kind: "todo", id: "todo-x" }
    ],
    [
      { todo: "todo-a", turn: "turn-x" },
      { kind: "turn", id: "turn-x" }
    ],
    [
      { turn: "turn-a", agent: "zoe" },
      { kind: "agent", id: "zoe" }
    ]
  ] as const)
    assert.deepInclude(state(payload).unknown, missing)
  assert.deepInclude(state({ todo: "todo-a", goal: "goal-b" }).unknown, { kind: "todo" })
  const paying = load("trueUpQuota", { reservation: "reservation-a", usd: 1 }, tables(content), now)["state"]
  assert.deepInclude(paying, {
    held: reservation(),
    turn: "turn-a",
    used: undefined,
    counted: { reserved: noUnits, spent: noUnits }
  })
  assert.equal(load("voidQuota", { reservation: "x", reason: "r" }, tables(content), now)["state"], undefined)
  const orphan = load(
    "voidQuota",
    { reservation: "reservation-a", reason: "r" },
    tables({ ...content, goal: [] }),
    now
  )["state"]
  assert.deepEqual(orphan.accounts, [])
})

test("G50 G52 G53 the sum is of the window with both ends, of the meters that are asked for, and of whom it is asked", () => {
  assert.deepEqual(
    loaded(loadAccounts(undefined, agent(), now), () => []),
    { state: [], asked: [] }
  )
  const sums = (sql: string) => [...sql.matchAll(/AS (r|s)_(\w+)/g)].map((match) => match[2])
  const whole = loaded(loadAccounts(goal({ limits: { tokens: 5 } }), agent(), now), () => [])
  assert.deepEqual([...new Set(sums(whole.asked[0]!.sql))], ["usd", "slots", "tokens"])
  assert.deepEqual(
    whole.asked.map(({ params }) => params),
    [["goal-a"]]
  )
  assert.deepEqual(whole.state[0]!.totals, { reserved: noUnits, spent: noUnits })
  const limited = agent({ budget: { units: {}, windowMs: 7 } })
  assert.deepEqual(loaded(loadAccounts(goal(), limited, now), () => []).asked[1]!.params, [
    now - 7,
    now - 7,
    "goal-a",
    "ada"
  ])
  const totals = loaded(
    loadTotals({ goal: "goal-a", reservation: "r", role: "evaluator", windowMs: null }, now, ["usd"]),
    () => [{ r_usd: 3, s_usd: 4 }]
  )
  assert.deepEqual(totals.state, { reserved: { ...noUnits, usd: 3 }, spent: { ...noUnits, usd: 4 } })
  assert.deepEqual(totals.asked[0]!.params, ["goal-a", "r", "evaluator"])
  assert.isNull(windowOf({ units: {}, windowMs: null }, now))
  assert.deepEqual(windowOf({ units: {}, windowMs: 9 }, now), { ms: 9, from: now - 9, to: now })
  assert.deepEqual(showHeld(undefined), { usd: 0, slots: 0 })
  assert.deepEqual(showHeld(held({ heldMeters: { tokens: 4 } })), { usd: 2, slots: 1, tokens: 4 })
  const shown = figures(account(), now)
  assert.deepEqual(
    [shown.remaining, shown.reserved, shown.spent, shown.window],
    [{ usd: 5, slots: 2 }, { usd: 2, slots: 1 }, { usd: 3, slots: 1 }, null]
  )
  const over = figures(account({ limits: { units: { usd: 1, tokens: 5 }, windowMs: 9 } }), now)
  assert.deepEqual(
    [over.remaining, over.spent],
    [
      { usd: 0, slots: null, tokens: 5 },
      { usd: 3, slots: 1, tokens: 0 }
    ]
  )
  const receipt = eventReceipt("spend", { spent: { usd: 1_000_000, tokens: 3 } }, account(), now)
  assert.deepEqual(receipt.event, {
    kind: "spend",
    reserved: { usd: 0, slots: 0 },
    spent: { usd: 1, slots: 0, tokens: 3 }
  })
  assert.deepEqual(
    [receipt.aggregate.after, receipt.aggregate.before.spent.usd],
    [{ reserved: { usd: 2, slots: 1 }, spent: { usd: 4, slots: 1 } }, 3]
  )
})

test("G56 whose tokens a report is: of whoever does the work where nobody says, and of the whole goal where nobody is named", () => {
  const owner = { goal: "goal-a", todo: null, turn: null, agent: null, effectId: "effect-a" }
  const role = (of: object) =>
    (recordUsage({ ...owner, ...of }, [], new Set(), now).event.data as unknown as { role: string }).role
  assert.deepEqual([role({}), role({ role: null }), role({ role: "evaluator" })], ["worker", "worker", "evaluator"])
  assert.deepEqual(turnUsage(turn(), undefined, undefined, new Set(), now), { usage: null, events: [] })
  const turns = (of: ReservationRecord | undefined) =>
    (turnUsage(turn(), of, [], new Set(), now).events[0]!.data as unknown as { role: string }).role
  assert.deepEqual(
    [turns(undefined), turns(held({ role: "coordinator" })), turns(held({ role: null }))],
    ["worker", "coordinator", "worker"]
  )
  const scope = (of: object) => {
    const { agent: whose, role: part, unreported } = loaded(loadUsage({ goal: "goal-a", ...of }), () => []).state
    return [whose, part, unreported]
  }
  assert.deepEqual(
    [scope({}), scope({ agent: "ada" }), scope({ role: "evaluator" })],
    [
      [null, null, 0],
      ["ada", null, 0],
      [null, "evaluator", 0]
    ]
  )
})

test("G53 G73 reading: a reservation, and what is not there", async () => {
  const { run } = recording(content)
  const { asOf: _asOf, ...shown } = await run(Quota.get({ reservation: "reservation-a" }))
  assert.deepEqual(shown, showReservation(reservation()))
  for (const missing of [
    () => run(Quota.get({ reservation: "x" })),
    () => run(Quota.status({ goal: "x" })),
    () => run(Quota.history({ goal: "x" })),
    () => run(Quota.usage({ goal: "x" }))
  ]) {
    const error = await missing().then(
      () => "found",
      (reason: unknown) => String(reason)
    )
    assert.include(error, "NotFound")
  }
  const { spendEvidenceUnreadable } = await run(Quota.status({ goal: "goal-a" }))
  assert.isNull(spendEvidenceUnreadable)
})
