/**
 * LayerFS as a workspace provider: the store's calls as Effects, and the projections' workspaces.
 * Promise: as the contract in WorkspaceProvider.ts; the store closes with its scope and leaves no thread behind; failures are
 * the contract's typed errors, anything else is a defect. Rules: W1, W3, W5, W10, W13, W14, W16, L1, L2, L3, L10.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { newId } from "../../src/base/Id.ts"
import { fromInput, join, show, type TreePath } from "../../src/base/PathBytes.ts"
import type { Busy, StorageFailure, StoreMoved } from "../../src/sqlite/Database.ts"
import { unsupported } from "../../src/workspace/Unsupported.ts"
import { CandidateRefused, type StoreLocation, type StoreOptionInvalid } from "../../src/workspace/WorkspaceError.ts"
import type {
  BranchInfo,
  FileStat,
  Manifest,
  StoreError,
  StoreStats,
  VerifyReport,
  WorkspaceProvider
} from "../../src/workspace/WorkspaceProvider.ts"
import type { ChangedLayer } from "../../src/workspace/StoreValues.ts"
import { checkedProvider } from "../../src/workspace/kit/Door.ts"
import { type CallOptions, type LayerStore, type LayerStoreOptions, openLayerStore } from "./LayerStore.ts"
import { layerProjections, poolOf, poolSizeOf } from "./Projections.ts"
import { commitInfo } from "../../src/workspace/kit/Shown.ts"
import { historyCalls } from "./history/HistoryCalls.ts"
import type { BranchRow } from "../../src/workspace/kit/RefStore.ts"
import type { FoundEntry } from "./StoreCalls.ts"
import { orDie, StoreCaller } from "./StoreCaller.ts"
import { settle } from "../../src/workspace/kit/Settle.ts"
import { DiskLayers } from "./DiskLayers.ts"
import { cacheLimitOf } from "./LayerTrim.ts"
import { lazyLowers } from "./lazy/LazyLowers.ts"
import { LazyStandby } from "./lazy/LazyStandby.ts"
import { storePortOf } from "./StorePortOf.ts"
import type { ProjectionManifest, Projections } from "../../src/workspace/kit/Projections.ts"

export type OpenFailure = StoreLocation | StoreOptionInvalid | Busy | StorageFailure | StoreMoved

/** Version of the provider, part of every candidate (W5). */
export const layerFsVersion = "1"

const storeManifest: Omit<Manifest, keyof ProjectionManifest | "durability"> = {
  provider: "layerfs",
  version: layerFsVersion,
  keepsIgnoredFiles: true,
  copyFreeFork: true,
  symlinks: true,
  modes: true,
  nanosecondMtimes: true,
  xattrs: false,
  sparseFiles: true,
  nonUtf8Names: true,
  merge: false,
  conflictReport: false,
  history: true,
  blame: true,
  collect: false,
  quota: true,
  checksOpened: true,
  crossMachine: false
}

const liveCommit = (commit: string): CandidateRefused =>
  new CandidateRefused({
    message: "The commit was captured beside running processes; it may hold a half-made change.",
    remedy: "Let them end or ask for `quiesce`, checkpoint again, and make the candidate of that commit.",
    reason: "live",
    commit
  })

const fileStat = ({ path, entry }: FoundEntry): FileStat => ({
  ...show(path),
  type: entry.type,
  mode: entry.mode,
  size: entry.size,
  mtimeNs: String(entry.mtimeNs),
  ...(entry.target === null ? {} : { target: show(entry.target) })
})

/** Against the caller's working directory, not the worker's. */
const absolute = (path: TreePath): TreePath => (path.startsWith("/") ? path : join(fromInput(process.cwd()), path))

/** The last part of a path, as a name for what was imported. */
const lastPart = (path: TreePath): string => show(path.split("/").findLast((part) => part !== "") ?? "import").path

/**
 * Opens or makes the store in `options.store` and offers it until the scope ends.
 * Fails with `StoreLocation`, `StoreOptionInvalid`, `Busy`, `StorageFailure`, `StoreMoved`.
 */
export const makeLayerFs = Effect.fnUntraced(function* (
  options: LayerStoreOptions
): Effect.fn.Return<WorkspaceProvider, OpenFailure, Scope.Scope> {
  const { store, limit, poolSize } = yield* Effect.acquireRelease(
    Effect.tryPromise({
      try: async () => ({
        limit: cacheLimitOf(options.cacheLimit),
        poolSize: poolSizeOf(options.warmPool),
        store: await openLayerStore(options)
      }),
      catch: (error) => error
    }).pipe(Effect.catch((error) => orDie<OpenFailure>(error))),
    (opened) => Effect.promise(() => opened.store.close())
  )
  const clock = yield* Clock.Clock
  const now = (): number => clock.currentTimeMillisUnsafe()
  const port = storePortOf(store, now)
  const layers = new DiskLayers(port, limit)
  const standby = poolSize === 0 ? null : new LazyStandby()
  const server = lazyLowers(port, store.directories, standby)
  yield* Effect.addFinalizer(() => Effect.promise(() => layers.end()))
  const pool = yield* Effect.acquireRelease(
    Effect.sync(() => poolOf(port, poolSize, standby)),
    (opened) => Effect.promise(async () => opened?.end())
  )
  const stats = async (): Promise<Pick<StoreStats, "cache" | "pool">> => ({
    cache: await layers.stats(),
    pool: { size: pool?.size ?? 0, ready: pool?.ready ?? 0 }
  })
  const local: LocalCalls = { stats, changedLayers: () => layers.verify() }
  return makeProvider(store, local, layerProjections(port, layers, server, pool, now), now)
})

