/**
 * The in-process host: a function of the application as a host, for embedding and for tests.
 * Promise: labelled as in-process wherever it appears, held to the same protocol as a process, and never reported as
 * stopped while its function still runs. Rules: S54, S51, P8.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { reportedFailure } from "../../src/host/ClassifyFailure.ts"
import { type Host, HostFailure, SupervisionFailed } from "../../src/host/Host.ts"
import { resumable } from "../../src/host/HostSession.ts"
import { limits, type TurnProgress, type TurnRequest, type TurnResult } from "../../src/host/TurnProtocol.ts"
import { checkResult } from "./ResultText.ts"

export interface InProcessTurn {
  readonly request: TurnRequest
  /** Aborted by the time limit and by interruption; a function that ignores it cannot be stopped. */
  readonly signal: AbortSignal
  readonly onProgress: (progress: TurnProgress) => void
}

/** Milliseconds that an aborted function has to return. */
const settleMs = 2000

const stillRunning = (): SupervisionFailed =>
  new SupervisionFailed({
    message: "The in-process host was aborted, but its function has not returned",
    remedy: "Let the function follow its abort signal; until it returns no other executor may start."
  })

const descriptorOf = (name: string): Host["descriptor"] => ({
  kind: `in-process:${name}`,
  version: "1",
  inProcess: true,
  capabilities: ["turn", "interrupt", "usage"]
})

/**
 * A host that calls `answer` for each turn. A throw is a `HostFailure` of class `unknown` whose message repeats nothing
 * of it; a result that breaks the protocol fails the same check as a process's would.
 */
export const inProcessHost = (
  name: string,
  answer: (turn: InProcessTurn) => Promise<TurnResult> | TurnResult
): Host => ({
  descriptor: descriptorOf(name),
  probe: Effect.succeed({ ready: true, missing: [] }),
  turn: ({ request, timeLimitMs, onProgress }) =>
    Effect.gen(function* () {
      yield* resumable(descriptorOf(name), request.resume)
      const begun = performance.now()
      const controller = new AbortController()
      const answered = Promise.resolve()
        .then(() => answer({ request, signal: controller.signal, onProgress: onProgress ?? (() => {}) }))
        .then(Exit.succeed, () => Exit.fail("threw" as const))
      const within = (ms: number) =>
        Effect.raceFirst(
          Effect.promise(() => answered),
          Effect.as(Effect.sleep(ms), "over" as const)
        )
      const abort = Effect.gen(function* () {
        controller.abort()
        if ((yield* within(settleMs)) === "over") return yield* stillRunning()
      }).pipe(Effect.uninterruptible)

      const first = yield* within(timeLimitMs).pipe(Effect.onInterrupt(() => Effect.orDie(abort)))
      if (first === "over") {
        yield* abort
        return yield* new HostFailure({
          class: "executorTimeout",
          check: "time-limit",
          message: "The in-process host ran into its time limit",
          remedy: "Give it more time, or a smaller step.",
          exitCode: null
        })
      }
      if (Exit.isFailure(first)) {
        return yield* new HostFailure({
          class: "unknown",
          check: "threw",
          message: "The in-process host threw an error",
          remedy: "Catch it in the function and answer with the outcome `failed`.",
          exitCode: null
        })
      }
      const size = Buffer.byteLength(JSON.stringify(first.value) ?? "")
      const checked =
        size > limits.resultBytes
          ? Result.fail("stdout-size" as const)
          : checkResult(first.value ?? {}, request.turnKey)
      const result = yield* Effect.fromResult(
        Result.mapError(
          checked,
          (check) =>
            new HostFailure({
              class: check === "stdout-size" ? "outputBudget" : "contract",
              check,
              message: `The in-process host's answer failed the check \`${check}\``,
              remedy: "Return one result of the turn protocol, with the turn key of the request.",
              exitCode: null
            })
        )
      )
      const trouble = reportedFailure(result)
      if (trouble !== undefined) return yield* trouble
      return { result, guarantee: null, wallMs: performance.now() - begun, lingered: false }
    })
})
