/**
 * Gates, obligations and the completion of goals as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands and reads as `coppice/governance`, under the same names and with the same refusals. What a call may
 * fail with stands at the call of the same name there. Rules: G12, G15, G40, G41.
 */
import type { Read, Write } from "./Governance.ts"

export type GateKind = "userDecision" | "capability" | "writeBoundary"
/** What a gate can stop; when it does not say, whatever would start something: `claim`, `dispatch`, `effect`. */
export type GateAction = "claim" | "dispatch" | "settle" | "complete" | "effect"
/** A capability that is missing here. Only a credential and access to production ask the owner; the others are repaired. */
export interface Need {
  readonly class: "network" | "bridge" | "tool" | "runtime" | "storage" | "credential" | "productionAccess"
  readonly name: string
}
/** Whom and what a gate stops. Absent: every agent, whatever would start something, all todos, wherever they write. */
export interface GateScopeSpec {
  readonly agents?: readonly string[]
  readonly actions?: readonly GateAction[]
  readonly todos?: readonly string[]
  /** Relative paths; a write boundary names them. */
  readonly writeScopes?: readonly string[]
}
export interface GateQuestion extends GateScopeSpec {
  readonly goal: string
  readonly kind: GateKind
  readonly question: string
  /** Of a gate of kind `capability`, and of no other. */
  readonly need?: Need
  /** The answers that are possible; absent: any. */
  readonly choices?: readonly string[]
  readonly askedBy?: string
}
/** How far a decision goes. `once`: one holding of one todo, or one effect. `at` in UTC milliseconds, where it ends. */
export type GateReach =
  | { readonly kind: "once" }
  | { readonly kind: "todo"; readonly todo: string }
  | { readonly kind: "scope" }
  | { readonly kind: "until"; readonly at: number }
/** Gates of lane `owner` take a person, those of lane `repair` an agent too. */
export interface GateActor {
  readonly role: "person" | "agent"
  readonly name: string
}
export interface GateDecision {
  readonly allow: boolean
  readonly answer: string
  readonly reason: string
  readonly by: GateActor
  readonly reach: GateReach
  readonly decidedAt: number
  /** Which occasion used a decision of reach `once`. */
  readonly usedBy: string | null
}
export interface Gate {
  readonly id: string
  readonly goal: string
  readonly kind: GateKind
  /** Who is to move: the owner is asked, or somebody repairs what is missing here. */
  readonly lane: "owner" | "repair"
  readonly question: string
  readonly need: Need | null
  readonly choices: readonly string[] | null
  readonly askedBy: string | null
  /** Null: all. */
  readonly agents: readonly string[] | null
  readonly actions: readonly GateAction[]
  readonly todos: readonly string[] | null
  readonly writeScopes: readonly string[] | null
  /** Oldest first; the latest that covers an action holds. */
  readonly decisions: readonly GateDecision[]
  readonly state: "open" | "decided" | "withdrawn"
  /** When it is open again by time alone. */
  readonly lapsesAt: number | null
  readonly withdrawn: { readonly by: GateActor; readonly reason: string } | null
  readonly openedAt: number
  readonly changedAt: number
}
export interface GateCalls {
  /** The same question is asked once: asking again gives the gate with its decisions, `asked: false`. */
  readonly ask: Write<GateQuestion, Gate & { readonly asked: boolean }>
  readonly decide: Write<
    {
      readonly gate: string
      readonly by: GateActor
      readonly allow: boolean
      readonly answer?: string
      readonly reason: string
      readonly reach: GateReach
    },
    Gate
  >
  readonly withdraw: Write<{ readonly gate: string; readonly by: GateActor; readonly reason: string }, Gate>
  readonly get: Read<{ readonly gate: string }, Gate>
  readonly list: Read<
    { readonly goal: string; readonly state?: Gate["state"]; readonly lane?: Gate["lane"] },
    { readonly items: readonly Gate[] }
  >
}

/** Work that must be attempted, with its reason. */
export interface Obligation {
  readonly id: string
  readonly goal: string
  /** Null: some work of the goal. */
  readonly todo: string | null
  readonly kind: "mustAttemptWork"
  readonly reason: string
  readonly state: "open" | "met" | "waived"
  readonly attempt: { readonly turn: string | null; readonly settlement: string | null } | null
  readonly waiver: { readonly by: string; readonly reason: string } | null
  readonly openedAt: number
  readonly changedAt: number
}
export interface ObligationCalls {
  readonly open: Write<{ readonly goal: string; readonly todo?: string; readonly reason: string }, Obligation>
  /** By the turn that attempted it, or by the effect id of its settlement. Settling a turn does this by itself. */
  readonly meet: Write<
    { readonly obligation: string; readonly turn?: string; readonly settlement?: string },
    Obligation
  >
  readonly waive: Write<
    {
      readonly obligation: string
      readonly by: { readonly role: "person"; readonly name: string }
      readonly reason: string
    },
    Obligation
  >
  readonly get: Read<{ readonly obligation: string }, Obligation>
  readonly list: Read<
    { readonly goal: string; readonly state?: Obligation["state"] },
    { readonly items: readonly Obligation[] }
  >
}

/** What is open of one kind: its whole count, and the first hundred ids. */
export interface OpenPart {
  readonly kind: string
  readonly count: number
  readonly ids: readonly string[]
}
/** The explicit end of a goal. */
export interface Closure {
  readonly reason: string
  readonly evidence: readonly string[]
  readonly closedAt: number
}
