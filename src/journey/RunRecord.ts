/**
 * The record of a run: a directory outside every store, in which patches, verdicts and results lie.
 * Promise: a file that was answered for is flushed before the fact that names it is journaled (G75); names are stable, so a
 * rerun writes the same file again and not another one. Rules: G75, J2.
 */
import { mkdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { type Digest, sha256 } from "../base/Digest.ts"
import { type FileNotWritten, fileNotWritten, sweepUnfinished, writeDurably } from "../base/DurableFile.ts"

/** Parts of the record that no attempt may see. */
export const privateDirectories = ["attempts", "results", "verdicts", "scratch", "base"] as const

export interface RunRecord {
  readonly directory: string
  /** Writes and flushes a file below the record; gives the digest of its bytes. */
  readonly write: (name: string, bytes: Uint8Array | string) => Effect.Effect<Digest, FileNotWritten>
  /** The bytes of a file, or null when it cannot be read. */
  readonly read: (name: string) => Effect.Effect<Buffer | null>
  readonly path: (name: string) => string
}

/** Opens the record, made when missing (0700). */
export const openRunRecord = (directory: string): Effect.Effect<RunRecord, FileNotWritten> =>
  Effect.tryPromise({
    try: () => open(directory),
    catch: (error) => fileNotWritten(directory, error)
  })

const open = async (directory: string): Promise<RunRecord> => {
  // Made before any workspace is mounted: only what exists can be hidden from it (W17).
  for (const name of privateDirectories) await mkdir(join(directory, name), { recursive: true, mode: 0o700 })
  for (const name of ["", ...privateDirectories]) await sweepUnfinished(join(directory, name))
  const path = (name: string) => join(directory, name)
  return {
    directory,
    path,
    write: (name, data) => {
      const bytes = typeof data === "string" ? Buffer.from(data) : data
      return Effect.as(writeDurably(path(name), bytes), sha256(bytes))
    },
    read: (name) => Effect.promise(() => readFile(path(name)).catch(() => null))
  }
}
