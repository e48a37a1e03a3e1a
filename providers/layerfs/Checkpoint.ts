/**
 * Checkpoint of an open directory: the projections' harvest, then one commit of what it found.
 * Promise: nothing is committed while something could not be read; what no tree can hold is reported, never dropped in
 * silence. Rules: W4, W8, W10, W22, L2; 04 "Harvest". Runs in the worker, beside the store.
 */
import { show } from "../../src/base/PathBytes.ts"
import type { Change, CheckpointOutcome } from "../../src/workspace/WorkspaceProvider.ts"
import { applyChanges, building, commitChanges, type CommitContext, isRepeated } from "./CommitBuilder.ts"
import { harvest, type HarvestInput, type Seen } from "../../src/workspace/kit/Harvest.ts"
import { listedSkipped } from "../../src/workspace/kit/Skipped.ts"
import { inStretches } from "../../src/workspace/kit/Steps.ts"
import { refNotFound } from "../../src/workspace/kit/Refusals.ts"
import type { CheckpointReply, CheckpointRequest, PreviewReply } from "../../src/workspace/kit/StorePort.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { TreeDifference } from "./TreeDiff.ts"
import { walkDiff } from "./TreeDiff.ts"
import { TreeEditor } from "./TreeEditor.ts"
import type { StoredEntry } from "./TreeCodec.ts"

/** By upper directory: the commit that its last harvest made, and what that harvest saw. */
const harvested = new Map<string, { readonly commit: string; readonly seen: Seen }>()
/** Workspaces remembered at most, and files of one: beyond that the next harvest just reads. */
const remembered = { workspaces: 64, files: 100_000 }

const remember = (upper: string, commit: string, seen: Seen): void => {
  harvested.delete(upper)
  if (seen.size > remembered.files) return
  harvested.set(upper, { commit, seen })
  for (const oldest of harvested.keys()) {
    if (harvested.size <= remembered.workspaces) break
    harvested.delete(oldest)
  }
}

export const checkpoint = async (
  context: CommitContext,
  input: CheckpointRequest & { readonly at: number }
): Promise<CheckpointReply> => {
  const base = context.refs.commit(input.expectedHead)
  if (base === undefined) throw refNotFound(input.expectedHead)
  const upper = input.harvest.kind === "overlay" ? input.harvest.upper : undefined
  const last = upper === undefined ? undefined : harvested.get(upper)
  const seen = last?.commit === base.id ? last.seen : undefined
  const found = await inStretches(harvest(input.harvest, context.trees.reader(base), seen), context.cancelled)
  if (found.unreadable.length > 0) return { unreadable: found.unreadable }
  const outcome = await commitChanges(context, { ...input, changes: found.changes, linkSplit: found.linkSplit })
  // A repeated operation answers with an older commit, of which this harvest says nothing.
  if (upper !== undefined && !isRepeated(outcome)) {
    // A process that has a file mapped for writing changes it with no new ctime while the page is dirty: nothing seen beside
    // processes, stopped ones included, is taken for known by the next harvest.
    remember(upper, outcome.commit, input.live || input.quiesced !== undefined ? new Map() : found.seen)
  }
  return {
    outcome,
    fingerprint: found.fingerprint,
    skipped: listedSkipped(found.skipped),
    repeats: repeats(context, input, outcome)
  }
}

/** What a repeated operation made may be an older commit, or the one whose answer was lost. */
const repeats = (
  context: CommitContext,
  input: CheckpointRequest,
  outcome: CheckpointOutcome
): "no" | "older" | "next" => {
  if (!isRepeated(outcome)) return "no"
  return context.refs.commit(outcome.commit)?.parent === input.expectedHead ? "next" : "older"
}

/** What a checkpoint would commit. The objects it makes to find out are forgotten again. */
export const preview = async (context: CommitContext, base: CommitRow, input: HarvestInput): Promise<PreviewReply> => {
  const { trees, objects } = context
  const found = await inStretches(harvest(input, trees.reader(base)), context.cancelled)
  if (found.unreadable.length > 0) return { unreadable: found.unreadable }
  try {
    const changes = await building(context, function* () {
      const editor = new TreeEditor(trees, base)
      yield* applyChanges(editor, objects, found.changes)
      const { root } = yield* editor.write(objects)
      const differences: Change[] = []
      for (const difference of walkDiff(trees, base.root, root)) {
        differences.push(toChange(difference))
        yield
      }
      return differences
    })
    return { changes, fingerprint: found.fingerprint }
  } finally {
    objects.abandon()
  }
}

const side = (entry: StoredEntry | null): Change["before"] => {
  if (entry === null) return null
  if (entry.type === "symlink") return { type: "symlink", mode: 0, size: entry.target.length }
  return { type: entry.type, mode: entry.mode, size: entry.type === "file" ? entry.size : 0 }
}

/** A difference as callers see it. */
export const toChange = (difference: TreeDifference): Change => ({
  ...show(difference.path),
  kind: difference.kind,
  before: side(difference.before),
  after: side(difference.after)
})
