/**
 * The layer cache on disk: `cache/base/<root>-<times>/`, a whole tree, and `cache/delta/<commit>/`, what a commit needs above others.
 * Promise: the layers handed out show the commit exactly and stay until they are released; a commit near one that is cached costs
 * what it differs in, not its tree, whatever lies between the two; no view has so many layers that a look at a name costs more than
 * twice what it costs in one; one that somebody else has changed is noticed as LayerLooks.ts says. Rules: L10, L11, L15, W12, W15, W23, C20; 04 "Projections" 1.
 */
import * as path from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { ObjectDamaged, RefNotFound } from "../../src/workspace/WorkspaceError.ts"
import type { ChangedLayer } from "../../src/workspace/StoreValues.ts"
import type { HeldLowers, LayerCache } from "../../src/workspace/kit/LayerCache.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { MakingScope } from "../../src/workspace/kit/StorePort.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { baseName, commitOfDelta, deltaName, LayerFiles } from "./LayerFiles.ts"
import { LayerLeases } from "./LayerLeases.ts"
import { LayerLooks } from "./LayerLooks.ts"
import { LookThread } from "./LookThread.ts"
import { LayerTrim } from "./LayerTrim.ts"
import type { LayerStorePort } from "./StorePortOf.ts"

/** Each layer that has a directory adds 0.8 us to the first look at a name in it, which takes 6.5 us in one layer (decision 064). */
const maxLayers = 8

/** A delta of more entries is hardly cheaper than a tree of its own. */
const maxDeltaEntries = 20_000

/** How many of the bases last used are looked at for one of the same project, when the parent's layers are not there or too many. */
const basesLookedAt = 16

/** What a commit can be shown by: layers that are there, or ones of which the first is still to be made. */
interface View {
  readonly names: readonly string[]
  /** The commit that those below the first show; absent where the first one is there, or is a base. */
  readonly below?: string
}

/** A layer on its way, which several openings may wait for. */
interface Making {
  /** False when it is too large. */
  readonly done: Promise<boolean>
  /** Stops the work, when nobody waits for it any more. */
  readonly stop: AbortController
  /** Of those who wait for it. */
  readonly listeners: Set<(progress: Progress) => void>
  waiting: number
}

/** For work that nobody may give up. */
const kept: MakingScope = { signal: new AbortController().signal }

export class DiskLayers implements LayerCache {
  readonly #store: LayerStorePort
  readonly #files: LayerFiles
  readonly #leases: LayerLeases
  readonly #trim: LayerTrim
  readonly #thread = new LookThread()
  readonly #looks: LayerLooks
  readonly #making = new Map<string, Making>()

  constructor(store: LayerStorePort, limit: number | null) {
    this.#store = store
    this.#files = new LayerFiles(path.join(store.directory, "cache"), (at) => this.#thread.look(at))
    this.#leases = new LayerLeases(this.#files.cache)
    this.#looks = new LayerLooks(this.#files, this.#leases, this.#thread)
    this.#trim = new LayerTrim({ store, files: this.#files, leases: this.#leases, limit })
  }

