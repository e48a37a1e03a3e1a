/**
 * One attempt: claim, fork, turn in a workspace, capture, independent verdict, settlement, and what was learned.
 * Promise: every step is named after the run and the route, so that a rerun finds it instead of doing it twice; a route that
 * failed leaves a finding with evidence, its files and its cost. Rules: J2, E1, E2, E4, E5, G22, G71, G72, G75, E16.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { crashPoint } from "../base/CrashPoint.ts"
import type { Digest } from "../base/Digest.ts"
import type { FileNotWritten } from "../base/DurableFile.ts"
import { type CostLedger, makeCostLedger } from "../evaluator/CostLedger.ts"
import { judge, type OracleSpec, type Verdict } from "../evaluator/Oracle.ts"
import { Explore } from "../explore/Explore.ts"
import {
  Acceptances,
  Evidence,
  type Fence,
  Leases,
  Settlements,
  Todos,
  type TurnRecord,
  Turns
} from "../governance/index.ts"
import type { BriefFinding } from "../host/TurnProtocol.ts"
import { leaseGuard } from "../session/LeaseGuard.ts"
import { type HostOutcome, resultFiles } from "../session/ResultFile.ts"
import { driveTurn } from "../session/TurnDriver.ts"
import { identity } from "../workspace/Candidate.ts"
import { type Progress, type Workspace, Workspaces } from "../workspace/WorkspaceProvider.ts"
import { outcomeOf, reasonOf, settlementOutcome } from "./AttemptOutcome.ts"
import { type Captured, capture } from "./Capture.ts"
import type { AttemptOutcome, AttemptReport, OracleNotProven, RepairOptions, Route } from "./RepairPlan.ts"
import type { RunRecord } from "./RunRecord.ts"

/** What all attempts of a run share. */
export interface Scene {
  readonly options: RepairOptions
  readonly hide: readonly string[]
  /** The name of the oracle: what todos declare as their validator. */
  readonly validator: string
  readonly record: RunRecord
  readonly goal: string
  readonly question: string
  /** The commit that patches are made against: the source as it was imported. */
  readonly base: string
  /** The commit that attempts start from: the base, or what the preparation made of it. */
  readonly warm: string
  readonly environment: Digest
  /** Judging waits until the oracle was proven; then it is this spec. */
  readonly oracle: Effect.Effect<OracleSpec, OracleNotProven | FileNotWritten>
  /** The effect that is being settled as accepted: one a run, whoever comes first. */
  readonly winner: { effectId: string | null }
  /** Filled as workspaces of earlier processes are found. */
  readonly recovered: { readonly workspace: string; readonly branch: string }[]
  readonly say: (attempt: string | null, stage: string, text: string, step?: Progress) => void
}

/** What an attempt starts from beside the warm checkpoint: another agent's candidate. */
export interface Received {
  readonly handoff: string
  readonly commit: string
  readonly identity: Digest
  readonly parent: string | null
  readonly findings: readonly (typeof BriefFinding.Type)[]
}

export interface AttemptDone {
  readonly report: AttemptReport
  readonly agent: string
  readonly captured: Captured
  readonly verdict: Verdict | null
  /** Ids of the findings that the attempt itself recorded. */
  readonly findings: readonly (typeof BriefFinding.Type)[]
  readonly verified: boolean
  readonly adopted: boolean
}

/** Milliseconds of a time limit; 10 minutes when none is given. */
export const limitOf = (limit: Duration.Input | undefined): number => Duration.toMillis(limit ?? "10 minutes")

export const agentOf = (route: Route): string => `agent-${route.id}`
export const capabilityOf = (route: Route): string => `route-${route.id}`

const isSettled = (goal: string, todo: string) =>
  Effect.map(Turns.list({ goal }), ({ items }) => {
    const last = items.findLast((turn) => turn.todo === todo)
    return last !== undefined && (last.state === "closed" || last.phase === "settle")
  })

/** Selects and claims this route's todo in one step; a claim of an earlier process is used as long as it lives. */
const claim = (scene: Scene, route: Route) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    for (let round = 1; ; round++) {
      const work = yield* Todos.nextWork({
        commandId: `${scene.options.run}/${route.id}/claim/${round}`,
        goal: scene.goal,
        agent: agentOf(route),
        ttlMs: Math.min(limitOf(route.timeLimit) + 30 * 60_000, 24 * 3_600_000)
      })
      if (work._tag === "none") return null
      const lease = yield* Leases.inspect({ todo: work.todo.id })
      const live = lease.epoch === work.lease.epoch && lease.releasedAt === null && lease.expiresAt > now
      // An earlier process may have settled it and died before it could say so: there is something left to tell.
      if (live || !work.replayed || (yield* isSettled(scene.goal, work.todo.id))) return work
    }
  })

