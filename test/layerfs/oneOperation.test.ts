/** One operation id asked for several times at once, while the index is held: it is done once, and every asker hears of it. Rules: L7, W10, G75. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { put } from "./storeChange.ts"
import { atEnd, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"

/** Two openings of one store, in which a rival holds the index until both have asked. */
const held = async () => {
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const other = await openLayerStore({ store: directory })
  atEnd(() => other.close())
  const { layer, commit } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
  const whileHeld = async <A>(ask: () => readonly Promise<A>[]): Promise<PromiseSettledResult<A>[]> => {
    const rival = new DatabaseSync(store.directories.index)
    rival.exec("BEGIN IMMEDIATE")
    const asked = ask()
    // A read is answered behind them: both have looked and wait for the index.
    await Promise.all([store, other].map((one) => one.call("resolve", { ref: layer })))
    rival.exec("ROLLBACK")
    rival.close()
    return Promise.allSettled(asked)
  }
  return { store, other, layer, commit, whileHeld }
}

const tagsOf = (settled: readonly PromiseSettledResult<unknown>[]) =>
  settled.map((one) => (one.status === "fulfilled" ? "done" : (one.reason as { _tag?: string })._tag))

it("W10 G75 a fork that is asked for several times at once is one branch, and every asker has it; for another base it is refused", async () => {
  const { store, other, layer, commit, whileHeld } = await held()
  const input = { from: layer, name: "attempt", operationId: "op_fork" }
  const settled = await whileHeld(() => [store, other, store, other].map((one) => one.call("fork", input)))
  expect(tagsOf(settled)).toEqual(["done", "done", "done", "done"])
  expect(new Set(settled.map((one) => one.status === "fulfilled" && one.value.id)).size).toBe(1)
  const mixed = await whileHeld(() =>
    [layer, commit].map((from) => store.call("fork", { from, name: "attempt", operationId: "op_mixed" }))
  )
  expect(tagsOf(mixed).toSorted()).toEqual(["OperationUsed", "done"])
  expect((await store.call("branches", { ref: layer })).branches.length).toBe(2)
})

it("W10 G75 L7 a commit, an import and a move that are asked for several times at once are done once", async () => {
  const { store, other, layer, commit, whileHeld } = await held()
  const { id } = await store.call("fork", { from: layer, name: "attempt" })
  const intent = { message: "m", actor: {}, at: 1 }
  const both = [store, other, store, other]
  const commits = await whileHeld(() =>
    both.map((one) =>
      one.call("commitChanges", {
        branch: id,
        expectedHead: commit,
        changes: [put("a", "b")],
        operationId: "op_c",
        ...intent
      })
    )
  )
  expect(tagsOf(commits)).toEqual(["done", "done", "done", "done"])
  const heads = new Set(commits.map((one) => one.status === "fulfilled" && one.value.commit))
  expect([...heads]).toEqual([(await store.call("branch", { id })).head])
  const made = await whileHeld(() =>
    both.map((one) => one.call("createEmpty", { name: "n", operationId: "op_n", at: 1 }))
  )
  expect(tagsOf(made)).toEqual(["done", "done", "done", "done"])
  expect(new Set(made.map((one) => one.status === "fulfilled" && one.value.project)).size).toBe(1)
  const [head] = heads
  const moves = await whileHeld(() =>
    both.map((one) =>
      one.call("moveHead", {
        branch: id,
        expectedHead: head as string,
        to: commit,
        reason: "",
        actor: {},
        operationId: "op_m",
        at: 1
      })
    )
  )
  expect(tagsOf(moves)).toEqual(["done", "done", "done", "done"])
  await other.close()
  await store.close()
  expect(await unsound(await open(join(store.directories.root, "..")))).toEqual([])
})
