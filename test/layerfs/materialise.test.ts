/** A large tree is written by several tars side by side: all of it, or nothing and no process. Rules: L3, L10, L15, W15, C18. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { partBytes } from "../../providers/layerfs/TarParts.ts"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { latin, put } from "./storeChange.ts"
import { atEnd, commitInto, comparable, importInto, open, readTree, scratch } from "./storeFixture.ts"
import { mayMount, smallDisk } from "./smallDisk.ts"

// Some thousand files; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 120_000 })

/** Text that is different everywhere and compresses well. */
const text = (n: number, length: number): Buffer => Buffer.alloc(length, `line ${n} of many, ${n * 7919}\n`)

/** More than two parts of small files in many directories, and one of each thing that is written another way. */
const largeTree = (): string => {
  const source = scratch()
  const each = 20_000
  const count = Math.ceil((2.5 * partBytes) / each)
  for (let n = 0; n < count; n += 1) {
    const directory = join(source, `d${n % 37}`, `e${n % 5}`)
    if (n < 37 * 5) fs.mkdirSync(directory, { recursive: true })
    // Lengths at and beside the 512 bytes of a tar block, and empty files.
    const path = join(directory, `file-${n}`)
    fs.writeFileSync(path, text(n, n % 11 === 0 ? [0, 1, 511, 512, 513][n % 5]! : each + n))
    fs.chmodSync(path, [0o644, 0o600, 0o755, 0o444, 0o4755][n % 5]!)
  }
  const deep = join(source, ...Array.from({ length: 12 }, () => "n".repeat(200)))
  fs.mkdirSync(deep, { recursive: true })
  fs.writeFileSync(join(deep, "x".repeat(255)), "at a long path")
  fs.writeFileSync(Buffer.concat([Buffer.from(`${source}/`), Buffer.from([0xff, 0x0a, 0x80])]), "no UTF-8")
  fs.writeFileSync(join(source, "large"), text(1, 3_000_001))
  const sparse = fs.openSync(join(source, "sparse"), "w")
  fs.writeSync(sparse, "in the middle", 9 * 1024 * 1024)
  fs.ftruncateSync(sparse, 30 * 1024 * 1024)
  fs.closeSync(sparse)
  fs.mkdirSync(join(source, "empty"), { mode: 0o750 })
  fs.linkSync(join(source, "large"), join(source, "d1/e1/second-name"))
  fs.symlinkSync("../large", join(source, "d1/link"))
  fs.symlinkSync("nowhere", join(source, "dangling"))
  fs.chmodSync(join(source, "d2/e2"), 0o555)
  fs.chmodSync(join(source, "d3"), 0o2750)
  execFileSync("touch", ["-h", "-d", "@1600000000.987654321", join(source, "dangling"), join(source, "d1/link")])
  execFileSync("find", [source, "-name", "file-*7", "-exec", "touch", "-d", "@1700000000.123456789", "{}", "+"])
  execFileSync("find", [source, "-type", "d", "-exec", "touch", "-d", "@1500000000.000000001", "{}", "+"])
  return source
}

const materialise = (store: LayerStore, commit: string, target: string) =>
  store.call("materialise", { commit, target: latin(target) })

/** Processes whose working directory is `target`. */
const writersOf = (target: string): readonly string[] =>
  fs.readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(target)
    } catch {
      return false
    }
  })

/** Inverts a byte in the first pack. */
const flip = ({ directories: { packs } }: LayerStore, share: number): void => {
  const fd = fs.openSync(join(packs, fs.readdirSync(packs)[0]!), "r+")
  const at = Math.floor(fs.fstatSync(fd).size * share)
  const byte = Buffer.alloc(1)
  fs.readSync(fd, byte, 0, 1, at)
  fs.writeSync(fd, Buffer.from([byte[0]! ^ 0xff]), 0, 1, at)
  fs.closeSync(fd)
}

