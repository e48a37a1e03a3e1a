/**
 * Runs a program to its end and returns what it printed: for the tools Coppice itself needs (git, util-linux).
 * Promise: argv without a shell, an explicit environment, bounded output, no handle left; a non-zero exit is a value.
 * Programs of agents are never started here: see Spawn.ts. Rules: W4 (allow-listed environment).
 */
import { execFile } from "node:child_process"
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
        resume(Effect.succeed({ code: typeof code === "number" ? code : 1, stdout, stderr: stderr.toString("utf8") }))
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
