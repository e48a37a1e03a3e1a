/**
 * Turns: one iteration of one agent on one todo, from admission to its close.
 * Promise: one open turn per (goal, agent); each phase is journaled before its work starts; what a dead turn left is found,
 * never guessed. Rules: G80, G81, G82. Admission: TurnAdmission.ts. Settling: Settlement.ts.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { CoppiceError } from "../base/CoppiceError.ts"
import type { Json } from "../base/Digest.ts"
import { type AcceptanceRecord, acceptanceTable } from "./Acceptance.ts"
import { type Keyed, reader, writeObserved } from "./Authority.ts"
import { Fence, IdText, Summary } from "./Field.ts"
import { activeGoal } from "./Goal.ts"
import {
  type BoundMissing,
  type Gated,
  type GoalNotActive,
  type LeaseLost,
  type NotFound,
  notFound,
  type PhaseOrder,
  type QuotaExceeded,
  type RetryRefused,
  type SourceState,
  type TurnInFlight,
  type TurnUnfinished
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { Spend } from "./QuotaLedger.ts"
import { readableAll } from "./SourceRecord.ts"
import { loadOwed, type Owed, owedBy } from "./ReservationRecord.ts"
import { admit, type AdmitTurn, leaseOf, passDispatch, retry, type RetryTurn, unsettledCost } from "./TurnAdmission.ts"
import { type RetryAttempt, turnRetryHandlers } from "./TurnRetry.ts"
import { driven, inFlight, known, observe, openTurn, sameProcess, seenAlive, seenBy } from "./TurnFence.ts"
import { loadCounted, turnUsage, UsageReport } from "./Usage.ts"
import { Guarantee, loadForDispatch, loadTurn } from "./TurnLoad.ts"
import { HostResult, inPhase, type NextStep, nextStep, type TurnRecord, turnTable } from "./TurnRecord.ts"

export type { HostResult, NextStep, Phase, TurnAttempt, TurnContext, TurnFailure, TurnRecord } from "./TurnRecord.ts"

// --- phases ----------------------------------------------------------------------------------------------------------

const Identity = Schema.Struct({
  pid: Schema.Int,
  startTime: Schema.NullOr(Schema.String),
  bootId: Schema.NullOr(Schema.String),
  pidNamespace: Schema.NullOr(Schema.String)
})

const SaveAttempt = Schema.Struct({
  turn: IdText,
  fence: Fence,
  /** What the environment promises about the executor when this process dies. */
  guarantee: Schema.optional(Schema.NullOr(Guarantee)),
  /** The kind of host that is about to be started, so that an in-process one is labelled for good (S54). */
  host: Schema.optional(IdText),
  /** Why it is tried again; required for every attempt after the first (G82: never a blind re-dispatch). */
  retry: Schema.optional(Summary)
})

const step = (happened: string, turn: TurnRecord, change: Partial<TurnRecord>, now: number) => {
  const next: TurnRecord = { ...turn, ...change, changedAt: now }
  return decided([fact(happened, turn.id, next)], next)
}

const saveAttempt = handler({
  type: "saveAttempt",
  payload: SaveAttempt,
  load: (input) => loadForDispatch(input.turn),
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state.turn, input.turn), seenBy(observed))
      yield* activeGoal(state.goal, turn.goal)
      const lease = yield* leaseOf(state.lease, input.fence, turn.goal, turn.agent, now)
      yield* readableAll(state.required)
      const passed = yield* passDispatch(state.gates, lease, state.todo, now)
      const again = turn.state === "open" && turn.phase === "execute" && input.retry !== undefined
      if (!again) yield* inPhase(turn, "execute")
      if (turn.attempts.length > 0 && input.retry === undefined) {
        return yield* Result.fail(invalidInput("saveAttempt", "a further attempt names its reason in `retry`"))
      }
      const attempt = {
        number: turn.attempts.length + 1,
        startedAt: now,
        retry: input.retry ?? null,
        ...(input.host === undefined ? {} : { host: input.host })
      }
      const next: TurnRecord = {
        ...turn,
        phase: "execute",
        epoch: lease.epoch,
        attempts: [...turn.attempts, attempt],
        executor: null,
        guarantee: input.guarantee ?? null,
        changedAt: now
      }
      return decided([...passed, fact("turn.attemptSaved", turn.id, next)], next)
    })
})

const NameExecutor = Schema.Struct({ turn: IdText, executor: Identity, guarantee: Schema.optional(Guarantee) })

