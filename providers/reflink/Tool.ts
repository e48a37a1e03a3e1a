/**
 * Runs one of the programs that clone and remove trees, to its end.
 * Promise: argv without a shell, messages in plain English (LC_ALL=C), no program outlives this process or an aborted call; a non-zero exit is
 * a value. Rules: W4, W9.
 *
 * Directories are handed over as descriptors: a name of any bytes and of any depth can be worked in, and nobody can swap it meanwhile.
 */
import { spawn } from "node:child_process"
import { toolEnvironment } from "../../src/base/Command.ts"

export interface ToolOptions {
  /** A directory's descriptor to start in. */
  readonly inside?: number
  /** A descriptor that the program gets as its third. */
  readonly third?: number
  readonly input?: Uint8Array
  readonly signal?: AbortSignal
  /** Called with each piece of what it prints. */
  readonly onOutput?: (piece: Buffer) => void
  /** As the owner of everything that this user owns, whatever the modes say (user_namespaces(7)). */
  readonly mapped?: boolean
}

export interface Ended {
  /** 255 for a program that a signal ended. */
  readonly code: number
  readonly messages: string
}

const killed = 255

/** Messages that are kept; a program that has more to say is ended. */
const mostMessages = 64 << 20

const onLinux = process.platform === "linux"

/** In front of a program, so that it dies with this process. After `unshare`, which would clear it (prctl(2)). */
const bound = (argv: readonly string[], mapped: boolean): readonly string[] => {
  if (!onLinux) return argv
  const dying = ["setpriv", "--pdeathsig", "KILL", ...argv]
  return mapped ? ["unshare", "--user", "--map-root-user", ...dying] : dying
}

/** Rejects with Node's error where the program cannot be started, and with the signal's reason where it is aborted. */
export const runTool = (argv: readonly string[], options: ToolOptions = {}): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const { inside, third, input, signal, onOutput } = options
    signal?.throwIfAborted()
    const [program, ...args] = bound(argv, options.mapped === true)
    const child = spawn(program!, args, {
      env: { ...toolEnvironment(), LC_ALL: "C" },
      ...(inside === undefined ? {} : { cwd: `/proc/self/fd/${inside}` }),
      stdio: [input === undefined ? "ignore" : "pipe", onOutput === undefined ? "ignore" : "pipe", "pipe", third]
    })
    const messages: Buffer[] = []
    let bytes = 0
    const end = (): void => {
      child.kill("SIGKILL")
    }
    signal?.addEventListener("abort", end, { once: true })
    child.stderr!.on("data", (piece: Buffer) => {
      bytes += piece.length
      if (bytes > mostMessages) end()
      else messages.push(piece)
    })
    if (onOutput !== undefined) child.stdout!.on("data", onOutput)
    child.stdin?.on("error", () => undefined)
    child.stdin?.end(input)
    child.once("error", reject)
    child.once("close", (code) => {
      signal?.removeEventListener("abort", end)
      if (signal?.aborted === true) reject(signal.reason as Error)
      else resolve({ code: code ?? killed, messages: Buffer.concat(messages).toString("latin1") })
    })
  })
