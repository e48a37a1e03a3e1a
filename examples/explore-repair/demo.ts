/**
 * The demo: Coppice does its job for real, on the repository of fixture/.
 * Promise: progress on stderr, a table (or with --json one object) on stdout, and nothing left but the printed record.
 *
 *   npm run demo                       npm run -s demo -- --json
 *   npm run demo -- --record DIR       the record there; a run that was killed goes on when DIR is named again
 *   npm run demo -- --repo PATH …      the same on any repository, with plain commands (../any-repository)
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { bar, progressLine } from "../../src/cli/ProgressLine.ts"
import { exploreRepair, isCoppiceError, type RepairOptions, type RepairReport, type Route } from "../../src/index.ts"
import { standard } from "../../src/standard.ts"
import { processHost } from "../../providers/host-process/index.ts"
import { type Leftovers, watchLeftovers } from "./leftovers.ts"
import { notARecord } from "../any-repository/record.ts"
import { makeFixture } from "./make-fixture.ts"
import { printTable } from "./table.ts"

const here = fileURLToPath(new URL(".", import.meta.url))
const usage = `npm run demo [-- OPTIONS]                 on the repository of the demo
npm run demo -- --repo PATH OPTIONS       on any git repository, with plain commands

--json           one JSON object on stdout
--record DIR     where the record is written; the same one goes on with a run that was stopped

With --repo:
--prepare CMD    makes a copy workable, for example "npm ci"; runs once, and in every clean checkout
--attempt CMD    tries the work, in a workspace of its own; give it as often as you like
--verify CMD     judges in a clean checkout: exit code 0 accepts
--held-out DIR   files that attempts never see, laid over the checkout for --verify
--pass-env NAME  a variable that the commands may see; as often as you like
--show PATH      a path below /tmp that attempts need to see; as often as you like
--time-limit T   for each attempt, for example "5 minutes" (10 minutes unless given)`

const parsed = () => {
  try {
    return parseArgs({
      options: {
        json: { type: "boolean", default: false },
        record: { type: "string" },
        help: { type: "boolean" },
        repo: { type: "string" },
        prepare: { type: "string" },
        attempt: { type: "string", multiple: true, default: [] },
        verify: { type: "string" },
        "held-out": { type: "string" },
        "pass-env": { type: "string", multiple: true, default: [] },
        show: { type: "string", multiple: true, default: [] },
        "time-limit": { type: "string" }
      }
    }).values
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`)
    process.exit(2)
  }
}
const args = parsed()
if (args.help === true) {
  console.log(usage)
  process.exit(0)
}
for (const name of ["repo", "record", "held-out", "prepare", "verify"] as const) {
  // An empty value is an unset variable of a shell, never the working directory.
  if (args[name]?.trim() !== "") continue
  console.error(`--${name} has an empty value.\n\n${usage}`)
  process.exit(2)
}
if (args.repo !== undefined) {
  const missing = args.verify === undefined ? "--verify CMD" : args.attempt.length === 0 ? "--attempt CMD" : undefined
  if (missing !== undefined) {
    console.error(`--repo needs ${missing}.\n\n${usage}`)
    process.exit(2)
  }
  const { runRepository } = await import("../any-repository/run.ts")
  const given = { prepare: args.prepare, verify: args.verify, record: args.record }
  process.exit(
    await runRepository({
      repo: args.repo,
      attempt: args.attempt,
      passEnv: args["pass-env"],
      show: args.show,
      json: args.json,
      ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
      ...(args["held-out"] === undefined ? {} : { heldOut: args["held-out"] }),
      ...(args["time-limit"] === undefined ? {} : { timeLimit: args["time-limit"] })
    })
  )
}
for (const name of ["prepare", "attempt", "verify", "held-out", "pass-env", "show", "time-limit"] as const) {
  if ([args[name] ?? []].flat().length === 0) continue
  console.error(`--${name} goes with --repo.\n\n${usage}`)
  process.exit(2)
}

const begun = performance.now()
const seconds = (ms: number) => Math.round(ms) / 1000
const line = progressLine(process.stderr)
const tell = (text: string) => line.tell(`  ${text}`)

const stamp = new Date().toISOString().replace(/[-:]/g, "").slice(0, 15)
const record = resolve(args.record ?? join(here, "..", "..", "record", `demo-${stamp}-${process.pid}`))
const other = notARecord(record, ["demo.json", "fixture.json"])
if (other !== undefined) {
  console.error(other)
  process.exit(2)
}
mkdirSync(record, { recursive: true, mode: 0o700 })
writeFileSync(join(record, "demo.json"), `${JSON.stringify({ record: "of the demo" })}\n`)
const leftovers = watchLeftovers(realpathSync(record))

/** Makes the fixture; a failure says which step of the preparation it was and what to look at. */
const preparing = async (target: string) => {
  let phase = "copy"
  try {
    return await makeFixture(target, {
      onProgress: (progress) => {
        phase = progress.phase
        tell(`prepare    ${phase}`)
      }
    })
  } catch (error) {
    const last = String((error as { stderr?: string }).stderr ?? (error as Error).message)
      .trim()
      .split("\n")
      .at(-1)
    throw Object.assign(new Error("preparation"), {
      _tag: "PreparationFailed",
      code: "PREPARATION_FAILED",
      message: `Preparing the repository failed in the step ${phase}: ${last}`,
      remedy: "The step download is `npm ci`: check that npm reaches its registry. Then run the demo again."
    })
  }
}

/** The fixture is made once a record; a rerun finds it, with what its preparation took. */
const prepared = async () => {
  const note = join(record, "fixture.json")
  if (existsSync(note)) return JSON.parse(readFileSync(note, "utf8")) as Awaited<ReturnType<typeof makeFixture>>
  const target = join(record, "ledger")
  await rm(target, { recursive: true, force: true })
  const made = await preparing(target)
  writeFileSync(note, JSON.stringify(made))
  return made
}

