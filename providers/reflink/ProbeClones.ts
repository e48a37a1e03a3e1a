/**
 * Whether files can be cloned from one place to another, found out by cloning one.
 * Promise: the source is only read; nothing is left; no answer is guessed from the name of a file system. Rules: W2, RL1; ioctl_ficlone(2).
 */
import * as fs from "node:fs"
import { randomUUID } from "node:crypto"
import { fromInput, join, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { freshName } from "../../src/workspace/kit/Machine.ts"
import type { Missing } from "../../src/workspace/kit/SnapshotBackend.ts"
import { openRoot } from "../../src/base/Descent.ts"
import { runTool } from "./Tool.ts"

/** The code with which the kernel refuses to clone `file` into `directory`, or null when it did. */
const refusal = (file: TreePath, directory: TreePath): string | null => {
  const scratch = toBytes(join(directory, freshName(randomUUID())))
  try {
    fs.copyFileSync(toBytes(file), scratch, fs.constants.COPYFILE_FICLONE_FORCE)
    return null
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    return code
  } finally {
    fs.rmSync(scratch, { force: true })
  }
}

/** Entries that are looked at for a file to try with. */
const mostLooked = 2000

/**
 * True when the files of `source` cannot be cloned into `directory`, because it lies on another file system. Of a tree without a file that
 * this user may read, nothing is known, and nothing is to be cloned.
 */
export const liesAcross = (source: TreePath, directory: TreePath): boolean => {
  const todo: TreePath[] = [source]
  let looked = 0
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    let entries: fs.Dirent<Buffer>[]
    try {
      entries = fs.readdirSync(toBytes(at), { withFileTypes: true, encoding: "buffer" })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === undefined) throw error
      continue
    }
    for (const entry of entries) {
      looked += 1
      if (looked > mostLooked) return false
      const path = join(at, entry.name.toString("latin1"))
      if (entry.isDirectory()) todo.push(path)
      if (!entry.isFile()) continue
      const code = refusal(path, directory)
      if (code === null) return false
      if (code === "EXDEV") return true
    }
  }
  return false
}

const toolsMissing: Missing = {
  what: "cp of GNU coreutils, with setpriv, find and xargs",
  remedy: "Install coreutils, findutils and util-linux, and put them on PATH."
}

/** What is missing for clones inside `directory`, tried with the kernel and with the tool that clones trees. */
export const missingForClones = async (directory: string): Promise<readonly Missing[]> => {
  if (process.platform !== "linux") {
    return [
      {
        what: "Linux",
        remedy: "Clones on APFS are not built yet: use LayerFS, whose workspaces can be copies on this system."
      }
    ]
  }
  const name = freshName(randomUUID())
  const scratch = join(fromInput(directory), name)
  const file = join(scratch, "a")
  fs.mkdirSync(toBytes(scratch), { mode: 0o700 })
  try {
    fs.writeFileSync(toBytes(file), Buffer.alloc(65_536, 1))
    const code = refusal(file, scratch)
    if (code !== null) {
      return [
        {
          what: `file clones on the store's file system (${code})`,
          remedy: "Put the store on btrfs, or on XFS made with reflink=1, or use LayerFS, which needs none."
        }
      ]
    }
    const inside = openRoot(scratch)
    try {
      const argv = ["xargs", "-0", "cp", "-a", "--parents", "--reflink=always", "-t", "/proc/self/fd/3/.", "--"]
      fs.mkdirSync(toBytes(join(scratch, "b")))
      const third = openRoot(join(scratch, "b"))
      try {
        const cloned = await runTool(argv, { inside, third, input: toBytes("./a\0") })
        const found = await runTool(["find", ".", "-inum", "1", "-printf", "%b"], { inside })
        return cloned.code === 0 && found.code === 0 && fs.existsSync(toBytes(join(scratch, "b/a")))
          ? []
          : [toolsMissing]
      } finally {
        fs.closeSync(third)
      }
    } finally {
      fs.closeSync(inside)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall?.startsWith("spawn") === true) return [toolsMissing]
    throw error
  } finally {
    fs.rmSync(toBytes(scratch), { recursive: true, force: true })
  }
}
