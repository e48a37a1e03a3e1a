/**
 * What becomes of an open workspace whose caller has lost its authority.
 * Promise: what no checkpoint holds stands on a branch of its own before the caller is told; the workspace's branch does not
 * move; repeated after a crash it finds its own branch and commit again. Rules: W12, W18.
 */
import { AuthorityLost } from "../../base/AuthorityGuard.ts"
import type { Actor, Quarantine } from "../WorkspaceProvider.ts"
import type { CheckpointReply, CheckpointRequest, StorePort } from "./StorePort.ts"

/** A harvest that was committed; what could not be read on the way was read through the holder. */
export type Harvested = Exclude<CheckpointReply, { readonly unreadable: readonly string[] }>

export const quarantineOf = async (
  store: StorePort,
  at: { readonly workspace: string; readonly head: string; readonly actor: Actor; readonly live: boolean },
  commit: (request: Omit<CheckpointRequest, "harvest">) => Promise<Harvested>
): Promise<{ readonly kept: Quarantine; readonly harvested: Harvested }> => {
  const { workspace, head, actor, live } = at
  const branch = await store.fork(head, `quarantine/${workspace}`, `${workspace}.quarantine-branch`)
  const harvested = await commit({
    branch: branch.id,
    expectedHead: head,
    message: `Quarantined from workspace ${workspace}: its holder had lost the authority`,
    operationId: `${workspace}.quarantine`,
    actor,
    keepTimes: false,
    live
  })
  const kept = { branch: branch.id, commit: harvested.outcome.commit }
  await store.updateWorkspace(workspace, { state: "quarantined", quarantine: kept, note: "authority lost" })
  return { kept, harvested }
}

/** The guard's answer, with what became of the files. */
export const told = (lost: AuthorityLost, workspace: string, kept: Quarantine | null, failed: boolean): AuthorityLost =>
  new AuthorityLost({
    message: lost.message,
    remedy: failed
      ? `${lost.remedy} The files could not be committed: they are kept, see \`left\`.`
      : kept === null
        ? `${lost.remedy} Nothing stood beyond the last checkpoint.`
        : `${lost.remedy} The files stand on the quarantine branch, see \`left\`.`,
    authority: lost.authority,
    why: lost.why,
    workspace,
    quarantine: kept
  })
