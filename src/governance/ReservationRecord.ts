/**
 * The record of a reservation: what is held for an effect, what it came to cost, and what is owed.
 * Promise: an unknown amount is null and never zero; what is owed names the call that settles it. Rules: G51, G55, G73.
 */
import * as Schema from "effect/Schema"
import { noUnits, shown, type Units } from "./Field.ts"
import { recordTable } from "./Handler.ts"
import type { Load } from "./Module.ts"

/** Whose part of the work it was; all of them draw on the one budget of the goal (G56). */
export const CostRole = Schema.Literals(["coordinator", "worker", "evaluator"])
export type CostRole = typeof CostRole.Type

/** Where a cost belongs. */
export interface CostOwner {
  readonly goal: string
  readonly todo: string | null
  readonly turn: string | null
  readonly agent: string | null
  /** Absent, as in older files: a worker's. */
  readonly role?: CostRole | null
}

/**
 * A reservation and what became of it. `open`: the work may still run. `owed`: it was settled, its cost is unknown and the
 * bound stays held. `spent`: trued up. `void`: nothing was dispatched, or the spend was taken back.
 */
export interface ReservationRecord extends CostOwner {
  readonly id: string
  /** The effect whose cost this is; a cost is recorded once per effect. */
  readonly effectId: string
  readonly state: "open" | "owed" | "spent" | "void"
  /** What is held; null when the bound itself was never known (a cost reported as unknown without a reservation). */
  readonly heldUsdMicros: number | null
  readonly heldSlots: number
  /** Held of the further meters. */
  readonly heldMeters: Partial<Units>
  readonly spentUsdMicros: number | null
  readonly spentSlots: number
  readonly spentMeters: Partial<Units>
  readonly evidence: string | null
  readonly reservedAt: number
  readonly changedAt: number
}

export const reservationTable = recordTable<ReservationRecord>("reservation", ["id"], {
  id: "value",
  goal: "value",
  todo: "value",
  turn: "value",
  agent: "value",
  role: "value",
  effectId: "value",
  state: "value",
  heldUsdMicros: "value",
  heldSlots: "value",
  heldMeters: "json",
  spentUsdMicros: "value",
  spentSlots: "value",
  spentMeters: "json",
  evidence: "value",
  reservedAt: "value",
  changedAt: "value"
})

export const heldOf = (r: ReservationRecord): Units => ({
  ...noUnits,
  ...r.heldMeters,
  usd: r.heldUsdMicros ?? 0,
  slots: r.heldSlots
})

export const spentOf = (r: ReservationRecord): Units => ({
  ...noUnits,
  ...r.spentMeters,
  usd: r.spentUsdMicros ?? 0,
  slots: r.spentSlots
})

/** The record with these units held; without a meter that is not held. */
export const holding = ({ usd, slots, ...further }: Units) => ({
  heldUsdMicros: usd,
  heldSlots: slots,
  heldMeters: nonzero(further)
})

export const nonzero = (units: Partial<Units>): Partial<Units> =>
  Object.fromEntries(Object.entries(units).filter(([, amount]) => amount !== 0))

/** What an unknown cost or an unpaid completion leaves open, and the exact call that settles it (G73). */
export interface Owed {
  readonly reservation: string
  readonly todo: string | null
  readonly turn: string | null
  readonly call: {
    readonly operation: "Quota.trueUp"
    /** `usd` is what the caller has to fill in. */
    readonly input: { readonly reservation: string; readonly usd: null }
  }
}

export interface Reservation extends CostOwner {
  readonly id: string
  readonly effectId: string
  readonly state: ReservationRecord["state"]
  /** Further meters are named where something is held or spent of them. */
  readonly held: { readonly usd: number | null; readonly slots: number } & Partial<Omit<Units, "usd" | "slots">>
  readonly spent: { readonly usd: number | null; readonly slots: number } & Partial<Omit<Units, "usd" | "slots">>
  readonly owed: readonly Owed[]
}

export const owedBy = (reservation: ReservationRecord): readonly Owed[] =>
  reservation.state !== "owed"
    ? []
    : [
        {
          reservation: reservation.id,
          todo: reservation.todo,
          turn: reservation.turn,
          call: { operation: "Quota.trueUp", input: { reservation: reservation.id, usd: null } }
        }
      ]

/** What is owed, the oldest first; all of it, or at most so much. */
export const loadOwed = function* (where: "goal" | "todo" | "turn", id: string, limit?: number): Load<readonly Owed[]> {
  const most = limit === undefined ? "" : ` LIMIT ${limit}`
  const open = yield* reservationTable.find(`${where} = ? AND state = 'owed' ORDER BY reserved_at, id${most}`, id)
  return open.flatMap(owedBy)
}

export const showReservation = (r: ReservationRecord): Reservation => ({
  id: r.id,
  goal: r.goal,
  todo: r.todo,
  turn: r.turn,
  agent: r.agent,
  role: r.role ?? "worker",
  effectId: r.effectId,
  state: r.state,
  held: {
    usd: r.heldUsdMicros === null ? null : shown("usd", r.heldUsdMicros),
    slots: r.heldSlots,
    ...nonzero(r.heldMeters)
  },
  spent: {
    usd: r.spentUsdMicros === null ? null : shown("usd", r.spentUsdMicros),
    slots: r.spentSlots,
    ...nonzero(r.spentMeters)
  },
  owed: owedBy(r)
})
