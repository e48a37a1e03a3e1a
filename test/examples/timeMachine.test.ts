/** The time machine of the examples: run, run again, killed in mid-way. Rules: L3, L7, L2; C25; V4. */
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test, vi } from "vitest"
import { open } from "../../src/promise.ts"
import { oneFile } from "../oneFile.ts"

const program = await oneFile(join(import.meta.dirname, "../../examples/time-machine/run.ts"))
// Not below /tmp, which is private inside workspaces.
const place = mkdtempSync("/var/tmp/coppice-time-machine-test-")
afterAll(() => rmSync(place, { recursive: true, force: true }))
vi.setConfig({ testTimeout: 600_000 })

const run = (directory: string, ...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, directory, ...args], { encoding: "utf8" })
  expect(stderr).toContain(`directory   ${directory}`)
  return { status, stdout }
}

const expectFound = (report: any, added: number) => {
  expect(report).toMatchObject({
    calls: 20,
    added,
    broken: "failed: isThrottled",
    culprit: "call-12",
    works: { test: "3 checks passed" }
  })
  expect(report.suspects.map((one: any) => [one.call, one.agent, one.line, one.writtenAt, one.before])).toEqual([
    ["call-16", "scripted-agent", "const spent = total(entries)", "src/book.mjs:7", "failed: isThrottled"],
    ["call-12", "scripted-agent", "return sum > cents(limit)", "src/ledger.mjs:8", "3 checks passed"]
  ])
  expect(report.graph).toContain("├─╯")
}

test("L3 L7 C25 blame finds the call through two renames, a fork of the state before it works, and a second run makes no call again", async () => {
  const directory = join(place, "whole")
  const first = run(directory, "--json")
  expect(first.status).toBe(0)
  expectFound(JSON.parse(first.stdout), 20)
  const svg = join(place, "graph.svg")
  const again = run(directory, "--svg", svg)
  expect(again.status).toBe(0)
  expect(again.stdout).toContain("calls       20 commits, 0 of them made now")
  expect(readFileSync(svg, "utf8")).toMatch(/^<svg [^]*works again[^]*<\/svg>\n$/)
  await using coppice = await open({ preset: "standard", store: join(directory, "store") })
  const { workspaces } = coppice
  // Every call is one commit, once, and the fork holds the project as it was before the bad one.
  const [branch] = (await workspaces.branches((await workspaces.stats()).projects[0]!.id)).branches
  expect(branch!.name).toBe("work")
  const { commits } = await workspaces.log(branch!)
  const calls = commits.flatMap(({ actor }) => actor.call ?? [])
  expect(calls.toReversed()).toEqual(Array.from({ length: 20 }, (_, i) => `call-${String(i + 1).padStart(2, "0")}`))
  expect(await workspaces.left()).toEqual([])
})

test("L8 W10 killed in mid-way and run again it goes on, and each call is one commit", async () => {
  const directory = join(place, "killed")
  for (const at of ["call-05", "call-09"]) {
    const child = spawn(process.execPath, [program, directory, "--json"], { stdio: ["ignore", "ignore", "pipe"] })
    let told = ""
    child.stderr.on("data", (bytes: Buffer) => {
      told += bytes.toString()
      if (told.includes(`progress    ${at}`)) child.kill("SIGKILL")
    })
    const signal = await new Promise((resolve) => child.on("close", (_, by) => resolve(by)))
    expect(signal, told).toBe("SIGKILL")
  }
  const { status, stdout } = run(directory, "--json")
  expect(status).toBe(0)
  const report = JSON.parse(stdout)
  expect(report.added).toBeLessThanOrEqual(11)
  expectFound(report, report.added)
})
