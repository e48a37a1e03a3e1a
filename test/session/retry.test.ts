/**
 * Failures of hosts that are tried again within a turn.
 * Promise: as often as the policy says and no more, each attempt saved and bounded before it is launched, each cost counted.
 * Rules: G55, G56, G80, G84.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { assert, describe, test } from "vitest"
import { processHost } from "../../providers/host-process/index.ts"
import { Goals, Leases, Quota, Turns } from "../../src/governance/index.ts"
import { type FailureClass, type Host, HostFailure, type HostUsage } from "../../src/host/index.ts"
import { eventually } from "../host/scenes.ts"
import { newScene, read, type Scene } from "./scene.ts"

interface Fails {
  readonly class: FailureClass
  readonly usage?: HostUsage
  readonly started?: boolean
  readonly retryAfterMs?: number
}

/** A host that fails as told, one attempt after the other, and then does the work. */
const failing = (scene: Scene, failures: readonly Fails[], seen: string[] = [], retrySafe = true): Host => ({
  descriptor: {
    kind: "failing",
    version: "1",
    inProcess: true,
    ...(retrySafe ? { retrySafe } : {}),
    capabilities: ["turn"]
  },
  probe: Effect.succeed({ ready: true, missing: [] }),
  turn: ({ request }) =>
    Effect.gen(function* () {
      const next = failures[seen.length]
      seen.push(request.turnKey)
      if (next !== undefined) {
        return yield* new HostFailure({ ...next, check: "told", message: "m", remedy: "r", exitCode: null })
      }
      writeFileSync(join(scene.files, "value"), "right")
      const usage = {
        usd: 0.25,
        messages: [{ id: "last", cached: "apart", input: 1, cacheRead: 0, cacheWrite: 0, output: 1 }]
      } as const
      const result = {
        protocol: "coppice.turn",
        version: 1,
        turnKey: request.turnKey,
        outcome: "completed",
        summary: "s",
        usage
      } as const
      return { result, guarantee: null, wallMs: 1, lingered: false }
    })
})

const atOnce = { backoff: Schedule.recurs(100) } as const
const lastTurn = async (scene: Scene) => (await scene.turns())[0]!

describe("the policy", () => {
  for (const [name, failures, launched, ends] of [
    ["a rate limit that passes", ["rateLimited"], 2, "ok"],
    ["an overload that passes at the third attempt", ["overloaded", "overloaded"], 3, "ok"],
    ["an overload that stays", ["overloaded", "overloaded", "overloaded"], 3, "overloaded"],
    ["no capacity that stays", ["capacity", "capacity", "capacity"], 3, "capacity"],
    ["a connection that stays lost", ["transportLost", "transportLost", "transportLost"], 3, "transportLost"],
    ["a time limit that passes", ["executorTimeout"], 2, "ok"],
    ["a time limit that stays", ["executorTimeout", "executorTimeout"], 2, "executorTimeout"],
    ["a time limit after another failure", ["rateLimited", "executorTimeout"], 2, "executorTimeout"],
    ["an exhausted quota", ["quotaExhausted"], 1, "quotaExhausted"],
    ["a refused login", ["auth"], 1, "auth"],
    ["a breach of the protocol", ["contract"], 1, "contract"],
    ["too much output", ["outputBudget"], 1, "outputBudget"],
    ["a missing session", ["sessionMissing"], 1, "sessionMissing"],
    ["a failure without a name", ["unknown"], 1, "unknown"],
    ["a rate limit and then a refused login", ["rateLimited", "auth"], 2, "auth"]
  ] as const) {
    test(`G84 ${name}: ${launched} attempt(s), and the turn ends ${ends}`, async () => {
      const scene = await newScene()
      const seen: string[] = []
      const done = await scene.run(
        scene.drive(
          failing(
            scene,
            failures.map((one) => ({ class: one })),
            seen
          ),
          atOnce
        )
      )
      assert.equal(seen.length, launched)
      assert.equal(new Set(seen).size, 1)
      assert.equal(done.outcome?.status === "ok" ? "ok" : done.outcome?.class, ends)
      const turn = await lastTurn(scene)
      assert.deepEqual(
        turn.attempts.map((attempt) => attempt.failure?.class ?? null),
        [...failures.slice(0, launched - 1), null]
      )
      assert.deepEqual(await scene.settlements(), { total: 1, accepted: ends === "ok" ? 1 : 0 })
    })
  }

  test("G84 a host that does not say that it is safe is tried once, unless the caller asks; one that says so is not tried again when the caller forbids it", async () => {
    for (const [retrySafe, retries, launched] of [
      [false, undefined, 1],
      [false, "policy", 2],
      [true, "never", 1],
      [true, undefined, 2]
    ] as const) {
      const scene = await newScene()
      const seen: string[] = []
      const host = failing(scene, [{ class: "rateLimited" }], seen, retrySafe)
      await scene.run(scene.drive(host, { ...atOnce, ...(retries === undefined ? {} : { retries }) }))
      assert.equal(seen.length, launched)
    }
  })

  test("G84 it waits 2 s, then twice as long, with jitter, and as long as the provider asks; a pause of hours is not waited for", async () => {
    for (const [retryAfterMs, ranges, ended] of [
      [
        undefined,
        [
          [1600, 2400],
          [3200, 4800]
        ],
        "closed"
      ],
      [
        9000,
        [
          [9000, 9000],
          [9000, 9000]
        ],
        "closed"
      ],
      [3_600_000, [], "closed"]
    ] as const) {
      const scene = await newScene()
      const real = await Effect.runPromise(Clock.clockWith(Effect.succeed))
      const slept: number[] = []
      const clock: Clock.Clock = {
        ...real,
        currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe(),
        currentTimeNanosUnsafe: () => real.currentTimeNanosUnsafe(),
        currentTimeMillis: real.currentTimeMillis,
        currentTimeNanos: real.currentTimeNanos,
        // The renewals of the lease wait much longer: their time never comes here.
        sleep: (duration) =>
          Effect.suspend(() => {
            const ms = Duration.toMillis(duration)
            if (ms > 60_000) return Effect.never
            slept.push(ms)
            return Effect.void
          })
      }
      const fails = { class: "rateLimited", ...(retryAfterMs === undefined ? {} : { retryAfterMs }) } as const
      const drive = scene.drive(failing(scene, [fails, fails]))
      const done = await scene.run(Effect.provideService(drive, Clock.Clock, clock))
      assert.equal(done.turn.state, ended)
      assert.equal(slept.length, ranges.length)
      for (const [index, [least, most]] of ranges.entries())
        assert.isTrue(slept[index]! >= least && slept[index]! <= most)
    }
  })
})

