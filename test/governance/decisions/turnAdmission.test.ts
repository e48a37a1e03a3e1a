/** Admitting a turn, starting a failed one over, and a further attempt within one: every condition of each. Rules: G14, G40, G55, G56, G80, G81, G82, G84, G86. */
import { assert, test } from "vitest"
import { noUnits } from "../../../src/governance/Field.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import type { Account } from "../../../src/governance/QuotaSum.ts"
import { requirementOf } from "../../../src/governance/Requirement.ts"
import { type ReservationRecord, reservationTable } from "../../../src/governance/ReservationRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { turnHandlers } from "../../../src/governance/Turn.ts"
import { phases, type TurnAttempt, type TurnRecord, turnTable } from "../../../src/governance/TurnRecord.ts"
import { type Decided, decideBy, loadBy, rowOf, tables } from "./decide.ts"
import { account, lease, now, todo } from "./records.ts"
import {
  agent,
  fence,
  gate,
  gateDecision,
  goal,
  hostResult,
  me,
  other,
  reservation,
  source,
  third,
  turn
} from "./workRecords.ts"

const decide = decideBy(turnHandlers)
const load = loadBy(turnHandlers)
const observed = { process: me, turn: null, driver: null, alive: false }
const asking = { goal: "goal-a", agent: "ada", fence: fence(), bound: { usd: 1 } }
const room = (change: object = {}) => ({
  goal: goal(),
  agent: agent(),
  lease: lease(),
  todo: todo(),
  required: [],
  accounts: [],
  old: undefined,
  gates: [],
  waiting: [],
  ...change
})
const admit = (state: object, payload: object = {}, seen: object | undefined = observed) =>
  decide("admitTurn", state, { ...asking, ...payload }, seen)

/** The reservations that a decision books, by their fact. */
const booked = ({ events }: Decided): readonly (readonly [string, ReservationRecord])[] =>
  events.flatMap(({ type, data }) => {
    const { reservation: one } = data as unknown as { reservation?: ReservationRecord | string }
    return typeof one === "object" ? [[type, one] as const] : []
  })

const admitted = (change: Partial<TurnRecord> = {}): TurnRecord =>
  turn({
    id: "turn-1",
    effectId: "effect-2",
    reservation: "reservation-3",
    context: { requirementRevision: 3, digest: null, requirement: requirementOf(goal(), todo()), reads: [] },
    admittedAt: now,
    changedAt: now,
    ...change
  })

test("G55 G81 G86 a turn is admitted with its bound held in one commit, under what is required now", () => {
  const got = admit(room())
  assert.deepEqual(got.facts, ["quota.reserve", "turn.admitted"])
  assert.deepEqual(got.reply, admitted())
  const [[, held]] = booked(got) as [[string, ReservationRecord]]
  assert.deepInclude(held, {
    id: "reservation-3",
    effectId: "effect-2",
    turn: "turn-1",
    todo: "todo-a",
    agent: "ada",
    role: "worker",
    heldUsdMicros: 1_000_000,
    heldSlots: 1
  })
  assert.deepEqual(held.heldMeters, { attempts: 1 })
  const [[, more]] = booked(admit(room(), { bound: { slots: 2, attempts: 3, tokens: 9 } })) as [
    [string, ReservationRecord]
  ]
  assert.deepEqual([more.heldSlots, more.heldMeters], [2, { attempts: 3, tokens: 9 }])
  const context = (state: object, named?: object) =>
    (admit(room(state), named === undefined ? {} : { context: named }).reply as TurnRecord).context
  const requirement = requirementOf(goal(), todo())
  assert.deepEqual(context({}, { requirementRevision: 1, digest: "d" }), {
    requirementRevision: 1,
    digest: "d",
    requirement,
    reads: []
  })
  assert.deepEqual(context({}, { requirementRevision: null, digest: null }), {
    requirementRevision: 3,
    digest: null,
    requirement,
    reads: []
  })
  assert.deepEqual(context({ todo: undefined }), { requirementRevision: null, digest: null, reads: [] })
  assert.deepEqual(context({ required: [source()] })!.reads, [{ source: "source-a", revision: 2 }])
})

