/**
 * Turns, verdicts, settlements and candidates as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands and reads as `coppice/governance`, under the same names and with the same refusals; the process that
 * calls is the one that drives the turn. Rules: G70 to G75, G80 to G82, G86.
 */
import type { Continuation, Fence, Items, OfGoal, Read, Todo, Write } from "./Governance.ts"
import type { Amounts, Owed, Spend } from "./Quota.ts"
import type { ReportedUsage } from "./Usage.ts"

/** A source at one of its revisions. */
export interface ReadRevision {
  readonly source: string
  readonly revision: number
}

// --- turns -----------------------------------------------------------------------------------------------------------

/** A process, told apart from later ones with its number; null where the system does not say. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since the machine started. */
  readonly startTime: string | null
  readonly bootId: string | null
  readonly pidNamespace: string | null
}
/** What the host's launcher vouches for: that the process dies with ours, and that ending it ends all that it started. */
export interface Guarantee {
  readonly diesWithParent: boolean
  readonly wholeTree: boolean
}
export interface HostResult {
  readonly status: "ok" | "failed"
  /** The host's word for its own iteration; null when it gave none. */
  readonly claim: string | null
  readonly summary: string
  readonly failure: { readonly class: string; readonly check: string } | null
  /** Digest of the full result, which is kept outside the authority. */
  readonly digest: string | null
  readonly usd: number | "unknown"
  /** Milliseconds; null where nobody took the time. */
  readonly wallMs: number | null
  /** True when every process of the executor was seen to be gone; null for a host without one. */
  readonly provenGone: boolean | null
}
/** What recovery does with a turn; `readBackOrRetry`: its host may have been started, and is never started blindly again. */
export type NextStep = "run" | "readBackOrRetry" | "validate" | "settle" | "close" | "none"

/** A turn as it is kept; `turns.get` and `turns.resume` add what recovery does with it. */
export interface TurnRecord {
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly agent: string
  /** The epoch of the lease that it was admitted under. */
  readonly epoch: number
  /** The last phase that is journaled. */
  readonly phase: "admit" | "execute" | "result" | "validate" | "settle" | "close"
  readonly state: "open" | "closed" | "failed"
  /** Settlement and cost of this turn are recorded under this effect id. */
  readonly effectId: string
  readonly reservation: string
  /** The process that drives the turn. */
  readonly fence: ProcessIdentity
  /** The host's process, once it is known. */
  readonly executor: ProcessIdentity | null
  readonly guarantee: Guarantee | null
  readonly attempts: readonly {
    readonly number: number
    readonly startedAt: number
    /** Why the turn was tried again; null for the first attempt. */
    readonly retry: string | null
    /** The kind of host; absent where the caller did not say. */
    readonly host?: string
    /** How it failed, where the turn was tried again upon it, and the effect under which its cost stands. */
    readonly failure?: { readonly class: string; readonly check: string }
    readonly effectId?: string
  }[]
  readonly result: HostResult | null
  /** The tokens of its last dispatch; null: nobody said. `total` is null where some message did not say. */
  readonly usage: { readonly total: number | null; readonly messages: number; readonly repeated: number } | null
  /** The acceptance, or why nothing was validated; null: it is not judged yet. */
  readonly verdict: { readonly acceptance: string | null; readonly note: string | null } | null
  /** Null while it is not settled. */
  readonly settlement: string | null
  /** `lost`: its process died; `failed`: the caller ended it; `supervisionFailed`: an executor may still run. */
  readonly failure: { readonly class: "lost" | "failed" | "supervisionFailed"; readonly reason: string } | null
  /** What it was admitted under: also the digest of the requirement and, once one was issued, the context packet. */
  readonly context:
    | (TurnContext & {
        readonly requirement?: string
        readonly reads?: readonly ReadRevision[]
        readonly packet?: string
      })
    | null
  /** UTC milliseconds. */
  readonly admittedAt: number
  readonly changedAt: number
}
export interface TurnContext {
  /** Of the todo; null: as it is at admission. */
  readonly requirementRevision: number | null
  /** Of the context that the caller gives; null: it gives none. */
  readonly digest: string | null
}
export interface Turn extends TurnRecord {
  /** What recovery does with it. */
  readonly next: NextStep
}

