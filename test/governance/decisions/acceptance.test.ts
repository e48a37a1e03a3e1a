/** Whether a verdict carries an accepted settlement, decided from its record alone. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { digestJson } from "../../../src/base/Digest.ts"
import { type AcceptanceRecord, carries } from "../../../src/governance/Acceptance.ts"
import { now } from "./records.ts"

const candidate = digestJson("candidate")
const verdict = (change: Partial<AcceptanceRecord> = {}): AcceptanceRecord => ({
  id: "verdict-a",
  goal: "goal-a",
  todo: "todo-a",
  turn: "turn-a",
  candidate,
  validator: { name: "oracle", digestBefore: digestJson("v"), digestAfter: digestJson("v") },
  outcome: "passed",
  void: false,
  evidence: [],
  summary: "",
  requirement: null,
  reads: null,
  recordedAt: now,
  ...change
})
const work = { goal: "goal-a", todo: "todo-a", turn: "turn-a", candidate, validator: "oracle" }
const told = (
  acceptance: AcceptanceRecord | undefined,
  change: Partial<typeof work | { turn: null; candidate: null; validator: null }> = {}
) => {
  const result = carries(acceptance, { ...work, ...change })
  return Result.isSuccess(result) ? "carries" : result.failure.why
}

test("G71 G72 only a passed verdict that is not void, on exactly this candidate and this work, carries a settlement", () => {
  assert.equal(told(verdict()), "carries")
  assert.equal(told(undefined), "missing")
  assert.equal(told(verdict({ void: true })), "void")
  for (const outcome of ["progress", "failed", "inconclusive", "unavailable"] as const) {
    assert.equal(told(verdict({ outcome })), "notPassed")
  }
  assert.equal(told(verdict({ candidate: digestJson("another") })), "otherCandidate")
  assert.equal(told(verdict({ candidate: null })), "otherCandidate")
  assert.equal(told(verdict({ goal: "goal-b" })), "otherWork")
  assert.equal(told(verdict({ todo: "todo-b" })), "otherWork")
  assert.equal(told(verdict({ todo: null })), "carries")
})

test("G71 a verdict of another turn carries nothing; one of no turn does for a candidate, and never for work without one", () => {
  assert.equal(told(verdict({ turn: "turn-b" })), "otherWork")
  assert.equal(told(verdict({ turn: null })), "carries")
  assert.equal(told(verdict({ turn: null, candidate: null }), { candidate: null }), "otherWork")
  assert.equal(told(verdict({ candidate: null }), { candidate: null }), "carries")
  assert.equal(told(verdict({ turn: null, candidate: null }), { turn: null, candidate: null }), "carries")
})

test("G71 where the todo declares a validator, the verdict is by that one", () => {
  assert.equal(told(verdict(), { validator: "another" }), "otherWork")
  assert.equal(told(verdict(), { validator: null }), "carries")
})
