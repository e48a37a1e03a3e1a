/**
 * Makes the directory of an open workspace and takes it away again: overlay or copy, with its namespaces.
 * Promise: a failure on the way leaves no process, mount or directory. Rules: W7, W12, W17, W23, L2; 04 "Projections".
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import { Unavailable } from "../WorkspaceError.ts"
import type { Isolation, OpenOptions, Projection } from "../WorkspaceProvider.ts"
import type { HarvestInput, Spool } from "./Harvest.ts"
import { type Held, holdNamespaces, once, rowOf, withoutNetwork } from "./HeldTree.ts"
import type { Holder } from "./Holder.ts"
import type { HolderPool } from "./HolderPool.ts"
import { type EndableInside, insideOf } from "./Inside.ts"
import { notIsolated, planIsolation, wantedIsolation, withoutProtection } from "./Isolation.ts"
import type { HeldLowers, LayerCache } from "./LayerCache.ts"
import { findPerl, type Tools } from "./Machine.ts"
import { defaultMountPath, mountPlace, placeAsItLies, refuse } from "./MountPath.ts"
import { plainInside } from "./PlainInside.ts"
import { takeSnapshot } from "./ScanHarvest.ts"
import { type LowerServer, servedPrefix, type ServedLower } from "./ServedLower.ts"
import type { MadeTree, MakingScope, StorePort } from "./StorePort.ts"
import { inWork, servedPlace, treeOf } from "./WorkDirectory.ts"

/** Part of the row: an upper is only ever mounted again with exactly these (W23). */
export const overlayFeatures = "userxattr"

export interface OpenTree {
  readonly id: string
  readonly projection: Projection
  /** The real mount path, as a byte string. */
  readonly path: TreePath
  readonly isolation: Isolation
  readonly inside: EndableInside
  /** Null where there are no namespaces to hold. */
  readonly holder: Holder | null
  /** Descriptor of the merged root. Node's own errors arise when it is used after `close`. */
  readonly root: number
  /** What was written: an overlay's upper, or the copied tree. */
  readonly content: string
  readonly work: string
  readonly lowers: readonly string[]
  readonly harvestInput: (spool?: Spool) => HarvestInput
  /** False when the layer below is served and nobody serves it any more. */
  readonly served: () => boolean
  /** Ends every process, then the mounts. The files in `work` stay. */
  readonly end: () => Promise<void>
}

/** Where the caller gives up waiting, what was begun is taken back. */
export interface TreeRequest extends MakingScope {
  readonly id: string
  readonly branch: string
  readonly base: string
  readonly project: string
  readonly options: OpenOptions
  readonly at: number
}

export interface Parts {
  readonly store: StorePort
  readonly layers: LayerCache | null
  readonly tools: Tools
}

/** Where what is written is an overlay's upper. */
export const isOverlaid = (projection: Projection): boolean => projection === "overlay" || projection === "lazy"

/**
 * The options of an overlay whose layers are named relative to the cache directory, beside which the workspaces lie. One that is served is mounted in the
 * workspace's own directory.
 */
export const overlayOptions = (lowers: readonly string[], id: string): string => {
  const own = ["..", "work", id].join("/")
  const places = lowers.map((name) => (name.startsWith(servedPrefix) ? `${own}/lower` : name))
  return `${overlayFeatures},lowerdir=${places.join(":")},upperdir=${own}/upper,workdir=${own}/work`
}

const storeRoot = (store: StorePort): TreePath => fromInput(path.dirname(store.directory))

/** What both projections do the same way before they differ. `inPlace` is where a tree lies that works nowhere else. */
const prepare = async (
  store: StorePort,
  request: TreeRequest,
  isolated: boolean,
  { reach = [] }: MadeTree = {},
  inPlace?: TreePath
) => {
  const { options } = request
  const origin = await store.originOf(request.project)
  const wanted = options.mountPath === undefined ? (origin ?? defaultMountPath) : fromInput(options.mountPath)
  const place =
    inPlace === undefined ? mountPlace(wanted, storeRoot(store), isolated) : placeAsItLies(inPlace, isolated)
  const protect = (mountinfo: string) =>
    isolated
      ? planIsolation({
          workspacePath: place.path,
          store: storeRoot(store),
          origin,
          hide: options.hide ?? [],
          readOnlyPaths: options.readOnlyPaths ?? [],
          reach,
          uid: process.getuid!(),
          deviceParent: path.join(store.directory, "cache"),
          mountinfo
        })
      : { plan: withoutProtection, isolation: notIsolated }
  return { place, protect }
}

interface OverlayParts {
  readonly store: StorePort
  readonly tools: Tools
  readonly pool: HolderPool | undefined
  /** What it stands on: layers that are written out, or one that is served. */
  readonly below: { readonly layers: LayerCache } | { readonly server: LowerServer }
}

/** The layers of a commit; `serve` begins to serve the one that is served. */
const lowersOf = async (
  { store, below }: OverlayParts,
  { base, signal, progress }: TreeRequest
): Promise<HeldLowers & { serve?: () => Promise<ServedLower> }> =>
  "layers" in below
    ? below.layers.ensure(base, { signal, progress })
    : {
        directory: path.join(store.directory, "cache"),
        names: [await below.server.nameOf(base)],
        release: () => undefined,
        serve: () => below.server.begin(base)
      }

