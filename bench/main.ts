/**
 * `npm run -s bench -- AREA [--json] [--tree PATH | --files N --megabytes M --seed S] [--repo PATH]`: raw figures of one area.
 * Promise: one JSON object with --json, a table without it; progress goes to stderr; bad arguments change nothing.
 * Rules: workspaces.md, "Figures"; principle 7.
 */
import { statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { describeCommit, describeMachine } from "./measure.ts"
import { type AreaResult, type BenchReport, plainTable } from "./report.ts"
import { fullSize } from "./tree.ts"

/** What the areas are told. */
export interface BenchOptions {
  /** The project's own directory. */
  readonly root: string
  /** A directory to measure instead of a generated tree. */
  readonly tree: string | undefined
  readonly files: number
  readonly bytes: number
  readonly seed: number
  /** Rounds of the rows that take seconds. */
  readonly runs: number
  /** Only rows whose id starts with this. */
  readonly only: string | undefined
  /** A git repository whose last states are measured instead of generated ones. */
  readonly repo: string | undefined
  readonly progress: (text: string) => void
}

interface Area {
  /** Ids of all its rows, as the issues write them. */
  readonly rowIds: readonly string[]
  readonly run: (options: BenchOptions) => Promise<AreaResult>
}

const areas: Readonly<Record<string, () => Promise<Area>>> = {
  governance: () => import("./governance.ts"),
  layerfs: () => import("./layerfs.ts"),
  projections: () => import("./projections.ts"),
  workspace: () => import("./workspace.ts")
}

const usage =
  "Use `npm run -s bench -- AREA [--json] [--tree PATH | --files N --megabytes M --seed S] [--runs N] [--only ROW] [--repo PATH]`."

class BadArgument extends Error {}

const wholeNumber = (name: string, text: string | undefined, fallback: number, least: number): number => {
  if (text === undefined) return fallback
  const value = Number(text)
  if (!/^\d+$/.test(text) || value < least) throw new BadArgument(`--${name} takes a whole number from ${least}.`)
  return value
}

const readArguments = (argv: readonly string[]) => {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        json: { type: "boolean", default: false },
        tree: { type: "string" },
        files: { type: "string" },
        megabytes: { type: "string" },
        seed: { type: "string" },
        runs: { type: "string" },
        only: { type: "string" },
        repo: { type: "string" }
      }
    })
  } catch (error) {
    throw new BadArgument((error as Error).message)
  }
}

const main = async (argv: readonly string[]): Promise<void> => {
  const { values, positionals } = readArguments(argv)
  const [area = "", ...more] = positionals
  const load = Object.hasOwn(areas, area) ? areas[area] : undefined
  if (load === undefined || more.length > 0) {
    throw new BadArgument(`Name one area: ${Object.keys(areas).join(", ")}.`)
  }
  if (values.tree !== undefined && !statSync(values.tree, { throwIfNoEntry: false })?.isDirectory()) {
    throw new BadArgument("--tree must name a directory.")
  }
  if (values.tree !== undefined && (values.files ?? values.megabytes ?? values.seed) !== undefined) {
    throw new BadArgument("--tree excludes --files, --megabytes and --seed.")
  }
  if (
    values.repo !== undefined &&
    (area !== "layerfs" || !statSync(values.repo, { throwIfNoEntry: false })?.isDirectory())
  ) {
    throw new BadArgument("--repo must name a git repository, and belongs to the area layerfs.")
  }
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const options: BenchOptions = {
    root,
    tree: values.tree === undefined ? undefined : resolve(values.tree),
    files: wholeNumber("files", values.files, fullSize.files, 20),
    bytes: wholeNumber("megabytes", values.megabytes, fullSize.bytes / 1e6, 1) * 1e6,
    seed: wholeNumber("seed", values.seed, fullSize.seed, 0),
    runs: wholeNumber("runs", values.runs, 5, 1),
    only: values.only,
    repo: values.repo === undefined ? undefined : resolve(values.repo),
    progress: (text) => console.error(`bench: ${text}`)
  }
  const measured = await load()
  const { only } = options
  if (only !== undefined && !measured.rowIds.some((id) => id.startsWith(only))) {
    throw new BadArgument(`--only takes the start of a row id: ${measured.rowIds.join(", ")}.`)
  }
  const result = await measured.run(options)
  const report: BenchReport = { area, machine: describeMachine(), commit: describeCommit(root), ...result }
  console.log(values.json ? JSON.stringify(report) : plainTable(report))
  if (report.rows.some((row) => !row.correct)) process.exitCode = 1
}

process.once("SIGINT", () => process.exit(130))
process.once("SIGTERM", () => process.exit(143))

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof BadArgument)) throw error
  console.error(`BAD_ARGUMENT: ${error.message}\nRemedy: ${usage}`)
  process.exitCode = 2
}