test("G10 G14 G35 G40 G55 a turn is admitted on an active goal, for a known agent with the lease, past gates, within the budget", () => {
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(admit(room({ goal: goal({ state }) })).refused, "GoalNotActive")
  const waiting = [{ kind: "obligation", id: "obligation-a" }]
  assert.deepInclude(admit(room({ goal: goal({ state: "paused" }), waiting })).error, { waiting })
  assert.deepInclude(admit(room({ goal: undefined })).error, { kind: "goal", id: "goal-a" })
  assert.deepInclude(admit(room({ agent: undefined })).error, { kind: "agent", id: "ada" })
  for (const held of [undefined, lease({ owner: "bob" }), lease({ goal: "goal-b" }), lease({ epoch: 3 })])
    assert.equal(admit(room({ lease: held })).refused, "LeaseLost")
  assert.equal(admit(room({ required: [source({ state: "unreadable" })] })).refused, "SourceState")
  assert.equal(admit(room({ gates: [gate()] })).refused, "Gated")
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" } })] })
  assert.deepEqual(admit(room({ gates: [once] })).facts, ["gate.used", "quota.reserve", "turn.admitted"])
  assert.equal(admit(room({ accounts: [account()] }), { bound: { usd: 5.1 } }).refused, "QuotaExceeded")
  assert.equal(admit(room({ accounts: [account()] }), { bound: { usd: 5 } }).refused, undefined)
  assert.equal(admit(room({ goal: goal({ requiredMeters: ["tokens"] }) })).refused, "BoundMissing")
  assert.equal(decide("admitTurn", room(), asking, undefined).refused, "InvalidInput")
})

test("G81 G82 the turn in the way: one that may run is in flight, one with a saved result is settled first, a dead one is written down as lost", () => {
  const old = turn({ id: "turn-b", effectId: "effect-b", fence: other })
  const held = reservation({ id: "reservation-b", turn: "turn-b", effectId: "effect-b" })
  const looked = { ...observed, turn: "turn-b", driver: other }
  for (const phase of phases) {
    for (const result of [null, hostResult()]) {
      for (const process of [me, other, third]) {
        for (const alive of [true, false, "unknown"] as const) {
          const record = { ...old, phase, result }
          const got = admit(room({ old: { turn: record, held } }), {}, { ...looked, process, alive })
          const name = JSON.stringify([phase, result !== null, process.pid, alive])
          const own = process === other
          if (own || alive !== false) {
            assert.deepInclude(got.error, { _tag: "TurnInFlight", turn: "turn-b", alive: own ? true : alive }, name)
            continue
          }
          if (result !== null) {
            assert.deepInclude(got.error, { _tag: "TurnUnfinished", turn: "turn-b", phase }, name)
            continue
          }
          const cost = phase === "admit" ? "quota.void" : "quota.spend"
          assert.deepEqual(got.facts, ["turn.lost", cost, "quota.reserve", "turn.admitted"], name)
          assert.deepEqual(got.events[0]!.data as object, {
            ...record,
            state: "failed",
            failure: { class: "lost", reason: "its process has died" },
            changedAt: now
          })
          assert.deepInclude(booked(got)[0]![1], { turn: "turn-b", state: phase === "admit" ? "void" : "owed" })
        }
      }
    }
  }
  // Nobody looked at it.
  assert.deepInclude(admit(room({ old: { turn: old, held } })).error, { _tag: "TurnInFlight", alive: "unknown" })
  const unnamed = decide("admitTurn", room({ old: { turn: old, held } }), asking, undefined)
  assert.deepInclude(unnamed.error, { _tag: "TurnInFlight", alive: "unknown" })
})

