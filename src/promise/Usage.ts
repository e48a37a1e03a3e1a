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
export interface TokenFigure {
  readonly known: number
  readonly unknown: number
}
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
  readonly reports: number
  /** Costs for which nobody reported tokens. */
  readonly unreported: number
}
