/**
 * Commits of a provider that keeps whole states: of open directories, of direct calls, of merges.
 * Promise: what is told of a commit is what was kept; what changes nothing keeps nothing; a head moves only from the value that the caller
 * saw; an operation id answers the same commit; whoever gives up waiting, before the commit stands, leaves nothing kept. Rules: W4, W8, W10, W11, W19, W22, G75, K2.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import type { Digest } from "../../base/Digest.ts"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import { HeadMoved, ObjectDamaged, Unavailable } from "../WorkspaceError.ts"
import type { Actor, CheckpointOutcome, FileOperation } from "../WorkspaceValues.ts"
import { applyBatch } from "./Batch.ts"
import { Beneath } from "./Beneath.ts"
import { closedChanges, openChanges, openUp } from "./ClosedModes.ts"
import { CommitTree, digestOfTree } from "./CommitTree.ts"
import type { HarvestInput, HarvestResult } from "./Harvest.ts"
import { KeyedLine } from "./KeyedLine.ts"
import { pathError } from "./Lookup.ts"
import { headMoved, operationUsed } from "./Refusals.ts"
import type { CommitRow } from "./RefStore.ts"
import { scanSteps, takeSnapshot } from "./ScanHarvest.ts"
import type { Snapshot } from "./SnapshotBackend.ts"
import { type CallScope, digestOfFile, told, type SnapshotStore } from "./SnapshotStore.ts"
import { listedSkipped } from "./Skipped.ts"
import { inStretches } from "./Steps.ts"
import type { CheckpointReply, CheckpointRequest, PreviewReply } from "./StorePort.ts"
import type { TreeChange } from "./Tree.ts"
import { changedTree, type KeptContent } from "./TreeChanges.ts"
import { changeOf, differences, sameTimes } from "./TreeCompare.ts"
import { PlacedFiles } from "./PlacedFiles.ts"
import { writeChanges } from "./WriteChanges.ts"

/** Tries to catch a directory between two changes, where somebody writes to it. */
const tries = 3

/** How often a direct call is made again when another process moved the branch meanwhile. */
const overtaken = 10

type Committed = Extract<CheckpointOutcome, { readonly outcome: "committed" }>

interface ApplyInput {
  readonly branch: string
  readonly operations: readonly FileOperation[]
  readonly message: string
  readonly operationId: string
  readonly actor: Actor
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

export class SnapshotCheckpoints {
  readonly #store: SnapshotStore
  readonly #line = new KeyedLine()

  constructor(store: SnapshotStore) {
    this.#store = store
  }

  /** The answer of an operation that was done before, on this branch. Throws `OperationUsed`. */
  answered(operationId: string, branch: string): Committed | undefined {
    const before = this.#store.refs.operation(operationId)
    if (before === undefined) return undefined
    const { branch: of, ...outcome } = before.result as { readonly branch?: string } & CheckpointOutcome
    if (outcome.outcome !== "committed" || of !== branch) throw operationUsed(operationId)
    return outcome
  }

