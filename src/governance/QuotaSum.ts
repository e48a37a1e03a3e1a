/**
 * The events of the quota ledger and the one sum over them, which admission, status, history and receipts all read.
 * Promise: what is held counts until it is given back, whenever it was reserved; what was spent counts while its event lies in
 * the window, both ends included, and an event dated ahead counts too; a voided spend takes its own events out and nothing
 * else, so no sum falls below zero. Rules: G50, G52, G53, G57; C59, C60.
 */
import { type Meter, meters, noUnits, plus, shown, type Units } from "./Field.ts"
import { type AgentRecord, type Budget, type GoalRecord, type Limits, limitsOf, showLimits } from "./Goal.ts"
import { fact, row } from "./Handler.ts"
import type { Row } from "../sqlite/Database.ts"
import type { JournalEvent, Load, Statement } from "./Module.ts"
import { type CostRole, heldOf, nonzero, type ReservationRecord, reservationTable } from "./ReservationRecord.ts"

/** By how much an event changes what is held and what was spent. */
export interface Delta {
  readonly reserved?: Partial<Units>
  readonly spent?: Partial<Units>
}

export interface Totals {
  readonly reserved: Units
  readonly spent: Units
}

/** One event of the ledger: the reservation as it is now, and by how much each sum changes. */
export interface QuotaEvent {
  readonly kind: "reserve" | "spend" | "void" | "trueUp"
  readonly reservation: ReservationRecord
  /** By name of side and meter, such as `spentUsdMicros`: dollars and slots always, a further meter where it changes. */
  readonly delta: { readonly [name: string]: number }
  readonly reason: string | null
}

const sides = ["reserved", "spent"] as const
type Side = (typeof sides)[number]

const nameOf = (side: Side, meter: Meter): string =>
  side + (meter === "usd" ? "UsdMicros" : meter[0]!.toUpperCase() + meter.slice(1))
const columnOf = (side: Side, meter: Meter): string =>
  nameOf(side, meter).replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const flat = (delta: Delta): QuotaEvent["delta"] =>
  Object.fromEntries(
    sides.flatMap((side) =>
      meters
        .map((meter) => [nameOf(side, meter), delta[side]?.[meter] ?? 0, meter] as const)
        .filter(([, units, meter]) => units !== 0 || meter === "usd" || meter === "slots")
        .map(([name, units]) => [name, units])
    )
  )

export const ledger = (
  kind: QuotaEvent["kind"],
  reservation: ReservationRecord,
  delta: Delta,
  reason: string | null = null
): JournalEvent =>
  fact(`quota.${kind}`, reservation.id, { kind, reservation, delta: flat(delta), reason } satisfies QuotaEvent)

const columns = sides.flatMap((side) => meters.map((meter) => [columnOf(side, meter), nameOf(side, meter)] as const))
const insert =
  "INSERT INTO quota_event (seq, at, goal, agent, kind, reservation, effect_id, reason, " +
  `${columns.map(([column]) => column).join(", ")}) VALUES (${Array(8 + columns.length)
    .fill("?")
    .join(", ")})`

export const projectQuota = (
  event: JournalEvent,
  meta: { readonly seq: number; readonly at: number }
): readonly Statement[] => {
  const { kind, reservation, delta, reason } = event.data as unknown as QuotaEvent
  const about = [meta.seq, meta.at, reservation.goal, reservation.agent, kind, reservation.id, reservation.effectId]
  return [
    { sql: insert, params: [...about, reason, ...columns.map(([, name]) => delta[name] ?? 0)] },
    reservationTable.put(reservation),
    // A void takes back what its reservation held or spent, whenever that was: all its events leave every sum (G52).
    ...(kind === "void"
      ? [{ sql: "UPDATE quota_event SET voided = 1 WHERE reservation = ?", params: [reservation.id] }]
      : [])
  ]
}

// --- the sum ---------------------------------------------------------------------------------------------------------

/** What is summed: a goal's events, or those of one agent or one reservation in it. */
export interface Summed {
  readonly goal: string
  readonly agent?: string
  readonly reservation?: string
  readonly role?: CostRole
  readonly windowMs: number | null
}

/** The sum (G53). `which` leaves out meters that nobody asks for. */
export function* loadTotals(of: Summed, now: number, which: readonly Meter[] = meters): Load<Totals> {
  const inWindow = of.windowMs === null ? "" : "CASE WHEN at >= ? THEN "
  const sums = which.flatMap((meter) => [
    `SUM(${columnOf("reserved", meter)}) AS r_${meter}`,
    `SUM(${inWindow}${columnOf("spent", meter)}${inWindow === "" ? "" : " ELSE 0 END"}) AS s_${meter}`
  ])
  const from = of.windowMs === null ? [] : which.map(() => now - of.windowMs!)
  const where = ["goal = ? AND voided = 0"]
  const params: string[] = [of.goal]
  for (const field of ["agent", "reservation"] as const) {
    if (of[field] === undefined) continue
    where.push(`${field} = ?`)
    params.push(of[field])
  }
  if (of.role !== undefined) {
    where.push("(SELECT COALESCE(r.role, 'worker') FROM reservation r WHERE r.id = quota_event.reservation) = ?")
    params.push(of.role)
  }
  const sum = yield* row(`SELECT ${sums.join(", ")} FROM quota_event WHERE ${where.join(" AND ")}`, ...from, ...params)
  const side = (prefix: string): Units => ({
    ...noUnits,
    ...Object.fromEntries(which.map((meter) => [meter, Number(sum?.[`${prefix}_${meter}`] ?? 0)]))
  })
  return { reserved: side("r"), spent: side("s") }
}

