/**
 * The test command itself, run on small projects of its own.
 * Promise: its last line and its exit code tell the truth about what ran. Rules: the README's test command.
 */
import { execFile } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"

const repository = join(import.meta.dirname, "..", "..")
const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const project = (tests: Readonly<Record<string, string>>): string => {
  const root = mkdtempSync(join(tmpdir(), "coppice-test-command-"))
  made.push(root)
  mkdirSync(join(root, "test"))
  const config = JSON.stringify(join(repository, "vitest.config.ts"))
  writeFileSync(join(root, "vitest.config.ts"), `export { default } from ${config}\n`)
  mkdirSync(join(root, "scripts"))
  cpSync(join(repository, "scripts/test.js"), join(root, "scripts/test.js"))
  symlinkSync(join(repository, "node_modules"), join(root, "node_modules"))
  writeFileSync(join(root, "package.json"), `{ "type": "module" }`)
  for (const [name, body] of Object.entries(tests)) {
    writeFileSync(join(root, "test", name), `import { test, expect } from "vitest"\n${body}`)
  }
  return root
}

const run = (root: string, args: readonly string[] = []): Promise<{ code: number; last: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [join(root, "scripts/test.js"), ...args], (error, stdout, stderr) => {
      const last = stdout.trimEnd().split("\n").at(-1) ?? ""
      resolve({ code: error === null ? 0 : Number(error.code), last, stderr })
    })
  })

test("the last line counts passed, failed and skipped tests, and a failure is the exit code", async () => {
  const root = project({
    "a.test.ts": `test("one", () => {})\ntest("two", () => expect(1).toBe(2))\ntest.skip("three", () => {})`
  })
  expect(await run(root)).toMatchObject({ code: 1, last: "1 passed, 1 failed, 1 skipped" })
})

test("arguments choose the files, and a green run exits with 0", async () => {
  const root = project({ "a.test.ts": `test("one", () => {})`, "b.test.ts": `test("two", () => expect(1).toBe(2))` })
  expect(await run(root, ["test/a.test.ts"])).toMatchObject({ code: 0, last: "1 passed, 0 failed" })
})

test("a file that cannot be loaded counts as a failure", async () => {
  const root = project({ "a.test.ts": `test("one", () => {})`, "b.test.ts": `import "./missing.ts"` })
  expect(await run(root)).toMatchObject({ code: 1, last: "1 passed, 1 failed" })
})

test("a run in which nothing was tested fails and says why", async () => {
  const root = project({ "a.test.ts": `test("one", () => {})` })
  const result = await run(root, ["no-such-file"])
  expect(result).toMatchObject({ code: 1, last: "0 passed, 0 failed" })
  expect(result.stderr).toContain("No test ran")
})