/** Opens the workspace so that its closing is measured as cleanup. */
const openMeasured = (scene: Scene, route: Route, branch: string, fence: Fence, ledger: CostLedger) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    const guard = yield* leaseGuard(fence)
    const inner = yield* Scope.make()
    yield* Effect.addFinalizer((exit) => ledger.time("cleanup", Scope.close(inner, exit)))
    return yield* ledger.time(
      "mount",
      workspaces
        .open(branch, {
          hide: scene.hide,
          readOnlyPaths: scene.options.show ?? [],
          guard,
          onProgress: (step) => scene.say(route.id, "mount", `${step.phase} ${step.files} files`, step),
          actor: { agent: agentOf(route), goal: scene.goal, call: route.id }
        })
        .pipe(Effect.provideService(Scope.Scope, inner))
    )
  })

/** Files of an attempt that was lost with an earlier process go to a branch of their own before a new one starts (W12, W23). */
const keepInterrupted = (scene: Scene, route: Route, branch: string) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    for (const left of yield* workspaces.left) {
      if (left.branch !== branch) continue
      const kept = yield* workspaces.recover(left.id, { message: `${route.id}: kept after a crash` })
      scene.recovered.push({ workspace: left.id, branch: kept.branch })
      scene.say(route.id, "recovered", "the files of an interrupted attempt were kept on a branch of their own")
    }
  })

const judgeCapture = (
  scene: Scene,
  route: Route,
  agent: string,
  turn: TurnRecord,
  captured: Captured,
  ledger: CostLedger
) =>
  Effect.gen(function* () {
    const spec = yield* scene.oracle
    const printed: string[] = []
    const verdict = yield* ledger.time(
      "verify",
      judge(spec, {
        patch: captured.patch,
        candidate: captured.candidate?.identity ?? null,
        onOutput: (command, output) => printed.push(`$ ${command}\n${output}\n`)
      })
    )
    yield* scene.record.write(`verdicts/${route.id}.log`, printed.join(""))
    const digest = yield* scene.record.write(`verdicts/${route.id}.json`, `${JSON.stringify(verdict, null, 2)}\n`)
    crashPoint("attempt.judged")
    const evidence = yield* Evidence.record({
      goal: scene.goal,
      todo: turn.todo,
      turn: turn.id,
      kind: "verdict",
      digest,
      summary: `${spec.name}: ${verdict.outcome}. ${verdict.reason}`.slice(0, 500),
      ref: `verdicts/${route.id}.json`,
      producer: { role: "evaluator", name: spec.name }
    })
    const acceptance = yield* Acceptances.record({
      goal: scene.goal,
      todo: turn.todo,
      turn: turn.id,
      candidate: captured.candidate?.identity ?? null,
      validator: { name: spec.name, digestBefore: verdict.validator.before, digestAfter: verdict.validator.after },
      outcome: verdict.outcome,
      evidence: [evidence.id],
      summary: verdict.reason
    })
    scene.say(route.id, "verdict", `${verdict.outcome}: ${verdict.reason}`)
    return { verdict, acceptance: acceptance.id, evidence: evidence.id, agent }
  })

type Judged = Effect.Success<ReturnType<typeof judgeCapture>>

