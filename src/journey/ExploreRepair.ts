/**
 * Explore a repair (journey J2): many attempts grow from one warm checkpoint, under one goal and one budget; one half-way
 * candidate is handed over; an independent oracle judges each; the one that passes comes out as a patch and is replayed.
 * Promise: a rerun with the same name on the same store goes on where an earlier process stopped; nothing is dispatched,
 * settled or charged twice; failed routes stay readable. Rules: J2, E1, E5, E16, G75, G82, W13, W16.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import * as Duration from "effect/Duration"
import { isCoppiceError } from "../base/CoppiceError.ts"
import { git } from "../base/Command.ts"
import { crashPoint } from "../base/CrashPoint.ts"
import { digestJson, sha256 } from "../base/Digest.ts"
import { liesInside } from "../base/RealPath.ts"
import { makeCostLedger } from "../evaluator/CostLedger.ts"
import { runJudge } from "../evaluator/JudgeProcess.ts"
import { directoryDigest, type OracleKnown, type OracleSpec, type PrepareStep, prove } from "../evaluator/Oracle.ts"
import { Explore, toMermaid } from "../explore/Explore.ts"
import { Agents, Goals, Quota, Settlements, Todos } from "../governance/index.ts"
import { networkVariables, plainDirectory } from "../host/PlainDirectory.ts"
import { Bindings } from "../session/Binding.ts"
import { applyPatch, cleanCheckout, headCommit, sweepCheckouts } from "../workspace/CleanCheckout.ts"
import { environmentDigest, readEnvironment } from "../workspace/EnvironmentManifest.ts"
import { ImportRefused } from "../workspace/WorkspaceError.ts"
import { Workspaces } from "../workspace/WorkspaceProvider.ts"
import { type AttemptDone, agentOf, capabilityOf, limitOf, runAttempt, type Scene } from "./Attempt.ts"
import {
  type AttemptReport,
  NothingAccepted,
  OracleNotProven,
  RepairOptionsError,
  type RepairOptions,
  type RepairReport,
  type Route
} from "./RepairPlan.ts"
import { openRunRecord, privateDirectories, type RunRecord } from "./RunRecord.ts"

/** The goal with its agents, bindings and todos; found again by a rerun. */
const openWork = (options: RepairOptions, validator: string) =>
  Effect.gen(function* () {
    const { run } = options
    const goal = yield* Goals.open({ commandId: `${run}/goal`, title: options.title, budget: options.budget })
    const question = yield* Explore.addNode({
      commandId: `${run}/question`,
      goal: goal.id,
      kind: "question",
      title: options.title.slice(0, 200),
      agent: null
    })
    for (const route of [...options.routes, ...(options.receiver === undefined ? [] : [options.receiver])]) {
      yield* Agents.register({
        commandId: `${run}/${route.id}/agent`,
        goal: goal.id,
        agentId: agentOf(route),
        capabilities: [capabilityOf(route)]
      })
      yield* Bindings.bind({
        commandId: `${run}/${route.id}/bind`,
        goal: goal.id,
        agent: agentOf(route),
        mode: "managed_runtime",
        executorEndpointId: `${route.host.descriptor.kind}/${route.id}`
      })
    }
    for (const route of options.routes) yield* addTodo(options, goal.id, route, validator)
    return { goal: goal.id, question: question.id }
  })

const addTodo = (options: RepairOptions, goal: string, route: Route, validator: string) =>
  Todos.add({
    commandId: `${options.run}/${route.id}/todo`,
    goal,
    title: route.title,
    capabilities: [capabilityOf(route)],
    acceptance: { validator }
  })

/** The oracle of this run: judged in clean checkouts of the source, below the record. */
const oracleOf = (options: RepairOptions, base: string): OracleSpec => {
  const { judge, heldOut, canary, dependencies, name, prepare, timeLimit } = options.oracle
  return {
    name: name ?? "oracle",
    repository: options.source,
    base,
    prepare: prepare ?? [],
    judge,
    heldOut,
    timeLimitMs: limitOf(timeLimit),
    scratch: join(options.record, "scratch"),
    environment: (directory) => plainDirectory(directory, { passEnv: networkVariables }),
    ...(canary === undefined ? {} : { canary }),
    ...(dependencies === undefined ? {} : { dependencies })
  }
}

