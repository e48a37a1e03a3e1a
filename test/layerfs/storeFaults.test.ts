/** A write, flush or rename of the store that fails; readers and writers that meet. Rules: L8, L12, W10; SQLite's fault injection. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it, vi } from "vitest"
import { openStoreDirectories } from "../../providers/layerfs/LayerDirectories.ts"
import { open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child, killGround } from "./storeKills.ts"
import { logOf } from "./storeChange.ts"

// Each test starts several whole processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 600_000 })

const ground = () => killGround(join(scratch(), "s"), scratch(), 1)

it.each([
  ["layerfs.pack.create:1", "FILE_SYSTEM_FAILURE"],
  ["layerfs.pack.append:3", "FILE_SYSTEM_FAILURE"],
  ["layerfs.pack.append:3:EIO", "FILE_SYSTEM_FAILURE"],
  ["layerfs.pack.sync:3", "FILE_SYSTEM_FAILURE"],
  ["layerfs.pack.sync:3:EIO", "FILE_SYSTEM_FAILURE"],
  ["refs.index.commit:3", "STORAGE_FAILURE"],
  ["refs.index.commit:3:EIO", "STORAGE_FAILURE"],
  ["refs.index.commit:3,layerfs.pack.truncate:1", "STORAGE_FAILURE"]
])(
  "L8 W10 a commit that meets %s ends in %s with a remedy, leaves nothing, and the ones after it succeed",
  async (fault, code) => {
    const { directory, branches } = await ground()
    const branch = branches[0]!.id
    const { said, signal } = await child([directory, "commit", branch, "5", "x"], { COPPICE_FAULT_AT: fault })
    expect(signal).toBe(null)
    expect(said.at(-1)).toEqual({ closed: true })
    const failed = said.filter((line) => line.error !== undefined)
    expect(failed).toEqual([{ error: code, remedy: expect.stringMatching(/^(Free|Check|The disk is full|Look)/) }])
    const commits = said.flatMap((line) => line.commit ?? [])
    expect(commits.length).toBe(4)
    const store = await open(directory)
    expect(await unsound(store)).toEqual([])
    const log = (await logOf(store, branch)).map((commit) => commit.id)
    expect(log.slice(0, 4)).toEqual(commits.toReversed())
    expect(log.length).toBe(5)
    await store.close()
    // The failed operation, asked for again under its id, is done once.
    const again = await child([directory, "commit", branch, "5", "x"], {})
    expect(again.said.filter((line) => line.commit !== undefined).length).toBe(5)
    const reopened = await open(directory)
    expect((await logOf(reopened, branch)).length).toBe(6)
  }
)

it.each(["layerfs.pack.create:1", "layerfs.pack.syncDirectory:1", "layerfs.pack.sync:1", "refs.index.commit:1"])(
  "L8 W10 a first import that meets %s leaves an empty store, and a rerun ends in one import",
  async (fault) => {
    const source = scratch()
    for (let i = 0; i < 30; i += 1) writeFileSync(join(source, `${i}`), `${i} `.repeat(5000))
    const directory = join(scratch(), "s")
    const { said } = await child([directory, "import", source], { COPPICE_FAULT_AT: fault })
    expect(said.map((line) => [line.commit, line.error !== undefined])).toEqual([
      [undefined, false],
      [undefined, true],
      [undefined, false]
    ])
    const again = await child([directory, "import", source], {})
    const store = await open(directory)
    expect(await unsound(store)).toEqual([])
    expect(await store.call("findOperation", { operationId: "op_import" })).toEqual({ commit: again.said[1]!.commit })
    expect(await store.call("stats", {})).toMatchObject({ commits: 1 })
  }
)

it("L12 while another process holds the store for a long write, a store is opened and read at a ref at once; a commit waits for a bound and ends as Busy with nothing done", async () => {
  const { directory, branches } = await ground()
  const branch = branches[0]!.id
  const holder = new DatabaseSync(join(directory, "layerfs", "index.db"))
  holder.exec("BEGIN IMMEDIATE; INSERT INTO pins (key, commit_id) VALUES ('held', 'none')")
  const read = await child([directory, "read", branch, "3"], {})
  expect(read.said.map((line) => line.read ?? line.error)).toEqual([undefined, "seed", "seed", "seed", undefined])
  const commit = await child([directory, "commit", branch, "1", "x"], {})
  expect(commit.said.map((line) => line.error)).toEqual([undefined, "BUSY", undefined])
  holder.exec("ROLLBACK")
  holder.close()
  const store = await open(directory)
  expect(await store.call("findOperation", { operationId: "op_x_0" })).toBe(null)
  expect((await logOf(store, branch)).length).toBe(1)
  expect(await unsound(store)).toEqual([])
})

it("L12 a new store that another process is just making is waited for, and opens when that one is done", async () => {
  const directory = join(scratch(), "s")
  const { index } = openStoreDirectories(directory)
  const rival = new DatabaseSync(index)
  rival.exec("BEGIN EXCLUSIVE")
  const opening = open(directory)
  // Long enough for the opening to have met the lock; where it has not, the test passes without having shown anything.
  const released = new Promise((resolve) => setTimeout(resolve, 400)).then(() => rival.close())
  expect(await (await opening).call("stats", {})).toMatchObject({ commits: 0 })
  await released
})

it("L12 reads at a ref go on while this process imports and another one commits", async () => {
  const { directory, branches } = await ground()
  const branch = branches[0]!.id
  const source = scratch()
  for (let i = 0; i < 300; i += 1) writeFileSync(join(source, `${i}`), `${i} `.repeat(20_000))
  const store = await open(directory)
  const head = (await store.call("branch", { id: branch })).head
  const run = { ended: false }
  const done = store
    .call("importDirectory", {
      source: Buffer.from(source).toString("latin1"),
      name: "big",
      operationId: "op_big",
      at: 1
    })
    .finally(() => {
      run.ended = true
    })
  const writer = child([directory, "commit", branch, "20", "x"], {})
  let during = 0
  while (!run.ended) {
    expect(Buffer.from(await store.call("readAt", { ref: head, path: "seed" })).toString()).toBe("seed")
    if (!run.ended) during += 1
  }
  await done
  expect(during).toBeGreaterThan(0)
  expect((await writer).said.filter((line) => line.commit !== undefined).length).toBe(20)
})
