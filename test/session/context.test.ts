import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { inProcessHost, processHost } from "../../providers/host-process/index.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { Packets, Quota, Sources, Todos } from "../../src/governance/index.ts"
import type { Host, TurnRequest, TurnResult } from "../../src/host/index.ts"
import { newScene, type Scene } from "./scene.ts"

const session = { id: "bnd_1", generation: 1 }
const content = (text: string) => ({ digest: sha256(text), ref: `notes@${text}`, bytes: text.length })

/** A scene whose todo requires one source, and the requests that its host was given. */
const newWork = async () => {
  const scene = await newScene()
  const asked: TurnRequest[] = []
  const source = await scene.run(Sources.register({ goal: scene.goal, name: "the contract", ...content("one") }))
  await scene.run(Todos.edit({ todo: scene.todo, revision: 1, requiredReads: [source.id] }))
  /** A host that writes `value` and says of its context what `says` makes of the request. */
  const host = (
    value: string,
    says: (request: TurnRequest) => Partial<TurnResult> = () => ({}),
    during: () => Promise<unknown> = async () => {}
  ): Host =>
    inProcessHost("writer", async ({ request }) => {
      asked.push(request)
      writeFileSync(join(scene.files, "value"), value)
      await during()
      const head = { protocol: "coppice.turn", version: 1, turnKey: request.turnKey } as const
      return { ...head, outcome: "completed", summary: "written", usage: { usd: 0 }, ...says(request) }
    })
  return { scene, asked, source, host }
}

const echo = ({ context }: TurnRequest) => ({ context: { digest: context!.digest } })
const packetOf = (scene: Scene, request: TurnRequest) => scene.run(Packets.get({ packet: request.context!.packet }))

test("G14 G86 V5 a host gets its packet with the request; what it echoes is acknowledged, what it has read is recorded, and the next packet is a difference", async () => {
  const { scene, asked, source, host } = await newWork()
  const read = { source: source.id, revision: 1 }
  const nonsense = { source: "src_nowhere", revision: 7 }
  const first = await scene.run(
    scene.drive(
      host("nearly", ({ context }) => ({ context: { digest: context!.digest, tokens: 321, read: [read, nonsense] } })),
      { session }
    )
  )
  const packet = await packetOf(scene, asked[0]!)
  assert.deepEqual(asked[0]!.context, {
    packet: packet.id,
    digest: packet.digest,
    kind: "complete",
    base: null,
    body: packet.body as never
  })
  assert.deepInclude(packet, { turn: first.turn.id, why: "first", tokens: 321 })
  assert.isNotNull(packet.acknowledgedAt)
  assert.deepInclude(first.turn.context!, { packet: packet.id, digest: packet.digest, reads: [read] })
  const { reads } = await scene.run(Sources.get({ source: source.id }))
  assert.deepEqual(
    reads.map(({ agent, revision, turn }) => [agent, revision, turn]),
    [["ada", 1, first.turn.id]]
  )
  await scene.run(scene.drive(host("right", echo), { session, after: first.turn.id }))
  const { context } = asked[1]!
  assert.deepEqual([context!.kind, context!.base], ["delta", { packet: packet.id, digest: packet.digest }])
  assert.deepEqual((await packetOf(scene, asked[1]!)).body.references, [
    { kind: "turn", ref: first.turn.id, digest: null, text: "the turn that this one continues" }
  ])
  assert.deepEqual(await scene.settlements(), { total: 2, accepted: 1 })
})

test("G14 V5 a host that echoes nothing has acknowledged nothing, and one without a session remembers nothing: complete each time", async () => {
  const silent = await newWork()
  const first = await silent.scene.run(silent.scene.drive(silent.host("nearly"), { session }))
  await silent.scene.run(silent.scene.drive(silent.host("right"), { session, after: first.turn.id }))
  assert.deepEqual(
    await Promise.all(silent.asked.map(async (request) => (await packetOf(silent.scene, request)).why)),
    ["first", "lostAck"]
  )
  const forgetful = await newWork()
  const before = await forgetful.scene.run(forgetful.scene.drive(forgetful.host("nearly", echo)))
  await forgetful.scene.run(forgetful.scene.drive(forgetful.host("right", echo), { after: before.turn.id }))
  assert.deepEqual(
    forgetful.asked.map(({ context }) => context!.kind),
    ["complete", "complete"]
  )
})

test("C72 G86 what was revised while the host ran makes its work stale, and the next packet is complete; so does a context that it was not given", async () => {
  const { scene, asked, source, host } = await newWork()
  const revise = () => scene.run(Sources.revise({ source: source.id, revision: 1, ...content("two") }))
  const first = await scene.run(scene.drive(host("right", echo, revise), { session }))
  assert.equal(first.turn.state, "closed")
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 0 })
  assert.equal((await scene.run(Todos.get({ todo: scene.todo }))).state, "open")
  const other = () => ({ context: { digest: sha256("what somebody else was told") } })
  const second = await scene.run(scene.drive(host("right", other), { session, after: first.turn.id }))
  assert.equal((await packetOf(scene, asked[1]!)).why, "sourceRevision")
  assert.deepEqual(await scene.settlements(), { total: 2, accepted: 0 })
  await scene.run(scene.drive(host("right", echo), { session, after: second.turn.id }))
  assert.equal((await packetOf(scene, asked[2]!)).why, "lostAck")
  assert.deepEqual(await scene.settlements(), { total: 3, accepted: 1 })
})

test("G14 a turn whose packet cannot hold what it must is not dispatched; with more room the same turn goes on", async () => {
  const { scene, asked, host } = await newWork()
  const refused = await scene.fails(scene.drive(host("right", echo), { contextBytes: 100 }))
  assert.equal(refused.code, "CONTEXT_TOO_LARGE")
  assert.equal(asked.length, 0)
  const done = await scene.run(scene.drive(host("right", echo), { contextBytes: 100 + refused.overBytes }))
  assert.deepEqual([done.turn.id, done.turn.attempts.length], [refused.turn, 1])
  assert.isAtMost((await packetOf(scene, asked[0]!)).bytes, 100 + refused.overBytes)
})

test("G14 G55 a turn under a required source that cannot be read is not admitted, and holds nothing", async () => {
  const { scene, source, host } = await newWork()
  await scene.run(Sources.markUnreadable({ source: source.id, reason: "gone" }))
  const refused = await scene.fails(scene.drive(host("right")))
  assert.deepInclude(refused, { code: "SOURCE_STATE", source: source.id })
  assert.deepEqual([(await scene.turns()).length, (await scene.quota()).reserved], [0, 0])
  assert.deepEqual((await scene.run(Quota.status({ goal: scene.goal }))).spent.slots, 0)
})

test("G14 S51 a process finds its packet in its request and echoes the digest; a protocol of version 1 still", async () => {
  const { scene } = await newWork()
  const script = `
    const request = JSON.parse(require("node:fs").readFileSync(0, "utf8"))
    require("node:fs").writeFileSync("value", request.context.body.requirement.todo.title === "Write it" ? "right" : "wrong")
    const { turnKey, context: { digest } } = request
    console.log(JSON.stringify({ protocol: "coppice.turn", version: 1, turnKey, outcome: "completed", summary: "s", context: { digest } }))`
  const done = await scene.run(scene.drive(processHost([process.execPath, "-e", script])))
  const packet = await scene.run(Packets.get({ packet: done.turn.context!.packet! }))
  assert.isNotNull(packet.acknowledgedAt)
  assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
})
