/** SIGKILL at every named point, two processes on one store (at random: soak.test.ts). Rules: L8, L12, W10. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import { importInto, open, scratch } from "./storeFixture.ts"
import { child } from "./storeKills.ts"
import { unsound } from "./soundness.ts"
import { logOf } from "./storeChange.ts"

// Each test starts several whole processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

/** What must hold of a store after any death: everything readable, no byte past what the index knows. */
const expectSound = async (store: string) => {
  const opened = await open(store)
  expect(await unsound(opened)).toEqual([])
  return opened
}

const seeded = async () => {
  const source = scratch()
  writeFileSync(join(source, "seed"), "seed")
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const { layer } = await importInto(store, source)
  const branches = [
    await store.call("fork", { from: layer, name: "a" }),
    await store.call("fork", { from: layer, name: "b" })
  ]
  await store.close()
  return { directory, branches }
}

describe("kill -9", () => {
  it.each([
    ["layerfs.pack.written", false],
    ["layerfs.commit.packSynced", false],
    ["refs.commit.inTransaction", false],
    ["layerfs.commit.committed", true]
  ])("L8 W10 a commit killed at %s is whole or absent, and the operation id tells which", async (point, done) => {
    const { directory, branches } = await seeded()
    const branch = branches[0]!
    const { said, signal } = await child([directory, "commit", branch.id, "5", "x"], { COPPICE_CRASH_AT: `${point}:3` })
    expect(signal).toBe("SIGKILL")
    expect(said.filter((line) => line.commit !== undefined)).toHaveLength(2)
    const store = await expectSound(directory)
    const found = await store.call("findOperation", { operationId: "op_x_2" })
    const { head } = await store.call("branch", { id: branch.id })
    expect(found).toEqual(done ? { commit: head } : null)
    const log = await logOf(store, branch.id)
    expect(log.map((commit) => commit.message)).toEqual([...(done ? ["x 2"] : []), "x 1", "x 0", "Import test"])
    expect(log.map((commit) => commit.id)).toEqual(expect.arrayContaining(said.flatMap((line) => line.commit ?? [])))
  })

  it.each([
    ["layerfs.pack.written", false],
    ["layerfs.import.packSynced", false],
    ["refs.commit.inTransaction", false],
    ["layerfs.import.committed", true]
  ])(
    "L8 W10 an import killed at %s is whole or absent, and a rerun with its operation id ends in one",
    async (point, done) => {
      const source = scratch()
      mkdirSync(join(source, "d"))
      for (let i = 0; i < 30; i += 1) writeFileSync(join(source, `d/${i}`), `${i} `.repeat(5000))
      const directory = join(scratch(), "s")
      const { signal } = await child([directory, "import", source], { COPPICE_CRASH_AT: point })
      expect(signal).toBe("SIGKILL")
      const store = await expectSound(directory)
      expect((await store.call("findOperation", { operationId: "op_import" })) !== null).toBe(done)
      await store.close()
      const again = await child([directory, "import", source], {})
      const reopened = await expectSound(directory)
      expect(await reopened.call("findOperation", { operationId: "op_import" })).toEqual({
        commit: again.said[1]!.commit
      })
      expect(await reopened.call("stats", {})).toMatchObject({ commits: 1 })
    }
  )
})

describe("two processes", () => {
  it("L12 both commit to one store, one is killed, and the other loses nothing", async () => {
    const { directory, branches } = await seeded()
    const [a, b] = branches
    const first = child([directory, "commit", a!.id, "1000", "a"], {}, (lines) => (lines.length > 15 ? 0 : undefined))
    const second = child([directory, "commit", b!.id, "40", "b"], {})
    const [killed, whole] = await Promise.all([first, second])
    expect(killed.signal).toBe("SIGKILL")
    expect(whole.said.at(-1)).toEqual({ closed: true })
    const third = await child([directory, "commit", b!.id, "3", "c"], {})
    expect(third.said.at(-1)).toEqual({ closed: true })
    const store = await expectSound(directory)
    for (const [branch, ended] of [
      [a!, killed],
      [b!, whole],
      [b!, third]
    ] as const) {
      const log = (await logOf(store, branch.id)).map((commit) => commit.id)
      expect(log).toEqual(expect.arrayContaining(ended.said.flatMap((line) => line.commit ?? [])))
    }
  })
})
