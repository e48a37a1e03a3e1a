/**
 * The directory of a provider in a store.
 * Promise: each is ours alone (own uid and gid, mode 0700, no inherited setgid bit), on a local file system, and verified
 * after it was made; anything else is `StoreLocation` before a byte is stored. Rules: 01 "On disk"; L12 (network refused).
 */
import {
  accessSync,
  chmodSync,
  chownSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  closeSync,
  constants,
  realpathSync,
  statfsSync
} from "node:fs"
import { join, resolve } from "node:path"
import { makeDirectories } from "../../base/MakeDirectories.ts"
import { StoreLocation } from "../WorkspaceError.ts"

/** File system types whose locks or fsync cannot be relied on, by the magic number of statfs(2). */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x01021997, "9p"],
  [0x5346414f, "afs"],
  [0x6b414653, "afs"],
  [0x73757245, "coda"],
  [0x00c36400, "ceph"],
  [0x47504653, "gpfs"],
  [0x0bd00bd0, "lustre"],
  [0x7461636f, "ocfs2"]
])

/** The name of a network file system, or undefined for a local one. `type` is statfs(2)'s f_type, perhaps sign-extended. */
export const networkFileSystem = (type: number): string | undefined => networkFileSystems.get(type >>> 0)

const refuse = (path: string, message: string, remedy: string): never => {
  throw new StoreLocation({ message, remedy, path })
}

const verify = (path: string): void => {
  const stat = lstatSync(path)
  const wrong =
    !stat.isDirectory() ||
    stat.uid !== process.geteuid?.() ||
    stat.gid !== process.getegid?.() ||
    (stat.mode & 0o7777) !== 0o700
  if (wrong) {
    refuse(
      path,
      "A directory of the store does not belong to this user and group alone, with mode 0700.",
      "Give a store directory on a local disk that this user owns, outside of shared or setgid directories."
    )
  }
}

/** Root may write whatever the mode says, and nobody on a read-only file system. */
const checkWritable = (path: string): void => {
  try {
    accessSync(path, constants.W_OK)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    refuse(
      path,
      `The store cannot be written (${code}).`,
      "Mount its file system read-write and give its directories back to this user, or give another store directory."
    )
  }
}

/** Makes one directory of the store, or checks the one that is there. */
export const makePrivateDirectory = (path: string): void => {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === "EEXIST") return verify(path)
    refuse(
      path,
      `A directory of the store cannot be made (${code}).`,
      "Give a store directory that this user can write to."
    )
  }
  // Below a setgid directory the new one inherits group and bit: take both back.
  chownSync(path, process.geteuid?.() ?? -1, process.getegid?.() ?? -1)
  chmodSync(path, 0o700)
  verify(path)
}

/** Flushes a directory's own entries. */
export const syncDirectory = (path: string | Buffer): void => {
  const fd = openSync(path, "r")
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Makes or checks the directory of a provider in the store at `store` (made too when missing), and those below it.
 * Answers its real path. Throws `StoreLocation`.
 */
export const openProviderDirectory = (store: string, provider: string, below: readonly string[]): string => {
  try {
    makeDirectories(resolve(store), 0o700)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    refuse(store, `The store's directory cannot be made (${code}).`, "Give a directory that this user can write to.")
  }
  const real = realpathSync(store)
  const network = networkFileSystem(Number(statfsSync(real).type))
  if (network !== undefined) {
    refuse(
      store,
      `The store would lie on a network file system (${network}).`,
      "Give a store directory on a local disk."
    )
  }
  const root = join(real, provider)
  for (const path of [root, ...below.map((name) => join(root, name))]) {
    makePrivateDirectory(path)
    checkWritable(path)
  }
  return root
}
