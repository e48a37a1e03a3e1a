/**
 * The process host: any command that speaks the stdio turn protocol, started inside the turn's environment.
 * Promise: exactly one strictly checked result or a typed failure naming the check; whatever happens (time limit, flood,
 * interruption) the whole process tree is ended and proven gone, or the turn is `SupervisionFailed`. Rules: S23, S51, G85.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import {
  type FailureClass,
  type Host,
  HostFailure,
  type HostTurnOptions,
  SupervisionFailed
} from "../../src/host/Host.ts"
import type { SpawnedProcess } from "../../src/host/TurnEnvironment.ts"
import { limits, TurnRequest } from "../../src/host/TurnProtocol.ts"
import { converse, type Ending } from "./Conversation.ts"
import { readResult } from "./ResultText.ts"

export const processHostVersion = "1"

export interface ProcessHostOptions {
  /** Variables added to the environment's allow-listed ones. */
  readonly env?: Readonly<Record<string, string>>
  /** Milliseconds that the host has to exit after its whole result was read (2000), then its tree is ended. */
  readonly drainMs?: number
  /** Milliseconds between TERM and KILL when the tree is ended (2000). */
  readonly graceMs?: number
  /** Gets the host's stderr, byte for byte. It is private: it may go to the record, never into a message. */
  readonly onPrivateText?: (chunk: Uint8Array) => void
}

const failure = (
  failureClass: FailureClass,
  check: string,
  message: string,
  remedy: string,
  exitCode: number | null = null
): HostFailure => new HostFailure({ class: failureClass, check, message, remedy, exitCode })

/** A failure before any process was there. */
const notStarted = (failed: HostFailure): HostFailure =>
  new HostFailure({
    class: failed.class,
    check: failed.check,
    message: failed.message,
    remedy: failed.remedy,
    exitCode: null,
    started: false
  })

const supervisionFailed = (): SupervisionFailed =>
  new SupervisionFailed({
    message: "The host was told to stop, but a process of it may still run",
    remedy:
      "Find and end the processes that carry the tree's marker in their environment before you start another executor."
  })

const argvProblem = (argv: readonly string[]): string | undefined => {
  if (argv.length === 0 || argv[0] === "") return "is empty"
  if (argv.length > limits.argvItems) return `has more than ${limits.argvItems} items`
  if (argv.some((item) => item.length > limits.argvChars))
    return `has an item of more than ${limits.argvChars} characters`
  if (argv.some((item) => item.includes("\0"))) return "has an item with a NUL character"
  return undefined
}

const decodeRequest = Schema.decodeUnknownResult(TurnRequest, { onExcessProperty: "error" })

/** The bytes of a request, or the failed check: nothing is started for a request that a host could not accept. */
const encodeRequest = (request: TurnRequest): Result.Result<Uint8Array, HostFailure> => {
  if (Result.isFailure(decodeRequest(request))) {
    return Result.fail(
      failure(
        "contract",
        "request-shape",
        "The request does not match the turn protocol",
        "Build it with the `TurnRequest` schema."
      )
    )
  }
  const bytes = Buffer.from(JSON.stringify(request), "utf8")
  if (bytes.length <= limits.requestBytes) return Result.succeed(bytes)
  return Result.fail(
    failure(
      "contract",
      "request-size",
      `The request is larger than ${limits.requestBytes} bytes`,
      "Shorten the instruction or pass fewer findings; put long material into a file of the workspace."
    )
  )
}

/** Turns an ending into the result, or into the failure that it is. Runs after the tree was ended. */
const judge = (ending: Ending, turnKey: string) => {
  switch (ending.how) {
    case "timeLimit":
      return Result.fail(
        failure(
          "executorTimeout",
          "time-limit",
          "The host ran into its time limit",
          "Give it more time, or a smaller step."
        )
      )
    case "flooded":
      return Result.fail(
        failure(
          "outputBudget",
          "stdout-size",
          `The host printed more than ${limits.resultBytes} bytes on stdout`,
          "Print one JSON result; send progress and notes to stderr."
        )
      )
    case "exited":
      if (ending.exit.code !== 0) {
        return Result.fail(
          failure(
            "unknown",
            "exit-code",
            `The host ended with ${ending.exit.code === null ? "a signal" : `exit code ${ending.exit.code}`}`,
            "Read its private text in the record; a turn that did its work exits with 0.",
            ending.exit.code
          )
        )
      }
  }
  const result = readResult(ending.stdout, turnKey)
  const exitCode = ending.how === "exited" ? ending.exit.code : null
  return Result.mapError(result, (check) =>
    failure(
      "contract",
      check,
      `The host's answer failed the check \`${check}\``,
      "Print exactly one JSON object of the turn protocol on stdout, with the turn key of the request.",
      exitCode
    )
  )
}

/** Ends the tree and proves it gone. Never interrupted half way. */
const endTree = (tree: SpawnedProcess, graceMs: number): Effect.Effect<void, SupervisionFailed> =>
  Effect.gen(function* () {
    if (!(yield* tree.provenGone)) yield* tree.kill({ graceMs })
    if (!(yield* tree.provenGone)) return yield* supervisionFailed()
  })

/**
 * A host for the command `argv` (no shell). Installs no signal handler; between turns there is no process, timer or
 * handle (P4). `turn` fails with `HostFailure`, whose `check` names what was wrong, or with `SupervisionFailed`; when it
 * is interrupted, the tree is ended first, and a survivor makes the interruption a defect that carries `SupervisionFailed`.
 */
export const processHost = (argv: readonly string[], options: ProcessHostOptions = {}): Host => {
  const graceMs = options.graceMs ?? 2000
  const problem = argvProblem(argv)

  const turn = ({ environment, request, timeLimitMs, onProgress }: HostTurnOptions) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        if (problem !== undefined) {
          return yield* notStarted(
            failure(
              "contract",
              "argv",
              `The host's command ${problem}`,
              "Give a short command; put long text into a file."
            )
          )
        }
        const requestBytes = yield* Effect.fromResult(Result.mapError(encodeRequest(request), notStarted))
        const begun = performance.now()
        const tree = yield* environment
          .spawn(argv as [string, ...string[]], options.env === undefined ? {} : { env: options.env })
          .pipe(Effect.mapError((error) => notStarted(failure("unknown", "spawn", error.message, error.remedy))))
        const exited = Effect.runPromise(tree.wait)
        // From the start of the tree to its proven end an interruption is seen here only, where it ends the tree.
        const ending = yield* restore(
          Effect.promise((signal) =>
            converse(tree, {
              signal,
              request: requestBytes,
              timeLimitMs,
              drainMs: options.drainMs ?? 2000,
              exited,
              onProgress: onProgress ?? (() => {}),
              onPrivateText: options.onPrivateText ?? (() => {})
            })
          )
        ).pipe(Effect.onInterrupt(() => Effect.orDie(endTree(tree, graceMs))))
        yield* endTree(tree, graceMs)
        const result = yield* Effect.fromResult(judge(ending, request.turnKey))
        return {
          result,
          guarantee: tree.guarantee,
          wallMs: performance.now() - begun,
          lingered: ending.how === "lingered"
        }
      }).pipe(Effect.scoped)
    )

  return {
    descriptor: {
      kind: "host-process",
      version: processHostVersion,
      inProcess: false,
      capabilities: ["turn", "interrupt", "usage"]
    },
    probe: Effect.succeed({
      ready: problem === undefined,
      missing: problem === undefined ? [] : [`a usable command: it ${problem}`]
    }),
    turn
  }
}
