/** External effects in the authority: states, fences, what blocks what, and what a person may say. Rules: G10, G60 to G63. */
import { assert, describe, test } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
import {
  Acceptances,
  Effects,
  Evidence,
  Goals,
  type OperationKind,
  Settlements,
  Todos
} from "../../src/governance/index.ts"
import { loadFrontier } from "../../src/governance/Frontier.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const kind = (more: Partial<OperationKind> = {}): OperationKind => ({
  name: "move",
  readBack: "yes",
  retry: "unsafe",
  stop: "device",
  supervision: "none",
  ...more
})

const operation = { axis: "x", to: 40 }

const newEffect = async (bench: Bench, goal: string, more: { effect?: string } & Record<string, unknown> = {}) =>
  bench.run(
    Effects.plan({
      effect: "e1",
      goal,
      provider: "stage",
      kind: kind(),
      operation,
      summary: "move x to 40",
      ...more
    } as Parameters<typeof Effects.plan>[0])
  )

const scene = async (more: Record<string, unknown> = {}) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const effect = await newEffect(bench, goal.id, more)
  const dispatch = (id = "e1", extra: object = {}) => Effects.dispatch({ effect: id, operation, ...extra })
  return { bench, goal, effect, dispatch }
}

const lose = (bench: Bench, attempt = 1, effect = "e1") =>
  bench.run(Effects.answer({ effect, attempt, answer: "lost" }))

const seen = (bench: Bench, goal: string, role: "person" | "executor" = "person") =>
  bench.run(
    Evidence.record({
      goal,
      kind: "photo",
      digest: sha256("what was seen"),
      summary: "the display says 40",
      producer: { role, name: "mira" }
    })
  )

const types = async (bench: Bench): Promise<readonly string[]> =>
  (await bench.store.journal({ after: 0, limit: 1000 })).map((e) => e.type).filter((type) => type.startsWith("effect."))

