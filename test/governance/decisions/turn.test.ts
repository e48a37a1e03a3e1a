/** What may become of a turn, over its phases, its driver and what was seen of it. Rules: G10, G35, G80, G81, G82, G85. */
import { assert, test } from "vitest"
import { Turns } from "../../../src/governance/index.ts"
import { reservationTable } from "../../../src/governance/ReservationRecord.ts"
import { acceptanceTable } from "../../../src/governance/Acceptance.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { sourceTable } from "../../../src/governance/SourceRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { turnHandlers } from "../../../src/governance/Turn.ts"
import { phases, type TurnRecord, turnTable } from "../../../src/governance/TurnRecord.ts"
import { hold, newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, rowOf, tables } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { fence, gate, gateDecision, goal, hostResult, me, other, reservation, source, turn } from "./workRecords.ts"

const decide = decideBy(turnHandlers)
const load = loadBy(turnHandlers)
const states = ["open", "closed", "failed"] as const
const mine = { process: me, turn: "turn-a", driver: me, alive: false }
const others = { ...mine, process: other }

const ready = (record: TurnRecord | undefined, more: object = {}) => ({
  turn: record,
  goal: goal(),
  lease: lease(),
  held: reservation(),
  todo: todo(),
  gates: [],
  required: [],
  ...more
})

test("G80 G82 every command of a turn names one that is there, and is of its driver", () => {
  const result = hostResult()
  const commands: readonly (readonly [string, object, TurnRecord["phase"]])[] = [
    ["saveAttempt", { fence: fence() }, "admit"],
    ["nameExecutor", { executor: other }, "execute"],
    ["recordResult", { result }, "execute"],
    ["recordVerdict", { acceptance: null, note: "n" }, "result"],
    ["closeTurn", {}, "settle"]
  ]
  for (const [type, payload, phase] of commands) {
    const asked = { turn: "turn-a", ...payload }
    const state = { ...ready(turn({ phase })), counted: new Set(), acceptance: undefined }
    assert.deepInclude(decide(type, { ...state, turn: undefined }, asked, mine).error, {
      _tag: "NotFound",
      id: "turn-a"
    })
    assert.equal(decide(type, state, asked, others).refused, "TurnInFlight", type)
    assert.equal(decide(type, state, asked, undefined).refused, "TurnInFlight", type)
    assert.equal(decide(type, state, asked, mine).refused, undefined, type)
    for (const at of phases) {
      for (const is of states) {
        if (at === phase && is === "open") continue
        const got = decide(type, { ...state, turn: turn({ phase: at, state: is }) }, asked, mine)
        const replayed = type === "closeTurn" && is === "closed"
        assert.equal(got.refused, replayed ? undefined : "PhaseOrder", `${type} ${at} ${is}`)
      }
    }
  }
})

test("G80 G82 an attempt is saved before its host is started; a further one names its reason", () => {
  const save = (record: TurnRecord, payload: object = {}, more: object = {}) =>
    decide("saveAttempt", ready(record, more), { turn: "turn-a", fence: fence(), ...payload }, mine)
  const first = { number: 1, startedAt: now, retry: null }
  const admitted = turn({ executor: other, epoch: 1, guarantee: { diesWithParent: true, wholeTree: true } })
  const saved = save(admitted)
  assert.deepEqual(saved.facts, ["turn.attemptSaved"])
  assert.deepEqual(saved.reply, {
    ...admitted,
    phase: "execute",
    epoch: 2,
    attempts: [first],
    executor: null,
    guarantee: null,
    changedAt: now
  })
  const guarantee = { diesWithParent: true, wholeTree: false }
  const named = save(admitted, { guarantee, host: "acme", retry: "why not" }).reply
  assert.deepEqual(named["guarantee"], guarantee)
  assert.deepEqual(named["attempts"], [{ ...first, host: "acme", retry: "why not" }])
  const executing = turn({ phase: "execute", attempts: [first] })
  const again = save(executing, { retry: "it was killed" })
  assert.deepEqual(again.reply["attempts"], [first, { ...first, number: 2, retry: "it was killed" }])
  // Executing is followed by a result, or by a further attempt that says why; no other phase by either.
  assert.equal(save(executing).refused, "PhaseOrder")
  for (const phase of ["result", "validate", "settle", "close"] as const)
    assert.equal(save(turn({ phase, attempts: [first] }), { retry: "r" }).refused, "PhaseOrder", phase)
  assert.equal(
    save(turn({ phase: "execute", state: "failed", attempts: [first] }), { retry: "r" }).refused,
    "PhaseOrder"
  )
  // A turn that was started over has attempts of before.
  assert.equal(save(turn({ attempts: [first] })).refused, "InvalidInput")
  assert.deepInclude(save(turn({ attempts: [first] }), { retry: "r" }).reply["attempts"][1], { number: 2, retry: "r" })
})

