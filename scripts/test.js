// Runs the whole test suite, or the files named as arguments, and ends with one line: `N passed, N failed`.
// Promise: the exit code is vitest's own, the last line is counted from the report and not from the screen, and a run in
// which nothing was tested is a failure. Plain JavaScript, like check-node.js. Rules: the README's test command.
import { spawnSync } from "node:child_process"
import { readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
// Only a run of everything is a report that `npm run rules` reads; a filtered one is kept apart.
const filters = process.argv.slice(2)
const report = join(root, ".reports", filters.length === 0 ? "tests.json" : "filtered.json")
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs")

// An attempt's /tmp is private: in a clone below it, the tests' own programs and their node are not seen inside.
if (root.startsWith("/tmp/")) {
  console.error(
    "This clone lies below /tmp, which workspaces hide: many tests will fail. Remedy: clone elsewhere, for example below your home."
  )
}

// A report of an earlier run must never be counted as this one's.
rmSync(report, { force: true })
// Hundreds of processes load the same sources: Node keeps what it compiled of them.
const cache = join(root, "node_modules", ".cache", "node")
const env = { ...process.env, COPPICE_REPORT: report, NODE_COMPILE_CACHE: cache }
const run = spawnSync(process.execPath, [vitest, "run", ...filters], { cwd: root, stdio: "inherit", env })

let exitCode = run.status ?? 1
if (run.signal !== null) console.error(`The test run was ended by ${run.signal}. Remedy: run it again.`)

let passed = 0
let failed = 0
let skipped = 0
try {
  const { numPassedTests, numFailedTests, numPendingTests, numTodoTests, testResults } = JSON.parse(
    readFileSync(report, "utf8")
  )
  passed = numPassedTests
  // A file that could not be loaded or set up has no failed test of its own: it counts as one failure, or it would vanish.
  const broken = ({ status, assertionResults }) =>
    status === "failed" && !assertionResults.some((test) => test.status === "failed")
  failed = numFailedTests + testResults.filter(broken).length
  skipped = numPendingTests + numTodoTests
} catch {
  console.error("The test run left no readable report in .reports. Remedy: see what vitest said above.")
  exitCode ||= 1
}
if (passed + failed === 0) {
  console.error("No test ran. Remedy: check the file names given, or remove the filter.")
  exitCode ||= 1
}
if (failed > 0) exitCode ||= 1
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`)
process.exitCode = exitCode
