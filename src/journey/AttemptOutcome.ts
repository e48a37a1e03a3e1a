/**
 * What became of an attempt, in one word and one sentence.
 * Promise: pure; a host's claim never makes an acceptance, and a host that broke its contract is told beside the verdict on its
 * files. Rules: E15, G71, principle 2.
 */
import type { Verdict } from "../evaluator/Oracle.ts"
import { publicWords } from "../governance/index.ts"
import type { HostOutcome } from "../session/ResultFile.ts"
import type { Settling } from "../session/TurnDriver.ts"
import type { AttemptOutcome } from "./RepairPlan.ts"

/** What became of an attempt, by what its host claims and what the oracle says. */
export const outcomeOf = (host: HostOutcome | null, verdict: Verdict | null, accepted: boolean): AttemptOutcome => {
  if (accepted) return "accepted"
  if (verdict?.outcome === "passed") return "passedNotChosen"
  if (host?.status !== "ok" || host.result.outcome === "failed") return "failed"
  if (host.result.outcome === "progress") return "handedOver"
  if (verdict === null) return "failed"
  return verdict.outcome === "failed" || verdict.outcome === "progress" ? "refused" : "inconclusive"
}

/** What a host said, as it may stand in a reason: reasons are kept in the journal (G6). */
const words = (text: string): string => publicWords(text, "(what it said may not be public)")

/** Why, in one sentence that may stand in public. */
export const reasonOf = (
  host: HostOutcome | null,
  verdict: Verdict | null,
  outcome: AttemptOutcome,
  turn: string,
  leftOut: number
): string => {
  // A host that broke its contract has told nothing; its files are judged all the same, and both are said.
  const broken =
    host?.status === "failed"
      ? `${words(host.message)} (${words(host.check)}; what it printed, if anything: results/${turn}.stderr and .stdout).`
      : null
  const judged =
    outcome === "refused" || outcome === "accepted" || outcome === "inconclusive" ? verdict?.reason : undefined
  if (judged !== undefined) return broken === null ? judged : `${judged} The host itself failed: ${broken}`
  if (broken !== null) return broken
  if (verdict === null && host?.status === "ok" && outcome === "failed" && host.result.outcome === "completed") {
    return `It changed no source file${leftOut > 0 ? `, but ${leftOut} that git ignores or that belong to a repository inside` : ""}. It said: ${words(host.result.summary)}`
  }
  if (outcome === "passedNotChosen") return "It passed after another attempt had been accepted."
  return host?.status === "ok" ? words(host.result.summary) : "The result of the host could not be read again."
}

/** How the work of the turn is settled. */
export const settlementOutcome = (outcome: AttemptOutcome): Settling["outcome"] =>
  outcome === "accepted"
    ? "accepted"
    : outcome === "handedOver" || outcome === "passedNotChosen"
      ? "progress"
      : outcome === "inconclusive"
        ? "inconclusive"
        : "failed"
