/**
 * Compaction: packs that nobody writes to are written anew, smaller, beside the store's other work.
 * Promise: an object is always somewhere whole: its new bytes are durable before its row names them, and a pack's file goes
 * only after the last row has left it for good; a kill at any moment costs at most the step it fell into; at most the chosen
 * packs' bytes are needed once more; nothing that a row names is dropped. Rules: L8, L9, L10, L12; 04 "Storage".
 *
 * Two passes over the plan: first the newest version of every path, together in solid groups; then the older ones, each as what
 * differs from the next newer one. Such an object depends only on objects that were moved before it, so that no chain can
 * close into a ring, however often a compaction is broken off. Pieces of large files keep the bases that their commits gave them, and
 * get no others.
 */
import { rmSync } from "node:fs"
import { join } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import type { Database, Durability } from "../../src/sqlite/Database.ts"
import type { CompactReport, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { CompactPlan, type PlannedObject } from "./CompactPlan.ts"
import { chainBytes, costOf, deltaFrame, deltaOf, wholeFrame } from "./Frame.ts"
import { frameGroup } from "./Group.ts"
import { idToBytes } from "../../src/base/DigestBytes.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import { storeReader } from "./StoreReader.ts"
import { isWorthIt, smallestDelta } from "./PackedObjects.ts"
import { PackAppender, packName, sealAt } from "./PackFile.ts"

/** zstd's level, bytes of a group and deltas in a row: the spikes of 04 "Storage" met packed git with these. */
const level = 12
const groupBytes = 2 * 1024 * 1024
const depthBound = 50
/** Rows that one transaction moves: a few milliseconds, so that a commit hardly waits (bar: 20 ms). */
const rowsAtOnce = 200

export interface CompactContext {
  readonly db: Database
  readonly packs: string
  /** Names this compaction as the packs' writer. */
  readonly writer: string
  readonly durability: Durability
  /** Stop before the first step that begins after this many milliseconds, or after this many bytes of objects were written. */
  readonly maxMs: number | null
  readonly maxBytes: number | null
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

/** `packs.compacted`: written by commits or an import, by a compaction, or left over from one that was broken off. */
const packState = { written: 0, compacted: 1, begun: 2 } as const

interface Unit {
  readonly sources: readonly number[]
  readonly target: number
}

const packsOf = (db: Database): { packs: number; bytes: number } => {
  const row = db.get("SELECT count(*) AS packs, coalesce(sum(length), 0) AS bytes FROM packs WHERE length > 0")
  return { packs: Number(row?.["packs"]), bytes: Number(row?.["bytes"]) }
}

/** Rewrites what is worth it, unit after unit. Rejects with `Busy`, `StorageFailure`, `FileSystemFailure`. */
export const compactStore = async (context: CompactContext): Promise<CompactReport> => {
  const { db } = context
  const before = packsOf(db)
  const started = performance.now()
  let bytes = 0
  let objects = 0
  let left = 0
  const isOver = (): boolean =>
    context.cancelled() ||
    (context.maxMs !== null && performance.now() - started >= context.maxMs) ||
    (context.maxBytes !== null && bytes >= context.maxBytes)
  let isComplete = true
  while (isComplete) {
    const unit = await claim(context)
    if (unit === undefined) break
    const run = new UnitRun(context, unit, isOver, (moved, length) => {
      objects += moved
      bytes += length
    })
    isComplete = await run.toEnd()
    left += run.unreadable
  }
  const after = packsOf(db)
  return {
    complete: isComplete,
    objects,
    unreadable: left,
    packsBefore: before.packs,
    packsAfter: after.packs,
    bytesBefore: before.bytes,
    bytesAfter: after.bytes,
    durability: context.durability
  }
}

/**
 * Takes packs without a writer: those that commits and imports wrote, up to one full pack together, and with them what earlier
 * compactions wrote as long as it is not much more: so a byte is written again a logarithmic number of times. What was broken off
 * is ended first, by itself.
 */
const claim = ({ db, writer }: CompactContext): Promise<Unit | undefined> =>
  db.transactWithRetry(() => {
    // What was handed over to it is free for it, and what it does not choose for everybody.
    db.run("UPDATE packs SET writer = NULL WHERE writer = ?", writer)
    const free = db
      .all("SELECT id, length, compacted FROM packs WHERE writer IS NULL AND length > 0 ORDER BY length")
      .map((row) => ({ id: Number(row["id"]), length: Number(row["length"]), state: Number(row["compacted"]) }))
    const sources: number[] = []
    let total = 0
    const begun = free.filter((one) => one.state === packState.begun)
    for (const pack of begun.length > 0 ? begun : free.filter((one) => one.state === packState.written)) {
      if (sources.length > 0 && total + pack.length > sealAt) continue
      sources.push(pack.id)
      total += pack.length
    }
    if (sources.length === 0) return undefined
    for (const pack of begun.length > 0 ? [] : free.filter((one) => one.state === packState.compacted)) {
      if (total + pack.length > sealAt || pack.length > 2 * total) continue
      sources.push(pack.id)
      total += pack.length
    }
    for (const id of sources) db.run("UPDATE packs SET writer = ? WHERE id = ?", writer, id)
    // Always a new one: its number is above every other, so that no number of a dropped pack is ever given again.
    const made = db.get(
      "INSERT INTO packs (length, writer, compacted) VALUES (0, ?, ?) RETURNING id",
      writer,
      packState.compacted
    )
    return { sources, target: Number(made!["id"]) }
  })

interface Placed {
  readonly object: PlannedObject
  readonly bytes: Buffer
}

/** What the next older version of a line may be built on. */
interface Newer {
  readonly line: string
  readonly version: number
  readonly id: Digest
  readonly depth: number
  readonly cost: number
  readonly raw: Buffer | undefined
  /** Where its frame begins in the group that is open. */
  readonly at: number | undefined
}

class UnitRun {
  readonly #context: CompactContext
  readonly #unit: Unit
  readonly #isOver: () => boolean
  readonly #onMoved: (objects: number, bytes: number) => void
  readonly #plan = new CompactPlan()
  readonly #reader: ObjectReader
  #open: Placed[] = []
  #openBytes = 0
  #raw = 0
  #done = 0
  #doneBytes = 0
  unreadable = 0

  constructor(context: CompactContext, unit: Unit, isOver: () => boolean, onMoved: (n: number, bytes: number) => void) {
    this.#context = context
    this.#unit = unit
    this.#isOver = isOver
    this.#onMoved = onMoved
    this.#reader = storeReader(context.db, context.packs)
  }

  /** False when it stopped before its end: what is done stands. */
  async toEnd(): Promise<boolean> {
    const { db, packs, cancelled } = this.#context
    const target = new PackAppender(packs, this.#unit.target, 0)
    let isComplete = false
    try {
      crashPoint("layerfs.compact.claimed")
      this.#plan.collect(db, this.#unit.sources)
      this.#plan.findPaths(db, this.#reader, cancelled)
      isComplete = !this.#isOver() && (await this.#heads(target)) && (await this.#olders(target))
    } finally {
      target.rewind()
      target.close()
      this.#reader.close()
      try {
        await this.#end(isComplete)
      } finally {
        this.#plan.close()
      }
    }
    return isComplete
  }

  #isSolid({ kind, isHead, length }: PlannedObject): boolean {
    return kind !== "chunk" && (isHead || length < smallestDelta)
  }

  #read(object: PlannedObject): Buffer | undefined {
    try {
      return this.#reader.read(object.id)
    } catch (error) {
      if ((error as { _tag?: string })._tag !== "ObjectDamaged") throw error
      // It stays where it is, for verify to name, and so does its pack.
      this.unreadable += 1
      return undefined
    }
  }

  async #heads(target: PackAppender): Promise<boolean> {
    for (const object of this.#plan.objects()) {
      if (!this.#isSolid(object)) continue
      const raw = this.#read(object)
      if (raw === undefined) continue
      if (this.#openBytes > 0 && this.#openBytes + raw.length > groupBytes && !(await this.#seal(target, false)))
        return false
      this.#open.push({ object, bytes: raw })
      this.#openBytes += raw.length
      this.#raw += raw.length
    }
    return this.#seal(target, false)
  }

  async #olders(target: PackAppender): Promise<boolean> {
    let newer: Newer | undefined
    for (const object of this.#plan.objects()) {
      const { id, line, version } = object
      if (this.#isSolid(object)) {
        if (object.length >= smallestDelta)
          newer = { line, version, id, depth: 0, cost: object.length, raw: undefined, at: undefined }
        continue
      }
      const raw = this.#read(object)
      if (raw === undefined) continue
      const frame = (object.kind === "chunk"
        ? this.#asCommitted(id)
        : newer?.line === line && newer.version !== version
          ? this.#delta(object, raw, newer)
          : undefined) ?? {
        bytes: wholeFrame(raw, level),
        depth: 0,
        cost: costOf(raw.length, false)
      }
      newer = { line, version, id, depth: frame.depth, cost: frame.cost, raw, at: this.#openBytes }
      this.#open.push({ object, bytes: frame.bytes })
      this.#openBytes += frame.bytes.length
      this.#raw += raw.length
      if (this.#openBytes < groupBytes / 4 && this.#raw < groupBytes * 4) continue
      if (!(await this.#seal(target, true))) return false
      newer = { ...newer, at: undefined }
    }
    return this.#seal(target, true)
  }

  /**
   * A piece of a large file that a commit built on the pieces it came from stays built on them: pieces move in their file, so that no
   * order of paths and versions brings like to like, and what a splice stored would become whole again.
   */
  #asCommitted(id: Digest): { bytes: Buffer; depth: number; cost: number } | undefined {
    const bytes = this.#reader.deltaFrameOf(id)
    // Nothing is built on it here: its depth and cost are those that the commit allowed.
    return bytes === undefined ? undefined : { bytes, depth: 0, cost: 0 }
  }

  /** The older version as what differs from the newer; undefined where that saves too little or costs readers too much. */
  #delta(
    { kind }: PlannedObject,
    raw: Buffer,
    newer: Newer
  ): { bytes: Buffer; depth: number; cost: number } | undefined {
    if (raw.length < smallestDelta || newer.depth >= depthBound || newer.cost > chainBytes) return undefined
    let base: Buffer
    try {
      base = newer.raw ?? this.#reader.read(newer.id)
    } catch (error) {
      if ((error as { _tag?: string })._tag !== "ObjectDamaged") throw error
      return undefined
    }
    const delta = deltaOf(kind, raw, base, level)
    if (delta === undefined) return undefined
    const cost = newer.cost + costOf(raw.length, delta.isPatch)
    if (cost > chainBytes) return undefined
    const back = newer.at === undefined ? undefined : this.#openBytes - newer.at
    const bytes = deltaFrame(raw.length, back === undefined ? { ids: [newer.id] } : { back }, delta)
    return isWorthIt(kind, bytes, raw) ? { bytes, depth: newer.depth + 1, cost } : undefined
  }

  /** One step: bytes, flush, then the rows in small transactions, in the order of the chain. False when it is time to stop. */
  async #seal(target: PackAppender, framed: boolean): Promise<boolean> {
    const open = this.#open
    if (open.length === 0) return true
    const { db } = this.#context
    const parts = open.map((one) => one.bytes)
    const bytes = framed ? Buffer.concat(parts) : frameGroup(parts, this.#openBytes, level)
    const offset = target.append(bytes)
    crashPoint("layerfs.compact.written")
    target.sync()
    crashPoint("layerfs.compact.synced")
    let group: number | undefined
    let at = 0
    for (let from = 0; from < open.length; from += rowsAtOnce) {
      const rows = open.slice(from, from + rowsAtOnce)
      const begin = at
      await db.transactWithRetry(() => {
        at = begin
        group ??= Number(
          db.get(
            "INSERT INTO groups (pack, offset, length, framed) VALUES (?, ?, ?, ?) RETURNING id",
            target.id,
            offset,
            bytes.length,
            framed ? 1 : 0
          )!["id"]
        )
        for (const { object, bytes: part } of rows) {
          db.run(
            "UPDATE objects SET grp = ?, offset = ? WHERE id = ? AND grp = ?",
            group,
            at,
            idToBytes(object.id),
            object.group
          )
          at += part.length
        }
        db.run("UPDATE packs SET length = ? WHERE id = ?", target.position, target.id)
        faultPoint("layerfs.compact.commit")
      })
      // From the first row on the bytes count, whatever comes of the others.
      target.committed()
      await this.#leave(rows)
      crashPoint("layerfs.compact.moved")
    }
    this.#reader.closeRemoved()
    this.#done += open.length
    this.#doneBytes += this.#raw
    this.#onMoved(open.length, this.#raw)
    this.#open = []
    this.#openBytes = 0
    this.#raw = 0
    this.#context.progress({ phase: "compact", files: this.#done, bytes: this.#doneBytes, ...this.#plan.totals() })
    return !this.#isOver()
  }

  /** Groups that the rows were the last of are not read any more. */
  async #leave(rows: readonly Placed[]): Promise<void> {
    const { db } = this.#context
    const empty = rows.flatMap(({ object }) => {
      const group = this.#plan.moved(object.group)
      return group === undefined ? [] : [{ id: object.group, ...group }]
    })
    if (empty.length === 0) return
    await db.transactWithRetry(() => {
      for (const { id, pack, length } of empty) {
        db.run("DELETE FROM groups WHERE id = ?", id)
        db.run("UPDATE packs SET freed = freed + ? WHERE id = ?", length, pack)
      }
    })
  }

  /** Gives back what is left of the sources, and drops those that hold nothing any more, durably, before their files go. */
  async #end(isComplete: boolean): Promise<void> {
    const { db, packs, durability } = this.#context
    const { sources, target } = this.#unit
    if (durability !== "disposable") db.raw.exec("PRAGMA synchronous = FULL")
    const dropped: number[] = []
    // The file first: as long as the row stands, nobody else makes one of that name.
    const isUnused = Number(db.get("SELECT length FROM packs WHERE id = ?", target)?.["length"]) === 0
    if (isUnused) rmSync(join(packs, packName(target)), { force: true })
    await db.transactWithRetry(() => {
      dropped.length = 0
      for (const id of sources) {
        for (const group of this.#plan.unused()) db.run("DELETE FROM groups WHERE id = ? AND pack = ?", group, id)
        const isEmpty = db.get("SELECT 1 FROM groups WHERE pack = ? LIMIT 1", id) === undefined
        if (isEmpty) {
          db.run("DELETE FROM packs WHERE id = ?", id)
          dropped.push(id)
        } else {
          // What is left after all cannot be read: no further compaction is to try it again and again.
          const state = isComplete ? packState.compacted : packState.begun
          db.run("UPDATE packs SET writer = NULL, compacted = ? WHERE id = ?", state, id)
        }
      }
      if (isUnused) db.run("DELETE FROM packs WHERE id = ?", target)
      else db.run("UPDATE packs SET writer = NULL WHERE id = ?", target)
      crashPoint("layerfs.compact.dropping")
    })
    crashPoint("layerfs.compact.dropped")
    for (const id of dropped) rmSync(join(packs, packName(id)), { force: true })
  }
}
