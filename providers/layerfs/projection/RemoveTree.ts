/**
 * Removes a directory tree of ours, whatever modes an attempt has left in it.
 * Promise: never follows a link, never leaves the tree; a directory without rights is opened up first, which its owner
 * always may. For trees that nobody has mounted any more. Rules: W12, C33.
 */
import * as fs from "node:fs/promises"

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

/** Removing what is not there is done already. */
export const removeTree = async (path: string): Promise<void> => removeAt(Buffer.from(path))

const removeAt = async (path: Buffer): Promise<void> => {
  const stat = await fs.lstat(path).catch((error) => {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  })
  if (stat === undefined) return
  if (!stat.isDirectory()) return fs.unlink(path)
  if ((stat.mode & 0o700) !== 0o700) await fs.chmod(path, 0o700)
  const slash = Buffer.from("/")
  for (const name of await fs.readdir(path, { encoding: "buffer" })) await removeAt(Buffer.concat([path, slash, name]))
  await fs.rmdir(path)
}
