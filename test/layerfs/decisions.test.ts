/** Two that decide about one left workspace, in two processes: one does, the other hears of it. Rules: W12, W23, L12, L8, L10. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { oneFile } from "../oneFile.ts"
import { failure, forkOf, type Ground, ground, run, shell, treeAt, using } from "./projFixture.ts"
import { stoppedAt } from "./stoppedAt.ts"

const decider = await oneFile(join(import.meta.dirname, "decider.ts"))

/** A workspace that was closed with changes. */
const leave = async ({ provider, commit }: Ground) =>
  using(provider, await forkOf(provider, commit), {}, async (workspace) => {
    await shell(workspace, "echo second > a; rm b; echo new > c")
    return workspace.id
  })
const files = { a: "a", b: "b" }
const recovered = { a: "second\n", c: "new\n" }

const branchOf = (printed: string): string => (JSON.parse(printed) as { readonly branch: string }).branch
const leftOf = async (provider: WorkspaceProvider): Promise<readonly string[]> =>
  (await run(provider.left)).map(({ id }) => id)

it("W12 W23 L12 while another process recovers a workspace, both decisions are Busy with nothing done, and end with it: by the branch that it made", async () => {
  const here = await ground(files)
  const { provider, store } = here
  const id = await leave(here)
  const first = await stoppedAt(decider, [store, "layerfs", "recover", id], "recovery.claimed")
  const refused = [provider.recover(id), provider.discardLeft(id, "no")].map((call) => failure(call))
  for (const error of await Promise.all(refused)) expect(error).toMatchObject({ _tag: "Busy" })
  expect(await leftOf(provider)).toEqual([id])
  const waiting = failure(provider.recover(id))
  const branch = branchOf(await first.go())
  expect(await treeAt(provider, branch)).toEqual(recovered)
  for (const error of [await waiting, await failure(provider.recover(id))])
    expect(error).toMatchObject({ _tag: "RefNotFound", message: expect.stringContaining(branch) })
  expect(await leftOf(provider)).toEqual([])
  expect(fs.readdirSync(join(store, "layerfs/work"))).toEqual([])
}, 30_000)

it("W12 W23 of decisions that one process makes at once the first one counts, and one that fails leaves the next to decide", async () => {
  const here = await ground(files)
  const { provider, store } = here
  const id = await leave(here)
  const cache = join(store, "layerfs/cache")
  fs.writeFileSync(join(store, "layerfs/work", id, "stage/in-the-way"), "")
  fs.renameSync(join(store, "layerfs/work", id, "upper"), join(cache, "away"))
  expect(await failure(provider.recover(id))).toMatchObject({ _tag: "WorkspaceUnreadable" })
  fs.renameSync(join(cache, "away"), join(store, "layerfs/work", id, "upper"))
  const [first, ...others] = await Promise.allSettled([
    run(provider.recover(id)),
    run(provider.recover(id)),
    run(provider.discardLeft(id, "late"))
  ])
  const { branch } = (first as PromiseFulfilledResult<{ readonly branch: string }>).value
  expect(await treeAt(provider, branch)).toEqual(recovered)
  for (const other of others) expect(other).toMatchObject({ status: "rejected", reason: { _tag: "RefNotFound" } })
})

it.each(["recovery.claimed", "recovery.mounted", "recovery.forked", "recovery.committed"] as const)(
  "W12 W23 L8 a recovery that is killed at %s leaves the workspace to be decided about, and its repetition finds what it made",
  async (point) => {
    const here = await ground(files)
    const { provider, store } = here
    const id = await leave(here)
    const { signal } = spawnSync(process.execPath, [decider, store, "layerfs", "recover", id], {
      env: { ...process.env, COPPICE_CRASH_AT: point }
    })
    expect(signal).toBe("SIGKILL")
    expect(await leftOf(provider)).toEqual([id])
    const { branch } = await run(provider.recover(id, { operationId: "op-first" }))
    expect(await treeAt(provider, branch)).toEqual(recovered)
    expect(await leftOf(provider)).toEqual([])
    expect(fs.readdirSync(join(store, "layerfs/work"))).toEqual([])
  }
)

it("W12 L10 a layer on which another process recovers is not taken away when it is found changed", async () => {
  const here = await ground(files)
  const { provider, store } = here
  const id = await leave(here)
  const first = await stoppedAt(decider, [store, "layerfs", "recover", id], "workspace.harvested")
  const base = join(store, "layerfs/cache/base")
  const [layer] = fs.readdirSync(base).filter((name) => !name.includes("."))
  fs.writeFileSync(join(base, layer!, "b"), "somebody else's")
  expect(await run(provider.verify())).toMatchObject({ changedLayers: [{ layer: `base/${layer}`, removed: false }] })
  expect(await treeAt(provider, branchOf(await first.go()))).toEqual(recovered)
  expect(fs.readdirSync(join(store, "layerfs/cache/lease"))).toEqual([])
  expect(await run(provider.verify())).toMatchObject({ changedLayers: [{ layer: `base/${layer}`, removed: true }] })
})

it.each(["recovery.claimed", "workspace.harvested", "recovery.committed"] as const)(
  "W12 W23 openings, sweeps and closings beside a recovery (after %s) disturb neither",
  async (point) => {
    const here = await ground(files)
    const { provider, store, commit } = here
    const id = await leave(here)
    const first = await stoppedAt(decider, [store, "layerfs", "recover", id], point)
    for (const projection of ["overlay", "copy"] as const)
      await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
        expect(await leftOf(provider)).toEqual(point === "recovery.committed" ? [] : [id])
        expect(await shell(workspace, "cat a b")).toBe("ab")
      })
    expect(await treeAt(provider, branchOf(await first.go()))).toEqual(recovered)
    expect(await leftOf(provider)).toEqual([])
    expect(fs.readdirSync(join(store, "layerfs/work"))).toEqual([])
  }
)
