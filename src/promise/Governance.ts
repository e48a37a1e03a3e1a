/**
 * Governance as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands and reads as `coppice/governance`, under the same names and with the same refusals; every write
 * is one service command and takes the caller's `commandId` (G2); every answer says as of which journal sequence it holds (G7).
 * What a call may fail with stands at the call of the same name there. Rules: G1, G2, G7, G10 to G74, G80.
 */
import type { Origin } from "./Deliveries.ts"
import type { Closure, Obligation, OpenPart } from "./Gates.ts"
import type { CallOptions, Duration } from "./Plain.ts"
import type { CostRole, ReportedUsage, UsageFigures } from "./Usage.ts"

/** What every answer says of itself: the journal sequence as of which it holds. */
export interface AsOf {
  readonly asOf: number
}
/** What every write says of itself: `replayed` when the same command had been committed before. */
export interface Receipt extends AsOf {
  readonly replayed: boolean
}
/** The same `commandId` with the same payload gives the stored receipt; with another one it is `IdempotencyKeyReuse`. */
export interface Keyed {
  readonly commandId?: string
}
export type Write<Input, Reply> = (input: Input & Keyed, options?: CallOptions) => Promise<Reply & Receipt>
export type Read<Input, Reply> = (input: Input, options?: CallOptions) => Promise<Reply & AsOf>

/** US dollars, whole turns, tokens, milliseconds, attempts. Zero is an amount like any other. */
export interface Amounts {
  readonly usd?: number
  readonly slots?: number
  readonly tokens?: number
  readonly wallMs?: number
  readonly computeMs?: number
  readonly attempts?: number
}
/** Limits, and the window in milliseconds that they hold for; without one, for the whole life. */
export interface BudgetSpec extends Amounts {
  readonly windowMs?: number
}
export type Meter = "usd" | "slots" | "tokens" | "wallMs" | "computeMs" | "attempts"
export interface Goal {
  readonly id: string
  readonly title: string
  readonly state: "active" | "paused" | "stopped" | "completed"
  /** Null where there is no limit. */
  readonly budget: Omit<BudgetSpec, "usd" | "slots"> & { readonly usd: number | null; readonly slots: number | null }
  /** Null while it was not completed. */
  /** Meters without which nothing of it may run. */
  readonly requiredMeters: readonly Meter[]
  readonly closure: Closure | null
  readonly revision: number
  readonly openedAt: number
}
export interface Agent {
  readonly goal: string
  readonly agentId: string
  readonly capabilities: readonly string[]
  /** Its own limits; null: whatever the goal's budget holds. */
  readonly budget: Goal["budget"] | null
  readonly registeredAt: number
}
export interface TodoSpec {
  readonly title: string
  /** Higher goes first; 0 when absent. */
  readonly priority?: number
  readonly dependsOn?: readonly string[]
  readonly capabilities?: readonly string[]
  readonly writeScopes?: readonly string[]
  readonly excludedAgents?: readonly string[]
  /** Sources of the goal that have to be read for it, by id. */
  readonly requiredReads?: readonly string[]
  /** When set, only a settlement accepted by this validator completes the todo. */
  readonly acceptance?: { readonly validator: string } | null
  /** Where it was asked for: its result goes back there. */
  readonly origin?: Origin | null
}
export interface Todo {
  readonly id: string
  readonly goal: string
  readonly title: string
  readonly state: "open" | "deferred" | "done" | "superseded"
  readonly priority: number
  readonly dependsOn: readonly string[]
  readonly capabilities: readonly string[]
  readonly writeScopes: readonly string[]
  readonly excludedAgents: readonly string[]
  readonly requiredReads: readonly string[]
  readonly acceptance: { readonly validator: string } | null
  readonly deferredUntil: number | null
  readonly deferReason: string | null
  readonly continuation:
    | { readonly kind: "successors"; readonly todos: readonly string[] }
    | { readonly kind: "goalStaysActive" }
    | { readonly kind: "noFollowUp" }
    | null
  readonly supersededBy: readonly string[] | null
  readonly origin: Origin | null
  readonly revision: number
  readonly addedAt: number
  readonly changedAt: number
}
export type Continuation =
  | { readonly kind: "successors"; readonly todos: readonly TodoSpec[] }
  | { readonly kind: "goalStaysActive" }
  | { readonly kind: "noFollowUp" }

