/**
 * Serves one commit of a store to the kernel, in whatever thread or process it is called.
 * Promise: the store is only read, through a connection of its own; at the end the connection is closed. Rules: L10, L12; 04 "Projections" 2.
 */
import type { Digest } from "../../../src/base/Digest.ts"
import { ReadOnlyDatabase } from "../../../src/sqlite/ReadOnlyDatabase.ts"
import { ObjectReader } from "../ObjectReader.ts"
import { StoredTrees } from "../StoredTrees.ts"
import { serveFuse } from "./FuseServer.ts"
import type { Owner } from "./FuseWire.ts"
import { type Contents, LazyTree } from "./LazyTree.ts"
import { Spill } from "./Spill.ts"

/** What is served. */
export interface LazyWork {
  readonly index: string
  readonly packs: string
  /** A directory of the store, on its disk. */
  readonly work: string
  readonly root: Digest
  readonly times: Digest
}

/** The kernel is told of an error by number alone; `verify` names what is damaged. */
const damaged = (id: Digest): Error => new Error(`damaged: ${id}`)

/** Contents are kept by the kernel, so not here a second time, as directories are. */
const contentsOf = (reader: ObjectReader): Contents => ({
  read: (id, into) => {
    const place = reader.place(id)
    return place === undefined ? reader.read(id) : reader.readPlace(id, place, into)
  }
})

/** Returns when nothing is mounted any more, or when it was stopped. `first` is a request that was read already. */
export const serveCommit = (
  { index, packs, work, ...commit }: LazyWork,
  at: { readonly device: number; readonly owner: Owner; readonly stopped: () => boolean },
  first?: Buffer
): void => {
  const db = new ReadOnlyDatabase(index)
  const spill = new Spill(work)
  const reader = new ObjectReader(db, packs, damaged, spill)
  try {
    serveFuse({ ...at, tree: new LazyTree(contentsOf(reader), new StoredTrees(reader), commit) }, first)
  } finally {
    reader.close()
    spill.close()
    db.close()
  }
}
