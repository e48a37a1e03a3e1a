/**
 * File contents in and out of the object store: see ContentStore.ts for how they are kept.
 * Promise: what is read into the store is one state of the file or the call is refused; what is read out was checked chunk by
 * chunk; the streaming forms hold one chunk; contents of format 1 are read for ever. Rules: W6, L10, L15, C5, C19, C21, C23.
 */
import { closeSync, constants, fstatSync, openSync } from "node:fs"
import type { Digest } from "../../src/base/Digest.ts"
import { reach } from "../../src/base/LongPath.ts"
import { FileSystemFailure } from "../../src/workspace/WorkspaceError.ts"
import type { Steps } from "../../src/workspace/kit/Steps.ts"
import { ChunkList } from "./ChunkList.ts"
import { isHole, isPage, decodePage } from "./ContentPages.ts"
import {
  readBuffer,
  type ReadBytes,
  readDescriptor,
  readSpliced,
  spliceChunks,
  type Splice,
  type StoredContent,
  storeHole,
  storeStream
} from "./ContentStore.ts"
import { blockSize, idsOfList, inlineLimit, zeroBlock } from "./ObjectId.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import type { ObjectSource } from "./StoredTrees.ts"

export type { StoredContent } from "./ContentStore.ts"

/** How a content is kept: one object, chunks, or what format 1 made of a file above 4 MiB. */
type Form =
  | { readonly kind: "whole"; readonly bytes: Buffer }
  | { readonly kind: "chunks"; readonly list: ChunkList }
  | { readonly kind: "blocks"; readonly ids: readonly Digest[] }

const formOf = (objects: ObjectSource, content: StoredContent): Form => {
  const { id, size } = content
  // Format 1 never stored a block of zeros, also where it was a file of its own.
  if (id === zeroBlock && size === blockSize) return { kind: "blocks", ids: [id] }
  const bytes = objects.read(id)
  // No page is as long as a file that is large enough to have pages.
  if (size <= inlineLimit || bytes.length === size) return { kind: "whole", bytes }
  return isPage(bytes)
    ? { kind: "chunks", list: new ChunkList(objects, content) }
    : { kind: "blocks", ids: idsOfList(bytes) }
}

/** Tells the store what the new content is probably like: the content that the path had before. */
const hintOf = (objects: ObjectSource, older: StoredContent | undefined): Digest | ChunkList | undefined => {
  if (older === undefined || older.size <= inlineLimit) return older?.id
  const form = formOf(objects, older)
  return form.kind === "chunks" ? form.list : undefined
}

export const storeBytes = (objects: ObjectStore, bytes: Uint8Array, older?: StoredContent): Steps<StoredContent> =>
  storeStream(objects, readBuffer(bytes), bytes.length, hintOf(objects, older))

const attempts = 3

/**
 * Stores the file at an absolute path (byte string), never following a link at its end. `older` is what the path had before.
 * Throws `FileSystemFailure`.
 */