/** Runs one route to its settled end. Null when there was no todo left for it. */
export const runAttempt = (scene: Scene, route: Route, received: Received | null) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    const { options } = scene
    const agent = agentOf(route)
    const ledger = makeCostLedger()
    const work = yield* claim(scene, route)
    if (work === null) return null
    const { fence } = work.lease
    crashPoint("attempt.claimed")
    scene.say(route.id, "claimed", route.title)

    const hypothesis = yield* Explore.addNode({
      commandId: `${options.run}/${route.id}/hypothesis`,
      goal: scene.goal,
      kind: "hypothesis",
      title: route.title,
      agent
    })
    yield* Explore.addEdge({
      commandId: `${options.run}/${route.id}/hypothesis-edge`,
      goal: scene.goal,
      kind: "answers",
      from: hypothesis.id,
      to: scene.question,
      agent
    })

    const start = received?.commit ?? scene.warm
    const branch = yield* ledger.time(
      "fork",
      workspaces.fork(start, { name: `${options.run}/${route.id}`, operationId: `${options.run}/${route.id}/fork` })
    )
    crashPoint("attempt.forked")
    let verified = false
    if (received !== null) {
      // The receiver computes the identity from its own fork, and only an equal one is taken (E5).
      const observed = yield* ledger.time(
        "handoff",
        workspaces.candidate(branch.base, { environment: scene.environment, parent: received.parent })
      )
      const taken = yield* Explore.takeHandoff({
        commandId: `${options.run}/${route.id}/take`,
        handoff: received.handoff,
        agent,
        observedIdentity: identity(observed)
      })
      crashPoint("attempt.handoffTaken")
      verified = taken.verified
      scene.say(route.id, "handoff", "the candidate was verified")
    }

    let opened: Workspace | null = null
    let touchedOutside: readonly string[] | null = null
    let judged: Judged | null = null
    const done = yield* driveTurn(
      {
        goal: { id: scene.goal, title: options.title },
        todo: { id: work.todo.id, title: work.todo.title },
        agent,
        fence,
        host: { ...route.host, turn: (turn) => ledger.time("exec", route.host.turn(turn)) },
        instruction: route.instruction,
        findings: received?.findings ?? [],
        bound: { usd: route.usd, slots: 1 },
        timeLimitMs: limitOf(route.timeLimit),
        interrupted: options.retryInterrupted === true ? "retry" : "explain",
        onProgress: (progress) => scene.say(route.id, "work", progress.text)
      },
      {
        results: resultFiles(scene.record.path("results")),
        open: () =>
          keepInterrupted(scene, route, branch.id).pipe(
            Effect.andThen(
              Effect.map(openMeasured(scene, route, branch.id, fence, ledger), (workspace) => {
                opened = workspace
                scene.say(route.id, "ready", `${workspace.projection}, isolation ${workspace.isolation.level}`)
                return workspace
              })
            )
          ),
        environment: (workspace: Workspace) => workspace.environment,
        capture: (turn, _outcome, place) =>
          Effect.gen(function* () {
            const seen = place === null ? null : yield* Effect.orElseSucceed(place.sentinels, () => null)
            if (seen !== null) touchedOutside = seen.changed.map(({ path }) => path)
            return yield* capture(
              {
                goal: scene.goal,
                agent,
                fence,
                record: scene.record,
                ledger,
                route: route.id,
                node: hypothesis.id,
                base: scene.base,
                warm: scene.warm,
                branch: branch.id,
                environment: scene.environment,
                parent: received?.identity ?? null
              },
              turn,
              place
            )
          }),
        validate: (turn, _outcome, captured: Captured) =>
          Effect.gen(function* () {
            if (captured.patch.length === 0) {
              return { acceptance: null as string | null, note: "The attempt changed no source file." }
            }
            judged = yield* judgeCapture(scene, route, agent, turn, captured, ledger)
            return { acceptance: judged.acceptance as string | null }
          }),
        settle: (turn, outcome, captured: Captured) =>
          Effect.gen(function* () {
            const verdict = yield* verdictOf(scene, route, judged)
            const before = yield* Settlements.list({ goal: scene.goal })
            const mine = before.items.find((settlement) => settlement.effectId === turn.effectId)
            // Looked at and claimed in one synchronous stretch: the first that passed is the one, others passed too late.
            const free = before.accepted === 0 && (scene.winner.effectId ?? turn.effectId) === turn.effectId
            const accepted = mine?.accepted ?? (verdict?.outcome === "passed" && free)
            if (accepted) scene.winner.effectId = turn.effectId
            const came = outcomeOf(outcome, verdict, accepted)
            return {
              outcome: settlementOutcome(came),
              evidence: captured.evidence === null ? [] : [captured.evidence],
              acceptance: turn.verdict?.acceptance ?? null,
              candidate: captured.candidate?.identity ?? null,
              todo: accepted
                ? { action: "complete" as const, continuation: { kind: "noFollowUp" as const } }
                : { action: "keep" as const },
              note: reasonOf(outcome, verdict, came, turn.id, captured.leftOut).slice(0, 500)
            }
          })
      }
    )
    crashPoint("attempt.settled")

    const verdict = yield* verdictOf(scene, route, judged)
    const { accepted } = yield* Settlements.get({ effectId: done.turn.effectId })
    const came = outcomeOf(done.outcome, verdict, accepted)
    if (came !== "accepted") {
      // A rerun that cannot read what an earlier process wrote may give another reason: the earlier one stands.
      yield* Todos.supersede({
        commandId: `${options.run}/${route.id}/supersede/${fence.epoch}`,
        todo: work.todo.id,
        fence,
        reason: `${came}: ${reasonOf(done.outcome, verdict, came, done.turn.id, done.captured.leftOut)}`.slice(0, 500)
      }).pipe(Effect.catchTag("IdempotencyKeyReuse", () => Effect.void))
    }
    const findings = yield* recordFindings(scene, route, agent, hypothesis.id, done, verdict, came)
    crashPoint("attempt.learned")
    let adopted = false
    if (received !== null && done.captured.candidate !== null && done.outcome?.status === "ok") {
      const adoption = yield* Effect.result(
        Explore.adoptHandoff({
          commandId: `${options.run}/${route.id}/adopt`,
          handoff: received.handoff,
          agent,
          usedFindings: done.outcome.result.usedFindings ?? [],
          resultIdentity: done.captured.candidate.identity
        })
      )
      // Not adopted is an outcome of the attempt, not a failure of the run.
      if (adoption._tag === "Success") adopted = adoption.success.adopted
      else scene.say(route.id, "handoff", adoption.failure.message)
    }
    const workspace = opened as Workspace | null
    const report: AttemptReport = {
      id: route.id,
      route: route.title,
      outcome: came,
      reason: reasonOf(done.outcome, verdict, came, done.turn.id, done.captured.leftOut),
      checkpoint: done.captured.commit,
      candidate: done.captured.candidate?.identity ?? null,
      changedFiles: done.captured.changedFiles,
      leftOut: done.captured.leftOut,
      projection: workspace?.projection ?? null,
      isolation: workspace?.isolation.level ?? null,
      touchedOutside,
      clocks: ledger.read(),
      usd: done.outcome?.status === "ok" ? (done.outcome.result.usage?.usd ?? null) : null,
      turn: done.turn.id
    }
    scene.say(route.id, "settled", came)
    const result: AttemptDone = { report, agent, captured: done.captured, verdict, findings, verified, adopted }
    return result
  })

