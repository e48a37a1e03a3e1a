/** The refusal of an id that this store does not have. Promise: says which one. Rules: 01 "Errors"; W3. */
import { RefNotFound } from "../../src/workspace/WorkspaceError.ts"

export const refNotFound = (ref: string): RefNotFound =>
  new RefNotFound({
    message: "No project, layer, branch, commit or workspace of this store has this id.",
    remedy: "Use an id that this store returned.",
    ref
  })
