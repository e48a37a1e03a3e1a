/**
 * What the suite asks of budgets and of the ledger.
 * Promise: see AuthorityConformance.ts. Rules: G50 to G57.
 */
import assert from "node:assert/strict"
import * as Effect from "effect/Effect"
import { Agents, Goals, Quota, type SpendArtifacts } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, money, newGoal, type Scene } from "./AuthorityScene.ts"

const day = 86_400_000

const reserve = (goal: { readonly id: string }, effectId: string, bound: object, more: object = {}) =>
  Quota.reserve({ goal: goal.id, effectId, bound, ...more })
const spend = (goal: { readonly id: string }, effectId: string, usd: number | "unknown", more: object = {}) =>
  Quota.spend({ goal: goal.id, effectId, spend: { usd, slots: 1 }, ...more })

/** The sum of the ledger's events, added up by hand. */
const addedUp = async (scene: Scene, goal: { readonly id: string }) => {
  const { items, totals } = await scene.run(Quota.history({ goal: goal.id }))
  const sum = { reserved: 0, spent: 0 }
  for (const { change } of items) {
    sum.reserved += change.reserved.usd
    sum.spent += change.spent.usd
  }
  return { sum, totals: { reserved: totals.reserved.usd, spent: totals.spent.usd } }
}

export const quotaScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G50"],
    name: "zero is a limit like any other, a meter without a limit is not zero, and each of several meters refuses for itself",
    body: async (scene) => {
      const nothing = await newGoal(scene, { usd: 0 })
      assert.deepEqual(nothing.budget, { usd: 0, slots: null })
      await scene.refused("QUOTA_EXCEEDED", reserve(nothing, "e0", { usd: 0.000001 }))
      await scene.run(reserve(nothing, "e1", { usd: 0, slots: 99 }))
      const budget = { usd: 1, slots: 2, tokens: 100, wallMs: 1000, computeMs: 500, attempts: 3 }
      const goal = await newGoal(scene, budget)
      assert.deepEqual(goal.budget, budget)
      for (const [meter, limit] of Object.entries(budget)) {
        const refusal = await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e2", { ...budget, [meter]: limit + 1 }))
        assert.deepEqual([refusal["meter"], refusal["limit"], refusal["asked"]], [meter, limit, limit + 1])
      }
      await scene.run(reserve(goal, "e2", budget))
      assert.deepEqual((await scene.run(Quota.status({ goal: goal.id }))).remaining, {
        usd: 0,
        slots: 0,
        tokens: 0,
        wallMs: 0,
        computeMs: 0,
        attempts: 0
      })
    }
  },
  {
    rules: ["G51"],
    name: "the ledger's own facts carry amount, effect, kind and whose cost it is, in the commit of the work they belong to",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const of = { todo: todo.id, agent: "ada", fence }
      const held = await scene.run(reserve(goal, "effect-1", { usd: 2, slots: 1 }, of))
      await scene.run(spend(goal, "effect-1", 0.25, { reservation: held.id, evidence: "receipt-7" }))
      const { items } = await scene.run(Quota.history({ goal: goal.id }))
      assert.deepEqual(
        items.map(({ kind, effectId, change }) => [kind, effectId, change.reserved.usd, change.spent.usd]),
        [
          ["reserve", "effect-1", 2, 0],
          ["spend", "effect-1", -2, 0.25]
        ]
      )
      const paid = await scene.run(Quota.get({ reservation: held.id }))
      assert.deepEqual([paid.todo, paid.agent, paid.state, paid.spent.usd], [todo.id, "ada", "spent", 0.25])
      await scene.refused("IDENTITY_CONFLICT", spend(goal, "effect-1", 0.5))
    }
  },
  {
    rules: ["G52"],
    name: "both ends of the window count, and an event dated ahead does too",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, windowMs: day })
      const start = scene.clock.now
      await scene.run(spend(goal, "e1", 4))
      const spentAt = async (now: number) => {
        scene.clock.now = now
        return (await scene.run(Quota.status({ goal: goal.id }))).spent.usd
      }
      assert.equal(await spentAt(start), 4)
      assert.equal(await spentAt(start + day), 4)
      assert.equal(await spentAt(start + day + 1), 0)
      assert.equal(await spentAt(start - day), 4)
    }
  },
  {
    rules: ["G52"],
    name: "a void takes back the spend that it names, once, and no sum falls below zero",
    body: async (scene) => {
      const goal = await newGoal(scene)
      await scene.run(spend(goal, "e1", 3))
      const second = await scene.run(spend(goal, "e2", 2))
      await scene.run(Quota.void({ reservation: second.id, reason: "charged twice" }))
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 3, remaining: 7, owed: 0 })
      await scene.refused("RESERVATION_CLOSED", Quota.void({ reservation: second.id, reason: "again" }))
      await scene.refused("NOT_FOUND", Quota.void({ reservation: "rsv_none", reason: "nothing" }))
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 3, remaining: 7, owed: 0 })
    }
  },
  {
    rules: ["G53", "G57"],
    name: "status, history, receipts and admission read one sum, also after voids and true-ups",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, slots: 10 })
      const a = await scene.run(reserve(goal, "a", { usd: 4, slots: 1 }))
      const b = await scene.run(reserve(goal, "b", { usd: 3, slots: 1 }))
      await scene.run(spend(goal, "a", "unknown", { reservation: a.id }))
      await scene.run(Quota.void({ reservation: b.id, reason: "never started" }))
      const paid = await scene.run(Quota.trueUp({ reservation: a.id, usd: 1.5 }))
      assert.deepEqual(paid.aggregate.before.reserved.usd, 4)
      assert.deepEqual([paid.event.kind, paid.event.reserved.usd, paid.event.spent.usd], ["trueUp", -4, 1.5])
      const { sum, totals } = await addedUp(scene, goal)
      assert.deepEqual(sum, { reserved: 0, spent: 1.5 })
      assert.deepEqual(totals, sum)
      assert.deepEqual(paid.aggregate.after, { reserved: { usd: 0, slots: 0 }, spent: { usd: 1.5, slots: 1 } })
      assert.deepEqual(await money(scene, goal), { ...sum, remaining: 8.5, owed: 0 })
      const refusal = await scene.refused("QUOTA_EXCEEDED", reserve(goal, "c", { usd: 8.500001, slots: 1 }))
      assert.equal(refusal["used"], 1.5)
      await scene.run(reserve(goal, "c", { usd: 8.5, slots: 1 }))
    }
  },
  {
    rules: ["G54"],
    name: "an artifact that is missing or damaged is listed for as long as it is so, and changes neither amount nor what is allowed",
    body: async (scene) => {
      const goal = await newGoal(scene)
      await scene.run(spend(goal, "e1", 3, { evidence: "receipt-1" }))
      const reader = (fault: "missing" | "malformed" | null): SpendArtifacts => ({ check: () => Effect.succeed(fault) })
      for (const fault of ["missing", "malformed"] as const) {
        const status = await scene.run(Quota.status({ goal: goal.id, artifacts: reader(fault) }))
        assert.deepEqual(
          status.spendEvidenceUnreadable?.map((one) => [one.effectId, one.fault]),
          [["e1", fault]]
        )
        assert.deepEqual([status.spent.usd, status.remaining.usd], [3, 7])
      }
      const restored = await scene.run(Quota.status({ goal: goal.id, artifacts: reader(null) }))
      assert.deepEqual(restored.spendEvidenceUnreadable, [])
      assert.equal((await scene.run(Quota.status({ goal: goal.id }))).spendEvidenceUnreadable, null)
      await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e2", { usd: 7.01, slots: 1 }))
      await scene.run(reserve(goal, "e2", { usd: 7, slots: 1 }))
    }
  },
  {
    rules: ["G55"],
    name: "an upper bound is held before, an unknown cost keeps it until it is trued up, and a missing limit or bound is refused",
    body: async (scene) => {
      await scene.refused("BOUND_MISSING", Goals.open({ title: "no limit", budget: {} }))
      const without = Goals.open({ title: "half", budget: { usd: 1 }, requiredMeters: ["tokens"] })
      assert.equal((await scene.refused("BOUND_MISSING", without))["meter"], "tokens")
      const goal = await newGoal(scene)
      assert.equal((await scene.refused("BOUND_MISSING", reserve(goal, "e1", { slots: 1 })))["meter"], "usd")
      const held = await scene.run(reserve(goal, "e1", { usd: 6, slots: 1 }))
      await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e2", { usd: 5, slots: 1 }))
      const owed = await scene.run(spend(goal, "e1", "unknown", { reservation: held.id }))
      assert.equal(owed.state, "owed")
      assert.deepEqual(owed.owed[0]?.call, {
        operation: "Quota.trueUp",
        input: { reservation: held.id, usd: null }
      })
      assert.deepEqual(await money(scene, goal), { reserved: 6, spent: 0, remaining: 4, owed: 1 })
      await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e2", { usd: 5, slots: 1 }))
      await scene.run(Quota.trueUp({ reservation: held.id, usd: 12 }))
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 12, remaining: 0, owed: 0 })
      await scene.refused("RESERVATION_CLOSED", Quota.trueUp({ reservation: held.id, usd: 1 }))
    }
  },
  {
    rules: ["G50", "G56"],
    name: "every agent draws on the goal's one budget, an agent's own limits hold beside it, and each figure states its scope",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, slots: 10 })
      await scene.run(Agents.register({ goal: goal.id, agentId: "ada", budget: { usd: 3 } }))
      const asAda = { agent: "ada" }
      const held = await scene.run(reserve(goal, "e1", { usd: 2, slots: 1 }, asAda))
      await scene.run(spend(goal, "e1", 2, { reservation: held.id }))
      const own = await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e2", { usd: 1.5, slots: 1 }, asAda))
      assert.deepEqual([own["agent"], own["limit"], own["used"]], ["ada", 3, 2])
      await scene.run(reserve(goal, "e2", { usd: 7.5, slots: 1 }, { agent: "bob" }))
      const whole = await scene.refused("QUOTA_EXCEEDED", reserve(goal, "e3", { usd: 1, slots: 1 }, asAda))
      assert.deepEqual([whole["agent"], whole["limit"], whole["used"]], [null, 10, 9.5])
      const status = await scene.run(Quota.status({ goal: goal.id }))
      assert.deepEqual([status.agent, status.spent.usd, status.reserved.usd], [null, 2, 7.5])
      assert.deepEqual(
        status.agents.map((account) => [account.agent, account.spent.usd, account.remaining.usd]),
        [["ada", 2, 1]]
      )
    }
  },
  {
    rules: ["G57"],
    name: "a receipt states its event apart from the aggregate of the window, which falls by itself as events leave it",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, windowMs: day })
      const first = await scene.run(
        Quota.spend({ commandId: "first", goal: goal.id, effectId: "e1", spend: { usd: 4 } })
      )
      assert.deepEqual([first.event.spent.usd, first.aggregate.after.spent.usd], [4, 4])
      scene.clock.now += day + 1
      const second = await scene.run(Quota.spend({ goal: goal.id, effectId: "e2", spend: { usd: 1 } }))
      assert.deepEqual([second.aggregate.before.spent.usd, second.aggregate.after.spent.usd], [0, 1])
      const again = await scene.run(
        Quota.spend({ commandId: "first", goal: goal.id, effectId: "e1", spend: { usd: 4 } })
      )
      assert.deepEqual(again, { ...first, replayed: true })
      const late = await scene.run(Quota.void({ reservation: first.id, reason: "never charged" }))
      assert.deepEqual([late.event.spent.usd, late.aggregate.after.spent.usd], [-4, 1])
    }
  }
]
