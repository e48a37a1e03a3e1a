/**
 * Makes the directory of an open workspace and takes it away again: overlay or copy, with its namespaces.
 * Promise: the row with everything a recovery needs stands before the first mount; a failure on the way leaves no process,
 * mount or directory; the directory descriptor is closed before the holder ends, because it would outlive it.
 * Rules: W7, W12, W17, W23, L2; 04 "Projections".
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import { faultPoint } from "../../base/FaultPoint.ts"
import { fromInput, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { Unavailable } from "../WorkspaceError.ts"
import type { Isolation, OpenOptions, Projection } from "../WorkspaceProvider.ts"
import type { WorkspaceRow } from "./RefStore.ts"
import type { HeldLowers, LayerCache } from "./LayerCache.ts"
import type { HarvestInput, Spool } from "./Harvest.ts"
import { Holder, HolderFailed, type Network } from "./Holder.ts"
import type { HolderPool } from "./HolderPool.ts"
import { type EndableInside, insideOf } from "./Inside.ts"
import {
  notIsolated,
  planIsolation,
  type Protected,
  type Protection,
  readBack,
  wantedIsolation,
  withoutProtection
} from "./Isolation.ts"
import { currentIdentity, type ProcessIdentity } from "../../base/ProcessIdentity.ts"
import { bootId, findPerl, freshName, kernelRelease, startTimeOf, type Tools } from "./Machine.ts"
import { defaultMountPath, type MountPlace, mountPlace, placeAsItLies, refuse } from "./MountPath.ts"
import { type MountPlan, mountTable } from "./MountTable.ts"
import { removeTree } from "./RemoveTree.ts"
import { ResidentShell } from "./ResidentShell.ts"
import { plainInside } from "./PlainInside.ts"
import { takeSnapshot } from "./ScanHarvest.ts"
import { type LowerServer, servedPrefix, type ServedLower } from "./ServedLower.ts"
import type { MadeTree, StorePort } from "./StorePort.ts"

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

export interface TreeRequest {
  readonly id: string
  readonly branch: string
  readonly base: string
  readonly project: string
  readonly options: OpenOptions
  readonly at: number
  /** Of the caller, who may give up waiting: then what was begun is taken back. */
  readonly signal: AbortSignal
}

export interface Parts {
  readonly store: StorePort
  readonly layers: LayerCache | null
  readonly tools: Tools
}

/** Who makes or made the directory: by its name, else by the file in it; null when neither says. */
export const makerOf = (work: string): ProcessIdentity | null => {
  try {
    const [, inName] = /^\.fresh-([\w-]+)\./.exec(path.basename(work)) ?? []
    const text =
      inName === undefined ? fs.readFileSync(path.join(work, "owner"), "utf8") : Buffer.from(inName, "base64url")
    return JSON.parse(text.toString()) as ProcessIdentity
  } catch {
    return null
  }
}

export const bytesOf = (text: string): TreePath => fromInput(text)
/** Where what is written is an overlay's upper. */
export const isOverlaid = (projection: Projection): boolean => projection === "overlay" || projection === "lazy"

export const workOf = (store: StorePort, id: string): string => path.join(store.directory, "work", id)

/**
 * The options of an overlay whose layers are named relative to the cache directory, beside which the workspaces lie. One that is served is mounted in the
 * workspace's own directory.
 */
export const overlayOptions = (lowers: readonly string[], id: string): string => {
  const own = ["..", "work", id].join("/")
  const places = lowers.map((name) => (name.startsWith(servedPrefix) ? `${own}/lower` : name))
  return `${overlayFeatures},lowerdir=${places.join(":")},upperdir=${own}/upper,workdir=${own}/work`
}

/** Where a lower layer that is served is mounted. */
const servedPlace = (work: string): string => path.join(work, "lower")

const storeRoot = (store: StorePort): TreePath => bytesOf(path.dirname(store.directory))

const openRoot = (holder: Holder, at: TreePath): number =>
  fs.openSync(toBytes(`/proc/${holder.innerPid}/root${at}`), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)

/** Takes the files of a workspace away, and whatever else was set up for it. */
export const removeWork = async (store: StorePort, id: string): Promise<void> => {
  const work = workOf(store, id)
  await store.clear?.(treeOf(work))
  await removeTree(work)
  await store.unmake?.(id, treeOf(work))
}

/** Where a directory of its own lies. */
export const treeOf = (work: string): string => path.join(work, "tree")

const withoutNetwork = (why: string): Unavailable =>
  new Unavailable({
    message: "A workspace without network cannot be had on this machine.",
    remedy:
      'Allow network namespaces (sysctl user.max_net_namespaces above 0, and user namespaces), or open without `network: "none"`.',
    what: "workspace without network",
    missing: [`network namespaces (${why})`]
  })