test("G10 G14 G35 G40 nothing is started on a paused goal, without the lease, past a gate, or under what cannot be read", () => {
  const save = (more: object, payload: object = {}) =>
    decide("saveAttempt", ready(turn(), more), { turn: "turn-a", fence: fence(), ...payload }, mine)
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(save({ goal: goal({ state }) }).refused, "GoalNotActive")
  for (const change of [{ owner: "bob" }, { goal: "goal-b" }, { releasedAt: 1 }])
    assert.equal(save({ lease: lease(change) }).refused, "LeaseLost")
  const others_ = save({ lease: lease({ owner: "bob" }) }).error
  assert.deepInclude(others_, { todo: "todo-a", epoch: 2, currentEpoch: 2, why: "none" })
  assert.include(others_["message"], "bob's in goal goal-a")
  assert.equal(save({ lease: undefined }).refused, "LeaseLost")
  assert.equal(save({ required: [source({ state: "unreadable" })] }).refused, "SourceState")
  assert.equal(save({ required: [source()] }).refused, undefined)
  const gated = save({ gates: [gate({ agents: ["ada"], todos: ["todo-a"], actions: ["dispatch"] })] })
  assert.deepInclude(gated.error, { _tag: "Gated", agent: "ada", action: "dispatch", todo: "todo-a", goal: "goal-a" })
  assert.equal(save({ gates: [gate({ actions: ["claim"] })] }).refused, undefined)
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" } })] })
  const used = save({ gates: [once] })
  assert.deepEqual(used.facts, ["gate.used", "turn.attemptSaved"])
  assert.deepInclude((used.events[0]!.data as unknown as { decisions: object[] }).decisions[0], { usedBy: "todo-a/2" })
  assert.equal(save({ gates: [gate({ todos: ["todo-a"] })], todo: undefined }).refused, undefined)
})

test("G80 S20 the executor, its result and the verdict are kept as they were told", () => {
  const guarantee = { diesWithParent: true, wholeTree: true }
  const started = (record: TurnRecord, payload: object) =>
    decide("nameExecutor", ready(record), { turn: "turn-a", executor: other, ...payload }, mine)
  const executing = turn({ phase: "execute", guarantee })
  assert.deepEqual(started(executing, {}).facts, ["turn.executorStarted"])
  assert.deepEqual(started(executing, {}).reply, { ...executing, executor: other, changedAt: now })
  const other_ = { diesWithParent: false, wholeTree: true }
  assert.deepEqual(started(executing, { guarantee: other_ }).reply["guarantee"], other_)

  const result = hostResult({ summary: "s" })
  const kept = decide("recordResult", { ...ready(executing), counted: new Set() }, { turn: "turn-a", result }, mine)
  assert.deepEqual(kept.facts, ["turn.resultRecorded"])
  assert.deepEqual(kept.reply, { ...executing, phase: "result", result, usage: null, changedAt: now })

  const judged = turn({ phase: "result" })
  const verdict = (payload: object, acceptance?: object) =>
    decide("recordVerdict", { ...ready(judged), acceptance }, { turn: "turn-a", ...payload }, mine)
  assert.deepEqual(verdict({ acceptance: null, note: "nobody judges" }).facts, ["turn.validated"])
  assert.deepEqual(verdict({ acceptance: null, note: "nobody judges" }).reply, {
    ...judged,
    phase: "validate",
    verdict: { acceptance: null, note: "nobody judges" },
    changedAt: now
  })
  assert.equal(verdict({ acceptance: null }).refused, "InvalidInput")
  assert.equal(verdict({ acceptance: null, note: "" }).refused, "InvalidInput")
  const ours = { goal: "goal-a" }
  assert.deepEqual(verdict({ acceptance: "verdict-a" }, ours).reply["verdict"], { acceptance: "verdict-a", note: null })
  assert.deepEqual(verdict({ acceptance: "verdict-a", note: "n" }, ours).reply["verdict"], {
    acceptance: "verdict-a",
    note: "n"
  })
  for (const found of [undefined, { goal: "goal-b" }])
    assert.deepInclude(verdict({ acceptance: "verdict-a" }, found).error, { kind: "acceptance", id: "verdict-a" })
})

