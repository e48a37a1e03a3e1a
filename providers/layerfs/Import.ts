/**
 * Import of a directory: walk, read and compress in two extra threads, one pack, one transaction.
 * Promise: the source is never changed; a target inside the source, or the reverse, is refused before anything is read; an
 * import that fails or is cancelled leaves no trace in the index; everything left out is listed. Rules: W13, W14, L14, L15.
 */
import { realpathSync, statSync } from "node:fs"
import { Worker } from "node:worker_threads"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { newId } from "../../src/base/Id.ts"
import { show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Durability } from "../../src/sqlite/Database.ts"
import { ImportRefused } from "../../src/workspace/WorkspaceError.ts"
import type { ImportNote, ImportReceipt, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { scan, type Scan, type ScannedDirectory, type ScannedFile } from "./ImportScan.ts"
import type { Batch, FramedObject, ReaderMessage, ReaderSetup, ReadOutcome } from "./ImportReader.ts"
import { groupTarget } from "./Group.ts"
import { zeroBlock } from "./ObjectId.ts"
import type { ObjectWriter } from "./PackedObjects.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"
import type { ImportInput } from "./StoreCalls.ts"
import { encodeRoot, encodeTimes, encodeTree, type StoredEntry, type StoredTime } from "./TreeCodec.ts"
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

/** Batches of about one group. By extension and then path, so that like content is compressed together. */
const toBatches = (files: readonly ScannedFile[], source: TreePath): Batch[] => {
  const order = files.map((file, index) => ({ file, index, key: extension(file.name) }))
  order.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.file.path < b.file.path ? -1 : 1))
  const batches: Batch[] = []
  let batch: Batch["files"][number][] = []
  let bytes = 0
  for (const { file, index } of order) {
    if (batch.length > 0 && bytes + file.size > groupTarget) {
      batches.push({ files: batch, force: false })
      batch = []
      bytes = 0
    }
    batch.push({ index, path: `${source}/${file.path}`, size: file.size, allocated: file.allocated })
    bytes += file.size
  }
  if (batch.length > 0) batches.push({ files: batch, force: false })
  return batches
}

const startReaders = (context: ImportContext, count: number, objects: number): Worker[] => {
  const slots = 2 ** Math.ceil(Math.log2(objects * 2 + 1024))
  const setup: ReaderSetup = { role: "import", index: context.index, claims: new SharedArrayBuffer(slots * 8) }
  return Array.from({ length: count }, () => new Worker(workerUrl(), { workerData: setup, execArgv: [] }))
}

