/**
 * A branch that begins at a layer, branch or commit. Promise: one row; an operation id that is repeated answers its branch, and stands for
 * nothing else. Rules: L1, W10, G75.
 */
import { newId } from "../../base/Id.ts"
import type { ForkQuestion } from "./Questions.ts"
import type { BranchRow } from "./RefStore.ts"
import { operationUsed, refNotFound } from "./Refusals.ts"
import type { SqliteRefs } from "./SqliteRefs.ts"

type ForkRefs = Pick<SqliteRefs, "operation" | "branch" | "resolve" | "fork">

/** Rejects with `RefNotFound`, `OperationUsed`. */
export const forkFrom = async (refs: ForkRefs, { from, name, operationId }: ForkQuestion): Promise<BranchRow> => {
  const answered = (result: unknown): BranchRow => {
    const { branch, ...rest } = result as { readonly branch?: string }
    const row = branch === undefined || Object.keys(rest).length > 0 ? undefined : refs.branch(branch)
    if (row === undefined || row.base !== from) throw operationUsed(operationId!)
    return row
  }
  const known = operationId === undefined ? undefined : refs.operation(operationId)
  if (known !== undefined) return answered(known.result)
  const commit = refs.resolve(from)
  if (commit === undefined) throw refNotFound(from)
  const row = { id: newId("branch"), project: commit.project, name, base: from, head: commit.id }
  const repeated = await refs.fork(row, operationId)
  return repeated === undefined ? row : answered(repeated.result)
}
