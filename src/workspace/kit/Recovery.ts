/**
 * Workspaces that nobody closed, or that were closed with changes: listed, committed to a branch of their own, or dropped.
 * Promise: a live workspace of another process is never touched; an upper is mounted only with the layers, options and
 * kernel that its row names, else `WorkspaceUnreadable` and nothing is deleted. Rules: W12, W23, G75, L8.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import { newId } from "../../base/Id.ts"
import { isAliveIn } from "../../base/LifeSign.ts"
import { fromInput } from "../../base/PathBytes.ts"
import { currentIdentity, type ProcessIdentity } from "../../base/ProcessIdentity.ts"
import { RefNotFound, Unavailable, WorkspaceUnreadable } from "../WorkspaceError.ts"
import type { CommitOptions, CheckpointOutcome, LeftWorkspace, Quarantine } from "../WorkspaceProvider.ts"
import { decideAlone } from "./Deciding.ts"
import type { WorkspaceRow } from "./RefStore.ts"
import { bootId, kernelRelease, startTimeOf } from "./Machine.ts"
import { holdNamespaces, once } from "./HeldTree.ts"
import { isOverlaid, overlaid, overlayHarvest, type OpenTree, overlayOptions, type Parts } from "./OpenTree.ts"
import { makerOf, removeWork, treeOf, workOf } from "./WorkDirectory.ts"
import { isOpenHere } from "./OpenHere.ts"
import { notIsolated, withoutProtection } from "./Isolation.ts"
import { OpenWorkspace } from "./OpenWorkspace.ts"
import { isHalfOwned } from "./OwnDirectories.ts"
import { plainInside } from "./PlainInside.ts"
import type { LayerCache } from "./LayerCache.ts"
import type { LowerServer, ServedLower } from "./ServedLower.ts"
import type { StorePort } from "./StorePort.ts"

type RecoveryParts = Omit<Parts, "tools"> & {
  readonly tools: Parts["tools"] | undefined
  readonly server: LowerServer | undefined
}

/** States in which a workspace may wait for a decision. */
const waiting = ["open", "kept", "quarantined"] as const

/** True when the process that keeps the workspace open is still that process. */
const holderLives = (row: WorkspaceRow): boolean =>
  row.holderPid !== null &&
  row.bootId === bootId() &&
  row.holderStart !== null &&
  startTimeOf(row.holderPid) === row.holderStart

/**
 * True when whoever opened the workspace has not been seen dead: it ends it, and between the end of its processes and the row that says
 * so nobody else may take it for left. Of one in another pid namespace of this boot, a container for example, its sign tells (LifeSign.ts).
 */
const ownerMayLive = (root: string, { id, owner }: WorkspaceRow): boolean => {
  if (owner === undefined) return false
  const self = currentIdentity()
  const isThisOne = owner.pid === self.pid && owner.startTime === self.startTime && owner.bootId === self.bootId
  if (isThisOne && isOfHere(owner)) return isOpenHere(id)
  return isAliveIn(root, owner) !== false
}

/** True when the pids that go with the identity mean the same processes here. */
const isOfHere = ({ pidNamespace }: ProcessIdentity): boolean =>
  pidNamespace === null || pidNamespace === currentIdentity().pidNamespace

/** For processes that were killed with their owner, where nobody here can see them end. */
const unseenMs = 500

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/**
 * A holder outlives a killed owner by the moment that the kernel takes to end it. Asked in that moment, its workspace
 * would look alive and be passed over; so its end is hurried and waited for, at most 10 s. The start time in the row makes sure that
 * no other process is meant. Of a container nothing can be seen from here, and its kernel has that moment.
 */
const settleOrphans = async (root: string, rows: readonly WorkspaceRow[]): Promise<void> => {
  for (const row of rows) {
    if (row.state !== "open" || row.owner === undefined || isAliveIn(root, row.owner) !== false) continue
    if (!isOfHere(row.owner)) await wait(unseenMs)
    for (let waited = 0; isOfHere(row.owner) && holderLives(row) && waited < 10_000; waited += 10) {
      try {
        process.kill(row.holderPid!, "SIGKILL")
      } catch {
        // Gone between the look and the signal.
      }
      await wait(10)
    }
  }
}

const stateOf = (root: string, row: WorkspaceRow): LeftWorkspace["state"] | undefined => {
  if (row.state === "kept" || row.state === "quarantined") return row.state
  return row.state === "open" && !ownerMayLive(root, row) && !holderLives(row) ? "interrupted" : undefined
}

/** Nobody is named, because the removal was nearly done when its process was killed: nothing is in it, or its row is closed. */
const isLeftOver = async (store: StorePort, id: string, at: string): Promise<boolean> => {
  const names = await fs.promises.readdir(at).catch(() => undefined)
  if (names === undefined || names.length === 0) return names !== undefined
  return (await store.workspaces(["closed", "discarded"])).some((row) => row.id === id)
}

