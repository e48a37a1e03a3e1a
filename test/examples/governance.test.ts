/** The embedding example of governance: run twice, against the sources, with real files. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, expect, test } from "vitest"

const root = join(import.meta.dirname, "..", "..")
const source = readFileSync(join(root, "examples", "embed", "governance.ts"), "utf8")
const place = mkdtempSync(join(tmpdir(), "coppice-governance-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

const entry = (name: string): string => JSON.stringify(pathToFileURL(join(root, "src", name)).href)

test("G2 G12 G14 G22 G40 the example of governance runs to a completed goal, and run again it does nothing twice", () => {
  const program = join(place, "governance.mts")
  writeFileSync(
    program,
    source
      .replace('"coppice/governance"', entry("governance/index.ts"))
      .replace('"coppice/minimal"', entry("minimal.ts"))
      .replace('"effect/Effect"', JSON.stringify(pathToFileURL(join(root, "node_modules/effect/dist/Effect.js")).href))
  )
  const run = () => spawnSync(process.execPath, [program, join(place, "store")], { encoding: "utf8" })
  const first = run()
  expect(first.stderr).toBe("")
  const result = { goal: "completed", todos: 2, usd: 0.07 }
  const [waits, answer] = first.stdout.trim().split("\n")
  expect(waits).toMatch(/^bob waits: .*"unfinished":1.*"gated":1/)
  expect(JSON.parse(answer!)).toEqual(result)
  const again = run()
  expect(again.stderr).toBe("")
  expect(JSON.parse(again.stdout)).toEqual(result)
})
