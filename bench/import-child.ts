/**
 * Imports a tree into a fresh store and prints what it cost: `node import-child.ts STORE [TREE]`; without a tree it only opens.
 * Promise: one JSON object; the peak is the kernel's (VmHWM), that of the whole process with its workers; seconds and the delay of
 * the main thread are those of the import alone. Rules: 01 "The host's event loop".
 */
import { readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import { timed } from "./measure.ts"
import { withStore } from "./provider.ts"

const [store, source] = process.argv.slice(2) as [string, string | undefined]
const delay = monitorEventLoopDelay({ resolution: 1 })
const [ms, receipt] = await withStore(store, (provider) => {
  delay.enable()
  return timed(() =>
    Effect.runPromise(source === undefined ? provider.createEmpty() : provider.importDirectory({ source }))
  ).finally(() => delay.disable())
})
const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]
console.log(
  JSON.stringify({
    files: receipt.files,
    bytes: receipt.bytes,
    seconds: ms / 1000,
    peakBytes: Number(peak) * 1024,
    delayP99Ms: delay.percentile(99) / 1e6
  })
)
