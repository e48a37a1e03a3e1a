/**
 * Long-running processes inside a workspace: each in a pid namespace of its own.
 * Promise: `kill` and the end of the scope take the whole tree, `setsid` grandchildren included, and `provenGone` is an
 * observation. Rules: S20, S23, W4, C95.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import * as Effect from "effect/Effect"
import type { ProcessExit, ProcessIdentity, SpawnedProcess, SpawnOptions } from "../../base/Spawn.ts"
import { holdOutput } from "../../base/HeldOutput.ts"
import { checkArguments } from "./Exec.ts"
import { identifyFromHere } from "../../base/ProcessIdentity.ts"
import { childOf } from "./Holder.ts"
import type { EndableInside, Inside } from "./Inside.ts"
import { spawnFailed, spawnOr } from "./Launch.ts"
import { watchLauncher } from "./Launcher.ts"
import { variablesFor } from "./Variables.ts"

/** A started process and the way to end it when its scope ends. */
export interface Started {
  readonly process: SpawnedProcess
  readonly end: () => Promise<void>
  /** The launcher runs and its program cannot be seen inside yet. */
  readonly entering: () => boolean
}

/** The caller has checked that the program is there: see `locate`. */
export const start = async (
  workspace: Inside,
  argv: readonly [string, ...string[]],
  options: SpawnOptions,
  cwd: string
): Promise<Started> => {
  checkArguments(argv)
  const tree: EndableInside = await workspace.nest()
  const launched = [...tree.asCaller(cwd), ...argv]
  const { variables } = variablesFor({ ...options, privateTmp: workspace.privateTmp })
  const begun = (): ChildProcessWithoutNullStreams =>
    spawn(launched[0]!, launched.slice(1), {
      stdio: "pipe",
      env: { ...variables, ...tree.variablesOfAll },
      ...tree.spawnOptions(cwd)
    })
  const child = await Promise.resolve()
    .then(() => spawnOr(argv[0], begun))
    .catch(async (error) => {
      await tree.end()
      throw error
    })
  child.stdin.on("error", () => undefined)
  const [stdout, stderr] = [holdOutput(child.stdout), holdOutput(child.stderr)]
  const enters = launched.length > argv.length
  const unwatch = child.pid === undefined || !enters ? () => undefined : watchLauncher(child.pid)
  const leader = { running: true }
  let ended = false
  const end = async (): Promise<void> => {
    await tree.end()
    ended = true
  }
  const exit = new Promise<ProcessExit>((resolve) => {
    child.once("exit", (code, signal) => {
      leader.running = false
      unwatch()
      // A tree that ended as a whole leaves no namespace behind; one that did not stays visible until it is killed.
      const settled = tree.quiet() || tree.processes().length === 0 ? end() : Promise.resolve()
      void settled.finally(() => resolve({ code, signal }))
    })
  })
  try {
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve)
      child.once("error", (error) => reject(spawnFailed(argv[0], error.message)))
    })
  } catch (error) {
    unwatch()
    await tree.end()
    throw error
  }
  const identity = await identify(child.pid!, () => leader.running)

  const kill = async (graceMs: number): Promise<void> => {
    if (ended) return
    await tree.signal("TERM", ["all"])
    const deadline = performance.now() + graceMs
    while (tree.alive && performance.now() < deadline && (leader.running || tree.processes().length > 0)) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await end()
    await exit
  }

  return {
    process: {
      stdin: child.stdin,
      stdout,
      stderr,
      identity,
      guarantee: workspace.guarantee,
      wait: Effect.promise(() => exit),
      kill: (how) => Effect.promise(() => kill(how?.graceMs ?? 2000)),
      provenGone: Effect.sync(() => ended || (!leader.running && (!tree.alive || tree.processes().length === 0)))
    },
    entering: () => leader.running && enters && childOf(child.pid!) === undefined,
    end: async () => {
      await kill(0)
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
    }
  }
}

/** The leader is the launcher's only child as soon as that has entered the namespace. */
const identify = async (launcher: number, running: () => boolean): Promise<ProcessIdentity | null> => {
  for (let tries = 0; tries < 100 && running(); tries += 1) {
    const pid = childOf(launcher)
    if (pid !== undefined) return identifyFromHere(pid)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return null
}
