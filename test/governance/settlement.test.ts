import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { digestJson } from "../../src/base/Digest.ts"
import {
  Acceptances,
  type Authority,
  Candidates,
  Evidence,
  Goals,
  Leases,
  Packets,
  type Producer,
  Quota,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const d = (text: string) => digestJson(text)
const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result)
    ? `${result.failure.code}${result.failure.why === undefined ? "" : `:${result.failure.why}`}`
    : "ok"
}

const candidate = { tree: d("tree"), parent: null }
const identity = digestJson(candidate)
const result = {
  status: "ok",
  claim: "completed",
  summary: "s",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: null
} as const
const oracle: Producer = { role: "evaluator", name: "oracle" }

/** A turn in phase `validate`, with a recorded candidate. */
const judged = async ({
  reads = false,
  packet = false,
  ...more
}: {
  acceptance?: { validator: string }
  reads?: boolean
  packet?: boolean
} = {}) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = reads
    ? await bench.run(Sources.register({ goal: goal.id, name: "n", digest: d("one"), ref: "one", bytes: 1 }))
    : undefined
  const todo = await newTodo(bench, goal, { ...more, requiredReads: source === undefined ? [] : [source.id] })
  const { fence } = await hold(bench, todo)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 2 } }))
  if (packet) await bench.run(Packets.issue({ turn: turn.id, fence }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Candidates.plan({ goal: goal.id, operationId: "op", turn: turn.id }))
  await bench.run(Candidates.record({ operationId: "op", identity, candidate }))
  const evidence = async (kind: string, producer: Producer = oracle) =>
    (await bench.run(Evidence.record({ goal: goal.id, turn: turn.id, kind, digest: d(kind), summary: kind, producer })))
      .id
  const patch = await evidence("patch")
  const verdict = await evidence("verdict")
  const accept = (change: object = {}) =>
    Acceptances.record({
      goal: goal.id,
      turn: turn.id,
      candidate: identity,
      validator: { name: "oracle", digestBefore: d("v"), digestAfter: d("v") },
      outcome: "passed",
      evidence: [verdict],
      ...change
    })
  const settle = (change: object = {}) =>
    Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: turn.id,
      outcome: "accepted",
      evidence: [patch],
      candidate: identity,
      spend: { usd: 0.5 },
      todo: { action: "complete", continuation: { kind: "noFollowUp" } },
      ...change
    })
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "judged below" }))
  return { bench, goal, todo, source, fence, turn, patch, verdict, evidence, accept, settle }
}

test("G72 C62 a settlement happens once: replayed it gives the stored receipt, with another payload it is a conflict", async () => {
  const { bench, goal, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  const first = await bench.run(settle({ acceptance, commandId: "cmd_s" }))
  assert.deepInclude(first, { accepted: true, replayed: false, todoState: "done" })
  const { asOf: _, ...receipt } = first
  for (const commandId of ["cmd_s", "cmd_other"]) {
    const { asOf: __, ...again } = await bench.run(settle({ acceptance, commandId }))
    assert.deepEqual(again, { ...receipt, replayed: true })
  }
  assert.equal(await codeOf(bench, settle({ acceptance, spend: { usd: 0.4 } })), "IDENTITY_CONFLICT")
  assert.equal(await codeOf(bench, settle({ acceptance, outcome: "failed" })), "IDENTITY_CONFLICT")
  assert.equal((await bench.run(Settlements.list({ goal: goal.id }))).total, 1)
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)
  const { asOf: ___, ...read } = await bench.run(Settlements.get({ effectId: turn.effectId }))
  assert.deepEqual({ ...read, replayed: false }, receipt)
})