const nameExecutor = handler({
  type: "nameExecutor",
  payload: NameExecutor,
  load: (input) => loadTurn(input.turn),
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state.turn, input.turn), seenBy(observed))
      // An executor without a saved attempt was started by nobody's leave: the turn must be executing (C52).
      yield* inPhase(turn, "result")
      const guarantee = input.guarantee ?? turn.guarantee
      return step("turn.executorStarted", turn, { executor: input.executor, guarantee }, now)
    })
})

const RecordResult = Schema.Struct({
  turn: IdText,
  result: HostResult,
  /** What the host's providers say of its tokens; a message counts once in a goal (G56). */
  usage: Schema.optional(UsageReport)
})

/**
 * Not fenced by the lease: a result that exists is kept whatever became of the authority to use it, on a paused goal too
 * (G10, principle 6). Nothing but the turn changes; settling is where the fence is asked for.
 */
const recordResult = handler({
  type: "recordResult",
  payload: RecordResult,
  *load(input) {
    const state = yield* loadTurn(input.turn)
    return { ...state, counted: yield* loadCounted(state.turn?.goal ?? "", input.usage) }
  },
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state.turn, input.turn), seenBy(observed))
      yield* inPhase(turn, "result")
      const { usage, events } = turnUsage(turn, state.held, input.usage, state.counted, now)
      const next: TurnRecord = { ...turn, phase: "result", result: input.result, usage, changedAt: now }
      return decided([fact("turn.resultRecorded", turn.id, next), ...events], next)
    })
})

const RecordVerdict = Schema.Struct({
  turn: IdText,
  /** The acceptance that was recorded for this turn; null when nothing was validated, then `note` says why. */
  acceptance: Schema.NullOr(IdText),
  note: Schema.optional(Summary)
})

const recordVerdict = handler({
  type: "recordVerdict",
  payload: RecordVerdict,
  *load(input) {
    const acceptance: AcceptanceRecord | undefined =
      input.acceptance === null ? undefined : yield* acceptanceTable.first("id = ?", input.acceptance)
    return { ...(yield* loadTurn(input.turn)), acceptance }
  },
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state.turn, input.turn), seenBy(observed))
      yield* inPhase(turn, "validate")
      if (input.acceptance !== null && state.acceptance?.goal !== turn.goal) {
        return yield* Result.fail(notFound("acceptance", input.acceptance))
      }
      if (input.acceptance === null && (input.note ?? "") === "") {
        return yield* Result.fail(
          invalidInput("recordVerdict", "without an acceptance, `note` says why nothing was validated")
        )
      }
      const verdict = { acceptance: input.acceptance, note: input.note ?? null }
      return step("turn.validated", turn, { phase: "validate", verdict }, now)
    })
})

const TurnId = Schema.Struct({ turn: IdText })

const close = handler({
  type: "closeTurn",
  payload: TurnId,
  load: (input) => loadTurn(input.turn),
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* known(state.turn, input.turn)
      if (turn.state === "closed") return decided([], { ...turn, replayed: true })
      yield* driven(turn, seenBy(observed))
      yield* inPhase(turn, "close")
      return step("turn.closed", turn, { phase: "close", state: "closed" }, now)
    })
})

// --- recovery --------------------------------------------------------------------------------------------------------

const FailTurn = Schema.Struct({
  turn: IdText,
  reason: Summary,
  class: Schema.optional(Schema.Literals(["lost", "failed", "supervisionFailed"])),
  /** What it cost; ignored when nothing was dispatched. */
  spend: Spend,
  /** Who saw that the executor is gone, and how, where this process cannot see it. */
  seenGone: Schema.optional(Summary)
})

/** Needs no lease: it changes no work fact, and what was spent is recorded whoever lost the authority (G10). */
const fail = handler({
  type: "failTurn",
  payload: FailTurn,
  load: (input) => loadTurn(input.turn),
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* known(state.turn, input.turn)
      const owed = state.held === undefined ? [] : owedBy(state.held)
      if (turn.state === "failed") return decided([], { ...turn, replayed: true, owed })
      if (turn.state === "closed" || turn.phase === "settle") yield* inPhase(turn, "result")
      const seen = seenBy(observed)
      const mine = seen !== undefined && sameProcess(turn.fence, seen.process)
      const alive = seenAlive(turn, seen)
      const survives = input.class === "supervisionFailed" && input.seenGone === undefined
      const doubted = survives || turn.failure !== null
      const vouched = alive === "unknown" && (input.seenGone !== undefined || (mine && !doubted))
      if (alive !== false && !vouched && !(survives && mine)) return yield* Result.fail(inFlight(turn, alive))
      const reason = input.seenGone === undefined ? input.reason : `${input.reason} (executor gone: ${input.seenGone})`
      const next: TurnRecord = {
        ...turn,
        // With a survivor the turn stays open, and in the way of every other, until somebody has seen it gone (G85).
        state: survives ? "open" : "failed",
        failure: { class: input.class ?? turn.failure?.class ?? "failed", reason: reason.slice(0, 2000) },
        changedAt: now
      }
      const cost = unsettledCost(turn, state.held, input.spend, input.reason, now)
      const happened = survives ? "turn.supervisionFailed" : "turn.failed"
      return decided([fact(happened, turn.id, next), ...cost.events], { ...next, owed: cost.owed })
    })
})

