/**
 * The end of an import: what was scanned and read becomes trees, a project, its first layer and one commit.
 * Promise: one transaction, so that the project is there whole or not at all; equal directories give equal trees; a repeated
 * operation answers what the first one made. Rules: W13, W22, G75, L8, L14, L15.
 */
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { newId } from "../../src/base/Id.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import type { ImportReceipt } from "../../src/workspace/WorkspaceProvider.ts"
import type { ImportContext } from "./Import.ts"
import type { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { linkGroups } from "../../src/workspace/kit/LinkGroups.ts"
import type { Scan, ScannedDirectory } from "../../src/workspace/kit/ImportScan.ts"
import type { ObjectWriter } from "./PackedObjects.ts"
import { encodeRoot } from "./TreeCodec.ts"
import { type TreeItem, writeDirectory } from "./TreePages.ts"

const writeTree = (
  directory: ScannedDirectory,
  groups: ReadonlyMap<string, TreePath>,
  objects: ObjectWriter
): { tree: Digest; times: Digest; linked: boolean } => {
  const items: TreeItem[] = []
  for (const entry of directory.entries) {
    if (entry.type === "file") {
      if (entry.id === undefined) continue
      const linkGroup = (entry.inode === undefined ? undefined : groups.get(entry.inode)) ?? null
      const { name, mode, size } = entry
      const file = { name, type: "file", mode, size, id: entry.id as Digest, linkGroup } as const
      items.push({ entry: file, time: { mtimeNs: entry.mtimeNs, times: null } })
    } else if (entry.type === "symlink") {
      const link = { name: entry.name, type: "symlink", target: entry.target } as const
      items.push({ entry: link, time: { mtimeNs: entry.mtimeNs, times: null } })
    } else {
      const child = writeTree(entry, groups, objects)
      const { name, mode } = entry
      const below = { name, type: "directory", mode, id: child.tree, linked: child.linked } as const
      items.push({ entry: below, time: { mtimeNs: entry.mtimeNs, times: child.times } })
    }
  }
  return writeDirectory(objects, items)
}

/** Commits a scanned and read tree as a new project with its first layer. */
export const commitImport = async (
  context: ImportContext,
  input: { readonly name: string; readonly operationId: string; readonly at: number; readonly source: TreePath | null },
  scanned: Pick<Scan, "root" | "files" | "directories" | "symlinks">,
  notes: ImportNotes
): Promise<ImportReceipt> => {
  const { objects, refs } = context
  const groups = linkGroups(scanned.files, notes)
  const tree = writeTree(scanned.root, groups, objects)
  const { mode, mtimeNs } = scanned.root
  const times = objects.write("times", encodeRoot({ mode, mtimeNs, times: tree.times }))
  const packed = objects.flush()
  crashPoint("layerfs.import.packSynced")
  const kept = scanned.files.filter((file) => file.id !== undefined)
  const project = { id: newId("project"), name: input.name, source: input.source }
  const commit = {
    id: newId("commit"),
    project: project.id,
    parent: null,
    root: tree.tree,
    times,
    message: `Import ${input.name}`,
    at: input.at,
    operationId: input.operationId,
    actor: {},
    live: false
  }
  const layer = newId("layer")
  let storedBytes = 0
  const seen = new Set<number>()
  for (const object of packed) {
    if (seen.has(object.groupOffset)) continue
    seen.add(object.groupOffset)
    storedBytes += object.groupLength
  }
  const receipt: ImportReceipt = {
    operationId: input.operationId,
    project: project.id,
    layer,
    commit: commit.id,
    root: tree.tree,
    files: kept.length,
    directories: scanned.directories,
    symlinks: scanned.symlinks,
    hardLinkGroups: groups.size,
    bytes: kept.reduce((sum, file) => sum + file.size, 0),
    storedBytes,
    durability: context.durability,
    ...notes.forReceipt()
  }
  const added = await refs.addCommit({
    objects: packed,
    packLengths: objects.packLengths(),
    commit,
    result: receipt,
    layer: { id: layer, project }
  })
  if (added.kind === "repeated") {
    objects.abandon()
    return added.result as ImportReceipt
  }
  objects.committed()
  crashPoint("layerfs.import.committed")
  return receipt
}
