/**
 * The reading side of an import, run in one or two extra threads: read, hash, group, compress.
 * Promise: at most one batch (about 1 MiB, or one block of a large file) is in memory at a time; a file that changes while
 * it is read is read again, and after three tries recorded as read and reported. Rules: W13, W14; C17; 01 (bounded memory).
 */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import type { MessagePort } from "node:worker_threads"
import type { Digest } from "../../src/base/Digest.ts"
import { frameGroup, groupTarget } from "./Group.ts"
import { blockSize, idOf, idToBytes, zeroBlock } from "./ObjectId.ts"

export interface ReadRequest {
  readonly index: number
  /** Absolute path, byte string. */
  readonly path: string
  readonly size: number
  readonly allocated: boolean
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
    }
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
  readonly index: string
  /** 64-bit prefixes of ids that some thread has taken on: a hint against double work, checked by the importer at the end. */
  readonly claims: SharedArrayBuffer
}

const attempts = 3

export const serveImportReader = (port: MessagePort, setup: ReaderSetup): void => {
  // Plain SQLite: a thread that only reads should not spend its first 200 ms on loading an error library.
  const db = new DatabaseSync(setup.index, { readOnly: true })
  const known = db.prepare("SELECT 1 FROM objects WHERE id = ?")
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
    if (!force && (known.get(binary) !== undefined || !claim(binary))) return id
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

  /** Never reads past the size that the file had at first: a file that grows faster than we read would not end. */
  const readOnce = (fd: number, file: ReadRequest, force: boolean): { id: Digest; size: number; blocks: Digest[] } => {
    if (!file.allocated && file.size > blockSize) return readHole(file.size, force)
    if (file.size <= blockSize) {
      const size = fill(fd, 0, file.size)
      return { id: store("blob", buffer.subarray(0, size), force), size, blocks: [] }
    }
    const blocks: Digest[] = []
    let size = 0
    while (size < file.size) {
      const n = fill(fd, size, Math.min(blockSize, file.size - size))
      if (n === 0) break
      const bytes = buffer.subarray(0, n)
      const isHole = n === blockSize && idOf(bytes) === zeroBlock
      blocks.push(isHole ? zeroBlock : store("blob", bytes, force))
      size += n
    }
    // It shrank while it was read: up to one block is stored as such.
    if (size <= blockSize) return { id: blocks[0] ?? store("blob", Buffer.alloc(0), force), size, blocks: [] }
    return { id: store("list", Buffer.concat(blocks.map(idToBytes)), force), size, blocks }
  }

  const readHole = (size: number, force: boolean): { id: Digest; size: number; blocks: Digest[] } => {
    const full = Math.floor(size / blockSize)
    const blocks: Digest[] = Array.from({ length: full }, () => zeroBlock)
    if (size % blockSize > 0) blocks.push(store("blob", Buffer.alloc(size % blockSize), force))
    return { id: store("list", Buffer.concat(blocks.map(idToBytes)), force), size, blocks }
  }

  const readFile = (file: ReadRequest, force: boolean): ReadOutcome => {
    let fd: number
    try {
      fd = openSync(Buffer.from(file.path, "latin1"), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    } catch (error) {
      return { index: file.index, failed: (error as NodeJS.ErrnoException).code ?? "unknown" }
    }
    try {
      let before = fstatSync(fd, { bigint: true })
      if (!before.isFile()) return { index: file.index, failed: "it was replaced by something that is not a file" }
      for (let attempt = 1; ; attempt += 1) {
        const content = readOnce(fd, { ...file, size: Number(before.size), allocated: before.blocks > 0n }, force)
        const after = fstatSync(fd, { bigint: true })
        const changed =
          BigInt(content.size) !== after.size || after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs
        if (!changed || attempt === attempts) {
          return { index: file.index, ...content, mode: Number(after.mode & 0o7777n), mtimeNs: after.mtimeNs, changed }
        }
        before = after
      }
    } catch (error) {
      return { index: file.index, failed: (error as NodeJS.ErrnoException).code ?? String(error) }
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