/** What kept the holder from getting ready, as the caller can act on it. */
const explain = (error: unknown, place: MountPlace, network: Network = "host"): unknown => {
  if (!(error instanceof HolderFailed)) return error
  if (error.silent) {
    return new Unavailable({
      message: "The process that sets up the workspace's namespaces did not answer within its bound.",
      remedy:
        "Nothing was left behind. Open again; where that happens again, look for what stops processes here (SIGSTOP), or for a machine too busy to start one.",
      what: "workspace namespaces",
      missing: ["an answer of the holder process"]
    })
  }
  if (network === "none" && error.stderr.startsWith("unshare: ")) return withoutNetwork(error.stderr.split("\n")[0]!)
  const lines = error.stderr.split("\n").filter((line) => line.startsWith("mount: "))
  if (lines.some((line) => line.includes(`${place.path}:`))) {
    return refuse(place.path, "the kernel refused the mount", "Give another `mountPath`, for example one below /tmp.")
  }
  const said = lines[0] ?? error.stderr.split("\n").findLast((line) => line.trim() !== "")
  return new Unavailable({
    message: "The workspace's namespaces could not be set up on this machine.",
    remedy:
      'Run `probe` and follow what it names; see that the machine\'s Perl works (`perl -e 1`), if it has one; or open with `projection: "copy"`.',
    what: "workspace namespaces",
    missing: [
      said?.replace(/\/\S+/g, "…") ?? "the holder process, begun by unshare and Perl (or a shell), ended without a word"
    ]
  })
}

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
  const wanted = options.mountPath === undefined ? (origin ?? defaultMountPath) : bytesOf(options.mountPath)
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

/**
 * Runs `make` in a fresh directory of the store; when it fails, the directory goes again. It names its owner, so that one that a
 * killed process left before its row stood can be told from one that is being made (`sweepWork`).
 */
