/**
 * A directory as it is looked at for an import, and what it comes to as the tree of a commit. Rules: W13, W22, L15.
 */
import { join, type TreePath } from "../../base/PathBytes.ts"
import { canRead } from "./Harvest.ts"
import { breathing } from "./Steps.ts"
import { inOrder, type KeptEntry } from "./CommitTree.ts"
import type { ImportNotes } from "./ImportNotes.ts"
import { type Scan, scan as scanSource, type ScannedDirectory } from "./ImportScan.ts"
import { refuseImport } from "./ImportSource.ts"
import type { CallScope } from "./SnapshotStore.ts"
import { grouped, type KeptContent } from "./TreeChanges.ts"

/** Walks a directory with the call's progress and end. Rejects with `ImportRefused` (cancelled). */
export const scanTree = (
  at: TreePath,
  notes: ImportNotes,
  scope: CallScope,
  options: { readonly shownAs: TreePath; readonly apart: readonly TreePath[] }
): Promise<Scan> =>
  scanSource(
    at,
    notes,
    (files) => {
      if (scope.signal.aborted) throw refuseImport("cancelled", options.shownAs)
      scope.progress({ phase: "scan", files, bytes: 0, totalFiles: null, totalBytes: null })
    },
    () => undefined,
    options
  )

/** What was scanned as the entries of a tree; a file of which nothing was kept is none. */
export const entriesOfScan = (
  scanned: Scan,
  contents: ReadonlyMap<TreePath, KeptContent>,
  timeUnit: bigint
): readonly KeptEntry[] => {
  const entries: KeptEntry[] = []
  const inodes = new Map<TreePath, string>()
  const none = { size: 0, id: null, target: null, linkGroup: null }
  const timeOf = (mtimeNs: bigint): bigint => mtimeNs - (mtimeNs % timeUnit)
  const visit = (directory: ScannedDirectory): void => {
    const { path: at, name, mode } = directory
    entries.push({ path: at, name, type: "directory", mode, mtimeNs: timeOf(directory.mtimeNs), ...none })
    for (const entry of directory.entries) {
      const mtimeNs = timeOf(entry.mtimeNs)
      if (entry.type === "directory") visit(entry)
      else if (entry.type === "symlink") {
        const { target } = entry
        entries.push({
          path: entry.path,
          name: entry.name,
          type: "symlink",
          mode: 0,
          mtimeNs,
          ...none,
          size: target.length,
          target
        })
      } else {
        const content = contents.get(entry.path)
        if (content === undefined) continue
        entries.push({
          path: entry.path,
          name: entry.name,
          type: "file",
          mode: entry.mode,
          mtimeNs,
          ...none,
          ...content
        })
        if (entry.inode !== undefined) inodes.set(entry.path, entry.inode)
      }
    }
  }
  visit(scanned.root)
  return grouped(inOrder(entries), inodes)
}

/** Files that this user may not read. */
export const unreadableFiles = async (root: TreePath, files: Scan["files"]): Promise<readonly TreePath[]> => {
  // Root reads whatever the mode says.
  if (process.getuid?.() === 0) return []
  const breathe = breathing(() => false)
  const found: TreePath[] = []
  for (const { path } of files) {
    await breathe()
    if (!canRead(join(root, path))) found.push(path)
  }
  return found
}

/** What was scanned without the directories and files at these paths, of which nothing was kept. */
export const without = (scanned: Scan, leaveOut: readonly TreePath[]): Scan => {
  const left = new Set(leaveOut)
  let directories = 0
  const kept = (directory: ScannedDirectory): ScannedDirectory => ({
    ...directory,
    entries: directory.entries.flatMap((entry): ScannedDirectory["entries"] => {
      if (left.has(entry.path)) return []
      if (entry.type !== "directory") return [entry]
      directories += 1
      return [kept(entry)]
    })
  })
  const root = kept(scanned.root)
  return { ...scanned, root, directories, files: scanned.files.filter(({ path }) => !left.has(path)) }
}
