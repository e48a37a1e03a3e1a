/** Packs that are given back while others want the index or the pack. Rules: L8, L9, L12. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it, vi } from "vitest"
import { openIndex } from "../../providers/layerfs/IndexSchema.ts"
import { OwnPacks } from "../../providers/layerfs/OwnPacks.ts"
import { unsound } from "./soundness.ts"
import { put } from "./storeChange.ts"
import { atEnd, commitInto, importInto, open, scratch } from "./storeFixture.ts"

vi.setConfig({ testTimeout: 60_000 })

const unbounded = { maxMs: null, maxBytes: null }

/** A store whose commits have a pack. */
const ground = async () => {
  const directory = join(scratch(), "s")
  const source = scratch()
  writeFileSync(join(source, "seed"), "seed")
  const store = await open(directory)
  const { layer } = await importInto(store, source)
  const branch = (await store.call("fork", { from: layer, name: "b" })).id
  await commitInto(store, branch, [put("a", "before")])
  return { directory, source, store, branch }
}

it("L8 L12 after a compaction that ended as Busy the same opening goes on to commit and import, and writes into no file of another", async () => {
  const { directory, source, store, branch } = await ground()
  const rival = new DatabaseSync(store.directories.index)
  rival.exec("BEGIN IMMEDIATE")
  await expect(store.call("compact", unbounded)).rejects.toMatchObject({ _tag: "Busy" })
  rival.exec("ROLLBACK")
  rival.close()
  for (let n = 0; n < 3; n += 1) {
    writeFileSync(join(source, "seed"), `other ${n}`)
    await importInto(store, source)
    expect(await commitInto(store, branch, [put("a", `after ${n}`)])).toMatchObject({ outcome: "committed" })
  }
  expect(await store.call("compact", unbounded)).toMatchObject({ complete: true, packsAfter: 1 })
  await store.close()
  expect(await unsound(await open(directory))).toEqual([])
})

it("L9 a compaction takes what was committed before it, also where commits wait right behind it", async () => {
  const { directory, store, branch } = await ground()
  const { objects } = await store.call("stats", {})
  const asked = store.call("compact", unbounded)
  const behind = commitInto(store, branch, [put("b", "behind it")])
  expect(await behind).toMatchObject({ outcome: "committed" })
  expect((await asked).objects).toBeGreaterThanOrEqual(objects)
  await store.close()
  expect(await unsound(await open(directory))).toEqual([])
})

it("L8 L12 a call that was done stays done where its pack cannot be given back, and the pack is free after all", async () => {
  const directory = scratch()
  mkdirSync(join(directory, "packs"))
  const db = await openIndex(join(directory, "index.db"), "full", () => "sto_test")
  atEnd(() => db.close())
  const own = new OwnPacks(db, join(directory, "packs"))
  const rival = new DatabaseSync(join(directory, "index.db"))
  atEnd(() => rival.close())
  const done = await own.lend(async () => {
    rival.exec("BEGIN IMMEDIATE")
    return "done"
  })
  expect(done).toBe("done")
  rival.exec("ROLLBACK")
  const other = await own.acquire()
  expect(other.id).toBe(2)
  own.putDown(other)
  await own.giveBack()
  expect(db.all("SELECT id FROM packs WHERE writer IS NOT NULL")).toEqual([])
})

it("L8 a pack that cannot be opened is free again: the next try takes the same one", async () => {
  const directory = scratch()
  const db = await openIndex(join(directory, "index.db"), "full", () => "sto_test")
  atEnd(() => db.close())
  const own = new OwnPacks(db, join(directory, "packs"))
  for (let tries = 0; tries < 3; tries += 1) await expect(own.acquire()).rejects.toMatchObject({ code: "ENOENT" })
  mkdirSync(join(directory, "packs"))
  const pack = await own.acquire()
  expect(pack.id).toBe(1)
  own.putDown(pack)
  await own.giveBack()
  expect(db.all("SELECT id, writer FROM packs")).toEqual([{ id: 1, writer: null }])
})
