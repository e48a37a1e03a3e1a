/**
 * The record of a run: a directory outside every store, in which patches, verdicts and results lie.
 * Promise: a file that was answered for is flushed before the fact that names it is journaled (G75); names are stable, so a
 * rerun writes the same file again and not another one. Rules: G75, J2.
 */
import { mkdir, open, readFile, rename } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import { type Digest, sha256 } from "../base/Digest.ts"

/** Parts of the record that no attempt may see. */
export const privateDirectories = ["attempts", "results", "verdicts", "scratch", "base"] as const

export interface RunRecord {
  readonly directory: string
  /** Writes and flushes a file below the record; gives the digest of its bytes. */
  readonly write: (name: string, bytes: Uint8Array | string) => Effect.Effect<Digest>
  /** The bytes of a file, or null when it cannot be read. */
  readonly read: (name: string) => Effect.Effect<Buffer | null>
  readonly path: (name: string) => string
}

const flushDirectory = async (directory: string) => {
  const handle = await open(directory, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Opens the record, made when missing (0700). */
export const openRunRecord = (directory: string): Effect.Effect<RunRecord> =>
  Effect.promise(async () => {
    // Made before any workspace is mounted: only what exists can be hidden from it (W17).
    for (const name of privateDirectories) await mkdir(join(directory, name), { recursive: true, mode: 0o700 })
    const path = (name: string) => join(directory, name)
    return {
      directory,
      path,
      write: (name, data) =>
        Effect.promise(async () => {
          const target = path(name)
          await mkdir(dirname(target), { recursive: true, mode: 0o700 })
          const bytes = typeof data === "string" ? Buffer.from(data) : data
          const handle = await open(`${target}.tmp`, "w", 0o600)
          try {
            await handle.writeFile(bytes)
            await handle.sync()
          } finally {
            await handle.close()
          }
          await rename(`${target}.tmp`, target)
          await flushDirectory(dirname(target))
          return sha256(bytes)
        }),
      read: (name) => Effect.promise(() => readFile(path(name)).catch(() => null))
    }
  })
