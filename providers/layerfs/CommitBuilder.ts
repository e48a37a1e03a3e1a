/**
 * From a list of changes to a commit on a branch.
 * Promise: only touched directories are written; a change that changes nothing vanishes, and a list that changes nothing
 * makes no commit (W8); the head moves only from the value the caller saw, else `HeadMoved` and nothing is written; the same
 * operation id answers the same commit. Rules: W8, W10, W22, L2, L8, L14, G75.
 */
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { newId } from "../../src/base/Id.ts"
import { show } from "../../src/base/PathBytes.ts"
import type { Durability } from "../../src/sqlite/Database.ts"

import type { CheckpointOutcome } from "../../src/workspace/WorkspaceProvider.ts"
import type { Turn } from "./CommitLine.ts"
import { storeBytes, type StoredContent, storeFile } from "./FileContent.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import { headMoved, operationUsed, refNotFound } from "../../src/workspace/kit/Refusals.ts"
import type { BranchRow, CommitRow, NewCommit } from "../../src/workspace/kit/RefStore.ts"
import type { LayerRefs } from "./LayerRefs.ts"
import type { CommitChanges, CommitIntent } from "./StoreCalls.ts"
import type { StoredTrees } from "./StoredTrees.ts"
import { PlacedFiles } from "../../src/workspace/kit/PlacedFiles.ts"
import { inStretches, type Steps } from "../../src/workspace/kit/Steps.ts"
import type { ContentSource, TreeChange } from "../../src/workspace/kit/Tree.ts"
import { walkDiff } from "./TreeDiff.ts"
import { TreeEditor } from "./TreeEditor.ts"

export interface CommitContext extends Turn {
  readonly refs: LayerRefs
  readonly trees: StoredTrees
  readonly durability: Durability
  /** The calling side gave up. */
  readonly cancelled: () => boolean
}

/** `older` is what the path had before: what the new content is probably like. */
function* storeContent(
  objects: ObjectStore,
  content: ContentSource,
  older: StoredContent | undefined,
  placed: PlacedFiles
): Steps<StoredContent> {
  if ("bytes" in content) return yield* storeBytes(objects, content.bytes, older)
  if ("file" in content) return yield* storeFile(objects, placed.at(content), older)
  return content
}

/** Applies changes in order. Throws `PathError`, `FileSystemFailure`. */
export function* applyChanges(editor: TreeEditor, objects: ObjectStore, changes: readonly TreeChange[]): Steps<void> {
  const placed = new PlacedFiles()
  try {
    yield* apply(editor, objects, changes, placed)
  } finally {
    placed.close()
  }
}

function* apply(
  editor: TreeEditor,
  objects: ObjectStore,
  changes: readonly TreeChange[],
  placed: PlacedFiles
): Steps<void> {
  for (const change of changes) {
    yield
    switch (change.op) {
      case "remove":
        editor.remove(change.path)
        break
      case "putFile": {
        const { mode, mtimeNs, inode } = change
        const before = editor.get(change.path)
        const content = yield* storeContent(
          objects,
          change.content,
          before?.type === "file" ? before : undefined,
          placed
        )
        editor.putFile(change.path, { mode, mtimeNs, inode, ...content })
        break
      }
      case "putSymlink":
        editor.putSymlink(change.path, change.target, change.mtimeNs)
        break
      case "putDirectory":
        editor.putDirectory(change.path, change.mode, change.mtimeNs, change.replace)
        break
    }
  }
}

export interface Edit extends CommitIntent {
  readonly branch: string
  readonly expectedHead: string
  readonly keepTimes: boolean
  readonly linkSplit: readonly string[]
  readonly live: boolean
  readonly quiesced?: number
  /** Makes the changes. May throw: then nothing was written. */
  readonly edit: (editor: TreeEditor, objects: ObjectStore) => Steps<void>
  /** Commits to a branch of its own, beginning here, instead of moving `branch`. */
  readonly onNewBranch?: BranchRow
}

