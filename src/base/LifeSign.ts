/**
 * A sign in a directory that a process lives: a fifo that it keeps open for reading, which the kernel closes with the process.
 * Promise: a process that may live is never taken for dead; one that was killed in another pid namespace of this boot (a container) is
 * known to be dead as long as its sign lies there. Where no sign can be had, it is unknown, as ever. Rules: S20, L12, W12, W23.
 *
 * Opening a fifo to write without waiting is refused with ENXIO when nobody has it open (fifo(7)), whatever namespaces the two are in.
 * A lock would not do: a process loses its POSIX locks on a file when any part of it closes that file, a copy for a backup for example.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { machinePath } from "./MachinePath.ts"
import { currentIdentity, isAlive, type ProcessIdentity } from "./ProcessIdentity.ts"

const place = (root: string): string => path.join(root, "alive")

/** Whose sign it is: the part of its name before the dot. */
const nameOf = ({ pid, startTime, bootId, pidNamespace }: ProcessIdentity): string =>
  [pid, startTime, pidNamespace?.replace(/\D/g, ""), bootId?.replaceAll("-", "")].join("-")

const ownerOf = (name: string): ProcessIdentity | undefined => {
  const [, pid, startTime, namespace, boot] =
    /^(?:\.new-)?(\d+)-(\d+)-(\d+)-([0-9a-f]{8}[0-9a-f]{24})\./.exec(name) ?? []
  if (boot === undefined) return undefined
  const bootId = boot.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  return { pid: Number(pid), startTime: startTime!, bootId, pidNamespace: `pid:[${namespace}]` }
}

const namesIn = (root: string): readonly string[] => {
  try {
    return fs.readdirSync(place(root))
  } catch {
    return []
  }
}

/** Of one sign: false when nobody has it open. */
const isHeld = (sign: string): boolean | "unknown" => {
  try {
    fs.closeSync(fs.openSync(sign, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK | fs.constants.O_NOFOLLOW))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENXIO" ? false : "unknown"
  }
}

/** As `isAlive`, also by the signs in a store's directory `root`. */
export const isAliveIn = (root: string, identity: ProcessIdentity): boolean | "unknown" => {
  const known = isAlive(identity)
  if (known !== "unknown" || identity.startTime === null) return known
  const signs = namesIn(root).filter((name) => name.startsWith(`${nameOf(identity)}.`))
  const held = signs.map((name) => isHeld(path.join(place(root), name)))
  if (held.includes(true)) return true
  return held.length === 0 || held.includes("unknown") ? "unknown" : false
}

const makeFifo = (at: string): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn("mkfifo", ["-m", "600", at], { stdio: "ignore", env: { PATH: machinePath() } })
    child.once("error", () => resolve(false))
    child.once("close", (code) => resolve(code === 0))
  })

/** Signs that nobody needs any more: of an earlier boot, and of dead processes whose pid tells that by itself. */
const sweep = (root: string): void => {
  for (const name of namesIn(root)) {
    const owner = ownerOf(name)
    if (owner !== undefined && isAlive(owner) === false) fs.rmSync(path.join(place(root), name), { force: true })
  }
}

/**
 * Shows in `root` that this process lives, until the answer is called or the process ends. Only Linux has namespaces; where a fifo cannot
 * be made there is no sign.
 */
export const showLife = async (root: string): Promise<() => void> => {
  const self = currentIdentity()
  if (self.pidNamespace === null || self.startTime === null || self.bootId === null) return () => undefined
  const name = `${nameOf(self)}.${randomUUID()}`
  const made = path.join(place(root), `.new-${name}`)
  const sign = path.join(place(root), name)
  try {
    fs.mkdirSync(place(root), { recursive: true, mode: 0o700 })
    sweep(root)
    if (!(await makeFifo(made))) return () => undefined
    // A sign that nobody has open yet would say that its process is dead.
    const descriptor = fs.openSync(made, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    fs.renameSync(made, sign)
    let shown = true
    return () => {
      // Once: the number may be another file's by then.
      if (!shown) return
      shown = false
      fs.rmSync(sign, { force: true })
      fs.closeSync(descriptor)
    }
  } catch {
    // A full disk, or a store that is gone: whoever needs the store says so.
    return () => undefined
  }
}
