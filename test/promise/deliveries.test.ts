/** Results on their way back, for a host without Effect. Rules: G91, V3, W14. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { type DeliveryMessage, type DeliveryProvider, open } from "../../src/promise.ts"

const place = mkdtempSync(join(tmpdir(), "coppice-promise-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

test("V3 W14 G91 a result is sent by a plain provider, read back after a reply was lost, and a call without a provider is refused", async () => {
  await using coppice = await open({ preset: "minimal", store: join(place, "store") })
  const goal = await coppice.goals.open({ title: "a goal", budget: { usd: 1 } })
  const origin = { destination: "room-7", channel: "chat", requestId: "q-1" }
  const todo = await coppice.todos.add({ goal: goal.id, title: "work", origin })
  const done = await coppice.todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } })
  expect((await coppice.goals.get({ goal: goal.id })).undelivered).toEqual({ count: 1, ids: [done.delivery] })

  const seen: DeliveryMessage[] = []
  const provider: DeliveryProvider = {
    name: "chat",
    keyed: false,
    deliver: async (message) => {
      seen.push(message)
      throw new Error("the line went dead")
    },
    readBack: async ({ id }) =>
      seen.some((message) => message.id === id) ? { _tag: "delivered", receipt: "m-1" } : { _tag: "absent" }
  }
  const delivery = done.delivery!
  await expect(coppice.deliveries.send({ delivery } as never)).rejects.toMatchObject({ code: "BAD_ARGUMENT" })
  expect(await coppice.deliveries.send({ delivery, provider, timeLimit: "1 minute" })).toMatchObject({
    state: "unknown"
  })
  expect(await coppice.deliveries.send({ delivery, provider })).toMatchObject({ state: "confirmed", receipt: "m-1" })
  expect(seen).toHaveLength(1)
  expect(seen[0]).toMatchObject({ id: delivery, origin, result: { todoState: "done" } })
  await coppice.deliveries.readByUser({ delivery })
  expect((await coppice.deliveries.list({ goal: goal.id })).items[0]!.readAt).not.toBeNull()
  expect((await coppice.deliveries.undelivered({})).items).toEqual([])
})
