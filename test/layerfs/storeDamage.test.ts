/** Bytes that rot, and a format that changes. Rules: L10, W3 (verify); G5 for the index. */
import { createHash } from "node:crypto"
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
  mkdirSync
} from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import { Database } from "../../src/sqlite/Database.ts"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { put } from "./storeChange.ts"
import { commitInto, importInto, open, scratch } from "./storeFixture.ts"

/** Inverts one byte of a file. */
const flip = (path: string, at: number): void => {
  const fd = openSync(path, "r+")
  const byte = Buffer.alloc(1)
  readSync(fd, byte, 0, 1, at)
  byte[0] = byte[0]! ^ 0xff
  writeSync(fd, byte, 0, 1, at)
  closeSync(fd)
}

describe("damage", () => {
  it("L10 a file below a directory is named also where the commit's times are lost with it", async () => {
    const source = scratch()
    mkdirSync(join(source, "d"))
    writeFileSync(join(source, "d/a"), "content of a")
    const store = await open(join(scratch(), "s"))
    await importInto(store, source)
    const index = new DatabaseSync(store.directories.index)
    const lose = index.prepare("DELETE FROM objects WHERE id = ?")
    for (const row of index.prepare("SELECT times FROM commits").all()) lose.run(row["times"] as Uint8Array)
    lose.run(createHash("sha256").update("content of a").digest())
    index.close()
    const { damaged } = await store.call("verify", {})
    const named = damaged.flatMap((one) => one.paths.map((path) => path.path)).sort()
    expect(named).toEqual(["", "d/a"])
  })

  it("L10 whatever byte of a pack is damaged, nothing wrong is handed out, nothing is left at a target, and verify names it", async () => {
    const source = scratch()
    mkdirSync(join(source, "d"))
    writeFileSync(join(source, "d/a"), "content of a ".repeat(50))
    writeFileSync(join(source, "b"), Buffer.from(Array.from({ length: 3000 }, (_, i) => (i * 7919) % 251)))
    const directory = join(scratch(), "s")
    const first = await open(directory)
    const receipt = await importInto(first, source)
    await first.close()
    const pack = join(first.directories.packs, readdirSync(first.directories.packs)[0]!)
    const length = statSync(pack).size
    for (let at = 0; at < length; at += Math.ceil(length / 6)) {
      flip(pack, at)
      const store = await openLayerStore({ store: directory })
      const target = join(directory, "out")
      try {
        const report = await store.call("verify", {})
        expect(report.ok, `byte ${at}`).toBe(false)
        expect(report.damaged.length).toBeGreaterThan(0)
        await expect(store.call("materialise", { commit: receipt.commit, target }), `byte ${at}`).rejects.toMatchObject(
          {
            _tag: "ObjectDamaged"
          }
        )
        expect(existsSync(target)).toBe(false)
        const named = report.damaged.flatMap((one) => one.paths.map((path) => path.path))
        expect(named.length, `byte ${at}`).toBeGreaterThan(0)
      } finally {
        await store.close()
        flip(pack, at)
      }
    }
    const store = await open(directory)
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
  })

  it("L10 a lost index row and a lost pack are damage with a name, not a crash", async () => {
    const source = scratch()
    writeFileSync(join(source, "a"), "a")
    const directory = join(scratch(), "s")
    const first = await open(directory)
    const receipt = await importInto(first, source)
    const entry = await first.call("entry", { ref: receipt.commit, path: "a" })
    await first.close()
    const db = Database.open(first.directories.index)
    db.run("DELETE FROM objects WHERE id = ?", Buffer.from(entry!.id!.slice(7), "hex"))
    db.close()
    const store = await open(directory)
    expect(await store.call("verify", {})).toMatchObject({
      ok: false,
      damaged: [{ object: entry!.id, paths: [{ path: "a" }] }]
    })
    await expect(store.call("content", { id: entry!.id!, size: 1 })).rejects.toMatchObject({
      _tag: "ObjectDamaged",
      object: entry!.id
    })
  })

  it("L10 L11 a damaged object is named with the paths and the commits that want it, newest first, and not with those that do not", async () => {
    const source = scratch()
    writeFileSync(join(source, "a"), "first ".repeat(20))
    writeFileSync(join(source, "b"), "stays")
    const directory = join(scratch(), "s")
    const first = await open(directory)
    const { layer, commit } = await importInto(first, source)
    const { id: branch } = await first.call("fork", { from: layer, name: "b" })
    const second = (await commitInto(first, branch, [put("c", "another")])).commit
    const third = (await commitInto(first, branch, [put("a", "second")])).commit
    const entry = await first.call("entry", { ref: commit, path: "a" })
    const before = await first.call("stats", {})
    await first.close()
    const db = Database.open(first.directories.index)
    db.run("DELETE FROM objects WHERE id = ?", Buffer.from(entry!.id!.slice(7), "hex"))
    db.close()
    const store = await open(directory)
    expect(await store.call("verify", {})).toMatchObject({
      ok: false,
      damaged: [{ object: entry!.id, paths: [{ path: "a" }], commits: [second, commit], commitCount: 2 }],
      index: [],
      unreferencedBytes: 0
    })
    expect(third).not.toBe(second)
    expect(before).toMatchObject({
      commits: 3,
      layers: 1,
      branches: 1,
      freeBytes: 0,
      logicalBytes: null,
      dedupRatio: null
    })
    expect(before.uniqueBytes!).toBeGreaterThan(before.metadataBytes!)
    expect(before.metadataBytes!).toBeGreaterThan(0)
    expect(before.compressionRatio).toBe(before.uniqueBytes! / before.storedBytes!)
    expect((await store.call("stats", {})).uniqueBytes).toBe(before.uniqueBytes! - 120)
  })

  it("L10 an index whose rows and search trees do not agree is said by verify, and what can be read is read", async () => {
    const directory = join(scratch(), "s")
    const first = await open(directory)
    const source = scratch()
    writeFileSync(join(source, "a"), "a")
    await importInto(first, source)
    await first.close()
    const db = new DatabaseSync(first.directories.index)
    // Rows under an index that does not know them: what a torn page leaves.
    db.exec("CREATE TABLE extra (x INTEGER); CREATE INDEX extra_x ON extra (x); INSERT INTO extra VALUES (1)")
    const { rootpage } = db.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'extra_x'").get() as {
      rootpage: number
    }
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
    const { page_size: size } = db.prepare("PRAGMA page_size").get() as { page_size: number }
    db.close()
    // The index's leaf says that it has no cell (bytes 3 and 4 of a page, sqlite.org/fileformat2.html 1.6).
    const bytes = readFileSync(first.directories.index)
    bytes.writeUInt16BE(0, (rootpage - 1) * size + 3)
    writeFileSync(first.directories.index, bytes)
    const store = await open(directory)
    const report = await store.call("verify", {})
    expect([report.ok, report.damaged]).toEqual([false, []])
    expect(report.index.join("\n")).toMatch(/extra_x/)
  })

  it("G5 L10 what a newer Coppice wrote while the store was open is not called damage: reading and verify say that the store has moved", async () => {
    const source = scratch()
    writeFileSync(join(source, "a"), "content of a")
    const store = await open(join(scratch(), "s"))
    const { commit } = await importInto(store, source)
    const index = new DatabaseSync(store.directories.index)
    const version = Number(index.prepare("PRAGMA user_version").get()!["user_version"])
    // As a form of objects that this version does not know.
    index.exec("UPDATE groups SET framed = 1; PRAGMA user_version = 99")
    const moved = { _tag: "StoreMoved", actual: 99 }
    await expect(store.call("readAt", { ref: commit, path: "a" })).rejects.toMatchObject(moved)
    await expect(store.call("verify", {})).rejects.toMatchObject(moved)
    index.exec(`PRAGMA user_version = ${version}`)
    index.close()
    await expect(store.call("readAt", { ref: commit, path: "a" })).rejects.toMatchObject({ _tag: "ObjectDamaged" })
  })

  it("G5 an index of a newer version is refused with nothing changed", async () => {
    const directory = join(scratch(), "s")
    const first = await open(directory)
    await first.close()
    const db = Database.open(first.directories.index)
    db.raw.exec("PRAGMA user_version = 99")
    db.close()
    await expect(openLayerStore({ store: directory })).rejects.toMatchObject({ _tag: "StoreMoved", actual: 99 })
  })

  it("G5 L12 a store of a newer format, and an index of another program, are refused with nothing changed", async () => {
    const directory = join(scratch(), "s")
    const first = await open(directory)
    await first.close()
    const { index } = first.directories
    const db = Database.open(index)
    db.run("INSERT INTO store (format, id, made_at) VALUES (77, 'sto_x', 1)")
    db.run("DELETE FROM store WHERE format < 77")
    db.close()
    await expect(openLayerStore({ store: directory })).rejects.toMatchObject({ _tag: "StoreMoved", actual: 77 })
    for (const version of [0, 2, 99]) {
      rmSync(index)
      const other = new DatabaseSync(index)
      other.exec(`CREATE TABLE notes (text TEXT); PRAGMA user_version = ${version}`)
      other.close()
      const before = readFileSync(index)
      await expect(openLayerStore({ store: directory }), `version ${version}`).rejects.toMatchObject({
        _tag: "StoreMoved"
      })
      expect(readFileSync(index).equals(before)).toBe(true)
    }
  })
})
