/**
 * Subvolumes of btrfs: a tree that is one is snapshotted in one step, however many files it has.
 * Promise: used where this user may make, snapshot and remove them, found by trying; what lies in a subvolume below the tree comes along as
 * plain directories; a kept tree is removed without privileges where the kernel allows it. Rules: RL1, RL2, W2.
 *
 * A snapshot stops at subvolumes below it: in their place stands an empty directory with inode number 2
 * (BTRFS_EMPTY_SUBVOL_DIR_OBJECTID in <linux/btrfs_tree.h>). Since Linux 4.18 an empty subvolume goes with rmdir(2); before it is empty, only
 * root may remove it, or its owner on a mount with `user_subvol_rm_allowed` (btrfs(5)).
 */
import * as fs from "node:fs"
import { randomUUID } from "node:crypto"
import { join as joinText } from "node:path"
import { isUtf8 } from "node:buffer"
import { fromInput, join, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { freshName } from "../../src/workspace/kit/Machine.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { runTool } from "./Tool.ts"

/** BTRFS_SUPER_MAGIC of <linux/magic.h>. */
const btrfsMagic = 0x9123683e
/** BTRFS_FIRST_FREE_OBJECTID: the inode number of every subvolume's root. */
const subvolumeInode = 256

const isOnBtrfs = (directory: string): boolean =>
  process.platform === "linux" && Number(fs.statfsSync(directory).type) >>> 0 === btrfsMagic

export const isSubvolume = (path: TreePath): boolean => {
  const stat = fs.lstatSync(toBytes(path), { throwIfNoEntry: false })
  if (stat === undefined || !stat.isDirectory() || stat.ino !== subvolumeInode) return false
  return Number(fs.statfsSync(toBytes(path)).type) >>> 0 === btrfsMagic
}

/** The tool takes text. Undefined for a name that is none. */
const asText = (path: TreePath): string | undefined => {
  const bytes = toBytes(path)
  return isUtf8(bytes) ? bytes.toString("utf8") : undefined
}

const succeeds = async (argv: readonly string[], signal?: AbortSignal): Promise<boolean> =>
  (await runTool(argv, signal === undefined ? {} : { signal })).code === 0

/** False when it could not be made. */
export const makeSubvolume = async (at: TreePath): Promise<boolean> => {
  const text = asText(at)
  return text !== undefined && (await succeeds(["btrfs", "subvolume", "create", "--", text]))
}

/** False when it could not be made; then nothing stands at `target`. */
export const snapshot = async (source: TreePath, target: TreePath, signal: AbortSignal): Promise<boolean> => {
  const from = asText(source)
  const to = asText(target)
  if (from === undefined || to === undefined) return false
  return await succeeds(["btrfs", "subvolume", "snapshot", "--", from, to], signal)
}

/** Directories of a snapshot that stand for subvolumes of its source. */
export const placeholders = async (at: number, signal: AbortSignal): Promise<readonly TreePath[]> => {
  const look = async (mapped: boolean) => {
    const found: Buffer[] = []
    const { code } = await runTool(["find", ".", "-type", "d", "-inum", "2", "-print0"], {
      inside: at,
      mapped,
      signal,
      onOutput: (piece) => found.push(piece)
    })
    return { code, names: Buffer.concat(found).toString("latin1").split("\0") }
  }
  const plain = await look(false)
  // Where a directory denies its owner the look, the owner looks with every right.
  const all = plain.code === 0 || process.getuid?.() === 0 ? plain : await look(true)
  if (all.code !== 0) throw Object.assign(new Error("find failed"), { code: "EIO", syscall: "readdir" })
  return all.names.filter((name) => name.startsWith("./")).map((name) => name.slice(2))
}

/** Removes a tree of ours, a subvolume in one step where that is allowed. */
export const removeAny = async (at: TreePath): Promise<void> => {
  const text = isSubvolume(at) ? asText(at) : undefined
  if (text !== undefined && (await succeeds(["btrfs", "subvolume", "delete", "--", text]))) return
  await removeTree(toBytes(at))
}

/** Whether this user can make, snapshot and remove subvolumes in `directory`. Leaves nothing. */
export const subvolumesWork = async (directory: string): Promise<boolean> => {
  if (!isOnBtrfs(directory)) return false
  const first = fromInput(joinText(directory, freshName(randomUUID())))
  const second = fromInput(joinText(directory, freshName(randomUUID())))
  try {
    if (!(await makeSubvolume(first))) return false
    fs.mkdirSync(toBytes(join(first, "d")))
    return await snapshot(first, second, new AbortController().signal)
  } catch (error) {
    // No such program.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false
    throw error
  } finally {
    for (const path of [first, second]) await removeAny(path)
  }
}
