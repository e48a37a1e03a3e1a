/**
 * A small real disk: a file system in a file, mounted through a loop device, filled up to what a test leaves free.
 * Promise: unmounted and removed after the test, whatever became of it.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"

export const mayMount = process.getuid?.() === 0

export interface SmallDisk {
  readonly path: string
  readonly free: () => number
  /** Leaves about so many bytes free, whatever was left before. */
  readonly leave: (bytes: number) => void
  readonly remove: () => void
}

/** ext4 without a journal, so that what is free is what is there. XFS needs 300 MiB. */
const makers = {
  ext4: ["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", "-N", "4096"],
  xfs: ["mkfs.xfs", "-q"]
} as const

/** `bytes` is the size of the disk, of which the file system takes some for itself. */
export const smallDisk = (bytes: number, kind: keyof typeof makers = "ext4"): SmallDisk => {
  const root = fs.mkdtempSync("/var/tmp/coppice-disk-")
  const image = join(root, "image")
  const path = join(root, "disk")
  fs.mkdirSync(path)
  fs.closeSync(fs.openSync(image, "w"))
  fs.truncateSync(image, bytes)
  const [program, ...options] = makers[kind]
  execFileSync(program, [...options, image], { stdio: ["ignore", "ignore", "pipe"] })
  execFileSync("mount", ["-o", "loop", image, path])
  const ballast = join(path, "ballast")
  const free = (): number => {
    const { bavail, bsize } = fs.statfsSync(path)
    return bavail * bsize
  }
  return {
    path,
    free,
    leave: (wanted) => {
      fs.rmSync(ballast, { force: true })
      const fd = fs.openSync(ballast, "w")
      try {
        const block = Buffer.alloc(4096)
        // One block at a time at the end: indirect blocks of the ballast itself take space too.
        while (free() > wanted + 65536) fs.writeSync(fd, Buffer.alloc(Math.max(4096, free() - wanted - 65536)))
        while (free() > wanted) fs.writeSync(fd, block)
        fs.fsyncSync(fd)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error
      } finally {
        fs.closeSync(fd)
      }
    },
    remove: () => {
      execFileSync("umount", [path])
      fs.rmSync(root, { recursive: true, force: true })
    }
  }
}
