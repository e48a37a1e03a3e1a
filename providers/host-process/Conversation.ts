/**
 * One exchange with a running host: the request goes to stdin, the result comes from stdout, progress from stderr.
 * Promise: bounded everywhere (bytes kept, length of a line, time after the end); a host that floods, stalls or leaves a
 * child with the pipe cannot hold the caller up. Rules: S51, C80, C90.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ProcessExit, SpawnedProcess } from "../../src/host/TurnEnvironment.ts"
import { limits, TurnProgress } from "../../src/host/TurnProtocol.ts"
import { isWhole } from "./ResultText.ts"

/** How the exchange ended. */
export type Ending =
  /** The leader exited; `stdout` is all that it printed as its result. */
  | { readonly how: "exited"; readonly exit: ProcessExit; readonly stdout: Uint8Array }
  /** A whole object came, and the host then neither exited nor closed down within the drain time. */
  | { readonly how: "lingered"; readonly stdout: Uint8Array }
  /** More came on that stream than it may carry. */
  | { readonly how: "flooded"; readonly stream: "stdout" | "stderr" }
  | { readonly how: "timeLimit" }

export interface ConversationOptions {
  /** All that the host gets on its stdin, which is then closed. */
  readonly stdin: Uint8Array
  readonly timeLimitMs: number
  /** `result`: stdout carries one bounded JSON result. `text`: stdout is private text like stderr, and is not kept here. */
  readonly stdout: "result" | "text"
  /** Milliseconds that a host has to exit after its whole result was read. */
  readonly drainMs: number
  readonly exited: Promise<ProcessExit>
  readonly onProgress: (progress: TurnProgress) => void
  /** Gets every byte of stderr, progress lines included, and of a stdout that is text. */
  readonly onPrivateText: (chunk: Uint8Array, stream: "stdout" | "stderr") => void
  /** Aborted when nobody waits for the ending any more: timers and listeners go at once. */
  readonly signal: AbortSignal
}

/** After the leader's exit a pipe may be held open by a child (C90): what is in it by then is read, no more. */
const pipeDrainMs = 200
/** A longer line is private text, whatever it says. */
const progressLineBytes = 16 * 1024

const decodeProgress = Schema.decodeUnknownResult(Schema.fromJsonString(TurnProgress), { onExcessProperty: "error" })

/** Splits stderr into lines of bounded length and picks out those that are progress. */
const progressReader = (onProgress: (progress: TurnProgress) => void) => {
  let line = Buffer.alloc(0)
  let skipping = false
  const take = (text: Buffer): void => {
    if (text[0] !== 0x7b) return
    const progress = decodeProgress(text.toString("utf8"))
    if (Result.isSuccess(progress)) onProgress(progress.success)
  }
  return (chunk: Buffer): void => {
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      if (!skipping) take(Buffer.concat([line, rest.subarray(0, end)]))
      line = Buffer.alloc(0)
      skipping = false
      rest = rest.subarray(end + 1)
    }
    if (line.length + rest.length > progressLineBytes) skipping = true
    line = skipping ? Buffer.alloc(0) : Buffer.concat([line, rest])
  }
}

/** Speaks with the host until one of the endings. It ends nothing itself: stopping the tree is the caller's. */
export const converse = (host: SpawnedProcess, options: ConversationOptions): Promise<Ending> =>
  new Promise((done, fail) => {
    const chunks: Buffer[] = []
    const size = { stdout: 0, stderr: 0 }
    const timers: NodeJS.Timeout[] = []
    let closed = false
    const after = (ms: number, ending: () => Ending): void => {
      if (closed) return
      timers.push(setTimeout(() => finish(ending()), ms))
    }
    const stdout = (): Uint8Array => Buffer.concat(chunks)
    const close = (): void => {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      // Flowing on without a listener: the pipes stay empty until the tree is ended, so nothing blocks on them.
      host.stdout.removeListener("data", onOutput).resume()
      host.stderr.removeListener("data", onText).resume()
    }
    const finish = (ending: Ending): void => {
      close()
      done(ending)
    }
    const progress = progressReader(options.onProgress)
    const room = {
      stdout: options.stdout === "result" ? limits.resultBytes : limits.textBytes,
      stderr: limits.textBytes
    }
    const take = (stream: "stdout" | "stderr", chunk: Buffer): void => {
      size[stream] += chunk.length
      if (size[stream] > room[stream]) return finish({ how: "flooded", stream })
      if (stream === "stdout" && options.stdout === "result") {
        chunks.push(chunk)
        if (chunk.includes(0x7d) && isWhole(stdout()))
          after(options.drainMs, () => ({ how: "lingered", stdout: stdout() }))
        return
      }
      try {
        options.onPrivateText(chunk, stream)
        if (stream === "stderr") progress(chunk)
      } catch (error) {
        // A callback of the caller threw: a defect of this turn, not an uncaught exception of the application.
        close()
        fail(error)
      }
    }
    const onOutput = (chunk: Buffer): void => take("stdout", chunk)
    const onText = (chunk: Buffer): void => take("stderr", chunk)
    after(options.timeLimitMs, () => ({ how: "timeLimit" }))
    host.stdout.on("data", onOutput).on("error", () => {})
    host.stderr.on("data", onText).on("error", () => {})
    const drained = Promise.all(
      [host.stdout, host.stderr].map((stream) => new Promise((end) => stream.once("close", end)))
    )
    void options.exited.then((exit) => {
      const ending = (): Ending => ({ how: "exited", exit, stdout: stdout() })
      after(pipeDrainMs, ending)
      return drained.then(() => finish(ending()))
    })
    options.signal.addEventListener("abort", close, { once: true })
    // A host may answer without reading all of its request: the broken pipe is then no failure of its own.
    host.stdin.on("error", () => {})
    host.stdin.end(options.stdin)
  })
