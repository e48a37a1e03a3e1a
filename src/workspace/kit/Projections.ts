/**
 * How a commit becomes a directory in which commands run, and how that becomes a commit again: everything about open workspaces.
 * Promise: each projection is probed and named, never swapped in silence; nothing outlives its scope; a provider adds no rule of
 * its own to these calls. Rules: W2, W4, W12, W17, W23, L2.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as path from "node:path"
import { fromInput } from "../../base/PathBytes.ts"
import { checkOpening } from "../Candidate.ts"
import { RefNotFound, Unavailable } from "../WorkspaceError.ts"
import type { Manifest, OpenOptions, Probe, Projection, Workspace, WorkspaceProvider } from "../WorkspaceProvider.ts"
import type { HolderPool } from "./HolderPool.ts"
import type { LayerCache } from "./LayerCache.ts"
import { findTools, missingForNamespaces } from "./Machine.ts"
import { openCopy, openOverlay, type OpenTree, type TreeRequest } from "./OpenTree.ts"
import { partOf } from "./Door.ts"
import { OpenWorkspace } from "./OpenWorkspace.ts"
import { beginsHere, endedHere } from "./OpenHere.ts"
import { discardLeft, listLeft, newWorkspaceId, recoverLeft, sweepWork } from "./Recovery.ts"
import { watched } from "./ProgressMeter.ts"
import type { LowerServer } from "./ServedLower.ts"
import { Sentinels } from "./Sentinels.ts"
import { settle } from "./Settle.ts"
import type { StorePort } from "./StorePort.ts"

/** The part of the manifest that the machine and the projection decide. */
export type ProjectionManifest = Pick<
  Manifest,
  "visiblePath" | "unprivileged" | "mountAtChosenPath" | "hardLinks" | "stableInodes" | "renameDirectory"
>

export interface Projections
  extends Pick<WorkspaceProvider, "probe" | "open" | "execOn" | "left" | "recover" | "discardLeft"> {
  readonly manifest: ProjectionManifest
}

export interface ProjectionParts {
  readonly store: StorePort
  /** What an overlay stands on; null where trees are shown as directories of their own and nothing else. */
  readonly layers: LayerCache | null
  /** Serves the layer of `lazy`; absent where the provider has none. */
  readonly server?: LowerServer
  /** What a directory of its own is called: named in every result. */
  readonly directory: Projection
  readonly manifest: ProjectionManifest
  /** Holders for overlays that stand ready; none unless the application set one up. */
  readonly pool?: HolderPool | undefined
  /** Asked before the first workspace, and kept. Rejects when it could not find out. */
  readonly probe: () => Promise<Probe>
  /** Dates rows: milliseconds since 1970. */
  readonly now: () => number
}

/**
 * Starts nothing and probes nothing before it is asked to. What it starts lives no longer than an open workspace; the store itself
 * outlives it.
 */