/**
 * Removes directories of workspaces that no row speaks for any more, or that a killed process had not come to record. What is
 * open or kept, and whatever a process that may be alive is making or taking away, stays (L8, W12).
 */
export const sweepWork = async (store: StorePort, layers: LayerCache | null): Promise<void> => {
  await layers?.sweep()
  const directory = path.join(store.directory, "work")
  const names = await fs.promises.readdir(directory)
  if (names.length === 0) return
  // Rows are read after the names: one that was recorded in between is found.
  const rows = new Map((await store.workspaces(["open", "kept"])).map((row) => [row.id, row]))
  for (const name of names) {
    if (rows.has(name)) continue
    const at = path.join(directory, name)
    const maker = makerOf(at)
    if (maker === null ? !(await isLeftOver(store, name, at)) : isAliveIn(store.directory, maker) !== false) continue
    crashPoint("workspace.sweeping")
    await removeWork(store, name)
  }
}

export const listLeft = async (store: StorePort, layers: LayerCache | null): Promise<readonly LeftWorkspace[]> => {
  await sweepWork(store, layers)
  const rows = await store.workspaces(waiting)
  await settleOrphans(store.directory, rows)
  return rows.flatMap((row) => {
    const state = stateOf(store.directory, row)
    const { id, branch, base, projection, at } = row
    const kept = row.quarantine === undefined ? {} : { quarantine: row.quarantine }
    return state === undefined ? [] : [{ id, branch, base, state, projection, since: at, ...kept }]
  })
}

const leftRow = async (store: StorePort, id: string): Promise<WorkspaceRow> => {
  const row = (await store.workspaces(waiting)).find((found) => found.id === id)
  if (row !== undefined && stateOf(store.directory, row) !== undefined) return row
  const ended = (await store.workspaces(["closed", "discarded"])).find((found) => found.id === id)
  const how = ended === undefined ? "" : `: it is ${ended.state}${ended.note === null ? "" : ` (${ended.note})`}`
  throw new RefNotFound({
    message:
      row === undefined ? `No workspace with this id waits for a decision${how}.` : "The workspace is open and alive.",
    remedy: "List the waiting ones with `left`. A live workspace ends when it is closed.",
    ref: id
  })
}

const unreadable = (row: WorkspaceRow, why: string): WorkspaceUnreadable =>
  new WorkspaceUnreadable({
    message: `The workspace cannot be mounted as it was written: ${why}. Nothing was deleted.`,
    remedy: "Recover it on the kernel and with the Coppice version that wrote it, or drop it with `discardLeft`.",
    workspace: row.id
  })

