/**
 * The store of a provider that keeps whole states: what a backend keeps, the rows that name it, and the list of files of each commit.
 * Promise: what is told of a commit (entries, digests, root) is what was kept, not what lay there a moment later; a state is kept before
 * its commit stands, and dropped when that comes to nothing, also after a kill; a commit that changes nothing keeps nothing.
 * Rules: W5, W6, W8, W10, W11, W13, W15, W22, L8, L10, G75.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import type { Digest } from "../../base/Digest.ts"
import type { Durability } from "../../base/Durability.ts"
import { newId } from "../../base/Id.ts"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import type { Database } from "../../sqlite/Database.ts"
import { ContentDigester } from "../TreeDigest.ts"
import { HeadMoved, ObjectDamaged, Unavailable } from "../WorkspaceError.ts"
import type { Actor, CheckpointOutcome, FileOperation, ImportReceipt, Progress } from "../WorkspaceValues.ts"
import { applyBatch } from "./Batch.ts"
import { Beneath } from "./Beneath.ts"
import { CommitTree, digestOfTree, inOrder, type KeptEntry } from "./CommitTree.ts"
import { contentsOfDirectory } from "./DirectoryContents.ts"
import { GrepThread } from "./GrepThread.ts"
import type { HarvestInput, HarvestResult } from "./Harvest.ts"
import { ImportNotes } from "./ImportNotes.ts"
import { type Scan, scan as scanSource, type ScannedDirectory, type ScannedFile } from "./ImportScan.ts"
import { type Machine, signsOf, thisMachine } from "./ImportSigns.ts"
import { checkSource, refuseImport } from "./ImportSource.ts"
import { KeyedLine } from "./KeyedLine.ts"
import { linkGroups } from "./LinkGroups.ts"
import { freshName } from "./Machine.ts"
import { breathing } from "./Question.ts"
import { headMoved, operationUsed, refNotFound } from "./Refusals.ts"
import type { BranchRow, CommitRow, ProjectRow } from "./RefStore.ts"
import { removeTree } from "./RemoveTree.ts"
import { restoreMetadata } from "./Restore.ts"
import { scanSteps, takeSnapshot } from "./ScanHarvest.ts"
import type { Moved, Piece, Snapshot, SnapshotBackend } from "./SnapshotBackend.ts"
import type { SnapshotQuota } from "./SnapshotQuota.ts"
import { SnapshotRefs } from "./SnapshotRefs.ts"
import { openSnapshotIndex } from "./SnapshotSchema.ts"
import { listedSkipped } from "./Skipped.ts"
import type { CheckpointReply, CheckpointRequest, MadeTree, PreviewReply } from "./StorePort.ts"
import type { TreeChange } from "./Tree.ts"
import { changedTree, grouped, type KeptContent } from "./TreeChanges.ts"
import { changeOf, differences, sameTimes } from "./TreeCompare.ts"
import { TreeFiles } from "./TreeFile.ts"
import { writeChanges } from "./WriteChanges.ts"

/** Tries to catch a directory between two changes, where somebody writes to it. */
const tries = 3

/** How often a direct call is made again when another process moved the branch meanwhile. */
const overtaken = 10

/** Bytes of a file that its signs are read from. */
const headBytes = 8 * 1024

export interface SnapshotDirectories {
  /** `STORE/<provider>`, as a real path. */
  readonly root: string
  readonly index: string
  readonly trees: string
  readonly work: string
}

export interface SnapshotParts {
  readonly backend: SnapshotBackend
  readonly directories: SnapshotDirectories
  readonly durability: Durability
  readonly quota: SnapshotQuota
}

/** A call's own part: who hears of its progress, and who may end it. */
export interface CallScope {
  readonly signal: AbortSignal
  readonly progress: (progress: Progress) => void
}

type Committed = Extract<CheckpointOutcome, { readonly outcome: "committed" }>

interface ApplyInput {
  readonly branch: string
  readonly operations: readonly FileOperation[]
  readonly message: string
  readonly operationId: string
  readonly actor: Actor
  readonly at: number
}

