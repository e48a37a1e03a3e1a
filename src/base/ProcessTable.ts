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

/** The descendants of `ancestor` by parent links, `ancestor` itself left out. */
export const descendantsOf = (ancestor: number, rows: readonly ProcessRow[]): readonly ProcessRow[] => {
  const byParent = new Map<number, ProcessRow[]>()
  for (const row of rows) {
    const siblings = byParent.get(row.parent)
    if (siblings === undefined) byParent.set(row.parent, [row])
    else siblings.push(row)
  }
  const found: ProcessRow[] = []
  const queue = [ancestor]
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    for (const child of byParent.get(next) ?? []) {
      found.push(child)
      queue.push(child.pid)
    }
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
