/** The operations driver against real devices in processes of their own, over a line that loses things. Rules: G60 to G63, A3. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { afterEach, assert, test } from "vitest"
import {
  type Connected,
  connectPayments,
  connectStage,
  type LossOf
} from "../../examples/external-operation/providers.ts"
import { readLog, switchOff } from "../../examples/external-operation/wire.ts"
import { sha256 } from "../../src/base/Digest.ts"
import {
  type Authority,
  type EffectRecord,
  Effects,
  Evidence,
  Goals,
  type OperationProvider
} from "../../src/governance/index.ts"
import { activate, type Operations, type OperationsOptions } from "../../src/session/index.ts"
import { newScene, type Scene } from "./scene.ts"
import { oneFile } from "../oneFile.ts"

const places: string[] = []
afterEach(async () => {
  for (const place of places.splice(0)) for (const name of ["stage", "payments"]) await switchOff(place, name)
})

// The stage stands still about 30 ms after it was told to: a quarter of a second is asked for.
const quick: OperationsOptions = { backoff: 1, times: 8 }

interface Ground {
  readonly scene: Scene
  readonly device: Connected
  /** How often the device did the effect, by its own log. */
  readonly done: (name?: string) => number
  readonly spec: (name?: string, more?: object) => Parameters<Operations["run"]>[0]
  /** Activates the device for as long as `work` takes. */
  readonly using: <A, E>(
    work: (operations: Operations) => Effect.Effect<A, E, Authority>,
    options?: OperationsOptions
  ) => Promise<A>
  readonly usingProvider: <A, E>(
    provider: OperationProvider,
    work: (operations: Operations) => Effect.Effect<A, E, Authority>
  ) => Promise<A>
}

const ground = async (name: "stage" | "payments", lossOf?: LossOf): Promise<Ground> => {
  const scene = await newScene()
  const place = join(scene.place, "devices")
  mkdirSync(place)
  places.push(place)
  const device = await (name === "stage" ? connectStage : connectPayments)(place, lossOf)
  const kind = name === "stage" ? "move" : "pay"
  const operation = name === "stage" ? { by: 10 } : { eur: 5 }
  const usingProvider: Ground["usingProvider"] = (provider, work) =>
    scene.run(Effect.scoped(Effect.flatMap(activate(Effect.succeed(provider), quick), work)))
  return {
    scene,
    device,
    done: (effect = "e1") =>
      readLog(place, name).filter((entry) => entry.what === "executed" && entry.effect === effect).length,
    spec: (effect = "e1", more = {}) => ({
      effect,
      goal: scene.goal,
      todo: scene.todo,
      fence: scene.fence,
      kind,
      operation,
      summary: kind,
      ...more
    }),
    using: (work, options = quick) =>
      scene.run(Effect.scoped(Effect.flatMap(activate(Effect.succeed(device.provider), options), work))),
    usingProvider
  }
}

const first =
  (loss: "request" | "reply" | "late"): LossOf =>
  ({ attempt }) =>
    attempt === 1 ? loss : "none"

/** The tag of what an effect that must fail fails with. */
const tagOf = <A, R>(effect: Effect.Effect<A, { readonly _tag: string }, R>): Effect.Effect<string, never, R> =>
  Effect.match(effect, { onSuccess: () => "ok", onFailure: ({ _tag }) => _tag })

test("G60 G61 V9 a lost reply is read back: known, done once, and told with the same answer when it is run again", async () => {
  const { using, spec, done, scene } = await ground("stage", first("reply"))
  const known = await using(({ run }) => run(spec()))
  assert.deepInclude(known, { state: "confirmed", attempts: 1 })
  assert.equal(known.outcome?.by, "readBack")
  assert.equal((await using(({ run }) => run(spec()))).state, "confirmed")
  assert.equal(done(), 1)
  assert.deepEqual(
    (await scene.journal("effect.")).map(({ type }) => type),
    ["effect.planned", "effect.dispatched", "effect.unknown", "effect.confirmed"]
  )
})

test("G61 G63 an unsafe operation whose request was lost is done by a second attempt, once the device vouches for the first: arriving late, that one is refused", async () => {
  const { using, spec, done, device } = await ground("stage", first("late"))
  const known = await using(({ run }) => run(spec()))
  assert.deepInclude(known, { state: "confirmed", attempts: 2 })
  await device.line.ask({ verb: "deliver" })
  assert.equal(done(), 1)
})

