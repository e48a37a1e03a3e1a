/**
 * The doctor's report for people: a line for each check, its state first, the remedy at its end.
 * Promise: shows everything that the JSON form holds, and adds nothing. Rules: V3, W2.
 */
import type { DoctorReport } from "../assembly/Doctor.ts"

export const doctorTable = (report: DoctorReport): string => {
  const state = Math.max(...report.checks.map((check) => check.state.length))
  const id = Math.max(...report.checks.map((check) => check.id.length))
  const lines = report.checks.map((check) => {
    const remedy = check.remedy === null ? "" : `  -> ${check.remedy}`
    return `${check.state.padEnd(state)}  ${check.id.padEnd(id)}  ${check.found}${remedy}`
  })
  const missing = report.checks.filter((check) => check.state === "missing").map((check) => check.id)
  return [
    `coppice ${report.coppice}, node ${report.node}, ${report.platform}`,
    `store ${report.store ?? "nowhere"}`,
    "",
    ...lines,
    "",
    report.ok ? "The default preset works fully here." : `Missing for the default preset: ${missing.join(", ")}.`
  ].join("\n")
}
