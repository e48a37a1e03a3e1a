/**
 * One command on its way into a workspace and out again: by a launcher of its own, or by the resident shell.
 * Promise: whichever it is, output is heard to its end or 200 ms beyond the command's, and a pipe that a child keeps open holds
 * nothing up. Rules: W4, W9.
 */
import { spawn } from "node:child_process"
import type { Readable } from "node:stream"
import * as path from "node:path"
import { SpawnFailed } from "../../base/Spawn.ts"
import type { Inside } from "./Inside.ts"
import { watchLauncher } from "./Launcher.ts"

export interface Command {
  readonly argv: readonly [string, ...string[]]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Without it, there is nothing to read. */
  readonly stdin: Uint8Array | string | undefined
}

export type Heard = (stream: "stdout" | "stderr", chunk: Buffer) => void

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Launch {
  /** The command's end. Rejects with `SpawnFailed` when it could not begin, or nobody knows how it ended. */
  readonly exited: Promise<Exit>
  /** After the end: true when both pipes ended by themselves within the drain; otherwise they are closed. */
  readonly drained: () => Promise<boolean>
  /** Resolves when what leads in is gone, so that nothing more of the command can begin; `strike` ends what has begun. */
  readonly endLauncher: (strike: () => Promise<unknown>) => Promise<void>
}

/** How long output may still arrive after the leader has ended. */
const drainMs = 200

export const spawnFailed = (program: string, why: string): SpawnFailed =>
  new SpawnFailed({
    message: `The program ${path.basename(program)} could not be started inside the workspace: ${why}.`,
    remedy: "Check the program's name, that it is on PATH inside the workspace, and that it is executable.",
    program
  })

/** Some refusals of the kernel (E2BIG) are thrown, others are events. */
export const spawnOr = <A>(program: string, begin: () => A): A => {
  try {
    return begin()
  } catch (error) {
    throw spawnFailed(program, (error as Error).message)
  }
}

/** By a process of its own, through the namespaces' launcher or in the plain directory. */
export const spawnCommand = (inside: Inside, { argv, cwd, env, stdin }: Command, heard: Heard): Launch => {
  const launched = [...inside.asCaller(cwd), ...argv]
  const child = spawnOr(argv[0], () =>
    spawn(launched[0]!, launched.slice(1), {
      stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      env,
      ...inside.spawnOptions(cwd)
    })
  )
  child.stdout!.on("data", (chunk: Buffer) => heard("stdout", chunk))
  child.stderr!.on("data", (chunk: Buffer) => heard("stderr", chunk))
  if (stdin !== undefined) {
    // A command may end without reading its input.
    child.stdin!.on("error", () => undefined)
    child.stdin!.end(stdin)
  }
  const enters = child.pid !== undefined && launched.length > argv.length
  const unwatch = enters ? watchLauncher(child.pid) : () => undefined
  const exited = new Promise<Exit>((resolve, reject) => {
    child.once("error", (error) => reject(spawnFailed(argv[0], error.message)))
    child.once("exit", (code, signal) => resolve({ code, signal }))
  }).finally(unwatch)
  return {
    exited,
    drained: () => drained([child.stdout!, child.stderr!]),
    endLauncher: async () => {
      child.kill("SIGKILL")
      await exited
    }
  }
}

/** True when all of them ended by themselves within the drain; otherwise they are closed. */
export const drained = (streams: readonly Readable[]): Promise<boolean> =>
  new Promise((resolve) => {
    const open = (): boolean => streams.some((stream) => !stream.readableEnded && !stream.destroyed)
    if (!open()) return resolve(true)
    const finish = (ended: boolean): void => {
      clearTimeout(timer)
      for (const stream of streams) stream.off("end", check)
      for (const stream of streams) stream.destroy()
      resolve(ended)
    }
    const check = (): void => {
      if (!open()) finish(true)
    }
    // Where this thread was busy all that time, what has arrived by then is read first.
    const timer = setTimeout(() => setImmediate(() => setImmediate(() => finish(!open()))), drainMs)
    for (const stream of streams) stream.on("end", check)
  })
