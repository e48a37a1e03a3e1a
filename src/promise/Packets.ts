/**
 * Context packets as plain async functions: the declarations. No Effect in them.
 * Promise: the calls of `Packets` of `coppice/governance`, under the same names and with the same refusals. What a packet holds is
 * what its executor is given: a difference is built only upon one that is known to have arrived and to be remembered.
 * Rules: G14, G86.
 */
import type { GateKind } from "./Gates.ts"
import type { Binding, Fence, Goal, Items, Read, Write } from "./Governance.ts"
import type { Budget, Figures } from "./Quota.ts"
import type { ReadRevision } from "./Turns.ts"

// --- what a packet holds ---------------------------------------------------------------------------------------------

/** What the work is required to be. */
export interface PacketRequirement {
  readonly goal: { readonly id: string; readonly title: string }
  readonly todo: { readonly id: string; readonly title: string; readonly revision: number }
  /** Its acceptance completes the todo; null: no validator is declared. */
  readonly validator: string | null
  readonly writeScopes: readonly string[]
  readonly digest: string
}
/** A required read, by reference. */
export interface PacketRead {
  readonly source: string
  readonly name: string
  readonly revision: number
  readonly digest: string
  readonly ref: string
  readonly bytes: number
  /** Null where they were not counted. */
  readonly tokens: number | null
  /** Whether it is on record that this agent has read this revision. */
  readonly read: boolean
}
/** When to stop, as of the moment at which the packet was issued. */
export interface PacketStop {
  readonly goal: Goal["state"]
  /** UTC milliseconds; the driver renews the lease, so this is when it ends at the earliest. */
  readonly leaseExpiresAt: number
  /** The most that this turn may cost. */
  readonly bound: Figures
  /** What is left beside that bound; `agent` null: of the goal, else of an agent with limits of its own. */
  readonly left: readonly { readonly agent: string | null; readonly remaining: Budget }[]
}
/** An open obligation that this work can meet; `todo` null: any work of the goal can. */
export interface PacketObligation {
  readonly id: string
  readonly todo: string | null
  readonly reason: string
}
/** A question about this work that waits for its answer. */
export interface PacketGate {
  readonly id: string
  readonly kind: GateKind
  readonly lane: "owner" | "repair"
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
  /** Null where what it names has none. */
  readonly digest: string | null
  readonly text: string
}
/**
 * Why a packet is whole, or that it continues. `noSession`: nobody vouches that the executor remembers; `first`: it was told
 * nothing yet; `generation`: another runtime; `compaction`: it has forgotten; `lostAck`: whether the last packet arrived is not
 * known; `sourceRevision`: a required read has another revision than it was told.
 */
export type PacketWhy = "noSession" | "first" | "generation" | "compaction" | "lostAck" | "sourceRevision" | "continues"
type Shortened = "obligations" | "gates" | "decisions" | "references"
/**
 * A packet as the executor gets it. A complete one replaces all that was told before. In a difference, a section that is absent
 * is as it was, one that is there replaces the old one; the stop conditions are always there.
 */
export interface PacketBody {
  readonly protocol: "coppice.context"
  readonly version: 1
  readonly packet: string
  readonly turn: string
  readonly kind: "complete" | "delta"
  readonly why: PacketWhy
  /** The packet that a difference builds upon; null in a complete one. */
  readonly base: { readonly packet: string; readonly digest: string } | null
  readonly requirement?: PacketRequirement
  readonly reads?: readonly PacketRead[]
  readonly stop: PacketStop
  readonly obligations?: readonly PacketObligation[]
  readonly gates?: readonly PacketGate[]
  readonly decisions?: readonly PacketDecision[]
  readonly references?: readonly PacketReference[]
  /** How much shortening left out, by section. */
  readonly omitted: readonly { readonly section: Shortened; readonly items: number }[]
}

// --- packets ---------------------------------------------------------------------------------------------------------

export interface Packet {
  readonly id: string
  readonly goal: string
  readonly agent: string
  readonly todo: string
  readonly turn: string
  /** The session that it went to; null: nobody vouches that one remembers. */
  readonly session: Binding | null
  readonly kind: PacketBody["kind"]
  readonly why: PacketWhy
  /** Of the body: what an executor echoes to say that it has it. */
  readonly digest: string
  /** Of the body's canonical JSON. */
  readonly bytes: number
  /** As the executor counted them; null while it has not said. */
  readonly tokens: number | null
  /** Digest of every section as a whole: what an executor knows once it has applied the packet. */
  readonly sections: { readonly [section in "requirement" | "reads" | Shortened]: string }
  readonly reads: readonly ReadRevision[]
  /** What the executor is given, as it is. */
  readonly body: PacketBody
  /** UTC milliseconds. */
  readonly issuedAt: number
  /** Null: nobody said that it arrived; it counts as lost. */
  readonly acknowledgedAt: number | null
}
/** What the executor of a turn is told, and whether it has it. */
export interface PacketCalls {
  /** The packet of a turn that is about to be dispatched, in one commit with what the turn is from then on admitted under. */
  readonly issue: Write<
    {
      readonly turn: string
      readonly fence: Fence
      /** Whose executor remembers from turn to turn what it was told; null or absent: none, so that the packet is complete. */
      readonly session?: Binding | null
      /** Of canonical JSON; 32 KiB when absent, at most 1 MiB. Lists are cut to fit, requirements never. */
      readonly limitBytes?: number
      /** The caller's own, at most 200, after those of the gates. */
      readonly decisions?: readonly PacketDecision[]
      /** At most 200. */
      readonly references?: readonly PacketReference[]
    },
    Packet
  >
  /** That the executor has it: `digest` as it echoed it, `tokens` as it counted them. */
  readonly acknowledge: Write<{ readonly packet: string; readonly digest: string; readonly tokens?: number }, Packet>
  /** That the executor of a session has lost what it was told: the next packet is complete. */
  readonly compacted: Write<
    { readonly goal: string; readonly agent: string; readonly session: Binding },
    {
      readonly goal: string
      readonly agent: string
      readonly session: Binding
      /** Null: it was told nothing yet, or another generation is running by now. */
      readonly lost: "compaction" | null
    }
  >
  readonly get: Read<{ readonly packet: string }, Packet>
  /** Oldest first. */
  readonly list: Read<{ readonly turn: string }, Items<Packet>>
}
