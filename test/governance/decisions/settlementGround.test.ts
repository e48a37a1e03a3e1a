/** What a settlement stands on: its turn, its verdict, its candidate, what pays it. Rules: G21, G53, G55, G70 to G73, G75, G80. */
import { assert, test } from "vitest"
import { phases } from "../../../src/governance/TurnRecord.ts"
import { todo } from "./records.ts"
import { evidence, reservation, turn } from "./workRecords.ts"
import { accepting, byHand, digest, outcomes, settle, validated, verdict } from "./settling.ts"

test("G72 G80 work of a turn settles as that turn's: its goal, effect, todo, epoch and phase", () => {
  for (const found of [undefined, { ...validated, goal: "goal-b" }])
    assert.deepInclude(settle({ turn: found }).error, { _tag: "NotFound", kind: "turn", id: "turn-a" })
  for (const change of [{ effectId: "other" }, { todo: "todo-b" }])
    assert.equal(settle({ turn: { ...validated, ...change } }).refused, "IdentityConflict")
  const older = settle({ turn: { ...validated, epoch: 1 } }).error
  assert.deepInclude(older, { _tag: "LeaseLost", why: "epoch", epoch: 1, currentEpoch: 2 })
  assert.match(older["remedy"], /Turns\.resume/)
  assert.match(settle({ turn: { ...validated, epoch: 1, agent: "bob" } }).error["remedy"], /turn of bob.*Turns\.fail/)
  for (const phase of phases)
    assert.equal(
      settle({ turn: { ...validated, phase } }).refused,
      phase === "validate" ? undefined : "PhaseOrder",
      phase
    )
})

test("G53 G80 work by hand is not a turn's: no cost that is held for one, none that is open beside it", () => {
  assert.equal(byHand().refused, undefined)
  for (const change of [{ kept: reservation() }, { held: reservation() }]) {
    const got = byHand(change)
    assert.equal(got.refused, "IdentityConflict")
    assert.match(got.error["remedy"], /`turn`: turn-a/)
  }
  assert.equal(byHand({ open: turn() }).refused, "PhaseOrder")
  assert.equal(byHand({ open: turn({ todo: "todo-b" }) }).refused, undefined)
})

test("G53 G55 G73 a cost goes where it was held: this effect, this goal, this todo, once; an unknown one is owed", () => {
  const hand = { turn: null, effectId: "hand-a" }
  const named = { reservation: "reservation-a" }
  const paid = byHand({ held: reservation(hand) }, named)
  assert.deepInclude(paid.reply, { reservation: "reservation-a", spend: { usd: 0.5, slots: 1 } })
  assert.equal(byHand({ held: reservation({ ...hand, todo: null }) }, named).refused, undefined)
  for (const found of [undefined, reservation({ ...hand, goal: "goal-b" })])
    assert.deepInclude(byHand({ held: found }, named).error, {
      _tag: "NotFound",
      kind: "reservation",
      id: "reservation-a"
    })
  assert.deepInclude(settle({ held: undefined }).error, { kind: "reservation", id: "reservation-a" })
  assert.equal(byHand({ held: reservation({ turn: null, effectId: "other" }) }, named).refused, "IdentityConflict")
  const another = byHand({ held: reservation({ ...hand, todo: "todo-b" }) }, named)
  assert.match(another.error["remedy"], /each todo under a reservation/)
  for (const state of ["owed", "spent", "void"] as const)
    assert.equal(byHand({ held: reservation({ ...hand, state }) }, named).refused, "ReservationClosed", state)
  // A cost of the effect that is kept already is named, or is another effect's.
  for (const state of ["open", "spent"] as const) {
    const got = byHand({ kept: reservation({ ...hand, state }) })
    assert.equal(got.refused, "IdentityConflict")
    assert.match(got.error["remedy"], state === "open" ? /^Name that reservation/ : /^It is recorded/)
  }
  const unknown = settle({}, { spend: { usd: "unknown" } })
  assert.deepEqual(unknown.reply["owed"][0].call, {
    operation: "Quota.trueUp",
    input: { reservation: "reservation-a", usd: null }
  })
  assert.equal(unknown.reply["spend"].usd, "unknown")
})

