/**
 * The judge's own files: hashed before and after each verdict, and laid over a checkout where the judge wants them there.
 * Promise: what is laid over never leaves the checkout, whatever links a candidate's patch has put in its way.
 * Rules: G71 (a change voids the verdict), E16, W21.
 */
import { createHash } from "node:crypto"
import { constants } from "node:fs"
import { copyFile, lstat, mkdir, readdir, readFile, readlink, rm, symlink } from "node:fs/promises"
import { join } from "node:path"
import { type Digest, sha256 } from "../base/Digest.ts"

/** A digest over every file of a directory: names, types, contents and link targets. */
export const directoryDigest = async (directory: string): Promise<Digest> => {
  const digest = createHash("sha256")
  const walk = async (relative: string): Promise<void> => {
    const entries = await readdir(join(directory, relative), { withFileTypes: true })
    entries.sort((a, b) => (a.name < b.name ? -1 : 1))
    for (const entry of entries) {
      const path = join(relative, entry.name)
      if (entry.isDirectory()) {
        digest.update(JSON.stringify(["d", path]))
        await walk(path)
      } else if (entry.isSymbolicLink()) {
        digest.update(JSON.stringify(["l", path, await readlink(join(directory, path))]))
      } else if (entry.isFile()) {
        digest.update(JSON.stringify(["f", path, sha256(await readFile(join(directory, path)))]))
      }
    }
  }
  await walk("")
  return `sha256:${digest.digest("hex")}`
}

/** A real directory at this path: a link or a file that stands there instead is removed first. */
const ownDirectory = async (path: string): Promise<void> => {
  const found = await lstat(path).catch(() => null)
  if (found?.isDirectory() === true) return
  if (found !== null) await rm(path, { force: true })
  await mkdir(path)
}

/** Puts every file of `from` at the same path below `checkout`, replacing what is there. Nothing else is removed. */
export const layOver = async (from: string, checkout: string): Promise<void> => {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(checkout, entry.name)
    if (entry.isDirectory()) {
      await ownDirectory(target)
      await layOver(source, target)
      continue
    }
    await rm(target, { recursive: true, force: true })
    if (entry.isSymbolicLink()) await symlink(await readlink(source), target)
    else if (entry.isFile()) await copyFile(source, target, constants.COPYFILE_EXCL)
  }
}