describe("states", () => {
  test("G60 an effect goes from planned over dispatched to what its provider answered, each a fact of its own, and is then final", async () => {
    const { bench, effect, dispatch } = await scene()
    assert.deepInclude(effect, { state: "planned", attempts: 0, unresolved: false })
    assert.deepInclude(await bench.run(dispatch()), { state: "dispatched", attempts: 1, unresolved: true })
    const done = await bench.run(
      Effects.answer({ effect: "e1", attempt: 1, answer: "confirmed", summary: "at 40", receipt: "move-7" })
    )
    assert.deepInclude(done, { state: "confirmed", unresolved: false })
    assert.deepInclude(done.outcome, { by: "provider", who: "stage", receipt: "move-7" })
    assert.deepEqual(await types(bench), ["effect.planned", "effect.dispatched", "effect.confirmed"])
    for (const again of [
      dispatch(),
      Effects.answer({ effect: "e1", attempt: 1, answer: "refused" }),
      Effects.readBack({ effect: "e1", attempt: 1, found: "refused" }),
      Effects.abandon({ effect: "e1", by: "ada", reason: "changed my mind" })
    ]) {
      assert.deepInclude(await bench.fails(again), { _tag: "EffectState", state: "confirmed" })
    }
    assert.equal((await bench.run(Effects.get({ effect: "e1" }))).state, "confirmed")
  })

  test("G60 A3 a lost answer is unknown; only reading back or a person leads out of it, and silence concludes nothing", async () => {
    const { bench, dispatch } = await scene()
    await bench.run(dispatch())
    assert.deepInclude(await lose(bench), { state: "unknown", outcome: null, unresolved: true })
    assert.equal(
      (await bench.fails(Effects.answer({ effect: "e1", attempt: 1, answer: "confirmed" })))._tag,
      "EffectState"
    )
    for (const found of ["unavailable", "pending", "notFound"] as const) {
      const still = await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found }))
      assert.deepInclude(still, { state: "unknown", lastReadBack: found })
      assert.equal((await bench.fails(dispatch()))._tag, "RetryUnsafe")
    }
    const before = (await types(bench)).length
    await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "notFound" }))
    assert.equal((await types(bench)).length, before)
    const known = await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed", receipt: "move-7" }))
    assert.deepInclude(known, { state: "confirmed", unresolved: false })
    assert.equal(known.outcome?.by, "readBack")
  })

  test("G60 G63 a person resolves what is unknown, with a name and evidence that is not the executor's own", async () => {
    const { bench, goal, dispatch } = await scene()
    const say = (evidence: readonly string[]) =>
      Effects.resolve({ effect: "e1", outcome: "confirmed", person: "mira", reason: "I looked", evidence })
    const own = await seen(bench, goal.id, "executor")
    const evidence = await seen(bench, goal.id)
    assert.equal((await bench.fails(say([evidence.id])))._tag, "EffectState")
    await bench.run(dispatch())
    // It is being handed over by this very process: nobody can know yet.
    assert.equal((await bench.fails(say([evidence.id])))._tag, "EffectInFlight")
    await lose(bench)
    assert.equal((await bench.fails(say([])))._tag, "InvalidInput")
    assert.equal((await bench.fails(say([own.id])))._tag, "InvalidInput")
    assert.equal((await bench.fails(say(["evd_none"])))._tag, "NotFound")
    const known = await bench.run(say([own.id, evidence.id]))
    assert.deepInclude(known.outcome, {
      by: "person",
      who: "mira",
      summary: "I looked",
      evidence: [own.id, evidence.id]
    })
  })

  test("G63 a kind without read-back is confirmed by a person alone: its provider's word is a claim, and the effect stays unknown", async () => {
    const { bench, goal, dispatch } = await scene({ kind: kind({ readBack: "no", retry: "keyed" }) })
    await bench.run(dispatch())
    const claimed = await bench.run(Effects.answer({ effect: "e1", attempt: 1, answer: "confirmed" }))
    assert.deepInclude(claimed, { state: "unknown", claim: "confirmed", unresolved: true, outcome: null })
    assert.equal(
      (await bench.fails(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed" })))._tag,
      "InvalidInput"
    )
    // What is claimed to be done is not done again, keyed or not.
    assert.equal((await bench.fails(dispatch()))._tag, "RetryUnsafe")
    const { id } = await seen(bench, goal.id)
    const known = await bench.run(
      Effects.resolve({
        effect: "e1",
        outcome: "confirmed",
        person: "mira",
        reason: "the display says so",
        evidence: [id]
      })
    )
    assert.equal(known.state, "confirmed")
  })

  test("G60 only what certainly never happened is given up", async () => {
    const { bench, dispatch, goal } = await scene()
    const giveUp = (effect = "e1") => Effects.abandon({ effect, by: "ada", reason: "not wanted any more" })
    await newEffect(bench, goal.id, { effect: "e2" })
    assert.deepInclude(await bench.run(giveUp("e2")), { state: "refused", unresolved: false })
    assert.equal((await bench.fails(dispatch("e2")))._tag, "EffectState")
    await bench.run(dispatch())
    assert.equal((await bench.fails(giveUp()))._tag, "EffectState")
    await lose(bench)
    await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "notFound" }))
    assert.equal((await bench.fails(giveUp()))._tag, "EffectState")
    await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "notExecuted" }))
    assert.deepInclude((await bench.run(giveUp())).outcome, { by: "planner", who: "ada" })
  })
})

describe("one id, one operation", () => {
  test("G62 another operation, kind, provider, todo or order under an id is refused, at planning and before handing over", async () => {
    const { bench, goal } = await scene()
    assert.isTrue((await newEffect(bench, goal.id)).replayed)
    await newEffect(bench, goal.id, { effect: "e0" })
    const todo = await newTodo(bench, goal)
    for (const other of [
      { operation: { axis: "x", to: 41 } },
      { kind: kind({ name: "home" }) },
      { provider: "other" },
      { todo: todo.id },
      { after: ["e0"] }
    ]) {
      const error = await bench.fails(
        Effects.plan({ effect: "e1", goal: goal.id, provider: "stage", kind: kind(), operation, summary: "", ...other })
      )
      assert.deepInclude(error, { _tag: "IdentityConflict", kind: "effect", id: "e1" })
    }
    const error = await bench.fails(Effects.dispatch({ effect: "e1", operation: { axis: "x", to: 41 } }))
    assert.equal(error._tag, "IdentityConflict")
    assert.equal((await bench.run(Effects.get({ effect: "e1" }))).attempts, 0)
    assert.equal((await bench.fails(Effects.dispatch({ effect: "none", operation })))._tag, "NotFound")
  })

  test("G62 G6 the operation itself is not kept, and what may not be public is refused", async () => {
    const { bench, goal, effect } = await scene({ operation: { card: "a secret" } })
    assert.match(effect.operation, /^sha256:[0-9a-f]{64}$/)
    assert.notInclude(JSON.stringify(await bench.store.journal({ after: 0, limit: 100 })), "a secret")
    const error = await bench.fails(
      Effects.plan({ effect: "e9", goal: goal.id, provider: "p", kind: kind(), operation, summary: "see /home/me/x" })
    )
    assert.equal(error._tag, "NotPublic")
    const odd = Effects.plan({
      effect: "e9",
      goal: goal.id,
      provider: "p",
      kind: kind(),
      operation: Number.NaN,
      summary: ""
    })
    assert.equal((await bench.fails(odd))._tag, "InvalidInput")
  })

  test("G63 what a kind declared when the effect was planned holds, whatever the provider declares later", async () => {
    const { bench, goal, dispatch } = await scene()
    await bench.run(dispatch())
    await lose(bench)
    const again = await newEffect(bench, goal.id, { kind: kind({ retry: "safe" }) })
    assert.equal(again.declared.retry, "unsafe")
    assert.equal((await bench.fails(dispatch()))._tag, "RetryUnsafe")
  })
})

