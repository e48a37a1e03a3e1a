/**
 * Results on their way back, with a receiver that is a process of its own and senders that are killed.
 * Promise: one message for the receiver per delivery id, whatever is killed; the work is never run again. Rules: G10, G90, G91.
 */
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { afterEach, assert, describe, test, vi } from "vitest"
import { Deliveries, Goals, Todos } from "../../src/governance/index.ts"
import { commandHost } from "../../providers/host-process/index.ts"
import { sendDelivery } from "../../src/session/index.ts"
import { eventually } from "../host/scenes.ts"
import { received, socketProvider, startReceiver } from "./receiver.ts"
import { newScene, read, type Scene } from "./scene.ts"
import { oneFile } from "../oneFile.ts"

// Every sender is a process that opens the store anew: many of them on a busy machine take their time.
vi.setConfig({ testTimeout: 240_000 })

const origin = { destination: "room-7", channel: "chat", requestId: "q-1" }
const [sender, answering] = (await Promise.all(
  ["sender.ts", "receiver.ts"].map((name) => oneFile(join(import.meta.dirname, "programs", name)))
)) as [string, string]

const cleanups: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const newPlace = (): string => {
  const place = mkdtempSync(join(tmpdir(), "coppice-receiver-"))
  cleanups.push(() => rmSync(place, { recursive: true, force: true }))
  return place
}

const receiver = async (mode: string, place = newPlace()) => {
  const { stop } = await startReceiver(answering, place, mode)
  let running = true
  const end = async () => {
    if (running) await stop()
    running = false
  }
  cleanups.push(end)
  return { place, end }
}

/** A governed turn with a real process as its host, whose accepted result goes back to its origin. */
const finished = async (): Promise<Scene & { readonly delivery: string }> => {
  const scene = await newScene()
  await scene.run(Deliveries.setOrigin({ todo: scene.todo, origin }))
  await scene.run(scene.drive(commandHost("echo ran >> dispatches; echo right > value", { usd: 0.25 })))
  const { items } = await scene.run(Deliveries.undelivered({ goal: scene.goal }))
  assert.equal(items.length, 1)
  return { ...scene, delivery: items[0]!.id }
}

const send = (scene: Scene & { readonly delivery: string }, place: string, how = "", crashAt?: string) => {
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    [sender, join(scene.place, "store"), place, scene.delivery, how],
    {
      encoding: "utf8",
      timeout: 60_000,
      env: { ...process.env, ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }) }
    }
  )
  if (crashAt !== undefined) {
    assert.equal(signal, "SIGKILL", stderr)
    return undefined
  }
  assert.equal(status, 0, stderr)
  return JSON.parse(stdout)
}

/** The turn ran once and was settled once, whatever became of its delivery; every message is the same, to the one origin. */
const assertWorkUntouched = async (scene: Scene & { readonly delivery: string }, place: string) => {
  assert.equal(read(scene, "dispatches"), "ran\n")
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
  const messages = received(place)
  for (const message of messages) {
    assert.deepEqual([message.id, message.origin], [scene.delivery, origin])
    assert.deepEqual(message, messages[0]!)
  }
}

const facts = async (scene: Scene) => (await scene.journal("delivery.")).map(({ type }) => type.slice(9))

describe("the sender is killed, and another takes its place", () => {
  for (const [point, hadIt, ended, said] of [
    ["delivery.dispatched", 0, { state: "confirmed", attempts: 2, receipt: "seen-1", resolvedBy: "reply" }, 2],
    ["delivery.sent", 1, { state: "confirmed", attempts: 1, receipt: "read-back-1", resolvedBy: "readBack" }, 1],
    ["delivery.resolved", 1, { state: "confirmed", attempts: 1, receipt: "seen-1", resolvedBy: "reply" }, 1]
  ] as const) {
    test(`G91 at ${point} a receiver that can be asked is asked first, and has the message once`, async () => {
      const scene = await finished()
      const { place } = await receiver("answers")
      send(scene, place, "", point)
      assert.equal(received(place).length, hadIt)
      assert.deepEqual(send(scene, place), ended)
      assert.deepEqual(send(scene, place), ended)
      assert.equal(received(place).length, 1)
      assert.equal((await facts(scene)).filter((fact) => fact === "dispatched").length, said)
      await assertWorkUntouched(scene, place)
    })
  }

  test("G91 at delivery.sent a receiver that cannot be asked, and keeps one message for an id, gets the same message again", async () => {
    const scene = await finished()
    const { place } = await receiver("answers")
    send(scene, place, "keyed blind", "delivery.sent")
    assert.deepInclude(send(scene, place, "keyed blind"), { state: "confirmed", attempts: 2 })
    assert.equal(received(place).length, 2)
    await assertWorkUntouched(scene, place)
  })

  for (const point of ["delivery.dispatched", "delivery.sent"] as const) {
    test(`G91 at ${point} a receiver that can neither be asked nor keeps one for an id leaves it unknown until a person says`, async () => {
      const scene = await finished()
      const { place } = await receiver("answers")
      send(scene, place, "blind", point)
      const sent = received(place).length
      for (const _again of [1, 2]) {
        assert.deepInclude(send(scene, place, "blind"), { state: "unknown", attempts: 1 })
      }
      assert.equal(received(place).length, sent)
      const { undelivered } = await scene.run(Goals.get({ goal: scene.goal }))
      assert.deepEqual(undelivered, { count: 1, ids: [scene.delivery] })
      await scene.run(
        Deliveries.resolve({
          delivery: scene.delivery,
          attempt: 1,
          outcome: "confirmed",
          by: "person",
          reason: "seen in the room"
        })
      )
      assert.equal((await scene.run(Goals.get({ goal: scene.goal }))).undelivered.count, 0)
      await assertWorkUntouched(scene, place)
    })
  }

  test("G91 killed after the commit of any of its facts, the next sender goes on from what stands", async () => {
    // Settling, dispatching and resolving are commits of different processes: the first and the second of the sender's are killed.
    for (const nth of [1, 2]) {
      const scene = await finished()
      const { place } = await receiver("answers")
      send(scene, place, "", `authority.afterCommit:${nth}`)
      assert.deepInclude(send(scene, place), { state: "confirmed" })
      assert.equal(received(place).length, 1)
      await assertWorkUntouched(scene, place)
    }
  })
})

