/**
 * How an upper bound is held and a cost put in its place. Pure.
 * Promise: recording a cost that happened is never refused, reserving beyond a limit always is; an unknown cost keeps what was
 * held. Rules: G50, G51, G55, G73. The sum is in QuotaSum.ts, the commands are in Quota.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Amounts, costMicros, type Meter, meters, noUnits, shown, type Units, Usd, wholeAmounts } from "./Field.ts"
import { BoundMissing, QuotaExceeded, ReservationClosed } from "./GovernanceError.ts"
import type { DecideContext, JournalEvent } from "./Module.ts"
import { type Account, type Delta, ledger, negated } from "./QuotaSum.ts"
import { type CostOwner, heldOf, holding, nonzero, type ReservationRecord, spentOf } from "./ReservationRecord.ts"

const exceeded = (account: Account, meter: Meter, limit: number, used: number, asked: number): QuotaExceeded => {
  const show = (units: number) => shown(meter, units)
  const whose = account.agent === null ? `Goal ${account.goal}` : `Agent ${account.agent} of goal ${account.goal}`
  const window = account.limits.windowMs === null ? "" : ` in its window of ${account.limits.windowMs} ms`
  return new QuotaExceeded({
    message: `${whose} has ${show(Math.max(0, limit - used))} ${meter} left${window}; ${show(asked)} were asked for.`,
    remedy: "Ask for less, wait for reservations to be trued up, or let the owner open a goal with a larger budget.",
    goal: account.goal,
    agent: account.agent,
    meter,
    limit: show(limit),
    used: show(used),
    asked: show(asked)
  })
}

const boundUnits = (bound: Amounts): Units => ({ ...noUnits, ...wholeOf(bound), usd: costMicros(bound.usd ?? 0) })

const wholeOf = (amounts: Amounts): Partial<Units> =>
  Object.fromEntries(
    meters.filter((meter) => meter !== "usd" && amounts[meter] !== undefined).map((meter) => [meter, amounts[meter]])
  )

/** A cost and its event, and what the event changes. */
export interface Booked {
  readonly reservation: ReservationRecord
  readonly event: JournalEvent
  readonly delta: Delta
}

const fresh = (owner: CostOwner, effectId: string, { now, newId }: DecideContext): ReservationRecord => ({
  ...owner,
  role: owner.role ?? "worker",
  id: newId("reservation"),
  effectId,
  state: "open",
  heldUsdMicros: null,
  heldSlots: 0,
  heldMeters: {},
  spentUsdMicros: null,
  spentSlots: 0,
  spentMeters: {},
  evidence: null,
  reservedAt: now,
  changedAt: now
})

/** Holds an upper bound for an effect (G55). Every meter that an account limits, or the goal requires, needs a bound. */
export const reserve = (
  accounts: readonly Account[],
  required: readonly Meter[],
  owner: CostOwner,
  effectId: string,
  bound: Amounts,
  context: DecideContext
): Result.Result<Booked, QuotaExceeded | BoundMissing> => {
  const limited = new Set([...required, ...accounts.flatMap(({ limits }) => Object.keys(limits.units))])
  const unbound = meters.find((meter) => limited.has(meter) && bound[meter] === undefined)
  if (unbound !== undefined) {
    return Result.fail(
      new BoundMissing({
        message: `Goal ${owner.goal} counts ${unbound}; the reservation names no upper bound for it.`,
        remedy: `Give the most that this can cost as \`${unbound}\`.`,
        meter: unbound
      })
    )
  }
  const units = boundUnits(bound)
  for (const account of accounts) {
    for (const [name, limit] of Object.entries(account.limits.units)) {
      const meter = name as Meter
      const used = account.totals.spent[meter] + account.totals.reserved[meter]
      if (used + units[meter] > limit) return Result.fail(exceeded(account, meter, limit, used, units[meter]))
    }
  }
  const reservation: ReservationRecord = { ...fresh(owner, effectId, context), ...holding(units) }
  const delta: Delta = { reserved: units }
  return Result.succeed({ reservation, delta, event: ledger("reserve", reservation, delta) })
}

