/**
 * Looks for what a run left behind: mounts and processes that name its record, temporary directories. Reads /proc; what this user may not read of other users' processes is not ours and is passed over.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs"
import { join } from "node:path"

export interface Leftovers {
  readonly mounts: readonly string[]
  readonly processes: readonly string[]
  readonly directories: readonly string[]
}

const read = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return ""
  }
}

/**
 * Sends this process's temporary directories into the record, so that whatever is left there afterwards is ours; the
 * returned function looks, and removes that directory when it is empty.
 */
export const watchLeftovers = (record: string): (() => Leftovers) => {
  const temporary = join(record, "tmp")
  mkdirSync(temporary, { recursive: true, mode: 0o700 })
  process.env["TMPDIR"] = temporary
  return () => {
    const mounts = new Set<string>()
    const processes: string[] = []
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      if (Number(pid) === process.pid) continue
      for (const line of read(`/proc/${pid}/mountinfo`).split("\n")) {
        if (line.includes(record)) mounts.add(line.split(" ").slice(3, 5).join(" on "))
      }
      const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim()
      const environment = read(`/proc/${pid}/environ`)
      // The parents that started the demo (npm, sh) name the record when it was given as an option: they are not ours.
      const isAncestor = ancestors().has(Number(pid))
      if (!isAncestor && (command.includes(record) || environment.includes(`COPPICE_RECORD=${record}`))) {
        processes.push(`${pid} ${command.slice(0, 120)}`)
      }
    }
    // npm lets Node keep compiled code in the temporary directory: not ours, and not a leftover of a run.
    rmSync(join(temporary, "node-compile-cache"), { recursive: true, force: true })
    const directories = readdirSync(temporary).map((name) => join(temporary, name))
    if (directories.length === 0) rmdirSync(temporary)
    return { mounts: [...mounts], processes, directories }
  }
}

const ancestors = (): Set<number> => {
  const found = new Set<number>()
  let pid = process.ppid
  while (pid > 1 && !found.has(pid)) {
    found.add(pid)
    const stat = read(`/proc/${pid}/stat`)
    pid = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? 0)
  }
  return found
}
