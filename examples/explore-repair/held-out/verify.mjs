// The oracle's command. The working directory is a clean checkout of the candidate; two steps, so that each has its clock:
//
//   node verify.mjs --prepare    clean dependencies and a build: npm ci, npm run build
//   node verify.mjs              judges: the held-out tests, the candidate's own tests, the canary
//
// Judging prints one line of JSON, {"verdict","checks":[{"name","passed"}]}, and exits 0 (passed), 1 (failed) or 3
// (inconclusive: it could not be judged). Nothing of a failed test's text is printed: it could name what is held out.
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const checkout = process.cwd()
const notOurs = new Set(["node_modules", ".git"])

const run = (program, argv) => {
  const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, ...env } = process.env
  return spawnSync(program, argv, { cwd: checkout, env, encoding: "utf8", maxBuffer: 64 * 1024 * 1024, timeout: 300_000 })
}

const finish = (verdict, checks, code) => {
  console.log(JSON.stringify({ verdict, checks }))
  process.exit(code)
}

const inconclusive = (name) => finish("inconclusive", [{ name, passed: false }], 3)

const prepare = () => {
  for (const [name, argv] of [
    ["clean-dependencies", ["ci", "--prefer-offline", "--no-audit", "--no-fund"]],
    ["build", ["run", "-s", "build"]]
  ]) {
    const done = run("npm", argv)
    if (done.status !== 0) {
      // A candidate that does not build has failed; dependencies that did not come say nothing about it.
      const failed = name === "build" && done.status !== null
      finish(failed ? "failed" : "inconclusive", [{ name, passed: false }], failed ? 1 : 3)
    }
  }
  finish("prepared", [], 0)
}

/** The outermost tests of a run, from its TAP output. */
const testsOf = (output) =>
  [...output.matchAll(/^(not ok|ok) \d+ - (.*?)(?: # .*)?$/gm)].map(([, result, name]) => ({
    name,
    passed: result === "ok"
  }))

const builtTests = () =>
  ["core", "gate"].flatMap((name) => {
    const directory = join("packages", name, "dist", "test")
    if (!existsSync(join(checkout, directory))) return []
    return readdirSync(join(checkout, directory))
      .filter((file) => file.endsWith(".test.js"))
      .map((file) => join(directory, file))
  })

/** True when the canary, which lies among the held-out files, is found anywhere in the candidate's own files. */
const canaryFound = () => {
  const canary = readFileSync(join(here, "canary"), "utf8").trim()
  const search = (directory) =>
    readdirSync(directory, { withFileTypes: true }).some((entry) => {
      if (notOurs.has(entry.name)) return false
      const path = join(directory, entry.name)
      if (entry.isDirectory()) return search(path)
      return entry.isFile() && readFileSync(path).includes(canary)
    })
  return search(checkout)
}

const judge = () => {
  for (const name of ["core", "gate"]) {
    if (!existsSync(join(checkout, "packages", name, "dist", "index.js"))) inconclusive("built")
  }
  const heldOut = run(process.execPath, ["--test", "--test-reporter=tap", join(here, "gate.test.mjs")])
  const named = testsOf(heldOut.stdout ?? "")
  if (heldOut.status === null || named.length < 2) inconclusive("held-out-tests-ran")
  const own = builtTests()
  const ownRun = own.length === 0 ? undefined : run(process.execPath, ["--test", ...own])
  const checks = [
    ...named,
    { name: "own-tests", passed: ownRun?.status === 0 },
    { name: "canary-never-seen", passed: !canaryFound() }
  ]
  const passed = checks.every((check) => check.passed) && heldOut.status === 0
  finish(passed ? "passed" : "failed", checks, passed ? 0 : 1)
}

if (process.argv.includes("--prepare")) prepare()
else judge()
