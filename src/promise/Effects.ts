/**
 * External effects and operation providers as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands, reads and driver as `coppice/governance` and `coppice/session`, under the same names and with the
 * same refusals. Rules: G60, G61, G62, G63.
 */
import type { Fence, Read, Write } from "./Governance.ts"
import type { CallOptions, Duration } from "./Plain.ts"

/** What a kind of operation declares of itself; see `OperationKind` of `coppice/governance`. */
export interface OperationKind {
  readonly name: string
  /** Whether the provider can say later what became of an effect. Without it only a person confirms. */
  readonly readBack: "yes" | "no"
  readonly retry: "safe" | "keyed" | "unsafe"
  /** Who says that it has stopped; `none`: it is over when it is accepted. */
  readonly stop: "device" | "person" | "none"
  readonly supervision: "none" | "required"
}
export interface EffectOutcome {
  readonly by: "provider" | "readBack" | "person" | "planner"
  readonly who: string | null
  readonly summary: string
  readonly receipt: string | null
  readonly evidence: readonly string[]
  readonly at: number
}
export interface EffectStop {
  readonly state: "requested" | "confirmed" | "unknown"
  readonly requestedBy: string
  readonly reason: string
  readonly requestedAt: number
  readonly confirmedBy: "device" | "person" | null
  readonly who: string | null
  readonly summary: string
  readonly evidence: readonly string[]
  readonly confirmedAt: number | null
}
interface EndedFact {
  readonly by: string
  readonly summary: string
  readonly at: number
}
/** One operation outside, under one id, and what is known of it. */
export interface ExternalEffect {
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  readonly agent: string | null
  readonly provider: string
  readonly kind: string
  readonly declared: OperationKind
  /** Digest; the operation itself is not kept. */
  readonly operation: string
  readonly summary: string
  readonly after: readonly string[]
  readonly state: "planned" | "dispatched" | "confirmed" | "refused" | "unknown"
  readonly attempts: number
  readonly supervisor: string | null
  readonly claim: "confirmed" | null
  readonly lastReadBack: "confirmed" | "refused" | "pending" | "notFound" | "notExecuted" | "unavailable" | null
  readonly outcome: EffectOutcome | null
  readonly stop: EffectStop | null
  readonly ended: { readonly model: EndedFact | null; readonly process: EndedFact | null }
  /** Whether it holds up whatever depends on it. */
  readonly unresolved: boolean
  readonly plannedAt: number
  readonly dispatchedAt: number | null
  readonly changedAt: number
}

/** Any JSON value. */
export type Operation = string | number | boolean | null | readonly Operation[] | { readonly [key: string]: Operation }

export interface OperationCall {
  /** The idempotency key. */
  readonly effectId: string
  /** Only grows: a fencing token. */
  readonly attempt: number
  readonly kind: string
}
interface Told {
  readonly summary?: string
  readonly receipt?: string
}
/**
 * Whoever carries out operations. Whatever is thrown, and a time that ran out, is no answer: nothing is concluded from it. What
 * each answer promises stands at `OperationProvider` of `coppice/governance`; above all, `notExecuted` bars earlier attempts.
 */
export interface OperationProvider {
  readonly name: string
  readonly kinds: readonly OperationKind[]
  readonly dispatch: (
    call: OperationCall & { readonly operation: Operation },
    signal: AbortSignal
  ) => Promise<Told & { readonly state: "confirmed" | "refused" }>
  readonly readBack: (
    call: OperationCall,
    signal: AbortSignal
  ) => Promise<Told & { readonly state: "confirmed" | "refused" | "pending" | "notFound" | "notExecuted" }>
  readonly interlocks: (signal: AbortSignal) => Promise<
    readonly {
      readonly name: string
      readonly engaged: boolean
      readonly reason?: string
      readonly kinds?: readonly string[]
    }[]
  >
  readonly requestStop: (call: OperationCall, signal: AbortSignal) => Promise<void>
  readonly confirmStopped: (
    call: OperationCall,
    signal: AbortSignal
  ) => Promise<{ readonly state: "stopped" | "moving"; readonly summary?: string }>
}

