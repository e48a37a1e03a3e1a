/**
 * Removes a directory tree of ours, whatever modes an attempt has left in it.
 * Promise: never follows a link, never leaves the tree; a directory without rights is opened up first, which its owner
 * always may. For trees that nobody has mounted any more. Rules: W12, C33.
 */
import * as fs from "node:fs/promises"

/** Somebody else may be removing the same tree: what is gone already is no failure. */
const unlessGone = async <A>(done: Promise<A>): Promise<A | undefined> =>
  done.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined
    throw error
  })

/** Removing what is not there is done already. */
export const removeTree = async (path: string): Promise<void> => removeAt(Buffer.from(path))

const removeAt = async (path: Buffer): Promise<void> => {
  const stat = await unlessGone(fs.lstat(path))
  if (stat === undefined) return
  if (!stat.isDirectory()) return unlessGone(fs.unlink(path))
  if ((stat.mode & 0o700) !== 0o700) await unlessGone(fs.chmod(path, 0o700))
  const slash = Buffer.from("/")
  const names = (await unlessGone(fs.readdir(path, { encoding: "buffer" }))) ?? []
  for (const name of names) await removeAt(Buffer.concat([path, slash, name]))
  await unlessGone(fs.rmdir(path))
}
