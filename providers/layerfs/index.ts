/**
 * `coppice/providers/layerfs`: the default workspace provider.
 * Promise: importing it starts nothing; the layer opens the store and closes it with its scope. Rules: P4, P9; 04 "LayerFS".
 */
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type WorkspaceProvider, Workspaces } from "../../src/workspace/WorkspaceProvider.ts"
import type { LayerStoreOptions } from "./LayerStore.ts"
import { makeLayerFs, type OpenFailure } from "./Provider.ts"

export type { LayerStoreOptions } from "./LayerStore.ts"
export { probeDirectory, type DirectoryProbe } from "./ProbeDirectory.ts"
export { layerFsVersion, type OpenFailure } from "./Provider.ts"

/** The provider itself, open until the scope ends. Failures as `layerFs`. */
export const openLayerFs = (options: LayerStoreOptions): Effect.Effect<WorkspaceProvider, OpenFailure, Scope.Scope> =>
  makeLayerFs(options)

/**
 * The provider as a layer.
 *
 * `store` is the store's directory (`layerfs/` is made below it); it must be on a local disk and belong to this user.
 * `durability`: `full` (default) survives power loss, `normal` a killed process, `disposable` neither; it is named in every
 * result. `storeQuota` and `projectQuota` cap the bytes of objects in the store and those that one project may add, as bytes or as
 * text such as `"2 GiB"`: a call that would pass one is `StoreQuotaExceeded` and changes nothing; the index, cached layers and open
 * workspaces are not counted. `cacheLimit` bounds the cached layers (trees that were shown once): beyond it those go that were not used for
 * the longest time, but none that an open or kept workspace stands on, of any process; what is asked for again is made again. `warmPool` keeps so many
 * holders of namespaces ready while the layer is open (`stats().pool`), so that a workspace is ready sooner, and from the first `lazy` one on a server beside each. Fails with `StoreOptionInvalid` (give a size), `StoreLocation` (choose another directory), `Busy` (another process holds it: repeat), `StorageFailure`
 * (see its remedy), `StoreMoved` (use the Coppice that wrote it).
 *
 * ```ts
 * const live = layerFs({ store: "/var/lib/my-app/coppice" })
 * const program = Effect.gen(function* () {
 *   const workspaces = yield* Workspaces
 *   const { layer } = yield* workspaces.importDirectory({ source: "/src/project" })
 *   return yield* workspaces.fork(layer, { name: "attempt-1" })
 * })
 * await Effect.runPromise(Effect.provide(program, live))
 * ```
 */
export const layerFs = (options: LayerStoreOptions): Layer.Layer<Workspaces, OpenFailure> =>
  Layer.effect(Workspaces, openLayerFs(options))
