/**
 * Runs check.mjs over the directory, apart from the agent, and puts what it said into an acceptance.
 * Promise: its own file is hashed before and after it runs; a time limit is inconclusive; asked again for the same turn it gives
 * the same record. Rules: G70, G71.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import * as Effect from "effect/Effect"
import { sha256 } from "../../src/base/Digest.ts"
import { type AcceptanceOutcome, Acceptances, Evidence, type TurnRecord } from "../../src/governance/index.ts"
import { plainDirectory } from "../../src/host/index.ts"

export const validatorName = "check.mjs"
const program = join(import.meta.dirname, validatorName)
const timeLimitMs = 30_000

const digestOfProgram = Effect.promise(async () => sha256(await readFile(program)))

/** What the program said, and what that comes to. */
const runCheck = (files: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const child = yield* plainDirectory(files).spawn([process.execPath, program])
      child.stdin.end()
      child.stderr.resume()
      const said = text(child.stdout)
      const exit = yield* Effect.timeoutOption(child.wait, timeLimitMs)
      if (exit._tag === "None") {
        yield* child.kill()
        return { outcome: "inconclusive" as AcceptanceOutcome, said: "It ran out of time." }
      }
      const outcome: AcceptanceOutcome = exit.value.code === 0 ? "passed" : "failed"
      return { outcome, said: (yield* Effect.promise(() => said)).trim().slice(0, 500) }
    })
  )

/** Judges the files of a turn and records the verdict, with the validator's own words as evidence. */
export const validate = (turn: TurnRecord, files: string) =>
  Effect.gen(function* () {
    const digestBefore = yield* digestOfProgram
    const { outcome, said } = yield* runCheck(files)
    const of = { goal: turn.goal, todo: turn.todo, turn: turn.id }
    const evidence = yield* Evidence.record({
      ...of,
      commandId: `${turn.effectId}/evidence`,
      kind: "verdict",
      digest: sha256(said),
      summary: said,
      producer: { role: "validator", name: validatorName }
    })
    return yield* Acceptances.record({
      ...of,
      commandId: `${turn.effectId}/verdict`,
      candidate: null,
      validator: { name: validatorName, digestBefore, digestAfter: yield* digestOfProgram },
      outcome,
      evidence: [evidence.id],
      summary: said
    })
  })