/** A budget beside what was used of it. */
export interface Account {
  readonly goal: string
  /** Null: the goal's own account. */
  readonly agent: string | null
  readonly limits: Limits
  readonly totals: Totals
}

/** The accounts that a cost of this agent counts in: the goal's, and the agent's own where it has limits (G50). */
export function* loadAccounts(
  goal: GoalRecord | undefined,
  agent: AgentRecord | undefined,
  now: number
): Load<readonly Account[]> {
  if (goal === undefined) return []
  const account = function* (limits: Limits, agentId: string | null): Load<Account> {
    const of = { goal: goal.id, windowMs: limits.windowMs, ...(agentId === null ? {} : { agent: agentId }) }
    // What no figure shows and no limit asks for is not summed.
    const counted = meters.filter((meter) => meter === "usd" || meter === "slots" || limits.units[meter] !== undefined)
    return { goal: goal.id, agent: agentId, limits, totals: yield* loadTotals(of, now, counted) }
  }
  const own = yield* account(limitsOf(goal), null)
  return agent === undefined || agent.budget === null ? [own] : [own, yield* account(agent.budget, agent.agentId)]
}

// --- figures ---------------------------------------------------------------------------------------------------------

/** Amounts as people read them: dollars and slots, and each further meter that the budget limits or the event changes. */
export interface Figures {
  readonly usd: number
  readonly slots: number
  readonly tokens?: number
  readonly wallMs?: number
  readonly computeMs?: number
  readonly attempts?: number
}

const showUnits = (units: Units, further: Partial<Units>): Figures =>
  Object.fromEntries(
    meters
      .filter((meter) => meter === "usd" || meter === "slots" || further[meter] !== undefined)
      .map((meter) => [meter, shown(meter, units[meter])])
  ) as unknown as Figures

/** What a reservation holds, as people read it. */
export const showHeld = (held: ReservationRecord | undefined): Figures =>
  showChange(held === undefined ? noUnits : heldOf(held))

const showChange = (units: Units): Figures => showUnits(units, nonzero(units))

/** The span whose spends count, both ends included; what is dated after its end counts too. */
export interface Window {
  readonly ms: number
  readonly from: number
  readonly to: number
}

/** The figures of one account, all from one sum; `agent` null says that they are the goal's (G56: a figure states its scope). */
export interface AccountFigures {
  readonly goal: string
  readonly agent: string | null
  readonly budget: Budget
  /** Null: the limits hold for the whole life. */
  readonly window: Window | null
  /** Held for what may still cost, whenever it was reserved. */
  readonly reserved: Figures
  readonly spent: Figures
  /** Limit minus spent minus reserved, not below zero; null where dollars or slots have no limit. */
  readonly remaining: Budget
}

export const windowOf = ({ windowMs }: Limits, now: number): Window | null =>
  windowMs === null ? null : { ms: windowMs, from: now - windowMs, to: now }

export const figures = ({ goal, agent, limits, totals }: Account, now: number): AccountFigures => {
  const left = Object.fromEntries(
    Object.entries(limits.units).map(([meter, limit]) => {
      const used = totals.spent[meter as Meter] + totals.reserved[meter as Meter]
      return [meter, Math.max(0, limit - used)]
    })
  )
  return {
    goal,
    agent,
    budget: showLimits(limits),
    window: windowOf(limits, now),
    reserved: showUnits(totals.reserved, limits.units),
    spent: showUnits(totals.spent, limits.units),
    remaining: showLimits({ units: left, windowMs: null })
  }
}

/** What an event of the ledger changed, read from its row. */
export const showDelta = (event: Row): { readonly reserved: Figures; readonly spent: Figures } => {
  const side = (of: Side) =>
    showChange(
      Object.fromEntries(meters.map((meter) => [meter, Number(event[columnOf(of, meter)])])) as unknown as Units
    )
  return { reserved: side("reserved"), spent: side("spent") }
}

export const negated = (units: Units): Units =>
  Object.fromEntries(meters.map((meter) => [meter, units[meter] === 0 ? 0 : -units[meter]])) as Units

/** What an event changed, apart from the aggregate that it changed: that one may fall by itself as events leave it (G57). */
export interface EventReceipt {
  readonly event: { readonly kind: QuotaEvent["kind"]; readonly reserved: Figures; readonly spent: Figures }
  readonly aggregate: {
    readonly window: Window | null
    readonly before: { readonly reserved: Figures; readonly spent: Figures }
    readonly after: { readonly reserved: Figures; readonly spent: Figures }
  }
}

/**
 * The receipt of an event: both aggregates at the same moment, so that nothing but the event lies between them. `counted` is
 * by how much the aggregate changes, which for the void of a spend that has left the window is nothing.
 */
export const eventReceipt = (
  kind: QuotaEvent["kind"],
  delta: Delta,
  account: Account,
  now: number,
  counted: Delta = delta
): EventReceipt => {
  const { limits, totals } = account
  const change = (of?: Partial<Units>) => showChange(plus(noUnits, of ?? {}))
  const show = (of: Totals) => ({
    reserved: showUnits(of.reserved, limits.units),
    spent: showUnits(of.spent, limits.units)
  })
  const after = {
    reserved: plus(totals.reserved, counted.reserved ?? {}),
    spent: plus(totals.spent, counted.spent ?? {})
  }
  return {
    event: { kind, reserved: change(delta.reserved), spent: change(delta.spent) },
    aggregate: { window: windowOf(limits, now), before: show(totals), after: show(after) }
  }
}
