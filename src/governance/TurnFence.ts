/**
 * Who drives a turn, and whether its processes may still run.
 * Promise: what a process observes travels beside its command, so that decisions stay pure and retries replay; an executor
 * that cannot be shown dead is unknown, never dead. Rules: G81; S21.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Json } from "../base/Digest.ts"
import { currentIdentity, isAlive } from "../base/ProcessIdentity.ts"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { Authority, type ReadError, type Sight } from "./Authority.ts"
import { type NotFound, notFound, PhaseOrder, TurnInFlight } from "./GovernanceError.ts"
import type { Load } from "./Module.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

// --- what this process sees ------------------------------------------------------------------------------------------

let own: ProcessIdentity | undefined
export const thisProcess = (): ProcessIdentity => (own ??= currentIdentity())

export const sameProcess = (a: ProcessIdentity, b: ProcessIdentity): boolean =>
  a.pid === b.pid && a.startTime === b.startTime && a.bootId === b.bootId && a.pidNamespace === b.pidNamespace

/** The first process of a pid namespace takes all others in it along (pid_namespaces(7)). */
const endedWith = (first: ProcessIdentity, other: ProcessIdentity): boolean =>
  first.pid === 1 &&
  first.pidNamespace !== null &&
  first.pidNamespace === other.pidNamespace &&
  first.bootId === other.bootId

/**
 * Whether a turn's driver or executor may still run. The executor counts apart (S21): it ends with its driver only where
 * the kernel saw to it; one that was started and never named, or was seen to survive, cannot be shown dead.
 */
export const liveness = (turn: TurnRecord, observer: ProcessIdentity, sight: Sight = isAlive): boolean | "unknown" => {
  const mine = sameProcess(turn.fence, observer)
  const driver = mine ? false : sight(turn.fence)
  if (driver !== false) return driver
  // Somebody saw a process of it survive: only somebody who saw it gone can say otherwise (G85).
  if (turn.failure?.class === "supervisionFailed") return "unknown"
  if (turn.phase === "admit" || turn.result?.provenGone === true) return false
  if (turn.executor !== null) return !mine && endedWith(turn.fence, turn.executor) ? false : sight(turn.executor)
  if (turn.result !== null) return turn.result.provenGone === false ? "unknown" : false
  return turn.guarantee?.diesWithParent === true && !mine ? false : "unknown"
}

/** Observed beside a command (G81): who asks, and whether the open turn that is in the way still runs. */
export interface Observed {
  readonly process: ProcessIdentity
  /** The turn that was looked at, and its driver then: what was seen says nothing of a turn taken over since. */
  readonly turn: string | null
  readonly driver: ProcessIdentity | null
  readonly alive: boolean | "unknown"
}

/** `liveness` as this process sees it. */
export const lookAt = (turn: TurnRecord): Effect.Effect<boolean | "unknown", never, Authority> =>
  Effect.gen(function* () {
    const sight = yield* (yield* Authority).look([turn.fence, turn.executor])
    return liveness(turn, thisProcess(), sight)
  })

export const openTurn = (goal: string, agent: string): Load<TurnRecord | undefined> =>
  turnTable.first("goal = ? AND agent = ? AND state = 'open'", goal, agent)

export const observe = (query: () => Load<TurnRecord | undefined>): Effect.Effect<Observed, ReadError, Authority> =>
  Effect.gen(function* () {
    const authority = yield* Authority
    const { value: turn } = yield* authority.read(query)
    const process = thisProcess()
    if (turn === undefined) return { process, turn: null, driver: null, alive: false }
    return { process, turn: turn.id, driver: turn.fence, alive: yield* lookAt(turn) }
  })

/** What was seen of this turn; nothing that was seen of another, or of an earlier driver, counts. */
export const seenAlive = (turn: TurnRecord, observed: Observed | undefined): boolean | "unknown" =>
  observed?.turn === turn.id && observed.driver !== null && sameProcess(observed.driver, turn.fence)
    ? observed.alive
    : "unknown"

export const seenBy = (observed: Json | undefined): Observed | undefined => observed as unknown as Observed | undefined

// --- rules -----------------------------------------------------------------------------------------------------------

export const inFlight = (turn: TurnRecord, alive: boolean | "unknown"): TurnInFlight =>
  new TurnInFlight({
    message:
      alive === "unknown"
        ? `Turn ${turn.id} of ${turn.agent} is in phase ${turn.phase}; whether its executor still runs cannot be seen from here.`
        : `Turn ${turn.id} of ${turn.agent} is in phase ${turn.phase}.`,
    remedy:
      alive === "unknown"
        ? "See to it that the old executor is gone, then call Turns.fail with `seenGone` saying how that was seen."
        : "Wait until it ends. After its process has died, Turns.resume takes it over.",
    turn: turn.id,
    phase: turn.phase,
    alive
  })

/** What is done by hand does not go beside a turn of the todo that was not settled: the turn's rules would be passed over. */
export const besideNone = (
  open: TurnRecord | undefined,
  todo: string,
  asked: "settle" | "complete"
): Result.Result<void, PhaseOrder> =>
  open?.todo !== todo || open.phase === "settle"
    ? Result.void
    : Result.fail(
        new PhaseOrder({
          message: `Turn ${open.id} of ${open.agent} on this todo is in phase ${open.phase}; nothing is ${asked === "settle" ? "settled" : "completed"} by hand beside it.`,
          remedy: `Settle the turn itself, or end it with Turns.fail and then ${asked} what was done by hand.`,
          turn: open.id,
          phase: open.phase,
          asked
        })
      )

/** Only the driver of a turn moves it: a second process first takes it over (`Turns.resume`), which needs the first one dead. */
export const driven = (turn: TurnRecord, observed: Observed | undefined): Result.Result<TurnRecord, TurnInFlight> =>
  observed !== undefined && sameProcess(turn.fence, observed.process) && turn.failure?.class !== "supervisionFailed"
    ? Result.succeed(turn)
    : Result.fail(inFlight(turn, seenAlive(turn, observed)))

export const known = (turn: TurnRecord | undefined, id: string): Result.Result<TurnRecord, NotFound> =>
  turn === undefined ? Result.fail(notFound("turn", id)) : Result.succeed(turn)
