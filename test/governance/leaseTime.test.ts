/** Leases and time: clocks that are set back or forward, expiry as every lane sees it, and a model over all orders of calls. */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import * as fc from "fast-check"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test, vi } from "vitest"
import { layer } from "../../providers/authority-sqlite/index.ts"
import {
  Authority,
  type Fence,
  Goals,
  type Lease,
  leaseHolds,
  Leases,
  Quota,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { hold, newBench, newDirectory, newGoal, newTodo, seed } from "./authority.ts"
import { leaseCode } from "./leaseCode.ts"
import { oneFile } from "../oneFile.ts"

test("G36 a clock that is set back revives no lease, in this process or another, and does not stop time", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [a, b] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const first = await hold(bench, a, "ada", { ttlMs: 1000 })
  bench.now += 1000
  assert.equal(await leaseCode(bench, Leases.renew({ fence: first.fence })), "LEASE_LOST:expired")
  bench.now -= 900
  assert.equal(await leaseCode(bench, Leases.renew({ fence: first.fence })), "LEASE_LOST:expired")
  const second = await hold(bench, b, "ada", { ttlMs: 30 })
  const other = await newBench({ directory: bench.directory, now: () => bench.now })
  assert.equal(await leaseCode(other, Leases.renew({ fence: first.fence })), "LEASE_LOST:expired")
  // The set-back clock stands still for this long; the lease that was given meanwhile still ends.
  let taken = "LEASE_HELD"
  for (let i = 0; i < 400 && taken === "LEASE_HELD"; i += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    taken = await leaseCode(bench, Leases.acquire({ todo: b.id, agent: "bob" }))
  }
  assert.equal(taken, "ok")
  assert.equal(await leaseCode(bench, Leases.renew({ fence: second.fence })), "LEASE_LOST:epoch")
  const times = (await bench.store.journal({ after: 0, limit: 100 })).map((entry) => entry.at)
  assert.deepEqual(
    times,
    times.toSorted((x, y) => x - y)
  )
})

test("G36 a lease that was refused as expired stays expired for a process whose clock is earlier, although nothing was journaled", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const lease = await hold(bench, await newTodo(bench, goal), "ada", { ttlMs: 1000 })
  const entries = (await bench.store.verify()).entries
  const granted = bench.now
  bench.now += 1000
  assert.equal(await leaseCode(bench, Leases.renew({ fence: lease.fence })), "LEASE_LOST:expired")
  assert.equal((await bench.store.verify()).entries, entries)
  const earlier = await newBench({ directory: bench.directory, now: () => granted + 500 })
  assert.equal(await leaseCode(earlier, leaseHolds(lease.fence)), "LEASE_LOST:expired")
  const { stdout, status, stderr } = spawnSync(
    process.execPath,
    [
      await oneFile(join(import.meta.dirname, "programs/renewer.ts")),
      bench.directory,
      JSON.stringify(lease.fence),
      String(granted + 500)
    ],
    { encoding: "utf8" }
  )
  assert.equal(status, 0, stderr)
  assert.deepEqual(JSON.parse(stdout), { code: "LEASE_LOST", why: "expired" })
})

test("G36 a clock far ahead and then corrected stops nothing for ever: time goes on across processes, and across a boot", async () => {
  const directory = newDirectory()
  const year = 365 * 24 * 3_600_000
  const wall = { now: 1_800_000_000_000 + 70 * year }
  const machine = { boot: "one", ms: 5_000 }
  const open = () => newBench({ directory, now: () => wall.now, monotonic: () => ({ ...machine }) })
  const ahead = await open()
  const goal = await newGoal(ahead)
  const todo = await newTodo(ahead, goal)
  await ahead.store.close()
  wall.now -= 70 * year

  const take = async (agent: string) => {
    const bench = await open()
    const code = await leaseCode(bench, Leases.acquire({ todo: todo.id, agent, ttlMs: 1000 }))
    await bench.store.close()
    return code
  }
  assert.equal(await take("ada"), "ok")
  machine.ms += 600
  assert.equal(await take("bob"), "LEASE_HELD")
  machine.ms += 400
  assert.equal(await take("bob"), "ok")
  // After a boot the earlier reading says nothing: time goes on from there, and does not go back.
  Object.assign(machine, { boot: "two", ms: 7 })
  assert.equal(await take("ada"), "LEASE_HELD")
  machine.ms += 1000
  assert.equal(await take("ada"), "ok")
})

