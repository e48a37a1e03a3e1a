/**
 * What the rows of the area `layerfs` share: the delay of the host's own thread, and the bytes of a store.
 * Promise: the delay counts while calls of ours run and not while a peer or the bench itself works. Rules: 01 "The host's event loop"; L11.
 */
import { statSync } from "node:fs"
import { join } from "node:path"
import { createHistogram } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import { census } from "./compare.ts"
import type { BenchOptions } from "./main.ts"
import { timed } from "./measure.ts"
import type { Row } from "./report.ts"

export const commitName = "bare durable one-row SQLite commit"

/** How late timers of one millisecond fire on this thread, over all calls that were made through it. */
export class HostDelay {
  readonly #all = createHistogram()

  /** The value of an Effect, its milliseconds, and the delay of the host added to the total. */
  readonly timed = <A, E>(effect: Effect.Effect<A, E>): Promise<readonly [ms: number, value: A]> =>
    this.during(() => timed(() => Effect.runPromise(effect)))

  /** A histogram of the event loop counts the pause between two stretches too: this one begins anew with each. */
  async during<A>(work: () => Promise<A>): Promise<A> {
    let last = process.hrtime.bigint()
    const timer = setInterval(() => {
      const now = process.hrtime.bigint()
      this.#all.record(now - last)
      last = now
    }, 1)
    try {
      return await work()
    } finally {
      clearInterval(timer)
      // What held the loop at the very end lets no timer fire any more.
      this.#all.record(process.hrtime.bigint() - last)
    }
  }

  row(): Row {
    const ms = (share: number): number => Number((this.#all.percentile(share) / 1e6).toPrecision(6))
    return {
      id: "eventLoopDelay",
      unit: "ms",
      ours: { p50: ms(50), p99: ms(99), n: this.#all.count },
      yardstick: null,
      peers: {},
      correct: this.#all.count > 0,
      note: `how late a timer of 1 ms fires on the host's thread, that millisecond included, while a timed call of any row above runs; the latest ${(this.#all.max / 1e6).toFixed(1)} ms`
    }
  }
}

/** What a row is given. */
export interface LayerFsBench {
  readonly options: BenchOptions
  readonly scratch: string
  readonly delay: HostDelay
}

/** What a store costs on disk: packs and index, after the close that writes the WAL back. The cache can be rebuilt from these. */
export const storedBytes = (
  store: string
): { readonly packs: number; readonly index: number; readonly all: number } => {
  const size = (name: string): number => statSync(join(store, "layerfs", name), { throwIfNoEntry: false })?.size ?? 0
  const packs = census(join(store, "layerfs", "packs")).bytes
  const index = size("index.db") + size("index.db-wal")
  return { packs, index, all: packs + index }
}
