/** One turn, several who would drive it: in this process, in another, under a newer lease. */
import { spawnSync } from "node:child_process"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { commandHost, inProcessHost } from "../../providers/host-process/index.ts"
import { Leases, Turns } from "../../src/governance/index.ts"
import type { TurnRequest } from "../../src/host/index.ts"
import { eventually } from "../host/scenes.ts"
import { newScene, read } from "./scene.ts"
import { answer, writer } from "./hosts.ts"
import { oneFile } from "../oneFile.ts"

test("G81 a second call for a turn that this process is driving gets TurnInFlight and touches nothing", async () => {
  const scene = await newScene()
  const asked: TurnRequest[] = []
  let release = (): void => {}
  const waiting = new Promise<void>((done) => {
    release = done
  })
  const host = inProcessHost("slow", async ({ request }) => {
    asked.push(request)
    await waiting
    writeFileSync(join(scene.files, "value"), "right")
    return answer(request)
  })
  const first = scene.run(scene.drive(host))
  await eventually("the host runs", () => asked.length === 1)
  const before = (await scene.journal()).length
  const second = await scene.fails(scene.drive(writer(scene, "wrong", asked), { interrupted: "retry" }))
  assert.deepInclude(second, { code: "TURN_IN_FLIGHT", alive: true, turn: (await scene.turns())[0]!.id })
  assert.equal((await scene.journal()).length, before)
  release()
  await first
  assert.deepEqual([asked.length, read(scene, "value")], [1, "right"])
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
  assert.equal((await scene.run(Turns.list({ goal: scene.goal, state: "open" }))).items.length, 0)
})
test("G81 two processes that drive one turn: the later one gets one typed error and dispatches nothing, the first one settles", async () => {
  const scene = await newScene()
  const host = commandHost("echo dispatched >> dispatches; until [ -e go ]; do sleep 0.02; done; echo right > value", {
    usd: 0
  })
  const first = scene.run(scene.drive(host, { renewEveryMs: 50 }))
  await eventually("the first host runs", () => existsSync(join(scene.files, "dispatches")))
  const rival = spawnSync(
    process.execPath,
    [
      await oneFile(join(import.meta.dirname, "programs/rival.ts")),
      scene.place,
      scene.goal,
      scene.todo,
      JSON.stringify(scene.fence)
    ],
    { encoding: "utf8" }
  )
  writeFileSync(join(scene.files, "go"), "")
  assert.equal(rival.stdout.trim(), "TURN_IN_FLIGHT", rival.stderr)
  assert.equal((await first).turn.state, "closed")
  assert.equal(read(scene, "dispatches"), "dispatched\n")
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
})

test("G81 G35 a call under a newer lease does not take a turn over from a call of this process that is still driving it", async () => {
  const scene = await newScene()
  const asked: TurnRequest[] = []
  let release = (): void => {}
  const waiting = new Promise<void>((done) => {
    release = done
  })
  const host = inProcessHost("slow", async ({ request }) => {
    asked.push(request)
    await waiting
    return answer(request)
  })
  const first = scene.fails(scene.drive(host))
  await eventually("the host runs", () => asked.length === 1)
  await scene.run(Leases.release({ fence: scene.fence }))
  const { fence } = await scene.run(Leases.acquire({ todo: scene.todo, agent: "ada" }))
  const before = (await scene.journal()).length
  assert.equal((await scene.fails(scene.drive(host, { fence, interrupted: "retry" }))).code, "TURN_IN_FLIGHT")
  assert.equal((await scene.journal()).length, before)
  release()
  assert.equal((await first).code, "LEASE_LOST")
  assert.deepInclude((await scene.turns())[0]!.result!, { status: "ok", usd: 0.25 })
  const done = await scene.run(scene.drive(host, { fence }))
  assert.deepEqual([asked.length, done.turn.state], [1, "closed"])
})