describe("a tree of several parts", () => {
  it("L3 L15 C18 W15 comes back with the same bytes, names, modes, links, holes and nanoseconds, also where there is no room for its archives", async () => {
    const source = largeTree()
    const before = comparable(readTree(source))
    const work = scratch()
    const store = await open(join(work, "s"))
    const { commit, files, bytes } = await importInto(store, source)
    const target = join(work, "out")
    const seen = await materialise(store, commit, target)
    expect(seen).toEqual({ files: files - 1, bytes: bytes - 3_000_001 })
    const after = readTree(target)
    expect(comparable(after)).toEqual(before)
    expect(after.get("large")!.inode).toBe(after.get("d1/e1/second-name")!.inode)
    expect(fs.lstatSync(join(target, "sparse")).blocks * 512).toBeLessThan(1024 * 1024)
    expect(fs.readdirSync(store.directories.work)).toEqual([])
    fs.renameSync(store.directories.work, `${store.directories.work}.away`)
    const second = join(work, "second")
    await materialise(store, commit, second)
    expect(comparable(readTree(second))).toEqual(before)
    fs.renameSync(`${store.directories.work}.away`, store.directories.work)
  })

  it("W16 L15 C18 C20 an archive unpacks to the same tree; a target that is taken stays as it is, and one that a damaged object ends is gone", async () => {
    const source = largeTree()
    const before = comparable(readTree(source))
    const work = scratch()
    const store = await open(join(work, "s"))
    const { commit, files, bytes } = await importInto(store, source)
    const archive = join(work, "out.tar")
    const steps: Progress[] = []
    const input = { ref: commit, target: archive }
    const seen = await store.call("exportTar", input, { onProgress: (step) => steps.push(step) })
    expect(seen).toEqual({ files: files - 1, bytes: bytes - 3_000_001 })
    expect(steps.at(-1)).toMatchObject({ phase: "export", ...seen })
    const target = join(work, "out")
    fs.mkdirSync(target)
    execFileSync("tar", ["--extract", "--preserve-permissions", `--file=${archive}`, `--directory=${target}`])
    expect(comparable(readTree(target))).toEqual(before)
    const taken = fs.readFileSync(archive)
    await expect(store.call("exportTar", input)).rejects.toMatchObject({ _tag: "ExportRefused", path: archive })
    expect(fs.readFileSync(archive).equals(taken)).toBe(true)
    await expect(store.call("exportTar", { ref: commit, target: join(work, "no", "t") })).rejects.toMatchObject({
      _tag: "ExportRefused"
    })
    await store.close()
    flip(store, 0.5)
    const again = await open(join(work, "s"))
    const other = join(work, "other.tar")
    await expect(again.call("exportTar", { ref: commit, target: other })).rejects.toMatchObject({
      _tag: "ObjectDamaged"
    })
    expect(fs.existsSync(other)).toBe(false)
  })

  it("L10 L3 what later commits stored as a difference is written too, and a damaged object ends all of it with nothing left", async () => {
    const source = largeTree()
    const work = scratch()
    const store = await open(join(work, "s"))
    const { layer, commit } = await importInto(store, source)
    const { id: branch } = await store.call("fork", { from: layer, name: "b" })
    const edit = Buffer.concat([text(1, 10_000), Buffer.from("edited"), text(1, 10_001)])
    await commitInto(store, branch, [put("d1/e1/file-1", edit), put("d2/new", "new")])
    const target = join(work, "out")
    await materialise(store, branch, target)
    const expected = comparable(readTree(source))
    const found = comparable(readTree(target))
    expect(fs.readFileSync(join(target, "d1/e1/file-1")).equals(edit)).toBe(true)
    expect(fs.readFileSync(join(target, "d2/new"), "utf8")).toBe("new")
    const untold = new Set(["d1/e1/file-1", "d2/new", "d1/e1", "d2"])
    const rest = (tree: Record<string, string>) => Object.entries(tree).filter(([path]) => !untold.has(path))
    expect(rest(found)).toEqual(rest(expected))
    await store.close()
    // Behind what the first parts are made of.
    flip(store, 0.7)
    const other = await open(join(work, "s"))
    const second = join(work, "second")
    await expect(materialise(other, commit, second)).rejects.toMatchObject({ _tag: "ObjectDamaged" })
    expect(fs.existsSync(second)).toBe(false)
    expect(writersOf(second)).toEqual([])
  })

  it("L10 L3 a tar that does not come to an end is ended with the call that fails", async () => {
    const work = scratch()
    const store = await open(join(work, "s"))
    const { commit } = await importInto(store, largeTree())
    await store.close()
    flip(store, 0.15)
    // Waits a minute with a part that it was given as a file; is tar with a pipe or socket.
    const tools = scratch()
    const tar = execFileSync("sh", ["-c", "command -v tar"], { encoding: "utf8" }).trim()
    fs.writeFileSync(
      join(tools, "tar"),
      `#!/bin/sh\n[ -f /proc/self/fd/0 ] && touch ${tools}/given && exec sleep 60\nexec ${tar} "$@"\n`,
      { mode: 0o755 }
    )
    const path = process.env["PATH"]
    process.env["PATH"] = `${tools}:${path}`
    atEnd(() => {
      process.env["PATH"] = path
    })
    const other = await open(join(work, "s"))
    const target = join(work, "out")
    await expect(materialise(other, commit, target)).rejects.toMatchObject({ _tag: "ObjectDamaged" })
    expect(fs.existsSync(target)).toBe(false)
    expect(writersOf(target)).toEqual([])
    expect(fs.existsSync(join(tools, "given"))).toBe(true)
  })

  it.skipIf(!mayMount)(
    "W15 L3 a target that fills up is refused by name, with nothing left in it and no process",
    async () => {
      const disk = smallDisk(40 * 2 ** 20)
      atEnd(disk.remove)
      const store = await open(join(scratch(), "s"))
      const { commit } = await importInto(store, largeTree())
      const target = join(disk.path, "out")
      await expect(materialise(store, commit, target)).rejects.toMatchObject({
        _tag: "FileSystemFailure",
        syscallCode: "ENOSPC",
        remedy: expect.stringMatching(/Free space/)
      })
      expect(fs.existsSync(target)).toBe(false)
      expect(writersOf(target)).toEqual([])
    }
  )

  it.skipIf(!mayMount)(
    "W15 L10 a store whose disk has room for a part of an archive only gives the whole tree to another disk",
    async () => {
      const disk = smallDisk(96 * 2 ** 20)
      atEnd(disk.remove)
      const source = largeTree()
      const store = await open(join(disk.path, "s"))
      const { commit } = await importInto(store, source)
      disk.leave(Math.floor(0.7 * partBytes))
      const target = join(scratch(), "out")
      await materialise(store, commit, target)
      expect(comparable(readTree(target))).toEqual(comparable(readTree(source)))
      await store.close()
    }
  )
})
