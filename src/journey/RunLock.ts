/**
 * One process at a time drives a run: the lock of a record.
 * Promise: the second process is told at once, by a typed error that names the first, and has written nothing; a lock dies with
 * the process that holds it, so that none is ever stale. Rules: J2, G81.
 *
 * It is SQLite's own lock on an empty file (fcntl(2) byte-range locks, released by the kernel when the process ends): Node has
 * no flock, and a file that names a pid would have to be taken over from the dead, which two processes can do at once.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { errorFields } from "../base/CoppiceError.ts"
import { type FileNotWritten, fileNotWritten } from "../base/DurableFile.ts"
import { isBusyError } from "../sqlite/Database.ts"

/** Another process, or another call of this one, drives the run of this record now. Nothing was done. */
export class RunInProgress extends Schema.TaggedError<RunInProgress>()("RunInProgress", {
  ...errorFields("RUN_IN_PROGRESS"),
  /** The process that drives it; null when it has not said so yet. */
  pid: Schema.NullOr(Schema.Number)
}) {}

const holderOf = (file: string): number | null => {
  try {
    return (JSON.parse(readFileSync(file, "utf8")) as { pid: number }).pid
  } catch {
    return null
  }
}

const inProgress = (pid: number | null): RunInProgress =>
  new RunInProgress({
    pid,
    message: `The run of this record is being driven${pid === null ? "" : ` by process ${pid}`}.`,
    remedy: "Wait for it or end it (Ctrl-C is enough), then run again; or give another `run` name and `record`."
  })

/** Holds the record's lock as long as the scope lives. The directory must exist. */
export const lockRun = (directory: string): Effect.Effect<void, RunInProgress | FileNotWritten, Scope.Scope> => {
  const lock = join(directory, "running.lock")
  const named = join(directory, "running.json")
  return Effect.asVoid(
    Effect.acquireRelease(
      Effect.try({
        try: () => {
          const held = new DatabaseSync(lock, { timeout: 0 })
          try {
            held.exec("BEGIN EXCLUSIVE")
            writeFileSync(named, JSON.stringify({ pid: process.pid }), { mode: 0o600 })
            return held
          } catch (error) {
            held.close()
            throw error
          }
        },
        catch: (error) => (isBusyError(error) ? inProgress(holderOf(named)) : fileNotWritten(lock, error))
      }),
      (held) =>
        Effect.sync(() => {
          rmSync(named, { force: true })
          held.close()
        })
    )
  )
}
