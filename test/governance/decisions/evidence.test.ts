/** What is recorded as evidence and as a verdict, and of whom. Rules: G35, G70, G71, G86. */
import { assert, test } from "vitest"
import { digestJson, sha256 } from "../../../src/base/Digest.ts"
import { acceptanceHandlers, type AcceptanceRecord, apart, carries } from "../../../src/governance/Acceptance.ts"
import { evidenceHandlers, type EvidenceRecord, evidenceTable, ofGoal } from "../../../src/governance/Evidence.ts"
import { goalTable } from "../../../src/governance/Goal.ts"
import { Acceptances, Evidence, Turns } from "../../../src/governance/index.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { requirementOf } from "../../../src/governance/Requirement.ts"
import { sourceTable } from "../../../src/governance/SourceRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { turnTable } from "../../../src/governance/TurnRecord.ts"
import { hold, newBench, newGoal, newTodo } from "../authority.ts"
import { decideBy, loadBy, rowOf, tables, told } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { evidence, fence, goal, source, turn } from "./workRecords.ts"

const roles = ["executor", "validator", "evaluator", "person"] as const
const decideEvidence = decideBy(evidenceHandlers)
const decideVerdict = decideBy(acceptanceHandlers)

// --- evidence --------------------------------------------------------------------------------------------------------

const seen = {
  goal: "goal-a",
  kind: "log",
  digest: sha256("log"),
  summary: "what was seen",
  producer: { role: "validator", name: "oracle" }
}
const plain = { goal: goal(), todo: undefined, turn: undefined, lease: undefined }

test("G70 evidence keeps what was told, of a goal and of a todo and a turn of it", () => {
  const record = (state: object, payload: object) =>
    decideEvidence("recordEvidence", { ...plain, ...state }, { ...seen, ...payload })
  const bare = record({}, {})
  assert.deepEqual(bare.facts, ["evidence.recorded"])
  assert.deepEqual(bare.reply, evidence({ id: "evidence-1", recordedAt: now }))
  assert.deepEqual(
    record({ todo: todo(), turn: turn() }, { todo: "todo-a", turn: "turn-a", ref: "log 7" }).reply,
    evidence({ id: "evidence-1", recordedAt: now, todo: "todo-a", turn: "turn-a", ref: "log 7" })
  )
  assert.deepInclude(record({ goal: undefined }, {}).error, { _tag: "NotFound", kind: "goal", id: "goal-a" })
  for (const found of [undefined, { goal: "goal-b" }]) {
    const [aTodo, aTurn] = found === undefined ? [undefined, undefined] : [todo(found), turn(found)]
    assert.deepInclude(record({ todo: aTodo }, { todo: "todo-a" }).error, {
      _tag: "NotFound",
      kind: "todo",
      id: "todo-a"
    })
    assert.deepInclude(record({ turn: aTurn }, { turn: "turn-a" }).error, {
      _tag: "NotFound",
      kind: "turn",
      id: "turn-a"
    })
  }
})

test("G35 G70 an executor's evidence on a todo names the fence of its lease; a fence that is named must hold, whoever names it", () => {
  for (const role of roles) {
    for (const named of ["todo-a", undefined]) {
      for (const shown of [undefined, fence(), fence({ token: "guess" })]) {
        const got = decideEvidence(
          "recordEvidence",
          { ...plain, todo: todo(), lease: lease() },
          {
            ...seen,
            producer: { role, name: "ada" },
            ...(named === undefined ? {} : { todo: named }),
            ...(shown === undefined ? {} : { fence: shown })
          }
        )
        const lost = shown === undefined ? role === "executor" && named !== undefined : shown.token === "guess"
        const name = `${role} ${named} ${shown?.token}`
        assert.equal(got.refused, lost ? "LeaseLost" : undefined, name)
        if (lost) assert.deepInclude(got.error, { why: shown === undefined ? "none" : "token", currentEpoch: 2 }, name)
        else assert.deepEqual(got.reply["producer"], { role, name: "ada" })
      }
    }
  }
  const free = decideEvidence(
    "recordEvidence",
    { ...plain, todo: todo() },
    { ...seen, todo: "todo-a", producer: { role: "executor", name: "ada" } }
  )
  assert.deepInclude(free.error, { todo: "todo-a", epoch: 0, currentEpoch: 0 })
  assert.match(free.error["message"], /names no fence/)
})

