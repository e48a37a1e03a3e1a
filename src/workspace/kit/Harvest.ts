/**
 * Finds out what an upper directory holds against its base: the changes that a checkpoint commits.
 * Promise: reads only, follows no link, trusts no inode or link count of the merged view, changes no mode of a live
 * upper; what it cannot read is listed and nothing is left out in silence. Rules: W8, W22, L15; 04 "Harvest".
 *
 * It runs in the store's worker, beside the `TreeReader`, in steps: a large upper holds nobody up, and can be given up.
 */
import * as fs from "node:fs"
import { createHash, type Hash } from "node:crypto"
import { longestTreePath, reach } from "../../base/LongPath.ts"
import { compare, join, type TreePath } from "../../base/PathBytes.ts"
import type { SkippedEntry } from "../WorkspaceProvider.ts"
import type { TreeChange, TreeEntry, TreeReader } from "./Tree.ts"
import { scanSteps } from "./ScanHarvest.ts"
import { PlacedFiles } from "./PlacedFiles.ts"
import type { Steps } from "./Steps.ts"

/** Where to look. Every field survives a structured clone; paths are byte strings (see PathBytes). */
export type HarvestInput =
  | {
      readonly kind: "overlay"
      /** Absolute path of the upper directory. */
      readonly upper: TreePath
      /** The merged view, usually `/proc/self/fd/N`: descriptors belong to the process, so a worker may use it. */
      readonly merged: TreePath
      /** Readable copies of what was unreadable in a first pass, made through the holder. */
      readonly spool?: Spool
    }
  | {
      readonly kind: "scan"
      /** Absolute path of the copied tree. */
      readonly tree: TreePath
      /** File with the stat data of the previous pass; rewritten beside it as `.next` (see ScanHarvest). */
      readonly snapshot: TreePath
      readonly spool?: Spool
    }

export interface Skipped {
  readonly path: TreePath
  readonly what: SkippedEntry["reason"]
}

/** Copies below `root` under their tree paths, with the modes that the originals really have. */
export interface Spool {
  readonly root: TreePath
  readonly modes: Readonly<Record<TreePath, number>>
}

export interface HarvestResult {
  readonly changes: readonly TreeChange[]
  /** Not empty: nothing may be committed; read these through the holder and harvest again with a `spool`. */
  readonly unreadable: readonly TreePath[]
  /** What no tree can hold: sockets, fifos, devices, and paths too long to be written back. */
  readonly skipped: readonly Skipped[]
  /** Hard-link groups of the base (by their first path) of which a name now has an inode of its own (L15). */
  readonly linkSplit: readonly TreePath[]
  /** Equal when the upper was not touched between two harvests. */
  readonly fingerprint: string
  readonly entries: number
  /** What the next harvest may trust (see `Seen`). */
  readonly seen: Seen
}

/**
 * Files of an upper as a harvest found them: inode, ctime, size, mtime and mode by path. A file that still looks like this is not
 * read again. The kernel sets the ctime at every write, and nobody else can; a file whose ctime lies within 10 ms of the
 * harvest is left out, because another write in the same tick of the kernel's clock would look the same (C5; git's "racy" entries).
 */
export type Seen = ReadonlyMap<TreePath, string>
const racyNs = 10_000_000n

const look = (stat: fs.BigIntStats): string => `${stat.ino} ${stat.ctimeNs} ${stat.size} ${stat.mtimeNs} ${stat.mode}`

/**
 * The changes of an open directory against `base`. Throws Node's system errors other than EACCES.
 * `previous` is what the harvest found that made `base`; for any other base it must be left out.
 */
export const harvest = (input: HarvestInput, base: TreeReader, previous?: Seen): Steps<HarvestResult> =>
  input.kind === "scan" ? scanSteps(input, base) : harvestUpper(input, base, previous)

/** Entries that one step looks at. */
export const entriesOfStep = 64

