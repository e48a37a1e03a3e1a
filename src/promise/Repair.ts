/**
 * The composed journeys as plain async functions: the declarations. No Effect in them.
 * Promise: the same journeys as in `coppice`, with agents named as commands or functions instead of hosts.
 * Rules: J2, E5, E13, W14, S50, S51, S54.
 */
import type { Progress, Projection } from "../workspace/WorkspaceValues.ts"
import type { Duration } from "./Plain.ts"

/** What a turn is given. */
export interface TurnRequest {
  readonly turnKey: string
  readonly goal: { readonly id: string; readonly title: string }
  readonly todo: { readonly id: string; readonly title: string }
  readonly instruction: string
  readonly findings: readonly { readonly id: string; readonly status: FindingStatus; readonly text: string }[]
  /** Where the files are. */
  readonly root: string
  readonly budget: { readonly usd: number | null; readonly timeLimitMs: number }
}
export type FindingStatus = "tentative" | "confirmed" | "refuted"

/** What a turn answers; its own word for what it did. Acceptance is somebody else's. */
export interface TurnAnswer {
  readonly outcome: "progress" | "completed" | "replan" | "repair" | "userAction" | "wait" | "failed"
  readonly summary: string
  readonly findings?: readonly { readonly status: FindingStatus; readonly text: string }[]
  readonly usedFindings?: readonly string[]
  /** Absent means unknown, never 0. */
  readonly usage?: { readonly usd?: number }
}

/** Who does the work of a route. */
export type AgentSpec =
  /** A program that reads one JSON request on stdin and prints one JSON result: the turn protocol. */
  | { readonly program: readonly [string, ...string[]]; readonly env?: Readonly<Record<string, string>> }
  /**
   * Any command (a text is run by `sh`): exit code 0 claims that it is done. The instruction is in `COPPICE_INSTRUCTION`.
   * `usd` is what one run costs, 0 for a command that calls no paid service; absent means unknown, and the bound stays held.
   */
  | {
      readonly command: string | readonly [string, ...string[]]
      readonly env?: Readonly<Record<string, string>>
      readonly usd?: number
    }
  /** A function of this process. It is labelled as such, and cannot be stopped when it ignores its signal. */
  | {
      readonly name: string
      readonly turn: (turn: {
        readonly request: TurnRequest
        readonly signal: AbortSignal
        readonly say: (text: string) => void
      }) => Promise<TurnAnswer> | TurnAnswer
    }

export interface Route {
  /** Short and stable within the run, for example `a1`. */
  readonly id: string
  readonly title: string
  readonly instruction: string
  readonly agent: AgentSpec
  /** The most that it may cost, in US dollars; reserved before dispatch. */
  readonly usd: number
  /** 10 minutes when absent. */
  readonly timeLimit?: Duration
}

/** A command that must succeed before the judge; `blame` says what a failure means. */
export interface PrepareStep {
  readonly argv: readonly [string, ...string[]]
  /** `compare`: the candidate's, when the base passes the same step. */
  readonly blame: "machine" | "candidate" | "compare"
}
export interface NamedPatch {
  readonly name: string
  readonly patch: Uint8Array
}

/** Who judges, and how: in a clean checkout, with files that no attempt can read. */
export interface RepairOracle {
  readonly name?: string
  /** Exit code 0 passed, 1 failed, 2 progress, anything else inconclusive. */
  readonly judge: readonly [string, ...string[]]
  /** `plain`, for a command that knows nothing of us: 0 passed, 126 and 127 unavailable, any other failed. */
  readonly exitCodes?: "verdict" | "plain"
  /** The directory of the judge's own files; without one the verdict rests on files that attempts may change. */
  readonly heldOut?: string
  /** Lay the held-out files over the checkout, at the same paths. */
  readonly layOver?: boolean
  readonly canary?: string
  /** Names of this process's variables that the judge's commands may see. */
  readonly passEnv?: readonly string[]
  readonly dependencies?: {
    readonly install: readonly [string, ...string[]]
    /** Manifests and lockfiles whose contents decide what is installed. */
    readonly decidedBy: readonly string[]
    /** What the install makes. */
    readonly directories: readonly string[]
  }
  readonly prepare?: readonly PrepareStep[]
  readonly timeLimit?: Duration
  /** Patches whose verdict is known: without them the report says `oracle: "unproven"`. */
  readonly proof?: { readonly fixes: readonly NamedPatch[]; readonly wrong: readonly NamedPatch[] }
}

export interface ExploreRepairOptions {
  /** The same name on the same store goes on where an earlier process stopped. */
  readonly run: string
  readonly title: string
  readonly budget: { readonly usd: number; readonly slots: number }
  /** The repository as a person left it, dependencies installed; only read. */
  readonly source: string
  readonly base?: string
  /** Runs once, in a copy of the source, before the attempts: for example `npm ci`. */
  readonly prepare?: {
    readonly argv: readonly [string, ...string[]]
    readonly timeLimit?: Duration
    readonly passEnv?: readonly string[]
  }
  readonly environment?: { readonly tools?: readonly string[]; readonly lockfiles?: readonly string[] }
  readonly routes: readonly Route[]
  /** Takes over the first route that got half way. */
  readonly receiver?: Route
  readonly workers?: number
  readonly oracle: RepairOracle
  readonly replay?: readonly PrepareStep[]
  readonly hide?: readonly string[]
  readonly show?: readonly string[]
  /** Where the record is written; made when missing; never inside `source`. */
  readonly record: string
  readonly retryInterrupted?: boolean
}