test("G63 a keyed operation that was not found is sent again under its key: the first request, arriving late, does nothing", async () => {
  const { using, spec, done, device } = await ground("payments", first("late"))
  const known = await using(({ run }) => run(spec()))
  assert.deepInclude(known, { state: "confirmed", attempts: 2 })
  await device.line.ask({ verb: "deliver" })
  assert.equal(done(), 1)
})

test("G61 A3 with the line cut the effect stays unknown and is not sent again; whoever activates the provider later reads it back", async () => {
  const { using, spec, done, device } = await ground("stage", () => {
    // The request arrives; from then on nothing gets through.
    queueMicrotask(() => {
      device.line.cut = true
    })
    return "reply"
  })
  const still = await using(({ run }) => run(spec()))
  assert.deepInclude(still, { state: "unknown", lastReadBack: "unavailable", attempts: 1, unresolved: true })
  const again = await using(({ run, recovered }) =>
    Effect.map(run(spec()), (effect) => ({ effect, recovered: recovered.map(({ state }) => state) }))
  )
  assert.deepEqual([again.recovered, again.effect.state, again.effect.attempts], [["unknown"], "unknown", 1])
  device.line.cut = false
  const recovered = await using((operations) => Effect.succeed(operations.recovered))
  assert.deepEqual(
    recovered.map(({ id, state, outcome }) => [id, state, outcome?.by]),
    [["e1", "confirmed", "readBack"]]
  )
  assert.equal(done(), 1)
})

test("G63 a kind without read-back stays unknown whatever its provider answers, until a person says; its provider is not let go before", async () => {
  const { using, spec, done, scene } = await ground("payments")
  await using(({ run, deactivate }) =>
    Effect.gen(function* () {
      const letter = yield* run(spec("e1", { kind: "letter", operation: { to: "lab" } }))
      assert.deepInclude(letter, { state: "unknown", claim: "confirmed", attempts: 1 })
      assert.equal((yield* run(spec("e1", { kind: "letter", operation: { to: "lab" } }))).attempts, 1)
      const busy = yield* Effect.flip(deactivate)
      assert.deepInclude(busy, { _tag: "ProviderBusy", code: "PROVIDER_BUSY" })
      assert.deepEqual((busy as { effects?: readonly string[] }).effects, ["e1"])
      const evidence = yield* Evidence.record({
        goal: scene.goal,
        kind: "photo",
        digest: sha256("photo"),
        summary: "the letter",
        producer: { role: "person", name: "mira" }
      })
      yield* Effects.resolve({
        effect: "e1",
        outcome: "confirmed",
        person: "mira",
        reason: "it arrived",
        evidence: [evidence.id]
      })
      yield* deactivate
      assert.equal(yield* tagOf(run(spec("e2"))), "ProviderInactive")
      assert.equal(yield* tagOf(deactivate), "ProviderInactive")
    })
  )
  assert.equal(done(), 1)
})

test("G61 G63 a provider is acquired when it is activated and released when it is let go, and nothing of it is there before", async () => {
  const { scene, device } = await ground("stage")
  const told: string[] = []
  const acquire = Effect.acquireRelease(
    Effect.sync(() => {
      told.push("acquired")
      return device.provider
    }),
    () => Effect.sync(() => told.push("released"))
  )
  const activation = activate(acquire, quick)
  assert.deepEqual(told, [])
  await scene.run(
    Effect.scoped(
      Effect.gen(function* () {
        const { deactivate } = yield* activation
        assert.deepEqual(told, ["acquired"])
        yield* deactivate
        assert.deepEqual(told, ["acquired", "released"])
      })
    )
  )
  assert.deepEqual(told, ["acquired", "released"])
  assert.deepEqual(await scene.journal("effect."), [])
})

