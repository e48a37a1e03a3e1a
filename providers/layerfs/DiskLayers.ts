/**
 * The layer cache on disk: `cache/base/<root>-<times>/` and `cache/delta/<commit>/`, each complete when its `.ok` file stands
 * beside it and was written since this boot.
 * Promise: a directory handed out is whole and is never written again; a half one is never used: it is made under another
 * name and renamed, and after a reboot, which may have lost what was not flushed, it is made anew. Beyond the limit what was not
 * used for the longest time goes, but nothing that a workspace of any process stands on or is about to. Rules: L10, L11, W12, W15, W23,
 * C20.
 */
import * as fs from "node:fs/promises"
import { randomUUID } from "node:crypto"
import { existsSync, readFileSync, renameSync, rmSync } from "node:fs"
import * as path from "node:path"
import { type ByteSize, parseByteSize } from "../../src/base/ByteSize.ts"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { currentIdentity, isAlive, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { RefNotFound, StoreOptionInvalid } from "../../src/workspace/WorkspaceError.ts"
import type { HeldLowers, LayerCache } from "../../src/workspace/kit/LayerCache.ts"
import { bootId, startTimeOf } from "../../src/workspace/kit/Machine.ts"
import { LayerLeases } from "./LayerLeases.ts"
import { layerSizes } from "./LayerSizes.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type { StorePort } from "../../src/workspace/kit/StorePort.ts"

/** Beyond this many, each lookup costs more than a base directory of its own (overlayfs walks them one by one). */
const maxLayers = 8

interface Mark {
  readonly boot: string | null
  /** The layers below this one, top first. */
  readonly below: readonly string[]
  /** Who wrote it. Absent in marks of older versions. */
  readonly maker?: ProcessIdentity
}

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

/** A layer as it lies on the disk. */
interface Lying {
  readonly name: string
  /** Null where it could not be measured. */
  readonly bytes: number | null
  /** When it was last asked for, in milliseconds since 1970; 0 when no workspace can be opened on it any more. */
  readonly used: number
}

export class DiskLayers implements LayerCache {
  readonly #store: StorePort
  readonly #cache: string
  readonly #limit: number | null
  readonly #leases: LayerLeases
  readonly #making = new Map<string, Promise<void>>()
  readonly #boot = bootId()
  #trimming: Promise<void> = Promise.resolve()

  constructor(store: StorePort, limit: number | null) {
    this.#store = store
    this.#cache = path.join(store.directory, "cache")
    this.#limit = limit
    this.#leases = new LayerLeases(this.#cache)
  }

  async ensure(commit: string): Promise<HeldLowers> {
    for (;;) {
      const known = this.#delta(commit)
      const names = known ?? [await this.#baseName(commit)]
      const release = await this.#leases.hold(names)
      try {
        if (known === undefined) await this.restore(commit, names[0]!)
        if (known === undefined || this.available(names)) {
          const now = new Date()
          for (const name of names) await fs.utimes(this.#markOf(name), now, now).catch(() => undefined)
          return { directory: this.#cache, names, release }
        }
      } catch (error) {
        release()
        throw error
      }
      // One of them was taken between the look and the hold: by now its commit has other layers.
      release()
    }
  }

  async isCached(commit: string): Promise<boolean> {
    return this.#delta(commit) !== undefined || this.#mark(await this.#baseName(commit)) !== undefined
  }

  /** True when every layer is there and whole. */
  available(names: readonly string[]): boolean {
    return names.every((name) => this.#mark(name) !== undefined)
  }

  /** Makes the base directory `name` of a commit when it is not there. */
  async restore(commit: string, name: string): Promise<void> {
    if (this.#mark(name) !== undefined) return
    const running = this.#making.get(name) ?? this.#make(commit, name)
    this.#making.set(name, running)
    try {
      await running
    } finally {
      this.#making.delete(name)
    }
    this.trim()
  }

  async adopt(commit: string, lowers: readonly string[], upper: string): Promise<void> {
    if (lowers.length >= maxLayers || this.#delta(commit) !== undefined) return
    const name = `delta/${commit}`
    await fs.mkdir(path.join(this.#cache, "delta"), { recursive: true, mode: 0o700 })
    await this.#writeMark(name, lowers)
    crashPoint("layers.deltaMarked")
    await this.#place(upper, path.join(this.#cache, name))
    this.trim()
  }

  /** Another process may have been first: its directory shows the same. */
  async #place(made: string, target: string): Promise<void> {
    faultPoint("layers.place")
    await fs.rename(made, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
    })
  }

  async sweep(): Promise<void> {
    await sweepLayers(this.#cache)
    this.trim()
  }

  /** What lies there, and what may; `bytes` is null when a part could not be measured (L11). */
  async stats(): Promise<{ readonly bytes: number | null; readonly limitBytes: number | null }> {
    const lying = await this.#lying()
    const bytes = lying.some((layer) => layer.bytes === null) ? null : sum(lying)
    return { bytes, limitBytes: this.#limit }
  }

  /** Resolves when nothing is being taken away any more. */
  settled(): Promise<void> {
    return this.#trimming
  }

  /** Beside everything else: nobody waits for a tree to be removed. A failure only means that more is kept than was meant. */
  trim(): void {
    const limit = this.#limit
    if (limit !== null) this.#trimming = this.#trimming.then(() => this.#trimTo(limit)).catch(() => undefined)
  }

  async #trimTo(limit: number): Promise<void> {
    const lying = await this.#lying()
    let bytes = sum(lying)
    // What stands on others goes before them; it was used no later.
    const order = lying.toSorted((a, b) => a.used - b.used || (a.name < b.name ? 1 : -1))
    for (const layer of order) {
      if (bytes <= limit) return
      if (await this.#takeAway(layer.name)) bytes -= layer.bytes ?? 0
    }
  }

  async #takeAway(name: string): Promise<boolean> {
    const unnamed = async (): Promise<boolean> => {
      const rows = await this.#store.workspaces(["open", "kept", "quarantined"])
      return !rows.some((row) => row.lowers.includes(name))
    }
    const away = this.#working(`${name}-taken-${randomUUID()}`)
    const taken = await this.#leases.take(name, unnamed, () => {
      crashPoint("cache.taking")
      renameSync(path.join(this.#cache, name), away)
      crashPoint("cache.taken")
      for (const suffix of ["ok", "size"]) rmSync(path.join(this.#cache, `${name}.${suffix}`), { force: true })
    })
    if (taken) await removeTree(away)
    return taken
  }

  async #lying(): Promise<readonly Lying[]> {
    const names: string[] = []
    for (const kind of ["base", "delta"]) {
      const found = await fs.readdir(path.join(this.#cache, kind), { withFileTypes: true }).catch(() => [])
      names.push(
        ...found.filter((at) => at.isDirectory() && !at.name.startsWith(".")).map((at) => `${kind}/${at.name}`)
      )
    }
    const sizes = await layerSizes(this.#cache, names, (name) => this.#working(name))
    return Promise.all(
      names.map(async (name) => {
        const mark = this.#mark(name)
        const usable = mark !== undefined && this.available(mark.below)
        const stat = usable ? await fs.stat(this.#markOf(name)).catch(() => undefined) : undefined
        return { name, bytes: sizes.get(name) ?? null, used: stat?.mtimeMs ?? 0 }
      })
    )
  }

  #markOf(name: string): string {
    return path.join(this.#cache, `${name}.ok`)
  }

  #delta(commit: string): readonly string[] | undefined {
    const name = `delta/${commit}`
    const mark = this.#mark(name)
    return mark === undefined || !this.available(mark.below) ? undefined : [name, ...mark.below]
  }

  async #baseName(commit: string): Promise<string> {
    const row = await this.#store.resolve(commit)
    if (row === undefined) {
      throw new RefNotFound({ message: "No commit has this id.", remedy: "List the branch's log.", ref: commit })
    }
    // 128 bits of each digest keep the mount options short; the cache is checked against nothing but its own marks.
    return `base/${row.root.slice(7, 39)}-${row.times.slice(7, 39)}`
  }

  #mark(name: string): Mark | undefined {
    try {
      const mark = JSON.parse(readFileSync(this.#markOf(name), "utf8")) as Mark
      return mark.boot === this.#boot && existsSync(path.join(this.#cache, name)) ? mark : undefined
    } catch {
      return undefined
    }
  }

  /** A name beside `name` that tells a later process whose unfinished work it is. */
  #working(name: string): string {
    const at = path.join(this.#cache, name)
    return path.join(
      path.dirname(at),
      `.making-${process.pid}-${startTimeOf(process.pid) ?? "0"}-${path.basename(name)}`
    )
  }

  async #writeMark(name: string, below: readonly string[]): Promise<void> {
    const mark: Mark = { boot: this.#boot, below, maker: currentIdentity() }
    const made = this.#working(`${name}.ok`)
    faultPoint("layers.mark")
    await fs.writeFile(made, JSON.stringify(mark), { mode: 0o600 })
    crashPoint("layers.markMade")
    await fs.rename(made, this.#markOf(name))
  }

  async #make(commit: string, name: string): Promise<void> {
    const base = path.join(this.#cache, "base")
    await fs.mkdir(base, { recursive: true, mode: 0o700 })
    const target = path.join(this.#cache, name)
    const made = this.#working(name)
    try {
      await this.#store.materialise(commit, made, null)
      crashPoint("layers.baseMade")
      // A mark is written before its directory appears, so a directory without one is from before this boot.
      if (existsSync(target) && this.#mark(name) === undefined) {
        await fs.rename(target, `${made}-stale`)
        await removeTree(`${made}-stale`)
      }
      await this.#writeMark(name, [])
      crashPoint("layers.baseMarked")
      await this.#place(made, target)
      crashPoint("layers.basePlaced")
    } finally {
      await removeTree(made)
    }
  }
}

/** Of what could be measured. */
const sum = (lying: readonly Lying[]): number => lying.reduce((all, { bytes }) => all + (bytes ?? 0), 0)

/** Removes what processes that are gone had begun to make, and marks of theirs whose directory never came. */
const sweepLayers = async (cache: string): Promise<void> => {
  for (const kind of ["base", "delta"]) {
    const directory = path.join(cache, kind)
    const names = new Set(await fs.readdir(directory).catch(() => []))
    for (const name of names) {
      const at = path.join(directory, name)
      const [, pid, start] = /^\.making-(\d+)-(\d+)-/.exec(name) ?? []
      if (pid !== undefined) {
        const now = startTimeOf(Number(pid))
        if (now !== start && !(now === null && start === "0")) await removeTree(at)
      } else if (name.endsWith(".size") && !existsSync(at.slice(0, -5))) {
        await removeTree(at)
      } else if (name.endsWith(".ok") && !existsSync(at.slice(0, -3)) && makerIsGone(at)) {
        await removeTree(at)
      }
    }
  }
}

/** True when the mark names a process that is known to be gone: nobody is about to put the directory beside it. */
const makerIsGone = (mark: string): boolean => {
  try {
    const { maker } = JSON.parse(readFileSync(mark, "utf8")) as Mark
    return maker !== undefined && isAlive(maker) === false
  } catch {
    return false
  }
}
