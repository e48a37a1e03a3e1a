/**
 * More records for tests of pure decisions: goals, effects, evidence, turns, processes.
 */
import { digestJson, sha256 } from "../../../src/base/Digest.ts"
import type { ProcessIdentity } from "../../../src/base/Spawn.ts"
import type { EffectRecord, EffectStop } from "../../../src/governance/EffectRecord.ts"
import type { EvidenceRecord } from "../../../src/governance/Evidence.ts"
import type { Fence } from "../../../src/governance/Field.ts"
import type { GateDecision, GateRecord } from "../../../src/governance/GateRecord.ts"
import type { AgentRecord, GoalRecord } from "../../../src/governance/Goal.ts"
import type { OperationKind } from "../../../src/governance/OperationProvider.ts"
import type { HostResult, TurnRecord } from "../../../src/governance/TurnRecord.ts"
import type { ObligationRecord } from "../../../src/governance/ObligationRecord.ts"
import type { ReservationRecord } from "../../../src/governance/ReservationRecord.ts"
import type { SourceRecord } from "../../../src/governance/SourceRecord.ts"
import { now } from "./records.ts"

/** Processes that differ from each other: the first two by their pid alone. */
export const me: ProcessIdentity = { pid: 10, startTime: "100", bootId: "boot", pidNamespace: null }
export const other: ProcessIdentity = { ...me, pid: 11 }
export const third: ProcessIdentity = { ...me, pid: 12, startTime: "102" }

export const fence = (change: Partial<Fence> = {}): Fence => ({
  todo: "todo-a",
  token: "secret",
  epoch: 2,
  version: 5,
  ...change
})

export const goal = (change: Partial<GoalRecord> = {}): GoalRecord => ({
  id: "goal-a",
  title: "Repair the ledger",
  state: "active",
  limitUsdMicros: null,
  limitSlots: null,
  limits: {},
  windowMs: null,
  requiredMeters: [],
  closure: null,
  revision: 1,
  openedAt: 1,
  changedAt: 2,
  ...change
})

export const kind = (change: Partial<OperationKind> = {}): OperationKind => ({
  name: "move",
  readBack: "yes",
  retry: "unsafe",
  stop: "device",
  supervision: "none",
  ...change
})

export const operation = digestJson({ axis: "x" })

export const effect = (change: Partial<EffectRecord> = {}): EffectRecord => ({
  id: "effect-a",
  goal: "goal-a",
  todo: null,
  agent: null,
  provider: "stage",
  kind: "move",
  declared: kind(),
  operation,
  summary: "move x",
  after: [],
  state: "planned",
  attempts: 0,
  earlierOpen: false,
  driver: null,
  supervisor: null,
  claim: null,
  lastReadBack: null,
  outcome: null,
  stop: null,
  ended: { model: null, process: null },
  unresolved: false,
  plannedAt: now - 9,
  dispatchedAt: null,
  changedAt: now - 9,
  ...change
})

/** What a process sees of `me`, who handed an effect over. */
export const mine = { process: me, driver: me, alive: false }
export const dead = { process: other, driver: me, alive: false }
export const living = { process: other, driver: me, alive: true }
export const unseen = { process: other, driver: me, alive: "unknown" }
/** Who asks, what he is to the one that handed it over, and what `EffectInFlight` says of it. */
export const observers = [
  { name: "mine", observed: mine },
  { name: "dead", observed: dead },
  { name: "living", observed: living, alive: true },
  { name: "unseen", observed: unseen, alive: "unknown" },
  { name: "of another driver", observed: { ...dead, driver: third }, alive: "unknown" },
  { name: "of no driver", observed: { ...dead, driver: null }, alive: "unknown" },
  { name: "nobody", observed: undefined, alive: "unknown" }
] as const

/** An effect that was handed over twice, in this state. */
export const effectAt = (state: EffectRecord["state"], change: Partial<EffectRecord> = {}): EffectRecord =>
  effect({
    state,
    attempts: 2,
    driver: me,
    unresolved: state === "dispatched" || state === "unknown",
    ...change
  })

