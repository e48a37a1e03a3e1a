/**
 * Writes a commit's tree as a directory: content, modes, links, hard links, nanosecond mtimes, holes.
 * Promise: every object is checked before a byte of it is written; a damaged one ends the call with nothing left at the
 * target; nothing is written outside the target. Rules: L10, L15, W3 (export), W14; C18, C20.
 *
 * The bytes go to one GNU tar process: see TarStream.ts for why.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import { mkdirSync, readdirSync, rmSync } from "node:fs"
import { once } from "node:events"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { join, type TreePath } from "../../src/base/PathBytes.ts"
import { ExportRefused, FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { segmentBytes, segmentsOf } from "./FileContent.ts"
import { inlineLimit, zeroBlock } from "./ObjectId.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import type { Place } from "./ObjectStore.ts"
import type { CommitRow } from "./RefStore.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import { padding, type TarEntry, tarEnd, tarHeader } from "./TarStream.ts"

interface PlannedFile {
  readonly path: TreePath
  readonly mode: number
  readonly mtimeNs: bigint
  readonly size: number
  readonly id: Digest
}

interface Plan {
  readonly directories: TarEntry[]
  readonly files: PlannedFile[]
  /** Symlinks, and further names of hard-linked files: after the files. */
  readonly links: TarEntry[]
  readonly bytes: number
}

const plan = (trees: StoredTrees, commit: Pick<CommitRow, "root" | "times">): Plan => {
  const record = trees.root(commit.times)
  const directories: TarEntry[] = []
  const files: PlannedFile[] = []
  const links: TarEntry[] = []
  let bytes = 0
  const walk = (id: Digest, timesId: Digest, path: TreePath, mode: number, mtimeNs: bigint): void => {
    directories.push({ path: path === "" ? "." : path, type: "directory", mode, mtimeNs, size: 0, target: "" })
    const tree = trees.tree(id)
    const times = trees.times(timesId, tree)
    for (const [i, entry] of tree.entries.entries()) {
      const time = times[i]!
      const child = join(path, entry.name)
      if (entry.type === "directory") {
        walk(entry.id, time.times!, child, entry.mode, time.mtimeNs)
      } else if (entry.type === "symlink") {
        links.push({ path: child, type: "symlink", mode: 0o777, mtimeNs: time.mtimeNs, size: 0, target: entry.target })
      } else if (entry.linkGroup !== null && entry.linkGroup !== child) {
        links.push({
          path: child,
          type: "hardlink",
          mode: entry.mode,
          mtimeNs: time.mtimeNs,
          size: 0,
          target: entry.linkGroup
        })
      } else {
        files.push({ path: child, mode: entry.mode, mtimeNs: time.mtimeNs, size: entry.size, id: entry.id })
        bytes += entry.size
      }
    }
  }
  walk(commit.root, record.times, "", record.mode, record.mtimeNs)
  return { directories, files, links, bytes }
}

/** In the order of the packs, so that each group is decompressed once. */
const inPackOrder = (
  files: readonly PlannedFile[],
  reader: ObjectReader
): { file: PlannedFile; place: Place | undefined }[] => {
  const placed = files.map((file) => ({ file, place: file.id === zeroBlock ? undefined : reader.place(file.id) }))
  const by = (pick: (place: Place) => number) => (a: (typeof placed)[number], b: (typeof placed)[number]) =>
    (a.place === undefined ? -1 : pick(a.place)) - (b.place === undefined ? -1 : pick(b.place))
  const byPack = by((place) => place.pack)
  const byGroup = by((place) => place.groupOffset)
  const byOffset = by((place) => place.offset)
  return placed.sort((a, b) => byPack(a, b) || byGroup(a, b) || byOffset(a, b))
}

/** A whole small file in one piece, a large one chunk by chunk. A hole yields nothing: see `segmentsOf`. */
function* contentOf(reader: ObjectReader, file: PlannedFile, place: Place | undefined): Generator<Buffer> {
  if (place !== undefined && file.size <= inlineLimit) {
    yield reader.readPlace(file.id, place)
    return
  }
  yield* segmentBytes(reader, file)
}

/** Makes the target, or takes an empty one. Returns how to undo. Throws `ExportRefused`. */
const claimTarget = (target: Buffer): (() => void) => {
  const refuse = (message: string, remedy: string): ExportRefused =>
    new ExportRefused({ message, remedy, path: target.toString("utf8") })
  try {
    mkdirSync(target, { mode: 0o700 })
    return () => rmSync(target, { recursive: true, force: true })
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code !== "EEXIST") {
      throw refuse(
        `The target directory cannot be made (${code}).`,
        "Give a path in an existing directory that this user can write to."
      )
    }
  }
  let names: string[]
  try {
    names = readdirSync(target)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    throw refuse(`The target is not a directory that can be read (${code}).`, "Give a new or empty directory.")
  }
  if (names.length > 0) throw refuse("The target directory is not empty.", "Give a new or empty directory.")
  return () => {
    for (const name of readdirSync(target, { encoding: "buffer" })) {
      rmSync(Buffer.concat([target, Buffer.from("/"), name]), { recursive: true, force: true })
    }
  }
}

