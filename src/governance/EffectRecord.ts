/**
 * The record of an external effect: one operation outside, under one id, and what is known of it.
 * Promise: what was declared, asked, answered, read back and stopped stands in it as separate facts; whether it is unresolved is
 * a reading of them. The operation itself is not kept, only its digest. Rules: G6, G60, G61, G62.
 */
import * as Result from "effect/Result"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { EffectState, EffectUnresolved } from "./EffectError.ts"
import { type NotFound, notFound } from "./GovernanceError.ts"
import { fact, recordTable } from "./Handler.ts"
import type { JournalEvent, Load } from "./Module.ts"
import type { OperationKind, ReadBackAnswer } from "./OperationProvider.ts"

export const effectTables = `
CREATE TABLE external_effect (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT REFERENCES todo (id),
  agent TEXT,
  provider TEXT NOT NULL,
  kind TEXT NOT NULL,
  declared TEXT NOT NULL,
  operation TEXT NOT NULL,
  summary TEXT NOT NULL,
  after TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'dispatched', 'confirmed', 'refused', 'unknown')),
  attempts INTEGER NOT NULL,
  earlier_open INTEGER NOT NULL,
  driver TEXT,
  supervisor TEXT,
  claim TEXT,
  last_read_back TEXT,
  outcome TEXT,
  stop TEXT,
  ended TEXT NOT NULL,
  unresolved INTEGER NOT NULL,
  planned_at INTEGER NOT NULL,
  dispatched_at INTEGER,
  changed_at INTEGER NOT NULL
);
CREATE INDEX effect_goal ON external_effect (goal, planned_at, id);
CREATE INDEX effect_unresolved ON external_effect (goal, id) WHERE unresolved = 1;
CREATE INDEX effect_provider ON external_effect (provider, planned_at, id) WHERE unresolved = 1;
CREATE INDEX effect_todo ON external_effect (todo, id) WHERE unresolved = 1;
CREATE INDEX effect_planned ON external_effect (goal, id) WHERE state = 'planned';
CREATE INDEX effect_open ON external_effect (operation) WHERE state IN ('dispatched', 'unknown');
`

export type EffectStates = "planned" | "dispatched" | "confirmed" | "refused" | "unknown"

/** How it came to be known what became of an effect. */
export interface EffectOutcome {
  /** `provider`: it answered the request. `readBack`: it said so when asked later. `person`: somebody vouches. `planner`: given up before it could happen. */
  readonly by: "provider" | "readBack" | "person" | "planner"
  readonly who: string | null
  readonly summary: string
  /** The provider's own reference. */
  readonly receipt: string | null
  readonly evidence: readonly string[]
  readonly at: number
}

/** A stop: that it was asked for, and, apart from that, who saw that it happened. */
export interface EffectStop {
  /** `unknown`: asked for, and the device gave no answer or does not stand still. */
  readonly state: "requested" | "confirmed" | "unknown"
  readonly requestedBy: string
  readonly reason: string
  readonly requestedAt: number
  readonly confirmedBy: "device" | "person" | null
  readonly who: string | null
  /** What was seen last. */
  readonly summary: string
  readonly evidence: readonly string[]
  readonly confirmedAt: number | null
}

/** Something on our side that ended. It says nothing of the device (G61). */
export interface EndedFact {
  readonly by: string
  readonly summary: string
  readonly at: number
}

export interface EffectRecord {
  /** The idempotency key that the provider is handed. */
  readonly id: string
  readonly goal: string
  readonly todo: string | null
  /** Who held the todo when it was handed over. */
  readonly agent: string | null
  readonly provider: string
  readonly kind: string
  /** What the kind declared when the effect was planned. */
  readonly declared: OperationKind
  /** Digest of provider, kind and operation. */
  readonly operation: string
  /** What it does, in public words. */
  readonly summary: string
  /** Effects that must be confirmed before it. */
  readonly after: readonly string[]
  readonly state: EffectStates
  /** How often it was handed over. */
  readonly attempts: number
  /** Whether an attempt before the last one may have been carried out. */
  readonly earlierOpen: boolean
  /** The process that handed it over last. */
  readonly driver: ProcessIdentity | null
  readonly supervisor: string | null
  /**
   * What the provider said of the last attempt where that is no more than a claim: that it was done, for a kind without read-back
   * (G63); that it was refused, while an earlier attempt may have been carried out.
   */
  readonly claim: "confirmed" | "refused" | null
  /** What reading back gave since it was handed over last. */
  readonly lastReadBack: ReadBackAnswer["state"] | "unavailable" | null
  readonly outcome: EffectOutcome | null
  readonly stop: EffectStop | null
  readonly ended: { readonly model: EndedFact | null; readonly process: EndedFact | null }
  /** Whether it holds up whatever depends on it: handed over without a known fate, or a stop that is not confirmed. */
  readonly unresolved: boolean
  readonly plannedAt: number
  readonly dispatchedAt: number | null
  readonly changedAt: number
}

export const effectTable = recordTable<EffectRecord>("external_effect", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  agent: "value",
  provider: "value",
  kind: "value",
  declared: "json",
  operation: "value",
  summary: "value",
  after: "json",
  state: "value",
  attempts: "value",
  earlierOpen: "flag",
  driver: "json",
  supervisor: "value",
  claim: "value",
  lastReadBack: "value",
  outcome: "json",
  stop: "json",
  ended: "json",
  unresolved: "flag",
  plannedAt: "value",
  dispatchedAt: "value",
  changedAt: "value"
})

const holdsUp = ({ state, stop }: Pick<EffectRecord, "state" | "stop">): boolean =>
  state === "dispatched" || state === "unknown" || (stop !== null && stop.state !== "confirmed")

/** The effect after a change, and the fact that tells it. */
export const changed = (
  happened: string,
  effect: EffectRecord,
  change: Partial<EffectRecord>,
  now: number
): { readonly effect: EffectRecord; readonly event: JournalEvent } => {
  const next = { ...effect, ...change, changedAt: now }
  const record = { ...next, unresolved: holdsUp(next) }
  return { effect: record, event: fact(`effect.${happened}`, record.id, record) }
}

export const knownEffect = (effect: EffectRecord | undefined, id: string): Result.Result<EffectRecord, NotFound> =>
  effect === undefined ? Result.fail(notFound("effect", id)) : Result.succeed(effect)

export const effectState = (effect: EffectRecord, remedy: string): EffectState =>
  new EffectState({
    message: `Effect ${effect.id} is ${effect.state}.`,
    remedy,
    effect: effect.id,
    state: effect.state
  })

/** The ids of a todo's effects that hold it up, at most a hundred. */
export function* loadUnresolvedOf(todo: string): Load<readonly string[]> {
  const found = yield {
    sql: "SELECT id FROM external_effect WHERE todo = ? AND unresolved = 1 ORDER BY id LIMIT 100",
    params: [todo]
  }
  return found.map((row) => String(row["id"]))
}

/** Nothing is completed or retired while an effect of it is unresolved (G61). */
export const noneUnresolved = (id: string, effects: readonly string[]): Result.Result<undefined, EffectUnresolved> =>
  effects.length === 0
    ? Result.succeed(undefined)
    : Result.fail(
        new EffectUnresolved({
          message: `${id} does not end yet: what became of ${effects.join(", ")} is not known.`,
          remedy:
            "Activate the provider, which reads them back, or let a person who looked say so with Effects.resolve or Effects.confirmStopped.",
          id,
          effects
        })
      )
