import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, beforeAll, describe, test } from "vitest"
import { identify } from "../../src/base/ProcessIdentity.ts"
import {
  type Authority,
  Candidates,
  Goals,
  Leases,
  Quota,
  Settlements,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"
import { oneFile } from "../oneFile.ts"

const program = await oneFile(join(import.meta.dirname, "programs", "driver.ts"))
const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result) ? result.failure.code : "ok"
}

const result = {
  status: "ok",
  claim: "completed",
  summary: "I am done",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 5,
  provenGone: true
} as const

const admitted = async (bench: Bench, bound = { usd: 2 }) => {
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const lease = await hold(bench, todo)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence: lease.fence, bound }))
  return { goal, todo, fence: lease.fence, turn }
}

test("G80 phases go in order, prefix only: every other call is refused and leaves the turn as it was", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  const id = turn.id
  const calls: Record<string, Effect.Effect<unknown, any, Authority>> = {
    execute: Turns.saveAttempt({ turn: id, fence }),
    result: Turns.recordResult({ turn: id, result }),
    validate: Turns.recordVerdict({ turn: id, acceptance: null, note: "nothing declared" }),
    settle: Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: id,
      outcome: "progress",
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "keep" }
    }),
    close: Turns.close({ turn: id })
  }
  const order = Object.keys(calls)
  for (const [at, step] of order.entries()) {
    const phase = at === 0 ? "admit" : order[at - 1]!
    for (const other of order.filter((o) => o !== step && !(o === "settle" && at > 3) && !(o === "close" && at > 4))) {
      assert.equal(await codeOf(bench, calls[other]!), "PHASE_ORDER", `${other} in phase ${phase}`)
      assert.equal((await bench.run(Turns.get({ turn: id }))).phase, phase)
    }
    assert.equal(await codeOf(bench, calls[step]!), "ok")
  }
  const types = (await bench.store.journal({ after: 0, limit: 100 }))
    .map((entry) => entry.type)
    .filter((t) => t.startsWith("turn."))
  assert.deepEqual(types, [
    "turn.admitted",
    "turn.attemptSaved",
    "turn.resultRecorded",
    "turn.validated",
    "turn.settled",
    "turn.closed"
  ])
})

test("G80 admission holds the bound in its own commit, and settling puts work, cost and turn into one commit", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(status.reserved, { usd: 2, slots: 1 })
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "none" }))
  const { entries } = await bench.store.verify()
  await bench.run(
    Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: turn.id,
      outcome: "failed",
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "complete", continuation: { kind: "goalStaysActive" } }
    })
  )
  const commit = await bench.store.journal({ after: entries, limit: 100 })
  assert.deepEqual(
    commit.map((entry) => entry.type),
    ["settlement.settled", "quota.spend", "todo.completed", "lease.released", "turn.settled"]
  )
  assert.equal(new Set(commit.map((entry) => entry.command)).size, 1)
  const after = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(
    [after.reserved, after.spent],
    [
      { usd: 0, slots: 0 },
      { usd: 0.5, slots: 1 }
    ]
  )
})

test("G81 a second turn of the agent on the goal gets TurnInFlight before journal and quota are touched", async () => {
  const bench = await newBench()
  const { goal, turn } = await admitted(bench)
  const other = await hold(bench, await newTodo(bench, goal))
  const before = await bench.run(Quota.status({ goal: goal.id }))
  const error = await bench.fails(Turns.admit({ goal: goal.id, agent: "ada", fence: other.fence, bound: { usd: 1 } }))
  assert.deepInclude(error, { code: "TURN_IN_FLIGHT", turn: turn.id, alive: true })
  assert.deepEqual(await bench.run(Quota.status({ goal: goal.id })), before)
  const bob = await hold(bench, await newTodo(bench, goal), "bob")
  assert.equal(
    await codeOf(bench, Turns.admit({ goal: goal.id, agent: "bob", fence: bob.fence, bound: { usd: 1 } })),
    "ok"
  )
})

