/**
 * The worker's side of the store: takes calls, runs them, answers with values or typed errors.
 * Promise: commits run one after the other; reads and forks go on between them and during an import; a call that failed has
 * written nothing that counts. Rules: L2, L8, L12, W10, W14.
 */
import type { MessagePort } from "node:worker_threads"
import { newId } from "../../src/base/Id.ts"
import { isBelow, join, type TreePath } from "../../src/base/PathBytes.ts"
import { fullProfile } from "../../src/workspace/TreeDigest.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import type { CompactReport, ImportReceipt, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { commitChanges, type CommitContext, commitEdit } from "./CommitBuilder.ts"
import { operationUsed } from "../../src/workspace/kit/Refusals.ts"
import { CommitLine } from "./CommitLine.ts"
import { checkpoint, preview } from "./Checkpoint.ts"
import { contentDigestOf } from "./ContentDigest.ts"
import { digestOfRoot } from "./RootDigest.ts"
import { applyOperations } from "./DirectCalls.ts"
import { exportPatch, removeAbandonedScratch } from "./ExportPatch.ts"
import { pathError, resolvePath } from "../../src/workspace/kit/Lookup.ts"
import { exportBundle } from "./Bundle.ts"
import { importBundle } from "./BundleImport.ts"
import { compactInThread } from "./CompactThread.ts"
import { readStats, verifyStore } from "./Verify.ts"
import { encodeError } from "../../src/workspace/kit/ErrorTransfer.ts"
import { longestRead, readContent, readRange } from "./FileContent.ts"
import { createEmpty, type ImportContext, importDirectory } from "./Import.ts"
import { settlingNs } from "./ImportTrust.ts"
import { openIndex } from "./IndexSchema.ts"
import type { Reply, Request, WorkerSetup } from "./LayerStore.ts"
import { exportTar, materialise } from "./Materialise.ts"
import { planDelta, planTree, touchesLinks } from "./MaterialisePlan.ts"
import { ProgressMeter } from "../../src/workspace/kit/ProgressMeter.ts"
import { OwnPacks } from "./OwnPacks.ts"
import { hasAbandonedPacks, type PackAppender, reclaimPacks, removeOrphans } from "./PackFile.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import { ObjectWriter } from "./PackedObjects.ts"
import { blame } from "./history/Blame.ts"
import { Bounded } from "../../src/workspace/kit/Bounded.ts"
import { grepTexts } from "../../src/workspace/kit/GrepTexts.ts"
import { inStretches, type Steps } from "../../src/workspace/kit/Steps.ts"
import { globAt, grepAt } from "./history/Search.ts"
import { DiffPages } from "./history/DiffPages.ts"
import { readBranches, readLog } from "../../src/workspace/kit/Log.ts"
import { moveHead, readUndoLog, rewind } from "../../src/workspace/kit/Moves.ts"
import { type History, logHistory } from "./history/History.ts"
import { forkFrom } from "../../src/workspace/kit/Fork.ts"
import { refNotFound } from "../../src/workspace/kit/Refusals.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import { LayerRefs } from "./LayerRefs.ts"
import type { Calls, FoundEntry } from "./StoreCalls.ts"
import { StoredTrees } from "./StoredTrees.ts"
import { storeReader } from "./StoreReader.ts"
import { isDead, writerIdentity } from "./WriterIdentity.ts"

/** What a call may use beside its input. */
export interface CallScope {
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
  /** Called once when the call is cancelled. One listener a call. */
  readonly onCancel: (listener: () => void) => void
}

type Handlers = {
  readonly [K in keyof Calls]: (input: Parameters<Calls[K]>[0], scope: CallScope) => ReturnType<Calls[K]>
}

/** An opened store. All state of the worker. */
class OpenStore {
  readonly db: Database
  readonly refs: LayerRefs
  readonly reader: ObjectReader
  readonly trees: StoredTrees
  readonly setup: WorkerSetup
  readonly #packs: OwnPacks
  readonly #line: CommitLine
  #pack: PackAppender | undefined
  #objects: ObjectWriter | undefined
  #isClosing = false

