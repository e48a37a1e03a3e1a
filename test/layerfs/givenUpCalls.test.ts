/** Calls of the store that their caller gives up: commits at each stage, in the line and in groups; trees that are planned. Rules: W9, W10, W11, W12, L2, L8, L12. */
import * as fs from "node:fs"
import { join } from "node:path"
import { setImmediate as turn } from "node:timers/promises"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it, vi } from "vitest"
import type { CallOptions, LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { newId } from "../../src/base/Id.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { seeded } from "./contentMemory.ts"
import { unsound } from "./soundness.ts"
import { latin, put } from "./storeChange.ts"
import { atEnd, importInto, open, scratch } from "./storeFixture.ts"
import { provider as providerOn, run } from "./storeProvider.ts"

vi.setConfig({ testTimeout: 240_000 })

const MiB = 1024 * 1024

const ground = async () => {
  const source = scratch()
  fs.writeFileSync(join(source, "seed"), "seed")
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const { layer, commit } = await importInto(store, source)
  const branch = async (): Promise<string> => (await store.call("fork", { from: layer, name: "one" })).id
  return { store, directory, commit, branch, source }
}

/** Bytes of all packs, as the file system has them. */
const packed = ({ directories }: LayerStore): number =>
  fs.readdirSync(directories.packs).reduce((sum, name) => sum + fs.statSync(join(directories.packs, name)).size, 0)

/** What changed directories are seen from: to the harvest, a plain directory looks like an upper that shows everything. */
const upperOf = (write: (root: string) => void): { readonly upper: string; readonly merged: string } => {
  const upper = scratch()
  fs.writeFileSync(join(upper, "seed"), "seed")
  write(upper)
  return { upper: latin(upper), merged: latin(upper) }
}
/** Several levels, so that pauses come in the depth too. */
const many = (root: string): void => {
  for (let d = 0; d < 100; d += 1) {
    const at = join(root, `d${d % 10}/e${d}`)
    fs.mkdirSync(at, { recursive: true })
    for (let n = 0; n < 80; n += 1) fs.writeFileSync(join(at, `f${n}`), `${d} ${n}`)
  }
}
/** Random bytes: what is compressed shows in the pack. */
const files = (root: string): void => {
  for (let n = 0; n < 400; n += 1) fs.writeFileSync(join(root, `f${n}`), seeded(n + 1, MiB / 8))
}
const large = (root: string): void => fs.writeFileSync(join(root, "large"), seeded(7, 64 * MiB))

const request = (branch: string, expectedHead: string, of: { readonly upper: string; readonly merged: string }) => ({
  branch,
  expectedHead,
  harvest: { kind: "overlay" as const, ...of },
  message: "m",
  operationId: newId("operation"),
  actor: {},
  keepTimes: false,
  live: false,
  at: 1
})

/** Files of a directory that this process has open. */
const openBelow = (directory: string): readonly string[] =>
  fs.readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = fs.readlinkSync(`/proc/self/fd/${fd}`)
      return target.startsWith(directory) ? [target] : []
    } catch {
      return []
    }
  })

const until = async (seen: () => boolean): Promise<void> => {
  while (!seen()) await turn()
}
/** The worker takes calls in order: this one is answered in the first pause of the one before. */
const begun = (store: LayerStore): Promise<unknown> => store.call("storeId", {})

/** Nothing is kept of the operation, and the branch stands where it stood. */
const expectNothing = async (store: LayerStore, branch: string, operationId: string, head: string, bytes: number) => {
  expect(await store.call("findOperation", { operationId })).toBe(null)
  expect((await store.call("branch", { id: branch })).head).toBe(head)
  expect(packed(store)).toBe(bytes)
}

