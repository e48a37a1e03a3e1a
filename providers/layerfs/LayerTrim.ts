/**
 * Keeps the layer cache within its limit.
 * Promise: what was not used for the longest time goes first, but nothing that a workspace of any process stands on or is about to
 * (LayerLeases.ts); what is taken is out of its place before a byte of it is removed. Rules: L11, W12, W15, W23.
 */
import { randomUUID } from "node:crypto"
import { renameSync } from "node:fs"
import { type ByteSize, parseByteSize } from "../../src/base/ByteSize.ts"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { StoreOptionInvalid } from "../../src/workspace/WorkspaceError.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type { WorkspaceRow } from "../../src/workspace/kit/RefStore.ts"
import type { StorePort } from "../../src/workspace/kit/StorePort.ts"
import type { LayerFiles } from "./LayerFiles.ts"
import type { LayerLeases } from "./LayerLeases.ts"
import { layerSizes } from "./LayerSizes.ts"

/** Allocated bytes that the cache may keep; null is no limit. Throws `StoreOptionInvalid`. */
export const cacheLimitOf = (option: ByteSize | undefined): number | null => {
  if (option === undefined) return null
  const bytes = parseByteSize(option)
  if (bytes !== undefined) return bytes
  throw new StoreOptionInvalid({
    message: "The option cacheLimit is not a size.",
    remedy: 'Give whole bytes from 0 up, or text such as "4 GiB". Nothing was opened.',
    option: "cacheLimit"
  })
}

export interface TrimParts {
  readonly store: Pick<StorePort, "workspaces">
  readonly files: LayerFiles
  readonly leases: LayerLeases
  readonly limit: number | null
}

export class LayerTrim {
  readonly #parts: TrimParts
  #running: Promise<void> = Promise.resolve()

  constructor(parts: TrimParts) {
    this.#parts = parts
  }

  /** Beside everything else: nobody waits for a tree to be removed. A failure only means that more is kept than was meant. */
  begin(): void {
    const { limit } = this.#parts
    if (limit !== null) this.#running = this.#running.then(() => this.#trimTo(limit)).catch(() => undefined)
  }

  /** Resolves when nothing is being taken away any more. */
  settled(): Promise<void> {
    return this.#running
  }

  /** What lies there, and what may; `bytes` is null when a part could not be measured (L11). */
  async stats(): Promise<{ readonly bytes: number | null; readonly limitBytes: number | null }> {
    const sizes = [...(await this.#sizes()).values()]
    const bytes = sizes.includes(null) ? null : sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
    return { bytes, limitBytes: this.#parts.limit }
  }

  async #sizes(): Promise<ReadonlyMap<string, number | null>> {
    const { files } = this.#parts
    return layerSizes(files.cache, await files.names(), (name) => files.working(name))
  }

  async #trimTo(limit: number): Promise<void> {
    const { files } = this.#parts
    const sizes = await this.#sizes()
    const lying = await Promise.all(
      [...sizes].map(async ([name, bytes]) => ({ name, bytes, used: await files.lastUse(name) }))
    )
    let bytes = lying.reduce((sum, layer) => sum + (layer.bytes ?? 0), 0)
    // What stands on others goes before them: it was used no later.
    for (const layer of lying.toSorted((a, b) => a.used - b.used || (a.name < b.name ? 1 : -1))) {
      if (bytes <= limit) return
      if (await this.takeAway(layer.name)) bytes -= layer.bytes ?? 0
    }
  }

  /**
   * False when somebody needs the layer. One that was `changed`, as it must `still` be in the last moment, is needed only by workspaces
   * that are open: those that are `left` or kept stand on nothing, and get it made anew.
   */
  async takeAway(
    name: string,
    changed?: { readonly still: () => boolean; readonly left: readonly string[] }
  ): Promise<boolean> {
    const { files, leases, store } = this.#parts
    const unnamed = async (): Promise<boolean> => {
      const rows = await store.workspaces(["open", "kept", "quarantined"])
      const needs = ({ id, state }: WorkspaceRow): boolean =>
        changed === undefined || (state === "open" && !changed.left.includes(id))
      return changed?.still() !== false && !rows.some((row) => needs(row) && row.lowers.includes(name))
    }
    const away = files.working(`${name}-taken-${randomUUID()}`)
    const taken = await leases.take(name, unnamed, () => {
      crashPoint("cache.taking")
      renameSync(files.at(name), away)
      crashPoint("cache.taken")
      files.forget(name)
    })
    if (taken) await removeTree(away)
    return taken
  }
}
