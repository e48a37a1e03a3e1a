/**
 * What "explore a repair" (journey J2) is told, and what it tells.
 * Promise: the result names every attempt with its outcome and clocks, failed ones included; what was not measured is null.
 * Rules: J2, E5, E13, E15, E18, W14.
 */
import type * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { Clocks } from "../evaluator/CostLedger.ts"
import type { OracleSpec, PrepareStep, Verdict } from "../evaluator/Oracle.ts"
import type { OracleKnown } from "../evaluator/OracleProof.ts"
import type { Host } from "../host/Host.ts"
import type { Progress, Projection } from "../workspace/WorkspaceValues.ts"

/** One route that somebody tries. */
export interface Route {
  /** Short and stable within the run, for example `a1`: it names the todo, the branch and the record. */
  readonly id: string
  /** The route in words: the hypothesis in the explore graph. */
  readonly title: string
  readonly instruction: string
  readonly host: Host
  /** The most that it may cost, in US dollars; reserved before dispatch (G55). */
  readonly usd: number
  /** Default 10 minutes; the whole process tree is ended after it. */
  readonly timeLimit?: Duration.Input
}

/** How the warm checkpoint is made. */
export interface WarmUp {
  readonly argv: readonly [string, ...string[]]
  /** Default 30 minutes. */
  readonly timeLimit?: Duration.Input
  /** Names of this process's variables that it may see, beside the allow-listed ones and those of the network. */
  readonly passEnv?: readonly string[]
}

/** Who judges, and how: see `OracleSpec`, whose other fields follow from the run. */
export interface RepairOracle
  extends Pick<OracleSpec, "judge" | "exitCodes" | "layOver" | "canary" | "dependencies">,
    Partial<Pick<OracleSpec, "name" | "prepare">> {
  /** The directory of the judge's own files; without one the verdict rests on files that attempts may change. */
  readonly heldOut?: string
  /** Names of this process's variables that the judge's commands may see, beside the allow-listed ones. */
  readonly passEnv?: readonly string[]
  /** For each command of the judge. Default 10 minutes. */
  readonly timeLimit?: Duration.Input
  /** What it is proven with before its word counts (E16). Without it the report says `oracle: "unproven"`. */
  readonly proof?: OracleKnown
}

export interface RepairOptions {
  /** Names this run. The same name on the same store goes on where an earlier process stopped; nothing is done twice. */
  readonly run: string
  readonly title: string
  /** Limits for the whole run: US dollars, and turns. Zero is a limit. */
  readonly budget: { readonly usd: number; readonly slots: number }
  /**
   * The repository as a person left it: dependencies installed, ignored files, uncommitted work, submodules and all. Only read.
   * Patches are made against it as it is; clean checkouts stand where it stood.
   */
  readonly source: string
  /** The commit of `source` on which its files stand. Default: its HEAD. What differs from it counts as uncommitted work. */
  readonly base?: string
  /**
   * A command that runs once, in a copy of the source at the source's own path, before the attempts: for example
   * `["npm", "ci"]`. Attempts start from what it leaves. It is your command and runs as on your machine: your HOME, your
   * network, without isolation; the source itself is not in its reach.
   */
  readonly prepare?: WarmUp
  /** Lockfiles and tools that belong to the environment's identity (W5). */
  readonly environment?: { readonly tools?: readonly string[]; readonly lockfiles?: readonly string[] }
  readonly routes: readonly Route[]
  /** Takes over the first route that got half way. */
  readonly receiver?: Route
  /** How many attempts run at a time. Default: all. */
  readonly workers?: number
  readonly oracle: RepairOracle
  /** Commands that must pass in a fresh clone with the accepted patch, for example `npm ci`, then `npm test`. */
  readonly replay?: readonly PrepareStep[]
  /** Further absolute paths that no attempt may see; the store, the origin, the held-out files and credentials are hidden anyhow (W17). */
  readonly hide?: readonly string[]
  /** Absolute paths below /tmp that attempts need, read-only: their own /tmp is private, so an agent that lies there is not seen. */
  readonly show?: readonly string[]
  /** Where the record is written: patch, verdicts, results, graph. Made when missing; never inside `source`. */
  readonly record: string
  /**
   * An attempt whose executor was lost with an earlier process is never dispatched again by itself (G82).
   * `true` admits a new, labelled attempt in its place.
   */
  readonly retryInterrupted?: boolean
  readonly onProgress?: (event: RepairProgress) => void
}

export interface RepairProgress {
  /** The route's id, or null for the run as a whole. */
  readonly attempt: string | null
  readonly stage: string
  readonly text: string
  /** How far it is, for the stages that can tell: reading the source, writing the base of an attempt (W14). */
  readonly step?: Progress
}

export type AttemptOutcome =
  | "accepted"
  | "refused"
  | "failed"
  | "handedOver"
  | "passedNotChosen"
  | "inconclusive"
  | "interrupted"

