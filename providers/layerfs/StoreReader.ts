/**
 * The reader of an open store: an `ObjectReader` with the contract's errors.
 * Promise: what a newer Coppice wrote meanwhile is `StoreMoved`, anything else that cannot be read is `ObjectDamaged`. Rules: L10, L12.
 */
import type { Digest } from "../../src/base/Digest.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { ObjectDamaged } from "../../src/workspace/WorkspaceError.ts"
import { ObjectReader } from "./ObjectReader.ts"

export const damaged = (id: Digest): ObjectDamaged =>
  new ObjectDamaged({
    message: "A stored object does not match its id; nothing of it was handed out.",
    remedy: "Run verify to see which paths and commits it belongs to, and restore the pack file from a backup.",
    object: id
  })

/** One per thread. Reading throws `ObjectDamaged`, `StoreMoved`. */
export const storeReader = (db: Database, packs: string): ObjectReader =>
  new ObjectReader(db, packs, (id) => {
    db.checkVersion()
    return damaged(id)
  })
