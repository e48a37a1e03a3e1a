/**
 * Which files of a source an import may know again by their size and times.
 * Promise: a file is trusted only where every later change of it gives it a new ctime that no caller can put back. Stores through
 * a shared mapping get none while their page is dirty: until the kernel has written it back; on tmpfs for ever. FAT and exFAT
 * keep the ctime equal to the mtime, which anybody sets. Rules: W13, L10; C5.
 */
import { readFileSync, statfsSync } from "node:fs"
import { reach } from "../../src/base/LongPath.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import type { ScannedFile } from "../../src/workspace/kit/ImportScan.ts"

/**
 * File systems that stamp the first store into a clean page, and have times of their own, by the magic number of statfs(2): ext2
 * to ext4, XFS, btrfs, F2FS, bcachefs. Not overlayfs, which may lie on a tmpfs and does not say so.
 */
export const stamping: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0xca451a4e])

/** Twice what a page may stay dirty: a busy disk takes longer. Undefined where the kernel does not say, or never writes back by itself. */
export const settlingNs = (read = readNumber): bigint | undefined => {
  const expire = read("/proc/sys/vm/dirty_expire_centisecs")
  const every = read("/proc/sys/vm/dirty_writeback_centisecs")
  return expire > 0 && every > 0 ? BigInt(2 * (expire + every)) * 10_000_000n : undefined
}

const readNumber = (path: string): number => {
  try {
    return Number(readFileSync(path, "utf8"))
  } catch {
    return 0
  }
}

/** `latestNs`: both times of a file must be older. */
export const trusting = (source: TreePath, latestNs: bigint): ((file: ScannedFile) => boolean) => {
  const devices = new Map<bigint, boolean>()
  const isStamping = ({ device, path }: ScannedFile): boolean => {
    const known = devices.get(device)
    if (known !== undefined) return known
    let found = false
    try {
      found = reach(`${source}/${path}`, (short) => stamping.has(statfsSync(short).type >>> 0))
    } catch {
      // Gone by now: the next file of its device tells.
      return false
    }
    devices.set(device, found)
    return found
  }
  return (file) => file.mtimeNs <= latestNs && file.ctimeNs <= latestNs && isStamping(file)
}
