/** Verify reads whole groups and frames where readers read objects: both must come to the same verdict. Rules: L10, L12. */
import { closeSync, mkdirSync, openSync, readSync, renameSync, truncateSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { Digest } from "../../src/base/Digest.ts"
import { defineRowSum } from "../../src/workspace/kit/RowSums.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { storeReader } from "../../providers/layerfs/StoreReader.ts"
import { idFromBytes } from "../../src/base/DigestBytes.ts"
import { packName } from "../../providers/layerfs/PackFile.ts"
import { LayerRefs } from "../../providers/layerfs/LayerRefs.ts"
import { verifyStore } from "../../providers/layerfs/Verify.ts"
import type { StoreDirectories } from "../../providers/layerfs/LayerDirectories.ts"
import { put, spliceOf } from "./storeChange.ts"
import { apply, commitInto, importInto, open, scratch } from "./storeFixture.ts"

const noise = (seed: number, length: number): Buffer => {
  let state = seed
  return Buffer.alloc(length).map(() => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) >>> 24) as Buffer
}

/** A store with every kind of object, in solid groups and in frames of every kind; closed. */
const made = async (): Promise<StoreDirectories> => {
  const source = scratch()
  mkdirSync(join(source, "many"))
  for (let n = 0; n < 1500; n += 1) writeFileSync(join(source, "many", `file-${n}`), "")
  for (let n = 0; n < 20; n += 1) writeFileSync(join(source, `text-${n}`), `line of ${n}\n`.repeat(200 + n))
  writeFileSync(join(source, "noise"), noise(1, 100_000))
  writeFileSync(join(source, "large"), Buffer.concat([noise(2, 600_000), Buffer.alloc(300_000, "text that repeats ")]))
  writeFileSync(join(source, "splices"), noise(3, 2_097_152))
  const store = await open(join(scratch(), "s"))
  const { layer } = await importInto(store, source)
  const { id: branch } = await store.call("fork", { from: layer, name: "b" })
  for (let n = 0; n < 3; n += 1) {
    await commitInto(store, branch, [put("text-1", `edit ${n}\n${"line of 1\n".repeat(300)}`), put(`new-${n}`, "new")])
    await apply(store, branch, [{ op: "splice", path: "splices", ...spliceOf(n) }])
  }
  await store.close()
  return store.directories
}

interface Damage {
  readonly verify: readonly Digest[]
  readonly reader: readonly Digest[]
}

/** The objects that verify names, and those that nobody can read. */
const damageOf = ({ index, packs }: StoreDirectories): Damage => {
  const db = Database.open(index)
  defineRowSum(db)
  const reader = storeReader(db, packs)
  try {
    const refs = new LayerRefs(db, { store: null, project: null })
    const report = verifyStore({ refs, reader, db, packs, progress: () => undefined })
    const damaged = report.damaged.map((one) => one.object as Digest).sort()
    expect(report.ok).toBe(damaged.length === 0)
    reader.forget()
    const ids = db.all("SELECT id FROM objects").map((row) => idFromBytes(row["id"] as Uint8Array))
    expect(report.objects).toBe(ids.length)
    const isRead = (id: Digest): boolean => {
      try {
        return reader.read(id).length >= 0
      } catch {
        return false
      }
    }
    return { verify: damaged, reader: ids.filter((id) => !isRead(id)).sort() }
  } finally {
    reader.close()
    db.close()
  }
}

/** Runs with one byte of a file inverted. */
const flipped = <A>(path: string, at: number, run: () => A): A => {
  const fd = openSync(path, "r+")
  const flip = (): void => {
    const byte = Buffer.alloc(1)
    readSync(fd, byte, 0, 1, at)
    byte[0]! ^= 0xff
    writeSync(fd, byte, 0, 1, at)
  }
  try {
    flip()
    return run()
  } finally {
    flip()
    closeSync(fd)
  }
}

interface Located {
  readonly id: Digest
  readonly pack: string
  readonly begin: number
  readonly end: number
  readonly isFramed: boolean
}

/** Where the bytes of each object lie: its own frame, or the group that it shares. */
const located = ({ index, packs }: StoreDirectories): readonly Located[] => {
  const db = Database.open(index, { readOnly: true })
  const rows = db.all(
    `SELECT o.id, g.pack, g.framed, CASE g.framed WHEN 1 THEN g.offset + o.offset ELSE g.offset END AS begin,
       CASE g.framed WHEN 1 THEN coalesce(lead(g.offset + o.offset) OVER (PARTITION BY g.id ORDER BY o.offset), g.offset + g.length)
         ELSE g.offset + g.length END AS "end"
     FROM objects o JOIN groups g ON g.id = o.grp ORDER BY g.pack, begin`
  )
  db.close()
  return rows.map((row) => ({
    id: idFromBytes(row["id"] as Uint8Array),
    pack: join(packs, packName(Number(row["pack"]))),
    begin: Number(row["begin"]),
    end: Number(row["end"]),
    isFramed: row["framed"] === 1
  }))
}

describe("verify", () => {
  it("L10 whichever object's bytes are damaged, verify names it, and exactly what no reader can have", async () => {
    const directories = await made()
    expect(damageOf(directories)).toEqual({ verify: [], reader: [] })
    const objects = located(directories)
    const framed = objects.filter((one) => one.isFramed)
    const solid = objects.filter((one) => !one.isFramed)
    expect([framed.length > 30, solid.length > 20]).toEqual([true, true])
    for (const { id, pack, begin, end } of framed) {
      const { verify, reader } = flipped(pack, Math.floor((begin + end) / 2), () => damageOf(directories))
      expect(verify, id).toEqual(reader)
      expect(verify, id).toContain(id)
    }
    const groups = new Map(solid.map((one) => [`${one.pack}:${one.begin}`, one]))
    for (const { pack, begin, end } of groups.values()) {
      const mine = new Set(solid.filter((one) => one.pack === pack && one.begin === begin).map((one) => one.id))
      for (const share of [0, 0.01, 0.3, 0.5, 0.7, 0.99]) {
        const at = begin + Math.floor((end - begin) * share)
        const { verify, reader } = flipped(pack, at, () => damageOf(directories))
        expect(verify, `byte ${at}`).toEqual(reader)
        expect(
          verify.some((id) => mine.has(id)),
          `byte ${at}`
        ).toBe(true)
      }
    }
  })

  it("L10 a pack that is shorter, that is lost, or that begins like another file is damage of what lies there, and of nothing else", async () => {
    const directories = await made()
    const objects = located(directories)
    const { pack } = objects[0]!
    const mine = objects.filter((one) => one.pack === pack)
    const gone = flipped(pack, 0, () => damageOf(directories))
    expect(gone.verify).toEqual(gone.reader)
    for (const one of mine) expect(gone.verify).toContain(one.id)
    renameSync(pack, `${pack}.away`)
    expect(damageOf(directories)).toEqual(gone)
    renameSync(`${pack}.away`, pack)
    const last = mine.at(-1)!
    truncateSync(pack, last.end - 1)
    const cut = damageOf(directories)
    expect(cut.verify).toEqual(cut.reader)
    expect(cut.verify).toContain(last.id)
    expect(cut.verify.length).toBeLessThan(gone.verify.length)
  })
})
