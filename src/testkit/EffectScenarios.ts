/**
 * What the suite asks of external effects.
 * Promise: see AuthorityConformance.ts. Rules: G12, G60, G61, G62, G63.
 */
import assert from "node:assert/strict"
import { Effects, Evidence, Goals, type OperationKind, Todos } from "../governance/index.ts"
import { sha256 } from "../base/Digest.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, newGoal, newTodo, type Scene } from "./AuthorityScene.ts"

const kind: OperationKind = { name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" }
const move = { axis: "x", to: 40 }
const turnOff = { axis: "y", to: 0 }

const planned = (goal: { readonly id: string }, more: Partial<Parameters<typeof Effects.plan>[0]> = {}) =>
  Effects.plan({ effect: "e1", goal: goal.id, provider: "stage", kind, operation: move, summary: "move x", ...more })
const dispatch = (effect = "e1", operation: object = move, more: object = {}) =>
  Effects.dispatch({ effect, operation: operation as typeof move, ...more })
const answer = (given: "confirmed" | "refused" | "lost", attempt = 1) =>
  Effects.answer({ effect: "e1", attempt, answer: given })
const readBack = (found: Parameters<typeof Effects.readBack>[0]["found"], attempt = 1) =>
  Effects.readBack({ effect: "e1", attempt, found })

const seen = (scene: Scene, goal: { readonly id: string }, role: "person" | "executor") =>
  scene.run(
    Evidence.record({
      goal: goal.id,
      kind: "photo",
      digest: sha256(role),
      summary: "the display says 40",
      producer: { role, name: "mira" }
    })
  )

export const effectScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G60"],
    name: "each step of an effect is a fact of its own; a lost answer is unknown, out of which silence leads nowhere and reading back does",
    body: async (scene) => {
      const goal = await newGoal(scene)
      assert.equal((await scene.run(planned(goal))).state, "planned")
      const sent = await scene.run(dispatch())
      assert.deepEqual([sent.state, sent.attempts, sent.unresolved], ["dispatched", 1, true])
      const lost = await scene.run(answer("lost"))
      assert.deepEqual([lost.state, lost.outcome], ["unknown", null])
      await scene.refused("EFFECT_STATE", answer("confirmed"))
      for (const found of ["unavailable", "pending", "notFound"] as const) {
        assert.equal((await scene.run(readBack(found))).state, "unknown")
        await scene.refused("RETRY_UNSAFE", dispatch())
      }
      const known = await scene.run(readBack("confirmed"))
      assert.deepEqual([known.state, known.outcome?.by, known.unresolved], ["confirmed", "readBack", false])
      for (const late of [dispatch(), answer("refused"), readBack("refused")]) await scene.refused("EFFECT_STATE", late)
      const types = (await scene.facts("effect.")).map(({ type }) => type)
      assert.deepEqual([types[0], types[1], types.at(-1)], ["effect.planned", "effect.dispatched", "effect.confirmed"])
    }
  },
  {
    rules: ["G60", "G63"],
    name: "without read-back a provider's word is a claim: a person who looked resolves it, with evidence that is not the executor's own",
    body: async (scene) => {
      const goal = await newGoal(scene)
      await scene.run(planned(goal, { kind: { ...kind, readBack: "no" } }))
      await scene.run(dispatch())
      const claimed = await scene.run(answer("confirmed"))
      assert.deepEqual([claimed.state, claimed.claim, claimed.outcome], ["unknown", "confirmed", null])
      await scene.refused("INVALID_INPUT", readBack("confirmed"))
      const says = (evidence: readonly string[]) =>
        Effects.resolve({ effect: "e1", outcome: "confirmed", person: "mira", reason: "I looked", evidence })
      const [own, other] = [await seen(scene, goal, "executor"), await seen(scene, goal, "person")]
      await scene.refused("INVALID_INPUT", says([own.id]))
      const known = await scene.run(says([own.id, other.id]))
      assert.deepEqual([known.state, known.outcome?.by, known.outcome?.who], ["confirmed", "person", "mira"])
    }
  },
  {
    rules: ["G61", "G12"],
    name: "an unknown effect holds up what comes after it, its todo and its goal; not found is not the same as not executed",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      await scene.run(planned(goal, { todo: todo.id, fence }))
      await scene.run(planned(goal, { effect: "e2", operation: turnOff, after: ["e1"] }))
      await scene.refused("EFFECT_BLOCKED", dispatch("e2", turnOff))
      await scene.run(dispatch("e1", move, { fence }))
      await scene.run(answer("lost"))
      await scene.run(readBack("notFound"))
      const waits = await scene.refused("EFFECT_BLOCKED", dispatch("e2", turnOff))
      assert.deepEqual(
        (waits["waits"] as readonly { readonly effect: string; readonly state: string }[]).map((w) => [
          w.effect,
          w.state
        ]),
        [["e1", "unknown"]]
      )
      const complete = Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } })
      await scene.refused("EFFECT_UNRESOLVED", complete)
      const { parts } = await scene.run(Goals.frontier({ goal: goal.id }))
      assert.deepEqual(parts.find((part) => part.kind === "effect")?.ids, ["e1"])
      await scene.run(readBack("notExecuted"))
      assert.equal((await scene.run(dispatch("e1", move, { fence }))).attempts, 2)
      await scene.run(answer("confirmed", 2))
      assert.equal((await scene.run(dispatch("e2", turnOff))).state, "dispatched")
      assert.equal((await scene.run(complete)).state, "done")
    }
  },
  {
    rules: ["G61"],
    name: "a cancelled model, an ended process and a device that stands still are three facts, and only the last one ends a stop",
    body: async (scene) => {
      const goal = await newGoal(scene)
      await scene.run(planned(goal))
      await scene.run(dispatch())
      await scene.run(answer("confirmed"))
      await scene.run(Effects.noteEnded({ effect: "e1", what: "model", by: "ada", summary: "cancelled" }))
      await scene.run(Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" }))
      const ended = await scene.run(
        Effects.noteEnded({ effect: "e1", what: "process", by: "kernel", summary: "exit 0" })
      )
      assert.deepEqual([ended.stop?.state, ended.unresolved], ["requested", true])
      const device = (what: "stopped" | "moving") =>
        scene.run(Effects.confirmStopped({ effect: "e1", by: "device", seen: what, who: "stage" }))
      const moving = await device("moving")
      assert.deepEqual([moving.stop?.state, moving.unresolved], ["unknown", true])
      const still = await device("stopped")
      assert.deepEqual([still.stop?.state, still.unresolved], ["confirmed", false])
      assert.deepEqual((await scene.run(Effects.unresolved({ goal: goal.id }))).items, [])
    }
  },
  {
    rules: ["G62"],
    name: "one effect id names one operation, in every handle: the same again changes nothing, another operation under it is refused, and the operation itself is not kept",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const secret = { axis: "x", code: "open-sesame" }
      await scene.run(planned(goal, { operation: secret }))
      const facts = await scene.facts()
      assert.ok(!JSON.stringify(facts).includes("open-sesame"))
      const other = await scene.open()
      assert.equal((await scene.run(planned(goal, { operation: secret }), other)).state, "planned")
      const todo = await newTodo(scene, goal)
      for (const change of [
        { operation: move },
        { operation: secret, provider: "another" },
        { operation: secret, kind: { ...kind, name: "home" } },
        { operation: secret, todo: todo.id }
      ]) {
        const refusal = await scene.refused("IDENTITY_CONFLICT", planned(goal, change), other)
        assert.deepEqual([refusal["kind"], refusal["id"]], ["effect", "e1"])
      }
      await scene.refused("IDENTITY_CONFLICT", dispatch("e1", move))
      assert.deepEqual((await scene.facts("effect.")).length, 1)
      assert.equal((await scene.run(dispatch("e1", secret), other)).attempts, 1)
    }
  }
]
