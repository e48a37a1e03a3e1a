/**
 * What the suite asks of gates, of obligations, and of completing a goal.
 * Promise: see AuthorityConformance.ts. Rules: G10, G12, G15, G34, G40, G41; C66, C67.
 */
import assert from "node:assert/strict"
import { Evidence, Gates, Goals, Leases, Obligations, Settlements, Todos, Turns } from "../governance/index.ts"
import { sha256 } from "../base/Digest.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, hold, newGoal, newTodo, type Scene } from "./AuthorityScene.ts"
import { answered, bound, type Work } from "./TurnWork.ts"

const owner = { role: "person", name: "vera" } as const
const machine = { role: "agent", name: "ada" } as const
const closure = { reason: "the ledger adds up again" }
const noFollowUp = { kind: "noFollowUp" } as const

const ask = (scene: Scene, goal: { readonly id: string }, more: object = {}) =>
  scene.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "May the format change?", ...more }))

const next = (goal: { readonly id: string }, agent: string) => Todos.nextWork({ goal: goal.id, agent })

/** A turn whose host has given this, as far as its verdict, and how it settles. */
const turnWith = async (scene: Scene, { goal, fence }: Pick<Work, "goal" | "fence">, result: typeof answered) => {
  const turn = await scene.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
  await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await scene.run(Turns.recordResult({ turn: turn.id, result }))
  await scene.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "nothing declared" }))
  const settle = (outcome: "progress" | "failed", todo: Parameters<typeof Settlements.settle>[0]["todo"]) =>
    Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: turn.id,
      outcome,
      evidence: [],
      spend: { usd: 0.5 },
      todo
    })
  return { turn, settle }
}

const partsOf = async (scene: Scene, goal: { readonly id: string }) =>
  (await scene.run(Goals.frontier({ goal: goal.id }))).parts.map(({ kind, count }) => [kind, count])