const proofFile = "verdicts/oracle-proof.json"

/** What a proof is a proof of: this judge with these files, on this base, against these patches. */
const proofKey = (spec: OracleSpec, known: OracleKnown) =>
  Effect.map(
    Effect.promise(() => directoryDigest(spec.heldOut)),
    (heldOut) => {
      const digests = (patches: OracleKnown["fixes"]) => patches.map(({ name, patch }) => [name, sha256(patch)])
      return digestJson({
        heldOut,
        base: spec.base,
        judge: spec.judge,
        prepare: spec.prepare.map((step) => step.argv),
        fixes: digests(known.fixes),
        wrong: digests(known.wrong)
      })
    }
  )

/** Proves the oracle in the background; whoever judges waits for it. A rerun uses the proof of the record if it is of the same things. */
const proveOracle = (options: RepairOptions, spec: OracleSpec, record: RunRecord, say: Scene["say"]) =>
  Effect.gen(function* () {
    const known = options.oracle.proof
    if (known === undefined) return spec
    const key = yield* proofKey(spec, known)
    const earlier = yield* record.read(proofFile)
    const found = earlier === null ? null : (JSON.parse(earlier.toString("utf8")) as { key?: string; proven?: boolean })
    if (found?.key === key && found.proven === true) return spec
    const proof = yield* prove(spec, known, {
      concurrency: 2,
      onVerdict: (name, verdict) => say(null, "oracle", `${name}: ${verdict.outcome}`)
    })
    yield* record.write(proofFile, `${JSON.stringify({ key, ...proof }, null, 2)}\n`)
    if (proof.proven) return spec
    return yield* new OracleNotProven({
      broken: proof.broken,
      message: `The oracle ${spec.name} is not proven: ${proof.broken.join("; ")}.`,
      remedy: "Correct the oracle or the known patches; its word would prove nothing."
    })
  })

const noClocks = makeCostLedger().read()

/** An attempt that ended in a typed error: it stays in the report, with its reason (E15). */
const ended = (route: Route, error: unknown): AttemptReport => ({
  id: route.id,
  route: route.title,
  outcome: (error as { _tag?: string })._tag === "TurnInterrupted" ? "interrupted" : "failed",
  reason: isCoppiceError(error) ? `${error.code}: ${error.message} ${error.remedy}` : String(error),
  checkpoint: null,
  candidate: null,
  changedFiles: null,
  projection: null,
  isolation: null,
  clocks: noClocks,
  usd: null,
  turn: null
})

/** What an earlier process measured of an attempt that this one only found again. */
const measuredBefore = (report: AttemptReport, earlier: readonly AttemptReport[]): AttemptReport => {
  const known = earlier.find((attempt) => attempt.turn !== null && attempt.turn === report.turn)
  if (known === undefined || report.clocks.exec !== null) return report
  return { ...report, projection: known.projection, isolation: known.isolation, clocks: known.clocks }
}

/** Runs a route; its own failure is its own outcome. Only an unproven oracle ends the whole run. */
const attempt = (scene: Scene, route: Route, received: Parameters<typeof runAttempt>[2]) =>
  runAttempt(scene, route, received).pipe(
    Effect.catch((error) =>
      error._tag === "OracleNotProven"
        ? Effect.fail(error)
        : Effect.sync(() => {
            scene.say(route.id, "ended", `${error._tag}: ${error.message}`)
            return { failed: ended(route, error) }
          })
    )
  )

type Ended = { readonly failed: AttemptReport }
const isDone = (value: AttemptDone | Ended | null): value is AttemptDone => value !== null && !("failed" in value)

