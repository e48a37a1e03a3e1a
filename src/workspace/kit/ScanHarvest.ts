/**
 * Finds the changes of a copied tree by scanning it against the stat data of the previous pass.
 * Promise: an entry counts as untouched only when size, mtime, ctime, inode and mode are those of the previous pass and its
 * ctime is older than that pass by more than 10 ms; everything else is read again. Rules: W8, W22, L15, C5.
 */
import * as fs from "node:fs"
import { createHash } from "node:crypto"
import { join, toBytes, type TreePath } from "../../base/PathBytes.ts"
import type { TreeChange, TreeReader } from "./Tree.ts"
import {
  canRead,
  entriesOfStep,
  type HarvestResult,
  type Skipped,
  linkTarget,
  lstat,
  namesOf,
  note,
  permissionBits,
  skipReason,
  type Spool
} from "./Harvest.ts"
import { PlacedFiles } from "./PlacedFiles.ts"
import type { Steps } from "./Steps.ts"

/** Coarse kernel clocks stamp two writes within one tick alike; 10 ms is the longest tick in use (CONFIG_HZ=100). */
const racyNs = 10_000_000n

interface Seen {
  readonly stamp: string
  readonly ctimeNs: bigint
}

interface Snapshot {
  readonly takenNs: bigint
  readonly seen: ReadonlyMap<TreePath, Seen>
}

const stampOf = (stat: fs.BigIntStats): string =>
  `${stat.mode}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}:${stat.ino}:${stat.nlink}`

/** The snapshot file: first line the time of the pass, then `base64(path) stamp ctime` a line. */
const readSnapshot = (path: TreePath): Snapshot => {
  let text: string
  try {
    text = fs.readFileSync(toBytes(path), "latin1")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    return { takenNs: 0n, seen: new Map() }
  }
  const lines = text.split("\n")
  const seen = new Map<TreePath, Seen>()
  for (const line of lines.slice(1)) {
    const [name, stamp, ctime] = line.split(" ")
    if (name === undefined || stamp === undefined || ctime === undefined) continue
    seen.set(Buffer.from(name, "base64").toString("latin1"), { stamp, ctimeNs: BigInt(ctime) })
  }
  return { takenNs: BigInt(lines[0] === undefined || lines[0] === "" ? 0 : lines[0]), seen }
}

/** Collects the lines of a snapshot; the first line is written last, because the pass must be older than its stamps. */
export class SnapshotWriter {
  readonly #lines: string[] = []
  readonly #takenNs = BigInt(Date.now()) * 1_000_000n

  add(path: TreePath, stat: fs.BigIntStats): void {
    this.#lines.push(`${Buffer.from(path, "latin1").toString("base64")} ${stampOf(stat)} ${stat.ctimeNs}`)
  }

  text(): string {
    return [String(this.#takenNs), ...this.#lines, ""].join("\n")
  }
}

export interface ScanInput {
  readonly tree: TreePath
  readonly snapshot: TreePath
  readonly spool?: Spool
  /** Paths that are no part of the state, whatever lies there. */
  readonly apart?: readonly TreePath[]
}

/** The changes of the tree since the base. Writes the new snapshot beside the old one as `.next`. */
export function* scanSteps(input: ScanInput, base: TreeReader): Steps<HarvestResult> {
  const changes: TreeChange[] = []
  const unreadable: TreePath[] = []
  const skipped: Skipped[] = []
  const fingerprint = createHash("sha256")
  const previous = readSnapshot(input.snapshot)
  const next = new SnapshotWriter()
  let entries = 0

  const spooled = (path: TreePath): boolean => input.spool !== undefined && Object.hasOwn(input.spool.modes, path)
  const placed = new PlacedFiles()
  /** Where an entry can be read: in the tree, or in the copy that the holder made of it. */
  const rootOf = (path: TreePath): TreePath => (spooled(path) ? input.spool!.root : input.tree)
  const modeOf = (path: TreePath, stat: fs.BigIntStats): number =>
    spooled(path) ? input.spool!.modes[path]! : permissionBits(stat)
  const untouched = (path: TreePath, stat: fs.BigIntStats): boolean => {
    const seen = previous.seen.get(path)
    return seen !== undefined && seen.stamp === stampOf(stat) && seen.ctimeNs + racyNs < previous.takenNs
  }

  const apart = new Set(input.apart)
  function* directory(path: TreePath, replaced: boolean): Steps<void> {
    let shown: TreePath[]
    try {
      shown = namesOf(`${placed.below(rootOf(path)).enter(path)}/.`).filter((name) => !apart.has(join(path, name)))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error
      unreadable.push(path)
      return
    }
    const present = new Set(shown)
    for (const entry of replaced ? [] : (base.list(path) ?? [])) {
      if (!present.has(entry.name)) changes.push({ op: "remove", path: join(path, entry.name) })
    }
    for (const name of shown) yield* entry(join(path, name), replaced)
  }

  function* entry(path: TreePath, replaced: boolean): Steps<void> {
    if (entries % entriesOfStep === 0) yield
    const root = rootOf(path)
    const at = placed.below(root).to(path)
    const stat = lstat(at)
    const before = replaced ? undefined : base.entry(path)
    entries += 1
    note(fingerprint, path, stat)
    next.add(path, stat)
    const what = skipReason(path, stat)
    if (what !== undefined) {
      skipped.push({ path, what })
      if (before !== undefined) changes.push({ op: "remove", path })
    } else if (stat.isDirectory()) {
      const replace = before?.type !== "directory"
      changes.push({ op: "putDirectory", path, mode: modeOf(path, stat), mtimeNs: stat.mtimeNs, replace })
      yield* directory(path, replace)
    } else if (before !== undefined && !spooled(path) && untouched(path, stat)) {
      return
    } else if (stat.isSymbolicLink()) {
      changes.push({ op: "putSymlink", path, target: linkTarget(at), mtimeNs: stat.mtimeNs })
    } else if (!spooled(path) && (permissionBits(stat) & 0o400) === 0 && !canRead(at)) {
      unreadable.push(path)
    } else {
      const content = { file: join(root, path), root }
      const change = { op: "putFile", path, mode: modeOf(path, stat), mtimeNs: stat.mtimeNs, content } as const
      changes.push(stat.nlink > 1n ? { ...change, inode: `${stat.dev}:${stat.ino}` } : change)
    }
  }

  try {
    yield* directory("", false)
  } finally {
    placed.close()
  }
  fs.writeFileSync(toBytes(`${input.snapshot}.next`), next.text(), "latin1")
  return {
    changes,
    unreadable,
    skipped,
    linkSplit: [],
    fingerprint: fingerprint.digest("hex"),
    entries,
    seen: new Map()
  }
}

/** What is below an unreadable directory has no snapshot: it is read anew, through the holder. */
const namesIfReadable = (path: TreePath): TreePath[] => {
  try {
    return namesOf(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error
    return []
  }
}

/** The first snapshot of a tree that was just written; gives the event loop a turn between directories. */
export const takeSnapshot = async (tree: TreePath, signal: AbortSignal): Promise<string> => {
  const writer = new SnapshotWriter()
  const todo: TreePath[] = [""]
  for (let path = todo.pop(); path !== undefined; path = todo.pop()) {
    for (const name of namesIfReadable(join(tree, path))) {
      const child = join(path, name)
      const stat = lstat(join(tree, child))
      writer.add(child, stat)
      if (stat.isDirectory()) todo.push(child)
    }
    await new Promise((resolve) => setImmediate(resolve))
    signal.throwIfAborted()
  }
  return writer.text()
}
