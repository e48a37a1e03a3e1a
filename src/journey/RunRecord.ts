/**
 * The record of a run: a directory outside every store, in which patches, verdicts and results lie.
 * Promise: a file that was answered for is flushed before the fact that names it is journaled (G75); names are stable, so a
 * rerun writes the same file again and not another one; one process at a time writes to it. Rules: G75, J2.
 */
import { mkdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type Digest, sha256 } from "../base/Digest.ts"
import { type FileNotWritten, fileNotWritten, sweepUnfinished, writeDurably } from "../base/DurableFile.ts"
import { makeDirectories } from "../base/MakeDirectories.ts"
import { lockRun, type RunInProgress } from "./RunLock.ts"

/** Parts of the record that no attempt may see. */
export const privateDirectories = ["attempts", "results", "verdicts", "scratch", "base"] as const

/** Files that a run writes beside `about.json`, which makes a directory its record. */
export const recordFiles = ["fix.patch", "run.json", "graph.mmd", "graph.json", "source.json", "prepare.log"] as const

export interface RunRecord {
  readonly directory: string
  /** Writes and flushes a file below the record; gives the digest of its bytes. */
  readonly write: (name: string, bytes: Uint8Array | string) => Effect.Effect<Digest, FileNotWritten>
  /** The bytes of a file, or null when it cannot be read. */
  readonly read: (name: string) => Effect.Effect<Buffer | null>
  readonly path: (name: string) => string
}

/** Opens the record, made when missing (0700), and holds its lock as long as the scope lives. */
export const openRunRecord = (
  directory: string
): Effect.Effect<RunRecord, FileNotWritten | RunInProgress, Scope.Scope> => {
  const step = (run: () => Promise<unknown>) =>
    Effect.tryPromise({ try: run, catch: (error) => fileNotWritten(directory, error) })
  const path = (name: string) => join(directory, name)
  return Effect.gen(function* () {
    yield* step(async () => makeDirectories(directory, 0o700))
    yield* lockRun(directory)
    yield* step(async () => {
      // Made before any workspace is mounted: only what exists can be hidden from it (W17).
      for (const name of privateDirectories) await mkdir(path(name), { recursive: true, mode: 0o700 })
      for (const name of ["", ...privateDirectories]) await sweepUnfinished(path(name))
    })
    return {
      directory,
      path,
      write: (name, data) => {
        const bytes = typeof data === "string" ? Buffer.from(data) : data
        return Effect.as(writeDurably(path(name), bytes), sha256(bytes))
      },
      read: (name) => Effect.promise(() => readFile(path(name)).catch(() => null))
    } satisfies RunRecord
  })
}