describe("money", () => {
  test("G55 G56 G84 each attempt has a bound of its own and its cost counts, known or owed; the turn takes one slot", async () => {
    const scene = await newScene({ usd: 5, slots: 1 })
    const message = { id: "first", cached: "apart", input: 10, cacheRead: 0, cacheWrite: 0, output: 5 } as const
    const failures: readonly Fails[] = [
      { class: "rateLimited", usage: { usd: 0.5, messages: [message] } },
      { class: "overloaded" }
    ]
    const done = await scene.run(scene.drive(failing(scene, failures), atOnce))
    assert.equal(done.outcome?.status, "ok")
    const status = await scene.run(Quota.status({ goal: scene.goal }))
    // 0.5 of the first and 0.25 of the last; the bound of the second stays held, for nobody knows what it cost.
    assert.deepEqual([status.spent.usd, status.reserved.usd, status.owed.length], [0.75, 1, 1])
    assert.deepEqual([status.spent.slots, status.remaining.slots], [1, 0])
    assert.deepEqual([status.usage.total.known, status.usage.reports, status.usage.unreported], [17, 2, 1])
    const turn = await lastTurn(scene)
    assert.equal(new Set([...turn.attempts.map((attempt) => attempt.effectId), turn.effectId]).size, 4)
    const [owed] = status.owed
    assert.equal((await scene.run(Quota.get({ reservation: owed!.reservation }))).effectId, turn.attempts[1]!.effectId)
    await scene.run(Quota.trueUp({ reservation: owed!.reservation, usd: 0.1 }))
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.85, owed: 0 })
  })

  test("G55 G84 an attempt whose bound the budget does not hold is not launched: the failure stands and is settled", async () => {
    const scene = await newScene({ usd: 1.5, slots: 5 })
    const seen: string[] = []
    const done = await scene.run(scene.drive(failing(scene, [{ class: "overloaded" }], seen), atOnce))
    assert.deepInclude(done.outcome, { status: "failed", class: "overloaded" })
    assert.equal(seen.length, 1)
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
    // What never started has cost nothing, and leaves room for the next.
    const roomy = await newScene({ usd: 1.5, slots: 5 })
    const again = await roomy.run(roomy.drive(failing(roomy, [{ class: "transportLost", started: false }]), atOnce))
    assert.equal(again.outcome?.status, "ok")
    assert.deepEqual(await roomy.quota(), { reserved: 0, spent: 0.25, owed: 0 })
  })

  test("G10 G31 G84 a goal that is paused, and a lease that is lost, between two attempts: nothing more is launched, and the failure is kept", async () => {
    for (const stop of ["pause", "release"] as const) {
      const scene = await newScene()
      const seen: string[] = []
      const host = failing(scene, [{ class: "overloaded" }], seen)
      const turning: Host = {
        ...host,
        turn: (options) =>
          Effect.onExit(host.turn(options), () =>
            Effect.promise(
              (): Promise<unknown> =>
                stop === "pause"
                  ? scene.run(Goals.pause({ goal: scene.goal }))
                  : scene.run(Leases.release({ fence: scene.fence }))
            )
          )
      }
      const error = await scene.fails(scene.drive(turning, atOnce))
      assert.equal(error.code, stop === "pause" ? "GOAL_NOT_ACTIVE" : "LEASE_LOST")
      assert.equal(seen.length, 1)
      const turn = await lastTurn(scene)
      assert.deepInclude(turn.result!, { status: "failed", failure: { class: "overloaded", check: "told" } })
      assert.deepEqual([turn.state, turn.attempts.length], ["open", 1])
    }
  })

  test("G84 an interruption while it waits ends the turn as failed, with what the attempt cost, and launches nothing", async () => {
    const scene = await newScene()
    const seen: string[] = []
    const host = failing(scene, [{ class: "overloaded", usage: { usd: 0.5 } }], seen)
    let waits = false
    const backoff = Schedule.recurs(9).pipe(
      Schedule.addDelay(() =>
        Effect.sync(() => {
          waits = true
          return "1 hour"
        })
      )
    )
    const fiber = await scene.run(Effect.forkDetach(scene.drive(host, { backoff })))
    await eventually("it waits", () => waits)
    await Effect.runPromise(Fiber.interrupt(fiber))
    const turn = await lastTurn(scene)
    assert.deepInclude(turn, { state: "failed" })
    assert.match(turn.failure!.reason, /overloaded.*cancelled/)
    assert.equal(seen.length, 1)
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.5, owed: 0 })
  })
})

