/**
 * What Linux says about the processes of this machine: rows of `/proc/PID/stat`.
 * Promise: observation only; a process that cannot be read is `null`, and a machine without `/proc` gives no rows rather
 * than a guess (`hasProcessTable`). Zombies are rows too: their state tells. Rules: S20, S23, G81.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs"

/** One process, as in proc(5), "/proc/pid/stat". */
export interface ProcessRow {
  readonly pid: number
  /** One letter: R, S, D, T, Z (zombie), X (dead) and so on. */
  readonly state: string
  readonly parent: number
  readonly group: number
  readonly session: number
  /** Field 22: start time in clock ticks since boot. With the pid it never repeats within one boot. */
  readonly startTime: string
}

/** False where there is no `/proc` to read (macOS): then nothing here can prove anything. */
export const hasProcessTable = (): boolean => existsSync("/proc/self/stat")

/** The row of one process, or null when there is none (any more) or it may not be read. */
export const readProcess = (pid: number): ProcessRow | null => {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1")
  } catch {
    return null
  }
  // The second field is the program's name in parentheses and may itself hold spaces and parentheses: cut at the last one.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const [state, parent, group, session] = fields
  const startTime = fields[19]
  if (state === undefined || startTime === undefined) return null
  return { pid, state, parent: Number(parent), group: Number(group), session: Number(session), startTime }
}

/** Every process that can be seen. */
export const listProcesses = (): readonly ProcessRow[] => {
  const rows: ProcessRow[] = []
  let names: readonly string[]
  try {
    names = readdirSync("/proc")
  } catch {
    return rows
  }
  for (const name of names) {
    if (!/^\d+$/.test(name)) continue
    const row = readProcess(Number(name))
    if (row !== null) rows.push(row)
  }
  return rows
}

/** True for a process that can still do something: a zombie has only its exit status left. */
export const isRunning = (row: ProcessRow): boolean => row.state !== "Z" && row.state !== "X"

/** Direct children from /proc/PID/task/TID/children; null where the kernel was built without it (CONFIG_PROC_CHILDREN). */
const listedChildren = (pid: number): readonly number[] | null => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").split(" ").filter(Boolean).map(Number)
    )
  } catch {
    return null
  }
}

/** The children of a process, without a look at every process of the machine where the kernel can tell. */
export const childrenOf = (pid: number): readonly number[] =>
  listedChildren(pid) ??
  listProcesses()
    .filter((row) => row.parent === pid)
    .map((row) => row.pid)

/** The descendants of a process by parent links, the process itself left out. */
export const descendantsOf = (pid: number): readonly number[] => {
  const found: number[] = []
  const queue = [pid]
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const children = childrenOf(next)
    found.push(...children)
    queue.push(...children)
  }
  return found
}

/** The value of one variable in a process's initial environment; null when it has none or may not be read. */
export const readVariable = (pid: number, name: string): string | null => {
  try {
    const entry = readFileSync(`/proc/${pid}/environ`, "latin1")
      .split("\0")
      .find((line) => line.startsWith(`${name}=`))
    return entry === undefined ? null : entry.slice(name.length + 1)
  } catch {
    return null
  }
}
