/**
 * The hard links of an imported directory. Promise: a group has at least two names in the tree; links that lead out of it are said.
 * Rules: W13, W22.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import type { ImportNotes } from "./ImportNotes.ts"
import type { ScannedFile } from "./ImportScan.ts"

/** First path of each hard-link group that has at least two names in the tree (W22). */
export const linkGroups = (files: readonly ScannedFile[], notes: ImportNotes): ReadonlyMap<string, TreePath> => {
  const first = new Map<string, TreePath>()
  const names = new Map<string, number>()
  const links = new Map<string, number>()
  for (const { inode, id, path, links: all } of files) {
    if (inode === undefined || id === undefined) continue
    names.set(inode, (names.get(inode) ?? 0) + 1)
    links.set(inode, all)
    const before = first.get(inode)
    if (before === undefined || path < before) first.set(inode, path)
  }
  let reachOut = 0
  for (const [inode, count] of names) {
    if (count < links.get(inode)!) reachOut += 1
    if (count < 2) first.delete(inode)
  }
  if (reachOut > 0) {
    const many = reachOut === 1 ? "1 file has" : `${reachOut} files have`
    notes.add("normalised", "", `${many} further names (hard links) outside of the import, to which no link is kept`)
  }
  return first
}
