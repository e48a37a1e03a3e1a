/**
 * A bundle: commits with everything that they reach, as one file.
 * Promise: nothing of a block is used before its length is known to be there and each object matches its id; the end says what
 * every byte before it hashes to, so that a cut or changed file is never taken for a whole one. Rules: L10, L13.
 *
 * bundle: `COPBNDL\n`, version u32, 0 u32, then blocks: type u8, length u32, payload. Numbers are little endian.
 *   1 manifest (the first): JSON, see BundleManifest.ts · 2 group: count u32, per object kind u8, id, length u32, then a group as
 *   in a pack (Group.ts) · 3 end (the last): sha256 of every byte before this block.
 */
import { createHash } from "node:crypto"
import { closeSync, constants, fstatSync, openSync } from "node:fs"
import type { Digest } from "../../src/base/Digest.ts"
import { type BundleManifest, decodeManifest, refused } from "./BundleManifest.ts"
import { frameGroup, openGroup } from "./Group.ts"
import { idFromBytes, idLength, idOf, idToBytes } from "../../src/base/DigestBytes.ts"
import type { ObjectKind } from "./ObjectStore.ts"
import { isKind, kindNumber, kindOf } from "./PackedObjects.ts"
import { readAt } from "./PackFile.ts"

export const bundleVersion = 1
const magic = Buffer.from("COPBNDL\n", "latin1")
const headerLength = 16
const blockHead = 5
const [manifestBlock, groupBlock, endBlock] = [1, 2, 3]
/** A manifest of a million commits is about this long; a group holds one object of 64 MiB at most. */
const longestBlock = 512 * 1024 * 1024

export interface BundleObject {
  readonly id: Digest
  readonly kind: ObjectKind
  readonly bytes: Buffer
}

const block = (type: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(blockHead)
  head.writeUInt8(type, 0)
  head.writeUInt32LE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/** The pieces of a bundle, in order. */
export class BundleEncoder {
  readonly #hash = createHash("sha256")

  #hashed(bytes: Buffer): Buffer {
    this.#hash.update(bytes)
    return bytes
  }

  begin(manifest: BundleManifest): Buffer {
    const header = Buffer.alloc(headerLength)
    header.set(magic, 0)
    header.writeUInt32LE(bundleVersion, magic.length)
    return this.#hashed(Buffer.concat([header, block(manifestBlock, Buffer.from(JSON.stringify(manifest)))]))
  }

  group(objects: readonly BundleObject[]): Buffer {
    const list = Buffer.alloc(4 + objects.length * (5 + idLength))
    list.writeUInt32LE(objects.length, 0)
    let at = 4
    for (const { id, kind, bytes } of objects) {
      list.writeUInt8(kindNumber(kind), at)
      list.set(idToBytes(id), at + 1)
      list.writeUInt32LE(bytes.length, at + 1 + idLength)
      at += 5 + idLength
    }
    const parts = objects.map((object) => object.bytes)
    const frame = frameGroup(
      parts,
      parts.reduce((sum, part) => sum + part.length, 0)
    )
    return this.#hashed(block(groupBlock, Buffer.concat([list, frame])))
  }

  end(): Buffer {
    return block(endBlock, this.#hash.digest())
  }
}

const decodeGroup = (payload: Buffer): BundleObject[] | undefined => {
  if (payload.length < 4) return undefined
  const count = payload.readUInt32LE(0)
  const listEnd = 4 + count * (5 + idLength)
  if (listEnd > payload.length) return undefined
  const raw = openGroup(payload.subarray(listEnd))
  if (raw === undefined) return undefined
  const objects: BundleObject[] = []
  let offset = 0
  for (let at = 4; at < listEnd; at += 5 + idLength) {
    const id = idFromBytes(payload, at + 1)
    const length = payload.readUInt32LE(at + 1 + idLength)
    const bytes = raw.subarray(offset, offset + length)
    if (!isKind(payload.readUInt8(at))) return undefined
    if (bytes.length !== length || idOf(bytes) !== id) return undefined
    objects.push({ id, kind: kindOf(payload.readUInt8(at)), bytes })
    offset += length
  }
  return offset === raw.length ? objects : undefined
}

/** An open bundle. `manifest` once, then `groups` to the end. Throws `BundleRefused`. */
export class BundleFile {
  readonly #fd: number
  readonly #path: string
  readonly #size: number
  readonly #hash = createHash("sha256")
  #at = 0

  /** `path` as bytes in latin1. */
  constructor(path: string, shown: string) {
    this.#path = shown
    try {
      // A FIFO would wait for its writer, and the store with it.
      this.#fd = openSync(Buffer.from(path, "latin1"), constants.O_RDONLY | constants.O_NONBLOCK)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
      throw refused("unreadable", shown)
    }
    const stat = fstatSync(this.#fd)
    this.#size = stat.size
    if (stat.isFile()) return
    closeSync(this.#fd)
    throw refused("unreadable", shown)
  }

  get size(): number {
    return this.#size
  }

  #take(length: number): Buffer {
    if (this.#at + length > this.#size) throw refused("cut", this.#path)
    const bytes = readAt(this.#fd, this.#at, length)
    if (bytes.length !== length) throw refused("cut", this.#path)
    this.#at += length
    return bytes
  }

  #block(): { readonly type: number; readonly payload: Buffer } {
    const head = this.#take(blockHead)
    const [type, length] = [head.readUInt8(0), head.readUInt32LE(1)]
    if (length > longestBlock) throw refused("damaged", this.#path)
    const payload = this.#take(length)
    if (type === endBlock) {
      if (this.#at !== this.#size || !payload.equals(this.#hash.digest())) throw refused("damaged", this.#path)
    } else this.#hash.update(head).update(payload)
    return { type, payload }
  }

  manifest(): BundleManifest {
    if (this.#size < headerLength) throw refused("foreign", this.#path)
    const header = this.#take(headerLength)
    if (!header.subarray(0, magic.length).equals(magic)) throw refused("foreign", this.#path)
    if (header.readUInt32LE(magic.length) !== bundleVersion) throw refused("newer", this.#path)
    this.#hash.update(header)
    const { type, payload } = this.#block()
    if (type !== manifestBlock) throw refused("damaged", this.#path)
    try {
      return decodeManifest(payload, this.#path)
    } catch (error) {
      // What it says is worth telling only where its bytes are those that were written.
      while (this.#block().type !== endBlock);
      throw error
    }
  }

  /** Every object was compared with its id; the last step has seen the end. */
  *groups(): Generator<readonly BundleObject[]> {
    for (;;) {
      const { type, payload } = this.#block()
      if (type === endBlock) return
      const objects = type === groupBlock ? decodeGroup(payload) : undefined
      if (objects === undefined) throw refused("damaged", this.#path)
      yield objects
    }
  }

  close(): void {
    closeSync(this.#fd)
  }
}
