/**
 * From an attempt's files to a recorded candidate, across two stores.
 * Promise: planned in the authority, committed in the workspace store under the same operation id, read back, pinned,
 * recorded; whatever is interrupted in between is resolved by operation id, and nothing that an attempt made is dropped.
 * Rules: G75, W5, W10, W12, W16, W23, E2; C71.
 */
import * as Effect from "effect/Effect"
import { crashPoint } from "../base/CrashPoint.ts"
import type { Digest } from "../base/Digest.ts"
import type { CostLedger } from "../evaluator/CostLedger.ts"
import { Candidates, Evidence, type Fence, type TurnRecord } from "../governance/index.ts"
import { Explore } from "../explore/Explore.ts"
import { type Candidate, identity } from "../workspace/Candidate.ts"
import { type Workspace, Workspaces } from "../workspace/WorkspaceProvider.ts"
import type { RunRecord } from "./RunRecord.ts"

/** What an attempt came to in files. `candidate` is null when it changed nothing. */
export interface Captured {
  readonly commit: string | null
  readonly candidate: { readonly fields: Candidate; readonly identity: Digest } | null
  /** The patch of its source files against the run's base; empty when only ignored files changed. */
  readonly patch: Uint8Array
  readonly patchFile: string | null
  readonly changedFiles: number
  /** Changed files that no patch holds: ignored ones, and those of repositories inside the source. */
  readonly leftOut: number
  /** Evidence id of the patch. */
  readonly evidence: string | null
}

export interface CaptureScene {
  readonly goal: string
  readonly agent: string
  readonly fence: Fence
  readonly record: RunRecord
  readonly ledger: CostLedger
  readonly route: string
  readonly node: string
  /** The commit that patches are made against. */
  readonly base: string
  /** The commit that attempts start from. What the preparation changed is no attempt's work: every checkout prepares itself. */
  readonly warm: string
  readonly branch: string
  readonly environment: Digest
  readonly parent: string | null
}

/** The commit of this turn's capture: made now, or found again by its operation id. */
const commitOf = (scene: CaptureScene, turn: TurnRecord, operationId: string, place: Workspace | null) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    if (place !== null) {
      const outcome = yield* scene.ledger.time(
        "checkpoint",
        place.checkpoint({
          operationId,
          message: `${scene.route}: what the turn left`,
          actor: { call: turn.id, agent: scene.agent, goal: scene.goal }
        })
      )
      crashPoint("capture.committed")
      return outcome.outcome === "committed" ? outcome.commit : null
    }
    const found = yield* workspaces.findOperation(operationId)
    return found.state === "recorded" ? found.commit : null
  })

/**
 * A workspace of this branch that an earlier process left: its files become the commit of this operation, or, where the process
 * had made that commit, one of their own; either way they are kept and it is closed (W12, W23).
 */
const recoverLeft = (scene: CaptureScene, operationId: string) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    for (const left of yield* workspaces.left) {
      if (left.branch !== scene.branch) continue
      const message = `${scene.route}: recovered after a crash`
      yield* workspaces
        .recover(left.id, { operationId, message })
        .pipe(Effect.catchTag("OperationUsed", () => workspaces.recover(left.id, { message })))
    }
  })

/** Captures a turn's files as a candidate. Gives the same answer whenever it is asked again for the same turn. */
export const capture = (scene: CaptureScene, turn: TurnRecord, place: Workspace | null) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    const operationId = `${turn.effectId}/capture`
    const known = yield* Candidates.plan({ goal: scene.goal, operationId, turn: turn.id })
    crashPoint("capture.planned")
    if (place === null) yield* recoverLeft(scene, operationId)
    if (known.state === "absent") return nothing
    const made =
      known.state === "recorded"
        ? ((yield* workspaces.findOperation(operationId)) as { readonly commit?: string }).commit
        : undefined
    const commit = made ?? (yield* commitOf(scene, turn, operationId, place))
    if (commit === null) {
      yield* Candidates.resolve({ operationId, state: "absent", note: "the turn changed nothing" })
      return nothing
    }
    const fields = yield* scene.ledger.time(
      "identity",
      workspaces.candidate(commit, { environment: scene.environment, parent: scene.parent })
    )
    const id = identity(fields)
    yield* workspaces.pin(known.id, commit)
    crashPoint("capture.pinned")
    yield* Candidates.record({ operationId, identity: id, candidate: fields })
    crashPoint("capture.recorded")
    yield* Explore.linkCandidate({
      commandId: `${operationId}/link`,
      goal: scene.goal,
      node: scene.node,
      identity: id,
      commit
    })

    const own = yield* scene.ledger.time("export", workspaces.exportPatch({ from: scene.warm, to: commit }))
    const exported =
      scene.warm === scene.base || own.patch.length === 0
        ? own
        : yield* scene.ledger.time(
            "export",
            workspaces.exportPatch({
              from: scene.base,
              to: commit,
              paths: own.files.map((file) =>
                file.pathBytes === undefined ? file.path : Buffer.from(file.pathBytes, "base64")
              )
            })
          )
    if (exported.patch.length === 0) {
      return {
        commit,
        candidate: { fields, identity: id },
        patch: exported.patch,
        patchFile: null,
        changedFiles: 0,
        leftOut: own.ignoredChanges,
        evidence: null
      }
    }
    const patchFile = `attempts/${scene.route}.patch`
    const digest = yield* scene.record.write(patchFile, exported.patch)
    crashPoint("capture.exported")
    const evidence = yield* Evidence.record({
      commandId: `${operationId}/patch/${scene.fence.epoch}`,
      goal: scene.goal,
      todo: turn.todo,
      turn: turn.id,
      kind: "patch",
      digest,
      summary: `Patch of ${exported.files.length} files`,
      ref: patchFile,
      producer: { role: "executor", name: scene.agent },
      fence: scene.fence
    })
    return {
      commit,
      candidate: { fields, identity: id },
      patch: exported.patch,
      patchFile,
      changedFiles: exported.files.length,
      leftOut: own.ignoredChanges,
      evidence: evidence.id
    } satisfies Captured
  })

const nothing: Captured = {
  commit: null,
  candidate: null,
  patch: new Uint8Array(),
  patchFile: null,
  changedFiles: 0,
  leftOut: 0,
  evidence: null
}
