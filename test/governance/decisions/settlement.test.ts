/** What a settlement keeps and leaves, condition by condition. Rules: G10, G15, G35, G40, G61, G72, G73, G86, G91. */
import { assert, test } from "vitest"
import { acceptanceTable } from "../../../src/governance/Acceptance.ts"
import { candidateTable } from "../../../src/governance/CandidateRecord.ts"
import { evidenceTable } from "../../../src/governance/Evidence.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { Settlements } from "../../../src/governance/index.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { reservationTable } from "../../../src/governance/ReservationRecord.ts"
import { settlementHandlers } from "../../../src/governance/Settlement.ts"
import { type Settlement, settlementTable } from "../../../src/governance/SettlementRecord.ts"
import { sourceTable } from "../../../src/governance/SourceRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { hold, newBench, newGoal, newTodo } from "../authority.ts"
import { loadBy, recording, rowOf, tables } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { evidence, fence, gate, gateDecision, goal, obligation, reservation, source, turn } from "./workRecords.ts"
import {
  accepting,
  asking,
  byHand,
  complete,
  digest,
  ground,
  keep,
  outcomes,
  settle,
  validated,
  verdict
} from "./settling.ts"

test("G72 a settlement keeps work, cost, turn and receipt in one commit; sent again it is a replay, with another content a conflict", () => {
  const got = settle()
  assert.deepEqual(got.facts, ["settlement.settled", "quota.spend", "turn.settled"])
  const { content, ...receipt } = got.reply
  assert.deepEqual(receipt, {
    id: "settlement-1",
    effectId: "turn-a",
    goal: "goal-a",
    todo: "todo-a",
    turn: "turn-a",
    outcome: "progress",
    accepted: false,
    acceptance: null,
    candidate: null,
    evidence: [],
    reservation: "reservation-a",
    settledAt: now,
    todoState: "open",
    successors: [],
    spend: { usd: 0.5, slots: 1 },
    owed: []
  })
  assert.deepEqual(got.events[2]!.data as object, {
    ...validated,
    phase: "settle",
    settlement: "settlement-1",
    changedAt: now
  })
  const settled = { ...got.reply, receipt: got.reply }
  for (const change of [{}, { fence: fence({ epoch: 9, token: "of another lease" }) }]) {
    const again = settle({ settled, goal: undefined }, change)
    assert.deepEqual([again.facts, again.reply], [[], { ...got.reply, replayed: true }])
  }
  for (const change of [
    { outcome: "failed" },
    { note: "n" },
    { spend: { usd: 1 } },
    { fence: fence({ todo: "todo-b" }) }
  ])
    assert.deepInclude(settle({ settled }, change).error, {
      _tag: "IdentityConflict",
      kind: "settlement",
      id: "turn-a"
    })
  assert.notEqual(content, "")
  const hand = byHand()
  assert.deepEqual(hand.facts, ["settlement.settled", "quota.spend"])
  assert.deepInclude(hand.reply, { turn: null, reservation: "reservation-1", id: "settlement-2" })
})

test("G10 G35 a settlement is of open authority: an active goal, a todo of it, its lease", () => {
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(settle({ goal: goal({ state }) }).refused, "GoalNotActive")
  assert.deepInclude(settle({ goal: undefined }).error, { kind: "goal" })
  for (const found of [undefined, todo({ goal: "goal-b" })])
    assert.deepInclude(settle({ todo: found }).error, { _tag: "NotFound", kind: "todo", id: "todo-a" })
  assert.equal(settle({ lease: lease({ expiresAt: now }) }).refused, "LeaseLost")
  assert.equal(settle({ lease: undefined }).refused, "LeaseLost")
})

test("G72 what becomes of the todo: kept with its lease or without, or completed", () => {
  assert.notInclude(settle({}, { todo: { action: "keep", release: false } }).facts, "lease.released")
  const released = settle({}, { todo: { action: "keep", release: true } })
  assert.deepEqual(released.facts, ["settlement.settled", "quota.spend", "lease.released", "turn.settled"])
  assert.equal(released.reply["todoState"], "open")
  assert.equal(settle({ todo: todo({ state: "done" }) }, { todo: complete }).refused, "TodoState")
})