export const namesOf = (path: TreePath): TreePath[] =>
  reach(path, (short) => fs.readdirSync(short, { encoding: "latin1" })).sort(compare)

export const lstat = (path: TreePath): fs.BigIntStats => reach(path, (short) => fs.lstatSync(short, { bigint: true }))

export const linkTarget = (path: TreePath): TreePath =>
  reach(path, (short) => fs.readlinkSync(short, { encoding: "latin1" }))

export const permissionBits = (stat: fs.BigIntStats): number => Number(stat.mode & 0o7777n)

export const canRead = (path: TreePath): boolean => {
  try {
    reach(path, (short) => fs.accessSync(short, fs.constants.R_OK))
    return true
  } catch {
    return false
  }
}

/** What cannot be stored, and why; undefined for files, directories and links of a path that can be written back. */
export const skipReason = (path: TreePath, stat: fs.BigIntStats): Skipped["what"] | undefined =>
  stat.isSocket()
    ? "socket"
    : stat.isFIFO()
      ? "fifo"
      : stat.isBlockDevice() || stat.isCharacterDevice()
        ? "device"
        : path.length > longestTreePath
          ? "pathTooLong"
          : undefined

export const note = (into: Hash, path: TreePath, stat: fs.BigIntStats): void => {
  into.update(
    `${path.length} ${path} ${stat.mode} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.ino}\n`,
    "latin1"
  )
}

