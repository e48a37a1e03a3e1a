/**
 * The context packet of a turn: what its executor has to know, whole or as the difference to what it was told before. Pure.
 * Promise: a difference is built only upon a packet that is known to have arrived and to be remembered; shortening never drops a
 * requirement, a required read or a stop condition; details are references, never inlined. Rules: G14; V5. Issuing: Packet.ts.
 */
import * as Result from "effect/Result"
import { canonicalJson, digestJson, type Json } from "../base/Digest.ts"
import type { GateKind, Lane } from "./GateRecord.ts"
import type { Budget, GoalState } from "./Goal.ts"
import { ContextTooLarge } from "./GovernanceError.ts"
import type { Figures } from "./QuotaSum.ts"
import type { ReadRevision } from "./SourceRecord.ts"

// --- what a packet holds ---------------------------------------------------------------------------------------------

/** What the work is required to be. */
export interface PacketRequirement {
  readonly goal: { readonly id: string; readonly title: string }
  readonly todo: { readonly id: string; readonly title: string; readonly revision: number }
  /** The validator whose acceptance completes the todo; null: none is declared. */
  readonly validator: string | null
  readonly writeScopes: readonly string[]
  readonly digest: string
}

/** A required read: where its revision is, by reference. */
export interface PacketRead {
  readonly source: string
  readonly name: string
  readonly revision: number
  readonly digest: string
  readonly ref: string
  readonly bytes: number
  readonly tokens: number | null
  /** Whether it is on record that this agent has read this revision. */
  readonly read: boolean
}

/** When to stop: as of the moment at which the packet was issued. */
export interface PacketStop {
  readonly goal: GoalState
  /** UTC milliseconds; the driver renews the lease, so this is when it ends at the earliest. */
  readonly leaseExpiresAt: number
  /** The most that this turn may cost. */
  readonly bound: Figures
  /** What is left beside that bound: of the goal, and of the agent where it has limits of its own. */
  readonly left: readonly { readonly agent: string | null; readonly remaining: Budget }[]
}

/** An open obligation that this work can meet: of its todo, or of the goal. */
export interface PacketObligation {
  readonly id: string
  readonly todo: string | null
  readonly reason: string
}

/** A question about this work that waits for its answer, and who is to move. */
export interface PacketGate {
  readonly id: string
  readonly kind: GateKind
  readonly lane: Lane
  readonly question: string
}

/** A decision that stands: the answer to a gate by its id, or one that the caller names. */
export interface PacketDecision {
  readonly id: string
  readonly text: string
}

/** Something to look up: a finding, the turn that this one continues, a log. `text` says what it is, in a sentence. */
export interface PacketReference {
  readonly kind: string
  readonly ref: string
  readonly digest: string | null
  readonly text: string
}

/** All that a turn's executor has to know now. */
export interface ContextContent {
  readonly requirement: PacketRequirement
  readonly reads: readonly PacketRead[]
  readonly stop: PacketStop
  readonly obligations: readonly PacketObligation[]
  readonly gates: readonly PacketGate[]
  readonly decisions: readonly PacketDecision[]
  readonly references: readonly PacketReference[]
}

/** Lists that may be shortened, the last ones first. */
const shortened = ["obligations", "gates", "decisions", "references"] as const
type Shortened = (typeof shortened)[number]
const sectionNames = ["requirement", "reads", ...shortened] as const
export type SectionName = (typeof sectionNames)[number]

/**
 * The digest of every section as the executor has it once it has applied the packet: of a list that was cut, of what is left. So a
 * list that was cut is no list that was told, and comes again as soon as there is room.
 */
export type SectionDigests = { readonly [name in SectionName]: string }

/**
 * Why a packet is whole, or that it continues. `noSession`: nobody vouches that the executor remembers; `first`: it was told
 * nothing yet; `generation`: another runtime; `compaction`: it has forgotten; `lostAck`: whether the last packet arrived is not
 * known; `sourceRevision`: a required read has another revision than it was told.
 */
export type PacketWhy = "noSession" | "first" | "generation" | "compaction" | "lostAck" | "sourceRevision" | "continues"

/**
 * A packet as the executor gets it. A complete one replaces all that was told before. In a difference, a section that is
 * absent is as it was, one that is there replaces the old one; the stop conditions are always there.
 */
export interface PacketBody extends Partial<ContextContent> {
  readonly protocol: "coppice.context"
  readonly version: 1
  readonly packet: string
  readonly turn: string
  readonly kind: "complete" | "delta"
  readonly why: PacketWhy
  /** The packet that a difference builds upon; null in a complete one. */
  readonly base: { readonly packet: string; readonly digest: string } | null
  readonly stop: PacketStop
  /** What shortening left out, by section: the newest state of it is read from the authority. */
  readonly omitted: readonly { readonly section: Shortened; readonly items: number }[]
}

// --- continuity ------------------------------------------------------------------------------------------------------

/** The packet that was issued last in a session. */
export interface LastPacket {
  readonly id: string
  readonly digest: string
  readonly sections: SectionDigests
  readonly reads: readonly ReadRevision[]
  readonly acknowledgedAt: number | null
}