const ResumeTurn = Schema.Struct({ turn: IdText, fence: Schema.optional(Fence) })

const resume = handler({
  type: "resumeTurn",
  payload: ResumeTurn,
  load: (input) => loadTurn(input.turn),
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const turn = yield* known(state.turn, input.turn)
      if (turn.state !== "open") return decided([], { ...turn, next: nextStep(turn) })
      const seen = seenBy(observed)
      const lease =
        // A settled turn needs no authority any more: completing its todo gave the lease back.
        input.fence === undefined || turn.phase === "settle"
          ? undefined
          : yield* leaseOf(state.lease, input.fence, turn.goal, turn.agent, now)
      if (seen === undefined) return yield* Result.fail(inFlight(turn, "unknown"))
      const mine = sameProcess(turn.fence, seen.process)
      const alive = seenAlive(turn, seen)
      if (alive !== false && !mine) return yield* Result.fail(inFlight(turn, alive))
      const next: TurnRecord = { ...turn, fence: seen.process, epoch: lease?.epoch ?? turn.epoch, changedAt: now }
      const events = mine && next.epoch === turn.epoch ? [] : [fact("turn.resumed", turn.id, next)]
      return decided(events, { ...next, next: nextStep(next) })
    })
})

export const turnHandlers: Handlers = {
  ...admit,
  ...saveAttempt,
  ...nameExecutor,
  ...recordResult,
  ...recordVerdict,
  ...close,
  ...fail,
  ...resume,
  ...retry,
  ...turnRetryHandlers
}

// --- service ---------------------------------------------------------------------------------------------------------

/** A write that carries what this process sees of the turn that is concerned. */
export const observing =
  <Input extends object, Reply extends object, E extends CoppiceError>(
    type: string,
    query: (input: Input) => Load<TurnRecord | undefined>
  ) =>
  (input: Input & Keyed) =>
    Effect.flatMap(
      // An input that is none is told by the write, which names the call.
      observe(() => query(typeof input === "object" && input !== null ? input : ({} as Input))).pipe(
        Effect.catchTag("InvalidInput", () => Effect.succeed(undefined))
      ),
      (observed) => writeObserved<Input, Reply, E>("work", type, input, observed as unknown as Json)
    )

const byId = (input: { readonly turn: string }): Load<TurnRecord | undefined> => turnTable.first("id = ?", input.turn)

type Admission =
  | GoalNotActive
  | Gated
  | NotFound
  | LeaseLost
  | TurnInFlight
  | TurnUnfinished
  | QuotaExceeded
  | BoundMissing
  | SourceState

/**
 * Turns. A reply with `replayed: true` tells that this very step was journaled before, perhaps by another process: after
 * a replayed `saveAttempt` the host may have been started, so it is not started again (G82).
 */
