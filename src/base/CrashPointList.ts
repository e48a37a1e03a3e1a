/**
 * The closed list of crash points: where each lies, and what must hold after a process was killed there.
 * Promise: every window between two steps that a crash can tear apart has a point; the kill matrix runs over this list, so a
 * point that is added here is killed at. Types only in the published build. Rules: G75, G82, L8.
 */

interface Point {
  /** Between which two steps. */
  readonly where: string
  /** What a rerun must find. */
  readonly holds: string
}

const point = (where: string, holds: string): Point => ({ where, holds })

export const crashPoints = {
  // The authority's file.
  "authority.afterJournal": point("a journal row is written, its projection is not", "nothing of the command happened"),
  "authority.afterProjection": point(
    "a fact and its projection are written, its command's receipt is not",
    "nothing of the command happened"
  ),
  "authority.afterReceipt": point("the receipt is written, the batch goes on", "nothing of the batch happened"),
  "authority.beforeCommit": point("the transaction is complete and not committed", "nothing of the batch happened"),
  "authority.afterCommit": point("committed, no caller has heard of it", "each command is found by its id, once"),
  "authority.backedUp": point(
    "the backup of an older file lies beside it, nothing is migrated",
    "the file is as it was"
  ),
  "authority.activating": point(
    "the tables of every module are made or migrated, not committed",
    "the file is as it was"
  ),

  // Objects, commits and references of the workspace store.
  "layerfs.open.reclaimed": point(
    "tails of dead writers are cut, their rows are not freed",
    "the next opening cuts again"
  ),
  "layerfs.pack.acquired": point("the row names the writer, the file may not exist", "the next opening frees the pack"),
  "layerfs.pack.written": point("objects are appended, nothing is flushed", "the tail belongs to nobody and is cut"),
  "layerfs.commit.packSynced": point("objects are durable, no row names them", "the tail is cut, the head stands"),
  "refs.commit.inTransaction": point("rows are written, not committed", "the commit is absent as a whole"),
  "layerfs.commit.committed": point("the commit stands, the caller has not heard", "the operation id finds it"),
  "refs.fork.inTransaction": point("the branch row is written, not committed", "there is no branch"),
  "refs.fork.committed": point("the branch stands, the caller has not heard", "the operation id finds it"),
  "refs.move.inTransaction": point("head and move are written, not committed", "the head stands where it was"),
  "refs.move.committed": point("the head has moved, the caller has not heard", "the operation id answers the move"),
  "refs.pin.committed": point("the pin stands, the caller has not heard", "pinning again changes nothing"),
  "kit.keeping": point("the row of a state that is being kept stands, nothing is kept", "the next opening forgets it"),
  "kit.kept": point("a state is kept, no commit stands for it", "the next opening drops it"),
  "kit.treeWritten": point("state and list of files stand, no commit", "the next opening drops both"),
  "kit.committed": point("the commit stands, the caller has not heard", "the operation id finds it"),
  "kit.made": point("a directory was made of a state, nobody works in it", "it is swept"),
  "layerfs.import.scanned": point("the source is listed, not all of it is read", "nothing of the import is there"),
  "layerfs.import.read": point("contents lie in the pack, no tree does", "the tail is cut"),
  "layerfs.import.packSynced": point("everything is durable, no row names it", "the import is absent as a whole"),
  "layerfs.import.committed": point("the layer stands, the caller has not heard", "the operation id finds it"),
  "layerfs.compact.claimed": point("packs are taken, nothing is written", "the next opening frees them"),
  "layerfs.compact.written": point("a step is appended, not flushed", "the tail is cut, every row stands"),
  "layerfs.compact.synced": point("a step is durable, no row names it", "the tail is cut, every row stands"),
  "layerfs.compact.moved": point("some rows of a step name the new pack, others the old", "both are read"),
  "layerfs.compact.dropping": point("rows of emptied packs are deleted, not committed", "the packs are empty still"),
  "layerfs.compact.dropped": point("no row names a pack, its file lies there", "the next opening removes it"),
  "layerfs.import.remembering": point(
    "what was seen of the source is written beside the store, not complete",
    "it is known for a half by its digest; the next import reads everything"
  ),
  "layerfs.bundle.written": point("a bundle is flushed under its working name", "no file has the bundle's name"),
  "layerfs.bundle.read": point("objects of a bundle are appended, nothing is flushed", "the tail is cut"),
  "layerfs.bundle.packSynced": point("objects of a bundle are durable, no row names them", "the tail is cut"),
  "layerfs.bundle.inTransaction": point("rows of a bundle are written, not committed", "nothing of it is there"),
  "layerfs.bundle.imported": point("a bundle is there, the caller has not heard", "importing again adds nothing"),
  "layerfs.materialise.begun": point("the target is made, files are on their way", "the half directory is never used"),
  "layerfs.materialise.written": point("every file is written, tar is not done", "the half directory is never used"),
  "layerfs.patch.scratchMade": point("the scratch of a patch export exists", "the next opening removes it"),

  // States in a repository of git, and worktrees.
  "gitWorktree.project.made": point(
    "the repository of a project is complete under its working name",
    "the next opening removes it"
  ),
  "gitWorktree.keep.written": point(
    "a state has its reference, nothing is flushed",
    "no commit stands for it; dropped"
  ),
  "gitWorktree.keep.flushed": point("a state is durable, the caller has not heard", "no commit stands for it; dropped"),
  "gitWorktree.make.recorded": point(
    "a worktree is announced, nothing of it is made",
    "the next opening takes it back"
  ),
  "gitWorktree.make.added": point(
    "the user's repository has its entry, no file is written",
    "the next opening takes back the entry"
  ),
  "gitWorktree.make.filled": point(
    "files and git directory are written under the working name",
    "the next opening takes them back"
  ),
  "gitWorktree.make.placed": point("the worktree has its place, no record says so", "the next opening takes it back"),
  "gitWorktree.keep.inside": point("what was committed inside is kept, not named", "it is kept and named again"),
  "gitWorktree.unmake.entryGone": point(
    "the entry is gone, the git directory is not",
    "the next opening removes the rest"
  ),

  // States of the reflink provider.
  "reflink.keep.cloned": point("a state is cloned under its working name, not flushed", "the next opening removes it"),
  "reflink.keep.synced": point("a state is durable under its working name", "the next opening removes it"),
  "reflink.keep.placed": point("a state stands, no commit names it", "it is complete; the next opening drops it"),
  "reflink.make.made": point("a workspace's tree is cloned, the caller has not heard", "its work directory is swept"),
  "reflink.drop.renamed": point("a dropped state has a working name", "the next opening removes it"),

  // Cached layers.
  "layers.baseMade": point("the base directory is complete under its working name", "it is removed and made again"),
  "layers.markMade": point("a mark is written under its working name", "it is removed"),
  "layers.baseMarked": point("the mark stands, the directory does not", "the mark alone means nothing"),
  "layers.basePlaced": point("mark and directory stand, nobody uses them yet", "the next open uses them"),
  "layers.deltaMarked": point(
    "the mark of a delta stands, its upper is still in work/",
    "the upper is swept, the commit stands"
  ),
  "cache.taking": point("nobody needs a layer, it is still in its place", "it stays, and can be used"),
  "cache.taken": point("a layer is out of its place, its mark stands", "the mark alone means nothing; both are swept"),

  // A workspace from its opening to its end.
  "workspace.freshMade": point(
    "the fresh directory exists without its owner's file",
    "its name tells its owner; it is swept"
  ),
  "workspace.made": point("the directory exists, no row names it", "it is swept"),
  "workspace.held": point("the holder runs, no row names it", "it dies with its parent; the directory is swept"),
  "workspace.recorded": point("the row stands, nothing is mounted", "the workspace is listed as interrupted"),
  "workspace.mounted": point(
    "everything is mounted, the caller has not heard",
    "the workspace is listed as interrupted"
  ),
  "workspace.harvested": point(
    "the checkpoint stands, the caller has not heard",
    "the operation id finds it; the upper is left"
  ),
  "workspace.ended": point(
    "processes and mounts are gone, the row says open",
    "the workspace is listed as interrupted"
  ),
  "workspace.closed": point(
    "the row says closed, the files are still in work/",
    "no row lacks its files; they are swept"
  ),
  "workspace.adopted": point("the upper became a layer, the rest is in work/", "the rest is swept, the layer is used"),
  "workspace.kept": point("changes without a checkpoint are kept, the caller has not heard", "they are listed by left"),
  "workspace.discarded": point("the row says discarded, the files are still there", "they are swept"),
  "workspace.sweeping": point("a directory that nobody speaks for is about to go", "the next sweep removes it"),

  // What a killed process left, recovered or dropped.
  "recovery.claimed": point("the row says who decides, nothing is done", "it is listed still, and anybody's to decide"),
  "recovery.mounted": point("the left upper is mounted again", "it is listed still"),
  "recovery.forked": point("the branch for it stands, without its commit", "the repetition finds branch and upper"),
  "recovery.committed": point("the commit stands, the row says open", "the repetition finds the commit"),
  "recovery.closed": point("the row says closed, the files are still there", "they are swept"),

  // Files of the run's record and the hosts' results.
  "file.written": point("a file is flushed under its working name", "it is removed; the old file stands"),
  "file.renamed": point("the file has its name, the directory is not flushed", "old or new, never half"),

  // Clean checkouts.
  "checkout.made": point("an empty directory for a checkout", "it is removed by the next run"),
  "checkout.cloned": point("the clone is complete", "it is removed by the next run"),
  "checkout.patched": point("the patch is applied", "it is removed by the next run"),
  "dependencies.copied": point("a template is complete under its working name", "it is removed by the next run"),

  // A turn.
  "turn.admitted": point("admitted and reserved, no attempt is saved", "the rerun runs it, labelled as nothing"),
  "turn.contextIssued": point(
    "the context packet is issued, no attempt is saved",
    "the rerun issues another one: complete, as the first was never acknowledged"
  ),
  "turn.attemptSaved": point("the attempt is saved, the host may run", "never dispatched again by itself"),
  "turn.hostEnded": point("the host has ended, its result is not saved", "the attempt is lost and its cost is owed"),
  "turn.resultRecorded": point("the result is journaled, nothing is captured", "validated without the host"),
  "turn.captured": point("the candidate is recorded, the workspace is open", "validated without the host"),
  "turn.validated": point("the verdict is journaled", "settled without another verdict"),
  "turn.settled": point("settled, not closed", "closed only; the same receipt"),
  "turn.lost": point("the lost attempt is written down, no new one is begun", "begun again only by name"),
  "turn.startedOver": point("the turn has a new bound, the attempt is not saved", "one bound is held, one is owed"),

  // A result on its way back.
  "delivery.dispatched": point("the sending is saved, nothing has left", "read back, or sent under the same id"),
  "delivery.sent": point("the receiver may have it, its reply is not saved", "read back, or the same message again"),
  "delivery.resolved": point("its end is saved, the caller has not heard", "told by the rerun, nothing is sent"),

  // An external effect.
  "effect.planned": point("planned, nothing was handed over", "handed over once by the rerun"),
  "effect.dispatched": point("journaled as handed over, the provider was not called", "read back before anything else"),
  "effect.answered": point("the provider answered, no fact says so", "read back; never handed over blindly"),
  "effect.recorded": point("the answer, or its loss, is journaled", "final, or read back"),
  "effect.readBack": point("read back, no fact says so", "read back again"),
  "effect.resolved": point("what was read back is journaled", "final, or handed over where its kind allows it"),
  "effect.stopRequested": point("the stop is journaled, the device was not asked", "asked by the next activation"),
  "effect.stopAsked": point("the device was asked to stop, nobody looked", "asked again, and looked at"),
  "effect.stopSeen": point("the device was looked at, no fact says so", "looked at again"),
  "effect.stopRecorded": point("what the device said is journaled", "confirmed, or looked at again"),

  // From files to a candidate, across two stores.
  "capture.planned": point("planned, not committed", "recovered from the upper, or absent"),
  "capture.committed": point("committed under the operation id, not pinned", "found by operation id"),
  "capture.pinned": point("pinned, not recorded", "recorded by the rerun"),
  "capture.recorded": point("recorded, no patch is written", "the patch is written by the rerun"),
  "capture.exported": point("the patch lies in the record, no evidence names it", "the same patch again"),

  // The journey.
  "repair.bound": point("goal, agents and bindings stand, todos are missing", "found again by their command ids"),
  "repair.opened": point("the work is open, nothing is imported", "the import runs once"),
  "repair.imported": point("imported, the source is not compared again", "the same import, or a further one"),
  "repair.sourceTaken": point("what was taken is written down, nothing is prepared", "the rerun uses what was taken"),
  "repair.prepared": point(
    "the preparation is committed, its workspace is open",
    "found by operation id; the workspace goes"
  ),
  "repair.handoffOffered": point("offered, no todo for the receiver", "the same offer"),
  "repair.exported": point("the accepted patch is written, not replayed", "replayed by the rerun"),
  "repair.replayed": point("replayed, no report is written", "replayed again, the same report"),
  "attempt.claimed": point("the todo is claimed, nothing is forked", "the live claim is used again"),
  "attempt.forked": point("the branch stands, no turn is admitted", "the same branch"),
  "attempt.handoffTaken": point("the candidate is verified and taken", "taken once"),
  "attempt.judged": point("the verdict lies in the record, no fact names it", "judged again or read back"),
  "attempt.settled": point("settled and closed, not superseded, nothing learned", "told by the rerun"),
  "attempt.learned": point("findings stand, the handoff is not adopted", "adopted once")
} as const satisfies Record<string, Point>

export type CrashPointName = keyof typeof crashPoints
