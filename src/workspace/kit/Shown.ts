/** Rows as callers see them. Rules: W3, L7. */
import type { CommitInfo, MovedHead } from "../WorkspaceProvider.ts"
import type { MoveReply } from "./Questions.ts"
import type { CommitRow } from "./RefStore.ts"

export const commitInfo = (row: CommitRow): CommitInfo => ({
  id: row.id,
  project: row.project,
  parent: row.parent,
  secondParent: row.secondParent,
  root: row.root,
  message: row.message,
  at: row.at,
  operationId: row.operationId,
  actor: row.actor,
  live: row.live
})

/** The store knows the commits and nothing of what was done outside. */
export const movedHead = (reply: MoveReply): MovedHead => ({
  ...reply,
  effects:
    reply.undone.commits === 0
      ? { state: "none" }
      : { state: "unknown", reason: "The workspace store keeps no effects; ask the authority about these goals." }
})
