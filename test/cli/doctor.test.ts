/**
 * The `coppice` command and its doctor, on this machine as it is and with things really taken away.
 * Promise: exit codes and remedies are what a script and a person can rely on. Rules: P1, V3, W2, C14, A6.
 */
import { spawnSync } from "node:child_process"
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { isAtLeast } from "../../src/assembly/MachineChecks.ts"
import { readCommandLine } from "../../src/cli/CommandLine.ts"
import { doctorTable } from "../../src/cli/DoctorTable.ts"
import { runAsUser } from "../layerfs/asUser.ts"

const root = join(import.meta.dirname, "../..")
const program = join(root, "bin", "coppice.js")
const place = mkdtempSync(join(tmpdir(), "coppice-doctor-test-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))
const asRoot = process.getuid?.() === 0

const run = (args: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
  spawnSync(process.execPath, [program, ...args], { encoding: "utf8", env, cwd: place })

/** The doctor's report, as it comes out below `wrapper` (a command that ends in running its arguments). */
const report = (wrapper: readonly string[], store: string, env: NodeJS.ProcessEnv = process.env) => {
  const [file, ...args] = [...wrapper, process.execPath, program, "doctor", "--json", "--store", store]
  const { status, stdout, stderr } = spawnSync(file!, args, { encoding: "utf8", env, cwd: place })
  expect(stderr).toBe("")
  const told = JSON.parse(stdout)
  const check = (id: string) => told.checks.find((one: { id: string }) => one.id === id)
  return { status, told, check }
}
/** On this machine as it is, looked at once. */
const fresh = join(place, "fresh", "store")
let seen: ReturnType<typeof report> | undefined
const asItIs = () => (seen ??= report([], fresh))
/** Runs a shell script in namespaces of its own, which ends by running what follows it. */
const inside = (flags: readonly string[], script: string) => [
  "unshare",
  ...flags,
  "sh",
  "-ec",
  `${script}; exec "$@"`,
  "sh"
]

test("W2 A6 the doctor finds the default preset working here, exits 0, and leaves the place as it was", () => {
  const { status, told, check } = asItIs()
  expect(told).toMatchObject({ ok: true, store: fresh, projection: { auto: "overlay" }, renameDirectory: "copyOnly" })
  expect(status).toBe(0)
  for (const id of [
    "git",
    "tar",
    "util-linux",
    "namespaces",
    "process-trees",
    "overlay",
    "file-system",
    "free-space"
  ]) {
    expect(check(id), id).toMatchObject({ id, state: "ok", remedy: null })
  }
  for (const one of told.checks) {
    expect(one.state === "ok" || one.state === "unknown" || typeof one.remedy === "string", one.id).toBe(true)
  }
  expect(readdirSync(place)).toEqual([])
})

test("C14 the doctor shows that a directory of the base cannot be renamed in an overlay, and how to choose otherwise", () => {
  const rename = asItIs().check("rename")
  expect(rename.state).toBe("limited")
  expect(rename.found).toContain("copyOnly")
  expect(rename.remedy).toContain("ownDirs")
})

test("V3 for people it prints a line for each check with its remedy, and says at the end how things stand", () => {
  const { told } = asItIs()
  const stdout = doctorTable(told)
  for (const one of told.checks) {
    const line = stdout.split("\n").find((text) => new RegExp(`^${one.state} +${one.id} `).test(text))
    expect(line, one.id).toBeDefined()
    if (one.remedy !== null) expect(line).toContain(`-> ${one.remedy}`)
  }
  expect(stdout).toContain("The default preset works fully here.")
  const lacking = {
    ...told,
    ok: false,
    checks: [{ id: "git", state: "missing", found: "not found", remedy: "Install git." }]
  }
  expect(doctorTable(lacking).split("\n").at(-1)).toBe("Missing for the default preset: git.")
})

test("V3 the version, the help and what is not understood have their own exit codes and streams", () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }
  expect(run(["--version"])).toMatchObject({
    status: 0,
    stdout: `${version}
`,
    stderr: ""
  })
  expect(run(["--help"])).toMatchObject({ status: 0, stdout: expect.stringContaining("coppice doctor"), stderr: "" })
  const { status, stdout, stderr } = run(["runs"])
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" })
  expect(stderr).toMatch(/^USAGE: There is no command called "runs"/)
  expect(stderr).toContain("  doctor ")
  for (const args of [
    [],
    ["toString"],
    ["doctor", "now"],
    ["doctor", "--fast"],
    ["doctor", "--store"],
    ["doctor", "--store="]
  ]) {
    expect(readCommandLine(args), args.join(" ")).toMatchObject({ do: "usageError" })
  }
  expect(readCommandLine(["doctor", "--json"])).toEqual({ do: "doctor", json: true, store: undefined })
})

test("P1 help, version and an unknown command load no provider and start nothing; the doctor loads the workspace provider alone", () => {
  const trace = join(root, "test", "presets", "programs", "trace.mjs")
  const loaded = (...args: readonly string[]) => {
    const out = join(place, "trace.json")
    const traced = join(import.meta.dirname, "programs", "traced.ts")
    spawnSync(process.execPath, ["--import", trace, traced, out, ...args], { cwd: place })
    const seen = JSON.parse(readFileSync(out, "utf8")) as { modules: string[]; threads: number; processes: number }
    rmSync(out)
    const providers = seen.modules.flatMap((url) => /\/providers\/([^/]+)\//.exec(url)?.[1] ?? [])
    return { providers: [...new Set(providers)], threads: seen.threads, processes: seen.processes }
  }
  for (const args of [["--help"], ["no-such-command"]]) {
    expect({ args, ...loaded(...args) }).toEqual({ args, providers: [], threads: 0, processes: 0 })
  }
  expect(loaded("doctor", "--store", place)).toMatchObject({ providers: ["layerfs"], threads: 0 })
})

test("W2 without git and GNU tar on PATH each is missing with what to install, and the exit code is 1", () => {
  const bin = mkdtempSync(join(place, "bin-"))
  writeFileSync(join(bin, "tar"), "#!/bin/sh\necho 'bsdtar 3.6.2'\n")
  chmodSync(join(bin, "tar"), 0o755)
  const { status, told, check } = report([], place, { ...process.env, PATH: bin })
  expect({ status, ok: told.ok }).toEqual({ status: 1, ok: false })
  expect(check("git")).toMatchObject({
    state: "missing",
    found: "not found",
    remedy: expect.stringContaining("git 2.32")
  })
  expect(check("tar")).toMatchObject({ state: "missing", found: "not GNU tar: bsdtar 3.6.2" })
  // Those that Coppice also finds in the standard places are not missed for a short PATH.
  expect(check("util-linux").state).toBe("ok")
  rmSync(bin, { recursive: true })
})

test("W2 without a home the store has no place: that is missing, what lies on its disk is unknown, and a given store heals it", () => {
  const { HOME: _, XDG_STATE_HOME: __, ...env } = process.env
  const without = run(["doctor", "--json"], env)
  expect(without.status).toBe(1)
  const told = JSON.parse(without.stdout)
  expect(told).toMatchObject({ ok: false, store: null, projection: null, renameDirectory: null })
  const states = Object.fromEntries(told.checks.map((check: any) => [check.id, check.state]))
  expect(states).toMatchObject({ store: "missing", overlay: "unknown", "file-system": "unknown", git: "ok" })
  expect(report([], join(place, "given"), env).status).toBe(0)
})

test("W2 a store that cannot be made is missing, whether a file is in the way or the directory is not ours to write", () => {
  const file = join(place, "file")
  writeFileSync(file, "")
  const inTheWay = report([], join(file, "store"))
  expect(inTheWay.status).toBe(1)
  expect(inTheWay.check("store")).toMatchObject({ state: "missing", found: expect.stringContaining("a file") })
  rmSync(file)
  const notOurs = report([], "/proc/store")
  expect(notOurs.status).toBe(1)
  expect(notOurs.check("store")).toMatchObject({
    state: "missing",
    found: expect.stringContaining("cannot be written")
  })
})

test("W2 below a setgid directory the store takes the bit back, and few open files are a limit that is named, not a failure", () => {
  const team = join(place, "team")
  mkdirSync(team)
  chmodSync(team, 0o2775)
  const few = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
  const { status, check } = report(few, join(team, "store"))
  expect(status).toBe(0)
  expect(check("limits")).toMatchObject({ state: "limited", found: expect.stringContaining("open files 256") })
  expect(check("setgid").found).toContain("takes bit and group back")
  rmSync(team, { recursive: true })
})

test.skipIf(!asRoot)(
  "W2 without setpriv the tools and the overlay are missing, auto takes a copy, and it says why",
  () => {
    const masked = `for tool in setpriv; do for at in /usr/bin /bin; do [ ! -e $at/$tool ] || mount --bind /dev/null $at/$tool; done; done`
    const { status, told, check } = report(inside(["--mount"], masked), place)
    expect(status).toBe(1)
    expect(check("util-linux")).toMatchObject({ state: "missing", found: "without setpriv" })
    expect(check("overlay")).toMatchObject({ state: "missing", found: expect.stringContaining("setpriv") })
    expect(check("projection").state).toBe("limited")
    expect(told).toMatchObject({ ok: false, projection: { auto: "copy" }, renameDirectory: "works" })
  }
)

test.skipIf(!asRoot)("W2 where user namespaces are used up, the doctor names the setting that allows them", () => {
  const none = "echo 0 > /proc/sys/user/max_user_namespaces"
  const { status, check } = report(inside(["--user", "--map-root-user"], none), place)
  expect(status).toBe(1)
  expect(check("namespaces")).toMatchObject({
    state: "missing",
    remedy: expect.stringContaining("user.max_user_namespaces")
  })
  expect(check("overlay").state).toBe("missing")
})

test.skipIf(!asRoot)("W2 a /proc that hides other users, or is masked in part, is said to be limited", () => {
  const flags = ["--mount", "--pid", "--fork", "--kill-child"]
  const hiding = report(inside(flags, "mount -t proc -o hidepid=2 proc /proc"), place)
  expect(hiding.check("proc")).toMatchObject({
    state: "limited",
    found: expect.stringMatching(/hidepid=(2|invisible)/)
  })
  const masked = report(
    inside(
      flags,
      "mount -t proc proc /proc; mount -t tmpfs none /proc/scsi 2>/dev/null || mount -t tmpfs none /proc/irq"
    ),
    place
  )
  expect(masked.check("proc")).toMatchObject({ state: "limited", found: expect.stringContaining("masked: /proc/") })
})

test("W2 as an ordinary user the doctor finds the overlay working, by a pid namespace in a user namespace", async () => {
  const { stdout, code, stderr } = await runAsUser("../../src/cli/main.ts", ["doctor", "--json"])
  expect(stderr).toBe("")
  const told = JSON.parse(stdout)
  expect({ code, ok: told.ok, auto: told.projection?.auto }).toEqual({ code: 0, ok: true, auto: "overlay" })
  const trees = told.checks.find((check: any) => check.id === "process-trees")
  expect(trees).toMatchObject({ state: "ok", found: expect.stringContaining("in a user namespace") })
}, 120_000)

test("V3 an older Node is told what it needs, with exit code 1", () => {
  const old = join(place, "old.mjs")
  const versions = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.0" } });`
  writeFileSync(old, `${versions}\nawait import(${JSON.stringify(program)})\n`)
  const { status, stderr } = spawnSync(process.execPath, [old, "doctor"], { encoding: "utf8" })
  expect(status).toBe(1)
  expect(stderr).toMatch(/^NODE_TOO_OLD: .*22\.19.*20\.20\.0/)
  rmSync(old)
})

test("V3 the command runs through the link that npm makes for it", () => {
  const link = join(place, "coppice")
  symlinkSync(program, link)
  const { status, stdout } = spawnSync(link, ["--version"], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` }
  })
  expect({ status, stdout }).toMatchObject({ status: 0, stdout: expect.stringMatching(/^\d/) })
  rmSync(link)
})

test("W2 versions compare by their numbers", () => {
  expect(isAtLeast("22.19.0", "22.19.0")).toBe(true)
  expect(isAtLeast("24.1.0", "22.19.0")).toBe(true)
  expect(isAtLeast("22.9.0", "22.19.0")).toBe(false)
  expect(isAtLeast("2.39", "2.32")).toBe(true)
  expect(isAtLeast("2.4", "2.32")).toBe(false)
})
