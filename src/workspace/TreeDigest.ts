/**
 * The provider-neutral digest of a tree: what two providers must agree on when they hold the same files.
 * Promise: one byte string per tree and profile, fixed by golden vectors; mtimes, owners and inode numbers are not in it, so
 * it says that content, kinds, modes and hard links are equal and nothing more. Rules: W5, W6, W22; E2.
 *
 * Hashed with sha256, all numbers little endian:
 *   u32 length | profile | u32 version, then per entry, in byte order of the full paths (the root itself is no entry):
 *   u32 length | path | u8 type (1 file, 2 directory, 3 link) | u16 mode & 07777 (0 for a link) |
 *   file: content digest, 32 bytes · link: u32 length | target · directory: nothing | u32 length | first path of the
 *   hard-link group (length 0: none)
 */
import { createHash, hash } from "node:crypto"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import type { Digest } from "../base/Digest.ts"
import { compare, type TreePath } from "../base/PathBytes.ts"
import type { Candidate } from "./Candidate.ts"

/** The dimensions that are compared. A provider that normalises one of them away must use a profile of another name. */
export const fullProfile = "coppice.tree:type,mode,content,target,linkGroup,emptyDirectory"
export const treeDigestVersion = 1

/** Files up to this size have the sha256 of their bytes as content digest. */
export const contentBlock = 4 * 1024 * 1024

/** Two digests of different profiles were compared: they say nothing about each other. */
export class ProfileMismatch extends Schema.TaggedError<ProfileMismatch>()("ProfileMismatch", {
  ...errorFields("PROFILE_MISMATCH"),
  left: Schema.String,
  right: Schema.String
}) {}

export interface DigestEntry {
  readonly path: TreePath
  readonly type: "file" | "directory" | "symlink"
  readonly mode: number
  /** Content digest of a file; null otherwise. */
  readonly content: Digest | null
  /** Target of a link, byte string; null otherwise. */
  readonly target: TreePath | null
  readonly linkGroup: TreePath | null
}

const zeros = Buffer.alloc(1024 * 1024)

/** Looked at only where both ends say so, and where it is worth it. */
const isZeros = (piece: Uint8Array): boolean =>
  piece.length >= 4096 &&
  piece.length <= zeros.length &&
  piece[0] === 0 &&
  piece[piece.length - 1] === 0 &&
  zeros.compare(piece, 0, piece.length, 0, piece.length) === 0

/** Of a block of NUL bytes. */
const zeroBlockDigest = Buffer.from(hash("sha256", Buffer.alloc(contentBlock), "hex"), "hex")

/** The content digest of bytes that come in pieces of any length. */
export class ContentDigester {
  readonly #list = createHash("sha256")
  #block = createHash("sha256")
  #inBlock = 0
  #length = 0
  #pending = 0

  add(piece: Uint8Array): void {
    if (isZeros(piece)) return this.addZeros(piece.length)
    this.#fillZeros()
    this.#length += piece.length
    this.#take(piece)
  }

  /** So many NUL bytes; what fills whole blocks costs nothing. */
  addZeros(count: number): void {
    this.#length += count
    this.#pending += count
  }

  #take(piece: Uint8Array): void {
    for (let at = 0; at < piece.length; ) {
      // A block ends when more comes behind it: the only block of a file is its whole content.
      if (this.#inBlock === contentBlock) this.#endBlock()
      const part = piece.subarray(at, at + contentBlock - this.#inBlock)
      this.#block.update(part)
      this.#inBlock += part.length
      at += part.length
    }
  }

  /** Zeros are waited for to their end: whole blocks of them have a known digest. */
  #fillZeros(): void {
    while (this.#pending > 0) {
      const isBetween = this.#inBlock === contentBlock || (this.#inBlock === 0 && this.#length > contentBlock)
      if (isBetween && this.#pending >= contentBlock && this.#length > contentBlock) {
        if (this.#inBlock === contentBlock) this.#endBlock()
        this.#list.update(zeroBlockDigest)
        this.#pending -= contentBlock
        continue
      }
      const room = this.#inBlock === contentBlock ? contentBlock : contentBlock - this.#inBlock
      const part = Math.min(this.#pending, room, zeros.length)
      this.#take(zeros.subarray(0, part))
      this.#pending -= part
    }
  }

  #endBlock(): void {
    this.#list.update(this.#block.digest())
    this.#block = createHash("sha256")
    this.#inBlock = 0
  }

  get length(): number {
    return this.#length
  }

  /** Once, behind the last piece. */
  end(): Digest {
    this.#fillZeros()
    if (this.#length <= contentBlock) return `sha256:${this.#block.digest("hex")}`
    if (this.#inBlock > 0) this.#endBlock()
    return `sha256:${this.#list.digest("hex")}`
  }
}

/** The content digest of whole bytes: sha256 up to 4 MiB, above it sha256 over the sha256 of each 4 MiB block. */
export const contentDigest = (bytes: Uint8Array): Digest => {
  if (bytes.length <= contentBlock) return `sha256:${hash("sha256", bytes, "hex")}`
  const list = createHash("sha256")
  for (let at = 0; at < bytes.length; at += contentBlock) {
    list.update(Buffer.from(hash("sha256", bytes.subarray(at, at + contentBlock), "hex"), "hex"))
  }
  return `sha256:${list.digest("hex")}`
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

const text = (value: string): Buffer[] => [u32(value.length), Buffer.from(value, "latin1")]

const types = { file: 1, directory: 2, symlink: 3 } as const

const encode = (entry: DigestEntry): Buffer => {
  const head = Buffer.alloc(3)
  head.writeUInt8(types[entry.type])
  head.writeUInt16LE(entry.type === "symlink" ? 0 : entry.mode & 0o7777, 1)
  const parts = [...text(entry.path), head]
  if (entry.type === "file") parts.push(Buffer.from((entry.content ?? "").slice(7), "hex"))
  if (entry.type === "symlink") parts.push(...text(entry.target ?? ""))
  parts.push(...text(entry.linkGroup ?? ""))
  return Buffer.concat(parts)
}

/** The digest of a tree whose entries come one by one, in byte order of their paths, each once, without the root. */
export class TreeDigester {
  readonly #sha = createHash("sha256")
  #parts: Buffer[] = []

  constructor(profile: string = fullProfile) {
    for (const part of text(profile)) this.#sha.update(part)
    this.#sha.update(u32(treeDigestVersion))
  }

  add(entry: DigestEntry): void {
    this.#parts.push(encode(entry))
    if (this.#parts.length < 512) return
    this.#sha.update(Buffer.concat(this.#parts))
    this.#parts = []
  }

  /** Once, behind the last entry. */
  end(): Digest {
    this.#sha.update(Buffer.concat(this.#parts))
    return `sha256:${this.#sha.digest("hex")}`
  }
}

/** The digest of a tree. Entries may come in any order; each path once, without the root. */
export const treeDigest = (entries: readonly DigestEntry[], profile: string = fullProfile): Digest => {
  const digester = new TreeDigester(profile)
  for (const entry of [...entries].sort((a, b) => compare(a.path, b.path))) digester.add(entry)
  return digester.end()
}

/** True when two candidates hold the same tree. Throws `ProfileMismatch` where the question has no answer. */
export const sameTree = (a: Candidate, b: Candidate): boolean => {
  if (a.profile === b.profile) return a.treeDigest === b.treeDigest
  throw new ProfileMismatch({
    message: "The two candidates' tree digests compare different dimensions.",
    remedy: "Compute both digests under one profile, then compare again.",
    left: a.profile,
    right: b.profile
  })
}
