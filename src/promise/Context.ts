/**
 * What work has to be read for, what its executors were told, and what a loop does next, as plain async functions: the
 * declarations. No Effect in them.
 * Promise: the calls of `Sources`, `Packets` and `Loop` of `coppice/governance`, under the same names and with the same refusals;
 * `loop.next` is pure: it reads and writes nothing. Rules: G14, G83, G86.
 */
import type { OpenPart } from "./Gates.ts"
import type { Amounts, Fence, Read, Write } from "./Governance.ts"

export interface SourceContent {
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string
  /** Where it is, in words of whoever keeps it; never a path of a machine. */
  readonly ref: string
  readonly bytes: number
  readonly tokens?: number | null
}
export interface Source {
  readonly id: string
  readonly goal: string
  readonly name: string
  readonly revision: number
  readonly digest: string
  readonly ref: string
  readonly bytes: number
  readonly tokens: number | null
  readonly state: "readable" | "unreadable" | "retired"
  readonly reason: string | null
}
export interface SourceRead {
  readonly source: string
  readonly agent: string
  readonly revision: number
  readonly turn: string | null
  readonly readAt: number
}
/** What has to be read before work counts; a todo names them in `requiredReads`. */
export interface SourceCalls {
  readonly register: Write<SourceContent & { readonly goal: string; readonly name: string }, Source>
  /** Another content, as the next revision after the one that was seen. */
  readonly revise: Write<SourceContent & { readonly source: string; readonly revision: number }, Source>
  readonly markUnreadable: Write<{ readonly source: string; readonly reason: string }, Source>
  readonly markReadable: Write<{ readonly source: string }, Source>
  /** For good: nothing requires it any more. */
  readonly retire: Write<{ readonly source: string; readonly reason: string }, Source>
  readonly read: Write<
    {
      readonly source: string
      readonly revision: number
      readonly agent: string
      readonly turn?: string
      readonly digest?: string
    },
    SourceRead
  >
  readonly get: Read<{ readonly source: string }, Source & { readonly reads: readonly SourceRead[] }>
  readonly list: Read<{ readonly goal: string; readonly unread?: boolean }, { readonly items: readonly Source[] }>
}

export interface Packet {
  readonly id: string
  readonly goal: string
  readonly agent: string
  readonly todo: string
  readonly turn: string
  readonly kind: "complete" | "delta"
  /** Why it is complete, or that it continues. */
  readonly why: string
  readonly digest: string
  readonly bytes: number
  readonly tokens: number | null
  /** What the executor was told. */
  readonly body: object
  readonly issuedAt: number
  readonly acknowledgedAt: number | null
}
/** What executors were told. The driver of a turn issues packets; here they are read, and what became of them is recorded. */
export interface PacketCalls {
  readonly acknowledge: Write<{ readonly packet: string; readonly digest: string; readonly tokens?: number }, Packet>
  readonly compacted: Write<
    {
      readonly goal: string
      readonly agent: string
      readonly session: { readonly id: string; readonly generation: number }
    },
    { readonly lost: "compaction" | null }
  >
  readonly get: Read<{ readonly packet: string }, Packet>
  readonly list: Read<{ readonly turn: string }, { readonly items: readonly Packet[] }>
}

export interface LoopState {
  readonly goal: string
  readonly agent: string
  readonly asOf: number
  readonly goalState: "active" | "paused" | "stopped" | "completed"
  readonly open: readonly OpenPart[]
  /** The todo that the loop holds, and the one that it could be given. */
  readonly held: { readonly todo: string } | null
  readonly ready: { readonly todo: string } | null
}
/** A settlement has these fields. */
export interface LoopReceipt {
  readonly goal: string
  readonly todo: string
  readonly outcome: string
  readonly todoState: string
  readonly asOf: number
  readonly agent?: string
  readonly goalRevision?: number
  /** The host's word for its own iteration. */
  readonly claim?: string | null
}
export interface Disposition {
  readonly disposition: "runNow" | "wait" | "userAction" | "repair" | "replan" | "stop" | "terminal"
  readonly reason: string
  /** With `runNow`: which. */
  readonly todo?: string
  /** With `wait`: UTC milliseconds after which it is worth asking again; null: when something is committed. */
  readonly until?: number | null
  readonly about: readonly string[]
  /** A sentence for people. */
  readonly says: string
  readonly open: readonly OpenPart[]
  readonly asOf: number
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
