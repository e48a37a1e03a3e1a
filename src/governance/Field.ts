/**
 * The fields that commands share: ids, texts, amounts, digests, the fence. And how money is kept: integer micro-dollars.
 * Promise: what does not parse is refused at the door, never bent into something that does; a limit is never rounded up
 * and a spend never down. Rules: G30, G50; C56, C58.
 */
import * as Schema from "effect/Schema"

export const IdText = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))
/** Words, not blanks alone. */
const said = Schema.isPattern(/\S/)
export const Title = Schema.String.check(said, Schema.isMaxLength(300))
/** A bounded, public-safe sentence or two. */
export const Summary = Schema.String.check(Schema.isMaxLength(2000))
/** Why, in words: never empty. */
export const Reason = Schema.String.check(said, Schema.isMaxLength(2000))
/** What somebody is asked. */
export const Question = Schema.String.check(said, Schema.isMaxLength(1000))
/** A person, by the name that the application knows. What only a person may do takes nobody else. */
export const Person = Schema.Struct({ role: Schema.Literal("person"), name: IdText })
export type Person = typeof Person.Type
/** Relative, below the root: an absolute path or a step upwards is no scope. */
export const Scope = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(1000),
  Schema.isPattern(/^(?!\/)(?!.*(^|\/)\.\.(\/|$))/)
)
export const DigestText = Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/))
export const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1_000_000_000))
/**
 * US dollars, at most a million in one amount: sums stay far below what a double holds exactly in micro-dollars (2^53), and
 * a cost beyond it is a mistake of whoever reports it. Zero is an amount like any other.
 */
export const Usd = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1_000_000))
export const Milliseconds = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
export const Ids = Schema.Array(IdText).check(Schema.isMaxLength(1000))

/** Agents or capabilities that one record names: choosing work compares them. */
export const Names = Schema.Array(IdText).check(Schema.isMaxLength(100))

/** What a budget may limit: money, turns, tokens, time of the clock and of processors, attempts. */
export const meters = ["usd", "slots", "tokens", "wallMs", "computeMs", "attempts"] as const
export const Meter = Schema.Literals(meters)
export type Meter = typeof Meter.Type

/** What a holder shows to prove that it still holds: the token is the proof, the rest says which grant is meant (G30). */
export const Fence = Schema.Struct({
  todo: IdText,
  token: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)),
  epoch: Schema.Int,
  version: Schema.Int
})
export type Fence = typeof Fence.Type

/** Tokens and milliseconds: sums of them, too, stay far below 2^53. */
const Large = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(1_000_000_000_000))

const amounts = {
  usd: Schema.optional(Usd),
  slots: Schema.optional(Count),
  tokens: Schema.optional(Large),
  wallMs: Schema.optional(Large),
  computeMs: Schema.optional(Large),
  attempts: Schema.optional(Count)
}

/** Amounts as callers give them. */
export const Amounts = Schema.Struct(amounts)
export type Amounts = typeof Amounts.Type

/** Amounts of the meters that are counted in whole units. */
export const { usd: _, ...wholeAmounts } = amounts

const century = 100 * 366 * 24 * 3_600_000

/** A budget as callers give it: limits, and the window in milliseconds that they hold for; without one, for the whole life. */
export const BudgetSpec = Schema.Struct({
  ...amounts,
  windowMs: Schema.optional(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: century })))
})
export type BudgetSpec = typeof BudgetSpec.Type

const scale = 1_000_000

const exact = (usd: number): number | undefined => {
  const nearest = Math.round(usd * scale)
  return Math.abs(usd * scale - nearest) < 1e-3 ? nearest : undefined
}

/** Micro-dollars of a cost or reservation: what is finer than a micro-dollar counts as a whole one. */
export const costMicros = (usd: number): number => exact(usd) ?? Math.ceil(usd * scale)

/** Micro-dollars of a limit: what is finer than a micro-dollar is not granted. */
export const limitMicros = (usd: number): number => exact(usd) ?? Math.floor(usd * scale)

/** Dollars of micro-dollars. */
export const toUsd = (micros: number): number => micros / scale

/** Amounts as they are kept: whole micro-dollars, turns, tokens, milliseconds, attempts. */
export type Units = { readonly [meter in Meter]: number }

export const noUnits: Units = { usd: 0, slots: 0, tokens: 0, wallMs: 0, computeMs: 0, attempts: 0 }

export const plus = (a: Units, b: Partial<Units>): Units =>
  Object.fromEntries(meters.map((meter) => [meter, a[meter] + (b[meter] ?? 0)])) as Units

/** An amount of one meter as people read it. */
export const shown = (meter: Meter, units: number): number => (meter === "usd" ? toUsd(units) : units)
