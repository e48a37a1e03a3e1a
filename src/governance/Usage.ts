/**
 * Tokens: what the providers of a goal's work say they used, kept beside the cost that it belongs to.
 * Promise: four disjoint buckets, their provider's record by digest, each message once in a goal, whichever turn or replay
 * reports it again; coordinator, workers, evaluator and failed attempts in one sum, and every figure says whose it is.
 * Rules: G51, G53, G56; C69. The arithmetic is in base/TokenUsage.ts.
 */
import * as Schema from "effect/Schema"
import { digestJson, type Json } from "../base/Digest.ts"
import { normaliseUsage, type NormalisedUsage, ReportedUsage, usageKey } from "../base/TokenUsage.ts"
import { fact, recordTable, row, rows } from "./Handler.ts"
import type { JournalEvent, Load, Statement } from "./Module.ts"
import { privateField } from "./PublicText.ts"
import type { CostOwner, CostRole } from "./ReservationRecord.ts"

export const UsageReport = Schema.Array(ReportedUsage).check(Schema.isMaxLength(1000))
export type UsageReport = typeof UsageReport.Type

/** One report: what one dispatch, or one call outside a turn, used. */
export interface UsageRecord {
  /** The effect whose cost it belongs to. */
  readonly effectId: string
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly agent: string | null
  readonly role: CostRole
  readonly messages: number
  readonly repeated: number
  readonly inconsistent: number
  readonly inputUncached: number
  readonly inputUncachedUnknown: number
  readonly cacheRead: number
  readonly cacheReadUnknown: number
  readonly cacheWrite: number
  readonly cacheWriteUnknown: number
  readonly output: number
  readonly outputUnknown: number
  readonly total: number
  readonly totalUnknown: number
  /** Digest of what was reported, with the providers' own records in it. */
  readonly digest: string
  /** The same in full, where it is short and may be public. */
  readonly reported: UsageReport | null
  readonly recordedAt: number
}

export const usageTables = `
ALTER TABLE reservation ADD COLUMN role TEXT;
ALTER TABLE turn ADD COLUMN usage TEXT;
CREATE TABLE usage (
  effect_id TEXT PRIMARY KEY,
  goal TEXT NOT NULL REFERENCES goal (id),
  todo TEXT,
  turn TEXT,
  agent TEXT,
  role TEXT NOT NULL CHECK (role IN ('coordinator', 'worker', 'evaluator')),
  messages INTEGER NOT NULL,
  repeated INTEGER NOT NULL,
  inconsistent INTEGER NOT NULL,
  input_uncached INTEGER NOT NULL,
  input_uncached_unknown INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_read_unknown INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cache_write_unknown INTEGER NOT NULL,
  output INTEGER NOT NULL,
  output_unknown INTEGER NOT NULL,
  total INTEGER NOT NULL,
  total_unknown INTEGER NOT NULL,
  digest TEXT NOT NULL,
  reported TEXT,
  recorded_at INTEGER NOT NULL
);
CREATE INDEX reservation_paid ON reservation (goal) WHERE state IN ('spent', 'owed');
CREATE INDEX usage_goal ON usage (goal, recorded_at, effect_id);
CREATE TABLE usage_message (
  goal TEXT NOT NULL,
  message TEXT NOT NULL,
  effect_id TEXT NOT NULL,
  PRIMARY KEY (goal, message)
);
CREATE INDEX usage_message_effect ON usage_message (effect_id);
`

export const usageTable = recordTable<UsageRecord>("usage", ["effectId"], {
  effectId: "value",
  goal: "value",
  todo: "value",
  turn: "value",
  agent: "value",
  role: "value",
  messages: "value",
  repeated: "value",
  inconsistent: "value",
  inputUncached: "value",
  inputUncachedUnknown: "value",
  cacheRead: "value",
  cacheReadUnknown: "value",
  cacheWrite: "value",
  cacheWriteUnknown: "value",
  output: "value",
  outputUnknown: "value",
  total: "value",
  totalUnknown: "value",
  digest: "value",
  reported: "json",
  recordedAt: "value"
})

type Recorded = UsageRecord & { readonly keys: readonly string[] }

export const projectUsage = (event: JournalEvent): readonly Statement[] => {
  if (event.type === "usage.withdrawn") {
    return ["usage", "usage_message"].map((table) => ({
      sql: `DELETE FROM ${table} WHERE effect_id = ?`,
      params: [event.entity]
    }))
  }
  const { keys, ...record } = event.data as unknown as Recorded
  return [
    usageTable.put(record),
    ...keys.map((key) => ({
      sql: "INSERT INTO usage_message (goal, message, effect_id) VALUES (?, ?, ?) ON CONFLICT (goal, message) DO NOTHING",
      params: [record.goal, key, record.effectId]
    }))
  ]
}

/** A cost is taken back, and its tokens with it: whoever reports the same messages under the right effect counts them. */
export const withdrawUsage = (record: UsageRecord): JournalEvent => fact("usage.withdrawn", record.effectId, record)

/** The messages of a report that count already in the goal. */
export function* loadCounted(goal: string, report: UsageReport | undefined): Load<ReadonlySet<string>> {
  const counted = new Set<string>()
  for (const key of new Set((report ?? []).map(usageKey))) {
    if (key === undefined) continue
    const found = yield* row("SELECT 1 FROM usage_message WHERE goal = ? AND message = ?", goal, key)
    if (found !== undefined) counted.add(key)
  }
  return counted
}

/** Whose report it is, and of which effect. */
export type UsageOwner = CostOwner & { readonly effectId: string }

