/**
 * The store as the projections need it (projection/StorePort.ts), over the calls of the worker.
 * Promise: nothing is added: each member is one call. Rules: W10, W12, W23.
 */
import { RefNotFound } from "../../src/workspace/WorkspaceError.ts"
import type { CallOptions, LayerStore } from "./LayerStore.ts"
import type { MakingScope, StorePort } from "../../src/workspace/kit/StorePort.ts"

const orUndefined = async <A>(call: Promise<A>): Promise<A | undefined> => {
  try {
    return await call
  } catch (error) {
    if ((error as { _tag?: string })._tag === "RefNotFound") return undefined
    throw error
  }
}

const until = (signal: AbortSignal | undefined): CallOptions => (signal === undefined ? {} : { signal })

const heard = ({ signal, progress }: MakingScope): CallOptions =>
  progress === undefined ? { signal } : { signal, onProgress: progress }

/** With what the layers need besides. */
export interface LayerStorePort extends StorePort {
  /** Writes what a commit needs above a view of another one. False, and nothing is written, when that is more than `limit` entries. */
  readonly materialiseDelta: (
    commit: string,
    below: string,
    target: string,
    limit: number,
    scope: MakingScope
  ) => Promise<boolean>
  /** Whether the commit changed a name of a hard-link group of the other one, or took it away. */
  readonly touchesLinks: (commit: string, below: string) => Promise<boolean>
}

/** `now` is the caller's clock in milliseconds: it dates commits. */
export const storePortOf = (store: LayerStore, now: () => number): LayerStorePort => ({
  directory: store.directories.root,
  durability: store.durability,
  branch: (id) => orUndefined(store.call("branch", { id })),
  resolve: (ref) => orUndefined(store.call("resolve", { ref })),
  originOf: async (project) => (await orUndefined(store.call("project", { id: project })))?.source ?? null,
  rootMode: async (commit) => {
    const root = await store.call("entry", { ref: commit, path: "" })
    if (root !== null) return { mode: root.mode, mtimeNs: root.mtimeNs }
    throw new RefNotFound({ message: "The commit has no root.", remedy: "Run verify on the store.", ref: commit })
  },
  linksBelow: (commit, directories) => store.call("linksBelow", { ref: commit, directories }),
  materialise: async (commit, target, _workspace, scope) => {
    const at = Buffer.from(target, "utf8").toString("latin1")
    await store.call("materialise", { commit, target: at }, heard(scope))
    return {}
  },
  materialiseDelta: (commit, below, target, limit, scope) => {
    const at = Buffer.from(target, "utf8").toString("latin1")
    return store.call("materialiseDelta", { commit, below, limit, target: at }, heard(scope))
  },
  touchesLinks: (commit, below) => store.call("touchesLinks", { commit, below }),
  fork: (from, name, operationId) => store.call("fork", { from, name, operationId }),
  checkpoint: (request, signal) => store.call("checkpoint", { ...request, at: now() }, until(signal)),
  grepTexts: (input) => store.call("grepTexts", input),
  preview: (base, harvest, signal) => store.call("preview", { base, harvest }, until(signal)),
  putWorkspace: (row) => store.call("putWorkspace", row),
  updateWorkspace: (id, change) => store.call("updateWorkspace", { id, change }),
  claimWorkspace: (id, before, decider) => store.call("claimWorkspace", { id, before, decider }),
  workspaces: (states) => store.call("workspaces", { states })
})
