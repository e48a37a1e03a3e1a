/**
 * Writes a small file so that it survives a crash: a working name, flushed, renamed, and the directory flushed.
 * Promise: under its name stands the old file or the new one, never a half; a write that fails leaves the old one, removes
 * its working name and is a typed error. Rules: G75, L8; 08 "fault injection at every write and rename".
 */
import { mkdir, open, readdir, rename, rm } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "./CoppiceError.ts"
import { crashPoint } from "./CrashPoint.ts"
import { faultPoint } from "./FaultPoint.ts"

/** A file of a record could not be written. What stood under its name stands still. */
export class FileNotWritten extends Schema.TaggedError<FileNotWritten>()("FileNotWritten", {
  ...errorFields("FILE_NOT_WRITTEN"),
  /** The file's own name, without its directory. */
  file: Schema.String,
  /** As in errno(3), for example `ENOSPC`. */
  syscallCode: Schema.String
}) {}

/** What the working name of a file ends with: nothing that anybody else would give a file in the same directory. */
const working = ".coppice-unfinished"

const flushDirectory = async (directory: string): Promise<void> => {
  const handle = await open(directory, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const write = async (target: string, bytes: Uint8Array, sync = true): Promise<void> => {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  faultPoint("file.open")
  const handle = await open(target + working, "w", 0o600)
  try {
    faultPoint("file.write")
    await handle.writeFile(bytes)
    faultPoint("file.sync")
    if (sync) await handle.sync()
  } finally {
    await handle.close()
  }
  crashPoint("file.written")
  faultPoint("file.rename")
  await rename(target + working, target)
  crashPoint("file.renamed")
  faultPoint("file.syncDirectory")
  if (sync) await flushDirectory(dirname(target))
}

/** As `writeDurably`, rejecting with Node's own error. Without `sync` it survives a killed process and no power cut. */
export const writeBytesDurably = async (target: string, bytes: Uint8Array, sync: boolean): Promise<void> => {
  try {
    await write(target, bytes, sync)
  } catch (error) {
    await rm(target + working, { force: true }).catch(() => undefined)
    throw error
  }
}

const remedyOf = (code: string): string =>
  code === "ENOSPC" || code === "EDQUOT"
    ? "Free space on the disk of the record, then run again: what was done is found and not done twice."
    : "Look the code up in errno(3), check owner and mode of the record, then run again."

/** What a failed system call on `target` comes to. */
export const fileNotWritten = (target: string, error: unknown): FileNotWritten => {
  const syscallCode = String((error as NodeJS.ErrnoException).code ?? "unknown")
  return new FileNotWritten({
    file: basename(target),
    syscallCode,
    message: `${basename(target)} could not be written (${syscallCode}).`,
    remedy: remedyOf(syscallCode)
  })
}

/** Writes `bytes` under `target`; directories above it are made (0700). */
export const writeDurably = (target: string, bytes: Uint8Array): Effect.Effect<void, FileNotWritten> =>
  Effect.tryPromise({
    try: () => writeBytesDurably(target, bytes, true),
    catch: (error) => fileNotWritten(target, error)
  })

/** Removes what killed processes left under working names in a directory that nobody else writes to now. */
export const sweepUnfinished = async (directory: string): Promise<void> => {
  for (const name of await readdir(directory).catch(() => [])) {
    if (name.endsWith(working)) await rm(join(directory, name), { force: true })
  }
}