  async #scan(harvest: HarvestInput, base: CommitTree, { signal }: CallScope): Promise<HarvestResult> {
    if (harvest.kind !== "scan") throw new Error("Only directories of their own are looked at here")
    const steps = scanSteps({ ...harvest, apart: this.#store.backend.ownNames ?? [] }, base)
    return inStretches(steps, () => signal.aborted)
  }

  /** The tree that the changes make, from the files as they lie there. */
  async #treeOfChanges(base: CommitTree, changes: readonly TreeChange[], { signal }: CallScope): Promise<CommitTree> {
    const contents = new Map<TreePath, KeptContent>()
    const placed = new PlacedFiles()
    try {
      for (const change of changes) {
        if (change.op === "putFile" && "file" in change.content) {
          contents.set(change.path, await digestOfFile(placed.at(change.content), signal))
        }
      }
    } finally {
      placed.close()
    }
    return changedTree(base, { changes, contents, timeUnit: this.#store.timeUnit })
  }

  async preview(base: string, harvest: HarvestInput, scope: CallScope): Promise<PreviewReply> {
    const before = await this.#store.trees.read(this.#store.resolve(base).id)
    const found = await this.#scan(harvest, before, scope)
    if (found.unreadable.length > 0) return { unreadable: found.unreadable }
    const after = await this.#treeOfChanges(before, found.changes, scope)
    return { changes: [...differences(before, after)].map(changeOf), fingerprint: found.fingerprint }
  }

  async checkpoint(request: CheckpointRequest & { readonly at: number }, scope: CallScope): Promise<CheckpointReply> {
    const { branch, expectedHead, operationId } = request
    const repeated = this.answered(operationId, branch)
    if (repeated !== undefined) {
      const isNext = this.#store.refs.commit(repeated.commit)?.parent === expectedHead
      return { outcome: repeated, fingerprint: "", skipped: {}, repeats: isNext ? "next" : "older" }
    }
    const row = this.#store.branch(branch)
    if (row.head !== expectedHead) throw headMoved(branch, expectedHead, row.head)
    const base = this.#store.resolve(expectedHead)
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
    const before = await this.#store.trees.read(base.id)
    const found = await this.#scan(harvest, before, scope)
    if (found.unreadable.length > 0) return { unreadable: found.unreadable }
    const skipped = listedSkipped(found.skipped)
    const reply = { fingerprint: found.fingerprint, skipped, repeats: "no" as const }
    const expected = await this.#treeOfChanges(before, found.changes, scope)
    const root = await digestOfTree(expected)
    // A state that was caught live is committed again, unchanged, once it is seen at rest: only that may be a candidate (W19).
    const settles = base.live && !request.live
    if (root === base.root && !settles && (!request.keepTimes || sameTimes(before, expected))) {
      return { outcome: { outcome: "unchanged", commit: base.id, root }, ...reply }
    }
    const { snapshot } = await this.#store.keep(
      {
        project: base.project,
        parents: [base],
        tree: (harvest as { readonly tree: TreePath }).tree,
        isImport: false,
        changes: found.changes,
        leaveOut: [...(this.#store.backend.ownNames ?? []), ...found.skipped.map((entry) => entry.path)],
        message: request.message,
        at: request.at
      },
      scope
    )
    try {
      const again = await this.#scan(harvest, before, scope)
      if (again.fingerprint !== found.fingerprint) {
        await this.#store.giveUp(snapshot)
        return "changed"
      }
      await this.#checkKept(snapshot, expected, found.changes, scope)
      scope.signal.throwIfAborted()
      const outcome = await this.#commit({ ...request, base, before, tree: expected, root, snapshot })
      return { outcome: outcome.outcome, ...reply, repeats: outcome.repeated ? "older" : "no" }
    } catch (error) {
      await this.#store.giveUp(snapshot)
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
    const kept = await this.#store.digests(snapshot, paths, { ...scope, progress: () => undefined })
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
    await this.#store.trees.write(snapshot.commit, input.tree)
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
      durability: this.#store.durability
    }
    const parents = input.secondParent === undefined ? [base] : [base, input.secondParent]
    const commit = this.#store.newCommit(snapshot, parents, {
      ...told(input),
      root,
      operationId,
      actor: input.actor,
      live
    })
    const result = { ...outcome, branch }
    const added = await this.#store.refs.addCommit({ commit, result, branch: { id: branch, expectedHead } })
    if (added.kind === "headMoved") throw headMoved(branch, expectedHead, added.actualHead)
    crashPoint("kit.committed")
    if (added.kind === "added") return { outcome, repeated: false }
    await this.#store.giveUp(snapshot)
    return { outcome: this.answered(operationId, branch)!, repeated: true }
  }

  /** The harvest of a scratch tree. */
  async #stamped(
    tree: string,
    scratch: string,
    { signal }: CallScope
  ): Promise<HarvestInput & { readonly kind: "scan" }> {
    const snapshot = path.join(scratch, "snapshot")
    fs.writeFileSync(snapshot, await takeSnapshot(fromInput(tree), signal), { mode: 0o600, encoding: "latin1" })
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
    const row = this.#store.branch(branch)
    const source = this.#store.refs.project(row.project)?.source ?? null
    return this.#store.withTree(row.head, scope.signal, async (tree, scratch) => {
      const harvest = await this.#stamped(tree, scratch, scope)
      const root = fs.openSync(tree, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
      try {
        await applyBatch(new Beneath(root, source ?? fromInput(tree)), operations, scratch)
      } finally {
        fs.closeSync(root)
      }
      const request = { ...input, expectedHead: row.head, harvest, keepTimes: false, live: false }
      const reply = await this.checkpoint(request, scope)
      if ("unreadable" in reply) throw pathError("denied", reply.unreadable[0] ?? "")
      return reply.outcome
    })
  }

  /** Merges a state into a branch; see `merge` of the contract. */
  async mergeChanges(
    input: Omit<CheckpointRequest, "harvest"> & { readonly at: number },
    sides: { readonly ours: CommitRow; readonly theirs: CommitRow; readonly changes: readonly TreeChange[] },
    scope: CallScope
  ): Promise<Committed> {
    const { ours, theirs, changes } = sides
    return this.#store.withTree(ours.id, scope.signal, async (tree, scratch) => {
      const before = await this.#store.trees.read(ours.id)
      const closed = await openUp(fromInput(tree), before.entries)
      const harvest = await this.#stamped(tree, scratch, scope)
      await writeChanges(tree, openChanges(changes, closed))
      const scanned = await this.#scan(harvest, before, scope)
      if (scanned.unreadable.length > 0) throw pathError("denied", scanned.unreadable[0] ?? "")
      const found = { ...scanned, changes: closedChanges(scanned.changes, closed) }
      const after = await this.#treeOfChanges(before, found.changes, scope)
      const root = await digestOfTree(after)
      const state = {
        project: ours.project,
        parents: [ours, theirs],
        tree: fromInput(tree),
        isImport: false,
        ...told(input)
      }
      const leaveOut = [...(this.#store.backend.ownNames ?? [])]
      const { snapshot } = await this.#store.keep({ ...state, changes: found.changes, leaveOut }, scope)
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
        await this.#store.giveUp(snapshot)
        throw error
      }
    })
  }
}