export const gateScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G40", "C66"],
    name: "a gate for one agent stops its work and names itself; another agent goes on with that very work",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const gate = await ask(scene, goal, { agents: ["ada"] })
      const mine = await scene.run(next(goal, "ada"))
      assert.deepEqual([mine._tag, mine._tag === "none" && mine.withheld.gated], ["none", 1])
      assert.deepEqual(mine.gated, [{ todo: null, gates: [gate.id] }])
      const named = await scene.refused("GATED", Leases.acquire({ todo: todo.id, agent: "ada" }))
      assert.equal((named["gates"] as readonly { readonly gate: string }[])[0]?.gate, gate.id)
      const other = await scene.run(next(goal, "bob"))
      assert.equal(other._tag === "claimed" && other.todo.id, todo.id)
      assert.deepEqual(await scene.run(Goals.get({ goal: goal.id })).then(({ gates }) => gates.ids), [gate.id])
    }
  },
  {
    rules: ["G40"],
    name: "the same question is asked once; a refusal stands and names its decision, one of reach `until` ends by the clock",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const gate = await ask(scene, goal)
      const take = Leases.acquire({ todo: todo.id, agent: "ada" })
      const decide = (allow: boolean, reach: Parameters<typeof Gates.decide>[0]["reach"]) =>
        scene.run(Gates.decide({ gate: gate.id, by: owner, allow, reason: "discussed", reach }))
      await decide(false, { kind: "scope" })
      const again = await ask(scene, goal, { question: "  May the\n format change? " })
      assert.deepEqual([again.id, again.asked, again.state], [gate.id, false, "decided"])
      const refusal = await scene.refused("GATED", take)
      const [shown] = refusal["gates"] as readonly { readonly standing: string; readonly by: string | null }[]
      assert.deepEqual([shown?.standing, shown?.by], ["refused", "vera"])
      const at = scene.clock.now + 1000
      await decide(true, { kind: "until", at })
      scene.clock.now = at - 1
      const { fence } = await scene.run(take)
      await scene.run(Leases.release({ fence }))
      scene.clock.now = at
      await scene.refused("GATED", take)
      assert.equal((await scene.facts("gate.opened")).length, 1)
    }
  },
  {
    rules: ["G40", "G34"],
    name: "a write boundary stops what claims to write there and nothing beside it",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const inside = await newTodo(scene, goal, { writeScopes: ["src/billing/tax"] })
      const beside = await newTodo(scene, goal, { writeScopes: ["src/docs"] })
      const boundary = { goal: goal.id, kind: "writeBoundary", question: "May billing change?" } as const
      await scene.refused("INVALID_INPUT", Gates.ask(boundary))
      await scene.run(Gates.ask({ ...boundary, writeScopes: ["src/billing"] }))
      await scene.refused("GATED", Leases.acquire({ todo: inside.id, agent: "ada" }))
      await hold(scene, beside)
    }
  },
  {
    rules: ["G41"],
    name: "what is missing locally is repaired, and an agent may say that it was; a credential asks the owner, whom no agent stands in for",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const missing = (kind: "network" | "credential") =>
        ask(scene, goal, { kind: "capability", need: { class: kind, name: "registry" } })
      const [network, key] = [await missing("network"), await missing("credential")]
      assert.deepEqual([network.lane, key.lane], ["repair", "owner"])
      const reach = { kind: "scope" } as const
      const says = (gate: string) => Gates.decide({ gate, by: machine, allow: true, reason: "it answers", reach })
      await scene.refused("OWNER_ONLY", says(key.id))
      await scene.refused("OWNER_ONLY", Gates.withdraw({ gate: key.id, by: machine, reason: "never mind" }))
      await scene.run(says(network.id))
      const open = await scene.run(Gates.list({ goal: goal.id, state: "open" }))
      assert.deepEqual(
        open.items.map(({ id }) => id),
        [key.id]
      )
    }
  },
  {
    rules: ["G12"],
    name: "completing takes a reason and an empty frontier, whose parts the refusal counts and names; it is final, and nothing else does it",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const gate = await ask(scene, goal, { actions: ["effect"] })
      await scene.run(Obligations.open({ goal: goal.id, reason: "promised" }))
      const complete = Goals.complete({ goal: goal.id, closure })
      const refusal = await scene.refused("FRONTIER_NOT_EMPTY", complete)
      assert.deepEqual(refusal["parts"], (await scene.run(Goals.frontier({ goal: goal.id }))).parts)
      const parts = [
        ["gate", 1],
        ["obligation", 1],
        ["todo", 1]
      ]
      assert.deepEqual(await partsOf(scene, goal), parts)
      await scene.run(Gates.withdraw({ gate: gate.id, by: owner, reason: "not needed" }))
      const [due] = (await scene.run(Obligations.list({ goal: goal.id, state: "open" }))).items
      await scene.run(Obligations.waive({ obligation: due!.id, by: owner, reason: "withdrawn" }))
      await scene.run(Todos.complete({ todo: todo.id, continuation: noFollowUp }))
      assert.deepEqual(await partsOf(scene, goal), [])
      assert.equal((await scene.run(Goals.get({ goal: goal.id }))).state, "active")
      await scene.refused("INVALID_INPUT", Goals.complete({ goal: goal.id, closure: { reason: "" } }))
      const report = Evidence.record({
        goal: goal.id,
        kind: "report",
        digest: sha256("report"),
        summary: "the sums agree",
        producer: owner
      })
      const evidence = [(await scene.run(report)).id]
      const done = await scene.run(Goals.complete({ goal: goal.id, closure: { ...closure, evidence } }))
      assert.deepEqual(done.closure, { ...closure, evidence, closedAt: scene.clock.now })
      const facts = await scene.facts()
      for (const late of [
        Goals.resume({ goal: goal.id }),
        Todos.add({ goal: goal.id, title: "One more" }),
        Obligations.open({ goal: goal.id, reason: "one more" })
      ]) {
        assert.equal((await scene.refused("GOAL_NOT_ACTIVE", late))["state"], "completed")
      }
      assert.deepEqual(await scene.facts(), facts)
    }
  },
  {
    rules: ["G15"],
    name: "work that must be attempted has no way out without an attempt; a host that never answered is none, and the settlement of one that did meets it in its commit",
    body: async (scene) => {
      const work = await heldTodo(scene)
      const { goal, todo, fence } = work
      const due = await scene.run(
        Obligations.open({ goal: goal.id, todo: todo.id, reason: "the owner was promised a try" })
      )
      const facts = await scene.facts()
      for (const way of [
        Todos.defer({ todo: todo.id, fence, reason: "it looks hard" }),
        Todos.supersede({ todo: todo.id, fence, reason: "another way", replacements: [{ title: "Something easier" }] }),
        Todos.complete({ todo: todo.id, fence, continuation: noFollowUp })
      ]) {
        const refusal = await scene.refused("OBLIGATION_OPEN", way)
        assert.deepEqual(refusal["obligations"], [{ id: due.id, reason: "the owner was promised a try" }])
      }
      assert.deepEqual(await scene.facts(), facts)
      const state = async () => (await scene.run(Obligations.get({ obligation: due.id }))).state
      const silent = { ...answered, status: "failed", claim: null, failure: { class: "transportLost", check: "eof" } }
      const lost = await turnWith(scene, work, silent as unknown as typeof answered)
      await scene.run(lost.settle("failed", { action: "keep" }))
      await scene.refused("NOT_ATTEMPTED", Obligations.meet({ obligation: due.id, settlement: lost.turn.effectId }))
      assert.equal(await state(), "open")
      await scene.run(Turns.close({ turn: lost.turn.id }))
      const tried = await turnWith(scene, work, answered)
      await scene.run(tried.settle("progress", { action: "complete", continuation: noFollowUp }))
      assert.equal(await state(), "met")
      const commit = [...(await scene.facts("obligation.met")), ...(await scene.facts("settlement.settled")).slice(-1)]
      assert.equal(new Set(commit.map(({ command }) => command)).size, 1)
    }
  },
  {
    rules: ["G10", "G15", "C67"],
    name: "a goal that is paused while an obligation is open: the pause wins and says so, naming what waits",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const due = await scene.run(Obligations.open({ goal: goal.id, todo: todo.id, reason: "promised" }))
      const gate = await ask(scene, goal, { actions: ["effect"] })
      await scene.run(Goals.pause({ goal: goal.id }))
      for (const call of [
        next(goal, "bob"),
        Leases.acquire({ todo: todo.id, agent: "bob" }),
        Turns.admit({ goal: goal.id, agent: "ada", fence, bound })
      ]) {
        const refusal = await scene.refused("GOAL_NOT_ACTIVE", call)
        assert.deepEqual(refusal["waiting"], [
          { kind: "obligation", id: due.id },
          { kind: "gate", id: gate.id }
        ])
      }
      await scene.refused("GOAL_NOT_ACTIVE", Goals.complete({ goal: goal.id, closure }))
      await scene.run(Goals.resume({ goal: goal.id }))
      await scene.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
    }
  }
]
