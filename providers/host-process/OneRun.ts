/**
 * One run of a command as an executor: started inside the environment, spoken to, ended, and proven gone.
 * Promise: whatever happens (time limit, flood, interruption) the whole process tree is ended before an answer is given, or
 * the answer is `SupervisionFailed`. The hosts of this provider differ only in what they send and how they read. Rules: S23, G85, C90.
 */
import * as Effect from "effect/Effect"
import { type FailureClass, HostFailure, type HostTurnOptions, SupervisionFailed } from "../../src/host/Host.ts"
import { limits } from "../../src/host/TurnProtocol.ts"
import type { SpawnedProcess, SpawnGuarantee } from "../../src/host/TurnEnvironment.ts"
import { converse, type ConversationOptions, type Ending } from "./Conversation.ts"

export const failure = (
  failureClass: FailureClass,
  check: string,
  message: string,
  remedy: string,
  exitCode: number | null = null
): HostFailure => new HostFailure({ class: failureClass, check, message, remedy, exitCode })

/** A failure before any process was there. */
export const notStarted = (failed: HostFailure): HostFailure =>
  new HostFailure({
    class: failed.class,
    check: failed.check,
    message: failed.message,
    remedy: failed.remedy,
    exitCode: null,
    started: false
  })

/** A host that was put together wrongly: nothing is started for it. */
export const refused = (check: string, message: string, remedy: string): HostFailure =>
  notStarted(failure("contract", check, message, remedy))

const supervisionFailed = (): SupervisionFailed =>
  new SupervisionFailed({
    message: "The host was told to stop, but a process of it may still run",
    remedy:
      "Find and end the processes that carry the tree's marker in their environment before you start another executor."
  })

/** What is wrong with a command, so that nothing is started for it; undefined when it can be tried. */
export const argvProblem = (argv: readonly string[]): string | undefined => {
  if (argv.length === 0 || argv[0] === "") return "is empty"
  if (argv.length > limits.argvItems) return `has more than ${limits.argvItems} items`
  if (argv.some((item) => item.length > limits.argvChars))
    return `has an item of more than ${limits.argvChars} characters`
  if (argv.some((item) => item.includes("\0"))) return "has an item with a NUL character"
  return undefined
}

/** Ends the tree and proves it gone. Never interrupted half way. */
const endTree = (tree: SpawnedProcess, graceMs: number): Effect.Effect<void, SupervisionFailed> =>
  Effect.gen(function* () {
    if (!(yield* tree.provenGone)) yield* tree.kill({ graceMs })
    if (!(yield* tree.provenGone)) return yield* supervisionFailed()
  })

/** What every host of this provider can be told. */
export interface RunOptions {
  /** Variables added to the environment's allow-listed ones. */
  readonly env?: Readonly<Record<string, string>>
  /** Milliseconds between TERM and KILL when the tree is ended (2000). */
  readonly graceMs?: number
  /** Gets stderr, and a stdout that is no result, byte for byte. It is private: it may go to the record, never into a message. */
  readonly onPrivateText?: (chunk: Uint8Array, stream: "stdout" | "stderr") => void
}

export interface Run extends RunOptions {
  readonly argv: readonly string[]
  readonly conversation: Pick<ConversationOptions, "stdin" | "stdout" | "drainMs">
}

export interface RunEnded {
  /** The time limit and a flood are failures and not among these. */
  readonly ending: Extract<Ending, { readonly how: "exited" | "lingered" }>
  readonly guarantee: SpawnGuarantee
  readonly wallMs: number
}

const overran = (ending: Exclude<Ending, RunEnded["ending"]>, mostOnStdout: number): HostFailure =>
  ending.how === "timeLimit"
    ? failure(
        "executorTimeout",
        "time-limit",
        "The host ran into its time limit",
        "Give it more time, or a smaller step."
      )
    : failure(
        "outputBudget",
        `${ending.stream}-size`,
        `The host printed more than ${ending.stream === "stdout" ? mostOnStdout : limits.textBytes} bytes on ${ending.stream}`,
        "Print less: one JSON result on stdout where the host speaks the protocol; long output goes to a file."
      )

/**
 * Runs the command once. Interrupted, it ends the tree first; a survivor then makes the interruption a defect that carries
 * `SupervisionFailed`, for an interruption alone has no room for it.
 */
export const runOnce = (
  run: Run,
  { environment, timeLimitMs, onProgress }: HostTurnOptions
): Effect.Effect<RunEnded, HostFailure | SupervisionFailed> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const begun = performance.now()
      const graceMs = run.graceMs ?? 2000
      const tree = yield* environment
        .spawn(run.argv as [string, ...string[]], { env: run.env ?? {} })
        .pipe(Effect.mapError((error) => notStarted(failure("unknown", "spawn", error.message, error.remedy))))
      const exited = Effect.runPromise(tree.wait)
      // From the start of the tree to its proven end an interruption is seen here only, where it ends the tree.
      const ending = yield* restore(
        Effect.promise((signal) =>
          converse(tree, {
            ...run.conversation,
            signal,
            timeLimitMs,
            exited,
            onProgress: onProgress ?? (() => {}),
            onPrivateText: run.onPrivateText ?? (() => {})
          })
        )
      ).pipe(Effect.onInterrupt(() => Effect.orDie(endTree(tree, graceMs))))
      yield* endTree(tree, graceMs)
      if (ending.how === "timeLimit" || ending.how === "flooded") {
        return yield* overran(ending, run.conversation.stdout === "result" ? limits.resultBytes : limits.textBytes)
      }
      return { ending, guarantee: tree.guarantee, wallMs: performance.now() - begun }
    }).pipe(Effect.scoped)
  )
