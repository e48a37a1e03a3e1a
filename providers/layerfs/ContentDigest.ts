/**
 * The provider-neutral digest of a stored content (W6), where its id is another.
 * Promise: one reading in order, one chunk held; other calls of the worker get their turn between pieces; a content that was
 * digested once is not read again. Rules: W6, W5, L12; 01 (bounded memory).
 */
import { createHash } from "node:crypto"
import type { Digest } from "../../src/base/Digest.ts"
import { blocks, type StoredContent } from "./FileContent.ts"
import { idToBytes } from "../../src/base/DigestBytes.ts"
import { blockSize, inlineLimit, zeroBlock } from "./ObjectId.ts"
import type { ObjectSource } from "./StoredTrees.ts"

/** The name under which a content's digest is kept beside those of roots. */
export const contentProfile = "coppice.content:sha256,4MiB"

export interface KnownDigests {
  readonly digest: (id: Digest, profile: string) => Digest | undefined
  readonly putDigest: (id: Digest, profile: string, digest: Digest) => Promise<void>
}

/** Bytes read in one go. */
const slice = 8 * 1024 * 1024

const zeros = Buffer.alloc(blockSize)
const zeroDigest = idToBytes(zeroBlock)

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** sha256 up to 4 MiB, above it sha256 over the list of sha256 of the 4 MiB blocks. Throws `ObjectDamaged`. */
export const contentDigestOf = async (
  objects: ObjectSource,
  content: StoredContent,
  known: KnownDigests
): Promise<Digest> => {
  if (content.size <= inlineLimit) return content.id
  const before = known.digest(content.id, contentProfile)
  if (before !== undefined) return before
  const list = createHash("sha256")
  let blocksSeen = 0
  let last: Buffer = zeroDigest
  const add = (digest: Buffer): void => {
    list.update(digest)
    last = digest
    blocksSeen += 1
  }
  let block = createHash("sha256")
  let inBlock = 0
  let sinceTurn = 0
  for (const { bytes, length } of blocks(objects, content)) {
    for (let at = 0; at < length; ) {
      const n = Math.min(blockSize - inBlock, length - at)
      if (bytes === null && n === blockSize) add(zeroDigest)
      else {
        block.update(bytes === null ? zeros.subarray(0, n) : bytes.subarray(at, at + n))
        inBlock += n
        if (inBlock === blockSize) {
          add(block.digest())
          block = createHash("sha256")
          inBlock = 0
        }
      }
      at += n
    }
    sinceTurn += bytes?.length ?? 0
    if (sinceTurn > slice) {
      sinceTurn = 0
      await turn()
    }
  }
  if (inBlock > 0) add(block.digest())
  const digest: Digest = `sha256:${(blocksSeen === 1 ? last : list.digest()).toString("hex")}`
  await known.putDigest(content.id, contentProfile, digest)
  return digest
}
