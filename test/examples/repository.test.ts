/** `npm run demo -- --repo`: the command line of the demo on a repository of somebody's own. */
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { oneFile } from "../oneFile.ts"

const demo = await oneFile(join(import.meta.dirname, "../../examples/explore-repair/demo.ts"))
const cleanups: string[] = []
afterEach(() => {
  for (const path of cleanups.splice(0)) rmSync(path, { recursive: true, force: true })
})

const ground = () => {
  const root = mkdtempSync(join(tmpdir(), "coppice-cli-"))
  cleanups.push(root)
  const repository = join(root, "repo")
  mkdirSync(repository)
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args], { cwd: repository })
  git("init", "-q")
  writeFileSync(join(repository, "value.txt"), "wrong\n")
  git("add", "-A")
  git("commit", "-qm", "base")
  // Uncommitted on purpose.
  writeFileSync(join(repository, "check.sh"), "grep -qx right value.txt\n")
  const env = { ...process.env, XDG_STATE_HOME: join(root, "state") }
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [demo, "--repo", repository, ...args], { encoding: "utf8", env })
  /** Where the programs that make namespaces are taken away. */
  const runWithout = (...args: string[]) =>
    spawnSync(
      "unshare",
      [
        ..."--user --map-root-user --mount sh -ec".split(" "),
        'for tool in nsenter setpriv unshare; do mount --bind /dev/null "$(command -v $tool)"; done; exec "$@"',
        "sh",
        process.execPath,
        demo,
        "--repo",
        repository,
        ...args
      ],
      { encoding: "utf8", env }
    )
  return { root, repository, record: join(root, "record"), run, runWithout }
}

it("J2 W16 --repo runs attempts on a repository, prints one object, and leaves a patch and nothing else", () => {
  const { run, record, repository } = ground()
  const args = [
    "--record",
    record,
    "--attempt",
    "exit 1",
    "--attempt",
    "echo right > value.txt",
    "--verify",
    "sh check.sh",
    "--json"
  ]
  const { stdout, stderr, status } = run(...args)
  const result = JSON.parse(stdout)
  expect([status, result.ok, stderr.includes("accepted")]).toEqual([0, true, true])
  expect(result.attempts.map((a: { outcome: string }) => a.outcome)).toEqual(["failed", "accepted"])
  expect(result.leftovers).toEqual({ mounts: [], processes: [], directories: [] })
  expect(result.source).toMatchObject({ changes: 1, examples: ["check.sh"] })
  execFileSync("git", ["apply", result.accepted.patch], { cwd: repository })
  expect(readFileSync(join(repository, "value.txt"), "utf8")).toBe("right\n")
}, 240_000)

it("W2 W17 C36 without util-linux it works on a copy and says so, and an attempt that writes into the main checkout is found out", () => {
  const { runWithout, record, repository } = ground()
  const attempt = `echo right > value.txt; echo astray > '${join(repository, "astray.txt")}'`
  const args = ["--record", record, "--attempt", attempt, "--verify", "sh check.sh", "--json"]
  const result = JSON.parse(runWithout(...args).stdout)
  expect(result.attempts[0]).toMatchObject({ outcome: "accepted", projection: "copy", isolation: "none" })
  expect(result.attempts[0].touchedOutside.join("\n")).toContain("astray.txt")
  expect(readFileSync(join(record, "fix.patch"), "utf8")).not.toContain("astray")
}, 240_000)

it("P3 what is wrong is said with a remedy: the exit code tells usage from failure, and no record is made", () => {
  const { run, root, record } = ground()
  const inside = run("--attempt", "true", "--verify", "true", "--record", join(root, "repo", "record"))
  expect([inside.status, inside.stderr]).toEqual([1, expect.stringContaining("STORE_LOCATION")])
  const noVerify = run("--attempt", "true", "--record", record, "--json")
  expect([noVerify.status, noVerify.stderr]).toEqual([2, expect.stringContaining("--repo needs --verify CMD")])
  const empty = run("--attempt", "true", "--verify", "true", "--held-out", "", "--record", record)
  expect([empty.status, empty.stderr]).toEqual([2, expect.stringContaining("--held-out has an empty value")])
  const unknown = run("--frobnicate")
  expect([unknown.status, unknown.stderr]).toEqual([2, expect.stringContaining("--prepare CMD")])
  expect(spawnSync(process.execPath, [demo, "--verify", "true"]).status).toBe(2)
  expect(existsSync(join(root, "repo", "record"))).toBe(false)
}, 240_000)
