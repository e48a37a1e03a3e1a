/**
 * The walk over the source of an import: names, types, modes, mtimes, link targets, hard-link keys; no content.
 * Promise: the source is only looked at; what cannot be taken along (sockets, devices, unreadable directories) is noted by
 * name with its reason, and nothing is left out silently. Rules: W13, W22, L15; C17, C18.
 */
import { lstatSync, readdirSync, readlinkSync } from "node:fs"
import { join as joinPath, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { ImportNote } from "../../src/workspace/WorkspaceProvider.ts"

export interface ScannedFile {
  readonly name: TreePath
  readonly path: TreePath
  readonly type: "file"
  mode: number
  mtimeNs: bigint
  size: number
  /** Set while reading; an entry without one is left out, with a note. */
  id: string | undefined
  /** Device and inode, when the file has more names than this one. */
  readonly inode: string | undefined
  /** False for a large file without allocated blocks: all zeros, not worth reading (C19). */
  readonly allocated: boolean
}

export interface ScannedLink {
  readonly name: TreePath
  readonly path: TreePath
  readonly type: "symlink"
  readonly mtimeNs: bigint
  readonly target: TreePath
}

export interface ScannedDirectory {
  readonly name: TreePath
  readonly path: TreePath
  readonly type: "directory"
  readonly mode: number
  readonly mtimeNs: bigint
  readonly entries: (ScannedFile | ScannedLink | ScannedDirectory)[]
}

export interface Scan {
  readonly root: ScannedDirectory
  readonly files: ScannedFile[]
  readonly directories: number
  readonly symlinks: number
  readonly bytes: number
  readonly notes: ImportNote[]
}

const specialKinds: ReadonlyMap<number, string> = new Map([
  [0o140000, "socket"],
  [0o010000, "fifo"],
  [0o020000, "character device"],
  [0o060000, "block device"]
])

/** Names under which secrets usually lie. They are kept, and listed so that nobody is surprised by an export (W13). */
const secretNames =
  /^(\.env(\.(?!example$|sample$|template$|dist$|defaults$).*)?|\.netrc|\.pypirc|\.git-credentials|\.npmrc|id_(rsa|dsa|ecdsa|ed25519)|credentials|.*\.(pem|key|p12|pfx|keystore|jks))$/

/** The link's target after following its own `..` parts by name, or undefined when it leads out of the root. */
const leavesRoot = (path: TreePath, target: TreePath, source: TreePath): boolean => {
  if (target.startsWith("/")) return target !== source && !target.startsWith(`${source}/`)
  let depth = path.split("/").length - 1
  for (const part of target.split("/")) {
    if (part === "..") depth -= 1
    else if (part !== "" && part !== ".") depth += 1
    if (depth < 0) return true
  }
  return false
}

/**
 * Walks `source`, an absolute real path as a byte string.
 * `onProgress` is called now and then and may throw to stop the walk.
 */
export const scan = (source: TreePath, onProgress: (files: number) => void): Scan => {
  const files: ScannedFile[] = []
  const notes: ImportNote[] = []
  let directories = 0
  let symlinks = 0
  let bytes = 0
  let seen = 0
  const note = (kind: ImportNote["kind"], path: TreePath, detail: string): void => {
    notes.push({ kind, path: show(path), detail })
  }
  const absolute = (path: TreePath): Buffer => Buffer.from(path === "" ? source : `${source}/${path}`, "latin1")

  const rootStat = lstatSync(absolute(""), { bigint: true })
  const root: ScannedDirectory = {
    name: "",
    path: "",
    type: "directory",
    mode: Number(rootStat.mode & 0o7777n),
    mtimeNs: rootStat.mtimeNs,
    entries: []
  }
  const open: ScannedDirectory[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    let names: string[]
    try {
      names = readdirSync(absolute(directory.path), { encoding: "latin1" })
    } catch (error) {
      note(
        "skippedUnreadable",
        directory.path,
        `the directory's entries cannot be read: ${(error as NodeJS.ErrnoException).code}`
      )
      continue
    }
    names.sort()
    for (const name of names) {
      const path = joinPath(directory.path, name)
      seen += 1
      if (seen % 2000 === 0) onProgress(seen)
      try {
        const stat = lstatSync(absolute(path), { bigint: true })
        const mode = Number(stat.mode & 0o7777n)
        const type = Number(stat.mode & 0o170000n)
        if (type === 0o100000) {
          if (name === ".git")
            note("gitPointerFile", path, "points to a git directory elsewhere, which is not part of this import")
          if (secretNames.test(name))
            note("likelySecret", path, "named like a file that holds secrets; it was imported")
          const size = Number(stat.size)
          const file: ScannedFile = {
            name,
            path,
            type: "file",
            mode,
            mtimeNs: stat.mtimeNs,
            size,
            id: undefined,
            inode: stat.nlink > 1n ? `${stat.dev}:${stat.ino}` : undefined,
            allocated: stat.blocks > 0n
          }
          directory.entries.push(file)
          files.push(file)
          bytes += size
        } else if (type === 0o040000) {
          const child: ScannedDirectory = { name, path, type: "directory", mode, mtimeNs: stat.mtimeNs, entries: [] }
          directory.entries.push(child)
          open.push(child)
          directories += 1
        } else if (type === 0o120000) {
          const target = readlinkSync(absolute(path), { encoding: "latin1" })
          if (leavesRoot(path, target, source)) {
            note(
              "linkLeavesRoot",
              path,
              "the link's target lies outside of the imported directory; it is kept as a link"
            )
          }
          directory.entries.push({ name, path, type: "symlink", mtimeNs: stat.mtimeNs, target })
          symlinks += 1
        } else {
          note("skippedSpecialFile", path, `not imported: ${specialKinds.get(type) ?? "unknown file type"}`)
        }
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code
        if (code === undefined) throw error
        if (code === "ENOENT") note("changedWhileRead", path, "vanished while the directory was read; not imported")
        else note("skippedUnreadable", path, `not imported: ${code}`)
      }
    }
  }
  return { root, files, directories, symlinks, bytes, notes }
}
