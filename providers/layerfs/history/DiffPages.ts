/**
 * What differs between two commits, in pages.
 * Promise: a page goes on behind the last path of the one before without telling what came before it again; both ends are the commits
 * that the first page resolved; what moved is found over the whole comparison, once. Rules: W3, L3.
 */
import { show, type TreePath } from "../../../src/base/PathBytes.ts"
import type { Change, DiffPage } from "../../../src/workspace/WorkspaceProvider.ts"
import { toChange } from "../Checkpoint.ts"
import type { CommitRow } from "../../../src/workspace/kit/RefStore.ts"
import type { DiffQuestion } from "../StoreCalls.ts"
import { walkDiff } from "../TreeDiff.ts"
import { isText } from "../../../src/workspace/kit/Invalid.ts"
import { commitOf, cursorAt, cursorFor, filterPath, limitOf } from "../../../src/workspace/kit/Question.ts"
import { breathing } from "../../../src/workspace/kit/Steps.ts"
import type { History } from "./History.ts"
import { exactMoves, type Moves } from "./Renames.ts"

/** Comparisons whose moves are kept for their next pages. */
const keptMoves = 4

interface At {
  readonly from: string
  readonly to: string
  readonly path: TreePath
}
const isAt = (at: unknown): at is At =>
  typeof at === "object" && at !== null && [(at as At).from, (at as At).to, (at as At).path].every(isText)

export class DiffPages {
  readonly #moves = new Map<string, Moves | null>()

  /** Throws `RefNotFound`, `QueryInvalid`. */
  async page(history: History, input: DiffQuestion): Promise<DiffPage> {
    const limit = limitOf(input.limit, 1000)
    const question = { diff: input.from, to: input.to, path: input.path }
    const at = input.after === undefined ? undefined : cursorAt(history.refs, question, input.after, isAt)
    const [from, to] = [commitOf(history, input.from, at?.from), commitOf(history, input.to, at?.to)]
    const source = history.refs.project(to.project)?.source ?? null
    const below = input.path === null ? "" : filterPath(input.path, source)
    const breathe = breathing(history.cancelled)
    const moves = await this.#movesOf(history, from, to, breathe)
    const changes: Change[] = []
    let last: TreePath | undefined
    for (const difference of walkDiff(history.trees, from.root, to.root, { behind: at?.path, below })) {
      // One more than fits: there is a next page.
      if (changes.length === limit) {
        const next = cursorFor(history.refs, question, { from: from.id, to: to.id, path: last! })
        return { changes, next, renames: moves === null ? "notLooked" : "exact" }
      }
      last = difference.path
      const [was, is] = [moves?.from.get(last), moves?.to.get(last)]
      changes.push({
        ...toChange(difference),
        ...(was === undefined ? {} : { from: show(was) }),
        ...(is === undefined ? {} : { to: show(is) })
      })
      await breathe()
    }
    return { changes, next: null, renames: moves === null ? "notLooked" : "exact" }
  }

  async #movesOf(
    history: History,
    from: CommitRow,
    to: CommitRow,
    breathe: () => Promise<void> | undefined
  ): Promise<Moves | null> {
    const key = `${from.root} ${to.root}`
    const known = this.#moves.get(key)
    if (known !== undefined) return known
    const moves = await exactMoves(history, from.root, to.root, breathe)
    this.#moves.set(key, moves)
    const [oldest] = this.#moves.keys()
    if (this.#moves.size > keptMoves) this.#moves.delete(oldest!)
    return moves
  }
}
