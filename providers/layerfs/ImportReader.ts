/**
 * The reading side of an import, run in one or two extra threads: read, hash, group, compress.
 * Promise: at most one batch (about 1 MiB, or one chunk of a large file) is in memory at a time; a file that changes while
 * it is read is read again, and after three tries recorded as read and reported. Rules: W13, W14; C17; 01 (bounded memory).
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import type { MessagePort } from "node:worker_threads"
import type { Digest } from "../../src/base/Digest.ts"
import { reach } from "../../src/base/LongPath.ts"
import { wholeFrame } from "./Frame.ts"
import { frameGroup, groupTarget } from "./Group.ts"
import { type Sign, signsOf, thisMachine } from "./ImportSigns.ts"
import type { ObjectSink } from "./ContentPages.ts"
import { readDescriptor, storeHole, storeStream } from "./ContentStore.ts"
import { idToBytes, inlineLimit } from "./ObjectId.ts"

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
      /** What a large file consists of beside the object of its id. */
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
  readonly kind: "blob" | "chunk" | "list"
  readonly offset: number
  readonly length: number
}

export type ReaderMessage =
  /** `framed`: each object is a frame of its own (see Frame.ts), at its offset. */
  | { readonly group: Uint8Array; readonly objects: readonly FramedObject[]; readonly framed: boolean }
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

/** zstd's level for pieces of large files: an import has little time. */
const chunkLevel = 1

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
    port.postMessage({ group, objects, framed: false } satisfies ReaderMessage, [group.buffer as ArrayBuffer])
    parts = []
    objects = []
    raw = 0
  }
  let frames: Buffer[] = []
  let chunks: FramedObject[] = []
  let framed = 0
  const sealChunks = (): void => {
    if (chunks.length === 0) return
    const group = Buffer.allocUnsafeSlow(framed)
    let at = 0
    for (const frame of frames) at += frame.copy(group, at)
    port.postMessage({ group, objects: chunks, framed: true } satisfies ReaderMessage, [group.buffer as ArrayBuffer])
    frames = []
    chunks = []
    framed = 0
  }
  /** Pieces of large files are read one by one: each is a frame of its own (C21). */
  const addChunk = (id: Digest, bytes: Buffer): void => {
    const frame = wholeFrame(bytes, chunkLevel)
    frames.push(frame)
    chunks.push({ id, kind: "chunk", offset: framed, length: bytes.length })
    framed += frame.length
    if (framed >= groupTarget) sealChunks()
  }

  /** What the file that is being read consists of. */
  let used: Digest[] = []
  let force = false
  const sink: ObjectSink = {
    has: (id) => {
      used.push(id)
      const binary = idToBytes(id)
      return !force && ((!isEmpty && known.get(binary) !== undefined) || !claim(binary))
    },
    writeKnown: (kind, id, bytes) => {
      if (kind === "chunk") return addChunk(id, bytes)
      if (raw > 0 && raw + bytes.length > groupTarget) seal()
      parts.push(bytes)
      objects.push({ id, kind, offset: raw, length: bytes.length })
      raw += bytes.length
    }
  }

  interface Content {
    readonly id: Digest
    readonly size: number
    readonly blocks: readonly Digest[]
    readonly signs: readonly Sign[]
  }

  /** The first bytes of a file, for what they say: a library names its C library somewhere in them (see ImportSigns). */
  const head = Buffer.allocUnsafeSlow(4 * 1024 * 1024)

  /** Never reads past the size that the file had at first: a file that grows faster than we read would not end. */
  const readOnce = (fd: number, path: string, stat: BigIntStats): Content => {
    const expected = Number(stat.size)
    used = []
    if (stat.blocks === 0n && expected > inlineLimit) return { ...storeHole(sink, expected), blocks: used, signs: [] }
    const read = readDescriptor(fd)
    let seen = 0
    const content = storeStream(
      sink,
      (into, at, length, offset) => {
        const n = read(into, at, length, offset)
        if (offset < head.length) seen = offset + into.copy(head, offset, at, at + n)
        return n
      },
      expected
    )
    const signs = signsOf(
      { path, source: setup.source, mode: Number(stat.mode), head: head.subarray(0, seen) },
      machine
    )
    return { ...content, blocks: used, signs }
  }

  const readFile = (file: ReadRequest): ReadOutcome => {
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
        const content = readOnce(fd, file.path, before)
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
      force = batch.force
      const outcomes = batch.files.map((file) => {
        const outcome = readFile(file)
        if ("size" in outcome) bytes += outcome.size
        return outcome
      })
      seal()
      sealChunks()
      port.postMessage({ outcomes, bytes } satisfies ReaderMessage)
    } catch (error) {
      port.postMessage({
        defect: error instanceof Error ? (error.stack ?? error.message) : String(error)
      } satisfies ReaderMessage)
    }
  })
}