const mostBytes = 4000

/** A report beside the cost that it belongs to; `used` is what it comes to. */
export const recordUsage = (
  cost: UsageOwner,
  report: UsageReport,
  counted: ReadonlySet<string>,
  now: number
): { readonly event: JournalEvent; readonly used: NormalisedUsage } => {
  const used = normaliseUsage(report, counted)
  const text = JSON.stringify(report)
  const open = text.length <= mostBytes && privateField(report as unknown as Json) === undefined
  const record: Recorded = {
    effectId: cost.effectId,
    goal: cost.goal,
    todo: cost.todo,
    turn: cost.turn,
    agent: cost.agent,
    role: cost.role ?? "worker",
    messages: used.messages,
    repeated: used.repeated,
    inconsistent: used.inconsistent,
    inputUncached: used.inputUncached.known,
    inputUncachedUnknown: used.inputUncached.unknown,
    cacheRead: used.cacheRead.known,
    cacheReadUnknown: used.cacheRead.unknown,
    cacheWrite: used.cacheWrite.known,
    cacheWriteUnknown: used.cacheWrite.unknown,
    output: used.output.known,
    outputUnknown: used.output.unknown,
    total: used.total.known,
    totalUnknown: used.total.unknown,
    digest: digestJson(report as unknown as Json),
    reported: open ? report : null,
    recordedAt: now,
    keys: used.keys
  }
  return { event: fact("usage.recorded", cost.effectId, record), used }
}

/** The sum when nothing of it is missing; null when it is not known. */
export const knownTotal = (used: NormalisedUsage): number | null => (used.total.unknown === 0 ? used.total.known : null)

// --- figures ---------------------------------------------------------------------------------------------------------

/** Tokens that are known, and how many messages did not say; with `unknown` above 0 the known ones are a lower bound. */
export interface TokenFigure {
  readonly known: number
  readonly unknown: number
}

/** The tokens of a scope: a goal, or what one agent or one role used in it. Null: all of them. */
export interface UsageFigures {
  readonly goal: string
  readonly agent: string | null
  readonly role: CostRole | null
  readonly inputUncached: TokenFigure
  readonly cacheRead: TokenFigure
  readonly cacheWrite: TokenFigure
  readonly output: TokenFigure
  readonly total: TokenFigure
  readonly messages: number
  readonly reports: number
  /** Costs for which nobody reported tokens: how many those took is unknown. */
  readonly unreported: number
}

export interface UsageScope {
  readonly goal: string
  readonly agent?: string | undefined
  readonly role?: CostRole | undefined
}

const names = ["input_uncached", "cache_read", "cache_write", "output", "total"] as const

/** The sum over the reports of a scope, for the whole life of the goal. Linear in the reports of the goal. */
export function* loadUsage(scope: UsageScope): Load<UsageFigures> {
  const { where, params } = whereOf(scope)
  const sums = [...names, ...names.map((name) => `${name}_unknown`), "messages"].map(
    (name) => `SUM(${name}) AS ${name}`
  )
  const sum = yield* row(`SELECT count(*) AS reports, ${sums.join(", ")} FROM usage WHERE ${where}`, ...params)
  const number = (name: string) => Number(sum?.[name] ?? 0)
  const costs = yield* row(
    `SELECT count(*) AS n FROM reservation WHERE ${where.replace("role =", "COALESCE(role, 'worker') =")} ` +
      "AND state IN ('spent', 'owed') AND effect_id NOT IN (SELECT effect_id FROM usage WHERE goal = ?)",
    ...params,
    scope.goal
  )
  const figure = (name: string): TokenFigure => ({ known: number(name), unknown: number(`${name}_unknown`) })
  return {
    goal: scope.goal,
    agent: scope.agent ?? null,
    role: scope.role ?? null,
    inputUncached: figure("input_uncached"),
    cacheRead: figure("cache_read"),
    cacheWrite: figure("cache_write"),
    output: figure("output"),
    total: figure("total"),
    messages: number("messages"),
    reports: number("reports"),
    unreported: Number(costs?.["n"] ?? 0)
  }
}

const whereOf = ({ goal, agent, role }: UsageScope) => {
  const named = Object.entries({ goal, agent, role }).filter(([, value]) => value !== undefined)
  return {
    where: named.map(([field]) => `${field} = ?`).join(" AND "),
    params: named.map(([, value]) => String(value))
  }
}

/** The reports of a scope, oldest first. */
export function* loadReports(scope: UsageScope, limit: number): Load<readonly UsageRecord[]> {
  const { where, params } = whereOf(scope)
  const found = yield* rows(
    `SELECT * FROM usage WHERE ${where} ORDER BY recorded_at, effect_id LIMIT ?`,
    ...params,
    limit
  )
  return found.map(usageTable.read)
}

/** The usage of a dispatch of a turn, as the turn keeps it, and its fact. */
export const turnUsage = (
  turn: { readonly effectId: string } & Omit<CostOwner, "turn" | "role"> & { readonly id: string },
  held: CostOwner | undefined,
  report: UsageReport | undefined,
  counted: ReadonlySet<string>,
  now: number
) => {
  if (report === undefined) return { usage: null, events: [] }
  const { goal, todo, agent, effectId } = turn
  const owner: UsageOwner = { goal, todo, agent, effectId, turn: turn.id, role: held?.role ?? "worker" }
  const { event, used } = recordUsage(owner, report, counted, now)
  const { messages, repeated } = used
  return { usage: { total: knownTotal(used), messages, repeated }, events: [event] }
}
