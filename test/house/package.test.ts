/** The package as an integrator gets it: packed, installed, type-checked against, run. */
import { execFileSync, spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { isBuiltin } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, expect, test } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const example = readFileSync(join(root, "examples", "embed", "repair.ts"), "utf8")
const promiseExample = readFileSync(join(root, "examples", "embed", "promise.ts"), "utf8")
/** A project with everything that this one has installed, and one that has what npm installs with the package alone. */
let app = ""
let bare = ""

/** Declarations reachable from one of them, and the packages that they name. */
const declarations = (entry: string): { readonly files: readonly string[]; readonly packages: readonly string[] } => {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (file: string): void => {
    if (files.has(file)) return
    files.add(file)
    // Examples in comments import this very package.
    const text = readFileSync(file, "utf8").replaceAll(/\/\*[^]*?\*\//g, "")
    for (const [, specifier] of text.matchAll(/(?<!["'])\b(?:from|import)\s*\(?\s*["']([^"']+)["']/g)) {
      if (specifier!.startsWith(".")) visit(join(dirname(file), specifier!.replace(/\.[jt]s$/, ".d.ts")))
      else packages.add(specifier!)
    }
  }
  visit(entry)
  return { files: [...files], packages: [...packages].sort() }
}

const agent = `
import { readFileSync, writeFileSync } from "node:fs"
const request = JSON.parse(readFileSync(0, "utf8"))
writeFileSync(request.root + "/value.mjs", process.argv[2] === "a1" ? "export const value = 41\\n" : "export const value = 42\\n")
console.log(JSON.stringify({ protocol: "coppice.turn", version: 1, turnKey: request.turnKey, outcome: "completed", summary: "done", usage: { usd: 0.1 } }))
`
const judge = `
const { value } = await import(process.cwd() + "/value.mjs")
console.log(JSON.stringify({ checks: [{ name: "answer", passed: value === 42 }] }))
process.exit(value === 42 ? 0 : 1)
`

beforeAll(() => {
  // Not below /tmp: attempts have a private one, and would not see the agent there.
  mkdirSync(join(root, "record"), { recursive: true })
  app = mkdtempSync(join(root, "record", "package-"))
  const npm = (...args: string[]) =>
    execFileSync("npm", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
  npm("run", "-s", "build")
  const [packed] = JSON.parse(npm("pack", "--json", "--ignore-scripts", "--pack-destination", app)) as [
    { filename: string }
  ]
  const modules = join(app, "node_modules")
  mkdirSync(join(modules, "coppice"), { recursive: true })
  execFileSync("tar", ["xzf", join(app, packed.filename), "--strip-components=1", "-C", join(modules, "coppice")])
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name !== "coppice" && !name.startsWith(".")) symlinkSync(join(root, "node_modules", name), join(modules, name))
  }
  bare = mkdtempSync(join(root, "record", "bare-"))
  mkdirSync(join(bare, "node_modules"))
  cpSync(join(modules, "coppice"), join(bare, "node_modules", "coppice"), { recursive: true })
  const { dependencies } = JSON.parse(readFileSync(join(modules, "coppice", "package.json"), "utf8"))
  expect(Object.keys(dependencies)).not.toContain("effect")
  for (const name of [...Object.keys(dependencies), "@types", "undici-types"]) {
    symlinkSync(join(root, "node_modules", name), join(bare, "node_modules", name))
  }
  writeFileSync(join(bare, "package.json"), JSON.stringify({ type: "module" }))
  writeFileSync(join(bare, "promise.ts"), promiseExample)
  writeFileSync(join(app, "package.json"), JSON.stringify({ type: "module" }))
  writeFileSync(join(app, "repair.ts"), example)
  writeFileSync(join(app, "agent.mjs"), agent)
  mkdirSync(join(app, "held-out"))
  writeFileSync(join(app, "held-out", "judge.mjs"), judge)
  mkdirSync(join(app, "source"))
  writeFileSync(join(app, "source", "value.mjs"), "export const value = 40\n")
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args], {
      cwd: join(app, "source")
    })
  git("init", "-q")
  git("add", "-A")
  git("commit", "-qm", "base")
}, 240_000)

