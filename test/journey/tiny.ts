/** A small repository with a value that is wrong, and a way to run its repair in a process that can be killed. */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("programs/run.ts", import.meta.url))

export const makeTiny = (): { readonly record: string; readonly remove: () => void } => {
  const record = mkdtempSync(join(tmpdir(), "coppice-journey-"))
  const source = join(record, "source")
  mkdirSync(join(source, "ignored"), { recursive: true })
  writeFileSync(join(source, "value.txt"), "wrong\n")
  writeFileSync(join(source, ".gitignore"), "ignored/\n")
  writeFileSync(join(source, "ignored", "dependency.txt"), "installed\n")
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args], { cwd: source })
  git("init", "-q", "-b", "main")
  git("add", "-A")
  git("commit", "-qm", "base")
  mkdirSync(join(record, "held-out"))
  writeFileSync(join(record, "held-out", "judge.sh"), 'grep -qx "half and half" value.txt\n')
  return { record, remove: () => rmSync(record, { recursive: true, force: true }) }
}

export interface TinyOutcome {
  readonly signal: NodeJS.Signals | null
  readonly status: number | null
  readonly output: any
  readonly stderr: string
}

/** Runs the repair, perhaps killed at a named point. */
export const runTiny = (
  record: string,
  options: { crashAt?: string; interrupted?: "explain"; all?: boolean } = {}
): TinyOutcome => {
  const result = spawnSync(
    process.execPath,
    [program, record, options.interrupted ?? "retry", options.all === true ? "all" : "two"],
    {
      encoding: "utf8",
      maxBuffer: 64 * 1024 * 1024,
      timeout: 100_000,
      env: { ...process.env, ...(options.crashAt === undefined ? {} : { COPPICE_CRASH_AT: options.crashAt }) }
    }
  )
  const line = result.stdout.trim().split("\n").at(-1) ?? ""
  return {
    signal: result.signal,
    status: result.status,
    output: line === "" ? null : JSON.parse(line),
    stderr: result.stderr
  }
}
