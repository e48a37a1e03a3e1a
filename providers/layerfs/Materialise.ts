/**
 * Writes a planned tree as a directory: content, modes, links, hard links, nanosecond mtimes, holes.
 * Promise: every object is checked before a byte of it is written; a damaged one ends the call with nothing left at the
 * target, and so does whoever gives up waiting; nothing is written outside the target. Rules: L10, L15, W3 (export), W14; C18, C20.
 *
 * The bytes go to GNU tar: see TarStream.ts for why. Directories, links and large files go to one process, the small files of a
 * large tree to several (TarParts.ts).
 */
import { closeSync } from "node:fs"
import { availableParallelism } from "node:os"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { compare, type TreePath } from "../../src/base/PathBytes.ts"
import { claimFile, claimTarget } from "../../src/workspace/kit/ClaimTarget.ts"
import { breathing, inStretches, type Steps, stillWanted } from "../../src/workspace/kit/Steps.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { segmentBytes, segmentsOf } from "./FileContent.ts"
import { GroupFiles } from "./GroupFiles.ts"
import { inlineLimit, zeroBlock } from "./ObjectId.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import { damaged } from "./StoreReader.ts"
import type { Place } from "./ObjectStore.ts"
import type { Plan, PlannedFile } from "./MaterialisePlan.ts"
import type { StoreDirectories } from "./LayerDirectories.ts"
import { PackOrder } from "./PackOrder.ts"
import type { ObjectSource } from "./StoredTrees.ts"
import { partBytes, TarParts } from "./TarParts.ts"
import { TarFile } from "./TarFile.ts"
import { TarProcess } from "./TarProcess.ts"
import { padding, type TarEntry, tarHeader } from "./TarStream.ts"

/** A file, and where its one or first object lies: nowhere for the block of zeros. */
interface PlacedFile {
  readonly file: PlannedFile
  readonly place: Place | undefined
}

/** In the order of the packs, so that each group is decompressed once. */
const inPackOrder = async (
  files: readonly PlannedFile[],
  { reader, cancelled }: Pick<MaterialiseContext, "reader" | "cancelled">
): Promise<PlacedFile[]> => {
  const placed: PlacedFile[] = []
  function* places(): Steps<void> {
    for (const file of files) {
      placed.push({ file, place: file.id === zeroBlock ? undefined : reader.place(file.id) })
      yield
    }
  }
  await inStretches(places(), cancelled, (stretch) => reader.reading(stretch))
  const by = (pick: (place: Place) => number) => (a: (typeof placed)[number], b: (typeof placed)[number]) =>
    (a.place === undefined ? -1 : pick(a.place)) - (b.place === undefined ? -1 : pick(b.place))
  const byPack = by((place) => place.pack)
  const byGroup = by((place) => place.groupOffset)
  const byOffset = by((place) => place.offset)
  return placed.sort((a, b) => byPack(a, b) || byGroup(a, b) || byOffset(a, b))
}

export interface MaterialiseContext {
  readonly reader: ObjectReader
  readonly directories: Pick<StoreDirectories, "packs" | "work">
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
  readonly phase: "materialise" | "export"
}

/** Writes what is planned to `target` (absolute path, byte string). */
export const materialise = async (
  context: MaterialiseContext,
  planned: Plan,
  target: TreePath
): Promise<{ files: number; bytes: number }> => {
  const { reader, directories, phase, cancelled } = context
  const placed = await inPackOrder(planned.files, context)
  const directory = Buffer.from(target, "latin1")
  const undo = claimTarget(directory)
  const tar = new TarProcess(directory, "pipe")
  // A tree of one part gains nothing by a second process.
  const parts =
    planned.bytes > partBytes && availableParallelism() > 1
      ? new TarParts({ target, work: directories.work, instead: (entries) => tar.write(entries) })
      : undefined
  const groups = new GroupFiles(directories.packs)
  const breathe = breathing(cancelled)
  try {
    crashPoint("layerfs.materialise.begun")
    for (const entry of planned.directories) await tar.write(tarHeader(entry))
    await tar.drain()
    const sink = wantedSink(tar, cancelled)
    const write =
      parts === undefined ? writeInto(sink, reader) : writeBeside(sink, parts, new PackOrder(reader, groups))
    let files = 0
    let bytes = 0
    for (const one of placed) {
      const written = write(one) ?? breathe()
      if (written !== undefined) await written
      files += 1
      bytes += one.file.size
      context.progress({ phase, files, bytes, totalFiles: planned.files.length, totalBytes: planned.bytes })
    }
    await parts?.end()
    stillWanted(cancelled)
    for (const link of planned.links) await tar.write(tarHeader(link))
    await tar.drain()
    crashPoint("layerfs.materialise.written")
    await tar.end()
    return { files, bytes }
  } catch (error) {
    await Promise.all([tar.kill(), parts?.kill()])
    await undo()
    throw error
  } finally {
    groups.close()
  }
}