/** What is known of the session that the packet goes to; null: nobody vouches that it remembers anything. */
export interface Continuity {
  readonly generation: number
  /** The generation that the last packet went to, what came of its memory, and the packet; null: there was none. */
  readonly before: { readonly generation: number; readonly lost: "compaction" | null; readonly last: LastPacket } | null
}

/** Whether the next packet may be a difference, and why not. */
export const continuityOf = (continuity: Continuity | null, required: readonly ReadRevision[]): PacketWhy => {
  if (continuity === null) return "noSession"
  const { before } = continuity
  if (before === null) return "first"
  if (before.generation !== continuity.generation) return "generation"
  if (before.lost !== null) return before.lost
  if (before.last.acknowledgedAt === null) return "lostAck"
  const told = new Map(before.last.reads.map(({ source, revision }) => [source, revision]))
  const revised = required.some(({ source, revision }) => (told.get(source) ?? revision) !== revision)
  return revised ? "sourceRevision" : "continues"
}

// --- building --------------------------------------------------------------------------------------------------------

export interface BuiltPacket {
  readonly body: PacketBody
  readonly digest: string
  readonly bytes: number
  readonly sections: SectionDigests
}

const digestOf = (value: unknown): string => digestJson(value as Json)
const bytesOf = (value: unknown): number => Buffer.byteLength(canonicalJson(value as Json))

const digestsOf = (content: ContextContent): SectionDigests =>
  Object.fromEntries(sectionNames.map((name) => [name, digestOf(content[name])])) as SectionDigests

const without = (count: Partial<Record<Shortened, number>>): PacketBody["omitted"] =>
  shortened.flatMap((section) => ((count[section] ?? 0) > 0 ? [{ section, items: count[section]! }] : []))

/**
 * Builds the packet that tells `content` to an executor of which `continuity` is known, in at most `limitBytes` of canonical
 * JSON. Lists are cut from the end, `references` first. `ContextTooLarge` when what may never be dropped does not fit.
 */
export const buildPacket = (options: {
  readonly packet: string
  readonly turn: string
  readonly content: ContextContent
  readonly continuity: Continuity | null
  readonly limitBytes: number
}): Result.Result<BuiltPacket, ContextTooLarge> => {
  const { content, continuity, limitBytes } = options
  const sections = digestsOf(content)
  const why = continuityOf(continuity, content.reads)
  const last = why === "continues" ? continuity!.before!.last : null
  const told = sectionNames.filter((name) => last === null || last.sections[name] !== sections[name])
  const lists = shortened.filter((name) => told.includes(name))
  const head: PacketBody = {
    protocol: "coppice.context",
    version: 1,
    packet: options.packet,
    turn: options.turn,
    kind: last === null ? "complete" : "delta",
    why,
    base: last === null ? null : { packet: last.id, digest: last.digest },
    ...(told.includes("requirement") ? { requirement: content.requirement } : {}),
    ...(told.includes("reads") ? { reads: content.reads } : {}),
    stop: content.stop,
    omitted: []
  }
  const built = (body: PacketBody, cut: Partial<ContextContent> = {}) => ({
    body,
    digest: digestOf(body),
    bytes: bytesOf(body),
    sections: digestsOf({ ...content, ...cut })
  })
  const whole = built({ ...head, ...Object.fromEntries(lists.map((name) => [name, content[name]])) })
  if (whole.bytes <= limitBytes) return Result.succeed(whole)

  // With every list empty and all of it told as left out: what is kept of the lists can only replace that.
  const bare = built({
    ...head,
    ...Object.fromEntries(lists.map((name) => [name, []])),
    omitted: without(Object.fromEntries(lists.map((name) => [name, content[name].length])))
  })
  if (bare.bytes > limitBytes) return Result.fail(tooLarge(options.turn, bare.bytes, limitBytes))
  let room = limitBytes - bare.bytes
  const kept: Record<string, readonly unknown[]> = {}
  const left: Partial<Record<Shortened, number>> = {}
  for (const name of lists) {
    const sizes = content[name].map((item) => bytesOf(item) + 1)
    const end = sizes.findIndex((size) => (room -= size) < 0)
    if (end >= 0) room += sizes[end]!
    kept[name] = end < 0 ? content[name] : content[name].slice(0, end)
    left[name] = content[name].length - kept[name].length
  }
  return Result.succeed(built({ ...head, ...kept, omitted: without(left) }, kept))
}

const tooLarge = (turn: string, neededBytes: number, limitBytes: number): ContextTooLarge =>
  new ContextTooLarge({
    message: `What turn ${turn} must be told takes ${neededBytes} bytes, ${neededBytes - limitBytes} more than the limit of ${limitBytes}.`,
    remedy: "Raise the limit by that, or require fewer reads and write scopes of one todo. Nothing was issued.",
    turn,
    limitBytes,
    neededBytes,
    overBytes: neededBytes - limitBytes
  })
