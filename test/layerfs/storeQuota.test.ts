/** The caps of a store: refused as a whole, whoever writes, and never passed. */
import { randomBytes } from "node:crypto"
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { expect, it } from "vitest"
import { type LayerStoreOptions, openLayerFs } from "../../providers/layerfs/index.ts"
import { parseByteSize } from "../../src/base/ByteSize.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { failure, run } from "./storeProvider.ts"

const open = async (options: LayerStoreOptions): Promise<WorkspaceProvider> => {
  const scope = await run(Scope.make())
  atEnd(() => run(Scope.close(scope, Exit.void)))
  return run(Scope.provide(openLayerFs(options), scope))
}

const packBytes = (store: string): number => {
  const packs = join(store, "layerfs/packs")
  return readdirSync(packs).reduce((sum, name) => sum + statSync(join(packs, name)).size, 0)
}

const source = (files: Readonly<Record<string, number>>): string => {
  const at = join(scratch(), "source")
  mkdirSync(at)
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(at, name), randomBytes(bytes))
  return at
}

const put = (path: string, bytes: number) => [{ op: "write", path, bytes: randomBytes(bytes) }] as const

it("W15 an import, a direct call or a checkpoint that would pass the store's cap is refused whole; what is there stays, and a smaller one fits", async () => {
  const store = join(scratch(), "s")
  const provider = await open({ store, storeQuota: "1 MiB" })
  expect((await run(provider.manifest)).quota).toBe(true)
  const large = await failure(provider.importDirectory({ source: source({ a: 900_000, b: 900_000 }) }))
  expect(large).toMatchObject({
    _tag: "StoreQuotaExceeded",
    scope: "store",
    limitBytes: 1_048_576,
    usedBytes: 0,
    neededBytes: expect.any(Number)
  })
  expect(await run(provider.stats)).toMatchObject({ commits: 0, objects: 0, storedBytes: 0, projects: [] })
  const { commit, project } = await run(provider.importDirectory({ source: source({ a: 600_000 }) }))
  const branch = await run(provider.fork(commit))
  const before = await run(provider.stats)
  expect(before.projects).toMatchObject([{ id: project, storedBytes: before.storedBytes! }])
  expect(await failure(provider.applyTo(branch.id, put("b", 500_000)))).toMatchObject({
    _tag: "StoreQuotaExceeded",
    usedBytes: before.storedBytes
  })
  await run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch.id, { projection: "copy" })
        yield* workspace.write("c", randomBytes(500_000))
        const refused = yield* Effect.flip(workspace.checkpoint({ operationId: "op_over" }))
        expect(refused).toMatchObject({ _tag: "StoreQuotaExceeded", scope: "store", name: "store" })
        expect(yield* provider.findOperation("op_over")).toEqual({ state: "absent" })
        // The workspace goes on: less of it fits, under the same operation.
        yield* workspace.splice("c", 100_000, 400_000, new Uint8Array())
        expect(yield* workspace.checkpoint({ operationId: "op_over" })).toMatchObject({ outcome: "committed" })
      })
    )
  )
  const after = await run(provider.stats)
  expect(after.storedBytes).toBeGreaterThan(before.storedBytes! + 100_000)
  expect(after.storedBytes).toBeLessThanOrEqual(1_048_576)
  // No refusal left its bytes on the disk, and rewriting known content needs none.
  expect(packBytes(store)).toBeLessThanOrEqual(1_048_576)
  const known = await run(provider.readAt(branch.id, "a"))
  await run(provider.applyTo(branch.id, [{ op: "write", path: "again", bytes: known }]))
  expect(await run(provider.verify())).toMatchObject({ ok: true })
})

it("W15 a project has a cap of its own: one that is full refuses, its neighbour goes on, and a reopened store remembers", async () => {
  const store = join(scratch(), "s")
  const first = await open({ store, projectQuota: 400_000 })
  const a = await run(first.importDirectory({ source: source({ f: 300_000 }) }))
  const b = await run(first.importDirectory({ source: source({ f: 100_000 }) }))
  expect(await failure(first.importDirectory({ source: source({ f: 500_000 }) }))).toMatchObject({
    _tag: "StoreQuotaExceeded",
    scope: "project"
  })
  const again = await open({ store, projectQuota: 400_000 })
  const [branchA, branchB] = [await run(again.fork(a.commit)), await run(again.fork(b.commit))]
  const full = await failure(again.applyTo(branchA.id, put("g", 150_000)))
  expect(full).toMatchObject({ _tag: "StoreQuotaExceeded", scope: "project", name: a.project, limitBytes: 400_000 })
  await run(again.applyTo(branchB.id, put("g", 150_000)))
  const { quota, projects } = await run(again.stats)
  expect(quota).toEqual({ storeBytes: null, projectBytes: 400_000 })
  for (const project of projects) expect(project.storedBytes).toBeLessThanOrEqual(400_000)
})

it("W15 two openings of one store that fill it at once do not pass the cap together", async () => {
  const store = join(scratch(), "s")
  const limit = 1_000_000
  const both = [await open({ store, storeQuota: limit }), await open({ store, storeQuota: limit })]
  const { commit } = await run(both[0]!.createEmpty())
  const outcomes = await Promise.all(
    both.map(async (provider) => {
      const branch = await run(provider.fork(commit))
      const seen: string[] = []
      for (let i = 0; i < 12; i += 1) {
        const written = await run(Effect.result(provider.applyTo(branch.id, put(`f${i}`, 70_000))))
        seen.push(written._tag === "Success" ? written.success.outcome : written.failure._tag)
      }
      return seen
    })
  )
  const all = outcomes.flat()
  expect(all.filter((outcome) => outcome === "committed")).toHaveLength(14)
  expect(new Set(all)).toEqual(new Set(["committed", "StoreQuotaExceeded"]))
  expect((await run(both[0]!.stats)).storedBytes).toBeLessThanOrEqual(limit)
  expect(await run(both[0]!.verify())).toMatchObject({ ok: true })
})

it("W15 C56 what is no size is refused before anything is opened, and never counts as no cap", async () => {
  const store = join(scratch(), "s")
  for (const storeQuota of ["64MB", "-1", -1, 1.5, Number.NaN, "", "many", true, null]) {
    const refused = await failure(Effect.scoped(openLayerFs({ store, storeQuota: storeQuota as string })))
    expect(refused, String(storeQuota)).toMatchObject({ _tag: "StoreOptionInvalid", option: "storeQuota" })
  }
  expect(() => statSync(store)).toThrow("ENOENT")
  expect([0, 7, "64 MiB", "1.5KiB", "3 B"].map(parseByteSize)).toEqual([0, 7, 67_108_864, 1536, 3])
  // A cap of 0 is a cap.
  const provider = await open({ store, storeQuota: 0 })
  expect(await failure(provider.createEmpty())).toMatchObject({ _tag: "StoreQuotaExceeded", limitBytes: 0 })
})