test("G84 G80 a command that reports its provider's code is started again by the class of that code, each attempt in the journal before its process", async () => {
  const scene = await newScene()
  const script = `request=$(cat); echo dispatched >> dispatches
key=$(printf %s "$request" | sed 's/.*"turnKey":"\\([^"]*\\)".*/\\1/')
if [ "$(wc -l < dispatches)" -lt 3 ]; then
  printf '{"protocol":"coppice.turn","version":1,"turnKey":"%s","outcome":"failed","summary":"no","usage":{"usd":0.1},"failure":{"providerCode":"overloaded_error","httpStatus":400}}' "$key"
else echo right > value
  printf '{"protocol":"coppice.turn","version":1,"turnKey":"%s","outcome":"completed","summary":"yes","usage":{"usd":0.25}}' "$key"
fi`
  const done = await scene.run(scene.drive(processHost(["sh", "-c", script], { retrySafe: true }), atOnce))
  assert.equal(done.outcome?.status, "ok")
  assert.equal(read(scene, "dispatches"), "dispatched\n".repeat(3))
  assert.deepEqual(
    (await scene.journal("turn.")).map((entry) => entry.type.slice(5)).filter((type) => /attempt|executor/.test(type)),
    ["attemptSaved", "executorStarted", "attemptSaved", "executorStarted", "attemptSaved", "executorStarted"]
  )
  assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.45, owed: 0 })
})

test("G84 the authority itself refuses a further attempt that the policy does not know, whoever asks", async () => {
  const scene = await newScene()
  const bound = { usd: 1 }
  const { fence } = scene
  const turn = await scene.run(Turns.admit({ goal: scene.goal, agent: "ada", fence, bound }))
  const ask = (failure: string) =>
    Turns.retryAttempt({ turn: turn.id, fence, bound, spend: { usd: 0 }, failure: { class: failure, check: "c" } })
  assert.equal((await scene.fails(ask("overloaded"))).code, "PHASE_ORDER")
  await scene.run(Turns.saveAttempt({ turn: turn.id, fence }))
  for (const failure of ["auth", "unknown", "toString", ""]) {
    assert.deepInclude(await scene.fails(ask(failure)), { code: "RETRY_REFUSED", tries: 1 })
  }
  await scene.run(ask("executorTimeout"))
  assert.deepInclude(await scene.fails(ask("executorTimeout")), { code: "RETRY_REFUSED", tries: 2 })
  await scene.run(ask("overloaded"))
  assert.deepInclude(await scene.fails(ask("overloaded")), { code: "RETRY_REFUSED", tries: 3 })
})
