/**
 * The namespaces of an open workspace: a holder is started, recorded, and mounts what was planned.
 * Promise: the row with everything a recovery needs stands before the first mount; a failure on the way leaves no process or mount, and
 * says what kept it; the directory descriptor is closed before the holder ends, because it would outlive it.
 * Rules: W7, W12, W17, W23, L2; 04 "Projections".
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import { faultPoint } from "../../base/FaultPoint.ts"
import { toBytes, type TreePath } from "../../base/PathBytes.ts"
import { currentIdentity } from "../../base/ProcessIdentity.ts"
import { Unavailable } from "../WorkspaceError.ts"
import type { Isolation, Projection } from "../WorkspaceProvider.ts"
import { Holder, HolderFailed, type Network } from "./Holder.ts"
import type { HolderPool } from "./HolderPool.ts"
import { type Protected, type Protection, readBack } from "./Isolation.ts"
import { bootId, kernelRelease, startTimeOf, type Tools } from "./Machine.ts"
import { type MountPlace, refuse } from "./MountPath.ts"
import { type MountPlan, mountTable } from "./MountTable.ts"
import type { WorkspaceRow } from "./RefStore.ts"
import { ResidentShell } from "./ResidentShell.ts"
import type { ServedLower } from "./ServedLower.ts"
import type { StorePort } from "./StorePort.ts"
import { servedPlace } from "./WorkDirectory.ts"

/** Runs at most once, whoever asks. */
export const once = (run: () => Promise<void>): (() => Promise<void>) => {
  let running: Promise<void> | undefined
  return () => (running ??= run())
}

interface RowInput {
  readonly id: string
  readonly branch: string
  readonly base: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly projection: Projection
  readonly lowers: readonly string[]
  readonly mountOptions: string
}

export const rowOf = (input: RowInput, mountPath: string, holder: Holder | null): WorkspaceRow => ({
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

export const withoutNetwork = (why: string): Unavailable =>
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

const openRoot = (holder: Holder, at: TreePath): number =>
  fs.openSync(toBytes(`/proc/${holder.innerPid}/root${at}`), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)

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
