/** The reflink provider behind the contract, as the preset and the package offer it. Rules: RL1, RL2. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { afterEach, expect, it, type TestContext } from "vitest"
import { openReflink, reflink, type SnapshotProviderOptions } from "../../providers/reflink/index.ts"
import { standard, type StandardOptions } from "../../src/standard.ts"
import { type WorkspaceProvider, Workspaces } from "../../src/workspace/WorkspaceProvider.ts"
import { type ImageKind, endAll, lackOf, loopImage } from "./loopImage.ts"
import { lookOf, oddTree, specials } from "./trees.ts"

const cleanups: (() => unknown)[] = []
afterEach(() => endAll(cleanups))

const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)
const refusal = <A, E>(effect: Effect.Effect<A, E>) => run(Effect.flip(effect))

const diskOf = ({ skip }: TestContext, kind: ImageKind): string => {
  const lack = lackOf(kind)
  skip(lack !== null, lack ?? "")
  const { path, remove } = loopImage(kind)
  cleanups.push(remove)
  return path
}

const open = async (options: SnapshotProviderOptions): Promise<WorkspaceProvider> => {
  const scope = Scope.makeUnsafe()
  cleanups.push(() => run(Scope.close(scope, Exit.void)))
  return run(Effect.provideService(openReflink(options), Scope.Scope, scope))
}

const sourceOn = (disk: string): string => {
  const source = join(disk, "source")
  fs.mkdirSync(source)
  oddTree(source, "seed")
  return source
}

const used = (provider: WorkspaceProvider, branch: string) =>
  run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch)
        const { exitCode } = yield* workspace.exec("echo more >> small; mkdir new; echo n > new/n; rm none")
        return { exitCode, projection: workspace.projection, outcome: yield* workspace.checkpoint() }
      })
    )
  )

for (const [kind, stored] of [
  ["btrfs", "subvolume"],
  ["xfs", "directory"]
] as const) {
  it(`RL1 RL2 W3 W13 a source is imported, forked, worked in, checkpointed and exported, and nothing of it is copied (${kind}, ${stored})`, async (context) => {
    // A name outside of ASCII on the way: the tools get text, the kernel gets bytes.
    const disk = join(diskOf(context, kind), "größe")
    fs.mkdirSync(disk)
    const source = sourceOn(disk)
    const before = lookOf(source)
    const store = join(disk, "store")
    const provider = await open({ store, storeQuota: "64 MiB" })
    expect(await run(provider.probe)).toMatchObject({ projections: [{ projection: "reflink", available: true }] })
    const receipt = await run(provider.importDirectory({ source }))
    expect(receipt.noteCounts).toMatchObject({ skippedSpecialFile: 2 })
    expect(receipt.noteCounts.normalised).toBeUndefined()
    const fork = await run(provider.fork(receipt.layer))
    const { exitCode, projection, outcome } = await used(provider, fork.id)
    expect([exitCode, projection, outcome.outcome]).toEqual([0, "reflink", "committed"])
    expect(Buffer.from(await run(provider.readAt(fork.id, "small"))).toString()).toBe("seedmore\n")
    const target = join(disk, "exported")
    await run(provider.exportDirectory(receipt.commit, target))
    expect(lookOf(target)).toEqual(before.filter((line) => !specials.some((path) => line.startsWith(`"${path}"`))))
    expect(lookOf(source)).toEqual(before)
    expect(await run(provider.verify())).toMatchObject({ ok: true })
    const { storedBytes } = await run(provider.stats)
    expect(storedBytes).toBeGreaterThan(200_000)
    expect(storedBytes).toBeLessThan(500_000)
    expect(fs.readdirSync(join(store, "reflink/work"))).toEqual([])
    expect(fs.readdirSync(join(store, "reflink/states")).filter((name) => name.startsWith("."))).toEqual([])
  })
}

it("RL1 W13 what was copied of a source on another file system is told in the receipt", async (context) => {
  const disk = diskOf(context, "xfs")
  const source = fs.mkdtempSync("/var/tmp/coppice-source-")
  cleanups.push(() => fs.rmSync(source, { recursive: true }))
  fs.writeFileSync(join(source, "f"), "f".repeat(10_000))
  const provider = await open({ store: join(disk, "store") })
  const { notes } = await run(provider.importDirectory({ source }))
  expect(notes).toEqual([
    expect.objectContaining({ kind: "normalised", detail: expect.stringContaining("10000 bytes were copied (copy)") })
  ])
})

it("RL1 W2 on a file system without clones the store opens, the probe names what is missing, and an import is Unavailable", async (context) => {
  const disk = diskOf(context, "ext4")
  const provider = await open({ store: join(disk, "store") })
  expect(await run(provider.probe)).toMatchObject({ ready: false, projections: [{ available: false }] })
  const error = await refusal(provider.createEmpty())
  expect(error).toMatchObject({ _tag: "Unavailable", missing: [expect.stringContaining("file clones")] })
  expect(fs.readdirSync(join(disk, "store/reflink/states"))).toEqual([])
})

it("RL2 L10 a state that somebody wrote to is not made into a workspace; one that was only copied is", async (context) => {
  const disk = diskOf(context, "btrfs")
  const source = sourceOn(disk)
  const provider = await open({ store: join(disk, "store") })
  const receipt = await run(provider.importDirectory({ source }))
  const fork = await run(provider.fork(receipt.layer))
  const tree = join(disk, `store/reflink/states/${receipt.project}.${receipt.commit}/tree`)
  // Times that only the kernel sets are new, and everything is as it was.
  fs.chmodSync(join(tree, "small"), 0o600)
  fs.chmodSync(join(tree, "small"), 0o644)
  expect((await used(provider, fork.id)).exitCode).toBe(0)
  for (const [harm, heal] of [
    [() => fs.writeFileSync(join(tree, "big"), "S"), () => fs.writeFileSync(join(tree, "big"), "seed".repeat(50_000))],
    [() => fs.writeFileSync(join(tree, "more"), ""), () => fs.rmSync(join(tree, "more"))],
    [() => fs.chmodSync(join(tree, "d"), 0o700), () => fs.chmodSync(join(tree, "d"), 0o755)]
  ] as const) {
    harm()
    const other = await run(provider.fork(receipt.layer))
    await expect(refusal(Effect.scoped(provider.open(other.id)))).resolves.toMatchObject({ _tag: "ObjectDamaged" })
    heal()
  }
})

it("RL1 P4 the preset and the layer offer it by name, and refuse what it cannot keep", async (context) => {
  const disk = diskOf(context, "xfs")
  const provided = await run(
    Effect.provide(
      Effect.flatMap(Workspaces, (workspaces) => workspaces.manifest),
      reflink({ store: join(disk, "layer") })
    )
  )
  expect(provided).toMatchObject({ provider: "reflink", copyFreeFork: true, hardLinks: "preserved", quota: true })
  const asked = (options: StandardOptions) =>
    Effect.provide(
      Effect.flatMap(Workspaces, (workspaces) => workspaces.manifest),
      standard({ store: join(disk, "preset"), workspaces: "reflink", ...options })
    )
  expect(await run(asked({}))).toEqual(provided)
  for (const option of ["cacheLimit", "projectQuota"] as const) {
    const error = await refusal(asked({ [option]: "1 GiB" }))
    expect(error).toMatchObject({ _tag: "PresetOptionsError", option })
  }
})
