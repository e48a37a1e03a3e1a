/**
 * Object ids in their two forms: `sha256:<hex>` in memory and 32 bytes in trees and index rows.
 * Promise: an id is the sha256 of the object's bytes. A file above 4 MiB is a list object, the concatenated ids of its
 * 4 MiB blocks, so that a file's id is always its provider-neutral content digest (W6). Rules: W6, L10, L14.
 */
import { hash } from "node:crypto"
import type { Digest } from "../../src/base/Digest.ts"

/** Up to this size a file is one object; above it, a list of blocks of this size (W6). */
export const blockSize = 4 * 1024 * 1024

export const idLength = 32

export const idOf = (bytes: Uint8Array): Digest => `sha256:${hash("sha256", bytes, "hex")}`

export const idToBytes = (id: Digest): Buffer => Buffer.from(id.slice(7), "hex")

export const idFromBytes = (bytes: Uint8Array, offset = 0): Digest =>
  `sha256:${Buffer.from(bytes.buffer, bytes.byteOffset + offset, idLength).toString("hex")}`

/** The bytes of a list object. A file with holes has many blocks: no object is made for each. */
export const listOfIds = (ids: readonly Digest[]): Buffer => {
  const list = Buffer.allocUnsafeSlow(ids.length * idLength)
  for (const [n, id] of ids.entries()) list.write(id.slice(7), n * idLength, "hex")
  return list
}

/** The ids in a list object. */
export const idsOfList = (list: Buffer): Digest[] => {
  const ids: Digest[] = []
  for (let at = 0; at + idLength <= list.length; at += idLength) ids.push(idFromBytes(list, at))
  return ids
}

/** The full block of zeros: recorded in lists, never stored, restored as a hole (L15). */
export const zeroBlock: Digest = idOf(Buffer.alloc(blockSize))

/** True for the content of `zeroBlock`, found out without hashing: its first byte is 0 and each byte is like the one before. */
export const isZeroBlock = (bytes: Buffer): boolean =>
  bytes.length === blockSize && bytes[0] === 0 && bytes.subarray(1).equals(bytes.subarray(0, -1))
