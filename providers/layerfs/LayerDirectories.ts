/**
 * The directories of LayerFS in a store: `layerfs/{index.db, packs/, cache/, work/}`. Rules: 01 "On disk"; L12.
 */
import { join } from "node:path"
import { openProviderDirectory } from "../../src/workspace/kit/StoreDirectory.ts"

export interface StoreDirectories {
  /** `STORE/layerfs`, as a real path. */
  readonly root: string
  readonly index: string
  readonly packs: string
  readonly cache: string
  readonly work: string
}

/** Makes or checks the directories of the store at `store`. Throws `StoreLocation`. */
export const openStoreDirectories = (store: string): StoreDirectories => {
  const root = openProviderDirectory(store, "layerfs", ["packs", "cache", "work"])
  return {
    root,
    index: join(root, "index.db"),
    packs: join(root, "packs"),
    cache: join(root, "cache"),
    work: join(root, "work")
  }
}