/** The tree of a row again, without isolation: no attempt runs in it, it is only read. */
const reopen = async (parts: RecoveryParts, row: WorkspaceRow): Promise<OpenTree> => {
  const work = workOf(parts.store, row.id)
  const content = path.join(work, isOverlaid(row.projection) ? "upper" : "tree")
  if (!fs.existsSync(content)) throw unreadable(row, "its files are not there")
  const common = { id: row.id, projection: row.projection, isolation: notIsolated, content, work, lowers: row.lowers }
  if (!isOverlaid(row.projection)) {
    const root = fs.openSync(content, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
    const snapshot = fromInput(path.join(work, "snapshot"))
    return {
      ...common,
      path: fromInput(content),
      inside: plainInside(row.id, content),
      holder: null,
      root,
      served: () => true,
      harvestInput: () => ({ kind: "scan", tree: fromInput(content), snapshot }),
      end: once(async () => fs.closeSync(root))
    }
  }
  if (row.kernel !== kernelRelease()) throw unreadable(row, `it was written under kernel ${row.kernel}`)
  if (row.mountOptions !== overlayOptions(row.lowers, row.id)) throw unreadable(row, "its mount options are not ours")
  const { store, tools } = parts
  if (tools === undefined) {
    throw new Unavailable({
      message: "This machine lacks the tools to mount an overlay.",
      remedy: "Run `probe` and install what it names.",
      what: "overlay",
      missing: ["util-linux"]
    })
  }
  const serve = row.projection === "lazy" ? await servingAgain(parts, row) : undefined
  const release = serve === undefined ? await layersAgain(parts, row) : () => undefined
  const stage = fromInput(path.join(work, "stage"))
  const holding = holdNamespaces(
    { store, tools },
    { path: stage, makeBelow: null },
    {
      ...row,
      record: false,
      directory: path.join(store.directory, "cache"),
      work,
      mounts: { workspacePath: stage, overlayOptions: row.mountOptions, bindTree: null, stage, makeBelow: null },
      protect: () => ({ plan: withoutProtection, isolation: notIsolated }),
      serve
    }
  )
  const held = await holding.catch((error) => {
    release()
    throw error
  })
  const end = once(async () => {
    await held.end()
    release()
  })
  return { ...common, ...overlaid(held), path: stage, harvestInput: overlayHarvest(content, held), end }
}

/** The layers below it, which nobody takes away until the answer is called. */
const layersAgain = async ({ store, layers }: RecoveryParts, row: WorkspaceRow): Promise<() => void> => {
  if (layers === null) throw unreadable(row, "this provider has no layers")
  const rows = await store.workspaces(waiting)
  const left = rows.filter((found) => stateOf(store.directory, found) !== undefined).map(({ id }) => id)
  const release = await layers.restore(row.base, row.lowers, left)
  if (layers.available(row.lowers)) return release
  release()
  throw unreadable(row, "a layer below it is gone, or changed and in use by others")
}

const servingAgain = async ({ server }: RecoveryParts, row: WorkspaceRow): Promise<() => Promise<ServedLower>> => {
  if (server === undefined) throw unreadable(row, "this provider serves no layers")
  if ((await server.nameOf(row.base)) !== row.lowers.join(":"))
    throw unreadable(row, "the layer below it is another one")
  return () => server.begin(row.base)
}

/** The files are a commit already: a branch of its own begins there, and the operation id names that commit. */
const recoverQuarantined = async (
  store: StorePort,
  { id }: WorkspaceRow,
  { commit }: Quarantine,
  options: CommitOptions
): Promise<{ readonly branch: string; readonly checkpoint: CheckpointOutcome }> => {
  const branch = await store.fork(commit, `recovered-${id}`, options.operationId ?? `${id}.recovery-branch`)
  const kept = await store.resolve(commit)
  if (kept === undefined)
    throw new RefNotFound({ message: "The quarantined commit is gone.", remedy: "Run verify.", ref: commit })
  await store.updateWorkspace(id, { state: "closed", note: `recovered to ${branch.id}` })
  return { branch: branch.id, checkpoint: { outcome: "unchanged", commit, root: kept.root } }
}

/** Nobody had it yet: there is nothing but its base. */
const recoverNothing = async (
  store: StorePort,
  { id, base }: WorkspaceRow
): Promise<{ readonly branch: string; readonly checkpoint: CheckpointOutcome }> => {
  const branch = await store.fork(base, `recovered-${id}`, `${id}.recovery-branch`)
  const kept = await store.resolve(base)
  if (kept === undefined)
    throw new RefNotFound({ message: "The workspace's base is gone.", remedy: "Run verify.", ref: base })
  await store.updateWorkspace(id, { state: "closed", note: `recovered to ${branch.id}` })
  await removeWork(store, id)
  return { branch: branch.id, checkpoint: { outcome: "unchanged", commit: base, root: kept.root } }
}

export const recoverLeft = (
  parts: RecoveryParts,
  id: string,
  options: CommitOptions = {}
): Promise<{ readonly branch: string; readonly checkpoint: CheckpointOutcome }> =>
  decideAlone(
    parts.store,
    () => leftRow(parts.store, id),
    (row) => recoverRow(parts, row, options)
  )

/** The upper stands against the layers it was mounted on, so the recovered branch starts at their commit. */
const recoverRow = async (
  parts: RecoveryParts,
  row: WorkspaceRow,
  options: CommitOptions
): Promise<{ readonly branch: string; readonly checkpoint: CheckpointOutcome }> => {
  const { id } = row
  if (row.quarantine !== undefined) return recoverQuarantined(parts.store, row, row.quarantine, options)
  if (isHalfOwned(workOf(parts.store, id))) return recoverNothing(parts.store, row)
  const tree = await reopen(parts, row)
  crashPoint("recovery.mounted")
  try {
    // Named by the workspace: a recovery that is repeated after a crash finds its own branch and commit again.
    const branch = await parts.store.fork(row.base, `recovered-${id}`, `${id}.recovery-branch`)
    crashPoint("recovery.forked")
    const workspace = new OpenWorkspace(parts, tree, { branch: branch.id, base: row.base, actor: options.actor ?? {} })
    const message = options.message ?? `Recovered from workspace ${id}`
    const operationId = options.operationId ?? `${id}.recovery`
    const checkpoint = await workspace.commitHarvest({ message, operationId })
    crashPoint("recovery.committed")
    await tree.end()
    await parts.store.beforeRemoval?.(id, treeOf(tree.work))
    await parts.store.updateWorkspace(id, { state: "closed", note: `recovered to ${branch.id}` })
    crashPoint("recovery.closed")
    await removeWork(parts.store, id)
    return { branch: branch.id, checkpoint }
  } finally {
    await tree.end()
  }
}

export const discardLeft = (store: StorePort, id: string, reason: string): Promise<void> =>
  decideAlone(
    store,
    () => leftRow(store, id),
    async (row) => {
      // The files of a quarantined one are a commit. Where it is open still, its end takes them away.
      if (ownerMayLive(store.directory, row)) return store.updateWorkspace(id, { state: "discarded", note: reason })
      await store.beforeRemoval?.(id, treeOf(workOf(store, id)))
      await store.updateWorkspace(id, { state: "discarded", note: reason })
      crashPoint("workspace.discarded")
      await removeWork(store, id)
    }
  )

export const newWorkspaceId = (): string => newId("workspace")
