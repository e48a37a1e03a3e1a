/**
 * The quota ledger a second time, in plain numbers: what each event may change, and what each account then holds.
 * Promise: adds up the events of the journal and compares with the record that each of them carries; no sum falls below zero,
 * and nothing is reserved beyond a limit. Rules: G50 to G53, G55; C58 to C60.
 */
import type { JournalEntry } from "../../src/governance/index.ts"
import type { Record_, Rule } from "./factRules.ts"

const meters = ["usd", "slots", "tokens", "wallMs", "computeMs", "attempts"] as const
type Meter = (typeof meters)[number]

const nameOf = (side: "reserved" | "spent", meter: Meter): string =>
  side + (meter === "usd" ? "UsdMicros" : meter[0]!.toUpperCase() + meter.slice(1))

interface Seen {
  readonly at: number
  readonly goal: string
  readonly agent: string | null
  readonly reservation: string
  readonly delta: Readonly<Record<string, number>>
}

const recorded = (reservation: Record_, side: "held" | "spent", meter: Meter): number =>
  meter === "usd"
    ? (reservation[`${side}UsdMicros`] ?? 0)
    : meter === "slots"
      ? reservation[`${side}Slots`]
      : (reservation[`${side}Meters`]?.[meter] ?? 0)

const moves: Readonly<Record<string, readonly string[]>> = {
  open: ["owed", "spent", "void"],
  owed: ["spent"],
  spent: ["void"],
  void: []
}

/** One walk's rule: it keeps the events that it saw. */
export const ledgerRule = (): Rule => {
  let events: Seen[] = []
  const voided = new Set<string>()
  const stateOf = new Map<string, string>()

  const sum = (side: "reserved" | "spent", meter: Meter, which: (event: Seen) => boolean): number =>
    events
      .filter((event) => !voided.has(event.reservation) && which(event))
      .reduce((total, event) => total + (event.delta[nameOf(side, meter)] ?? 0), 0)

  /** Reserved whenever it was, and spent within the window, both ends included, or dated ahead (G52). */
  const used = (meter: Meter, windowMs: number | null, at: number, which: (event: Seen) => boolean): number =>
    sum("reserved", meter, which) +
    sum("spent", meter, (event) => which(event) && (windowMs === null || event.at >= at - windowMs))

  return {
    step: (_, is, entry: JournalEntry, told) => {
      const { kind, reservation, delta } = is as Record_
      const { id, goal, agent, state } = reservation
      const was = stateOf.get(id)
      stateOf.set(id, state)
      events = [...events, { at: entry.at, goal, agent, reservation: id, delta }]
      if (kind === "void") voided.add(id)
      const faults: string[] = []
      if (was !== undefined && !moves[was]!.includes(state)) faults.push(`a reservation went from ${was} to ${state}`)
      const mine = (event: Seen) => event.reservation === id
      for (const meter of meters) {
        const [held, spent] = [sum("reserved", meter, mine), sum("spent", meter, mine)]
        const want = [recorded(reservation, "held", meter), recorded(reservation, "spent", meter)]
        if (held !== want[0] || spent !== want[1])
          faults.push(
            `${meter}: the events give ${held} held and ${spent} spent, the record says ${want.join(" and ")}`
          )
        if (sum("reserved", meter, (event) => event.goal === goal) < 0) faults.push(`less than no ${meter} is reserved`)
        if (sum("spent", meter, (event) => event.goal === goal) < 0) faults.push(`less than no ${meter} is spent`)
      }
      if (kind !== "reserve") return faults
      const own = told.of("goal").get(goal)!
      const limits: Record_ = { ...own["limits"], usd: own["limitUsdMicros"], slots: own["limitSlots"] }
      const agents = told.of("agent").get(`${goal} ${agent}`)?.["budget"] ?? null
      for (const meter of meters) {
        const limit = limits[meter] ?? null
        if (limit !== null && used(meter, own["windowMs"], entry.at, (event) => event.goal === goal) > limit)
          faults.push(`more ${meter} is reserved than the goal's limit of ${limit}`)
        const ofAgent = agents?.units[meter] ?? null
        const theirs = (event: Seen) => event.goal === goal && event.agent === agent
        if (ofAgent !== null && used(meter, agents.windowMs, entry.at, theirs) > ofAgent)
          faults.push(`more ${meter} is reserved than the agent's limit of ${ofAgent}`)
      }
      return faults
    }
  }
}