describe("handing over again", () => {
  for (const [retry, allowed] of [
    ["safe", true],
    ["keyed", true],
    ["unsafe", false]
  ] as const) {
    test(`G63 an unknown effect of kind ${retry} is ${allowed ? "" : "not "}handed over again under its id`, async () => {
      const { bench, dispatch } = await scene({ kind: kind({ retry }) })
      await bench.run(dispatch())
      assert.equal((await bench.fails(dispatch()))._tag, "EffectInFlight")
      await lose(bench)
      if (!allowed) {
        assert.equal((await bench.fails(dispatch()))._tag, "RetryUnsafe")
        // The provider vouches, which is more than not having found it.
        await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "notExecuted" }))
        await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "unavailable" }))
      }
      assert.deepInclude(await bench.run(dispatch()), { state: "dispatched", attempts: 2, lastReadBack: null })
      // What is said of the first attempt says nothing of the second.
      assert.equal(
        (await bench.fails(Effects.answer({ effect: "e1", attempt: 1, answer: "refused" })))._tag,
        "EffectState"
      )
      const stale = Effects.readBack({ effect: "e1", attempt: 1, found: "notExecuted" })
      assert.equal((await bench.fails(stale))._tag, "EffectState")
    })

    test(`G63 G61 an equal operation under another id ${retry === "safe" ? "passes" : "waits"} while the fate of one of kind ${retry} is unknown`, async () => {
      const { bench, goal, dispatch } = await scene({ kind: kind({ retry }) })
      await bench.run(dispatch())
      await lose(bench)
      await newEffect(bench, goal.id, { effect: "e2", kind: kind({ retry }) })
      if (retry === "safe") assert.equal((await bench.run(dispatch("e2"))).state, "dispatched")
      else {
        const error = await bench.fails(dispatch("e2"))
        assert.equal(error._tag, "EffectBlocked")
        assert.deepEqual((error as { waits?: unknown }).waits, [
          { effect: "e1", state: "unknown", why: "sameOperation" }
        ])
        await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed" }))
        assert.equal((await bench.run(dispatch("e2"))).state, "dispatched")
      }
    })
  }
})

