/** Driven turns before a gate and on a paused goal: what runs is kept, nothing is run twice. Rules: G10, G40, G82; C66. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { inProcessHost } from "../../providers/host-process/index.ts"
import { Gates, Goals } from "../../src/governance/index.ts"
import type { Host } from "../../src/host/index.ts"
import { newScene, type Scene } from "./scene.ts"

const owner = { role: "person", name: "Vera" } as const

/** A host that counts how often it was started, and does something while it runs. */
const counting = (scene: Scene, started: string[], during: () => Promise<unknown> = async () => undefined): Host =>
  inProcessHost("writer", async ({ request }) => {
    started.push(request.turnKey)
    await during()
    writeFileSync(join(scene.files, "value"), "right")
    return {
      protocol: "coppice.turn",
      version: 1,
      turnKey: request.turnKey,
      outcome: "completed",
      summary: "written",
      usage: { usd: 0.25 }
    }
  })

const asked = (scene: Scene, action: "dispatch" | "settle") =>
  scene.run(
    Gates.ask({
      goal: scene.goal,
      kind: "userDecision",
      question: `May it ${action}?`,
      agents: ["ada"],
      actions: [action]
    })
  )

const allowed = (scene: Scene, gate: string) =>
  scene.run(Gates.decide({ gate, by: owner, allow: true, reason: "looked at it", reach: { kind: "scope" } }))

test("G40 a gate on dispatch stops the turn before anything is held, and the host is started once it is decided", async () => {
  const scene = await newScene()
  const started: string[] = []
  const gate = await asked(scene, "dispatch")
  const error = await scene.fails(scene.drive(counting(scene, started)))
  assert.deepInclude(error, { code: "GATED", action: "dispatch" })
  assert.deepEqual([started, await scene.turns()], [[], []])
  assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0, owed: 0 })
  await allowed(scene, gate.id)
  await scene.run(scene.drive(counting(scene, started)))
  assert.equal(started.length, 1)
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
})

test("G40 G82 a gate that is opened while the host runs keeps its result; once decided, the same turn settles without another run", async () => {
  const scene = await newScene()
  const started: string[] = []
  let gate = ""
  const host = counting(scene, started, async () => {
    gate = (await asked(scene, "settle")).id
  })
  assert.deepInclude(await scene.fails(scene.drive(host)), { code: "GATED", action: "settle" })
  const [kept] = await scene.turns()
  assert.deepInclude(kept!, { state: "open", phase: "validate" })
  assert.equal(kept!.result!.usd, 0.25)
  await allowed(scene, gate)
  const done = await scene.run(scene.drive(host))
  assert.deepEqual([done.turn.id, started], [kept!.id, [kept!.id]])
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
  assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
})

test("G10 G82 a goal that is paused while the host runs: its result and cost are kept, and settle once after resume without another run", async () => {
  const scene = await newScene()
  const started: string[] = []
  const host = counting(scene, started, () => scene.run(Goals.pause({ goal: scene.goal })))
  assert.deepInclude(await scene.fails(scene.drive(host)), { code: "GOAL_NOT_ACTIVE", state: "paused" })
  const [kept] = await scene.turns()
  assert.equal(kept!.result!.usd, 0.25)
  assert.deepInclude(await scene.fails(scene.drive(host)), { code: "GOAL_NOT_ACTIVE" })
  await scene.run(Goals.resume({ goal: scene.goal }))
  const done = await scene.run(scene.drive(host))
  assert.deepEqual([done.turn.id, started], [kept!.id, [kept!.id]])
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
  assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
})