  private constructor(setup: WorkerSetup, db: Database) {
    this.setup = setup
    this.db = db
    this.refs = new LayerRefs(db, setup.quota)
    this.reader = storeReader(db, setup.directories.packs)
    this.#packs = new OwnPacks(db, setup.directories.packs)
    // What the running commit wrote is visible to it before the index knows it.
    this.trees = new StoredTrees({ read: (id) => (this.#objects ?? this.reader).read(id) })
    this.#line = new CommitLine({
      writer: async () => (this.#objects ??= await this.#openWriter()),
      addCommit: (input, beforeTry) => this.refs.addCommit(input, beforeTry),
      addCommits: (inputs) => this.refs.addCommits(inputs)
    })
  }

  static async open(setup: WorkerSetup): Promise<OpenStore> {
    const { index, packs, root } = setup.directories
    const db = await openIndex(index, setup.durability, () => newId("project").replace("prj_", "sto_"))
    const hasEnded = (writer: string): boolean => isDead(root, writer)
    if (hasAbandonedPacks(db, hasEnded)) await db.transactWithRetry(() => reclaimPacks(db, packs, hasEnded))
    removeOrphans(db, packs)
    removeAbandonedScratch(setup.directories)
    return new OpenStore(setup, db)
  }

  /** Runs calls with the writer one after the other; commits of several branches become durable together. See CommitLine. */
  commit<A>(branch: string | null, scope: CallScope, run: (context: CommitContext) => Promise<A>): Promise<A> {
    const { refs, trees } = this
    const { durability } = this.setup
    const { cancelled } = scope
    return this.#line.run(branch, scope, (turn) => run({ refs, trees, durability, cancelled, ...turn }))
  }

  async #openWriter(): Promise<ObjectWriter> {
    this.#pack ??= await this.#packs.acquire()
    return new ObjectWriter(this.reader, this.#pack)
  }

  /** Whoever writes next takes another pack. `heir` is to have this one. */
  #putPackDown(heir?: string): void {
    if (this.#pack !== undefined) this.#packs.putDown(this.#pack, heir)
    this.#pack = undefined
    this.#objects = undefined
  }

  /** Objects in a pack of their own, for one long call. */
  withPack<A>(run: (objects: ObjectWriter) => Promise<A>): Promise<A> {
    return this.#packs.lend((pack) => run(new ObjectWriter(this.reader, pack)))
  }

  /** Rewrites packs in a thread of its own. What commits wrote up to now is among them: the next one takes another pack. */
  async compact(
    input: { readonly maxMs: number | null; readonly maxBytes: number | null },
    scope: CallScope
  ): Promise<CompactReport> {
    const { index, packs } = this.setup.directories
    const writer = writerIdentity()
    // Given to the compaction and not to whoever comes first: that would be the next commit in line.
    await this.#line.between(async () => this.#putPackDown(writer))
    const setup = { index, packs, writer, durability: this.setup.durability, ...input }
    try {
      await this.#packs.giveBack()
      return await compactInThread(setup, { ...scope, cancelled: () => this.#isClosing || scope.cancelled() })
    } finally {
      this.reader.closeRemoved()
      this.#packs.ended(writer)
    }
  }

  /** Ends what goes on in the background; what was asked for by name is waited for. */
  stopBackground(): void {
    this.#isClosing = true
  }

  /** An import has a pack of its own, so that commits go on beside it. */
  import<A>(scope: CallScope, run: (context: ImportContext) => Promise<A>): Promise<A> {
    return this.#packs.lend((pack) => {
      pack.allow(this.refs.allowance("a new project"))
      return run({
        refs: this.refs,
        objects: new ObjectWriter(this.reader, pack),
        index: this.setup.directories.index,
        cache: this.setup.directories.cache,
        storeRoot: this.setup.directories.root,
        durability: this.setup.durability,
        settlingNs: this.setup.settlingNs ?? settlingNs(),
        ...scope
      })
    })
  }

  resolve(ref: string): CommitRow {
    const commit = this.refs.resolve(ref)
    if (commit === undefined) throw refNotFound(ref)
    return commit
  }

  async close(): Promise<void> {
    await this.#line.between(async () => this.#putPackDown())
    await this.#packs.giveBack().catch(() => undefined)
    this.reader.close()
    this.db.close()
  }
}

const isRange = (offset: number, length: number): boolean =>
  Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0

/** The entry that a caller's path stands for. */
const look = (store: OpenStore, ref: string, path: TreePath, follow: boolean): FoundEntry => {
  const commit = store.resolve(ref)
  const tree = store.trees.reader(commit)
  const mountPath = store.refs.project(commit.project)?.source ?? null
  const resolved = resolvePath({ get: (at) => tree.entry(at), mountPath }, path, follow)
  const entry = tree.entry(resolved)
  if (entry === undefined) throw pathError("notFound", path)
  return { path: resolved, entry }
}

/** What a repeated import answered, when it was one. */
const receiptOf = (result: unknown, operationId: string): ImportReceipt => {
  const receipt = result as ImportReceipt
  if (receipt.layer === undefined) throw operationUsed(operationId)
  return receipt
}

const handlersOf = (store: OpenStore): Omit<Handlers, "open" | "close"> => {
  const { refs, trees, reader } = store
  const history = ({ cancelled }: CallScope): History => ({ refs, trees, reader, cancelled })
  const planned = <A>(steps: Steps<A>, { cancelled }: CallScope): Promise<A> =>
    inStretches(steps, cancelled, (stretch) => reader.reading(stretch))
  const diffs = new DiffPages()
  const bounded = new Bounded()
  const fork: Calls["fork"] = (input) => forkFrom(refs, input)
  return {
    storeId: () => refs.storeId(),
    importDirectory: async (input, scope) => {
      const repeated = refs.operation(input.operationId)
      if (repeated !== undefined) return receiptOf(repeated.result, input.operationId)
      return store.import(scope, (context) => importDirectory(context, input))
    },
    createEmpty: async (input, scope) => {
      const repeated = refs.operation(input.operationId)
      if (repeated !== undefined) return receiptOf(repeated.result, input.operationId)
      return store.import(scope, (context) => createEmpty(context, input))
    },
    fork,
    branch: ({ id }) => {
      const branch = refs.branch(id)
      if (branch === undefined) throw refNotFound(id)
      return branch
    },
    resolve: ({ ref }) => store.resolve(ref),
    project: ({ id }) => {
      const project = refs.project(id)
      if (project === undefined) throw refNotFound(id)
      return project
    },
    branches: (input) => readBranches({ refs }, input),
    log: (input, scope) => readLog(logHistory(history(scope)), input),
    findOperation: ({ operationId }) => {
      const found = refs.operation(operationId)
      return found === undefined ? null : { commit: found.commit }
    },
    pin: ({ key, ref }) => refs.pin(key, store.resolve(ref).id),
    unpin: ({ key }) => refs.unpin(key),
    entry: ({ ref, path }) => trees.reader(store.resolve(ref)).entry(path) ?? null,
    list: ({ ref, path }) => trees.reader(store.resolve(ref)).list(path) ?? null,
    linksBelow: ({ ref, directories }) =>
      [...trees.linkGroups(store.resolve(ref).root).values()].filter((names) =>
        names.some((name) => directories.some((directory) => isBelow(name, directory)))
      ),
    content: (content) => Uint8Array.from(readContent(reader, content)),
    commitChanges: (input, scope) => store.commit(input.branch, scope, (context) => commitChanges(context, input)),
    checkpoint: (input, scope) => store.commit(input.branch, scope, (context) => checkpoint(context, input)),
    preview: ({ base, harvest }, scope) =>
      store.commit(null, scope, (context) => preview(context, store.resolve(base), harvest)),
    look: ({ ref, path, follow }) => look(store, ref, path, follow),
    listAt: ({ ref, path }) => {
      const found = look(store, ref, path, true)
      const entries = trees.reader(store.resolve(ref)).list(found.path)
      if (entries === undefined) throw pathError("notADirectory", path)
      return entries.map((entry) => ({ path: join(found.path, entry.name), entry }))
    },
    readAt: ({ ref, path, range }) => {
      const { entry } = look(store, ref, path, true)
      if (entry.type !== "file") throw pathError("notAFile", path)
      const content = { id: entry.id!, size: entry.size }
      const { offset = 0, length = content.size } = range ?? {}
      if (!isRange(offset, length)) throw pathError("invalid", path)
      if (Math.min(length, content.size - offset) > longestRead) throw pathError("tooLarge", path, content.size)
      return Uint8Array.from(
        offset === 0 && length >= content.size
          ? readContent(reader, content)
          : readRange(reader, content, offset, length)
      )
    },
    diff: (input, scope) => diffs.page(history(scope), input),
    glob: (input, scope) => globAt(history(scope), bounded, input),
    grep: (input, scope) =>
      grepAt(history(scope), bounded, input, (commit) => look(store, commit.id, input.path, true).path),
    grepTexts: (input) => grepTexts(bounded, input),
    rewind: (input, scope) => rewind(history(scope), input, fork),
    moveHead: (input, scope) => moveHead(history(scope), input, store.setup.durability),
    undoLog: (input) => readUndoLog({ refs }, input),
    blame: (input, scope) =>
      blame(history(scope), input, (commit) => {
        const found = look(store, commit.id, input.path, true)
        if (found.entry.type !== "file") throw pathError("notAFile", input.path)
        return found.path
      }),
    applyTo: (input, scope) =>
      store.commit(input.branch, scope, (context) => {
        const branch = refs.branch(input.branch)
        if (branch === undefined) throw refNotFound(input.branch)
        const mountPath = refs.project(branch.project)?.source ?? null
        return commitEdit(context, {
          ...input,
          expectedHead: branch.head,
          keepTimes: false,
          linkSplit: [],
          live: false,
          edit: (editor, objects) =>
            applyOperations({ editor, objects, mountPath, nowNs: BigInt(input.at) * 1_000_000n }, input.operations)
        })
      }),
    treeDigest: async ({ ref }) => {
      const { root } = store.resolve(ref)
      const known = refs.digest(root, fullProfile)
      if (known !== undefined) return { digest: known, profile: fullProfile }
      const digest = await digestOfRoot(trees, root, (content) => contentDigestOf(reader, content, refs))
      await refs.putDigest(root, fullProfile, digest)
      return { digest, profile: fullProfile }
    },
    exportPatch: ({ from, to, paths }, { onCancel }) => {
      const stop = new AbortController()
      onCancel(() => stop.abort())
      return exportPatch(
        { trees, reader, work: store.setup.directories.work },
        store.resolve(from),
        store.resolve(to),
        paths === null ? null : new Set(paths),
        stop.signal
      )
    },
    exportBundle: ({ ref, ...input }, scope) =>
      exportBundle({ db: store.db, refs, reader, ...scope }, store.resolve(ref), input),
    importBundle: ({ source }, scope) =>
      store.withPack((objects) => {
        const { quota, durability } = store.setup
        return importBundle({ db: store.db, refs, objects, quota, durability, ...scope }, source)
      }),
    compact: (input, scope) => store.compact(input, scope),
    stats: () => readStats(store.db, store.setup.directories, store.setup.quota),
    verify: (_, { progress }) =>
      verifyStore({ refs, reader, db: store.db, packs: store.setup.directories.packs, progress }),
    materialise: async ({ commit, target, phase = "materialise" }, scope) => {
      const plan = await planned(planTree(trees, store.resolve(commit)), scope)
      return materialise({ reader, directories: store.setup.directories, phase, ...scope }, plan, target)
    },
    exportTar: async ({ ref, target }, scope) => {
      const plan = await planned(planTree(trees, store.resolve(ref)), scope)
      return exportTar({ reader, ...scope }, plan, target)
    },
    materialiseDelta: async ({ commit, below, target, limit }, scope) => {
      const plan = await planned(planDelta(trees, store.resolve(commit), store.resolve(below), limit), scope)
      if (plan === undefined) return false
      await materialise({ reader, directories: store.setup.directories, phase: "materialise", ...scope }, plan, target)
      return true
    },
    touchesLinks: ({ commit, below }, scope) =>
      planned(touchesLinks(trees, store.resolve(commit), store.resolve(below)), scope),
    putWorkspace: (row) => refs.putWorkspace(row),
    updateWorkspace: async ({ id, change }) => {
      if (!(await refs.updateWorkspace(id, change))) throw refNotFound(id)
    },
    claimWorkspace: ({ id, before, decider }) => refs.claimWorkspace(id, before, decider),
    workspaces: ({ states }) => refs.workspaces(states)
  }
}

export const serveStore = (port: MessagePort, setup: WorkerSetup): void => {
  let store: OpenStore | undefined
  let handlers: Omit<Handlers, "open" | "close"> | undefined
  const cancelled = new Set<number>()
  /** Of the calls that run. */
  const listeners = new Map<number, () => void>()
  const running = new Set<Promise<unknown>>()

  const answer = async (id: number, call: keyof Calls, input: unknown): Promise<unknown> => {
    if (call === "open") {
      store = await OpenStore.open(setup)
      handlers = handlersOf(store)
      return {}
    }
    if (call === "close") {
      store?.stopBackground()
      await Promise.allSettled(running)
      await store?.close()
      return undefined
    }
    if (handlers === undefined) throw new Error("The store is not open")
    const meter = new ProgressMeter((progress) => port.postMessage({ id, progress } satisfies Reply, []))
    const scope: CallScope = {
      progress: (step) => meter.report(step),
      cancelled: () => cancelled.has(id),
      onCancel: (listener) => listeners.set(id, listener)
    }
    const value = await handlers[call](input as never, scope)
    meter.end()
    return value
  }

  port.on("message", (request: Request) => {
    if ("cancel" in request) {
      cancelled.add(request.cancel)
      listeners.get(request.cancel)?.()
      return
    }
    const { id, call, input } = request
    const work = answer(id, call, input).then(
      (value) => port.postMessage({ id, value } satisfies Reply, []),
      (error) => port.postMessage({ id, error: encodeError(error) } satisfies Reply, [])
    )
    const done = work.finally(() => {
      running.delete(done)
      cancelled.delete(id)
      listeners.delete(id)
    })
    if (call !== "close") running.add(done)
  })
}
