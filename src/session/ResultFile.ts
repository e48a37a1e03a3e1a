/**
 * Where the full results of hosts are kept: one file a turn, outside the authority, which holds their digests.
 * Promise: a saved result survives a crash of the process; a file that is missing, unreadable or altered reads as unknown,
 * never as another result. Rules: G70, G54, G82 (result saved -> the host is not called again), principle 1.
 */
import { appendFileSync, mkdirSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type Digest, sha256 } from "../base/Digest.ts"
import { type FileNotWritten, writeDurably } from "../base/DurableFile.ts"
import type { ArtifactFault, SpendArtifact, SpendArtifacts } from "../governance/index.ts"
import { HostUsage, TurnResult } from "../host/TurnProtocol.ts"

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
    started: Schema.optionalKey(Schema.Boolean),
    usage: Schema.optionalKey(HostUsage),
    retryAfterMs: Schema.optionalKey(Schema.Number)
  })
])
export type HostOutcome = typeof HostOutcome.Type

export interface PrivateText {
  readonly add: (chunk: Uint8Array) => void
  readonly end: () => void
}

export interface ResultStore {
  readonly save: (turn: string, outcome: HostOutcome) => Effect.Effect<Digest, FileNotWritten>
  /**
   * Keeps what a host printed beside its result: the first MiB as it comes, and the last 64 KiB of a longer text at its end,
   * with the number of bytes left out between them. It may hold anything and never reaches a message or a public
   * projection (G6, S51). Text that cannot be written (a full disk) is left out and ends no turn.
   */
  readonly privateText: (turn: string, stream: "stdout" | "stderr") => PrivateText
  /** The saved outcome when its bytes still have the digest that was journaled; null otherwise. */
  readonly load: (turn: string, digest: string | null) => Effect.Effect<HostOutcome | null>
}

const headBytes = 1024 * 1024
const tailBytes = 64 * 1024

/** The head of a text is written at once, so that a crash leaves it; the tail waits in memory for the end. */
const privateTextFile = (directory: string, name: string): PrivateText => {
  let written = 0
  let dropped = 0
  let tail: Uint8Array = new Uint8Array()
  const append = (part: Uint8Array | string): void => {
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      appendFileSync(join(directory, name), part, { mode: 0o600 })
    } catch {
      // Detail, not a fact that anything depends on: the turn goes on without it.
    }
  }
  return {
    add: (chunk) => {
      const head = chunk.subarray(0, headBytes - written)
      if (head.length > 0) append(head)
      written += head.length
      const rest = chunk.subarray(head.length)
      if (rest.length === 0) return
      const kept = Buffer.concat([tail, rest])
      dropped += Math.max(0, kept.length - tailBytes)
      tail = kept.subarray(-tailBytes)
    },
    end: () => {
      if (tail.length === 0) return
      if (dropped > 0) append(`\n[${dropped} bytes left out]\n`)
      append(tail)
      tail = new Uint8Array()
    }
  }
}

const decode = Schema.decodeUnknownSync(HostOutcome)

/** A result store in a directory, made when missing. Writes to a temporary name, flushes, renames. */
export const resultFiles = (directory: string): ResultStore => ({
  save: (turn, outcome) => {
    const bytes = Buffer.from(`${JSON.stringify(outcome, null, 2)}\n`)
    return Effect.as(writeDurably(join(directory, `${turn}.json`), bytes), sha256(bytes))
  },
  privateText: (turn, stream) => privateTextFile(directory, `${turn}.${stream}`),
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

const decodeOutcome = Schema.decodeUnknownResult(HostOutcome)

const faultOf = (bytes: Uint8Array, { turn, digest }: SpendArtifact): ArtifactFault | null => {
  let text: string
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return "notUtf8"
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return "malformed"
  }
  const outcome = decodeOutcome(value)
  if (Result.isFailure(outcome)) return "shape"
  if (outcome.success.status === "ok" && outcome.success.result.turnKey !== turn) return "otherWork"
  return sha256(bytes) === digest ? null : "altered"
}

/**
 * Reads the results of turns as what shows their costs, for `Quota.status`. A cost without a turn is not this directory's to
 * judge. Reads only; a result that is put back is found again.
 */
export const resultArtifacts = (directory: string): SpendArtifacts => ({
  check: (artifact) =>
    artifact.turn === null || artifact.digest === null
      ? Effect.succeed(null)
      : Effect.promise(() =>
          readFile(join(directory, `${artifact.turn}.json`)).then(
            (bytes) => faultOf(bytes, artifact),
            (error: NodeJS.ErrnoException) => (error.code === "ENOENT" ? "missing" : "unreadable")
          )
        )
})
