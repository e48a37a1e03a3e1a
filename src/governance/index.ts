/** `coppice/governance`: what is to be done, who may do it, what it has cost, and what is accepted. */
export { Acceptances, type AcceptanceOutcome, type AcceptanceRecord } from "./Acceptance.ts"
export {
  type AsOf,
  Authority,
  type Keyed,
  type Receipt,
  type StoreError,
  type WriteError,
  type ReadError,
  reader,
  writer
} from "./Authority.ts"
export { type CandidateRecord, Candidates } from "./CandidateRecord.ts"
export {
  EffectBlocked,
  EffectInFlight,
  EffectState,
  EffectUnresolved,
  RetryUnsafe,
  SupervisionRequired
} from "./EffectError.ts"
export type { EffectOutcome, EffectRecord, EffectStop, EndedFact } from "./EffectRecord.ts"
export { mayHandOver, operationDigest } from "./EffectDispatch.ts"
export { Effects } from "./ExternalEffect.ts"
export { Deliveries } from "./Delivery.ts"
export type { OriginChanged } from "./DeliveryOrigin.ts"
export type { DeliveredResult, DeliveryRecord, Origin } from "./DeliveryRecord.ts"
export { Evidence, type EvidenceRecord, type Producer } from "./Evidence.ts"
export type { Amounts, BudgetSpec, Fence, Meter } from "./Field.ts"
export type { OpenPart } from "./Frontier.ts"
export { type Gate, Gates } from "./Gate.ts"
export {
  type GateAction,
  type GateDecision,
  type GateKind,
  laneOf,
  loadGates,
  type Need,
  type Reach
} from "./GateRecord.ts"
export { type Agent, Agents, type Budget, type Closure, type Goal, type GoalState } from "./Goal.ts"
export { type GoalDebts, Goals } from "./GoalClosure.ts"
export * from "./GovernanceError.ts"
export { type Binding, type Lease, leaseTtl, type LeaseView, type PreviousGrant } from "./Lease.ts"
export { leaseHolds } from "./LeaseAuthority.ts"
export { Leases } from "./LeaseGrant.ts"
export { Loop } from "./Loop.ts"
export {
  type Disposition,
  type LoopGate,
  type LoopReceipt,
  type LoopState,
  type LoopTodo,
  nextDisposition,
  type TurnBudget
} from "./LoopController.ts"
export type * from "./Module.ts"
export { type Blocked, type NextWork, Todos, type Withheld } from "./NextWork.ts"
export { Obligations } from "./Obligation.ts"
export { loadObligations, type ObligationRecord } from "./ObligationRecord.ts"
export type {
  ContextContent,
  PacketBody,
  PacketDecision,
  PacketGate,
  PacketObligation,
  PacketRead,
  PacketReference,
  PacketRequirement,
  PacketStop,
  PacketWhy
} from "./ContextPacket.ts"
export { Packets } from "./Packet.ts"
export type { ContinuityRecord, PacketRecord } from "./PacketRecord.ts"
export { triedAgain, triesOf } from "./RetryPolicy.ts"
export { Quota } from "./Quota.ts"
export type { QuotaHistoryEntry, QuotaStatus, RoleFigures } from "./QuotaStatus.ts"
export type { Spend } from "./QuotaLedger.ts"
export type { AccountFigures, EventReceipt, Figures, Window } from "./QuotaSum.ts"
export type { CostRole, Owed, Reservation } from "./ReservationRecord.ts"
export type { ArtifactFault, SpendArtifact, SpendArtifacts, UnreadableEvidence } from "./SpendEvidence.ts"
export { Sources, type SourceView } from "./Source.ts"
export type { ReadRevision, SourceRead, SourceRecord } from "./SourceRecord.ts"
export type { UsageFigures, UsageRecord } from "./Usage.ts"
export { Settlements } from "./Settlement.ts"
export type { Settlement, SettlementOutcome } from "./SettlementRecord.ts"
export type { Continuation, TodoSpec } from "./TodoSpec.ts"
export type { ContinuationRecord, TodoRecord } from "./TodoRecord.ts"
export {
  type HostResult,
  type NextStep,
  type Phase,
  type TurnAttempt,
  type TurnContext,
  type TurnFailure,
  type TurnRecord,
  Turns
} from "./Turn.ts"
export * from "./OperationProvider.ts"
export { publicOr, publicWords } from "./PublicText.ts"
export { workModule } from "./WorkModule.ts"
