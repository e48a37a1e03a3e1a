/**
 * What the suite asks of sources, of context packets, and of work whose reads are out of date.
 * Promise: see AuthorityConformance.ts. Rules: G12, G14, G86.
 */
import assert from "node:assert/strict"
import {
  Acceptances,
  Goals,
  type PacketRecord,
  Packets,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../governance/index.ts"
import { sha256 } from "../base/Digest.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, money, newGoal, newTodo, type Scene } from "./AuthorityScene.ts"
import { accepting, answered, bound, verdict, type Work } from "./TurnWork.ts"

const text = (content: string) => ({ digest: sha256(content), ref: `notes@${content}`, bytes: content.length })

const register = (scene: Scene, goal: { readonly id: string }) =>
  scene.run(Sources.register({ goal: goal.id, name: "the contract", ...text("one") }))

const revise = (scene: Scene, { id }: { readonly id: string }, revision: number, content: string) =>
  scene.run(Sources.revise({ source: id, revision, ...text(content) }))

/** A turn that was admitted for a todo which requires a source. */
const reading = async (scene: Scene) => {
  const { goal, todo, fence } = await heldTodo(scene)
  const source = await register(scene, goal)
  const acceptance = { validator: "judge" }
  await scene.run(Todos.edit({ todo: todo.id, revision: 1, requiredReads: [source.id], acceptance }))
  const turn = await scene.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
  return { goal, todo, fence, turn, source }
}

const executed = async (scene: Scene, { turn, fence }: Work) => {
  await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await scene.run(Turns.recordResult({ turn: turn.id, result: answered }))
}

const partsOf = async (scene: Scene, goal: { readonly id: string }) =>
  (await scene.run(Goals.frontier({ goal: goal.id }))).parts.map(({ kind }) => kind)

export const sourceScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G14"],
    name: "a revision is one content and never changes; who has read which is on record, and no reading goes backwards",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const source = await register(scene, goal)
      assert.equal((await register(scene, goal)).id, source.id)
      const other = Sources.register({ goal: goal.id, name: "the contract", ...text("two") })
      await scene.refused("IDENTITY_CONFLICT", other)
      const read = (revision: number, more: object = {}) =>
        Sources.read({ source: source.id, revision, agent: "ada", ...more })
      await scene.refused("REVISION_CONFLICT", read(2))
      await scene.refused("INVALID_INPUT", read(1, { digest: sha256("two") }))
      await scene.run(read(1, { digest: sha256("one") }))
      const second = await revise(scene, source, 1, "two")
      assert.deepEqual([second.revision, second.digest], [2, sha256("two")])
      const late = await scene.refused(
        "REVISION_CONFLICT",
        Sources.revise({ source: source.id, revision: 1, ...text("x") })
      )
      assert.deepEqual([late["expected"], late["actual"]], [1, 2])
      await scene.run(read(2))
      const facts = await scene.facts()
      assert.equal((await scene.run(read(1))).revision, 2)
      assert.deepEqual(await scene.facts(), facts)
      const { reads } = await scene.run(Sources.get({ source: source.id }))
      assert.deepEqual(
        reads.map(({ agent, revision }) => [agent, revision]),
        [["ada", 2]]
      )
    }
  },
  {
    rules: ["G12", "G14"],
    name: "what nobody has read, or can read, of finished work too keeps its goal open; unreadable, it lets no turn in",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const source = await register(scene, goal)
      assert.deepEqual(await partsOf(scene, goal), [])
      const todo = await newTodo(scene, goal, { requiredReads: [source.id] })
      const work = await scene.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
      assert.equal(work._tag, "claimed")
      if (work._tag !== "claimed") return
      const { fence } = work.lease
      await scene.run(Sources.markUnreadable({ source: source.id, reason: "the server is down" }))
      await scene.refused("SOURCE_STATE", Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0, remaining: 10, owed: 0 })
      await scene.run(Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } }))
      const complete = Goals.complete({ goal: goal.id, closure: { reason: "done" } })
      assert.deepEqual(await partsOf(scene, goal), ["unreadableSource"])
      await scene.refused("FRONTIER_NOT_EMPTY", complete)
      await scene.run(Sources.markReadable({ source: source.id }))
      assert.deepEqual(await partsOf(scene, goal), ["unreadSource"])
      await scene.run(Sources.read({ source: source.id, revision: 1, agent: "bob" }))
      assert.equal((await scene.run(complete)).state, "completed")
    }
  },
  {
    rules: ["G14"],
    name: "a packet is a difference only upon one that arrived and is remembered: after a lost acknowledgement, a compaction, a revised source or another generation it is complete",
    body: async (scene) => {
      const { goal, fence, turn, source } = await reading(scene)
      let session = { id: "bnd_1", generation: 1 }
      const issue = (more: object = {}) => scene.run(Packets.issue({ turn: turn.id, fence, session, ...more }))
      const acknowledge = ({ id, digest }: PacketRecord) => Packets.acknowledge({ packet: id, digest })
      const first = await issue()
      assert.deepEqual([first.kind, first.why, first.body.requirement?.validator], ["complete", "first", "judge"])
      assert.deepEqual(
        first.body.reads?.map(({ source: id, revision, digest }) => [id, revision, digest]),
        [[source.id, 1, sha256("one")]]
      )
      assert.equal((await scene.run(Turns.get({ turn: turn.id }))).context?.packet, first.id)
      const wrong = { id: first.id, digest: sha256("another") } as PacketRecord
      await scene.refused("IDENTITY_CONFLICT", acknowledge(wrong))
      await scene.run(acknowledge(first))
      const second = await issue()
      assert.deepEqual([second.kind, second.why, second.body.requirement], ["delta", "continues", undefined])
      assert.deepEqual(second.body.base, { packet: first.id, digest: first.digest })
      assert.deepEqual(second.body.stop.bound, { usd: 1, slots: 1, attempts: 1 })
      // The second was never acknowledged: nobody knows whether it arrived.
      const why = async (more: object = {}) => {
        const packet = await issue(more)
        await scene.run(acknowledge(packet))
        return `${packet.kind} ${packet.why}`
      }
      assert.equal(await why(), "complete lostAck")
      await scene.run(Packets.compacted({ goal: goal.id, agent: "ada", session }))
      assert.equal(await why(), "complete compaction")
      await revise(scene, source, 1, "two")
      assert.equal(await why(), "complete sourceRevision")
      session = { id: "bnd_1", generation: 2 }
      assert.equal(await why(), "complete generation")
      assert.equal(await why({ session: null }), "complete noSession")
      assert.equal(await why(), "delta continues")
    }
  },
  {
    rules: ["G86"],
    name: "a required source that was revised while the turn ran makes its settlement stale: result and cost are kept, the todo stays open",
    body: async (scene) => {
      const work = await reading(scene)
      assert.deepEqual(work.turn.context?.reads, [{ source: work.source.id, revision: 1 }])
      await executed(scene, work)
      const passed = await verdict(scene, work)
      await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: passed.id }))
      await revise(scene, work.source, 1, "two")
      const settled = await scene.run(Settlements.settle(accepting(work, passed.id)))
      assert.deepEqual([settled.outcome, settled.accepted, settled.todoState], ["staleContext", false, "open"])
      assert.deepEqual(settled.stale?.sources, [{ source: work.source.id, revision: 2, admittedRevision: 1 }])
      assert.equal(settled.stale?.next, "replan")
      assert.deepEqual(await money(scene, work.goal), { reserved: 0, spent: 0.5, remaining: 9.5, owed: 0 })
      assert.equal((await scene.run(Turns.get({ turn: work.turn.id }))).result?.summary, answered.summary)
    }
  },
  {
    rules: ["G86"],
    name: "a verdict against the newest revision settles as accepted, one that names an older revision is refused, and a retired source makes nothing stale",
    body: async (scene) => {
      const work = await reading(scene)
      await executed(scene, work)
      await revise(scene, work.source, 1, "two")
      const against = (revision: number) => ({ reads: [{ source: work.source.id, revision }] })
      const validator = { name: "judge", digestBefore: sha256("judge"), digestAfter: sha256("judge") }
      const fresh = await verdict(scene, work, { validator, ...against(2) })
      const { evidence, outcome } = fresh
      await scene.refused(
        "REVISION_CONFLICT",
        Acceptances.record({
          goal: work.goal.id,
          turn: work.turn.id,
          candidate: null,
          validator,
          evidence,
          outcome,
          ...against(1)
        })
      )
      await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: fresh.id }))
      assert.equal((await scene.run(Settlements.settle(accepting(work, fresh.id)))).accepted, true)
      const other = await reading(scene)
      await executed(scene, other)
      await scene.run(Sources.retire({ source: other.source.id, reason: "withdrawn" }))
      const passed = await verdict(scene, other)
      await scene.run(Turns.recordVerdict({ turn: other.turn.id, acceptance: passed.id }))
      assert.equal((await scene.run(Settlements.settle(accepting(other, passed.id)))).outcome, "accepted")
    }
  }
]