test("G70 evidence that is named is evidence of the goal, each piece", () => {
  const found = [evidence(), evidence({ id: "evidence-b" })]
  const ids = ["evidence-a", "evidence-b"]
  assert.equal(told(ofGoal("goal-a", ids, found)).refused, undefined)
  assert.equal(told(ofGoal("goal-a", [], [])).refused, undefined)
  assert.deepInclude(told(ofGoal("goal-a", ids, [found[0], undefined])).error, { kind: "evidence", id: "evidence-b" })
  assert.deepInclude(told(ofGoal("goal-b", ids, found)).error, { id: "evidence-a" })
})

test("G35 G70 recording reads the goal, and the todo, turn and lease that are named", () => {
  const content = tables({
    goal: [rowOf(goalTable.put(goal()))],
    todo: [rowOf(todoTable.put(todo()))],
    turn: [rowOf(turnTable.put(turn()))],
    lease: [rowOf(leaseTable.put(lease()))]
  })
  const load = loadBy(evidenceHandlers)
  assert.deepEqual(load("recordEvidence", { ...seen, todo: "todo-a", turn: "turn-a" }, content)["state"], {
    goal: goal(),
    todo: todo(),
    turn: turn(),
    lease: lease()
  })
  assert.deepEqual(load("recordEvidence", seen, content)["state"], plain)
})

test("G70 G71 evidence and verdicts are listed by goal, oldest first, evidence by turn too", async () => {
  const bench = await newBench()
  const [one, two] = [await newGoal(bench), await newGoal(bench)]
  const made: string[] = []
  for (const owner of [one.id, two.id, one.id]) {
    made.push(((await bench.run(Evidence.record({ ...seen, goal: owner } as never))) as EvidenceRecord).id)
    bench.now += 1
  }
  const ids = ({ items }: { readonly items: readonly { readonly id: string }[] }) => items.map(({ id }) => id)
  assert.deepEqual(ids(await bench.run(Evidence.list({ goal: one.id }))), [made[0], made[2]])
  assert.deepEqual(ids(await bench.run(Evidence.list({ goal: one.id, turn: "turn-x" }))), [])
  assert.equal((await bench.run(Evidence.get({ evidence: made[1]! }))).goal, two.id)
  const work = await newTodo(bench, one)
  const { fence: held } = await hold(bench, work)
  const admitted = await bench.run(Turns.admit({ goal: one.id, agent: "ada", fence: held, bound: { usd: 1 } }))
  const ofTurn = await bench.run(Evidence.record({ ...seen, goal: one.id, turn: admitted.id } as never))
  assert.deepEqual(ids(await bench.run(Evidence.list({ goal: one.id, turn: admitted.id }))), [ofTurn.id])
  bench.now += 1
  const validator = { name: "oracle", digestBefore: sha256("v"), digestAfter: sha256("v") }
  const verdicts: string[] = []
  for (const outcome of ["failed", "passed"] as const) {
    const judged = Acceptances.record({
      goal: one.id,
      todo: work.id,
      candidate: null,
      validator,
      outcome,
      evidence: [made[0]!]
    })
    verdicts.push((await bench.run(judged)).id)
    bench.now += 1
  }
  assert.deepEqual(ids(await bench.run(Acceptances.list({ goal: one.id }))), verdicts)
  assert.deepEqual(ids(await bench.run(Acceptances.list({ goal: two.id }))), [])
  assert.equal((await bench.run(Acceptances.get({ acceptance: verdicts[0]! }))).outcome, "failed")
})

// --- verdicts --------------------------------------------------------------------------------------------------------

test("G70 whoever did the work neither judges it nor gives all of the evidence: by his role, by his name, by nobody known", () => {
  const by = (role: (typeof roles)[number], name: string) => evidence({ producer: { role, name } })
  for (const executor of ["ada", undefined]) {
    for (const role of roles) {
      for (const name of ["ada", "oracle"]) {
        const apartFrom = role !== "executor" && name !== executor
        const title = `${executor} ${role} ${name}`
        for (const found of [[by(role, name)], [undefined, by(role, name)], [by("executor", "bob"), by(role, name)]])
          assert.equal(
            told(apart("v", "judge", found, executor)).refused,
            apartFrom ? undefined : "AcceptanceInvalid",
            title
          )
      }
    }
    for (const none of [[], [undefined], [by("executor", "bob"), undefined]])
      assert.deepInclude(told(apart("v", "judge", none, executor)).error, { why: "ownProducer", acceptance: "v" })
  }
  assert.match(told(apart("v", "ada", [by("person", "mira")], "ada")).error["message"], /ada does this work/)
  assert.equal(told(apart("v", "ada", [by("person", "mira")], "bob")).refused, undefined)
})

