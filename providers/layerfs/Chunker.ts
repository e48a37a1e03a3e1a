/**
 * Where the content of a large file is cut: content-defined chunks by FastCDC.
 * Promise: the end of a chunk depends on the bytes of that chunk and on nothing else, so that cutting again from any chunk's
 * begin gives the same chunks; a run of zeros has no end before the longest chunk. Rules: L14, L15, C5, C23.
 *
 * Algorithm: Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for Data Deduplication", USENIX ATC
 * 2016: gear hash, the first `minChunk` bytes skipped, normalised chunking of level 2 (two mask bits more before the average
 * length than its logarithm, two fewer after it). The hash has 32 bits, which is what JavaScript's integers hold: it covers the
 * last 32 bytes, and begins 32 bytes before the first possible end so that every decision sees as many.
 */
import { hash } from "node:crypto"

export const minChunk = 16 * 1024
export const averageChunk = 64 * 1024
export const maxChunk = 256 * 1024

/** One random number a byte: the first four bytes of the sha256 of a fixed text and that byte. Part of the format. */
export const gear = Int32Array.from({ length: 256 }, (_, byte) =>
  Buffer.from(hash("sha256", `coppice.layerfs.gear.1:${byte}`, "hex"), "hex").readInt32LE(0)
)

const window = 32
/** The upper bits, because those depend on the most bytes: 18 of them before the average length, 14 after it. */
const maskBefore = 0xffffc000 | 0
const maskAfter = 0xfffc0000 | 0

/**
 * The end of the chunk that begins at `start`. `end` is where the bytes at hand end: at least `maxChunk` further on, or the end
 * of the content.
 */
export const chunkEnd = (bytes: Uint8Array, start: number, end: number): number => {
  const last = Math.min(end, start + maxChunk)
  if (last - start <= minChunk) return last
  const average = Math.min(last, start + averageChunk)
  let sum = 0
  let at = start + minChunk - window
  for (; at < start + minChunk; at += 1) sum = ((sum << 1) + gear[bytes[at]!]!) | 0
  for (; at < average; at += 1) {
    sum = ((sum << 1) + gear[bytes[at]!]!) | 0
    if ((sum & maskBefore) === 0) return at + 1
  }
  for (; at < last; at += 1) {
    sum = ((sum << 1) + gear[bytes[at]!]!) | 0
    if ((sum & maskAfter) === 0) return at + 1
  }
  return last
}

const zeros = Buffer.alloc(maxChunk)

/** True where the next chunk is the longest one and all zeros: such a one is recorded and not stored (L15). */
export const isHoleAt = (bytes: Buffer, start: number, end: number): boolean =>
  end - start >= maxChunk &&
  bytes[start] === 0 &&
  bytes[start + maxChunk - 1] === 0 &&
  bytes.compare(zeros, 0, maxChunk, start, start + maxChunk) === 0
