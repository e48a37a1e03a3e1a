/**
 * The records of context packets, and of what is known of the memory of the sessions that they went into.
 * Promise: a packet is kept as it was issued, with its body and its digests; one row says which packet a session has last.
 * Rules: G14, G86. Issuing and acknowledging: Packet.ts. What a packet holds: ContextPacket.ts.
 */
import type { PacketBody, SectionDigests } from "./ContextPacket.ts"
import { recordTable } from "./Handler.ts"
import type { Binding } from "./Lease.ts"
import type { ReadRevision } from "./SourceRecord.ts"

// --- model -----------------------------------------------------------------------------------------------------------

/** A packet as it is kept, journaled and shown. */
export interface PacketRecord {
  readonly id: string
  readonly goal: string
  readonly agent: string
  readonly todo: string
  readonly turn: string
  /** The session that it went to; null: nobody vouched that one remembers. */
  readonly session: Binding | null
  readonly kind: PacketBody["kind"]
  readonly why: PacketBody["why"]
  /** Of the body: what an executor echoes to say that it has it. */
  readonly digest: string
  /** Of the body's canonical JSON. */
  readonly bytes: number
  /** As the executor counted them; null while it is not known. */
  readonly tokens: number | null
  readonly sections: SectionDigests
  readonly reads: readonly ReadRevision[]
  readonly body: PacketBody
  readonly issuedAt: number
  readonly acknowledgedAt: number | null
}

/** What is known of the memory of a session. */
export interface ContinuityRecord {
  readonly goal: string
  readonly agent: string
  readonly session: string
  readonly generation: number
  /** The packet that was issued last. */
  readonly packet: string
  readonly lost: "compaction" | null
  readonly changedAt: number
}

export const packetTable = recordTable<PacketRecord>("packet", ["id"], {
  id: "value",
  goal: "value",
  agent: "value",
  todo: "value",
  turn: "value",
  session: "json",
  kind: "value",
  why: "value",
  digest: "value",
  bytes: "value",
  tokens: "value",
  sections: "json",
  reads: "json",
  body: "json",
  issuedAt: "value",
  acknowledgedAt: "value"
})

export const continuityTable = recordTable<ContinuityRecord>("continuity", ["goal", "agent", "session"], {
  goal: "value",
  agent: "value",
  session: "value",
  generation: "value",
  packet: "value",
  lost: "value",
  changedAt: "value"
})

export const packetTables = `
CREATE TABLE packet (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  agent TEXT NOT NULL,
  todo TEXT NOT NULL REFERENCES todo (id),
  turn TEXT NOT NULL,
  session TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('complete', 'delta')),
  why TEXT NOT NULL,
  digest TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  tokens INTEGER,
  sections TEXT NOT NULL,
  reads TEXT NOT NULL,
  body TEXT NOT NULL,
  issued_at BIGINT NOT NULL,
  acknowledged_at BIGINT
);
CREATE INDEX packet_turn ON packet (turn, issued_at, id);
CREATE TABLE continuity (
  goal TEXT NOT NULL REFERENCES goal (id),
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  generation INTEGER NOT NULL,
  packet TEXT NOT NULL,
  lost TEXT,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (goal, agent, session)
);
`
