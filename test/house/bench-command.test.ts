/**
 * The bench as the command that people and later issues run.
 * Promise: one JSON object in the agreed shape with the agreed row ids, nothing left behind, bad arguments refused.
 */
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { rowIds } from "../../bench/workspace.ts"

/** These tests start many processes; on a machine with other work each start may take seconds. */
const busyMachine = { timeout: 240_000 }

const program = join(import.meta.dirname, "../../bench/main.ts")
const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const bench = (...args: readonly string[]) => {
  const temporary = mkdtempSync(join(tmpdir(), "coppice-bench-command-"))
  made.push(temporary)
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    encoding: "utf8",
    env: { ...process.env, TMPDIR: temporary }
  })
  return { status, stdout, stderr, left: readdirSync(temporary) }
}

test("a row comes out as raw figures in the agreed shape, checked, and the scratch space is gone", busyMachine, () => {
  const small = ["--files", "40", "--megabytes", "1", "--runs", "1", "--only", "fork.overBareCommit"]
  const { status, stdout, left } = bench("workspace", "--json", ...small)
  const report = JSON.parse(stdout)
  expect(Object.keys(report).sort()).toEqual(["area", "commit", "machine", "rows", "skipped"])
  expect(report).toMatchObject({ area: "workspace", skipped: [] })
  const number = expect.any(Number)
  expect(report.rows).toEqual([
    {
      id: "fork.overBareCommit",
      unit: "ms",
      ours: { p50: number, p99: number, n: 200 },
      yardstick: { name: "bare durable one-row SQLite commit", p50: number, p99: number, n: 200 },
      peers: {},
      correct: true,
      note: expect.stringContaining("p50 difference")
    }
  ])
  expect({ status, left }).toEqual({ status: 0, left: [] })
})

test("stopped half way it takes its scratch space along", busyMachine, async () => {
  const temporary = mkdtempSync(join(tmpdir(), "coppice-bench-command-"))
  made.push(temporary)
  const child = spawn(process.execPath, [program, "workspace", "--files", "40", "--megabytes", "1", "--only", "fork"], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: ["ignore", "ignore", "pipe"]
  })
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve))
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (text.includes("tree of 40 files")) child.kill("SIGTERM")
  })
  expect(await ended).toBe(143)
  expect(readdirSync(temporary)).toEqual([])
})

test("the rows are those that the bars are written for", () => {
  expect([...rowIds].sort()).toEqual([
    "checkpoint.empty",
    "checkpoint.tenEdits",
    "demo.seconds",
    "exec.overhead",
    "fork.fromCheckpoint.ready",
    "fork.overBareCommit",
    "import.eventLoopDelay",
    "import.peakMemory",
    "import.seconds",
    "parallel.32",
    "ready.cached.root",
    "ready.cached.user",
    "rerun.afterKill",
    "store.bytes"
  ])
})

test(
  "a missing area, an unknown row, a bad number and contradicting options are refused with a remedy",
  busyMachine,
  () => {
    const cases: readonly (readonly string[])[] = [
      [],
      ["nothing"],
      ["workspace", "--files", "many"],
      ["workspace", "--runs", "0"],
      ["workspace", "--only", "no.row"],
      ["workspace", "--tree", "/nowhere/at/all"],
      ["workspace", "--tree", ".", "--files", "50"],
      ["workspace", "--fast"]
    ]
    for (const args of cases) {
      const { status, stdout, stderr, left } = bench(...args)
      expect({ args, status, stdout, left }).toEqual({ args, status: 2, stdout: "", left: [] })
      expect(stderr).toContain("Remedy:")
    }
  }
)
