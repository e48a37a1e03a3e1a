/**
 * Refusals that every provider says alike. Promise: each says what was refused, and what to do. Rules: 01 "Errors"; W3, W10.
 */
import { HeadMoved, OperationUsed, RefNotFound } from "../WorkspaceError.ts"

export const refNotFound = (ref: string): RefNotFound =>
  new RefNotFound({
    message: "Nothing of this store that the call takes has this id.",
    remedy:
      "Give the id of a layer, branch or commit where a state is meant, and that of a branch where it is to change.",
    ref
  })

export const headMoved = (branch: string, expected: string, actual: string): HeadMoved =>
  new HeadMoved({
    message: "The branch has moved since this state was read.",
    remedy:
      "Nothing was changed. See what the branch gained with diff; then fork the new head and apply the work there, or move the head again with it as expectedHead.",
    branch,
    expected,
    actual
  })

export const operationUsed = (operationId: string): OperationUsed =>
  new OperationUsed({
    message: "This operation id stands for another request.",
    remedy:
      "Use a new operation id for a new request; findOperation says which commit the old one made. Nothing was done.",
    operationId
  })
