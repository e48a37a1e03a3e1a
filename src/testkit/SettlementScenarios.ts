/**
 * What the suite asks of evidence, acceptance, settlement and candidates.
 * Promise: see AuthorityConformance.ts. Rules: G70 to G75, G86.
 */
import assert from "node:assert/strict"
import { digestJson, sha256 } from "../base/Digest.ts"
import {
  Acceptances,
  Candidates,
  Evidence,
  Goals,
  Leases,
  Quota,
  Settlements,
  Todos,
  Turns
} from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, money, newGoal, newTodo, validatorEvidence } from "./AuthorityScene.ts"
import { accepting, judge, judged, verdict, withResult } from "./TurnWork.ts"

export const settlementScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G70"],
    name: "evidence is a digest, a kind, a bounded summary and a reference, kept as it was recorded",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const given = { ref: "record/patch-1", kind: "patch", digest: sha256("patch") } as const
      const kept = await validatorEvidence(scene, goal, "patch", given)
      const { asOf: _then, replayed, ...record } = kept
      assert.deepEqual([record.ref, record.kind, record.digest, replayed], [given.ref, given.kind, given.digest, false])
      const { asOf: _now, ...read } = await scene.run(Evidence.get({ evidence: kept.id }))
      assert.deepEqual(read, record)
      const of = { goal: goal.id, kind: "log", producer: { role: "person", name: "eve" } } as const
      await scene.refused("INVALID_INPUT", Evidence.record({ ...of, digest: "md5:1", summary: "" }))
      const long = "x".repeat(2001)
      await scene.refused("INVALID_INPUT", Evidence.record({ ...of, digest: sha256(""), summary: long }))
    }
  },
  {
    rules: ["G70", "G71"],
    name: "an executor accepts nothing of its own: not as the validator, and not with its own evidence alone",
    body: async (scene) => {
      const work = await withResult(scene)
      const of = {
        goal: work.goal.id,
        todo: work.todo.id,
        turn: work.turn.id,
        candidate: null,
        outcome: "passed"
      } as const
      const producer = { role: "executor", name: "ada" } as const
      const own = await validatorEvidence(scene, work.goal, "log", { todo: work.todo.id, producer, fence: work.fence })
      const validator = { name: "judge", digestBefore: judge, digestAfter: judge }
      const alone = Acceptances.record({ ...of, validator, evidence: [own.id] })
      assert.equal((await scene.refused("ACCEPTANCE_INVALID", alone))["why"], "ownProducer")
      const seen = await validatorEvidence(scene, work.goal)
      const itself = Acceptances.record({ ...of, validator: { ...validator, name: "ada" }, evidence: [seen.id] })
      assert.equal((await scene.refused("ACCEPTANCE_INVALID", itself))["why"], "ownProducer")
    }
  },
  {
    rules: ["G71"],
    name: "a verdict of a validator whose files changed is void, and void, missing, failed or foreign verdicts accept nothing",
    body: async (scene) => {
      const work = await withResult(scene)
      const validator = { name: "judge", digestBefore: judge, digestAfter: sha256("changed") }
      const voided = await verdict(scene, work, { validator })
      assert.equal(voided.void, true)
      const timedOut = await verdict(scene, work, { outcome: "inconclusive" })
      const other = await verdict(scene, work, { candidate: sha256("another candidate") })
      const stranger = await verdict(scene, work, { validator: { ...validator, name: "eve", digestAfter: judge } })
      await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: timedOut.id }))
      const { acceptance: _, ...bare } = accepting(work, "")
      const facts = await scene.facts()
      for (const [content, why] of [
        [bare, "missing"],
        [accepting(work, voided.id), "void"],
        [accepting(work, timedOut.id), "notPassed"],
        [accepting(work, other.id), "otherCandidate"],
        [accepting(work, stranger.id), "otherWork"]
      ] as const) {
        assert.equal((await scene.refused("ACCEPTANCE_INVALID", Settlements.settle(content)))["why"], why)
      }
      assert.deepEqual(await scene.facts(), facts)
      const good = await verdict(scene, work)
      assert.equal((await scene.run(Settlements.settle(accepting(work, good.id)))).accepted, true)
    }
  },
  {
    rules: ["G72"],
    name: "work is settled once per effect: replayed under any command id it is the stored receipt, with other content a conflict",
    body: async (scene) => {
      const { goal, todo, turn, content } = await judged(scene)
      const first = await scene.run(Settlements.settle({ ...content, commandId: "settle" }))
      assert.deepEqual([first.accepted, first.todoState, first.replayed], [true, "done", false])
      for (const commandId of ["settle", "another"]) {
        const again = await scene.run(Settlements.settle({ ...content, commandId }))
        assert.deepEqual([again.id, again.replayed, again.spend], [first.id, true, first.spend])
      }
      const other = { ...content, spend: { usd: 0.1 } }
      await scene.refused("IDENTITY_CONFLICT", Settlements.settle(other))
      await scene.refused("IDEMPOTENCY_KEY_REUSE", Settlements.settle({ ...other, commandId: "settle" }))
      const { total, accepted } = await scene.run(Settlements.list({ goal: goal.id }))
      assert.deepEqual([total, accepted], [1, 1])
      assert.equal((await scene.run(Settlements.get({ effectId: turn.effectId }))).id, first.id)
      assert.equal((await scene.run(Todos.get({ todo: todo.id }))).state, "done")
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0.5, remaining: 9.5, owed: 0 })
    }
  },
  {
    rules: ["G72", "G73"],
    name: "settlement, spend, todo, lease and turn change in one commit, and a lost fence leaves all of them as they were",
    body: async (scene) => {
      const { goal, fence, content } = await judged(scene)
      await scene.refused("LEASE_LOST", Settlements.settle({ ...content, fence: { ...fence, token: "guessed" } }))
      assert.deepEqual(await money(scene, goal), { reserved: 1, spent: 0, remaining: 9, owed: 0 })
      const before = (await scene.facts()).length
      const { asOf } = await scene.run(Settlements.settle(content))
      const facts = (await scene.facts()).slice(before)
      assert.deepEqual(facts.map((fact) => fact.type).toSorted(), [
        "lease.released",
        "quota.spend",
        "settlement.settled",
        "todo.completed",
        "turn.settled"
      ])
      assert.equal(new Set(facts.map((fact) => fact.command)).size, 1)
      assert.equal(facts.at(-1)!.seq, asOf)
    }
  },
  {
    rules: ["G73"],
    name: "what is owed is a cost that was unknown, or a completion without a turn: named with its exact call, then and on every later read",
    body: async (scene) => {
      const { goal, todo, turn, content } = await judged(scene)
      const settled = await scene.run(Settlements.settle({ ...content, spend: { usd: "unknown" } }))
      const call = settled.owed[0]!.call
      assert.deepEqual(call, { operation: "Quota.trueUp", input: { reservation: turn.reservation, usd: null } })
      const reads = [
        (await scene.run(Settlements.get({ effectId: turn.effectId }))).owed,
        (await scene.run(Todos.get({ todo: todo.id }))).owed,
        (await scene.run(Turns.get({ turn: turn.id }))).owed,
        (await scene.run(Goals.get({ goal: goal.id }))).owed,
        (await scene.run(Quota.status({ goal: goal.id }))).owed
      ]
      for (const owed of reads) assert.deepEqual(owed, settled.owed)
      await scene.run(Quota.trueUp({ ...call.input, usd: 0.75 }))
      assert.deepEqual((await scene.run(Settlements.get({ effectId: turn.effectId }))).owed, [])
      const alone = await newTodo(scene, goal)
      const done = await scene.run(Todos.complete({ todo: alone.id, continuation: { kind: "noFollowUp" } }))
      assert.equal(done.owed.length, 1)
      await scene.run(Quota.trueUp({ ...done.owed[0]!.call.input, usd: 0 }))
      assert.deepEqual((await scene.run(Todos.get({ todo: alone.id }))).owed, [])
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0.75, remaining: 9.25, owed: 0 })
    }
  },
  {
    rules: ["G10", "G72"],
    name: "a stopped goal settles nothing; the result is kept and settles after resume",
    body: async (scene) => {
      const { goal, turn, content } = await judged(scene)
      await scene.run(Goals.stop({ goal: goal.id }))
      await scene.refused("GOAL_NOT_ACTIVE", Settlements.settle(content))
      assert.equal((await scene.run(Turns.get({ turn: turn.id }))).phase, "validate")
      await scene.run(Goals.resume({ goal: goal.id }))
      assert.equal((await scene.run(Settlements.settle(content))).accepted, true)
    }
  },
  {
    rules: ["G75"],
    name: "a candidate is planned before it exists, recorded under the digest of its fields, and what is unresolved is listed",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const plan = Candidates.plan({ goal: goal.id, operationId: "op-1" })
      const planned = await scene.run(plan)
      assert.equal((await scene.run(plan)).id, planned.id)
      await scene.run(Candidates.plan({ goal: goal.id, operationId: "op-2" }))
      await scene.run(Candidates.plan({ goal: goal.id, operationId: "op-3" }))
      const unresolved = async () =>
        (await scene.run(Candidates.planned({ goal: goal.id }))).items.map((one) => [one.operationId, one.state])
      assert.equal((await unresolved()).length, 3)
      const candidate = { tree: sha256("tree"), base: null }
      const identity = digestJson(candidate)
      const wrong = Candidates.record({ operationId: "op-1", identity: sha256("other"), candidate })
      await scene.refused("INVALID_INPUT", wrong)
      const recorded = await scene.run(Candidates.record({ operationId: "op-1", identity, candidate }))
      assert.deepEqual([recorded.state, recorded.pin, recorded.id], ["recorded", "held", planned.id])
      const changed = { ...candidate, base: "other" }
      const second = Candidates.record({ operationId: "op-1", identity: digestJson(changed), candidate: changed })
      await scene.refused("IDENTITY_CONFLICT", second)
      await scene.run(Candidates.resolve({ operationId: "op-2", state: "absent" }))
      await scene.run(Candidates.resolve({ operationId: "op-3", state: "unknown" }))
      await scene.reopen()
      assert.deepEqual(await unresolved(), [["op-3", "unknown"]])
      await scene.refused("IDENTITY_CONFLICT", Candidates.releasePin({ operationId: "op-2", reason: "gone" }))
      const freed = await scene.run(Candidates.releasePin({ operationId: "op-1", reason: "collected" }))
      assert.equal(freed.pin, "released")
    }
  },
  {
    rules: ["G75"],
    name: "accepting a candidate needs it recorded, and patch and verdict as evidence outside the workspace store",
    body: async (scene) => {
      const work = await withResult(scene)
      const candidate = { tree: sha256("tree") }
      const identity = digestJson(candidate)
      const acceptance = await verdict(scene, work, { candidate: identity })
      await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: acceptance.id }))
      const content = { ...accepting(work, acceptance.id), candidate: identity }
      assert.equal((await scene.refused("ACCEPTANCE_INVALID", Settlements.settle(content)))["why"], "unrecorded")
      await scene.run(Candidates.plan({ goal: work.goal.id, operationId: "op-1", turn: work.turn.id }))
      await scene.run(Candidates.record({ operationId: "op-1", identity, candidate }))
      const missing = await scene.refused("EVIDENCE_MISSING", Settlements.settle(content))
      assert.deepEqual(missing["kinds"], ["patch"])
      const patch = await validatorEvidence(scene, work.goal, "patch")
      const settled = await scene.run(Settlements.settle({ ...content, evidence: [patch.id] }))
      assert.deepEqual([settled.accepted, settled.candidate], [true, identity])
    }
  },
  {
    rules: ["G86"],
    name: "a requirement that was corrected while the turn ran makes its settlement stale: result and cost are kept, the todo stays open",
    body: async (scene) => {
      const { goal, todo, fence, content } = await judged(scene)
      const { revision } = await scene.run(Todos.get({ todo: todo.id }))
      await scene.run(Todos.edit({ todo: todo.id, revision, title: "Find another fault" }))
      const settled = await scene.run(Settlements.settle(content))
      assert.deepEqual([settled.outcome, settled.accepted, settled.todoState], ["staleContext", false, "open"])
      assert.deepEqual([settled.stale?.asked, settled.stale?.next], ["accepted", "replan"])
      assert.equal((await money(scene, goal)).spent, 0.5)
      assert.equal((await scene.run(Leases.renew({ fence }))).epoch, fence.epoch)
    }
  },
  {
    rules: ["G86"],
    name: "what changes no requirement makes nothing stale, and a verdict against the new requirement settles as accepted",
    body: async (scene) => {
      const plain = await judged(scene)
      await scene.run(Todos.edit({ todo: plain.todo.id, revision: 1, priority: 9 }))
      assert.equal((await scene.run(Settlements.settle(plain.content))).accepted, true)
      const work = await withResult(scene)
      await scene.run(Todos.edit({ todo: work.todo.id, revision: 1, title: "Find another fault" }))
      const fresh = await verdict(scene, work, { todoRevision: 2 })
      await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: fresh.id }))
      assert.equal((await scene.run(Settlements.settle(accepting(work, fresh.id)))).accepted, true)
    }
  },
  {
    rules: ["G72", "G35"],
    name: "a turn that was admitted under an older grant of the lease settles only after it was taken over",
    body: async (scene) => {
      const work = await heldTodo(scene)
      const admit = Turns.admit({ goal: work.goal.id, agent: "ada", fence: work.fence, bound: { usd: 1, slots: 1 } })
      const turn = await scene.run(admit)
      await scene.run(Leases.release({ fence: work.fence }))
      const again = await scene.run(Leases.acquire({ todo: work.todo.id, agent: "ada" }))
      await scene.refused("LEASE_LOST", Turns.saveAttempt({ turn: turn.id, fence: work.fence }))
      const resumed = await scene.run(Turns.resume({ turn: turn.id, fence: again.fence }))
      assert.deepEqual([resumed.epoch, resumed.next], [2, "run"])
      await scene.run(Turns.saveAttempt({ turn: turn.id, fence: again.fence }))
    }
  }
]
