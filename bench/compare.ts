/**
 * Compares two directories entry by entry, in the dimensions that a stored tree must keep.
 * Promise: type, mode, size, bytes, link target and nanosecond mtime of every entry, by name bytes; the first differences are named.
 * Rules: W5, L15.
 */
import { lstatSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { join } from "node:path"

/** At most ten differences between the trees at `a` and `b`, as sentences. Compares what is below; the roots may differ. */
export const differences = (a: string, b: string): readonly string[] => {
  const found: string[] = []
  const say = (path: string, what: string): void => {
    if (found.length < 10) found.push(`${path}: ${what}`)
  }
  const visit = (path: string): void => {
    const names = readdirSync(join(a, path)).sort()
    const others = new Set(readdirSync(join(b, path)))
    for (const name of names) {
      const at = join(path, name)
      if (!others.delete(name)) {
        say(at, "missing")
        continue
      }
      const left = lstatSync(join(a, at), { bigint: true })
      const right = lstatSync(join(b, at), { bigint: true })
      if (left.mode !== right.mode) say(at, "type or mode differs")
      else if (left.mtimeNs !== right.mtimeNs) say(at, "mtime differs")
      if (left.isDirectory() && right.isDirectory()) visit(at)
      else if (left.isSymbolicLink() && right.isSymbolicLink()) {
        if (readlinkSync(join(a, at)) !== readlinkSync(join(b, at))) say(at, "target differs")
      } else if (left.isFile() && right.isFile()) {
        if (left.size !== right.size || !readFileSync(join(a, at)).equals(readFileSync(join(b, at))))
          say(at, "bytes differ")
      }
    }
    for (const name of others) say(join(path, name), "was not there before")
  }
  visit("")
  return found
}

/** Regular files, symlinks and bytes below a directory. */
export const census = (root: string): { readonly files: number; readonly symlinks: number; readonly bytes: number } => {
  let files = 0
  let symlinks = 0
  let bytes = 0
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) symlinks++
    else if (entry.isFile()) {
      files++
      bytes += statSync(join(entry.parentPath, entry.name)).size
    }
  }
  return { files, symlinks, bytes }
}
