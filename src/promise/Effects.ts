/**
 * External effects and operation providers as plain async functions: the declarations. No Effect in them.
 * Promise: the same commands, reads and driver as `coppice/governance` and `coppice/session`, under the same names and with the
 * same refusals. Rules: G60, G61, G62, G63.
 */
import type { Fence, Read, Write } from "./Governance.ts"
import type { CallOptions, Duration } from "./Plain.ts"
import type { ProcessIdentity } from "./Turns.ts"

/** What a kind of operation declares of itself; see `OperationKind` of `coppice/governance`. */
export interface OperationKind {
  readonly name: string
  /** Whether the provider can say later what became of an effect. Without it only a person confirms. */
  readonly readBack: "yes" | "no"
  /** `safe`: twice is once, under whatever id. `keyed`: once under one effect id. `unsafe`: every request may be carried out. */
  readonly retry: "safe" | "keyed" | "unsafe"
  /** Who says that it has stopped; `none`: it is over when it is accepted. */
  readonly stop: "device" | "person" | "none"
  /** `required`: a named person watches while it runs. */
  readonly supervision: "none" | "required"
}
/** How it came to be known what became of an effect. */
export interface EffectOutcome {
  /** `provider`: its answer. `readBack`: what it said when asked later. `person`: somebody vouches. `planner`: given up before it could happen. */
  readonly by: "provider" | "readBack" | "person" | "planner"
  /** The person or planner by name; null: the provider. */
  readonly who: string | null
  readonly summary: string
  /** The provider's own reference, where it gave one. */
  readonly receipt: string | null
  readonly evidence: readonly string[]
  /** UTC milliseconds. */
  readonly at: number
}
/** A stop: that it was asked for and, apart from that, who saw that it happened. */
export interface EffectStop {
  /** `unknown`: asked for, and the device gave no answer or does not stand still. */
  readonly state: "requested" | "confirmed" | "unknown"
  readonly requestedBy: string
  readonly reason: string
  readonly requestedAt: number
  /** Null while nobody has looked. */
  readonly confirmedBy: "device" | "person" | null
  readonly who: string | null
  /** What was seen last. */
  readonly summary: string
  readonly evidence: readonly string[]
  /** Null while the stop is not confirmed. */
  readonly confirmedAt: number | null
}
/** Something on our side that ended. It says nothing of the device. */
export interface EndedFact {
  readonly by: string
  readonly summary: string
  readonly at: number
}
/** One operation outside, under one id, and what is known of it. */
export interface ExternalEffect {
  /** The idempotency key that the provider is handed. */
  readonly id: string
  readonly goal: string
  /** Null: it belongs to no todo. */
  readonly todo: string | null
  /** Who held the todo when it was handed over; null: nobody, or it was not handed over yet. */
  readonly agent: string | null
  readonly provider: string
  readonly kind: string
  /** What the kind declared when the effect was planned. */
  readonly declared: OperationKind
  /** Digest; the operation itself is not kept. */
  readonly operation: string
  readonly summary: string
  /** Effects that must be confirmed before it. */
  readonly after: readonly string[]
  readonly state: "planned" | "dispatched" | "confirmed" | "refused" | "unknown"
  /** How often it was handed over. */
  readonly attempts: number
  /** Whether an attempt before the last one may have been carried out. */
  readonly earlierOpen: boolean
  /** The process that handed it over last; null: none did. */
  readonly driver: ProcessIdentity | null
  /** Who watches while it runs, where its kind requires somebody. */
  readonly supervisor: string | null
  /**
   * What the provider said of the last attempt where that is a claim and no more: that it was done, for a kind without read-back;
   * that it was refused, while an earlier attempt may have been carried out.
   */
  readonly claim: "confirmed" | "refused" | null
  /** Null: it was not read back since it was handed over last. */
  readonly lastReadBack: "confirmed" | "refused" | "pending" | "notFound" | "notExecuted" | "unavailable" | null
  /** Null while it is not known what became of it. */
  readonly outcome: EffectOutcome | null
  /** Null: no stop was asked for. */
  readonly stop: EffectStop | null
  readonly ended: { readonly model: EndedFact | null; readonly process: EndedFact | null }
  /** Whether it holds up whatever depends on it: handed over without a known fate, or a stop that is not confirmed. */
  readonly unresolved: boolean
  /** UTC milliseconds. */
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
  /** Says, before a provider is asked, that it will be. Choose an `effect` id that is unique over all stores, and keep it after a crash. */
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
  /** That it is about to be handed over; only after that the provider is called, once, with the reply's `attempts`. */
  readonly dispatch: Write<
    OfEffect & { readonly operation: Operation; readonly fence?: Fence; readonly supervisor?: string },
    ExternalEffect
  >
  /** What the provider answered to an attempt; `lost`: nothing that could be understood. */
  readonly answer: Write<
    OfEffect & Told & { readonly attempt: number; readonly answer: "confirmed" | "refused" | "lost" },
    ExternalEffect
  >
  /** What it said when it was asked, after so many attempts, what became of the effect; `unavailable`: it could not be asked. */
  readonly readBack: Write<
    OfEffect & Told & { readonly attempt: number; readonly found: NonNullable<ExternalEffect["lastReadBack"]> },
    ExternalEffect
  >
  /** What a person who looked says, with at least one piece of evidence that is not the executor's. */
  readonly resolve: Write<
    OfEffect & {
      readonly outcome: "confirmed" | "refused"
      readonly person: string
      readonly reason: string
      readonly evidence: readonly string[]
    },
    ExternalEffect
  >
  /** Gives up an effect that was never handed over, or that its provider vouches was not carried out. */
  readonly abandon: Write<OfEffect & { readonly by: string; readonly reason: string }, ExternalEffect>
  /** Before the provider is asked to stop it: from then on it is never handed over again. */
  readonly requestStop: Write<OfEffect & { readonly by: string; readonly reason: string }, ExternalEffect>
  /** What the device said of itself, or a person saw (with evidence). Anything but `stopped` leaves the stop unknown. */
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
  /** That our own side of it ended. Says nothing of the device. */
  readonly noteEnded: Write<
    OfEffect & { readonly what: "model" | "process"; readonly by: string; readonly summary: string },
    ExternalEffect
  >
  readonly get: Read<OfEffect, ExternalEffect>
  /** Oldest first. */
  readonly list: Read<{ readonly goal: string }, { readonly items: readonly ExternalEffect[] }>
  /** What holds up whatever depends on it, of a goal or of a provider. */
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
