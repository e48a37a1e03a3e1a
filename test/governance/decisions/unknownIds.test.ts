/** Every call that names something: an id that names nothing is `NotFound` with its kind, and nothing is kept. Rules: V3, G1. */
import type * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { digestJson } from "../../../src/base/Digest.ts"
import {
  Acceptances,
  Agents,
  type Authority,
  Candidates,
  Deliveries,
  Effects,
  Evidence,
  Gates,
  Goals,
  Leases,
  type NotFound,
  Obligations,
  Packets,
  Quota,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../../../src/governance/index.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"

type Call = Effect.Effect<unknown, unknown, Authority>

const digest = digestJson("x")
const person = { role: "person", name: "owner" } as const
const producer = { role: "evaluator", name: "oracle" } as const
const none = "none_1"
const fence = { todo: none, token: "t", epoch: 1, version: 1 }
const validator = { name: "v", digestBefore: digest, digestAfter: digest }
const settle = {
  effectId: "e",
  outcome: "accepted",
  evidence: [],
  spend: { usd: 0 },
  todo: { action: "keep" }
} as const

/** What each call answers, by the kind that it did not find. */
const calls = (goal: string, todo: string): Readonly<Record<string, readonly Call[]>> => ({
  goal: [
    Goals.get({ goal: none }),
    Goals.frontier({ goal: none }),
    Goals.pause({ goal: none }),
    Goals.resume({ goal: none }),
    Goals.stop({ goal: none }),
    Goals.complete({ goal: none, closure: { reason: "r" } }),
    Agents.register({ goal: none, agentId: "ada" }),
    Todos.add({ goal: none, title: "t" }),
    Todos.nextWork({ goal: none, agent: "ada" }),
    Acceptances.record({ goal: none, candidate: null, validator, outcome: "passed", evidence: [] }),
    Candidates.plan({ goal: none, operationId: "o" }),
    Evidence.record({ goal: none, kind: "k", digest, summary: "s", producer }),
    Gates.ask({ goal: none, kind: "userDecision", question: "May it?" }),
    Obligations.open({ goal: none, reason: "r" }),
    Sources.register({ goal: none, name: "n", digest, ref: "r", bytes: 1 }),
    Quota.reserve({ goal: none, effectId: "e", bound: { usd: 1 } }),
    Quota.spend({ goal: none, effectId: "e", spend: { usd: 1 } }),
    Quota.status({ goal: none })
  ],
  todo: [
    Todos.get({ todo: none }),
    Todos.edit({ todo: none, revision: 1, title: "t" }),
    Todos.reopen({ todo: none }),
    Todos.defer({ todo: none, reason: "r" }),
    Todos.supersede({ todo: none, reason: "r" }),
    Todos.complete({ todo: none, continuation: { kind: "noFollowUp" } }),
    Todos.add({ goal, title: "t", dependsOn: [none] }),
    Todos.add({ goal, title: "t", unblocks: [none] }),
    Todos.edit({ todo, revision: 1, dependsOn: [none] }),
    Leases.acquire({ todo: none, agent: "ada" }),
    Acceptances.record({ goal, todo: none, candidate: null, validator, outcome: "passed", evidence: [] }),
    Evidence.record({ goal, todo: none, kind: "k", digest, summary: "s", producer }),
    Obligations.open({ goal, todo: none, reason: "r" }),
    Deliveries.setOrigin({ todo: none, origin: { destination: "d", channel: "c", requestId: "r" } }),
    Deliveries.changeOrigin({
      todo: none,
      revision: 1,
      origin: { destination: "d", channel: "c", requestId: "r" },
      reason: "r"
    })
  ],
  turn: [
    Turns.get({ turn: none }),
    Evidence.record({ goal, turn: none, kind: "k", digest, summary: "s", producer }),
    Acceptances.record({ goal, turn: none, candidate: null, validator, outcome: "passed", evidence: [] }),
    Candidates.plan({ goal, operationId: "o", turn: none })
  ],
  gate: [
    Gates.get({ gate: none }),
    Gates.decide({ gate: none, by: person, allow: true, reason: "r", reach: { kind: "once" } } as never),
    Gates.withdraw({ gate: none, by: person, reason: "r" } as never)
  ],
  obligation: [
    Obligations.get({ obligation: none }),
    Obligations.meet({ obligation: none }),
    Obligations.waive({ obligation: none, by: person, reason: "r" } as never)
  ],
  source: [
    Sources.get({ source: none }),
    Sources.revise({ source: none, revision: 1, digest, ref: "r", bytes: 1 }),
    Sources.markUnreadable({ source: none, reason: "r" }),
    Sources.markReadable({ source: none }),
    Sources.retire({ source: none, reason: "r" }),
    Sources.read({ source: none, revision: 1, agent: "ada" })
  ],
  effect: [
    Effects.get({ effect: none }),
    Effects.abandon({ effect: none, by: "owner", reason: "r" }),
    Effects.requestStop({ effect: none, by: "owner", reason: "r" }),
    Effects.confirmStopped({ effect: none, by: "person", seen: "stopped", who: "owner" }),
    Effects.noteEnded({ effect: none, what: "model", by: "owner", summary: "s" })
  ],
  delivery: [
    Deliveries.get({ delivery: none }),
    Deliveries.resolve({ delivery: none, attempt: 1, outcome: "confirmed", by: "person" }),
    Deliveries.readByUser({ delivery: none }),
    Deliveries.withdraw({ delivery: none, reason: "r" })
  ],
  operation: [
    Candidates.get({ operationId: none }),
    Candidates.record({ operationId: none, identity: digest, candidate: {} }),
    Candidates.resolve({ operationId: none, state: "absent" }),
    Candidates.releasePin({ operationId: none, reason: "r" })
  ],
  reservation: [
    Quota.get({ reservation: none }),
    Quota.trueUp({ reservation: none, usd: 1 }),
    Quota.void({ reservation: none, reason: "r" }),
    Quota.spend({ goal, effectId: "e", spend: { usd: 1 }, reservation: none })
  ],
  packet: [Packets.get({ packet: none }), Packets.acknowledge({ packet: none, digest })],
  acceptance: [Acceptances.get({ acceptance: none })],
  evidence: [Evidence.get({ evidence: none })],
  settlement: [Settlements.get({ effectId: none })],
  agent: [Todos.nextWork({ goal, agent: none }), Leases.acquire({ todo, agent: none })],
  lease: [Leases.inspect({ todo: none })]
})

test("V3 G1 whatever a call names that is not there is NotFound with its kind and id, and leaves nothing", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const { entries } = await bench.store.verify()
  const wrong: string[] = []
  for (const [kind, list] of Object.entries(calls(goal.id, todo.id))) {
    for (const [number, call] of list.entries()) {
      const error = (await bench.fails(call)) as NotFound
      if (error._tag !== "NotFound" || error.kind !== kind || error.id !== none) {
        wrong.push(`${kind}[${number}]: ${error._tag} ${error.kind} ${error.id} ${error.message}`)
      }
    }
  }
  assert.deepEqual(wrong, [])
  assert.equal((await bench.store.verify()).entries, entries)
  // A fence of a todo that is not there is a fence that holds nothing.
  for (const call of [Leases.renew({ fence }), Leases.release({ fence })] as readonly Call[]) {
    assert.equal(((await bench.fails(call)) as { readonly _tag: string })._tag, "LeaseLost")
  }
  const refused = (await bench.fails(Settlements.settle({ ...settle, goal: goal.id, fence } as never))) as {
    readonly _tag: string
  }
  assert.include(["LeaseLost", "NotFound"], refused._tag)
})
