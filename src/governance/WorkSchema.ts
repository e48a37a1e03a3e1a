/**
 * The tables of the work module: projections of its facts, and nothing that the journal does not hold.
 * Promise: written by Authority commands only (G1); a released step is never edited, a change is a further step (G5).
 */
import { acceptanceTables } from "./Acceptance.ts"
import { boundsBesideIndex, frontierIndexes } from "./Frontier.ts"
import { gateTables } from "./GateRecord.ts"
import { goalTables } from "./Goal.ts"
import { obligationTables } from "./ObligationRecord.ts"
import { deliveryTables } from "./DeliveryRecord.ts"
import { leaseTables } from "./Lease.ts"
import { usageTables } from "./Usage.ts"
import type { Migration } from "../sqlite/Database.ts"
import { effectTables } from "./EffectRecord.ts"
import { packetTables } from "./PacketRecord.ts"
import { readyQueueTables } from "./ReadyQueue.ts"
import { sourceTables } from "./SourceRecord.ts"

/** Step 3, entity by entity: each file that teaches an entity's rules exports its tables. */
const complete: readonly string[] = [
  readyQueueTables,
  sourceTables,
  obligationTables,
  effectTables,
  deliveryTables,
  packetTables,
  gateTables,
  usageTables,
  goalTables,
  frontierIndexes,
  leaseTables,
  acceptanceTables
]

