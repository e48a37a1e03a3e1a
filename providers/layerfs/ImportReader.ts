/**
 * The reading side of an import, run in one or two extra threads: read, hash, group, compress.
 * Promise: at most one batch (about 1 MiB, or one chunk of a large file) is in memory at a time; a file that changes while
 * it is read is read again, and after three tries recorded as read and reported; a file is read only where the scan walked to it, whatever
 * became of a directory on the way (where the system names no descriptors by path: only the file of that device and inode, others are gone).
 * Rules: W13, W14; C17; 01 (bounded memory).
 */
import { hash } from "node:crypto"
import { type BigIntStats, closeSync, constants, fstatSync, openSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import type { MessagePort } from "node:worker_threads"
import type { Digest } from "../../src/base/Digest.ts"
import { Descent } from "../../src/base/Descent.ts"
import { reach } from "../../src/base/LongPath.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import { frameGroup, groupTarget, importGroup } from "./Group.ts"
import { type Sign, signsOf, thisMachine } from "../../src/workspace/kit/ImportSigns.ts"
import type { ObjectSink } from "./ContentPages.ts"
import { whole } from "../../src/workspace/kit/Steps.ts"
import { readDescriptor, storeHole, storeStream } from "./ContentStore.ts"
import { wholeFrame } from "./Frame.ts"
import { idFromBytes, idLength, idToBytes } from "../../src/base/DigestBytes.ts"
import { inlineLimit } from "./ObjectId.ts"
import type { ObjectKind } from "./ObjectStore.ts"

/** Files to read, a column for each thing that the scan saw of them: many small objects would cost more than the reading. */
export interface Batch {
  readonly indexes: Uint32Array<ArrayBuffer>
  /** Paths in the tree, byte strings. */
  readonly paths: readonly TreePath[]
  readonly sizes: Float64Array<ArrayBuffer>
  readonly modes: Uint16Array<ArrayBuffer>
  /** mtime and ctime of each in turn, nanoseconds. */
  readonly times: BigInt64Array<ArrayBuffer>
  /** Device and inode of each in turn, where there is no descriptor to go by. */
  readonly inodes: BigUint64Array<ArrayBuffer>
  /** Milliseconds since 1970, no later than the scan looked at any of them. */
  readonly lookedAt: number
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
      readonly ctimeNs: bigint
      /** What a large file consists of beside the object of its id. */
      readonly blocks: readonly Digest[]
      readonly changed: boolean
      /** What its first bytes say. */
      readonly signs: readonly Sign[]
    }
  /** Not read: gone, or replaced by something that is not a file. */
  | { readonly index: number; readonly gone: true }
  | { readonly index: number; readonly failed: string }

/** What became of a batch. */
export interface Outcomes {
  /** Files that were after the reading as the scan had seen them, and their ids, 32 bytes each. */
  readonly indexes: Uint32Array<ArrayBuffer>
  readonly ids: Uint8Array<ArrayBuffer>
  /** What the first bytes of some of them say. */
  readonly signs: readonly { readonly index: number; readonly signs: readonly Sign[] }[]
  /** All others: large ones, and those that changed since the scan. */
  readonly others: readonly ReadOutcome[]
  readonly bytes: number
}

export interface FramedObject {
  readonly id: Digest
  readonly kind: ObjectKind
  readonly offset: number
  readonly length: number
}

/** What a reader is told: read these, or give away the group that is not full. */
export type ReaderRequest = Batch | "seal"

export type ReaderMessage =
  | { readonly group: Uint8Array; readonly objects: readonly FramedObject[]; readonly framed: boolean }
  | { readonly outcomes: Outcomes }
  | { readonly sealed: true }
  | { readonly defect: string }

export interface ReaderSetup {
  readonly role: "import"
  /** Absolute real path of the directory to import, byte string. */
  readonly source: string
  /** Its descriptor; see Descent. */
  readonly root: number | null
  readonly index: string
  /** 64-bit prefixes of ids that some thread has taken on: a hint against double work, checked by the importer at the end. */
  readonly claims: SharedArrayBuffer
}

const attempts = 3

/** zstd's level: 4 takes no longer than 3 on groups of this size, and saves another half per cent. */
const level = 4

/** Slots that a claim looks at before it gives up. */
const longestProbe = 64

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

  /**
   * False when another object with this prefix was claimed before, almost always the same one. Where the table is full nobody
   * claims any more: then two threads may store the same object, and the index keeps one.
   */
  const claim = (id: Buffer): boolean => {
    const prefix = id.readBigUInt64LE(0) | 1n
    const start = id.readUInt32LE(8)
    for (let step = 0; step < longestProbe; step += 1) {
      const found = Atomics.compareExchange(claims, (start + step) & mask, 0n, prefix)
      if (found === 0n) return true
      if (found === prefix) return false
    }
    return true
  }

  const isNew = (binary: Buffer): boolean => (isEmpty || known.get(binary) === undefined) && claim(binary)

  const send = (group: Buffer, objects: readonly FramedObject[], framed: boolean): void =>
    port.postMessage({ group, objects, framed } satisfies ReaderMessage, [group.buffer as ArrayBuffer])

  // Small files are read where they are compressed from, one behind the other.
  const group = Buffer.allocUnsafeSlow(importGroup)
  let inGroup: FramedObject[] = []
  let raw = 0
  // Pieces of large files are frames of their own, so that a few bytes of one are read without the rest (C21).
  let frames: Buffer[] = []
  let inFrames: FramedObject[] = []
  let framedBytes = 0
  const seal = (): void => {
    if (inGroup.length > 0) send(frameGroup([group.subarray(0, raw)], raw, level), inGroup, false)
    inGroup = []
    raw = 0
  }
  const sealFrames = (): void => {
    if (inFrames.length > 0) {
      const bytes = Buffer.allocUnsafeSlow(framedBytes)
      let at = 0
      for (const frame of frames) at += frame.copy(bytes, at)
      send(bytes, inFrames, true)
    }
    frames = []
    inFrames = []
    framedBytes = 0
  }
  const toGroup = (kind: ObjectKind, id: Digest, bytes: Buffer): void => {
    if (raw + bytes.length > importGroup) seal()
    bytes.copy(group, raw)
    inGroup.push({ id, kind, offset: raw, length: bytes.length })
    raw += bytes.length
  }
  // Lists of pieces stand together: whether a large file has holes is asked for by who looks at it, and not at what is around it.
  let lists: Buffer[] = []
  let inLists: FramedObject[] = []
  let listBytes = 0
  const sealLists = (): void => {
    if (inLists.length > 0) send(frameGroup(lists, listBytes, level), inLists, false)
    lists = []
    inLists = []
    listBytes = 0
  }
  const toLists = (id: Digest, bytes: Buffer): void => {
    lists.push(bytes)
    inLists.push({ id, kind: "list", offset: listBytes, length: bytes.length })
    listBytes += bytes.length
    if (listBytes >= groupTarget) sealLists()
  }
  const toFrame = (id: Digest, bytes: Buffer): void => {
    const frame = wholeFrame(bytes, level)
    frames.push(frame)
    inFrames.push({ id, kind: "chunk", offset: framedBytes, length: bytes.length })
    framedBytes += frame.length
    if (framedBytes >= groupTarget) sealFrames()
  }

  /** What the file that is being read consists of. */
  let used: Digest[] = []
  let force = false
  const sink: ObjectSink = {
    has: (id) => {
      used.push(id)
      const isOurs = isNew(idToBytes(id))
      return !force && !isOurs
    },
    writeKnown: (kind, id, bytes) =>
      kind === "chunk" ? toFrame(id, bytes) : kind === "list" ? toLists(id, bytes) : toGroup(kind, id, bytes)
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
    const content = whole(
      storeStream(
        sink,
        (into, at, length, offset) => {
          const n = read(into, at, length, offset)
          if (offset < head.length) seen = offset + into.copy(head, offset, at, at + n)
          return n
        },
        expected
      )
    )
    const signs = signsOf(
      { path, source: setup.source, mode: Number(stat.mode), head: head.subarray(0, seen) },
      machine
    )
    return { ...content, blocks: used, signs }
  }

  const descent = new Descent(setup.source, setup.root)
  const open = (path: TreePath): number => reach(descent.to(path), openQuietly)
  const openAnew = (path: TreePath): number => {
    try {
      return open(path)
    } catch {
      descent.restart()
      return open(path)
    }
  }

  /** Where no descriptor leads to the file: whether it is the one that the scan saw. */
  const isMeant = (batch: Batch, n: number, { dev, ino }: BigIntStats): boolean =>
    descent.isFixed || (dev === batch.inodes[2 * n] && ino === batch.inodes[2 * n + 1])

  const readFile = (batch: Batch, n: number): ReadOutcome => {
    const index = batch.indexes[n]!
    const path = batch.paths[n]!
    let fd: number
    try {
      fd = openAnew(path)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "unknown"
      return goneCodes.includes(code) ? { index, gone: true } : { index, failed: code }
    }
    try {
      for (let attempt = 1; ; attempt += 1) {
        const before = settled(fd)
        if (!before.isFile() || !isMeant(batch, n, before)) return { index, gone: true }
        const content = readOnce(fd, path, before)
        const after = fstatSync(fd, { bigint: true })
        const changed =
          BigInt(content.size) !== after.size || after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs
        if (changed && attempt < attempts) continue
        const mode = Number(after.mode & 0o7777n)
        return { index, ...content, mode, mtimeNs: after.mtimeNs, ctimeNs: after.ctimeNs, changed }
      }
    } catch (error) {
      return { index, failed: (error as NodeJS.ErrnoException).code ?? String(error) }
    } finally {
      closeSync(fd)
    }
  }

  /**
   * A small file that nobody touched since the scan looked at it: read once, looked at once. Its bytes are left in the group,
   * behind what it holds. Undefined when it is another one by now, or cannot be read: then the long way says what it is.
   */
  const readAsScanned = (batch: Batch, n: number): Buffer | undefined => {
    const size = batch.sizes[n]!
    const ctimeNs = batch.times[2 * n + 1]!
    if (size > inlineLimit || batch.lookedAt - Number(ctimeNs / 1_000_000n) < racyMs) return undefined
    if (raw + size > importGroup) seal()
    let fd: number | undefined
    try {
      fd = open(batch.paths[n]!)
      const got = readDescriptor(fd)(group, raw, size, 0)
      const after = fstatSync(fd, { bigint: true })
      const same = after.mtimeNs === batch.times[2 * n] && after.ctimeNs === ctimeNs && after.size === BigInt(size)
      return same && got === size && after.isFile() && isMeant(batch, n, after)
        ? group.subarray(raw, raw + size)
        : undefined
    } catch {
      return undefined
    } finally {
      if (fd !== undefined) closeSync(fd)
    }
  }

  const readBatch = (batch: Batch): Outcomes => {
    const indexes = new Uint32Array(batch.indexes.length)
    const ids = new Uint8Array(batch.indexes.length * idLength)
    const signs: { index: number; signs: readonly Sign[] }[] = []
    const others: ReadOutcome[] = []
    let done = 0
    let bytes = 0
    force = batch.force
    for (const [n, index] of batch.indexes.entries()) {
      const content = force ? undefined : readAsScanned(batch, n)
      if (content === undefined) {
        const outcome = readFile(batch, n)
        if ("size" in outcome) bytes += outcome.size
        others.push(outcome)
        continue
      }
      const binary = hash("sha256", content, "buffer")
      const found = signsOf(
        { path: batch.paths[n]!, source: setup.source, mode: batch.modes[n]!, head: content },
        machine
      )
      if (found.length > 0) signs.push({ index, signs: found })
      if (isNew(binary)) {
        inGroup.push({ id: idFromBytes(binary), kind: "blob", offset: raw, length: content.length })
        raw += content.length
      }
      indexes[done] = index
      ids.set(binary, done * idLength)
      done += 1
      bytes += content.length
    }
    return { indexes: indexes.subarray(0, done), ids: ids.subarray(0, done * idLength), signs, others, bytes }
  }

  port.on("message", (request: ReaderRequest) => {
    try {
      if (request === "seal") {
        seal()
        sealFrames()
        sealLists()
        port.postMessage({ sealed: true } satisfies ReaderMessage)
      } else port.postMessage({ outcomes: readBatch(request) } satisfies ReaderMessage)
    } catch (error) {
      port.postMessage({
        defect: error instanceof Error ? (error.stack ?? error.message) : String(error)
      } satisfies ReaderMessage)
    }
  })
}
