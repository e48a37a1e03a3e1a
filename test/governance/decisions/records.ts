/**
 * Records for tests of pure decisions: no store, no clock.
 */
import { sha256 } from "../../../src/base/Digest.ts"
import { noUnits } from "../../../src/governance/Field.ts"
import type { LeaseRecord } from "../../../src/governance/Lease.ts"
import type { DecideContext } from "../../../src/governance/Module.ts"
import type { Account } from "../../../src/governance/QuotaSum.ts"
import type { TodoRecord } from "../../../src/governance/TodoRecord.ts"

export const now = 1_800_000_000_000

/** Ids in the order in which they were asked for. */
export const context = (): DecideContext => {
  let next = 0
  return { now, newId: (kind) => `${kind}-${++next}`, newToken: () => `token-${++next}` }
}

export const todo = (change: Partial<TodoRecord> = {}): TodoRecord => ({
  id: "todo-a",
  goal: "goal-a",
  title: "Find the fault",
  state: "open",
  priority: 0,
  dependsOn: [],
  capabilities: [],
  writeScopes: [],
  excludedAgents: [],
  requiredReads: [],
  acceptance: null,
  deferredUntil: null,
  deferReason: null,
  continuation: null,
  supersededBy: null,
  origin: null,
  revision: 3,
  addedAt: 1,
  changedAt: 2,
  ...change
})

export const lease = (change: Partial<LeaseRecord> = {}): LeaseRecord => ({
  todo: "todo-a",
  id: "lease-a",
  goal: "goal-a",
  owner: "ada",
  binding: null,
  epoch: 2,
  version: 5,
  tokenDigest: sha256("secret"),
  writeScopes: [],
  ttlMs: 1000,
  acquiredAt: now - 500,
  expiresAt: now + 500,
  releasedAt: null,
  previous: null,
  ...change
})

export const account = (change: Partial<Account> = {}): Account => ({
  goal: "goal-a",
  agent: null,
  limits: { units: { usd: 10_000_000, slots: 4 }, windowMs: null },
  totals: { spent: { ...noUnits, usd: 3_000_000, slots: 1 }, reserved: { ...noUnits, usd: 2_000_000, slots: 1 } },
  ...change
})