describe("one operation under two ids, and what a later attempt is told", () => {
  test("G63 G61 an equal unsafe operation under another id waits while the first is being handed over, not only once its fate is unknown", async () => {
    const { bench, goal, dispatch } = await scene({ kind: kind({ readBack: "no" }) })
    await newEffect(bench, goal.id, { effect: "e2", kind: kind({ readBack: "no" }) })
    await bench.run(dispatch())
    const error = await bench.fails(dispatch("e2"))
    assert.deepInclude(error, { _tag: "EffectBlocked", effect: "e2" })
    assert.deepEqual((error as { waits?: unknown }).waits, [
      { effect: "e1", state: "dispatched", why: "sameOperation" }
    ])
    await bench.run(Effects.answer({ effect: "e1", attempt: 1, answer: "refused" }))
    assert.equal((await bench.run(dispatch("e2"))).state, "dispatched")
  })

  test("G60 G61 a refusal of a later attempt does not say that an earlier one was not carried out: it stays unknown, as a claim", async () => {
    const safe = { readBack: "no", retry: "safe", stop: "none" } as const
    const { bench, goal, dispatch } = await scene({ kind: kind(safe) })
    await bench.run(dispatch())
    await lose(bench)
    assert.isTrue((await bench.run(dispatch())).earlierOpen)
    const told = await bench.run(
      Effects.answer({ effect: "e1", attempt: 2, answer: "refused", summary: "already open" })
    )
    assert.deepInclude(told, { state: "unknown", claim: "refused", outcome: null, unresolved: true })
    // Asking the same again gives the same: a person looks.
    assert.equal((await bench.fails(dispatch()))._tag, "RetryUnsafe")
    const closing = Goals.complete({ goal: goal.id, closure: { reason: "done" } })
    assert.equal((await bench.fails(closing))._tag, "FrontierNotEmpty")
    const { id } = await seen(bench, goal.id)
    const said = { effect: "e1", outcome: "confirmed", person: "mira", reason: "it is open", evidence: [id] } as const
    assert.equal((await bench.run(Effects.resolve(said))).state, "confirmed")
    assert.equal((await bench.run(closing)).state, "completed")
  })

  for (const [name, retry, first] of [
    ["of a keyed kind", "keyed", "notFound"],
    ["after its provider vouched that no earlier attempt was carried out", "unsafe", "notExecuted"]
  ] as const) {
    test(`G60 G63 a refusal ${name} is final at whatever attempt`, async () => {
      const { bench, dispatch } = await scene({ kind: kind({ retry }) })
      await bench.run(dispatch())
      await lose(bench)
      await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: first }))
      await bench.run(dispatch())
      assert.equal((await bench.run(Effects.answer({ effect: "e1", attempt: 2, answer: "refused" }))).state, "refused")
    })
  }
})

describe("calls of no sense", () => {
  test("G62 planning and handing over without an input, a kind or an id are refusals of the call, and nothing is kept", async () => {
    const { bench, goal } = await scene()
    const before = (await types(bench)).length
    const none = [undefined, null, 7] as unknown as Parameters<typeof Effects.plan>[0][]
    const plain = { effect: "e5", goal: goal.id, provider: "p", operation, summary: "" }
    for (const kind of [undefined, null, "move", {}]) none.push({ ...plain, kind } as never)
    none.push(
      { ...plain, kind: kind(), provider: undefined } as never,
      { ...plain, kind: kind(), operation: undefined } as never
    )
    for (const input of none) assert.equal((await bench.fails(Effects.plan(input)))._tag, "InvalidInput")
    for (const input of [undefined, null, 7, {}, { operation }, { effect: 7, operation }, { effect: "e1" }]) {
      assert.equal((await bench.fails(Effects.dispatch(input as never)))._tag, "InvalidInput")
    }
    assert.equal((await types(bench)).length, before)
  })
})