test("G72 when one part of a settlement is refused, no part of it happened", async () => {
  const { bench, goal, todo, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  const before = (await bench.store.verify()).entries
  const refusals: [object, string][] = [
    [{ evidence: ["evd_none"] }, "NOT_FOUND"],
    [{ acceptance: "vrd_none" }, "NOT_FOUND"],
    [{ acceptance: null }, "ACCEPTANCE_INVALID:missing"],
    [{ candidate: d("other") }, "ACCEPTANCE_INVALID:otherCandidate"],
    [{ effectId: "eff_other" }, "IDENTITY_CONFLICT"],
    [{ turn: "turn_none" }, "NOT_FOUND"],
    [{ spend: { usd: -1 } }, "INVALID_INPUT"],
    [{ spend: {} }, "INVALID_INPUT"],
    [{ todo: { action: "complete" } }, "INVALID_INPUT"],
    [{ evidence: [] }, "EVIDENCE_MISSING"]
  ]
  for (const [change, code] of refusals) assert.equal(await codeOf(bench, settle({ acceptance, ...change })), code)
  assert.equal((await bench.store.verify()).entries, before)
  assert.equal((await bench.run(Todos.get({ todo: todo.id }))).state, "open")
  assert.equal((await bench.run(Turns.get({ turn: turn.id }))).phase, "validate")
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).reserved, { usd: 2, slots: 1 })
  assert.equal(await codeOf(bench, settle({ acceptance })), "ok")
})

test("G35 G72 a settlement under a lost lease is fenced, and after taking the turn over under the new lease it settles", async () => {
  const { bench, goal, todo, fence, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  const renewed = await bench.run(Leases.renew({ fence }))
  await bench.run(Leases.release({ fence: renewed.fence }))
  assert.equal(await codeOf(bench, settle({ acceptance })), "LEASE_LOST:released")
  const again = await hold(bench, todo)
  assert.equal(await codeOf(bench, settle({ acceptance })), "LEASE_LOST:epoch")
  assert.equal(await codeOf(bench, settle({ acceptance, fence: again.fence })), "LEASE_LOST:epoch")
  await bench.run(Turns.resume({ turn: turn.id, fence: again.fence }))
  assert.equal(await codeOf(bench, settle({ acceptance, fence: again.fence })), "ok")
  assert.equal((await bench.run(Settlements.list({ goal: goal.id }))).accepted, 1)
})

test("G35 a renewal during the turn does not fence its settlement: the token and epoch are the same", async () => {
  const { bench, fence, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  await bench.run(Leases.renew({ fence }))
  assert.equal(await codeOf(bench, settle({ acceptance })), "ok")
})

test("G73 work and cost settle together; an unknown cost is owed, and the reply and every later read name the call", async () => {
  const { bench, goal, todo, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  const done = await bench.run(settle({ acceptance, spend: { usd: "unknown" } }))
  const call = { operation: "Quota.trueUp", input: { reservation: turn.reservation, usd: null } }
  assert.deepEqual(
    done.owed.map((o) => o.call),
    [call as never]
  )
  for (const read of [
    Settlements.get({ effectId: turn.effectId }),
    Settlements.list({ goal: goal.id }),
    Quota.status({ goal: goal.id }),
    Todos.get({ todo: todo.id })
  ] as Effect.Effect<{ readonly owed: typeof done.owed }, unknown, Authority>[]) {
    assert.deepEqual((await bench.run(read)).owed, done.owed)
  }
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).reserved, { usd: 2, slots: 0 })
  await bench.run(Quota.trueUp({ ...done.owed[0]!.call.input, usd: 0.75 }))
  const after = await bench.run(Settlements.get({ effectId: turn.effectId }))
  assert.deepEqual([after.owed, after.spend], [[], { usd: "unknown", slots: 1 }])
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).spent, { usd: 0.75, slots: 1 })
})

