/**
 * The reading side of an import, run in one or two extra threads: read, hash, group, compress.
 * Promise: at most one batch (about 1 MiB, or one block of a large file) is in memory at a time; a file that changes while
 * it is read is read again, and after three tries recorded as read and reported. Rules: W13, W14; C17; 01 (bounded memory).
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import type { MessagePort } from "node:worker_threads"
import type { Digest } from "../../src/base/Digest.ts"
import { reach } from "../../src/base/LongPath.ts"
import { frameGroup, groupTarget } from "./Group.ts"
import { type Sign, signsOf, thisMachine } from "./ImportSigns.ts"
import { blockSize, idOf, idToBytes, isZeroBlock, listOfIds, zeroBlock } from "./ObjectId.ts"

export interface ReadRequest {
  readonly index: number
  /** Path in the tree, byte string. */
  readonly path: string
}

export interface Batch {
  readonly files: readonly ReadRequest[]
  /** Store content also when another thread seems to have stored it. */
  readonly force: boolean
}

export type ReadOutcome =
  | {
      readonly index: number
      readonly id: Digest
      readonly size: number
      readonly mode: number
      readonly mtimeNs: bigint
      /** Blocks of a large file, whose ids the list object holds. */
      readonly blocks: readonly Digest[]
      readonly changed: boolean
      /** What its first bytes say. */
      readonly signs: readonly Sign[]
    }
  /** Not read: gone, or replaced by something that is not a file. */
  | { readonly index: number; readonly gone: true }
  | { readonly index: number; readonly failed: string }

export interface FramedObject {
  readonly id: Digest
  readonly kind: "blob" | "list"
  readonly offset: number
  readonly length: number
}

export type ReaderMessage =
  | { readonly group: Uint8Array; readonly objects: readonly FramedObject[] }
  | { readonly outcomes: readonly ReadOutcome[]; readonly bytes: number }
  | { readonly defect: string }

export interface ReaderSetup {
  readonly role: "import"
  /** Absolute real path of the directory to import, byte string. */
  readonly source: string
  readonly index: string
  /** 64-bit prefixes of ids that some thread has taken on: a hint against double work, checked by the importer at the end. */
  readonly claims: SharedArrayBuffer
}

const attempts = 3

/**
 * A kernel stamps every change within one tick of its coarse clock alike, at most 10 ms (CONFIG_HZ=100). A change made after our
 * look would not show in a file that changed less than two ticks before it: such a file is given that time first.
 */
const racyMs = 20

/** O_NOATIME of <fcntl.h> on every architecture that Node runs on under Linux: reading leaves no trace in the source. */
const O_NOATIME = process.platform === "linux" ? 0o1000000 : 0
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** The kernel allows O_NOATIME to a file's owner only. */
const openQuietly = (path: Buffer): number => {
  try {
    return openSync(path, openFlags | O_NOATIME)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error
    return openSync(path, openFlags)
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))

/** The file's stat, once it is old enough for a change to show in it. */
const settled = (fd: number): BigIntStats => {
  const stat = fstatSync(fd, { bigint: true })
  const age = Date.now() - Number(stat.ctimeNs / 1_000_000n)
  // A time in the future is another machine's clock: waiting would prove nothing.
  if (age < 0 || age >= racyMs) return stat
  Atomics.wait(sleeper, 0, 0, racyMs - age)
  return fstatSync(fd, { bigint: true })
}

/** What opening says when the path means something else by now. */
const goneCodes = ["ENOENT", "ENOTDIR", "ELOOP"]

