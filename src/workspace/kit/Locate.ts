/**
 * Tells before a start whether a program is there, as the inside of a workspace sees it.
 * Promise: an absent program is found out before a process is made; the last word stays with the kernel. Rules: 00 principle 4.
 */
import * as fs from "node:fs"
import { machinePath } from "../../base/MachinePath.ts"
import type { Holder } from "./Holder.ts"

const present = (path: string): boolean => fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** Looks at names only: a link's target may exist inside and not outside. A relative path with a slash is left to the kernel. */
export const locate = (holder: Holder, program: string, path = machinePath() ?? "/usr/bin:/bin"): boolean => {
  const root = `/proc/${holder.innerPid}/root`
  try {
    if (program.startsWith("/")) return present(root + program)
    if (program.includes("/")) return true
    return path.split(":").some((directory) => !directory.startsWith("/") || present(`${root}${directory}/${program}`))
  } catch {
    return true
  }
}
