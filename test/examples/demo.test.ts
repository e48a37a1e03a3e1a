/** How the demo ends when somebody ends it. Its whole way is run by `npm run demo`. Rules: J2, W14. */
import { execFileSync, spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, test } from "vitest"

const program = join(import.meta.dirname, "../../examples/explore-repair/demo.ts")

test("J2 W14 a demo that is told to stop says how it goes on, with an exit code of its own and without the trace of a fault", async () => {
  const record = mkdtempSync(join(tmpdir(), "coppice-demo-"))
  try {
    const path = join(record, "ledger")
    mkdirSync(path)
    writeFileSync(join(path, "package.json"), "{}\n")
    const git = (...args: readonly string[]) =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...args], {
        cwd: path,
        encoding: "utf8"
      })
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    // What an earlier run of this record had prepared.
    const commit = git("rev-parse", "HEAD").trim()
    writeFileSync(join(record, "fixture.json"), JSON.stringify({ path, commit, files: 1, downloadSeconds: 0 }))
    const child = spawn(process.execPath, [program, "--json", "--record", record], {
      stdio: ["ignore", "pipe", "pipe"]
    })
    const out = { stdout: "", stderr: "" }
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out.stdout += text
    })
    let told = false
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      out.stderr += text
      if (told || !out.stderr.includes("prepared ")) return
      told = true
      child.kill("SIGTERM")
    })
    const code = await new Promise((resolve) => child.once("close", resolve))
    assert.include(out.stderr, `--record ${record}`)
    assert.notMatch(out.stderr, /interrupted|\n\s+at /)
    assert.deepEqual(JSON.parse(out.stdout), { ok: false, error: "STOPPED", record })
    assert.equal(code, 130)
  } finally {
    rmSync(record, { recursive: true, force: true })
  }
}, 120_000)
