/**
 * Who writes a pack: a process named so that a later one can tell whether it still lives.
 * Promise: "dead" is said only of a process of this boot and pid namespace that was looked for and not found, or of an
 * earlier boot; whatever cannot be seen counts as alive. Rules: L8, L12; principle 1 (unknown stays unknown).
 */
import { randomBytes } from "node:crypto"
import { readFileSync, readlinkSync } from "node:fs"

const readBootId = (): string => {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
  } catch {
    return "unknown"
  }
}

const readPidNamespace = (): string => {
  try {
    return readlinkSync("/proc/self/ns/pid")
  } catch {
    return "unknown"
  }
}

/** Field 22 of /proc/PID/stat (proc(5)); the command may hold blanks and brackets, so count from the last bracket. */
const startTime = (pid: number): string | undefined => {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : "unknown"
  }
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "unknown"
}

/** An identity for one opened store of this process, as it is kept in the index. */
export const writerIdentity = (): string =>
  [
    process.pid,
    startTime(process.pid) ?? "unknown",
    readBootId(),
    readPidNamespace(),
    randomBytes(8).toString("hex")
  ].join(" ")

/** True when the writer is known to be gone. */
export const isDead = (identity: string): boolean => {
  const [pid = "", start = "", boot = "", namespace = ""] = identity.split(" ")
  const ourBoot = readBootId()
  if (boot === "unknown" || ourBoot === "unknown") return false
  if (boot !== ourBoot) return true
  if (namespace !== readPidNamespace()) return false
  const now = startTime(Number(pid))
  if (now === undefined) return true
  return now !== "unknown" && start !== "unknown" && now !== start
}
