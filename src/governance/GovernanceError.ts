/**
 * The refusals of governance: each names one thing, why it was refused, and the sentence that tells what to do.
 * Promise: a refusal changed nothing; messages carry no path, credential or transcript. Rules: G1, G2, G6, G31, G81.
 */
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { Meter } from "./Field.ts"

/** A value was refused at the door: wrong type, out of range, unknown field. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>()("InvalidInput", {
  ...errorFields("INVALID_INPUT"),
  command: Schema.String
}) {}

/** No such goal, todo, lease, reservation, turn, … in this authority. */
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", {
  ...errorFields("NOT_FOUND"),
  kind: Schema.String,
  id: Schema.String
}) {}

/** The command id was used before for another payload (G2). */
export class IdempotencyKeyReuse extends Schema.TaggedError<IdempotencyKeyReuse>()("IdempotencyKeyReuse", {
  ...errorFields("IDEMPOTENCY_KEY_REUSE"),
  commandId: Schema.String
}) {}

/** The goal is paused, stopped or completed: nothing new is admitted below it (G10). */
export class GoalNotActive extends Schema.TaggedError<GoalNotActive>()("GoalNotActive", {
  ...errorFields("GOAL_NOT_ACTIVE"),
  goal: Schema.String,
  state: Schema.String,
  /** Obligations and open gates that wait with it, where the call looks for work to start; a pause goes before them (C67). */
  waiting: Schema.Array(Schema.Struct({ kind: Schema.Literals(["obligation", "gate"]), id: Schema.String }))
}) {}

/** The caller saw an older revision of the record than the stored one. */
export class RevisionConflict extends Schema.TaggedError<RevisionConflict>()("RevisionConflict", {
  ...errorFields("REVISION_CONFLICT"),
  id: Schema.String,
  expected: Schema.Number,
  actual: Schema.Number
}) {}

/** The todo is in a state that does not allow this. */
export class TodoState extends Schema.TaggedError<TodoState>()("TodoState", {
  ...errorFields("TODO_STATE"),
  todo: Schema.String,
  state: Schema.String
}) {}

/** The todo cannot be worked on by this agent now: every reason is listed. */
export class NotEligible extends Schema.TaggedError<NotEligible>()("NotEligible", {
  ...errorFields("NOT_ELIGIBLE"),
  todo: Schema.String,
  agent: Schema.String,
  reasons: Schema.Array(Schema.String)
}) {}

/** Another holder has a live lease. */
export class LeaseHeld extends Schema.TaggedError<LeaseHeld>()("LeaseHeld", {
  ...errorFields("LEASE_HELD"),
  todo: Schema.String,
  owner: Schema.String,
  epoch: Schema.Number,
  expiresAt: Schema.Number
}) {}

/** The fence that was named holds no authority any more: expired, released, transferred or reassigned (G31, G33). */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  ...errorFields("LEASE_LOST"),
  todo: Schema.String,
  epoch: Schema.Number,
  currentEpoch: Schema.Number,
  why: Schema.Literals(["expired", "released", "token", "epoch", "version", "none"])
}) {}

/** Write scopes overlap with those of live leases of the same goal; every conflict is listed (G34). */
export class ScopeConflict extends Schema.TaggedError<ScopeConflict>()("ScopeConflict", {
  ...errorFields("SCOPE_CONFLICT"),
  todo: Schema.String,
  conflicts: Schema.Array(
    Schema.Struct({
      todo: Schema.String,
      owner: Schema.String,
      epoch: Schema.Number,
      /** Those of its scopes that overlap. */
      scopes: Schema.Array(Schema.String),
      expiresAt: Schema.Number
    })
  )
}) {}

/** The source is in a state that does not allow this: it is retired, or said to be unreadable (G12). */
export class SourceState extends Schema.TaggedError<SourceState>()("SourceState", {
  ...errorFields("SOURCE_STATE"),
  source: Schema.String,
  state: Schema.String
}) {}

/** What a turn must be told does not fit into the limit of its context packet: requirement, required reads, stop conditions (G14). */
export class ContextTooLarge extends Schema.TaggedError<ContextTooLarge>()("ContextTooLarge", {
  ...errorFields("CONTEXT_TOO_LARGE"),
  turn: Schema.String,
  limitBytes: Schema.Number,
  neededBytes: Schema.Number,
  /** By how much. */
  overBytes: Schema.Number
}) {}