describe("what is refused, and what is held up", () => {
  test("G10 a paused or stopped goal plans and hands over nothing; what becomes known is recorded all the same", async () => {
    const { bench, goal, dispatch } = await scene()
    await newEffect(bench, goal.id, { effect: "e2", operation: { axis: "y", to: 1 } })
    await bench.run(dispatch())
    for (const change of [Goals.pause, Goals.stop]) {
      await bench.run(change({ goal: goal.id }))
      const later = Effects.dispatch({ effect: "e2", operation: { axis: "y", to: 1 } })
      assert.equal((await bench.fails(later))._tag, "GoalNotActive")
      const planned = Effects.plan({ effect: "e3", goal: goal.id, provider: "p", kind: kind(), operation, summary: "" })
      assert.equal((await bench.fails(planned))._tag, "GoalNotActive")
    }
    await lose(bench)
    assert.equal(
      (await bench.run(Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" }))).stop?.state,
      "requested"
    )
    assert.equal(
      (await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed" }))).state,
      "confirmed"
    )
    await bench.run(Goals.resume({ goal: goal.id }))
    assert.equal(
      (await bench.run(Effects.dispatch({ effect: "e2", operation: { axis: "y", to: 1 } }))).state,
      "dispatched"
    )
  })

  test("G35 an effect of a todo is handed over only under the fence of its live lease", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const todo = await newTodo(bench, goal)
    const lease = await hold(bench, todo, "ada", { ttlMs: 1000 })
    const planned = {
      effect: "e1",
      goal: goal.id,
      todo: todo.id,
      provider: "stage",
      kind: kind(),
      operation,
      summary: ""
    }
    assert.equal((await bench.fails(Effects.plan(planned)))._tag, "LeaseHeld")
    await bench.run(Effects.plan({ ...planned, fence: lease.fence }))
    const bare = await bench.fails(Effects.dispatch({ effect: "e1", operation }))
    assert.deepInclude(bare, { _tag: "LeaseLost", why: "none" })
    const forged = Effects.dispatch({ effect: "e1", operation, fence: { ...lease.fence, token: "guessed" } })
    assert.deepInclude(await bench.fails(forged), { _tag: "LeaseLost", why: "token" })
    bench.now += 1000
    const late = Effects.dispatch({ effect: "e1", operation, fence: lease.fence })
    assert.deepInclude(await bench.fails(late), { _tag: "LeaseLost", why: "expired" })
    const next = await hold(bench, todo, "bob")
    const sent = await bench.run(Effects.dispatch({ effect: "e1", operation, fence: next.fence }))
    assert.deepInclude(sent, { state: "dispatched", agent: "bob" })
  })

  test("G63 a kind under supervision is handed over only with the name of who watches", async () => {
    const { bench, dispatch } = await scene({ kind: kind({ supervision: "required" }) })
    assert.equal((await bench.fails(dispatch()))._tag, "SupervisionRequired")
    assert.equal((await bench.run(dispatch("e1", { supervisor: "mira" }))).supervisor, "mira")
  })

  test("G61 what comes after an effect waits until that one is confirmed, and its stop, too, if one was asked for", async () => {
    const { bench, goal, dispatch } = await scene()
    const second = { axis: "y", to: 2 }
    await newEffect(bench, goal.id, { effect: "e2", operation: second, after: ["e1"] })
    const next = Effects.dispatch({ effect: "e2", operation: second })
    const waits = async () => ((await bench.fails(next)) as { waits?: readonly { state: string }[] }).waits?.[0]?.state
    assert.equal(await waits(), "planned")
    await bench.run(dispatch())
    assert.equal(await waits(), "dispatched")
    await lose(bench)
    assert.equal(await waits(), "unknown")
    await bench.run(Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" }))
    await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed" }))
    assert.equal(await waits(), "confirmed")
    await bench.run(Effects.confirmStopped({ effect: "e1", by: "device", seen: "stopped", who: "stage" }))
    assert.equal((await bench.run(next)).state, "dispatched")
    const unknown = Effects.plan({
      effect: "e3",
      goal: goal.id,
      provider: "p",
      kind: kind(),
      operation,
      summary: "",
      after: ["nope"]
    })
    assert.equal((await bench.fails(unknown))._tag, "NotFound")
  })

  test("G12 a goal is not completed over an effect that is planned: it is handed over, or given up", async () => {
    const { bench, goal } = await scene()
    const closing = Goals.complete({ goal: goal.id, closure: { reason: "done" } })
    const refused = await bench.fails(closing)
    assert.deepEqual((refused as { parts?: unknown }).parts, [{ kind: "plannedEffect", count: 1, ids: ["e1"] }])
    await bench.run(Effects.abandon({ effect: "e1", by: "mira", reason: "not needed" }))
    assert.equal((await bench.run(closing)).state, "completed")
  })

  test("G61 G12 while an effect is unknown its todo is neither completed nor settled as accepted, and its goal's frontier names it", async () => {
    const bench = await newBench()
    const goal = await newGoal(bench)
    const todo = await newTodo(bench, goal)
    const { fence } = await hold(bench, todo)
    const frontier = async () => {
      const { value } = await bench.store.read(({ now }) => loadFrontier(goal.id, now))
      return value.filter((part) => part.kind === "effect").map((part) => part.ids)
    }
    await newEffect(bench, goal.id, { todo: todo.id, fence })
    assert.deepEqual(await frontier(), [])
    await bench.run(Effects.dispatch({ effect: "e1", operation, fence }))
    await lose(bench)
    assert.deepEqual(await frontier(), [["e1"]])
    const complete = Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } })
    const refused = await bench.fails(complete)
    assert.deepInclude(refused, { _tag: "EffectUnresolved", id: todo.id })
    const verdict = await bench.run(
      Acceptances.record({
        goal: goal.id,
        todo: todo.id,
        candidate: null,
        validator: { name: "callback", digestBefore: sha256("v"), digestAfter: sha256("v") },
        outcome: "passed",
        evidence: [(await seen(bench, goal.id)).id]
      })
    )
    const settle = (outcome: "accepted" | "progress", effectId: string) =>
      Settlements.settle({
        effectId,
        goal: goal.id,
        fence,
        outcome,
        evidence: [],
        acceptance: verdict.id,
        spend: { usd: 0 },
        todo: outcome === "accepted" ? { action: "complete", continuation: { kind: "noFollowUp" } } : { action: "keep" }
      })
    assert.equal((await bench.fails(settle("accepted", "s1")))._tag, "EffectUnresolved")
    // What the work came to so far is not held up, and neither is its cost.
    assert.equal((await bench.run(settle("progress", "s0"))).accepted, false)
    await bench.run(Effects.readBack({ effect: "e1", attempt: 1, found: "confirmed" }))
    assert.deepEqual(await frontier(), [])
    assert.equal((await bench.run(settle("accepted", "s1"))).todoState, "done")
  })
})