test("G80 G82 a settled turn is closed once; closing again gives the same record, whoever asks", () => {
  const settled = turn({ phase: "settle" })
  const close = (record: TurnRecord, observed: object | undefined) =>
    decide("closeTurn", ready(record), { turn: "turn-a" }, observed)
  assert.deepEqual(close(settled, mine).facts, ["turn.closed"])
  const closed = { ...settled, phase: "close", state: "closed", changedAt: now } as const
  assert.deepEqual(close(settled, mine).reply, closed)
  for (const observed of [mine, others, undefined])
    assert.deepEqual(
      [close(closed, observed).facts, close(closed, observed).reply],
      [[], { ...closed, replayed: true }]
    )
})

test("G81 G82 G85 who may end a turn as failed: over its phase, the class, what was seen of it and by whom", () => {
  for (const state of states) {
    for (const phase of phases) {
      for (const kind of [undefined, "lost", "failed", "supervisionFailed"] as const) {
        for (const seenGone of [undefined, "ps shows none"]) {
          for (const doubted of [null, { class: "supervisionFailed", reason: "r" }] as const) {
            for (const process of [me, other, undefined]) {
              for (const alive of [true, false, "unknown"] as const) {
                const record = turn({ state, phase, failure: doubted })
                const observed = process === undefined ? undefined : { ...mine, process, alive }
                const got = decide(
                  "failTurn",
                  ready(record),
                  {
                    turn: "turn-a",
                    reason: "no more",
                    spend: { usd: 0.5 },
                    ...(kind === undefined ? {} : { class: kind }),
                    ...(seenGone === undefined ? {} : { seenGone })
                  },
                  observed
                )
                const name = JSON.stringify([state, phase, kind, seenGone, doubted, process?.pid, alive])
                if (state === "failed") {
                  assert.deepEqual([got.facts, got.reply], [[], { ...record, replayed: true, owed: [] }], name)
                  continue
                }
                if (state === "closed" || phase === "settle") {
                  assert.equal(got.refused, "PhaseOrder", name)
                  continue
                }
                const seen = process === undefined ? "unknown" : alive
                const survives = kind === "supervisionFailed" && seenGone === undefined
                const driver = process === me
                // Seen dead; or nobody sees it and somebody vouches, or its own driver says so of what nobody doubted.
                const ended =
                  seen === false ||
                  (seen === "unknown" && (seenGone !== undefined || (driver && !survives && doubted === null)))
                if (!ended && !(survives && driver)) {
                  assert.deepInclude(got.error, { _tag: "TurnInFlight", alive: seen }, name)
                  continue
                }
                assert.deepEqual(
                  got.facts,
                  [
                    survives ? "turn.supervisionFailed" : "turn.failed",
                    phase === "admit" ? "quota.void" : "quota.spend"
                  ],
                  name
                )
                assert.deepEqual(
                  got.reply,
                  {
                    ...record,
                    state: survives ? "open" : "failed",
                    failure: {
                      class: kind ?? doubted?.class ?? "failed",
                      reason: seenGone === undefined ? "no more" : "no more (executor gone: ps shows none)"
                    },
                    changedAt: now,
                    owed: []
                  },
                  name
                )
              }
            }
          }
        }
      }
    }
  }
  assert.equal(
    decide("failTurn", ready(undefined), { turn: "t", reason: "r", spend: { usd: 0 } }, mine).refused,
    "NotFound"
  )
  const long = { turn: "turn-a", reason: "r".repeat(1999), spend: { usd: 0 }, seenGone: "looked" }
  const { failure } = decide("failTurn", ready(turn()), long, mine).reply as TurnRecord
  assert.equal(failure!.reason.length, 2000)
})