export function* storeFile(objects: ObjectStore, path: string, older?: StoredContent): Steps<StoredContent> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const fd = reach(path, (short) => openSync(short, flags))
  try {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const before = fstatSync(fd, { bigint: true })
      if (!before.isFile()) break
      const size = Number(before.size)
      // A file without allocated blocks is zeros: nothing of it is read (C19).
      const isSparse = before.blocks === 0n && size > inlineLimit
      const content = isSparse
        ? storeHole(objects, size)
        : yield* storeStream(objects, readDescriptor(fd), size, hintOf(objects, older))
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

/** Replaces a part of a content that lies inside it. Costs the edit; a content of format 1 is stored anew once. */
export function* spliceContent(objects: ObjectStore, content: StoredContent, splice: Splice): Steps<StoredContent> {
  if (splice.deleteCount === 0 && splice.bytes.length === 0) return content
  const form = formOf(objects, content)
  const size = content.size - splice.deleteCount + splice.bytes.length
  if (form.kind === "chunks" && size > inlineLimit) return yield* spliceChunks(objects, form.list, splice)
  return yield* storeStream(objects, readSpliced(reading(objects, form), splice), size, hintOf(objects, content))
}

/** Reads a content at any place. */
const reading = (objects: ObjectSource, form: Form): ReadBytes => {
  switch (form.kind) {
    case "whole":
      return readBuffer(form.bytes)
    case "chunks":
      return (into, at, length, offset) => form.list.read(into, at, length, offset)
    case "blocks":
      return readBlocks(objects, form.ids)
  }
}

/** A content that is opened once and read in pieces, at any place inside it. Throws `ObjectDamaged`, now and when it is read. */
export const contentReader = (objects: ObjectSource, content: StoredContent): ReadBytes =>
  reading(objects, formOf(objects, content))

const readBlocks = (objects: ObjectSource, ids: readonly Digest[]): ReadBytes => {
  let block: { readonly id: Digest; readonly bytes: Buffer } | undefined
  return (into, at, length, offset) => {
    let done = 0
    while (done < length) {
      const id = ids[Math.floor((offset + done) / blockSize)]!
      const from = (offset + done) % blockSize
      if (id !== zeroBlock && block?.id !== id) block = { id, bytes: objects.read(id) }
      const n = Math.min(length - done, (id === zeroBlock ? blockSize : block!.bytes.length) - from)
      if (id === zeroBlock) into.fill(0, at + done, at + done + n)
      else block!.bytes.copy(into, at + done, from, from + n)
      done += n
    }
    return done
  }
}

/** Bytes that one call hands out at most: as `fs.readFile` of Node, which refuses more with ERR_FS_FILE_TOO_LARGE. */
export const longestRead = 2 ** 31 - 1

/** The bytes from `offset`, as many as there are up to `length`; only what they lie in is read. Throws `ObjectDamaged`. */
export const readRange = (objects: ObjectSource, content: StoredContent, offset: number, length: number): Buffer => {
  const bytes = Buffer.alloc(Math.max(0, Math.min(length, content.size - offset)))
  if (bytes.length > 0) reading(objects, formOf(objects, content))(bytes, 0, bytes.length, offset)
  return bytes
}

export interface ContentBlock {
  /** Null for a hole: `length` bytes of zeros, which may be a great many. */
  readonly bytes: Buffer | null
  readonly length: number
}

/** The pieces of a file's content, in order, each checked. */
export function* blocks(objects: ObjectSource, content: StoredContent): Generator<ContentBlock> {
  const form = formOf(objects, content)
  if (form.kind === "whole") {
    yield { bytes: form.bytes, length: form.bytes.length }
  } else if (form.kind === "chunks") {
    for (const { entry } of form.list.entriesFrom(0, 0)) {
      yield { bytes: isHole(entry) ? null : objects.read(entry.id), length: entry.length }
    }
  } else {
    for (const [n, id] of form.ids.entries()) {
      const length = Math.min(blockSize, content.size - n * blockSize)
      yield { bytes: id === zeroBlock ? null : objects.read(id), length }
    }
  }
}

/** Pieces of at most this many zeros stand for a hole where bytes are wanted. */
const zeros = Buffer.alloc(1024 * 1024)

/** The same with a hole's zeros as bytes. */
export function* solidBlocks(objects: ObjectSource, content: StoredContent): Generator<Buffer> {
  for (const { bytes, length } of blocks(objects, content)) {
    if (bytes !== null) yield bytes
    else for (let at = 0; at < length; at += zeros.length) yield zeros.subarray(0, Math.min(zeros.length, length - at))
  }
}

/** A hole is made of whole pages of memory, which file systems and tar can have: its edges are written as zeros. */
const page = 4096
const holeInside = (start: number, length: number, size: number): { readonly from: number; readonly to: number } => {
  const end = start + length
  return { from: Math.ceil(start / page) * page, to: end === size ? end : Math.floor(end / page) * page }
}

/** Where the bytes of a file with holes lie; undefined when it has none. Reads no chunk. */
export const segmentsOf = (
  objects: ObjectSource,
  content: StoredContent
): readonly { readonly offset: number; readonly length: number }[] | undefined => {
  if (content.size <= inlineLimit) return undefined
  const form = formOf(objects, content)
  if (form.kind === "whole") return undefined
  const holes: { readonly from: number; readonly to: number }[] = []
  if (form.kind === "chunks") {
    for (const { entry, start } of form.list.entriesFrom(0, 0)) {
      if (isHole(entry)) holes.push(holeInside(start, entry.length, content.size))
    }
  } else {
    for (const [n, id] of form.ids.entries()) {
      if (id === zeroBlock) holes.push(holeInside(n * blockSize, blockSize, content.size))
    }
  }
  if (holes.length === 0) return undefined
  const segments: { readonly offset: number; readonly length: number }[] = []
  let offset = 0
  for (const { from, to } of [...holes, { from: content.size, to: content.size }]) {
    if (from > offset) segments.push({ offset, length: from - offset })
    offset = to
  }
  return segments
}

/** The bytes of a file's segments, in order; of a file without holes, all of them. */
export function* segmentBytes(objects: ObjectSource, content: StoredContent): Generator<Buffer> {
  let offset = 0
  for (const { bytes, length } of blocks(objects, content)) {
    if (bytes !== null) yield bytes
    else {
      const { from, to } = holeInside(offset, length, content.size)
      if (from > offset) yield zeros.subarray(0, from - offset)
      if (offset + length > to) yield zeros.subarray(0, offset + length - to)
    }
    offset += length
  }
}

/**
 * Every object that a content consists of, each before what lies below it: `visit` answers whether to go on below. A content of
 * one object is just that; what is a hole has none.
 */
export const visitContent = (objects: ObjectSource, content: StoredContent, visit: (id: Digest) => boolean): void => {
  if (content.id === zeroBlock && content.size === blockSize) return
  if (!visit(content.id) || content.size <= inlineLimit) return
  const bytes = objects.read(content.id)
  if (bytes.length === content.size) return
  if (!isPage(bytes)) {
    for (const id of idsOfList(bytes)) if (id !== zeroBlock) visit(id)
    return
  }
  const below = (page: Buffer): void => {
    const { level, entries } = decodePage(page)
    for (const entry of entries) {
      if (!isHole(entry) && visit(entry.id) && level > 0) below(objects.read(entry.id))
    }
  }
  below(bytes)
}

/** All bytes of a file's content. Throws `ObjectDamaged`. */
export const readContent = (objects: ObjectSource, content: StoredContent): Buffer => {
  const form = formOf(objects, content)
  if (form.kind === "whole") return form.bytes
  const bytes = Buffer.allocUnsafeSlow(content.size)
  reading(objects, form)(bytes, 0, content.size, 0)
  return bytes
}