/** What is known beside the store. */
interface LocalCalls {
  readonly stats: () => Promise<Pick<StoreStats, "cache" | "pool">>
  readonly changedLayers: () => Promise<readonly ChangedLayer[]>
}

const makeProvider = (
  store: LayerStore,
  local: LocalCalls,
  projections: Projections,
  now: () => number
): WorkspaceProvider => {
  const caller = new StoreCaller(store)
  const { call, cancellable } = caller
  const progressTo = (onProgress: CallOptions["onProgress"] | undefined): CallOptions =>
    onProgress === undefined ? {} : { onProgress }
  const branchInfo = (row: BranchRow): BranchInfo => ({ ...row, durability: store.durability })

  const history = historyCalls(caller, branchInfo, now)

  return checkedProvider({
    ...projections,
    manifest: Effect.succeed({ ...storeManifest, ...projections.manifest, durability: store.durability }),

    createEmpty: (options = {}) =>
      Effect.suspend(() =>
        call("createEmpty", { name: options.name ?? "empty", operationId: newId("operation"), at: now() })
      ).pipe(Effect.withSpan("LayerFs.createEmpty")),

    importDirectory: (options) =>
      Effect.suspend(() => {
        const source = fromInput(options.source)
        const input = {
          source: absolute(source),
          name: options.name ?? lastPart(source),
          operationId: options.operationId ?? newId("operation"),
          at: now()
        }
        return cancellable("importDirectory", input, progressTo(options.onProgress))
      }).pipe(Effect.withSpan("LayerFs.importDirectory")),

    fork: (from, options = {}) => {
      const { name = "fork", operationId } = options
      return call("fork", { from, name, ...(operationId === undefined ? {} : { operationId }) }).pipe(
        Effect.map(branchInfo)
      )
    },
    branch: (id) => call("branch", { id }).pipe(Effect.map(branchInfo)),
    commit: (ref) => call("resolve", { ref }).pipe(Effect.map(commitInfo)),
    ...history,
    readAt: (ref, path, range) =>
      call("readAt", { ref, path: fromInput(path), ...(range === undefined ? {} : { range }) }),
    listAt: (ref, path) =>
      call("listAt", { ref, path: fromInput(path) }).pipe(Effect.map((found) => found.map(fileStat))),
    statAt: (ref, path) => call("look", { ref, path: fromInput(path), follow: false }).pipe(Effect.map(fileStat)),

    applyTo: (branch, operations, options = {}) =>
      Effect.suspend(() =>
        cancellable("applyTo", {
          branch,
          operations,
          message: options.message ?? "",
          operationId: options.operationId ?? newId("operation"),
          actor: options.actor ?? {},
          at: now()
        })
      ).pipe(Effect.withSpan("LayerFs.applyTo")),

    candidate: (ref, { environment, parent }) =>
      Effect.gen(function* () {
        const commit = yield* call("resolve", { ref })
        if (commit.live) return yield* liveCommit(commit.id)
        const { digest, profile } = yield* call("treeDigest", { ref: commit.id })
        return {
          provider: storeManifest.provider,
          providerVersion: layerFsVersion,
          store: yield* call("storeId", {}),
          project: commit.project,
          commit: commit.id,
          root: commit.root,
          treeDigest: digest,
          profile,
          environment,
          parent
        }
      }).pipe(Effect.withSpan("LayerFs.candidate")),
    pin: (key, ref) => call("pin", { key, ref }),
    unpin: (key) => call("unpin", { key }),
    findOperation: (operationId) =>
      call("findOperation", { operationId }).pipe(
        Effect.map((found) =>
          found === null ? { state: "absent" as const } : { state: "recorded" as const, commit: found.commit }
        )
      ),

    exportDirectory: (ref, target, options = {}) =>
      cancellable(
        "materialise",
        { commit: ref, target: fromInput(target), phase: "export" },
        progressTo(options.onProgress)
      ),
    exportTar: (ref, target, options = {}) =>
      cancellable("exportTar", { ref, target: absolute(fromInput(target)) }, progressTo(options.onProgress)),
    exportPatch: ({ from, to, paths }) =>
      cancellable("exportPatch", { from, to, paths: paths === undefined ? null : paths.map(fromInput) }),
    importGit: () => unsupported("importGit"),
    merge: () => unsupported("merge"),
    retire: () => unsupported("retire"),
    collect: unsupported("collect"),
    exportBundle: ({ ref, target, history, onProgress }) =>
      cancellable(
        "exportBundle",
        { ref, target: absolute(fromInput(target)), history: history ?? true },
        progressTo(onProgress)
      ).pipe(Effect.withSpan("LayerFs.exportBundle")),
    importBundle: ({ source, onProgress }) =>
      cancellable("importBundle", { source: absolute(fromInput(source)) }, progressTo(onProgress)).pipe(
        Effect.withSpan("LayerFs.importBundle")
      ),
    // Interruption lets the step that runs come to its end.
    compact: ({ maxMs, maxBytes, onProgress } = {}) =>
      cancellable("compact", { maxMs: maxMs ?? null, maxBytes: maxBytes ?? null }, progressTo(onProgress)).pipe(
        Effect.withSpan("LayerFs.compact")
      ),
    stats: Effect.suspend(() => call("stats", {})).pipe(
      Effect.flatMap((stats) => settle<StoreStats, StoreError>(async () => ({ ...stats, ...(await local.stats()) })))
    ),
    verify: (options = {}) =>
      call("verify", {}, progressTo(options.onProgress)).pipe(
        Effect.flatMap((report) =>
          settle<VerifyReport, StoreError>(async () => ({ ...report, changedLayers: await local.changedLayers() }))
        )
      )
  })
}
