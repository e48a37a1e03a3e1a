/**
 * The rules report, over small projects of its own and as the command that people run.
 * Promise: it counts passed tests and nothing else, and says what is missing. Rules: docs/spec/00-overview.md.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { idsAndRangesIn, idsIn, readGaps, readSpecification } from "../../scripts/specification.ts"

const command = join(import.meta.dirname, "../../scripts/rules.ts")
const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

interface Outcome {
  readonly fullName: string
  readonly status: "passed" | "failed" | "pending"
}

const project = (
  tests: readonly Outcome[] | string | undefined,
  gaps: Readonly<Record<string, string>> = {}
): string => {
  const root = mkdtempSync(join(tmpdir(), "coppice-rules-"))
  made.push(root)
  for (const directory of ["docs/spec", "docs/gaps", ".reports"]) mkdirSync(join(root, directory), { recursive: true })
  writeFileSync(
    join(root, "docs/spec/one.md"),
    "# Rules\n\n- **G1** one, see G9.\n- **G2** two.\n- **G10** ten.\n\n| id | input |\n|---|---|\n| C1 | a case |\n"
  )
  for (const [name, text] of Object.entries(gaps)) writeFileSync(join(root, "docs/gaps", name), text)
  if (tests !== undefined) {
    const text = typeof tests === "string" ? tests : JSON.stringify({ testResults: [{ assertionResults: tests }] })
    writeFileSync(join(root, ".reports/tests.json"), text)
  }
  return root
}

const run = (root: string, ...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, "--root", root, ...args], {
    encoding: "utf8"
  })
  return { status, stdout, stderr }
}

test("an id counts when a passed test carries it; failed and skipped ones do not count", () => {
  const root = project([
    { fullName: "lease G1 and C1 hold", status: "passed" },
    { fullName: "G2 was skipped", status: "pending" },
    { fullName: "G10 failed", status: "failed" }
  ])
  const { status, stdout } = run(root, "--json")
  expect(status).toBe(0)
  expect(JSON.parse(stdout)).toEqual({
    rules: [
      { id: "G1", tests: ["lease G1 and C1 hold"], gap: null },
      { id: "G2", tests: [], gap: null },
      { id: "G10", tests: [], gap: null },
      { id: "C1", tests: ["lease G1 and C1 hold"], gap: null }
    ],
    missing: ["G2", "G10"]
  })
})

test("a gap file answers for the ids in its name and in its ids line", () => {
  const root = project([], { "G1-G2-later.md": "# Later", "case.md": "ids: C1\n\n# A case", "README.md": "G10" })
  const { stdout } = run(root, "--json")
  expect(JSON.parse(stdout)).toMatchObject({
    rules: [
      { id: "G1", gap: "docs/gaps/G1-G2-later.md" },
      { id: "G2", gap: "docs/gaps/G1-G2-later.md" },
      { id: "G10", gap: null },
      { id: "C1", gap: "docs/gaps/case.md" }
    ],
    missing: ["G10"]
  })
})

test("asked for certain ids it answers for those, and fails when one of them is missing or unknown", () => {
  const root = project([{ fullName: "G1 holds", status: "passed" }])
  expect(run(root, "--json", "--ids", "G1")).toMatchObject({
    status: 0,
    stdout: `${JSON.stringify({ rules: [{ id: "G1", tests: ["G1 holds"], gap: null }], missing: [] })}\n`
  })
  expect(run(root, "--ids", "G1,C1").status).toBe(1)
  const unknown = run(root, "--json", "--ids", "G1 G77")
  expect(unknown.status).toBe(1)
  expect(JSON.parse(unknown.stdout).missing).toEqual(["G77"])
})

test("an issue's text names ids one by one and as ranges", () => {
  const root = project([{ fullName: "G1 G2 hold", status: "passed" }])
  writeFileSync(join(root, "issue.md"), "Do G1 to G9 and C1; UTF8 and H2 are no ids.")
  const { status, stdout } = run(root, "--json", "--issue", join(root, "issue.md"))
  expect(status).toBe(1)
  expect(JSON.parse(stdout).missing).toEqual(["G9", "C1"])
})

test("without a readable report there is no answer, and the remedy says what to run", () => {
  expect(run(project(undefined))).toMatchObject({ status: 2, stdout: "", stderr: expect.stringContaining("NO_REPORT") })
  for (const text of ["", "{", "[]", "null", '{"testResults":[{}]}', '{"testResults":[{"assertionResults":[{}]}]}']) {
    const { status, stdout, stderr } = run(project(text))
    expect({ text, status, stdout }).toEqual({ text, status: 2, stdout: "" })
    expect(stderr).toContain("Run `npm test`")
  }
})

test("an unknown option, an unreadable issue and a request without ids are refused", () => {
  const root = project([])
  for (const args of [["--what"], ["--issue", join(root, "none")], ["--ids", "nothing"]]) {
    expect(run(root, ...args)).toMatchObject({ status: 2, stderr: expect.stringContaining("BAD_ARGUMENT") })
  }
})

test("the plain form lists tests and gaps and counts what has neither", () => {
  const root = project([{ fullName: "G1 holds", status: "passed" }], { "G2-later.md": "# Later" })
  const lines = run(root).stdout.trimEnd().split("\n")
  expect(lines).toEqual([
    "G1    G1 holds",
    "G2    gap: docs/gaps/G2-later.md",
    "",
    "1 with passed tests, 1 with a gap file, 2 with neither",
    "neither: G10 C1"
  ])
})

test("an id is read only where it stands alone and belongs to a known family", () => {
  expect(idsIn("G1, (GW2) C44; xG3 G4x UTF8 Q7 A1/A1")).toEqual(["G1", "GW2", "C44", "A1"])
  const spec = readSpecification(join(project([]), "docs/spec"))
  expect(spec.ids).toEqual(["G1", "G2", "G10", "C1"])
  expect(idsAndRangesIn("G1 to G2, G1 to C1", spec)).toEqual(["G1", "G2", "C1"])
  expect(readGaps(join(project([]), "docs/no-such"))).toEqual([])
})
