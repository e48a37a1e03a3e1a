/**
 * `npm run mutation:sample -- [PERCENT] [SEED]`: Stryker over the mutants of randomly drawn lines of `src/governance`.
 * Promise: every line has the same chance, from a seed that is printed; the score comes with a 95 % interval over lines (the ratio
 * estimator of a cluster sample, Cochran, Sampling Techniques, 3rd ed., 6.4). Mutants of several lines (whole blocks) are not drawn. A
 * whole run takes hours on two cores, a tenth of the lines minutes. Rules: docs/decisions/056.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { seededRandom } from "../test/seededRandom.ts"

const root = dirname(import.meta.dirname)
const percent = Number(process.argv[2] ?? 10)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
if (!(percent > 0 && percent <= 100) || !Number.isInteger(seed)) {
  console.error("Usage: npm run mutation:sample -- [PERCENT of lines, above 0 to 100] [SEED, a whole number]")
  process.exit(2)
}
const random = seededRandom(seed)
const settings = JSON.parse(readFileSync(join(root, "stryker.config.json"), "utf8")) as Record<string, unknown>
const rooms = join(root, "src", "governance")
const left = /^index\.ts$|Schema\.ts$|^GovernanceError\.ts$/
const drawn = readdirSync(rooms)
  .filter((name) => name.endsWith(".ts") && !left.test(name))
  .toSorted()
  .flatMap((name) => {
    const lines = readFileSync(join(rooms, name), "utf8").split("\n")
    return lines.flatMap((line, at) => {
      const comment = /^\s*(\/?\*|\/\/|$)/.test(line)
      return random(10_000) < percent * 100 && !comment ? [`src/governance/${name}:${at + 1}-${at + 1}`] : []
    })
  })
console.log(`${drawn.length} lines drawn, seed ${seed}`)

const reports = join(root, ".reports")
mkdirSync(reports, { recursive: true })
const config = join(reports, "mutation-sample.json")
const fileName = join(reports, "mutation-sample-report.json")
writeFileSync(
  config,
  JSON.stringify({
    ...settings,
    mutate: drawn,
    incremental: false,
    reporters: ["progress-append-only", "json"],
    jsonReporter: { fileName }
  })
)
rmSync(fileName, { force: true })
const stryker = join(
  dirname(createRequire(import.meta.url).resolve("@stryker-mutator/core/package.json")),
  "bin/stryker.js"
)
const run = spawnSync(process.execPath, [stryker, "run", config], {
  cwd: root,
  stdio: ["ignore", "inherit", "inherit"]
})
if (run.status !== 0) {
  console.error("Stryker did not finish. Remedy: see what it said above.")
  process.exit(run.status ?? 1)
}

interface Mutant {
  readonly status: string
  readonly mutatorName: string
  readonly replacement?: string
  readonly location: { readonly start: { readonly line: number; readonly column: number } }
}
const report = JSON.parse(readFileSync(fileName, "utf8")) as {
  readonly files: Readonly<Record<string, { readonly source: string; readonly mutants: readonly Mutant[] }>>
}
const clusters = new Map<string, { dead: number; all: number }>()
for (const [name, { source, mutants }] of Object.entries(report.files)) {
  for (const { status, mutatorName, replacement = "", location } of mutants) {
    if (!["Killed", "Timeout", "Survived", "NoCoverage"].includes(status)) continue
    const { line } = location.start
    const cluster = clusters.get(`${name}:${line}`) ?? { dead: 0, all: 0 }
    clusters.set(`${name}:${line}`, cluster)
    cluster.all += 1
    if (status === "Killed" || status === "Timeout") cluster.dead += 1
    else {
      const text = source.split("\n")[line - 1]!.trim().slice(0, 120)
      console.log(
        `${status} ${name}:${line} ${mutatorName} «${text}» -> ${replacement.replaceAll(/\s+/g, " ").slice(0, 80)}`
      )
    }
  }
}
const found = [...clusters.values()]
const all = found.reduce((sum, cluster) => sum + cluster.all, 0)
const score = found.reduce((sum, cluster) => sum + cluster.dead, 0) / all
const squares = found.reduce((sum, cluster) => sum + (cluster.dead - score * cluster.all) ** 2, 0)
const error = (Math.sqrt(squares / (found.length - 1)) * Math.sqrt(found.length)) / all
const shown = (share: number): string => (100 * share).toFixed(1)
console.log(
  `mutation score ${shown(score)} % of ${all} mutants in ${found.length} lines, 95 % interval ${shown(score - 1.96 * error)} to ${shown(Math.min(1, score + 1.96 * error))} %, seed ${seed}`
)