type OfEffect = { readonly effect: string }

export interface EffectCalls {
  readonly plan: Write<
    OfEffect & {
      readonly goal: string
      readonly todo?: string
      readonly fence?: Fence
      readonly provider: string
      readonly kind: OperationKind
      readonly operation: Operation
      readonly summary: string
      readonly after?: readonly string[]
    },
    ExternalEffect
  >
  readonly dispatch: Write<
    OfEffect & { readonly operation: Operation; readonly fence?: Fence; readonly supervisor?: string },
    ExternalEffect
  >
  readonly answer: Write<
    OfEffect & Told & { readonly attempt: number; readonly answer: "confirmed" | "refused" | "lost" },
    ExternalEffect
  >
  readonly readBack: Write<
    OfEffect & Told & { readonly attempt: number; readonly found: NonNullable<ExternalEffect["lastReadBack"]> },
    ExternalEffect
  >
  readonly resolve: Write<
    OfEffect & {
      readonly outcome: "confirmed" | "refused"
      readonly person: string
      readonly reason: string
      readonly evidence: readonly string[]
    },
    ExternalEffect
  >
  readonly abandon: Write<OfEffect & { readonly by: string; readonly reason: string }, ExternalEffect>
  readonly requestStop: Write<OfEffect & { readonly by: string; readonly reason: string }, ExternalEffect>
  readonly confirmStopped: Write<
    OfEffect & {
      readonly by: "device" | "person"
      readonly seen: "stopped" | "moving" | "unknown"
      readonly who: string
      readonly summary?: string
      readonly evidence?: readonly string[]
    },
    ExternalEffect
  >
  readonly noteEnded: Write<
    OfEffect & { readonly what: "model" | "process"; readonly by: string; readonly summary: string },
    ExternalEffect
  >
  readonly get: Read<OfEffect, ExternalEffect>
  readonly list: Read<{ readonly goal: string }, { readonly items: readonly ExternalEffect[] }>
  readonly unresolved: Read<
    { readonly goal: string } | { readonly provider: string },
    { readonly items: readonly ExternalEffect[] }
  >
}

/** An active provider. */
export interface Operations {
  readonly provider: string
  readonly kinds: readonly OperationKind[]
  /** What earlier processes had left open, as it was after it was read back. */
  readonly recovered: readonly ExternalEffect[]
  /** Carries out an operation, or finds out what became of it. `unknown` is an answer, too. */
  readonly run: (
    spec: OfEffect & {
      readonly goal: string
      readonly todo?: string
      readonly fence?: Fence
      readonly kind: string
      readonly operation: Operation
      readonly summary: string
      readonly after?: readonly string[]
      readonly supervisor?: string
    },
    options?: CallOptions
  ) => Promise<ExternalEffect>
  readonly readBack: (input: OfEffect, options?: CallOptions) => Promise<ExternalEffect>
  /** Stops what runs: asked for, then confirmed by the device itself, or unknown. */
  readonly stop: (
    input: OfEffect & { readonly by: string; readonly reason: string },
    options?: CallOptions
  ) => Promise<ExternalEffect>
  /** Lets go of the provider. Throws `ProviderBusy`, which names the effects that are unresolved. */
  readonly deactivate: (options?: CallOptions) => Promise<void>
}

export interface OperationCalls {
  /** Activates a provider and reads back what earlier processes left open. `timeLimit` is for one call of it: 30 seconds when absent. */
  readonly activate: (
    provider: OperationProvider,
    options?: CallOptions & {
      readonly timeLimit?: Duration
      /** How often a question is repeated; 5 when absent. */
      readonly times?: number
      /** Before the first repetition, doubled before each further one; 100 milliseconds when absent. */
      readonly backoff?: Duration
      /** How often one `run` hands an effect over at most, where its kind allows more than once; 3 when absent. */
      readonly tries?: number
    }
  ) => Promise<Operations>
}
