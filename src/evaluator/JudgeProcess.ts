/**
 * Runs one command of a judge to its end, in a process tree that can be ended and proven gone.
 * Promise: bounded output, a time limit that ends the whole tree, and an honest word when the tree could not be proven gone.
 * Rules: E16, G71 (timeout is inconclusive), S23.
 */
import * as Effect from "effect/Effect"
import type { SpawnFailed, TurnEnvironment } from "../host/TurnEnvironment.ts"

export interface JudgeRun {
  /** Null when a signal or the time limit ended it. */
  readonly exitCode: number | null
  readonly timedOut: boolean
  /** The last 64 KiB of both streams together, in order of arrival. */
  readonly output: string
  /** The last 64 KiB of stdout alone. */
  readonly stdout: string
  readonly provenGone: boolean
}

const keep = 64 * 1024

/** Keeps the tail of a stream. */
const tail = () => {
  let chunks: Buffer[] = []
  let bytes = 0
  return {
    add: (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > 4 * keep) {
        const joined = Buffer.concat(chunks).subarray(-keep)
        chunks = [joined]
        bytes = joined.length
      }
    },
    text: () => Buffer.concat(chunks).subarray(-keep).toString("utf8")
  }
}

/** Runs `argv` inside the environment. Interrupting it ends the tree. */
export const runJudge = (
  environment: TurnEnvironment,
  argv: readonly [string, ...string[]],
  options: { readonly timeLimitMs: number; readonly env?: Readonly<Record<string, string>> }
): Effect.Effect<JudgeRun, SpawnFailed> =>
  Effect.scoped(
    Effect.gen(function* () {
      const child = yield* environment.spawn(argv, options.env === undefined ? {} : { env: options.env })
      const both = tail()
      const stdout = tail()
      child.stdin.on("error", () => {})
      child.stdin.end()
      child.stdout.on("data", (chunk: Buffer) => {
        both.add(chunk)
        stdout.add(chunk)
      })
      child.stderr.on("data", (chunk: Buffer) => both.add(chunk))
      const exit = yield* Effect.timeoutOption(child.wait, options.timeLimitMs)
      if (exit._tag === "None") {
        yield* child.kill()
        return {
          exitCode: null,
          timedOut: true,
          output: both.text(),
          stdout: stdout.text(),
          provenGone: yield* child.provenGone
        }
      }
      // Output that the leader wrote last may still be in the pipe: one bounded drain, as exec does (W4).
      yield* Effect.callback<void>((resume) => {
        const done = () => resume(Effect.void)
        const timer = setTimeout(done, 200)
        if (child.stdout.readableEnded || child.stdout.destroyed) {
          clearTimeout(timer)
          done()
          return
        }
        child.stdout.once("end", () => {
          clearTimeout(timer)
          done()
        })
      })
      return {
        exitCode: exit.value.code,
        timedOut: false,
        output: both.text(),
        stdout: stdout.text(),
        provenGone: true
      }
    })
  )
