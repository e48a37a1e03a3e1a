/**
 * The cap of a store whose backend tells how many bytes it holds.
 * Promise: asked after a state was kept and before its commit stands; a state beyond the cap is dropped again. Rules: W15, RL2.
 */
import { type ByteSize, parseByteSize } from "../../base/ByteSize.ts"
import { StoreOptionInvalid, StoreQuotaExceeded } from "../WorkspaceError.ts"
import type { SnapshotBackend } from "./SnapshotBackend.ts"

export interface SnapshotQuotaOptions {
  /** What the kept states may take at most, as `stats` counts `storedBytes`. */
  readonly storeQuota?: ByteSize
  /** Not known here: bytes are shared between projects. */
  readonly projectQuota?: ByteSize
}

const invalid = (option: string, message: string, remedy: string): StoreOptionInvalid =>
  new StoreOptionInvalid({ message, remedy: `${remedy} Nothing was opened.`, option })

export class SnapshotQuota {
  readonly limit: number | null

  private constructor(limit: number | null) {
    this.limit = limit
  }

  /** Throws `StoreOptionInvalid`. */
  static of(options: SnapshotQuotaOptions): SnapshotQuota {
    if (options.projectQuota !== undefined) {
      const message = "This provider does not count what each project holds."
      throw invalid("projectQuota", message, "Leave `projectQuota` out, or use LayerFS.")
    }
    if (options.storeQuota === undefined) return new SnapshotQuota(null)
    const limit = parseByteSize(options.storeQuota)
    if (limit !== undefined) return new SnapshotQuota(limit)
    const remedy = 'Give whole bytes from 0 up, or text such as "64 MiB".'
    throw invalid("storeQuota", "The option storeQuota is not a size.", remedy)
  }

  /** Rejects with `StoreQuotaExceeded`, also where nobody can tell how much there is. */
  async check(backend: SnapshotBackend): Promise<void> {
    if (this.limit === null) return
    const used = await backend.storedBytes()
    if (used !== null && used <= this.limit) return
    throw new StoreQuotaExceeded({
      message:
        used === null
          ? "How much the store holds cannot be told on this file system, so its cap cannot be kept."
          : `The store would hold ${used} of ${this.limit} bytes.`,
      remedy:
        "Nothing was stored and an open workspace keeps its files. Open the store with a larger `storeQuota`, or without one.",
      scope: "store",
      name: "store",
      limitBytes: this.limit,
      usedBytes: used ?? 0,
      neededBytes: 0
    })
  }
}