export const openOverlay = async (parts: OverlayParts, request: TreeRequest): Promise<OpenTree> => {
  const { store } = parts
  const projection = "layers" in parts.below ? "overlay" : "lazy"
  const { id } = request
  const perl = perlFor(request.options, true)
  const wanted = wantedIsolation(request.options)
  const { place, protect } = await prepare(store, request, wanted.isolated)
  const rootMode = store.rootMode(request.base)
  rootMode.catch(() => undefined)
  const lowers = await lowersOf(parts, request)
  const opened = inWork(store, id, async (work): Promise<OpenTree> => {
    const { mode } = await rootMode
    request.signal.throwIfAborted()
    const upper = path.join(work, "upper")
    for (const name of ["upper", "work"]) fs.mkdirSync(path.join(work, name), { mode: 0o700 })
    if (projection === "lazy") fs.mkdirSync(servedPlace(work), { mode: 0o700 })
    fs.chmodSync(upper, mode)
    const mountOptions = overlayOptions(lowers.names, id)
    const mounts = {
      workspacePath: place.path,
      overlayOptions: mountOptions,
      bindTree: null,
      stage: fromInput(path.join(work, "stage")),
      makeBelow: place.makeBelow
    }
    const held = await holdNamespaces(parts, place, {
      ...request,
      projection,
      directory: lowers.directory,
      work,
      lowers: lowers.names,
      mountOptions,
      mounts,
      protect,
      perl,
      network: wanted.network,
      pool: wanted.network === "host" ? parts.pool : undefined,
      serve: lowers.serve
    })
    return {
      ...overlaid(held),
      id,
      projection,
      path: place.path,
      content: upper,
      work,
      lowers: lowers.names,
      harvestInput: overlayHarvest(upper, held)
    }
  })
  return opened.finally(lowers.release)
}

/** An overlay as it is held. */
export const overlaid = (held: Held) => ({
  holder: held.holder,
  root: held.root,
  isolation: held.isolation,
  inside: insideOf(held.holder, held),
  served: held.served,
  end: held.end
})

export const overlayHarvest =
  (upper: string, { root }: Held): OpenTree["harvestInput"] =>
  (spool) => ({
    kind: "overlay",
    upper: fromInput(upper),
    merged: `/proc/self/fd/${root}`,
    ...(spool === undefined ? {} : { spool })
  })

/** `namespaces` is false where the machine has none: then the copy is used where it lies, without isolation. */
export const openCopy = async (
  parts: { readonly store: StorePort; readonly tools: Tools | undefined; readonly projection: Projection },
  request: TreeRequest,
  namespaces: boolean
): Promise<OpenTree> => {
  const { store, projection } = parts
  const { id } = request
  const perl = perlFor(request.options, namespaces)
  const wanted = wantedIsolation(request.options)
  if (!namespaces && wanted.network === "none") throw withoutNetwork("this machine has no namespaces for it")
  return inWork(store, id, async (work) => {
    const tree = treeOf(work)
    const snapshot = path.join(work, "snapshot")
    const made = await store.materialise(request.base, tree, id, request)
    const inPlace = made.staysInPlace === true ? fromInput(tree) : undefined
    if (inPlace !== undefined && request.options.mountPath !== undefined) {
      throw refuse(
        fromInput(request.options.mountPath),
        "this provider's tree works only where it was made",
        "Leave `mountPath` out."
      )
    }
    fs.writeFileSync(snapshot, await takeSnapshot(fromInput(tree), request.signal), { mode: 0o600, encoding: "latin1" })
    const common = {
      id,
      projection,
      content: tree,
      work,
      lowers: [],
      served: () => true,
      harvestInput: (spool?: Spool) => ({
        kind: "scan" as const,
        tree: fromInput(tree),
        snapshot: fromInput(snapshot),
        ...(spool === undefined ? {} : { spool })
      })
    }
    if (!namespaces || parts.tools === undefined) {
      await store.putWorkspace(rowOf({ ...request, projection, lowers: [], mountOptions: "" }, tree, null))
      const root = fs.openSync(tree, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
      const inside = plainInside(id, tree, made.variables)
      return {
        ...common,
        path: fromInput(tree),
        isolation: notIsolated,
        inside,
        holder: null,
        root,
        end: once(async () => {
          fs.closeSync(root)
          await inside.end()
        })
      }
    }
    const { isolated } = wanted
    const { place, protect } = await prepare(store, request, isolated, made, inPlace)
    const mounts = {
      workspacePath: place.path,
      overlayOptions: null,
      bindTree: fromInput(tree),
      stage: fromInput(path.join(work, "stage")),
      makeBelow: place.makeBelow
    }
    const held = await holdNamespaces({ store, tools: parts.tools }, place, {
      ...request,
      projection,
      directory: work,
      work,
      lowers: [],
      mountOptions: "bind",
      mounts,
      protect,
      perl,
      network: wanted.network
    })
    return {
      ...common,
      ...overlaid(held),
      path: place.path,
      inside: insideOf(held.holder, { ...held, variables: made.variables })
    }
  })
}

/** What a resident shell runs in, when one is asked for. Throws `Unavailable`. */
const perlFor = (options: OpenOptions, namespaces: boolean): string | undefined => {
  if (options.residentShell !== true) return undefined
  const perl = namespaces ? findPerl() : undefined
  if (perl !== undefined) return perl
  throw new Unavailable({
    message: "A resident shell does not work on this machine.",
    remedy: namespaces
      ? "Install the package perl-base, or leave `residentShell` out."
      : "Leave `residentShell` out: without namespaces a command has no launcher that it could save.",
    what: "resident shell",
    missing: [namespaces ? "the program perl" : "namespaces"]
  })
}
