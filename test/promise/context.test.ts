/** Sources, packets, attempts and the loop over the promise entry. Rules: G14, G83, G84, V2, V3. */
import { createHash } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { open } from "../../src/promise.ts"

const store = mkdtempSync(join(tmpdir(), "coppice-promise-context-"))
afterAll(() => rmSync(store, { recursive: true, force: true }))

test("G14 G83 V2 a required source, and what the loop does next, without Effect", async () => {
  await using coppice = await open({ preset: "minimal", store: join(store, "s") })
  const goal = (await coppice.goals.open({ title: "t", budget: { slots: 3 } })).id
  await coppice.agents.register({ goal, agentId: "ada" })
  const digest = `sha256:${createHash("sha256").update("one").digest("hex")}`
  const source = await coppice.sources.register({ goal, name: "the contract", digest, ref: "one", bytes: 3 })
  const todo = await coppice.todos.add({ goal, title: "t", requiredReads: [source.id] })
  expect(todo.requiredReads).toEqual([source.id])
  const state = await coppice.loop.state({ goal, agent: "ada" })
  expect(coppice.loop.next({ state, turns: 1 })).toMatchObject({ disposition: "runNow", todo: todo.id })
  expect(coppice.loop.next({ state, turns: 0 })).toMatchObject({ disposition: "replan", reason: "turnBudget" })
  const receipt = { goal, todo: todo.id, outcome: "progress", todoState: "open", asOf: state.asOf + 1 } as const
  const stale = { _tag: "LoopInputStale", code: "LOOP_INPUT_STALE", why: "older" }
  expect(() => coppice.loop.next({ receipt, state, turns: 1 })).toThrow(expect.objectContaining(stale))
  await coppice.sources.markUnreadable({ source: source.id, reason: "gone" })
  const dark = coppice.loop.next({ state: await coppice.loop.state({ goal, agent: "ada" }), turns: 1 })
  expect(dark).toMatchObject({ disposition: "repair", reason: "sourceUnreadable", about: [source.id] })
  await expect(coppice.sources.read({ source: source.id, revision: 1, agent: "ada" })).rejects.toMatchObject({
    code: "SOURCE_STATE"
  })
  await coppice.sources.markReadable({ source: source.id })
  await coppice.sources.read({ source: source.id, revision: 1, agent: "ada", digest })
  expect((await coppice.sources.get({ source: source.id })).reads).toMatchObject([{ agent: "ada", revision: 1 }])
  expect((await coppice.sources.list({ goal, unread: true })).items).toEqual([])
  await expect(coppice.packets.get({ packet: "pkt_nowhere" })).rejects.toMatchObject({ code: "NOT_FOUND" })
})

test("G14 G84 V3 a packet is issued before a dispatch, and a failure that may be tried again saves the next attempt, as plain calls", async () => {
  await using coppice = await open({ preset: "minimal", store: join(store, "packet") })
  const { id: goal } = await coppice.goals.open({ title: "g", budget: { usd: 10, slots: 2 } })
  await coppice.agents.register({ goal, agentId: "ada" })
  const todo = await coppice.todos.add({ goal, title: "t" })
  const { fence } = await coppice.leases.acquire({ todo: todo.id, agent: "ada" })
  const { id: turn } = await coppice.turns.admit({ goal, agent: "ada", fence, bound: { usd: 1 } })
  const packet = await coppice.packets.issue({ turn, fence, decisions: [{ id: "d1", text: "keep the old format" }] })
  expect(packet).toMatchObject({ kind: "complete", why: "noSession", session: null, acknowledgedAt: null })
  expect(packet.body.decisions).toEqual([{ id: "d1", text: "keep the old format" }])
  expect(packet.body.stop.bound).toEqual({ usd: 1, slots: 1, attempts: 1 })
  expect((await coppice.turns.get({ turn })).context).toMatchObject({ packet: packet.id, digest: packet.digest })
  await coppice.turns.saveAttempt({ turn, fence })
  const failed = { turn, fence, spend: { usd: 0.25 }, bound: { usd: 2 } }
  const again = await coppice.turns.retryAttempt({ ...failed, failure: { class: "overloaded", check: "status" } })
  expect(again.attempts).toMatchObject([{ failure: { class: "overloaded", check: "status" } }, { number: 2 }])
  await expect(
    coppice.turns.retryAttempt({ ...failed, failure: { class: "badAnswer", check: "shape" } })
  ).rejects.toMatchObject({ code: "RETRY_REFUSED" })
  const { spent, reserved, remaining } = await coppice.quota.status({ goal })
  expect([spent.usd, reserved.usd, remaining]).toEqual([0.25, 2, { usd: 7.75, slots: 1 }])
})