test("G61 G71 nothing is accepted or completed while an effect of it is unresolved; a declared validator's todo is completed by an acceptance", () => {
  for (const outcome of outcomes) {
    for (const fate of [keep, complete]) {
      const name = `${outcome} ${fate.action}`
      const asked = { outcome, todo: fate, ...(outcome === "accepted" ? { acceptance: "verdict-a" } : {}) }
      const ends = outcome === "accepted" || fate.action === "complete"
      assert.equal(settle({ effects: ["e-1"] }, asked).refused, ends ? "EffectUnresolved" : undefined, name)
      const declared = settle({ todo: todo({ acceptance: { validator: "oracle" } }) }, asked)
      const refused = fate.action === "complete" && outcome !== "accepted"
      assert.equal(declared.refused, refused ? "AcceptanceInvalid" : undefined, name)
      if (refused) assert.deepInclude(declared.error, { why: "notPassed" })
    }
  }
})

test("G40 accepting and completing pass their gates, by the holder's name, once in a holding; a cost passes none", () => {
  for (const outcome of outcomes) {
    for (const fate of [keep, complete]) {
      const asked = { outcome, todo: fate, ...(outcome === "accepted" ? { acceptance: "verdict-a" } : {}) }
      for (const action of ["settle", "complete", "dispatch"] as const) {
        const stops = action === "settle" ? outcome === "accepted" : action === "complete" && fate.action === "complete"
        const name = `${outcome} ${fate.action} ${action}`
        const got = settle({ gates: [gate({ actions: [action], agents: ["ada"], todos: ["todo-a"] })] }, asked)
        assert.equal(got.refused, stops ? "Gated" : undefined, name)
        if (stops) assert.deepInclude(got.error, { agent: "ada", action, todo: "todo-a" })
        assert.equal(settle({ gates: [gate({ actions: [action], agents: ["bob"] })] }, asked).refused, undefined, name)
        const once = gate({ actions: [action], decisions: [gateDecision({ reach: { kind: "once" } })] })
        const used = settle({ gates: [once] }, asked)
        assert.equal(used.facts.includes("gate.used"), stops, name)
        const fact = used.events.find(({ type }) => type === "gate.used")?.data as { decisions?: object[] } | undefined
        if (stops) assert.deepInclude(fact!.decisions![0], { usedBy: "todo-a/2" })
      }
    }
  }
  const both = gate({ actions: ["settle", "complete"], decisions: [gateDecision({ reach: { kind: "once" } })] })
  const facts = settle({ gates: [both] }, { ...accepting, todo: complete }).facts
  assert.equal(facts.filter((type) => type === "gate.used").length, 1)
})

test("G15 an attempt meets what had to be attempted; completing leaves none of its own open", () => {
  const own = obligation()
  const shared = obligation({ id: "obligation-b", todo: null })
  const silent = { ...validated, result: null }
  assert.equal(settle({ obligations: [own, shared] }).facts.filter((type) => type === "obligation.met").length, 2)
  const met = settle({ obligations: [own] }).events.find(({ type }) => type === "obligation.met")!
  assert.deepInclude(met.data as object, { state: "met", attempt: { turn: "turn-a", settlement: "turn-a" } })
  const unmet = settle({ obligations: [own], turn: silent })
  assert.deepEqual([unmet.refused, unmet.facts.includes("obligation.met")], [undefined, false])
  const refused = settle({ obligations: [own, shared], turn: silent }, { todo: complete }).error
  assert.deepEqual([refused["_tag"], refused["obligations"].length], ["ObligationOpen", 1])
  // What the goal asks for as a whole keeps no todo open.
  assert.equal(settle({ obligations: [shared], turn: silent }, { todo: complete }).refused, undefined)
  assert.equal(settle({ obligations: [own] }, { todo: complete }).refused, undefined)
  for (const outcome of outcomes) {
    if (outcome === "accepted") continue
    const hand = byHand({ obligations: [own] }, { outcome })
    const attempted = outcome !== "inconclusive" && outcome !== "unavailable"
    assert.equal(hand.facts.includes("obligation.met"), attempted, outcome)
    const fact = hand.events.find(({ type }) => type === "obligation.met")
    if (attempted) assert.deepInclude(fact!.data as object, { attempt: { turn: null, settlement: "hand-a" } })
    const ends = byHand({ obligations: [own] }, { outcome, todo: complete })
    assert.equal(ends.refused, attempted ? undefined : "ObligationOpen", outcome)
  }
})

