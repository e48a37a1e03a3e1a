/**
 * `coppice/providers/reflink`: workspaces and states as clones of directories, on btrfs and XFS.
 * Promise: importing it starts nothing; the layer opens the store and closes it with its scope. Rules: P4, P9; RL1, RL2.
 */
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import {
  makeSnapshotProvider,
  type SnapshotOpenFailure,
  type SnapshotProviderOptions
} from "../../src/workspace/kit/SnapshotProvider.ts"
import { type WorkspaceProvider, Workspaces } from "../../src/workspace/WorkspaceProvider.ts"
import { reflinkBackend } from "./Backend.ts"

export type { SnapshotOpenFailure, SnapshotProviderOptions } from "../../src/workspace/kit/SnapshotProvider.ts"

/** The provider itself, open until the scope ends. Failures as `reflink`. */
export const openReflink = (
  options: SnapshotProviderOptions
): Effect.Effect<WorkspaceProvider, SnapshotOpenFailure, Scope.Scope> =>
  makeSnapshotProvider("reflink", reflinkBackend, options)

/**
 * The provider as a layer.
 *
 * `store` is the store's directory (`reflink/` is made below it), on a file system with file clones: btrfs, or XFS made with `reflink=1`. On
 * another one it opens, `probe` names what is missing, and an import is `Unavailable`. A source on the same file system is cloned, one
 * from elsewhere copied once, which its receipt says; forks, checkpoints and workspaces copy nothing. `durability`: `full` (default) survives
 * power loss, `normal` a killed process, `disposable` neither. `storeQuota` caps the bytes of the kept states' extents, each counted
 * once. Fails with `StoreOptionInvalid` (give a size), `StoreLocation` (choose another directory), `Busy` (another process holds it: repeat),
 * `StorageFailure` (see its remedy), `StoreMoved` (use the Coppice that wrote it).
 *
 * ```ts
 * const live = reflink({ store: "/srv/btrfs/coppice" })
 * const program = Effect.gen(function* () {
 *   const workspaces = yield* Workspaces
 *   const { layer } = yield* workspaces.importDirectory({ source: "/srv/btrfs/project" })
 *   return yield* workspaces.fork(layer, { name: "attempt-1" })
 * })
 * await Effect.runPromise(Effect.provide(program, live))
 * ```
 */
export const reflink = (options: SnapshotProviderOptions): Layer.Layer<Workspaces, SnapshotOpenFailure> =>
  Layer.effect(Workspaces, openReflink(options))
