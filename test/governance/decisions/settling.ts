/** What tests of settlements share: a settlement that stands, over a state in which it does. */
import { digestJson, sha256 } from "../../../src/base/Digest.ts"
import { type AcceptanceRecord } from "../../../src/governance/Acceptance.ts"
import { requirementOf } from "../../../src/governance/Requirement.ts"
import { settlementHandlers } from "../../../src/governance/Settlement.ts"
import { decideBy } from "./decide.ts"
import { lease, now, todo } from "./records.ts"
import { evidence, fence, goal, hostResult, reservation, turn } from "./workRecords.ts"

export const decide = decideBy(settlementHandlers)
export const outcomes = ["accepted", "progress", "failed", "inconclusive", "unavailable", "staleContext"] as const
export const keep = { action: "keep" } as const
export const complete = { action: "complete", continuation: { kind: "goalStaysActive" } } as const
export const validated = turn({
  phase: "validate",
  attempts: [{ number: 1, startedAt: now, retry: null }],
  result: hostResult()
})
export const digest = digestJson("candidate")
export const verdict: AcceptanceRecord = {
  id: "verdict-a",
  goal: "goal-a",
  todo: "todo-a",
  turn: "turn-a",
  candidate: null,
  validator: { name: "oracle", digestBefore: sha256("v"), digestAfter: sha256("v") },
  outcome: "passed",
  void: false,
  evidence: ["evidence-a"],
  summary: "",
  requirement: null,
  reads: null,
  recordedAt: now
}

export const ground = (change: object = {}) => ({
  settled: undefined,
  goal: goal(),
  todo: todo(),
  lease: lease(),
  turn: validated,
  open: undefined,
  kept: reservation(),
  held: reservation(),
  acceptance: verdict,
  carried: undefined,
  candidate: undefined,
  evidence: [],
  verdictEvidence: [evidence()],
  required: [],
  named: [],
  reads: new Map(),
  obligations: [],
  effects: [],
  gates: [],
  ...change
})
export const asking = {
  effectId: "turn-a",
  goal: "goal-a",
  fence: fence(),
  turn: "turn-a",
  outcome: "progress",
  evidence: [],
  spend: { usd: 0.5 },
  todo: keep
}
export const settle = (state: object = {}, payload: object = {}) =>
  decide("settle", ground(state), { ...asking, ...payload })
/** Work by hand: no turn, and no reservation. */
export const byHand = (state: object = {}, payload: object = {}) => {
  const { turn: _turn, ...hand } = asking
  return decide(
    "settle",
    ground({
      turn: undefined,
      kept: undefined,
      held: undefined,
      acceptance: { ...verdict, turn: null, requirement: requirementOf(goal(), todo()), reads: [] },
      ...state
    }),
    { ...hand, effectId: "hand-a", ...payload }
  )
}
export const accepting = { outcome: "accepted", acceptance: "verdict-a" }