  async ensure(commit: string, scope: MakingScope): Promise<HeldLowers> {
    const row = await this.#row(commit)
    let near = true
    for (;;) {
      const view = this.#known(row) ?? (near ? await this.#near(row) : undefined) ?? { names: [baseName(row)] }
      await this.#withoutChanged(view.names)
      const release = await this.#leases.hold(view.names)
      try {
        // A delta that would be too large is not made: then the commit gets a tree of its own.
        near = await this.#complete(commit, view, scope)
        if (near && this.#files.available(view.names)) {
          this.#files.touch(view.names)
          this.#looks.begin(view.names)
          return { directory: this.#files.cache, names: view.names, release }
        }
      } catch (error) {
        release()
        throw error
      }
      // Else one of them was taken between the look and the hold: by now the commit has other layers.
      release()
    }
  }

  async isCached(commit: string): Promise<boolean> {
    return this.#known(await this.#row(commit)) !== undefined
  }

  available(names: readonly string[]): boolean {
    return this.#files.available(names) && names.every((name) => this.#isAsMade(name))
  }

  looked(names: readonly string[]): Promise<void> {
    return this.#looks.ended(names)
  }

  async restore(commit: string, names: readonly string[], left: readonly string[]): Promise<() => void> {
    await this.#makeAgain(commit, names, left)
    return this.#leases.hold(names)
  }

  /** From the bottom up, under the same names: a name stands for one view. */
  async #makeAgain(commit: string, names: readonly string[], left: readonly string[]): Promise<void> {
    for (const name of names) {
      await this.#looks.again(name)
      await this.#takeChanged(name, left)
    }
    let below: string | undefined
    for (let at = names.length - 1; at >= 0; at -= 1) {
      const of = commitOfDelta(names[at]!) ?? (await this.#commitOfBase(names[at]!, commit))
      if (of === undefined || (await this.#store.resolve(of)) === undefined) return
      const view = { names: names.slice(at), ...(below === undefined ? {} : { below }) }
      await this.#complete(of, view, kept, Number.MAX_SAFE_INTEGER)
      below = of
    }
  }

  /** By its mark, else among the commits that came before. */
  async #commitOfBase(name: string, commit: string): Promise<string | undefined> {
    for (const begin of [this.#files.madeFor(name), commit]) {
      for (let id = begin ?? null; id !== null; ) {
        const row = await this.#store.resolve(id)
        if (row !== undefined && baseName(row) === name) return row.id
        id = row?.parent ?? null
      }
    }
    return undefined
  }

  async look(upper: string): Promise<string> {
    return (await this.#thread.look(upper)).digest
  }

  /**
   * One beyond the bound is not taken, nor one under which a hard-link group of the layers below has lost a name: its inode there would count
   * it for ever. The layer of such a commit is made from the store when it is asked for.
   */
  async adopt(commit: string, lowers: readonly string[], upper: string, looked: string | undefined): Promise<void> {
    if (lowers.length >= maxLayers || this.#files.deltaOf(commit) !== undefined) return
    const below = commitOfDelta(lowers[0]!) ?? (await this.#commitOfBase(lowers[0]!, commit))
    if (below === undefined || (await this.#store.touchesLinks(commit, below))) return
    const now = await this.#thread.look(upper)
    if (looked !== now.digest) return
    const name = deltaName(commit, lowers)
    await this.#files.writeMark(name, lowers, commit, upper, now)
    crashPoint("layers.deltaMarked")
    await this.#files.place(upper, name, lowers, commit)
    this.trim()
  }

  async sweep(): Promise<void> {
    await this.#files.sweep()
    this.trim()
  }

  trim(): void {
    this.#trim.begin()
  }

  stats(): ReturnType<LayerTrim["stats"]> {
    return this.#trim.stats()
  }

  /** Looks at all that lies there; what somebody else has changed goes, where nobody stands on it. */
  async verify(): Promise<readonly ChangedLayer[]> {
    const changed: ChangedLayer[] = []
    for (const name of await this.#files.names()) {
      await this.#looks.again(name)
      if (!this.#isAsMade(name)) changed.push({ layer: name, removed: await this.#takeChanged(name) })
    }
    return changed
  }

  /** Resolves when nothing is being taken away or looked at any more. */
  async end(): Promise<void> {
    await this.#thread.end()
    await this.#trim.settled()
  }

  /** As far as this process knows. */
  #isAsMade(name: string): boolean {
    return this.#files.isAsMade(name) && !this.#looks.isChanged(name)
  }

  /** True when the changed layer is gone from its place. */
  async #takeChanged(name: string, left: readonly string[] = []): Promise<boolean> {
    const still = (): boolean => !this.#isAsMade(name)
    return still() && this.#trim.takeAway(name, { still, left })
  }

  async #row(commit: string): Promise<CommitRow> {
    const row = await this.#store.resolve(commit)
    if (row !== undefined) return row
    throw new RefNotFound({ message: "No commit has this id.", remedy: "List the branch's log.", ref: commit })
  }

  /** Layers that show the commit and are there. */
  #known(row: CommitRow): View | undefined {
    const names = this.#files.deltaOf(row.id) ?? this.#files.chain(baseName(row))
    return names === undefined ? undefined : { names }
  }

  /** A delta above layers that are there: those of the parent, else a base of the same project, the last used first. */
  async #near(row: CommitRow): Promise<View | undefined> {
    const over = (names: readonly string[], of: CommitRow): View => ({
      names: [deltaName(row.id, names), ...names],
      below: of.id
    })
    const parent = row.parent === null ? undefined : await this.#store.resolve(row.parent)
    const known = parent === undefined ? undefined : this.#known(parent)?.names
    if (known !== undefined && known.length < maxLayers) return over(known, parent!)
    for (const base of await this.#basesByUse()) {
      const of = this.#files.mark(base)?.of
      const shown = of === undefined ? undefined : await this.#store.resolve(of)
      if (shown?.project === row.project) return over([base], shown)
    }
    return undefined
  }

  async #basesByUse(): Promise<readonly string[]> {
    const bases = (await this.#files.names()).filter((name) => name.startsWith("base/"))
    const used = await Promise.all(bases.map(async (name) => ({ name, used: await this.#files.lastUse(name) })))
    const usable = used.filter((base) => base.used > 0).toSorted((a, b) => b.used - a.used)
    return usable.slice(0, basesLookedAt).map(({ name }) => name)
  }

  /** A layer that somebody else has changed goes, unless a workspace stands on it: then nobody else gets it. */
  async #withoutChanged(names: readonly string[]): Promise<void> {
    for (const name of names) {
      // Another process may have made it anew meanwhile.
      if ((await this.#takeChanged(name)) || this.#isAsMade(name)) continue
      throw new ObjectDamaged({
        message: "A cached layer is not as it was made: somebody else has changed it, and a workspace stands on it.",
        remedy:
          "End the workspaces on it, recover or discard those that a killed process left, and open again: the layer is then made anew from the store.",
        object: name
      })
    }
  }

  /** Makes the first layer of a view when it is not there; whoever asks meanwhile gets the same answer. False when it is too large. */
  async #complete(commit: string, view: View, scope: MakingScope, limit = maxDeltaEntries): Promise<boolean> {
    const [name] = view.names as [string]
    for (;;) {
      scope.signal.throwIfAborted()
      if (this.#files.mark(name) !== undefined) return true
      const making = this.#making.get(name) ?? this.#begin(commit, view, limit)
      if (!making.stop.signal.aborted) return this.#waitFor(making, scope)
      // Nobody waited for that one any more: another can begin when it is taken back.
      await making.done.catch(() => undefined)
    }
  }

  #begin(commit: string, { names, below }: View, limit: number): Making {
    const [name, ...lower] = names as [string, ...string[]]
    const stop = new AbortController()
    const listeners = new Set<(progress: Progress) => void>()
    const scope: MakingScope = {
      signal: stop.signal,
      progress: (step) => {
        for (const tell of listeners) tell(step)
      }
    }
    const write = async (made: string): Promise<boolean> => {
      if (below !== undefined) return this.#store.materialiseDelta(commit, below, made, limit, scope)
      await this.#store.materialise(commit, made, null, scope)
      return true
    }
    const done = this.#files.make(name, lower, commit, write).finally(() => {
      this.#making.delete(name)
      this.trim()
    })
    const making = { done, stop, listeners, waiting: 0 }
    this.#making.set(name, making)
    return making
  }

  async #waitFor(making: Making, { signal, progress }: MakingScope): Promise<boolean> {
    making.waiting += 1
    if (progress !== undefined) making.listeners.add(progress)
    let leave: (() => void) | undefined
    const left = new Promise<"left">((resolve) => {
      leave = () => resolve("left")
      signal.addEventListener("abort", leave)
    })
    try {
      const ended = await Promise.race([making.done, left])
      if (ended !== "left") return ended
    } finally {
      signal.removeEventListener("abort", leave!)
      making.waiting -= 1
      if (progress !== undefined) making.listeners.delete(progress)
    }
    if (making.waiting === 0) {
      making.stop.abort()
      await making.done.catch(() => undefined)
    }
    throw signal.reason
  }
}
