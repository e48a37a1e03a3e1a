/**
 * The projections of LayerFS: how a commit becomes a directory in which commands run, and how that becomes a commit again.
 * Promise: each projection is probed and named, never swapped in silence; nothing outlives its scope. Rules: W2, W4, W12,
 * W17, W23, L2.
 */
import * as path from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { fromInput } from "../../../src/base/PathBytes.ts"
import { checkOpening } from "../../../src/workspace/Candidate.ts"
import { RefNotFound, Unavailable } from "../../../src/workspace/WorkspaceError.ts"
import type { OpenOptions, Probe, Projection, Workspace } from "../../../src/workspace/WorkspaceProvider.ts"
import type { MakeProjections, ProjectionManifest, Projections } from "../Projections.ts"
import { DiskLayers } from "./DiskLayers.ts"
import { findTools, probeMachine } from "./Machine.ts"
import { openCopy, openOverlay, type OpenTree, type TreeRequest } from "./OpenTree.ts"
import { OpenWorkspace } from "./OpenWorkspace.ts"
import { beginsHere, endedHere } from "./OpenHere.ts"
import { discardLeft, listLeft, newWorkspaceId, recoverLeft, sweepWork } from "./Recovery.ts"
import { Sentinels } from "./Sentinels.ts"
import { settle } from "./Settle.ts"
import type { StorePort } from "./StorePort.ts"

/** What holds for the overlay, which `auto` takes where it can; a copy keeps hard links and renames as they are (W1, L15). */
export const manifest: ProjectionManifest = {
  visiblePath: true,
  unprivileged: true,
  mountAtChosenPath: true,
  hardLinks: "splitOnWrite",
  stableInodes: false,
  renameDirectory: "copyOnly"
}

type Opened = { readonly workspace: OpenWorkspace }

/** `now` is the caller's clock in milliseconds. Starts nothing and probes nothing before it is asked to. */
export const makeProjections: MakeProjections = (store, now) => Effect.sync(() => projectionsOver(store, now))

const projectionsOver = (store: StorePort, now: () => number): Projections => {
  const layers = new DiskLayers(store)
  const { tools } = findTools()
  let probed: Promise<Probe> | undefined
  // Once a process, before its first workspace. What cannot be swept now is tried again by the next one.
  let swept: Promise<void> | undefined
  // An answer is kept, a failure to find out (a full disk) is not.
  const probe = (): Promise<Probe> =>
    (probed ??= probeMachine(path.join(store.directory, "work")).catch((error) => {
      probed = undefined
      throw error
    }))

  const choose = async (wanted: Projection | "auto"): Promise<{ projection: Projection; namespaces: boolean }> => {
    const overlay = (await probe()).projections.find((found) => found.projection === "overlay")!
    // A kernel that refuses the overlay on this disk may still give namespaces; one that lacks a tool gives neither.
    const namespaces = overlay.available || overlay.missing.every(({ what }) => what.startsWith("overlayfs"))
    const usable = namespaces && tools !== undefined && process.platform === "linux"
    if (wanted === "copy") return { projection: "copy", namespaces: usable }
    if (overlay.available) return { projection: "overlay", namespaces: true }
    if (wanted === "auto") return { projection: "copy", namespaces: usable }
    throw new Unavailable({
      message: "The overlay projection does not work on this machine.",
      remedy: overlay.missing.map(({ remedy }) => remedy).join(" "),
      what: "overlay",
      missing: overlay.missing.map(({ what }) => what)
    })
  }

  /** What an attempt has no business with, and may reach. */
  const watchFor = async (project: string, options: OpenOptions): Promise<Sentinels> => {
    const origin = await store.originOf(project)
    const named = [...(options.hide ?? []), ...(options.readOnlyPaths ?? [])].map((at) => fromInput(path.resolve(at)))
    return Sentinels.set([...new Set([...(origin === null ? [] : [origin]), ...named])])
  }

  const openTree = async (branchId: string, options: OpenOptions): Promise<Opened> => {
    const branch = await store.branch(branchId)
    if (branch === undefined) {
      throw new RefNotFound({ message: "No branch has this id.", remedy: "Fork one first.", ref: branchId })
    }
    if (options.as !== undefined) {
      const refused = checkOpening(options.as, {
        commit: branch.head,
        root: (await store.resolve(branch.head))?.root ?? ""
      })
      if (refused !== undefined) throw refused
    }
    const { projection, namespaces } = await choose(options.projection ?? "auto")
    await (swept ??= sweepWork(store).catch(() => undefined))
    const at = now()
    const { head: base, project } = branch
    const id = newWorkspaceId()
    beginsHere(id)
    try {
      return await openAs({ id, branch: branch.id, base, project, options, at }, projection, namespaces)
    } catch (error) {
      endedHere(id)
      throw error
    }
  }

  const openAs = async (request: TreeRequest, projection: Projection, namespaces: boolean): Promise<Opened> => {
    const { branch, base, project, options } = request
    const tree: OpenTree =
      projection === "overlay"
        ? await openOverlay({ store, layers, tools: tools! }, request)
        : await openCopy({ store, tools }, request, namespaces)
    const watching = tree.isolation.level === "enforced" ? Promise.resolve(undefined) : watchFor(project, options)
    const sentinels = await watching.catch(async (error) => {
      await tree.end()
      throw error
    })
    const workspace = new OpenWorkspace({ store, layers }, tree, {
      branch,
      base,
      actor: options.actor ?? {},
      guard: options.guard,
      sentinels
    })
    try {
      await workspace.own(options.ownDirs ?? [])
    } catch (error) {
      await workspace.abandon("its own directories could not be made")
      throw error
    }
    return { workspace }
  }

  const acquire = (branch: string, options: OpenOptions): Effect.Effect<OpenWorkspace, never, Scope.Scope> =>
    Effect.acquireRelease(
      settle<OpenWorkspace, never>(async () => (await openTree(branch, options)).workspace),
      (workspace) =>
        Effect.promise(async () => {
          await workspace.close().catch(() => undefined)
          endedHere(workspace.tree.id)
        })
    )

  const open: Projections["open"] = (branch, options = {}) =>
    acquire(branch, options).pipe(Effect.map((workspace): Workspace => workspace.service()))

  const execOn: Projections["execOn"] = (branch, command, options = {}) =>
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* acquire(branch, options)
        const service = workspace.service()
        const result = yield* service.exec(command, options)
        // The call ends here (L2): what it left running is ended before the files are read.
        yield* Effect.promise(() => workspace.endProcesses())
        const checkpoint = yield* service.checkpoint(options)
        return { result, checkpoint }
      })
    )

  return {
    manifest,
    probe: Effect.promise(probe),
    open,
    execOn,
    left: settle(() => listLeft(store)),
    recover: (workspace, options) => settle(() => recoverLeft({ store, layers, tools }, workspace, options)),
    discardLeft: (workspace, reason) => settle(() => discardLeft(store, workspace, reason))
  }
}
