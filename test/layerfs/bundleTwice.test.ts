/** One bundle that comes twice, at once, into its own store, or with a death in between: what is there is there once. Rules: L8, L11, L13. */
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { ground } from "./bundleFixture.ts"
import { latin, put } from "./storeChange.ts"
import { commitInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"

vi.setConfig({ testTimeout: 240_000 })

/** Everything that stats count, but the length of the index, in which SQLite keeps free pages. */
const weighed = async (store: LayerStore) => {
  const { indexBytes: _, ...rest } = await store.call("stats", {})
  return rest
}

/** A bundle of a store with files that compress badly, so that it has several groups; and what one import of it weighs. */
const several = async () => {
  const random = seededRandom(seedOf())
  const { store, branch, file, target } = await ground(random)
  const noise = (): Buffer => Buffer.from(Array.from({ length: 300_000 }, () => random(256)))
  for (let n = 0; n < 3; n += 1)
    await commitInto(
      store,
      branch,
      Array.from({ length: 10 }, (_, i) => put(`big-${n}-${i}`, noise()))
    )
  const exported = await store.call("exportBundle", { ref: branch, target, history: true })
  const once = await open(join(scratch(), "s"))
  await once.call("importBundle", { source: target })
  return { store, branch, file, target, exported, alone: await weighed(once) }
}

it("L13 L11 a bundle that is imported into its own store changes nothing that is counted", async () => {
  const { store, target, exported } = await several()
  const before = await weighed(store)
  for (let n = 0; n < 3; n += 1) {
    const receipt = await store.call("importBundle", { source: target })
    expect(receipt).toMatchObject({ commits: 0, objects: 0, commit: exported.commit })
    expect(await weighed(store)).toEqual(before)
  }
  const other = latin(join(scratch(), "again"))
  expect(await store.call("exportBundle", { ref: exported.commit, target: other, history: true })).toEqual(exported)
})

it("L13 L11 imported twice at once, by one process or by two, a bundle is stored once", async () => {
  const { target, file, alone, exported } = await several()
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const both = await Promise.all([0, 1].map(() => store.call("importBundle", { source: target })))
  expect(both.map(({ commits }) => commits).toSorted()).toEqual([0, exported.commits])
  expect(both.map(({ objects }) => objects).toSorted()).toEqual([0, exported.objects])
  expect(await weighed(store)).toEqual(alone)
  await store.close()
  const two = join(scratch(), "s")
  // The store is there already: what is at once is the import.
  await (await open(two)).close()
  const ended = await Promise.all([0, 1].map(() => child([two, "unbundle", file], {})))
  expect(ended.map(({ said }) => said.filter(({ error }) => error !== undefined))).toEqual([[], []])
  for (const at of [directory, two]) {
    const opened = await open(at)
    expect(await unsound(opened)).toEqual([])
    expect(await weighed(opened)).toEqual(alone)
  }
})

it("L13 L11 bundles that overlap, imported at once, are stored with nothing twice", async () => {
  const { store, branch, target, alone } = await several()
  const { commit } = await commitInto(store, branch, [put("later", "later")])
  const second = latin(join(scratch(), "second"))
  await store.call("exportBundle", { ref: commit, target: second, history: true })
  const other = await open(join(scratch(), "s"))
  await Promise.all([target, second].map((source) => other.call("importBundle", { source })))
  expect(await other.call("verify", {})).toMatchObject({ ok: true, unreferencedBytes: 0 })
  const { commits, storedBytes } = await weighed(other)
  expect(commits).toBe((await weighed(store)).commits)
  // Beside the one small commit that only one of them has.
  expect(storedBytes).toBeLessThan(alone.storedBytes! * 1.1)
})

/** Those that an import passes; `layerfs.bundle.written` is one of an export. */
const points = Object.keys(crashPoints).filter(
  (name) => /^layerfs\.(bundle|pack)\./.test(name) && name !== "layerfs.bundle.written"
)

it.each(points)(
  "L8 L13 killed at %s, an import has happened or not, leaves nothing behind, and is done when it is asked for again",
  async (point) => {
    const { store, branch, file, target } = await ground(seededRandom(seedOf()))
    await store.call("exportBundle", { ref: branch, target, history: true })
    const clean = await open(join(scratch(), "s"))
    await clean.call("importBundle", { source: target })
    const directory = join(scratch(), "s")
    expect((await child([directory, "unbundle", file], { COPPICE_CRASH_AT: point })).signal).toBe("SIGKILL")
    const opened = await open(directory)
    const isThere = point === "layerfs.bundle.imported"
    expect(await unsound(opened)).toEqual([])
    expect(await opened.call("stats", {})).toMatchObject({ commits: isThere ? 6 : 0 })
    if (!isThere) expect(await opened.call("stats", {})).toMatchObject({ objects: 0, storedBytes: 0, projects: [] })
    expect(await opened.call("importBundle", { source: target })).toMatchObject({ commits: isThere ? 0 : 6 })
    expect(await weighed(opened)).toEqual(await weighed(clean))
    await opened.close()
    const again = await open(directory)
    expect(await unsound(again)).toEqual([])
    const { packs, root } = again.directories
    const bytes = readdirSync(packs).reduce((sum, name) => sum + statSync(join(packs, name)).size, 0)
    expect([bytes, readdirSync(root).toSorted()]).toEqual([
      (await weighed(again)).storedBytes,
      readdirSync(clean.directories.root).toSorted()
    ])
  }
)
