/**
 * `npm run demo -- --repo PATH …`: the same job on a repository that was not made for it, with plain commands.
 * Promise: progress on stderr, a table (or with --json one object) on stdout; the repository is only read; nothing is left but
 * the printed record, and a run that was stopped or killed goes on with the same --record.
 */
import { existsSync, mkdirSync, realpathSync } from "node:fs"
import { rm } from "node:fs/promises"
import { homedir } from "node:os"
import { basename, join, resolve } from "node:path"
import * as Effect from "effect/Effect"
import { bar, progressLine } from "../../src/cli/ProgressLine.ts"
import { isCoppiceError, repairRepository, type RepairReport } from "../../src/index.ts"
import { standard } from "../../src/standard.ts"
import { standsAt } from "../../src/workspace/index.ts"
import { type Leftovers, watchLeftovers } from "../explore-repair/leftovers.ts"
import { notARecord } from "./record.ts"
import { printRepairTable } from "./table.ts"

export interface RepositoryArguments {
  readonly repo: string
  readonly prepare?: string
  readonly attempt: readonly string[]
  readonly verify?: string
  readonly heldOut?: string
  readonly record?: string
  readonly passEnv: readonly string[]
  readonly show: readonly string[]
  readonly timeLimit?: string
  readonly json: boolean
}

const line = progressLine(process.stderr)
const tell = (text: string) => line.tell(`  ${text}`)

/** Never inside a repository that is imported: below the user's state directory. */
const defaultRecord = (repository: string): string => {
  const state = process.env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state")
  const stamp = new Date().toISOString().replace(/[-:]/g, "").slice(0, 15)
  return join(state, "coppice", "runs", `${basename(repository).replace(/[^\w.-]/g, "_")}-${stamp}-${process.pid}`)
}

const summary = (report: RepairReport, repository: string, record: string, left: Leftovers, begun: number) => ({
  ok:
    report.accepted !== null &&
    report.replay === "passed" &&
    left.mounts.length + left.processes.length + left.directories.length === 0,
  ...report,
  accepted: report.accepted === null ? null : { ...report.accepted, patch: join(record, report.accepted.patch) },
  leftovers: left,
  seconds: Math.round(performance.now() - begun) / 1000,
  repository,
  record
})

/** Gives the exit code: 0 when something was accepted, replayed, and nothing was left over. */
export const runRepository = async (args: RepositoryArguments): Promise<number> => {
  const begun = performance.now()
  const repository = resolve(args.repo)
  const record = resolve(args.record ?? defaultRecord(repository))
  const other = notARecord(record, ["about.json", "store"])
  if (other !== undefined) {
    if (args.json) console.log(JSON.stringify({ ok: false, error: "NOT_A_RECORD", record }))
    tell(other)
    return 2
  }
  let left: (() => Leftovers) | undefined
  const stop = new AbortController()
  try {
    // Before the preset opens a store: what is no source leaves nothing behind.
    await Effect.runPromise(standsAt(repository))
    const program = repairRepository({
      repository,
      record,
      attempts: args.attempt,
      verify: args.verify ?? "",
      passEnv: args.passEnv,
      show: args.show.map((path) => resolve(path)),
      retryInterrupted: true,
      ...(args.prepare === undefined ? {} : { prepare: args.prepare }),
      ...(args.heldOut === undefined ? {} : { heldOut: args.heldOut }),
      ...(args.timeLimit === undefined ? {} : { timeLimit: args.timeLimit as "10 minutes" }),
      onProgress: ({ attempt, stage, text, step }) => {
        // The first word of progress: every option was checked, and the record is there.
        left ??= watchLeftovers(realpathSync(record))
        if (step !== undefined) return line.show(`  ${bar(step)}`)
        if (stage === "import") return
        // What a bar told of is over.
        line.end()
        tell(`${(attempt ?? "").padEnd(3)} ${stage.padEnd(9)} ${text}`)
      }
    }).pipe(
      // Naming the project keeps a store out of it before anything is made.
      Effect.provide(standard({ store: join(record, "store"), project: repository }))
    )
    const interrupt = () => {
      tell(`stopping; go on with the same command and --record ${record}`)
      stop.abort()
    }
    process.once("SIGINT", interrupt).once("SIGTERM", interrupt)
    const report = await Effect.runPromise(program, { signal: stop.signal }).finally(() => line.end())
    await rm(join(record, "scratch"), { recursive: true, force: true })
    mkdirSync(record, { recursive: true })
    const result = summary(report, repository, record, (left ?? watchLeftovers(realpathSync(record)))(), begun)
    if (args.json) console.log(JSON.stringify(result))
    else printRepairTable(result)
    return result.ok ? 0 : 1
  } catch (error) {
    left?.()
    if (stop.signal.aborted) {
      if (args.json) console.log(JSON.stringify({ ok: false, error: "STOPPED", record }))
      return 130
    }
    const known = isCoppiceError(error) ? error : undefined
    if (args.json) console.log(JSON.stringify({ ok: false, error: known?.code ?? "UNEXPECTED", record }))
    tell(
      known === undefined
        ? String((error as Error).stack ?? error)
        : `${known.code}: ${known.message}\n  ${known.remedy}`
    )
    if (existsSync(record)) tell(`record     ${record}`)
    return 1
  }
}