test("G81 while the driving process lives another process is refused; after its death its turn is taken over, not doubled", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" })
  await once(child, "spawn")
  const killed = drive(bench, goal.id, "attempt")
  assert.equal(killed.signal, "SIGKILL")
  const [turn] = (await bench.run(Turns.list({ state: "open" }))).items
  // The dead driver's executor is said to be this live process: not proven gone, so nothing starts.
  const direct = new DatabaseSync(join(bench.directory, "authority.db"))
  const executor = JSON.stringify(identify(child.pid!))
  direct.prepare("UPDATE turn SET executor = ? WHERE id = ?").run(executor, turn!.id)
  direct.close()
  for (const call of [
    Turns.resume({ turn: turn!.id }),
    Turns.fail({ turn: turn!.id, reason: "r", spend: { usd: "unknown" }, seenGone: "somebody said so" })
  ] as Effect.Effect<unknown, any, Authority>[]) {
    assert.deepInclude(await bench.fails(call), { code: "TURN_IN_FLIGHT", alive: true })
  }
  const closed = once(child, "close")
  child.kill("SIGKILL")
  await closed
  const resumed = await bench.run(Turns.resume({ turn: turn!.id }))
  assert.deepInclude(resumed, { id: turn!.id, next: "readBackOrRetry" })
  assert.equal(resumed.fence.pid, process.pid)
})

test("G81 an executor that was started and cannot be seen is unknown, never dead; a person who saw it gone is named", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence, guarantee: { diesWithParent: false, wholeTree: false } }))
  const direct = new DatabaseSync(join(bench.directory, "authority.db"))
  const dead = JSON.stringify({ ...turn.fence, pid: 2 ** 22 + 1 })
  direct.prepare("UPDATE turn SET fence = ? WHERE id = ?").run(dead, turn.id)
  direct.close()
  const admit = Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
  assert.deepInclude(await bench.fails(admit), { code: "TURN_IN_FLIGHT", alive: "unknown" })
  const fail = (seenGone?: string) =>
    Turns.fail({
      turn: turn.id,
      reason: "host lost",
      spend: { usd: "unknown" },
      ...(seenGone === undefined ? {} : { seenGone })
    })
  assert.equal(await codeOf(bench, fail()), "TURN_IN_FLIGHT")
  const failed = await bench.run(fail("eve looked at the process list"))
  assert.include(failed.failure?.reason, "eve looked")
  assert.equal(failed.owed.length, 1)
  assert.equal((await bench.run(admit)).phase, "admit")
})

test("G81 a dead turn with nothing dispatched is lost and its bound given back; with a saved result it is never dropped in passing", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  drive(bench, goal.id, "admit")
  const lease = (await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada", commandId: "d:claim" }))) as any
  const [dead] = (await bench.run(Turns.list({ state: "open" }))).items
  const turn = await bench.run(
    Turns.admit({ goal: goal.id, agent: "ada", fence: lease.lease.fence, bound: { usd: 3 } })
  )
  assert.deepInclude((await bench.run(Turns.get({ turn: dead!.id }))).failure, { class: "lost" })
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).reserved, { usd: 3, slots: 1 })
  await bench.run(Turns.fail({ turn: turn.id, reason: "not needed", spend: { usd: 0 } }))

  const second = await newBench({ now: Date.now })
  const other = await newGoal(second)
  await newTodo(second, other)
  drive(second, other.id, "result")
  const held = (await second.run(Todos.nextWork({ goal: other.id, agent: "ada", commandId: "d:claim" }))) as any
  const error = await second.fails(
    Turns.admit({ goal: other.id, agent: "ada", fence: held.lease.fence, bound: { usd: 1 } })
  )
  assert.deepInclude(error, { code: "TURN_UNFINISHED", phase: "result" })
})

test("G81 what was seen of a turn counts for nothing once another process has taken it over", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  const stranger = { ...turn.fence, pid: 2 ** 22 + 1 }
  const payload = { goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }
  const admit = async (driver: object) => {
    const observed = { process: stranger, turn: turn.id, driver, alive: false } as never
    const command = { id: `cmd_${Math.random()}`, module: "work", type: "admitTurn", payload, observed }
    const [outcome] = await bench.store.commit([command])
    return outcome?._tag === "Refused" ? outcome.error.code : "ok"
  }
  assert.equal(await admit(stranger), "TURN_IN_FLIGHT")
  assert.equal(await admit(turn.fence), "ok")
})

