/**
 * Digests in their two forms: `sha256:<hex>` in memory, 32 bytes in rows and files.
 * Promise: one form is the other, byte for byte. Rules: W6, L10, L14.
 */
import { hash } from "node:crypto"
import type { Digest } from "./Digest.ts"

export const idLength = 32

export const idOf = (bytes: Uint8Array): Digest => `sha256:${hash("sha256", bytes, "hex")}`

export const idToBytes = (id: Digest): Buffer => Buffer.from(id.slice(7), "hex")

/** The same, put where it belongs: directories and lists are made of ids. */
export const writeId = (into: Buffer, id: Digest, at: number): void => {
  into.write(id.slice(7), at, idLength, "hex")
}

export const idFromBytes = (bytes: Uint8Array, offset = 0): Digest => {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return `sha256:${buffer.toString("hex", offset, offset + idLength)}`
}