describe("stopping", () => {
  test("G61 a cancelled model, an ended process and a device that stands still are three facts, and none stands for another", async () => {
    const { bench, goal, dispatch } = await scene()
    const stop = Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" })
    assert.equal((await bench.fails(stop))._tag, "EffectState")
    await bench.run(dispatch())
    await bench.run(Effects.answer({ effect: "e1", attempt: 1, answer: "confirmed" }))
    const device = (seen: "stopped" | "moving" | "unknown") =>
      Effects.confirmStopped({ effect: "e1", by: "device", seen, who: "stage" })
    assert.equal((await bench.fails(device("stopped")))._tag, "EffectState")
    await bench.run(Effects.noteEnded({ effect: "e1", what: "model", by: "ada", summary: "cancelled" }))
    const ended = await bench.run(Effects.noteEnded({ effect: "e1", what: "process", by: "kernel", summary: "exit 0" }))
    assert.deepInclude(ended, { state: "confirmed", stop: null, unresolved: false })
    assert.deepInclude(await bench.run(stop), { state: "confirmed", unresolved: true })
    assert.isTrue((await bench.run(stop)).replayed)
    assert.equal((await bench.run(device("moving"))).stop?.state, "unknown")
    const { unresolved, ended: facts } = await bench.run(device("unknown"))
    assert.isTrue(unresolved)
    assert.deepEqual([facts.model?.by, facts.process?.by], ["ada", "kernel"])
    assert.deepEqual(
      (await bench.run(Effects.unresolved({ goal: goal.id }))).items.map((e) => e.id),
      ["e1"]
    )
    assert.deepEqual(
      (await bench.run(Effects.unresolved({ provider: "stage" }))).items.map((e) => e.id),
      ["e1"]
    )
    const still = await bench.run(device("stopped"))
    assert.deepInclude(still.stop, { state: "confirmed", confirmedBy: "device", who: "stage" })
    assert.isFalse(still.unresolved)
    assert.deepEqual((await types(bench)).slice(3), [
      "effect.modelCancelled",
      "effect.processEnded",
      "effect.stopRequested",
      "effect.stopUnknown",
      "effect.stopConfirmed"
    ])
  })

  test("G61 G63 an effect that is being stopped is never handed over again, whatever its kind allows", async () => {
    const { bench, dispatch } = await scene({ kind: kind({ retry: "safe" }) })
    await bench.run(dispatch())
    await lose(bench)
    await bench.run(Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" }))
    assert.equal((await bench.fails(dispatch()))._tag, "EffectState")
  })

  test("G63 where a person confirms a stop the device's word does not, and a kind that is over at once cannot be stopped", async () => {
    const { bench, goal, dispatch } = await scene({ kind: kind({ stop: "person" }) })
    await bench.run(dispatch())
    await bench.run(Effects.requestStop({ effect: "e1", by: "mira", reason: "enough" }))
    const by = (who: "device" | "person", evidence: readonly string[]) =>
      Effects.confirmStopped({
        effect: "e1",
        by: who,
        seen: "stopped",
        who: "mira",
        ...(evidence.length === 0 ? {} : { evidence })
      })
    assert.equal((await bench.fails(by("device", [])))._tag, "InvalidInput")
    assert.equal((await bench.fails(by("person", [])))._tag, "InvalidInput")
    const { id } = await seen(bench, goal.id)
    assert.deepInclude((await bench.run(by("person", [id]))).stop, { state: "confirmed", confirmedBy: "person" })

    await newEffect(bench, goal.id, { effect: "pay", operation: { eur: 5 }, kind: kind({ name: "pay", stop: "none" }) })
    await bench.run(Effects.dispatch({ effect: "pay", operation: { eur: 5 } }))
    const stop = Effects.requestStop({ effect: "pay", by: "mira", reason: "enough" })
    assert.equal((await bench.fails(stop))._tag, "InvalidInput")
  })
})
