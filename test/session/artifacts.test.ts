/** What becomes of a goal's budget when the files that show its costs are damaged: nothing, and it is told. */
import { mkdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { commandHost } from "../../providers/host-process/index.ts"
import { Goals, Quota } from "../../src/governance/index.ts"
import { resultArtifacts } from "../../src/session/index.ts"
import { newScene } from "./scene.ts"

test("G54 C57 a spend artifact that is damaged in any way leaves the exact total, is told by its fault, admits nothing more, and clears when it is restored", async () => {
  const scene = await newScene({ usd: 1, slots: 5 })
  const done = await scene.run(scene.drive(commandHost("echo right > value", { usd: 0.75 })))
  const healthy = (await scene.run(Goals.open({ title: "Another goal", budget: { usd: 1 } }))).id
  const results = join(scene.place, "results")
  const file = join(results, `${done.turn.id}.json`)
  const whole = readFileSync(file)
  const artifacts = resultArtifacts(results)
  const text = whole.toString()

  const look = async () => {
    const status = await scene.run(Quota.status({ goal: scene.goal, artifacts }))
    assert.deepEqual([status.spent.usd, status.reserved.usd, status.remaining.usd], [0.75, 0, 0.25])
    const more = { goal: scene.goal, effectId: "more", bound: { usd: 0.26, slots: 1 } }
    assert.deepInclude(await scene.fails(Quota.reserve(more)), { code: "QUOTA_EXCEEDED", used: 0.75 })
    return status.spendEvidenceUnreadable
  }
  const restored = async () => {
    rmSync(results, { recursive: true })
    mkdirSync(results)
    writeFileSync(file, whole)
    assert.deepEqual(await look(), [])
  }
  assert.deepEqual(await look(), [])

  const damages: readonly (readonly [string, () => void])[] = [
    ["missing", () => rmSync(file)],
    ["missing", () => renameSync(results, join(scene.place, "moved"))],
    [
      "unreadable",
      () => {
        rmSync(file)
        mkdirSync(file)
      }
    ],
    ["malformed", () => truncateSync(file, whole.length - 10)],
    ["malformed", () => truncateSync(file, 0)],
    ["shape", () => writeFileSync(file, "[]")],
    ["shape", () => writeFileSync(file, "null")],
    ["shape", () => writeFileSync(file, '{"status":"ok","usd":0}')],
    ["notUtf8", () => writeFileSync(file, Buffer.concat([whole, Buffer.from([0xff])]))],
    ["otherWork", () => writeFileSync(file, text.replaceAll(done.turn.id, "turn_another"))],
    ["altered", () => writeFileSync(file, text.replace("0.75", "0.01"))]
  ]
  for (const [fault, damage] of damages) {
    damage()
    const found = await look()
    assert.deepEqual(
      found,
      [
        {
          reservation: done.turn.reservation,
          effectId: done.turn.effectId,
          turn: done.turn.id,
          fault: fault as never
        }
      ],
      String(damage)
    )
    const other = await scene.run(Quota.status({ goal: healthy, artifacts }))
    assert.deepEqual([other.spendEvidenceUnreadable, other.remaining.usd], [[], 1])
    rmSync(join(scene.place, "moved"), { recursive: true, force: true })
    mkdirSync(results, { recursive: true })
    await restored()
  }
  // Nobody looked is not the same as nothing is wrong.
  const unlooked = await scene.run(Quota.status({ goal: scene.goal }))
  assert.equal(unlooked.spendEvidenceUnreadable, null)
  // And what is left may be used: damage never blocks for good.
  assert.equal(
    (await scene.run(Effect.result(Quota.reserve({ goal: scene.goal, effectId: "e", bound: { usd: 0.25, slots: 1 } }))))
      ._tag,
    "Success"
  )
})