/** What the loop controller was given does not belong together: a decision on it would be about something else (G83). */
export class LoopInputStale extends Schema.TaggedError<LoopInputStale>()("LoopInputStale", {
  ...errorFields("LOOP_INPUT_STALE"),
  /** `older`: the state is as of an earlier sequence than the receipt; else what they differ in. */
  why: Schema.Literals(["older", "goal", "agent", "revision"])
}) {}

/** The budget does not hold the amount that was asked for (G50). */
export class QuotaExceeded extends Schema.TaggedError<QuotaExceeded>()("QuotaExceeded", {
  ...errorFields("QUOTA_EXCEEDED"),
  goal: Schema.String,
  /** Null: the goal's own budget; else that of the agent. */
  agent: Schema.NullOr(Schema.String),
  meter: Meter,
  limit: Schema.Number,
  /** Spent and reserved together. */
  used: Schema.Number,
  asked: Schema.Number
}) {}

/** A limit or an upper bound is missing where one is required (G55). */
export class BoundMissing extends Schema.TaggedError<BoundMissing>()("BoundMissing", {
  ...errorFields("BOUND_MISSING"),
  meter: Meter
}) {}

/** The reservation was settled or voided before. */
export class ReservationClosed extends Schema.TaggedError<ReservationClosed>()("ReservationClosed", {
  ...errorFields("RESERVATION_CLOSED"),
  reservation: Schema.String,
  state: Schema.String
}) {}

/** One identity names one thing: the effect, operation or candidate was recorded before with another content. */
export class IdentityConflict extends Schema.TaggedError<IdentityConflict>()("IdentityConflict", {
  ...errorFields("IDENTITY_CONFLICT"),
  kind: Schema.String,
  id: Schema.String
}) {}

/** A turn of this agent on this goal is executing, or cannot be shown to have ended (G81). */
export class TurnInFlight extends Schema.TaggedError<TurnInFlight>()("TurnInFlight", {
  ...errorFields("TURN_IN_FLIGHT"),
  turn: Schema.String,
  phase: Schema.String,
  alive: Schema.Union([Schema.Boolean, Schema.Literal("unknown")])
}) {}

/** The last turn of this agent on this goal has a saved result that was never settled. */
export class TurnUnfinished extends Schema.TaggedError<TurnUnfinished>()("TurnUnfinished", {
  ...errorFields("TURN_UNFINISHED"),
  turn: Schema.String,
  phase: Schema.String
}) {}

/** Phases go in order, prefix only (G80). */
export class PhaseOrder extends Schema.TaggedError<PhaseOrder>()("PhaseOrder", {
  ...errorFields("PHASE_ORDER"),
  turn: Schema.String,
  phase: Schema.String,
  asked: Schema.String
}) {}

/** A failure of this class is not tried again, or has been often enough (G84). The failure stands. */
export class RetryRefused extends Schema.TaggedError<RetryRefused>()("RetryRefused", {
  ...errorFields("RETRY_REFUSED"),
  turn: Schema.String,
  class: Schema.String,
  /** How often a turn is tried in all when it fails so. */
  tries: Schema.Number
}) {}

/** The acceptance does not carry this settlement: void, not passed, of another candidate, or given by the executor. */
export class AcceptanceInvalid extends Schema.TaggedError<AcceptanceInvalid>()("AcceptanceInvalid", {
  ...errorFields("ACCEPTANCE_INVALID"),
  acceptance: Schema.String,
  why: Schema.Literals([
    "missing",
    "void",
    "notPassed",
    "otherCandidate",
    "otherWork",
    "ownProducer",
    "unrecorded",
    "used"
  ])
}) {}

/** Evidence that must lie outside the workspace store is not recorded (G75). */
export class EvidenceMissing extends Schema.TaggedError<EvidenceMissing>()("EvidenceMissing", {
  ...errorFields("EVIDENCE_MISSING"),
  kinds: Schema.Array(Schema.String)
}) {}

/** The delivery is in a state that does not allow this (G91). */
export class DeliveryState extends Schema.TaggedError<DeliveryState>()("DeliveryState", {
  ...errorFields("DELIVERY_STATE"),
  delivery: Schema.String,
  state: Schema.String
}) {}