/** Writes the commit as one archive at `target` (absolute path, byte string). Throws `ExportRefused`, `ObjectDamaged`. */
export const exportTar = async (
  context: Omit<MaterialiseContext, "directories" | "phase">,
  planned: Plan,
  target: TreePath
): Promise<{ files: number; bytes: number }> => {
  const { reader, cancelled } = context
  const placed = new Map((await inPackOrder(planned.files, context)).map((one) => [one.file.path, one]))
  const { descriptor, undo } = claimFile(Buffer.from(target, "latin1"))
  const tar = new TarFile(descriptor)
  const write = writeInto(wantedSink(tar, cancelled), reader)
  let files = 0
  let bytes = 0
  const writeFile = async (path: TreePath, contentOf: TreePath): Promise<void> => {
    const { file, place } = placed.get(contentOf)!
    await write({ file: { ...file, path }, place })
    files += 1
    bytes += file.size
    context.progress({ phase: "export", files, bytes, totalFiles: placed.size, totalBytes: planned.bytes })
  }
  /** Where the content of a hard-link group was written, by the path that its entries name. */
  const written = new Map<TreePath, TreePath>()
  const groups = new Set(planned.links.flatMap(({ type, target: first }) => (type === "hardlink" ? [first] : [])))
  const writeName = async (path: TreePath, group: TreePath): Promise<void> => {
    const first = written.get(group)
    if (first === undefined) {
      written.set(group, path)
      return writeFile(path, group)
    }
    const { mode, mtimeNs } = placed.get(group)!.file
    await tar.write(tarHeader({ path, type: "hardlink", mode, mtimeNs, size: 0, target: first }))
  }
  const entries: readonly (readonly [TreePath, () => Promise<void>])[] = [
    ...planned.directories.map((entry) => [entry.path, () => tar.write(tarHeader(entry))] as const),
    ...planned.files.map(
      ({ path }) => [path, () => (groups.has(path) ? writeName(path, path) : writeFile(path, path))] as const
    ),
    ...planned.links.map(
      (link) =>
        [
          link.path,
          () => (link.type === "hardlink" ? writeName(link.path, link.target) : tar.write(tarHeader(link)))
        ] as const
    )
  ]
  try {
    // Each directory right before what lies in it: tar sets its time when it leaves it.
    for (const [, writeEntry] of entries.toSorted(([a], [b]) => compare(depthFirst(a), depthFirst(b))))
      await writeEntry()
    await tar.end()
    return { files, bytes }
  } catch (error) {
    undo()
    throw error
  } finally {
    closeSync(descriptor)
  }
}

/** A key by whose byte order everything below a directory follows it. */
const depthFirst = (path: TreePath): string => (path === "." ? "" : path.replaceAll("/", "\0"))

/** Where the entries of an archive go. */
type Sink = Pick<TarFile, "write">

/** Takes nothing more once the call is cancelled: a large file is written in many steps. */
const wantedSink = (tar: Sink, cancelled: () => boolean): Sink => ({
  write: (bytes) => {
    stillWanted(cancelled)
    return tar.write(bytes)
  }
})

type Write = (one: PlacedFile) => Promise<void> | undefined

const isOneObject = (one: PlacedFile): one is PlacedFile & { readonly place: Place } =>
  one.place !== undefined && one.file.size <= inlineLimit

const fileEntry = (file: PlannedFile, segments?: TarEntry["segments"]): TarEntry => ({
  path: file.path,
  type: "file",
  mode: file.mode,
  mtimeNs: file.mtimeNs,
  size: file.size,
  target: "",
  ...(segments === undefined ? {} : { segments })
})

/** All by one tar. */
const writeInto =
  (tar: Sink, reader: ObjectReader): Write =>
  async (one) => {
    if (!isOneObject(one)) return writeLarge(tar, reader, one.file)
    await tar.write(tarHeader(fileEntry(one.file)))
    await tar.write(reader.readPlace(one.file.id, one.place))
    if (one.file.size % 512 !== 0) await tar.write(padding(one.file.size))
  }

/** Small files by tars of their own. Waits only where there is something to wait for: ten thousand times are a while. */
const writeBeside = (tar: Sink, parts: TarParts, order: PackOrder): Write => {
  const take = ({ file, place }: PlacedFile): Promise<void> | undefined => {
    if (place === undefined || file.size > inlineLimit) {
      return writeLarge(tar, place === undefined ? nowhere : order.startingAt(file.id, place), file)
    }
    parts.add(fileEntry(file), order.read(file.id, place))
    return undefined
  }
  return (one) =>
    parts.isDue || (one.place !== undefined && order.opensAnother(one.place))
      ? parts.flush().then(() => take(one))
      : take(one)
}

/** Of the block of zeros no object is ever read. */
const nowhere: ObjectSource = {
  read: (id) => {
    throw damaged(id)
  }
}

/** Chunk by chunk. A hole is nothing: see `segmentsOf`. */
const writeLarge = async (tar: Sink, objects: ObjectSource, file: PlannedFile): Promise<void> => {
  const segments = segmentsOf(objects, file)
  await tar.write(tarHeader(fileEntry(file, segments)))
  for (const bytes of segmentBytes(objects, file)) await tar.write(bytes)
  const length = segments === undefined ? file.size : segments.reduce((sum, segment) => sum + segment.length, 0)
  if (length % 512 !== 0) await tar.write(padding(length))
}