export interface AttemptReport {
  readonly id: string
  readonly route: string
  readonly outcome: AttemptOutcome
  /** One sentence, public-safe. */
  readonly reason: string
  /** Changed files that no patch holds: ignored ones, and those in repositories inside the source. Null when not measured. */
  readonly leftOut: number | null
  /** The commit that holds its files, or null when it made no change. */
  readonly checkpoint: string | null
  /** The candidate's full identity. */
  readonly candidate: string | null
  readonly changedFiles: number | null
  readonly projection: Projection | null
  readonly isolation: "enforced" | "advisory" | "none" | null
  /**
   * Watched paths outside the workspace (the source, held-out files, what is hidden) that changed while it ran, by whoever; null where
   * isolation was enforced, so that nothing inside could write there, and where nobody looked.
   */
  readonly touchedOutside: readonly string[] | null
  readonly clocks: Clocks
  /** US dollars; null while unknown. */
  readonly usd: number | null
  /** Null when no turn was admitted. */
  readonly turn: string | null
}

/** Where the source stood. */
export interface SourceReport {
  readonly commit: string
  /** Null for a detached HEAD. */
  readonly branch: string | null
  readonly shallow: boolean
  /** Files with uncommitted work, in the repository and in those inside it. */
  readonly changes: number
  /** Some of them by name. */
  readonly examples: readonly string[]
  /** That work as patches below the record: apply them in a fresh clone before `fix.patch`. Empty when there is none. */
  readonly patches: readonly { readonly part: string; readonly file: string }[]
  /** Submodules and nested repositories, by path. What attempts change in them is no part of a patch. */
  readonly inner: readonly string[]
  /** What clean checkouts lack, and what the import noticed, in words. */
  readonly notes: readonly string[]
}

export interface RepairReport {
  readonly run: string
  readonly goal: string
  readonly source: SourceReport
  readonly imported: { readonly commit: string; readonly files: number; readonly bytes: number } | null
  /** The commit that attempts started from, when a `prepare` command made one. */
  readonly prepared: { readonly commit: string; readonly changedFiles: number } | null
  readonly oracle: "proven" | "unproven"
  /** The verdict on the source as it is, before any attempt. */
  readonly base: { readonly outcome: Verdict["outcome"]; readonly reason: string }
  readonly attempts: readonly AttemptReport[]
  readonly handoff: {
    readonly from: string
    readonly to: string
    readonly verified: boolean
    readonly adopted: boolean
  } | null
  readonly accepted: {
    readonly attempt: string
    readonly candidate: string
    /** Path of the patch below the record. */
    readonly patch: string
    /** Null when the record that held it was deleted; the acceptance stands in the authority. */
    readonly verification: Verdict | null
  } | null
  /** The accepted patch in a fresh clone. */
  readonly replay: "passed" | "failed" | "unavailable" | null
  readonly settlements: { readonly accepted: number; readonly total: number }
  readonly quota: {
    readonly reserved: number
    readonly spent: number
    readonly remaining: number | null
    /** Costs whose saved result is missing, damaged or altered now. The amounts stand in the ledger and are exact (G54). */
    readonly unreadableEvidence: number
  }
  /** Workspaces of earlier processes that were recovered to branches of their own. */
  readonly recovered: readonly { readonly workspace: string; readonly branch: string }[]
  readonly clocks: Clocks
}

/** An option is wrong, or does not belong to the run in the record. Nothing was started. */
export class RepairOptionsError extends Schema.TaggedError<RepairOptionsError>()("RepairOptionsError", {
  ...errorFields("REPAIR_OPTIONS"),
  option: Schema.String
}) {}

/**
 * The `prepare` command did not end with 0. No attempt was started; `prepare.log` in the record has what it printed. Remedy:
 * make it work in a plain clone; the same run then tries it again.
 */
export class PrepareFailed extends Schema.TaggedError<PrepareFailed>()("PrepareFailed", {
  ...errorFields("PREPARE_FAILED"),
  exitCode: Schema.NullOr(Schema.Number),
  timedOut: Schema.Boolean
}) {}

/** The oracle is not what it claims to be: its word would prove nothing. No attempt was judged. */
export class OracleNotProven extends Schema.TaggedError<OracleNotProven>()("OracleNotProven", {
  ...errorFields("ORACLE_NOT_PROVEN"),
  broken: Schema.Array(Schema.String)
}) {}

/** The run ended and no candidate was accepted. Every attempt is in it, with why. */
export class NothingAccepted extends Schema.TaggedError<NothingAccepted>()("NothingAccepted", {
  ...errorFields("NOTHING_ACCEPTED"),
  attempts: Schema.Array(Schema.Struct({ id: Schema.String, outcome: Schema.String, reason: Schema.String }))
}) {}
