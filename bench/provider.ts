/**
 * The provider under measurement, as plain promises: the bench times single calls from outside.
 * Promise: nothing but the public contract is called, so that every provider can be measured by the same rows.
 * Rules: W3; L1, L2; workspaces.md, "Figures".
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { openLayerFs } from "../providers/layerfs/index.ts"
import type {
  FileStat,
  OpenOptions,
  Projection,
  Workspace,
  WorkspaceProvider
} from "../src/workspace/WorkspaceProvider.ts"

/** Workspaces that a row has open. A row that fails half way must not leave one: its holder would keep the process alive. */
const stillOpen = new Set<() => Promise<void>>()

/** Opens a store of LayerFS, and closes it and every workspace in it when `use` ends. */
export const withStore = <A>(store: string, use: (provider: WorkspaceProvider) => Promise<A>): Promise<A> =>
  withProvider(openLayerFs({ store }), use)

/** The same for any provider. */
export const withProvider = <A, E>(
  open: Effect.Effect<WorkspaceProvider, E, Scope.Scope>,
  use: (provider: WorkspaceProvider) => Promise<A>
): Promise<A> => {
  const used = async (provider: WorkspaceProvider): Promise<A> => {
    try {
      return await use(provider)
    } finally {
      for (const close of stillOpen) await close()
    }
  }
  return Effect.runPromise(Effect.scoped(Effect.flatMap(open, (provider) => Effect.promise(() => used(provider)))))
}

/** Opens a workspace in a scope of its own. */
export const openWorkspace = async (
  provider: WorkspaceProvider,
  branch: string,
  options: OpenOptions = {}
): Promise<{ readonly workspace: Workspace; readonly close: () => Promise<void> }> => {
  const scope = Scope.makeUnsafe()
  const close = (): Promise<void> => {
    stillOpen.delete(close)
    return Effect.runPromise(Scope.close(scope, Exit.void))
  }
  stillOpen.add(close)
  const workspace = await Effect.runPromise(Scope.provide(provider.open(branch, options), scope))
  return { workspace, close }
}

/** A new branch of `from`. */
export const forkOf = async (provider: WorkspaceProvider, from: string): Promise<string> =>
  (await Effect.runPromise(provider.fork(from))).id

/** Why a workspace would not count: rows are held to one projection with isolation in force (W17). */
export const shortfall = (workspace: Workspace, projection: Projection = "overlay"): string | undefined => {
  if (workspace.projection !== projection) return `the projection was ${workspace.projection}`
  if (workspace.isolation.level !== "enforced") return `isolation was ${workspace.isolation.level}`
  return undefined
}

/** Paths of regular files of a commit, depth first, up to `limit`. */
export const filesOf = async (provider: WorkspaceProvider, ref: string, limit: number): Promise<readonly string[]> => {
  const found: string[] = []
  const visit = async (directory: string): Promise<void> => {
    const entries: readonly FileStat[] = await Effect.runPromise(provider.listAt(ref, directory))
    for (const entry of entries) {
      if (found.length >= limit) return
      const name = entry.path.slice(entry.path.lastIndexOf("/") + 1)
      const path = directory === "" ? name : `${directory}/${name}`
      if (entry.type === "file") found.push(path)
      else if (entry.type === "directory") await visit(path)
    }
  }
  await visit("")
  return found
}
