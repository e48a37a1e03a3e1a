/**
 * What an import costs the process that asks for it: `import.eventLoopDelay` and `import.peakMemory`.
 * Promise: measured beside the same process doing nothing; an import that did not store the whole tree makes its row incorrect.
 * Rules: 01 "The host's event loop"; W13.
 */
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { setTimeout as delay } from "node:timers/promises"
import * as Effect from "effect/Effect"
import { census } from "./compare.ts"
import type { BenchOptions } from "./main.ts"
import { command } from "./measure.ts"
import { withStore } from "./provider.ts"
import { type Figures, figures, type Row } from "./report.ts"
import { fullSize, generateTree } from "./tree.ts"

/** How late timers of one millisecond fire while `work` runs, in milliseconds; the millisecond itself is part of it. */
const lateness = async (work: () => Promise<unknown>): Promise<Figures> => {
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  histogram.enable()
  try {
    await work()
  } finally {
    histogram.disable()
  }
  const ms = (share: number): number => Number((histogram.percentile(share) / 1e6).toPrecision(6))
  return { p50: ms(50), p99: ms(99), n: histogram.count }
}

export const eventLoopRow = async (options: BenchOptions, scratch: string, source: string): Promise<Row> => {
  const expected = census(source)
  const idle = await lateness(() => delay(2000))
  let stored = -1
  const place = join(scratch, "event-loop")
  const ours = await withStore(place, (provider) =>
    lateness(async () => {
      const receipt = await Effect.runPromise(provider.importDirectory({ source, onProgress: () => {} }))
      stored = receipt.files
    })
  )
  await rm(place, { recursive: true })
  return {
    id: "import.eventLoopDelay",
    unit: "ms",
    ours,
    yardstick: { name: "the same process, idle", ...idle },
    peers: {},
    correct: stored === expected.files,
    note: `one import of ${expected.files} files, ${(expected.bytes / 1e6).toFixed(0)} MB; how late a timer of 1 ms fires on the main thread`
  }
}

interface Child {
  readonly files: number
  readonly peakBytes: number
}

export const peakMemoryRow = async (options: BenchOptions, scratch: string): Promise<Row> => {
  // Full size is 100,000 files; a smaller bench takes as much less.
  const files = Math.max(20, Math.round((100_000 * options.files) / fullSize.files))
  const source = join(scratch, "many")
  const made = generateTree(source, { seed: options.seed, files, bytes: files * 4096 })
  const program = join(options.root, "bench", "import-child.ts")
  const child = async (...args: readonly string[]): Promise<Child> =>
    JSON.parse(await command([process.execPath, program, ...args])) as Child
  const empty = await child(join(scratch, "many-empty"))
  const peaks: number[] = []
  let correct = true
  for (let round = 0; round < Math.min(options.runs, 3); round++) {
    const store = join(scratch, "many-store")
    const told = await child(store, source)
    correct &&= told.files === made.files
    peaks.push(told.peakBytes)
    await rm(store, { recursive: true })
  }
  for (const name of ["many", "many-empty"]) await rm(join(scratch, name), { recursive: true })
  return {
    id: "import.peakMemory",
    unit: "bytes",
    ours: figures(peaks),
    yardstick: { name: "a process that opens an empty store", ...figures([empty.peakBytes]) },
    peers: {},
    correct,
    note: `${made.files} files, ${(made.bytes / 1e6).toFixed(0)} MB; resident memory at its peak (VmHWM) of a process that imports, workers included`
  }
}
