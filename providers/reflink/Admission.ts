/**
 * What an ordinary user cannot take along of a source: found before anything is cloned.
 * Promise: the source is only looked at; each file that is left out, and each bit that is not kept, is a note. Root takes everything along.
 * Rules: W13, L15; C17, C19. A clone of somebody else's file belongs to who cloned it, and loses setuid, setgid and sticky (chmod(2), cp(1)).
 */
import * as fs from "node:fs"
import { join, show, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import type { SnapshotBackend } from "../../src/workspace/kit/SnapshotBackend.ts"
import type { ImportNote } from "../../src/workspace/WorkspaceValues.ts"

type Admitted = Awaited<ReturnType<NonNullable<SnapshotBackend["admit"]>>>

/** Entries between two turns of the event loop. */
const stretch = 2000

const mayRead = (at: TreePath): boolean => {
  try {
    fs.accessSync(toBytes(at), fs.constants.R_OK)
    return true
  } catch {
    return false
  }
}

/** Names of a directory; none where it cannot be read, which the walk of the import tells. */
const namesOf = (at: TreePath): readonly TreePath[] => {
  try {
    return fs.readdirSync(toBytes(at), { encoding: "latin1" })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    return []
  }
}

export const admit = async (source: TreePath): Promise<Admitted> => {
  const notes: ImportNote[] = []
  const leaveOut: TreePath[] = []
  const user = process.getuid?.()
  if (user === 0) return { notes, leaveOut }
  const groups = new Set(process.getgroups?.() ?? [])
  const todo: TreePath[] = [""]
  let seen = 0
  for (let directory = todo.pop(); directory !== undefined; directory = todo.pop()) {
    for (const name of namesOf(join(source, directory))) {
      seen += 1
      if (seen % stretch === 0) await new Promise((resolve) => setImmediate(resolve))
      const path = join(directory, name)
      const at = join(source, path)
      const stat = fs.lstatSync(toBytes(at), { throwIfNoEntry: false })
      if (stat === undefined || stat.isSymbolicLink()) continue
      if (stat.isDirectory()) todo.push(path)
      if (stat.isFile() && stat.uid !== user && !mayRead(at)) {
        leaveOut.push(path)
        notes.push({ kind: "skippedUnreadable", path: show(path), detail: "not imported: EACCES" })
      } else if ((stat.mode & 0o7000) !== 0 && (stat.uid !== user || !groups.has(stat.gid))) {
        const detail = "setuid, setgid and sticky are not kept: it belongs to another user or group"
        notes.push({ kind: "normalised", path: show(path), detail })
      }
    }
  }
  return { notes, leaveOut }
}
