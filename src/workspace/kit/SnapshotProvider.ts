/**
 * A workspace provider over a backend that keeps whole states: everything of the contract but how a tree is kept and made.
 * Promise: as the contract in WorkspaceProvider.ts; the store closes with its scope and leaves no thread, process or mount behind; what the
 * backend cannot do is said by the manifest and answered by `Unsupported`. Rules: W1 to W23, L1, L3, L7; P4.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as path from "node:path"
import type { Durability } from "../../base/Durability.ts"
import { newId } from "../../base/Id.ts"
import { fromInput, join, show, type TreePath } from "../../base/PathBytes.ts"
import type { Busy, StorageFailure, StoreMoved } from "../../sqlite/Database.ts"
import { fullProfile } from "../TreeDigest.ts"
import { unsupported } from "../Unsupported.ts"
import { CandidateRefused, type StoreLocation, type StoreOptionInvalid } from "../WorkspaceError.ts"
import type {
  BranchInfo,
  CommitInfo,
  FileStat,
  Manifest,
  Probe,
  Progress,
  WorkspaceProvider
} from "../WorkspaceProvider.ts"
import type { KeptEntry } from "./CommitTree.ts"
import { checkedProvider } from "./Door.ts"
import { forkFrom } from "./Fork.ts"
import { readBranches, readLog } from "./Log.ts"
import { pathError, resolvePath } from "./Lookup.ts"
import { moveHead, readUndoLog, rewind } from "./Moves.ts"
import { commitInfo, movedHead } from "./Shown.ts"
import { missingForNamespaces } from "./Machine.ts"
import { makeProjections } from "./Projections.ts"
import { ProgressMeter } from "./ProgressMeter.ts"
import type { BranchRow, CommitRow } from "./RefStore.ts"
import { settle } from "./Settle.ts"
import type { SnapshotBackend } from "./SnapshotBackend.ts"
import { SnapshotCheckpoints } from "./SnapshotCheckpoints.ts"
import { SnapshotImports } from "./SnapshotImports.ts"
import { diffKept } from "./SnapshotDiff.ts"
import { exportKept, patchOfKept, tarOfKept } from "./SnapshotExport.ts"
import { mergeKept } from "./SnapshotMerge.ts"
import { SnapshotQuota, type SnapshotQuotaOptions } from "./SnapshotQuota.ts"
import { globKept, grepKept } from "./SnapshotSearch.ts"
import { type CallScope, SnapshotStore } from "./SnapshotStore.ts"
import { statsOfKept, verifyKept } from "./SnapshotVerify.ts"
import { openProviderDirectory } from "./StoreDirectory.ts"
import type { StorePort } from "./StorePort.ts"
import { sameBelow } from "./TreeCompare.ts"

export interface SnapshotProviderOptions extends SnapshotQuotaOptions {
  /** The store's directory; one named after the provider is made below it. */
  readonly store: string
  /** What a commit survives: `full` (default) a power cut, `normal` a killed process, `disposable` neither. */
  readonly durability?: Durability
}

export type SnapshotOpenFailure = StoreLocation | StoreOptionInvalid | Busy | StorageFailure | StoreMoved

/** What a backend is made with: its own place in the store, and what its commits have to survive. */
export interface BackendPlace {
  /** `STORE/<provider>`, a real path that is this user's alone. `index.db`, `trees` and `work` in it are the kit's. */
  readonly directory: string
  readonly durability: Durability
}

/** Longest read of one call. */
const longestRead = 2 * 1024 ** 3

const isRange = (offset: number, length: number): boolean =>
  Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0

const fileStat = ({ path: at, type, mode, size, mtimeNs, target }: KeptEntry): FileStat => ({
  ...show(at),
  type,
  mode,
  size: type === "directory" ? 0 : size,
  mtimeNs: String(mtimeNs),
  ...(target === null ? {} : { target: show(target) })
})

const absolute = (at: TreePath): TreePath => (at.startsWith("/") ? at : join(fromInput(process.cwd()), at))

const lastPart = (at: TreePath): string => show(at.split("/").findLast((part) => part !== "") ?? "import").path

/**
 * Opens or makes the store and offers the provider until the scope ends. `backendAt` makes the backend for the directory that it gets.
 * Fails with `StoreLocation`, `StoreOptionInvalid`, `Busy`, `StorageFailure`, `StoreMoved`.
 */
