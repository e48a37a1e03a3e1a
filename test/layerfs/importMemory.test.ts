/** A second import of the same source: what it may take as known, and what it must read again. Rules: W13, L8, L10, L14; C5. */
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { describe, expect, it, vi } from "vitest"
import { ImportMemory } from "../../providers/layerfs/ImportMemory.ts"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { stamping } from "../../providers/layerfs/ImportTrust.ts"
import { scan, type ScannedFile } from "../../src/workspace/kit/ImportScan.ts"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { latin } from "./storeChange.ts"
import { importInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"

vi.setConfig({ testTimeout: 240_000 })

/** A page of a memory map may stay dirty longer: none is mapped here. */
const openQuick = (store: string): Promise<LayerStore> => open(store, 2_000_000_000n)

/** Until every file is old enough for that: both its times more than two seconds ago. */
const settled = async (source: string): Promise<void> => {
  const latest = Math.max(...readdirSync(source).map((name) => lstatSync(join(source, name)).ctimeMs))
  while (Date.now() - latest < 2100) await delay(100)
}

const filesOf = async (source: string): Promise<ReadonlyMap<string, ScannedFile>> => {
  const { files } = await scan(
    latin(source),
    new ImportNotes(),
    () => {},
    () => {}
  )
  return new Map(files.map((file) => [file.path, file]))
}

const memoryOf = (store: LayerStore): string => {
  const { cache } = store.directories
  const names = readdirSync(cache).filter((name) => name.startsWith("import-"))
  expect(names).toHaveLength(1)
  return join(cache, names[0]!)
}

const remembered = (store: LayerStore, source: string): ImportMemory =>
  ImportMemory.open(store.directories.cache, latin(source), () => true)

const contents = async (store: LayerStore, ref: string): Promise<Record<string, string | null>> =>
  Object.fromEntries((await store.call("list", { ref, path: "" }))!.map((entry) => [entry.name, entry.id]))

// Where the scratch directories lie on a file system that is not trusted, nothing is ever known again (see importMapped.test.ts).
describe.skipIf(!stamping.has(statfsSync(tmpdir()).type))("a second import", () => {
  it("W13 C5 takes as known what nobody touched, reads the rest, and gives the tree that a first import gives", async () => {
    const source = scratch()
    for (const name of ["same", "edited", "touched", "replaced", "gone"]) writeFileSync(join(source, name), `${name} 1`)
    writeFileSync(join(source, "large"), Buffer.alloc(3_000_000, "large"))
    writeFileSync(join(source, ".env"), "TOKEN=1\n")
    utimesSync(join(source, "edited"), 1_700_000_000, 1_700_000_000)
    await settled(source)
    const store = await openQuick(join(scratch(), "s"))
    const first = await importInto(store, source)
    const memory = remembered(store, source)
    const before = await filesOf(source)
    for (const [path, file] of before) {
      const id = (await store.call("entry", { ref: first.commit, path }))!.id
      expect([path, memory.find(file)?.id]).toEqual([path, id])
    }
    // The same bytes once more: only the times differ. And other bytes of the same size, with the old mtime.
    writeFileSync(join(source, "edited"), "edited 2")
    utimesSync(join(source, "edited"), 1_700_000_000, 1_700_000_000)
    writeFileSync(join(source, "touched"), "touched 1")
    writeFileSync(join(source, "other"), "replaced 2")
    copyFileSync(join(source, "other"), join(source, "replaced"))
    const after = await filesOf(source)
    const known = [...after].filter(([, file]) => memory.find(file) !== undefined).map(([path]) => path)
    expect(known.sort()).toEqual([".env", "gone", "large", "same"])
    const second = await importInto(store, source)
    const fresh = await openQuick(join(scratch(), "s"))
    const anew = await importInto(fresh, source)
    expect(await contents(store, second.commit)).toEqual(await contents(fresh, anew.commit))
    expect([second.root, second.files, second.bytes]).toEqual([anew.root, anew.files, anew.bytes])
    // What the bytes of a file say is told again, though nobody read them.
    expect(second.notes).toEqual(anew.notes)
    expect(second.noteCounts).toEqual({ likelySecret: 1 })
    expect(await unsound(store)).toEqual([])
  })

  it("W13 does not read what it knows: a memory that says something else is believed until the file is touched", async () => {
    const source = scratch()
    writeFileSync(join(source, "a"), "content of a")
    writeFileSync(join(source, "b"), "content of b")
    await settled(source)
    const store = await openQuick(join(scratch(), "s"))
    await importInto(store, source)
    // The two files change places behind the memory's back, which no file system does: inode and times stay.
    const path = memoryOf(store)
    const { hash } = await import("node:crypto")
    const { zstdCompressSync, zstdDecompressSync } = await import("node:zlib")
    const bytes = zstdDecompressSync(readFileSync(path).subarray(32))
    const [a, b] = [sha256("content of a"), sha256("content of b")].map((id) => Buffer.from(id.slice(7), "hex"))
    const [at, bt] = [bytes.indexOf(a!), bytes.indexOf(b!)]
    b!.copy(bytes, at)
    a!.copy(bytes, bt)
    const packed = zstdCompressSync(bytes)
    writeFileSync(path, Buffer.concat([hash("sha256", packed, "buffer"), packed]))
    const believed = await importInto(store, source)
    expect(await contents(store, believed.commit)).toEqual({ a: sha256("content of b"), b: sha256("content of a") })
    writeFileSync(join(source, "a"), "content of a")
    const again = await importInto(store, source)
    expect(await contents(store, again.commit)).toEqual({ a: sha256("content of a"), b: sha256("content of a") })
  })

  it("C5 a file that changed less than two seconds before it was read is not remembered", async () => {
    const source = scratch()
    writeFileSync(join(source, "old"), "old")
    await settled(source)
    writeFileSync(join(source, "new"), "new")
    const store = await openQuick(join(scratch(), "s"))
    await importInto(store, source)
    const files = await filesOf(source)
    const memory = remembered(store, source)
    expect(memory.find(files.get("old")!)?.id).toBe(sha256("old"))
    const age = Date.now() - statSync(join(source, "new")).ctimeMs
    // Only a machine that took two seconds from the write to the scan may have remembered it.
    if (age < 2000) expect(memory.find(files.get("new")!)).toBe(undefined)
    // The edit that a clock of two seconds would not show: same size, same times.
    expect(memory.find({ ...files.get("old")!, ctimeNs: files.get("old")!.ctimeNs + 1n })).toBe(undefined)
    expect(memory.find({ ...files.get("old")!, ino: files.get("old")!.ino + 1n })).toBe(undefined)
  })

  it("L10 L14 a memory with a flipped bit, cut off, of another place or of a lost store is as none", async () => {
    const source = scratch()
    for (let n = 0; n < 50; n += 1) writeFileSync(join(source, `f${n}`), `file ${n}`)
    await settled(source)
    const store = await openQuick(join(scratch(), "s"))
    const { root } = await importInto(store, source)
    const path = memoryOf(store)
    const good = readFileSync(path)
    const file = [...(await filesOf(source)).values()][0]!
    expect(remembered(store, source).find(file)).toBeDefined()
    for (let at = 0; at < good.length; at += 97) {
      const bad = Buffer.from(good)
      bad[at]! ^= 1 << (at % 8)
      writeFileSync(path, bad)
      expect([at, remembered(store, source).find(file)]).toEqual([at, undefined])
    }
    writeFileSync(path, good.subarray(0, good.length - 1))
    expect(remembered(store, source).find(file)).toBe(undefined)
    expect((await importInto(store, source)).root).toBe(root)
    expect(ImportMemory.open(store.directories.cache, latin(source), () => false).find(file)).toBe(undefined)
    const elsewhere = scratch()
    expect(ImportMemory.open(store.directories.cache, latin(elsewhere), () => true).find(file)).toBe(undefined)
  })

  it("L8 killed while it writes what it remembers, or unable to write it, an import stands, and the next one reads anew", async () => {
    const source = scratch()
    mkdirSync(join(source, "d"))
    for (let n = 0; n < 30; n += 1) writeFileSync(join(source, "d", `${n}`), `file ${n}`)
    const directory = join(scratch(), "s")
    const killed = await child([directory, "import", source], { COPPICE_CRASH_AT: "layerfs.import.remembering" })
    expect(killed.signal).toBe("SIGKILL")
    const failed = await child([directory, "import", source, "1", "x"], {
      COPPICE_FAULT_AT: "layerfs.import.remember:1"
    })
    expect(failed.said.map((line) => line.error)).toEqual([undefined, undefined, undefined])
    const store = await open(directory)
    expect(await unsound(store)).toEqual([])
    const first = await store.call("findOperation", { operationId: "op_import" })
    expect(first).not.toBe(null)
    const { root } = await store.call("resolve", { ref: first!.commit })
    expect((await store.call("resolve", { ref: failed.said[1]!.commit! })).root).toBe(root)
    expect((await importInto(store, source)).root).toBe(root)
  })
})