function* harvestUpper(
  input: HarvestInput & { readonly kind: "overlay" },
  base: TreeReader,
  previous: Seen | undefined
): Steps<HarvestResult> {
  const started = BigInt(Date.now()) * 1_000_000n
  const found = new Map<TreePath, string>()
  const changes: TreeChange[] = []
  const unreadable: TreePath[] = []
  const skipped: Skipped[] = []
  const touched = new Map<TreePath, { readonly group: TreePath; readonly inode: string }>()
  const fingerprint = createHash("sha256")
  let entries = 0
  let looked = 0

  const spooled = (path: TreePath): boolean => input.spool !== undefined && Object.hasOwn(input.spool.modes, path)

  const placed = new PlacedFiles()
  const namesIn = (root: TreePath, path: TreePath): TreePath[] => namesOf(`${placed.below(root).enter(path)}/.`)
  const statIn = (root: TreePath, path: TreePath): fs.BigIntStats => lstat(placed.below(root).to(path))

  /** Below `root` the entry really lies: in the upper, in the spool, or in the merged view. */
  function* put(path: TreePath, root: TreePath, stat: fs.BigIntStats, whole: boolean): Steps<void> {
    const before = base.entry(path)
    const mode = spooled(path) ? input.spool!.modes[path]! : permissionBits(stat)
    const what = skipReason(path, stat)
    if (what !== undefined) {
      skipped.push({ path, what })
      if (before !== undefined) changes.push({ op: "remove", path })
    } else if (stat.isSymbolicLink()) {
      changes.push({ op: "putSymlink", path, target: linkTarget(placed.below(root).to(path)), mtimeNs: stat.mtimeNs })
    } else if (stat.isDirectory()) {
      const replace = before?.type !== "directory"
      if (replace || before.mode !== mode || before.mtimeNs !== stat.mtimeNs) {
        changes.push({ op: "putDirectory", path, mode, mtimeNs: stat.mtimeNs, replace })
      }
      yield* directory(path, root, replace, whole)
    } else {
      putFile(path, root, stat, mode, before)
    }
  }

  const putFile = (path: TreePath, at: TreePath, stat: fs.BigIntStats, mode: number, before: TreeEntry | undefined) => {
    if (!spooled(path) && (mode & 0o400) === 0 && !canRead(placed.below(at).to(path))) {
      unreadable.push(path)
      return
    }
    const root = spooled(path) ? input.spool!.root : at
    const inode = `${stat.dev}:${stat.ino}`
    if (before?.type === "file" && before.linkGroup !== null) touched.set(path, { group: before.linkGroup, inode })
    else if (stat.nlink === 1n && !spooled(path)) {
      const now = look(stat)
      if (stat.ctimeNs < started - racyNs) found.set(path, now)
      const same = before?.type === "file" && before.mode === mode && before.mtimeNs === stat.mtimeNs
      if (same && previous?.get(path) === now && Number(stat.size) === before.size) return
    }
    const content = { file: join(root, path), root }
    const change = { op: "putFile", path, mode, mtimeNs: stat.mtimeNs, content } as const
    changes.push(stat.nlink > 1n ? { ...change, inode } : change)
  }

  /** `whole`: the directory below `at` shows everything (merged view or spool), not only what was changed. */
  function* directory(path: TreePath, at: TreePath, replaced: boolean, whole: boolean): Steps<void> {
    const source = spooled(path) ? input.spool!.root : at
    let upper: TreePath[]
    let shown: TreePath[]
    try {
      upper = namesIn(source, path)
      shown = whole || spooled(path) ? upper : namesIn(input.merged, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error
      unreadable.push(path)
      return
    }
    const own = new Set(upper)
    const seen = new Set(shown)
    const old = replaced ? [] : (base.list(path) ?? [])
    const known = new Set(old.map((entry) => entry.name))
    for (const entry of old) {
      if (!seen.has(entry.name)) changes.push({ op: "remove", path: join(path, entry.name) })
    }
    for (const name of shown) {
      looked += 1
      if (looked % entriesOfStep === 0) yield
      const child = join(path, name)
      if (own.has(name)) {
        const stat = statIn(source, child)
        entries += 1
        note(fingerprint, child, stat)
        yield* put(child, source, stat, whole || spooled(path))
      } else if (!known.has(name)) {
        // Shown, in no upper, in no base entry: a lower directory was moved here. Only the merged view has it whole.
        yield* put(child, input.merged, statIn(input.merged, child), true)
      }
    }
    // A whiteout shows nowhere, but the fingerprint must tell a removal from an untouched directory.
    for (const name of upper) {
      if (seen.has(name)) continue
      entries += 1
      note(fingerprint, join(path, name), statIn(source, join(path, name)))
    }
  }

  const root = lstat(input.upper)
  const before = base.entry("")
  if (before !== undefined && before.mode !== permissionBits(root)) {
    changes.push({ op: "putDirectory", path: "", mode: permissionBits(root), mtimeNs: root.mtimeNs, replace: false })
  }
  try {
    yield* directory("", input.upper, false, false)
  } finally {
    placed.close()
  }
  return {
    changes,
    unreadable,
    skipped,
    linkSplit: splitGroups(touched, changes, base),
    fingerprint: fingerprint.digest("hex"),
    entries,
    seen: found
  }
}

/**
 * Groups of which a name was copied up into an inode of its own: an unprivileged overlay cannot keep the pair (L15).
 * One is whole when every name that is still there was touched and all of them share one inode.
 */
const splitGroups = (
  touched: ReadonlyMap<TreePath, { readonly group: TreePath; readonly inode: string }>,
  changes: readonly TreeChange[],
  base: TreeReader
): TreePath[] => {
  const inodes = new Map<TreePath, Set<string>>()
  for (const { group, inode } of touched.values()) inodes.set(group, (inodes.get(group) ?? new Set()).add(inode))
  if (inodes.size === 0) return []
  const replaced = new Set(
    changes.flatMap((change) => (change.op === "putDirectory" && !change.replace ? [] : [change.path]))
  )
  const isGone = (path: TreePath): boolean => {
    for (let at = path.length; at > 0; at = path.lastIndexOf("/", at - 1))
      if (replaced.has(path.slice(0, at))) return true
    return false
  }
  const isWhole = (group: TreePath): boolean =>
    inodes.get(group)!.size === 1 && base.namesOf(group).every((name) => touched.has(name) || isGone(name))
  return [...inodes.keys()].filter((group) => !isWhole(group)).sort(compare)
}
