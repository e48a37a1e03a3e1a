/**
 * A private `/dev`: a read-only directory of ours with the harmless nodes bound into it, a new devpts and a private shm.
 * Promise: nothing inside a workspace can remove, replace or reach a device node of the machine: the names it sees are ours.
 * Root owns the real `/dev`, so without this `rm` inside would take the machine's nodes. Rules: W17.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/** Nodes that hold no state and no data of anybody (what a container runtime gives, too). */
const harmless = ["null", "zero", "full", "random", "urandom", "tty"]
const links = {
  fd: "/proc/self/fd",
  stdin: "/proc/self/fd/0",
  stdout: "/proc/self/fd/1",
  stderr: "/proc/self/fd/2",
  ptmx: "pts/ptmx"
} as const

export interface PrivateDevices {
  /** The directory that becomes `/dev`. */
  readonly directory: string
  /** Names of nodes to bind from the real `/dev`. */
  readonly nodes: readonly string[]
}

const isMissing = (at: string): boolean => fs.lstatSync(at, { throwIfNoEntry: false }) === undefined

/** Makes the directory when it is not there; it is the same for every workspace of a store and is mounted read-only. */
export const privateDevices = (parent: string): PrivateDevices => {
  const directory = path.join(parent, "dev")
  for (const name of ["", "pts", "shm"]) fs.mkdirSync(path.join(directory, name), { recursive: true, mode: 0o755 })
  const nodes = harmless.filter((name) => fs.statSync(`/dev/${name}`, { throwIfNoEntry: false })?.isCharacterDevice())
  // A mount point for each node: an empty file, which nobody sees as long as the node is bound over it.
  for (const name of nodes) fs.closeSync(fs.openSync(path.join(directory, name), "a", 0o600))
  for (const [name, target] of Object.entries(links)) {
    const at = path.join(directory, name)
    if (!isMissing(at)) continue
    try {
      fs.symlinkSync(target, at)
    } catch (error) {
      // Another workspace opened at this very moment.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
  }
  return { directory, nodes }
}