/** Another process may be sending this delivery now (G91). Nothing was sent. */
export class DeliveryInFlight extends Schema.TaggedError<DeliveryInFlight>()("DeliveryInFlight", {
  ...errorFields("DELIVERY_IN_FLIGHT"),
  delivery: Schema.String,
  alive: Schema.Union([Schema.Boolean, Schema.Literal("unknown")])
}) {}

/** Results of this todo may be at their destination already: where they go is not changed before that is known (G90, G91). */
export class DeliveryUnresolved extends Schema.TaggedError<DeliveryUnresolved>()("DeliveryUnresolved", {
  ...errorFields("DELIVERY_UNRESOLVED"),
  todo: Schema.String,
  deliveries: Schema.Array(Schema.String)
}) {}

/** The text cannot be made public: it holds an absolute path or something that looks like a credential (G6). */
export class NotPublic extends Schema.TaggedError<NotPublic>()("NotPublic", {
  ...errorFields("NOT_PUBLIC"),
  field: Schema.String
}) {}

/** The todo must be attempted before it is put aside, retired or completed (G15). */
export class ObligationOpen extends Schema.TaggedError<ObligationOpen>()("ObligationOpen", {
  ...errorFields("OBLIGATION_OPEN"),
  todo: Schema.String,
  obligations: Schema.Array(Schema.Struct({ id: Schema.String, reason: Schema.String }))
}) {}

/** The obligation was met or waived before. */
export class ObligationClosed extends Schema.TaggedError<ObligationClosed>()("ObligationClosed", {
  ...errorFields("OBLIGATION_CLOSED"),
  obligation: Schema.String,
  state: Schema.String
}) {}

/** What was named is no attempt at what the obligation asks for (G15). */
export class NotAttempted extends Schema.TaggedError<NotAttempted>()("NotAttempted", {
  ...errorFields("NOT_ATTEMPTED"),
  obligation: Schema.String,
  /** The turn or settlement that was named. */
  attempt: Schema.String
}) {}

/** Something is open below the goal, so it is not complete (G12). */
export class FrontierNotEmpty extends Schema.TaggedError<FrontierNotEmpty>()("FrontierNotEmpty", {
  ...errorFields("FRONTIER_NOT_EMPTY"),
  goal: Schema.String,
  /** Each kind with its whole count, and the ids of the first hundred. */
  parts: Schema.Array(Schema.Struct({ kind: Schema.String, count: Schema.Number, ids: Schema.Array(Schema.String) }))
}) {}

/** Gates stop this: their question is open, or was answered with no (G40). Nothing that they do not name is stopped. */
export class Gated extends Schema.TaggedError<Gated>()("Gated", {
  ...errorFields("GATED"),
  goal: Schema.String,
  agent: Schema.NullOr(Schema.String),
  action: Schema.String,
  todo: Schema.NullOr(Schema.String),
  gates: Schema.Array(
    Schema.Struct({
      gate: Schema.String,
      kind: Schema.String,
      /** Who is to move: the owner decides, or somebody repairs (G41). */
      lane: Schema.Literals(["owner", "repair"]),
      question: Schema.String,
      standing: Schema.Literals(["open", "refused"]),
      /** Of the decision that refused; null while the question is open. */
      answer: Schema.NullOr(Schema.String),
      by: Schema.NullOr(Schema.String)
    })
  )
}) {}

/** The gate was withdrawn: there is nothing to decide. */
export class GateClosed extends Schema.TaggedError<GateClosed>()("GateClosed", {
  ...errorFields("GATE_CLOSED"),
  gate: Schema.String
}) {}

/** The gate asks the owner, and an agent answered (G41). */
export class OwnerOnly extends Schema.TaggedError<OwnerOnly>()("OwnerOnly", {
  ...errorFields("OWNER_ONLY"),
  gate: Schema.String,
  by: Schema.String
}) {}

export const notFound = (kind: string, id: string): NotFound =>
  new NotFound({
    message: `There is no ${kind} ${id} in this authority.`,
    remedy: `Check the id, and that this is the authority in which the ${kind} was created.`,
    kind,
    // A read looks for what plain JavaScript gave it, and that need not be a text.
    id: String(id)
  })
