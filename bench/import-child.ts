/**
 * Imports a tree into a fresh store and prints its own peak memory: `node import-child.ts STORE [TREE]`; without a tree it only opens.
 * Promise: one JSON object; the peak is the kernel's (VmHWM), that of the whole process with its workers. Rules: 01 "The host's event loop".
 */
import { readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import { withStore } from "./provider.ts"

const [store, source] = process.argv.slice(2) as [string, string | undefined]
const receipt = await withStore(store, (provider) =>
  Effect.runPromise(source === undefined ? provider.createEmpty() : provider.importDirectory({ source }))
)
const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]
console.log(JSON.stringify({ files: receipt.files, bytes: receipt.bytes, peakBytes: Number(peak) * 1024 }))
