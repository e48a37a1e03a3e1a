/** The task as it is read back from the authority, as a table for people. */
import type { TaskReport } from "./task.ts"

const phases: Readonly<Record<string, string>> = {
  "turn.admitted": "admit",
  "turn.attemptSaved": "execute",
  "turn.resultRecorded": "result",
  "turn.validated": "validate",
  "turn.settled": "settle",
  "turn.closed": "close",
  "turn.resumed": "taken over",
  "turn.lost": "lost",
  "turn.failed": "lost",
  "turn.retried": "started over"
}

const usd = (amount: number | null): string => (amount === null ? "-" : amount.toFixed(2))

/** Each phase with the milliseconds since the first. */
const phasesOf = ({ facts }: TaskReport): string => {
  const steps = facts.filter(({ type }) => type in phases)
  const begun = steps[0]?.at ?? 0
  return steps.map(({ type, at }) => `${phases[type]} +${at - begun}ms`).join("  ")
}

export const taskTable = (report: TaskReport): string => {
  const { goal, todo, turns, acceptances, settlements, quota, journal } = report
  const [turn] = turns
  const verdict = acceptances.at(-1)
  const lines: (readonly [string, string])[] = [
    ["goal", `${goal.title}: ${goal.state}`],
    ["todo", `${todo.title}: ${todo.state}`],
    ["turn", turn === undefined ? "none" : `${turn.id}: ${turn.state}, ${turn.attempts.length} attempt(s)`],
    ["phases", phasesOf(report)],
    [
      "agent says",
      turn?.result == null ? "nothing" : `${turn.result.claim ?? turn.result.status}: ${turn.result.summary}`
    ],
    [
      "validator",
      verdict === undefined ? "has not run" : `${verdict.validator.name} ${verdict.outcome}: ${verdict.summary}`
    ],
    ...settlements.map(({ id, outcome, todoState }) => ["settled", `${id}: ${outcome}, todo ${todoState}`] as const),
    [
      "spend",
      `${usd(quota.spent.usd)} of ${usd(quota.budget.usd)} usd, ${quota.spent.slots} of ${quota.budget.slots} turns, ${usd(quota.reserved.usd)} held`
    ],
    ...quota.owed.map(({ call }) => ["owed", `${call.operation} ${JSON.stringify(call.input)}`] as const),
    ["journal", `${journal.entries} facts, ${journal.ok ? "verified" : `broken at ${journal.brokenAt}`}`],
    ...(report.interrupted === null
      ? []
      : [["interrupted", `${report.interrupted.message} ${report.interrupted.remedy}`] as const])
  ]
  return lines.map(([name, value]) => `${name.padEnd(12)}${value}`).join("\n")
}
