/** The limit of cached layers: what goes, what stays, and who may be in between. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { expect, it } from "vitest"
import { LayerLeases } from "../../providers/layerfs/LayerLeases.ts"
import { type LayerStoreOptions, openLayerFs } from "../../providers/layerfs/index.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { oneFile } from "../oneFile.ts"
import { mayMount, smallDisk } from "./smallDisk.ts"
import { atEnd, committed, failure, forkOf, ground, run, scratch, shell, treeAt, using, write } from "./projFixture.ts"

/** Opens a store, uses it and closes it: then nothing is being taken away any more. */
const withStore = async <A>(
  options: LayerStoreOptions,
  use: (provider: WorkspaceProvider) => Promise<A>
): Promise<A> => {
  const scope = await run(Scope.make())
  try {
    return await use(await run(Scope.provide(openLayerFs(options), scope)))
  } finally {
    await run(Scope.close(scope, Exit.void))
  }
}

/** Layers that lie in a store's cache, and everything else in it but their marks and sizes. */
const cached = (store: string): string[] =>
  ["base", "delta", "lease"].flatMap((kind) => {
    const at = join(store, "layerfs/cache", kind)
    const names = fs.existsSync(at) ? fs.readdirSync(at) : []
    return names.filter((name) => !/\.(?:ok|size|at)$/.test(name)).map((name) => `${kind}/${name}`)
  })

const program = (name: string): Promise<string> => oneFile(join(import.meta.dirname, name))

const importOf = async (provider: WorkspaceProvider, bytes: number, fill: string): Promise<string> => {
  const source = scratch()
  write(source, { "deep/file": fill.repeat(bytes), a: fill, b: fill })
  return (await run(provider.importDirectory({ source }))).commit
}
const openOnce = async (provider: WorkspaceProvider, commit: string): Promise<string> =>
  using(provider, await forkOf(provider, commit), { projection: "overlay" }, (workspace) => shell(workspace, "cat a"))

it("W15 L11 the limit of the cache is a size, and stats tell it beside what lies there", async () => {
  const store = join(scratch(), "s")
  for (const cacheLimit of ["4GB", -1, 0.5, "", true, null])
    expect(await failure(Effect.scoped(openLayerFs({ store, cacheLimit: cacheLimit as string })))).toMatchObject({
      _tag: "StoreOptionInvalid",
      option: "cacheLimit"
    })
  expect(fs.existsSync(store)).toBe(false)
  await withStore({ store }, async (provider) => {
    expect((await run(provider.stats)).cache).toEqual({ bytes: 0, limitBytes: null })
    await openOnce(provider, await importOf(provider, 500_000, "x"))
    const { bytes } = (await run(provider.stats)).cache!
    expect(bytes).toBeGreaterThanOrEqual(500_000)
    expect(bytes).toBeLessThan(600_000)
  })
  await withStore({ store, cacheLimit: "1 GiB" }, async (provider) =>
    expect((await run(provider.stats)).cache).toMatchObject({ limitBytes: 2 ** 30 })
  )
})

it.skipIf(!mayMount)(
  "W15 L12 on a full disk no hold is had, and none that failed stands in anybody's way afterwards",
  async () => {
    const disk = smallDisk(4 << 20)
    atEnd(() => disk.remove())
    const leases = new LayerLeases(disk.path)
    ;(await leases.hold(["base/a"]))()
    disk.leave(0)
    await expect(leases.hold(["base/a"])).rejects.toMatchObject({ code: "ENOSPC" })
    await expect(
      leases.take(
        "base/a",
        async () => true,
        () => undefined
      )
    ).rejects.toMatchObject({ code: "ENOSPC" })
    expect(fs.readdirSync(join(disk.path, "lease"))).toEqual([])
  }
)

