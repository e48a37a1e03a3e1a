/**
 * What work may cost, has reserved and has cost, as plain async functions: the declarations. No Effect in them.
 * Promise: the calls of `Quota` of `coppice/governance`, under the same names and with the same refusals; every figure says whose it
 * is; an unknown cost is named as owed and is never zero. Rules: G50 to G57, G73.
 */
import type { Fence, Items, OfGoal, Read, Write } from "./Governance.ts"
import type { CostRole, ReportedUsage, UsageFigures, UsageRecord } from "./Usage.ts"

// --- amounts ---------------------------------------------------------------------------------------------------------

/** What a budget may limit: see `Amounts` for the unit of each. */
export type Meter = "usd" | "slots" | "tokens" | "wallMs" | "computeMs" | "attempts"
/** Zero is an amount like any other; absent is not zero. */
export interface Amounts {
  /** US dollars, kept to a millionth; at most a million in one amount. */
  readonly usd?: number
  /** Whole turns. */
  readonly slots?: number
  /** Of the providers, all four buckets together. */
  readonly tokens?: number
  /** Milliseconds of the clock. */
  readonly wallMs?: number
  /** Milliseconds of processors. */
  readonly computeMs?: number
  /** Dispatches to a host. */
  readonly attempts?: number
}
/** Limits. A meter that is not named has none. */
export interface BudgetSpec extends Amounts {
  /** Milliseconds: what was spent longer ago than that counts no more. Absent: the limits hold for the whole life. */
  readonly windowMs?: number
}
/** Limits, or what is left of them; null: dollars or turns have no limit, absent: the other meter has none. */
export interface Budget {
  readonly usd: number | null
  readonly slots: number | null
  readonly tokens?: number
  readonly wallMs?: number
  readonly computeMs?: number
  readonly attempts?: number
  /** Absent: the whole life. */
  readonly windowMs?: number
}
/** Amounts that came about: dollars and turns always, a further meter where a limit names it or it changed. */
export interface Figures {
  readonly usd: number
  readonly slots: number
  readonly tokens?: number
  readonly wallMs?: number
  readonly computeMs?: number
  readonly attempts?: number
}
/** What an effect came to cost. A meter that is not named cost what was held for it. */
export interface Spend {
  /** `"unknown"` is a value of its own and never zero: what was held stays held until `quota.trueUp`. */
  readonly usd: number | "unknown"
  readonly slots?: number | undefined
  readonly tokens?: number | undefined
  readonly wallMs?: number | undefined
  readonly computeMs?: number | undefined
  readonly attempts?: number | undefined
}

// --- costs -----------------------------------------------------------------------------------------------------------

/** Whose cost it is. */
export interface CostOwner {
  readonly goal: string
  readonly todo?: string
  readonly turn?: string
  readonly agent?: string
  /** A worker's when absent. */
  readonly role?: CostRole
}
/** A cost that is unknown, and the call that settles it: `quota.trueUp` with the amount filled in. */
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
/** One cost, from its upper bound to what it came to. */
export interface Reservation {
  readonly id: string
  readonly goal: string
  /** Null: it belongs to no todo, turn or agent. */
  readonly todo: string | null
  readonly turn: string | null
  readonly agent: string | null
  /** Null or absent, as in older files: a worker's. */
  readonly role?: CostRole | null
  /** The effect whose cost this is; a cost is recorded once per effect. */
  readonly effectId: string
  /** `open`: the work may still run. `owed`: its cost is unknown, the bound stays held. `void`: never dispatched, or taken back. */
  readonly state: "open" | "owed" | "spent" | "void"
  /** `usd` null: no bound was ever named. */
  readonly held: Omit<Figures, "usd"> & { readonly usd: number | null }
  /** `usd` null: not known yet. */
  readonly spent: Omit<Figures, "usd"> & { readonly usd: number | null }
  /** Empty, or this cost itself. */
  readonly owed: readonly Owed[]
}

// --- figures ---------------------------------------------------------------------------------------------------------

