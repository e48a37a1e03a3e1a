/**
 * The object store by itself: deltas, frames, what reading costs, and what damage reaches.
 * Rules: L8, L10, C21; 04 "Storage".
 */
import * as fc from "fast-check"
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { chainDepth } from "../../providers/layerfs/Frame.ts"
import { openIndex } from "../../providers/layerfs/IndexSchema.ts"
import { idOf } from "../../src/base/DigestBytes.ts"
import type { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { storeReader } from "../../providers/layerfs/StoreReader.ts"
import { insertObjects, ObjectWriter } from "../../providers/layerfs/PackedObjects.ts"
import { acquirePack, packName } from "../../providers/layerfs/PackFile.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { seededRandom } from "../seededRandom.ts"
import { seeded } from "./contentMemory.ts"

/** An index, one pack with its writer, and readers that begin with nothing in memory. */
const ground = async () => {
  const directory = scratch()
  const packs = join(directory, "packs")
  mkdirSync(packs)
  const db = await openIndex(join(directory, "index.db"), "disposable", () => "sto_test")
  atEnd(() => db.close())
  const pack = await acquirePack(db, packs, "{}")
  const reader = storeReader(db, packs)
  const writer = new ObjectWriter(reader, pack)
  const commit = (): void => {
    const packed = writer.flush()
    db.transact(() => insertObjects(db, packed, writer.packLengths()))
    writer.committed()
  }
  const fresh = (): ObjectReader => {
    const made = storeReader(db, packs)
    atEnd(() => made.close())
    return made
  }
  atEnd(() => {
    reader.close()
    pack.close()
  })
  return { db, file: join(packs, packName(pack.id)), writer, commit, fresh }
}

const noise = (random: (below: number) => number, length: number): Buffer =>
  Buffer.from(Array.from({ length }, () => random(256)))

const code = (error: () => unknown): unknown => {
  try {
    return error()
  } catch (thrown) {
    return (thrown as { _tag?: string })._tag
  }
}

describe("deltas", () => {
  it("L10 a hundred versions of a file, each like the one before: every one is read back, the chains stay short, and each costs its edit", async () => {
    const seed = seedOf()
    const random = seededRandom(seed)
    const { writer, commit, fresh, file } = await ground()
    const versions: Buffer[] = [noise(random, 20_000)]
    for (let n = 1; n < 100; n += 1) {
      const next = Buffer.from(versions.at(-1)!)
      next.set(noise(random, 40), random(19_000))
      versions.push(next)
    }
    let like: Digest | undefined
    for (const version of versions) {
      like = writer.write("blob", version, like)
      // Before and after it is durable.
      expect(writer.read(like).equals(version)).toBe(true)
      commit()
    }
    const reader = fresh()
    let deepest = 0
    for (const [n, version] of versions.entries()) {
      const read = reader.readCosted(idOf(version), (id) => reader.place(id))
      expect(read.raw.equals(version), `version ${n}, seed ${seed}`).toBe(true)
      deepest = Math.max(deepest, read.depth)
    }
    expect(deepest).toBe(chainDepth)
    // Four versions are whole: the first, and one after each full chain.
    const bytes = statSync(file).size
    expect(bytes).toBeLessThan(4 * 20_100 + 96 * 150)
  })

  it("L10 C21 an object of several bases is read back, counts what all of them cost, and one lost base damages it and no other", async () => {
    const random = seededRandom(seedOf())
    const { writer, commit, fresh, file, db } = await ground()
    const [a, b] = [noise(random, 40_000), noise(random, 30_000)]
    const ids = [writer.write("chunk", a), writer.write("chunk", b)]
    const both = Buffer.concat([a.subarray(0, 39_000), noise(random, 100), b])
    const before = statSync(file).size
    commit()
    const third = writer.write("chunk", both, ids)
    commit()
    const fourth = writer.write("chunk", Buffer.concat([both, both.subarray(0, 500)]), [third, ids[0]!])
    commit()
    expect(statSync(file).size - before).toBeLessThan(70_000 + 2000)
    const read = fresh()
    expect(read.readCosted(third, (id) => read.place(id))).toMatchObject({
      depth: 1,
      cost: 70_000 + (both.length >> 3)
    })
    expect(idOf(read.read(fourth))).toBe(fourth)
    const lost = db.get(
      "SELECT g.offset + o.offset AS at FROM objects o JOIN groups g ON g.id = o.grp WHERE o.length = 30000"
    )
    const bytes = readFileSync(file)
    bytes[Number(lost!["at"]) + 100]! ^= 1
    writeFileSync(file, bytes)
    const damaged = fresh()
    expect([...ids, third, fourth].map((id) => code(() => damaged.read(id)))).toEqual([
      a,
      "ObjectDamaged",
      "ObjectDamaged",
      "ObjectDamaged"
    ])
  })

  it("L10 C21 objects of several bases, each built on several again, are read by whoever knows nothing of them", async () => {
    const { writer, commit, fresh } = await ground()
    const edited = (bytes: Buffer, n: number): Buffer => {
      const next = Buffer.from(bytes)
      next.writeUInt32LE(n, 1040)
      next.writeUInt32LE(n, 1052)
      return next
    }
    let count = 0
    const write = (bytes: Buffer, like?: Digest | readonly Digest[]) => {
      const made = edited(bytes, (count += 1))
      return { id: writer.write("chunk", made, like), bytes: made }
    }
    // 256 chains of twenty edits, then two become one until it is one.
    let level = Array.from({ length: 256 }, (_, n) => {
      let one = write(seeded(n, 2100))
      for (let edit = 0; edit < 20; edit += 1) one = write(one.bytes, one.id)
      return one
    })
    commit()
    const joined: Digest[] = []
    while (level.length > 1) {
      level = level.flatMap((a, n) => {
        const b = level[n + 1]
        if (n % 2 === 1 || b === undefined) return []
        return [write(Buffer.concat([a.bytes.subarray(0, 1050), b.bytes.subarray(1050)]), [a.id, b.id])]
      })
      joined.push(...level.map(({ id }) => id))
    }
    commit()
    const unread = joined.filter((id) => code(() => void fresh().read(id)) !== undefined)
    expect(unread).toEqual([])
  })

  it("L3 L10 what is kept of a small object that was read is its own bytes, not the group that it lay in", async () => {
    const { writer, commit, fresh } = await ground()
    const random = seededRandom(seedOf())
    const small = Array.from({ length: 50 }, () => writer.write("tree", noise(random, 600)))
    writer.write("blob", noise(random, 500_000))
    commit()
    const reader = fresh()
    for (const id of [...small, ...small]) {
      const read = reader.read(id)
      expect(idOf(read)).toBe(id)
      expect(read.buffer.byteLength).toBe(600)
    }
  })

  it("L10 L12 an object that a compaction moves while one look at the index goes on is found where it lies now", async () => {
    const { writer, commit, fresh, db, file } = await ground()
    const id = writer.write("chunk", noise(seededRandom(seedOf()), 5000))
    commit()
    const reader = fresh()
    reader.reading(() => {
      expect(reader.has(id)).toBe(true)
      // Beside it the pack gets another number: the one that the look knows is gone.
      const beside = new DatabaseSync(join(file, "../../index.db"))
      beside.exec(
        "PRAGMA foreign_keys = OFF; INSERT INTO packs (id, length) VALUES (77, 6000); UPDATE groups SET pack = 77"
      )
      beside.close()
      renameSync(file, join(file, "..", packName(77)))
      expect(db.get("SELECT pack FROM groups")).toEqual({ pack: 1 })
      expect(idOf(reader.read(id))).toBe(id)
    })
  })

  it("L10 C21 a ring of bases, which only malice can make, ends as damage", async () => {
    const { writer, commit, fresh, db } = await ground()
    const random = seededRandom(seedOf())
    const [a, b] = [noise(random, 4000), noise(random, 4000)]
    const ids = [writer.write("chunk", a), writer.write("chunk", b)]
    commit()
    const joined = writer.write("chunk", Buffer.concat([a, b]), ids)
    commit()
    // Both bases now lie where the object that needs them lies.
    db.run(
      "UPDATE objects SET (grp, offset) = (SELECT grp, offset FROM objects WHERE length = 8000) WHERE length = 4000"
    )
    expect(code(() => fresh().read(joined))).toBe("ObjectDamaged")
  })

  it("L10 L14 whatever the hint is, an object comes back as it was written", async () => {
    const { writer, commit, fresh } = await ground()
    const content = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.string({ maxLength: 2000 }).map((text) => Buffer.from(text.repeat(20))),
      fc.tuple(fc.integer({ min: 0, max: 600_000 }), fc.nat(255)).map(([length, byte]) => Buffer.alloc(length, byte))
    )
    const written: Digest[] = []
    fc.assert(
      fc.property(fc.array(fc.tuple(content, fc.nat()), { minLength: 1, maxLength: 8 }), (objects) => {
        for (const [bytes, pick] of objects) {
          const id = writer.write(
            pick % 5 === 0 ? "chunk" : "blob",
            Buffer.from(bytes),
            written[pick % (written.length + 1)]
          )
          written.push(id)
          expect(writer.read(id).equals(bytes)).toBe(true)
          expect(writer.size(id)).toBe(bytes.length)
        }
        if (objects.length % 2 === 0) commit()
      }),
      { numRuns: 60 }
    )
    commit()
    const reader = fresh()
    for (const id of written) expect(idOf(reader.read(id))).toBe(id)
  })

  it("L8 what was given up is written over, and nothing of it is read for the objects after it", async () => {
    const random = seededRandom(seedOf())
    const { writer, commit, fresh } = await ground()
    const base = noise(random, 5000)
    writer.write("blob", base)
    commit()
    for (let n = 0; n < 5; n += 1) {
      const [lost, kept] = [noise(random, 3000), noise(random, 3000)]
      const gone = writer.write("chunk", Buffer.concat([base, lost]), idOf(base))
      writer.flush()
      expect(writer.read(gone).length).toBe(8000)
      writer.abandon()
      expect(writer.has(gone)).toBe(false)
      const id = writer.write("chunk", Buffer.concat([base, kept]), idOf(base))
      commit()
      expect(writer.read(id).subarray(5000).equals(kept)).toBe(true)
      expect(fresh().read(id).subarray(5000).equals(kept)).toBe(true)
    }
  })

  it("L10 whatever byte of a pack is damaged, an object is right or refused, and what depends on a damaged base is refused", async () => {
    const random = seededRandom(seedOf())
    const { writer, commit, fresh, file } = await ground()
    const ids: Digest[] = []
    let bytes = noise(random, 600)
    let like: Digest | undefined
    for (let n = 0; n < 5; n += 1) {
      like = writer.write("chunk", bytes, like)
      ids.push(like)
      bytes = Buffer.concat([bytes, noise(random, 20)])
    }
    commit()
    const whole = readFileSync(file)
    let refused = 0
    let tried = 0
    for (let at = 16; at < whole.length; at += 1 + random(9)) {
      tried += 1
      const torn = Buffer.from(whole)
      torn[at] = torn[at]! ^ (1 << random(8))
      writeFileSync(file, torn)
      const reader = fresh()
      const answers = ids.map((id) => code(() => idOf(reader.read(id)) === id))
      for (const answer of answers) expect([true, "ObjectDamaged"]).toContain(answer)
      // The frames lie in the order of the chain: from the damaged one on nothing can be had.
      const first = answers.indexOf("ObjectDamaged")
      if (first >= 0) refused += 1
      expect(answers.slice(0, first < 0 ? undefined : first).every((answer) => answer === true)).toBe(true)
      if (first >= 0) expect(new Set(answers.slice(first)), `byte ${at}`).toEqual(new Set(["ObjectDamaged"]))
      reader.close()
    }
    expect(refused).toBeGreaterThan(tried * 0.95)
  })
})

it("C21 random reads of a large file decode the chunks that they touch and nothing beside them", async () => {
  const random = seededRandom(seedOf())
  const { writer, commit, fresh } = await ground()
  const chunks = Array.from({ length: 200 }, () =>
    Buffer.from(
      noise(random, 500)
        .toString("hex")
        .repeat(16 + random(48))
    )
  )
  for (const chunk of chunks) writer.write("chunk", chunk)
  commit()
  const reader = fresh()
  let touched = 0
  for (let n = 0; n < 30; n += 1) {
    const chunk = chunks[random(chunks.length)]!
    touched += chunk.length
    expect(reader.read(idOf(chunk)).equals(chunk)).toBe(true)
  }
  expect(reader.decodedBytes).toBeLessThanOrEqual(touched)
})