type OfTurn = { readonly turn: string }

export interface TurnCalls {
  /** Admits a turn and holds its bound in one commit; this process drives it. */
  readonly admit: Write<
    OfGoal & {
      readonly agent: string
      readonly fence: Fence
      /** The most that it may cost; one slot when `slots` is absent. */
      readonly bound: Amounts
      readonly context?: TurnContext
    },
    TurnRecord
  >
  /** That the host is about to be started. */
  readonly saveAttempt: Write<
    OfTurn & {
      readonly fence: Fence
      readonly guarantee?: Guarantee | null
      readonly host?: string
      /** Why it is tried again; required for every attempt after the first. */
      readonly retry?: string
    },
    TurnRecord
  >
  /** Which process the host is, as soon as it is known. */
  readonly executorStarted: Write<
    OfTurn & { readonly executor: ProcessIdentity; readonly guarantee?: Guarantee },
    TurnRecord
  >
  /** What the host gave, a failure too. */
  readonly recordResult: Write<
    OfTurn & { readonly result: HostResult; readonly usage?: readonly ReportedUsage[] },
    TurnRecord
  >
  /** The acceptance of the turn, or (null, with a `note`) why there is none. */
  readonly recordVerdict: Write<OfTurn & { readonly acceptance: string | null; readonly note?: string }, TurnRecord>
  /** Ends a settled turn. */
  readonly close: Write<OfTurn, TurnRecord>
  /** Ends a turn that will not be settled, and records its cost. */
  readonly fail: Write<
    OfTurn & {
      readonly reason: string
      readonly class?: "lost" | "failed" | "supervisionFailed"
      readonly spend: Spend
      /** Who saw that the executor is gone, and how, where this process cannot see it. */
      readonly seenGone?: string
    },
    TurnRecord & { readonly owed: readonly Owed[] }
  >
  /** Takes over an open turn whose process has died; `next` says what recovery does with it. */
  readonly resume: Write<OfTurn & { readonly fence?: Fence }, Turn>
  /** Starts a failed turn over, under the same id and a new bound. */
  readonly retry: Write<
    OfTurn & { readonly fence: Fence; readonly bound: Amounts; readonly reason: string },
    TurnRecord
  >
  /** Ends the last attempt as failed, with its cost, and saves the next one with a bound of its own, in one commit. */
  readonly retryAttempt: Write<
    OfTurn & {
      readonly fence: Fence
      /** How the last attempt failed; the policy tries some classes again, and those not for ever. */
      readonly failure: { readonly class: string; readonly check: string }
      /** What it cost; `"unknown"` keeps its bound, which is then owed. Its slot goes on to the next attempt. */
      readonly spend: Spend
      readonly usage?: readonly ReportedUsage[]
      /** The most that the next attempt may cost. */
      readonly bound: Amounts
      /** Null or absent: the launcher vouches for nothing. */
      readonly guarantee?: Guarantee | null
      readonly host?: string
    },
    TurnRecord
  >
  readonly get: Read<OfTurn, Turn & { readonly owed: readonly Owed[] }>
  /** Oldest first; `owed` where one goal was asked for. */
  readonly list: Read<
    { readonly goal?: string; readonly state?: TurnRecord["state"] },
    Items<Turn> & { readonly owed?: readonly Owed[] }
  >
}

// --- verdicts --------------------------------------------------------------------------------------------------------