test("G55 a failed turn pays what it came to: nothing before its dispatch, an unknown cost is owed, and what was booked stays", () => {
  const fail = (record: TurnRecord, held: object | undefined, usd: number | "unknown") =>
    decide("failTurn", ready(record, { held }), { turn: "turn-a", reason: "no more", spend: { usd } }, mine)
  const owed = [
    {
      reservation: "reservation-a",
      todo: "todo-a",
      turn: "turn-a",
      call: { operation: "Quota.trueUp", input: { reservation: "reservation-a", usd: null } }
    }
  ]
  const executing = turn({ phase: "execute" })
  const unknown = fail(executing, reservation(), "unknown")
  assert.deepEqual([unknown.facts, unknown.reply["owed"]], [["turn.failed", "quota.spend"], owed])
  assert.deepEqual(fail(turn(), reservation(), "unknown").facts, ["turn.failed", "quota.void"])
  for (const state of ["spent", "void"] as const) {
    const got = fail(executing, reservation({ state }), "unknown")
    assert.deepEqual([got.facts, got.reply["owed"]], [["turn.failed"], []])
  }
  const before = fail(executing, reservation({ state: "owed" }), 1)
  assert.deepEqual([before.facts, before.reply["owed"]], [["turn.failed"], owed])
  assert.deepEqual(fail(executing, undefined, 1).facts, ["turn.failed"])
  const over = fail(turn({ state: "failed" }), reservation({ state: "owed" }), 1)
  assert.deepEqual([over.facts, over.reply["owed"]], [[], owed])
  assert.deepEqual(fail(turn({ state: "failed" }), undefined, 1).reply["owed"], [])
})

test("G81 G82 an open turn is taken over from a dead driver, or gone on with by its own; its lease is asked for where one is named", () => {
  const resume = (
    record: TurnRecord | undefined,
    observed: object | undefined,
    payload: object = {},
    more: object = {}
  ) => decide("resumeTurn", ready(record, more), { turn: "turn-a", ...payload }, observed)
  assert.equal(resume(undefined, mine).refused, "NotFound")
  for (const state of ["closed", "failed"] as const) {
    const record = turn({ state })
    assert.deepEqual(
      [resume(record, undefined).facts, resume(record, undefined).reply],
      [[], { ...record, next: "none" }]
    )
  }
  for (const process of [me, other]) {
    for (const alive of [true, false, "unknown"] as const) {
      const record = turn({ phase: "result" })
      const got = resume(record, { ...mine, process, alive })
      if (process === me)
        assert.deepEqual([got.facts, got.reply], [[], { ...record, changedAt: now, next: "validate" }])
      else if (alive === false) {
        assert.deepEqual(got.facts, ["turn.resumed"])
        assert.deepEqual(got.reply, { ...record, fence: other, changedAt: now, next: "validate" })
      } else assert.deepInclude(got.error, { _tag: "TurnInFlight", alive })
    }
  }
  assert.deepInclude(resume(turn(), undefined).error, { _tag: "TurnInFlight", alive: "unknown" })
  // Under a newer epoch it is another fence, also for its own driver.
  const newer = { lease: lease({ epoch: 3 }) }
  const moved = resume(turn(), mine, { fence: fence({ epoch: 3 }) }, newer)
  assert.deepEqual([moved.facts, moved.reply["epoch"]], [["turn.resumed"], 3])
  assert.deepEqual(resume(turn(), mine, { fence: fence() }).facts, [])
  assert.equal(resume(turn(), mine, { fence: fence() }, newer).refused, "LeaseLost")
  assert.equal(resume(turn(), mine, { fence: fence() }, { lease: lease({ owner: "bob" }) }).refused, "LeaseLost")
  // A settled turn needs no lease any more.
  const settled = resume(turn({ phase: "settle" }), others, { fence: fence() }, { lease: undefined })
  assert.deepInclude(settled.reply, { fence: other, epoch: 2, next: "close" })
})