export const serveImportReader = (port: MessagePort, setup: ReaderSetup): void => {
  // Plain SQLite: a thread that only reads should not spend its first 200 ms on loading an error library.
  const db = new DatabaseSync(setup.index, { readOnly: true })
  const known = db.prepare("SELECT 1 FROM objects WHERE id = ?")
  // The first import of a store has nothing to look up; what another import stores meanwhile is the index's to sort out.
  const isEmpty = db.prepare("SELECT 1 FROM objects LIMIT 1").get() === undefined
  const machine = thisMachine()
  const claims = new BigUint64Array(setup.claims)
  const mask = claims.length - 1

  /** False when another object with this prefix was claimed before, almost always the same one. */
  const claim = (id: Buffer): boolean => {
    const prefix = id.readBigUInt64LE(0) | 1n
    for (let slot = id.readUInt32LE(8) & mask; ; slot = (slot + 1) & mask) {
      const found = Atomics.compareExchange(claims, slot, 0n, prefix)
      if (found === 0n) return true
      if (found === prefix) return false
    }
  }

  let parts: Uint8Array[] = []
  let objects: FramedObject[] = []
  let raw = 0
  const seal = (): void => {
    if (objects.length === 0) return
    const group = frameGroup(parts, raw)
    port.postMessage({ group, objects } satisfies ReaderMessage, [group.buffer as ArrayBuffer])
    parts = []
    objects = []
    raw = 0
  }
  const store = (kind: "blob" | "list", bytes: Buffer, force: boolean): Digest => {
    const id = idOf(bytes)
    const binary = idToBytes(id)
    if (!force && ((!isEmpty && known.get(binary) !== undefined) || !claim(binary))) return id
    if (raw > 0 && raw + bytes.length > groupTarget) seal()
    parts.push(Buffer.from(bytes))
    objects.push({ id, kind, offset: raw, length: bytes.length })
    raw += bytes.length
    return id
  }

  const buffer = Buffer.allocUnsafeSlow(blockSize)
  const fill = (fd: number, position: number, wanted: number): number => {
    let done = 0
    while (done < wanted) {
      const n = readSync(fd, buffer, done, wanted - done, position + done)
      if (n === 0) break
      done += n
    }
    return done
  }

  interface Content {
    readonly id: Digest
    readonly size: number
    readonly blocks: readonly Digest[]
    readonly signs: readonly Sign[]
  }
  const asList = (size: number, blocks: readonly Digest[], signs: readonly Sign[], force: boolean): Content => {
    const id = store("list", listOfIds(blocks), force)
    return { id, size, blocks: blocks.filter((block) => block !== zeroBlock), signs }
  }

  /** Never reads past the size that the file had at first: a file that grows faster than we read would not end. */
  const readOnce = (fd: number, path: string, stat: BigIntStats, force: boolean): Content => {
    const expected = Number(stat.size)
    if (stat.blocks === 0n && expected > blockSize) return readHole(expected, force)
    const signsIn = (head: Buffer): readonly Sign[] =>
      signsOf({ path, source: setup.source, mode: Number(stat.mode), head }, machine)
    if (expected <= blockSize) {
      const bytes = buffer.subarray(0, fill(fd, 0, expected))
      return { id: store("blob", bytes, force), size: bytes.length, blocks: [], signs: signsIn(bytes) }
    }
    const blocks: Digest[] = []
    let signs: readonly Sign[] = []
    let size = 0
    while (size < expected) {
      const n = fill(fd, size, Math.min(blockSize, expected - size))
      if (n === 0) break
      const bytes = buffer.subarray(0, n)
      if (size === 0) signs = signsIn(bytes)
      blocks.push(isZeroBlock(bytes) ? zeroBlock : store("blob", bytes, force))
      size += n
    }
    // It shrank while it was read: up to one block is stored as such.
    if (size <= blockSize) return { id: blocks[0] ?? store("blob", Buffer.alloc(0), force), size, blocks: [], signs }
    return asList(size, blocks, signs, force)
  }

  const readHole = (size: number, force: boolean): Content => {
    const full = Math.floor(size / blockSize)
    const blocks = Array.from({ length: full }, () => zeroBlock)
    if (size % blockSize > 0) blocks.push(store("blob", Buffer.alloc(size % blockSize), force))
    return asList(size, blocks, [], force)
  }

  const readFile = (file: ReadRequest, force: boolean): ReadOutcome => {
    const { index } = file
    let fd: number
    try {
      fd = reach(`${setup.source}/${file.path}`, openQuietly)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "unknown"
      return goneCodes.includes(code) ? { index, gone: true } : { index, failed: code }
    }
    try {
      for (let attempt = 1; ; attempt += 1) {
        const before = settled(fd)
        if (!before.isFile()) return { index, gone: true }
        const content = readOnce(fd, file.path, before, force)
        const after = fstatSync(fd, { bigint: true })
        const changed =
          BigInt(content.size) !== after.size || after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs
        if (changed && attempt < attempts) continue
        const mode = Number(after.mode & 0o7777n)
        return { index, ...content, mode, mtimeNs: after.mtimeNs, changed }
      }
    } catch (error) {
      return { index, failed: (error as NodeJS.ErrnoException).code ?? String(error) }
    } finally {
      closeSync(fd)
    }
  }

  port.on("message", (batch: Batch) => {
    try {
      let bytes = 0
      const outcomes = batch.files.map((file) => {
        const outcome = readFile(file, batch.force)
        if ("size" in outcome) bytes += outcome.size
        return outcome
      })
      seal()
      port.postMessage({ outcomes, bytes } satisfies ReaderMessage)
    } catch (error) {
      port.postMessage({
        defect: error instanceof Error ? (error.stack ?? error.message) : String(error)
      } satisfies ReaderMessage)
    }
  })
}
