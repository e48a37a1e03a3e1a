/** The table at the end of the demo: what was tried, what came of it, what it took. */
import { relative } from "node:path"

type Reading = { readonly wallMs: number; readonly n: number } | null
interface Shown {
  readonly ok: boolean
  readonly oracle: string
  readonly attempts: readonly {
    readonly id: string
    readonly route: string
    readonly outcome: string
    readonly reason: string
    readonly changedFiles: number | null
    readonly projection: string | null
    readonly isolation: string | null
    readonly clocks: { readonly [name: string]: Reading }
    readonly usd: number | null
  }[]
  readonly handoff: { from: string; to: string; verified: boolean; adopted: boolean } | null
  readonly accepted: { readonly patch: string; readonly verification: { readonly reason: string } | null } | null
  readonly replay: string | null
  readonly settlements: { readonly accepted: number; readonly total: number }
  readonly quota: { readonly spent: number; readonly reserved: number; readonly remaining: number | null }
  readonly clocks: { readonly [name: string]: Reading }
  readonly leftovers: {
    readonly mounts: readonly string[]
    readonly processes: readonly string[]
    readonly directories: readonly string[]
  }
  readonly seconds: number
  readonly record: string
}

export const time = (reading: Reading | undefined): string => {
  if (reading === null || reading === undefined) return "-"
  if (reading.wallMs < 1000) return `${reading.wallMs.toFixed(reading.wallMs < 10 ? 1 : 0)}ms`
  return `${(reading.wallMs / 1000).toFixed(1)}s`
}
export const usd = (value: number | null): string => (value === null ? "unknown" : value.toFixed(2))
export const stages = ["fork", "mount", "exec", "checkpoint", "verify", "cleanup"] as const

/** Prints columns as wide as their widest cell. */
export const columns = (rows: readonly (readonly string[])[]): string[] => {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)))
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd()
  )
}

export const printTable = (run: Shown, fixture: { readonly files: number; readonly bytes: number }): void => {
  const place = relative(process.cwd(), run.record) || "."
  const lines = [
    "",
    `prepared   ${fixture.files} files, ${(fixture.bytes / 1e6).toFixed(0)} MB, dependencies installed; imported in ${time(run.clocks["import"])}`,
    `oracle     ${run.oracle}: red on the base, green on two fixes, red on three wrong routes`,
    "",
    ...columns([
      ["attempt", "route", "outcome", "files", ...stages, "usd"],
      ...run.attempts.map((a) => [
        a.id,
        a.route,
        a.outcome,
        a.changedFiles === null ? "-" : String(a.changedFiles),
        ...stages.map((stage) => time(a.clocks[stage])),
        usd(a.usd)
      ])
    ]),
    "",
    ...run.attempts.map((a) => `${a.id}  ${a.reason.slice(0, 140)}`),
    "",
    run.handoff === null
      ? "handoff    none"
      : `handoff    ${run.handoff.from} -> ${run.handoff.to}  verified ${run.handoff.verified}  adopted ${run.handoff.adopted} (scripted workers: the path ran)`,
    `workspace  ${run.attempts[0]?.projection ?? "-"}, isolation ${run.attempts[0]?.isolation ?? "-"}`,
    run.accepted === null
      ? "patch      none: nothing was accepted"
      : `patch      ${place}/fix.patch   in a fresh clone with clean dependencies: ${run.replay}`,
    `settled    ${run.settlements.total} turns, ${run.settlements.accepted} accepted`,
    `budget     ${run.quota.spent.toFixed(2)} usd spent, ${run.quota.reserved.toFixed(2)} held, ${run.quota.remaining === null ? "-" : run.quota.remaining.toFixed(2)} left`,
    `left over  ${run.leftovers.mounts.length} mounts, ${run.leftovers.processes.length} processes, ${run.leftovers.directories.length} directories`,
    `record     ${place}   (run.json, graph.mmd, verdicts/, attempts/, store/)`,
    ...(run.ok ? [] : [`why        ${place}/verdicts/   base.log and one .log an attempt: what the judge printed`]),
    `${run.ok ? "done" : "NOT OK"} in ${run.seconds.toFixed(1)} s`
  ]
  console.log(lines.map((line) => (line === "" ? "" : `  ${line}`)).join("\n"))
}
