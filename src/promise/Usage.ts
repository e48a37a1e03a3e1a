/**
 * Tokens as plain values: the declarations. No Effect in them.
 * Promise: four disjoint buckets; a figure whose `unknown` is not 0 is a lower bound; every figure says whose it is. Rules: G56.
 */

export type CostRole = "coordinator" | "worker" | "evaluator"

/** What a provider says of one message. A field that its record lacks is left out, never filled with 0. */
export interface ReportedUsage {
  readonly id?: string
  readonly provider?: string
  readonly model?: string
  /** Whether the cached tokens are part of `input` or stand beside it. */
  readonly cached: "inInput" | "apart"
  readonly input?: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  readonly output?: number
  readonly raw?: unknown
}
/** Tokens that are known, and how many messages did not say. */
export interface TokenFigure {
  readonly known: number
  readonly unknown: number
}
/** The tokens of a scope; `agent` and `role` null: of all of them. */
export interface UsageFigures {
  readonly goal: string
  readonly agent: string | null
  readonly role: CostRole | null
  readonly inputUncached: TokenFigure
  readonly cacheRead: TokenFigure
  readonly cacheWrite: TokenFigure
  readonly output: TokenFigure
  readonly total: TokenFigure
  readonly messages: number
  /** Dispatches and calls that were reported. */
  readonly reports: number
  /** Costs for which nobody reported tokens. */
  readonly unreported: number
}
/** One report: what one dispatch, or one call outside a turn, used. The buckets are those of `UsageFigures`. */
export interface UsageRecord {
  /** The effect whose cost it belongs to. */
  readonly effectId: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly agent: string | null
  readonly role: CostRole
  /** That counted. */
  readonly messages: number
  /** That had been counted before, and added nothing. */
  readonly repeated: number
  /** Whose record contradicts itself: unknown, not bent. */
  readonly inconsistent: number
  readonly inputUncached: number
  /** Messages that did not say; the same for each bucket. */
  readonly inputUncachedUnknown: number
  readonly cacheRead: number
  readonly cacheReadUnknown: number
  readonly cacheWrite: number
  readonly cacheWriteUnknown: number
  readonly output: number
  readonly outputUnknown: number
  readonly total: number
  readonly totalUnknown: number
  /** Of what was reported, with the providers' own records in it. */
  readonly digest: string
  /** The same in full; null where it is long or may not be public. */
  readonly reported: readonly ReportedUsage[] | null
  /** UTC milliseconds. */
  readonly recordedAt: number
}
