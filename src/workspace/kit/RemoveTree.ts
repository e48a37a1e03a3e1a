/**
 * Removes a directory tree of ours, whatever modes and depths an attempt has left in it.
 * Promise: never follows a link, never leaves the tree; a directory without rights is opened up first, which its owner
 * always may; no depth is too deep for it. For trees that nobody has mounted any more. Rules: W4, W12, C33.
 */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs/promises"

/** Somebody else may be removing the same tree: what is gone already is no failure. */
const unlessGone = async <A>(done: Promise<A>): Promise<A | undefined> =>
  done.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined
    throw error
  })

const slash = Buffer.from("/")
const owner = Buffer.from("owner")

/** A directory whose path is longer than this below the root is first moved up to it: paths stay short and quick to walk (PATH_MAX). */
const deepest = 400

/**
 * Removing what is not there is done already. The file `owner` of a workspace, which says who made it, goes last: by it a later
 * sweep knows what a process that was killed on the way has left.
 */
export const removeTree = async (path: string | Buffer): Promise<void> => {
  const root = typeof path === "string" ? Buffer.from(path) : path
  /** Directories below the root that gained names while they were emptied. */
  const gained = new Set<string>()
  /** Moves it up as far as it goes: to the root, or to the top of the file system or subvolume that it lies in. */
  const raise = async (deep: Buffer, to = root): Promise<void> => {
    const name = Buffer.from(`.removing-${randomBytes(8).toString("hex")}`)
    try {
      await unlessGone(fs.rename(deep, Buffer.concat([to, slash, name])))
      gained.add(to.toString("latin1"))
    } catch (error) {
      const next = deep.indexOf(slash, to.length + 1)
      if ((error as NodeJS.ErrnoException).code !== "EXDEV" || next < 0) throw error
      await raise(deep, deep.subarray(0, next))
    }
  }
  const empty = async (directory: Buffer): Promise<void> => {
    const names = (await unlessGone(fs.readdir(directory, { encoding: "buffer" }))) ?? []
    const last = directory === root ? names.findIndex((name) => name.equals(owner)) : -1
    if (last >= 0) names.push(...names.splice(last, 1))
    for (const name of names) await remove(Buffer.concat([directory, slash, name]))
  }
  const remove = async (at: Buffer): Promise<void> => {
    const stat = await unlessGone(fs.lstat(at))
    if (stat === undefined) return
    if (!stat.isDirectory()) return unlessGone(fs.unlink(at))
    if ((stat.mode & 0o700) !== 0o700) await unlessGone(fs.chmod(at, 0o700))
    if (at.length > root.length + deepest) return raise(at)
    await empty(at)
    // What was moved up into it from the depth meanwhile comes next.
    if (!(await isGone(at)) && (at === root || gained.delete(at.toString("latin1")))) await remove(at)
  }
  await remove(root)
}

/** False when something is in it (again). */
const isGone = async (directory: Buffer): Promise<boolean> =>
  unlessGone(fs.rmdir(directory)).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOTEMPTY" || error.code === "EEXIST") return false
      throw error
    }
  )
