/**
 * Who writes a pack: one opened store of one process, named so that a later one can tell whether it still lives.
 * Promise: "dead" is said only of a process that is known to be gone; whatever cannot be seen counts as alive.
 * Rules: L8, L12; principle 1 (unknown stays unknown).
 */
import { randomBytes } from "node:crypto"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { currentIdentity, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"

interface Writer extends ProcessIdentity {
  /** Tells two stores opened by one process apart. */
  readonly token: string
}

/** As it is kept in the index. */
export const writerIdentity = (): string =>
  JSON.stringify({ ...currentIdentity(), token: randomBytes(8).toString("hex") } satisfies Writer)

/** True when the writer is known to be gone. `root` is the directory of LayerFS in the store. */
export const isDead = (root: string, identity: string): boolean =>
  isAliveIn(root, JSON.parse(identity) as Writer) === false

/** The identity as part of a file name, for scratch directories that the next opening must be able to judge. */
export const scratchName = (prefix: string): string =>
  `${prefix}-${Buffer.from(writerIdentity()).toString("base64url")}`

/** True when the scratch directory of this name was made by a writer that is known to be gone. */
export const isAbandonedScratch = (root: string, prefix: string, name: string): boolean => {
  if (!name.startsWith(`${prefix}-`)) return false
  try {
    return isDead(root, Buffer.from(name.slice(prefix.length + 1), "base64url").toString("utf8"))
  } catch {
    return false
  }
}