export const makeProjections = (parts: ProjectionParts): Projections => {
  const { store, layers, manifest, now } = parts
  const { tools } = findTools()
  let probed: Promise<Probe> | undefined
  // Once a process, before its first workspace. What cannot be swept now is tried again by the next one.
  let swept: Promise<void> | undefined
  // An answer is kept, a failure to find out (a full disk) is not.
  const probe = (): Promise<Probe> =>
    (probed ??= parts.probe().catch((error) => {
      probed = undefined
      throw error
    }))
  let spaces: Promise<boolean> | undefined
  const namespaces = (): Promise<boolean> => (spaces ??= missingForNamespaces().then((missing) => missing.length === 0))

  const choose = async (wanted: Projection | "auto"): Promise<Projection> => {
    const { projections } = await probe()
    const usable = (projection: Projection) => projections.find((found) => found.projection === projection)
    const overlay = layers === null ? undefined : usable("overlay")
    const first = wanted !== "auto" ? wanted : overlay?.available === true ? "overlay" : parts.directory
    const isOurs = first === parts.directory || (first === "lazy" && parts.server !== undefined)
    const found = first === "overlay" ? overlay : isOurs ? usable(first) : undefined
    if (found?.available === true) return first
    const missing = found?.missing ?? [
      { what: `the ${first} projection`, remedy: "Leave `projection` out, or give one that `probe` names." }
    ]
    throw new Unavailable({
      message: `The ${first} projection does not work ${found === undefined ? "with this provider" : "on this machine"}.`,
      remedy: missing.map(({ remedy }) => remedy).join(" "),
      what: first,
      missing: missing.map(({ what }) => what)
    })
  }

  /** What an attempt has no business with, and may reach. */
  const watchFor = async (project: string, options: OpenOptions): Promise<Sentinels> => {
    const origin = await store.originOf(project)
    const named = [...(options.hide ?? []), ...(options.readOnlyPaths ?? [])].map((at) => fromInput(path.resolve(at)))
    return Sentinels.set([...new Set([...(origin === null ? [] : [origin]), ...named])])
  }

  const openTree = async (branchId: string, options: OpenOptions, signal: AbortSignal): Promise<OpenWorkspace> => {
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
    const projection = await choose(options.projection ?? "auto")
    await (swept ??= sweepWork(store, layers).catch(() => undefined))
    const at = now()
    const { head: base, project } = branch
    const id = newWorkspaceId()
    beginsHere(id)
    try {
      return await watched(
        { signal, progress: options.onProgress },
        (scope) => openAs({ id, branch: branch.id, base, project, options, at, ...scope }, projection),
        (opened) => opened.close()
      )
    } catch (error) {
      endedHere(id)
      throw error
    }
  }

  const belowOf = (projection: "overlay" | "lazy") =>
    projection === "overlay" ? { layers: layers! } : { server: parts.server! }

  const openAs = async (request: TreeRequest, projection: Projection): Promise<OpenWorkspace> => {
    const { branch, base, project, options } = request
    const tree: OpenTree =
      projection === "overlay" || projection === "lazy"
        ? await openOverlay({ store, tools: tools!, pool: parts.pool, below: belowOf(projection) }, request)
        : await openCopy({ store, tools, projection }, request, await namespaces())
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
      await workspace.own(options.ownDirs ?? [], request.signal)
    } catch (error) {
      await workspace.abandon("its own directories could not be made")
      throw error
    }
    return workspace
  }

  /** An opening can be given up; what came about all the same, in the moment before, is closed too. */
  const acquire = (branch: string, options: OpenOptions): Effect.Effect<OpenWorkspace, never, Scope.Scope> =>
    Effect.suspend(() => {
      let opened: OpenWorkspace | undefined
      const close = Effect.promise(async () => {
        if (opened === undefined) return
        await opened.close().catch(() => undefined)
        endedHere(opened.tree.id)
        layers?.trim()
      })
      const opening = settle<OpenWorkspace, never>(async (signal) => (opened = await openTree(branch, options, signal)))
      return Effect.andThen(
        Effect.addFinalizer(() => close),
        opening.pipe(Effect.onInterrupt(() => close))
      )
    })

  const open: Projections["open"] = (branch, options = {}) =>
    acquire(branch, options).pipe(Effect.map((workspace): Workspace => workspace.service()))

  const execOn: Projections["execOn"] = (branch, command, options = {}) =>
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* acquire(branch, options)
        const service = workspace.service()
        const result = yield* service.exec(command, partOf(options, "exec"))
        // The call ends here (L2): what it left running is ended before the files are read.
        yield* Effect.promise(() => workspace.endProcesses())
        const checkpoint = yield* service.checkpoint(partOf(options, "checkpoint"))
        return { result, checkpoint }
      })
    )

  return {
    manifest,
    probe: Effect.promise(probe),
    open,
    execOn,
    left: settle(() => listLeft(store, layers)),
    recover: (workspace, options) =>
      settle(() =>
        recoverLeft({ store, layers, tools, server: parts.server }, workspace, options).finally(() => layers?.trim())
      ),
    discardLeft: (workspace, reason) =>
      settle(() => discardLeft(store, workspace, reason).finally(() => layers?.trim()))
  }
}
