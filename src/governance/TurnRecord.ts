/**
 * The record of a turn: one iteration of one agent on one todo, its phases, and what recovery does from each.
 * Promise: phases go in order, prefix only, and `nextStep` is a pure reading of the record. Rules: G80, G81, G82.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ProcessIdentity, SpawnGuarantee } from "../base/Spawn.ts"
import { Usd } from "./Field.ts"
import { PhaseOrder } from "./GovernanceError.ts"
import { recordTable } from "./Handler.ts"
import type { ReadRevision } from "./SourceRecord.ts"

export const phases = ["admit", "execute", "result", "validate", "settle", "close"] as const
export type Phase = (typeof phases)[number]

/** One dispatch of the turn to a host; saved before the host is started (G80). */
export interface TurnAttempt {
  readonly number: number
  readonly startedAt: number
  /** Why the turn was tried again; null for the first attempt. */
  readonly retry: string | null
  /** The kind of host; absent where the caller did not say. */
  readonly host?: string
  /** How it failed, where the turn was tried again upon it (G84), and the effect under which its cost stands. */
  readonly failure?: { readonly class: string; readonly check: string }
  readonly effectId?: string
}

/** What the host gave. Its own claim of success is a claim (principle 2). */
export const HostResult = Schema.Struct({
  /** `ok`: the host spoke the protocol and answered. `failed`: it did not; `class` and `check` say how (G84). */
  status: Schema.Literals(["ok", "failed"]),
  /** The host's word for its own iteration; null when it gave none. */
  claim: Schema.NullOr(Schema.String.check(Schema.isMaxLength(100))),
  summary: Schema.String.check(Schema.isMaxLength(2000)),
  failure: Schema.NullOr(
    Schema.Struct({
      class: Schema.String.check(Schema.isMaxLength(100)),
      check: Schema.String.check(Schema.isMaxLength(200))
    })
  ),
  /** Digest of the full result, which is kept outside the authority. */
  digest: Schema.NullOr(Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/))),
  usd: Schema.Union([Usd, Schema.Literal("unknown")]),
  wallMs: Schema.NullOr(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  /** True when every process of the executor was seen to be gone; null for a host without one. */
  provenGone: Schema.NullOr(Schema.Boolean)
})
export type HostResult = typeof HostResult.Type

/** The tokens of a dispatch. `total` is null where some message did not say. The buckets are in `Quota.usage`. */
export interface TurnUsage {
  readonly total: number | null
  readonly messages: number
  readonly repeated: number
}

export interface TurnFailure {
  /** `lost`: its process died; `failed`: the caller ended it; `supervisionFailed`: an executor may still run (G85). */
  readonly class: "lost" | "failed" | "supervisionFailed"
  readonly reason: string
}

/** What the turn was admitted under (G86). The revision is the todo's when the caller names none. */
export const TurnContext = Schema.Struct({
  requirementRevision: Schema.NullOr(Schema.Int),
  digest: Schema.NullOr(Schema.String.check(Schema.isMaxLength(200)))
})
export type TurnContext = typeof TurnContext.Type

/** With what the authority takes itself, at admission and with every context packet; absent in turns of older files. */
export type AdmittedContext = TurnContext & {
  /** Digest of the requirement. */
  readonly requirement?: string
  /** The revisions of the required reads. */
  readonly reads?: readonly ReadRevision[]
  /** The context packet; `digest` is then its digest. */
  readonly packet?: string
}

export interface TurnRecord {
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly agent: string
  /** The epoch of the lease that it was admitted under. */
  readonly epoch: number
  /** The last phase that is journaled. */
  readonly phase: Phase
  readonly state: "open" | "closed" | "failed"
  /** Settlement and cost of this turn are recorded under this effect id. */
  readonly effectId: string
  readonly reservation: string
  /** The process that drives the turn (G81). */
  readonly fence: ProcessIdentity
  /** The host's process, once it is known. */
  readonly executor: ProcessIdentity | null
  readonly guarantee: Pick<SpawnGuarantee, "diesWithParent" | "wholeTree"> | null
  readonly attempts: readonly TurnAttempt[]
  readonly result: HostResult | null
  /** What its host's providers say of the tokens of this effect; null: nobody said. */
  readonly usage: TurnUsage | null
  /** The acceptance, or why nothing was validated. */
  readonly verdict: { readonly acceptance: string | null; readonly note: string | null } | null
  readonly settlement: string | null
  readonly failure: TurnFailure | null
  readonly context: AdmittedContext | null
  readonly admittedAt: number
  readonly changedAt: number
}

export const turnTable = recordTable<TurnRecord>("turn", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  agent: "value",
  epoch: "value",
  phase: "value",
  state: "value",
  effectId: "value",
  reservation: "value",
  fence: "json",
  executor: "json",
  guarantee: "json",
  attempts: "json",
  result: "json",
  usage: "json",
  verdict: "json",
  settlement: "value",
  failure: "json",
  context: "json",
  admittedAt: "value",
  changedAt: "value"
})

export type NextStep = "run" | "readBackOrRetry" | "validate" | "settle" | "close" | "none"

/** The recovery table (G82): what is done with a turn that is found in this state. */
export const nextStep = (turn: TurnRecord): NextStep => {
  if (turn.state !== "open") return "none"
  switch (turn.phase) {
    case "admit":
      return "run"
    case "execute":
      // The host may have been started: asking it, or an explicit retry; never a blind second dispatch.
      return "readBackOrRetry"
    case "result":
      return "validate"
    case "validate":
      return "settle"
    case "settle":
      return "close"
    case "close":
      return "none"
  }
}

/** The turn when `asked` is the phase that follows its own (G80). */
export const inPhase = (turn: TurnRecord, asked: Phase): Result.Result<TurnRecord, PhaseOrder> => {
  const follows = phases[phases.indexOf(turn.phase) + 1]
  if (turn.state === "open" && follows === asked) return Result.succeed(turn)
  const step = nextStep(turn)
  return Result.fail(
    new PhaseOrder({
      message: `Turn ${turn.id} is ${turn.state === "open" ? `in phase ${turn.phase}` : turn.state}; ${asked} does not follow.`,
      remedy: step === "none" ? "The turn has ended: read it with Turns.get." : `Its next step is: ${step}.`,
      turn: turn.id,
      phase: turn.state === "open" ? turn.phase : turn.state,
      asked
    })
  )
}
