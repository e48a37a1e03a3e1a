/** `coppice history`: what it shows of a real store, and what it says where there is none. Rules: W3, L3, P1, V3. */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { readCommandLine } from "../../src/cli/CommandLine.ts"
import { open } from "../../src/promise.ts"

const program = join(import.meta.dirname, "../../bin/coppice.js")
const place = mkdtempSync(join(tmpdir(), "coppice-history-test-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))
const store = join(place, "store")

const run = (...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "history", ...args], {
    encoding: "utf8",
    cwd: place
  })
  return { status, stdout, stderr }
}

let ids = { project: "", main: "", side: "" }

beforeAll(async () => {
  mkdirSync(join(place, "source"))
  writeFileSync(join(place, "source", "f"), "0")
  await using coppice = await open({ preset: "standard", store })
  const { workspaces } = coppice
  const base = await workspaces.importDirectory(join(place, "source"), { name: "ledger" })
  const main = await workspaces.fork(base, "main")
  const write = (branch: { readonly id: string }, bytes: string) =>
    workspaces.applyTo(branch, [{ op: "write", path: "f", bytes }], {
      message: `wrote ${bytes}`,
      actor: { call: `call-${bytes}`, agent: "a1" }
    })
  await write(main, "1")
  const side = await workspaces.fork(main, "side")
  await write(main, "2")
  await write(side, "3")
  ids = { project: base.project, main: main.id, side: side.id }
  expect(await workspaces.graph(main, { only: true, as: "ascii" })).toMatch(/^\* {2}cmt_\S+ \[main\] wrote 2/)
  expect(await workspaces.graph(main, { as: "svg" })).toMatch(/^<svg /)
}, 120_000)

test("W3 L3 shows every branch of the only project, or of the one that is named, as text, SVG or JSON", () => {
  const whole = run("--store", store)
  expect(whole).toMatchObject({ status: 0, stderr: "" })
  expect(
    whole.stdout
      .replaceAll(/cmt_\S+/g, "ID")
      .trimEnd()
      .split("\n")
  ).toEqual([
    "●  ID [side] wrote 3  (a1 call-3)",
    "│ ●  ID [main] wrote 2  (a1 call-2)",
    "├─╯",
    "●  ID wrote 1  (a1 call-1)",
    "◇  ID Import ledger"
  ])
  expect(run(ids.project, "--store", store).stdout).toBe(whole.stdout)
  const one = run(ids.main, "--only", "--limit", "2", "--store", store)
  expect(one.stdout.trimEnd().split("\n").length).toBe(3)
  expect(one.stdout).toContain("older commits are not shown")
  expect(run("--svg", "--store", store).stdout).toMatch(/^<svg [^]*wrote 3[^]*<\/svg>/)
  const rows = JSON.parse(run("--json", "--store", store).stdout).rows
  expect(rows.map((row: { lane: number }) => row.lane)).toEqual([0, 1, 0, 0])
}, 120_000)

test("W3 L3 a store of another provider is shown too; where there are two, one has to be named", async () => {
  const both = join(place, "both")
  const git = (...args: readonly string[]) =>
    spawnSync("git", ["-C", join(place, "source"), "-c", "user.name=a", "-c", "user.email=a@b", ...args])
  git("init", "-q")
  git("add", "f")
  git("commit", "-qm", "first")
  const importInto = async (workspaces: "layerfs" | "git-worktree") => {
    await using coppice = await open({ preset: "standard", store: both, workspaces })
    const base = await coppice.workspaces.importDirectory(join(place, "source"), { name: `by ${workspaces}` })
    if (workspaces === "layerfs") expect(run("--store", both, "--provider", workspaces).stdout).toMatch(/no branch yet/)
    await coppice.workspaces.fork(base, "main")
  }
  await importInto("git-worktree")
  expect(run("--store", both)).toMatchObject({ status: 0, stdout: expect.stringContaining("Import by git-worktree") })
  await importInto("layerfs")
  expect(run("--store", both).stderr).toMatch(/^UNAVAILABLE: .*layerfs and git-worktree.\nRemedy: .*--provider/)
  for (const provider of ["layerfs", "git-worktree"]) {
    const { stdout } = run("--store", both, "--provider", provider)
    expect(stdout).toContain(`Import by ${provider}`)
  }
  expect(run("--store", both, "--provider", "reflink")).toMatchObject({ status: 1, stdout: "" })
  expect(run("--store", both, "--provider", "zfs").stderr).toMatch(/no built-in workspace provider called zfs/)
}, 120_000)

test("P1 V3 without such a store or ref it says so, exits 1 and makes nothing; an odd line is a usage error", () => {
  const missing = run("--store", join(place, "none"))
  expect(missing).toMatchObject({ status: 1, stdout: "" })
  expect(missing.stderr).toMatch(/^UNAVAILABLE: [^\n]*\nRemedy: /)
  expect(existsSync(join(place, "none"))).toBe(false)
  expect(run("cmt_none", "--store", store)).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^REF_NOT_FOUND: /)
  })
  for (const args of [
    ["history", "a", "b"],
    ["history", "--svg", "--json"],
    ["history", "--limit", "0"],
    ["history", "--limit", "many"],
    ["history", "--store", ""],
    ["doctor", "--svg"],
    ["doctor", "--limit", "3"]
  ]) {
    expect(readCommandLine(args), args.join(" ")).toMatchObject({ do: "usageError" })
  }
  expect(readCommandLine(["history"])).toMatchObject({ do: "history", as: "text", only: false })
})
