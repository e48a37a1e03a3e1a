/**
 * Governance as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands and reads as `coppice/governance`, under the same names and with the same refusals; every write
 * is one service command and takes the caller's `commandId` (G2); every answer says as of which journal sequence it holds (G7).
 * What a call may fail with stands at the call of the same name there. Rules: G1, G2, G7, G10 to G74, G80.
 */
import type { Origin } from "./Deliveries.ts"
import type { Closure, Obligation, OpenPart } from "./Gates.ts"
import type { CallOptions, Duration } from "./Plain.ts"
import type { Budget, BudgetSpec, Meter, Owed } from "./Quota.ts"

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

export interface Goal {
  readonly id: string
  readonly title: string
  readonly state: "active" | "paused" | "stopped" | "completed"
  readonly budget: Budget
  /** Meters without which nothing of it may run. */
  readonly requiredMeters: readonly Meter[]
  /** Null while it was not completed. */
  readonly closure: Closure | null
  readonly revision: number
  readonly openedAt: number
}
export interface Agent {
  readonly goal: string
  readonly agentId: string
  readonly capabilities: readonly string[]
  /** Its own limits; null: whatever the goal's budget holds. */
  readonly budget: Budget | null
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
/** Why unfinished todos were not given to this agent. Each todo counts once, under its first reason. */
export interface Withheld {
  readonly unfinished: number
  readonly leased: number
  readonly deferred: number
  readonly blocked: number
  readonly excluded: number
  readonly capability: number
  readonly gated: number
  readonly scopeConflict: number
  /** A source that the work requires cannot be read. */
  readonly unreadable: number
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
      readonly withheld: Withheld
    }
)

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
/** A fact that was decided, as it stands in the journal. */
export interface JournalEntry {
  /** From 1, without gaps. */
  readonly seq: number
  /** UTC milliseconds. */
  readonly at: number
  readonly module: string
  /** The command that it came from: its `commandId`, or the id that was made for it. */
  readonly command: string
  /** Such as `todo.completed`. */
  readonly type: string
  /** What it is about, by id. */
  readonly entity: string
  /** The whole record as it was from then on, for most types. */
  readonly data: unknown
  /** Of the entry before it, and of this one with that in it: what `verify` walks. */
  readonly prevHash: string
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
  /** With a `seq` above `after`, at most `limit` (1,000). */
  readonly read: (
    options?: CallOptions & { readonly after?: number; readonly limit?: number }
  ) => Promise<readonly JournalEntry[]>
  /** Walks the whole chain; `brokenAt` is the first entry that does not follow from the one before it, null: there is none. */
  readonly verify: (
    options?: CallOptions
  ) => Promise<{ readonly ok: boolean; readonly entries: number; readonly brokenAt: number | null }>
}