interface NewState {
  readonly project: string
  readonly parents: readonly CommitRow[]
  readonly tree: TreePath
  readonly isImport: boolean
  readonly changes: readonly TreeChange[] | null
  readonly leaveOut: readonly TreePath[]
  readonly message: string
  readonly at: number
}

const keptOtherwise = (commit: string): ObjectDamaged =>
  new ObjectDamaged({
    message: "The state that was kept is not what lay in the directory. Nothing was committed.",
    remedy: "Repeat the call; when it happens again, run verify and look at the disk's health.",
    object: commit
  })

const keepsChanging = (): Unavailable =>
  new Unavailable({
    message: "The directory kept changing while it was kept; nothing was committed.",
    remedy: "Let what runs inside end, or ask for `quiesce`, then repeat the call.",
    what: "a state at rest",
    missing: ["a moment without changes"]
  })

/** The content digest of a file on the disk; a hole in which nothing lies is not read. Rejects with Node's own errors. */
export const digestOfFile = async (at: TreePath): Promise<KeptContent> => {
  const digester = new ContentDigester()
  for await (const { bytes, zeros = 0 } of contentsOfDirectory("", [at])) {
    digester.add(bytes)
    digester.addZeros(zeros)
  }
  const { length } = digester
  return { id: digester.end(), size: length }
}

export class SnapshotStore {
  readonly backend: SnapshotBackend
  readonly directories: SnapshotDirectories
  readonly durability: Durability
  readonly refs: SnapshotRefs
  readonly trees: TreeFiles
  readonly thread = new GrepThread()
  readonly db: Database
  readonly quota: SnapshotQuota
  readonly #line = new KeyedLine()
  #machine: Machine | undefined

  private constructor(parts: SnapshotParts, db: Database) {
    this.backend = parts.backend
    this.directories = parts.directories
    this.durability = parts.durability
    this.quota = parts.quota
    this.db = db
    this.refs = new SnapshotRefs(db)
    this.trees = new TreeFiles(parts.directories.trees, parts.durability === "full")
  }

  /** Drops what killed processes had begun. Rejects with `Busy`, `StorageFailure`, `StoreMoved`. */
  static async open(parts: SnapshotParts): Promise<SnapshotStore> {
    const { index } = parts.directories
    const store = new SnapshotStore(parts, await openSnapshotIndex(index, parts.backend.provider, parts.durability))
    for (const { project, commit } of store.refs.abandoned()) await store.#giveUp({ project, commit })
    return store
  }

  async close(): Promise<void> {
    await this.thread.close()
    this.db.close()
  }

  get timeUnit(): bigint {
    return this.backend.capabilities.nanosecondMtimes ? 1n : 1000n
  }

  resolve(ref: string): CommitRow {
    const commit = this.refs.resolve(ref)
    if (commit === undefined) throw refNotFound(ref)
    return commit
  }

  branch(id: string): BranchRow {
    const branch = this.refs.branch(id)
    if (branch === undefined) throw refNotFound(id)
    return branch
  }

  treeOf(commit: string): Promise<CommitTree> {
    return this.trees.read(commit)
  }

  contents(commit: CommitRow, paths: readonly TreePath[]): AsyncIterable<Piece> {
    return this.backend.contents({ project: commit.project, commit: commit.id }, paths)
  }

