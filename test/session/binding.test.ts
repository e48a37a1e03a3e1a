import { assert, test } from "vitest"
import { workModule } from "../../src/governance/index.ts"
import { Bindings, sessionModule } from "../../src/session/index.ts"
import { type Bench, newBench, newGoal } from "../governance/authority.ts"

const modules = [workModule, sessionModule]
const newScene = async () => {
  const bench = await newBench({ modules })
  const goal = (await newGoal(bench)).id
  const managed = { goal, agent: "ada", mode: "managed_runtime", executorEndpointId: "runner-1" } as const
  const attached = { ...managed, mode: "attached_host", hostSurface: "editor" } as const
  const list = async (on: Bench = bench) => (await on.run(Bindings.list({ goal }))).items
  return { bench, goal, managed, attached, list }
}

test("S1 the mode of a binding is chosen at bind, stored, and read back the same by another opening of the store", async () => {
  const { bench, managed, attached, list } = await newScene()
  await bench.run(Bindings.bind(managed))
  await bench.run(Bindings.bind({ ...attached, agent: "bob" }))
  const expected = [
    ["ada", "managed_runtime", null, "live"],
    ["bob", "attached_host", "editor", "live"]
  ]
  const shown = async (on: Bench) => (await list(on)).map((b) => [b.agent, b.mode, b.hostSurface, b.status])
  assert.deepEqual(await shown(bench), expected)
  assert.deepEqual(await shown(await newBench({ modules, directory: bench.directory })), expected)
})

test("S1 an unknown mode, a missing or a misplaced surface and an unknown field are refused, and nothing is bound", async () => {
  const { bench, managed, attached, list } = await newScene()
  const { hostSurface: _, ...without } = attached
  const { mode: __, ...modeless } = managed
  const bad: readonly object[] = [
    { ...managed, mode: "auto" },
    { ...managed, mode: "ATTACHED_HOST" },
    modeless,
    without,
    { ...managed, hostSurface: "editor" },
    { ...managed, executorEndpointId: "" },
    { ...managed, hostSessionId: "private" }
  ]
  for (const input of bad) {
    const error: any = await bench.fails(Bindings.bind(input as typeof managed))
    assert.equal(error.code, "BINDING_REFUSED", JSON.stringify(input))
    assert.include(error.remedy, "managed_runtime or attached_host")
  }
  assert.deepEqual(await list(), [])
})

test("S3 the same tuple again gives the live binding and writes nothing; another tuple conflicts, whatever its mode", async () => {
  const { bench, goal, managed, attached, list } = await newScene()
  const first = await bench.run(Bindings.bind(managed))
  const { entries } = await bench.store.verify()
  const again = await bench.run(Bindings.bind(managed))
  assert.deepEqual([again.id, again.generation], [first.id, first.generation])
  assert.equal((await bench.store.verify()).entries, entries)
  for (const other of [attached, { ...managed, executorEndpointId: "runner-2" }]) {
    assert.deepInclude(await bench.fails(Bindings.bind(other)), {
      code: "BINDING_CONFLICT",
      binding: first.id,
      mode: "managed_runtime"
    })
  }
  assert.deepEqual(
    (await list()).map((b) => [b.id, b.mode, b.executorEndpointId, b.generation]),
    [[first.id, "managed_runtime", "runner-1", 1]]
  )
  const elsewhere = (await newGoal(bench)).id
  assert.notEqual((await bench.run(Bindings.bind({ ...managed, goal: elsewhere }))).id, first.id)
  assert.equal((await bench.run(Bindings.list({ goal }))).items.length, 1)
})

test("S3 unbinding names the generation: a stale or a closed one changes nothing, and the next binding has the next generation", async () => {
  const { bench, managed, attached, list } = await newScene()
  const first = await bench.run(Bindings.bind(managed))
  const unbind = (binding: string, generation: number) => Bindings.unbind({ binding, generation, reason: "done" })
  assert.deepInclude(await bench.fails(unbind(first.id, 2)), { code: "STALE_BINDING", actual: 1 })
  assert.deepInclude(await bench.fails(unbind("bnd_nowhere", 1)), { code: "STALE_BINDING", actual: null })
  assert.equal((await list())[0]!.status, "live")
  await bench.run(unbind(first.id, 1))
  assert.deepInclude(await bench.fails(unbind(first.id, 1)), { code: "STALE_BINDING" })
  const second = await bench.run(Bindings.bind(attached))
  assert.equal(second.generation, 2)
  assert.deepInclude(await bench.fails(unbind(second.id, 1)), { code: "STALE_BINDING", actual: 2 })
  assert.deepEqual(
    (await list()).map((b) => [b.id, b.mode, b.generation, b.status]),
    [
      [first.id, "managed_runtime", 1, "closed"],
      [second.id, "attached_host", 2, "live"]
    ]
  )
})

test("S3 two processes' worth of openings that bind at once: one binding is live, the others learn which", async () => {
  const { bench, managed, attached, list } = await newScene()
  const other = await newBench({ modules, directory: bench.directory })
  const outcomes = await Promise.all(
    [managed, attached, { ...managed, executorEndpointId: "runner-2" }].map((input, i) =>
      (i % 2 === 0 ? bench : other).run(Bindings.bind(input)).then(
        (bound) => bound.id,
        (error) => `${error.code} ${error.binding}`
      )
    )
  )
  const [live] = (await list()).filter((b) => b.status === "live")
  assert.equal((await list()).length, 1)
  assert.deepEqual(
    outcomes.toSorted(),
    [live!.id, `BINDING_CONFLICT ${live!.id}`, `BINDING_CONFLICT ${live!.id}`].toSorted()
  )
})