test("G81 G85 a turn of which a process survived stays in the way of every other until somebody has seen it gone", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence, guarantee: { diesWithParent: true, wholeTree: true } }))
  const fail = (more: object) =>
    Turns.fail({ turn: turn.id, reason: "it answers no signal", spend: { usd: "unknown" }, ...more })
  const survived = await bench.run(fail({ class: "supervisionFailed" }))
  assert.deepEqual([survived.state, survived.failure?.class, survived.owed.length], ["open", "supervisionFailed", 1])
  const next = Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
  assert.equal(await codeOf(bench, next), "TURN_IN_FLIGHT")
  assert.equal(await codeOf(bench, Turns.saveAttempt({ turn: turn.id, fence, retry: "once more" })), "TURN_IN_FLIGHT")
  assert.equal(await codeOf(bench, Turns.recordResult({ turn: turn.id, result })), "TURN_IN_FLIGHT")
  assert.deepInclude(await bench.fails(fail({})), { code: "TURN_IN_FLIGHT", alive: "unknown" })
  const ended = await bench.run(fail({ seenGone: "eve rebooted the machine" }))
  assert.deepEqual([ended.state, ended.failure?.class], ["failed", "supervisionFailed"])
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).owed.length, 1)
  assert.equal(await codeOf(bench, next), "ok")
})

// The recovery table. One turn is driven by process after process: each finds what the killed one left, goes on from
// there, and is killed right after its own step. All use the same command ids.
describe("one turn, killed after every step", () => {
  let bench: Bench
  let goal: string
  beforeAll(async () => {
    bench = await newBench({ now: Date.now })
    goal = (await newGoal(bench)).id
    await bench.run(Todos.add({ goal, title: "Find the fault" }))
  })

  const table: readonly (readonly [left: string, found: { phase: string; next: string } | null, kill: string])[] = [
    ["nothing", null, "claim"],
    ["a claim", null, "admit"],
    ["an admission", { phase: "admit", next: "run" }, "attempt"],
    ["a saved attempt, nothing dispatched", { phase: "execute", next: "readBackOrRetry" }, "retry"],
    ["a second attempt, nothing dispatched", { phase: "execute", next: "readBackOrRetry" }, "dispatched"],
    ["a dispatch", { phase: "execute", next: "readBackOrRetry" }, "result"],
    ["a saved result", { phase: "result", next: "validate" }, "plan"],
    ["a planned candidate", { phase: "result", next: "validate" }, "record"],
    ["a recorded candidate", { phase: "result", next: "validate" }, "acceptance"],
    ["an acceptance", { phase: "result", next: "validate" }, "verdict"],
    ["a verdict", { phase: "validate", next: "settle" }, "settle"],
    ["a settlement", { phase: "settle", next: "close" }, "close"]
  ]

  test.each(table)(
    "G82 a process left %s: its successor finds %j, goes on, and is killed after %s",
    async (_, found, kill) => {
      const killed = drive(bench, goal, kill)
      assert.equal(killed.signal, "SIGKILL", killed.stderr)
      if (found !== null) assert.deepEqual(JSON.parse(killed.stdout), found)
      const planned = (await bench.run(Candidates.planned({}))).items
      assert.equal(planned.length, kill === "plan" ? 1 : 0)
    }
  )

  test("G82 a closed turn gives the same receipt, after one dispatch, one settlement and one spend", async () => {
    const last = drive(bench, goal, "none")
    const [found, report] = last.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
    assert.deepEqual(found, { phase: "close", next: "none" })
    assert.deepEqual(report.did, ["claim", "admit", "resume", "read"])
    assert.equal(report.dispatches, 1)
    const { items, total, accepted } = await bench.run(Settlements.list({ goal }))
    assert.deepEqual([total, accepted, items[0]!.turn, items[0]!.id], [1, 1, report.turn, report.settlement.id])
    const status = await bench.run(Quota.status({ goal }))
    assert.deepEqual([status.spent, status.reserved, status.owed], [{ usd: 0.5, slots: 1 }, { usd: 0, slots: 0 }, []])
    assert.equal((await bench.run(Candidates.list({ goal }))).items.length, 1)
    assert.isTrue((await bench.store.verify()).ok)
  })
})