/** What a holder shows to prove that it still holds. */
export interface Fence {
  readonly todo: string
  readonly token: string
  readonly epoch: number
  readonly version: number
}
/** A session binding and its generation. */
export interface Binding {
  readonly id: string
  readonly generation: number
}
export interface LeaseView {
  readonly id: string
  readonly todo: string
  readonly goal: string
  readonly owner: string
  readonly binding: Binding | null
  readonly epoch: number
  readonly version: number
  readonly writeScopes: readonly string[]
  /** Milliseconds that a renewal adds when it names no others. */
  readonly ttlMs: number
  readonly acquiredAt: number
  readonly expiresAt: number
  readonly releasedAt: number | null
  /** How the grant before this one ended, and what was known of its executor then. */
  readonly previous: {
    readonly owner: string
    readonly epoch: number
    readonly ended: "released" | "expired" | "transferred"
    readonly oldExecutor: "ended" | "running" | "unknown"
    readonly reason: string | null
  } | null
}
export interface Lease extends LeaseView {
  readonly fence: Fence
}
export type NextWork = {
  /** Todos that were passed over because gates stop this agent from taking or running them; null: all that it might have been given. */
  readonly gated: readonly { readonly todo: string | null; readonly gates: readonly string[] }[]
  /** Todos that were passed over because sources that they require cannot be read. */
  readonly unreadable: readonly { readonly todo: string; readonly sources: readonly string[] }[]
  /** Todos that were passed over because live leases write where they would, with all of those. */
  readonly blocked: readonly {
    readonly todo: string
    readonly conflicts: readonly {
      readonly todo: string
      readonly owner: string
      readonly epoch: number
      readonly scopes: readonly string[]
      readonly expiresAt: number
    }[]
  }[]
} & (
  | { readonly _tag: "claimed"; readonly todo: Todo; readonly lease: Lease }
  | {
      readonly _tag: "none"
      readonly reason: "nothingUnfinished" | "allWithheld"
      /** How many todos are withheld, by why. */
      readonly withheld: {
        readonly [why in
          | "unfinished"
          | "leased"
          | "deferred"
          | "blocked"
          | "excluded"
          | "capability"
          | "gated"
          | "scopeConflict"
          | "unreadable"]: number
      }
    }
)

/** A cost that is unknown, and the call that settles it: `quota.trueUp` with the amount filled in. */
export interface Owed {
  readonly reservation: string
  readonly todo: string | null
  readonly turn: string | null
  readonly call: {
    readonly operation: "Quota.trueUp"
    /** `usd` is what the caller has to fill in. */
    readonly input: { readonly reservation: string; readonly usd: null }
  }
}
export interface Sums {
  readonly usd: number
  readonly slots: number
}
export interface QuotaStatus {
  readonly goal: string
  readonly reserved: Sums
  readonly spent: Sums
  readonly remaining: { readonly usd: number | null; readonly slots: number | null }
  readonly owed: readonly Owed[]
}
export interface Reservation {
  readonly id: string
  readonly goal: string
  readonly effectId: string
  readonly state: string
  readonly held: { readonly usd: number | null; readonly slots: number }
  readonly spent: { readonly usd: number | null; readonly slots: number }
  readonly owed: readonly Owed[]
}
export interface QuotaEvent {
  readonly seq: number
  readonly at: number
  readonly kind: "reserve" | "spend" | "void" | "trueUp"
  readonly reservation: string
  readonly effectId: string
  readonly change: { readonly reserved: Sums; readonly spent: Sums }
  readonly reason: string | null
}
/** Whose cost it is. */
export interface CostOwner {
  readonly goal: string
  readonly todo?: string
  readonly turn?: string
  readonly agent?: string
  /** A worker's when absent. */
  readonly role?: CostRole
}
/** `"unknown"` is a value of its own, and never zero. */
export interface Spend {
  readonly usd: number | "unknown"
  readonly slots?: number | undefined
  readonly tokens?: number | undefined
  readonly wallMs?: number | undefined
  readonly computeMs?: number | undefined
  readonly attempts?: number | undefined
}
export interface Evidence {
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly kind: string
  readonly digest: string
  readonly summary: string
  readonly ref: string | null
  readonly producer: Producer
  readonly recordedAt: number
}
export interface Producer {
  readonly role: "executor" | "validator" | "evaluator" | "person"
  readonly name: string
}
export interface JournalEntry {
  readonly seq: number
  readonly at: number
  readonly module: string
  readonly type: string
  readonly data: unknown
  readonly hash: string
}

export type Items<Item> = { readonly items: readonly Item[] }
export type OfGoal = { readonly goal: string }
type OfTodo = { readonly todo: string }
/** How long a lease holds without renewal; 45 minutes when absent, at most 24 hours. */
type Ttl = { readonly ttl?: Duration }

