/**
 * `coppice/promise`: the same services as plain async functions, for hosts that do not use Effect.
 * Promise: nothing of Effect in its declarations, none needed to be installed; failures are plain errors with `_tag`, `code`,
 * `message` and `remedy`; whatever takes long takes a signal and tells its progress. No rule of its own: every write is one
 * service command. Rules: 01 "Arrows" (promise), P4, W14, V2.
 *
 * ```ts
 * import { open } from "coppice/promise"
 *
 * await using coppice = await open({ preset: "standard" })
 * const base = await coppice.workspaces.importDirectory("/home/me/ledger")
 * await using workspace = await coppice.workspaces.open(await coppice.workspaces.fork(base, "try-cache"))
 * const tests = await workspace.exec(["npm", "test"], { timeLimit: "2 minutes" })
 * const saved = await workspace.checkpoint("ran the tests")
 * console.log(tests.exitCode, saved.outcome, (await workspace.changes()).length)
 * ```
 */
import type { Coppice, OpenOptions } from "./promise/Coppice.ts"
import { openCoppice } from "./promise/OpenCoppice.ts"

export type * from "./base/PathBytes.ts"
export type * from "./promise/Coppice.ts"
export type * from "./promise/Context.ts"
export type * from "./promise/Deliveries.ts"
export type * from "./promise/Effects.ts"
export type * from "./promise/Gates.ts"
export type * from "./promise/Governance.ts"
export type * from "./promise/Packets.ts"
export type * from "./promise/Plain.ts"
export type * from "./promise/Quota.ts"
export type * from "./promise/Repair.ts"
export type * from "./promise/Usage.ts"
export type * from "./promise/Turns.ts"
export type * from "./promise/Workspaces.ts"
export type * from "./workspace/HistoryValues.ts"
export type {
  Actor,
  BranchInfo,
  Change,
  CheckpointOutcome,
  CommitInfo,
  CommitOptions,
  ExecResult,
  ExportedPatch,
  FileOperation,
  FileStat,
  ImportReceipt,
  LeftWorkspace,
  Manifest,
  Probe,
  Progress,
  ReadRange,
  StoreStats,
  VerifyReport
} from "./workspace/WorkspaceValues.ts"

/**
 * Opens a store, made when missing. Throws `PresetOptionsError` (see its remedy), `StoreLocation` and `AuthorityLocation` (choose another
 * directory), `Busy` (another process holds it: repeat), `StoreMoved` (use the Coppice that wrote it), `StorageFailure`.
 */
export const open = (options: OpenOptions = {}): Promise<Coppice> => openCoppice(options)