describe("a commit that is given up", () => {
  it.each([
    ["while the upper is read", many, begun],
    [
      "while files are compressed",
      files,
      (store: LayerStore, bytes: number) => until(() => packed(store) > bytes + MiB)
    ],
    ["within a large file", large, (store: LayerStore, bytes: number) => until(() => packed(store) > bytes + 4 * MiB)]
  ] as const)(
    "W9 W10 L2 L8 a checkpoint that is aborted %s keeps nothing, and the next one has everything",
    async (_, write, stage) => {
      const { store, directory, commit, branch } = await ground()
      const id = await branch()
      const upper = upperOf(write)
      const input = request(id, commit, upper)
      // Makes the pack, which stays.
      await store.call("commitChanges", { ...request(await branch(), commit, upper), changes: [put("x", "x")] })
      const bytes = packed(store)
      for (const call of ["checkpoint", "preview"] as const) {
        const controller = new AbortController()
        const options = { signal: controller.signal }
        const answer =
          call === "checkpoint"
            ? store.call("checkpoint", input, options)
            : store.call("preview", { base: commit, harvest: input.harvest }, options)
        const ended = expect(answer).rejects.toThrow("cancelled")
        await stage(store, bytes)
        controller.abort()
        await ended
        await expectNothing(store, id, input.operationId, commit, bytes)
        expect(openBelow(upper.upper)).toEqual([])
      }
      const { changes } = (await store.call("preview", { base: commit, harvest: input.harvest })) as {
        readonly changes: readonly unknown[]
      }
      const reply = await store.call("checkpoint", input)
      expect(reply).toMatchObject({ outcome: { outcome: "committed", changedPaths: changes.length } })
      expect(changes.length).toBeGreaterThanOrEqual(fs.readdirSync(upper.upper).length - 1)
      await store.close()
      expect(await unsound(await open(directory))).toEqual([])
    }
  )

  it("W9 W10 L12 a checkpoint that waits for another process before its transaction stops there when it is aborted", async () => {
    const { store, commit, branch } = await ground()
    const id = await branch()
    const input = request(id, commit, upperOf(large))
    await store.call("commitChanges", { ...request(await branch(), commit, upperOf(large)), changes: [put("x", "x")] })
    const bytes = packed(store)
    const other = new DatabaseSync(store.directories.index)
    atEnd(() => other.close())
    other.exec("BEGIN IMMEDIATE")
    const controller = new AbortController()
    const ended = expect(store.call("checkpoint", input, { signal: controller.signal })).rejects.toThrow("cancelled")
    await until(() => packed(store) > bytes + 64 * MiB)
    controller.abort()
    await ended
    other.exec("ROLLBACK")
    await expectNothing(store, id, input.operationId, commit, bytes)
    expect(await store.call("checkpoint", input)).toMatchObject({ outcome: { outcome: "committed" } })
  })

  it("W9 W10 W11 one that is aborted while it waits in line leaves at once; those before and behind it commit, in groups too", async () => {
    const { store, directory, commit, branch } = await ground()
    const ids = [await branch(), await branch(), await branch(), await branch(), await branch()]
    const inputs = ids.map((id, n) => ({
      ...request(
        id,
        commit,
        upperOf(() => undefined)
      ),
      changes: [put("file", `${n}`)]
    }))
    const controller = new AbortController()
    const first = store.call("checkpoint", request(ids[0]!, commit, upperOf(files)))
    const calls = inputs.map((input, n) =>
      n === 0 ? first : store.call("commitChanges", input, n % 2 === 0 ? {} : { signal: controller.signal })
    )
    const firstSeen = vi.fn()
    void first.finally(firstSeen)
    const settled = Promise.allSettled(calls)
    await begun(store)
    controller.abort()
    await Promise.allSettled([calls[1], calls[3]])
    expect(firstSeen).not.toHaveBeenCalled()
    expect((await settled).map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled"
    ])
    for (const n of [1, 3]) {
      expect(await store.call("findOperation", { operationId: inputs[n]!.operationId })).toBe(null)
      expect((await store.call("branch", { id: ids[n]! })).head).toBe(commit)
    }
    await store.close()
    expect(await unsound(await open(directory))).toEqual([])
  })

  it("W9 W10 L2 one that is aborted in the middle of a group takes nothing from the commits that wait with it", async () => {
    const { store, directory, commit, branch } = await ground()
    const ids = [await branch(), await branch(), await branch()]
    const [before, , behind] = ids.map((id, n) => ({
      ...request(
        id,
        commit,
        upperOf(() => undefined)
      ),
      changes: [put("file", `content ${n}`)]
    }))
    await store.call("commitChanges", { ...request(await branch(), commit, upperOf(large)), changes: [put("x", "x")] })
    const bytes = packed(store)
    const controller = new AbortController()
    const upper = request(ids[1]!, commit, upperOf(large))
    // While it is built, the others come to stand in line together.
    const blocker = store.call("checkpoint", request(await branch(), commit, upperOf(files)))
    await begun(store)
    const settled = Promise.allSettled([
      store.call("commitChanges", before!),
      store.call("checkpoint", upper, { signal: controller.signal }),
      store.call("commitChanges", behind!)
    ])
    await blocker
    await until(() => packed(store) > bytes + 60 * MiB)
    controller.abort()
    expect((await settled).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"])
    expect(await store.call("findOperation", { operationId: upper.operationId })).toBe(null)
    expect(packed(store)).toBeLessThan(bytes + 52 * MiB)
    for (const [n, text] of [
      [0, "content 0"],
      [2, "content 2"]
    ] as const) {
      const { entry } = await store.call("look", { ref: ids[n]!, path: "file", follow: true })
      expect(Buffer.from(await store.call("content", { id: entry.id!, size: entry.size })).toString()).toBe(text)
    }
    await store.close()
    expect(await unsound(await open(directory))).toEqual([])
  })

  it("W9 W10 L2 a direct call that is interrupted while it writes a large file is absent, and repeated it commits", async () => {
    const store = join(scratch(), "s")
    const provider = await providerOn(store)
    const { layer } = await run(provider.createEmpty())
    const { id, head } = await run(provider.fork(layer))
    const packs = join(store, "layerfs/packs")
    const written = (): number =>
      fs.readdirSync(packs).reduce((sum, name) => sum + fs.statSync(join(packs, name)).size, 0)
    const operationId = newId("operation")
    const call = provider.applyTo(id, [{ op: "write", path: "large", bytes: seeded(9, 64 * MiB) }], { operationId })
    const fiber = Effect.runFork(call)
    await until(() => written() > 4 * MiB)
    await run(Fiber.interrupt(fiber))
    expect(await run(provider.findOperation(operationId))).toEqual({ state: "absent" })
    expect((await run(provider.branch(id))).head).toBe(head)
    expect(written()).toBeLessThan(MiB)
    expect(await run(call)).toMatchObject({ outcome: "committed", changedPaths: 1 })
  })

  it("W9 W12 L12 an export or a layer that is aborted while the tree is planned makes no target, and reads are answered meanwhile", async () => {
    const { store, commit, branch } = await ground()
    const id = await branch()
    const names = Array.from({ length: 200 }, (_, n) => `d${n}`)
    const changes: readonly TreeChange[] = names.flatMap((name): readonly TreeChange[] => [
      { op: "putDirectory", path: name, mode: 0o755, mtimeNs: 1n, replace: true },
      ...Array.from({ length: 50 }, (_, n) => put(`${name}/f${n}`, "x"))
    ])
    await store.call("commitChanges", {
      ...request(
        id,
        commit,
        upperOf(() => undefined)
      ),
      changes
    })
    const target = join(scratch(), "target")
    const at = latin(target)
    const calls = [
      (options: CallOptions) => store.call("materialise", { commit: id, target: at }, options),
      (options: CallOptions) => store.call("exportTar", { ref: id, target: at }, options),
      (options: CallOptions) =>
        store.call("materialiseDelta", { commit: id, below: commit, target: at, limit: 100_000 }, options)
    ]
    for (const call of calls) {
      const controller = new AbortController()
      const ended = expect(call({ signal: controller.signal })).rejects.toThrow("cancelled")
      await begun(store)
      expect(fs.existsSync(target)).toBe(false)
      controller.abort()
      await ended
      expect(fs.existsSync(target)).toBe(false)
    }
    await store.call("materialise", { commit: id, target: at })
    expect(fs.readdirSync(target).length).toBe(201)
  })

  it("L12 W11 while a large upper is read and compressed, a read at a ref is answered before it", async () => {
    const { store, commit, branch } = await ground()
    const id = await branch()
    const order: string[] = []
    const long = store.call("checkpoint", request(id, commit, upperOf(files))).then(() => order.push("checkpoint"))
    await begun(store)
    await store.call("look", { ref: commit, path: "seed", follow: true }).then(() => order.push("read"))
    await long
    expect(order).toEqual(["read", "checkpoint"])
  })
})