export const Turns = {
  /**
   * Admits a turn and holds its bound in one commit; this process drives it.
   * Errors: `TurnInFlight` (nothing was touched), `TurnUnfinished` (settle or fail the older one), `QuotaExceeded`,
   * `BoundMissing`, `SourceState` (a required source cannot be read: nothing was held), `LeaseLost`, `Gated` (gates on `dispatch`),
   * `GoalNotActive` (with what waits), `NotFound`.
   */
  admit: observing<AdmitTurn, TurnRecord, Admission>("admitTurn", (input) => openTurn(input.goal, input.agent)),
  /**
   * Journals that the host is about to be started. Errors: `PhaseOrder`, `LeaseLost`, `GoalNotActive`, `Gated`, `SourceState` (what it
   * requires cannot be read any more), `TurnInFlight`, `NotFound`.
   */
  saveAttempt: observing<
    typeof SaveAttempt.Type,
    TurnRecord,
    PhaseOrder | LeaseLost | GoalNotActive | Gated | SourceState | TurnInFlight | NotFound
  >("saveAttempt", byId),
  /** Journals which process the host is, as soon as it is known (S20). Errors: `PhaseOrder`, `TurnInFlight`, `NotFound`. */
  executorStarted: observing<typeof NameExecutor.Type, TurnRecord, PhaseOrder | TurnInFlight | NotFound>(
    "nameExecutor",
    byId
  ),
  /** Keeps what the host gave, a failure too. Errors: `PhaseOrder`, `TurnInFlight`, `NotPublic`, `NotFound`. */
  recordResult: observing<typeof RecordResult.Type, TurnRecord, PhaseOrder | TurnInFlight | NotFound>(
    "recordResult",
    byId
  ),
  /** Names the acceptance of the turn, or why there is none. Errors: `PhaseOrder`, `TurnInFlight`, `NotFound`. */
  recordVerdict: observing<typeof RecordVerdict.Type, TurnRecord, PhaseOrder | TurnInFlight | NotFound>(
    "recordVerdict",
    byId
  ),
  /** Ends a settled turn; closing twice gives the same record. Errors: `PhaseOrder`, `TurnInFlight`, `NotFound`. */
  close: observing<typeof TurnId.Type, TurnRecord, PhaseOrder | TurnInFlight | NotFound>("closeTurn", byId),
  /**
   * Ends a turn that will not be settled, and records its cost. Refused while its executor may run, unless `seenGone` says
   * who saw it gone. With class `supervisionFailed` the turn stays open and blocks every other until then (G85). Errors: `TurnInFlight`, `PhaseOrder` (it is settled: close it), `NotFound`.
   */
  fail: observing<
    typeof FailTurn.Type,
    TurnRecord & { readonly owed: readonly Owed[] },
    TurnInFlight | PhaseOrder | NotFound
  >("failTurn", byId),
  /**
   * Takes over an open turn whose process has died, or goes on with one's own; `next` says what recovery does with it (G82).
   * Pass the fence of the current lease when the epoch has changed. Errors: `TurnInFlight`, `LeaseLost`, `NotFound`.
   */
  resume: observing<
    typeof ResumeTurn.Type,
    TurnRecord & { readonly next: NextStep },
    TurnInFlight | LeaseLost | NotFound
  >("resumeTurn", byId),
  /** Starts a failed turn over, under the same id and a new bound. Errors: as `admit`, and `PhaseOrder`. */
  retry: observing<typeof RetryTurn.Type, TurnRecord, Admission | PhaseOrder>("retryTurn", (input) =>
    (function* (): Load<TurnRecord | undefined> {
      const turn = yield* byId(input)
      return turn === undefined ? undefined : yield* openTurn(turn.goal, turn.agent)
    })()
  ),
  /**
   * Ends the last attempt as failed, with its cost, and saves the next one with a bound of its own, in one commit: the host may
   * then be started again. Errors: `RetryRefused` (the class is not tried again, or was often enough), `QuotaExceeded`,
   * `BoundMissing` (nothing happened, the failure stands), `PhaseOrder`, and those of `saveAttempt`.
   */
  retryAttempt: observing<
    typeof RetryAttempt.Type,
    TurnRecord,
    | RetryRefused
    | QuotaExceeded
    | BoundMissing
    | PhaseOrder
    | LeaseLost
    | Gated
    | GoalNotActive
    | SourceState
    | TurnInFlight
    | NotFound
  >("retryAttempt", byId),
  /** One turn, with its next step and what is owed for it. Errors: `NotFound`. */
  get: reader(
    function* (input: {
      readonly turn: string
    }): Load<(TurnRecord & { readonly next: NextStep; readonly owed: readonly Owed[] }) | undefined> {
      const turn = yield* byId(input)
      return turn === undefined ? undefined : { ...turn, next: nextStep(turn), owed: yield* loadOwed("turn", turn.id) }
    },
    (input) => notFound("turn", input.turn)
  ),
  /** Turns, oldest first: of a goal or of all, in a state or in any. `{ state: "open" }` is what recovery looks at on open. */
  list: reader(function* (input: { readonly goal?: string; readonly state?: TurnRecord["state"] }): Load<{
    readonly items: readonly (TurnRecord & { readonly next: NextStep })[]
    /** What is owed in the goal; absent when the turns of all goals are listed. */
    readonly owed?: readonly Owed[]
  }> {
    const where: string[] = ["1 = 1"]
    const params: string[] = []
    if (input.goal !== undefined) {
      where.push("goal = ?")
      params.push(input.goal)
    }
    if (input.state !== undefined) {
      where.push("state = ?")
      params.push(input.state)
    }
    const found = yield* turnTable.find(`${where.join(" AND ")} ORDER BY admitted_at, id`, ...params)
    const items = found.map((turn) => ({ ...turn, next: nextStep(turn) }))
    return input.goal === undefined ? { items } : { items, owed: yield* loadOwed("goal", input.goal) }
  })
}