test("G82 settlement sent, reply lost in the crash after its commit: read back by effect id, and settling again is a replay", async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  // The driver's transactions: claim, admit, resume, attempt, result, plan, record, evidence twice, acceptance, verdict, settle.
  const killed = drive(bench, goal.id, "none", "authority.afterCommit:12")
  assert.equal(killed.signal, "SIGKILL")
  const [turn] = (await bench.run(Turns.list({ goal: goal.id }))).items
  assert.deepInclude(turn, { phase: "settle", next: "close" })
  const receipt = await bench.run(Settlements.get({ effectId: turn!.effectId }))
  const report = JSON.parse(drive(bench, goal.id, "none").stdout.trim().split("\n").at(-1)!)
  const { asOf: _, ...stored } = receipt
  const { asOf: __, ...again } = report.settlement
  assert.deepEqual(again, stored)
  assert.equal((await bench.run(Settlements.list({ goal: goal.id }))).total, 1)
})

test("G82 a failed turn is returned as it is, its cost recorded, unless a retry is asked for by name", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  const failed = await bench.run(Turns.fail({ turn: turn.id, reason: "the host broke", spend: { usd: 0.25 } }))
  assert.deepInclude(failed, { state: "failed", owed: [] as never })
  assert.deepInclude(await bench.run(Turns.resume({ turn: turn.id })), { state: "failed", next: "none" })
  assert.equal(await codeOf(bench, Turns.saveAttempt({ turn: turn.id, fence, retry: "again" })), "PHASE_ORDER")
  const again = await bench.run(
    Turns.retry({ turn: turn.id, fence, bound: { usd: 1 }, reason: "the host was repaired" })
  )
  assert.deepInclude(again, { id: turn.id, phase: "admit", state: "open" })
  assert.notEqual(again.effectId, turn.effectId)
  assert.equal(await codeOf(bench, Turns.saveAttempt({ turn: turn.id, fence })), "INVALID_INPUT")
  const saved = await bench.run(Turns.saveAttempt({ turn: turn.id, fence, retry: "the host was repaired" }))
  assert.deepEqual(
    saved.attempts.map((a) => [a.number, a.retry]),
    [
      [1, null],
      [2, "the host was repaired"]
    ]
  )
  const status = await bench.run(Quota.status({ goal: goal.id }))
  assert.deepEqual(
    [status.spent, status.reserved],
    [
      { usd: 0.25, slots: 1 },
      { usd: 1, slots: 1 }
    ]
  )
})

test("G10 G55 a pause in mid-turn keeps the result and records its cost when it ends; it settles only after resume", async () => {
  const bench = await newBench()
  const { goal, fence, turn } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await bench.run(Goals.pause({ goal: goal.id }))
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "none" }))
  const settle = Settlements.settle({
    effectId: turn.effectId,
    goal: goal.id,
    fence,
    turn: turn.id,
    outcome: "progress",
    evidence: [],
    spend: { usd: "unknown" },
    todo: { action: "keep", release: true }
  })
  assert.equal(await codeOf(bench, settle), "GOAL_NOT_ACTIVE")
  await bench.run(Goals.resume({ goal: goal.id }))
  const done = await bench.run(settle)
  assert.deepEqual(
    done.owed.map((o) => o.call.operation),
    ["Quota.trueUp"]
  )
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).reserved, { usd: 2, slots: 0 })
  assert.equal((await bench.run(Leases.inspect({ todo: fence.todo }))).releasedAt, bench.now)
})

const drive = (bench: Bench, goal: string, killAfter: string, crashAt?: string) =>
  spawnSync(process.execPath, [program, bench.directory, goal, killAfter], {
    encoding: "utf8",
    env: crashAt === undefined ? process.env : { ...process.env, COPPICE_CRASH_AT: crashAt }
  })

test("G80 a turn that has failed takes no executor any more, and says so", async () => {
  const bench = await newBench()
  const { turn, fence } = await admitted(bench)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence, guarantee: { diesWithParent: true, wholeTree: true } }))
  await bench.run(Turns.fail({ turn: turn.id, reason: "cancelled", spend: { usd: 0 } }))
  const executor = { pid: 1, startTime: "1", bootId: "an earlier boot", pidNamespace: null }
  const error = await bench.fails(Turns.executorStarted({ turn: turn.id, executor }))
  assert.deepInclude(error, { code: "PHASE_ORDER", phase: "failed" })
  assert.isNull((await bench.run(Turns.get({ turn: turn.id }))).executor)
})
