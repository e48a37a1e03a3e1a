/**
 * What the suite asks of the tokens that providers report.
 * Promise: see AuthorityConformance.ts. Rules: G56; C69.
 */
import assert from "node:assert/strict"
import { Quota } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { newGoal, type Scene } from "./AuthorityScene.ts"

const known = (tokens: number, unknown = 0) => ({ known: tokens, unknown })

type Spending = Parameters<typeof Quota.spend>[0]

const spend = (scene: Scene, goal: { readonly id: string }, effectId: string, more: Partial<Spending>) =>
  scene.run(Quota.spend({ goal: goal.id, effectId, spend: { usd: 0.5 }, ...more }))

const figures = async (scene: Scene, goal: { readonly id: string }, scope: object = {}) =>
  (await scene.run(Quota.usage({ goal: goal.id, ...scope }))).figures

export const usageScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G56", "C69"],
    name: "cached tokens inside the input and apart from it come to the same four disjoint buckets, and what is missing is unknown, never zero",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, slots: 10, tokens: 1000 })
      const cache = { cacheRead: 60, cacheWrite: 10, output: 7 }
      await spend(scene, goal, "inside", { usage: [{ id: "m1", cached: "inInput", input: 100, ...cache }] })
      await spend(scene, goal, "apart", { usage: [{ id: "m2", cached: "apart", input: 30, ...cache }] })
      const both = await figures(scene, goal)
      assert.deepEqual(
        [both.inputUncached, both.cacheRead, both.cacheWrite, both.output, both.total],
        [known(60), known(120), known(20), known(14), known(214)]
      )
      assert.equal((await scene.run(Quota.status({ goal: goal.id }))).spent.tokens, 214)
      await spend(scene, goal, "partly", { usage: [{ id: "m3", cached: "apart", input: 5, output: 1 }] })
      await spend(scene, goal, "silent", {})
      const after = await figures(scene, goal)
      assert.deepEqual(
        [after.cacheRead, after.total, after.messages, after.reports],
        [known(120, 1), known(214, 1), 3, 3]
      )
      assert.equal(after.unreported, 1)
    }
  },
  {
    rules: ["G56", "C69"],
    name: "a message counts once in a goal, whichever cost reports it again; coordinator, worker and evaluator share one sum, and each figure says whose it is",
    body: async (scene) => {
      const goal = await newGoal(scene, { usd: 10, slots: 10, tokens: 1000 })
      const message = (id: string, output: number) =>
        ({ id, provider: "p", cached: "apart", input: 10, cacheRead: 0, cacheWrite: 0, output }) as const
      await spend(scene, goal, "work", { agent: "ada", usage: [message("m1", 20), message("m2", 30)] })
      await spend(scene, goal, "more", { agent: "ada", usage: [message("m2", 30), message("m3", 5)] })
      await spend(scene, goal, "plan", { agent: "bob", role: "coordinator", usage: [message("m4", 1)] })
      await spend(scene, goal, "judge", { role: "evaluator", usage: [message("m5", 2)] })
      const { items } = await scene.run(Quota.usage({ goal: goal.id }))
      assert.deepEqual(
        items.map(({ effectId, messages, repeated, total }) => [effectId, messages, repeated, total]).toSorted(),
        [
          ["judge", 1, 0, 12],
          ["more", 1, 1, 15],
          ["plan", 1, 0, 11],
          ["work", 2, 0, 70]
        ]
      )
      const whole = await figures(scene, goal)
      assert.deepEqual([whole.agent, whole.role, whole.total, whole.messages], [null, null, known(108), 5])
      const ada = await figures(scene, goal, { agent: "ada" })
      assert.deepEqual([ada.agent, ada.total], ["ada", known(85)])
      const { roles, spent } = await scene.run(Quota.status({ goal: goal.id }))
      assert.deepEqual(
        roles.map(({ role, usage, spent: of }) => [role, usage.role, usage.total.known, of.usd]),
        [
          ["coordinator", "coordinator", 11, 0.5],
          ["worker", "worker", 85, 1],
          ["evaluator", "evaluator", 12, 0.5]
        ]
      )
      assert.deepEqual([spent.usd, spent.tokens], [2, 108])
      const other = await newGoal(scene)
      await spend(scene, other, "elsewhere", { usage: [message("m1", 20)] })
      assert.deepEqual((await figures(scene, other)).total, known(30))
    }
  }
]
