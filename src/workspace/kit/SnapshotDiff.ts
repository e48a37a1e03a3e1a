/**
 * What differs between two commits, in pages. Promise: both ends are the commits that the first page resolved; a page goes on behind the
 * last path of the one before. Moves are not looked for. Rules: W3, L3.
 */
import type { TreePath } from "../../base/PathBytes.ts"
import type { Change, DiffPage } from "../WorkspaceProvider.ts"
import type { CommitTree } from "./CommitTree.ts"
import { isText } from "./Invalid.ts"
import { commitOf, cursorAt, cursorFor, filterPath, limitOf, type RefHistory } from "./Question.ts"
import { breathing } from "./Steps.ts"
import type { Paged } from "./Questions.ts"
import { changeOf, differences } from "./TreeCompare.ts"

interface At {
  readonly from: string
  readonly to: string
  readonly path: TreePath
}
const isAt = (at: unknown): at is At =>
  typeof at === "object" && at !== null && [(at as At).from, (at as At).to, (at as At).path].every(isText)

/** Rejects with `RefNotFound`, `QueryInvalid`, `ObjectDamaged`. */
export const diffKept = async (
  history: RefHistory & { readonly treeOf: (commit: string) => Promise<CommitTree> },
  input: Paged & { readonly from: string; readonly to: string; readonly path: TreePath | null }
): Promise<DiffPage> => {
  const limit = limitOf(input.limit, 1000)
  const question = { diff: input.from, to: input.to, path: input.path }
  const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isAt)
  const [from, to] = [commitOf(history, input.from, at?.from), commitOf(history, input.to, at?.to)]
  const below = input.path === null ? "" : filterPath(input.path, history.refs.project(to.project)?.source ?? null)
  const breathe = breathing(history.cancelled)
  const changes: Change[] = []
  let last: TreePath = ""
  for (const difference of differences(await history.treeOf(from.id), await history.treeOf(to.id))) {
    await breathe()
    const { path } = difference
    if (at !== undefined && path <= at.path) continue
    if (below !== "" && path !== below && !path.startsWith(`${below}/`)) continue
    // One more than fits: there is a next page.
    if (changes.length === limit) {
      return {
        changes,
        next: cursorFor(history.refs, question, { from: from.id, to: to.id, path: last }),
        renames: "notLooked"
      }
    }
    last = path
    changes.push(changeOf(difference))
  }
  return { changes, next: null, renames: "notLooked" }
}