/** Hands the first half-way candidate over to the receiver, with its findings and what the others refuted. */
const handOver = (scene: Scene, done: readonly AttemptDone[]) =>
  Effect.gen(function* () {
    const { options } = scene
    const { receiver: taker } = options
    if (taker === undefined) return null
    const giver = done.find(
      (a) => a.report.outcome === "handedOver" && a.captured.candidate !== null && a.findings.length > 0
    )
    if (giver === undefined || giver.captured.candidate === null || giver.captured.commit === null) return null
    const findings = [
      ...giver.findings,
      ...done.filter((a) => a !== giver).flatMap((a) => a.findings.filter((finding) => finding.status === "refuted"))
    ]
    const offer = yield* Explore.offerHandoff({
      commandId: `${options.run}/handoff`,
      goal: scene.goal,
      from: giver.agent,
      to: agentOf(taker),
      identity: giver.captured.candidate.identity,
      findings: findings.map((finding) => finding.id)
    })
    crashPoint("repair.handoffOffered")
    yield* addTodo(options, scene.goal, taker, scene.validator)
    const receiver = yield* attempt(scene, taker, {
      handoff: offer.id,
      commit: giver.captured.commit,
      identity: giver.captured.candidate.identity,
      parent: giver.captured.candidate.fields.parent,
      findings
    })
    return { giver, receiver, to: taker.id }
  })

/** The accepted patch in a fresh clone with clean dependencies (J2). */
const replay = (
  steps: readonly PrepareStep[],
  spec: OracleSpec,
  record: RunRecord,
  patchFile: string,
  say: Scene["say"]
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const checkout = yield* cleanCheckout({
        repository: spec.repository,
        commit: spec.base,
        parent: spec.scratch,
        purpose: "replay"
      })
      yield* applyPatch(checkout, record.path(patchFile))
      const environment = spec.environment(checkout)
      for (const step of steps) {
        say(null, "replay", step.argv.join(" "))
        const run = yield* runJudge(environment, step.argv, { timeLimitMs: spec.timeLimitMs })
        if (run.exitCode !== 0) return step.blame === "machine" ? ("unavailable" as const) : ("failed" as const)
      }
      return "passed" as const
    })
  ).pipe(
    Effect.catch((error) =>
      Effect.sync(() => {
        say(null, "replay", error.message)
        return error._tag === "PatchRefused" ? ("failed" as const) : ("unavailable" as const)
      })
    )
  )

const wrong = (option: string, message: string, remedy: string) =>
  Effect.fail(new RepairOptionsError({ option, message, remedy }))

/** Paths as absolute ones, and everything checked that can be checked before anything runs or is written (principle 4). */
const checked = (given: RepairOptions) => {
  const source = resolve(given.source)
  const record = resolve(given.record)
  const heldOut = resolve(given.oracle.heldOut)
  if (!existsSync(source)) {
    return Effect.fail(
      new ImportRefused({
        reason: "notFound",
        path: given.source,
        message: "The source does not exist.",
        remedy: "Give the directory of a git repository."
      })
    )
  }
  if (liesInside(record, source)) {
    return Effect.fail(
      new ImportRefused({
        reason: "storeInside",
        path: given.record,
        message: "The record would lie inside the source that is imported.",
        remedy: "Give a `record` outside the source's directory."
      })
    )
  }
  if (!existsSync(heldOut)) {
    return wrong(
      "oracle.heldOut",
      "The held-out directory does not exist.",
      "Give the directory of the judge's own files."
    )
  }
  if (liesInside(heldOut, source)) {
    return wrong(
      "oracle.heldOut",
      "The held-out files lie inside the source: every attempt would have them in its own tree.",
      "Keep them outside the repository that is repaired."
    )
  }
  if (given.run.trim() === "")
    return wrong("run", "The run has no name.", "Give a name; the same one goes on with the run.")
  if (given.routes.length === 0) return wrong("routes", "There is no route to try.", "Give at least one.")
  const routes = [...given.routes, ...(given.receiver === undefined ? [] : [given.receiver])]
  const ids = new Set<string>()
  for (const route of routes) {
    if (!/^[A-Za-z0-9_.-]{1,40}$/.test(route.id) || ids.has(route.id)) {
      return wrong(
        "routes",
        `The route id "${route.id}" is used twice or is no short plain name.`,
        "Letters, digits, . _ - only, each id once."
      )
    }
    ids.add(route.id)
    if (Option.isNone(Duration.fromInput(route.timeLimit ?? "10 minutes"))) {
      return wrong("timeLimit", `The time limit of route ${route.id} is no duration.`, 'For example "5 minutes".')
    }
    if (!(route.usd <= given.budget.usd)) {
      return wrong(
        "budget",
        `Route ${route.id} may cost more than the whole budget.`,
        "Raise `budget.usd`, or lower the route's `usd`."
      )
    }
  }
  return Effect.succeed({ ...given, source, record, oracle: { ...given.oracle, heldOut } } satisfies RepairOptions)
}

