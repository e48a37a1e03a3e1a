/**
 * Where the authority file lies, and that it is ours alone.
 * Promise: directory 0700 and file 0600, of this user, on a local file system; else `AuthorityLocation` with the remedy,
 * before anything is written. Rules: 01 "On disk"; G8.
 */
import { chmodSync, closeSync, lstatSync, openSync, statfsSync } from "node:fs"
import { join, resolve } from "node:path"
import * as Schema from "effect/Schema"
import { errorFields } from "../../src/base/CoppiceError.ts"
import { makeDirectories } from "../../src/base/MakeDirectories.ts"

/** The directory cannot hold an authority: of another user, on a network, not a directory, not writable. */
export class AuthorityLocation extends Schema.TaggedError<AuthorityLocation>()("AuthorityLocation", {
  ...errorFields("AUTHORITY_LOCATION"),
  why: Schema.Literals(["notDirectory", "otherOwner", "network", "notWritable", "notFile"])
}) {}

/** statfs(2) magic numbers of network file systems, where SQLite's locks and shared memory are not to be trusted. */
const network = new Map<number, string>([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x517b, "SMB"],
  [0x01021997, "9P"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"]
])

const refuse = (why: AuthorityLocation["why"], message: string, remedy: string) =>
  new AuthorityLocation({ message, remedy, why })

const uid = process.getuid?.() ?? -1

const unwritable = (what: string, error: unknown): AuthorityLocation =>
  refuse(
    "notWritable",
    `${what} cannot be created or opened (${(error as NodeJS.ErrnoException).code ?? "error"}).`,
    "Give a directory that this user may write, on a disk that is not read-only."
  )

/** Makes the directory and the empty file where they are missing; returns the file's path. */
export const prepareLocation = (directory: string): string => {
  try {
    makeDirectories(resolve(directory), 0o700)
  } catch (error) {
    throw unwritable("The authority's directory", error)
  }
  const info = lstatSync(directory)
  if (!info.isDirectory()) {
    throw refuse(
      "notDirectory",
      "The authority's place is not a directory.",
      "Give a real directory, not a link or a file."
    )
  }
  if (uid >= 0 && info.uid !== uid) {
    throw refuse("otherOwner", "The authority's directory belongs to another user.", "Give a directory of this user.")
  }
  const kind = network.get(Number(statfsSync(directory).type))
  if (kind !== undefined) {
    throw refuse("network", `The authority's directory is on ${kind}.`, "Give a directory on a local disk.")
  }
  const file = join(directory, "authority.db")
  try {
    // Group and other bits go; an inherited setgid bit too (01, On disk).
    if ((info.mode & 0o7077) !== 0) chmodSync(directory, 0o700)
    closeSync(openSync(file, "a", 0o600))
  } catch (error) {
    throw unwritable("The authority's file", error)
  }
  return file
}
