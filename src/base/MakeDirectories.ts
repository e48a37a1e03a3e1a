/**
 * Makes a directory with what leads to it, at a place that somebody chose.
 * Promise: ends, also where nothing can be made: Node's own recursive mkdir goes round for ever in a file system that answers
 * ENOENT below a directory that exists, such as /proc. What was there is left as it was. Rules: 01 "On disk"; W15.
 */
import { mkdirSync, statSync } from "node:fs"
import { dirname } from "node:path"

/** `path` is absolute. Throws the error of the call that failed; a file in the way is `ENOTDIR` or `EEXIST`. */
export const makeDirectories = (path: string, mode: number): void => {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return
  if (dirname(path) !== path) makeDirectories(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process made it meanwhile: what counts is that it is there.
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) throw error
  }
}
