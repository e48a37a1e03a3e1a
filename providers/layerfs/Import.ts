/**
 * Import of a directory: walk, read and compress in two extra threads, one pack, one transaction.
 * Promise: the source is never changed; a target inside the source, or the reverse, is refused before anything is read; an
 * import that fails or is cancelled leaves no trace in the index; everything left out is listed. Rules: W13, W14, L14, L15.
 */
import { realpathSync, statSync } from "node:fs"
import { Worker } from "node:worker_threads"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Durability } from "../../src/sqlite/Database.ts"
import { ImportRefused } from "../../src/workspace/WorkspaceError.ts"
import type { ImportReceipt, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { groupTarget } from "./Group.ts"
import { commitImport } from "./ImportCommit.ts"
import { ImportNotes } from "./ImportNotes.ts"
import type { Batch, FramedObject, ReaderMessage, ReaderSetup, ReadOutcome } from "./ImportReader.ts"
import { scan, type Scan, type ScannedDirectory, type ScannedFile } from "./ImportScan.ts"
import { zeroBlock } from "./ObjectId.ts"
import type { ObjectWriter } from "./PackedObjects.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"
import type { ImportInput } from "./StoreCalls.ts"
import { workerUrl } from "./WorkerUrl.ts"

export interface ImportContext {
  readonly refs: SqliteRefs
  readonly objects: ObjectWriter
  readonly index: string
  /** Real path of the store's own directory. */
  readonly storeRoot: string
  readonly durability: Durability
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

const refusals: Readonly<Record<ImportRefused["reason"], readonly [string, string]>> = {
  notFound: ["The directory to import does not exist.", "Give the path of an existing directory."],
  notADirectory: ["What is to be imported is not a directory.", "Give the path of a directory."],
  storeInside: ["The store lies inside the directory to import.", "Put the store outside of every imported directory."],
  insideStore: ["The directory to import lies inside the store.", "Import a directory outside of the store."],
  unreadable: ["The directory to import cannot be read.", "Give this user read and search permission on it."],
  changing: ["The directory to import keeps changing.", "Stop what writes to it, then import again."],
  cancelled: ["The import was cancelled.", "Nothing was stored. Import again when wanted."]
}

const refuse = (reason: ImportRefused["reason"], path: TreePath): ImportRefused =>
  new ImportRefused({ message: refusals[reason][0], remedy: refusals[reason][1], reason, path: show(path).path })

const isInside = (inner: string, outer: string): boolean =>
  inner === outer || inner.startsWith(outer === "/" ? "/" : `${outer}/`)

/** The real path of the source, after all checks. Throws `ImportRefused`. */
const checkSource = (source: TreePath, storeRoot: string): TreePath => {
  let real: TreePath
  try {
    const bytes = Buffer.from(source, "latin1")
    if (!statSync(bytes).isDirectory()) throw refuse("notADirectory", source)
    real = realpathSync(bytes, { encoding: "latin1" })
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === "ENOENT") throw refuse("notFound", source)
    if (code === "ENOTDIR") throw refuse("notADirectory", source)
    if (code === "EACCES") throw refuse("unreadable", source)
    throw error
  }
  const store = Buffer.from(storeRoot, "utf8").toString("latin1")
  if (isInside(real, store)) throw refuse("insideStore", source)
  if (isInside(store, real)) throw refuse("storeInside", source)
  return real
}

const extension = (name: TreePath): string => {
  const dot = name.lastIndexOf(".")
  return dot > 0 ? name.slice(dot) : ""
}

/** Files of one batch at most: tiny ones cost a thread their calls and not their bytes, and are shared out by number. */
const batchFiles = 2000

/** Batches of about one group. By extension and then path, so that like content is compressed together. */
const toBatches = (files: readonly ScannedFile[]): Batch[] => {
  const order = files.map((file, index) => ({ file, index, key: extension(file.name) }))
  order.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.file.path < b.file.path ? -1 : 1))
  const batches: Batch[] = []
  let batch: Batch["files"][number][] = []
  let bytes = 0
  for (const { file, index } of order) {
    if (batch.length === batchFiles || (batch.length > 0 && bytes + file.size > groupTarget)) {
      batches.push({ files: batch, force: false })
      batch = []
      bytes = 0
    }
    batch.push({ index, path: file.path })
    bytes += file.size
  }
  if (batch.length > 0) batches.push({ files: batch, force: false })
  return batches
}

const startReaders = (context: ImportContext, source: TreePath, count: number, objects: number): Worker[] => {
  const slots = 2 ** Math.ceil(Math.log2(objects * 2 + 1024))
  const setup: ReaderSetup = { role: "import", index: context.index, source, claims: new SharedArrayBuffer(slots * 8) }
  return Array.from({ length: count }, () => new Worker(workerUrl(), { workerData: setup, execArgv: [] }))
}

