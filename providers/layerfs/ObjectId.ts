/**
 * What the ids of objects stand for: an id is the sha256 of the object's bytes. Rules: W6, L10, L14.
 *
 * A file of up to `inlineLimit` is one object, so its id is its provider-neutral content digest too; a larger one is a list of
 * chunks (ContentPages.ts). Stores of format 1 have files of up to 4 MiB whole, and above that a list of their 4 MiB blocks' ids.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { idFromBytes, idLength, idOf } from "../../src/base/DigestBytes.ts"

/** Up to this size a file is one object; above it, a list of chunks. */
export const inlineLimit = 512 * 1024

/** The blocks of a content digest (W6), and of a large file in a store of format 1. */
export const blockSize = 4 * 1024 * 1024

/** The ids in a list object of format 1. */
export const idsOfList = (list: Buffer): Digest[] => {
  const ids: Digest[] = []
  for (let at = 0; at + idLength <= list.length; at += idLength) ids.push(idFromBytes(list, at))
  return ids
}

/** The full block of zeros: recorded in lists of format 1, never stored, restored as a hole (L15). */
export const zeroBlock: Digest = idOf(Buffer.alloc(blockSize))
