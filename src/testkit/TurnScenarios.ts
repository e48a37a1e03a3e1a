/**
 * What the suite asks of turns: their phases, the one that executes, and what is found after a process died.
 * Promise: see AuthorityConformance.ts. Rules: G80, G81, G82.
 */
import assert from "node:assert/strict"
import { Leases, Settlements, Todos, Turns } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, hold, money, newGoal, newTodo, type Scene } from "./AuthorityScene.ts"
import type { CallEnd, CallName } from "./AuthorityWorker.ts"
import { accepting, admitted, answered, bound, judged, verdict, withResult } from "./TurnWork.ts"

const ok = (end: CallEnd): any => {
  assert.ok("ok" in end, "ok" in end ? "" : `${end.refused.code}: ${String(end.refused["message"])}`)
  return end.ok
}

/** A held todo, and a turn on it that a worker process drives as far as these calls. */
const drivenElsewhere = async (scene: Scene, ...steps: readonly (readonly [CallName, object])[]) => {
  const held = await heldTodo(scene)
  const worker = await scene.worker()
  const admit = { goal: held.goal.id, agent: "ada", fence: held.fence, bound }
  const turn: { readonly id: string; readonly effectId: string } = ok(await worker.call("Turns.admit", admit))
  for (const [call, input] of steps) ok(await worker.call(call, { turn: turn.id, fence: held.fence, ...input }))
  return { ...held, turn, worker }
}

const guarantee = { diesWithParent: true, wholeTree: true }
const saved = ["Turns.saveAttempt", { guarantee }] as const