/** Hands out batches until all are done. Rejects when a reader dies or `onGroup`/`onOutcomes` throws. */
const runBatches = (
  readers: readonly Worker[],
  batches: readonly Batch[],
  on: {
    readonly group: (frame: Uint8Array, objects: readonly FramedObject[], framed: boolean) => void
    readonly outcomes: (outcomes: readonly ReadOutcome[], bytes: number) => void
  }
): Promise<void> =>
  new Promise((resolve, reject) => {
    let next = 0
    let open = 0
    const give = (reader: Worker): void => {
      const batch = batches[next]
      if (batch === undefined) return
      next += 1
      open += 1
      reader.postMessage(batch, [])
    }
    if (batches.length === 0) return resolve()
    for (const reader of readers) {
      reader.removeAllListeners()
      reader.on("error", reject)
      reader.on("exit", () => reject(new Error("A reader thread of the import ended early")))
      reader.on("message", (message: ReaderMessage) => {
        try {
          if ("defect" in message) throw new Error(message.defect)
          if ("group" in message) return on.group(message.group, message.objects, message.framed)
          open -= 1
          on.outcomes(message.outcomes, message.bytes)
          give(reader)
          if (open === 0 && next === batches.length) resolve()
        } catch (error) {
          reject(error)
        }
      })
      // Two in flight per reader: one is worked on while the next waits at hand.
      give(reader)
      give(reader)
    }
  })

/** Reads all files; fills in their ids. */
const readFiles = async (
  context: ImportContext,
  source: TreePath,
  scanned: Scan,
  notes: ImportNotes
): Promise<void> => {
  const { files } = scanned
  if (files.length === 0) return
  const batches = toBatches(files)
  const blocks = Math.ceil(scanned.bytes / (4 * 1024 * 1024))
  const readers = startReaders(context, source, batches.length > 2 ? 2 : 1, files.length + Math.min(blocks, 1_000_000))
  const stored = new Set<Digest>([zeroBlock])
  const wanted = new Map<Digest, number>()
  const changed = new Set<number>()
  let doneFiles = 0
  let doneBytes = 0
  let again = false
  const on = {
    group: (frame: Uint8Array, objects: readonly FramedObject[], framed: boolean): void => {
      context.objects.addGroup(frame, objects, framed)
      for (const object of objects) stored.add(object.id)
    },
    outcomes: (outcomes: readonly ReadOutcome[], bytes: number): void => {
      if (context.cancelled()) throw refuse("cancelled", source)
      for (const outcome of outcomes) {
        const file = files[outcome.index]!
        if ("gone" in outcome) {
          notes.add("vanished", file.path, "gone or replaced before it was read; not imported")
          continue
        }
        if ("failed" in outcome) {
          notes.add("skippedUnreadable", file.path, `not imported: ${outcome.failed}`)
          continue
        }
        file.id = outcome.id
        file.size = outcome.size
        file.mode = outcome.mode
        file.mtimeNs = outcome.mtimeNs
        for (const id of [outcome.id, ...outcome.blocks]) wanted.set(id, outcome.index)
        // Read again for its content alone: what it said was noted the first time.
        if (outcome.changed) changed.add(outcome.index)
        if (!again) for (const { kind, detail } of outcome.signs) notes.add(kind, file.path, detail)
      }
      if (again) return
      doneFiles += outcomes.length
      doneBytes += bytes
      context.progress({
        phase: "store",
        files: doneFiles,
        bytes: doneBytes,
        totalFiles: files.length,
        totalBytes: scanned.bytes
      })
    }
  }
  try {
    await runBatches(readers, batches, on)
    // The claims are hints on 64 bits: what two threads left to each other is read once more, for certain.
    for (let round = 0; round < 3; round += 1) {
      const missing = new Set<number>()
      for (const [id, index] of wanted) if (!stored.has(id) && !context.objects.has(id)) missing.add(index)
      if (missing.size === 0) break
      wanted.clear()
      again = true
      const rest = [...missing].map((index) => ({ files: [{ index, path: files[index]!.path }], force: true }))
      await runBatches(readers, rest, on)
    }
  } finally {
    // Waited for: the thread that owns them may be ended next, and ending a thread while its own threads end crashed Node once.
    await Promise.all(
      readers.map((reader) => {
        reader.removeAllListeners()
        return reader.terminate()
      })
    )
  }
  for (const index of changed) {
    const detail = "changed during each of three readings; the bytes of the last one were kept"
    notes.add("changedWhileRead", files[index]!.path, detail)
  }
}

export const importDirectory = async (context: ImportContext, input: ImportInput): Promise<ImportReceipt> => {
  const source = checkSource(input.source, context.storeRoot)
  const notes = new ImportNotes()
  const scanned = await scan(source, notes, (files) => {
    if (context.cancelled()) throw refuse("cancelled", input.source)
    context.progress({ phase: "scan", files, bytes: 0, totalFiles: null, totalBytes: null })
  })
  crashPoint("layerfs.import.scanned")
  context.progress({ phase: "scan", files: scanned.seen, bytes: 0, totalFiles: scanned.seen, totalBytes: 0 })
  await readFiles(context, source, scanned, notes)
  crashPoint("layerfs.import.read")
  if (context.cancelled()) throw refuse("cancelled", input.source)
  context.progress({
    phase: "commit",
    files: scanned.files.length,
    bytes: scanned.bytes,
    totalFiles: scanned.files.length,
    totalBytes: scanned.bytes
  })
  return commitImport(context, { ...input, source }, scanned, notes)
}

export const createEmpty = (
  context: ImportContext,
  input: { readonly name: string; readonly operationId: string; readonly at: number }
): Promise<ImportReceipt> => {
  const root: ScannedDirectory = {
    name: "",
    path: "",
    type: "directory",
    mode: 0o755,
    mtimeNs: BigInt(input.at) * 1_000_000n,
    entries: []
  }
  return commitImport(
    context,
    { ...input, source: null },
    { root, files: [], directories: 0, symlinks: 0 },
    new ImportNotes()
  )
}
