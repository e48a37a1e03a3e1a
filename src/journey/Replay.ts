/**
 * The replay: what a person does with an accepted patch, done once more by itself.
 * Promise: a fresh clone, the patch, the commands, and nothing else; whose fault a failure is, is said. Rules: J2, W16.
 */
import * as Effect from "effect/Effect"
import { runJudge } from "../evaluator/JudgeProcess.ts"
import { checkoutOf, layHeldOut, type OracleSpec, type PrepareStep } from "../evaluator/Oracle.ts"
import { applyPatch, cleanCheckout } from "../workspace/CleanCheckout.ts"
import type { Scene } from "./Attempt.ts"
import type { RunRecord } from "./RunRecord.ts"

/** The accepted patch in a fresh clone with clean dependencies (J2). */
export const replay = (
  steps: readonly PrepareStep[],
  spec: OracleSpec,
  record: RunRecord,
  patchFile: string,
  say: Scene["say"]
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const checkout = yield* cleanCheckout({ ...checkoutOf(spec), parent: spec.scratch, purpose: "replay" })
      yield* applyPatch(checkout, record.path(patchFile))
      yield* layHeldOut(spec, checkout)
      const environment = spec.environment(checkout)
      for (const step of steps) {
        say(null, "replay", step.argv.join(" "))
        const run = yield* runJudge(environment, step.argv, { timeLimitMs: spec.timeLimitMs })
        if (run.exitCode !== 0) return step.blame === "machine" ? ("unavailable" as const) : ("failed" as const)
      }
      return "passed" as const
    })
  ).pipe(
    Effect.catch((error) =>
      Effect.sync(() => {
        say(null, "replay", error.message)
        return "_tag" in error && error._tag === "PatchRefused" ? ("failed" as const) : ("unavailable" as const)
      })
    )
  )
