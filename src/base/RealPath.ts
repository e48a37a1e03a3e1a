/**
 * Real paths of things that may not exist yet, so that one place can be told to lie inside another whatever links lead there.
 * Promise: makes nothing. Rules: W13.
 */
import { existsSync, realpathSync } from "node:fs"
import { basename, dirname, join, sep } from "node:path"

/** The absolute path with every link resolved; of what does not exist yet, its nearest existing ancestor is resolved. */
export const realPathOf = (path: string): string =>
  existsSync(path) ? realpathSync(path) : join(realPathOf(dirname(path)), basename(path))

/** True when the real path of `path` is `directory`'s or lies below it. */
export const liesInside = (path: string, directory: string): boolean => {
  const real = realPathOf(path)
  const root = realPathOf(directory)
  return real === root || real.startsWith(root + sep)
}