test("G55 what a lost turn that was never dispatched held is free for the next one in the same commit; anything else stays held", () => {
  const old = turn({ id: "turn-b", fence: other })
  const held = reservation({ id: "reservation-b", turn: "turn-b", heldUsdMicros: 3_000_000, heldSlots: 2 })
  const full: Account = account({
    limits: { units: { usd: 4_000_000, slots: 2 }, windowMs: null },
    totals: { spent: noUnits, reserved: { ...noUnits, usd: 3_000_000, slots: 2 } }
  })
  const looked = { ...observed, turn: "turn-b", driver: other }
  const tried = (change: Partial<TurnRecord>, its: ReservationRecord | undefined, usd: number) =>
    admit(room({ old: { turn: { ...old, ...change }, held: its }, accounts: [full] }), { bound: { usd } }, looked)
      .refused
  assert.equal(tried({}, held, 4), undefined)
  assert.equal(tried({}, held, 4.1), "QuotaExceeded")
  for (const usd of [1, 4]) {
    assert.equal(tried({ phase: "execute" }, held, usd), "QuotaExceeded")
    assert.equal(tried({}, undefined, usd), "QuotaExceeded")
    assert.equal(tried({}, { ...held, state: "owed" }, usd), "QuotaExceeded")
  }
})

test("G81 G82 admitting reads the goal, the agent, the lease's todo and the turn in the way with its bound", () => {
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    agent: [rowOf(agentTable.put(agent()))],
    lease: [rowOf(leaseTable.put(lease()))],
    todo: [rowOf(todoTable.put(todo()))],
    turn: [rowOf(turnTable.put(turn()))],
    reservation: [rowOf(reservationTable.put(reservation()))]
  }
  const { accounts, waiting: _waiting, ...state } = load("admitTurn", asking, tables(content), now)["state"]
  const { accounts: _a, waiting: _w, ...expected } = room({ old: { turn: turn(), held: reservation() } })
  assert.deepEqual(state, expected)
  assert.deepEqual(
    accounts.map((one: Account) => [one.goal, one.agent]),
    [["goal-a", null]]
  )
  assert.equal(load("admitTurn", asking, tables({ ...content, turn: [] }), now)["state"].old, undefined)
  const again = { turn: "turn-a", fence: fence(), bound: { usd: 1 }, reason: "again" }
  assert.deepEqual(load("retryTurn", again, tables(content), now)["state"].admission.old, {
    turn: turn(),
    held: reservation()
  })
  assert.deepEqual(load("retryTurn", again, tables(content), now)["state"].turn, turn())
  assert.equal(load("retryTurn", { ...again, turn: "turn-z" }, tables(content), now)["state"], undefined)
})

// --- starting over ---------------------------------------------------------------------------------------------------

const first: TurnAttempt = { number: 1, startedAt: 1, retry: null }
const retry = (record: TurnRecord, state: object = {}, payload: object = {}, seen: object = observed) =>
  decide(
    "retryTurn",
    { turn: record, admission: room(state) },
    { turn: "turn-a", fence: fence(), bound: { usd: 1 }, reason: "again", ...payload },
    seen
  )

test("G82 G86 a failed turn starts over under its id, with a new bound and effect, and the context of what is required now", () => {
  const failed = turn({
    state: "failed",
    phase: "execute",
    attempts: [first],
    failure: { class: "lost", reason: "r" },
    context: { requirementRevision: 1, digest: "d", requirement: "before" },
    result: hostResult()
  })
  const got = retry(failed)
  assert.deepEqual(got.facts, ["quota.reserve", "turn.retried"])
  const context = { ...admitted().context!, digest: "d" }
  const again = admitted({ id: "turn-a", attempts: [first], admittedAt: failed.admittedAt, context })
  assert.deepEqual(got.reply, again)
  assert.deepEqual(got.events[1], {
    type: "turn.retried",
    entity: "turn-a",
    data: { ...again, reason: "again" } as never
  })
  const [[, held]] = booked(got) as [[string, ReservationRecord]]
  assert.deepInclude(held, { turn: "turn-a", effectId: "effect-2", todo: "todo-a" })
  // The packet of the attempt that failed is not its context any more; one that had none has none.
  const packet = { ...failed, context: { ...failed.context!, packet: "packet-a" } }
  assert.equal((retry(packet).reply as TurnRecord).context!.digest, null)
  assert.equal((retry({ ...failed, context: null }).reply as TurnRecord).context!.digest, null)
  assert.deepInclude(
    decide("retryTurn", undefined, { turn: "turn-z", fence: fence(), bound: {}, reason: "r" }, observed).error,
    {
      _tag: "NotFound",
      id: "turn-z"
    }
  )
  for (const state of ["open", "closed"] as const) {
    for (const phase of phases) assert.equal(retry(turn({ state, phase })).refused, "PhaseOrder", `${state} ${phase}`)
  }
  assert.equal(retry(failed, {}, { fence: fence({ todo: "todo-b" }) }).refused, "PhaseOrder")
  assert.equal(retry(failed, { accounts: [account()] }, { bound: { usd: 6 } }).refused, "QuotaExceeded")
})