export interface RepairProgress {
  /** The route's id, or null for the run as a whole. */
  readonly attempt: string | null
  readonly stage: string
  readonly text: string
  /** How far it is, for the stages that can tell: reading the source, writing the base of an attempt. */
  readonly step?: Progress
}

/** Milliseconds of a stage; null means not measured. */
export type Clocks = Readonly<
  Record<string, { readonly wallMs: number; readonly totalMs: number; readonly n: number } | null>
>

export interface Verdict {
  readonly oracle: string
  readonly outcome: "passed" | "progress" | "failed" | "inconclusive" | "unavailable"
  readonly reason: string
  readonly checks: readonly { readonly name: string; readonly passed: boolean }[]
  readonly exitCode: number | null
  readonly wallMs: number
}

export interface AttemptReport {
  readonly id: string
  readonly route: string
  readonly outcome:
    | "accepted"
    | "refused"
    | "failed"
    | "handedOver"
    | "passedNotChosen"
    | "inconclusive"
    | "interrupted"
  /** One sentence, public-safe. */
  readonly reason: string
  readonly checkpoint: string | null
  readonly candidate: string | null
  readonly changedFiles: number | null
  /** Changed files that no patch holds. Null when not measured. */
  readonly leftOut: number | null
  readonly projection: Projection | null
  readonly isolation: "enforced" | "advisory" | "none" | null
  /** Watched paths outside that changed while it ran; null where isolation was enforced, or nobody looked. */
  readonly touchedOutside: readonly string[] | null
  readonly clocks: Clocks
  /** US dollars; null while unknown. */
  readonly usd: number | null
}

/** Where the source stood. */
export interface SourceReport {
  readonly commit: string
  /** Null for a detached HEAD. */
  readonly branch: string | null
  readonly shallow: boolean
  /** Files with uncommitted work, some of them by name, and that work as patches below the record. */
  readonly changes: number
  readonly examples: readonly string[]
  readonly patches: readonly { readonly part: string; readonly file: string }[]
  /** Submodules and nested repositories: what attempts change in them is no part of a patch. */
  readonly inner: readonly string[]
  readonly notes: readonly string[]
}

/** Every attempt with its outcome, failed ones included. `accepted` is null when nothing was. */
export interface RepairReport {
  readonly run: string
  readonly goal: string
  readonly source: SourceReport
  readonly imported: { readonly commit: string; readonly files: number; readonly bytes: number } | null
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
    /** Costs whose saved result cannot be read now; the amounts are exact all the same. */
    readonly unreadableEvidence: number
  }
  /** Workspaces of earlier processes that were recovered to branches of their own. */
  readonly recovered: readonly { readonly workspace: string; readonly branch: string }[]
  readonly clocks: Clocks
}

/** A line for `sh -c`, or an argv that no shell sees. */
export type CommandLine = string | readonly [string, ...string[]]

/** One attempt of `repairRepository`. Its command, or its agent, runs in a workspace of its own, in the root of the repository. */
export interface CommandAttempt {
  /** Short and stable; `a1`, `a2` … by their order unless given. */
  readonly id?: string
  readonly title?: string
  /** Told to the command as `COPPICE_INSTRUCTION`. */
  readonly instruction?: string
  /** Exit code 0 says that the work is done, any other that it failed; or an agent that says more. */
  readonly command: CommandLine | AgentSpec
  /** The most that it may cost, in US dollars; a plain command costs what this says, 0 unless given. */
  readonly usd?: number
  readonly timeLimit?: Duration
}

export interface RepairRepositoryOptions {
  /** The root of a git repository, in whatever state: only read. */
  readonly repository: string
  /** What makes a copy workable, for example `npm ci`. Runs once for all attempts, and in every clean checkout. */
  readonly prepare?: CommandLine
  readonly attempts: readonly (CommandAttempt | CommandLine)[]
  /** Runs in a clean checkout with the attempt's patch: exit code 0 accepts it. */
  readonly verify: CommandLine
  /** Files that attempts never see and that lie over the checkout when it is judged. */
  readonly heldOut?: string
  /** Outside the repository; the same directory goes on with a run that was killed. */
  readonly record: string
  readonly run?: string
  readonly title?: string
  /** What the attempts may cost together, and two turns for each, when absent. */
  readonly budget?: { readonly usd: number; readonly slots: number }
  /** For each attempt; 10 minutes when absent. */
  readonly timeLimit?: Duration
  /** 30 minutes when absent. */
  readonly verifyTimeLimit?: Duration
  readonly prepareTimeLimit?: Duration
  readonly workers?: number
  /** Names of this process's variables that attempts, `prepare` and `verify` may see. */
  readonly passEnv?: readonly string[]
  /** Apply the accepted patch once more in a fresh clone and run both commands there; true when absent. */
  readonly replay?: boolean
  readonly base?: string
  readonly hide?: readonly string[]
  readonly show?: readonly string[]
  readonly retryInterrupted?: boolean
}