export interface GoalCalls {
  readonly open: Write<
    { readonly title: string; readonly budget: BudgetSpec; readonly requiredMeters?: readonly Meter[] },
    Goal
  >
  readonly get: Read<
    OfGoal,
    Goal & {
      readonly owed: readonly Owed[]
      readonly undelivered: { readonly count: number; readonly ids: readonly string[] }
      /** The open ones. */
      readonly obligations: readonly Obligation[]
      readonly gates: { readonly count: number; readonly ids: readonly string[] }
    }
  >
  /** Everything that is open below it. */
  readonly frontier: Read<OfGoal, { readonly state: Goal["state"]; readonly parts: readonly OpenPart[] }>
  /** For good, with an empty frontier. */
  readonly complete: Write<
    OfGoal & { readonly closure: { readonly reason: string; readonly evidence?: readonly string[] } },
    Goal
  >
  readonly pause: Write<OfGoal, Goal>
  readonly resume: Write<OfGoal, Goal>
  readonly stop: Write<OfGoal, Goal>
}
export interface AgentCalls {
  readonly register: Write<
    OfGoal & {
      readonly agentId: string
      readonly capabilities?: readonly string[]
      readonly budget?: BudgetSpec | null
    },
    Agent
  >
  readonly list: Read<OfGoal, Items<Agent>>
}
export interface TodoCalls {
  readonly add: Write<OfGoal & TodoSpec & { readonly unblocks?: readonly string[] }, Todo>
  readonly edit: Write<OfTodo & { readonly revision: number } & Partial<Omit<TodoSpec, "origin">>, Todo>
  readonly defer: Write<OfTodo & { readonly reason: string; readonly until?: number; readonly fence?: Fence }, Todo>
  readonly reopen: Write<OfTodo, Todo>
  readonly supersede: Write<
    OfTodo & { readonly reason: string; readonly fence?: Fence; readonly replacements?: readonly TodoSpec[] },
    Todo & { readonly replacements: readonly Todo[] }
  >
  readonly complete: Write<
    OfTodo & { readonly continuation: Continuation; readonly fence?: Fence; readonly agent?: string },
    Todo & { readonly successors: readonly Todo[]; readonly owed: readonly Owed[]; readonly delivery?: string }
  >
  /** Selects the best todo that the agent may take now and claims it, in one step. */
  readonly nextWork: Write<OfGoal & Ttl & { readonly agent: string; readonly binding?: Binding | null }, NextWork>
  readonly get: Read<OfTodo, Todo & { readonly owed: readonly Owed[] }>
  readonly list: Read<
    OfGoal & { readonly states?: readonly Todo["state"][]; readonly limit?: number; readonly offset?: number },
    Items<Todo> & { readonly total: number; readonly more: boolean; readonly owed: readonly Owed[] }
  >
}
type Handover = { readonly binding?: Binding | null; readonly oldExecutor?: "ended" | "running" | "unknown" }
export interface LeaseCalls {
  readonly acquire: Write<OfTodo & Ttl & { readonly agent: string; readonly reason?: string } & Handover, Lease>
  readonly renew: Write<Ttl & { readonly fence: Fence }, Lease>
  readonly transfer: Write<
    Ttl & { readonly fence: Fence; readonly to: string; readonly reason: string } & Handover,
    Lease
  >
  readonly release: Write<{ readonly fence: Fence }, LeaseView>
  readonly inspect: Read<OfTodo, LeaseView>
  /** The leases that an agent holds in a goal now. */
  readonly heldBy: Read<OfGoal & { readonly agent: string }, Items<LeaseView>>
}
export interface QuotaCalls {
  readonly reserve: Write<
    CostOwner & { readonly effectId: string; readonly bound: Amounts; readonly fence?: Fence },
    Reservation
  >
  readonly spend: Write<
    CostOwner & {
      readonly effectId: string
      readonly spend: Spend
      /** What the providers say of its tokens. */
      readonly usage?: readonly ReportedUsage[]
      readonly reservation?: string
      readonly evidence?: string
      readonly fence?: Fence
    },
    Reservation
  >
  readonly trueUp: Write<
    { readonly reservation: string; readonly usd: number; readonly evidence?: string },
    Reservation
  >
  readonly void: Write<{ readonly reservation: string; readonly reason: string }, Reservation>
  readonly get: Read<{ readonly reservation: string }, Reservation>
  readonly status: Read<OfGoal, QuotaStatus>
  /** The tokens of a goal, or of one agent or role in it. */
  readonly usage: Read<
    OfGoal & { readonly agent?: string; readonly role?: CostRole; readonly limit?: number },
    { readonly figures: UsageFigures }
  >
  readonly history: Read<
    OfGoal & { readonly after?: number; readonly limit?: number },
    Items<QuotaEvent> & { readonly totals: Omit<QuotaStatus, "owed"> }
  >
}
export interface EvidenceCalls {
  readonly record: Write<
    OfGoal & {
      readonly todo?: string
      readonly turn?: string
      readonly kind: string
      readonly digest: string
      readonly summary: string
      readonly ref?: string | null
      readonly producer: Producer
      readonly fence?: Fence
    },
    Evidence
  >
  readonly get: Read<{ readonly evidence: string }, Evidence>
  readonly list: Read<OfGoal & { readonly turn?: string }, Items<Evidence>>
}
/** What happened, oldest first, and whether the record of it is whole. */
export interface JournalCalls {
  readonly read: (
    options?: CallOptions & { readonly after?: number; readonly limit?: number }
  ) => Promise<readonly JournalEntry[]>
  readonly verify: (
    options?: CallOptions
  ) => Promise<{ readonly ok: boolean; readonly entries: number; readonly brokenAt: number | null }>
}
