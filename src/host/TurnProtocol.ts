/**
 * The stdio turn protocol: one JSON request on stdin, one JSON result on stdout.
 * Promise: versioned schemas, unknown fields refused, the turn key echoed, hard size limits; a result that breaks any of
 * these is a host failure and no progress is invented. Rules: S51, C89.
 */
import * as Schema from "effect/Schema"
import { ReportedUsage } from "../base/TokenUsage.ts"
import { HostSession } from "./HostSession.ts"

/**
 * Limits of S51. A request is at most 8 MiB, a result at most 12,000 bytes, argv at most 32 items of 1,024 characters; what a
 * host prints beside its result at most 64 MiB a stream (more is a runaway, and its tree is ended: `outputBudget`).
 */
export const limits = {
  requestBytes: 8 * 1024 * 1024,
  resultBytes: 12_000,
  argvItems: 32,
  argvChars: 1024,
  textBytes: 64 * 1024 * 1024
} as const

export const protocolVersion = 1

/** A finding that the turn should read before it starts (E5). */
export const BriefFinding = Schema.Struct({
  id: Schema.String,
  status: Schema.Literals(["tentative", "confirmed", "refuted"]),
  text: Schema.String
})

const Packet = { packet: Schema.String, digest: Schema.String }

/**
 * The context packet of a turn (G14). A `complete` body replaces everything that was told before; a `delta` is to be applied to the
 * packet that `base` names, section by section, and by a host that does not have that one not at all. A host that echoes
 * `digest` in its result says that it has the packet; one that knows nothing of packets leaves `context` out of its result, and
 * gets a complete one each time. Optional in request and result, so it is version 1 still.
 */
export const TurnContextPacket = Schema.Struct({
  ...Packet,
  kind: Schema.Literals(["complete", "delta"]),
  base: Schema.NullOr(Schema.Struct(Packet)),
  /** `coppice.context` version 1: requirement, required reads, stop conditions, obligations, gates, decisions, references. */
  body: Schema.Record(Schema.String, Schema.Unknown)
})
export type TurnContextPacket = typeof TurnContextPacket.Type

/** What a host says of the context that it worked under. */
export const WorkedContext = Schema.Struct({
  /** Of the packet that it has. Another one than it was given makes its work stale (G86). */
  digest: Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/)),
  /** What the packet came to in tokens, where it counted them. */
  tokens: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }))),
  /** The required reads that it has read, by source and revision. */
  read: Schema.optionalKey(
    Schema.Array(Schema.Struct({ source: Schema.String, revision: Schema.Int })).check(Schema.isMaxLength(100))
  )
})
export type WorkedContext = typeof WorkedContext.Type

/** What a host is asked to do. */
export const TurnRequest = Schema.Struct({
  protocol: Schema.Literal("coppice.turn"),
  version: Schema.Literal(protocolVersion),
  /** Echoed in the result. */
  turnKey: Schema.String,
  goal: Schema.Struct({ id: Schema.String, title: Schema.String }),
  todo: Schema.Struct({ id: Schema.String, title: Schema.String }),
  /** What this turn is to do, in prose. */
  instruction: Schema.String,
  findings: Schema.Array(BriefFinding),
  /** Where the files are, as the process sees them. */
  root: Schema.String,
  budget: Schema.Struct({ usd: Schema.NullOr(Schema.Number), timeLimitMs: Schema.Number }),
  /** The session to go on in, for a host that declares `resume`: exactly this one, or `session: null` in the answer (S22). */
  resume: Schema.optionalKey(HostSession),
  /** What it has to know, and what is required of it. */
  context: Schema.optionalKey(TurnContextPacket)
})
export type TurnRequest = typeof TurnRequest.Type

/** What a host may say of its own iteration. Acceptance is not among them. */
export const TurnOutcome = Schema.Literals([
  "progress",
  "completed",
  "replan",
  "repair",
  "userAction",
  "wait",
  "failed"
])
export type TurnOutcome = typeof TurnOutcome.Type

export const ReportedFinding = Schema.Struct({
  status: Schema.Literals(["tentative", "confirmed", "refuted"]),
  text: Schema.String.check(Schema.isMaxLength(2000))
})

/** What a turn used, as far as the host knows. */
export const HostUsage = Schema.Struct({
  /** Money spent by this turn, in US dollars; absent means unknown, never 0; at most a million. */
  usd: Schema.optionalKey(Schema.Number.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1_000_000))),
  /** What the provider says of each message's tokens (G56). Absent: unknown; empty: there was no message. */
  messages: Schema.optionalKey(Schema.Array(ReportedUsage).check(Schema.isMaxLength(1000)))
})
export type HostUsage = typeof HostUsage.Type

/** Why a host's iteration failed, as its provider says it. */
export const HostTrouble = Schema.Struct({
  /** The provider's own error code; it says more than the HTTP status. */
  providerCode: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(200))),
  httpStatus: Schema.optionalKey(Schema.Int),
  systemCode: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(100))),
  /** Milliseconds before which the provider wants no further attempt. */
  retryAfterMs: Schema.optionalKey(Schema.Number.check(Schema.isGreaterThanOrEqualTo(0)))
})

/** What a host answers. */
export const TurnResult = Schema.Struct({
  protocol: Schema.Literal("coppice.turn"),
  version: Schema.Literal(protocolVersion),
  turnKey: Schema.String,
  outcome: TurnOutcome,
  /** A public-safe summary. */
  summary: Schema.String.check(Schema.isMaxLength(2000)),
  findings: Schema.optionalKey(Schema.Array(ReportedFinding)),
  /** Ids of the findings of the request that this turn used (E5). */
  usedFindings: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The session that this turn ran in; null when the one asked for is not known, and nothing was done. */
  session: Schema.optionalKey(Schema.NullOr(HostSession)),
  /** Which context packet it has, and what it has read. */
  context: Schema.optionalKey(WorkedContext),
  usage: Schema.optionalKey(HostUsage),
  /** With the outcome `failed`: what is known of the cause, by which its failure class is told (G84). */
  failure: Schema.optionalKey(HostTrouble)
})
export type TurnResult = typeof TurnResult.Type

/**
 * A line of progress on stderr: `{"coppice":"progress", ...}`. Anything else on stderr is private text: kept in the
 * record, never echoed.
 */
export const TurnProgress = Schema.Struct({ coppice: Schema.Literal("progress"), text: Schema.String })
export type TurnProgress = typeof TurnProgress.Type
