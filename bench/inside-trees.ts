/**
 * The trees in which commands run inside and outside of a workspace: this project with a compiler, and packages for npm.
 * Promise: made of what is installed here, the same every time; one repository of git around each. Rules: workspaces.md, "Figures"; C7.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { command } from "./measure.ts"

/** What this project's own sources need to be checked by the compiler. */
const packages = [
  "@types",
  "@typescript",
  "canonicalize",
  "diff",
  "effect",
  "fast-check",
  "pure-rand",
  "typescript",
  "undici-types",
  "uuid"
]

/**
 * The mix of a JavaScript scaffolding tool, as counted in the field: 4,500 files made, 2,500 directories, 19,500 times `lstat`, 2,600 times `readdir`
 * (C7). Works below its argument, prints the milliseconds that it took and a digest of what is there.
 */
const scaffold = `
import { createHash } from "node:crypto"
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
const root = process.argv[2]
rmSync(root, { recursive: true, force: true })
const start = process.hrtime.bigint()
mkdirSync(root)
const directories = [root]
for (let n = 1; n < 2500; n += 1) {
  const at = directories[Math.floor((n - 1) / 5)] + "/d" + n
  mkdirSync(at)
  directories.push(at)
}
const files = []
for (let n = 0; n < 4500; n += 1) {
  const at = directories[n % directories.length] + "/f" + n + ".js"
  writeFileSync(at, "export const n" + n + " = " + n + "\\n")
  files.push(at)
}
for (let n = 0; n < 19500; n += 1) lstatSync(n % 3 === 0 ? directories[n % directories.length] : files[n % files.length])
const hash = createHash("sha256")
for (let n = 0; n < 2600; n += 1) hash.update(readdirSync(directories[n % directories.length]).sort().join("/"))
const took = Number(process.hrtime.bigint() - start) / 1e6
for (const file of files) hash.update(readFileSync(file))
console.log(JSON.stringify({ ms: took, digest: hash.digest("hex") }))
`

const commitAll = async (at: string): Promise<void> => {
  const who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
  await command(["git", "init", "-q", at])
  await command(["git", "-C", at, "add", "-A"])
  await command(["git", "-C", at, ...who, "commit", "-q", "-m", "base"])
}

/** The project and the packages that its check needs, at `target`. */
export const projectTree = async (root: string, target: string): Promise<void> => {
  mkdirSync(target)
  for (const name of ["src", "providers"]) cpSync(join(root, name), join(target, name), { recursive: true })
  for (const name of packages) {
    cpSync(join(root, "node_modules", name), join(target, "node_modules", name), {
      recursive: true,
      verbatimSymlinks: true
    })
  }
  const config = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8")) as {
    readonly compilerOptions: Readonly<Record<string, unknown>>
  }
  writeFileSync(
    join(target, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: { ...config.compilerOptions, incremental: false },
      include: ["src", "providers"]
    })
  )
  writeFileSync(join(target, "package.json"), `{ "name": "bench", "type": "module" }`)
  writeFileSync(join(target, "scaffold.mjs"), scaffold)
  writeFileSync(join(target, ".gitignore"), "node_modules\nscaffolded\n")
  await commitAll(target)
}

/** Packages that npm installs, of the versions that this project has. */
const installed = ["effect", "fast-check", "knip", "typescript", "uuid"]

/**
 * A project of npm at `target`, installed, with a cache of everything that its lock names, so that nothing is fetched when a time counts.
 * Rejects where the registry cannot be reached.
 */
export const npmTree = async (root: string, target: string): Promise<void> => {
  mkdirSync(target)
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly devDependencies: Readonly<Record<string, string>>
  }
  const wanted = Object.fromEntries(installed.map((name) => [name, devDependencies[name] ?? "*"]))
  writeFileSync(join(target, "package.json"), JSON.stringify({ name: "bench", version: "1.0.0", dependencies: wanted }))
  const quiet = ["--cache", ".npm-cache", "--ignore-scripts", "--no-audit", "--no-fund"] as const
  await command(["npm", "install", ...quiet], target)
  // A lock without addresses makes `npm ci` ask for more than the installation did.
  await command(["npm", "ci", ...quiet], target)
}
