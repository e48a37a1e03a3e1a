/**
 * The process host: any command that speaks the stdio turn protocol, started inside the turn's environment.
 * Promise: exactly one strictly checked result or a typed failure naming the check; whatever happens (time limit, flood,
 * interruption) the whole process tree is ended and proven gone, or the turn is `SupervisionFailed`. Rules: S23, S51, G85.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reportedFailure } from "../../src/host/ClassifyFailure.ts"
import type { Host, HostFailure, HostTurnOptions } from "../../src/host/Host.ts"
import { resumable, type ResumeMismatch, sessionMismatch } from "../../src/host/HostSession.ts"
import { limits, TurnRequest, type TurnResult } from "../../src/host/TurnProtocol.ts"
import { argvProblem, failure, notStarted, refused, type RunEnded, runOnce, type RunOptions } from "./OneRun.ts"
import { readResult } from "./ResultText.ts"

export const processHostVersion = "1"

export interface ProcessHostOptions extends RunOptions {
  /** Milliseconds that the host has to exit after its whole result was read (2000), then its tree is ended. */
  readonly drainMs?: number
  /** The command can go on in a session of its own that `resume` of the request names, and tells `session` in its answer. */
  readonly resumes?: boolean
  /** The command may be started again in the same place after a time limit, overload, rate limit or lost connection (G84). */
  readonly retrySafe?: boolean
}

const decodeRequest = Schema.decodeUnknownResult(TurnRequest, { onExcessProperty: "error" })

/** The bytes of a request, or the failed check: nothing is started for a request that a host could not accept. */
export const encodeRequest = (request: TurnRequest): Result.Result<Uint8Array, HostFailure> => {
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
const judge = (ending: RunEnded["ending"], turnKey: string): Result.Result<TurnResult, HostFailure> => {
  if (ending.how === "exited" && ending.exit.code !== 0) {
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
  const exitCode = ending.how === "exited" ? ending.exit.code : null
  return Result.mapError(readResult(ending.stdout, turnKey), (check) =>
    failure(
      "contract",
      check,
      `The host's answer failed the check \`${check}\``,
      "Print exactly one JSON object of the turn protocol on stdout, with the turn key of the request.",
      exitCode
    )
  )
}

/** An unknown session fails closed; one that is not the one asked for is a mismatch, whatever was done in it (S22). */
const readBack = (
  { resume }: TurnRequest,
  { session }: TurnResult
): Effect.Effect<void, HostFailure | ResumeMismatch> => {
  if (resume === undefined && session !== null) return Effect.void
  if (session === null) {
    return Effect.fail(
      failure(
        "sessionMissing",
        "session-unknown",
        "The host does not know the session that was asked for",
        "Start a new session by name (leave `resume` out); nothing was done in another one.",
        0
      )
    )
  }
  const mismatch = sessionMismatch(resume!, session)
  return mismatch === undefined ? Effect.void : Effect.fail(mismatch)
}

/**
 * A host for the command `argv` (no shell). Installs no signal handler; between turns there is no process, timer or
 * handle (P4). `turn` fails with `HostFailure`, whose `check` names what was wrong, with `ResumeUnsupported` (nothing was
 * started) or `ResumeMismatch` where a session was to be resumed, or with `SupervisionFailed`; when it
 * is interrupted, the tree is ended first, and a survivor makes the interruption a defect that carries `SupervisionFailed`.
 */
export const processHost = (argv: readonly string[], options: ProcessHostOptions = {}): Host => {
  const problem = argvProblem(argv)
  const descriptor = {
    kind: "host-process",
    version: processHostVersion,
    inProcess: false,
    ...(options.retrySafe === undefined ? {} : { retrySafe: options.retrySafe }),
    capabilities: ["turn", "interrupt", "usage", ...(options.resumes === true ? (["resume"] as const) : [])]
  } satisfies Host["descriptor"]

  const turn = (asked: HostTurnOptions) =>
    Effect.gen(function* () {
      if (problem !== undefined) {
        return yield* refused(
          "argv",
          `The host's command ${problem}`,
          "Give a short command; put long text into a file."
        )
      }
      yield* resumable(descriptor, asked.request.resume)
      const stdin = yield* Effect.fromResult(Result.mapError(encodeRequest(asked.request), notStarted))
      const conversation = { stdin, stdout: "result", drainMs: options.drainMs ?? 2000 } as const
      const { ending, guarantee, wallMs } = yield* runOnce({ ...options, argv, conversation }, asked)
      const result = yield* Effect.fromResult(judge(ending, asked.request.turnKey))
      const trouble = reportedFailure(result)
      if (trouble !== undefined) return yield* trouble
      yield* readBack(asked.request, result)
      return { result, guarantee, wallMs, lingered: ending.how === "lingered" }
    })

  return {
    descriptor,
    probe: Effect.succeed({
      ready: problem === undefined,
      missing: problem === undefined ? [] : [`a usable command: it ${problem}`]
    }),
    turn
  }
}