test("C61 G73 work was written and its spend forgotten, the process restarted: every read names what is owed and the call that settles it", async () => {
  const { bench, goal, todo, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  const done = await bench.run(settle({ acceptance, spend: { usd: "unknown" } }))
  await bench.store.close()
  const later = await newBench({ directory: bench.directory })
  for (const read of [
    Goals.get({ goal: goal.id }),
    Todos.get({ todo: todo.id }),
    Todos.list({ goal: goal.id }),
    Turns.get({ turn: turn.id }),
    Turns.list({ goal: goal.id }),
    Settlements.get({ effectId: turn.effectId }),
    Settlements.list({ goal: goal.id }),
    Quota.get({ reservation: turn.reservation }),
    Quota.status({ goal: goal.id }),
    Quota.history({ goal: goal.id })
  ] as Effect.Effect<{ readonly owed: typeof done.owed }, unknown, Authority>[]) {
    assert.deepEqual((await later.run(read)).owed, done.owed)
  }
  await later.run(Quota.trueUp({ ...done.owed[0]!.call.input, usd: 0.25 }))
  assert.deepEqual((await later.run(Goals.get({ goal: goal.id }))).owed, [])
})

test("C72 G86 a requirement is corrected while the turn runs: the result and its cost are kept, and the outcome is staleContext, to be replanned", async () => {
  const { bench, goal, todo, turn, accept, settle } = await judged()
  assert.equal(turn.context?.requirementRevision, 1)
  const acceptance = (await bench.run(accept())).id
  await bench.run(Todos.edit({ todo: todo.id, revision: 1, title: "Find the other fault" }))
  const receipt = await bench.run(settle({ acceptance, commandId: "s" }))
  assert.deepInclude(receipt, {
    outcome: "staleContext",
    accepted: false,
    todoState: "open",
    spend: { usd: 0.5, slots: 1 }
  })
  assert.deepEqual(receipt.stale, { asked: "accepted", admittedRevision: 1, revision: 2, next: "replan" })
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)
  assert.deepEqual((await bench.run(Turns.get({ turn: turn.id }))).result, turn.result ?? result)
  assert.equal((await bench.run(Settlements.list({ goal: goal.id }))).accepted, 0)
  const again = await bench.run(settle({ acceptance, commandId: "another" }))
  assert.deepEqual([again.replayed, again.id, again.stale], [true, receipt.id, receipt.stale])
  await bench.run(Turns.close({ turn: turn.id }))
  // The next turn is admitted under what is required now, and settles as usual.
  const held = await bench.run(Leases.inspect({ todo: todo.id }))
  assert.equal(held.releasedAt, null)
})

test("G86 a validator that ran against the new requirement carries the acceptance; one that saw an older revision is refused", async () => {
  const { bench, todo, accept, settle } = await judged()
  await bench.run(Todos.edit({ todo: todo.id, revision: 1, title: "Find the other fault" }))
  assert.equal(await codeOf(bench, accept({ todoRevision: 1 })), "REVISION_CONFLICT")
  const acceptance = (await bench.run(accept({ todoRevision: 2 }))).id
  const receipt = await bench.run(settle({ acceptance }))
  assert.deepInclude(receipt, { outcome: "accepted", accepted: true, todoState: "done" })
  assert.notProperty(receipt, "stale")
})

test("G86 a failure is stale too, and an edit that changes no requirement makes nothing stale", async () => {
  const failed = await judged()
  await failed.bench.run(Todos.edit({ todo: failed.todo.id, revision: 1, writeScopes: ["docs"] }))
  const lost = await failed.bench.run(failed.settle({ outcome: "failed", candidate: null, todo: { action: "keep" } }))
  assert.deepEqual([lost.outcome, lost.stale?.asked], ["staleContext", "failed"])
  const { bench, todo, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  await bench.run(Todos.edit({ todo: todo.id, revision: 1, priority: 9 }))
  assert.equal((await bench.run(settle({ acceptance }))).outcome, "accepted")
})

test("C72 G86 a required source is revised while the turn runs: kept, paid, stale, unless the validator ran against the new revision", async () => {
  const { bench, goal, todo, turn, accept, settle, source } = await judged({ reads: true })
  assert.deepEqual(turn.context?.reads, [{ source: source!.id, revision: 1 }])
  const revise = (content: string, revision: number) =>
    bench.run(Sources.revise({ source: source!.id, revision, digest: d(content), ref: content, bytes: 1 }))
  await revise("two", 1)
  const before = (await bench.run(accept())).id
  const receipt = await bench.run(settle({ acceptance: before, commandId: "s" }))
  assert.deepInclude(receipt, { outcome: "staleContext", accepted: false, todoState: "open" })
  assert.deepEqual(receipt.stale, {
    asked: "accepted",
    admittedRevision: 1,
    revision: 1,
    sources: [{ source: source!.id, revision: 2, admittedRevision: 1 }],
    next: "replan"
  })
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)
  assert.equal((await bench.run(Todos.get({ todo: todo.id }))).state, "open")

  const other = await judged({ reads: true })
  const reads = (revision: number) => ({ reads: [{ source: other.source!.id, revision }] })
  await other.bench.run(
    Sources.revise({ source: other.source!.id, revision: 1, digest: d("two"), ref: "two", bytes: 1 })
  )
  assert.equal(await codeOf(other.bench, other.accept(reads(1))), "REVISION_CONFLICT")
  const acceptance = (await other.bench.run(other.accept(reads(2)))).id
  assert.deepInclude(await other.bench.run(other.settle({ acceptance })), { outcome: "accepted", todoState: "done" })
})

