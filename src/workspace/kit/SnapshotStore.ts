/**
 * The store of a provider that keeps whole states: what a backend keeps, the rows that name it, and the list of files of each commit.
 * Promise: a state is kept before its commit stands, and dropped when that comes to nothing, also after a kill; a file is checked against
 * the digest that its commit has of it before a byte is handed out by a read. Rules: W5, W6, W15, L8, L10, G75.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import type { Digest } from "../../base/Digest.ts"
import type { Durability } from "../../base/Durability.ts"
import { newId } from "../../base/Id.ts"
import { showLife } from "../../base/LifeSign.ts"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import type { Database } from "../../sqlite/Database.ts"
import { ContentDigester } from "../TreeDigest.ts"
import { ObjectDamaged } from "../WorkspaceError.ts"
import type { Actor, Progress } from "../WorkspaceValues.ts"
import { CommitTree, digestOfTree, type KeptEntry } from "./CommitTree.ts"
import { contentsOfDirectory } from "./DirectoryContents.ts"
import { GrepThread } from "./GrepThread.ts"
import { ImportNotes } from "./ImportNotes.ts"
import { entriesOfScan, scanTree } from "./ScannedTree.ts"
import { freshName } from "./Machine.ts"
import { refNotFound } from "./Refusals.ts"
import type { BranchRow, CommitRow } from "./RefStore.ts"
import { removeTree } from "./RemoveTree.ts"
import { restoreMetadata } from "./Restore.ts"
import type { MakeInput, Moved, Piece, Snapshot, SnapshotBackend } from "./SnapshotBackend.ts"
import type { SnapshotQuota } from "./SnapshotQuota.ts"
import { SnapshotRefs } from "./SnapshotRefs.ts"
import { openSnapshotIndex } from "./SnapshotSchema.ts"
import type { MadeTree, MakingScope } from "./StorePort.ts"
import type { TreeChange } from "./Tree.ts"
import { type KeptContent } from "./TreeChanges.ts"
import { sameTimes } from "./TreeCompare.ts"
import { TreeFiles } from "./TreeFile.ts"

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

export interface NewState {
  readonly project: string
  readonly parents: readonly CommitRow[]
  readonly tree: TreePath
  readonly isImport: boolean
  readonly changes: readonly TreeChange[] | null
  readonly leaveOut: readonly TreePath[]
  readonly message: string
  readonly at: number
}

/** The content digest of a file on the disk; a hole in which nothing lies is not read. Rejects with Node's own errors. */
export const digestOfFile = async (at: TreePath, signal: AbortSignal): Promise<KeptContent> => {
  const digester = new ContentDigester()
  for await (const { bytes, zeros = 0 } of contentsOfDirectory("", [at])) {
    signal.throwIfAborted()
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
  readonly #endSign: () => void

  private constructor(parts: SnapshotParts, db: Database, endSign: () => void) {
    this.backend = parts.backend
    this.directories = parts.directories
    this.durability = parts.durability
    this.quota = parts.quota
    this.db = db
    this.#endSign = endSign
    this.refs = new SnapshotRefs(db)
    this.trees = new TreeFiles(parts.directories.trees, parts.durability === "full")
  }

  /** Drops what killed processes had begun. Rejects with `Busy`, `StorageFailure`, `StoreMoved`. */
  static async open(parts: SnapshotParts): Promise<SnapshotStore> {
    const { index } = parts.directories
    const db = await openSnapshotIndex(index, parts.backend.provider, parts.durability)
    const store = new SnapshotStore(parts, db, await showLife(parts.directories.root))
    for (const { project, commit } of store.refs.abandoned(parts.directories.root))
      await store.giveUp({ project, commit })
    return store
  }

  async close(): Promise<void> {
    await this.thread.close()
    this.db.close()
    this.#endSign()
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

  contents(commit: CommitRow, paths: readonly TreePath[], signal?: AbortSignal): AsyncIterable<Piece> {
    return this.backend.contents({ project: commit.project, commit: commit.id }, paths, signal)
  }

  /** Drops what was kept under the name of a commit that does not come. */
  async giveUp(snapshot: Snapshot): Promise<void> {
    // A write may have failed after it took effect: what a commit stands for is never dropped.
    if (this.refs.commit(snapshot.commit) !== undefined) return
    await this.backend.drop(snapshot)
    await this.trees.drop(snapshot.commit)
    await this.refs.end(snapshot.commit)
  }

  /** Keeps a state under a new commit's name. Whoever calls makes it a commit or gives it up. */
  async keep(state: NewState, scope: CallScope): Promise<{ readonly snapshot: Snapshot; readonly moved: Moved }> {
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
      await this.giveUp(snapshot)
      throw error
    }
  }

  /** Digests of kept files. `seen` gets the first bytes of each. */
  async digests(
    snapshot: Snapshot,
    paths: readonly TreePath[],
    scope: CallScope,
    seen?: (path: TreePath, head: Buffer) => void
  ): Promise<Map<TreePath, KeptContent>> {
    const found = new Map<TreePath, KeptContent>()
    let digester = new ContentDigester()
    let head: Buffer[] = []
    let bytes = 0
    for await (const piece of this.backend.contents(snapshot, paths, scope.signal)) {
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

  newCommit(
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

  async make(ref: string, target: string, workspace: string | null, scope: MakingScope): Promise<MadeTree> {
    const { signal, progress } = scope
    const commit = this.resolve(ref)
    const tree = await this.trees.read(commit.id)
    const telling = progress === undefined ? undefined : makingOf(tree, progress)
    const input: MakeInput = {
      snapshot: { project: commit.project, commit: commit.id },
      target: fromInput(target),
      workspace,
      signal,
      ...(telling === undefined ? {} : { onProgress: telling.step })
    }
    telling?.step(0, 0)
    if ((await this.backend.isUntouched?.(input.snapshot)) === false) await this.#compareKept(commit, tree, signal)
    const made = await this.backend.make(input)
    if (this.backend.restores === "metadata") {
      await restoreMetadata(input.target, tree, this.backend.ownNames ?? [], signal)
    }
    await this.backend.settle?.(input)
    telling?.all()
    crashPoint("kit.made")
    return made
  }

  /** All of a kept directory against what its commit says. Rejects with `ObjectDamaged`. */
  async #compareKept(commit: CommitRow, tree: CommitTree, signal: AbortSignal): Promise<void> {
    const snapshot = { project: commit.project, commit: commit.id }
    const scope: CallScope = { signal, progress: () => undefined }
    const at = this.backend.directoryOf!(snapshot)
    const scanned = await scanTree(at, new ImportNotes(), scope, { shownAs: at, apart: [] })
    const files = tree.entries.filter((entry) => entry.type === "file").map((entry) => entry.path)
    const contents = await this.digests(snapshot, files, scope)
    for (const file of scanned.files) file.id = contents.get(file.path)?.id
    const kept = new CommitTree(entriesOfScan(scanned, contents, this.timeUnit))
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
      await this.make(ref, tree, null, { signal })
      try {
        return await work(tree, scratch)
      } finally {
        await this.backend.clear?.(fromInput(tree))
      }
    })
  }

  /** Bytes of a file, checked against the digest that its commit has of it. Rejects with `ObjectDamaged`. */
  async read(
    commit: CommitRow,
    entry: KeptEntry,
    { offset, length, signal }: { readonly offset: number; readonly length: number; readonly signal: AbortSignal }
  ): Promise<Uint8Array> {
    const digester = new ContentDigester()
    const wanted: Uint8Array[] = []
    for await (const { bytes, zeros = 0 } of this.contents(commit, [entry.path], signal)) {
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
}

/** Tells how far a tree is that is being made. */
const makingOf = (tree: CommitTree, progress: (progress: Progress) => void) => {
  const files = tree.entries.filter((entry) => entry.type === "file")
  const total = { totalFiles: files.length, totalBytes: files.reduce((sum, { size }) => sum + size, 0) }
  const step = (files: number, bytes: number): void => progress({ phase: "materialise", files, bytes, ...total })
  return { step, all: () => step(total.totalFiles, total.totalBytes) }
}

/** What is told of a commit by whoever made it, or of an import. */
export const told = ({
  message,
  name,
  at
}: {
  readonly message?: string
  readonly name?: string
  readonly at: number
}) => ({
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
