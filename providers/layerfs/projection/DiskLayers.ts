/**
 * The layer cache on disk: `cache/base/<root>-<times>/` and `cache/delta/<commit>/`, each complete when its `.ok` file stands
 * beside it and was written since this boot.
 * Promise: a directory handed out is whole and is never written again; a half one is never used: it is made under another
 * name and renamed, and after a reboot, which may have lost what was not flushed, it is made anew. Rules: L10, W12, C20.
 */
import * as fs from "node:fs/promises"
import { existsSync, readFileSync } from "node:fs"
import * as path from "node:path"
import { RefNotFound } from "../../../src/workspace/WorkspaceError.ts"
import type { LayerCache, Lowers } from "../LayerCache.ts"
import { bootId, startTimeOf } from "./Machine.ts"
import { removeTree } from "./RemoveTree.ts"
import type { StorePort } from "./StorePort.ts"

/** Beyond this many, each lookup costs more than a base directory of its own (overlayfs walks them one by one). */
const maxLayers = 8

interface Mark {
  readonly boot: string | null
  /** The layers below this one, top first. */
  readonly below: readonly string[]
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
    await this.#place(upper, path.join(this.#cache, name))
  }

  /** Another process may have been first: its directory shows the same. */
  async #place(made: string, target: string): Promise<void> {
    await fs.rename(made, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
    })
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

  async #writeMark(name: string, below: readonly string[]): Promise<void> {
    const mark: Mark = { boot: this.#boot, below }
    const at = path.join(this.#cache, `${name}.ok`)
    await fs.writeFile(`${at}.${process.pid}`, JSON.stringify(mark), { mode: 0o600 })
    await fs.rename(`${at}.${process.pid}`, at)
  }

  async #make(commit: string, name: string): Promise<void> {
    const base = path.join(this.#cache, "base")
    await fs.mkdir(base, { recursive: true, mode: 0o700 })
    await sweep(base)
    const target = path.join(this.#cache, name)
    const made = path.join(base, `.making-${process.pid}-${startTimeOf(process.pid) ?? "0"}-${path.basename(name)}`)
    try {
      await this.#store.materialise(commit, made)
      // A mark is written before its directory appears, so a directory without one is from before this boot.
      if (existsSync(target) && this.#mark(name) === undefined) {
        await fs.rename(target, `${made}-stale`)
        await removeTree(`${made}-stale`)
      }
      await this.#writeMark(name, [])
      await this.#place(made, target)
    } finally {
      await removeTree(made)
    }
  }
}

/** Removes what a process that is gone had begun to make. */
const sweep = async (base: string): Promise<void> => {
  for (const name of await fs.readdir(base)) {
    const [, pid, start] = /^\.making-(\d+)-(\d+)-/.exec(name) ?? []
    if (pid === undefined || startTimeOf(Number(pid)) === start) continue
    if (startTimeOf(Number(pid)) === null && start === "0") continue
    await removeTree(path.join(base, name))
  }
}
