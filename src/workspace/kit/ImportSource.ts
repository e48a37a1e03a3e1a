/**
 * The directory that an import is asked for, and why it may be refused.
 * Promise: a target inside the source, or the reverse, is refused before anything is read, and so is what holds no files. Rules: W13; C8.
 */
import { realpathSync, statfsSync, statSync } from "node:fs"
import { show, type TreePath } from "../../base/PathBytes.ts"
import { ImportRefused } from "../WorkspaceError.ts"

const refusals: Readonly<Record<ImportRefused["reason"], readonly [string, string]>> = {
  notFound: ["The directory to import does not exist.", "Give the path of an existing directory."],
  notADirectory: ["What is to be imported is not a directory.", "Give the path of a directory."],
  storeInside: [
    "The store lies inside the directory to import.",
    "Put the store outside of every imported directory, and take away the one that was made here."
  ],
  insideStore: ["The directory to import lies inside the store.", "Import a directory outside of the store."],
  notFiles: [
    "The directory to import is a view of the kernel's (proc, sysfs or their like) and holds no files.",
    "Give a directory of files."
  ],
  unreadable: ["The directory to import cannot be read.", "Give this user read and search permission on it."],
  changing: ["The directory to import keeps changing.", "Stop what writes to it, then import again."],
  cancelled: ["The import was cancelled.", "Nothing was stored. Import again when wanted."],
  notARepository: ["The directory to import is not the top of a git repository.", "Give the top of one with a commit."],
  unsupportedRepository: ["This kind of repository cannot be imported here.", "Import it with another provider."]
}

export const refuseImport = (reason: ImportRefused["reason"], path: TreePath): ImportRefused =>
  new ImportRefused({ message: refusals[reason][0], remedy: refusals[reason][1], reason, path: show(path).path })

/** Magic numbers of statfs(2): proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs, devpts, pstore, configfs, bpf. */
const views = new Set([
  0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163, 0x73636673, 0x1cd1, 0x6165676c, 0x62656570,
  0xcafe4a11
])

const isInside = (inner: string, outer: string): boolean =>
  inner === outer || inner.startsWith(outer === "/" ? "/" : `${outer}/`)

/** The real path of the source, after all checks. Throws `ImportRefused`. */
export const checkSource = (source: TreePath, storeRoot: string): TreePath => {
  let real: TreePath
  try {
    const bytes = Buffer.from(source, "latin1")
    if (!statSync(bytes).isDirectory()) throw refuseImport("notADirectory", source)
    real = realpathSync(bytes, { encoding: "latin1" })
    if (views.has(Number(statfsSync(bytes).type) >>> 0)) throw refuseImport("notFiles", source)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === "ENOENT") throw refuseImport("notFound", source)
    if (code === "ENOTDIR") throw refuseImport("notADirectory", source)
    if (code === "EACCES") throw refuseImport("unreadable", source)
    throw error
  }
  const store = Buffer.from(storeRoot, "utf8").toString("latin1")
  if (isInside(real, store)) throw refuseImport("insideStore", source)
  if (isInside(store, real)) throw refuseImport("storeInside", source)
  return real
}
