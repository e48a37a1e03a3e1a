/**
 * The command host: a plain command as a host, for what does not speak the turn protocol (a codemod, `sed`, an agent's CLI).
 * Promise: it runs in the root of its environment; exit code 0 claims `completed`, any other claims `failed`; what it prints
 * is private text; its price is unknown unless the caller states one; no process of it stays behind. Rules: S50, S51, S23, G85, C90.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Host, HostFailure, HostTurnOptions } from "../../src/host/Host.ts"
import { resumable } from "../../src/host/HostSession.ts"
import { protocolVersion, type TurnRequest, type TurnResult } from "../../src/host/TurnProtocol.ts"
import { argvProblem, failure, notStarted, refused, type RunEnded, runOnce, type RunOptions } from "./OneRun.ts"
import { encodeRequest } from "./ProcessHost.ts"

export const commandHostVersion = "1"

/** In `env`, `COPPICE_INSTRUCTION` is always the instruction. */
export interface CommandHostOptions extends RunOptions {
  /**
   * What the command finds on its stdin: the request of the turn protocol as one JSON object (the default), the instruction
   * as it is (for an agent's CLI that reads its prompt there), or nothing.
   */
  readonly stdin?: "request" | "instruction" | "empty"
  /**
   * What one run costs, in US dollars: 0 for a command that calls no paid service. Absent means unknown: the reservation is
   * then held until somebody states the amount (G55).
   */
  readonly usd?: number
}

/** Linux takes at most 128 KiB in one variable, its name included (execve(2), MAX_ARG_STRLEN). */
const instructionBytes = 120 * 1024

/** A line of shell is one item of the argv, and may be longer than an item that a person writes. */
const shellLineChars = 16 * 1024

const shellLineProblem = (line: string): string | undefined => {
  if (line.trim() === "") return "is empty"
  if (line.includes("\0")) return "has a NUL character"
  return line.length > shellLineChars ? `has more than ${shellLineChars} characters` : undefined
}

const usdProblem = (usd: number | undefined): string | undefined =>
  usd === undefined || (Number.isFinite(usd) && usd >= 0 && usd <= 1_000_000)
    ? undefined
    : "states a price that is not between 0 and a million US dollars"

const stdinOf = (stdin: CommandHostOptions["stdin"], request: TurnRequest): Result.Result<Uint8Array, HostFailure> => {
  const { instruction } = request
  if (instruction.includes("\0") || Buffer.byteLength(instruction) > instructionBytes) {
    return Result.fail(
      failure(
        "contract",
        "instruction",
        `The instruction is longer than ${instructionBytes} bytes or has a NUL character`,
        "A command gets its instruction in a variable: shorten it, and put long material into a file of the workspace."
      )
    )
  }
  if (stdin === "instruction") return Result.succeed(Buffer.from(instruction, "utf8"))
  if (stdin === "empty") return Result.succeed(new Uint8Array())
  return encodeRequest(request)
}

const claimOf = ({ ending }: RunEnded, turnKey: string, usd: number | undefined): TurnResult => {
  const code = ending.how === "exited" ? ending.exit.code : null
  return {
    protocol: "coppice.turn",
    version: protocolVersion,
    turnKey,
    outcome: code === 0 ? "completed" : "failed",
    // The exit code and nothing else: what the command printed may hold anything (G6).
    summary: code === null ? "ended by a signal" : `exit code ${code}`,
    ...(usd === undefined ? {} : { usage: { usd } })
  }
}

/**
 * A host that runs a plain command. A string is given to `sh -c`; a list is an argv without a shell.
 *
 * The command runs in the root of its environment with the instruction in `COPPICE_INSTRUCTION`, and gets the request on its
 * stdin (`options.stdin`). Exit code 0 claims `completed`, every other end claims `failed` with the summary `exit code N`: a
 * claim, which the validator judges on the files. When the command has exited, what it left running is ended. Lines of
 * progress of the turn protocol on stderr are passed on.
 *
 * Fails with `HostFailure`: `executorTimeout` (give it more time), `outputBudget` (more than 64 MiB on a stream: print less),
 * `contract` (`argv`, `usd`, `instruction`, `request-size`: nothing was started), `unknown` with the check `spawn` (no such
 * program or directory); with `ResumeUnsupported` when the request names a session; or with `SupervisionFailed`.
 *
 * ```ts
 * commandHost("npx prettier --write src", { usd: 0 })
 * commandHost(["claude", "-p"], { stdin: "instruction", env: { ANTHROPIC_API_KEY: key } })
 * ```
 */
export const commandHost = (command: string | readonly string[], options: CommandHostOptions = {}): Host => {
  const argv = typeof command === "string" ? ["sh", "-c", command] : command
  const badCommand = typeof command === "string" ? shellLineProblem(command) : argvProblem(command)
  const badPrice = usdProblem(options.usd)
  const problem = badCommand ?? badPrice
  const descriptor = {
    kind: "host-process:command",
    version: commandHostVersion,
    inProcess: false,
    capabilities: options.usd === undefined ? ["turn", "interrupt"] : ["turn", "interrupt", "usage"]
  } satisfies Host["descriptor"]

  const turn = (asked: HostTurnOptions) =>
    Effect.gen(function* () {
      if (problem !== undefined) {
        return yield* refused(
          badCommand === undefined ? "usd" : "argv",
          `The command ${problem}`,
          "Give a short command (long text belongs in a file), and as price an amount in US dollars or nothing."
        )
      }
      yield* resumable(descriptor, asked.request.resume)
      const stdin = yield* Effect.fromResult(Result.mapError(stdinOf(options.stdin, asked.request), notStarted))
      const env = { ...options.env, COPPICE_INSTRUCTION: asked.request.instruction }
      const conversation = { stdin, stdout: "text", drainMs: 0 } as const
      const ran = yield* runOnce({ ...options, env, argv, conversation }, asked)
      return {
        result: claimOf(ran, asked.request.turnKey, options.usd),
        guarantee: ran.guarantee,
        wallMs: ran.wallMs,
        lingered: false
      }
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
