/** Sources, packets and the loop over the promise entry. Rules: G14, G83, V2. */
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
  const receipt = { goal, todo: todo.id, outcome: "progress", todoState: "open", asOf: state.asOf + 1 }
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