/** Bytes that may wait in the pipe, so that tar writes one file while the next is decompressed. */
const pipedAhead = 16 * 1024 * 1024

/** Lets the pipe move on: this thread's event loop writes it. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

class TarProcess {
  readonly #child: ChildProcessWithoutNullStreams
  #errors = ""
  #parts: Buffer[] = []
  #size = 0
  #failed: Error | undefined
  readonly #exit: Promise<number | null>

  constructor(target: Buffer) {
    // A fixed locale, so that names are bytes; -P, because the target is new and ours: links are kept as they are.
    const options = "-x -b 2048 -P -p --no-same-owner --delay-directory-restore --no-ignore-command-error -f -".split(
      " "
    )
    this.#child = spawn("tar", options, {
      cwd: target.toString("utf8"),
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C" },
      stdio: ["pipe", "pipe", "pipe"]
    })
    this.#child.stderr.on("data", (chunk: Buffer) => {
      if (this.#errors.length < 2000) this.#errors += chunk.toString("utf8")
    })
    this.#child.stdout.resume()
    this.#child.stdin.on("error", (error) => {
      this.#failed ??= error
    })
    this.#exit = new Promise((resolve, reject) => {
      this.#child.on("error", (error: NodeJS.ErrnoException) => {
        this.#failed ??= error
        reject(error)
      })
      this.#child.on("close", (code) => resolve(code))
    })
    this.#exit.catch(() => undefined)
  }

  async write(bytes: Buffer): Promise<void> {
    this.#parts.push(bytes)
    this.#size += bytes.length
    if (this.#size >= 1024 * 1024) await this.drain()
  }

  async drain(): Promise<void> {
    if (this.#failed !== undefined) throw await this.failure()
    // Corked, so that many small pieces leave in one writev instead of being copied together first.
    this.#child.stdin.cork()
    for (const part of this.#parts) this.#child.stdin.write(part)
    this.#child.stdin.uncork()
    this.#parts = []
    this.#size = 0
    if (this.#child.stdin.writableLength < pipedAhead) await turn()
    else await Promise.race([once(this.#child.stdin, "drain"), this.#exit]).catch(() => undefined)
    if (this.#failed !== undefined) throw await this.failure()
  }

  async failure(): Promise<Error> {
    const code = await this.#exit.catch((error: NodeJS.ErrnoException) => error)
    if (code instanceof Error && code.code === "ENOENT") {
      return new Unavailable({
        message: "GNU tar is needed to write a tree with exact times, and was not found.",
        remedy: "Install the package `tar` (GNU tar 1.29 or newer) and put it on the PATH.",
        what: "materialise",
        missing: ["tar"]
      })
    }
    const full = this.#errors.includes("No space left on device")
    return new FileSystemFailure({
      message: "tar could not write the whole tree.",
      remedy: full
        ? "Free space on the target's disk, then repeat."
        : "Check owner, mode and free space of the target, then repeat.",
      syscallCode: full ? "ENOSPC" : "EIO"
    })
  }

  async end(): Promise<void> {
    await this.write(tarEnd)
    await this.drain()
    this.#child.stdin.end()
    const code = await this.#exit.catch(() => null)
    if (code !== 0) throw await this.failure()
  }

  async kill(): Promise<void> {
    this.#child.stdin.destroy()
    this.#child.kill("SIGKILL")
    await this.#exit.catch(() => undefined)
  }
}

export interface MaterialiseContext {
  readonly trees: StoredTrees
  readonly reader: ObjectReader
  readonly progress: (progress: Progress) => void
  readonly phase: "materialise" | "export"
}

/** Writes the commit to `target` (absolute path, byte string). */
export const materialise = async (
  context: MaterialiseContext,
  commit: Pick<CommitRow, "root" | "times">,
  target: TreePath
): Promise<{ files: number; bytes: number }> => {
  const { trees, reader, phase } = context
  const planned = plan(trees, commit)
  const directory = Buffer.from(target, "latin1")
  const undo = claimTarget(directory)
  const tar = new TarProcess(directory)
  try {
    crashPoint("layerfs.materialise.begun")
    for (const entry of planned.directories) await tar.write(tarHeader(entry))
    let files = 0
    let bytes = 0
    for (const { file, place } of inPackOrder(planned.files, reader)) {
      const segments = segmentsOf(reader, file)
      await tar.write(tarHeader({ ...file, type: "file", target: "", ...(segments === undefined ? {} : { segments }) }))
      for (const bytes of contentOf(reader, file, place)) await tar.write(bytes)
      const length = segments === undefined ? file.size : segments.reduce((sum, segment) => sum + segment.length, 0)
      if (length % 512 !== 0) await tar.write(padding(length))
      files += 1
      bytes += file.size
      context.progress({ phase, files, bytes, totalFiles: planned.files.length, totalBytes: planned.bytes })
    }
    for (const link of planned.links) await tar.write(tarHeader(link))
    await tar.drain()
    crashPoint("layerfs.materialise.written")
    await tar.end()
    return { files, bytes }
  } catch (error) {
    await tar.kill()
    undo()
    throw error
  }
}