/**
 * Patches are made against what was imported and applied to a clean checkout of the base: where tracked files differ between the
 * two, no patch that touches them could apply, and every attempt would be refused for it. So it is said before anything runs.
 */
const cleanSource = (source: string, base: string) =>
  Effect.gen(function* () {
    const known = yield* git(["rev-parse", "--verify", "--quiet", "--end-of-options", `${base}^{commit}`], {
      cwd: source
    })
    if (known.code !== 0) {
      return yield* wrong(
        "base",
        "The source has no such commit.",
        "Give a commit of the source, or leave `base` out for its HEAD."
      )
    }
    const changed = yield* git(["diff", "--name-only", base, "--"], { cwd: source })
    const names = changed.stdout
      .toString("utf8")
      .split("\n")
      .filter((name) => name !== "")
    if (names.length > 0) {
      return yield* wrong(
        "source",
        `Tracked files of the source differ from its base: ${names.slice(0, 5).join(", ")}${names.length > 5 ? ` and ${names.length - 5} more` : ""}.`,
        "Commit or stash them, or name the commit that the source stands at as `base`."
      )
    }
  })

/** What a run is about. A record that was made for something else is refused: its results would be told as this one's. */
const sameRun = (options: RepairOptions, base: string, record: RunRecord) =>
  Effect.gen(function* () {
    const routes = [...options.routes, ...(options.receiver === undefined ? [] : [options.receiver])]
    const about = digestJson({
      run: options.run,
      source: options.source,
      base,
      routes: routes.map(({ id, title, instruction, usd }) => ({ id, title, instruction, usd })),
      judge: options.oracle.judge,
      heldOut: options.oracle.heldOut
    })
    const earlier = yield* record.read("about.json")
    if (earlier === null) {
      yield* record.write("about.json", `${JSON.stringify({ run: options.run, base, about })}\n`)
    } else if ((JSON.parse(earlier.toString("utf8")) as { about?: string }).about !== about) {
      return yield* wrong(
        "run",
        `The record holds run ${options.run} with another source, base, oracle or other routes.`,
        "Give another `record` and `run` name; to go on with the old run, give its options again."
      )
    }
  })

/**
 * Runs, or goes on with, the exploration of a repair.
 *
 * Errors: `OracleNotProven` (correct the oracle), `ImportRefused` and `StoreLocation` (see their remedies), and the
 * authority's own. What goes wrong in one attempt is that attempt's outcome. A run in which nothing was accepted is a
 * report with `accepted: null`; `requireAccepted` turns it into `NothingAccepted`.
 */
