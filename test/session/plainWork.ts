/**
 * A turn's work in a plain directory, as an application on the minimal preset would write it: the file `value` is what
 * the turn makes, and a callback of the application, apart from the host, accepts it when it says `right`.
 */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { sha256 } from "../../src/base/Digest.ts"
import { Acceptances, Evidence, type TurnRecord } from "../../src/governance/index.ts"
import { plainDirectory } from "../../src/host/index.ts"
import { type HostOutcome, resultFiles, type Settling } from "../../src/session/index.ts"

const accepts = (value: string): boolean => value.trim() === "right"
const validator = sha256(String(accepts))

export const plainWork = (place: string, files: string, work: { readonly goal: string; readonly todo: string }) => ({
  open: () => Effect.succeed(files),
  environment: (path: string) => plainDirectory(path),
  results: resultFiles(join(place, "results")),
  capture: () =>
    Effect.sync(() => {
      const path = join(files, "value")
      return existsSync(path) ? readFileSync(path, "utf8") : ""
    }),
  validate: (turn: TurnRecord, _outcome: HostOutcome | null, value: string) =>
    Effect.gen(function* () {
      if (value === "") return { acceptance: null as string | null, note: "The turn made nothing." }
      const evidence = yield* Evidence.record({
        commandId: `${turn.effectId}/verdict-evidence`,
        goal: work.goal,
        todo: work.todo,
        turn: turn.id,
        kind: "verdict",
        digest: sha256(value),
        summary: "what the validator read",
        producer: { role: "validator", name: "callback" }
      })
      const acceptance = yield* Acceptances.record({
        commandId: `${turn.effectId}/verdict`,
        goal: work.goal,
        todo: work.todo,
        turn: turn.id,
        candidate: null,
        validator: { name: "callback", digestBefore: validator, digestAfter: validator },
        outcome: accepts(value) ? "passed" : "failed",
        evidence: [evidence.id]
      })
      return { acceptance: acceptance.id as string | null }
    }),
  settle: (turn: TurnRecord, _outcome: HostOutcome | null, value: string) =>
    Effect.sync(
      (): Settling =>
        accepts(value)
          ? {
              outcome: "accepted",
              evidence: [],
              acceptance: turn.verdict?.acceptance ?? null,
              todo: { action: "complete", continuation: { kind: "noFollowUp" } }
            }
          : { outcome: "failed", evidence: [], todo: { action: "keep" } }
    )
})
