/**
 * System calls on paths longer than one call takes: reached in steps, from one directory descriptor to the next.
 * Promise: a path that fits is passed on as it is, at no cost; any other is walked by `/proc/self/fd/N/…`, which the kernel takes
 * as the directory it is, and every descriptor is closed again. Rules: W13, C18; path_resolution(7), proc(5).
 */
import * as fs from "node:fs"
import { toBytes, type TreePath } from "./PathBytes.ts"

/** PATH_MAX of Linux, which counts the ending NUL. */
const pathMax = 4096

/**
 * The longest path inside a tree, in bytes: what a process standing at the root can name in one call. Deeper entries cannot be
 * written back by any tool that takes paths, so no tree holds them; whoever meets one lists it.
 */
export const longestTreePath = pathMax - 1

/** O_PATH of <fcntl.h>, which Node does not name: a directory without read permission can still be walked through. */
const throughDirectory = fs.constants.O_DIRECTORY | (process.platform === "linux" ? 0o10000000 : 0)

/** Leaves room for `/proc/self/fd/` and a number. */
const stepBytes = pathMax - 64

/** Runs `call` with a path that means `path` and that one system call takes. Throws what the steps or `call` throw. */
export const reach = <A>(path: TreePath, call: (path: Buffer) => A): A => {
  if (path.length < pathMax) return call(toBytes(path))
  let rest = path
  let base = ""
  let descriptor: number | undefined
  const close = (): void => {
    if (descriptor !== undefined) fs.closeSync(descriptor)
    descriptor = undefined
  }
  try {
    while (base.length + rest.length >= pathMax) {
      const cut = rest.lastIndexOf("/", stepBytes)
      // One name longer than a path: let the kernel say so.
      if (cut <= 0) return call(toBytes(path))
      const next = fs.openSync(toBytes(base + rest.slice(0, cut)), throughDirectory)
      close()
      descriptor = next
      base = `/proc/self/fd/${next}/`
      rest = rest.slice(cut + 1)
    }
    return call(toBytes(base + rest))
  } finally {
    close()
  }
}
