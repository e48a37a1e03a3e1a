/**
 * Source directories that a workspace owns from the start: copied into the upper, so that rename(2) works on them.
 * Promise: the tree is the same before and after, to names, modes, links and times. Rules: C14; 04 "Projections".
 */
import { finished, type Holder } from "./Holder.ts"
import { spawn } from "node:child_process"
import { FileSystemFailure } from "../WorkspaceError.ts"
import type { Beneath } from "./Beneath.ts"

/** `$1` is the root; each further argument a directory. The copy takes the place of the base's, which it hides. */
const script = `cd "$1" && shift && for d; do cp -a -- "$d" "$d.coppice-own" && rm -rf -- "$d" && mv -- "$d.coppice-own" "$d" || exit 1; done`

/**
 * Directories are named relative to the root; a trailing "/**" says the same. What is no directory there is passed over, as
 * a pattern that matches nothing. Rejects with FileSystemFailure.
 */
export const ownDirectories = async (holder: Holder, tree: Beneath, directories: readonly string[]): Promise<void> => {
  const names = directories.map((pattern) => pattern.replace(/\/\*\*$/, "").replace(/\/+$/, ""))
  const present = names.flatMap((name) => {
    try {
      return tree.resolve(name, false, (place) =>
        place.stat?.isDirectory() === true && place.name !== ""
          ? [`./${Buffer.from(place.path, "latin1").toString()}`]
          : []
      )
    } catch (error) {
      if ((error as { _tag?: string })._tag !== "PathError") throw error
      return []
    }
  })
  if (present.length === 0) return
  const root = Buffer.from(tree.mountPath, "latin1").toString("utf8")
  const argv = [...holder.asCaller(root), "/bin/sh", "-c", script, "sh", root, ...present]
  const code = await finished(spawn(argv[0]!, argv.slice(1), { stdio: "ignore", env: { PATH: "/usr/bin:/bin" } }))
  if (code === 0) return
  throw new FileSystemFailure({
    message: `A directory of \`ownDirs\` could not be copied (cp ended with ${code}).`,
    remedy: "Free space on the store's disk, or name smaller directories.",
    syscallCode: "ECANCELED"
  })
}
