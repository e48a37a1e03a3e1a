/** Everything that a store can hold comes over: what released formats wrote, files with holes, wide and deep directories. Rules: L13, L10, L15, W6. */
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, it, vi } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { latin, logOf, put } from "./storeChange.ts"
import { apply, commitInto, importInto, open, scratch } from "./storeFixture.ts"

vi.setConfig({ testTimeout: 240_000 })

/** Takes a ref with its history into a new store, whole and in one state, and compares what every commit holds. */
const comesOver = async (store: LayerStore, ref: string): Promise<void> => {
  const commits = await logOf(store, ref)
  for (const history of [true, false]) {
    const target = latin(join(scratch(), "b"))
    await store.call("exportBundle", { ref, target, history })
    const other = await open(join(scratch(), "s"))
    await other.call("importBundle", { source: target })
    expect(await other.call("verify", {})).toMatchObject({ ok: true, damaged: [], index: [] })
    for (const { id } of history ? commits : commits.slice(0, 1)) {
      expect(await other.call("treeDigest", { ref: id })).toEqual(await store.call("treeDigest", { ref: id }))
      expect(await other.call("resolve", { ref: id })).toEqual(await store.call("resolve", { ref: id }))
    }
    await other.close()
  }
}

it.each(["layerfs-format-1", "layerfs-format-2", "layerfs-format-3"])(
  "L13 L15 G5 a bundle of the golden store %s",
  async (name) => {
    const golden = fileURLToPath(new URL(`../golden/${name}`, import.meta.url))
    const directory = scratch()
    for (const part of ["", "/packs", "/cache", "/work"]) mkdirSync(`${directory}/layerfs${part}`, { mode: 0o700 })
    for (const file of readdirSync(golden)) {
      if (file === "index.db") copyFileSync(join(golden, file), `${directory}/layerfs/${file}`)
      if (file.endsWith(".pack")) copyFileSync(join(golden, file), `${directory}/layerfs/packs/${file}`)
    }
    const { branch } = JSON.parse(readFileSync(join(golden, "expected.json"), "utf8")) as { readonly branch: string }
    await comesOver(await open(directory), branch)
  }
)

it("L13 L15 W6 a bundle of holes, zeros, empty files, links, wide and deep directories, edited large files, packed anew or not", async () => {
  const source = scratch()
  const sparse = (path: string, length: number): void => {
    writeFileSync(join(source, path), "")
    truncateSync(join(source, path), length)
  }
  sparse("hole", 50_000_000)
  sparse("block", 4 * 1024 * 1024)
  sparse("page", 512 * 1024)
  sparse("above", 512 * 1024 + 1)
  writeFileSync(join(source, "mixed"), Buffer.concat([Buffer.from("a"), Buffer.alloc(3_000_000), Buffer.from("z")]))
  writeFileSync(join(source, "zeros"), Buffer.alloc(4 * 1024 * 1024))
  writeFileSync(join(source, "empty"), "")
  mkdirSync(join(source, "wide"))
  for (let n = 0; n < 700; n += 1) writeFileSync(join(source, "wide", `${n}`), n % 3 === 0 ? "" : `${n}`)
  mkdirSync(join(source, ...Array.from({ length: 60 }, () => "deep")), { recursive: true })
  linkSync(join(source, "mixed"), join(source, "linked"))
  symlinkSync("mixed", join(source, "link"))
  const store = await open(join(scratch(), "s"))
  const { layer } = await importInto(store, source)
  const { id: branch } = await store.call("fork", { from: layer, name: "b" })
  await apply(store, branch, [
    { op: "splice", path: "mixed", offset: 1_000_000, deleteCount: 5, bytes: Buffer.from("spliced") },
    { op: "splice", path: "hole", offset: 49_999_999, deleteCount: 1, bytes: Buffer.from("end") }
  ])
  await comesOver(store, branch)
  await store.call("compact", { maxMs: null, maxBytes: null })
  await comesOver(store, branch)
})

it("L13 L10 bytes that are the content of a file and a directory's too come over as what they are used as", async () => {
  const source = scratch()
  writeFileSync(join(source, "f"), "f")
  const store = await open(join(scratch(), "s"))
  const { layer } = await importInto(store, source)
  const { id: branch } = await store.call("fork", { from: layer, name: "b" })
  // Those of an empty directory: first of a file alone, then of both, then of the directory alone.
  await commitInto(store, branch, [put("tree", Buffer.from("T\u0001\0\0\0\0\0", "latin1"))])
  await comesOver(store, branch)
  await commitInto(store, branch, [{ op: "putDirectory", path: "none", mode: 0o755, mtimeNs: 1n, replace: true }])
  await comesOver(store, branch)
  await commitInto(store, branch, [{ op: "remove", path: "tree" }])
  await comesOver(store, branch)
})
