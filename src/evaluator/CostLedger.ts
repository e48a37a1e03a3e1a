/**
 * Costs by clock: what each stage of an attempt took, measured by the runner and never by the provider.
 * Promise: an unmeasured clock is null, never 0; intervals that overlap are listed, not added up as elapsed time; failed and
 * interrupted stages are counted too. Rules: E13, E18, principle 7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Every clock of E18 that this version measures. */
export const clockNames = [
  "preparation",
  "dependencyFetch",
  "import",
  "fork",
  "mount",
  "exec",
  "checkpoint",
  "identity",
  "handoff",
  "verify",
  "export",
  "cleanup"
] as const
export type ClockName = (typeof clockNames)[number]

export interface ClockReading {
  /** Milliseconds of wall time over all intervals; intervals of one clock may overlap when work ran in parallel. */
  readonly wallMs: number
  /** How many intervals were measured. */
  readonly n: number
}

/** Null means: not measured. */
export type Clocks = { readonly [Name in ClockName]: ClockReading | null }

export interface CostLedger {
  /** Runs an effect and adds its wall time to a clock, whatever its outcome. */
  readonly time: <A, E, R>(clock: ClockName, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Adds an interval that something else measured. */
  readonly add: (clock: ClockName, wallMs: number) => void
  readonly read: () => Clocks
}

/** A new ledger; one per attempt, and one for the run's one-off stages (E13). */
export const makeCostLedger = (): CostLedger => {
  const sums = new Map<ClockName, { wallMs: number; n: number }>()
  const add = (clock: ClockName, wallMs: number) => {
    const sum = sums.get(clock) ?? { wallMs: 0, n: 0 }
    sums.set(clock, { wallMs: sum.wallMs + wallMs, n: sum.n + 1 })
  }
  return {
    add,
    time: (clock, effect) =>
      Effect.flatMap(Clock.currentTimeNanos, (start) =>
        Effect.onExit(effect, () => Effect.map(Clock.currentTimeNanos, (end) => add(clock, Number(end - start) / 1e6)))
      ),
    read: () => Object.fromEntries(clockNames.map((name) => [name, sums.get(name) ?? null])) as Clocks
  }
}
