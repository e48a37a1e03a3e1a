/**
 * Explore a repair (journey J2): many attempts grow from one warm checkpoint, under one goal and one budget; one half-way
 * candidate is handed over; an independent oracle judges each; the one that passes comes out as a patch and is replayed.
 * Promise: a rerun with the same name on the same store goes on where an earlier process stopped; nothing is dispatched,
 * settled or charged twice; failed routes stay readable. Rules: J2, E1, E5, E16, G75, G82, W13, W16.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../base/CoppiceError.ts"
import { crashPoint } from "../base/CrashPoint.ts"
import type { FileNotWritten } from "../base/DurableFile.ts"
import { sweepDependencies } from "../evaluator/CleanDependencies.ts"
import { makeCostLedger } from "../evaluator/CostLedger.ts"
import { Explore, toMermaid } from "../explore/Explore.ts"
import { Agents, Evidence, Goals, Quota, Settlements, Todos } from "../governance/index.ts"
import { Bindings } from "../session/Binding.ts"
import { resultArtifacts } from "../session/ResultFile.ts"
import { sweepCheckouts } from "../workspace/CleanCheckout.ts"
import { environmentDigest, readEnvironment } from "../workspace/EnvironmentManifest.ts"
import { standsAt } from "../workspace/SourceState.ts"
import { type AttemptDone, agentOf, capabilityOf, runAttempt, type Scene } from "./Attempt.ts"
import { oracleOf, proveOracle, type Shown } from "./OracleRun.ts"
import { aboutOf, checked, mayBeRecord, otherRunInStore, sameRecord } from "./RepairChecks.ts"
import {
  type AttemptReport,
  NothingAccepted,
  type OracleNotProven,
  type RepairOptions,
  type RepairReport,
  type Route
} from "./RepairPlan.ts"
import { replay } from "./Replay.ts"
import { openRunRecord, privateDirectories } from "./RunRecord.ts"
import { takeSource } from "./SourceRun.ts"
import { warmUp } from "./WarmUp.ts"

/** The goal with its agents, bindings and todos; found again by a rerun. */
const openWork = (options: RepairOptions, validator: string) =>
  Effect.gen(function* () {
    const { run } = options
    // A name that the store knows with another payload is another run's.
    const other = () => otherRunInStore(options)
    const goal = yield* Goals.open({ commandId: `${run}/goal`, title: options.title, budget: options.budget }).pipe(
      Effect.catchTag("IdempotencyKeyReuse", other)
    )
    yield* Evidence.record({
      commandId: `${run}/about`,
      goal: goal.id,
      kind: "plan",
      digest: aboutOf(options),
      summary: "What this run is about",
      ref: "about.json",
      producer: { role: "person", name: "caller" }
    }).pipe(Effect.catchTag("IdempotencyKeyReuse", other))
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
    crashPoint("repair.bound")
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
  leftOut: null,
  projection: null,
  isolation: null,
  touchedOutside: null,
  clocks: noClocks,
  usd: null,
  turn: null
})