/** The verdict of this process, or the one that an earlier process wrote into the record. */
const verdictOf = (scene: Scene, route: Route, judged: Judged | null): Effect.Effect<Verdict | null> =>
  judged !== null
    ? Effect.succeed(judged.verdict)
    : Effect.map(scene.record.read(`verdicts/${route.id}.json`), (bytes) =>
        bytes === null ? null : (JSON.parse(bytes.toString("utf8")) as Verdict)
      )

/** What was learned: the host's own findings, and the evaluator's where it refused. Each with the evidence it rests on. */
const recordFindings = (
  scene: Scene,
  route: Route,
  agent: string,
  node: string,
  done: { readonly turn: TurnRecord; readonly outcome: HostOutcome | null },
  verdict: Verdict | null,
  came: AttemptOutcome
) =>
  Effect.gen(function* () {
    const evidence = (yield* Evidence.list({ goal: scene.goal, turn: done.turn.id })).items.map((item) => item.id)
    const told = done.outcome?.status === "ok" ? (done.outcome.result.findings ?? []) : []
    const all = [
      ...told.map((finding) => ({ ...finding, by: agent as string | null })),
      ...(came === "refused"
        ? [{ status: "refuted" as const, text: `Refused by the oracle. ${verdict?.reason ?? ""}`, by: null }]
        : [])
    ]
    const recorded: (typeof BriefFinding.Type)[] = []
    for (const [i, finding] of all.entries()) {
      const status = evidence.length === 0 ? ("tentative" as const) : finding.status
      const added = yield* Explore.addFinding({
        commandId: `${done.turn.effectId}/finding/${i}`,
        goal: scene.goal,
        node,
        status,
        text: finding.text,
        agent: finding.by,
        evidence
      }).pipe(
        Effect.map(({ id }) => id as string | null),
        // Learned already, in other words, by a process whose record is gone.
        Effect.catchTag("IdempotencyKeyReuse", () => Effect.succeed(null))
      )
      if (added !== null) recorded.push({ id: added, status, text: finding.text })
    }
    return recorded
  })