test("G63 an interlock keeps the operation from starting, and one that cannot be read counts as engaged", async () => {
  const { using, spec, done, device } = await ground("stage")
  const scan = spec("e1", { kind: "scan", operation: {}, supervisor: "mira" })
  await using(({ run, stop, deactivate }) =>
    Effect.gen(function* () {
      const engaged = yield* Effect.flip(run(scan))
      assert.equal(engaged._tag, "InterlockEngaged")
      assert.deepEqual((engaged as { interlocks?: unknown }).interlocks, [{ name: "door", reason: "the door is open" }])
      // It concerns scans and nothing else.
      assert.equal((yield* run(spec("e2"))).state, "confirmed")
      yield* Effect.promise(() => device.line.ask({ verb: "door", open: false }))
      device.line.cut = true
      assert.equal(yield* tagOf(run(scan)), "InterlockEngaged")
      device.line.cut = false
      assert.equal((yield* Effects.get({ effect: "e1" })).attempts, 0)
      assert.equal(yield* tagOf(run(spec("e3", { kind: "scan", operation: {} }))), "SupervisionRequired")
      assert.equal((yield* run(scan)).state, "confirmed")
      yield* stop({ effect: "e1", by: "mira", reason: "enough" })
      yield* deactivate
    })
  )
  assert.equal(done(), 1)
})

test("G61 a stop is confirmed by the device alone: unknown while it cannot be heard, and asked for again by the next activation", async () => {
  const { using, spec, done, device } = await ground("stage")
  await device.line.ask({ verb: "door", open: false })
  await using(({ run }) => run(spec("e1", { kind: "scan", operation: {}, supervisor: "mira" })))
  const stopping = await using(({ stop, deactivate }) =>
    Effect.gen(function* () {
      device.line.cut = true
      const stopping = yield* stop({ effect: "e1", by: "mira", reason: "enough" })
      assert.equal(yield* tagOf(deactivate), "ProviderBusy")
      return stopping
    })
  )
  assert.deepInclude(stopping.stop, { state: "unknown", confirmedBy: null })
  assert.deepInclude(stopping, { state: "confirmed", unresolved: true })
  device.line.cut = false
  // Seen to move at first: repeated until it stands still.
  const recovered = await using(({ recovered, deactivate }) => Effect.as(deactivate, recovered), {
    backoff: 20,
    times: 8
  })
  assert.deepEqual(
    recovered.map(({ stop }) => [stop?.state, stop?.confirmedBy]),
    [["confirmed", "device"]]
  )
  assert.equal(done(), 1)
})

test("G60 G61 A3 an interrupted call leaves the effect unknown, the provider is told, and the next run reads back before anything else", async () => {
  const { usingProvider, using, spec, done, device, scene } = await ground("stage")
  let told = 0
  const interrupted = await usingProvider(
    {
      ...device.provider,
      dispatch: (call) =>
        Effect.andThen(device.provider.dispatch(call), Effect.never).pipe(
          Effect.onInterrupt(() =>
            Effect.sync(() => {
              told += 1
            })
          )
        )
    },
    ({ run }) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(run(spec()))
        while (done() === 0) yield* Effect.sleep(1)
        assert.equal(yield* tagOf(run(spec())), "EffectInFlight")
        yield* Fiber.interrupt(fiber)
        return yield* Effects.get({ effect: "e1" })
      })
  )
  assert.deepInclude(interrupted, { state: "unknown", attempts: 1 })
  assert.equal(told, 1)
  const known = await using(({ run }) => run(spec()))
  assert.deepInclude(known, { state: "confirmed", attempts: 1 })
  assert.equal(done(), 1)
  assert.equal((await scene.journal("effect.unknown")).length, 1)
})

test("G61 A3 a provider that throws, dies, answers nonsense or never answers has given no answer", async () => {
  const { usingProvider, spec, device } = await ground("payments")
  const odd: readonly OperationProvider["dispatch"][] = [
    () => {
      throw new Error("a bug")
    },
    () => Effect.die("a bug"),
    () => Effect.succeed({ state: "done" } as never),
    () => Effect.succeed(undefined as never)
  ]
  for (const [index, dispatch] of odd.entries()) {
    const readBack: OperationProvider["readBack"] = () => dispatch(undefined as never) as never
    const effect = await usingProvider({ ...device.provider, dispatch, readBack }, ({ run }) =>
      run(spec(`e${index}`, { operation: { eur: index } }))
    )
    assert.deepInclude(effect, { state: "unknown", lastReadBack: "unavailable", attempts: 1 })
  }
})