describe("the receiver fails", () => {
  test("G91 a lost acknowledgement is unknown, is resolved by reading back, and nothing is sent twice", async () => {
    const scene = await finished()
    const { place } = await receiver("deaf")
    const lost = await scene.run(sendDelivery({ delivery: scene.delivery, provider: socketProvider(place) }))
    assert.deepInclude(lost, { state: "unknown", resolvedBy: "reply" })
    const found = await scene.run(sendDelivery({ delivery: scene.delivery, provider: socketProvider(place) }))
    assert.deepInclude(found, { state: "confirmed", attempts: 1, resolvedBy: "readBack" })
    assert.deepEqual(await facts(scene), ["accepted", "dispatched", "unknown", "confirmed"])
    assert.equal(received(place).length, 1)
    await assertWorkUntouched(scene, place)
  })

  test("G91 nobody listens: it is known that nothing left, and the next sending is as the first; a refusal is final", async () => {
    const scene = await finished()
    const place = newPlace()
    const provider = socketProvider(place)
    const kept = await scene.run(sendDelivery({ delivery: scene.delivery, provider }))
    assert.deepInclude(kept, { state: "accepted", attempts: 1, reason: "nobody listens" })
    await receiver("refuses", place)
    const refused = await scene.run(sendDelivery({ delivery: scene.delivery, provider }))
    assert.deepInclude(refused, { state: "refused", reason: "status 410", attempts: 2 })
    assert.deepEqual(await scene.run(sendDelivery({ delivery: scene.delivery, provider })).then((r) => r.attempts), 2)
    assert.deepEqual(await facts(scene), ["accepted", "dispatched", "notSent", "dispatched", "refused"])
  })

  test("G91 a receiver that never answers is unknown once the time for it is up, and so is a sending that is cancelled", async () => {
    for (const ended of ["in time", "cancelled"]) {
      const scene = await finished()
      const { place, end } = await receiver("mute")
      const provider = socketProvider(place)
      const sending = sendDelivery({
        delivery: scene.delivery,
        provider,
        ...(ended === "in time" ? { timeLimitMs: 50 } : {})
      })
      const fiber = await scene.run(Effect.forkDetach(sending))
      if (ended === "cancelled") {
        await eventually("the receiver has it", () => received(place).length === 1)
        // Meanwhile nobody else sends it: neither this process nor another.
        assert.deepInclude(await scene.fails(sendDelivery({ delivery: scene.delivery, provider })), {
          code: "DELIVERY_IN_FLIGHT",
          alive: true
        })
        assert.deepEqual(send(scene, place), { error: "DELIVERY_IN_FLIGHT" })
        await Effect.runPromise(Fiber.interrupt(fiber))
      } else await Effect.runPromise(Fiber.join(fiber))
      assert.deepInclude(await scene.run(Deliveries.get({ delivery: scene.delivery })), { state: "unknown" })
      await end()
    }
  })
})

test("G10 G91 below a paused or stopped goal nothing is sent, what was sent is read back and written down, and it goes on after resume", async () => {
  const scene = await finished()
  const { place } = await receiver("answers")
  const provider = socketProvider(place)
  const goal = { goal: scene.goal }
  for (const halt of [Goals.pause, Goals.stop]) {
    await scene.run(halt(goal))
    const refused = await scene.fails(sendDelivery({ delivery: scene.delivery, provider }))
    assert.equal(refused.code, "GOAL_NOT_ACTIVE")
    assert.deepEqual([received(place).length, await facts(scene)], [0, ["accepted"]])
    await scene.run(Goals.resume(goal))
  }
  send(scene, place, "", "delivery.dispatched")
  await scene.run(Goals.pause(goal))
  // It never left, which is found out; sending it is another matter.
  assert.equal((await scene.fails(sendDelivery({ delivery: scene.delivery, provider }))).code, "GOAL_NOT_ACTIVE")
  assert.equal(received(place).length, 0)
  await scene.run(Goals.resume(goal))
  send(scene, place, "", "delivery.sent")
  await scene.run(Goals.pause(goal))
  const there = await scene.run(sendDelivery({ delivery: scene.delivery, provider }))
  assert.deepInclude(there, { state: "confirmed", resolvedBy: "readBack" })
  assert.equal(received(place).length, 1)
  await assertWorkUntouched(scene, place)
})