export const makeSnapshotProvider = Effect.fnUntraced(function* (
  provider: string,
  backendAt: (place: BackendPlace) => SnapshotBackend | Promise<SnapshotBackend>,
  options: SnapshotProviderOptions
): Effect.fn.Return<WorkspaceProvider, SnapshotOpenFailure, Scope.Scope> {
  const clock = yield* Clock.Clock
  const open = settle<SnapshotStore, SnapshotOpenFailure>(async () => {
    const quota = SnapshotQuota.of(options)
    const root = openProviderDirectory(options.store, provider, ["trees", "work"])
    const durability = options.durability ?? "full"
    const directories = {
      root,
      index: path.join(root, "index.db"),
      trees: path.join(root, "trees"),
      work: path.join(root, "work")
    }
    const backend = await backendAt({ directory: root, durability })
    return SnapshotStore.open({ backend, directories, durability, quota })
  })
  const store = yield* Effect.acquireRelease(open, (opened) => Effect.promise(() => opened.close()))
  return providerOver(store, () => clock.currentTimeMillisUnsafe())
})

/** A call that may be interrupted, with its progress. */
const scoped = <A, E>(
  work: (scope: CallScope) => Promise<A>,
  onProgress?: (progress: Progress) => void
): Effect.Effect<A, E> =>
  settle<A, E>(async (signal) => {
    const meter = onProgress === undefined ? undefined : new ProgressMeter(onProgress)
    const value = await work({ signal, progress: (step) => meter?.report(step) })
    meter?.end()
    return value
  })

const manifestOf = ({ backend, durability }: SnapshotStore): Manifest => ({
  provider: backend.provider,
  version: backend.version,
  keepsIgnoredFiles: true,
  ...backend.capabilities,
  visiblePath: true,
  unprivileged: true,
  stableInodes: true,
  renameDirectory: "works",
  merge: backend.merge !== undefined,
  conflictReport: backend.merge !== undefined,
  history: true,
  blame: false,
  collect: false,
  checksOpened: false,
  durability
})

const portOf = (store: SnapshotStore, checkpoints: SnapshotCheckpoints, now: () => number): StorePort => {
  const quiet = (signal = new AbortController().signal): CallScope => ({ signal, progress: () => undefined })
  const { refs, backend } = store
  return {
    directory: store.directories.root,
    durability: store.durability,
    branch: async (id) => refs.branch(id),
    resolve: async (ref) => refs.resolve(ref),
    originOf: async (project) => refs.project(project)?.source ?? null,
    rootMode: async (commit) => (await store.treeOf(store.resolve(commit).id)).entry("")!,
    materialise: (commit, target, workspace, scope) => store.make(commit, target, workspace, scope),
    fork: (from, name, operationId) => forkFrom(refs, { from, name, operationId }),
    checkpoint: (request, signal) => checkpoints.checkpoint({ ...request, at: now() }, quiet(signal)),
    grepTexts: (input) => store.thread.find(input),
    preview: (base, harvest, signal) => checkpoints.preview(base, harvest, quiet(signal)),
    putWorkspace: (row) => refs.putWorkspace(row),
    updateWorkspace: async (id, change) => {
      await refs.updateWorkspace(id, change)
    },
    claimWorkspace: (id, before, decider) => refs.claimWorkspace(id, before, decider),
    workspaces: async (states) => refs.workspaces(states),
    ...(backend.clear === undefined ? {} : { clear: (target) => backend.clear!(fromInput(target)) }),
    ...(backend.unmake === undefined
      ? {}
      : { unmake: (workspace, target) => backend.unmake!({ workspace, target: fromInput(target) }) }),
    ...(backend.beforeUse === undefined
      ? {}
      : { beforeUse: (workspace, target) => backend.beforeUse!({ workspace, target: fromInput(target) }) }),
    ...(backend.beforeRemoval === undefined
      ? {}
      : { beforeRemoval: (workspace, target) => backend.beforeRemoval!({ workspace, target: fromInput(target) }) })
  }
}