export const stopOf = (change: Partial<EffectStop> = {}): EffectStop => ({
  state: "requested",
  requestedBy: "ada",
  reason: "too far",
  requestedAt: now - 3,
  confirmedBy: null,
  who: null,
  summary: "",
  evidence: [],
  confirmedAt: null,
  ...change
})

export const evidence = (change: Partial<EvidenceRecord> = {}): EvidenceRecord => ({
  id: "evidence-a",
  goal: "goal-a",
  todo: null,
  turn: null,
  kind: "log",
  digest: sha256("log"),
  summary: "what was seen",
  ref: null,
  producer: { role: "validator", name: "oracle" },
  recordedAt: now - 9,
  ...change
})

export const source = (change: Partial<SourceRecord> = {}): SourceRecord => ({
  id: "source-a",
  goal: "goal-a",
  name: "the plan",
  revision: 2,
  digest: sha256("plan"),
  ref: "plan.md",
  bytes: 4,
  tokens: null,
  state: "readable",
  reason: null,
  addedAt: now - 9,
  changedAt: now - 9,
  ...change
})

export const agent = (change: Partial<AgentRecord> = {}): AgentRecord => ({
  goal: "goal-a",
  agentId: "ada",
  capabilities: [],
  budget: null,
  registeredAt: now - 9,
  ...change
})

export const reservation = (change: Partial<ReservationRecord> = {}): ReservationRecord => ({
  id: "reservation-a",
  goal: "goal-a",
  todo: "todo-a",
  turn: "turn-a",
  agent: "ada",
  role: "worker",
  effectId: "turn-a",
  state: "open",
  heldUsdMicros: 2_000_000,
  heldSlots: 1,
  heldMeters: {},
  spentUsdMicros: null,
  spentSlots: 0,
  spentMeters: {},
  evidence: null,
  reservedAt: now - 9,
  changedAt: now - 9,
  ...change
})

export const hostResult = (change: Partial<HostResult> = {}): HostResult => ({
  status: "ok",
  claim: null,
  summary: "done",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: null,
  provenGone: null,
  ...change
})

export const turn = (change: Partial<TurnRecord> = {}): TurnRecord => ({
  id: "turn-a",
  goal: "goal-a",
  todo: "todo-a",
  agent: "ada",
  epoch: 2,
  phase: "admit",
  state: "open",
  effectId: "turn-a",
  reservation: "reservation-a",
  fence: me,
  executor: null,
  guarantee: null,
  attempts: [],
  result: null,
  usage: null,
  verdict: null,
  settlement: null,
  failure: null,
  context: null,
  admittedAt: now - 9,
  changedAt: now - 9,
  ...change
})

export const obligation = (change: Partial<ObligationRecord> = {}): ObligationRecord => ({
  id: "obligation-a",
  goal: "goal-a",
  todo: "todo-a",
  kind: "mustAttemptWork",
  reason: "it was promised",
  state: "open",
  attempt: null,
  waiver: null,
  openedAt: now - 5,
  changedAt: now - 5,
  ...change
})

export const gateDecision = (change: Partial<GateDecision> = {}): GateDecision => ({
  allow: true,
  answer: "yes",
  reason: "it was asked",
  by: { role: "person", name: "mira" },
  reach: { kind: "scope" },
  decidedAt: now - 5,
  usedBy: null,
  ...change
})

export const gate = (change: Partial<GateRecord> = {}): GateRecord => ({
  id: "gate-a",
  goal: "goal-a",
  kind: "userDecision",
  lane: "owner",
  question: "May it be done?",
  need: null,
  choices: null,
  askedBy: null,
  agents: null,
  actions: ["claim", "dispatch", "effect"],
  todos: null,
  writeScopes: null,
  digest: "digest",
  decisions: [],
  state: "open",
  lapsesAt: null,
  mayStop: true,
  withdrawn: null,
  openedAt: now - 9,
  changedAt: now - 9,
  ...change
})
