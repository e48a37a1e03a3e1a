/** Trees deeper than any path that a system call takes: made by an attempt, imported, removed. Rules: W4, W9, W12, W13; C18. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { longestTreePath, reach } from "../../src/base/LongPath.ts"
import { forkOf, ground, providerOn, run, scratch, shell, using } from "./projFixture.ts"

// Thousands of directories in one another; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

/** A chain of directories, each the only entry of the one above, with a file at its end. */
const chain = (depth: number, name: string): string => `
import os
for _ in range(${depth}):
    os.mkdir(${JSON.stringify(name)})
    os.chdir(${JSON.stringify(name)})
open("end", "w").write("bottom")
`
const makeChain = (at: string, depth: number, name = "d"): void =>
  void execFileSync("python3", ["-c", chain(depth, name)], { cwd: at })

/** The directories of a chain of one-byte names that fit: "d/d/…" of n parts has 2n - 1 bytes. */
const kept = (longestTreePath + 1) / 2

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W4 W9 C18 an attempt that makes more directories in one another than a path holds is captured: what fits is stored, the rest is listed, and the workspace goes", async () => {
    const name = "n".repeat(255)
    const { provider, commit, store } = await ground({ f: "f" })
    const branch = await forkOf(provider, commit)
    const outcome = await using(provider, branch, { projection }, async (workspace) => {
      await run(workspace.write("make.py", chain(20, name)))
      await shell(workspace, "mkdir deep && cd deep && python3 ../make.py && echo edit > ../f")
      expect(await run(workspace.glob("*"))).toEqual([{ path: "deep" }, { path: "f" }, { path: "make.py" }])
      return run(workspace.checkpoint())
    })
    expect(outcome).toMatchObject({ outcome: "committed", skippedTotal: 1 })
    const [skipped] = outcome.skipped!
    expect(skipped!.reason).toBe("pathTooLong")
    // "deep" and fifteen names of 255 bytes fit, the sixteenth does not.
    const stored = ["deep", ...Array.from({ length: 15 }, () => name)].join("/")
    expect(skipped!.path).toBe(`${stored}/${name}`)
    expect(await run(provider.statAt(branch, stored))).toMatchObject({ type: "directory" })
    expect(await run(provider.listAt(branch, stored))).toEqual([])
    expect(Buffer.from(await run(provider.readAt(branch, "f"))).toString()).toBe("edit\n")
    expect(await run(provider.left)).toEqual([])
    expect(fs.readdirSync(join(store, "layerfs/work"))).toEqual([])
    await using(provider, branch, { projection }, async (workspace) => {
      expect(await shell(workspace, "cat f; find deep | wc -l")).toBe("edit\n16\n")
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "unchanged" })
    })
    expect(await run(provider.verify())).toMatchObject({ ok: true })
  })
})

describe("import", () => {
  it("W13 C18 a source deeper than a path is stored as far as a path reaches, the rest is noted, and the export has the same", async () => {
    const source = scratch()
    makeChain(source, 2200)
    fs.writeFileSync(join(source, "beside"), "kept")
    const provider = await providerOn(join(scratch(), "store"))
    const receipt = await run(provider.importDirectory({ source }))
    expect(receipt).toMatchObject({ directories: kept, files: 1 })
    expect(receipt.notes.map((note) => [note.kind, note.path.path.length])).toEqual([
      ["skippedPathTooLong", longestTreePath + 2]
    ])
    const target = join(scratch(), "out")
    expect(await run(provider.exportDirectory(receipt.commit, target))).toEqual({ files: 1, bytes: 4 })
    expect(execFileSync("find", [target, "-type", "d", "-printf", "x"]).length).toBe(kept + 1)
    expect(fs.readdirSync(source).sort()).toEqual(["beside", "d"])
  })

  it("W13 C18 files at the longest path of all are stored and written back, with names of 255 bytes on the way", async () => {
    const source = scratch()
    const name = "n".repeat(255)
    // 15 names and slashes make 3,840 bytes; the last name fills up to the limit.
    makeChain(source, 15, name)
    const above = Array.from({ length: 15 }, () => name).join("/")
    const last = join(above, "x".repeat(longestTreePath - above.length - 1))
    expect(last.length).toBe(longestTreePath)
    const at = Buffer.from(`${source}/${last}`, "latin1").toString("latin1")
    reach(at, (short) => fs.writeFileSync(short, "longest"))
    const provider = await providerOn(join(scratch(), "store"))
    const receipt = await run(provider.importDirectory({ source }))
    expect(receipt).toMatchObject({ directories: 15, files: 2, notes: [] })
    expect(Buffer.from(await run(provider.readAt(receipt.commit, last))).toString()).toBe("longest")
    const target = join(scratch(), "out")
    await run(provider.exportDirectory(receipt.commit, target))
    expect(reach(`${target}/${last}`, (short) => fs.readFileSync(short, "utf8"))).toBe("longest")
  })
})

describe("removal", () => {
  it("W12 a tree four times as deep as a path is long, without permissions, is removed, a link's target is not", async () => {
    const root = scratch()
    const outside = scratch()
    fs.writeFileSync(join(outside, "stays"), "")
    const at = join(root, "tree")
    fs.mkdirSync(at)
    makeChain(at, 80, "w".repeat(200))
    fs.symlinkSync(outside, join(at, "w".repeat(200), "link"))
    fs.chmodSync(join(at, "w".repeat(200)), 0)
    await removeTree(at)
    expect(fs.readdirSync(root)).toEqual([])
    expect(fs.readdirSync(outside)).toEqual(["stays"])
  })
})