/** The span whose spends count, in UTC milliseconds, both ends included; what is dated after its end counts too. */
export interface BudgetWindow {
  readonly ms: number
  readonly from: number
  readonly to: number
}
/** By how much something changed, or what it is: the two sides of the ledger. */
export interface LedgerSides {
  /** Held for what may still cost, whenever it was reserved. */
  readonly reserved: Figures
  readonly spent: Figures
}
/** The figures of one account. */
export interface AccountFigures extends LedgerSides {
  readonly goal: string
  /** Null: these are the goal's. */
  readonly agent: string | null
  readonly budget: Budget
  /** Null: the limits hold for the whole life. */
  readonly window: BudgetWindow | null
  /** Limit minus spent minus reserved, not below zero. */
  readonly remaining: Budget
}
/** What one role took of the goal's one budget, failed attempts included. */
export interface RoleFigures extends LedgerSides {
  readonly goal: string
  readonly role: CostRole
  readonly usage: UsageFigures
}
/** The goal's figures, and of each agent with limits of its own. */
export interface QuotaStatus extends AccountFigures {
  readonly owed: readonly Owed[]
  readonly agents: readonly AccountFigures[]
  readonly roles: readonly RoleFigures[]
  /** The goal's tokens, for its whole life. */
  readonly usage: UsageFigures
  /** Costs whose artifact is missing or damaged. Null: nobody looked; a reader of artifacts is handed in at `coppice/governance`. */
  readonly spendEvidenceUnreadable:
    | readonly {
        readonly reservation: string
        readonly effectId: string
        readonly turn: string | null
        readonly fault: "missing" | "unreadable" | "notUtf8" | "malformed" | "shape" | "otherWork" | "altered"
      }[]
    | null
}
export type LedgerKind = "reserve" | "spend" | "void" | "trueUp"
/** What an event changed, apart from the aggregate that it changed: that one may fall by itself as events leave the window. */
export interface EventReceipt {
  readonly event: LedgerSides & { readonly kind: LedgerKind }
  /** Both at the same moment: nothing but the event lies between them. */
  readonly aggregate: {
    readonly window: BudgetWindow | null
    readonly before: LedgerSides
    readonly after: LedgerSides
  }
}
/** One event of the ledger. */
export interface QuotaEvent {
  /** Its place in the journal. */
  readonly seq: number
  /** UTC milliseconds. */
  readonly at: number
  readonly kind: LedgerKind
  readonly reservation: string
  readonly effectId: string
  /** What this event changed; the aggregate is in the totals. */
  readonly change: LedgerSides
  /** Why, of a void; null of all others. */
  readonly reason: string | null
}

// --- calls -----------------------------------------------------------------------------------------------------------

/** Bounds before, costs after, and what is owed in between. */
export interface QuotaCalls {
  /** Holds the most that an effect can cost. Every meter that the goal or the agent limits needs a bound. */
  readonly reserve: Write<
    CostOwner & { readonly effectId: string; readonly bound: Amounts; readonly fence?: Fence },
    Reservation
  >
  /** Records what an effect cost, once; also beyond a limit, for it happened. */
  readonly spend: Write<
    CostOwner & {
      readonly effectId: string
      readonly spend: Spend
      /** What the providers say of its tokens. */
      readonly usage?: readonly ReportedUsage[]
      /** Where a bound was held for it. */
      readonly reservation?: string
      /** Digest or id of what shows the cost; never the source of the amount. */
      readonly evidence?: string
      readonly fence?: Fence
    },
    Reservation & EventReceipt
  >
  /** Settles a cost that was unknown, in dollars. */
  readonly trueUp: Write<
    { readonly reservation: string; readonly usd: number; readonly evidence?: string },
    Reservation & EventReceipt
  >
  /** Gives back a bound under which nothing was dispatched, or takes back a spend, once. */
  readonly void: Write<{ readonly reservation: string; readonly reason: string }, Reservation & EventReceipt>
  readonly get: Read<{ readonly reservation: string }, Reservation>
  readonly status: Read<OfGoal, QuotaStatus>
  /** The tokens of a goal, or of one agent or role in it, with at most `limit` (200) of the reports they come from, oldest first. */
  readonly usage: Read<
    OfGoal & { readonly agent?: string; readonly role?: CostRole; readonly limit?: number },
    Items<UsageRecord> & { readonly figures: UsageFigures }
  >
  /** The events with a `seq` above `after`, at most `limit` (1,000), beside the figures as they are now. */
  readonly history: Read<
    OfGoal & { readonly after?: number; readonly limit?: number },
    Items<QuotaEvent> & {
      readonly totals: AccountFigures
      readonly usage: UsageFigures
      readonly owed: readonly Owed[]
    }
  >
}