/** What an earlier process measured of an attempt that this one only found again. */
const measuredBefore = (report: AttemptReport, earlier: readonly AttemptReport[]): AttemptReport => {
  const known = earlier.find((attempt) => attempt.turn !== null && attempt.turn === report.turn)
  if (known === undefined || report.clocks.exec !== null) return report
  const { projection, isolation, touchedOutside, clocks } = known
  return { ...report, projection, isolation, touchedOutside, clocks }
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
    // What an earlier process offered stays offered: an attempt that failed then may have learned something since.
    const { handoffs } = yield* Explore.graph({ goal: scene.goal })
    const offered = handoffs.find((handoff) => handoff.to === agentOf(taker))
    const giver = done.find(
      (a) =>
        a.report.outcome === "handedOver" &&
        a.findings.length > 0 &&
        a.captured.candidate !== null &&
        (offered === undefined || offered.identity === a.captured.candidate.identity)
    )
    if (giver === undefined || giver.captured.candidate === null || giver.captured.commit === null) return null
    const others = done.filter((a) => a !== giver).flatMap((a) => a.findings)
    const findings =
      offered === undefined
        ? [...giver.findings, ...others.filter((finding) => finding.status === "refuted")]
        : [...giver.findings, ...others].filter((finding) => offered.findings.includes(finding.id))
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

/**
 * Runs, or goes on with, the exploration of a repair.
 *
 * Errors: `RepairOptionsError` and `SourceUnusable` (nothing was started), `OracleNotProven` (correct the oracle),
 * `PrepareFailed` (its log lies in the record), `ImportRefused` and `StoreLocation` (see their remedies), and the authority's own. What goes wrong in one attempt is that attempt's outcome. A run in which nothing was accepted is a
 * report with `accepted: null`; `requireAccepted` turns it into `NothingAccepted`.
 */
export const exploreRepair = (given: RepairOptions) =>
  Effect.gen(function* () {
    const options = yield* checked(given)
    const ledger = makeCostLedger()
    const say: Scene["say"] = (attemptId, stage, text, step) => {
      try {
        options.onProgress?.({ attempt: attemptId, stage, text, ...(step === undefined ? {} : { step }) })
      } catch {
        // Telling is not the work: a listener that throws ends nothing.
      }
    }
    // Everything that can be refused is refused before a directory is made.
    yield* standsAt(options.source, options.base)
    yield* mayBeRecord(options)
    const record = yield* openRunRecord(options.record)
    yield* sameRecord(options, record)
    yield* sweepCheckouts(record.path("scratch"))
    yield* sweepDependencies(record.path("scratch"))
    const work = yield* openWork(options, options.oracle.name ?? "oracle")
    yield* record.write(
      "about.json",
      `${JSON.stringify({ run: options.run, about: aboutOf(options), goal: work.goal })}\n`
    )
    crashPoint("repair.opened")

    const { imported, state, stores, report: source } = yield* takeSource(options, record, ledger, say)
    say(null, "imported", `${imported.files} files, ${imported.bytes} bytes, as commit ${imported.commit}`)
    const spec = oracleOf(options, state.commit, { state, stores })
    const oracle = yield* Deferred.make<Shown, OracleNotProven | FileNotWritten>()
    yield* Effect.forkScoped(Deferred.complete(oracle, proveOracle(options, spec, record, say)))
    const warm = yield* warmUp(options, imported.commit, record, ledger, say)
    const environment = environmentDigest(yield* readEnvironment(options.source, options.environment))

    const scene: Scene = {
      options,
      hide: [
        ...(spec.heldOut === null ? [] : [spec.heldOut]),
        ...privateDirectories.map(record.path),
        ...(options.hide ?? [])
      ],
      validator: spec.name,
      record,
      goal: work.goal,
      question: work.question,
      base: imported.commit,
      warm: warm?.commit ?? imported.commit,
      environment,
      oracle: Effect.map(Deferred.await(oracle), (shown) => shown.spec),
      winner: { effectId: null },
      recovered: [],
      say
    }

    const first = yield* Effect.forEach(options.routes, (route) => attempt(scene, route, null), {
      concurrency: options.workers ?? Math.max(1, options.routes.length)
    })
    const handed = yield* handOver(scene, first.filter(isDone))
    const shown = yield* Deferred.await(oracle)
    const all = [...first, handed?.receiver ?? null]
    const winner = all.filter(isDone).find((a) => a.report.outcome === "accepted") ?? null

    let accepted: RepairReport["accepted"] = null
    let replayed: RepairReport["replay"] = null
    if (winner !== null && winner.captured.candidate !== null) {
      yield* ledger.time("export", record.write("fix.patch", winner.captured.patch))
      crashPoint("repair.exported")
      accepted = {
        attempt: winner.report.id,
        candidate: winner.captured.candidate.identity,
        patch: "fix.patch",
        verification: winner.verdict
      }
      if (options.replay !== undefined) {
        replayed = yield* ledger.time("verify", replay(options.replay, spec, record, "fix.patch", say))
        crashPoint("repair.replayed")
      }
    }
    const before = yield* record.read("run.json")
    const earlier = before === null ? [] : attemptsIn(before)
    const graph = yield* Explore.graph({ goal: work.goal })
    yield* record.write("graph.mmd", toMermaid(graph))
    yield* record.write("graph.json", `${JSON.stringify(graph, null, 2)}\n`)
    const settlements = yield* Settlements.list({ goal: work.goal })
    const quota = yield* Quota.status({ goal: work.goal, artifacts: resultArtifacts(record.path("results")) })
    const report: RepairReport = {
      run: options.run,
      goal: work.goal,
      source,
      prepared: warm === null ? null : { commit: warm.commit, changedFiles: warm.changedFiles },
      imported: { commit: imported.commit, files: imported.files, bytes: imported.bytes },
      oracle: options.oracle.proof === undefined ? "unproven" : "proven",
      base: { outcome: shown.base.outcome, reason: shown.base.reason },
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
      quota: {
        reserved: quota.reserved.usd,
        spent: quota.spent.usd,
        remaining: quota.remaining.usd,
        unreadableEvidence: quota.spendEvidenceUnreadable?.length ?? 0
      },
      recovered: scene.recovered,
      clocks: ledger.read()
    }
    yield* record.write("run.json", `${JSON.stringify(report, null, 2)}\n`)
    return report
  }).pipe(Effect.scoped)

/** Those of an earlier report; none where the file is no report any more. */
const attemptsIn = (bytes: Buffer): RepairReport["attempts"] => {
  try {
    return (JSON.parse(bytes.toString("utf8")) as RepairReport).attempts ?? []
  } catch {
    return []
  }
}

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
