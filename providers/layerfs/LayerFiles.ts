/**
 * Layers as they lie in the cache: a directory, and beside it the mark that says it is whole and what it stands on.
 * Promise: a directory with a mark of this boot and of this cache is whole and is never written again; it is made under another name and renamed into
 * place, its mark first; what a process that is gone had begun is removed. A name stands for one view for ever: two processes that
 * make it at once make the same. Rules: L10, W12, C20.
 */
import { createHash } from "node:crypto"
import { existsSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { currentIdentity, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"
import { bootId } from "../../src/workspace/kit/Machine.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { few, isAsSampled, type Sample, sampleOf, type WholeLook } from "./LayerSample.ts"

export interface Mark {
  readonly boot: string | null
  /** The cache directory that it was made in: in a copy of a store, what came with it is not to be told by it. Absent in marks of older versions. */
  readonly cache?: string
  /** The layers below this one, top first. */
  readonly below: readonly string[]
  /** The commit that the layer shows with those below. Absent in marks of older versions. */
  readonly of?: string
  /** Who wrote it. Absent in marks of older versions. */
  readonly maker?: ProcessIdentity
  /** Some of its entries as they were made. Absent in marks of older versions. */
  readonly sample?: Sample
  /** All of them, of an adopted upper with few: compared at each opening. */
  readonly whole?: string
  /** All of them, of any other layer: compared once by each process. Absent in marks of older versions. */
  readonly all?: WholeLook
}

const isText = (value: unknown): value is string => typeof value === "string"
const isList = (value: unknown, fits: (one: unknown) => boolean): boolean => Array.isArray(value) && value.every(fits)

/** One of another shape (of a version to come, or written by somebody else) says nothing. */
const isMark = (value: unknown): value is Mark => {
  if (typeof value !== "object" || value === null) return false
  const { below, of, cache, whole, sample, all } = value as Readonly<Record<string, unknown>>
  const { entries, digest } = (all ?? {}) as Readonly<Record<string, unknown>>
  return (
    isList(below, isText) &&
    [of, cache, whole].every((text) => text === undefined || isText(text)) &&
    (sample === undefined || isList(sample, (pair) => isList(pair, isText))) &&
    (all === undefined || (typeof entries === "number" && isText(digest)))
  )
}

const kinds = ["base", "delta"] as const

/** A whole tree. 128 bits of each digest keep the mount options short; the cache is checked against nothing but its own marks. */
export const baseName = ({ root, times }: { readonly root: string; readonly times: string }): string =>
  `base/${root.slice(7, 39)}-${times.slice(7, 39)}`

/** What a commit needs above other layers. */
export const deltaName = (commit: string, below: readonly string[]): string =>
  `delta/${commit}.${createHash("sha256").update(below.join(":")).digest("hex").slice(0, 12)}`

/** The commit whose layer it is; undefined for a base. */
export const commitOfDelta = (name: string): string | undefined => /^delta\/([^.]+)\./.exec(name)?.[1]

/** A small file that names a delta of a commit: only a hint, for a directory may hold thousands of them. */
const hintOf = (commit: string): string => `delta/${commit}.at`

export class LayerFiles {
  readonly cache: string
  readonly #boot = bootId()
  /** Where processes show that they live. */
  readonly #root: string
  readonly #look: (directory: string) => Promise<WholeLook>

  /** `look` looks at every entry of a directory. */
  constructor(cache: string, look: (directory: string) => Promise<WholeLook>) {
    this.cache = cache
    this.#look = look
    this.#root = path.dirname(cache)
  }

  at(name: string): string {
    return path.join(this.cache, name)
  }

  markAt(name: string): string {
    return this.at(`${name}.ok`)
  }

  mark(name: string): Mark | undefined {
    try {
      const mark: unknown = JSON.parse(readFileSync(this.markAt(name), "utf8"))
      if (!isMark(mark)) return undefined
      const isOfHere = mark.boot === this.#boot && (mark.cache === undefined || mark.cache === this.#identity())
      return isOfHere && existsSync(this.at(name)) ? mark : undefined
    } catch {
      return undefined
    }
  }

  /** Stays when the store is moved, and is another one in a copy. Looked at each time: the directory may be removed and made anew. */
  #identity(): string {
    const { dev, ino } = statSync(this.cache, { bigint: true })
    return `${dev} ${ino}`
  }

  /** The commit that a layer was made for, whatever has become of the layer since. */
  madeFor(name: string): string | undefined {
    try {
      return (JSON.parse(readFileSync(this.markAt(name), "utf8")) as Mark).of
    } catch {
      return undefined
    }
  }

  /** True when every layer is there and whole, and the first one stands on the others. */
  available(names: readonly string[]): boolean {
    const [top, ...below] = names.map((name) => this.mark(name))
    if (top === undefined || below.includes(undefined)) return false
    return top.below.length === below.length && top.below.every((name, n) => name === names[n + 1])
  }

  /** The layer with those below it, when all of them are there. */
  chain(name: string): readonly string[] | undefined {
    const mark = this.mark(name)
    const names = mark === undefined ? undefined : [name, ...mark.below]
    return names !== undefined && this.available(names) ? names : undefined
  }

  /** Layers that show a commit and of which the first is a delta, when some are known. */
  deltaOf(commit: string): readonly string[] | undefined {
    try {
      return this.chain(readFileSync(this.at(hintOf(commit)), "latin1"))
    } catch {
      return undefined
    }
  }

  /** Removes what lies beside a layer that is no longer in its place. */
  forget(name: string): void {
    const hint = this.at(hintOf(path.basename(name).split(".")[0]!))
    const hinted = existsSync(hint) && readFileSync(hint, "latin1") === name ? [hint] : []
    for (const at of [this.markAt(name), this.at(`${name}.size`), ...hinted]) rmSync(at, { force: true })
  }

  /** Names of everything that lies there, usable or not. */
  async names(): Promise<readonly string[]> {
    const names: string[] = []
    for (const kind of kinds) {
      const found = await fs.readdir(this.at(kind), { withFileTypes: true }).catch(() => [])
      names.push(
        ...found.filter((at) => at.isDirectory() && !at.name.startsWith(".")).map((at) => `${kind}/${at.name}`)
      )
    }
    return names
  }

  /** When somebody last asked for a layer, in milliseconds since 1970; 0 when nothing can be opened on it any more. */
  async lastUse(name: string): Promise<number> {
    if (this.chain(name) === undefined) return 0
    return (await fs.stat(this.markAt(name)).catch(() => undefined))?.mtimeMs ?? 0
  }

  touch(names: readonly string[]): void {
    const now = new Date()
    for (const name of names) {
      try {
        utimesSync(this.markAt(name), now, now)
      } catch {
        // Whoever took it away meanwhile is found out by the next look.
      }
    }
  }

  /** A name beside `name` that tells a later process whose unfinished work it is. */
  working(name: string): string {
    const at = this.at(name)
    const { pid, startTime, pidNamespace } = currentIdentity()
    const maker = [pid, startTime ?? "0", `n${pidNamespace?.replace(/\D/g, "") ?? ""}`].join("-")
    return path.join(path.dirname(at), `.making-${maker}-${path.basename(name)}`)
  }

  /** False when somebody else has changed the layer since it was made, as far as its mark tells. */
  isAsMade(name: string): boolean {
    const mark = this.mark(name)
    return mark?.sample === undefined || isAsSampled(this.at(name), mark.sample, mark.whole)
  }

  /** `content` is what will be put in the layer's place; `adopted` is how it looked, where it was somebody's upper. */
  async writeMark(
    name: string,
    below: readonly string[],
    of: string,
    content: string,
    adopted?: WholeLook
  ): Promise<void> {
    await fs.mkdir(path.dirname(this.at(name)), { recursive: true, mode: 0o700 })
    const isSmallUpper = adopted !== undefined && adopted.entries <= few
    const whole = isSmallUpper ? { whole: adopted.digest } : { all: adopted ?? (await this.#look(content)) }
    await this.#putMark(name, {
      boot: this.#boot,
      cache: this.#identity(),
      below,
      of,
      maker: currentIdentity(),
      sample: sampleOf(content),
      ...whole
    })
  }

  /** For a mark of an older version, of a layer that somebody holds. */
  async addLook(name: string, mark: Mark, all: WholeLook): Promise<void> {
    if (JSON.stringify(this.mark(name)) === JSON.stringify(mark)) await this.#putMark(name, { ...mark, all })
  }

  async #putMark(name: string, mark: Mark): Promise<void> {
    const made = this.working(`${name}.ok`)
    await fs.mkdir(path.dirname(made), { recursive: true, mode: 0o700 })
    faultPoint("layers.mark")
    await fs.writeFile(made, JSON.stringify(mark), { mode: 0o600 })
    crashPoint("layers.markMade")
    await fs.rename(made, this.markAt(name))
  }

  /** Another process may have been first: its directory shows the same, and the mark gets its sample. */
  async place(made: string, name: string, below: readonly string[], of: string): Promise<void> {
    faultPoint("layers.place")
    await fs.rename(made, this.at(name)).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
      await this.writeMark(name, below, of, this.at(name))
    })
    if (!name.startsWith("delta/")) return
    const hint = this.working(`${name}.at`)
    await fs.writeFile(hint, name, { mode: 0o600 })
    await fs.rename(hint, this.at(hintOf(of)))
  }

  /** Makes a layer by `write`, which gets a path where nothing is. False when it says that it wrote nothing. */
  async make(
    name: string,
    below: readonly string[],
    of: string,
    write: (made: string) => Promise<boolean>
  ): Promise<boolean> {
    const made = this.working(name)
    await fs.mkdir(path.dirname(made), { recursive: true, mode: 0o700 })
    try {
      if (!(await write(made))) return false
      crashPoint("layers.baseMade")
      // A mark is written before its directory appears, so a directory without one is from before this boot.
      if (existsSync(this.at(name)) && this.mark(name) === undefined) {
        await fs.rename(this.at(name), `${made}-stale`)
        await removeTree(`${made}-stale`)
      }
      await this.writeMark(name, below, of, made)
      crashPoint("layers.baseMarked")
      await this.place(made, name, below, of)
      crashPoint("layers.basePlaced")
      return true
    } finally {
      await removeTree(made)
    }
  }

  /** Removes what processes that are gone had begun to make, and marks and sizes whose directory is not there. */
  async sweep(): Promise<void> {
    for (const kind of kinds) {
      const directory = this.at(kind)
      for (const name of await fs.readdir(directory).catch(() => [])) {
        const at = path.join(directory, name)
        const maker = this.#unfinishedOf(name)
        if (maker !== undefined) {
          if (isAliveIn(this.#root, maker) === false) await removeTree(at)
        } else if (name.endsWith(".size") && !existsSync(at.slice(0, -5))) {
          await removeTree(at)
        } else if (name.endsWith(".at") && !existsSync(this.at(readFileSync(at, "latin1")))) {
          await removeTree(at)
        } else if (name.endsWith(".ok") && !existsSync(at.slice(0, -3)) && this.#makerIsGone(at)) {
          await removeTree(at)
        }
      }
    }
  }

  /** Whose unfinished work it is; those of older versions name no namespace, which was that of this process. */
  #unfinishedOf(name: string): ProcessIdentity | undefined {
    const [, pid, start, namespace = ""] = /^\.making-(\d+)-(\d+)-(?:n(\d*)-)?/.exec(name) ?? []
    if (pid === undefined) return undefined
    const pidNamespace = namespace === "" ? null : `pid:[${namespace}]`
    return { pid: Number(pid), startTime: start === "0" ? null : start!, bootId: this.#boot, pidNamespace }
  }

  /** True when the mark names a process that is known to be gone: nobody is about to put the directory beside it. */
  #makerIsGone(mark: string): boolean {
    try {
      const { maker } = JSON.parse(readFileSync(mark, "utf8")) as Mark
      return maker !== undefined && isAliveIn(this.#root, maker) === false
    } catch {
      return false
    }
  }
}
