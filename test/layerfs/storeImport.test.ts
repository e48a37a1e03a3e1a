/** What an import meets in the field. Rules: W13, W14, L12, L15; C8, C17, C19 (holes), C20. */
import { execFileSync } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { scan } from "../../src/workspace/kit/ImportScan.ts"
import { networkFileSystem } from "../../src/workspace/kit/StoreDirectory.ts"
import { ProgressMeter } from "../../src/workspace/kit/ProgressMeter.ts"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { latin } from "./storeChange.ts"
import { atEnd, comparable, importInto, open, readTree, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const notesOf = (receipt: {
  readonly notes: readonly { readonly kind: string; readonly path: { readonly path: string } }[]
}) => receipt.notes.map((note) => `${note.kind} ${note.path.path}`).sort()

describe("import", () => {
  it("W13 C17 sockets, fifos, devices, pointer files, leaving links and likely secrets are listed, and the rest is stored", async () => {
    const source = scratch()
    const server = createServer().listen(join(source, "socket"))
    atEnd(() => server.close())
    await new Promise((resolve) => server.once("listening", resolve))
    execFileSync("mkfifo", [join(source, "fifo")])
    if (process.getuid?.() === 0) execFileSync("mknod", [join(source, "device"), "c", "1", "3"])
    writeFileSync(join(source, ".git"), "gitdir: ../elsewhere\n")
    writeFileSync(join(source, ".env"), "TOKEN=1\n")
    writeFileSync(join(source, ".env.example"), "TOKEN=\n")
    writeFileSync(join(source, "id_ed25519"), "key\n")
    symlinkSync("../outside", join(source, "up"))
    symlinkSync("/etc", join(source, "absolute"))
    symlinkSync("d/../file", join(source, "inside"))
    writeFileSync(join(source, "file"), "kept")
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    expect(notesOf(receipt)).toEqual(
      [
        "gitPointerFile .git",
        "likelySecret .env",
        "likelySecret id_ed25519",
        "linkLeavesRoot absolute",
        "linkLeavesRoot up",
        "skippedSpecialFile fifo",
        "skippedSpecialFile socket",
        ...(process.getuid?.() === 0 ? ["skippedSpecialFile device"] : [])
      ].sort()
    )
    expect((await store.call("list", { ref: receipt.commit, path: "" }))!.map((entry) => entry.name)).toEqual([
      ".env",
      ".env.example",
      ".git",
      "absolute",
      "file",
      "id_ed25519",
      "inside",
      "up"
    ])
  })

  it("W13 C17 files that grow, vanish or are swapped while read: stored bytes equal the recorded size, and import goes on", async () => {
    const source = scratch()
    for (let i = 0; i < 600; i += 1) writeFileSync(join(source, `f${i}`), `${i}`.repeat(200))
    writeFileSync(join(source, "growing"), "")
    writeFileSync(join(source, "z-vanishing"), "gone soon")
    const store = await open(join(scratch(), "s"))
    const growing = openSync(join(source, "growing"), "a")
    let stopped = false
    const disturb = (): void => {
      if (stopped) return
      appendFileSync(growing, "0123456789".repeat(30))
      setTimeout(disturb, 1)
    }
    disturb()
    let scanned = false
    const receipt = await store.call(
      "importDirectory",
      { source: latin(source), name: "t", operationId: "op_1", at: 1 },
      {
        onProgress: (progress) => {
          if (scanned || progress.phase !== "store") return
          scanned = true
          rmSync(join(source, "z-vanishing"), { force: true })
        }
      }
    )
    stopped = true
    closeSync(growing)
    for (const entry of (await store.call("list", { ref: receipt.commit, path: "" }))!) {
      const bytes = await store.call("content", { id: entry.id!, size: entry.size })
      expect(bytes.length, entry.name).toBe(entry.size)
    }
    expect(receipt.files).toBe((await store.call("list", { ref: receipt.commit, path: "" }))!.length)
    const vanished = notesOf(receipt).includes("vanished z-vanishing")
    expect(receipt.files).toBe(vanished ? 601 : 602)
  })

  it("W13 C17 a directory that becomes a link out of the source during the walk brings nothing from there", async () => {
    const [source, outside] = [scratch(), scratch()]
    for (const root of [join(source, "d"), outside]) {
      mkdirSync(root, { recursive: true })
      writeFileSync(join(root, `in-${root === outside ? "outside" : "source"}`), "f")
    }
    mkdirSync(join(source, "e"))
    writeFileSync(join(source, "z"), "met after d was looked at, and before it is read")
    const notes = new ImportNotes()
    const found = await scan(
      latin(source),
      notes,
      () => {},
      (file) => {
        if (file.name !== "z") return
        rmSync(join(source, "d"), { recursive: true })
        symlinkSync(outside, join(source, "d"))
      }
    )
    expect(found.files.map((file) => file.path)).toEqual(["z"])
    expect(notes.forReceipt().notes).toMatchObject([{ kind: "vanished", path: { path: "d" } }])
  })

  it("W13 C8 a store inside the import, and an import inside the store, are refused before anything is stored", async () => {
    const source = scratch()
    writeFileSync(join(source, "f"), "x")
    const before = readdirSync(source)
    const inside = await provider(join(source, "nested/store"))
    expect(await failure(inside.importDirectory({ source }))).toMatchObject({
      _tag: "ImportRefused",
      reason: "storeInside"
    })
    expect(await run(inside.stats)).toMatchObject({ commits: 0, objects: 0 })
    symlinkSync(source, join(source, "nested/again"))
    expect(await failure(inside.importDirectory({ source: join(source, "nested/again") }))).toMatchObject({
      reason: "storeInside"
    })
    const outside = scratch()
    const fs = await provider(outside)
    expect(await failure(fs.importDirectory({ source: join(outside, "layerfs/packs") }))).toMatchObject({
      _tag: "ImportRefused",
      reason: "insideStore"
    })
    expect(await failure(fs.importDirectory({ source: join(source, "none") }))).toMatchObject({ reason: "notFound" })
    expect(await failure(fs.importDirectory({ source: join(source, "f") }))).toMatchObject({ reason: "notADirectory" })
    expect(readdirSync(source)).toEqual([...before, "nested"].sort())
  })

  it("W13 C17 what is a view of the kernel's is refused at once, and nothing of it is read or stored", async () => {
    const fs = await provider(scratch())
    for (const source of ["/proc", "/proc/self", "/sys"]) {
      expect(await failure(fs.importDirectory({ source }))).toMatchObject({ _tag: "ImportRefused", reason: "notFiles" })
    }
    expect(await run(fs.stats)).toMatchObject({ commits: 0, objects: 0 })
  })

  it("W13 an empty directory is a tree like any other", async () => {
    const source = scratch()
    const fs = await provider(join(scratch(), "s"))
    const receipt = await run(fs.importDirectory({ source }))
    expect(receipt).toMatchObject({ files: 0, directories: 0, bytes: 0, notes: [] })
    const branch = await run(fs.fork(receipt.layer))
    expect(await run(fs.listAt(branch.id, ""))).toEqual([])
    await run(fs.applyTo(branch.id, [{ op: "write", path: "first", bytes: "1" }]))
    const target = join(scratch(), "out")
    await run(fs.exportDirectory(branch.id, target))
    expect(readdirSync(target)).toEqual(["first"])
    const bare = join(scratch(), "bare")
    await run(fs.exportDirectory(receipt.commit, bare))
    expect(comparable(readTree(bare))).toEqual({})
    expect(lstatSync(bare).mode).toBe(lstatSync(source).mode)
  })

  it("W14 an import reports phases with files and bytes, and a cancelled one leaves nothing", async () => {
    const source = scratch()
    for (let i = 0; i < 400; i += 1) writeFileSync(join(source, `f${i}`), `${i} `.repeat(9000))
    const store = await open(join(scratch(), "s"))
    const controller = new AbortController()
    const seen: Progress[] = []
    const cancelled = store.call(
      "importDirectory",
      { source: latin(source), name: "t", operationId: "op_1", at: 1 },
      {
        signal: controller.signal,
        onProgress: (progress) => {
          seen.push(progress)
          controller.abort()
        }
      }
    )
    await expect(cancelled).rejects.toMatchObject({ _tag: "ImportRefused", reason: "cancelled" })
    expect(await store.call("stats", {})).toMatchObject({ commits: 0, objects: 0 })
    expect(await store.call("findOperation", { operationId: "op_1" })).toBe(null)
    seen.length = 0
    const input = { source: latin(source), name: "t", operationId: "op_1", at: 1 }
    const receipt = await store.call("importDirectory", input, { onProgress: (progress) => seen.push(progress) })
    expect(seen.at(-1)).toMatchObject({ phase: "commit", files: 400, bytes: receipt.bytes, totalFiles: 400 })
    expect(seen.filter((progress) => progress.phase === "store").at(-1)).toMatchObject({
      files: 400,
      bytes: receipt.bytes
    })
    expect(await store.call("importDirectory", input)).toEqual(receipt)
    expect(await store.call("stats", {})).toMatchObject({ commits: 1 })
  })

  it("W14 import, export, materialise and verify report each phase from its first to its last file, and no count goes down", async () => {
    const source = scratch()
    for (let i = 0; i < 300; i += 1) writeFileSync(join(source, `f${i}`), `${i} `.repeat(2000))
    const store = await open(join(scratch(), "s"))
    let seen: Progress[] = []
    const onProgress = (progress: Progress): void => void seen.push(progress)
    const phases = (): string[] => [...new Set(seen.map(({ phase }) => phase))]
    const check = (phase: Progress["phase"], files: number): void => {
      const events = seen.filter((progress) => progress.phase === phase)
      expect(events.at(-1), phase).toMatchObject({ files, totalFiles: files })
      expect(events.at(-1)!.bytes).toBe(events.at(-1)!.totalBytes)
      for (const [i, event] of events.entries()) {
        expect(event.files).toBeGreaterThanOrEqual(events[i - 1]?.files ?? 0)
        expect(event.bytes).toBeGreaterThanOrEqual(events[i - 1]?.bytes ?? 0)
      }
      seen = seen.filter((progress) => progress.phase !== phase)
    }
    const input = { source: latin(source), name: "t", operationId: "op_1", at: 1 }
    const { commit } = await store.call("importDirectory", input, { onProgress })
    expect(phases()).toEqual(["scan", "store", "commit"])
    check("scan", 300)
    check("store", 300)
    check("commit", 300)
    for (const phase of ["materialise", "export"] as const) {
      await store.call("materialise", { commit, target: join(scratch(), "out"), phase }, { onProgress })
      expect(phases()).toEqual([phase])
      check(phase, 300)
    }
    await store.call("verify", {}, { onProgress })
    expect(phases()).toEqual(["verify"])
    check("verify", (await store.call("stats", {})).objects)
  })

  it("W14 ten thousand steps in a second are some twenty events, and the last of a phase is always among them", () => {
    const seen: Progress[] = []
    let now = 0
    const meter = new ProgressMeter(
      (progress) => seen.push(progress),
      () => now
    )
    const step = (phase: Progress["phase"], files: number): void =>
      meter.report({ phase, files, bytes: files * 2, totalFiles: 10_000, totalBytes: null })
    for (let i = 1; i <= 10_000; i += 1) {
      now += 0.1
      step("store", i)
    }
    // Read once more: neither back to the first file nor past the last.
    step("store", 5)
    step("store", 10_001)
    step("commit", 1)
    meter.end()
    meter.end()
    expect(seen.length).toBeLessThanOrEqual(23)
    expect(seen.at(-1)).toMatchObject({ phase: "commit", files: 1 })
    expect(seen.at(-2)).toEqual({ phase: "store", files: 10_000, bytes: 20_002, totalFiles: 10_000, totalBytes: null })
  })

  it("W14 a progress listener that throws ends its own call, and the store goes on", async () => {
    const source = scratch()
    writeFileSync(join(source, "f"), "x")
    const store = await open(join(scratch(), "s"))
    const broken = store.call(
      "importDirectory",
      { source: latin(source), name: "t", operationId: "op_1", at: 1 },
      {
        onProgress: () => {
          throw new Error("listener")
        }
      }
    )
    await expect(broken).rejects.toThrow("listener")
    await expect(store.call("log", { refs: (() => "") as never, path: null })).rejects.toThrow()
    expect(await importInto(store, source)).toMatchObject({ files: 1 })
  })

  it("L15 large files and holes come back whole, and a file without blocks is not read", async () => {
    const source = scratch()
    const size = 40 * 1024 * 1024 * 1024
    const hole = openSync(join(source, "hole"), "w")
    ftruncateSync(hole, 9 * 1024 * 1024)
    closeSync(hole)
    const block = Buffer.alloc(4 * 1024 * 1024, "x")
    writeFileSync(join(source, "exact"), block)
    writeFileSync(join(source, "above"), Buffer.concat([block, Buffer.from("y")]))
    writeFileSync(join(source, "zeros"), Buffer.alloc(4 * 1024 * 1024))
    for (const at of [Buffer.from("mixed"), Buffer.from([0x6d, 0xff, 0xfe]), Buffer.from(`deep${"x".repeat(240)}`)]) {
      const mixed = openSync(Buffer.concat([Buffer.from(`${source}/`), at]), "w")
      writeSync(mixed, "start")
      writeSync(mixed, "middle", 9 * 1024 * 1024)
      ftruncateSync(mixed, 30 * 1024 * 1024 + 1)
      closeSync(mixed)
    }
    execFileSync("touch", ["-d", "@1700000000.123456789", join(source, "hole"), join(source, "mixed")])
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    expect(receipt.storedBytes).toBeLessThan(100_000)
    const target = join(scratch(), "out")
    await store.call("materialise", { commit: receipt.commit, target })
    expect(comparable(readTree(target))).toEqual(comparable(readTree(source)))
    // Two blocks of 4 MiB hold something, and the short one at the end is written out; the rest stays a hole.
    expect(lstatSync(join(target, "mixed")).blocks * 512).toBeLessThanOrEqual(11 * 1024 * 1024)
    expect(lstatSync(join(target, "hole")).blocks * 512).toBeLessThanOrEqual(2 * 1024 * 1024)

    const huge = openSync(join(source, "huge"), "w")
    ftruncateSync(huge, size)
    closeSync(huge)
    const again = await importInto(store, source)
    expect(await store.call("entry", { ref: again.commit, path: "huge" })).toMatchObject({ size })
    const back = join(scratch(), "back")
    await store.call("materialise", { commit: again.commit, target: back })
    expect(lstatSync(join(back, "huge"))).toMatchObject({ size, blocks: 0 })
  })

  it("C20 two equal files are one object: an edit of one in a fork leaves the other and the store as they were", async () => {
    const source = scratch()
    writeFileSync(join(source, "one"), "same bytes")
    writeFileSync(join(source, "two"), "same bytes")
    const fs = await provider(join(scratch(), "s"))
    const { layer } = await run(fs.importDirectory({ source }))
    const branch = await run(fs.fork(layer))
    await run(fs.applyTo(branch.id, [{ op: "write", path: "one", bytes: "other" }]))
    expect(Buffer.from(await run(fs.readAt(branch.id, "two"))).toString()).toBe("same bytes")
    expect(Buffer.from(await run(fs.readAt(layer, "one"))).toString()).toBe("same bytes")
    expect(await run(fs.verify())).toMatchObject({ ok: true })
    const target = join(scratch(), "out")
    await run(fs.exportDirectory(layer, target))
    expect([statSync(join(target, "one")).nlink, statSync(join(target, "two")).nlink]).toEqual([1, 1])
    expect(readFileSync(join(source, "one"), "utf8")).toBe("same bytes")
  })
})

describe("the store's directory", () => {
  it("L12 network file systems are known by their number, signed or not", () => {
    expect(networkFileSystem(0x6969)).toBe("nfs")
    expect(networkFileSystem(0xff534d42)).toBe("cifs")
    expect(networkFileSystem(0xff534d42 | 0)).toBe("cifs")
    expect(networkFileSystem(0xef53)).toBe(undefined)
  })

  it("L8 below a setgid directory of another group the store's own directories are ours alone", async () => {
    const team = scratch()
    if (process.getuid?.() === 0) chownSync(team, 0, 12_345)
    chmodSync(team, 0o2775)
    const store = await open(join(team, "s"))
    for (const path of [
      store.directories.root,
      store.directories.work,
      store.directories.cache,
      store.directories.packs
    ]) {
      const stat = lstatSync(path)
      expect([stat.uid, stat.gid, stat.mode & 0o7777]).toEqual([process.getuid?.(), process.getgid?.(), 0o700])
    }
  })

  it("L8 a store directory that others could write to is refused and left alone", async () => {
    const directory = scratch()
    mkdirSync(join(directory, "layerfs"))
    chmodSync(join(directory, "layerfs"), 0o777)
    await expect(openLayerStore({ store: directory })).rejects.toMatchObject({ _tag: "StoreLocation" })
    expect(lstatSync(join(directory, "layerfs")).mode & 0o7777).toBe(0o777)
    expect(readdirSync(join(directory, "layerfs"))).toEqual([])
    writeFileSync(join(directory, "file"), "")
    await expect(openLayerStore({ store: join(directory, "file") })).rejects.toMatchObject({ _tag: "StoreLocation" })
    renameSync(join(directory, "layerfs"), join(directory, "moved"))
  })
})