test("G86 work that is not of what is required now is kept as stale: its todo stays open, and no verdict or gate is asked", () => {
  const admitted = { requirementRevision: 1, digest: null, requirement: "before", reads: [] }
  const stale = { turn: { ...validated, context: admitted } }
  for (const outcome of outcomes) {
    for (const fate of [keep, complete, { action: "keep", release: true } as const]) {
      const got = settle(
        { ...stale, acceptance: undefined, gates: [gate({ actions: ["settle", "complete"] })] },
        { outcome, todo: fate }
      )
      assert.deepInclude(
        got.reply,
        { outcome: "staleContext", accepted: false, todoState: "open" },
        `${outcome} ${fate.action}`
      )
      assert.deepInclude(got.reply["stale"], { asked: outcome, admittedRevision: 1, revision: 3, next: "replan" })
      assert.equal(got.facts.includes("lease.released"), "release" in fate)
      assert.notInclude(got.facts, "todo.completed")
    }
  }
  // By hand what is no verdict of this work is refused, stale or not.
  const old = { ...verdict, turn: null, requirement: "before", reads: [] }
  assert.deepInclude(byHand({ acceptance: old }, accepting).reply, { outcome: "staleContext" })
  assert.deepInclude(byHand({ acceptance: { ...old, todo: "todo-b" } }, accepting).error, { why: "otherWork" })
  assert.deepInclude(byHand({}, accepting).reply, { outcome: "accepted" })
  assert.equal(byHand({}, { outcome: "progress", acceptance: "verdict-a" }).refused, undefined)
  const ofTurn = { ...old, turn: "turn-a", todo: "todo-b" }
  assert.deepInclude(settle({ ...stale, acceptance: ofTurn }, accepting).reply, { outcome: "staleContext" })
})

test("G91 an accepted or final result of work with an origin becomes a delivery, and nothing else does", () => {
  const origin = { destination: "d", channel: "c", requestId: "r" }
  for (const outcome of outcomes) {
    for (const fate of [keep, complete]) {
      const asked = { outcome, todo: fate, ...(outcome === "accepted" ? { acceptance: "verdict-a" } : {}) }
      const got = settle({ todo: todo({ origin }) }, asked)
      const told = outcome === "accepted" || fate.action === "complete"
      assert.equal(got.facts.includes("delivery.accepted"), told, `${outcome} ${fate.action}`)
      assert.equal(got.reply["delivery"] !== undefined, told)
      assert.notInclude(settle({}, asked).facts, "delivery.accepted")
      if (!told) continue
      const { result } = got.events.find(({ type }) => type === "delivery.accepted")!.data as unknown as {
        result: object
      }
      assert.deepEqual(result, {
        outcome,
        accepted: outcome === "accepted",
        todoState: fate === keep ? "open" : "done",
        effectId: "turn-a",
        settlement: got.reply["id"],
        candidate: null,
        evidence: [],
        spend: { usd: 0.5, slots: 1 }
      })
    }
  }
})