export const exploreRepair = (given: RepairOptions) =>
  Effect.gen(function* () {
    const options = yield* checked(given)
    const workspaces = yield* Workspaces
    const ledger = makeCostLedger()
    const say: Scene["say"] = (attemptId, stage, text) => {
      try {
        options.onProgress?.({ attempt: attemptId, stage, text })
      } catch {
        // Telling is not the work: a listener that throws ends nothing.
      }
    }
    const base = options.base ?? (yield* headCommit(options.source))
    yield* cleanSource(options.source, base)
    const spec = oracleOf(options, base)
    const record = yield* openRunRecord(options.record)
    yield* sameRun(options, base, record)
    yield* sweepCheckouts(spec.scratch)
    const work = yield* openWork(options, spec.name)
    crashPoint("repair.opened")

    say(null, "import", "reading the source with its dependencies")
    const imported = yield* ledger.time(
      "import",
      workspaces.importDirectory({
        source: options.source,
        name: options.run,
        operationId: `${options.run}/import`,
        onProgress: (progress) => say(null, "import", `${progress.phase} ${progress.files} files`)
      })
    )
    crashPoint("repair.imported")
    say(null, "imported", `${imported.files} files, ${imported.bytes} bytes, warm checkpoint ${imported.commit}`)
    const environment = environmentDigest(yield* readEnvironment(options.source, options.environment))

    const oracle = yield* Deferred.make<OracleSpec, OracleNotProven>()
    yield* Effect.forkScoped(Deferred.complete(oracle, proveOracle(options, spec, record, say)))
    const scene: Scene = {
      options,
      hide: [spec.heldOut, ...privateDirectories.map(record.path), ...(options.hide ?? [])],
      validator: spec.name,
      record,
      goal: work.goal,
      question: work.question,
      base: imported.commit,
      environment,
      oracle: Deferred.await(oracle),
      winner: { effectId: null },
      recovered: [],
      say
    }

    const first = yield* Effect.forEach(options.routes, (route) => attempt(scene, route, null), {
      concurrency: options.workers ?? Math.max(1, options.routes.length)
    })
    const handed = yield* handOver(scene, first.filter(isDone))
    yield* Deferred.await(oracle)
    const all = [...first, handed?.receiver ?? null]
    const winner = all.filter(isDone).find((a) => a.report.outcome === "accepted") ?? null

    let accepted: RepairReport["accepted"] = null
    let replayed: RepairReport["replay"] = null
    if (winner !== null && winner.captured.candidate !== null && winner.verdict !== null) {
      yield* ledger.time("export", record.write("fix.patch", winner.captured.patch))
      accepted = {
        attempt: winner.report.id,
        candidate: winner.captured.candidate.identity,
        patch: "fix.patch",
        verification: winner.verdict
      }
      if (options.replay !== undefined) {
        replayed = yield* ledger.time("verify", replay(options.replay, spec, record, "fix.patch", say))
      }
    }
    const before = yield* record.read("run.json")
    const earlier = before === null ? [] : (JSON.parse(before.toString("utf8")) as RepairReport).attempts
    const graph = yield* Explore.graph({ goal: work.goal })
    yield* record.write("graph.mmd", toMermaid(graph))
    yield* record.write("graph.json", `${JSON.stringify(graph, null, 2)}\n`)
    const settlements = yield* Settlements.list({ goal: work.goal })
    const quota = yield* Quota.status({ goal: work.goal })
    const report: RepairReport = {
      run: options.run,
      goal: work.goal,
      imported: { commit: imported.commit, files: imported.files, bytes: imported.bytes },
      oracle: options.oracle.proof === undefined ? "unproven" : "proven",
      attempts: all.flatMap((a) => (a === null ? [] : [measuredBefore(isDone(a) ? a.report : a.failed, earlier)])),
      handoff:
        handed === null
          ? null
          : {
              from: handed.giver.report.id,
              to: handed.to,
              verified: graph.handoffs[0]?.verified === true,
              adopted: graph.handoffs[0]?.adopted === true
            },
      accepted,
      replay: replayed,
      settlements: { accepted: settlements.accepted, total: settlements.total },
      quota: { reserved: quota.reserved.usd, spent: quota.spent.usd, remaining: quota.remaining.usd },
      recovered: scene.recovered,
      clocks: ledger.read()
    }
    yield* record.write("run.json", `${JSON.stringify(report, null, 2)}\n`)
    return report
  }).pipe(Effect.scoped)

/** The report, or `NothingAccepted` with every attempt and why. */
export const requireAccepted = (report: RepairReport): Effect.Effect<RepairReport, NothingAccepted> =>
  report.accepted !== null
    ? Effect.succeed(report)
    : Effect.fail(
        new NothingAccepted({
          attempts: report.attempts.map(({ id, outcome, reason }) => ({ id, outcome, reason })),
          message: `None of ${report.attempts.length} attempts was accepted.`,
          remedy:
            "Read each attempt's reason, and results/ and verdicts/ in the record. Settled attempts are not tried again: give other routes under a new `run` name and record."
        })
      )
