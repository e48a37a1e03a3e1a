/** The embedding example of governance: run twice, against the sources, with real files. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { oneFile } from "../oneFile.ts"

const root = join(import.meta.dirname, "..", "..")
const source = readFileSync(join(root, "examples", "embed", "governance.ts"), "utf8")
const place = mkdtempSync(join(tmpdir(), "coppice-governance-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

const entry = (name: string): string => JSON.stringify(join(root, "src", name))

const written = join(place, "governance.mts")
writeFileSync(
  written,
  source
    .replace('"coppice/governance"', entry("governance/index.ts"))
    .replace('"coppice/minimal"', entry("minimal.ts"))
    .replace('"effect/Effect"', JSON.stringify(join(root, "node_modules/effect/dist/Effect.js")))
)

const program = await oneFile(written)

const run = (store: string, { crashAt, minutes }: { crashAt?: string; minutes?: number } = {}) => {
  const later = `data:text/javascript,const now = Date.now; Date.now = () => now() + ${(minutes ?? 0) * 60_000}`
  const env = { ...process.env, ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }) }
  return spawnSync(process.execPath, ["--import", later, program, store], { encoding: "utf8", env })
}

const result = { goal: "completed", todos: 2, usd: 0.07 }

test("G2 G12 G14 G22 G40 the example of governance runs to a completed goal, and run again it does nothing twice", () => {
  const first = run(join(place, "store"))
  expect(first.stderr).toBe("")
  const [waits, answer] = first.stdout.trim().split("\n")
  expect(waits).toMatch(/^bob waits: .*"unfinished":1.*"gated":1/)
  expect(JSON.parse(answer!)).toEqual(result)
  const again = run(join(place, "store"))
  expect(again.stderr).toBe("")
  expect(JSON.parse(again.stdout)).toEqual(result)
})

// Commits of every kind: a claim, a settlement, the decision, a verdict.
for (const commit of [8, 10, 12, 13, 14, 16]) {
  test(`G2 G33 killed after commit ${commit} and run again when the leases have long ended, it takes the same work again and ends as ever`, () => {
    const store = join(place, `store-${commit}`)
    expect(run(store, { crashAt: `authority.afterCommit:${commit}` }).signal).toBe("SIGKILL")
    // Killed again under the second lease, or further on: the third run has two receipts of leases that have ended.
    expect(run(store, { crashAt: "authority.afterCommit:1", minutes: 46 }).signal).toBe("SIGKILL")
    const last = run(store, { minutes: 92 })
    expect(last.stderr).toBe("")
    expect(JSON.parse(last.stdout.trim().split("\n").at(-1)!)).toEqual(result)
  })
}

test("G2 an argument that is no directory is answered with a usage line and exit code 2", () => {
  for (const odd of ["--help", "--nope", "/dev/null"]) {
    const { status, stderr } = run(odd)
    expect([status, stderr]).toEqual([2, "usage: node governance.ts [STORE], a directory\n"])
  }
})