const worker = (name: string) => processHost(["node", join(here, "workers", `${name}.mjs`)])
const route = (id: string, title: string, program: string, instruction: string): Route => ({
  id,
  title,
  instruction,
  host: worker(program),
  usd: 0.4,
  timeLimit: "5 minutes"
})

const patches = (directory: string, names: readonly string[]) =>
  names.map((name) => ({ name, patch: readFileSync(join(here, directory, `${name}.patch`)) }))

/** Workers of a clone that lies below /tmp would not be seen by attempts, whose own /tmp is private. */
const show = [join(here, "workers")]

const options = (repository: string, base: string): RepairOptions => ({
  run: "demo",
  title: "An unreadable spend artifact must still count as spent",
  // Room for every route twice: what a killed run may have spent stays held.
  budget: { usd: 4, slots: 12 },
  source: repository,
  base,
  environment: { tools: ["node", "npm", "git"], lockfiles: ["package-lock.json"] },
  routes: [
    route("a1", "throttle everybody", "throttle-everyone", "Make the failing test pass."),
    route("a2", "catch and ignore", "catch-and-ignore", "Make the failing test pass."),
    route("a3", "exact amount in the row", "exact-amount", "Keep the amount where it cannot be lost.")
  ],
  receiver: route("r1", "finish a3", "receiver", "Verify the candidate, read the findings, finish the work."),
  workers: 3,
  oracle: {
    name: "ledger-oracle",
    dependencies: {
      install: ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"],
      decidedBy: ["package-lock.json", "package.json", "packages/core/package.json", "packages/gate/package.json"],
      directories: ["node_modules"]
    },
    prepare: [{ argv: ["npm", "run", "-s", "build"], blame: "candidate" }],
    judge: ["node", join(here, "held-out", "verify.mjs")],
    heldOut: join(here, "held-out"),
    canary: readFileSync(join(here, "held-out", "canary"), "utf8").trim(),
    timeLimit: "5 minutes",
    proof: {
      fixes: patches("fixes", ["a", "b"]),
      wrong: patches("wrong", ["throttle-everyone", "catch-and-ignore", "half-way"])
    }
  },
  replay: [
    { argv: ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"], blame: "machine" },
    { argv: ["npm", "test"], blame: "candidate" }
  ],
  show,
  hide: ["fixes", "wrong"].map((name) => join(here, name)),
  record,
  retryInterrupted: true,
  onProgress: ({ attempt, stage, text, step }) => {
    if (step !== undefined) return line.show(`  ${bar(step)}`)
    if (stage === "import") return
    // What a bar told of is over.
    line.end()
    tell(`${(attempt ?? "").padEnd(3)} ${stage.padEnd(9)} ${text}`)
  }
})

/** The shape that later tools read; see README. */
const summary = (report: RepairReport, downloadSeconds: number, left: Leftovers) => ({
  ok:
    report.accepted !== null &&
    report.replay === "passed" &&
    report.settlements.accepted === 1 &&
    left.mounts.length + left.processes.length + left.directories.length === 0,
  goal: report.goal,
  workers: "scripted",
  oracle: report.oracle,
  attempts: report.attempts.map((a) => ({
    id: a.id,
    route: a.route,
    outcome: a.outcome,
    reason: a.reason,
    checkpoint: a.checkpoint,
    candidate: a.candidate,
    changedFiles: a.changedFiles,
    projection: a.projection,
    isolation: a.isolation,
    clocks: a.clocks,
    usd: a.usd
  })),
  handoff: report.handoff,
  accepted:
    report.accepted === null
      ? null
      : {
          candidate: report.accepted.candidate,
          patch: join(record, report.accepted.patch),
          verification: report.accepted.verification
        },
  replay: report.replay,
  settlements: report.settlements,
  quota: report.quota,
  recovered: report.recovered,
  clocks: report.clocks,
  leftovers: left,
  seconds: seconds(performance.now() - begun),
  downloadSeconds,
  record
})

const stop = new AbortController()

const main = async (): Promise<number> => {
  const fixture = await prepared()
  // Ctrl-C ends workers, workspaces and checkouts in order; the record stays, and the same --record goes on from it.
  const interrupt = () => {
    tell(`stopping; go on with: npm run demo -- --record ${record}`)
    stop.abort()
  }
  process.once("SIGINT", interrupt).once("SIGTERM", interrupt)
  tell(`prepared   ledger@${fixture.commit.slice(0, 7)}  ${fixture.files} files`)
  const program = exploreRepair(options(fixture.path, fixture.commit)).pipe(
    Effect.provide(standard({ store: join(record, "store") }))
  )
  const report = await Effect.runPromise(program, { signal: stop.signal }).finally(() => line.end())
  await rm(join(record, "scratch"), { recursive: true, force: true })
  const result = summary(report, fixture.downloadSeconds, leftovers())
  if (args.json) console.log(JSON.stringify(result))
  else printTable(result, fixture)
  return result.ok ? 0 : 1
}

try {
  process.exitCode = await main()
} catch (error) {
  const known = isCoppiceError(error) ? error : undefined
  const code = stop.signal.aborted ? "STOPPED" : (known?.code ?? "UNEXPECTED")
  if (args.json) console.log(JSON.stringify({ ok: false, error: code, record }))
  // That it stops, and how it goes on, was said when it was asked to.
  if (!stop.signal.aborted) {
    tell(known === undefined ? String((error as Error).stack ?? error) : `${code}: ${known.message}\n  ${known.remedy}`)
  }
  process.exitCode = stop.signal.aborted ? 130 : 1
}
