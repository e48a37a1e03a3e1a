/**
 * Named points at which a test can kill the process, to prove that nothing acknowledged is lost there.
 * Promise: no cost and no effect in the published build (the bundler replaces the flag by `false` and drops the call).
 * Rules: G75, G82, L8; the harness sets COPPICE_CRASH_AT to a name, or to `name:N` for the N-th time it is passed.
 */
declare const __COPPICE_CRASH_POINTS__: boolean | undefined

const enabled = typeof __COPPICE_CRASH_POINTS__ === "undefined" ? true : __COPPICE_CRASH_POINTS__
const wanted = enabled ? (process.env["COPPICE_CRASH_AT"] ?? "") : ""
const colon = wanted.lastIndexOf(":")
const wantedName = colon > 0 && /^\d+$/.test(wanted.slice(colon + 1)) ? wanted.slice(0, colon) : wanted
let remaining = wantedName === wanted ? 1 : Number(wanted.slice(colon + 1))

/** Kills the whole process with SIGKILL when the harness asked for this point; otherwise does nothing. */
export const crashPoint = (name: string): void => {
  if (!enabled || wantedName !== name) return
  remaining -= 1
  if (remaining <= 0) process.kill(process.pid, "SIGKILL")
}