test("G86 what is no longer required makes nothing stale, and what is newly required does", async () => {
  const retired = await judged({ reads: true })
  await retired.bench.run(Sources.retire({ source: retired.source!.id, reason: "withdrawn" }))
  const acceptance = (await retired.bench.run(retired.accept())).id
  assert.equal((await retired.bench.run(retired.settle({ acceptance }))).outcome, "accepted")
  const added = await judged()
  const source = await added.bench.run(
    Sources.register({ goal: added.goal.id, name: "late", digest: d("late"), ref: "late", bytes: 1 })
  )
  await added.bench.run(Todos.edit({ todo: added.todo.id, revision: 1, requiredReads: [source.id] }))
  const passed = (await added.bench.run(added.accept())).id
  assert.deepEqual((await added.bench.run(added.settle({ acceptance: passed }))).stale?.sources, [
    { source: source.id, revision: 1, admittedRevision: null }
  ])
})

test("G86 work that was done under another context than the turn was given is stale, unless the validator names what it ran against", async () => {
  const issued = await judged({ packet: true })
  const context = (await issued.bench.run(Turns.get({ turn: issued.turn.id }))).context
  const acceptance = (await issued.bench.run(issued.accept())).id
  const elsewhere = { acceptance, context: d("what an earlier turn was told") }
  const stale = await issued.bench.run(issued.settle(elsewhere))
  assert.deepEqual(
    [stale.outcome, stale.stale?.context],
    ["staleContext", { admitted: context!.digest, worked: elsewhere.context }]
  )
  const told = await judged({ packet: true })
  const digest = (await told.bench.run(Turns.get({ turn: told.turn.id }))).context!.digest!
  const passed = (await told.bench.run(told.accept())).id
  assert.equal((await told.bench.run(told.settle({ acceptance: passed, context: digest }))).outcome, "accepted")
  const named = await judged({ packet: true })
  const against = (await named.bench.run(named.accept({ todoRevision: 1 }))).id
  const accepted = await named.bench.run(named.settle({ acceptance: against, context: elsewhere.context }))
  assert.equal(accepted.outcome, "accepted")
})

test("G73 a failed turn settles its cost too, and is counted among the settlements but not the accepted ones", async () => {
  const { bench, goal, settle } = await judged()
  const failed = await bench.run(
    settle({ outcome: "failed", acceptance: null, candidate: null, todo: { action: "keep" } })
  )
  assert.deepInclude(failed, { accepted: false, todoState: "open" })
  const { total, accepted } = await bench.run(Settlements.list({ goal: goal.id }))
  assert.deepEqual([total, accepted], [1, 0])
  assert.deepEqual((await bench.run(Quota.status({ goal: goal.id }))).spent, { usd: 0.5, slots: 1 })
})

test("G70 evidence is a digest, a kind, a bounded summary and a reference; what is none of these is refused", async () => {
  const { bench, goal } = await judged()
  const record = (change: object) =>
    Evidence.record({ goal: goal.id, kind: "log", digest: d("x"), summary: "s", producer: oracle, ...change })
  for (const change of [
    { digest: "abc" },
    { digest: null },
    { summary: "x".repeat(2001) },
    { ref: "x".repeat(501) },
    { kind: "" },
    { producer: { role: "executor" } },
    { text: "a log" }
  ]) {
    assert.equal(await codeOf(bench, record(change)), "INVALID_INPUT")
  }
  const kept = await bench.run(record({ ref: "record/run-1.log" }))
  assert.deepInclude(await bench.run(Evidence.get({ evidence: kept.id })), {
    digest: d("x"),
    ref: "record/run-1.log",
    producer: oracle as never
  })
})