test("C53 every admission sees expiry by itself: nobody has to sweep", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  await newTodo(bench, goal)
  const first = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada", ttlMs: 1000 }))
  assert.equal(first._tag, "claimed")
  assert.equal((await bench.run(Todos.nextWork({ goal: goal.id, agent: "bob" })))._tag, "none")
  bench.now += 1000
  assert(first._tag === "claimed")
  const { fence } = first.lease
  const todo = fence.todo
  const bound = { usd: 1, slots: 1 }
  const entries = (await bench.store.verify()).entries
  for (const late of [
    Turns.admit({ goal: goal.id, agent: "ada", fence, bound }),
    Leases.renew({ fence }),
    Leases.transfer({ fence, to: "bob", reason: "r" }),
    Leases.release({ fence }),
    Quota.reserve({ goal: goal.id, todo, effectId: "e", bound, fence }),
    Todos.defer({ todo, fence, reason: "r" }),
    Todos.complete({ todo, fence, continuation: { kind: "noFollowUp" } })
  ] as Effect.Effect<unknown, any, Authority>[]) {
    assert.equal(await leaseCode(bench, late), "LEASE_LOST:expired")
  }
  assert.equal((await bench.store.verify()).entries, entries)
  const second = await bench.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
  assert.deepInclude(second._tag === "claimed" ? second.lease : {}, { owner: "bob", epoch: 2 })
})

// --- a model of leases, in random order ------------------------------------------------------------------------------

interface Model {
  epoch: number
  version: number
  owner: string | null
  expiresAt: number
  token: string | null
}

test("G30 G31 G32 G33 any order of calls, expiries and stale fences agrees with a model of one holder per epoch", async () => {
  const random = seed()
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          op: fc.constantFrom("acquire", "renew", "transfer", "release", "wait"),
          agent: fc.constantFrom("ada", "bob"),
          ttl: fc.integer({ min: 1, max: 50 }),
          /** Which of the fences handed out so far is shown: 0 is the newest. */
          back: fc.integer({ min: 0, max: 2 })
        }),
        { minLength: 5, maxLength: 40 }
      ),
      async (steps) => {
        const bench = await newBench({ durability: "disposable" })
        const goal = await newGoal(bench)
        const todo = await newTodo(bench, goal)
        const model: Model = { epoch: 0, version: 0, owner: null, expiresAt: 0, token: null }
        const fences: Fence[] = []
        const took = (lease: Lease) => {
          fences.unshift(lease.fence)
          model.token = lease.fence.token
        }
        for (const step of steps) {
          const live = model.token !== null && model.expiresAt > bench.now
          const fence = fences[Math.min(step.back, fences.length - 1)]
          const exact =
            live &&
            fence !== undefined &&
            fence.token === model.token &&
            fence.epoch === model.epoch &&
            fence.version === model.version
          if (step.op === "wait") {
            bench.now += step.ttl
          } else if (step.op === "acquire") {
            const result = await bench.run(
              Effect.result(Leases.acquire({ todo: todo.id, agent: step.agent, ttlMs: step.ttl }))
            )
            assert.equal(Result.isSuccess(result), !live)
            if (Result.isSuccess(result)) {
              Object.assign(model, {
                epoch: model.epoch + 1,
                version: model.version + 1,
                owner: step.agent,
                expiresAt: bench.now + step.ttl
              })
              took(result.success)
            }
          } else if (fence !== undefined && step.op === "release") {
            const result = await bench.run(Effect.result(Leases.release({ fence })))
            assert.equal(Result.isSuccess(result), exact)
            if (exact) Object.assign(model, { version: model.version + 1, token: null })
          } else if (fence !== undefined) {
            const call: Effect.Effect<Lease, any, Authority> =
              step.op === "renew"
                ? Leases.renew({ fence, ttlMs: step.ttl })
                : Leases.transfer({ fence, to: step.agent, ttlMs: step.ttl, reason: "r" })
            const result = await bench.run(Effect.result(call))
            assert.equal(Result.isSuccess(result), exact)
            if (Result.isSuccess(result)) {
              if (step.op === "transfer") Object.assign(model, { epoch: model.epoch + 1, owner: step.agent })
              Object.assign(model, { version: model.version + 1, expiresAt: bench.now + step.ttl })
              took(result.success)
            }
          }
          if (model.epoch === 0) continue
          const seen = await bench.run(Leases.inspect({ todo: todo.id }))
          assert.deepEqual([seen.epoch, seen.version, seen.owner], [model.epoch, model.version, model.owner])
          assert.equal(seen.releasedAt === null, model.token !== null)
        }
        await bench.store.close()
      }
    ),
    { seed: random, numRuns: 25 }
  )
}, 60_000)

