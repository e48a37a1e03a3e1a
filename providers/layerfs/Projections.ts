/**
 * The projections of LayerFS: an overlay over cached layers where the machine has it, else a copy.
 * Promise: as the kit's Projections. Rules: W1, W2, L15; 04 "Projections".
 */
import * as path from "node:path"
import { StoreOptionInvalid } from "../../src/workspace/WorkspaceError.ts"
import { type Equipment, HolderPool } from "../../src/workspace/kit/HolderPool.ts"
import { findTools, probeMachine } from "../../src/workspace/kit/Machine.ts"
import { makeProjections, type ProjectionManifest, type Projections } from "../../src/workspace/kit/Projections.ts"
import type { StorePort } from "../../src/workspace/kit/StorePort.ts"
import type { LowerServer } from "../../src/workspace/kit/ServedLower.ts"
import type { LayerCache } from "../../src/workspace/kit/LayerCache.ts"

/** What holds for the overlay, which `auto` takes where it can; a copy keeps hard links and renames as they are (W1, L15). */
export const projectionManifest: ProjectionManifest = {
  visiblePath: true,
  unprivileged: true,
  mountAtChosenPath: true,
  hardLinks: "splitOnWrite",
  stableInodes: false,
  renameDirectory: "copyOnly"
}

/** Throws `StoreOptionInvalid`. */
export const poolSizeOf = (option: number | undefined): number => {
  if (option === undefined) return 0
  if (Number.isInteger(option) && option >= 0 && option <= 64) return option
  throw new StoreOptionInvalid({
    message: "The option warmPool is not a number of holders.",
    remedy: "Give a whole number from 0 to 64. Nothing was opened.",
    option: "warmPool"
  })
}

/** As many holders as asked for; undefined for none, and where the machine has no tools for them. */
export const poolOf = (store: StorePort, size: number, equipment: Equipment | null): HolderPool | undefined => {
  const { tools } = findTools()
  if (size === 0 || tools === undefined) return undefined
  const pool = new HolderPool({
    tools,
    work: path.join(store.directory, "work"),
    directory: path.join(store.directory, "cache"),
    size,
    equipment
  })
  pool.fill()
  return pool
}

export const layerProjections = (
  store: StorePort,
  layers: LayerCache,
  server: LowerServer,
  pool: HolderPool | undefined,
  now: () => number
): Projections =>
  makeProjections({
    store,
    layers,
    server,
    pool,
    directory: "copy",
    manifest: projectionManifest,
    probe: () => probeMachine(path.join(store.directory, "work")),
    now
  })