/** Hands out batches until all are done. Rejects when a reader dies or `onGroup`/`onOutcomes` throws. */
const runBatches = (
  readers: readonly Worker[],
  batches: readonly Batch[],
  on: {
    readonly group: (frame: Uint8Array, objects: readonly FramedObject[]) => void
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
          if ("group" in message) return on.group(message.group, message.objects)
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
  notes: ImportNote[]
): Promise<void> => {
  const { files } = scanned
  if (files.length === 0) return
  const batches = toBatches(files, source)
  const blocks = Math.ceil(scanned.bytes / (4 * 1024 * 1024))
  const readers = startReaders(context, batches.length > 8 ? 2 : 1, files.length + Math.min(blocks, 1_000_000))
  const stored = new Set<Digest>([zeroBlock])
  const wanted = new Map<Digest, number>()
  const changed = new Set<number>()
  let doneFiles = 0
  let doneBytes = 0
  const on = {
    group: (frame: Uint8Array, objects: readonly FramedObject[]): void => {
      context.objects.addGroup(frame, objects)
      for (const object of objects) stored.add(object.id)
    },
    outcomes: (outcomes: readonly ReadOutcome[], bytes: number): void => {
      if (context.cancelled()) throw refuse("cancelled", source)
      for (const outcome of outcomes) {
        const file = files[outcome.index]!
        if ("failed" in outcome) {
          const gone = outcome.failed === "ENOENT"
          notes.push({
            kind: gone ? "changedWhileRead" : "skippedUnreadable",
            path: show(file.path),
            detail: gone ? "vanished before it was read; not imported" : `not imported: ${outcome.failed}`
          })
          continue
        }
        file.id = outcome.id
        file.size = outcome.size
        file.mode = outcome.mode
        file.mtimeNs = outcome.mtimeNs
        for (const id of [outcome.id, ...outcome.blocks]) wanted.set(id, outcome.index)
        if (outcome.changed) changed.add(outcome.index)
      }
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
      const again = [...missing].map((index) => {
        const file = files[index]!
        return { index, path: `${source}/${file.path}`, size: file.size, allocated: file.allocated }
      })
      await runBatches(
        readers,
        again.map((file) => ({ files: [file], force: true })),
        on
      )
    }
  } finally {
    for (const reader of readers) {
      reader.removeAllListeners()
      void reader.terminate()
    }
  }
  for (const index of changed) {
    notes.push({
      kind: "changedWhileRead",
      path: show(files[index]!.path),
      detail: "it changed during each of three readings; the bytes of the last one were kept"
    })
  }
}

/** First path of each hard-link group that has at least two names in the tree (W22). */
const linkGroups = (files: readonly ScannedFile[]): ReadonlyMap<string, TreePath> => {
  const first = new Map<string, TreePath>()
  const names = new Map<string, number>()
  for (const { inode, id, path } of files) {
    if (inode === undefined || id === undefined) continue
    names.set(inode, (names.get(inode) ?? 0) + 1)
    const before = first.get(inode)
    if (before === undefined || path < before) first.set(inode, path)
  }
  for (const [inode, count] of names) if (count < 2) first.delete(inode)
  return first
}

const writeTree = (
  directory: ScannedDirectory,
  groups: ReadonlyMap<string, TreePath>,
  objects: ObjectWriter
): { tree: Digest; times: Digest; linked: boolean } => {
  const entries: StoredEntry[] = []
  const times: StoredTime[] = []
  let linked = false
  for (const entry of directory.entries) {
    if (entry.type === "file") {
      if (entry.id === undefined) continue
      const linkGroup = (entry.inode === undefined ? undefined : groups.get(entry.inode)) ?? null
      linked ||= linkGroup !== null
      const { name, mode, size } = entry
      entries.push({ name, type: "file", mode, size, id: entry.id as Digest, linkGroup })
      times.push({ mtimeNs: entry.mtimeNs, times: null })
    } else if (entry.type === "symlink") {
      entries.push({ name: entry.name, type: "symlink", target: entry.target })
      times.push({ mtimeNs: entry.mtimeNs, times: null })
    } else {
      const child = writeTree(entry, groups, objects)
      linked ||= child.linked
      entries.push({ name: entry.name, type: "directory", mode: entry.mode, id: child.tree, linked: child.linked })
      times.push({ mtimeNs: entry.mtimeNs, times: child.times })
    }
  }
  return { tree: objects.write("tree", encodeTree(entries)), times: objects.write("times", encodeTimes(times)), linked }
}

/** Commits a scanned and read tree as a new project with its first layer. */
const commitImport = async (
  context: ImportContext,
  input: { readonly name: string; readonly operationId: string; readonly at: number; readonly source: TreePath | null },
  scanned: Pick<Scan, "root" | "files" | "directories" | "symlinks">,
  notes: readonly ImportNote[]
): Promise<ImportReceipt> => {
  const { objects, refs } = context
  const groups = linkGroups(scanned.files)
  const tree = writeTree(scanned.root, groups, objects)
  const { mode, mtimeNs } = scanned.root
  const times = objects.write("times", encodeRoot({ mode, mtimeNs, times: tree.times }))
  const packed = objects.flush()
  crashPoint("layerfs.import.packSynced")
  const kept = scanned.files.filter((file) => file.id !== undefined)
  const project = { id: newId("project"), name: input.name, source: input.source }
  const commit = {
    id: newId("commit"),
    project: project.id,
    parent: null,
    root: tree.tree,
    times,
    message: `Import ${input.name}`,
    at: input.at,
    operationId: input.operationId,
    actor: {}
  }
  const layer = newId("layer")
  let storedBytes = 0
  const seen = new Set<number>()
  for (const object of packed) {
    if (seen.has(object.groupOffset)) continue
    seen.add(object.groupOffset)
    storedBytes += object.groupLength
  }
  const receipt: ImportReceipt = {
    operationId: input.operationId,
    project: project.id,
    layer,
    commit: commit.id,
    root: tree.tree,
    files: kept.length,
    directories: scanned.directories,
    symlinks: scanned.symlinks,
    hardLinkGroups: groups.size,
    bytes: kept.reduce((sum, file) => sum + file.size, 0),
    storedBytes,
    durability: context.durability,
    notes
  }
  const added = await refs.addCommit({
    objects: packed,
    packLengths: objects.packLengths(),
    commit,
    result: receipt,
    layer: { id: layer, project }
  })
  if (added.kind === "repeated") {
    objects.abandon()
    return added.result as ImportReceipt
  }
  objects.committed()
  crashPoint("layerfs.import.committed")
  return receipt
}

export const importDirectory = async (context: ImportContext, input: ImportInput): Promise<ImportReceipt> => {
  const source = checkSource(input.source, context.storeRoot)
  const scanned = scan(source, (files) => {
    if (context.cancelled()) throw refuse("cancelled", input.source)
    context.progress({ phase: "scan", files, bytes: 0, totalFiles: null, totalBytes: null })
  })
  const notes = [...scanned.notes]
  await readFiles(context, source, scanned, notes)
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
  return commitImport(context, { ...input, source: null }, { root, files: [], directories: 0, symlinks: 0 }, [])
}
