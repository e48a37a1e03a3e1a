/**
 * Writes the small files of a large tree by several tars side by side, each given an archive of some MiB.
 * Promise: at most as many run as there are processors; a full disk under `work` costs speed and nothing else; no name of an
 * archive outlives the call that made it. Rules: L3, L10, W15.
 *
 * One tar that is fed by a pipe waits while this thread decompresses, and fills one processor: the kernel's buffer is small.
 * When this process is killed, the tars that run still write the archives that they have; RemoveTree.ts goes on until nothing comes any more.
 */
import { closeSync, mkdirSync, openSync, statSync, unlinkSync, writevSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { reach } from "../../src/base/LongPath.ts"
import { parent, type TreePath } from "../../src/base/PathBytes.ts"
import { readAt } from "./PackFile.ts"
import { TarProcess, turn } from "./TarProcess.ts"
import { padding, type TarEntry, tarEnd, tarHeader, type Zeroed } from "./TarStream.ts"
import { scratchName } from "./WriterIdentity.ts"

/** Begins the names of archives: one is seen only when its process ended between making and unlinking it. */
export const archiveScratch = "archive"

/** Large enough that starting a process for it (5 ms) does not count, small enough that the last ones end together. */
export const partBytes = 24 * 1024 * 1024

/** The first parts are smaller, so that the other processors soon have something to do. */
const firstPart = 4 * 1024 * 1024

/** Bytes after which the event loop has its turn, and memory is freed. */
const stretch = 1024 * 1024

export interface TarPartsOptions {
  /** A directory that exists, byte string. */
  readonly target: TreePath
  /** Where archives lie for as long as their tar reads them. */
  readonly work: string
  /** Takes entries where `work` has no room for them. */
  readonly instead: (entries: Buffer) => Promise<void>
}

export class TarParts {
  readonly #options: TarPartsOptions
  readonly #atOnce = availableParallelism()
  readonly #parents = new Set<TreePath>([""])
  readonly #running = new Map<TarProcess, Promise<void>>()
  #failure: { readonly error: unknown } | undefined
  #fd: number | undefined
  #stored = 0
  /** Memory of the headers that wait: one piece for all, because ten thousand small ones keep the collector busy. */
  readonly #headers = Buffer.alloc(stretch)
  #headerBytes = 0
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #limit = firstPart
  #hasRoom = true

  constructor(options: TarPartsOptions) {
    this.#options = options
  }

  /** So much waits that it should be flushed. */
  get isDue(): boolean {
    return this.#waitingBytes >= stretch
  }

  /** Adds a file. Its bytes may not change before the next `flush`. */
  add(entry: TarEntry, content: Buffer): void {
    this.#makeDirectory(parent(entry.path))
    this.#push(tarHeader(entry, this.#zeroed))
    this.#push(content)
    if (content.length % 512 !== 0) this.#push(padding(content.length))
  }

  readonly #zeroed: Zeroed = (length) => {
    if (this.#headers.length - this.#headerBytes < length) return Buffer.alloc(length)
    const bytes = this.#headers.subarray(this.#headerBytes, this.#headerBytes + length)
    this.#headerBytes += length
    return bytes
  }

  /** The bytes of what waits are elsewhere now. */
  #empty(): void {
    this.#headers.fill(0, 0, this.#headerBytes)
    this.#headerBytes = 0
    this.#waiting = []
    this.#waitingBytes = 0
  }

  #push(bytes: Buffer): void {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
  }

  /** Takes over the bytes of what was added, and lets pipes move on. Rejects with `FileSystemFailure`, `Unavailable`. */
  async flush(): Promise<void> {
    if (this.#hasRoom && !this.#store()) await this.#giveUp()
    else if (!this.#hasRoom) await this.#options.instead(this.#taken())
    if (this.#stored >= this.#limit) await this.#launch()
    else await turn()
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** Waits until every part is written. Rejects with `FileSystemFailure`, `Unavailable`. */
  async end(): Promise<void> {
    await this.flush()
    if (this.#stored > 0) await this.#launch()
    await Promise.all(this.#running.values())
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** Afterwards no tar of this one writes any more. */
  async kill(): Promise<void> {
    this.#close()
    await Promise.all([...this.#running.keys()].map((tar) => tar.kill()))
  }

  #taken(): Buffer {
    const bytes = Buffer.concat(this.#waiting)
    this.#empty()
    return bytes
  }

  /** A tar would make it too, with the rights that its user's mask leaves. The right mode comes with the tree's own entry. */
  #makeDirectory(path: TreePath): void {
    if (this.#parents.has(path)) return
    this.#makeDirectory(parent(path))
    reach(`${this.#options.target}/${path}`, (short) => {
      // Mostly there already: the first tar makes all of them.
      if (statSync(short, { throwIfNoEntry: false }) !== undefined) return
      try {
        mkdirSync(short, 0o700)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
      }
    })
    this.#parents.add(path)
  }

  /** Appends what waits to the archive, a file without a name; false where it cannot be kept there. */
  #store(): boolean {
    if (this.#waitingBytes === 0) return true
    try {
      if (this.#fd === undefined) {
        const path = join(this.#options.work, scratchName(archiveScratch))
        this.#fd = openSync(path, "wx+", 0o600)
        unlinkSync(path)
      }
      if (writevSync(this.#fd, this.#waiting, this.#stored) !== this.#waitingBytes) return false
    } catch {
      return false
    }
    this.#stored += this.#waitingBytes
    this.#empty()
    return true
  }

  /** From now on everything goes the other way, first of all what is in the archive. */
  async #giveUp(): Promise<void> {
    this.#hasRoom = false
    const stored = this.#fd === undefined ? Buffer.alloc(0) : readAt(this.#fd, 0, this.#stored)
    this.#close()
    await this.#options.instead(stored)
    await this.#options.instead(this.#taken())
  }

  #close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = undefined
    this.#stored = 0
  }

  async #launch(): Promise<void> {
    while (this.#running.size >= this.#atOnce) await Promise.race(this.#running.values())
    if (this.#failure !== undefined) return
    this.#push(tarEnd)
    if (!this.#store()) {
      this.#empty()
      return this.#giveUp()
    }
    const tar = new TarProcess(Buffer.from(this.#options.target, "latin1"), this.#fd!)
    this.#close()
    this.#limit = partBytes
    const done = tar
      .done()
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .finally(() => this.#running.delete(tar))
    this.#running.set(tar, done)
  }
}