test("G36 a clock that gives no time once is refused by name, leaves nothing behind, and the store goes on", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const before = await bench.store.verify()
  const sane = bench.now
  for (const wrong of [1e16, 1_800_000_000_000_000, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "x", undefined]) {
    bench.now = wrong as number
    const refused = [
      await bench.fails(Todos.add({ goal: goal.id, title: "t" })),
      await bench.fails(Quota.status({ goal: goal.id }))
    ]
    for (const error of refused) assert.deepInclude(error, { code: "INVALID_INPUT", command: "now" })
    bench.now = sane
    assert.deepEqual(await bench.store.verify(), before)
    await bench.run(Quota.status({ goal: goal.id }))
  }
  await newTodo(bench, goal)
  assert.equal((await bench.store.journal({ after: before.entries, limit: 1 }))[0]!.at, sane)
})

test("G36 G52 a clock that goes a day further than the machine's own at once is refused, ends no lease, and is taken by whoever opens anew", async () => {
  const day = 24 * 3_600_000
  const directory = newDirectory()
  const wall = { now: 1_800_000_000_000 }
  const machine = { boot: "one", ms: 5_000 }
  const open = () => newBench({ directory, now: () => wall.now, monotonic: () => ({ ...machine }) })
  const bench = await open()
  const goal = await newGoal(bench, { usd: 1, windowMs: day })
  const { fence } = await hold(bench, await newTodo(bench, goal), "ada", { ttlMs: day })
  await bench.run(Quota.spend({ goal: goal.id, effectId: "e", spend: { usd: 1 } }))
  const before = await bench.store.verify()
  wall.now += day + 1
  const calls = [
    Leases.renew({ fence }),
    Todos.nextWork({ goal: goal.id, agent: "bob" }),
    Quota.reserve({ goal: goal.id, effectId: "f", bound: { usd: 1 } }),
    Quota.status({ goal: goal.id })
  ]
  for (const call of calls as readonly Effect.Effect<unknown, unknown, Authority>[]) {
    const refused = (await bench.fails(call)) as {
      readonly code: string
      readonly command: string
      readonly remedy: string
    }
    assert.deepInclude(refused, { code: "INVALID_INPUT", command: "now" })
    assert.include(refused.remedy, "open the authority again")
  }
  assert.deepEqual(await bench.store.verify(), before)
  // Corrected, it goes on as if nothing had been.
  wall.now -= day
  const { fence: renewed } = await bench.run(Leases.renew({ fence }))
  // Time that really passed is none of that, however much it was.
  wall.now += 30 * day
  machine.ms += 30 * day
  assert.equal(await leaseCode(bench, Leases.renew({ fence: renewed })), "LEASE_LOST:expired")
  // A day less a moment may be a correction; and whoever opens the store anew takes the clock as it is.
  wall.now += day - 1
  await newTodo(bench, goal)
  wall.now += 30 * day
  assert.deepInclude(await bench.fails(Quota.status({ goal: goal.id })), { code: "INVALID_INPUT" })
  await bench.store.close()
  await newTodo(await open(), goal)
})

test.runIf(existsSync("/proc/uptime"))(
  "G36 the machine's own clock is watched in the same way, through the presets too, and a clock of tests is not",
  async () => {
    const real = Date.now
    const shift = { ms: 0 }
    const spy = vi.spyOn(Date, "now").mockImplementation(() => real() + shift.ms)
    const open = Goals.open({ title: "g", budget: { usd: 1 } })
    try {
      await Effect.runPromise(
        Effect.gen(function* () {
          yield* open
          shift.ms = 48 * 3_600_000
          assert.deepInclude(yield* Effect.flip(open), { code: "INVALID_INPUT" })
          shift.ms = 0
          yield* open
        }).pipe(Effect.provide(layer({ directory: newDirectory() })))
      )
      const bench = await newBench()
      await bench.run(open)
      bench.now += 365 * 24 * 3_600_000
      await bench.run(open)
    } finally {
      spy.mockRestore()
    }
  }
)
