/**
 * The walk over the source of an import: names, types, modes, mtimes, link targets, hard-link keys; no content.
 * Promise: the source is only looked at; what cannot be taken along (sockets, devices, unreadable directories) is noted by
 * name with its reason, and nothing is left out silently; any depth costs the same; a directory that somebody swaps for a link meanwhile
 * brings nothing in from where that leads. Rules: W13, W22, L15; C8, C17, C18.
 */
import { type BigIntStats, lstatSync, readdirSync, readlinkSync } from "node:fs"
import { Descent } from "../../base/Descent.ts"
import { longestTreePath, reach } from "../../base/LongPath.ts"
import { join as joinPath, type TreePath } from "../../base/PathBytes.ts"
import type { ImportNotes } from "./ImportNotes.ts"

export interface ScannedFile {
  readonly name: TreePath
  readonly path: TreePath
  readonly type: "file"
  mode: number
  mtimeNs: bigint
  ctimeNs: bigint
  size: number
  /** Set while reading; an entry without one is left out, with a note. */
  id: string | undefined
  /** Device and inode, when the file has more names than this one. */
  readonly inode: string | undefined
  /** How many names it has, in the source and elsewhere. */
  readonly links: number
  /** Device and inode, by which a file is known again (see ImportMemory). */
  readonly device: bigint
  readonly ino: bigint
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
  /** Names met, what was left out included. */
  readonly seen: number
}

const specialKinds: ReadonlyMap<number, string> = new Map([
  [0o140000, "socket"],
  [0o010000, "fifo"],
  [0o020000, "character device"],
  [0o060000, "block device"]
])

/** What looking says when the name means something else by now. */
const goneCodes: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP"])

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

