/**
 * Which process is meant: a pid with its start time, the machine's boot and the pid namespace it was seen from.
 * Promise: a reused pid is never taken for the process that had it; what cannot be observed is "unknown", never "dead".
 * Rules: S20, G81. Linux reads /proc; elsewhere only what `ps` tells, and the rest stays null.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, readlinkSync } from "node:fs"
import type { ProcessIdentity } from "./Spawn.ts"

export type { ProcessIdentity } from "./Spawn.ts"

const linux = process.platform === "linux"

const orNull = <A>(read: () => A): A | null => {
  try {
    return read()
  } catch {
    return null
  }
}

const bootId = (): string | null =>
  linux ? orNull(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()) : null

/** The inode of a pid namespace, as `pid:[4026531836]`. A process of another user may hide it. */
const namespaceOf = (pid: number | "self"): string | null =>
  linux ? orNull(() => readlinkSync(`/proc/${pid}/ns/pid`)) : null

interface Seen {
  readonly startTime: string
  readonly zombie: boolean
}

/** What /proc/PID/stat says, or null when there is no such process. The name in field 2 may hold spaces and brackets. */
const seenOnLinux = (pid: number): Seen | null => {
  const stat = orNull(() => readFileSync(`/proc/${pid}/stat`, "utf8"))
  if (stat === null) return null
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const startTime = fields[19]
  return startTime === undefined ? null : { startTime, zombie: fields[0] === "Z" || fields[0] === "X" }
}

const seenElsewhere = (pid: number): Seen | null => {
  const line = orNull(() =>
    execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8", timeout: 2000 }).trim()
  )
  if (line === null || line === "") return null
  const space = line.indexOf(" ")
  return { startTime: line.slice(space + 1).trim(), zombie: line.startsWith("Z") }
}

const seen = linux ? seenOnLinux : seenElsewhere

/** The identity of a running process, null when there is none with this pid. */
export const identify = (pid: number): ProcessIdentity | null => {
  const now = seen(pid)
  if (now === null || now.zombie) return null
  return { pid, startTime: now.startTime, bootId: bootId(), pidNamespace: namespaceOf(pid) }
}

/**
 * The identity of a process under a pid of our own namespace, whatever namespace it lives in: the one by which `isAlive`
 * can tell later, from here, that it has ended. A child of a nested pid namespace is recorded this way.
 */
export const identifyFromHere = (pid: number): ProcessIdentity | null => {
  const identity = identify(pid)
  return identity === null ? null : { ...identity, pidNamespace: namespaceOf("self") }
}

/** The identity of this process. */
export const currentIdentity = (): ProcessIdentity => ({
  pid: process.pid,
  startTime: seen(process.pid)?.startTime ?? null,
  bootId: bootId(),
  pidNamespace: namespaceOf("self")
})

/**
 * Whether the process of an identity still runs. A zombie has ended. "unknown" when it was seen from another pid
 * namespace of this boot, where its pid means nothing to us, or when its start time was never known.
 */
export const isAlive = (identity: ProcessIdentity): boolean | "unknown" => {
  const boot = bootId()
  if (identity.bootId !== null && boot !== null && identity.bootId !== boot) return false
  const here = namespaceOf("self")
  if (identity.pidNamespace !== null && here !== null && identity.pidNamespace !== here) {
    // A child that leads a namespace of its own is still visible here under the pid that we recorded.
    const now = identify(identity.pid)
    if (now !== null && now.startTime === identity.startTime && now.pidNamespace === identity.pidNamespace) return true
    return "unknown"
  }
  const now = seen(identity.pid)
  if (now === null || now.zombie) return false
  if (identity.startTime === null) return "unknown"
  return now.startTime === identity.startTime
}
