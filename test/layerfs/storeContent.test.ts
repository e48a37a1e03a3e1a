/** Large files in a real store: one root by any route, splice, ranges, damage. Rules: L10, L14, L15, W4, W6, W13; C20, C21, C23. */
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { contentDigest } from "../../src/workspace/TreeDigest.ts"
import { seeded } from "./contentMemory.ts"
import { latin, put } from "./storeChange.ts"
import { apply, commitInto, importInto, open, scratch } from "./storeFixture.ts"

const MiB = 1024 * 1024

const empty = async (): Promise<{ store: LayerStore; branch: string; directory: string }> => {
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
  return { store, branch: (await store.call("fork", { from: layer, name: "m" })).id, directory }
}

const idAt = async (store: LayerStore, ref: string, path: string) => (await store.call("entry", { ref, path }))!.id

describe("content", () => {
  it("L14 W6 imported, captured from a file, written and spliced together, one content has one id, and the digest of a plain reading", async () => {
    const source = scratch()
    const bytes = Buffer.concat([seeded(1, 3 * MiB), Buffer.alloc(2 * MiB), seeded(2, 700_000)])
    fs.writeFileSync(join(source, "big"), bytes)
    const { store, branch } = await empty()
    const imported = await importInto(store, source)
    const id = await idAt(store, imported.commit, "big")
    await commitInto(store, branch, [
      { ...put("captured", ""), content: { file: latin(join(source, "big")) } } as never
    ])
    await apply(store, branch, [
      { op: "write", path: "written", bytes },
      { op: "write", path: "spliced", bytes: bytes.subarray(100, 600_000) },
      { op: "splice", path: "spliced", offset: 0, deleteCount: 0, bytes: bytes.subarray(0, 100) },
      { op: "splice", path: "spliced", offset: 600_000, deleteCount: 0, bytes: bytes.subarray(600_000) }
    ])
    for (const path of ["captured", "written", "spliced"]) expect(await idAt(store, branch, path)).toBe(id)
    expect(id).not.toBe(contentDigest(bytes))
    // The digest of the tree goes by content digests: what a plain walk over the directory would say.
    const { digest } = await store.call("treeDigest", { ref: imported.commit })
    const target = join(scratch(), "out")
    await store.call("materialise", { commit: imported.commit, target: latin(target) })
    expect(fs.readFileSync(join(target, "big")).equals(bytes)).toBe(true)
    expect(fs.statSync(join(target, "big")).blocks * 512).toBeLessThan(bytes.length - MiB)
    expect(await store.call("treeDigest", { ref: imported.commit })).toMatchObject({ digest })
  })

  it("W4 L15 a splice through one name of a hard-linked file shows under both; one that changes nothing makes no commit", async () => {
    const { store, branch } = await empty()
    const bytes = seeded(3, MiB)
    await commitInto(store, branch, [
      { ...put("a", bytes), inode: "k" } as never,
      { ...put("b", bytes), inode: "k" } as never
    ])
    await apply(store, branch, [{ op: "splice", path: "b", offset: 5, deleteCount: 2, bytes: "xyz" }])
    expect(await idAt(store, branch, "a")).toBe(await idAt(store, branch, "b"))
    const all = Buffer.from(await store.call("readAt", { ref: branch, path: "a" }))
    expect(all.equals(Buffer.concat([bytes.subarray(0, 5), Buffer.from("xyz"), bytes.subarray(7)]))).toBe(true)
    expect(
      await apply(store, branch, [{ op: "splice", path: "a", offset: 5, deleteCount: 3, bytes: "xyz" }])
    ).toMatchObject({
      outcome: "unchanged"
    })
  })

  it("W4 a splice outside of the file is refused with its size, as is one of something else, and nothing is changed", async () => {
    const { store, branch } = await empty()
    await commitInto(store, branch, [put("f", "0123456789"), { op: "putSymlink", path: "l", target: "f", mtimeNs: 1n }])
    const { head } = await store.call("branch", { id: branch })
    const refused = (operation: object) => apply(store, branch, [operation as never]).catch((error: unknown) => error)
    const splice = { op: "splice", path: "f", offset: 9, deleteCount: 2, bytes: "" }
    expect(await refused(splice)).toMatchObject({ _tag: "PathError", reason: "outOfBounds", path: "f", size: 10 })
    expect(await refused({ ...splice, offset: 11, deleteCount: 0 })).toMatchObject({ reason: "outOfBounds", size: 10 })
    expect(await refused({ ...splice, path: "none" })).toMatchObject({ reason: "notFound" })
    for (const wrong of [
      { offset: -1 },
      { offset: 0.5 },
      { deleteCount: "1" },
      { bytes: undefined },
      { offset: 2 ** 60 }
    ]) {
      expect(await refused({ ...splice, ...wrong })).toMatchObject({ reason: "invalid" })
    }
    expect((await store.call("branch", { id: branch })).head).toBe(head)
    await apply(store, branch, [{ ...splice, path: "l", offset: 10, deleteCount: 0, bytes: "!" } as never])
    expect(Buffer.from(await store.call("readAt", { ref: branch, path: "f" })).toString()).toBe("0123456789!")
  })

  it("C21 a range is read alone: what there is of it, nothing beyond the end, and no nonsense", async () => {
    const { store, branch } = await empty()
    const bytes = seeded(8, 4 * MiB)
    await apply(store, branch, [{ op: "write", path: "f", bytes }])
    const read = async (offset?: number, length?: number) =>
      Buffer.from(
        await store.call("readAt", {
          ref: branch,
          path: "f",
          range: { ...(offset === undefined ? {} : { offset }), ...(length === undefined ? {} : { length }) }
        })
      )
    expect((await read(MiB + 1, 4096)).equals(bytes.subarray(MiB + 1, MiB + 4097))).toBe(true)
    expect((await read(bytes.length - 10)).equals(bytes.subarray(-10))).toBe(true)
    expect((await read(undefined, 7)).equals(bytes.subarray(0, 7))).toBe(true)
    expect((await read(bytes.length + 1, 7)).length).toBe(0)
    expect((await read()).equals(bytes)).toBe(true)
    await expect(read(-1, 1)).rejects.toMatchObject({ reason: "invalid" })
    await expect(read(0, 1.5)).rejects.toMatchObject({ reason: "invalid" })
  })

  it("C19 L15 a file of 1 TiB without bytes is captured, read in ranges and refused as a whole with its size", async () => {
    const { store, branch } = await empty()
    const hole = join(scratch(), "hole")
    fs.writeFileSync(hole, "")
    fs.truncateSync(hole, 2 ** 40)
    await commitInto(store, branch, [{ ...put("hole", ""), content: { file: latin(hole) } } as never])
    await apply(store, branch, [{ op: "splice", path: "hole", offset: 2 ** 39, deleteCount: 4, bytes: "data" }])
    const range = { offset: 2 ** 39 - 2, length: 8 }
    const some = Buffer.from(await store.call("readAt", { ref: branch, path: "hole", range }))
    expect(some.toString()).toBe("\0\0data\0\0")
    await expect(store.call("readAt", { ref: branch, path: "hole" })).rejects.toMatchObject({
      reason: "tooLarge",
      size: 2 ** 40
    })
    const target = join(scratch(), "out")
    await store.call("materialise", { commit: branch, target: latin(target) })
    const stat = fs.statSync(join(target, "hole"))
    expect([stat.size, stat.blocks * 512 < MiB]).toEqual([2 ** 40, true])
    const fd = fs.openSync(join(target, "hole"), "r")
    const back = Buffer.alloc(8)
    fs.readSync(fd, back, 0, 8, range.offset)
    fs.closeSync(fd)
    expect(back.equals(some)).toBe(true)
  })

  it("L10 C20 a flipped bit in a chunk of a large file is named with its path, and the file is not handed out", async () => {
    const { store, branch, directory } = await empty()
    const bytes = seeded(11, 2 * MiB)
    await apply(store, branch, [{ op: "write", path: "d", bytes: "small" }])
    await apply(store, branch, [{ op: "write", path: "f", bytes }])
    await store.close()
    const pack = join(directory, "layerfs/packs/000001.pack")
    const raw = fs.readFileSync(pack)
    const at = raw.indexOf(bytes.subarray(MiB, MiB + 64))
    expect(at).toBeGreaterThan(0)
    raw[at + 5]! ^= 1
    fs.writeFileSync(pack, raw)
    const again = await open(directory)
    const report = await again.call("verify", {})
    expect(report.ok).toBe(false)
    expect(report.damaged.flatMap((one) => one.paths.map((path) => path.path))).toContain("f")
    await expect(again.call("readAt", { ref: branch, path: "f" })).rejects.toMatchObject({ _tag: "ObjectDamaged" })
    expect(Buffer.from(await again.call("readAt", { ref: branch, path: "d" })).toString()).toBe("small")
  })
})
