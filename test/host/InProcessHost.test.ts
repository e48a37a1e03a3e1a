import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { expect, test } from "vitest"
import { inProcessHost, type InProcessTurn, processHost } from "../../providers/host-process/index.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { TurnResult } from "../../src/host/TurnProtocol.ts"
import { answer, directory, request } from "./scenes.ts"

const result = (changes: Record<string, unknown> = {}): TurnResult => JSON.parse(answer(changes)) as TurnResult

const turn = (answerTurn: (turn: InProcessTurn) => Promise<TurnResult> | TurnResult, timeLimitMs = 30_000) => {
  const root = directory()
  return inProcessHost("test", answerTurn).turn({
    environment: plainDirectory(root),
    request: request(root),
    timeLimitMs
  })
}

test("S54 an in-process host is labelled as such, and a process host is not", async () => {
  expect(inProcessHost("agent", () => result()).descriptor).toMatchObject({ kind: "in-process:agent", inProcess: true })
  expect(processHost(["true"]).descriptor).toMatchObject({ kind: "host-process", inProcess: false })
  const report = await Effect.runPromise(turn(() => result()))
  expect(report).toMatchObject({ result: { outcome: "progress" }, guarantee: null })
})

test.for([
  ["the wrong turn key", result({ turnKey: "other" }), "turn-key"],
  ["an unknown field", result({ accepted: true }), "unknown-field"],
  ["acceptance", result({ outcome: "accepted" }), "shape"],
  ["nothing", undefined as unknown as TurnResult, "version"],
  [
    "too much",
    result({ findings: Array.from({ length: 7 }, () => ({ status: "tentative", text: "x".repeat(2000) })) }),
    "stdout-size"
  ]
] as const)("S54 an in-process host is held to the protocol: %s", async ([, answered, check]) => {
  expect(await Effect.runPromise(Effect.flip(turn(() => answered)))).toMatchObject({ _tag: "HostFailure", check })
})

test("S54 a throw is a host failure that repeats nothing of the error", async () => {
  const failure = await Effect.runPromise(
    Effect.flip(
      turn(() => {
        throw new Error("password hunter2")
      })
    )
  )
  expect(failure).toMatchObject({ _tag: "HostFailure", check: "threw" })
  expect(JSON.stringify(failure)).not.toContain("hunter2")
})

test("S54 the time limit and an interrupt abort the function, and wait until it has returned", async () => {
  const events: string[] = []
  const untilAborted = ({ signal }: InProcessTurn) =>
    new Promise<TurnResult>((done) => {
      events.push("started")
      signal.addEventListener("abort", () => {
        events.push("returned")
        done(result())
      })
    })
  const late = await Effect.runPromise(Effect.flip(turn(untilAborted, 50)))
  expect(late).toMatchObject({ _tag: "HostFailure", class: "executorTimeout" })
  expect(events).toEqual(["started", "returned"])
  const fiber = Effect.runFork(turn(untilAborted))
  while (events.length < 3) await new Promise((done) => setImmediate(done))
  await Effect.runPromise(Fiber.interrupt(fiber))
  expect(events).toEqual(["started", "returned", "started", "returned"])
})

test("S54 a function that ignores its abort is a supervision failure, not a stopped executor", async () => {
  const failure = await Effect.runPromise(Effect.flip(turn(() => new Promise<TurnResult>(() => {}), 50)))
  expect(failure).toMatchObject({ _tag: "SupervisionFailed" })
})
