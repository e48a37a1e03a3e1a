/**
 * Costs by clock: what each stage of an attempt took, measured by the runner and never by the provider.
 * Promise: an unmeasured clock is null, never 0; intervals that overlap are not added up as elapsed time, their sum stands
 * beside it; failed and interrupted stages are counted too. Rules: E13, E18, principle 7.
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
  /** Milliseconds that passed while at least one interval ran: where work ran in parallel, time counts once. */
  readonly wallMs: number
  /** Milliseconds of all intervals together; more than `wallMs` exactly when some of them overlapped. */
  readonly totalMs: number
  /** How many intervals were measured. */
  readonly n: number
}

/** Null means: not measured. */
export type Clocks = { readonly [Name in ClockName]: ClockReading | null }

export interface CostLedger {
  /** Runs an effect and adds its wall time to a clock, whatever its outcome. */
  readonly time: <A, E, R>(clock: ClockName, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Adds an interval that something else measured; it counts as overlapping none. */
  readonly add: (clock: ClockName, wallMs: number) => void
  readonly read: () => Clocks
}

/** A new ledger; one per attempt, and one for the run's one-off stages (E13). */
export const makeCostLedger = (): CostLedger => {
  const measured = new Map<ClockName, { readonly from: bigint; readonly to: bigint }[]>()
  const added = new Map<ClockName, number[]>()
  const put = <A>(to: Map<ClockName, A[]>, clock: ClockName, item: A) => to.set(clock, [...(to.get(clock) ?? []), item])
  const read = (clock: ClockName): ClockReading | null => {
    const intervals = measured.get(clock) ?? []
    const others = added.get(clock) ?? []
    if (intervals.length + others.length === 0) return null
    const other = others.reduce((sum, ms) => sum + ms, 0)
    const total = intervals.reduce((sum, { from, to }) => sum + (to - from), 0n)
    return {
      wallMs: milliseconds(covered(intervals)) + other,
      totalMs: milliseconds(total) + other,
      n: intervals.length + others.length
    }
  }
  return {
    add: (clock, wallMs) => void put(added, clock, wallMs),
    time: (clock, effect) =>
      Effect.flatMap(Clock.currentTimeNanos, (from) =>
        Effect.onExit(effect, () => Effect.map(Clock.currentTimeNanos, (to) => void put(measured, clock, { from, to })))
      ),
    read: () => Object.fromEntries(clockNames.map((name) => [name, read(name)])) as Clocks
  }
}

const milliseconds = (nanos: bigint): number => Number(nanos) / 1e6

/** The length of the union of intervals. */
const covered = (intervals: readonly { readonly from: bigint; readonly to: bigint }[]): bigint => {
  let sum = 0n
  let until: bigint | undefined
  for (const { from, to } of intervals.toSorted((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : 0))) {
    const start = until !== undefined && until > from ? until : from
    if (to > start) sum += to - start
    if (until === undefined || to > until) until = to
  }
  return sum
}