it("W15 L10 beyond the limit what was not used for the longest time goes, and is made again when it is asked for", async () => {
  const store = join(scratch(), "s")
  const [first, second, third] = await withStore({ store }, async (provider) => {
    const commits = [] as string[]
    for (const fill of ["1", "2", "3"]) commits.push(await importOf(provider, 1_000_000, fill))
    return commits as [string, string, string]
  })
  const layersOf = async (commits: readonly string[]): Promise<string[]> => {
    await withStore({ store, cacheLimit: 2_500_000 }, async (provider) => {
      for (const commit of commits) await openOnce(provider, commit)
    })
    return cached(store)
  }
  const [ofFirst] = await layersOf([first])
  const two = await layersOf([second, first])
  expect(two.length).toBe(2)
  const after = await layersOf([third])
  expect(after.length).toBe(2)
  expect(after).toContain(ofFirst)
  await withStore({ store, cacheLimit: 0 }, async (provider) => expect(await openOnce(provider, second)).toBe("2"))
  expect(cached(store)).toEqual([])
})

it("W12 W23 layers of open, kept and interrupted workspaces of any process stay beyond the limit; a delta goes before what it stands on", async () => {
  const { provider, commit, store } = await ground({ a: "base", "deep/file": "x" })
  const branch = await forkOf(provider, commit)
  const head = await using(provider, branch, { projection: "overlay" }, async (workspace) => {
    await shell(workspace, "echo first > a")
    return committed(workspace)
  })
  const evict = (): Promise<unknown> => withStore({ store, cacheLimit: 0 }, (other) => run(other.left))
  const both = cached(store)
  expect(both.map((name) => name.split("/")[0])).toEqual(["base", "delta"])
  await using(provider, branch, { projection: "overlay" }, async (workspace) => {
    await evict()
    expect(cached(store)).toEqual(both)
    expect(await shell(workspace, "cat a deep/file; echo kept > a")).toBe("first\nx")
  })
  // Closed with a change that no checkpoint holds.
  await evict()
  expect(cached(store)).toEqual(both)
  const [left] = await run(provider.left)
  const recovered = await run(provider.recover(left!.id))
  expect(await treeAt(provider, recovered.branch)).toEqual({ a: "kept\n", "deep/": "", "deep/file": "x" })
  // Killed in the middle, nobody has decided.
  const victim = spawn(process.execPath, [await program("projVictim.ts"), store, branch], { stdio: "pipe" })
  await once(victim.stdout, "data")
  victim.kill("SIGKILL")
  await once(victim, "close")
  await evict()
  expect(cached(store)).toEqual(expect.arrayContaining(both))
  for (const { id } of await run(provider.left)) await run(provider.discardLeft(id, "done"))
  await evict()
  expect(cached(store)).toEqual([])
  expect((await run(provider.branch(branch))).head).toBe(head)
  expect(await openOnce(provider, head)).toBe("first\n")
})

it.each(["workspace.freshMade", "cache.taking", "cache.taken"])(
  "W12 L10 a process that is killed at %s holds nothing for ever and leaves nothing half: the next one takes and makes what it likes",
  async (point) => {
    const { provider, commit, store } = await ground({ a: "whole", "deep/file": "x" })
    const branch = await forkOf(provider, commit)
    await openOnce(provider, commit)
    const { signal } = spawnSync(process.execPath, [await program("projVictim.ts"), store, branch, "evict"], {
      env: { ...process.env, COPPICE_CRASH_AT: point }
    })
    expect(signal).toBe("SIGKILL")
    expect(await openOnce(provider, commit)).toBe("whole")
    await withStore({ store, cacheLimit: 0 }, async (other) => expect(await openOnce(other, commit)).toBe("whole"))
    expect(cached(store)).toEqual([])
  }
)

it("W11 W12 W23 L10 processes open workspaces while another takes every layer away that nobody needs: each sees its whole tree", async () => {
  const { provider, store } = await ground({ a: "a" })
  const mine = await importOf(provider, 40_000, "m")
  const theirs = await importOf(provider, 40_000, "t")
  const racer = await program("cacheRacer.ts")
  const race = async (commit: string, rounds: number, what: string): Promise<unknown> => {
    const argv = [racer, store, await forkOf(provider, commit), String(rounds), what]
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] })
    let text = ""
    child.stdout.setEncoding("utf8").on("data", (part: string) => (text += part))
    await once(child, "close")
    return JSON.parse(text)
  }
  expect(
    await Promise.all([
      race(mine, 25, "look"),
      race(mine, 25, "look"),
      race(theirs, 25, "evict"),
      race(theirs, 25, "evict")
    ])
  ).toEqual([[], [], [], []])
}, 120_000)
