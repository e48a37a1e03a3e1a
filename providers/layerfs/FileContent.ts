/**
 * File contents in and out of the object store: whole up to 4 MiB, above that a list of blocks.
 * Promise: what is read into the store is one state of the file or the call is refused; what is read out was checked block
 * by block; at most one block is held at a time by the streaming forms. Rules: W6, L10, L15, C5, C19, C23.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs"
import type { Digest } from "../../src/base/Digest.ts"
import { reach } from "../../src/base/LongPath.ts"
import { FileSystemFailure } from "../../src/workspace/WorkspaceError.ts"
import { blockSize, idOf, idsOfList, isZeroBlock, listOfIds, zeroBlock } from "./ObjectId.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import type { ObjectSource } from "./StoredTrees.ts"

export interface StoredContent {
  readonly id: Digest
  readonly size: number
}

export const storeBytes = (objects: ObjectStore, bytes: Buffer): StoredContent => {
  if (bytes.length <= blockSize) return { id: storeBlock(objects, bytes), size: bytes.length }
  const ids: Digest[] = []
  for (let at = 0; at < bytes.length; at += blockSize) {
    ids.push(storeBlock(objects, bytes.subarray(at, at + blockSize)))
  }
  return { id: objects.write("list", listOfIds(ids)), size: bytes.length }
}

const storeBlock = (objects: ObjectStore, bytes: Buffer): Digest => {
  if (isZeroBlock(bytes)) return zeroBlock
  const id = idOf(bytes)
  // Copied: the caller's buffer is used again for the next block.
  if (!objects.has(id)) objects.writeKnown("blob", id, Buffer.from(bytes))
  return id
}

const attempts = 3

/** Stores the file at an absolute path (byte string), never following a link at its end. Throws `FileSystemFailure`. */
export const storeFile = (objects: ObjectStore, path: string): StoredContent => {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const fd = reach(path, (short) => openSync(short, flags))
  try {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const before = fstatSync(fd, { bigint: true })
      if (!before.isFile()) break
      const size = Number(before.size)
      const isHole = before.blocks === 0n && size > blockSize
      const content = isHole ? storeHole(objects, size) : storeOpened(objects, fd, size)
      const after = fstatSync(fd, { bigint: true })
      const same =
        BigInt(content.size) === after.size && before.mtimeNs === after.mtimeNs && before.ctimeNs === after.ctimeNs
      if (same) return content
    }
  } finally {
    closeSync(fd)
  }
  throw new FileSystemFailure({
    message: "A file kept changing while it was read.",
    remedy: "Stop what writes to it, then repeat the same call; nothing was committed.",
    syscallCode: "ESTALE"
  })
}

/** A file without allocated blocks is zeros: nothing of it is read (C19). */
const storeHole = (objects: ObjectStore, size: number): StoredContent => {
  const ids = Array.from({ length: Math.floor(size / blockSize) }, () => zeroBlock)
  if (size % blockSize > 0) ids.push(storeBlock(objects, Buffer.alloc(size % blockSize)))
  return { id: objects.write("list", listOfIds(ids)), size }
}

/** Reads no further than the size seen first: a file that grows is found out by the second look at its stat. */
const storeOpened = (objects: ObjectStore, fd: number, expected: number): StoredContent => {
  const buffer = Buffer.allocUnsafe(Math.min(expected, blockSize))
  const ids: Digest[] = []
  let size = 0
  let first: Digest | undefined
  do {
    const wanted = Math.min(blockSize, expected - size)
    let n = 0
    while (n < wanted) {
      const got = readSync(fd, buffer, n, wanted - n, size + n)
      if (got === 0) break
      n += got
    }
    const id = storeBlock(objects, buffer.subarray(0, n))
    first ??= id
    ids.push(id)
    size += n
    if (n < wanted) break
  } while (size < expected)
  if (size <= blockSize) return { id: first, size }
  return { id: objects.write("list", listOfIds(ids)), size }
}

/** The blocks of a file's content, in order, each checked. A hole is `null` and stands for a block of zeros. */
export function* blocks(
  objects: ObjectSource,
  content: StoredContent
): Generator<{ readonly bytes: Buffer | null; readonly length: number }> {
  if (content.size <= blockSize) {
    if (content.id === zeroBlock) yield { bytes: null, length: blockSize }
    else {
      const bytes = objects.read(content.id)
      yield { bytes, length: bytes.length }
    }
    return
  }
  for (const id of idsOfList(objects.read(content.id))) {
    if (id === zeroBlock) yield { bytes: null, length: blockSize }
    else {
      const bytes = objects.read(id)
      yield { bytes, length: bytes.length }
    }
  }
}

/** All bytes of a file's content. Throws `ObjectDamaged`. */
export const readContent = (objects: ObjectSource, content: StoredContent): Buffer => {
  const parts: Buffer[] = []
  for (const { bytes, length } of blocks(objects, content)) parts.push(bytes ?? Buffer.alloc(length))
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}
