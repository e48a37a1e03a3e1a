/**
 * What LayerFS could do with a store on the disk of a given directory, found out without opening a store.
 * Promise: really tried (namespaces, an overlay mount) in a scratch directory below it, which is gone afterwards; makes no
 * store and starts nothing that outlives the call. Rules: W2, L12; C14 (what the projection declares).
 */
import { statfsSync } from "node:fs"
import * as Effect from "effect/Effect"
import type { Probe } from "../../src/workspace/WorkspaceProvider.ts"
import { projectionManifest as manifest } from "./Projections.ts"
import { probeMachine } from "../../src/workspace/kit/Machine.ts"
import type { ProjectionManifest } from "../../src/workspace/kit/Projections.ts"
import { networkFileSystem } from "../../src/workspace/kit/StoreDirectory.ts"

export interface DirectoryProbe {
  /** As the provider's own `probe` would answer for a store there. */
  readonly probe: Probe
  /** The name of the network file system that the directory lies on, for which a store is refused; null on a local one. */
  readonly network: string | null
  /** What the projection that `auto` prefers declares of itself. */
  readonly declares: ProjectionManifest
}

/** `directory` must exist and be writable. */
export const probeDirectory = (directory: string): Effect.Effect<DirectoryProbe> =>
  Effect.promise(async () => ({
    probe: await probeMachine(directory),
    network: networkFileSystem(Number(statfsSync(directory).type)) ?? null,
    declares: manifest
  }))