const digest = digestJson("candidate")
const verdict = (change: Partial<AcceptanceRecord> = {}): AcceptanceRecord => ({
  id: "verdict-1",
  goal: "goal-a",
  todo: null,
  turn: null,
  candidate: digest,
  validator: { name: "oracle", digestBefore: sha256("v"), digestAfter: sha256("v") },
  outcome: "failed",
  void: false,
  evidence: [],
  summary: "",
  requirement: null,
  reads: null,
  recordedAt: now,
  ...change
})

test("G71 G72 a verdict that names no todo is of the candidate of a turn; over todo, turn and candidate of both sides", () => {
  for (const ofTodo of [null, "todo-a", "todo-b"]) {
    for (const ofTurn of [null, "turn-a", "turn-b"]) {
      for (const workTurn of [null, "turn-a"]) {
        for (const candidate of [null, digest]) {
          const acceptance = verdict({ outcome: "passed", todo: ofTodo, turn: ofTurn, candidate })
          const work = { goal: "goal-a", todo: "todo-a", turn: workTurn, candidate, validator: null }
          const names = ofTodo === "todo-a" || (ofTodo === null && candidate !== null && workTurn !== null)
          const turns = ofTurn === workTurn || (ofTurn === null && candidate !== null)
          const got = told(carries(acceptance, work))
          assert.equal(
            got.error["why"],
            names && turns ? undefined : "otherWork",
            `${ofTodo} ${ofTurn} ${workTurn} ${candidate}`
          )
        }
      }
    }
  }
})

const judging = { goal: "goal-a", candidate: digest, validator: verdict().validator, outcome: "failed", evidence: [] }
const nothing = {
  goal: goal(),
  turn: undefined,
  todo: undefined,
  lease: undefined,
  required: [],
  evidence: [],
  sources: new Map()
}
const judge = (state: object, payload: object = {}) =>
  decideVerdict("recordAcceptance", { ...nothing, ...state }, { ...judging, ...payload })

test("G71 a verdict keeps what was told; a changed validator makes it void", () => {
  assert.deepEqual([judge({}).facts, judge({}).reply], [["acceptance.recorded"], verdict()])
  const changedFiles = { ...judging.validator, digestAfter: sha256("w") }
  assert.deepInclude(judge({}, { validator: changedFiles, summary: "s" }).reply, { void: true, summary: "s" })
  assert.deepInclude(judge({ goal: undefined }).error, { _tag: "NotFound", kind: "goal", id: "goal-a" })
  for (const found of [undefined, { goal: "goal-b" }]) {
    const [aTodo, aTurn] = found === undefined ? [undefined, undefined] : [todo(found), turn(found)]
    assert.deepInclude(judge({ turn: aTurn, todo: todo() }, { turn: "turn-a" }).error, { kind: "turn", id: "turn-a" })
    assert.deepInclude(judge({ todo: aTodo }, { todo: "todo-a" }).error, { kind: "todo", id: "todo-a" })
  }
  for (const other of [undefined, todo({ id: "todo-b" })])
    assert.deepInclude(judge({ turn: turn(), todo: other }, { turn: "turn-a" }).error, { why: "otherWork" })
  assert.deepInclude(judge({ turn: turn(), todo: todo() }, { turn: "turn-a" }).reply, {
    todo: "todo-a",
    turn: "turn-a"
  })
  assert.deepInclude(judge({}, { evidence: ["evidence-a"] }).error, { kind: "evidence", id: "evidence-a" })
})

test("G70 only a passed verdict asks who did the work: the turn's agent, or who holds the todo", () => {
  const own = { evidence: ["evidence-a"] }
  const byAda = [evidence({ producer: { role: "person", name: "ada" } })]
  for (const outcome of ["passed", "progress", "failed", "inconclusive", "unavailable"] as const) {
    const passed = outcome === "passed"
    const at = (state: object, payload: object) =>
      judge({ todo: todo(), evidence: byAda, ...state }, { outcome, ...own, ...payload })
    const named = { todo: "todo-a" }
    assert.equal(at({ turn: turn() }, { turn: "turn-a" }).refused, passed ? "AcceptanceInvalid" : undefined, outcome)
    assert.equal(at({ turn: turn({ agent: "bob" }), lease: lease() }, { turn: "turn-a" }).refused, undefined)
    assert.equal(at({ lease: lease() }, named).refused, passed ? "AcceptanceInvalid" : undefined, outcome)
    // A holder whose lease has ended does not hold it.
    assert.equal(at({ lease: lease({ expiresAt: now }) }, named).refused, undefined)
    assert.equal(at({ lease: lease({ owner: "bob" }) }, named).refused, undefined)
    assert.equal(at({}, named).refused, undefined)
    assert.equal(judge({}, { outcome }).refused, passed ? "AcceptanceInvalid" : undefined)
  }
})

