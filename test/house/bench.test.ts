/**
 * The bench's own parts: its generated trees, its figures, its comparison of trees.
 * Promise: a figure can be trusted because what makes it is tested. Rules: workspaces.md, "Figures".
 */
import { createHash } from "node:crypto"
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { existsSync, lutimesSync, unlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { zstdCompressSync } from "node:zlib"
import { afterEach, expect, test } from "vitest"
import { census, differences } from "../../bench/compare.ts"
import { bareCommit, interleave, spawnTrue, withScratch } from "../../bench/measure.ts"
import { type BenchReport, figures, percentile, plainTable, rate } from "../../bench/report.ts"
import { generateTree } from "../../bench/tree.ts"

const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})
const scratch = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-bench-test-"))
  made.push(directory)
  return directory
}

/** One digest over names, targets and bytes. */
const digestOf = (root: string): string => {
  const hash = createHash("sha256")
  const entries = readdirSync(root, { recursive: true, withFileTypes: true })
  for (const path of entries.map((entry) => join(entry.parentPath, entry.name)).sort()) {
    const entry = entries.find((one) => join(one.parentPath, one.name) === path)
    hash.update(path.slice(root.length))
    if (entry?.isSymbolicLink()) hash.update(readlinkSync(path))
    if (entry?.isFile()) hash.update(readFileSync(path))
  }
  return hash.digest("hex")
}

test("one seed gives one tree, another seed another one, each with the files and bytes asked for", () => {
  const root = scratch()
  const size = { files: 300, bytes: 3e6 }
  const first = generateTree(join(root, "a"), { seed: 7, ...size })
  expect(first.files).toBe(300)
  expect(first.symlinks).toBeGreaterThan(0)
  expect(Math.abs(first.bytes - 3e6)).toBeLessThan(0.03 * 3e6)
  expect(census(join(root, "a"))).toEqual({ files: 300, symlinks: first.symlinks, bytes: first.bytes })
  expect(generateTree(join(root, "b"), { seed: 7, ...size })).toEqual(first)
  generateTree(join(root, "c"), { seed: 8, ...size })
  expect(digestOf(join(root, "b"))).toBe(digestOf(join(root, "a")))
  expect(digestOf(join(root, "c"))).not.toBe(digestOf(join(root, "a")))
})

test("a generated tree compresses like installed packages, and its links lead to files", () => {
  const root = join(scratch(), "tree")
  generateTree(root, { seed: 1, files: 400, bytes: 8e6 })
  const entries = readdirSync(root, { recursive: true, withFileTypes: true })
  const whole = Buffer.concat(entries.filter((e) => e.isFile()).map((e) => readFileSync(join(e.parentPath, e.name))))
  const ratio = whole.length / zstdCompressSync(whole).length
  expect(ratio).toBeGreaterThan(2.2)
  expect(ratio).toBeLessThan(5)
  const links = entries.filter((entry) => entry.isSymbolicLink())
  expect(links.filter((link) => !existsSync(join(link.parentPath, link.name)))).toEqual([])
})

test("each kind of difference between two trees is named", () => {
  const root = scratch()
  const [a, b] = [join(root, "a"), join(root, "b")]
  generateTree(a, { seed: 3, files: 30, bytes: 1e5 })
  const copy = () => {
    rmSync(b, { recursive: true, force: true })
    cpSync(a, b, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
    // cpSync keeps microseconds; equal times on both sides are what a faithful copy has.
    const sync = (path: string): void => {
      for (const entry of readdirSync(join(a, path), { withFileTypes: true })) {
        const at = join(path, entry.name)
        if (entry.isDirectory()) sync(at)
        for (const side of [a, b]) lutimesSync(join(side, at), 1_700_000_000, 1_700_000_000)
      }
    }
    sync("")
  }
  const file = readdirSync(a, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())[0] as {
    parentPath: string
    name: string
  }
  const path = join(file.parentPath, file.name).slice(a.length + 1)
  const change = (edit: (at: string) => void): string => {
    copy()
    expect(differences(a, b)).toEqual([])
    edit(join(b, path))
    return differences(a, b).join("\n")
  }
  expect(change((at) => writeFileSync(at, "x"))).toMatch(/differs/)
  expect(change((at) => chmodSync(at, 0o600))).toContain("type or mode differs")
  expect(change((at) => lutimesSync(at, 1, 1))).toContain("mtime differs")
  expect(change((at) => unlinkSync(at))).toContain("missing")
  expect(change((at) => writeFileSync(`${at}.new`, ""))).toContain("was not there before")
  expect(
    change((at) => {
      unlinkSync(at)
      symlinkSync("elsewhere", at)
    })
  ).toContain("type or mode differs")
})

test("percentiles are nearest-rank, a rate is per second of the median, and no sample gives no figure", () => {
  const samples = Array.from({ length: 200 }, (_, i) => 200 - i)
  expect(percentile(samples, 0.5)).toBe(100)
  expect(percentile(samples, 0.99)).toBe(198)
  expect(figures([3, 1, 2])).toEqual({ p50: 2, p99: 3, n: 3 })
  expect(rate([2], 100)).toEqual({ p50: 2, p99: 2, n: 1, perSecond: 50 })
  expect(() => figures([])).toThrow(RangeError)
})

test("yardsticks are measured and interleaved, and the scratch directory goes, also after a failure", async () => {
  const order: string[] = []
  const push = (name: string) => (round: number) => Promise.resolve(void order.push(`${name}${round}`))
  await interleave(2, [push("a"), push("b")])
  expect(order).toEqual(["a0", "b0", "a1", "b1"])
  expect(await spawnTrue()).toBeGreaterThan(0)
  let kept = ""
  await expect(
    withScratch((directory) => {
      kept = directory
      const yardstick = bareCommit(directory)
      expect(yardstick.commit()).toBeGreaterThan(0)
      yardstick.close()
      return Promise.reject(new Error("the row failed"))
    })
  ).rejects.toThrow("the row failed")
  expect(existsSync(kept)).toBe(false)
})

test("the plain form shows every row, the ratio to its yardstick, and what was skipped", () => {
  const report: BenchReport = {
    area: "workspace",
    machine: { kernel: "6.18" },
    commit: "abc",
    rows: [
      {
        id: "exec.overhead",
        unit: "ms",
        ours: { p50: 20, p99: 30, n: 5 },
        yardstick: { name: "spawn of true", p50: 10, p99: 12 },
        peers: { git: { p50: 5, p99: 6, n: 5 } },
        correct: false,
        note: "wrong bytes"
      }
    ],
    skipped: [{ id: "demo.seconds", reason: "no demo" }]
  }
  const text = plainTable(report)
  for (const part of ["exec.overhead", "2.00", "NO", "wrong bytes", "git 5.00 ms", "demo.seconds skipped: no demo"]) {
    expect(text).toContain(part)
  }
})
