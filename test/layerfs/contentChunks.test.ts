/** Large files as chunks with a paged list: one id by any route, cost of an edit, ranges, holes. Rules: L14, L15, W6, C19, C21. */
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { ChunkList } from "../../providers/layerfs/ChunkList.ts"
import { averageChunk, chunkEnd, gear, maxChunk, minChunk } from "../../providers/layerfs/Chunker.ts"
import { contentDigestOf } from "../../providers/layerfs/ContentDigest.ts"
import { isHole } from "../../providers/layerfs/ContentPages.ts"
import { storeHole } from "../../providers/layerfs/ContentStore.ts"
import {
  blocks,
  readContent,
  readRange,
  segmentBytes,
  segmentsOf,
  spliceContent as spliceSteps,
  type StoredContent,
  storeBytes as storeSteps,
  visitContent
} from "../../providers/layerfs/FileContent.ts"
import { idOf, idToBytes } from "../../src/base/DigestBytes.ts"
import { blockSize, inlineLimit, zeroBlock } from "../../providers/layerfs/ObjectId.ts"
import { type Digest, sha256 } from "../../src/base/Digest.ts"
import { whole } from "../../src/workspace/kit/Steps.ts"
import { contentDigest } from "../../src/workspace/TreeDigest.ts"
import { MemoryObjects, seeded } from "./contentMemory.ts"

const MiB = 1024 * 1024
const storeBytes = (...input: Parameters<typeof storeSteps>): StoredContent => whole(storeSteps(...input))
const spliceContent = (...input: Parameters<typeof spliceSteps>): StoredContent => whole(spliceSteps(...input))
const noDigests = { digest: () => undefined, putDigest: () => Promise.resolve() }

const edited = (bytes: Buffer, offset: number, deleteCount: number, insert: Buffer): Buffer =>
  Buffer.concat([bytes.subarray(0, offset), insert, bytes.subarray(offset + deleteCount)])

/** A file of pieces: random bytes, zeros, text that repeats. */
const piece = fc.oneof(
  fc.record({ kind: fc.constant("random" as const), seed: fc.nat(1e6), length: fc.integer({ min: 1, max: 900_000 }) }),
  fc.record({
    kind: fc.constant("zeros" as const),
    seed: fc.constant(0),
    length: fc.integer({ min: 1, max: 2 * MiB })
  }),
  fc.record({ kind: fc.constant("text" as const), seed: fc.nat(3), length: fc.integer({ min: 1, max: 900_000 }) })
)
const bytesOf = ({
  kind,
  seed,
  length
}: {
  kind: "random" | "zeros" | "text"
  seed: number
  length: number
}): Buffer =>
  kind === "random"
    ? seeded(seed, length)
    : kind === "zeros"
      ? Buffer.alloc(length)
      : Buffer.alloc(length, `line ${seed}\n`)

/** Where the chunk with this byte begins. */
const startOfChunk = (bytes: Buffer, place: number): number => {
  let start = 0
  for (let end = 0; end <= place && end < bytes.length; ) {
    start = end
    end = chunkEnd(bytes, start, bytes.length)
  }
  return start
}

