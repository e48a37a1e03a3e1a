import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import { assert, test } from "vitest"
import { clockNames, makeCostLedger } from "../../src/evaluator/index.ts"
import { seed } from "../governance/authority.ts"

const simulated = <A, E>(effect: Effect.Effect<A, E>) => Effect.runPromise(Effect.provide(effect, TestClock.layer()))

test("E18 an unmeasured clock is null, and a measured one of no length is 0", () => {
  const ledger = makeCostLedger()
  assert.deepEqual(ledger.read(), Object.fromEntries(clockNames.map((name) => [name, null])) as never)
  ledger.add("fork", 0)
  assert.deepEqual(ledger.read().fork, { wallMs: 0, totalMs: 0, n: 1 })
  assert.equal(ledger.read().mount, null)
})

test("E13 E18 stages that failed, died or were interrupted are counted with the time that they took", async () => {
  const ledger = makeCostLedger()
  const outcome = await simulated(
    Effect.gen(function* () {
      const failed = yield* Effect.forkChild(
        ledger.time("verify", Effect.andThen(Effect.sleep(100), Effect.fail("red"))).pipe(Effect.flip)
      )
      yield* TestClock.adjust(100)
      const error = yield* Fiber.join(failed)
      const died = yield* Effect.forkChild(
        Effect.exit(ledger.time("export", Effect.andThen(Effect.sleep(30), Effect.die("bug"))))
      )
      yield* TestClock.adjust(30)
      yield* Fiber.join(died)
      const hanging = yield* Effect.forkChild(ledger.time("exec", Effect.never))
      yield* TestClock.adjust(250)
      yield* Fiber.interrupt(hanging)
      return error
    })
  )
  assert.equal(outcome, "red")
  assert.deepEqual(ledger.read().verify, { wallMs: 100, totalMs: 100, n: 1 })
  assert.deepEqual(ledger.read().export, { wallMs: 30, totalMs: 30, n: 1 })
  assert.deepEqual(ledger.read().exec, { wallMs: 250, totalMs: 250, n: 1 })
})

test("E18 intervals that overlap count once as elapsed time, and their sum stands beside it", async () => {
  const ledger = makeCostLedger()
  await simulated(
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(ledger.time("exec", Deferred.await(gate)))
      yield* TestClock.adjust(100)
      const second = yield* Effect.forkChild(ledger.time("exec", Deferred.await(gate)))
      yield* TestClock.adjust(50)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      yield* TestClock.adjust(1000)
      const third = yield* Effect.forkChild(ledger.time("exec", Effect.sleep(10)))
      yield* TestClock.adjust(10)
      yield* Fiber.join(third)
    })
  )
  assert.deepEqual(ledger.read().exec, { wallMs: 160, totalMs: 210, n: 3 })
})

test("E18 random intervals: elapsed time is the number of milliseconds in which at least one ran", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(60), fc.nat(30)), { maxLength: 8 }), async (intervals) => {
      const ledger = makeCostLedger()
      await simulated(
        Effect.gen(function* () {
          const running = yield* Effect.forEach(intervals, ([start, length]) =>
            Effect.forkChild(Effect.andThen(Effect.sleep(start), ledger.time("exec", Effect.sleep(length))))
          )
          yield* TestClock.adjust(100)
          yield* Effect.forEach(running, Fiber.join)
        })
      )
      const ticks = new Set(intervals.flatMap(([start, length]) => Array.from({ length }, (_, i) => start + i)))
      const total = intervals.reduce((sum, [, length]) => sum + length, 0)
      assert.deepEqual(
        ledger.read().exec,
        intervals.length === 0 ? null : { wallMs: ticks.size, totalMs: total, n: intervals.length }
      )
    }),
    { seed: seed(), numRuns: 40 }
  )
})
