/**
 * Runs a program to its end and returns what it printed: for the tools Coppice itself needs (git, util-linux).
 * Promise: argv without a shell, an explicit environment, bounded output, no handle left; a non-zero exit is a value.
 * Programs of agents are never started here: see Spawn.ts. Rules: W4 (allow-listed environment).
 */
import { execFile, type ExecFileException } from "node:child_process"
import { constants } from "node:os"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "./CoppiceError.ts"
import { machinePath } from "./MachinePath.ts"

/** The program is not installed, or could not be started. */
export class ToolMissing extends Schema.TaggedError<ToolMissing>()("ToolMissing", {
  ...errorFields("TOOL_MISSING"),
  tool: Schema.String
}) {}

export interface CommandResult {
  /** Of a program that a signal ended 128 and the signal's number, as shells tell it; 255 of one that printed too much. */
  readonly code: number
  readonly stdout: Buffer
  readonly stderr: string
}

export interface CommandOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly input?: Uint8Array | string
  /** Bytes of output at most, 64 MiB unless told; more ends the program with a non-zero code. */
  readonly maxOutput?: number
}

const allowed = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME"]

/** The host's variables that Coppice's own tools may see. */
export const toolEnvironment = (): Record<string, string> => {
  const env: Record<string, string> = {}
  for (const name of allowed) {
    const value = name === "PATH" ? machinePath() : process.env[name]
    if (value !== undefined) env[name] = value
  }
  return env
}

/** What git must never take from the user's machine when Coppice runs it: prompts, hooks, global configuration. */
export const gitEnvironment = (): Record<string, string> => ({
  ...toolEnvironment(),
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  LC_ALL: "C"
})

/** True when a program did not come to its end: what it printed is not all, and its code answers nothing. */
export const wasCutShort = ({ code }: CommandResult): boolean => code > 129

const codeOf = (error: ExecFileException | null): number => {
  if (error === null) return 0
  if (typeof error.code === "number") return error.code
  const signal = constants.signals[error.signal as NodeJS.Signals] as number | undefined
  return error.code !== "ERR_CHILD_PROCESS_STDIO_MAXBUFFER" && signal !== undefined ? 128 + signal : 255
}

/** What to say of it: a program that was cut short mostly says nothing itself. */
const wordsOf = (error: ExecFileException | null, said: string) => {
  if (error === null || said.trim() !== "") return said
  if (error.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") return "it printed more than is taken"
  return typeof error.signal === "string" ? `it was ended by ${error.signal}` : said
}

/** Runs `argv`. Interrupting it ends the program. Fails with `ToolMissing` only. */
export const run = (
  argv: readonly [string, ...string[]],
  options: CommandOptions = {}
): Effect.Effect<CommandResult, ToolMissing> =>
  Effect.callback<CommandResult, ToolMissing>((resume) => {
    const [tool, ...args] = argv
    const child = execFile(
      tool,
      args,
      {
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        env: { ...(options.env ?? toolEnvironment()) },
        encoding: "buffer",
        maxBuffer: options.maxOutput ?? 64 * 1024 * 1024
      },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : (error as { code?: unknown }).code
        if (code === "ENOENT" || code === "EACCES") {
          resume(
            Effect.fail(
              new ToolMissing({
                tool,
                message: `The program ${tool} could not be started.`,
                remedy: `Install ${tool} and make sure that it is on PATH.`
              })
            )
          )
          return
        }
        resume(Effect.succeed({ code: codeOf(error), stdout, stderr: wordsOf(error, stderr.toString("utf8")) }))
      }
    )
    child.stdin?.on("error", () => {})
    child.stdin?.end(options.input ?? "")
    // Whoever interrupts it goes on when the process is gone.
    return Effect.callback<void>((gone) => {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return gone(Effect.void)
      child.once("exit", () => gone(Effect.void))
      child.kill("SIGKILL")
    })
  })

/** `run` for git with the environment above. */
export const git = (args: readonly string[], options: CommandOptions = {}) =>
  run(["git", ...args], { env: gitEnvironment(), ...options })