/** What an effect came to cost. Unknown is a value of its own and never zero; a meter not named cost what was held for it. */
export const Spend = Schema.Struct({ usd: Schema.Union([Usd, Schema.Literal("unknown")]), ...wholeAmounts })
export type Spend = typeof Spend.Type

const closedRemedies: Record<ReservationRecord["state"], string> = {
  open: "Nothing of it is recorded yet: settle the turn that holds it, or end that with Turns.fail; without a turn, call Quota.spend.",
  owed: "Its cost is unknown: settle it with Quota.trueUp once the cost is known.",
  spent: "Its cost is recorded: read it with Quota.get. A further cost is a spend of its own effect.",
  void: "It was given back, or its cost taken back. A cost is a spend of an effect of its own."
}

export const closed = (reservation: ReservationRecord): ReservationClosed =>
  new ReservationClosed({
    message: `Reservation ${reservation.id} is ${reservation.state}.`,
    remedy: closedRemedies[reservation.state],
    reservation: reservation.id,
    state: reservation.state
  })

const less = (a: Units, b: Units): Units =>
  Object.fromEntries(meters.map((meter) => [meter, a[meter] - b[meter]])) as Units

/**
 * Puts the cost of an effect in the place of its reservation. A known cost frees what was held and counts, also beyond
 * the limit: it happened. An unknown one keeps what was held, and is owed (G55, G73).
 */
export const spendReserved = (
  held: ReservationRecord,
  spend: Spend,
  evidence: string | null,
  now: number,
  kind: "spend" | "trueUp" = "spend"
): Booked => {
  const before = { held: heldOf(held), spent: spentOf(held) }
  const { usd: dollars, ...named } = spend
  const unsaid = held.state === "open" ? before.held : before.spent
  const usd = dollars === "unknown" ? 0 : costMicros(dollars)
  const spent: Units = { ...unsaid, ...wholeOf(named), usd: dollars === "unknown" ? before.spent.usd : usd }
  const { usd: _, slots, ...further } = spent
  const common = {
    ...held,
    heldSlots: 0,
    heldMeters: {},
    spentSlots: slots,
    spentMeters: nonzero(further),
    evidence: evidence ?? held.evidence,
    changedAt: now
  }
  const freed = negated({ ...before.held, ...(dollars === "unknown" ? { usd: 0 } : {}) })
  const delta: Delta = { reserved: freed, spent: less(spent, before.spent) }
  const reservation: ReservationRecord =
    dollars === "unknown"
      ? { ...common, state: "owed" }
      : { ...common, state: "spent", heldUsdMicros: 0, spentUsdMicros: usd }
  return { reservation, delta, event: ledger(kind, reservation, delta) }
}

/** A cost that was never reserved: it happened, so it counts; unknown, it is owed with no bound. */
export const spendUnreserved = (
  owner: CostOwner,
  effectId: string,
  spend: Spend,
  evidence: string | null,
  context: DecideContext
): Booked => spendReserved(fresh(owner, effectId, context), spend, evidence, context.now)

/** Gives back what was held for an effect that was never dispatched. */
export const voidReserved = (held: ReservationRecord, reason: string, now: number): Booked => {
  const reservation: ReservationRecord = { ...held, ...holding(noUnits), state: "void", changedAt: now }
  const delta: Delta = { reserved: negated(heldOf(held)) }
  return { reservation, delta, event: ledger("void", reservation, delta, reason) }
}

/** Takes back a recorded spend: its own amount and no more (G52). */
export const voidSpent = (held: ReservationRecord, reason: string, now: number): Booked => {
  const reservation: ReservationRecord = {
    ...held,
    state: "void",
    spentUsdMicros: 0,
    spentSlots: 0,
    spentMeters: {},
    changedAt: now
  }
  const delta: Delta = { spent: negated(spentOf(held)) }
  return { reservation, delta, event: ledger("void", reservation, delta, reason) }
}