test("G70 an executor's own evidence and an executor's own verdict accept nothing", async () => {
  const { bench, goal, evidence, accept } = await judged()
  const own = await evidence("verdict", { role: "executor", name: "ada" })
  const renamed = await evidence("verdict", { role: "validator", name: "ada" })
  assert.equal(await codeOf(bench, accept({ evidence: [own] })), "ACCEPTANCE_INVALID:ownProducer")
  assert.equal(await codeOf(bench, accept({ evidence: [renamed] })), "ACCEPTANCE_INVALID:ownProducer")
  assert.equal(await codeOf(bench, accept({ evidence: [] })), "ACCEPTANCE_INVALID:ownProducer")
  const self = { name: "ada", digestBefore: d("v"), digestAfter: d("v") }
  assert.equal(await codeOf(bench, accept({ validator: self })), "ACCEPTANCE_INVALID:ownProducer")
  assert.equal((await bench.run(Acceptances.list({ goal: goal.id }))).items.length, 0)
})

test("G71 a validator whose files changed while it ran gives a void verdict, which is kept and accepts nothing", async () => {
  const { bench, goal, accept, settle } = await judged()
  const changed = await bench.run(accept({ validator: { name: "oracle", digestBefore: d("v"), digestAfter: d("w") } }))
  assert.deepInclude(changed, { void: true, outcome: "passed" })
  assert.equal(await codeOf(bench, settle({ acceptance: changed.id })), "ACCEPTANCE_INVALID:void")
  assert.deepEqual(
    (await bench.run(Acceptances.list({ goal: goal.id }))).items.map((a) => a.void),
    [true]
  )
  const clean = await bench.run(accept())
  assert.equal(await codeOf(bench, settle({ acceptance: clean.id })), "ok")
})

test("G71 only a passed verdict on exactly this candidate, work and declared validator carries an acceptance", async () => {
  const { bench, accept, settle } = await judged({ acceptance: { validator: "oracle" } })
  for (const outcome of ["progress", "failed", "inconclusive", "unavailable"]) {
    const { id } = await bench.run(accept({ outcome }))
    assert.equal(await codeOf(bench, settle({ acceptance: id })), "ACCEPTANCE_INVALID:notPassed")
  }
  assert.equal(await codeOf(bench, accept({ outcome: "timeout" })), "INVALID_INPUT")
  const other = await bench.run(accept({ candidate: d("other") }))
  assert.equal(await codeOf(bench, settle({ acceptance: other.id })), "ACCEPTANCE_INVALID:otherCandidate")
  const stranger = await bench.run(accept({ validator: { name: "friend", digestBefore: d("v"), digestAfter: d("v") } }))
  assert.equal(await codeOf(bench, settle({ acceptance: stranger.id })), "ACCEPTANCE_INVALID:otherWork")
  assert.equal(
    await codeOf(bench, settle({ outcome: "failed", acceptance: null, candidate: null })),
    "ACCEPTANCE_INVALID:notPassed"
  )
  const good = await bench.run(accept())
  assert.equal(await codeOf(bench, settle({ acceptance: good.id })), "ok")
})

test("G71 a todo that declares a validator is not completed beside a settlement", async () => {
  const { bench, todo, fence } = await judged({ acceptance: { validator: "oracle" } })
  const complete = Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } })
  assert.equal(await codeOf(bench, complete), "ACCEPTANCE_INVALID:missing")
})

