/**
 * What has to be read for work, and what a loop does next, as plain async functions: the declarations. No Effect in them.
 * Promise: the calls of `Sources` and `Loop` of `coppice/governance`, under the same names and with the same refusals;
 * `loop.next` is pure: it reads and writes nothing. Rules: G12, G14, G83, G86.
 */
import type { OpenPart } from "./Gates.ts"
import type { Fence, Goal, Read, Todo, Withheld, Write } from "./Governance.ts"
import type { AccountFigures, Amounts } from "./Quota.ts"
import type { NextStep, SettlementOutcome } from "./Turns.ts"

export interface SourceContent {
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string
  /** Where it is, in words of whoever keeps it; never a path of a machine. */
  readonly ref: string
  readonly bytes: number
  /** Absent or null where they were not counted. */
  readonly tokens?: number | null
}
export interface Source {
  readonly id: string
  readonly goal: string
  /** Unique in its goal. */
  readonly name: string
  /** From 1; grows with every other content. */
  readonly revision: number
  readonly digest: string
  readonly ref: string
  readonly bytes: number
  readonly tokens: number | null
  /** `unreadable`: the goal cannot be completed while it is required. `retired`: required of nobody any more, for good. */
  readonly state: "readable" | "unreadable" | "retired"
  /** Why it cannot be read, or was retired; null while it is readable. */
  readonly reason: string | null
  /** UTC milliseconds. */
  readonly addedAt: number
  readonly changedAt: number
}
/** The newest revision of a source that an agent has read. */
export interface SourceRead {
  readonly source: string
  readonly goal: string
  readonly agent: string
  readonly revision: number
  /** The turn in which it was read; null outside of one. */
  readonly turn: string | null
  readonly readAt: number
}
/** What has to be read before work counts; a todo names them in `requiredReads`. */
export interface SourceCalls {
  readonly register: Write<SourceContent & { readonly goal: string; readonly name: string }, Source>
  /** Another content, as the next revision after the one that was seen. */
  readonly revise: Write<SourceContent & { readonly source: string; readonly revision: number }, Source>
  /** With why: work that requires it is not admitted until it can be read. */
  readonly markUnreadable: Write<{ readonly source: string; readonly reason: string }, Source>
  readonly markReadable: Write<{ readonly source: string }, Source>
  /** For good: nothing requires it any more. */
  readonly retire: Write<{ readonly source: string; readonly reason: string }, Source>
  /** That an agent has read a revision. */
  readonly read: Write<
    {
      readonly source: string
      readonly revision: number
      readonly agent: string
      readonly turn?: string
      /** Of the bytes that were read: it is checked that they were these. */
      readonly digest?: string
    },
    SourceRead
  >
  readonly get: Read<{ readonly source: string }, Source & { readonly reads: readonly SourceRead[] }>
  /** By name; with `unread` only those that keep the goal open. */
  readonly list: Read<{ readonly goal: string; readonly unread?: boolean }, { readonly items: readonly Source[] }>
}

/** A gate that is open, and who is to move. */
export interface LoopGate {
  readonly id: string
  readonly lane: "owner" | "repair"
  readonly question: string
}
/** A todo that could be run, with what stands in its way: required sources that cannot be read, gates that stop it. */
export interface LoopTodo {
  readonly todo: string
  readonly unreadable: readonly string[]
  readonly gates: readonly LoopGate[]
}
/** A goal as one agent's loop sees it, from one snapshot. */
export interface LoopState {
  readonly goal: string
  readonly agent: string
  readonly asOf: number
  readonly goalState: Goal["state"]
  readonly goalRevision: number
  /** All that keeps the goal open. */
  readonly open: readonly OpenPart[]
  /** The agent's open turn, or null; `alive` as this process sees who drives and executes it, `survivor`: a process was seen to survive it. */
  readonly turn: {
    readonly id: string
    readonly next: NextStep
    readonly alive: boolean | "unknown"
    readonly survivor: boolean
  } | null
  /** The todo that the loop holds, by the fence that it named; null: it named none, or holds none under it. */
  readonly held: LoopTodo | null
  /** The best todo that the agent could be given now. */
  readonly ready: LoopTodo | null
  /** Why nothing could be given; null where something can. */
  readonly withheld: Withheld | null
  /** UTC milliseconds at which the first lease or deferral ends; null: nothing moves by time. */
  readonly movesAt: number | null
  /** Open gates that concern the agent. */
  readonly gates: readonly LoopGate[]
  /** What is used of the budgets that a turn of the agent counts in. */
  readonly accounts: readonly Pick<AccountFigures, "agent" | "budget" | "remaining" | "window">[]
}
/** What the last turn came to: a settlement has these fields. */
export interface LoopReceipt {
  readonly goal: string
  readonly agent?: string
  readonly todo: string
  readonly outcome: SettlementOutcome
  readonly todoState: Todo["state"]
  /** The journal sequence as of which it holds. */
  readonly asOf: number
  /** The revision of the goal that its caller had seen. */
  readonly goalRevision?: number
  /** The host's word for its own iteration; null or absent: it gave none. */
  readonly claim?: string | null
}
type Lane =
  | { readonly disposition: "runNow"; readonly reason: "held" | "ready"; readonly todo: string }
  | {
      readonly disposition: "wait"
      readonly reason: "turnRunning" | "hostWaits" | "quotaWindow" | "othersWork" | "time"
      /** UTC milliseconds after which it is worth asking again; null: when something is committed. */
      readonly until: number | null
    }
  | {
      readonly disposition: "userAction"
      readonly reason: "survivor" | "executorUnseen" | "hostAsks" | "quotaExhausted" | "gate" | "closure"
    }
  | {
      readonly disposition: "repair"
      readonly reason:
        | "turnLeft"
        | "hostSays"
        | "validatorUnavailable"
        | "sourceUnreadable"
        | "sourceUnread"
        | "gate"
        | "capability"
        | "unresolved"
    }
  | {
      readonly disposition: "replan"
      readonly reason: "turnBudget" | "staleContext" | "hostSays" | "obligation" | "nothingMoves"
    }
  | { readonly disposition: "stop"; readonly reason: "goalPaused" | "goalStopped" }
  | { readonly disposition: "terminal"; readonly reason: "goalCompleted" }
/** What to do next. */
export type Disposition = Lane & {
  readonly goal: string
  readonly agent: string
  readonly asOf: number
  /** What it is about, by id. */
  readonly about: readonly string[]
  /** A sentence for people. */
  readonly says: string
  /** All that is still open. */
  readonly open: readonly OpenPart[]
}
export interface LoopCalls {
  /** Name the `fence` of the todo that the loop holds: an agent's name alone is no holding. */
  readonly state: Read<{ readonly goal: string; readonly agent: string; readonly fence?: Fence }, LoopState>
  /**
   * What comes next after `receipt` (of the turn that just ended, where there was one), in a state that `state` gave, with so many
   * `turns` left. Throws `LoopInputStale` when the state is older than the receipt or of something else: read it again.
   */
  readonly next: (input: {
    readonly receipt?: LoopReceipt
    readonly state: LoopState
    readonly turns: number
    /** What one turn may cost at most. */
    readonly bound?: Amounts
  }) => Disposition
}
