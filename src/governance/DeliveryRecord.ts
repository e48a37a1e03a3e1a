/**
 * The record of a delivery: one result of some work, on its way back to where the work was asked for.
 * Promise: a result arises in the commit that settles its work, so none is forgotten; its destination and its content are
 * fixed by then and no sending can name others; how often it is sent again, its id stays. Rules: G90, G91.
 * The commands are in Delivery.ts; sending is the session's (session/DeliveryDriver.ts).
 */
import * as Schema from "effect/Schema"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { IdText } from "./Field.ts"
import { fact, recordTable } from "./Handler.ts"
import type { DecideContext, JournalEvent } from "./Module.ts"
import type { TodoRecord } from "./TodoRecord.ts"

/**
 * Where work was asked for. All three are words of the application, which alone resolves them: a destination is a name and no
 * address with a secret in it (G6).
 */
export const Origin = Schema.Struct({
  destination: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(500)),
  channel: IdText,
  /** The request that this work answers, as the asking side names it. */
  requestId: IdText
})
export type Origin = typeof Origin.Type

export const sameOrigin = (a: Origin, b: Origin): boolean =>
  a.destination === b.destination && a.channel === b.channel && a.requestId === b.requestId

/** What is delivered: the facts of the settlement. Whatever is larger is read by its `effectId` or by its evidence. */
export interface DeliveredResult {
  /** A settlement's outcome; `completed` for a todo that was completed outside a turn. */
  readonly outcome: string
  readonly accepted: boolean
  readonly todoState: string
  /** `Settlements.get` reads the receipt by it. */
  readonly effectId: string
  readonly settlement: string | null
  readonly candidate: string | null
  readonly evidence: readonly string[]
  readonly spend: { readonly usd: number | "unknown"; readonly slots: number }
}

/**
 * `accepted`: the result stands, nothing is sent. `dispatched`: a sending was begun and its end is not known yet. `confirmed`,
 * `refused`: the receiver's word. `unknown`: the sending ended and nobody knows how. `withdrawn`: not there, and not to be sent any more.
 */
type Standing = "accepted" | "dispatched" | "confirmed" | "unknown" | "refused" | "withdrawn"

export interface DeliveryRecord {
  /** Also the key under which a receiver sees one message, however often it is sent. */
  readonly id: string
  readonly goal: string
  readonly todo: string
  readonly origin: Origin
  readonly result: DeliveredResult
  readonly state: Standing
  /** What sends it; fixed while its fate is open. After it is known that nothing left another one may. */
  readonly provider: string | null
  /** How often a sending was begun; each is journaled before it starts. */
  readonly attempts: number
  /** Whether a sending before the last one may have arrived. */
  readonly earlierOpen: boolean
  /** The process that sends, or sent last. */
  readonly fence: ProcessIdentity | null
  /** The receiver's own name for what it got. */
  readonly receipt: string | null
  readonly resolvedBy: "reply" | "readBack" | "person" | "reader" | null
  readonly reason: string | null
  readonly acceptedAt: number
  readonly dispatchedAt: number | null
  readonly resolvedAt: number | null
  /** When the user read it: a fact apart from its arrival. */
  readonly readAt: number | null
  readonly changedAt: number
}

/** What keeps a result from being delivered is not decided yet. */
export const undelivered = "state IN ('accepted', 'dispatched', 'unknown')"

export const deliveryTables = `
ALTER TABLE todo ADD COLUMN origin TEXT;
CREATE TABLE delivery (
  id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT NOT NULL REFERENCES todo (id),
  origin TEXT NOT NULL,
  result TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('accepted', 'dispatched', 'confirmed', 'unknown', 'refused', 'withdrawn')),
  provider TEXT,
  attempts INTEGER NOT NULL,
  earlier_open INTEGER NOT NULL,
  fence TEXT,
  receipt TEXT,
  resolved_by TEXT,
  reason TEXT,
  accepted_at INTEGER NOT NULL,
  dispatched_at INTEGER,
  resolved_at INTEGER,
  read_at INTEGER,
  changed_at INTEGER NOT NULL
);
CREATE INDEX delivery_goal ON delivery (goal, accepted_at, id);
CREATE INDEX delivery_todo ON delivery (todo, accepted_at, id);
CREATE INDEX delivery_undelivered ON delivery (goal, accepted_at, id) WHERE ${undelivered};
CREATE INDEX delivery_due ON delivery (accepted_at, id) WHERE ${undelivered};
`

export const deliveryTable = recordTable<DeliveryRecord>("delivery", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  origin: "json",
  result: "json",
  state: "value",
  provider: "value",
  attempts: "value",
  earlierOpen: "flag",
  fence: "json",
  receipt: "value",
  resolvedBy: "value",
  reason: "value",
  acceptedAt: "value",
  dispatchedAt: "value",
  resolvedAt: "value",
  readAt: "value",
  changedAt: "value"
})

/** The undelivered results, of a goal or of all, oldest first. */
export const findUndelivered = (goal: string | undefined, limit: number) =>
  goal === undefined
    ? deliveryTable.find(`${undelivered} ORDER BY accepted_at, id LIMIT ?`, limit)
    : deliveryTable.find(`goal = ? AND ${undelivered} ORDER BY accepted_at, id LIMIT ?`, goal, limit)

/** The delivery that this result asks for. */
export const accepted = (
  work: { readonly goal: string; readonly todo: string; readonly origin: Origin },
  result: DeliveredResult,
  { now, newId }: DecideContext
): { readonly delivery: DeliveryRecord; readonly event: JournalEvent } => {
  const delivery: DeliveryRecord = {
    id: newId("delivery"),
    goal: work.goal,
    todo: work.todo,
    origin: work.origin,
    result,
    state: "accepted",
    provider: null,
    attempts: 0,
    earlierOpen: false,
    fence: null,
    receipt: null,
    resolvedBy: null,
    reason: null,
    acceptedAt: now,
    dispatchedAt: null,
    resolvedAt: null,
    readAt: null,
    changedAt: now
  }
  return { delivery, event: fact("delivery.accepted", delivery.id, delivery) }
}

export const withdrawn = (delivery: DeliveryRecord, reason: string, now: number): JournalEvent =>
  fact("delivery.withdrawn", delivery.id, {
    ...delivery,
    state: "withdrawn",
    reason,
    changedAt: now
  } satisfies DeliveryRecord)

/** What a result asks for when its todo has an origin: a delivery, in the same commit (G91). */
export const resultOf = (todo: TodoRecord, result: Omit<DeliveredResult, "todoState">, context: DecideContext) => {
  const { id, goal, origin } = todo
  if (origin === null) return { events: [], named: {} }
  const { delivery, event } = accepted({ goal, todo: id, origin }, { ...result, todoState: todo.state }, context)
  return { events: [event], named: { delivery: delivery.id } }
}
