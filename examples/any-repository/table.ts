/** The table at the end of a run on any repository. */
import type { RepairReport } from "../../src/index.ts"
import type { Leftovers } from "../explore-repair/leftovers.ts"
import { columns, stages, time, usd } from "../explore-repair/table.ts"

type Shown = RepairReport & {
  readonly ok: boolean
  readonly leftovers: Leftovers
  readonly seconds: number
  readonly repository: string
  readonly record: string
}

const size = (bytes: number): string =>
  bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} KB` : `${(bytes / 1e6).toFixed(0)} MB`

const sourceLines = ({ source, imported, prepared, base, clocks }: Shown): string[] => [
  `source     ${source.branch ?? "detached"}@${source.commit.slice(0, 7)}${source.shallow ? ", shallow" : ""}  ${imported?.files ?? 0} files, ${size(imported?.bytes ?? 0)}; imported in ${time(clocks["import"])}`,
  ...(source.changes === 0
    ? []
    : [
        `           ${source.changes} files of uncommitted work are part of the base (${source.patches.map(({ file }) => file).join(", ")} in the record)`
      ]),
  ...source.inner.map(
    (path) => `           ${path} is a repository of its own: what attempts change in it is no part of a patch`
  ),
  ...source.notes.map((note) => `           ${note}`),
  ...(prepared === null
    ? []
    : [
        `prepared   in ${time(clocks["preparation"])}; ${prepared.changedFiles} files changed by it that git does not ignore`
      ]),
  `base       ${base.outcome}: ${base.reason} (what it printed: verdicts/base.log)`,
  ...(base.outcome === "passed"
    ? ["           --verify passes before any attempt: an attempt is accepted when it still does"]
    : [])
]

export const printRepairTable = (run: Shown): void => {
  const lines = [
    "",
    ...sourceLines(run),
    "",
    ...columns([
      ["attempt", "command", "outcome", "files", ...stages, "usd"],
      ...run.attempts.map((a) => [
        a.id,
        a.route.length > 44 ? `${a.route.slice(0, 43)}…` : a.route,
        a.outcome,
        a.changedFiles === null ? "-" : String(a.changedFiles),
        ...stages.map((stage) => time(a.clocks[stage])),
        usd(a.usd)
      ])
    ]),
    "",
    ...run.attempts.map((a) => `${a.id}  ${a.reason.slice(0, 160)}`),
    ...run.attempts
      .filter((a) => (a.touchedOutside?.length ?? 0) > 0)
      .map((a) => `${a.id}  changed while it ran, outside its workspace: ${a.touchedOutside!.slice(0, 3).join(", ")}`),
    "",
    `workspace  ${run.attempts[0]?.projection ?? "-"}, isolation ${run.attempts[0]?.isolation ?? "-"}`,
    run.accepted === null
      ? "patch      none: nothing was accepted"
      : `patch      ${run.record}/fix.patch   in a fresh clone: ${run.replay ?? "not replayed"}`,
    ...(run.accepted === null ? [] : [`apply      git -C ${run.repository} apply ${run.record}/fix.patch`]),
    `settled    ${run.settlements.total} turns, ${run.settlements.accepted} accepted`,
    `left over  ${run.leftovers.mounts.length} mounts, ${run.leftovers.processes.length} processes, ${run.leftovers.directories.length} directories`,
    `record     ${run.record}   (run.json, graph.mmd, verdicts/, attempts/, results/, store/)`,
    ...(run.ok
      ? []
      : [`why        ${run.record}/verdicts/   base.log and one .log an attempt: what the judge printed`]),
    `${run.ok ? "done" : "NOT OK"} in ${run.seconds.toFixed(1)} s`
  ]
  console.log(lines.map((line) => (line === "" ? "" : `  ${line}`)).join("\n"))
}