test("G80 G82 what the commands of a turn read", () => {
  const content = tables({
    turn: [rowOf(turnTable.put(turn()))],
    goal: [rowOf(goalTable.put(goal()))],
    lease: [rowOf(leaseTable.put(lease()))],
    reservation: [rowOf(reservationTable.put(reservation()))],
    todo: [rowOf(todoTable.put(todo({ requiredReads: ["source-a"] })))],
    source: [rowOf(sourceTable.put(source()))],
    acceptance: [rowOf(acceptanceTable.put({ id: "verdict-a", evidence: [], validator: {} } as never))]
  })
  const { turn: _t, goal: _g, ...none } = { turn: 0, goal: 0, todo: undefined, gates: [], required: [] }
  const nothing = { turn: undefined, goal: undefined, lease: undefined, held: undefined }
  const state = { turn: turn(), goal: goal(), lease: lease(), held: reservation() }
  const save = { turn: "turn-a", fence: fence() }
  assert.deepEqual(load("saveAttempt", save, content)["state"], {
    ...state,
    todo: todo({ requiredReads: ["source-a"] }),
    gates: [],
    required: [source()]
  })
  assert.deepEqual(load("saveAttempt", { ...save, turn: "t" }, content)["state"], { ...nothing, ...none })
  assert.deepEqual(load("closeTurn", { turn: "turn-a" }, content)["state"], state)
  assert.deepEqual(load("recordResult", { turn: "t", result: hostResult() }, content)["state"], {
    ...nothing,
    counted: new Set()
  })
  assert.deepEqual(load("recordVerdict", { turn: "turn-a", acceptance: null }, content)["state"], {
    ...state,
    acceptance: undefined
  })
  assert.equal(
    load("recordVerdict", { turn: "t", acceptance: "verdict-a" }, content)["state"].acceptance.id,
    "verdict-a"
  )
})

test("G82 G73 turns are listed by goal and state, oldest first, each with its next step; what is owed is said of a goal", async () => {
  const bench = await newBench()
  const made: string[] = []
  const goals = [await newGoal(bench), await newGoal(bench)]
  for (const { id } of goals) {
    for (const who of ["ada", "bob"]) {
      const { fence: held } = await hold(bench, await newTodo(bench, { id } as never), who)
      made.push((await bench.run(Turns.admit({ goal: id, agent: who, fence: held, bound: { usd: 1 } }))).id)
      bench.now += 1
      if (who === "bob") {
        await bench.run(Turns.saveAttempt({ turn: made.at(-1)!, fence: held }))
        await bench.run(
          Turns.fail({
            turn: made.at(-1)!,
            reason: "no",
            class: "failed",
            spend: { usd: "unknown" },
            seenGone: "looked"
          })
        )
      }
    }
  }
  const list = async (input: { goal?: string; state?: TurnRecord["state"] }) => {
    const { items, owed } = await bench.run(Turns.list(input))
    return [items.map(({ id, next }) => `${made.indexOf(id)} ${next}`), owed?.map((one) => made.indexOf(one.turn!))]
  }
  assert.deepEqual(await list({}), [["0 run", "1 none", "2 run", "3 none"], undefined])
  assert.deepEqual(await list({ goal: goals[0]!.id }), [["0 run", "1 none"], [1]])
  assert.deepEqual(await list({ state: "open" }), [["0 run", "2 run"], undefined])
  assert.deepEqual(await list({ goal: goals[1]!.id, state: "failed" }), [["3 none"], [3]])
  assert.deepInclude(await bench.run(Turns.get({ turn: made[0]! })), { next: "run", owed: [] })
  assert.equal((await bench.run(Turns.get({ turn: made[1]! }))).owed.length, 1)
  assert.deepInclude(await bench.fails(Turns.get({ turn: "t" })), { _tag: "NotFound", id: "t" })
  for (const wrong of [undefined, null, 7]) {
    assert.deepInclude(await bench.fails(Turns.close(wrong as never)), { _tag: "InvalidInput", command: "closeTurn" })
    assert.deepInclude(await bench.fails(Turns.retry(wrong as never)), { _tag: "InvalidInput", command: "retryTurn" })
  }
  // Starting over looks at the open turn of the agent, which is in the way.
  const { fence: second } = await hold(bench, await newTodo(bench, goals[0]!), "bob")
  const inWay = await bench.run(Turns.admit({ goal: goals[0]!.id, agent: "bob", fence: second, bound: { usd: 1 } }))
  const over = await bench.fails(Turns.retry({ turn: made[1]!, fence: second, bound: { usd: 1 }, reason: "again" }))
  assert.equal(over._tag, "PhaseOrder")
  assert.equal((await bench.run(Turns.resume({ turn: inWay.id }))).next, "run")
})