test("G82 starting over renames what is booked for it, and nothing that is of another turn", () => {
  const failed = turn({ state: "failed" })
  const old = turn({ id: "turn-b", fence: other, phase: "execute" })
  const held = reservation({ id: "reservation-b", turn: "turn-b" })
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" } })] })
  const got = retry(
    failed,
    { old: { turn: old, held }, gates: [once] },
    {},
    { ...observed, turn: "turn-b", driver: other }
  )
  assert.deepEqual(got.facts, ["turn.lost", "quota.spend", "gate.used", "quota.reserve", "turn.retried"])
  assert.deepEqual(
    booked(got).map(([type, one]) => [type, one.turn]),
    [
      ["quota.spend", "turn-b"],
      ["quota.reserve", "turn-a"]
    ]
  )
  assert.equal((got.events[2]!.data as unknown as { id: string }).id, "gate-a")
})

// --- a further attempt -----------------------------------------------------------------------------------------------

const mine = { process: me, turn: "turn-a", driver: me, alive: false }
const executing = turn({
  phase: "execute",
  attempts: [first],
  executor: other,
  guarantee: { diesWithParent: true, wholeTree: true },
  usage: { total: 1, messages: 1, repeated: 0 },
  epoch: 1
})
const further = (state: object = {}, payload: object = {}, seen: object | undefined = mine) =>
  decide(
    "retryAttempt",
    {
      turn: executing,
      goal: goal(),
      lease: lease(),
      held: reservation({ effectId: "turn-a" }),
      todo: todo(),
      gates: [],
      required: [],
      accounts: [],
      counted: new Set(),
      ...state
    },
    {
      turn: "turn-a",
      fence: fence(),
      failure: { class: "capacity", check: "529" },
      spend: { usd: 0.25 },
      bound: { usd: 1 },
      ...payload
    },
    seen
  )

test("G80 G84 a further attempt ends the last one with its cost and holds a bound of its own, in one commit", () => {
  const got = further()
  assert.deepEqual(got.facts, ["quota.spend", "quota.reserve", "turn.attemptSaved"])
  const failed = { ...first, failure: { class: "capacity", check: "529" }, effectId: "turn-a" }
  const next = { number: 2, startedAt: now, retry: "the attempt before failed as capacity (529)" }
  assert.deepEqual(got.reply, {
    ...executing,
    effectId: "effect-1",
    reservation: "reservation-2",
    epoch: 2,
    attempts: [failed, next],
    executor: null,
    guarantee: null,
    usage: null,
    changedAt: now
  })
  const [[, ended], [, held]] = booked(got) as [[string, ReservationRecord], [string, ReservationRecord]]
  assert.deepInclude(ended, { id: "reservation-a", state: "spent", spentUsdMicros: 250_000, spentSlots: 0 })
  assert.deepInclude(held, {
    turn: "turn-a",
    todo: "todo-a",
    agent: "ada",
    role: "worker",
    effectId: "effect-1",
    heldUsdMicros: 1_000_000,
    heldSlots: 1
  })
  assert.deepEqual(held.heldMeters, { attempts: 1 })
  const guarantee = { diesWithParent: false, wholeTree: false }
  const named = further(
    { held: reservation({ role: "evaluator" }) },
    { host: "acme", guarantee, bound: { slots: 2, attempts: 5 } }
  )
  assert.deepEqual(named.reply["guarantee"], guarantee)
  assert.deepEqual(named.reply["attempts"][1], { ...next, host: "acme" })
  assert.deepInclude(booked(named)[1]![1], { role: "evaluator", heldSlots: 2 })
  assert.deepEqual(booked(named)[1]![1].heldMeters, { attempts: 5 })
  assert.equal(booked(further({ held: reservation({ role: null }) }))[1]![1].role, "worker")
  // The attempts before it stay as they were.
  const second = { ...first, number: 2 }
  const third_ = further({ turn: { ...executing, attempts: [failed, second] } })
  assert.deepEqual(third_.reply["attempts"].slice(0, 2), [
    failed,
    { ...second, failure: failed.failure, effectId: "turn-a" }
  ])
  assert.equal(third_.reply["attempts"][2].number, 3)
})

