/** A state and its history as one file, and in another store. Rules: L10, L13, L8, W14, W15. */
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { ground, state } from "./bundleFixture.ts"
import { latin, put } from "./storeChange.ts"
import { atEnd, commitInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"

vi.setConfig({ testTimeout: 240_000 })

describe("bundle", () => {
  it("L13 L12 a FIFO that stands for a bundle is refused, and the store goes on", async () => {
    const store = await open(join(scratch(), "s"))
    const fifo = join(scratch(), "fifo")
    execFileSync("mkfifo", [fifo])
    await expect(store.call("importBundle", { source: latin(fifo) })).rejects.toMatchObject({
      _tag: "BundleRefused",
      reason: "unreadable"
    })
    expect(await store.call("stats", {})).toMatchObject({ commits: 0 })
  })

  it("L13 L14 a large directory comes over with its pages", async () => {
    const store = await open(join(scratch(), "s"))
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const { id: branch } = await store.call("fork", { from: layer, name: "b" })
    await commitInto(store, branch, [
      { op: "putDirectory", path: "d", mode: 0o755, mtimeNs: 1n, replace: true },
      ...Array.from({ length: 600 }, (_, n) => put(`d/${n}`, `${n}`))
    ])
    const { commit } = await commitInto(store, branch, [put("d/77", "another")])
    const target = latin(join(scratch(), "b.bundle"))
    await store.call("exportBundle", { ref: commit, target, history: true })
    const other = await open(join(scratch(), "s"))
    await other.call("importBundle", { source: target })
    expect(await unsound(other)).toEqual([])
    const listed = { ref: commit, path: "d" }
    expect(await other.call("listAt", listed)).toEqual(await store.call("listAt", listed))
  })

  it("L13 L10 a branch with its history comes into another store with the same ids and roots, goes on from there, and twice adds nothing", async () => {
    const { store, branch, commits, file, target, project } = await ground(seededRandom(seedOf()))
    const head = commits.at(-1)!
    const exported = await store.call("exportBundle", { ref: branch, target, history: true })
    expect(exported).toMatchObject({ commit: head, commits: 6, bytes: statSync(file).size })
    expect(readdirSync(join(file, ".."))).toEqual(["b.bundle"])
    const directory = join(scratch(), "s")
    const other = await open(directory)
    const phases: number[] = []
    const receipt = await other.call(
      "importBundle",
      { source: target },
      { onProgress: ({ files }) => phases.push(files) }
    )
    expect(receipt).toEqual({
      project,
      commit: head,
      commits: 6,
      beginsHere: [],
      objects: exported.objects,
      durability: "full"
    })
    expect(phases.at(-1)).toBe(exported.objects)
    for (const ref of commits) {
      const { root, parent, message, at } = await store.call("resolve", { ref })
      expect(await other.call("resolve", { ref })).toMatchObject({ root, parent, message, at })
      expect(await other.call("readAt", { ref, path: "a" })).toEqual(await store.call("readAt", { ref, path: "a" }))
    }
    expect(await other.call("readAt", { ref: head, path: "large" })).toEqual(
      await store.call("readAt", { ref: head, path: "large" })
    )
    expect((await other.call("treeDigest", { ref: head })).digest).toBe(
      (await store.call("treeDigest", { ref: head })).digest
    )
    expect(await other.call("verify", {})).toMatchObject({ ok: true })
    const before = await state(other)
    expect(await other.call("importBundle", { source: target })).toMatchObject({ commits: 0, objects: 0 })
    expect(await state(other)).toEqual(before)
    const { id } = await other.call("fork", { from: head, name: "on" })
    expect(await commitInto(other, id, [put("new", "new")])).toMatchObject({ outcome: "committed" })
    await other.close()
    expect(await unsound(await open(directory))).toEqual([])
  })

  it("L13 one state without its history is a smaller file, and a later bundle with the history completes it", async () => {
    const { store, branch, commits, target } = await ground(seededRandom(seedOf()))
    const one = await store.call("exportBundle", { ref: commits[2]!, target, history: false })
    const whole = latin(join(scratch(), "whole"))
    const all = await store.call("exportBundle", { ref: branch, target: whole, history: true })
    expect(one.commits).toBe(1)
    expect(one.objects).toBeLessThan(all.objects)
    const other = await open(join(scratch(), "s"))
    expect(await other.call("importBundle", { source: target })).toMatchObject({ commit: commits[2]!, commits: 1 })
    expect(await other.call("readAt", { ref: commits[2]!, path: "a" })).toEqual(
      await store.call("readAt", { ref: commits[2]!, path: "a" })
    )
    expect(await other.call("importBundle", { source: whole })).toMatchObject({
      commits: 5,
      objects: all.objects - one.objects
    })
    expect(await other.call("verify", {})).toMatchObject({ ok: true })
  })

  it("L13 L10 a bundle with any damaged byte, cut anywhere, longer, of something else, newer or not there is refused with its reason, and the store is as it was", async () => {
    const random = seededRandom(seedOf())
    const { store, branch, file, target } = await ground(random)
    await store.call("exportBundle", { ref: branch, target, history: true })
    const other = await open(join(scratch(), "s"))
    const before = await state(other)
    const whole = readFileSync(file)
    const refusal = async (what: string): Promise<string> => {
      const error: { _tag?: string; reason?: string } = await other.call("importBundle", { source: target }).then(
        () => ({}),
        (thrown: object) => thrown
      )
      expect(error._tag, what).toBe("BundleRefused")
      expect(await state(other), what).toEqual(before)
      return error.reason!
    }
    for (let n = 0; n < 40; n += 1) {
      const at = n < 24 ? n : random(whole.length)
      const torn = Buffer.from(whole)
      torn[at] = torn[at]! ^ (1 << random(8))
      writeFileSync(file, torn)
      expect(["foreign", "newer", "damaged", "cut"], `byte ${at}`).toContain(await refusal(`byte ${at}`))
    }
    for (const length of [0, 5, 16, 20, random(whole.length), whole.length - 1]) {
      writeFileSync(file, whole)
      truncateSync(file, length)
      expect(["foreign", "cut"], `length ${length}`).toContain(await refusal(`length ${length}`))
    }
    writeFileSync(file, Buffer.concat([whole, Buffer.from("x")]))
    expect(await refusal("longer")).toBe("damaged")
    writeFileSync(file, "something else, and long enough to be looked at")
    expect(await refusal("else")).toBe("foreign")
    await expect(other.call("importBundle", { source: latin(join(file, "..", "none")) })).rejects.toMatchObject({
      reason: "unreadable"
    })
    await expect(other.call("importBundle", { source: latin(scratch()) })).rejects.toMatchObject({
      reason: "unreadable"
    })
    writeFileSync(file, whole)
    expect(await other.call("importBundle", { source: target })).toMatchObject({ commits: 6 })
  })

  it("L13 W15 a bundle that passes a quota, one that is cancelled, and a target that exists are refused with nothing left", async () => {
    const { store, branch, file, target } = await ground(seededRandom(seedOf()))
    await store.call("exportBundle", { ref: branch, target, history: true })
    await expect(store.call("exportBundle", { ref: branch, target, history: true })).rejects.toMatchObject({
      _tag: "ExportRefused"
    })
    const stop = new AbortController()
    stop.abort()
    const second = join(scratch(), "second")
    const cancelled = store.call(
      "exportBundle",
      { ref: branch, target: latin(second), history: true },
      { signal: stop.signal }
    )
    await expect(cancelled).rejects.toMatchObject({ _tag: "ExportRefused" })
    expect(readdirSync(join(second, ".."))).toEqual([])
    const small = await openLayerStore({ store: join(scratch(), "s"), storeQuota: 100_000 })
    atEnd(() => small.close())
    await expect(small.call("importBundle", { source: target })).rejects.toMatchObject({ _tag: "StoreQuotaExceeded" })
    expect(await state(small)).toMatchObject({ objects: 0, commits: 0 })
    const other = await open(join(scratch(), "s"))
    await expect(other.call("importBundle", { source: target }, { signal: stop.signal })).rejects.toMatchObject({
      reason: "cancelled"
    })
    expect(await state(other)).toMatchObject({ objects: 0, commits: 0 })
    expect(existsSync(file)).toBe(true)
  })

  it("L8 L13 killed before it has its name, a bundle is not there, and is written whole when it is asked for again", async () => {
    const { store, branch, file } = await ground(seededRandom(seedOf()))
    const directory = store.directories.root.replace(/\/layerfs$/, "")
    await store.close()
    const { signal } = await child([directory, "bundle", branch, file], { COPPICE_CRASH_AT: "layerfs.bundle.written" })
    expect([signal, existsSync(file)]).toEqual(["SIGKILL", false])
    expect((await child([directory, "bundle", branch, file], {})).said.at(-1)).toEqual({ closed: true })
    expect(readdirSync(join(file, ".."))).toEqual(["b.bundle"])
  })

  it.each(["file.open", "file.write", "file.sync", "file.rename", "file.syncDirectory"])(
    "L8 L13 an export that meets a full disk at %s ends typed, and leaves no half file",
    async (fault) => {
      const { store, branch, file } = await ground(seededRandom(seedOf()))
      const directory = store.directories.root.replace(/\/layerfs$/, "")
      await store.close()
      const { said } = await child([directory, "bundle", branch, file], { COPPICE_FAULT_AT: fault })
      expect(said.filter((line) => line.error !== undefined)).toMatchObject([{ error: "FILE_SYSTEM_FAILURE" }])
      expect(readdirSync(join(file, ".."))).toEqual(fault === "file.syncDirectory" ? ["b.bundle"] : [])
    }
  )
})