/** A link right below `node_modules`, or below a scope there, stands for a whole package. */
const isPackage = (path: TreePath): boolean => /(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/.test(path)

/** What lies in the directory of a store, so that one inside the source is known for what it is (C8). */
const storeNames = [
  ["index.db", "packs", "cache", "work"],
  ["index.db", "trees", "work"]
]
const isStore = (names: readonly string[]): boolean =>
  storeNames.some((expected) => expected.every((name) => names.includes(name)))

/** Entries between two turns of the event loop: a read or a cancellation waits no longer than this takes, some 20 ms. */
const stretch = 2000

export interface ScanOptions {
  readonly shownAs?: TreePath
  readonly apart?: readonly TreePath[]
  /** A descriptor of the source, where the caller has one; see Descent. */
  readonly root?: number | null
}

/**
 * Walks `source`, an absolute real path as a byte string.
 * `onProgress` is called now and then and may throw to stop the walk; `onFile` is called for each file as it is found, in the order
 * of `files`, with milliseconds since 1970 from right before it was looked at; what it throws ends the walk.
 * `shownAs` is the path by which absolute links mean the tree, where that is another one; `apart` names what is no part of it.
 */
export const scan = async (
  source: TreePath,
  notes: ImportNotes,
  onProgress: (files: number) => void,
  onFile: (file: ScannedFile, index: number, lookedAt: number) => void,
  options: ScanOptions = {}
): Promise<Scan> => {
  const descent = new Descent(source, options.root)
  try {
    return await walk(descent, source, notes, onProgress, onFile, options)
  } finally {
    descent.close()
  }
}

const walk = async (
  descent: Descent,
  source: TreePath,
  notes: ImportNotes,
  onProgress: (files: number) => void,
  onFile: (file: ScannedFile, index: number, lookedAt: number) => void,
  { shownAs = source, apart = [] }: ScanOptions
): Promise<Scan> => {
  const passed = new Set(apart)
  const files: ScannedFile[] = []
  let directories = 0
  let symlinks = 0
  let bytes = 0
  let seen = 0
  const lstat = (at: TreePath): BigIntStats => reach(at, (short) => lstatSync(short, { bigint: true }))

  const fileOf = (name: TreePath, path: TreePath, stat: BigIntStats): ScannedFile => ({
    name,
    path,
    type: "file",
    mode: permissionBits(stat),
    mtimeNs: stat.mtimeNs,
    ctimeNs: stat.ctimeNs,
    size: Number(stat.size),
    id: undefined,
    inode: stat.nlink > 1n ? `${stat.dev}:${stat.ino}` : undefined,
    links: Number(stat.nlink),
    device: stat.dev,
    ino: stat.ino
  })
  const linkOf = (name: TreePath, path: TreePath, at: TreePath, stat: BigIntStats): ScannedLink => {
    const target = reach(at, (short) => readlinkSync(short, { encoding: "latin1" }))
    if (leavesRoot(path, target, shownAs)) {
      if (isPackage(path)) notes.add("linkedPackage", path, "the package lies outside of the import; kept as a link")
      else notes.add("linkLeavesRoot", path, "the link's target lies outside of the import; kept as a link")
    }
    return { name, path, type: "symlink", mtimeNs: stat.mtimeNs, target }
  }
  const directoryOf = (name: TreePath, path: TreePath, stat: BigIntStats): ScannedDirectory => ({
    name,
    path,
    type: "directory",
    mode: permissionBits(stat),
    mtimeNs: stat.mtimeNs,
    entries: []
  })

  const root = directoryOf("", "", lstat(`${descent.enter("")}/.`))
  const open: ScannedDirectory[] = [root]
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    let names: string[]
    let inside: TreePath
    try {
      inside = descent.enter(directory.path)
      names = reach(`${inside}/.`, (short) => readdirSync(short, { encoding: "latin1" }))
      // A link by now: these names are perhaps of a directory outside of the source. Not by inode, which some file systems make up anew.
      if (!descent.isFixed && !lstat(inside).isDirectory()) {
        notes.add("vanished", directory.path, "replaced before its entries were read")
        continue
      }
    } catch (error) {
      const code = codeOf(error)
      if (goneCodes.has(code)) notes.add("vanished", directory.path, "gone or replaced before its entries were read")
      else notes.add("skippedUnreadable", directory.path, `the directory's entries cannot be read: ${code}`)
      continue
    }
    if (isStore(names)) {
      notes.add("skippedStore", directory.path, "a store of Coppice; its entries were not imported")
      continue
    }
    names.sort()
    for (const name of names) {
      const path = joinPath(directory.path, name)
      if (passed.has(path)) continue
      seen += 1
      if (seen % stretch === 0) {
        onProgress(seen)
        await new Promise((resolve) => setImmediate(resolve))
      }
      if (path.length > longestTreePath) {
        notes.add("skippedPathTooLong", path, "longer than 4,095 bytes from the root; nothing below it was imported")
        continue
      }
      try {
        const lookedAt = Date.now()
        const at = `${inside}/${name}`
        const stat = lstat(at)
        const type = Number(stat.mode & 0o170000n)
        if (type === 0o100000) {
          const file = fileOf(name, path, stat)
          directory.entries.push(file)
          onFile(file, files.push(file) - 1, lookedAt)
          bytes += file.size
        } else if (type === 0o040000) {
          const child = directoryOf(name, path, stat)
          directory.entries.push(child)
          open.push(child)
          directories += 1
        } else if (type === 0o120000) {
          directory.entries.push(linkOf(name, path, at, stat))
          symlinks += 1
        } else {
          notes.add("skippedSpecialFile", path, `not imported: ${specialKinds.get(type) ?? "unknown file type"}`)
        }
      } catch (error) {
        const code = codeOf(error)
        if (goneCodes.has(code)) notes.add("vanished", path, "gone while its directory was read; not imported")
        else notes.add("skippedUnreadable", path, `not imported: ${code}`)
      }
    }
  }
  return { root, files, directories, symlinks, bytes, seen }
}

/** The name of a system error; anything else is a bug and goes on. */
const codeOf = (error: unknown): string => {
  const code = (error as NodeJS.ErrnoException).code
  if (code === undefined) throw error
  return code
}

const permissionBits = (stat: BigIntStats): number => Number(stat.mode & 0o7777n)
