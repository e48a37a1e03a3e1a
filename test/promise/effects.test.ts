/** External effects through the promise entry, with a provider of plain functions. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { open, type Operations, type OperationProvider } from "../../src/promise.ts"

const place = mkdtempSync(join(tmpdir(), "coppice-promise-effects-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

/** A valve that does what it is told and loses its first reply. */
const valve = () => {
  const done: string[] = []
  let open = false
  const provider: OperationProvider = {
    name: "valve",
    kinds: [{ name: "open", readBack: "yes", retry: "keyed", stop: "device", supervision: "none" }],
    dispatch: async ({ effectId }) => {
      done.push(effectId)
      open = true
      if (done.length === 1) throw new Error("connection reset")
      return { state: "confirmed" }
    },
    readBack: async ({ effectId }) => ({ state: done.includes(effectId) ? "confirmed" : "notFound" }),
    interlocks: async () => [{ name: "pressure", engaged: done.length > 1 }],
    requestStop: async () => {
      open = false
    },
    confirmStopped: async () => ({ state: open ? "moving" : "stopped" })
  }
  return { done, provider }
}

test("G60 G61 G63 V3 a plain provider is activated, run, stopped and let go; failures are plain errors", async () => {
  await using coppice = await open({ preset: "minimal", store: join(place, "store") })
  const goal = (await coppice.goals.open({ title: "Water the plants", budget: { slots: 1 } })).id
  const { done, provider } = valve()
  expect(await coppice.effects.unresolved({ provider: "valve" })).toMatchObject({ items: [] })
  const operations: Operations = await coppice.operations.activate(provider, { backoff: "1 millis", times: 2 })
  expect([operations.provider, operations.recovered]).toEqual(["valve", []])
  const spec = { effect: `${goal}/open`, goal, kind: "open", operation: { to: 30 }, summary: "open to 30" }
  expect(await operations.run(spec)).toMatchObject({ state: "confirmed", attempts: 1, outcome: { by: "readBack" } })
  expect(await operations.run(spec)).toMatchObject({ state: "confirmed", attempts: 1 })
  await expect(operations.run({ ...spec, operation: { to: 31 } })).rejects.toMatchObject({ code: "IDENTITY_CONFLICT" })
  done.push("another")
  await expect(operations.run({ ...spec, effect: `${goal}/more` })).rejects.toMatchObject({
    code: "INTERLOCK_ENGAGED",
    interlocks: [{ name: "pressure", reason: "" }]
  })
  await coppice.effects.requestStop({ effect: spec.effect, by: "mira", reason: "enough" })
  await expect(operations.deactivate()).rejects.toMatchObject({ code: "PROVIDER_BUSY", effects: [spec.effect] })
  await coppice.goals.pause({ goal })
  const stopped = await operations.stop({ effect: spec.effect, by: "mira", reason: "enough" })
  expect(stopped.stop).toMatchObject({ state: "confirmed", confirmedBy: "device", who: "valve" })
  await operations.deactivate()
  await expect(operations.run(spec)).rejects.toMatchObject({ code: "PROVIDER_INACTIVE" })
  expect((await coppice.effects.list({ goal })).items.map(({ state }) => state)).toEqual(["confirmed", "planned"])
  await coppice.effects.abandon({ effect: `${goal}/more`, by: "mira", reason: "not needed" })
  expect(await coppice.effects.get({ effect: `${goal}/more` })).toMatchObject({ state: "refused" })
  expect(done.filter((effect) => effect === spec.effect)).toHaveLength(1)

  await expect(coppice.operations.activate({ name: "odd" } as never)).rejects.toMatchObject({ code: "BAD_ARGUMENT" })
  await expect(coppice.effects.plan({ effect: "e" } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" })
})

test("G61 G62 G63 V3 what plain JavaScript hands in is refused by name, and what cannot be read keeps an operation from starting", async () => {
  await using coppice = await open({ preset: "minimal", store: join(place, "odd") })
  const goal = (await coppice.goals.open({ title: "Water the plants", budget: { slots: 1 } })).id
  const { done, provider } = valve()
  const activate = (more: object) => coppice.operations.activate({ ...provider, ...more } as OperationProvider)
  for (const more of [{ name: undefined }, { name: "" }, { kinds: null }, { kinds: [null] }, { kinds: [{}] }]) {
    await expect(activate(more)).rejects.toMatchObject({ code: "BAD_ARGUMENT" })
  }
  const spec = { effect: `${goal}/open`, goal, kind: "open", operation: { to: 30 }, summary: "open to 30" }
  for (const all of [null, 5, [null], [{ engaged: true }], [{ name: "pressure" }]]) {
    const operations = await activate({ interlocks: async () => all })
    await expect(operations.run(spec)).rejects.toMatchObject({
      code: "INTERLOCK_ENGAGED",
      interlocks: [{ name: "interlocks", reason: "they could not be read" }]
    })
  }
  const operations = await activate({ interlocks: async () => [{ name: "door", engaged: true, kinds: ["close"] }] })
  for (const wrong of [undefined, null, 5, {}, { ...spec, effect: 5 }, { ...spec, kind: undefined }]) {
    await expect(operations.run(wrong as never)).rejects.toMatchObject({ code: "INVALID_INPUT" })
  }
  // Their digest would leave out what they hold: another operation could take the id.
  for (const operation of [() => 1, { at: new Map([[1, 2]]) }, { by: () => 1 }, [Symbol("x")], { on: new Date(0) }]) {
    const odd = { ...spec, effect: `${goal}/odd`, operation: operation as never }
    await expect(operations.run(odd)).rejects.toMatchObject({ code: "INVALID_INPUT" })
  }
  expect(done).toEqual([])
  expect(await operations.run({ ...spec, operation: { to: 30, by: undefined } as never })).toMatchObject({
    state: "confirmed"
  })
  for (const signal of [5, {}]) {
    await expect(coppice.goals.get({ goal }, { signal } as never)).rejects.toMatchObject({ code: "BAD_ARGUMENT" })
  }
  for (const options of [null, 5]) await expect(open(options as never)).rejects.toMatchObject({ code: "BAD_ARGUMENT" })
})
