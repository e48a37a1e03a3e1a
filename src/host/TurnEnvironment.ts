/**
 * Where a turn runs: the port through which a host starts its process and reaches files, without knowing what is behind
 * it (a plain directory in the minimal preset, an isolated workspace in the standard one).
 * Promise: a host is started inside its environment and never calls `child_process` itself. (01 "Arrows"; S51, W17)
 */
import type { SpawnEnvironment } from "../base/Spawn.ts"

/** The port that a preset fills for every turn. */
export interface TurnEnvironment extends SpawnEnvironment {}

export {
  type ProcessExit,
  type ProcessIdentity,
  type SpawnEnvironment,
  SpawnFailed,
  type SpawnGuarantee,
  type SpawnedProcess,
  type SpawnOptions
} from "../base/Spawn.ts"
