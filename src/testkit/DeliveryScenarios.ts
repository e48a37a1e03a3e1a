/**
 * What the suite asks of origins and of deliveries.
 * Promise: see AuthorityConformance.ts. Rules: G10, G90, G91.
 */
import assert from "node:assert/strict"
import { Deliveries, Goals, Todos } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { newGoal, newTodo, type Scene } from "./AuthorityScene.ts"

const origin = { destination: "room-7", channel: "chat", requestId: "q-1" }
const elsewhere = { ...origin, destination: "room-8" }

/** A todo that was asked for and completed, and the delivery of its result. */
const delivered = async (scene: Scene) => {
  const goal = await newGoal(scene)
  const todo = await newTodo(scene, goal, { origin })
  const done = await scene.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  assert.ok(done.delivery !== undefined, "the result of work with an origin is accepted for delivery")
  return { goal, todo: done, delivery: done.delivery }
}
const dispatch = (delivery: string, more: object = {}) => Deliveries.dispatch({ delivery, provider: "chat", ...more })

export const deliveryScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G90"],
    name: "an origin is set once; changing it is a command at the revision that was read, with a reason and a receipt",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const set = await scene.run(Deliveries.setOrigin({ todo: todo.id, origin }))
      assert.deepEqual([set.origin, set.revision], [origin, 2])
      const facts = await scene.facts()
      assert.equal((await scene.run(Deliveries.setOrigin({ todo: todo.id, origin }))).revision, 2)
      await scene.refused("IDENTITY_CONFLICT", Deliveries.setOrigin({ todo: todo.id, origin: elsewhere }))
      const edit = { todo: todo.id, revision: 2, origin: elsewhere } as never
      await scene.refused("INVALID_INPUT", Todos.edit(edit))
      assert.deepEqual(await scene.facts(), facts)
      const change = { commandId: "move", todo: todo.id, revision: 2, origin: elsewhere, reason: "she moved" }
      const receipt = await scene.run(Deliveries.changeOrigin(change))
      assert.deepEqual([receipt.from, receipt.to, receipt.revision], [origin, elsewhere, 3])
      assert.deepEqual(await scene.run(Deliveries.changeOrigin(change)), { ...receipt, replayed: true })
      const late = await scene.refused("REVISION_CONFLICT", Deliveries.changeOrigin({ ...change, commandId: "again" }))
      assert.equal(late["actual"], 3)
    }
  },
  {
    rules: ["G91"],
    name: "a result is accepted for delivery in the commit that completes its work; accepted, dispatched, unknown, confirmed and read are facts of their own",
    body: async (scene) => {
      const { goal, delivery } = await delivered(scene)
      const commit = (await scene.facts()).slice(-3)
      assert.deepEqual([commit[0]?.type, commit[2]?.type], ["todo.completed", "delivery.accepted"])
      assert.equal(new Set(commit.map(({ command }) => command)).size, 1)
      assert.deepEqual((await scene.run(Goals.get({ goal: goal.id }))).undelivered, { count: 1, ids: [delivery] })
      await scene.refused("DELIVERY_STATE", Deliveries.readByUser({ delivery }))
      const first = await scene.run(dispatch(delivery, { commandId: "first" }))
      assert.deepEqual([first.state, first.attempts], ["dispatched", 1])
      assert.equal((await scene.run(dispatch(delivery, { commandId: "first" }))).replayed, true)
      // A second sending needs its reason, and the provider that began it.
      await scene.refused("INVALID_INPUT", dispatch(delivery))
      await scene.refused("IDENTITY_CONFLICT", dispatch(delivery, { provider: "mail", retry: "no answer" }))
      const end = (outcome: "confirmed" | "unknown" | "refused", by: "reply" | "readBack") =>
        Deliveries.resolve({ delivery, attempt: 1, outcome, by })
      await scene.run(end("unknown", "reply"))
      await scene.refused("DELIVERY_STATE", end("refused", "reply"))
      await scene.run(end("confirmed", "readBack"))
      const read = await scene.run(Deliveries.readByUser({ delivery }))
      assert.deepEqual([read.id, read.state, read.attempts, read.readAt], [delivery, "confirmed", 1, scene.clock.now])
      assert.deepEqual(
        (await scene.facts("delivery.")).map(({ type }) => type),
        ["accepted", "dispatched", "unknown", "confirmed", "readByUser"].map((step) => `delivery.${step}`)
      )
    }
  },
  {
    rules: ["G90", "G91"],
    name: "while the fate of a sending is open its result goes nowhere else, and is sent again only under the same id; what was refused goes to another destination as another delivery",
    body: async (scene) => {
      const { goal, todo, delivery } = await delivered(scene)
      const { revision } = await scene.run(Todos.get({ todo: todo.id }))
      const move = Deliveries.changeOrigin({ todo: todo.id, revision, origin: elsewhere, reason: "she moved" })
      await scene.run(dispatch(delivery))
      const held = await scene.refused("DELIVERY_UNRESOLVED", move)
      assert.deepEqual(held["deliveries"], [delivery])
      const again = await scene.run(dispatch(delivery, { retry: "the receiver keeps one message for an id" }))
      assert.deepEqual([again.id, again.attempts, again.origin], [delivery, 2, origin])
      const refusal = { delivery, attempt: 2, by: "reply", outcome: "refused", reason: "no such room" } as const
      // The first one may have arrived all the same: only reading back, or a person, says that neither did.
      assert.equal((await scene.run(Deliveries.resolve(refusal))).state, "unknown")
      await scene.refused("DELIVERY_UNRESOLVED", move)
      assert.equal((await scene.run(Deliveries.resolve({ ...refusal, by: "readBack" }))).state, "refused")
      const moved = await scene.run(move)
      assert.deepEqual([moved.withdrawn, moved.accepted.length], [[delivery], 1])
      const [next] = (await scene.run(Deliveries.undelivered({ goal: goal.id }))).items
      assert.deepEqual([next?.id, next?.origin, next?.attempts], [moved.accepted[0], elsewhere, 0])
      assert.deepEqual(next?.result, again.result)
      await scene.refused("DELIVERY_STATE", dispatch(delivery))
    }
  },
  {
    rules: ["G10", "G91"],
    name: "below a paused goal nothing is sent, and what has happened is written down all the same",
    body: async (scene) => {
      const { goal, delivery } = await delivered(scene)
      await scene.run(dispatch(delivery))
      await scene.run(Goals.pause({ goal: goal.id }))
      await scene.refused("GOAL_NOT_ACTIVE", dispatch(delivery, { retry: "no answer" }))
      await scene.run(Deliveries.resolve({ delivery, attempt: 1, outcome: "confirmed", by: "reply" }))
      await scene.run(Deliveries.readByUser({ delivery }))
    }
  }
]
