/**
 * The area `layerfs` of the bench as a command, and its generated history.
 * Promise: figures only for what was checked; one seed gives one history, and it is one that can be replayed.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { generatedSteps } from "../../bench/repository.ts"
import { sha256 } from "../../src/base/Digest.ts"

const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

test("one seed gives one history: moves and removals name what is there, edits keep most of a file, another seed gives another", () => {
  const replay = (seed: number) => {
    const tree = new Map<string, Buffer>()
    const seen = { moves: 0, removes: 0, edits: 0, kept: 0, lines: 0 }
    for (const step of generatedSteps(seed, 60, 80)) {
      for (const path of step.removes) {
        expect(tree.delete(path)).toBe(true)
        seen.removes += 1
      }
      for (const { from, to } of step.moves) {
        expect([tree.has(from), tree.has(to)]).toEqual([true, false])
        tree.set(to, tree.get(from)!)
        tree.delete(from)
        seen.moves += 1
      }
      for (const [path, bytes] of step.writes) {
        const before = tree.get(path)?.toString().split("\n")
        if (before !== undefined) {
          const after = new Set(bytes.toString().split("\n"))
          seen.edits += 1
          seen.lines += before.length
          seen.kept += before.filter((line) => after.has(line)).length
        }
        tree.set(path, bytes)
      }
    }
    const digest = sha256([...tree].map(([path, bytes]) => `${path} ${sha256(bytes)}`).join("\n"))
    return { seen, digest }
  }
  const { seen, digest } = replay(1)
  expect(seen.moves).toBeGreaterThan(0)
  expect(seen.removes).toBeGreaterThan(0)
  expect(seen.edits).toBeGreaterThan(60)
  expect(seen.kept / seen.lines).toBeGreaterThan(0.8)
  expect(replay(1).digest).toBe(digest)
  expect(replay(2).digest).not.toBe(digest)
})

test("a row comes out as raw figures beside its yardstick, checked, and the scratch space is gone", {
  timeout: 240_000
}, () => {
  const scratch = mkdtempSync(join(tmpdir(), "coppice-bench-layerfs-"))
  made.push(scratch)
  const program = join(import.meta.dirname, "../../bench/main.ts")
  const small = ["--files", "20", "--megabytes", "1", "--runs", "1", "--only", "fork"]
  const { status, stdout } = spawnSync(process.execPath, [program, "layerfs", "--json", ...small], {
    encoding: "utf8",
    env: { ...process.env, TMPDIR: scratch }
  })
  const report = JSON.parse(stdout)
  const figures = { p50: expect.any(Number), p99: expect.any(Number), n: 200 }
  expect(report).toMatchObject({ area: "layerfs", skipped: [] })
  expect(report.rows).toEqual([
    {
      id: "fork",
      unit: "ms",
      ours: figures,
      yardstick: { name: "bare durable one-row SQLite commit", ...figures },
      peers: {},
      correct: true,
      note: expect.stringContaining("p50 difference")
    }
  ])
  expect({ status, left: readdirSync(scratch) }).toEqual({ status: 0, left: [] })
})