const providerOver = (store: SnapshotStore, now: () => number): WorkspaceProvider => {
  const { refs, backend } = store
  const imports = new SnapshotImports(store)
  const checkpoints = new SnapshotCheckpoints(store)
  const manifest = manifestOf(store)
  const branchInfo = (row: BranchRow): BranchInfo => ({ ...row, durability: store.durability })
  const probe = async (): Promise<Probe> => {
    const missing = await backend.probe()
    const here = { projection: backend.projection, available: missing.length === 0, missing }
    const spaces = await missingForNamespaces()
    return { ready: missing.length === 0, projections: [here], missing: [...missing, ...spaces] }
  }
  const projections = makeProjections({
    store: portOf(store, checkpoints, now),
    layers: null,
    directory: backend.projection,
    manifest,
    probe,
    now
  })

  const sourceOf = (commit: CommitRow): TreePath | null => refs.project(commit.project)?.source ?? null
  /** What a caller's path stands for in a commit. */
  const look = async (commit: CommitRow, at: TreePath, follow: boolean): Promise<KeptEntry> => {
    const tree = await store.treeOf(commit.id)
    const resolved = resolvePath({ get: (p) => tree.entry(p), mountPath: sourceOf(commit) }, at, follow)
    const entry = tree.entry(resolved)
    if (entry === undefined) throw pathError("notFound", at)
    return entry
  }
  const search = (signal: AbortSignal) => ({
    refs,
    cancelled: () => signal.aborted,
    treeOf: (commit: string) => store.treeOf(commit),
    contents: (commit: CommitRow, paths: readonly TreePath[]) => store.contents(commit, paths, signal),
    thread: store.thread
  })
  const history = (signal: AbortSignal) => ({ refs, cancelled: () => signal.aborted })

  const called = <E, A>(name: string, work: (scope: CallScope) => Promise<A> | A): Effect.Effect<A, E> =>
    scoped<A, E>(async (scope) => work(scope)).pipe(Effect.withSpan(`${backend.provider}.${name}`))

  return checkedProvider({
    probe: projections.probe,
    open: projections.open,
    execOn: projections.execOn,
    left: projections.left,
    recover: projections.recover,
    discardLeft: projections.discardLeft,
    manifest: Effect.succeed(manifest),

    createEmpty: (options = {}) =>
      called("createEmpty", (scope) =>
        imports.createEmpty({ name: options.name ?? "empty", operationId: newId("operation"), at: now() }, scope)
      ),
    importDirectory: (options) =>
      scoped((scope) => {
        const source = fromInput(options.source)
        const input = {
          source: absolute(source),
          name: options.name ?? lastPart(source),
          operationId: options.operationId ?? newId("operation"),
          at: now()
        }
        return imports.importDirectory(input, scope)
      }, options.onProgress),
    fork: (from, options = {}) =>
      called("fork", async () =>
        branchInfo(await forkFrom(refs, { from, name: options.name ?? "fork", operationId: options.operationId }))
      ),
    branch: (id) => called("branch", () => branchInfo(store.branch(id))),
    commit: (ref) => called("commit", (): CommitInfo => commitInfo(store.resolve(ref))),

    branches: (ref, { limit, after } = {}) =>
      called("branches", () => {
        const { branches, next } = readBranches({ refs }, { ref, limit, after })
        return { branches: branches.map(branchInfo), next }
      }),
    log: (ref, { path: at, limit, after } = {}) =>
      called("log", async ({ signal }) => {
        const { commits, ...rest } = await readLog(
          { ...history(signal), touches: (commit, below) => touches(store, commit, below) },
          { refs: typeof ref === "string" ? [ref] : ref, path: at === undefined ? null : fromInput(at), limit, after }
        )
        return { commits: commits.map(commitInfo), ...rest }
      }),
    diff: (from, to, { path: at, limit, after } = {}) =>
      called("diff", ({ signal }) =>
        diffKept(search(signal), { from, to, path: at === undefined ? null : fromInput(at), limit, after })
      ),
    blame: () => unsupported("blame"),
    readAt: (ref, at, { offset = 0, length } = {}) =>
      called("readAt", async ({ signal }) => {
        const commit = store.resolve(ref)
        const wanted = fromInput(at)
        const entry = await look(commit, wanted, true)
        if (entry.type !== "file") throw pathError("notAFile", wanted)
        const all = length ?? entry.size
        if (!isRange(offset, all)) throw pathError("invalid", wanted)
        if (Math.min(all, entry.size - offset) > longestRead) throw pathError("tooLarge", wanted, entry.size)
        return store.read(commit, entry, { offset, length: all, signal })
      }),
    listAt: (ref, at) =>
      called("listAt", async () => {
        const commit = store.resolve(ref)
        const entry = await look(commit, fromInput(at), true)
        const found = (await store.treeOf(commit.id)).list(entry.path)
        if (found === undefined) throw pathError("notADirectory", fromInput(at))
        return found.map(fileStat)
      }),
    statAt: (ref, at) => called("statAt", async () => fileStat(await look(store.resolve(ref), fromInput(at), false))),
    globAt: (ref, pattern, { limit, after } = {}) =>
      called("globAt", ({ signal }) => globKept(search(signal), { ref, pattern, limit, after })),
    grepAt: (ref, pattern, { path: at = "", glob, limit, after } = {}) =>
      called("grepAt", ({ signal }) =>
        grepKept(
          search(signal),
          { ref, pattern, path: fromInput(at), glob: glob ?? null, limit, after },
          async (commit) => (await look(commit, fromInput(at), true)).path
        )
      ),
    rewind: (branch, { to, name = "rewind", operationId }) =>
      called("rewind", async ({ signal }) =>
        branchInfo(await rewind(history(signal), { branch, to, name, operationId }, (input) => forkFrom(refs, input)))
      ),
    reset: (branch, { expectedHead, reason = "", actor = {}, operationId, to }) =>
      called("reset", async ({ signal }) => {
        const id = operationId ?? newId("operation")
        const move = { branch, expectedHead, reason, actor, operationId: id, at: now(), to }
        return movedHead(await moveHead(history(signal), move, store.durability))
      }),
    undo: (branch, { expectedHead, reason = "", actor = {}, operationId, number }) =>
      called("undo", async ({ signal }) => {
        const id = operationId ?? newId("operation")
        const move = { branch, expectedHead, reason, actor, operationId: id, at: now(), undo: number ?? null }
        return movedHead(await moveHead(history(signal), move, store.durability))
      }),
    undoLog: (branch, { limit, after } = {}) =>
      called("undoLog", () => readUndoLog({ refs }, { branch, limit, after })),

    applyTo: (branch, operations, options = {}) =>
      called("applyTo", (scope) =>
        checkpoints.applyTo(
          {
            branch,
            operations,
            message: options.message ?? "",
            operationId: options.operationId ?? newId("operation"),
            actor: options.actor ?? {},
            at: now()
          },
          scope
        )
      ),
    merge: (from, into, options = {}) =>
      backend.merge === undefined
        ? unsupported("merge")
        : called("merge", (scope) => mergeKept(store, checkpoints, { from, into, options, at: now() }, scope)),

    candidate: (ref, { environment, parent }) =>
      called("candidate", () => {
        const commit = store.resolve(ref)
        if (commit.live) throw liveCommit(commit.id)
        return {
          provider: backend.provider,
          providerVersion: backend.version,
          store: refs.storeId(),
          project: commit.project,
          commit: commit.id,
          root: commit.root,
          treeDigest: commit.root,
          profile: fullProfile,
          environment,
          parent
        }
      }),
    pin: (key, ref) => called("pin", () => refs.pin(key, store.resolve(ref).id)),
    unpin: (key) => called("unpin", () => refs.unpin(key)),
    findOperation: (operationId) =>
      called("findOperation", () => {
        const found = refs.operation(operationId)
        return found === undefined ? { state: "absent" as const } : { state: "recorded" as const, commit: found.commit }
      }),

    exportDirectory: (ref, target, options = {}) =>
      scoped((scope) => exportKept(store, ref, target, scope), options.onProgress),
    exportTar: (ref, target, options = {}) =>
      scoped((scope) => tarOfKept(store, ref, target, scope), options.onProgress),
    exportPatch: (options) => called("exportPatch", (scope) => patchOfKept(store, options, scope)),
    importGit: () => unsupported("importGit"),
    retire: () => unsupported("retire"),
    collect: unsupported("collect"),
    exportBundle: () => unsupported("exportBundle"),
    importBundle: () => unsupported("importBundle"),
    compact: () => unsupported("compact"),
    stats: called("stats", () => statsOfKept(store)),
    verify: (options = {}) => scoped((scope) => verifyKept(store, scope), options.onProgress)
  })
}

/** Whether a commit changed the path, or anything below it, against its first parent. */
const touches = async (store: SnapshotStore, commit: CommitRow, at: TreePath): Promise<boolean> => {
  const before = commit.parent === null ? undefined : store.refs.commit(commit.parent)
  if (before?.root === commit.root) return false
  const after = await store.treeOf(commit.id)
  if (before === undefined) return after.entry(at) !== undefined
  return !sameBelow(await store.treeOf(before.id), after, at)
}

const liveCommit = (commit: string): CandidateRefused =>
  new CandidateRefused({
    message: "The commit was captured beside running processes; it may hold a half-made change.",
    remedy: "Let them end or ask for `quiesce`, checkpoint again, and make the candidate of that commit.",
    reason: "live",
    commit
  })
