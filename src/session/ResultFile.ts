/**
 * Where the full results of hosts are kept: one file a turn, outside the authority, which holds their digests.
 * Promise: a saved result survives a crash of the process; a file that is missing, unreadable or altered reads as unknown,
 * never as another result. Rules: G70, G82 (result saved -> the host is not called again), principle 1.
 */
import { appendFileSync, mkdirSync } from "node:fs"
import { mkdir, open, readFile, rename } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Digest, sha256 } from "../base/Digest.ts"
import { TurnResult } from "../host/TurnProtocol.ts"

/** What came of a host: its answer, or how it failed. */
export const HostOutcome = Schema.Union([
  Schema.Struct({ status: Schema.Literal("ok"), result: TurnResult, wallMs: Schema.Number }),
  Schema.Struct({
    status: Schema.Literal("failed"),
    class: Schema.String,
    check: Schema.String,
    message: Schema.String,
    wallMs: Schema.Number,
    /** False when it is known that nothing was started. */
    started: Schema.optionalKey(Schema.Boolean)
  })
])
export type HostOutcome = typeof HostOutcome.Type

export interface ResultStore {
  readonly save: (turn: string, outcome: HostOutcome) => Effect.Effect<Digest>
  /**
   * Keeps a host's private text (its stderr) beside its result, at most 1 MiB; more is counted by nobody and dropped.
   * It may hold anything and never reaches a message or a public projection (G6, S51).
   */
  readonly privateText: (turn: string) => (chunk: Uint8Array) => void
  /** The saved outcome when its bytes still have the digest that was journaled; null otherwise. */
  readonly load: (turn: string, digest: string | null) => Effect.Effect<HostOutcome | null>
}

const privateTextBytes = 1024 * 1024

const decode = Schema.decodeUnknownSync(HostOutcome)

/** A result store in a directory, made when missing. Writes to a temporary name, flushes, renames. */
export const resultFiles = (directory: string): ResultStore => ({
  save: (turn, outcome) =>
    Effect.promise(async () => {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const bytes = Buffer.from(`${JSON.stringify(outcome, null, 2)}\n`)
      const path = join(directory, `${turn}.json`)
      const handle = await open(`${path}.tmp`, "w", 0o600)
      try {
        await handle.writeFile(bytes)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(`${path}.tmp`, path)
      const folder = await open(directory, "r")
      try {
        await folder.sync()
      } finally {
        await folder.close()
      }
      return sha256(bytes)
    }),
  privateText: (turn) => {
    let room = privateTextBytes
    return (chunk) => {
      if (room <= 0) return
      const part = chunk.subarray(0, room)
      room -= part.length
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      appendFileSync(join(directory, `${turn}.stderr`), part, { mode: 0o600 })
    }
  },
  load: (turn, digest) =>
    Effect.promise(async () => {
      try {
        const bytes = await readFile(join(directory, `${turn}.json`))
        return sha256(bytes) === digest ? decode(JSON.parse(bytes.toString("utf8"))) : null
      } catch {
        return null
      }
    })
})
