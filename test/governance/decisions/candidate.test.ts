/** What may become of a planned candidate, over every state; what its load reads; its lists. Rules: G10, G75. */
import { assert, test } from "vitest"
import { digestJson } from "../../../src/base/Digest.ts"
import { candidateHandlers, type CandidateRecord, candidateTable } from "../../../src/governance/CandidateRecord.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { Candidates } from "../../../src/governance/index.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { newBench, newGoal } from "../authority.ts"
import { decideBy, loadBy, rowOf, tables } from "./decide.ts"
import { now } from "./records.ts"
import { goal, turn } from "./workRecords.ts"

const decide = decideBy(candidateHandlers)
const load = loadBy(candidateHandlers)
const states = ["planned", "recorded", "absent", "unknown"] as const
const fields = { tree: "t-1", parent: null }
const identity = digestJson(fields)

const candidate = (change: Partial<CandidateRecord> = {}): CandidateRecord => ({
  id: "candidate-1",
  operationId: "op-a",
  goal: "goal-a",
  turn: null,
  state: "planned",
  identity: null,
  candidate: null,
  pin: null,
  plannedAt: now,
  resolvedAt: null,
  ...change
})
const recorded = { state: "recorded", identity, candidate: fields, pin: "held", resolvedAt: now } as const
const planning = { goal: "goal-a", operationId: "op-a" }

test("G75 a candidate is planned once: the same again is a replay, other work under its operation is a conflict", () => {
  const fresh = { known: undefined, goal: goal(), turn: undefined }
  const planned = decide("planCandidate", fresh, planning)
  assert.deepEqual([planned.facts, planned.reply], [["candidate.planned"], candidate()])
  assert.deepInclude(decide("planCandidate", { ...fresh, turn: turn() }, { ...planning, turn: "turn-a" }).reply, {
    turn: "turn-a"
  })
  for (const state of states) {
    for (const was of [null, "turn-a"]) {
      const known = candidate({ state, turn: was })
      for (const asked of [undefined, "turn-a", "turn-b"]) {
        for (const owner of ["goal-a", "goal-b"]) {
          // Not of an active goal any more, and it is a replay all the same.
          const got = decide(
            "planCandidate",
            { known, goal: goal({ state: "paused" }), turn: undefined },
            { goal: owner, operationId: "op-a", ...(asked === undefined ? {} : { turn: asked }) }
          )
          const same = owner === "goal-a" && was === (asked ?? null)
          if (same) assert.deepEqual([got.facts, got.reply], [[], { ...known, replayed: true }])
          else assert.deepInclude(got.error, { _tag: "IdentityConflict", kind: "operation", id: "op-a" })
        }
      }
    }
  }
  for (const state of ["paused", "stopped", "completed"] as const)
    assert.equal(decide("planCandidate", { ...fresh, goal: goal({ state }) }, planning).refused, "GoalNotActive")
  assert.deepInclude(decide("planCandidate", { ...fresh, goal: undefined }, planning).error, { kind: "goal" })
  for (const found of [undefined, turn({ goal: "goal-b" })]) {
    const got = decide("planCandidate", { ...fresh, turn: found }, { ...planning, turn: "turn-a" })
    assert.deepInclude(got.error, { _tag: "NotFound", kind: "turn", id: "turn-a" })
  }
})

test("G75 what was planned or unknown is recorded under the digest of its fields, once", () => {
  const record = (known: CandidateRecord | undefined, payload: object = {}) =>
    decide("recordCandidate", { known }, { operationId: "op-a", identity, candidate: fields, ...payload })
  for (const state of states) {
    const known = candidate({ state })
    const got = record(known)
    if (state === "planned" || state === "unknown") {
      assert.deepEqual(got.facts, ["candidate.recorded"])
      assert.deepEqual(got.reply, { ...known, ...recorded })
    } else assert.equal(got.refused, "IdentityConflict", state)
    // The same identity under another state is no replay.
    const named = candidate({ state, identity })
    assert.equal(record(named).facts.length, state === "planned" || state === "unknown" ? 1 : 0, state)
    assert.equal(record(named).refused, state === "absent" ? "IdentityConflict" : undefined, state)
  }
  const known = candidate(recorded)
  assert.deepEqual([record(known).facts, record(known).reply], [[], { ...known, replayed: true }])
  const others = { tree: "t-2" }
  const conflict = record(known, { identity: digestJson(others), candidate: others })
  assert.include(conflict.error["message"], `is recorded as ${identity}.`)
  assert.include(record(candidate({ state: "absent" })).error["message"], "is absent.")
  assert.equal(record(candidate(), { candidate: others }).refused, "InvalidInput")
  assert.deepInclude(record(undefined).error, { _tag: "NotFound", kind: "operation", id: "op-a" })
})