export const workMigrations: readonly Migration[] = [
  {
    version: 1,
    name: "work",
    sql: `
CREATE TABLE goal (
  id TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'stopped', 'completed')),
  limit_usd_micros INTEGER CHECK (limit_usd_micros >= 0),
  limit_slots INTEGER CHECK (limit_slots >= 0),
  required_meters TEXT NOT NULL,
  revision INTEGER NOT NULL,
  opened_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
);
CREATE TABLE agent (
  goal TEXT NOT NULL REFERENCES goal (id),
  agent_id TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  registered_at INTEGER NOT NULL,
  PRIMARY KEY (goal, agent_id)
);
CREATE TABLE todo (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  title TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'deferred', 'done', 'superseded')),
  priority INTEGER NOT NULL,
  depends_on TEXT NOT NULL,
  capabilities TEXT NOT NULL,
  write_scopes TEXT NOT NULL,
  excluded_agents TEXT NOT NULL,
  acceptance TEXT,
  deferred_until INTEGER,
  defer_reason TEXT,
  continuation TEXT,
  superseded_by TEXT,
  revision INTEGER NOT NULL,
  added_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
);
CREATE INDEX todo_order ON todo (goal, priority DESC, added_at, id, state);
CREATE TABLE lease (
  todo TEXT PRIMARY KEY REFERENCES todo (id),
  id TEXT NOT NULL,
  goal TEXT NOT NULL REFERENCES goal (id),
  owner TEXT NOT NULL,
  binding TEXT,
  epoch INTEGER NOT NULL,
  version INTEGER NOT NULL,
  token_digest TEXT NOT NULL,
  write_scopes TEXT NOT NULL,
  ttl_ms INTEGER NOT NULL,
  acquired_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  released_at INTEGER,
  previous TEXT
);
CREATE INDEX lease_scoped ON lease (goal, todo) WHERE released_at IS NULL AND write_scopes <> '[]';
CREATE TABLE reservation (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT,
  turn TEXT,
  agent TEXT,
  effect_id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (state IN ('open', 'owed', 'spent', 'void')),
  held_usd_micros INTEGER,
  held_slots INTEGER NOT NULL,
  spent_usd_micros INTEGER,
  spent_slots INTEGER NOT NULL,
  evidence TEXT,
  reserved_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
);
CREATE INDEX reservation_owed ON reservation (goal, todo) WHERE state = 'owed';
CREATE TABLE quota_event (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  goal TEXT NOT NULL REFERENCES goal (id),
  kind TEXT NOT NULL CHECK (kind IN ('reserve', 'spend', 'void', 'trueUp')),
  reservation TEXT NOT NULL,
  effect_id TEXT NOT NULL,
  reserved_usd_micros INTEGER NOT NULL,
  spent_usd_micros INTEGER NOT NULL,
  reserved_slots INTEGER NOT NULL,
  spent_slots INTEGER NOT NULL,
  reason TEXT
);
CREATE INDEX quota_sum ON quota_event (goal, reserved_usd_micros, spent_usd_micros, reserved_slots, spent_slots);
CREATE TABLE evidence (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT,
  turn TEXT,
  kind TEXT NOT NULL,
  digest TEXT NOT NULL,
  summary TEXT NOT NULL,
  ref TEXT,
  producer TEXT NOT NULL,
  recorded_at INTEGER NOT NULL
);
CREATE INDEX evidence_goal ON evidence (goal, recorded_at, id);
CREATE TABLE acceptance (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT,
  turn TEXT,
  candidate TEXT,
  validator TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('passed', 'progress', 'failed', 'inconclusive', 'unavailable')),
  void INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  summary TEXT NOT NULL,
  recorded_at INTEGER NOT NULL
);
CREATE INDEX acceptance_goal ON acceptance (goal, recorded_at, id);
CREATE TABLE turn (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT NOT NULL REFERENCES todo (id),
  agent TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  phase TEXT NOT NULL CHECK (phase IN ('admit', 'execute', 'result', 'validate', 'settle', 'close')),
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'failed')),
  effect_id TEXT NOT NULL UNIQUE,
  reservation TEXT NOT NULL,
  fence TEXT NOT NULL,
  executor TEXT,
  guarantee TEXT,
  attempts TEXT NOT NULL,
  result TEXT,
  verdict TEXT,
  settlement TEXT,
  failure TEXT,
  context TEXT,
  admitted_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX turn_executing ON turn (goal, agent) WHERE state = 'open';
CREATE INDEX turn_goal ON turn (goal, admitted_at, id);
CREATE TABLE settlement (
  effect_id TEXT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT NOT NULL REFERENCES todo (id),
  turn TEXT,
  outcome TEXT NOT NULL,
  accepted INTEGER NOT NULL,
  acceptance TEXT,
  candidate TEXT,
  evidence TEXT NOT NULL,
  reservation TEXT NOT NULL,
  content TEXT NOT NULL,
  receipt TEXT NOT NULL,
  settled_at INTEGER NOT NULL
);
CREATE INDEX settlement_goal ON settlement (goal, settled_at, id);
CREATE TABLE candidate (
  operation_id TEXT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  goal TEXT NOT NULL REFERENCES goal (id),
  turn TEXT,
  state TEXT NOT NULL CHECK (state IN ('planned', 'recorded', 'absent', 'unknown')),
  identity TEXT,
  candidate TEXT,
  pin TEXT,
  planned_at INTEGER NOT NULL,
  resolved_at INTEGER
);
CREATE INDEX candidate_identity ON candidate (identity);
CREATE INDEX candidate_unresolved ON candidate (goal) WHERE state IN ('planned', 'unknown');
`
  },
  {
    version: 2,
    name: "windows and meters, expiry, requirements",
    sql: `
ALTER TABLE goal ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE goal ADD COLUMN window_ms INTEGER CHECK (window_ms > 0);
ALTER TABLE agent ADD COLUMN budget TEXT;
ALTER TABLE reservation ADD COLUMN held_meters TEXT NOT NULL DEFAULT '{}';
ALTER TABLE reservation ADD COLUMN spent_meters TEXT NOT NULL DEFAULT '{}';
ALTER TABLE quota_event ADD COLUMN agent TEXT;
ALTER TABLE quota_event ADD COLUMN voided INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN reserved_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN spent_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN reserved_wall_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN spent_wall_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN reserved_compute_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN spent_compute_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN reserved_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quota_event ADD COLUMN spent_attempts INTEGER NOT NULL DEFAULT 0;
UPDATE quota_event SET
  agent = (SELECT r.agent FROM reservation r WHERE r.id = quota_event.reservation),
  voided = CASE WHEN (SELECT r.state FROM reservation r WHERE r.id = quota_event.reservation) = 'void' THEN 1 ELSE 0 END;
DROP INDEX quota_sum;
CREATE INDEX quota_sum ON quota_event (goal, voided, at, reserved_usd_micros, spent_usd_micros, reserved_slots,
  spent_slots, reserved_tokens, spent_tokens, reserved_wall_ms, spent_wall_ms, reserved_compute_ms, spent_compute_ms,
  reserved_attempts, spent_attempts);
CREATE INDEX quota_agent ON quota_event (goal, agent) WHERE agent IS NOT NULL;
CREATE INDEX quota_reservation ON quota_event (reservation);
CREATE INDEX lease_expiry ON lease (expires_at) WHERE released_at IS NULL;
ALTER TABLE acceptance ADD COLUMN requirement TEXT;
`
  },
  { version: 3, name: "governance, complete", sql: complete.join("\n") },
  { version: 4, name: "bounds beside a turn", sql: boundsBesideIndex }
]