test("G21 G70 what a settlement names is of its goal: evidence, the acceptance, what its successors wait for and require", () => {
  assert.deepInclude(settle({ evidence: [undefined] }, { evidence: ["evidence-x"] }).error, {
    kind: "evidence",
    id: "evidence-x"
  })
  for (const found of [undefined, { ...verdict, goal: "goal-b" }])
    assert.deepInclude(settle({ acceptance: found }, { acceptance: "verdict-a" }).error, {
      kind: "acceptance",
      id: "verdict-a"
    })
  assert.equal(settle({ acceptance: undefined }, { acceptance: null }).refused, undefined)
  const successors = (change: object) => ({
    todo: { action: "complete", continuation: { kind: "successors", todos: [{ title: "next", ...change }] } }
  })
  assert.deepInclude(settle({ named: [undefined] }, successors({ dependsOn: ["todo-x"] })).error, {
    kind: "todo",
    id: "todo-x"
  })
  assert.deepInclude(settle({}, successors({ requiredReads: ["source-x"] })).error, { kind: "source", id: "source-x" })
  const made = settle({}, successors({}))
  assert.deepEqual(made.facts, [
    "settlement.settled",
    "quota.spend",
    "todo.completed",
    "todo.added",
    "lease.released",
    "turn.settled"
  ])
  assert.deepInclude(made.reply, { todoState: "done", successors: ["todo-1"] })
})

test("G71 G72 only an accepted settlement needs a verdict, and it stands on all of it", () => {
  const good = settle({}, accepting)
  assert.deepInclude(good.reply, { outcome: "accepted", accepted: true, acceptance: "verdict-a" })
  for (const outcome of outcomes) {
    const without = settle({ acceptance: undefined }, { outcome })
    assert.equal(without.refused, outcome === "accepted" ? "AcceptanceInvalid" : undefined, outcome)
  }
  assert.deepInclude(
    settle({ verdictEvidence: [evidence({ producer: { role: "person", name: "ada" } })] }, accepting).error,
    { why: "ownProducer" }
  )
  assert.deepInclude(settle({ carried: { id: "settlement-z" } }, accepting).error, {
    why: "used",
    acceptance: "verdict-a"
  })
  assert.deepInclude(settle({ todo: todo({ acceptance: { validator: "another" } }) }, accepting).error, {
    why: "otherWork"
  })
  assert.deepInclude(settle({ acceptance: { ...verdict, turn: "turn-b" } }, accepting).error, { why: "otherWork" })
})

test("G71 G75 an accepted candidate is recorded, and its patch and verdict are evidence outside the workspace store", () => {
  const [patch, judged] = [evidence({ kind: "patch" }), evidence({ kind: "verdict" })]
  const at = (seen: readonly unknown[], ofVerdict: readonly unknown[], candidate: object | undefined = {}) =>
    settle(
      { acceptance: { ...verdict, candidate: digest }, candidate, evidence: seen, verdictEvidence: ofVerdict },
      { ...accepting, candidate: digest, evidence: seen.map(() => "evidence-a") }
    )
  for (const [seen, ofVerdict] of [
    [
      [patch, judged],
      [evidence(), undefined]
    ],
    [[patch], [judged]],
    [[], [judged, patch, undefined]]
  ]) {
    assert.deepInclude(at(seen!, ofVerdict!).reply, { candidate: digest, accepted: true })
  }
  const missing = (seen: readonly unknown[]) => at(seen, [evidence()]).error["kinds"]
  assert.deepEqual([missing([]), missing([patch]), missing([judged])], [["patch", "verdict"], ["verdict"], ["patch"]])
  const unrecorded = settle(
    { acceptance: { ...verdict, candidate: digest }, candidate: undefined, evidence: [patch, judged] },
    { ...accepting, candidate: digest, evidence: ["evidence-a", "evidence-b"] }
  )
  assert.deepInclude(unrecorded.error, { why: "unrecorded" })
  // Only an acceptance asks for it.
  assert.deepInclude(settle({}, { candidate: digest }).reply, { candidate: digest, accepted: false })
})