afterAll(() => {
  for (const made of [app, bare]) if (made !== "") rmSync(made, { recursive: true, force: true })
})

test("the README shows the embedding example word for word", () => {
  expect(readFileSync(join(root, "README.md"), "utf8")).toContain(`\`\`\`ts\n${example.trimEnd()}\n\`\`\``)
})

const typeCheck = (project: string, file: string, skipLibCheck: boolean, more: object = {}) => {
  const compilerOptions = {
    noEmit: true,
    strict: true,
    module: "nodenext",
    target: "es2023",
    lib: ["es2023", "esnext.disposable"],
    skipLibCheck,
    types: ["node"],
    ...more
  }
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }))
  const tsc = join(root, "node_modules", ".bin", "tsc")
  const { stdout, status } = spawnSync(tsc, ["-p", project], { cwd: project, encoding: "utf8" })
  return { stdout, status }
}

test("V3 the embedding example type-checks against the packed declarations", () => {
  expect(typeCheck(app, "repair.ts", true)).toEqual({ stdout: "", status: 0 })
}, 120_000)

test("V3 the promise entry type-checks in full, and runs, where Effect is not installed", () => {
  const checked = typeCheck(bare, "promise.ts", false)
  expect(checked).toEqual({ stdout: "", status: 0 })
  mkdirSync(join(bare, "source"))
  const scripts = { test: "echo tested > out.txt; exit 3" }
  writeFileSync(join(bare, "source", "package.json"), JSON.stringify({ scripts }))
  const ran = spawnSync(process.execPath, ["promise.ts", "source", join(bare, "store")], {
    cwd: bare,
    encoding: "utf8"
  })
  expect(ran.stderr).toMatch(/^store \d+$/m)
  expect({ stdout: ran.stdout, status: ran.status }).toEqual({ stdout: "3 1 committed\n", status: 0 })
  expect(readdirSync(join(bare, "source"))).toEqual(["package.json"])
  const refused = spawnSync(process.execPath, ["promise.ts", "nowhere", join(bare, "store")], {
    cwd: bare,
    encoding: "utf8"
  })
  expect(refused.status).toBe(1)
  expect(refused.stderr).toMatch(/^The .*\. [A-Z].*\.\n$/)
}, 120_000)

test("V3 P4 without Effect every provider opens, works, and finds lines in its own thread", () => {
  const script = `
import { open } from "coppice/promise"
for (const workspaces of ["layerfs", "git-worktree"]) {
  const coppice = await open({ store: process.argv[3] + workspaces, workspaces })
  const branch = await coppice.workspaces.fork(await coppice.workspaces.importDirectory(process.argv[2]))
  const workspace = await coppice.workspaces.open(branch)
  const inside = await workspace.grep(/value = 40/)
  await workspace.write("more.txt", "value = 40")
  await workspace.checkpoint("more")
  const { matches } = await coppice.workspaces.grepAt(branch, /value = 40/)
  console.log(workspaces, inside.length, matches.length, (await workspace.exec(["cat", "more.txt"])).stdout.text)
  await coppice.close()
}
`
  writeFileSync(join(bare, "providers.mjs"), script)
  const ran = spawnSync(process.execPath, ["providers.mjs", join(app, "source"), join(bare, "store-of-")], {
    cwd: bare,
    encoding: "utf8"
  })
  expect(ran).toMatchObject({ status: 0, stdout: "layerfs 1 2 value = 40\ngit-worktree 1 2 value = 40\n", stderr: "" })
}, 120_000)

