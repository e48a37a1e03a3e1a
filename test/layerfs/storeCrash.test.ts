/** SIGKILL at every named point and at random, two processes on one store. Rules: L8, L12, W10. */
import { spawn } from "node:child_process"
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { describe, expect, it, vi } from "vitest"
import { Database } from "../../src/sqlite/Database.ts"
import { importInto, open, scratch } from "./storeFixture.ts"

// Each test starts several whole processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

const program = fileURLToPath(new URL("./storeCrashChild.ts", import.meta.url))

interface Said {
  readonly commit?: string
  readonly n?: number
  readonly closed?: boolean
}

interface Ended {
  readonly said: readonly Said[]
  readonly signal: NodeJS.Signals | null
}

/** Runs the child; `onLine` may kill it. */
const child = (
  args: readonly string[],
  crashAt: string | undefined,
  onLine: (said: readonly Said[]) => boolean = () => false
) =>
  new Promise<Ended>((resolve, reject) => {
    const env = { ...process.env, ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }) }
    const running = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "inherit"], env })
    const said: Said[] = []
    createInterface({ input: running.stdout }).on("line", (line) => {
      said.push(JSON.parse(line) as Said)
      if (onLine(said)) running.kill("SIGKILL")
    })
    running.on("error", reject)
    running.on("close", (_, signal) => resolve({ said, signal }))
  })

/** What must hold of a store after any death: everything readable, no byte past what the index knows. */
const expectSound = async (store: string) => {
  const opened = await open(store)
  expect(await opened.call("verify", {})).toMatchObject({ ok: true, damaged: [] })
  const db = Database.open(opened.directories.index, { readOnly: true })
  const lengths = new Map(db.all("SELECT id, length, writer FROM packs").map((row) => [Number(row["id"]), row]))
  db.close()
  for (const name of readdirSync(opened.directories.packs)) {
    const row = lengths.get(Number.parseInt(name, 10))
    expect(row, name).toBeDefined()
    expect(row!["writer"], name).toBe(null)
    if (Number(row!["length"]) > 0) expect(statSync(join(opened.directories.packs, name)).size).toBe(row!["length"])
  }
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
    ["layerfs.commit.inTransaction", false],
    ["layerfs.commit.committed", true]
  ])("L8 W10 a commit killed at %s is whole or absent, and the operation id tells which", async (point, done) => {
    const { directory, branches } = await seeded()
    const branch = branches[0]!
    const { said, signal } = await child([directory, "commit", branch.id, "5", "x"], `${point}:3`)
    expect(signal).toBe("SIGKILL")
    expect(said.filter((line) => line.commit !== undefined)).toHaveLength(2)
    const store = await expectSound(directory)
    const found = await store.call("findOperation", { operationId: "op_x_2" })
    const { head } = await store.call("branch", { id: branch.id })
    expect(found).toEqual(done ? { commit: head } : null)
    const log = await store.call("log", { ref: branch.id, limit: 10 })
    expect(log.map((commit) => commit.message)).toEqual([...(done ? ["x 2"] : []), "x 1", "x 0", "Import test"])
    expect(log.map((commit) => commit.id)).toEqual(expect.arrayContaining(said.flatMap((line) => line.commit ?? [])))
  })

  it.each([
    ["layerfs.pack.written", false],
    ["layerfs.import.packSynced", false],
    ["layerfs.commit.inTransaction", false],
    ["layerfs.import.committed", true]
  ])(
    "L8 W10 an import killed at %s is whole or absent, and a rerun with its operation id ends in one",
    async (point, done) => {
      const source = scratch()
      mkdirSync(join(source, "d"))
      for (let i = 0; i < 30; i += 1) writeFileSync(join(source, `d/${i}`), `${i} `.repeat(5000))
      const directory = join(scratch(), "s")
      const { signal } = await child([directory, "import", source], point)
      expect(signal).toBe("SIGKILL")
      const store = await expectSound(directory)
      expect((await store.call("findOperation", { operationId: "op_import" })) !== null).toBe(done)
      await store.close()
      const again = await child([directory, "import", source], undefined)
      const reopened = await expectSound(directory)
      expect(await reopened.call("findOperation", { operationId: "op_import" })).toEqual({
        commit: again.said[1]!.commit
      })
      expect(await reopened.call("stats", {})).toMatchObject({ commits: 1 })
    }
  )

  it("L8 killed at random moments, no acknowledged commit is lost", async () => {
    const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
    console.log(`seed ${seed}`)
    let state = seed
    const random = (below: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return state % below
    }
    const { directory, branches } = await seeded()
    const branch = branches[0]!
    const acknowledged: string[] = []
    for (let round = 0; round < 4; round += 1) {
      const after = 1 + random(25)
      const { said } = await child(
        [directory, "commit", branch.id, "1000", `r${round}`],
        undefined,
        (lines) => lines.length > after
      )
      acknowledged.push(...said.flatMap((line) => line.commit ?? []))
    }
    const store = await expectSound(directory)
    const log = (await store.call("log", { ref: branch.id, limit: 10_000 })).map((commit) => commit.id)
    expect(log).toEqual(expect.arrayContaining(acknowledged))
    expect(acknowledged.length).toBeGreaterThan(3)
  })
})

describe("two processes", () => {
  it("L12 both commit to one store, one is killed, and the other loses nothing", async () => {
    const { directory, branches } = await seeded()
    const [a, b] = branches
    const first = child([directory, "commit", a!.id, "1000", "a"], undefined, (lines) => lines.length > 15)
    const second = child([directory, "commit", b!.id, "40", "b"], undefined)
    const [killed, whole] = await Promise.all([first, second])
    expect(killed.signal).toBe("SIGKILL")
    expect(whole.said.at(-1)).toEqual({ closed: true })
    const third = await child([directory, "commit", b!.id, "3", "c"], undefined)
    expect(third.said.at(-1)).toEqual({ closed: true })
    const store = await expectSound(directory)
    for (const [branch, ended] of [
      [a!, killed],
      [b!, whole],
      [b!, third]
    ] as const) {
      const log = (await store.call("log", { ref: branch.id, limit: 10_000 })).map((commit) => commit.id)
      expect(log).toEqual(expect.arrayContaining(ended.said.flatMap((line) => line.commit ?? [])))
    }
  })
})
