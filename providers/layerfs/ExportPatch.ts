/**
 * Collects from two commits what a git patch is made of.
 * Promise: only what differs is read; the ignore rules are those of the newer state, the tracked files those of both.
 * Rules: W16, L3, L10.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs"
import { join as joinPath } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { join, parent, type TreePath } from "../../src/base/PathBytes.ts"
import { type IgnoreRules, makePatch, type PatchFile } from "../../src/workspace/Patch.ts"
import type { ExportedPatch } from "../../src/workspace/WorkspaceProvider.ts"
import { readContent, solidBlocks } from "./FileContent.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import type { TreeReader } from "../../src/workspace/kit/Tree.ts"
import { archiveScratch } from "./TarParts.ts"
import type { StoredEntry } from "./TreeCodec.ts"
import { diffTrees } from "./TreeDiff.ts"
import { isAbandonedScratch, scratchName } from "./WriterIdentity.ts"

const patchScratch = "patch"

/** Removes what a call left behind whose process was killed. */
export const removeAbandonedScratch = ({ root, work }: { readonly root: string; readonly work: string }): void => {
  for (const name of readdirSync(work)) {
    const isAbandoned = [patchScratch, archiveScratch].some((prefix) => isAbandonedScratch(root, prefix, name))
    if (isAbandoned) rmSync(joinPath(work, name), { recursive: true, force: true })
  }
}

export interface ExportContext {
  readonly trees: StoredTrees
  readonly reader: ObjectReader
  /** Where a scratch directory may be made. */
  readonly work: string
}

const toPatchFile = (reader: ObjectReader, entry: StoredEntry | null): PatchFile | null => {
  if (entry === null || entry.type === "directory") return null
  if (entry.type === "symlink") {
    const target = Buffer.from(entry.target, "latin1")
    return { type: "symlink", mode: 0, size: target.length, content: () => [target] }
  }
  const { mode, size } = entry
  return { type: "file", mode, size, content: () => solidBlocks(reader, entry) }
}

const fileAt = (reader: ObjectReader, tree: TreeReader, path: TreePath): Buffer | null => {
  const entry = tree.entry(path)
  return entry?.type === "file" ? readContent(reader, { id: entry.id!, size: entry.size }) : null
}

/** Every directory above the paths, the root too. */
const directoriesAbove = (paths: readonly TreePath[]): Set<TreePath> => {
  const found = new Set<TreePath>([""])
  for (const path of paths) {
    for (let at = parent(path); !found.has(at); at = parent(at)) found.add(at)
  }
  return found
}

export const exportPatch = async (
  context: ExportContext,
  from: CommitRow,
  to: CommitRow,
  only: ReadonlySet<TreePath> | null,
  signal: AbortSignal
): Promise<ExportedPatch> => {
  const { reader, trees } = context
  const changed = diffTrees(trees, from.root, to.root)
    .map(({ path, before, after }) => ({
      path,
      before: toPatchFile(reader, before),
      after: toPatchFile(reader, after)
    }))
    .filter((file) => file.before !== null || file.after !== null)
    .filter((file) => only === null || only.has(file.path))
  const older = trees.reader(from)
  const newer = trees.reader(to)
  const above = directoriesAbove(changed.map((file) => file.path))
  const rules = (tree: TreeReader): IgnoreRules => ({
    files: [...above].flatMap((directory) => {
      const path = join(directory, ".gitignore")
      const bytes = fileAt(reader, tree, path)
      return bytes === null ? [] : [{ path, bytes }]
    }),
    exclude: fileAt(reader, tree, ".git/info/exclude")
  })
  const indexes = [older, newer].flatMap((tree) => fileAt(reader, tree, ".git/index") ?? [])
  const hasRepository = (directory: TreePath): boolean =>
    directory !== "" && [older, newer].some((tree) => tree.entry(join(directory, ".git")) !== undefined)
  const scratch = joinPath(context.work, scratchName(patchScratch))
  mkdirSync(scratch, { mode: 0o700 })
  crashPoint("layerfs.patch.scratchMade")
  try {
    return await makePatch({
      scratch,
      signal,
      changed,
      ignore: { older: rules(older), newer: rules(newer) },
      indexes,
      nestedRepositories: [...above].filter(hasRepository)
    })
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}
