/**
 * Looks after the process that leads into the namespaces while its command runs.
 * Promise: a command that was stopped and goes on, goes on for its caller too. Rules: W9, W19.
 *
 * nsenter stops itself whenever the process that it started is stopped (nsenter.c, continue_as_child), and nothing that happens
 * inside wakes it again: the command's end would never be heard of.
 */
import * as fs from "node:fs"
import { childOf } from "./Holder.ts"

/** Milliseconds between two looks: one line of /proc each. */
const interval = 100

export const stateOf = (pid: number): string => {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    return stat[stat.lastIndexOf(")") + 2] ?? ""
  } catch {
    return ""
  }
}

/** Wakes a stopped launcher whose command is not stopped. Returns what ends the watch. */
export const watchLauncher = (launcher: number): (() => void) => {
  const timer = setInterval(() => {
    if (stateOf(launcher) !== "T") return
    const command = childOf(launcher)
    if (command !== undefined && "Tt".includes(stateOf(command))) return
    try {
      process.kill(launcher, "SIGCONT")
    } catch {
      // It ended in this very moment.
    }
  }, interval)
  timer.unref()
  return () => clearInterval(timer)
}