const inWork = async <A>(store: StorePort, id: string, make: (work: string) => Promise<A>): Promise<A> => {
  const work = workOf(store, id)
  const fresh = path.join(path.dirname(work), freshName(id))
  faultPoint("workspace.make")
  fs.mkdirSync(fresh, { mode: 0o700 })
  crashPoint("workspace.freshMade")
  try {
    fs.writeFileSync(path.join(fresh, "owner"), JSON.stringify(currentIdentity()), { mode: 0o600 })
    fs.renameSync(fresh, work)
    crashPoint("workspace.made")
    fs.mkdirSync(path.join(work, "stage"), { mode: 0o700 })
    return await make(work)
  } catch (error) {
    await removeTree(fresh)
    await removeWork(store, id)
    throw error
  }
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
  commit: string,
  signal: AbortSignal
): Promise<HeldLowers & { serve?: () => Promise<ServedLower> }> =>
  "layers" in below
    ? below.layers.ensure(commit, signal)
    : {
        directory: path.join(store.directory, "cache"),
        names: [await below.server.nameOf(commit)],
        release: () => undefined,
        serve: () => below.server.begin(commit)
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
  const lowers = await lowersOf(parts, request.base, request.signal)
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
      stage: bytesOf(path.join(work, "stage")),
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
    upper: bytesOf(upper),
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
    const made = await store.materialise(request.base, tree, id, request.signal)
    const inPlace = made.staysInPlace === true ? bytesOf(tree) : undefined
    if (inPlace !== undefined && request.options.mountPath !== undefined) {
      throw refuse(
        bytesOf(request.options.mountPath),
        "this provider's tree works only where it was made",
        "Leave `mountPath` out."
      )
    }
    fs.writeFileSync(snapshot, await takeSnapshot(bytesOf(tree), request.signal), { mode: 0o600, encoding: "latin1" })
    const common = {
      id,
      projection,
      content: tree,
      work,
      lowers: [],
      served: () => true,
      harvestInput: (spool?: Spool) => ({
        kind: "scan" as const,
        tree: bytesOf(tree),
        snapshot: bytesOf(snapshot),
        ...(spool === undefined ? {} : { spool })
      })
    }
    if (!namespaces || parts.tools === undefined) {
      await store.putWorkspace(rowOf({ ...request, projection, lowers: [], mountOptions: "" }, tree, null))
      const root = fs.openSync(tree, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
      const inside = plainInside(id, tree, made.variables)
      return {
        ...common,
        path: bytesOf(tree),
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
      bindTree: bytesOf(tree),
      stage: bytesOf(path.join(work, "stage")),
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

/** Runs at most once, whoever asks. */
export const once = (run: () => Promise<void>): (() => Promise<void>) => {
  let running: Promise<void> | undefined
  return () => (running ??= run())
}

type RowInput = Pick<TreeRequest, "id" | "branch" | "base" | "at"> & {
  readonly projection: Projection
  readonly lowers: readonly string[]
  readonly mountOptions: string
}

const rowOf = (input: RowInput, mountPath: string, holder: Holder | null): WorkspaceRow => ({
  id: input.id,
  branch: input.branch,
  base: input.base,
  projection: input.projection,
  state: "open",
  // Without a holder the SDK's own process stands for it: when that is gone, so is whoever could close the workspace.
  holderPid: holder?.identity.pid ?? process.pid,
  holderStart: holder === null ? startTimeOf(process.pid) : holder.identity.startTime,
  bootId: bootId(),
  owner: currentIdentity(),
  lowers: input.lowers,
  mountOptions: input.mountOptions,
  kernel: kernelRelease(),
  mountPath,
  at: input.at,
  note: null
})

export interface HoldInput extends RowInput {
  /** Where the holder stands while it mounts: layer names are relative to it. */
  readonly directory: string
  readonly work: string
  readonly mounts: Omit<MountPlan, keyof Protection>
  /** Asked once the namespaces are there, with what is mounted in them. */
  readonly protect: (mountinfo: string) => Protected
  /** Null when the row is there already: a recovery. */
  readonly record?: false
  /** What the resident shell runs in, where one was asked for. */
  readonly perl?: string | undefined
  readonly network?: Network
  /** Of holders that stand in `directory`. */
  readonly pool?: HolderPool | undefined
  /** Begins to serve the layer below, where one is served. */
  readonly serve?: (() => Promise<ServedLower>) | undefined
}

export interface Held {
  readonly holder: Holder
  readonly root: number
  /** As the kernel shows it, after every mount was made. */
  readonly isolation: Isolation
  readonly privateTmp: boolean
  readonly shell: ResidentShell | undefined
  readonly served: () => boolean
  readonly end: () => Promise<void>
}

/** It makes itself ready beside whatever comes next, and goes with the holder. */
const residentShell = (holder: Holder, perl: string, work: string): ResidentShell => {
  const shell = new ResidentShell(holder, perl, path.join(work, "door"))
  shell.start().catch(() => undefined)
  void holder.gone.then(() => shell.end())
  return shell
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

/** How often the machine may take one of its own file systems away between our look at it and our mounts. */
const attempts = 8

/** A line of the table found its place gone: a mount point that is removed takes the mount with it, in every namespace. */
const cameAndWent = (error: unknown, place: MountPlace): boolean =>
  error instanceof HolderFailed &&
  /^mount: .*: mount point (?:not mounted|does not exist)/m.test(error.stderr) &&
  !error.stderr.includes(`mount: ${place.path}:`)

/** Starts the holder, records it, mounts, and opens the merged root. */
export const holdNamespaces = async (
  parts: { readonly store: StorePort; readonly tools: Tools },
  place: MountPlace,
  input: HoldInput
): Promise<Held> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await holdOnce(parts, place, input, attempt)
    } catch (error) {
      if (attempt < attempts && cameAndWent(error, place)) continue
      if (input.record !== false) {
        await parts.store.updateWorkspace(input.id, { state: "closed", note: "never opened" }).catch(() => undefined)
      }
      throw explain(error, place, input.network)
    }
  }
}

const startHolder = async (start: () => Promise<Holder>, served: ServedLower | undefined): Promise<Holder> => {
  try {
    return await start()
  } catch (error) {
    await served?.end()
    throw error
  }
}

const holdOnce = async (
  { store, tools }: { readonly store: StorePort; readonly tools: Tools },
  place: MountPlace,
  input: HoldInput,
  attempt: number
): Promise<Held> => {
  const served = await input.serve?.()
  const device = served?.device ?? null
  // What comes with a descriptor can only be brought by a holder that is started with it.
  const taken = device === null ? input.pool?.take(served !== undefined) : undefined
  const table = path.join(input.work, "mounts")
  const at = servedPlace(input.work)
  const brought = device === null ? undefined : { device, at }
  const holder =
    taken?.holder ??
    (await startHolder(() => Holder.start(tools, input.directory, table, input.network, { brought }), served))
  let recorded: Promise<void> | undefined
  try {
    const mountPath = Buffer.from(place.path, "latin1").toString("utf8")
    crashPoint("workspace.held")
    const lower = served?.mounted(holder, at)
    lower?.catch(() => undefined)
    const record = async (): Promise<void> => {
      if (input.record === false) return
      const row = rowOf(input, mountPath, holder)
      if (attempt === 1) await store.putWorkspace(row)
      else await store.updateWorkspace(row.id, { holderPid: row.holderPid, holderStart: row.holderStart })
    }
    // While it becomes durable, there is time to plan.
    recorded = record()
    recorded.catch(() => undefined)
    await holder.unshared()
    await lower
    const planned = input.protect(holder.mountinfo())
    const plan: MountPlan = { ...input.mounts, ...planned.plan }
    faultPoint("workspace.mountTable")
    fs.writeFileSync(holder.table, mountTable(plan), { mode: 0o600 })
    await recorded
    crashPoint("workspace.recorded")
    await holder.mount()
    taken?.mounted()
    crashPoint("workspace.mounted")
    const isolation = readBack(planned.isolation, plan, holder.mountinfo(), holder.network())
    if (input.network === "none" && isolation.network !== "none") throw withoutNetwork("the kernel shows routes inside")
    const root = openRoot(holder, place.path)
    const shell = input.perl === undefined ? undefined : residentShell(holder, input.perl, input.work)
    const end = once(async () => {
      fs.closeSync(root)
      await shell?.end()
      await holder.end()
      await served?.end()
    })
    const isServed = (): boolean => served?.alive !== false
    return { holder, root, isolation, privateTmp: plan.privateTmp, shell, served: isServed, end }
  } catch (error) {
    await Promise.allSettled([recorded, holder.end()])
    await served?.end()
    taken?.mounted()
    throw error
  }
}