test("V3 no declaration that the promise entry reaches names Effect, and no code of it asks for Effect", () => {
  const dist = join(bare, "node_modules", "coppice", "dist")
  const { files, packages } = declarations(join(dist, "types", "src", "promise.d.ts"))
  expect(files.length).toBeGreaterThan(5)
  expect(packages.filter((name) => !name.startsWith("node:"))).toEqual([])
  const asked = readdirSync(join(dist, "standalone")).flatMap((name) =>
    [
      ...readFileSync(join(dist, "standalone", name), "utf8").matchAll(
        /^(?:import|export)\b[^"'\n]*["']([^"'\n]+)["'];?$|\bimport\("([^"\n]+)"\)/gm
      )
    ].map((match) => match[1] ?? match[2] ?? "")
  )
  expect(asked).toContain("node:fs")
  expect(asked.filter((specifier) => !specifier.startsWith("./") && !isBuiltin(specifier))).toEqual([])
})

test("V3 the command of the package runs where Effect is not installed", () => {
  const command = join(bare, "node_modules", "coppice", "bin", "coppice.js")
  const { stdout, status } = spawnSync(
    process.execPath,
    [command, "doctor", "--json", "--store", join(bare, "store")],
    {
      cwd: bare,
      encoding: "utf8"
    }
  )
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, projection: { auto: "overlay" } })
  expect(status).toBe(0)
})

test("J2 the embedding example runs from the packed package and its patch applies", () => {
  const ran = spawnSync(process.execPath, ["repair.ts", "source", "record", "agent.mjs", "held-out"], {
    cwd: app,
    encoding: "utf8"
  })
  expect(ran.stderr).toContain("a2 verdict passed")
  expect(JSON.parse(ran.stdout)).toMatchObject({ patch: "fix.patch", attempts: 2, quota: { reserved: 0, spent: 0.2 } })
  execFileSync("git", ["apply", join(app, "record", "fix.patch")], { cwd: join(app, "source") })
  expect(readFileSync(join(app, "source", "value.mjs"), "utf8")).toBe("export const value = 42\n")
}, 240_000)

test("L8 the published build holds no crash point and no fault point", () => {
  const dist = join(app, "node_modules", "coppice", "dist")
  const guilty = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter(
    (name) =>
      name.endsWith(".js") && readFileSync(join(dist, name), "utf8").match(/COPPICE_CRASH|COPPICE_FAULT/) !== null
  )
  expect(guilty).toEqual([])
})

test("V3 K1 K2 K3 K4 W1 P2 P9 a provider of somebody else's, from another directory, is used by a preset and passes the whole suite", () => {
  const own = join(app, "provider")
  cpSync(join(root, "examples", "bring-your-own-provider"), own, { recursive: true })
  for (const file of ["provider.ts", "use.ts", "conformance.test.ts", "worker.ts"]) {
    const compilerOptions = { allowImportingTsExtensions: true }
    expect({ file, ...typeCheck(app, join("provider", file), true, compilerOptions) }).toEqual({
      file,
      stdout: "",
      status: 0
    })
  }
  const node = (args: readonly string[]) =>
    spawnSync(process.execPath, args, { cwd: own, encoding: "utf8", env: { ...process.env, CONFORMANCE_PLACE: app } })
  const used = node(["use.ts", join(app, "source"), join(app, "used")])
  expect(used.stderr).toBe("")
  expect(used.stdout).toContain("provider: 'tarballs 1.0.0, from the application'")
  expect(used.stdout).toContain("changed: [ 'added note.txt' ]")
  const suite = node([
    "--test",
    "--test-reporter=tap",
    "--test-skip-pattern=on a fork of a fork",
    "conformance.test.ts"
  ])
  const counts = Object.fromEntries(
    [...suite.stdout.matchAll(/^# (pass|fail|skipped) (\d+)$/gm)].map(([, name, n]) => [name!, Number(n)])
  )
  expect(suite.stdout.match(/^not ok.*$/gm) ?? []).toEqual([])
  expect({ status: suite.status, fail: counts["fail"] }).toEqual({ status: 0, fail: 0 })
  expect(counts["pass"]).toBeGreaterThan(50)
}, 900_000)
