/**
 * Named points at which a test can kill the process, to prove that nothing acknowledged is lost there.
 * Promise: no cost and no effect in the published build (the bundler replaces the flag by `false` and drops the call); the
 * list is closed: a name that is not in it does not compile, and a listed name that nothing passes fails a test.
 * Rules: G75, G82, L8. The harness sets COPPICE_CRASH_AT to a name, or to `name:N` for the N-th passage in one thread;
 * COPPICE_CRASH_LOG names a file that gets one line a passage.
 */
import { appendFileSync } from "node:fs"
import type { CrashPointName } from "./CrashPointList.ts"

declare const __COPPICE_CRASH_POINTS__: boolean | undefined

/** Reads the harness's wish at the first passage, and obeys it. */
const armed = (): ((name: CrashPointName) => void) => {
  const [, wanted = "", nth = "1"] = /^(.*?)(?::(\d+))?$/.exec(process.env["COPPICE_CRASH_AT"] ?? "") ?? []
  const log = process.env["COPPICE_CRASH_LOG"]
  let remaining = Number(nth)
  return (name) => {
    if (log !== undefined) appendFileSync(log, `${name}\n`)
    if (wanted !== name) return
    remaining -= 1
    if (remaining <= 0) process.kill(process.pid, "SIGKILL")
  }
}

/** Kills the whole process with SIGKILL when the harness asked for this point; otherwise does nothing. */
// In the published build the condition is a constant and the calls of an empty function are dropped.
export const crashPoint: (name: CrashPointName) => void =
  typeof __COPPICE_CRASH_POINTS__ !== "undefined" && !__COPPICE_CRASH_POINTS__ ? () => {} : armed()
