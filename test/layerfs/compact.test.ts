/** Packs written anew: sizes, beside commits and readers, broken off, killed. Rules: L8, L9, L10, L12, W14, C71. */
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it, vi } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { put } from "./storeChange.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { seeded } from "./contentMemory.ts"
import { apply, commitInto, importInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"
import { seededRandom } from "../seededRandom.ts"

vi.setConfig({ testTimeout: 240_000 })

const unbounded = { maxMs: null, maxBytes: null }

/** A text whose versions are alike, and no two files of which are. */
const page = (random: (below: number) => number, lines: number): string =>
  Array.from({ length: lines }, (_, n) => `line ${n} ${random(1_000_000_000)} ${random(1_000_000_000)}`).join("\n")

/** Ten files, each changed in a few lines by some of the commits. Gives what each commit holds. */
const history = async (store: LayerStore, commits: number, random: (below: number) => number) => {
  const source = scratch()
  const files = new Map<string, string>()
  for (let n = 0; n < 10; n += 1) files.set(`f${n}.${n % 2 === 0 ? "ts" : "md"}`, page(random, 60))
  for (const [name, text] of files) writeFileSync(join(source, name), text)
  const { layer, commit } = await importInto(store, source)
  const { id: branch } = await store.call("fork", { from: layer, name: "b" })
  const states = [{ commit, files: new Map(files) }]
  for (let n = 0; n < commits; n += 1) {
    const changed = [...files.keys()].filter(() => random(3) === 0)
    for (const name of changed) {
      const lines = files.get(name)!.split("\n")
      lines[random(lines.length)] = `changed ${random(1_000_000_000)}`
      files.set(name, lines.join("\n"))
    }
    const outcome = await commitInto(
      store,
      branch,
      changed.map((name) => put(name, files.get(name)!))
    )
    states.push({ commit: outcome.commit, files: new Map(files) })
  }
  return { branch, states }
}

type States = Awaited<ReturnType<typeof history>>["states"]

const expectStates = async (store: LayerStore, states: States): Promise<void> => {
  for (const { commit, files } of states) {
    for (const [name, text] of files) {
      expect(Buffer.from(await store.call("readAt", { ref: commit, path: name })).toString()).toBe(text)
    }
  }
}

const packBytes = (store: LayerStore): number =>
  readdirSync(store.directories.packs).reduce(
    (sum, name) => sum + statSync(join(store.directories.packs, name)).size,
    0
  )

describe("compaction", () => {
  it("L9 L10 a history becomes smaller, every file of every state is as it was, and a second run finds nothing to do", async () => {
    const random = seededRandom(seedOf())
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { branch, states } = await history(store, 40, random)
    const before = packBytes(store)
    const phases: number[] = []
    const report = await store.call("compact", unbounded, { onProgress: ({ files }) => phases.push(files) })
    expect(report).toMatchObject({ complete: true, unreadable: 0, packsAfter: 1, durability: "full" })
    expect(report.objects).toBeGreaterThan(100)
    expect(phases.at(-1)).toBe(report.objects)
    // Commits keep what differs already, trees included: what is left to gain is less than it was without.
    expect(packBytes(store)).toBeLessThan(before * 0.9)
    expect(packBytes(store)).toBe(report.bytesAfter)
    await expectStates(store, states)
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
    expect(await store.call("compact", unbounded)).toMatchObject({ complete: true, objects: 0, packsAfter: 1 })
    const outcome = await commitInto(store, branch, [put("f0.ts", "new")])
    await store.call("compact", unbounded)
    await store.close()
    const again = await open(directory)
    expect(await unsound(again)).toEqual([])
    await expectStates(again, states)
    expect(Buffer.from(await again.call("readAt", { ref: outcome.commit, path: "f0.ts" })).toString()).toBe("new")
  })

  it("L12 W14 commits and reads go on while a compaction runs, here and in another process, and none of them is lost", async () => {
    const random = seededRandom(seedOf())
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { branch, states } = await history(store, 25, random)
    const { layer } = await importInto(store, scratchWith("seed", "seed"))
    const other = await store.call("fork", { from: layer, name: "other" })
    const writer = child([directory, "commit", other.id, "15", "x"], {})
    const reader = child([directory, "read", other.id, "100"], {})
    const told: string[] = []
    const text = new Map<string, string>()
    for (let round = 0; round < 4; round += 1) {
      const compacting = store.call("compact", unbounded)
      for (let n = 0; n < 4; n += 1) {
        const value = page(random, 20)
        const { commit } = await commitInto(store, branch, [put("f1.md", value)])
        told.push(commit)
        text.set(commit, value)
        await expectStates(store, [states[random(states.length)]!])
      }
      expect(await compacting).toMatchObject({ complete: true, unreadable: 0 })
    }
    const ended = await writer
    expect(ended.said.filter((line) => line.commit !== undefined)).toHaveLength(15)
    expect((await reader).said.filter((line) => line.read !== undefined).every((line) => line.read === "seed")).toBe(
      true
    )
    await expectStates(store, states)
    for (const commit of told) {
      const bytes = await store.call("readAt", { ref: commit, path: "f1.md" })
      expect(Buffer.from(bytes).toString()).toBe(text.get(commit))
    }
    await store.close()
    const again = await open(directory)
    expect(await unsound(again)).toEqual([])
  })

  it("L9 W14 broken off after each step, by a bound or by cancelling, it keeps what it did and goes on from there", async () => {
    const random = seededRandom(seedOf())
    const store = await open(join(scratch(), "s"))
    const { states } = await history(store, 15, random)
    let rounds = 0
    let report
    do {
      report = await store.call("compact", { maxMs: null, maxBytes: 1 })
      await expectStates(store, states.slice(-3))
      rounds += 1
    } while (!report.complete && rounds < 50)
    expect(report.complete).toBe(true)
    expect(rounds).toBeGreaterThan(2)
    const controller = new AbortController()
    controller.abort()
    await commitInto(store, (await store.call("fork", { from: states[0]!.commit, name: "c" })).id, [put("n", "n")])
    const stopped = await store.call("compact", unbounded, { signal: controller.signal })
    expect(stopped.packsAfter).toBeGreaterThan(0)
    await expectStates(store, states)
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
  })

  it.each([
    "layerfs.compact.claimed",
    "layerfs.compact.written",
    "layerfs.compact.synced",
    "layerfs.compact.moved:1",
    "layerfs.compact.moved:2",
    "layerfs.compact.dropping",
    "layerfs.compact.dropped"
  ])("L8 L9 a compaction killed at %s has lost nothing, and the next one ends it", async (point) => {
    const random = seededRandom(seedOf())
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { states } = await history(store, 6, random)
    await store.close()
    const { signal } = await child([directory, "compact"], { COPPICE_CRASH_AT: point })
    expect(signal).toBe("SIGKILL")
    const again = await open(directory)
    expect(await unsound(again)).toEqual([])
    await expectStates(again, states)
    expect(await again.call("compact", unbounded)).toMatchObject({ complete: true, unreadable: 0 })
    await expectStates(again, states)
    await again.close()
    expect(await unsound(await open(directory))).toEqual([])
  })

  it.each(["layerfs.pack.append:1", "layerfs.pack.sync:1", "layerfs.compact.commit:1", "layerfs.compact.commit:2:EIO"])(
    "L8 L9 a compaction that meets %s ends typed, has lost nothing, and the next one ends it",
    async (fault) => {
      const random = seededRandom(seedOf())
      const directory = join(scratch(), "s")
      const store = await open(directory)
      const { states } = await history(store, 6, random)
      await store.close()
      const { said } = await child([directory, "compact"], { COPPICE_FAULT_AT: fault })
      expect(said.filter((line) => line.error !== undefined)).toHaveLength(1)
      const again = await open(directory)
      expect(await unsound(again)).toEqual([])
      await expectStates(again, states)
      expect(await again.call("compact", unbounded)).toMatchObject({ complete: true, unreadable: 0 })
      await expectStates(again, states)
    }
  )

  it("L9 L12 a compaction that meets a rival's long write ends as Busy, and the next one goes on with the packs that it had taken", async () => {
    const random = seededRandom(seedOf())
    const store = await open(join(scratch(), "s"))
    const states: States[number][] = []
    const rival = new DatabaseSync(store.directories.index, { timeout: 10_000 })
    let refused: string | undefined
    // A compaction of little may be over before its progress is heard here: then there is more to do, and once more.
    for (let tries = 0; tries < 30 && refused !== "Busy"; tries += 1) {
      states.push(...(await history(store, 5, random)).states)
      let holds = false
      refused = await store
        .call("compact", unbounded, {
          onProgress: () => {
            if (!holds) rival.exec("BEGIN IMMEDIATE")
            holds = true
          }
        })
        .then(
          () => undefined,
          (error: { readonly _tag?: string }) => error._tag
        )
      expect(holds).toBe(true)
      if (refused !== "Busy") rival.exec("ROLLBACK")
    }
    expect(refused).toBe("Busy")
    rival.exec("ROLLBACK")
    rival.close()
    const report = await store.call("compact", unbounded)
    expect(report).toMatchObject({ complete: true, unreadable: 0 })
    expect(report.objects).toBeGreaterThan(0)
    // Beside it at most the pack that the next commit takes: a header.
    const sizes = readdirSync(store.directories.packs).map((name) => statSync(join(store.directories.packs, name)).size)
    expect(sizes.filter((size) => size > 16).reduce((sum, size) => sum + size, 0)).toBe(report.bytesAfter)
    await expectStates(store, states)
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
  })

  it("L9 C21 pieces of a large file that branches cut and joined stay built on what they came from: a compaction makes such a store hardly larger", async () => {
    const random = seededRandom(seedOf())
    const source = scratch()
    let file = seeded(7, 2 * 1024 * 1024)
    writeFileSync(join(source, "large"), file)
    const store = await open(join(scratch(), "s"))
    const { layer } = await importInto(store, source)
    const states: { readonly commit: string; readonly sum: string }[] = []
    for (let branch = 0; branch < 8; branch += 1) {
      const { id } = await store.call("fork", { from: layer, name: `${branch}` })
      file = seeded(7, 2 * 1024 * 1024)
      for (let n = 0; n < 8; n += 1) {
        const [offset, deleteCount] = [random(file.length - 40_000), n % 2 === 0 ? random(30_000) : 0]
        const bytes = seeded(random(1e6), random(3000))
        const { commit } = await apply(store, id, [{ op: "splice", path: "large", offset, deleteCount, bytes }])
        file = Buffer.concat([file.subarray(0, offset), bytes, file.subarray(offset + deleteCount)])
        states.push({ commit, sum: sha256(file) })
      }
    }
    for (let round = 0; round < 2; round += 1) {
      const report = await store.call("compact", unbounded)
      expect(report).toMatchObject({ complete: true, unreadable: 0 })
      // Whole again may be the lists of the pieces, 1.3 KB for each state; the pieces made it four times as large.
      expect(report.bytesAfter).toBeLessThanOrEqual(report.bytesBefore * 1.05)
      for (const { commit, sum } of states)
        expect(sha256(await store.call("readAt", { ref: commit, path: "large" }))).toBe(sum)
    }
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
  })

  it("L10 a damaged object stays where it is, with its pack; the rest is written anew, and verify names it", async () => {
    const random = seededRandom(seedOf())
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { states } = await history(store, 5, random)
    const lost = (await store.call("entry", { ref: states[0]!.commit, path: "f3.md" }))!.id!
    await store.close()
    const db = Database.open(store.directories.index)
    db.run("UPDATE objects SET length = length - 1 WHERE id = ?", Buffer.from(lost.slice(7), "hex"))
    db.close()
    const again = await open(directory)
    const { damaged } = await again.call("verify", {})
    expect(damaged.map((one) => one.object)).toContain(lost)
    const report = await again.call("compact", unbounded)
    expect(report).toMatchObject({ complete: true })
    expect(report.unreadable).toBeGreaterThanOrEqual(1)
    expect((await again.call("verify", {})).damaged.map((one) => one.object).sort()).toEqual(
      damaged.map((one) => one.object).sort()
    )
    expect(await again.call("compact", unbounded)).toMatchObject({ complete: true, objects: 0 })
    expect(existsSync(join(again.directories.packs, "000001.pack"))).toBe(true)
  })
})

const scratchWith = (name: string, text: string): string => {
  const directory = scratch()
  writeFileSync(join(directory, name), text)
  return directory
}