  async #giveUp(snapshot: Snapshot): Promise<void> {
    await this.backend.drop(snapshot)
    await this.trees.drop(snapshot.commit)
    await this.refs.end(snapshot.commit)
  }

  /** Keeps a state under a new commit's name. Whoever calls makes it a commit or gives it up. */
  async #keep(state: NewState, scope: CallScope): Promise<{ readonly snapshot: Snapshot; readonly moved: Moved }> {
    const { project, parents, tree, isImport, changes, leaveOut, message, at } = state
    const snapshot = { project, commit: newId("commit") }
    await this.refs.begin(snapshot)
    crashPoint("kit.keeping")
    try {
      const moved = await this.backend.keep({
        snapshot,
        parents: parents.map((parent) => ({ project: parent.project, commit: parent.id })),
        tree,
        isImport,
        changes,
        leaveOut,
        message,
        at,
        onProgress: (files, bytes) =>
          scope.progress({ phase: "store", files, bytes, totalFiles: null, totalBytes: null }),
        signal: scope.signal
      })
      await this.quota.check(this.backend)
      crashPoint("kit.kept")
      return { snapshot, moved }
    } catch (error) {
      await this.#giveUp(snapshot)
      throw error
    }
  }

  /** Digests of kept files. `seen` gets the first bytes of each. */
  async #digests(
    snapshot: Snapshot,
    paths: readonly TreePath[],
    scope: CallScope,
    seen?: (path: TreePath, head: Buffer) => void
  ): Promise<Map<TreePath, KeptContent>> {
    const found = new Map<TreePath, KeptContent>()
    let digester = new ContentDigester()
    let head: Buffer[] = []
    let bytes = 0
    for await (const piece of this.backend.contents(snapshot, paths)) {
      scope.signal.throwIfAborted()
      if (seen !== undefined && digester.length < headBytes) head.push(Buffer.from(piece.bytes))
      digester.add(piece.bytes)
      digester.addZeros(piece.zeros ?? 0)
      bytes += piece.bytes.length + (piece.zeros ?? 0)
      if (!piece.last) continue
      const { length } = digester
      found.set(piece.path, { id: digester.end(), size: length })
      seen?.(piece.path, Buffer.concat(head).subarray(0, headBytes))
      digester = new ContentDigester()
      head = []
      scope.progress({ phase: "store", files: found.size, bytes, totalFiles: paths.length, totalBytes: null })
    }
    return found
  }

  // --- import -------------------------------------------------------------------------------------------------------------------

  async importDirectory(
    input: { readonly source: TreePath; readonly name: string; readonly operationId: string; readonly at: number },
    scope: CallScope
  ): Promise<ImportReceipt> {
    const repeated = this.#repeatedImport(input.operationId)
    if (repeated !== undefined) return repeated
    const source = checkSource(input.source, path.dirname(this.directories.root))
    const admitted = await this.backend.admit?.(source)
    for (let round = 1; ; round += 1) {
      const done = await this.#importOnce({ ...input, source }, admitted, scope)
      if (done !== "changed") return done
      if (round === tries) throw refuseImport("changing", input.source)
    }
  }

  #repeatedImport(operationId: string): ImportReceipt | undefined {
    const before = this.refs.operation(operationId)
    if (before === undefined) return undefined
    const receipt = before.result as ImportReceipt
    if (receipt.layer === undefined) throw operationUsed(operationId)
    return receipt
  }

  async #importOnce(
    input: { readonly source: TreePath; readonly name: string; readonly operationId: string; readonly at: number },
    admitted: Awaited<ReturnType<NonNullable<SnapshotBackend["admit"]>>> | undefined,
    scope: CallScope
  ): Promise<ImportReceipt | "changed"> {
    const { source } = input
    const own = this.backend.ownNames ?? []
    const look = (at: TreePath, notes: ImportNotes) =>
      this.#scanSource(at, notes, scope, { shownAs: source, apart: own })
    const firstNotes = new ImportNotes()
    const first = await look(source, firstNotes)
    const leaveOut = [...(admitted?.leaveOut ?? []), ...own, ...firstNotes.leftOut()]
    const project = { id: newId("project"), name: input.name, source }
    const state = {
      project: project.id,
      parents: [],
      tree: source,
      isImport: true,
      changes: null,
      leaveOut,
      ...told(input)
    }
    const { snapshot, moved } = await this.#keep(state, scope)
    try {
      const kept = this.backend.directoryOf?.(snapshot)
      const notes = kept === undefined ? new ImportNotes() : firstNotes
      // A directory that was kept is looked at itself; else the source has to be what it was before.
      const scanned = kept === undefined ? await look(source, notes) : await look(kept, new ImportNotes())
      if (kept === undefined && !sameScan(first, scanned)) {
        await this.#giveUp(snapshot)
        return "changed"
      }
      for (const note of admitted?.notes ?? []) notes.add(note.kind, fromInput(note.path.path), note.detail)
      if (moved.copiedBytes > 0) {
        notes.add(
          "normalised",
          "",
          `${moved.copiedBytes} bytes were copied (${moved.method}): the source shares none with the store`
        )
      }
      return await this.#commitImport(input, project, snapshot, scanned, notes, scope)
    } catch (error) {
      await this.#giveUp(snapshot)
      throw error
    }
  }

  #scanSource(
    at: TreePath,
    notes: ImportNotes,
    scope: CallScope,
    options: { readonly shownAs: TreePath; readonly apart: readonly TreePath[] }
  ): Promise<Scan> {
    return scanSource(
      at,
      notes,
      (files) => {
        if (scope.signal.aborted) throw refuseImport("cancelled", options.shownAs)
        scope.progress({ phase: "scan", files, bytes: 0, totalFiles: null, totalBytes: null })
      },
      () => undefined,
      options
    )
  }

  async #commitImport(
    input: {
      readonly source: TreePath | null
      readonly name: string
      readonly operationId: string
      readonly at: number
    },
    project: ProjectRow,
    snapshot: Snapshot,
    scanned: Scan,
    notes: ImportNotes,
    scope: CallScope
  ): Promise<ImportReceipt> {
    const modes = new Map(scanned.files.map((file) => [file.path, file.mode]))
    const machine = (this.#machine ??= thisMachine())
    const contents = await this.#digests(
      snapshot,
      scanned.files.map((file) => file.path),
      scope,
      (at, head) => {
        const signs = signsOf({ path: at, source: input.source ?? "", mode: modes.get(at)!, head }, machine)
        for (const { kind, detail } of signs) notes.add(kind, at, detail)
      }
    )
    for (const file of scanned.files) file.id = contents.get(file.path)?.id
    const groups = linkGroups(scanned.files, notes)
    const tree = new CommitTree(this.#entriesOf(scanned, contents))
    const root = await digestOfTree(tree)
    await this.trees.write(snapshot.commit, tree)
    scope.progress({
      phase: "commit",
      files: contents.size,
      bytes: scanned.bytes,
      totalFiles: contents.size,
      totalBytes: scanned.bytes
    })
    const layer = newId("layer")
    const receipt: ImportReceipt = {
      operationId: input.operationId,
      project: project.id,
      layer,
      commit: snapshot.commit,
      root,
      files: contents.size,
      directories: scanned.directories,
      symlinks: scanned.symlinks,
      hardLinkGroups: groups.size,
      bytes: [...contents.values()].reduce((sum, { size }) => sum + size, 0),
      storedBytes: (await this.backend.storedBytes()) ?? 0,
      durability: this.durability,
      ...notes.forReceipt()
    }
    const commit = this.#newCommit(snapshot, [], {
      ...told(input),
      root,
      operationId: input.operationId,
      actor: {},
      live: false
    })
    const added = await this.refs.addCommit({ commit, result: receipt, layer: { id: layer, project } })
    if (added.kind !== "repeated") {
      crashPoint("kit.committed")
      return receipt
    }
    await this.#giveUp(snapshot)
    return this.#repeatedImport(input.operationId)!
  }

  #entriesOf(scanned: Scan, contents: ReadonlyMap<TreePath, KeptContent>): readonly KeptEntry[] {
    const entries: KeptEntry[] = []
    const inodes = new Map<TreePath, string>()
    const none = { size: 0, id: null, target: null, linkGroup: null }
    const timeOf = (mtimeNs: bigint): bigint => mtimeNs - (mtimeNs % this.timeUnit)
    const visit = (directory: ScannedDirectory): void => {
      const { path: at, name, mode } = directory
      entries.push({ path: at, name, type: "directory", mode, mtimeNs: timeOf(directory.mtimeNs), ...none })
      for (const entry of directory.entries) {
        const mtimeNs = timeOf(entry.mtimeNs)
        if (entry.type === "directory") visit(entry)
        else if (entry.type === "symlink") {
          const { target } = entry
          entries.push({
            path: entry.path,
            name: entry.name,
            type: "symlink",
            mode: 0,
            mtimeNs,
            ...none,
            size: target.length,
            target
          })
        } else {
          const content = contents.get(entry.path)
          if (content === undefined) continue
          entries.push({
            path: entry.path,
            name: entry.name,
            type: "file",
            mode: entry.mode,
            mtimeNs,
            ...none,
            ...content
          })
          if (entry.inode !== undefined) inodes.set(entry.path, entry.inode)
        }
      }
    }
    visit(scanned.root)
    return grouped(inOrder(entries), inodes)
  }

  async createEmpty(
    input: { readonly name: string; readonly operationId: string; readonly at: number },
    scope: CallScope
  ): Promise<ImportReceipt> {
    const repeated = this.#repeatedImport(input.operationId)
    if (repeated !== undefined) return repeated
    return this.inScratch(async (scratch) => {
      const tree = path.join(scratch, "tree")
      fs.mkdirSync(tree, { mode: 0o755 })
      const project = { id: newId("project"), name: input.name, source: null }
      const at = fromInput(tree)
      const state = {
        project: project.id,
        parents: [],
        tree: at,
        isImport: true,
        changes: null,
        leaveOut: [],
        ...told(input)
      }
      const { snapshot } = await this.#keep(state, scope)
      try {
        const notes = new ImportNotes()
        const scanned = await this.#scanSource(at, notes, scope, { shownAs: at, apart: [] })
        return await this.#commitImport({ ...input, source: null }, project, snapshot, scanned, notes, scope)
      } catch (error) {
        await this.#giveUp(snapshot)
        throw error
      }
    })
  }

  #newCommit(
    snapshot: Snapshot,
    parents: readonly CommitRow[],
    of: {
      readonly root: Digest
      readonly message: string
      readonly at: number
      readonly operationId: string
      readonly actor: Actor
      readonly live: boolean
    }
  ) {
    return {
      id: snapshot.commit,
      project: snapshot.project,
      parent: parents[0]?.id ?? null,
      secondParent: parents[1]?.id ?? null,
      times: of.root,
      ...of
    }
  }

  // --- checkpoints --------------------------------------------------------------------------------------------------------------

  /** The answer of an operation that was done before, on this branch. Throws `OperationUsed`. */
  answered(operationId: string, branch: string): Committed | undefined {
    const before = this.refs.operation(operationId)
    if (before === undefined) return undefined
    const { branch: of, ...outcome } = before.result as { readonly branch?: string } & CheckpointOutcome
    if (outcome.outcome !== "committed" || of !== branch) throw operationUsed(operationId)
    return outcome
  }

  async #scan(harvest: HarvestInput, base: CommitTree): Promise<HarvestResult> {
    if (harvest.kind !== "scan") throw new Error("Only directories of their own are looked at here")
    const breathe = breathing(() => false)
    const steps = scanSteps({ ...harvest, apart: this.backend.ownNames ?? [] }, base)
    for (;;) {
      const step = steps.next()
      if (step.done === true) return step.value
      await breathe()
    }
  }

  /** The tree that the changes make, from the files as they lie there. */
  async #treeOfChanges(base: CommitTree, changes: readonly TreeChange[]): Promise<CommitTree> {
    const contents = new Map<TreePath, KeptContent>()
    for (const change of changes) {
      if (change.op === "putFile" && "file" in change.content) {
        contents.set(change.path, await digestOfFile(change.content.file))
      }
    }
    return changedTree(base, { changes, contents, timeUnit: this.timeUnit })
  }

  async preview(base: string, harvest: HarvestInput): Promise<PreviewReply> {
    const before = await this.trees.read(this.resolve(base).id)
    const found = await this.#scan(harvest, before)
    if (found.unreadable.length > 0) return { unreadable: found.unreadable }
    const after = await this.#treeOfChanges(before, found.changes)
    return { changes: [...differences(before, after)].map(changeOf), fingerprint: found.fingerprint }
  }

  async checkpoint(request: CheckpointRequest & { readonly at: number }, scope: CallScope): Promise<CheckpointReply> {
    const { branch, expectedHead, operationId } = request
    const repeated = this.answered(operationId, branch)
    if (repeated !== undefined) {
      const isNext = this.refs.commit(repeated.commit)?.parent === expectedHead
      return { outcome: repeated, fingerprint: "", skipped: {}, repeats: isNext ? "next" : "older" }
    }
    const row = this.branch(branch)
    if (row.head !== expectedHead) throw headMoved(branch, expectedHead, row.head)
    const base = this.resolve(expectedHead)
    for (let round = 1; round <= tries; round += 1) {
      const done = await this.#checkpointOnce(request, base, scope)
      if (done !== "changed") return done
    }
    throw keepsChanging()
  }

  async #checkpointOnce(
    request: CheckpointRequest & { readonly at: number },
    base: CommitRow,
    scope: CallScope
  ): Promise<CheckpointReply | "changed"> {
    const { harvest } = request
    const before = await this.trees.read(base.id)
    const found = await this.#scan(harvest, before)
    if (found.unreadable.length > 0) return { unreadable: found.unreadable }
    const skipped = listedSkipped(found.skipped)
    const reply = { fingerprint: found.fingerprint, skipped, repeats: "no" as const }
    const expected = await this.#treeOfChanges(before, found.changes)
    const root = await digestOfTree(expected)
    // A state that was caught live is committed again, unchanged, once it is seen at rest: only that may be a candidate (W19).
    const settles = base.live && !request.live
    if (root === base.root && !settles && (!request.keepTimes || sameTimes(before, expected))) {
      return { outcome: { outcome: "unchanged", commit: base.id, root }, ...reply }
    }
    const { snapshot } = await this.#keep(
      {
        project: base.project,
        parents: [base],
        tree: (harvest as { readonly tree: TreePath }).tree,
        isImport: false,
        changes: found.changes,
        leaveOut: [...(this.backend.ownNames ?? []), ...found.skipped.map((entry) => entry.path)],
        message: request.message,
        at: request.at
      },
      scope
    )
    try {
      const again = await this.#scan(harvest, before)
      if (again.fingerprint !== found.fingerprint) {
        await this.#giveUp(snapshot)
        return "changed"
      }
      await this.#checkKept(snapshot, expected, found.changes, scope)
      const outcome = await this.#commit({ ...request, base, before, tree: expected, root, snapshot })
      return { outcome: outcome.outcome, ...reply, repeats: outcome.repeated ? "older" : "no" }
    } catch (error) {
      await this.#giveUp(snapshot)
      throw error
    }
  }

  /** What was kept of the changed files is what lay there. */
  async #checkKept(
    snapshot: Snapshot,
    expected: CommitTree,
    changes: readonly TreeChange[],
    scope: CallScope
  ): Promise<void> {
    const paths = changes.flatMap((change) => (change.op === "putFile" ? [change.path] : []))
    const kept = await this.#digests(snapshot, paths, { ...scope, progress: () => undefined })
    for (const at of paths) if (kept.get(at)?.id !== expected.entry(at)!.id) throw keptOtherwise(snapshot.commit)
  }

  async #commit(
    input: Omit<CheckpointRequest, "harvest"> & {
      readonly at: number
      readonly base: CommitRow
      readonly secondParent?: CommitRow
      readonly before: CommitTree
      readonly tree: CommitTree
      readonly root: Digest
      readonly snapshot: Snapshot
    }
  ): Promise<{ readonly outcome: Committed; readonly repeated: boolean }> {
    const { branch, expectedHead, snapshot, base, root, operationId, live, quiesced } = input
    await this.trees.write(snapshot.commit, input.tree)
    crashPoint("kit.treeWritten")
    const outcome: Committed = {
      outcome: "committed",
      commit: snapshot.commit,
      root,
      operationId,
      changedPaths: [...differences(input.before, input.tree)].length,
      linkSplit: [],
      live,
      ...(quiesced === undefined ? {} : { quiesced }),
      durability: this.durability
    }
    const parents = input.secondParent === undefined ? [base] : [base, input.secondParent]
    const commit = this.#newCommit(snapshot, parents, { ...told(input), root, operationId, actor: input.actor, live })
    const result = { ...outcome, branch }
    const added = await this.refs.addCommit({ commit, result, branch: { id: branch, expectedHead } })
    if (added.kind === "headMoved") throw headMoved(branch, expectedHead, added.actualHead)
    crashPoint("kit.committed")
    if (added.kind === "added") return { outcome, repeated: false }
    await this.#giveUp(snapshot)
    return { outcome: this.answered(operationId, branch)!, repeated: true }
  }

  // --- trees --------------------------------------------------------------------------------------------------------------------

  async make(ref: string, target: string, workspace: string | null, signal: AbortSignal): Promise<MadeTree> {
    const commit = this.resolve(ref)
    const tree = await this.trees.read(commit.id)
    const input = {
      snapshot: { project: commit.project, commit: commit.id },
      target: fromInput(target),
      workspace,
      signal
    }
    if ((await this.backend.isUntouched?.(input.snapshot)) === false) await this.#compareKept(commit, tree, signal)
    const made = await this.backend.make(input)
    if (this.backend.restores === "metadata") await restoreMetadata(input.target, tree, this.backend.ownNames ?? [])
    await this.backend.settle?.(input)
    crashPoint("kit.made")
    return made
  }

  /** All of a kept directory against what its commit says. Rejects with `ObjectDamaged`. */
  async #compareKept(commit: CommitRow, tree: CommitTree, signal: AbortSignal): Promise<void> {
    const snapshot = { project: commit.project, commit: commit.id }
    const scope: CallScope = { signal, progress: () => undefined }
    const at = this.backend.directoryOf!(snapshot)
    const scanned = await this.#scanSource(at, new ImportNotes(), scope, { shownAs: at, apart: [] })
    const files = tree.entries.filter((entry) => entry.type === "file").map((entry) => entry.path)
    const contents = await this.#digests(snapshot, files, scope)
    for (const file of scanned.files) file.id = contents.get(file.path)?.id
    const kept = new CommitTree(this.#entriesOf(scanned, contents))
    const same = files.length === scanned.files.length && (await digestOfTree(kept)) === commit.root
    if (!same || !sameTimes(kept, tree)) throw damagedState(commit.id)
  }

  /** Runs `work` in a directory of its own that names its maker and is gone afterwards. */
  async inScratch<A>(work: (scratch: string) => Promise<A>): Promise<A> {
    const scratch = path.join(this.directories.work, freshName(newId("workspace")))
    fs.mkdirSync(scratch, { mode: 0o700 })
    try {
      return await work(scratch)
    } finally {
      await removeTree(scratch)
    }
  }

  /** A writable tree of a state for the time of `work`, with the stamps that a scan compares it by. */
  withTree<A>(ref: string, signal: AbortSignal, work: (tree: string, scratch: string) => Promise<A>): Promise<A> {
    return this.inScratch(async (scratch) => {
      const tree = path.join(scratch, "tree")
      await this.make(ref, tree, null, signal)
      try {
        return await work(tree, scratch)
      } finally {
        await this.backend.clear?.(fromInput(tree))
      }
    })
  }

  /** The harvest of a scratch tree. */
  async #stamped(tree: string, scratch: string): Promise<HarvestInput & { readonly kind: "scan" }> {
    const snapshot = path.join(scratch, "snapshot")
    fs.writeFileSync(snapshot, await takeSnapshot(fromInput(tree)), { mode: 0o600, encoding: "latin1" })
    return { kind: "scan", tree: fromInput(tree), snapshot: fromInput(snapshot) }
  }

  /** Direct calls on one branch go one after the other; one that another process overtook is made again on what that one left. */
  applyTo(input: ApplyInput, scope: CallScope): Promise<CheckpointOutcome> {
    return this.#line.run(input.branch, async () => {
      for (let round = 1; ; round += 1) {
        try {
          return await this.#applyOnce(input, scope)
        } catch (error) {
          if (!(error instanceof HeadMoved) || round === overtaken) throw error
        }
      }
    })
  }

  async #applyOnce(input: ApplyInput, scope: CallScope): Promise<CheckpointOutcome> {
    const { branch, operations } = input
    const repeated = this.answered(input.operationId, branch)
    if (repeated !== undefined) return repeated
    const row = this.branch(branch)
    const source = this.refs.project(row.project)?.source ?? null
    return this.withTree(row.head, scope.signal, async (tree, scratch) => {
      const harvest = await this.#stamped(tree, scratch)
      const root = fs.openSync(tree, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
      try {
        await applyBatch(new Beneath(root, source ?? fromInput(tree)), operations, scratch)
      } finally {
        fs.closeSync(root)
      }
      const request = { ...input, expectedHead: row.head, harvest, keepTimes: false, live: false }
      const reply = await this.checkpoint(request, scope)
      if ("unreadable" in reply) throw new Error("A tree of our own cannot be read")
      return reply.outcome
    })
  }

  /** Bytes of a file, checked against the digest that its commit has of it. Rejects with `ObjectDamaged`. */
  async read(commit: CommitRow, entry: KeptEntry, offset: number, length: number): Promise<Uint8Array> {
    const digester = new ContentDigester()
    const wanted: Uint8Array[] = []
    for await (const { bytes, zeros = 0 } of this.contents(commit, [entry.path])) {
      const begin = digester.length
      digester.add(bytes)
      digester.addZeros(zeros)
      const from = Math.max(0, offset - begin)
      const to = Math.min(Math.max(0, offset + length - begin), bytes.length + zeros)
      if (from < to) wanted.push(from < bytes.length ? bytes.subarray(from, to) : new Uint8Array(0))
      if (to > bytes.length) wanted.push(new Uint8Array(Math.max(0, to - Math.max(from, bytes.length))))
    }
    if (digester.end() !== entry.id) throw damagedContent(entry)
    return Uint8Array.from(Buffer.concat(wanted))
  }

  /** Merges a state into a branch; see `merge` of the contract. */
  async mergeChanges(
    input: Omit<CheckpointRequest, "harvest"> & { readonly at: number },
    sides: { readonly ours: CommitRow; readonly theirs: CommitRow; readonly changes: readonly TreeChange[] },
    scope: CallScope
  ): Promise<Committed> {
    const { ours, theirs, changes } = sides
    return this.withTree(ours.id, scope.signal, async (tree, scratch) => {
      const harvest = await this.#stamped(tree, scratch)
      await writeChanges(tree, changes)
      const before = await this.trees.read(ours.id)
      const found = await this.#scan(harvest, before)
      const after = await this.#treeOfChanges(before, found.changes)
      const root = await digestOfTree(after)
      const state = {
        project: ours.project,
        parents: [ours, theirs],
        tree: fromInput(tree),
        isImport: false,
        ...told(input)
      }
      const leaveOut = [...(this.backend.ownNames ?? [])]
      const { snapshot } = await this.#keep({ ...state, changes: found.changes, leaveOut }, scope)
      try {
        await this.#checkKept(snapshot, after, found.changes, scope)
        const committed = await this.#commit({
          ...input,
          base: ours,
          secondParent: theirs,
          before,
          tree: after,
          root,
          snapshot
        })
        return committed.outcome
      } catch (error) {
        await this.#giveUp(snapshot)
        throw error
      }
    })
  }
}

const told = ({ message, name, at }: { readonly message?: string; readonly name?: string; readonly at: number }) => ({
  message: message ?? `Import ${name ?? ""}`,
  at
})

const damagedState = (commit: string): ObjectDamaged =>
  new ObjectDamaged({
    message: "What is kept of a commit was changed since, and is not what the commit says. Nothing was made of it.",
    remedy: "Run verify to see what else is damaged; restore the store from a backup.",
    object: commit
  })

export const damagedContent = (entry: KeptEntry): ObjectDamaged =>
  new ObjectDamaged({
    message: "A kept file is not what its commit says. Not a byte of it was handed out.",
    remedy: "Run verify to see what else is damaged; restore the store from a backup.",
    object: entry.id ?? ""
  })

/** Equal in everything that a change of a source would move. */
const sameScan = (a: Scan, b: Scan): boolean =>
  a.seen === b.seen &&
  a.files.length === b.files.length &&
  a.files.every((file, index) => sameFile(file, b.files[index]!))

const sameFile = (a: ScannedFile, b: ScannedFile): boolean =>
  a.path === b.path && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs && a.size === b.size && a.ino === b.ino