test("G75 on open what is planned or unknown is resolved; the same again is a replay, and what was resolved stays", () => {
  for (const state of states) {
    for (const found of ["absent", "unknown"] as const) {
      const known = candidate({ state, resolvedAt: 7 })
      const got = decide("resolveCandidate", { known }, { operationId: "op-a", state: found })
      if (state === found) assert.deepEqual([got.facts, got.reply], [[], { ...known, replayed: true }])
      else if (state === "planned" || state === "unknown") {
        assert.deepEqual(got.facts, [`candidate.${found}`])
        assert.deepEqual(got.reply, { ...known, state: found, resolvedAt: now })
      } else assert.equal(got.refused, "IdentityConflict", `${state} ${found}`)
    }
  }
  const gone = decide("resolveCandidate", { known: undefined }, { operationId: "op-a", state: "absent" })
  assert.deepInclude(gone.error, { _tag: "NotFound", id: "op-a" })
})

test("G75 a pin that is held is released once, with a reason; none that is not there", () => {
  const release = (known: CandidateRecord | undefined) =>
    decide("releasePin", { known }, { operationId: "op-a", reason: "settled" })
  const held = candidate(recorded)
  const got = release(held)
  assert.deepEqual([got.facts, got.reply], [["candidate.pinReleased"], { ...held, pin: "released" }])
  assert.deepEqual(got.events[0]!.data, { ...held, pin: "released", reason: "settled" })
  const again = release({ ...held, pin: "released" })
  assert.deepEqual([again.facts, again.reply], [[], { ...held, pin: "released", replayed: true }])
  assert.equal(release(candidate()).refused, "IdentityConflict")
  assert.deepInclude(release(undefined).error, { _tag: "NotFound", id: "op-a" })
})

test("G75 planning reads the operation, the goal that is named, and the turn; later steps the operation and its goal", () => {
  const content = tables({
    candidate: [rowOf(candidateTable.put(candidate(recorded)))],
    goal: [goal(), goal({ id: "goal-b" })].map((one) => rowOf(goalTable.put(one))),
    turn: [rowOf(turnTable.put(turn()))]
  })
  const known = candidate(recorded)
  assert.deepEqual(load("planCandidate", { ...planning, goal: "goal-b", turn: "turn-a" }, content)["state"], {
    known,
    goal: goal({ id: "goal-b" }),
    turn: turn()
  })
  assert.deepEqual(load("planCandidate", { ...planning, operationId: "op-b" }, content)["state"], {
    known: undefined,
    goal: goal(),
    turn: undefined
  })
  const later = { operationId: "op-a", state: "absent" }
  assert.deepEqual(load("resolveCandidate", later, content)["state"], { known, goal: goal() })
  assert.deepEqual(load("resolveCandidate", { ...later, operationId: "op-b" }, content)["state"], {
    known: undefined,
    goal: undefined
  })
})

test("G75 the lists: all of a goal, oldest first; and what is to be resolved, of one goal or of all", async () => {
  const bench = await newBench()
  const [one, two] = [await newGoal(bench), await newGoal(bench)]
  for (const [operationId, owner] of [
    ["op-b", one.id],
    ["op-a", one.id],
    ["op-c", two.id],
    ["op-d", one.id]
  ] as const) {
    await bench.run(Candidates.plan({ goal: owner, operationId }))
    bench.now += 1
  }
  await bench.run(Candidates.record({ operationId: "op-b", identity, candidate: fields }))
  await bench.run(Candidates.resolve({ operationId: "op-a", state: "unknown" }))
  const ids = ({ items }: { readonly items: readonly CandidateRecord[] }) => items.map((one) => one.operationId)
  assert.deepEqual(ids(await bench.run(Candidates.list({ goal: one.id }))), ["op-b", "op-a", "op-d"])
  assert.deepEqual(ids(await bench.run(Candidates.planned({ goal: one.id }))), ["op-a", "op-d"])
  assert.deepEqual(ids(await bench.run(Candidates.planned({}))), ["op-a", "op-c", "op-d"])
  assert.equal((await bench.run(Candidates.get({ operationId: "op-b" }))).identity, identity)
  assert.deepInclude(await bench.fails(Candidates.get({ operationId: "op-z" })), { _tag: "NotFound", id: "op-z" })
})