test("G60 one that says no is believed, and what a provider says becomes public only as far as it may", async () => {
  const { using, usingProvider, spec, done, device } = await ground("payments")
  const refused = await using(({ run }) => run(spec("e1", { operation: { eur: 5000 } })))
  assert.deepInclude(refused, { state: "refused", unresolved: false })
  assert.equal(refused.outcome?.summary, "above the limit")
  const answer = { state: "confirmed", summary: "see /home/pay/17", receipt: `Bearer ${"x".repeat(30)}` } as const
  const told = await usingProvider({ ...device.provider, dispatch: () => Effect.succeed(answer) }, ({ run }) =>
    run(spec("e2"))
  )
  assert.deepInclude(told.outcome, { summary: "see …/17", receipt: "not for the public" })
  assert.deepEqual([done("e1"), done("e2")], [0, 0])
})

test("G62 another operation under a known id never reaches the provider, and neither does an unknown kind", async () => {
  const { using, spec, done } = await ground("payments")
  await using(({ run }) =>
    Effect.gen(function* () {
      yield* run(spec())
      assert.equal(yield* tagOf(run(spec("e1", { operation: { eur: 6 } }))), "IdentityConflict")
      assert.equal(yield* tagOf(run(spec("e2", { kind: "refund" }))), "UnknownOperation")
    })
  )
  assert.equal(done(), 1)
})

test("G10 a goal that is paused between two attempts gets no second one; what is known of the first stays", async () => {
  const { usingProvider, spec, done, device, scene } = await ground("payments", first("request"))
  const pausing: OperationProvider = {
    ...device.provider,
    readBack: (call) =>
      Effect.tap(device.provider.readBack(call), () =>
        Effect.promise(() => scene.run(Goals.pause({ goal: scene.goal })))
      )
  }
  const tag = await usingProvider(pausing, ({ run }) => tagOf(run(spec())))
  assert.equal(tag, "GoalNotActive")
  assert.deepInclude(await scene.run(Effects.get({ effect: "e1" })), {
    state: "unknown",
    lastReadBack: "notFound",
    attempts: 1
  })
  assert.equal(done(), 0)
})

test("G61 two calls for one effect hand it over once: the other is told that it is in flight, and the first is not disturbed", async () => {
  const { usingProvider, spec, done, device } = await ground("stage")
  const effects = await usingProvider(device.provider, ({ run }) =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const slow: OperationProvider = {
        ...device.provider,
        dispatch: (call) => Effect.andThen(Deferred.await(gate), device.provider.dispatch(call))
      }
      return yield* Effect.scoped(
        Effect.gen(function* () {
          const other = yield* activate(Effect.succeed(slow), quick)
          const fiber = yield* Effect.forkChild(other.run(spec()))
          let found: EffectRecord | undefined
          while (found?.state !== "dispatched") {
            yield* Effect.sleep(1)
            found = yield* Effect.orElseSucceed(Effects.get({ effect: "e1" }), () => undefined)
          }
          assert.equal(yield* tagOf(run(spec())), "EffectInFlight")
          assert.equal(yield* tagOf(other.deactivate), "ProviderBusy")
          yield* Deferred.succeed(gate, undefined)
          return yield* Fiber.join(fiber)
        })
      )
    })
  )
  assert.deepInclude(effects, { state: "confirmed", attempts: 1 })
  assert.equal(done(), 1)
})

test("G61 A3 while another process hands an effect over nobody says that it did not happen; once that process is dead it is read back", async () => {
  const { using, spec, done, scene } = await ground("stage")
  const program = await oneFile(join(import.meta.dirname, "programs", "hangingOperation.ts"))
  const child = spawn(process.execPath, [program, join(scene.place, "store"), JSON.stringify(spec())], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  await once(child.stdout, "data")
  const seen = await using(({ run, recovered, readBack }) =>
    Effect.gen(function* () {
      return {
        recovered: recovered.map(({ state }) => state),
        run: yield* tagOf(run(spec())),
        readBack: yield* tagOf(readBack({ effect: "e1" }))
      }
    })
  )
  assert.deepEqual(seen, { recovered: ["dispatched"], run: "EffectInFlight", readBack: "EffectInFlight" })
  child.kill("SIGKILL")
  await once(child, "close")
  const known = await using(({ run }) => run(spec()))
  assert.deepInclude(known, { state: "confirmed", attempts: 2 })
  assert.equal(done(), 1)
})
