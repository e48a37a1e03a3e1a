/**
 * A process tree as its owner sees it: how it is started, spoken to, ended, and proven to be gone.
 * Promise: whoever implements `SpawnEnvironment` (a plain directory, a workspace) gives the same answers; when a tree was
 * stopped, `provenGone` says by observation whether every process of it is gone. Rules: S20, S23, S51, G85, W4, W17.
 */
import type { Readable, Writable } from "node:stream"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Schema from "effect/Schema"
import { errorFields } from "./CoppiceError.ts"

/** The program could not be started inside the environment. */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SpawnFailed", {
  ...errorFields("SPAWN_FAILED"),
  program: Schema.String
}) {}

export interface SpawnOptions {
  /** Directory inside the environment, relative to its root; the root when absent. */
  readonly cwd?: string
  /** Variables added to the environment's allow-listed ones. */
  readonly env?: Readonly<Record<string, string>>
}

/** How a process tree ended. `code` is null when a signal ended it. */
export interface ProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** Which guarantee holds for the tree when the SDK itself dies (S23, S51), and how isolated it is (W17). */
export interface SpawnGuarantee {
  /** True when a SIGKILL of the SDK's process ends the whole tree by the kernel's doing. */
  readonly diesWithParent: boolean
  /** True when `setsid` grandchildren are inside the guarantee too (a pid namespace). */
  readonly wholeTree: boolean
  readonly isolation: "enforced" | "advisory" | "none"
}

/** What identifies a process beyond its pid (S20, G81): the pair pid and start time never repeats within one boot. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in clock ticks since boot, from /proc/PID/stat field 22; null where it cannot be read. */
  readonly startTime: string | null
  readonly bootId: string | null
  readonly pidNamespace: string | null
}

export interface SpawnedProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** The leader as seen from outside, null when it is hidden in a namespace that gives no way to name it. */
  readonly identity: ProcessIdentity | null
  readonly guarantee: SpawnGuarantee
  /** Resolves when the leader has ended. */
  readonly wait: Effect.Effect<ProcessExit>
  /** TERM to the whole tree, KILL after `graceMs` (default 2000), then resolves; see `provenGone` for the proof. */
  readonly kill: (options?: { readonly graceMs?: number }) => Effect.Effect<void>
  /** True when every process of the tree was observed to be gone, false when a member survives (supervision failure). */
  readonly provenGone: Effect.Effect<boolean>
}

/** A place in which processes can be started. */
export interface SpawnEnvironment {
  /** The absolute path under which a process inside sees the root of its files. */
  readonly root: string
  /** What will hold for every tree started here; asked before one is started, so that it can be journaled first (G80, S20). */
  readonly guarantee: Effect.Effect<SpawnGuarantee>
  readonly spawn: (
    argv: readonly [string, ...string[]],
    options?: SpawnOptions
  ) => Effect.Effect<SpawnedProcess, SpawnFailed, Scope.Scope>
}
