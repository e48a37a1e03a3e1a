/**
 * What `open` takes and gives: the declarations. No Effect in them.
 * Promise: one object reaches everything; it closes what it opened. Rules: P3, P4, V2.
 */
import type { AgentCalls, EvidenceCalls, GoalCalls, JournalCalls, LeaseCalls, TodoCalls } from "./Governance.ts"
import type { LoopCalls, SourceCalls } from "./Context.ts"
import type { PacketCalls } from "./Packets.ts"
import type { QuotaCalls } from "./Quota.ts"
import type { AcceptanceCalls, CandidateCalls, SettlementCalls, TurnCalls } from "./Turns.ts"
import type { DeliveryCalls } from "./Deliveries.ts"
import type { EffectCalls, OperationCalls } from "./Effects.ts"
import type { GateCalls, ObligationCalls } from "./Gates.ts"
import type { ByteSize } from "../base/ByteSize.ts"
import type { CallOptions, Task } from "./Plain.ts"
import type { ExploreRepairOptions, RepairProgress, RepairReport, RepairRepositoryOptions } from "./Repair.ts"
import type { WorkspaceCalls } from "./Workspaces.ts"

export interface OpenOptions extends CallOptions {
  /** `standard` (the default) has workspaces and repairs; `minimal` governs alone, and answers these with `Unavailable`. */
  readonly preset?: "minimal" | "standard"
  /** Directory of the store; by default below the user's state directory, named after the project. */
  readonly store?: string
  /** The project that the store is for; the working directory when absent. */
  readonly project?: string
  /** Only with `standard`. */
  readonly workspaces?: "layerfs" | "git-worktree" | "reflink" | "off"
  /** What the workspace store may hold at most: bytes, or text such as `"2 GiB"`. Only with `standard`. */
  readonly storeQuota?: ByteSize
  /** What one imported project, with all its branches, may add to the store at most. Only with `standard`. */
  readonly projectQuota?: ByteSize
  /** What trees that were shown may take on the disk while no workspace stands on them; else all stay. Only with `standard`. */
  readonly cacheLimit?: ByteSize
  /** How many helper processes stand ready for the next workspaces (0 to 64); none without it. Only with `standard`. */
  readonly warmPool?: number
}

/** What the preset resolved to: what is enabled, what is loaded, and why. */
export interface AssemblyReport {
  readonly preset: "minimal" | "standard"
  readonly coppice: string
  readonly node: string
  readonly parts: readonly {
    readonly name: string
    readonly kind: string
    readonly enabled: boolean
    readonly loaded: boolean
    readonly ready: boolean | null
    readonly why: string
  }[]
  readonly modules: readonly string[]
  readonly pools: readonly string[]
}

/** An open store. `await using coppice = await open()` closes it, and every workspace in it, at the end of the block. */
export interface Coppice extends AsyncDisposable {
  readonly goals: GoalCalls
  readonly gates: GateCalls
  readonly obligations: ObligationCalls
  readonly agents: AgentCalls
  readonly todos: TodoCalls
  readonly leases: LeaseCalls
  readonly quota: QuotaCalls
  readonly evidence: EvidenceCalls
  readonly acceptances: AcceptanceCalls
  readonly settlements: SettlementCalls
  readonly turns: TurnCalls
  readonly sources: SourceCalls
  readonly packets: PacketCalls
  readonly loop: LoopCalls
  readonly candidates: CandidateCalls
  readonly deliveries: DeliveryCalls
  readonly effects: EffectCalls
  readonly operations: OperationCalls
  readonly journal: JournalCalls
  readonly workspaces: WorkspaceCalls
  /** Many attempts from one warm checkpoint, judged in clean checkouts; what passes comes out as a patch. */
  readonly exploreRepair: (
    options: ExploreRepairOptions,
    watch?: CallOptions & { readonly onProgress?: (step: RepairProgress) => void }
  ) => Task<RepairReport, RepairProgress>
  /** The same for any git repository, with plain commands: one to prepare, some that try, one that verifies. */
  readonly repairRepository: (
    options: RepairRepositoryOptions,
    watch?: CallOptions & { readonly onProgress?: (step: RepairProgress) => void }
  ) => Task<RepairReport, RepairProgress>
  /** What the preset resolved to. Reading it loads nothing. */
  readonly assembly: () => AssemblyReport
  /** Ends calls that run (they throw `Cancelled`), closes workspaces and the store. Idempotent. */
  readonly close: () => Promise<void>
}
