/** Files that are hard to read, to hold or to carry. Rules: W13, L15; C11, C17, C19, C23. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { describe, expect, it, vi } from "vitest"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { endedAtEnd, forkOf, providerOn, run, scratch, shell, using } from "./projFixture.ts"
import { oneFile } from "../oneFile.ts"

// Whole child processes and hundreds of megabytes; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

const program = await oneFile(join(import.meta.dirname, "treeBigFile.ts"))
const watched = (...args: readonly string[]): Record<string, unknown> => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [program, ...args], { encoding: "utf8" })
  expect([status, stderr]).toEqual([0, ""])
  return JSON.parse(stdout) as Record<string, unknown>
}

describe("a source that changes", () => {
  it("C11 W7 a 1 MiB file that is rewritten all the time is imported as one pattern or flagged, and a fork shows one pattern throughout", async () => {
    const source = scratch()
    const file = join(source, "file")
    fs.writeFileSync(file, Buffer.alloc(1 << 20, "A"))
    const provider = await providerOn(join(scratch(), "store"))
    const frozen = await run(provider.importDirectory({ source }))
    const writer = spawn(
      process.execPath,
      [
        "-e",
        `const fs = require("node:fs"); const fd = fs.openSync(process.argv[1], "r+")
         const patterns = ["B", "C"].map((letter) => Buffer.alloc(1 << 20, letter))
         const rewrite = (n) => { fs.writeSync(fd, patterns[n % 2], 0, 1 << 20, 0); setTimeout(rewrite, (n * 7) % 90, n + 1) }
         rewrite(0); console.log("writing")`,
        file
      ],
      { stdio: ["ignore", "pipe", "inherit"] }
    )
    endedAtEnd(writer)
    await once(writer.stdout, "data")
    await using(provider, await forkOf(provider, frozen.layer), {}, async (workspace) => {
      for (let i = 0; i < 8; i += 1) {
        const receipt = await run(provider.importDirectory({ source }))
        const bytes = Buffer.from(await run(provider.readAt(receipt.commit, "file")))
        expect(bytes.length).toBe(1 << 20)
        const whole = bytes.equals(Buffer.alloc(1 << 20, bytes[0]))
        expect(whole || receipt.noteCounts.changedWhileRead === 1).toBe(true)
        expect(await shell(workspace, "tr -d A < file | wc -c")).toBe("0\n")
      }
    })
    expect(fs.readFileSync(file).subarray(0, 1)).not.toEqual(Buffer.from("A"))
  })

  it("W13 C17 what is replaced by a link, a directory or a fifo, or removed, before it is read is noted and left out; the rest is whole", async () => {
    const source = scratch()
    fs.mkdirSync(join(source, "dir"))
    const names = ["link", "directory", "fifo", "gone", "dir/gone"]
    for (const name of names) fs.writeFileSync(join(source, name), "as it was")
    fs.writeFileSync(join(source, "kept"), "kept")
    const provider = await providerOn(join(scratch(), "store"))
    // Between the walk, whose last event this is, and the reading: a rival that is done before the first file is opened.
    let swapped = false
    const onProgress = (progress: Progress): void => {
      if (swapped || progress.phase !== "scan") return
      swapped = true
      for (const name of names) fs.rmSync(join(source, name))
      fs.symlinkSync("/etc/hostname", join(source, "link"))
      fs.mkdirSync(join(source, "directory"))
      execFileSync("mkfifo", [join(source, "fifo")])
      fs.rmdirSync(join(source, "dir"))
    }
    const receipt = await run(provider.importDirectory({ source, onProgress }))
    const listed = receipt.notes.map(({ kind, path }) => `${kind} ${path.path}`)
    const stored = new Map<string, string>()
    for (const name of [...names, "kept"]) {
      const there = await run(Effect.option(provider.statAt(receipt.commit, name)))
      if (Option.isSome(there))
        stored.set(name, Buffer.from(await run(provider.readAt(receipt.commit, name))).toString())
    }
    // Which side was first is the machine's to say; either the old bytes are there, or a note, and never anything else.
    for (const name of names) {
      expect(stored.has(name) ? stored.get(name) : listed.includes(`vanished ${name}`), name).toBe(
        stored.has(name) ? "as it was" : true
      )
    }
    expect(stored.get("kept")).toBe("kept")
    expect(receipt.files).toBe(stored.size)
  })
})

describe("large and strange files", () => {
  it("C19 L15 setuid bits and a hole of 1 TiB come back from an import, a fork and an export without a byte of the hole being read", async () => {
    const source = scratch()
    fs.writeFileSync(join(source, "suid"), "#!/bin/sh\n")
    fs.chmodSync(join(source, "suid"), 0o6755)
    fs.mkdirSync(join(source, "sticky"))
    fs.chmodSync(join(source, "sticky"), 0o3777)
    const hole = fs.openSync(join(source, "hole"), "w")
    fs.ftruncateSync(hole, 2 ** 40)
    fs.closeSync(hole)
    const provider = await providerOn(join(scratch(), "store"))
    const receipt = await run(provider.importDirectory({ source }))
    expect(receipt).toMatchObject({ bytes: 2 ** 40 + 10, notes: [] })
    expect(receipt.storedBytes).toBeLessThan(100_000)
    await using(provider, await forkOf(provider, receipt.layer), {}, async (workspace) => {
      const expected = `hole 644 ${2 ** 40} 0\nsticky 3777\nsuid 6755 10\n`
      expect(
        await shell(workspace, "stat -c '%n %a %s %b' hole; stat -c '%n %a' sticky; stat -c '%n %a %s' suid")
      ).toBe(expected)
    })
    const target = join(scratch(), "out")
    await run(provider.exportDirectory(receipt.commit, target))
    expect(fs.lstatSync(join(target, "hole"))).toMatchObject({ size: 2 ** 40, blocks: 0 })
    expect(fs.lstatSync(join(target, "suid")).mode & 0o7777).toBe(0o6755)
    expect(fs.lstatSync(join(target, "sticky")).mode & 0o7777).toBe(0o3777)
  })

  it("C23 C19 a large untracked file and a hole of 1 TiB beside a small edit are captured as a stream: memory grows by less than the file", () => {
    const source = scratch()
    fs.writeFileSync(join(source, "small"), "before")
    const megabytes = Number(process.env["COPPICE_BIG_FILE_MB"] ?? 192)
    const seen = watched("capture", join(scratch(), "store"), source, String(megabytes))
    expect(seen).toMatchObject({ outcome: "committed", size: megabytes << 20, hole: 2 ** 40 })
    expect(seen["grown"]).toBeLessThan(160)
  })

  it("W13 an import of 20,000 files stays below 600 MB at its peak", () => {
    const source = scratch()
    for (let i = 0; i < 20_000; i += 1) {
      const directory = join(source, `d${i % 200}`)
      if (i < 200) fs.mkdirSync(directory)
      fs.writeFileSync(join(directory, `f${i}`), `file ${i}`)
    }
    const seen = watched("import", join(scratch(), "store"), source)
    expect(seen["files"]).toBe(20_000)
    expect(seen["peak"]).toBeLessThan(600)
  })
})
