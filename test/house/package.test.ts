/** The package as an integrator gets it: packed, installed, type-checked against, run. */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, expect, test } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const example = readFileSync(join(root, "examples", "embed", "repair.ts"), "utf8")
let app = ""

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

afterAll(() => rmSync(app, { recursive: true, force: true }))

test("the README shows the embedding example word for word", () => {
  expect(readFileSync(join(root, "README.md"), "utf8")).toContain(`\`\`\`ts\n${example.trimEnd()}\n\`\`\``)
})

test("V3 the embedding example type-checks against the packed declarations", () => {
  const compilerOptions = {
    noEmit: true,
    strict: true,
    module: "nodenext",
    target: "es2023",
    lib: ["es2023", "esnext.disposable"],
    skipLibCheck: true,
    types: ["node"]
  }
  writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["repair.ts"] }))
  const checked = spawnSync(join(root, "node_modules", ".bin", "tsc"), ["-p", app], { cwd: app, encoding: "utf8" })
  expect(checked.stdout).toBe("")
  expect(checked.status).toBe(0)
}, 120_000)

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

test("the published build holds no crash point", () => {
  const dist = join(app, "node_modules", "coppice", "dist")
  const guilty = readdirSync(dist).filter(
    (name) => name.endsWith(".js") && readFileSync(join(dist, name), "utf8").includes("COPPICE_CRASH_AT")
  )
  expect(guilty).toEqual([])
})
