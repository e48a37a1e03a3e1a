/**
 * Runs one command inside a workspace to its end.
 * Promise: a non-zero exit is a result; a time limit or an interruption ends every process that the call started; a child
 * that keeps a pipe open holds nothing up; output is bounded. Rules: W4, W9, C95.
 */
import { performance } from "node:perf_hooks"
import * as path from "node:path"
import { randomUUID } from "node:crypto"
import type { ExecOptions, ExecResult } from "../WorkspaceProvider.ts"
import { Capture } from "./Capture.ts"
import type { InsideProcess } from "./Holder.ts"
import type { Inside } from "./Inside.ts"
import { type Heard, type Launch, spawnCommand, spawnFailed } from "./Launch.ts"
import { variablesFor } from "./Variables.ts"

/** Names the call in the environment of everything it starts. */
const marker = "COPPICE_CALL"

const keyOf = (process: InsideProcess): string => `${process.pid}:${process.startTime}`

/** Node's timers take no longer one: they would end the command after a millisecond. */
const longestLimit = 2 ** 31 - 1

/** Refuses what no process can be given. */
export const checkArguments = (argv: readonly string[], timeLimitMs?: number): void => {
  if (argv.length === 0 || argv[0] === "") throw spawnFailed("", "no program was named")
  if (timeLimitMs !== undefined && !(timeLimitMs > 0 && timeLimitMs <= longestLimit))
    throw spawnFailed(argv[0]!, "the time limit is no number of milliseconds above 0 and below 2^31")
  if (argv.some((part) => part.includes("\0"))) throw spawnFailed(argv[0]!, "an argument holds a NUL byte")
}

/** `signal` is the caller's interruption: the tree is ended, then the promise rejects with its reason. */
export const exec = async (
  inside: Inside,
  command: readonly [string, ...string[]] | string,
  options: ExecOptions,
  cwd: string,
  signal: AbortSignal
): Promise<ExecResult> => {
  const argv: readonly [string, ...string[]] = typeof command === "string" ? ["/bin/sh", "-c", command] : command
  checkArguments(argv, options.timeLimitMs)
  const { stdin } = options
  if (stdin !== undefined && typeof stdin !== "string" && !ArrayBuffer.isView(stdin)) {
    throw spawnFailed(argv[0], "its stdin is neither text nor bytes")
  }
  if (Object.entries(options.env ?? {}).some((pair) => pair.join("").includes("\0"))) {
    throw spawnFailed(argv[0], "a variable holds a NUL byte")
  }
  const { variables, passed } = variablesFor({ ...options, privateTmp: inside.privateTmp })
  const call = randomUUID()
  const before = new Set(inside.quiet() ? [] : inside.processes().map(keyOf))
  const started = performance.now()
  const spill = (stream: string): string | undefined =>
    options.spillDirectory === undefined ? undefined : path.join(options.spillDirectory, `${call}.${stream}`)
  const stdout = new Capture(spill("stdout"))
  const stderr = new Capture(spill("stderr"))
  let listenerFailure: { readonly error: unknown } | undefined
  const heard: Heard = (stream, chunk) => {
    ;(stream === "stdout" ? stdout : stderr).add(chunk)
    if (listenerFailure !== undefined) return
    try {
      options.onOutput?.(stream, chunk)
    } catch (error) {
      // The caller's own bug: it ends this call, not the process.
      listenerFailure = { error }
      void endTree()
    }
  }
  const env = { ...variables, ...inside.variablesOfAll, [marker]: call }
  const asked = { argv, cwd, env, stdin }
  const launch = inside.resident?.(asked, heard) ?? spawnCommand(inside, asked, heard)
  let timedOut = false
  let ending: Promise<void> | undefined
  const endTree = (): Promise<void> => (ending ??= endCall(inside, call, before, launch))
  const timer =
    options.timeLimitMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true
          void endTree()
        }, options.timeLimitMs)
  const interrupted = (): void => void endTree()
  signal.addEventListener("abort", interrupted, { once: true })
  if (signal.aborted) interrupted()

  try {
    const exit = await launch.exited.catch(async (error) => {
      // Whatever of it has begun has nobody to wait for it.
      await endTree().catch(() => undefined)
      throw error
    })
    clearTimeout(timer)
    await ending
    const pipeHeldByChild = !(await launch.drained())
    signal.throwIfAborted()
    if (listenerFailure !== undefined) throw listenerFailure.error
    const out = stdout.finish()
    const err = stderr.finish()
    if ((exit.code === 126 || exit.code === 127) && inside.saysNotStarted(argv[0], err.text)) {
      throw spawnFailed(argv[0], err.text.trim().split(": ").at(-1) ?? "unknown")
    }
    return {
      argv,
      exitCode: exit.code,
      signal: exit.signal,
      timedOut,
      stdout: out,
      stderr: err,
      pipeHeldByChild,
      passedEnv: passed,
      wallMs: performance.now() - started
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener("abort", interrupted)
  }
}

/**
 * Ends everything that one call started. Calls on a workspace are serial, so that is every process that was not there before,
 * except what an older process has started meanwhile. When nothing was there before, one signal to all beats any fork.
 * The launcher dies first: until then it may still be on its way in.
 */
const endCall = async (inside: Inside, call: string, before: ReadonlySet<string>, launch: Launch): Promise<void> => {
  const strike = async (): Promise<boolean> => {
    const now = inside.processes()
    const ours = before.size === 0 ? now : ofCall(inside, now, call, before)
    if (ours.length === 0) return false
    await inside.signal("KILL", before.size === 0 ? ["all"] : ours.map((process) => process.pid))
    return true
  }
  await strike()
  await launch.endLauncher(strike)
  for (let round = 0; round < 500 && inside.alive && (await strike()); round += 1);
}

const ofCall = (
  inside: Inside,
  now: readonly InsideProcess[],
  call: string,
  before: ReadonlySet<string>
): InsideProcess[] => {
  const byPid = new Map(now.map((process) => [process.pid, process]))
  const older = (process: InsideProcess): boolean => {
    for (let at: InsideProcess | undefined = process, hops = 0; at !== undefined && hops < 1000; hops += 1) {
      if (before.has(keyOf(at))) return true
      at = byPid.get(at.parent)
    }
    return false
  }
  return now.filter(
    (process) =>
      !before.has(keyOf(process)) && (inside.variables(process.pid).includes(`${marker}=${call}`) || !older(process))
  )
}
