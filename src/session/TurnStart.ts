/**
 * How a turn begins: what is asked for, and which turn that is: the open one, a failed one by name, or a new one.
 * Promise: a host that is not ready is refused before anything is held; one call of this process drives a turn at a time; a
 * turn that ended without a result starts over only when the caller says so. Rules: G80, G81, G82, P3.
 */
import * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { crashPoint } from "../base/CrashPoint.ts"
import {
  type Amounts,
  type Binding,
  type Fence,
  NotFound,
  TurnInFlight,
  type TurnRecord,
  Turns
} from "../governance/index.ts"
import type { Host } from "../host/Host.ts"
import { type HostSession, resumable } from "../host/HostSession.ts"
import type { BriefFinding, TurnProgress } from "../host/TurnProtocol.ts"

/**
 * An earlier attempt at this turn ended without a result: its process died while the host may have been running, or it was
 * cancelled. Its cost is unknown and it is not dispatched again by itself. Remedy: read what it left; then call again with `interrupted: "retry"`, which is a new, labelled attempt.
 */
export class TurnInterrupted extends Schema.TaggedError<TurnInterrupted>()("TurnInterrupted", {
  ...errorFields("TURN_INTERRUPTED"),
  turn: Schema.String
}) {}

/** The host says that it cannot run here. Nothing was admitted, held or dispatched (P3). */
export class HostNotReady extends Schema.TaggedError<HostNotReady>()("HostNotReady", {
  ...errorFields("HOST_NOT_READY"),
  host: Schema.String,
  missing: Schema.Array(Schema.String)
}) {}

/** What is to be done, by whom, with which authority and at what most. */
export interface TurnSpec {
  readonly goal: { readonly id: string; readonly title: string }
  readonly todo: { readonly id: string; readonly title: string }
  readonly agent: string
  readonly fence: Fence
  readonly host: Host
  readonly instruction: string
  readonly findings: readonly (typeof BriefFinding.Type)[]
  /** The most that the turn may cost, by meter; reserved before dispatch (G55). `wallMs` is the time limit when not given. */
  readonly bound: Amounts
  readonly timeLimitMs: number
  /** Milliseconds between two renewals of the lease while the turn is driven; a third of its time to live when not given. */
  readonly renewEveryMs?: number
  /**
   * The settled turn after which this one comes, where a todo was kept open and gets a further turn. Without it the todo's
   * one turn is meant: driving that again after its close gives its receipt.
   */
  readonly after?: string
  /**
   * The binding whose executor remembers from turn to turn what it was told, and its generation. Only then may a context packet
   * be a difference to the one before (G14); without it each is complete.
   */
  readonly session?: Binding
  /** Bytes that the context packet may have; 32 KiB when not given. What may never be dropped and does not fit is `ContextTooLarge`. */
  readonly contextBytes?: number
  /** What to do with a turn whose earlier attempt ended without a result. */
  readonly interrupted: "explain" | "retry"
  /**
   * `policy`: a time limit, capacity, overload, rate limit or lost connection is tried again (G84), each attempt with a bound of
   * its own. `never`: a failure stands. By default as the host says of itself (`retrySafe`).
   */
  readonly retries?: "policy" | "never"
  /** How long is waited before each further attempt; 2 s doubling, with jitter, when not given. Its end ends the attempts. */
  readonly backoff?: Schedule.Schedule<unknown>
  readonly onProgress?: (progress: TurnProgress) => void
  /** The host's session to go on in, exactly (S22). A host that cannot is refused before anything is held. */
  readonly resume?: HostSession
}

/** A turn, and what is to be done with it next. */
export type Found = TurnRecord & { readonly next: string }

/** Asked before anything is held for a dispatch: what is missing is found before anything runs. */
const hostReady = ({ host, resume }: TurnSpec) =>
  Effect.flatMap(Effect.andThen(resumable(host.descriptor, resume), host.probe), ({ ready, missing }) =>
    ready
      ? Effect.void
      : new HostNotReady({
          host: host.descriptor.kind,
          missing: [...missing],
          message: `The host ${host.descriptor.kind} is not ready: it lacks ${missing.join(", ")}.`,
          remedy: "Provide what it lacks, or choose another host; nothing was started."
        })
  )

