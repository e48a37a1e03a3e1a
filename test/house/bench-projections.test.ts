/**
 * The area `projections` of the bench as a command. Promise: figures only for what was checked, side by side for every provider that this
 * machine allows; what is not run is named with its reason.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { rowIds } from "../../bench/projections.ts"
import { lackOf } from "../reflink/loopImage.ts"

const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const bench = (only: string) => {
  const scratch = mkdtempSync(join(tmpdir(), "coppice-bench-projections-"))
  made.push(scratch)
  const program = join(import.meta.dirname, "../../bench/main.ts")
  const small = ["--files", "20", "--megabytes", "1", "--runs", "1", "--only", only]
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "projections", "--json", ...small], {
    encoding: "utf8",
    env: { ...process.env, TMPDIR: scratch }
  })
  expect([status, stderr]).toEqual([0, expect.any(String)])
  expect(readdirSync(scratch)).toEqual([])
  return JSON.parse(stdout)
}

test("E19 one script over every provider ends with equal trees; each row says what it survives, and cells that make no sense are listed", {
  timeout: 240_000
}, () => {
  const lack = lackOf("btrfs")
  const { rows, skipped } = bench("replay.w1.b1.")
  const figures = { p50: expect.any(Number), p99: expect.any(Number), n: 1 }
  const row = (ground: string, yardstick: unknown) => ({
    id: `replay.w1.b1.${ground}`,
    unit: "s",
    ours: figures,
    yardstick,
    peers: {},
    correct: true,
    note: expect.stringMatching(/1 workers, 1 branches.*durability full$/)
  })
  const held = { name: "warm worktree by hand", ...figures }
  expect(rows).toEqual([
    row("byHand", null),
    row("worktree", held),
    row("layerfs", held),
    ...(lack === null ? [row("reflink", held)] : [])
  ])
  expect(skipped).toEqual(lack === null ? [] : [{ id: "replay.w1.b1.reflink", reason: lack }])
})

test("E19 the rows are those that the bars are written for, at 1, 3 and 8 workers and 1, 4 and 16 branches", () => {
  expect(rowIds.filter((id) => !id.startsWith("replay."))).toEqual([
    "ready.cached.root.100",
    "ready.cached.user.100",
    "ready.cached.root.100k",
    "ready.cached.user.100k",
    "ready.pool.100k",
    "ready.lazy.root.100k",
    "ready.lazy.user.100k",
    "ready.lazy.pool.100k",
    "exec.overhead",
    "exec.resident",
    "parallel.32",
    "inside.tsc",
    "inside.gitStatus",
    "inside.tarRead",
    "inside.scaffold",
    "inside.npmCi.empty",
    "inside.npmCi.over",
    "lazy.find",
    "lazy.readAll",
    "lazy.tsc.second"
  ])
  expect(rowIds.filter((id) => id.startsWith("replay."))).toHaveLength(36)
})
