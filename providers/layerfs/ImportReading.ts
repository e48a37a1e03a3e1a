/**
 * The reading of an import, beside its scan: files go to one or two reader threads as they are found, in batches of about a group.
 * Promise: what is read is stored once, in the order of the scan, so that neighbours are compressed together; a reader that dies
 * or a pack that cannot be written ends the import; every id that a tree needs is in the store when `end` returns.
 * Rules: W13, W14, L8.
 */
import { Worker } from "node:worker_threads"
import type { Digest } from "../../src/base/Digest.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import { importGroup } from "./Group.ts"
import type { ImportContext } from "./Import.ts"
import type { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import type { Batch, Outcomes, ReaderMessage, ReaderRequest, ReaderSetup, ReadOutcome } from "./ImportReader.ts"
import type { Scan, ScannedFile } from "../../src/workspace/kit/ImportScan.ts"
import type { Sign } from "../../src/workspace/kit/ImportSigns.ts"
import { idLength } from "../../src/base/DigestBytes.ts"
import { workerUrl } from "./WorkerUrl.ts"

/** Files of one batch at most: tiny ones cost a thread their calls and not their bytes, and are shared out by number. */
const batchFiles = 1000
/** More would wait for the same two cores, and hold memory. */
const mostReaders = 2
/** Slots for claimed ids, 8 MB: enough to find equal files among some 500,000; beyond that some are stored twice. */
const claimSlots = 2 ** 20
const rounds = 3
/** A reader makes much that lives for one file: with room for more of it, it would only hold more. */
const resourceLimits = { maxYoungGenerationSizeMb: 8 }

export interface ImportedSource {
  readonly path: TreePath
  /** Its descriptor, which all threads of a process share; see Descent. */
  readonly root: number | null
}

export class ImportReading {
  readonly #context: ImportContext
  readonly #source: ImportedSource
  readonly #notes: ImportNotes
  /** Throws when the caller gave up. */
  readonly #check: () => void
  readonly #files: ScannedFile[] = []
  readonly #claims = new SharedArrayBuffer(claimSlots * BigUint64Array.BYTES_PER_ELEMENT)
  readonly #readers: Worker[] = []
  readonly #idle: Worker[] = []
  readonly #queue: Batch[] = []
  #open: { readonly indexes: number[]; bytes: number; readonly lookedAt: number } | undefined
  #running = 0
  #sealing = 0
  #failed: { readonly error: unknown } | undefined
  #wake: (() => void) | undefined
  /** Pieces of large files, and the file they belong to. */
  readonly #pieces = new Map<Digest, number>()
  readonly #changed = new Set<number>()
  /** What the first bytes of a file said. */
  readonly signs = new Map<number, readonly Sign[]>()
  /** Files that an earlier import stored: nothing of them is read. */
  readonly #known = new Set<number>()
  #again = false
  #scanned: Scan | undefined
  #doneFiles = 0
  #doneBytes = 0

  constructor(context: ImportContext, source: ImportedSource, notes: ImportNotes, check: () => void) {
    this.#context = context
    this.#source = source
    this.#notes = notes
    this.#check = check
  }

  /** True for files whose bytes may be other ones than their last look said. */
  isUnsure(index: number): boolean {
    return this.#changed.has(index)
  }

  /** Counts a file that need not be read, because what it holds and says is known. */
  skip(file: ScannedFile, index: number, signs: readonly Sign[]): void {
    this.#files[index] = file
    this.#known.add(index)
    this.#note(index, signs)
    this.#doneFiles += 1
    this.#doneBytes += file.size
  }

  /** Takes a file to read, which was looked at no earlier than at `lookedAt`. Throws what ended the reading. */
  add(file: ScannedFile, index: number, lookedAt: number): void {
    if (this.#failed !== undefined) throw this.#failed.error
    this.#files[index] = file
    const open = this.#open
    if (open !== undefined && (open.indexes.length === batchFiles || open.bytes + file.size > importGroup))
      this.#close()
    this.#open ??= { indexes: [], bytes: 0, lookedAt }
    this.#open.indexes.push(index)
    this.#open.bytes += file.size
  }

  #close(): void {
    if (this.#open === undefined) return
    const { indexes, lookedAt } = this.#open
    this.#open = undefined
    this.#queue.push(this.#batch(indexes, lookedAt, false))
    this.#give()
  }

  #batch(indexes: readonly number[], lookedAt: number, force: boolean): Batch {
    const files = indexes.map((index) => this.#files[index]!)
    const byPath = this.#source.root === null
    return {
      indexes: Uint32Array.from(indexes),
      paths: files.map((file) => file.path),
      sizes: Float64Array.from(files, (file) => file.size),
      modes: Uint16Array.from(files, (file) => file.mode),
      times: BigInt64Array.from(files.flatMap((file) => [file.mtimeNs, file.ctimeNs])),
      inodes: BigUint64Array.from(byPath ? files.flatMap((file) => [file.device, file.ino]) : []),
      lookedAt,
      force
    }
  }

  /** Hands out what waits: two batches a reader, so that one is at hand when the other is done. */
  #give(): void {
    const wanted = this.#queue.length > 2 ? mostReaders : Math.min(1, this.#queue.length)
    while (this.#readers.length < wanted) this.#start()
    while (this.#queue.length > 0) {
      const reader = this.#idle.shift()
      if (reader === undefined) return
      this.#running += 1
      this.#post(reader, this.#queue.shift()!)
    }
  }

  #post(reader: Worker, request: ReaderRequest): void {
    reader.postMessage(request, [])
  }

  #start(): void {
    const { index } = this.#context
    const { path: source, root } = this.#source
    const setup: ReaderSetup = { role: "import", index, source, root, claims: this.#claims }
    const reader = new Worker(workerUrl(), { workerData: setup, execArgv: [], resourceLimits })
    this.#readers.push(reader)
    this.#idle.push(reader, reader)
    reader.on("error", (error) => this.#fail(error))
    reader.on("exit", () => this.#fail(new Error("A reader thread of the import ended early")))
    reader.on("message", (message: ReaderMessage) => {
      try {
        this.#receive(reader, message)
      } catch (error) {
        this.#fail(error)
      }
    })
  }

  #receive(reader: Worker, message: ReaderMessage): void {
    this.#check()
    if ("defect" in message) throw new Error(message.defect)
    if ("group" in message) return this.#context.objects.addGroup(message.group, message.objects, message.framed)
    if ("sealed" in message) this.#sealing -= 1
    else {
      this.#running -= 1
      this.#idle.push(reader)
      this.#take(message.outcomes)
      this.#give()
    }
    if (this.#running === 0 && this.#sealing === 0 && this.#queue.length === 0) this.#wake?.()
  }

  #fail(error: unknown): void {
    this.#failed ??= { error }
    this.#wake?.()
  }

  #take({ indexes, ids, signs, others, bytes }: Outcomes): void {
    const hex = Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength).toString("hex")
    for (const [n, index] of indexes.entries()) {
      this.#files[index]!.id = `sha256:${hex.slice(n * 2 * idLength, (n + 1) * 2 * idLength)}`
    }
    for (const { index, signs: found } of signs) this.#note(index, found)
    for (const outcome of others) this.#takeOther(outcome)
    if (this.#again) return
    this.#doneFiles += indexes.length + others.length
    this.#doneBytes += bytes
    this.#report()
  }

  #takeOther(outcome: ReadOutcome): void {
    const { index } = outcome
    const file = this.#files[index]!
    if ("gone" in outcome) {
      this.#notes.add("vanished", file.path, "gone or replaced before it was read; not imported")
      file.id = undefined
    } else if ("failed" in outcome) {
      this.#notes.add("skippedUnreadable", file.path, `not imported: ${outcome.failed}`)
      file.id = undefined
    } else {
      file.id = outcome.id
      file.size = outcome.size
      file.mode = outcome.mode
      file.mtimeNs = outcome.mtimeNs
      file.ctimeNs = outcome.ctimeNs
      for (const id of outcome.blocks) this.#pieces.set(id, index)
      if (outcome.changed) this.#changed.add(index)
      // Read again for its content alone: what it said was noted the first time.
      if (!this.#again) this.#note(index, outcome.signs)
    }
  }

  #note(index: number, signs: readonly Sign[]): void {
    if (signs.length === 0) return
    this.signs.set(index, signs)
    for (const { kind, detail } of signs) this.#notes.add(kind, this.#files[index]!.path, detail)
  }

  /** Only once the scan is done and the totals are known. */
  #report(): void {
    if (this.#scanned === undefined) return
    this.#context.progress({
      phase: "store",
      files: this.#doneFiles,
      bytes: this.#doneBytes,
      totalFiles: this.#scanned.files.length,
      totalBytes: this.#scanned.bytes
    })
  }

  async #drain(): Promise<void> {
    this.#give()
    for (const reader of this.#readers) {
      // Behind the batches that it was given: a port keeps the order.
      if (this.#running === 0 && this.#queue.length === 0) {
        this.#sealing += 1
        this.#post(reader, "seal")
      }
    }
    if (this.#failed === undefined && this.#running + this.#sealing + this.#queue.length > 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    this.#wake = undefined
    if (this.#failed !== undefined) throw this.#failed.error
  }

  /** Waits until everything is read. Throws what ended the reading, also when the caller gave up. */
  async end(scanned: Scan): Promise<void> {
    this.#scanned = scanned
    this.#close()
    if (scanned.files.length > 0) this.#report()
    // Once for the batches, once for the groups that they left open.
    await this.#drain()
    await this.#drain()
    // The claims are hints on 64 bits: what two threads left to each other is read once more, for certain.
    for (let round = 0; round < rounds; round += 1) {
      const missing = this.#missing()
      if (missing.length === 0) break
      this.#again = true
      this.#pieces.clear()
      for (const index of missing) this.#queue.push(this.#batch([index], 0, true))
      await this.#drain()
      await this.#drain()
    }
    for (const index of this.#changed) {
      const detail = "changed during each of three readings; the bytes of the last one were kept"
      this.#notes.add("changedWhileRead", this.#files[index]!.path, detail)
    }
  }

  #missing(): readonly number[] {
    const { objects } = this.#context
    const missing = new Set<number>()
    for (const [index, file] of this.#files.entries()) {
      if (file.id !== undefined && !this.#known.has(index) && !objects.has(file.id as Digest)) missing.add(index)
    }
    for (const [id, index] of this.#pieces) if (!objects.has(id)) missing.add(index)
    return [...missing]
  }

  /** Waited for: the thread that owns them may be ended next, and ending a thread while its own threads end crashed Node once. */
  async stop(): Promise<void> {
    await Promise.all(
      this.#readers.map((reader) => {
        reader.removeAllListeners()
        return reader.terminate()
      })
    )
  }
}
