/**
 * One decision at a time about a workspace that was left: whoever recovers or drops it says so in its row first.
 * Promise: of two that want to decide, in whatever processes, one does and the other waits for it, then sees what came of it, or is `Busy` with
 * nothing done; a claim of a process that has died, or of a decision that failed, keeps nobody out. Rules: W12, W23, L12.
 */
import { threadId } from "node:worker_threads"
import { crashPoint } from "../../base/CrashPoint.ts"
import { newId } from "../../base/Id.ts"
import { isAliveIn } from "../../base/LifeSign.ts"
import { currentIdentity } from "../../base/ProcessIdentity.ts"
import { Busy } from "../../sqlite/Database.ts"
import type { Decider, WorkspaceRow } from "./RefStore.ts"
import type { StorePort } from "./StorePort.ts"

/** As long as a call waits for a locked store. */
const patienceMs = 5000

/** Claims of this thread whose decision goes on. */
const deciding = new Set<string>()

const mayStillDecide = (root: string, { claim, process, thread }: Decider): boolean => {
  if (deciding.has(claim)) return true
  const self = currentIdentity()
  const isThisOne =
    process.pid === self.pid && process.startTime === self.startTime && process.pidNamespace === self.pidNamespace
  // Its decision is over: it could not say so in the row.
  if (isThisOne && process.bootId === self.bootId && thread === threadId) return false
  return isAliveIn(root, process) !== false
}

const busy = (decider: Decider, waitedMs: number): Busy =>
  new Busy({
    message: `Another process (${decider.process.pid}) is recovering or discarding this workspace.`,
    remedy:
      "Nothing was done. Repeat the call when that has ended: what came of it is said then. A process that was stopped in it must go on or be ended.",
    waitedMs
  })

/** Claims what `look` answers, which throws when nobody may decide about it any more. */
const claim = async (store: StorePort, look: () => Promise<WorkspaceRow>, decider: Decider): Promise<WorkspaceRow> => {
  const began = performance.now()
  for (let pause = 2; ; pause = Math.min(pause * 2, 100)) {
    const row = await look()
    const before = row.decider ?? null
    const taken = before !== null && mayStillDecide(store.directory, before)
    if (!taken && (await store.claimWorkspace(row.id, before?.claim ?? null, decider))) return row
    const waitedMs = performance.now() - began
    if (taken && waitedMs > patienceMs) throw busy(before, waitedMs)
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** Runs `decide` while nobody else decides. When it fails, the workspace waits for a decision as before. */
export const decideAlone = async <A>(
  store: StorePort,
  look: () => Promise<WorkspaceRow>,
  decide: (row: WorkspaceRow) => Promise<A>
): Promise<A> => {
  const decider = { claim: newId("operation"), process: currentIdentity(), thread: threadId }
  deciding.add(decider.claim)
  try {
    const row = await claim(store, look, decider)
    crashPoint("recovery.claimed")
    try {
      return await decide(row)
    } catch (error) {
      // Where even that cannot be written, this thread knows that the claim counts no more; others when the process has ended.
      await store.updateWorkspace(row.id, { decider: null }).catch(() => undefined)
      throw error
    }
  } finally {
    deciding.delete(decider.claim)
  }
}