export const turnScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G80"],
    name: "phases go in order and no further than their prefix: each one that does not follow is refused and journals nothing",
    body: async (scene) => {
      const { turn, fence } = await admitted(scene)
      const steps = {
        result: Turns.recordResult({ turn: turn.id, result: answered }),
        validate: Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "nothing to judge" }),
        close: Turns.close({ turn: turn.id })
      }
      const facts = await scene.facts()
      for (const [asked, step] of Object.entries(steps)) {
        const refusal = await scene.refused("PHASE_ORDER", step)
        assert.deepEqual([refusal["phase"], refusal["asked"]], ["admit", asked])
      }
      assert.deepEqual(await scene.facts(), facts)
      await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
      await scene.refused("PHASE_ORDER", steps.close)
      await scene.run(steps.result)
      await scene.refused("PHASE_ORDER", steps.result)
      await scene.run(steps.validate)
      await scene.refused("PHASE_ORDER", steps.close)
      const types = (await scene.facts("turn.")).map((fact) => fact.type)
      assert.deepEqual(types, ["turn.admitted", "turn.attemptSaved", "turn.resultRecorded", "turn.validated"])
    }
  },
  {
    rules: ["G80", "G82"],
    name: "a whole turn: each phase is read back with its next step, and closing twice gives the same record",
    body: async (scene) => {
      const work = await admitted(scene)
      const { turn, fence } = work
      const next = async () => (await scene.run(Turns.get({ turn: turn.id }))).next
      const steps = [await next()]
      await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
      steps.push(await next())
      await scene.run(Turns.recordResult({ turn: turn.id, result: answered }))
      steps.push(await next())
      const acceptance = await verdict(scene, work)
      await scene.run(Turns.recordVerdict({ turn: turn.id, acceptance: acceptance.id }))
      steps.push(await next())
      await scene.run(Settlements.settle(accepting(work, acceptance.id)))
      steps.push(await next())
      const closed = await scene.run(Turns.close({ turn: turn.id }))
      steps.push(await next())
      assert.deepEqual(steps, ["run", "readBackOrRetry", "validate", "settle", "close", "none"])
      const again = await scene.run(Turns.close({ turn: turn.id }))
      assert.deepEqual([again.id, again.changedAt, again.replayed], [turn.id, closed.changedAt, true])
    }
  },
  {
    rules: ["G80", "G55"],
    name: "admission holds the bound in its own commit: beyond the budget nothing is admitted and nothing held",
    body: async (scene) => {
      const { goal, fence } = await heldTodo(scene)
      const admit = (most: object) => Turns.admit({ goal: goal.id, agent: "ada", fence, bound: most })
      await scene.refused("QUOTA_EXCEEDED", admit({ usd: 10.01, slots: 1 }))
      await scene.refused("BOUND_MISSING", admit({ slots: 1 }))
      assert.deepEqual(await scene.facts("turn."), [])
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0, remaining: 10, owed: 0 })
      await scene.run(admit({ usd: 10, slots: 1 }))
      assert.deepEqual(await money(scene, goal), { reserved: 10, spent: 0, remaining: 0, owed: 0 })
    }
  },
  {
    rules: ["G81"],
    name: "a second turn of the same agent in a goal is refused before journal and quota are touched; another agent's is not",
    body: async (scene) => {
      const { goal, turn, fence } = await admitted(scene)
      const facts = await scene.facts()
      const again = Turns.admit({ goal: goal.id, agent: "ada", fence, bound })
      const refusal = await scene.refused("TURN_IN_FLIGHT", again)
      assert.deepEqual([refusal["turn"], refusal["alive"]], [turn.id, true])
      assert.deepEqual(await scene.facts(), facts)
      const other = await hold(scene, await newTodo(scene, goal), "bob")
      await scene.run(Turns.admit({ goal: goal.id, agent: "bob", fence: other.fence, bound }))
    }
  },
  {
    rules: ["G81"],
    name: "while another process drives the turn it can be neither driven nor taken over nor ended from here",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const { goal, fence, turn } = await drivenElsewhere(scene, saved)
      const facts = await scene.facts()
      for (const call of [
        Turns.admit({ goal: goal.id, agent: "ada", fence, bound }),
        Turns.resume({ turn: turn.id, fence }),
        Turns.recordResult({ turn: turn.id, result: answered }),
        Turns.fail({ turn: turn.id, reason: "impatience", spend: { usd: 0 } })
      ]) {
        const refusal = await scene.refused("TURN_IN_FLIGHT", call)
        assert.equal(refusal["alive"], true)
      }
      assert.deepEqual(await scene.facts(), facts)
    }
  },
  {
    rules: ["G82"],
    name: "killed before the attempt was saved: the turn is taken over and run, under the same identity and the same bound",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const { goal, fence, turn, worker } = await drivenElsewhere(scene)
      await worker.kill()
      const resumed = await scene.run(Turns.resume({ turn: turn.id, fence }))
      assert.deepEqual([resumed.next, resumed.effectId], ["run", turn.effectId])
      assert.equal((await money(scene, goal)).reserved, 1)
      await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
    }
  },
  {
    rules: ["G82"],
    name: "killed after the attempt was saved: never dispatched again by itself; lost by name, then retried under the same id with its old cost owed",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const { goal, fence, turn, worker } = await drivenElsewhere(scene, saved)
      await worker.kill()
      assert.equal((await scene.run(Turns.resume({ turn: turn.id, fence }))).next, "readBackOrRetry")
      await scene.refused("PHASE_ORDER", Turns.saveAttempt({ turn: turn.id, fence }))
      const spend = { usd: "unknown" } as const
      const lost = await scene.run(Turns.fail({ turn: turn.id, reason: "killed", class: "lost", spend }))
      assert.deepEqual([lost.state, lost.owed.length], ["failed", 1])
      const retried = await scene.run(Turns.retry({ turn: turn.id, fence, bound, reason: "asked for" }))
      assert.deepEqual([retried.id, retried.attempts.length], [turn.id, 1])
      assert.notEqual(retried.effectId, turn.effectId)
      assert.deepEqual(await money(scene, goal), { reserved: 2, spent: 0, remaining: 8, owed: 1 })
    }
  },
  {
    rules: ["G82"],
    name: "killed after the result was saved: a new turn is refused until somebody settles or fails it, and validating needs no host",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const held = await heldTodo(scene, { acceptance: { validator: "judge" } })
      const worker = await scene.worker()
      const { goal, fence } = held
      const turn = ok(await worker.call("Turns.admit", { goal: goal.id, agent: "ada", fence, bound }))
      ok(await worker.call("Turns.saveAttempt", { turn: turn.id, fence, guarantee }))
      ok(await worker.call("Turns.recordResult", { turn: turn.id, result: answered }))
      await worker.kill()
      await scene.refused("TURN_UNFINISHED", Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
      const resumed = await scene.run(Turns.resume({ turn: turn.id, fence }))
      assert.deepEqual([resumed.next, resumed.result?.usd], ["validate", 0.5])
      const work = { ...held, turn: resumed }
      const acceptance = await verdict(scene, work)
      await scene.run(Turns.recordVerdict({ turn: turn.id, acceptance: acceptance.id }))
      const settled = await scene.run(Settlements.settle(accepting(work, acceptance.id)))
      assert.deepEqual([settled.accepted, settled.effectId], [true, turn.effectId])
    }
  },
  {
    rules: ["G82", "G72"],
    name: "killed with the settlement's reply on its way: the receipt is read back by effect id, and the turn is closed only",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const { goal, fence, turn, worker } = await drivenElsewhere(
        scene,
        saved,
        ["Turns.recordResult", { fence: undefined, result: answered }],
        ["Turns.recordVerdict", { fence: undefined, acceptance: null, note: "nothing to judge" }]
      )
      const content = {
        effectId: turn.effectId,
        goal: goal.id,
        fence,
        turn: turn.id,
        outcome: "progress",
        evidence: [],
        spend: { usd: 0.5 },
        todo: { action: "keep" }
      } as const
      const receipt = ok(await worker.call("Settlements.settle", content))
      await worker.kill()
      assert.equal((await scene.run(Settlements.get({ effectId: turn.effectId }))).id, receipt.id)
      const again = await scene.run(Settlements.settle(content))
      assert.deepEqual([again.id, again.replayed], [receipt.id, true])
      assert.equal((await scene.run(Turns.resume({ turn: turn.id }))).next, "close")
      const closed = await scene.run(Turns.close({ turn: turn.id }))
      assert.deepEqual([closed.state, closed.settlement], ["closed", receipt.id])
      assert.equal((await scene.facts("settlement.")).length, 1)
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0.5, remaining: 9.5, owed: 0 })
    }
  },
  {
    rules: ["G82"],
    name: "a failed turn stays as it is, and a closed one gives the same receipt, whatever is asked of them afterwards",
    body: async (scene) => {
      const { goal, todo, fence } = await withResult(scene)
      const [open] = (await scene.run(Turns.list({ goal: goal.id, state: "open" }))).items
      const end = { turn: open!.id, reason: "not worth judging", spend: { usd: 0.25 } }
      const failed = await scene.run(Turns.fail(end))
      assert.equal(failed.state, "failed")
      const again = await scene.run(Turns.fail({ ...end, spend: { usd: 9 } }))
      assert.deepEqual([again.failure, again.replayed], [failed.failure, true])
      assert.equal((await money(scene, goal)).spent, 0.25)
      assert.equal((await scene.run(Turns.resume({ turn: open!.id, fence }))).next, "none")
      assert.equal((await scene.run(Todos.get({ todo: todo.id }))).state, "open")
      const whole = await judged(scene)
      await scene.run(Settlements.settle(whole.content))
      await scene.run(Turns.close({ turn: whole.turn.id }))
      await scene.refused("PHASE_ORDER", Turns.fail({ turn: whole.turn.id, reason: "late", spend: { usd: 1 } }))
      assert.equal((await scene.run(Settlements.settle(whole.content))).replayed, true)
    }
  },
  {
    rules: ["G10", "G81"],
    name: "what a host gave is kept and paid whatever became of the authority to use it",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const { fence } = await hold(scene, todo)
      const turn = await scene.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound }))
      await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
      await scene.run(Leases.release({ fence }))
      const kept = await scene.run(Turns.recordResult({ turn: turn.id, result: answered }))
      assert.equal(kept.phase, "result")
      const failed = await scene.run(
        Turns.fail({ turn: turn.id, reason: "the lease was given back", spend: { usd: 0.5 } })
      )
      assert.equal(failed.state, "failed")
      assert.deepEqual(await money(scene, goal), { reserved: 0, spent: 0.5, remaining: 9.5, owed: 0 })
    }
  }
]
