/**
 * Holds every process inside a workspace still, so that a capture sees one moment of all of them.
 * Promise: while it is frozen no thread of a process inside runs, as the kernel's own /proc shows; what was stopped before stays
 * stopped, what was stopped for this goes on, whatever happens in between; a process that cannot be stopped is an error.
 * Rules: W19.
 *
 * Nothing is flushed for the capture: on Linux a shared mapping and read(2) show the same pages, so every store that was
 * completed before is read. (The stat cache is another matter: see Checkpoint.ts.)
 */
import * as fs from "node:fs"
import { ProcessesRunning } from "../WorkspaceError.ts"
import type { InsideProcess } from "./Holder.ts"
import type { Inside } from "./Inside.ts"

export interface Frozen {
  /** How many processes stand still, those included that stood still before. */
  readonly processes: number
  readonly thaw: () => Promise<void>
}

/** A round is one look and one signal, some 15 ms on a quiet machine. */
const rounds = 200
/** After so many rounds without rest they are let go once: a vfork parent cannot stop while its child was stopped before its exec. */
const restart = 40

const keyOf = ({ pid, startTime }: InsideProcess): string => `${pid}:${startTime}`

/** True when no thread of the process may run: stopped, traced and stopped, or dead (proc_pid_stat(5), field 3). */
export const standsStill = (procRoot: string, pid: number): boolean => {
  const tasks = `${procRoot}/${pid}/task`
  try {
    return fs.readdirSync(tasks).every((task) => {
      const stat = fs.readFileSync(`${tasks}/${task}/stat`, "latin1")
      return "TtZXx".includes(stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3))
    })
  } catch {
    // A thread or the process ended during the look: the next look tells.
    return !fs.existsSync(tasks)
  }
}

/** `entering`: a launcher is on its way in and not yet to be seen. Rejects with `ProcessesRunning`, or when `signal` is aborted. */
export const freeze = async (
  inside: Inside,
  at: { readonly workspace: string; readonly entering: () => boolean; readonly signal: AbortSignal | undefined }
): Promise<Frozen> => {
  const stopped = new Map<string, InsideProcess>()
  const thaw = async (): Promise<void> => {
    const there = new Set(inside.processes().map(keyOf))
    const again = [...stopped].filter(([key]) => there.has(key)).map(([, process]) => process.pid)
    stopped.clear()
    await inside.signal("CONT", again)
  }
  try {
    let calm = 0
    for (let round = 1; round <= rounds; round += 1) {
      at.signal?.throwIfAborted()
      const processes = inside.processes()
      const moving = processes.filter(({ pid }) => !standsStill(inside.procRoot, pid))
      // Seen at rest one after the other, the first may have been woken by the last; seen twice, nobody was left to wake it.
      calm = moving.length === 0 && !at.entering() ? calm + 1 : 0
      if (calm === 2) return { processes: processes.length, thaw }
      for (const process of moving) stopped.set(keyOf(process), process)
      if (moving.length > 0)
        await inside.signal(
          "STOP",
          moving.map(({ pid }) => pid)
        )
      else if (calm === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      if (round % restart === 0) await thaw()
    }
  } catch (error) {
    await thaw()
    throw error
  }
  await thaw()
  const processes = inside.processes().map(({ pid, command }) => ({ pid, command }))
  throw new ProcessesRunning({
    message: `${processes.length} processes inside the workspace could not be brought to a stop together.`,
    remedy:
      "They run on as before and nothing was captured. Repeat the call, or end what forks without rest or hangs in the kernel.",
    workspace: at.workspace,
    processes: processes.slice(0, 100)
  })
}