test("G91 two processes that send one delivery at the same time: the receiver has it once", async () => {
  const scene = await finished()
  const { place } = await receiver("answers")
  const rivals = await Promise.all(
    [1, 2, 3].map(
      () =>
        new Promise<string>((resolve) => {
          const child = spawn(process.execPath, [sender, join(scene.place, "store"), place, scene.delivery, ""])
          let text = ""
          child.stdout.on("data", (chunk: Buffer) => {
            text += String(chunk)
          })
          child.once("close", () => resolve(text))
        })
    )
  )
  for (const rival of rivals) assert.match(rival, /confirmed|DELIVERY_IN_FLIGHT/)
  assert.equal(received(place).length, 1)
  assert.deepInclude(await scene.run(Deliveries.get({ delivery: scene.delivery })), { state: "confirmed", attempts: 1 })
})

test("G91 a receiver's receipt that may not be public is kept as its digest, and the confirmation stands", async () => {
  const scene = await finished()
  const provider = {
    name: "chat",
    keyed: true,
    deliver: () => Effect.succeed({ _tag: "confirmed", receipt: "Bearer abcdefghijklmnopqrstuvwxyz" } as const)
  }
  const sent = await scene.run(sendDelivery({ delivery: scene.delivery, provider }))
  assert.match(sent.receipt!, /^sha256:/)
  assert.equal(sent.state, "confirmed")
  assert.equal((await scene.run(Todos.get({ todo: scene.todo }))).origin?.requestId, "q-1")
})

test("G91 whatever a provider answers, the sending has an end on record: what is not understood is unknown, a confirmation stands", async () => {
  const scene = await finished()
  const done = async () => {
    const todo = await scene.run(Todos.add({ goal: scene.goal, title: "more", origin }))
    const { delivery } = await scene.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
    return delivery!
  }
  const sent = async (answer: unknown) => {
    const provider = { name: "odd", keyed: false, deliver: () => Effect.succeed(answer as never) }
    const { state, receipt, reason } = await scene.run(sendDelivery({ delivery: await done(), provider }))
    return [state, receipt ?? reason]
  }
  for (const answer of [undefined, null, 5, {}, { _tag: "sent" }, { _tag: "unknown" }]) {
    assert.deepEqual(await sent(answer), ["unknown", "the provider's answer is none that is known"])
  }
  assert.deepEqual(await sent({ _tag: "confirmed", receipt: 5 }), ["confirmed", null])
  assert.match((await sent({ _tag: "confirmed", receipt: "half \ud83d" }))[1]!, /^sha256:/)
  // Cut at 2,000 characters, the last one would be a half.
  const cut = await sent({ _tag: "refused", reason: `${"x".repeat(1999)}\u{1f600}` })
  assert.deepEqual(cut, ["refused", `${"x".repeat(1999)}\ufffd`])
  // What reading back gives is no more than that either.
  const delivery = await done()
  const lost = { name: "odd", keyed: false, deliver: () => Effect.fail("gone") }
  await scene.run(sendDelivery({ delivery, provider: lost }))
  const odd = { ...lost, readBack: () => Effect.succeed(null as never) }
  assert.deepInclude(await scene.run(sendDelivery({ delivery, provider: odd })), { state: "unknown", attempts: 1 })
})

test("G91 W14 cancelled at any moment, a sending is on record as what it was: not begun, or unknown", async () => {
  const scene = await finished()
  const states = new Set<string>()
  for (let turns = 0; turns < 12; turns += 1) {
    const todo = await scene.run(Todos.add({ goal: scene.goal, title: "more", origin }))
    const done = await scene.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
    const delivery = done.delivery!
    let called = 0
    const provider = {
      name: "slow",
      keyed: false,
      deliver: () =>
        Effect.suspend(() => {
          called += 1
          return Effect.never
        })
    }
    await scene.run(
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(sendDelivery({ delivery, provider }))
        // So many turns of the event loop: before the journal, inside its commit, and after it.
        for (let i = 0; i < turns; i += 1) yield* Effect.promise(() => new Promise((next) => setImmediate(next)))
        yield* Fiber.interrupt(fiber)
      })
    )
    const { state } = await scene.run(Deliveries.get({ delivery }))
    assert.equal(state, called > 0 ? "unknown" : "accepted")
    states.add(state)
  }
  assert.deepEqual([...states].toSorted(), ["accepted", "unknown"])
})