test("G86 a verdict says what it was of: the revision and reads that are named, what the turn was admitted under, or the todo as it stands", () => {
  const requirement = requirementOf(goal(), todo())
  const admitted = { requirementRevision: 1, digest: null, requirement: "before" }
  const ofTurn = { turn: turn({ context: admitted }), todo: todo() }
  const told_ = (state: object, payload: object) => {
    const { requirement, reads } = judge(state, payload).reply
    return { requirement, reads }
  }
  const named = { turn: "turn-a" }
  const reads = [{ source: "source-a", revision: 2 }]
  const sources = new Map([["source-a", source()]])
  assert.deepEqual(told_(ofTurn, named), { requirement: "before", reads: null })
  assert.deepEqual(told_({ ...ofTurn, turn: turn() }, named), { requirement: null, reads: null })
  const older = turn({ context: { requirementRevision: 1, digest: null } })
  assert.deepEqual(told_({ ...ofTurn, turn: older }, named), { requirement: null, reads: null })
  assert.deepEqual(told_(ofTurn, { ...named, todoRevision: 3 }), { requirement, reads: [] })
  assert.deepEqual(told_({ ...ofTurn, sources }, { ...named, reads }), { requirement: "before", reads })
  assert.deepEqual(told_({ ...ofTurn, sources }, { ...named, reads, todoRevision: 3 }), { requirement, reads })
  // By hand: what was not named is as it stands now.
  const required = [source(), source({ id: "source-b", revision: 5 })]
  const byHand = { todo: todo(), required, sources }
  const other = { source: "source-b", revision: 5 }
  assert.deepEqual(told_(byHand, { todo: "todo-a" }), { requirement, reads: [...reads, other] })
  assert.deepEqual(told_(byHand, { todo: "todo-a", reads }), { requirement, reads: [...reads, other] })
  assert.deepEqual(told_({ todo: todo() }, { todo: "todo-a" }), { requirement, reads: [] })
  assert.deepEqual(told_({ ...ofTurn, required }, named), { requirement: "before", reads: null })
  assert.deepInclude(judge({ todo: todo() }, { todo: "todo-a", todoRevision: 2 }).error, {
    _tag: "RevisionConflict",
    id: "todo-a",
    expected: 2,
    actual: 3
  })
  assert.deepInclude(judge({}, { todoRevision: 3 }).error, { kind: "todo", id: "that is not named" })
  assert.deepInclude(judge({ sources }, { reads: [{ source: "source-a", revision: 1 }] }).error, {
    _tag: "RevisionConflict"
  })
  assert.deepInclude(judge({}, { reads }).error, { _tag: "NotFound", kind: "source", id: "source-a" })
})

test("G71 G86 judging reads the todo that is named or the turn's, its lease and required sources, the evidence and the sources named", () => {
  const work = todo({ requiredReads: ["source-b"] })
  const content = tables({
    goal: [rowOf(goalTable.put(goal()))],
    todo: [work, todo({ id: "todo-b" })].map((one) => rowOf(todoTable.put(one))),
    turn: [rowOf(turnTable.put(turn()))],
    lease: [rowOf(leaseTable.put(lease()))],
    evidence: [rowOf(evidenceTable.put(evidence()))],
    source: [source(), source({ id: "source-b" })].map((one) => rowOf(sourceTable.put(one)))
  })
  const load = (payload: object) =>
    loadBy(acceptanceHandlers)("recordAcceptance", { ...judging, ...payload }, content)["state"]
  const found = { ...nothing, todo: work, lease: lease(), required: [source({ id: "source-b" })] }
  assert.deepEqual(load({}), nothing)
  assert.deepEqual(load({ todo: "todo-a" }), found)
  assert.deepEqual(load({ turn: "turn-a" }), { ...found, turn: turn() })
  assert.deepEqual(load({ turn: "turn-a", todo: "todo-b" }), { ...nothing, turn: turn(), todo: todo({ id: "todo-b" }) })
  assert.deepEqual(load({ evidence: ["evidence-a", "evidence-x"], reads: [{ source: "source-a", revision: 1 }] }), {
    ...nothing,
    evidence: [evidence(), undefined],
    sources: new Map([["source-a", source()]])
  })
})