test("G75 a planned candidate stays listed until it is recorded, absent, or known to be unknown, and is recorded once", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const plan = (operationId: string) => Candidates.plan({ goal: goal.id, operationId })
  for (const id of ["a", "b", "c"]) await bench.run(plan(id))
  assert.isTrue((await bench.run(plan("a"))).replayed)
  await bench.store.close()
  const later = await newBench({ directory: bench.directory })
  const listed = async () => (await later.run(Candidates.planned({}))).items.map((c) => [c.operationId, c.state])
  assert.deepEqual(await listed(), [
    ["a", "planned"],
    ["b", "planned"],
    ["c", "planned"]
  ])
  assert.equal(
    await codeOf(later, Candidates.record({ operationId: "a", identity: d("wrong"), candidate })),
    "INVALID_INPUT"
  )
  await later.run(Candidates.record({ operationId: "a", identity, candidate }))
  await later.run(Candidates.resolve({ operationId: "b", state: "absent" }))
  await later.run(Candidates.resolve({ operationId: "c", state: "unknown", note: "the store is not mounted" }))
  assert.deepEqual(await listed(), [["c", "unknown"]])
  await later.run(Candidates.record({ operationId: "c", identity, candidate }))
  const again = await later.run(Candidates.record({ operationId: "a", identity, candidate }))
  assert.isTrue(again.replayed)
  const other = { ...candidate, parent: "x" }
  assert.equal(
    await codeOf(later, Candidates.record({ operationId: "a", identity: digestJson(other), candidate: other })),
    "IDENTITY_CONFLICT"
  )
  assert.equal(await codeOf(later, Candidates.resolve({ operationId: "a", state: "absent" })), "IDENTITY_CONFLICT")
  const facts = (await later.store.journal({ after: 0, limit: 100 })).filter((e) => e.type === "candidate.recorded")
  assert.equal(facts.length, 2)
})

test("G75 an unrecorded candidate is not accepted, and patch and verdict must exist outside the workspace store", async () => {
  const { bench, goal, evidence, accept, settle, patch } = await judged()
  const planned = { ...candidate, parent: "p" }
  await bench.run(Candidates.plan({ goal: goal.id, operationId: "op2" }))
  const unrecorded = await bench.run(accept({ candidate: digestJson(planned) }))
  const call = settle({ acceptance: unrecorded.id, candidate: digestJson(planned) })
  assert.equal(await codeOf(bench, call), "ACCEPTANCE_INVALID:unrecorded")
  const log = await evidence("log")
  const bare = await bench.run(accept({ evidence: [log] }))
  const missing = await bench.fails(settle({ acceptance: bare.id, evidence: [] }))
  assert.deepEqual((missing as unknown as { kinds: string[] }).kinds, ["patch", "verdict"])
  assert.deepInclude(await bench.fails(settle({ acceptance: bare.id, evidence: [patch] })), {
    code: "EVIDENCE_MISSING"
  })
  assert.equal(await codeOf(bench, settle({ acceptance: bare.id, evidence: [patch, await evidence("verdict")] })), "ok")
})

test("G75 a pin is given up only by a journaled command, once", async () => {
  const { bench } = await judged()
  assert.equal((await bench.run(Candidates.get({ operationId: "op" }))).pin, "held")
  const release = () => Candidates.releasePin({ operationId: "op", reason: "the goal is closed" })
  assert.equal((await bench.run(release())).pin, "released")
  assert.isTrue((await bench.run(release())).replayed)
  const facts = (await bench.store.journal({ after: 0, limit: 100 })).filter((e) => e.type === "candidate.pinReleased")
  assert.equal(facts.length, 1)
  assert.deepInclude(facts[0]!.data as object, { reason: "the goal is closed" })
})

test("G10 a stopped goal settles nothing and keeps the turn's result for its resume", async () => {
  const { bench, goal, turn, accept, settle } = await judged()
  const acceptance = (await bench.run(accept())).id
  await bench.run(Goals.stop({ goal: goal.id }))
  assert.equal(await codeOf(bench, settle({ acceptance })), "GOAL_NOT_ACTIVE")
  assert.equal((await bench.run(Turns.get({ turn: turn.id }))).result?.summary, "s")
  await bench.run(Goals.resume({ goal: goal.id }))
  assert.equal(await codeOf(bench, settle({ acceptance })), "ok")
})
