/**
 * The layer cache on disk: `cache/base/<root>-<times>/` and `cache/delta/<commit>/`, each complete when its `.ok` file stands
 * beside it and was written since this boot.
 * Promise: a directory handed out is whole and is never written again; a half one is never used: it is made under another
 * name and renamed, and after a reboot, which may have lost what was not flushed, it is made anew. Rules: L10, W12, C20.
 */
import * as fs from "node:fs/promises"
import { existsSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { currentIdentity, isAlive, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { RefNotFound } from "../../src/workspace/WorkspaceError.ts"
import type { LayerCache, Lowers } from "../../src/workspace/kit/LayerCache.ts"
import { bootId, startTimeOf } from "../../src/workspace/kit/Machine.ts"
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

export class DiskLayers implements LayerCache {
  readonly #store: StorePort
  readonly #cache: string
  readonly #making = new Map<string, Promise<void>>()
  readonly #boot = bootId()

  constructor(store: StorePort) {
    this.#store = store
    this.#cache = path.join(store.directory, "cache")
  }

  async ensure(commit: string): Promise<Lowers> {
    const known = this.#delta(commit)
    if (known !== undefined) return this.#lowers(known)
    const name = await this.#baseName(commit)
    await this.restore(commit, name)
    return this.#lowers([name])
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
  }

  async adopt(commit: string, lowers: readonly string[], upper: string): Promise<void> {
    if (lowers.length >= maxLayers || this.#delta(commit) !== undefined) return
    const name = `delta/${commit}`
    await fs.mkdir(path.join(this.#cache, "delta"), { recursive: true, mode: 0o700 })
    await this.#writeMark(name, lowers)
    crashPoint("layers.deltaMarked")
    await this.#place(upper, path.join(this.#cache, name))
  }

  /** Another process may have been first: its directory shows the same. */
  async #place(made: string, target: string): Promise<void> {
    faultPoint("layers.place")
    await fs.rename(made, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
    })
  }

  sweep(): Promise<void> {
    return sweepLayers(this.#cache)
  }

  #lowers(names: readonly string[]): Lowers {
    return { directory: this.#cache, names }
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
      const mark = JSON.parse(readFileSync(path.join(this.#cache, `${name}.ok`), "utf8")) as Mark
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
    await fs.rename(made, path.join(this.#cache, `${name}.ok`))
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
