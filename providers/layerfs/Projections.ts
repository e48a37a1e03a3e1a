/**
 * The projections of LayerFS: an overlay over cached layers where the machine has it, else a copy.
 * Promise: as the kit's Projections. Rules: W1, W2, L15; 04 "Projections".
 */
import * as path from "node:path"
import { probeMachine } from "../../src/workspace/kit/Machine.ts"
import { makeProjections, type ProjectionManifest, type Projections } from "../../src/workspace/kit/Projections.ts"
import type { StorePort } from "../../src/workspace/kit/StorePort.ts"
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

export const layerProjections = (store: StorePort, layers: LayerCache, now: () => number): Projections =>
  makeProjections({
    store,
    layers,
    directory: "copy",
    manifest: projectionManifest,
    probe: () => probeMachine(path.join(store.directory, "work")),
    now
  })
