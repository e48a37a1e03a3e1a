/** The lease of a turn is kept while the turn is driven, and its loss stops the host. */
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { assert, describe, test } from "vitest"
import { commandHost, inProcessHost } from "../../providers/host-process/index.ts"
import { Leases } from "../../src/governance/index.ts"
import { eventually, mark, marked } from "../host/scenes.ts"
import { renewalMs } from "../../src/session/LeaseKeeper.ts"
import { newScene, read } from "./scene.ts"
import { answer } from "./hosts.ts"

describe("the lease of a turn", () => {
  test("G31 G35 it is renewed while the turn is driven and no longer, a third of its time apart when nothing is said", async () => {
    const scene = await newScene()
    const versionNow = async () => (await scene.run(Leases.inspect({ todo: scene.todo }))).version
    const host = inProcessHost("slow", async ({ request }) => {
      while ((await versionNow()) < 5) await new Promise((done) => setTimeout(done, 5))
      writeFileSync(join(scene.files, "value"), "nearly")
      return answer(request)
    })
    const done = await scene.run(scene.drive(host, { renewEveryMs: 5 }))
    assert.equal(done.turn.state, "closed")
    // A turn of another todo goes through as many renewals: whoever still renewed the first lease would have done so meanwhile.
    const after = await versionNow()
    const other = await newScene()
    const clock = inProcessHost("slow", async ({ request }) => {
      const seen = async () => (await other.run(Leases.inspect({ todo: other.todo }))).version
      while ((await seen()) < 5) await new Promise((done) => setTimeout(done, 5))
      return answer(request)
    })
    await other.run(other.drive(clock, { renewEveryMs: 5 }))
    assert.equal(await versionNow(), after)
    assert.deepEqual([renewalMs(45 * 60_000), renewalMs(1)], [15 * 60_000, 1])
  })

  test("G31 G33 G85 a lease that is lost while the host runs: the host is stopped first, then the loss is told, and its files and its cost are kept", async () => {
    const scene = await newScene()
    const { name, value } = mark()
    const host = commandHost("echo half > value; sleep 1000", { env: { [name]: value } })
    const fiber = await scene.run(Effect.forkDetach(Effect.flip(scene.drive(host, { renewEveryMs: 20 }))))
    await eventually("the host runs", () => marked(value).length > 0 && existsSync(join(scene.files, "value")))
    for (let gone = false; !gone; ) {
      const { version } = await scene.run(Leases.inspect({ todo: scene.todo }))
      const released = await scene.run(Effect.result(Leases.release({ fence: { ...scene.fence, version } })))
      gone = released._tag === "Success"
    }
    const error = await scene.run(Fiber.join(fiber))
    assert.deepInclude(error as object, { code: "LEASE_LOST", why: "released" })
    assert.deepEqual(marked(value), [])
    assert.equal(read(scene, "value"), "half\n")
    const [turn] = await scene.turns()
    assert.deepInclude(turn!, { state: "failed" })
    assert.include(turn!.failure!.reason, "its lease was lost (released)")
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
  })
})