describe("chunks", () => {
  it("L14 the gear table is fixed, and a run of zeros has no end before the longest chunk", () => {
    expect(sha256(Buffer.from(gear.buffer))).toBe(
      "sha256:b412888d109d1f0651207a22595a424daf133d6b9160aa1ebf1624812c511cad"
    )
    const zeros = Buffer.alloc(2 * maxChunk)
    expect(chunkEnd(zeros, 0, zeros.length)).toBe(maxChunk)
    // Also where the run begins right behind other bytes, at any distance from the first possible end.
    for (let before = 0; before <= 40; before += 1) {
      const mixed = Buffer.alloc(2 * maxChunk)
      mixed.set(seeded(before + 1, before), minChunk - 20)
      const end = chunkEnd(mixed, 0, mixed.length)
      expect(end === maxChunk || end < minChunk + 20 + 32).toBe(true)
    }
  })

  it("L14 chunks of random bytes keep their bounds and their average", () => {
    const bytes = seeded(7, 16 * MiB)
    const lengths: number[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = chunkEnd(bytes, at, bytes.length)
      lengths.push(end - at)
      at = end
    }
    expect(Math.min(...lengths.slice(0, -1))).toBeGreaterThanOrEqual(minChunk)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(maxChunk)
    const mean = bytes.length / lengths.length
    expect(mean).toBeGreaterThan(averageChunk * 0.8)
    expect(mean).toBeLessThan(averageChunk * 1.4)
  })

  it("L14 L15 W6 any sequence of splices gives the id of storing the final bytes at once, and they read back", async () => {
    const splice = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      del: fc.oneof(fc.constant(0), fc.nat(5000), fc.nat(1_500_000), fc.constant(maxChunk)),
      /** At a place where a run of zeros may begin or go on. */
      aligned: fc.boolean(),
      insert: fc.oneof(fc.constant(0), fc.nat(5000), fc.nat(700_000), fc.constant(maxChunk), fc.constant(3 * maxChunk)),
      seed: fc.nat(1e6),
      zeros: fc.boolean()
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { minLength: 1, maxLength: 6 }),
        fc.array(splice, { minLength: 1, maxLength: 5 }),
        async (pieces, splices) => {
          const objects = new MemoryObjects()
          let bytes: Buffer = Buffer.concat(pieces.map(bytesOf))
          let content = storeBytes(objects, bytes)
          for (const { at, del, insert, seed, zeros, aligned } of splices) {
            const place = Math.round(at * bytes.length)
            const offset = aligned ? startOfChunk(bytes, place) : place
            const deleteCount = Math.min(del, bytes.length - offset)
            const added = zeros ? Buffer.alloc(insert) : seeded(seed, insert)
            content = spliceContent(objects, content, { offset, deleteCount, bytes: added })
            bytes = edited(bytes, offset, deleteCount, added)
            const whole = storeBytes(new MemoryObjects(), bytes)
            expect(content).toEqual(whole)
          }
          expect(readContent(objects, content).equals(bytes)).toBe(true)
          expect(await contentDigestOf(objects, content, noDigests)).toBe(contentDigest(bytes))
          const middle = Math.floor(bytes.length / 3)
          expect(readRange(objects, content, middle, 5000).equals(bytes.subarray(middle, middle + 5000))).toBe(true)
          const holes = segmentsOf(objects, content)
          let at = 0
          for (const block of blocks(objects, content)) {
            const part = bytes.subarray(at, at + block.length)
            expect((block.bytes ?? Buffer.alloc(block.length)).equals(part)).toBe(true)
            at += block.length
          }
          expect(at).toBe(bytes.length)
          if (holes !== undefined) {
            const rebuilt = Buffer.alloc(bytes.length)
            const written = Buffer.concat([...segmentBytes(objects, content)])
            let done = 0
            for (const { offset, length } of holes) {
              written.copy(rebuilt, offset, done, done + length)
              done += length
              // What tar can have: only the last segment ends anywhere.
              if (offset + length < bytes.length) expect([offset % 512, length % 512]).toEqual([0, 0])
            }
            expect(done).toBe(written.length)
            expect(rebuilt.equals(bytes)).toBe(true)
          }
        }
      ),
      { numRuns: 40, verbose: 1, endOnFailure: true }
    )
  }, 120_000)

  it("L14 a list of thousands of chunks is the same by splices as at once, at its first and last bytes too", () => {
    const objects = new MemoryObjects()
    let bytes: Buffer = seeded(3, 24 * MiB)
    let content = storeBytes(objects, bytes)
    expect(new ChunkList(objects, content).topLevel).toBeGreaterThan(0)
    const places = [0, 1, 5 * MiB, 12 * MiB + 13, bytes.length - 1, bytes.length]
    for (const [n, offset] of places.entries()) {
      for (const [deleteCount, insert] of [
        [0, 4096],
        [4096, 4096],
        [4096, 0],
        [0, 10]
      ] as const) {
        const at = Math.min(offset, bytes.length)
        const gone = Math.min(deleteCount, bytes.length - at)
        const added = seeded(100 + n, insert)
        objects.forget()
        content = spliceContent(objects, content, { offset: at, deleteCount: gone, bytes: added })
        bytes = edited(bytes, at, gone, added)
        // What is written is a few chunks and the pages above them, each of which has a hint.
        expect(objects.bytesWritten()).toBeLessThan(4 * maxChunk)
        expect(objects.reads.length).toBeLessThan(40)
        for (const id of objects.written) expect(objects.objects.get(id)!.like).toBeDefined()
      }
    }
    expect(content).toEqual(storeBytes(new MemoryObjects(), bytes))
  }, 60_000)

  it("L14 the same bytes from a stream that was rewritten as a whole share what did not change, with hints for what did", () => {
    const objects = new MemoryObjects()
    const bytes = seeded(5, 8 * MiB)
    const before = storeBytes(objects, bytes)
    objects.forget()
    const after = storeBytes(objects, edited(bytes, 3 * MiB, 0, seeded(6, 100)), before)
    expect(objects.bytesWritten()).toBeLessThan(2 * maxChunk)
    for (const id of objects.written) expect(objects.objects.get(id)!.like).toBeDefined()
    expect(readContent(objects, after).length).toBe(8 * MiB + 100)
  })

  it("L15 C19 an empty file of 1 TiB is one page, and an edit in its middle leaves two holes", () => {
    const objects = new MemoryObjects()
    const size = 2 ** 40
    const hole = storeHole(objects, size)
    expect(objects.objects.size).toBe(1)
    expect(segmentsOf(objects, hole)).toEqual([])
    const middle = 2 ** 39 + 12_345
    const content = spliceContent(objects, hole, { offset: middle, deleteCount: 0, bytes: seeded(1, 100) })
    expect(objects.objects.size).toBeLessThan(6)
    const list = new ChunkList(objects, content)
    const entries = [...list.entriesFrom(0, 0)].map((found) => found.entry)
    expect(entries.filter(isHole).length).toBe(2)
    expect(
      readRange(objects, content, middle - 5, 110)
        .subarray(5, 105)
        .equals(seeded(1, 100))
    ).toBe(true)
    // Taken out again it is what it was.
    expect(spliceContent(objects, content, { offset: middle, deleteCount: 100, bytes: Buffer.alloc(0) })).toEqual(hole)
    // And zeros on top of zeros change nothing.
    expect(spliceContent(objects, hole, { offset: 77, deleteCount: 5000, bytes: Buffer.alloc(5000) })).toEqual(hole)
    // Read as zeros, a smaller one is the same content.
    expect(storeBytes(objects, Buffer.alloc(5 * MiB + 9))).toEqual(storeHole(objects, 5 * MiB + 9))
  })

  it("C21 a read of a range opens the chunks it touches and the pages above them", () => {
    const objects = new MemoryObjects()
    const bytes = seeded(9, 16 * MiB)
    const content = storeBytes(objects, bytes)
    const list = new ChunkList(objects, content)
    for (let n = 0; n < 60; n += 1) {
      const offset = (n * 7_919_993) % (bytes.length - 4096)
      objects.forget()
      expect(readRange(objects, content, offset, 4096).equals(bytes.subarray(offset, offset + 4096))).toBe(true)
      const touched = [...list.entriesFrom(0, offset)]
      const last = touched.findIndex(({ start, entry }) => start + entry.length >= offset + 4096)
      const chunks = touched.slice(0, last + 1).map(({ entry }) => entry.id)
      const opened = objects.reads.filter((id) => objects.objects.get(id)!.kind === "chunk")
      expect(opened).toEqual(chunks)
    }
    expect(readRange(objects, content, bytes.length - 3, 100).length).toBe(3)
    expect(readRange(objects, content, bytes.length + 3, 100).length).toBe(0)
  })

  it("L14 contents of format 1 are read and spliced: whole up to 4 MiB, above it a list of blocks", async () => {
    for (const size of [inlineLimit + 1, 3 * MiB, blockSize, blockSize + 1, 9 * MiB + 5]) {
      const objects = new MemoryObjects()
      const bytes = seeded(size, size)
      if (size > 2 * blockSize) bytes.fill(0, blockSize, 2 * blockSize)
      const ids: Digest[] = []
      for (let at = 0; at < size; at += blockSize) {
        const block = bytes.subarray(at, at + blockSize)
        if (block.every((byte) => byte === 0)) ids.push(zeroBlock)
        else ids.push(objects.write("blob", block))
      }
      const id = size <= blockSize ? ids[0]! : objects.write("list", Buffer.concat(ids.map(idToBytes)))
      const content: StoredContent = { id, size }
      expect(readContent(objects, content).equals(bytes)).toBe(true)
      expect(
        readRange(objects, content, size - 700_000, 600_000).equals(bytes.subarray(size - 700_000, size - 100_000))
      ).toBe(size > 700_000)
      expect(await contentDigestOf(objects, content, noDigests)).toBe(contentDigest(bytes))
      const visited: string[] = []
      visitContent(objects, content, (seen) => visited.push(seen) > 0)
      expect(new Set(visited)).toEqual(new Set([id, ...ids.filter((one) => one !== zeroBlock)]))
      const after = spliceContent(objects, content, { offset: 5, deleteCount: 1, bytes: Buffer.from("xy") })
      expect(after).toEqual(storeBytes(new MemoryObjects(), edited(bytes, 5, 1, Buffer.from("xy"))))
      if (size === 9 * MiB + 5) expect(segmentsOf(objects, content)!.length).toBe(2)
    }
    const hole: StoredContent = { id: zeroBlock, size: blockSize }
    const none = new MemoryObjects()
    expect(readContent(none, hole).equals(Buffer.alloc(blockSize))).toBe(true)
    expect(await contentDigestOf(none, hole, noDigests)).toBe(zeroBlock)
    visitContent(none, hole, () => expect.unreachable())
  })

  it("L10 every object of a content is visited, and what is lost is not looked into", () => {
    const objects = new MemoryObjects()
    const content = storeBytes(objects, seeded(4, 20 * MiB))
    const seen = new Set<string>()
    visitContent(objects, content, (id) => seen.add(id) !== undefined)
    expect(seen).toEqual(new Set(objects.objects.keys()))
    let count = 0
    visitContent(objects, content, () => ++count > 1)
    expect(count).toBe(1)
    expect(idOf(objects.read(content.id))).toBe(content.id)
  })
})