test("G55 G56 what the failed attempt held is free for the next one, what it cost is not; an unknown cost keeps its bound", () => {
  const limited = (units: object, reserved: object): Account =>
    account({ limits: { units, windowMs: null }, totals: { spent: noUnits, reserved: { ...noUnits, ...reserved } } })
  const full = limited({ usd: 3_000_000, slots: 1 }, { usd: 2_000_000, slots: 1 })
  const tried = (usd: number, spend: number | "unknown") =>
    further({ accounts: [full] }, { bound: { usd }, spend: { usd: spend } }).refused
  assert.equal(tried(2.75, 0.25), undefined)
  assert.equal(tried(2.76, 0.25), "QuotaExceeded")
  assert.equal(tried(3, 0), undefined)
  assert.equal(tried(1, "unknown"), undefined)
  assert.equal(tried(1.1, "unknown"), "QuotaExceeded")
  assert.equal(further({ goal: goal({ requiredMeters: ["tokens"] }) }).refused, "BoundMissing")
})

test("G10 G35 G40 G81 G84 what keeps a further attempt from being started", () => {
  assert.deepInclude(further({ turn: undefined }).error, { _tag: "NotFound", id: "turn-a" })
  assert.equal(further({}, {}, { ...mine, process: other }).refused, "TurnInFlight")
  assert.equal(further({ goal: goal({ state: "paused" }) }).refused, "GoalNotActive")
  assert.equal(further({ lease: lease({ owner: "bob" }) }).refused, "LeaseLost")
  assert.equal(further({ gates: [gate()] }).refused, "Gated")
  assert.equal(further({ required: [source({ state: "unreadable" })] }).refused, "SourceState")
  assert.equal(further({}, { failure: { class: "auth", check: "401" } }).refused, "RetryRefused")
  for (const phase of phases) {
    const got = further({ turn: { ...executing, phase } })
    assert.equal(got.refused, phase === "execute" ? undefined : "PhaseOrder", phase)
  }
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" } })] })
  assert.deepEqual(further({ gates: [once] }).facts, ["gate.used", "quota.spend", "quota.reserve", "turn.attemptSaved"])
})

test("G56 G84 a further attempt reads the accounts of its goal and agent, and what was counted of its messages", () => {
  const asked = { turn: "turn-a", fence: fence(), failure: { class: "c", check: "c" }, spend: { usd: 0 }, bound: {} }
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    agent: [rowOf(agentTable.put(agent({ budget: { units: { usd: 1 }, windowMs: null } })))],
    turn: [rowOf(turnTable.put(turn()))]
  }
  const state = load("retryAttempt", asked, tables(content), now)["state"]
  assert.deepEqual(
    state.accounts.map((one: Account) => one.agent),
    [null, "ada"]
  )
  const none = load("retryAttempt", { ...asked, turn: "turn-z" }, tables(content), now)["state"]
  assert.deepEqual([none.turn, none.accounts, none.counted], [undefined, [], new Set()])
})