export type AcceptanceOutcome = "passed" | "progress" | "failed" | "inconclusive" | "unavailable"
/** A validator, with the digest of its own files before and after it ran. */
export interface Validator {
  readonly name: string
  readonly digestBefore: string
  readonly digestAfter: string
}
export interface Acceptance {
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly candidate: string | null
  readonly validator: Validator
  readonly outcome: AcceptanceOutcome
  readonly void: boolean
  readonly evidence: readonly string[]
  readonly summary: string
  /** Digest of the requirement that the validator ran against; null where it is not known. */
  readonly requirement: string | null
  /** The source revisions that it says it ran against; null where it named nothing. */
  readonly reads: readonly ReadRevision[] | null
  readonly recordedAt: number
}
export interface AcceptanceCalls {
  readonly record: Write<
    OfGoal & {
      readonly todo?: string
      readonly turn?: string
      readonly candidate: string | null
      readonly validator: Validator
      readonly outcome: AcceptanceOutcome
      /** The revision of the todo that the validator ran against; what the turn was admitted under when absent. */
      readonly todoRevision?: number
      readonly reads?: readonly ReadRevision[]
      readonly evidence: readonly string[]
      readonly summary?: string
    },
    Acceptance
  >
  readonly get: Read<{ readonly acceptance: string }, Acceptance>
  readonly list: Read<OfGoal, Items<Acceptance>>
}

// --- settlements -----------------------------------------------------------------------------------------------------

export type SettlementOutcome = "accepted" | "progress" | "failed" | "inconclusive" | "unavailable" | "staleContext"
export interface Settlement {
  readonly id: string
  readonly effectId: string
  readonly goal: string
  readonly todo: string
  readonly turn: string | null
  readonly outcome: SettlementOutcome
  readonly accepted: boolean
  readonly acceptance: string | null
  readonly candidate: string | null
  readonly evidence: readonly string[]
  readonly reservation: string
  /** Digest of what was settled; another content under the same effect id is a conflict. */
  readonly content: string
  readonly settledAt: number
  readonly todoState: Todo["state"]
  readonly successors: readonly string[]
  readonly spend: Spend
  readonly owed: readonly Owed[]
  /** The delivery of its result, where the todo has an origin. */
  readonly delivery?: string
  /** There when what was required changed while the turn ran, and no validator ran against the new: it has to be planned anew. */
  readonly stale?: {
    readonly asked: SettlementOutcome
    readonly admittedRevision: number | null
    readonly revision: number
    readonly sources?: readonly (ReadRevision & { readonly admittedRevision: number | null })[]
    readonly context?: { readonly admitted: string | null; readonly worked: string }
    readonly next: "replan"
  }
}
export interface SettlementCalls {
  readonly settle: Write<
    OfGoal & {
      readonly effectId: string
      readonly fence: Fence
      readonly turn?: string
      readonly outcome: SettlementOutcome
      readonly evidence: readonly string[]
      readonly acceptance?: string | null
      readonly candidate?: string | null
      readonly spend: Spend
      readonly context?: string
      readonly reservation?: string
      readonly todo:
        | { readonly action: "keep"; readonly release?: boolean }
        | { readonly action: "complete"; readonly continuation: Continuation }
      readonly note?: string
    },
    Settlement
  >
  /** The receipt by effect id: how a lost reply is read back. */
  readonly get: Read<{ readonly effectId: string }, Settlement>
  readonly list: Read<
    OfGoal,
    Items<Settlement> & { readonly total: number; readonly accepted: number; readonly owed: readonly Owed[] }
  >
}

// --- candidates ------------------------------------------------------------------------------------------------------

export interface Candidate {
  /** Also the name of the pin in the workspace store. */
  readonly id: string
  readonly operationId: string
  readonly goal: string
  readonly turn: string | null
  readonly state: "planned" | "recorded" | "absent" | "unknown"
  readonly identity: string | null
  readonly candidate: { readonly [field: string]: string | null } | null
  readonly pin: "held" | "released" | null
  readonly plannedAt: number
  readonly resolvedAt: number | null
}
type OfOperation = { readonly operationId: string }
export interface CandidateCalls {
  readonly plan: Write<OfGoal & OfOperation & { readonly turn?: string }, Candidate>
  readonly record: Write<
    OfOperation & { readonly identity: string; readonly candidate: { readonly [field: string]: string | null } },
    Candidate
  >
  readonly resolve: Write<OfOperation & { readonly state: "absent" | "unknown"; readonly note?: string }, Candidate>
  readonly releasePin: Write<OfOperation & { readonly reason: string }, Candidate>
  readonly get: Read<OfOperation, Candidate>
  readonly planned: Read<{ readonly goal?: string }, Items<Candidate>>
  readonly list: Read<OfGoal, Items<Candidate>>
}
