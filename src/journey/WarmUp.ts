/**
 * The warm checkpoint: what the person's own preparation leaves in a copy of the source, made once for all attempts.
 * Promise: the source is not touched; a preparation that fails leaves a log and nothing else; a rerun finds the checkpoint, and
 * one that was killed half way starts over from the source. Rules: J2, W9, W12, G2.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { crashPoint } from "../base/CrashPoint.ts"
import type { CostLedger } from "../evaluator/CostLedger.ts"
import { networkVariables } from "../host/PlainDirectory.ts"
import { Workspaces } from "../workspace/WorkspaceProvider.ts"
import type { Scene } from "./Attempt.ts"
import { PrepareFailed, type RepairOptions, RepairOptionsError, type WarmUp } from "./RepairPlan.ts"
import type { RunRecord } from "./RunRecord.ts"

export interface Warm {
  /** What attempts start from. */
  readonly commit: string
  /** Files that the preparation changed and git does not ignore. They are no part of a patch: every checkout prepares itself. */
  readonly changedFiles: number
  /** The command that made it. */
  readonly argv: readonly string[]
}

const file = "prepared.json"

const failed = (exitCode: number | null, timedOut: boolean) =>
  new PrepareFailed({
    exitCode,
    timedOut,
    message: timedOut
      ? "The preparation ran out of time."
      : `The preparation ended with ${exitCode === null ? "a signal" : `exit code ${exitCode}`}.`,
    remedy: "Read prepare.log in the record, make the command work in a plain clone, and run again: it is tried again."
  })

/** Tells the latest whole line of a command's output, at most every three seconds: a long preparation is seen to go on. */
const lastLineNowAndThen = (tell: (line: string) => void) => {
  let next = performance.now() + 3000
  return (_stream: "stdout" | "stderr", bytes: Uint8Array): void => {
    if (performance.now() < next) return
    const line = Buffer.from(bytes)
      .toString("utf8")
      .split(/[\r\n]+/)
      .findLast((text) => text.trim() !== "")
    if (line === undefined) return
    next = performance.now() + 3000
    tell(line.trim().slice(0, 120))
  }
}

/** What a killed process left of this preparation: it is committed, or made again, so nothing of it is worth keeping. */
const dropLeft = (branch: string) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    for (const left of yield* workspaces.left) {
      if (left.branch === branch) yield* workspaces.discardLeft(left.id, "a preparation that did not end")
    }
  })

/** The commit of the preparation: made now, or found from an earlier process. */
const prepared = (
  options: RepairOptions,
  warm: WarmUp,
  imported: string,
  record: RunRecord,
  ledger: CostLedger,
  say: Scene["say"]
) =>
  Effect.gen(function* () {
    const workspaces = yield* Workspaces
    const operationId = `${options.run}/prepare`
    const branch = yield* workspaces.fork(imported, {
      name: `${options.run}/prepared`,
      operationId: `${operationId}/fork`
    })
    // Also where the commit stands already: its workspace may not have been closed.
    yield* dropLeft(branch.id)
    const known = yield* workspaces.findOperation(operationId)
    if (known.state === "recorded") return known.commit
    return yield* Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* workspaces.open(branch.id, { isolation: "off", actor: { call: "prepare" } })
        const result = yield* workspace.exec(warm.argv, {
          passEnv: [...networkVariables, ...(warm.passEnv ?? [])],
          // A build's daemon would be caught in mid-write by the checkpoint; attempts end theirs too.
          endProcesses: true,
          timeLimitMs: Duration.toMillis(warm.timeLimit ?? "30 minutes"),
          onOutput: lastLineNowAndThen((line) => say(null, "prepare", line))
        })
        yield* record.write("prepare.log", `$ ${warm.argv.join(" ")}\n${result.stdout.text}${result.stderr.text}\n`)
        if (result.exitCode !== 0) {
          yield* workspace.discard("the preparation failed")
          return yield* failed(result.exitCode, result.timedOut)
        }
        const saved = yield* workspace.checkpoint({ operationId, message: "prepared", actor: { call: "prepare" } })
        crashPoint("repair.prepared")
        return saved.commit
      })
    ).pipe((made) => ledger.time("preparation", made))
  })

/** The warm checkpoint of the run; the imported commit itself when there is nothing to prepare. */
export const warmUp = (
  options: RepairOptions,
  imported: string,
  record: RunRecord,
  ledger: CostLedger,
  say: Scene["say"]
) =>
  Effect.gen(function* () {
    if (options.prepare === undefined) return null
    const earlier = yield* record.read(file)
    if (earlier !== null) {
      const made = JSON.parse(earlier.toString("utf8")) as Warm
      if (JSON.stringify(made.argv) === JSON.stringify(options.prepare.argv)) return made
      return yield* new RepairOptionsError({
        option: "prepare",
        message: "The record holds a run that was prepared by another command.",
        remedy: "Give another `record` and `run` name; to go on with the old run, give its command again."
      })
    }
    const workspaces = yield* Workspaces
    say(null, "prepare", options.prepare.argv.join(" ").slice(0, 200))
    const commit = yield* prepared(options, options.prepare, imported, record, ledger, say)
    const { files } = yield* workspaces.exportPatch({ from: imported, to: commit })
    const warm: Warm = { commit, changedFiles: files.length, argv: options.prepare.argv }
    yield* record.write(file, `${JSON.stringify(warm)}\n`)
    say(
      null,
      "prepared",
      files.length === 0 ? "no source file was changed" : `${files.length} source files were changed`
    )
    return warm
  })
