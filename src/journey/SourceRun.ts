/**
 * The source of a run, taken as it stood: its files imported, its commits and uncommitted work read, both of the same moment.
 * Promise: when anything that git sees changed while the files were read, they are read again; a rerun uses what the first run
 * took, whatever became of the source since. Rules: W13, G2, J2.
 */
import { basename } from "node:path"
import * as Effect from "effect/Effect"
import { crashPoint } from "../base/CrashPoint.ts"
import { show } from "../base/PathBytes.ts"
import type { CostLedger } from "../evaluator/CostLedger.ts"
import {
  isDirty,
  readSourceState,
  type SourceState,
  SourceUnusable,
  stateDigest,
  writeStatePatch
} from "../workspace/SourceState.ts"
import { type ImportNoteKind, type ImportReceipt, Workspaces } from "../workspace/WorkspaceProvider.ts"
import type { Scene } from "./Attempt.ts"
import type { RepairOptions, SourceReport } from "./RepairPlan.ts"
import type { RunRecord } from "./RunRecord.ts"

export interface TakenSource {
  readonly state: SourceState
  /** The directory of the private repositories that hold uncommitted work. */
  readonly stores: string
  readonly imported: ImportReceipt
  readonly report: SourceReport
}

const file = "source.json"
const rounds = 3

type Taken = Pick<TakenSource, "state" | "imported" | "report">

/** Patches for people: the checkouts of this run do not need them. */
const patchesOf = (state: SourceState, stores: string, record: RunRecord) =>
  Effect.gen(function* () {
    const patches: { readonly part: string; readonly file: string }[] = []
    for (const part of state.parts) {
      const name = part.path === "" ? "base.patch" : `base-${basename(part.store, ".git")}.patch`
      if (yield* writeStatePatch(part, stores, record.path(name)))
        patches.push({ part: show(part.path).path, file: name })
    }
    return patches
  })

/** What a person should know of an import before attempts run on it. Other notes stay in the receipt. */
const worthSaying: Partial<Record<ImportNoteKind, string>> = {
  likelySecret: "Likely secrets, in every attempt's own copy",
  changedWhileRead: "Changed while they were read, as they were at last",
  skippedUnreadable: "Not to be read, so left out",
  skippedSpecialFile: "Sockets, pipes and devices, left out",
  skippedPathTooLong: "Too deep for a path, left out",
  vanished: "Gone while the source was read",
  gitPointerFile: "Git directories outside the source: git in an attempt does not reach them",
  linkLeavesRoot: "Links that lead out of the source",
  linkedPackage: "Packages linked from outside the source",
  virtualEnvironment: "Virtual environments that name other places",
  foreignBinary: "Binaries for other machines",
  nativeAbi: "Native add-ons for another runtime"
}

const noticed = ({ notes, noteCounts }: ImportReceipt): string[] =>
  Object.entries(worthSaying).flatMap(([kind, words]) => {
    const count = noteCounts[kind as ImportNoteKind] ?? 0
    if (count === 0) return []
    const named = notes.filter((note) => note.kind === kind).slice(0, 3)
    const more = count > named.length ? ` and ${count - named.length} more` : ""
    return [`${words}: ${named.map((note) => note.path.path).join(", ")}${more}.`]
  })

const changing = () =>
  new SourceUnusable({
    reason: "changing",
    part: "",
    message: `The source changed while it was read, ${rounds} times in a row.`,
    remedy: "Stop what writes there (an editor, a watcher, a build), then run again."
  })

/** Takes the source, or what an earlier process of this run took. */
export const takeSource = (options: RepairOptions, record: RunRecord, ledger: CostLedger, say: Scene["say"]) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    const stores = record.path("base")
    const earlier = yield* record.read(file)
    if (earlier !== null) {
      const taken = JSON.parse(earlier.toString("utf8")) as Taken
      return { ...taken, stores } satisfies TakenSource
    }
    let before = yield* readSourceState(options.source, stores, options.base)
    for (let round = 1; round <= rounds; round++) {
      if (isDirty(before)) {
        const changes = before.parts.reduce((sum, part) => sum + part.changes, 0)
        say(null, "source", `${changes} files with uncommitted work belong to the base`)
      }
      for (const note of before.notes) say(null, "source", note)
      say(null, "import", "reading the source with its dependencies")
      const imported = yield* ledger.time(
        "import",
        workspaces.importDirectory({
          source: options.source,
          name: options.run,
          operationId: `${options.run}/import/${stateDigest(before).slice(7, 23)}`,
          onProgress: (step) => say(null, "import", `${step.phase} ${step.files} files`, step)
        })
      )
      crashPoint("repair.imported")
      const after = yield* readSourceState(options.source, stores, options.base)
      if (stateDigest(after) === stateDigest(before)) {
        for (const note of noticed(imported)) say(null, "source", note)
        const taken: Taken = {
          state: before,
          imported,
          report: reportOf(before, noticed(imported), yield* patchesOf(before, stores, record))
        }
        yield* record.write(file, `${JSON.stringify(taken, null, 2)}\n`)
        crashPoint("repair.sourceTaken")
        return { ...taken, stores } satisfies TakenSource
      }
      say(null, "source", "the source changed while it was read: reading it again")
      before = after
    }
    return yield* changing()
  })

const reportOf = (state: SourceState, noticed: readonly string[], patches: SourceReport["patches"]): SourceReport => ({
  commit: state.commit,
  branch: state.branch,
  shallow: state.shallow,
  changes: state.parts.reduce((sum, part) => sum + part.changes, 0),
  examples: state.parts
    .flatMap((part) => part.examples.map((name) => (part.path === "" ? name : `${show(part.path).path}/${name}`)))
    .slice(0, 20),
  patches,
  inner: state.parts.slice(1).map((part) => show(part.path).path),
  notes: [...state.notes, ...noticed]
})