/** What a repeated commit answered, when it was one of this branch. Stores of before do not say of which branch it was. */
const answerOf = (result: unknown, { branch, operationId }: Edit): CheckpointOutcome => {
  const { branch: of, ...outcome } = result as { readonly branch?: string } & CheckpointOutcome
  if (outcome.outcome !== "committed" || (of !== undefined && of !== branch)) throw operationUsed(operationId)
  repeated.add(outcome)
  return outcome
}

const repeated = new WeakSet<CheckpointOutcome>()
/** The answer is that of an earlier call under the same operation id, here or in another process: this call's changes are not in it. */
export const isRepeated = (outcome: CheckpointOutcome): boolean => repeated.has(outcome)

/** Builds with one look at the index for each stretch. Rejects when the call is cancelled. */
export const building = <A>({ objects, cancelled }: CommitContext, steps: () => Steps<A>): Promise<A> =>
  inStretches(steps(), cancelled, (stretch) => objects.reading(stretch))

/** Commits an edit of a branch head. Throws `RefNotFound`, `HeadMoved` and what `edit` throws. */
export const commitEdit = async (context: CommitContext, input: Edit): Promise<CheckpointOutcome> => {
  const { refs, trees, objects } = context
  const before = refs.operation(input.operationId)
  if (before !== undefined) return answerOf(before.result, input)
  const branch = refs.branch(input.branch)
  if (branch === undefined) throw refNotFound(input.branch)
  if (input.onNewBranch === undefined && branch.head !== input.expectedHead) {
    throw headMoved(input.branch, input.expectedHead, branch.head)
  }
  const base = refs.commit(input.expectedHead)
  if (base === undefined) throw refNotFound(input.expectedHead)
  try {
    objects.allow(refs.allowance(base.project))
    const written = await building(context, function* () {
      const editor = new TreeEditor(trees, base)
      yield* input.edit(editor, objects)
      return yield* editor.write(objects)
    })
    const sameTimes = written.times === base.times
    // A state that was caught live is committed again, unchanged, once it is seen at rest: only that may be a candidate (W19).
    const settles = base.live && !input.live
    if (written.root === base.root && (sameTimes || !input.keepTimes) && !settles && input.onNewBranch === undefined) {
      objects.abandon()
      return { outcome: "unchanged", commit: base.id, root: base.root }
    }
    return await finish(context, input, base, written)
  } catch (error) {
    objects.abandon()
    throw error
  }
}

const finish = async (
  context: CommitContext,
  input: Edit,
  base: CommitRow,
  written: { root: CommitRow["root"]; times: CommitRow["times"] }
): Promise<CheckpointOutcome> => {
  const { objects, trees } = context
  const staged = objects.stage()
  context.flushSoon()
  const changedPaths = await building(context, function* () {
    let count = 0
    for (const _ of walkDiff(trees, base.root, written.root)) {
      count += 1
      yield
    }
    return count
  })
  const { message, at, operationId, actor } = input
  const commit: NewCommit = {
    id: newId("commit"),
    project: base.project,
    parent: base.id,
    ...written,
    message,
    at,
    operationId,
    actor,
    live: input.live
  }
  const outcome: CheckpointOutcome = {
    outcome: "committed",
    commit: commit.id,
    root: written.root,
    operationId,
    changedPaths,
    linkSplit: input.linkSplit.map(show),
    live: input.live,
    ...(input.quiesced === undefined ? {} : { quiesced: input.quiesced }),
    durability: context.durability
  }
  const target =
    input.onNewBranch === undefined
      ? { branch: { id: input.branch, expectedHead: input.expectedHead } }
      : { newBranch: { ...input.onNewBranch, head: commit.id } }
  const added = await context.land({ ...staged, commit, result: { ...outcome, branch: input.branch }, ...target })
  if (added.kind === "headMoved") throw headMoved(input.branch, input.expectedHead, added.actualHead)
  if (added.kind === "repeated") return answerOf(added.result, input)
  crashPoint("layerfs.commit.committed")
  return outcome
}

export const commitChanges = (context: CommitContext, input: CommitChanges): Promise<CheckpointOutcome> =>
  commitEdit(context, {
    ...input,
    keepTimes: input.keepTimes ?? false,
    linkSplit: input.linkSplit ?? [],
    live: input.live ?? false,
    edit: (editor, objects) => applyChanges(editor, objects, input.changes)
  })