export const boundOf = (spec: TurnSpec): Amounts => ({ wallMs: Math.ceil(spec.timeLimitMs), ...spec.bound })

/** A failed turn again, under the same id: a new bound, and a new attempt that says why (G82). */
export const startOver = (spec: TurnSpec, failed: TurnRecord) =>
  Effect.gen(function* () {
    yield* hostReady(spec)
    const again = yield* Turns.retry({
      turn: failed.id,
      fence: spec.fence,
      bound: boundOf(spec),
      reason: retryReason(failed)
    })
    crashPoint("turn.startedOver")
    return { ...again, failure: failed.failure, next: "run" } satisfies Found
  })

const noTurn = (id: string) =>
  new NotFound({
    kind: "turn",
    id,
    message: `This todo has no turn with the id ${id}.`,
    remedy: "Name a turn of the same todo in `after`, or leave it out."
  })

/** The open turn of this todo, or a new one. */
export const findOrAdmit = (spec: TurnSpec) =>
  Effect.gen(function* () {
    const { items } = yield* Turns.list({ goal: spec.goal.id })
    const ofTodo = items.filter((turn) => turn.todo === spec.todo.id)
    const before = spec.after === undefined ? -1 : ofTodo.findIndex((turn) => turn.id === spec.after)
    if (spec.after !== undefined && before < 0) return yield* noTurn(spec.after)
    const mine = ofTodo.slice(before + 1)
    const known = mine.findLast((turn) => turn.state !== "failed")
    if (known !== undefined) {
      if (drivenHere.has(known.id)) return yield* inFlightHere(known)
      // Settling gave the lease back: what is left to do needs no authority over the todo any more.
      const settled = known.state === "closed" || known.phase === "settle"
      const resumed: Found = yield* Turns.resume({ turn: known.id, ...(settled ? {} : { fence: spec.fence }) })
      if (resumed.next === "run") yield* hostReady(spec)
      return resumed
    }
    const failed = mine.at(-1)
    if (failed !== undefined && failed.agent === spec.agent) {
      if (spec.interrupted === "explain") return yield* interrupted(failed)
      return yield* startOver(spec, failed)
    }
    yield* hostReady(spec)
    const turn = yield* Turns.admit({ goal: spec.goal.id, agent: spec.agent, fence: spec.fence, bound: boundOf(spec) })
    return { ...turn, next: "run" as const }
  })

/**
 * The turns that this process is driving now. The journal tells one process from another (G81); two calls in one process
 * look alike to it, and the second would take the first for what a crash left.
 */
const drivenHere = new Set<string>()

const inFlightHere = (turn: TurnRecord) =>
  new TurnInFlight({
    turn: turn.id,
    phase: turn.phase,
    alive: true,
    message: `Turn ${turn.id} of ${turn.agent} is being driven by another call in this process.`,
    remedy: "Wait for that call, or interrupt it."
  })

/** Holds a turn while `effect` drives it. */
export const driving = <A, E, R>(turn: TurnRecord, effect: Effect.Effect<A, E, R>) =>
  Effect.suspend((): Effect.Effect<A, E | TurnInFlight, R> => {
    if (drivenHere.has(turn.id)) return Effect.fail(inFlightHere(turn))
    drivenHere.add(turn.id)
    return Effect.ensuring(
      effect,
      Effect.sync(() => drivenHere.delete(turn.id))
    )
  })

export const retryReason = (turn: TurnRecord): string =>
  turn.failure === null
    ? "the earlier attempt was lost with its process"
    : `the earlier attempt was ${turn.failure.class}: ${turn.failure.reason}`.slice(0, 500)

export const interrupted = (turn: TurnRecord) =>
  new TurnInterrupted({
    turn: turn.id,
    message: `Turn ${turn.id} ended without a result (${turn.failure?.reason ?? "lost"}); its cost is unknown.`,
    remedy:
      'Read what it left, then start it again by name: `interrupted: "retry"` here, `retryInterrupted: true` in a repair. That is a new, labelled attempt.'
  })