test("G53 G72 settling reads what it names, and only looks for an open turn of the holder where it names none", () => {
  const content = {
    goal: [rowOf(goalTable.put(goal()))],
    todo: [todo({ requiredReads: ["source-a"] }), todo({ id: "todo-b" })].map((one) => rowOf(todoTable.put(one))),
    lease: [rowOf(leaseTable.put(lease()))],
    turn: [rowOf(turnTable.put(turn()))],
    reservation: [reservation(), reservation({ id: "reservation-b", effectId: "hand-a" })].map((one) =>
      rowOf(reservationTable.put(one))
    ),
    acceptance: [rowOf(acceptanceTable.put(verdict))],
    evidence: [rowOf(evidenceTable.put(evidence()))],
    source: [source(), source({ id: "source-b" })].map((one) => rowOf(sourceTable.put(one))),
    candidate: [rowOf(candidateTable.put({ id: "candidate-a", identity: digest, goal: "goal-a" } as never))],
    settlement: [
      rowOf(
        settlementTable.put({
          id: "settlement-z",
          effectId: "old",
          acceptance: "verdict-a",
          evidence: [],
          receipt: {}
        } as never)
      )
    ]
  }
  const load = (payload: object, more: object = {}) =>
    loadBy(settlementHandlers)("settle", payload, tables({ ...content, ...more }))["state"]
  const state = load({ ...asking, acceptance: "verdict-a", candidate: digest, evidence: ["evidence-a", "evidence-x"] })
  const { carried, candidate, ...rest } = state
  const { carried: _carried, candidate: _candidate, ...expected } = ground()
  assert.deepEqual(rest, {
    ...expected,
    todo: todo({ requiredReads: ["source-a"] }),
    turn: turn(),
    required: [source()],
    evidence: [evidence(), undefined]
  })
  assert.deepEqual([carried.id, candidate.id], ["settlement-z", "candidate-a"])
  const { turn: _turn, ...hand } = asking
  const successors = {
    action: "complete",
    continuation: { kind: "successors", todos: [{ title: "n", dependsOn: ["todo-b"], requiredReads: ["source-b"] }] }
  }
  const bare = load({ ...hand, effectId: "hand-a", reservation: "reservation-b", todo: successors })
  assert.deepInclude(bare, {
    turn: undefined,
    open: turn(),
    acceptance: undefined,
    carried: undefined,
    candidate: undefined,
    verdictEvidence: [],
    kept: reservation({ id: "reservation-b", effectId: "hand-a" }),
    held: reservation({ id: "reservation-b", effectId: "hand-a" }),
    named: [todo({ id: "todo-b" })],
    reads: new Map([["source-b", source({ id: "source-b" })]])
  })
  assert.deepInclude(load(hand), { held: undefined, named: [], reads: new Map() })
  assert.deepInclude(load({ ...asking, acceptance: null, candidate: null }), {
    open: undefined,
    acceptance: undefined,
    candidate: undefined
  })
  assert.equal(load(hand, { lease: [] }).open, undefined)
})

test("G72 G73 receipts are read back by effect id and listed, oldest first, with what is accepted and what is owed now", async () => {
  const bench = await newBench()
  const one = await newGoal(bench)
  const made: Settlement[] = []
  for (const usd of [0.5, "unknown"] as const) {
    const work = await newTodo(bench, one)
    const { fence: held } = await hold(bench, work)
    made.push(
      await bench.run(
        Settlements.settle({
          effectId: `e-${usd}`,
          goal: one.id,
          fence: held,
          outcome: "progress",
          evidence: [],
          spend: { usd },
          todo: { ...keep, release: true }
        })
      )
    )
    bench.now += 1
  }
  const all = await bench.run(Settlements.list({ goal: one.id }))
  assert.deepEqual(
    all.items.map(({ id }) => id),
    made.map(({ id }) => id)
  )
  assert.deepEqual([all.total, all.accepted, all.owed.length], [2, 0, 1])
  assert.deepInclude(await bench.run(Settlements.get({ effectId: "e-0.5" })), { id: made[0]!.id, owed: [] })
  assert.equal((await bench.run(Settlements.get({ effectId: "e-unknown" }))).owed.length, 1)
  const kept = { ...made[0]!, receipt: made[0]! }
  const rows = [kept, { ...kept, effectId: "e-2", accepted: true }].map((one) => rowOf(settlementTable.put(one)))
  const { run } = recording({ settlement: rows })
  assert.deepInclude(await run(Settlements.list({ goal: one.id })), { total: 2, accepted: 1 })
  // A cost whose reservation is not there owes nothing.
  assert.deepEqual((await run(Settlements.get({ effectId: "e-2" }))).owed, [])
  assert.deepInclude(await bench.fails(Settlements.get({ effectId: "e-z" })), { _tag: "NotFound", kind: "settlement" })
})
