/** What becomes of an external effect: answers, read-backs, a person's word, stops; decided from its record alone. Rules: G60, G61, G63, G70. */
import { assert, test } from "vitest"
import type { EffectRecord } from "../../../src/governance/EffectRecord.ts"
import { effectHandlers } from "../../../src/governance/ExternalEffect.ts"
import { Effects } from "../../../src/governance/index.ts"
import { newBench, newGoal } from "../authority.ts"
import { decideBy, loadBy } from "./decide.ts"
import { now } from "./records.ts"
import { dead, effectAt, evidence, kind, mine, observers, stopOf } from "./workRecords.ts"

const decide = decideBy(effectHandlers)
const load = loadBy(effectHandlers)
const states = ["planned", "dispatched", "confirmed", "refused", "unknown"] as const

// --- answers ---------------------------------------------------------------------------------------------------------

const outcome = (by: "provider" | "readBack", more: object = {}) => ({
  by,
  who: "stage",
  summary: "",
  receipt: null,
  evidence: [],
  at: now,
  ...more
})

test("G60 G63 an answer counts for the attempt that it is about, from the process that asked, over every kind", () => {
  const answer = (record: EffectRecord, payload: object, observed: object | undefined = mine) =>
    decide("answerEffect", record, { effect: "effect-a", attempt: 2, answer: "confirmed", ...payload }, observed)
  for (const state of states)
    assert.equal(answer(effectAt(state), {}).refused, state === "dispatched" ? undefined : "EffectState", state)
  for (const attempt of [1, 3])
    assert.match(answer(effectAt("dispatched"), { attempt }).error["remedy"], /earlier attempt/)
  for (const { name, observed, ...in_ } of observers) {
    const got = decide(
      "answerEffect",
      effectAt("dispatched"),
      { effect: "effect-a", attempt: 2, answer: "lost" },
      observed
    )
    assert.equal(got.refused, name === "mine" ? undefined : name === "dead" ? "EffectState" : "EffectInFlight", name)
    if (name === "dead") assert.match(got.error["remedy"], /read it back/)
    if ("alive" in in_) assert.equal(got.error["alive"], in_.alive)
  }
  for (const said of ["confirmed", "refused", "lost"] as const) {
    for (const readBack of ["yes", "no"] as const) {
      for (const retry of ["safe", "keyed", "unsafe"] as const) {
        for (const earlierOpen of [true, false]) {
          const record = effectAt("dispatched", { declared: kind({ readBack, retry }), earlierOpen, claim: "refused" })
          const got = answer(record, { answer: said })
          const counts =
            said === "confirmed" ? readBack === "yes" : said === "refused" && (!earlierOpen || retry === "keyed")
          const name = `${said} ${readBack} ${retry} ${earlierOpen}`
          assert.deepEqual(got.facts, [`effect.${counts ? said : "unknown"}`], name)
          const expected = counts
            ? { ...record, state: said, outcome: outcome("provider"), unresolved: false, changedAt: now }
            : { ...record, state: "unknown", claim: said === "lost" ? null : said, changedAt: now }
          assert.deepEqual(got.reply, expected, name)
        }
      }
    }
  }
  assert.deepEqual(
    answer(effectAt("dispatched"), { summary: "at 40", receipt: "r-1" }).reply["outcome"],
    outcome("provider", { summary: "at 40", receipt: "r-1" })
  )
  assert.equal(answer(undefined as never, {}).refused, "NotFound")
})

test("G60 G63 what reading back tells, over every state, kind, observer and attempt", () => {
  const asked = (record: EffectRecord, payload: object, observed: object | undefined) =>
    decide("readBackEffect", record, { effect: "effect-a", attempt: 2, ...payload }, observed)
  const answers = ["confirmed", "refused", "pending", "notFound", "notExecuted", "unavailable"] as const
  for (const state of states) {
    for (const found of answers) {
      for (const { name: who, observed, ...in_ } of observers) {
        for (const attempt of [1, 2]) {
          const record = effectAt(state)
          const got = asked(record, { found, attempt }, observed)
          const name = `${state} ${found} ${who} ${attempt}`
          if (state !== "dispatched" && state !== "unknown") {
            if (state === found) assert.deepEqual([got.facts, got.reply], [[], { ...record, replayed: true }], name)
            else assert.equal(got.refused, "EffectState", name)
            continue
          }
          const refused =
            found === "confirmed"
              ? undefined
              : state === "dispatched" && "alive" in in_
                ? "EffectInFlight"
                : attempt !== 2
                  ? "EffectState"
                  : undefined
          assert.equal(got.refused, refused, name)
          if (refused !== undefined) continue
          const settled = found === "confirmed" || found === "refused"
          assert.deepEqual(got.facts, [`effect.${settled ? found : "unknown"}`], name)
          assert.deepEqual(
            got.reply,
            settled
              ? {
                  ...record,
                  state: found,
                  lastReadBack: found,
                  outcome: outcome("readBack"),
                  unresolved: false,
                  changedAt: now
                }
              : { ...record, state: "unknown", lastReadBack: found, changedAt: now },
            name
          )
        }
      }
    }
  }
  // A kind without read-back says nothing, but that it was not asked.
  for (const found of answers) {
    const got = asked(effectAt("unknown", { declared: kind({ readBack: "no" }) }), { found }, dead)
    assert.equal(got.refused, found === "unavailable" ? undefined : "InvalidInput", found)
  }
  // The same again is no fact; what was vouched for stays so when the provider cannot be reached.
  for (const was of [null, "pending", "notFound", "notExecuted", "unavailable"] as const) {
    for (const found of ["pending", "notFound", "notExecuted", "unavailable"] as const) {
      for (const state of ["dispatched", "unknown"] as const) {
        const record = effectAt(state, { lastReadBack: was })
        const got = asked(record, { found }, dead)
        const kept = (state === "unknown" && was === found) || (was === "notExecuted" && found === "unavailable")
        assert.deepEqual(got.facts, kept ? [] : ["effect.unknown"], `${state} ${was} ${found}`)
        assert.equal(got.reply["lastReadBack"], kept ? was : found)
        if (kept) assert.deepEqual(got.reply, record)
      }
    }
  }
  assert.equal(asked(undefined as never, { found: "pending" }, dead).refused, "NotFound")
})

// --- how they end otherwise ------------------------------------------------------------------------------------------

const word = { effect: "effect-a", person: "mira", reason: "I looked", evidence: ["evidence-a", "evidence-b"] }
const [executors, persons] = [
  evidence({ producer: { role: "executor", name: "ada" } }),
  evidence({ id: "evidence-b", producer: { role: "person", name: "mira" } })
]

test("G60 G63 G70 a person says what became of an effect that is not known, with evidence that is not all the executor's", () => {
  for (const state of states) {
    for (const said of ["confirmed", "refused"] as const) {
      for (const { name, observed } of observers) {
        const record = effectAt(state)
        const got = decide(
          "resolveEffect",
          { effect: record, evidence: [executors, persons] },
          { ...word, outcome: said },
          observed
        )
        // A process that nobody can see does not keep a person from saying what he saw; one that is at it does.
        const atIt = state === "dispatched" && (name === "mine" || name === "living")
        const open = state === "dispatched" || state === "unknown"
        assert.equal(got.refused, !open ? "EffectState" : atIt ? "EffectInFlight" : undefined, `${state} ${name}`)
        if (atIt) assert.deepInclude(got.error, { alive: true })
        if (got.refused !== undefined) continue
        assert.deepEqual(got.facts, [`effect.${said}`])
        assert.deepEqual(got.reply, {
          ...record,
          state: said,
          outcome: {
            by: "person",
            who: "mira",
            summary: "I looked",
            receipt: null,
            evidence: word.evidence,
            at: now
          },
          unresolved: false,
          changedAt: now
        })
      }
    }
  }
  const say = (found: readonly unknown[]) =>
    decide("resolveEffect", { effect: effectAt("unknown"), evidence: found }, { ...word, outcome: "confirmed" }, dead)
  assert.equal(say([executors, executors]).refused, "InvalidInput")
  assert.equal(say([persons, executors]).refused, undefined)
  assert.deepInclude(say([executors, undefined]).error, { _tag: "NotFound", id: "evidence-b" })
  assert.deepInclude(say([evidence({ goal: "goal-b" }), persons]).error, { _tag: "NotFound", id: "evidence-a" })
  assert.equal(
    decide("resolveEffect", { effect: undefined, evidence: [] }, { ...word, outcome: "refused" }).refused,
    "NotFound"
  )
})

test("G60 only what certainly never happened is given up", () => {
  for (const state of states) {
    for (const lastReadBack of [null, "notExecuted", "notFound", "unavailable"] as const) {
      const record = effectAt(state, { lastReadBack })
      const got = decide("abandonEffect", record, { effect: "effect-a", by: "ada", reason: "no more" })
      const never = state === "planned" || (state === "unknown" && lastReadBack === "notExecuted")
      assert.equal(got.refused, never ? undefined : "EffectState", `${state} ${lastReadBack}`)
      if (!never) continue
      assert.deepEqual(got.facts, ["effect.refused"])
      assert.deepEqual(got.reply, {
        ...record,
        state: "refused",
        outcome: { by: "planner", who: "ada", summary: "no more", receipt: null, evidence: [], at: now },
        unresolved: false,
        changedAt: now
      })
    }
  }
})

test("G61 a stop is asked for once, of what runs or may have run, where its kind can be stopped", () => {
  for (const stop of ["device", "person", "none"] as const) {
    for (const state of states) {
      const record = effectAt(state, { declared: kind({ stop }) })
      const got = decide("requestStop", record, { effect: "effect-a", by: "ada", reason: "too far" })
      const expected =
        stop === "none" ? "InvalidInput" : state === "planned" || state === "refused" ? "EffectState" : undefined
      assert.equal(got.refused, expected, `${stop} ${state}`)
      if (expected !== undefined) continue
      assert.deepEqual(got.facts, ["effect.stopRequested"])
      assert.deepEqual(got.reply, {
        ...record,
        stop: stopOf({ requestedAt: now }),
        unresolved: true,
        changedAt: now
      })
      for (const asked of ["requested", "unknown", "confirmed"] as const) {
        const stopping = { ...record, stop: stopOf({ state: asked }) }
        const again = decide("requestStop", stopping, { effect: "effect-a", by: "bob", reason: "again" })
        assert.deepEqual([again.facts, again.reply], [[], { ...stopping, replayed: true }])
      }
    }
  }
})

test("G61 G63 that it stands still is said by the device or by a person with evidence; anything else leaves it unknown", () => {
  const confirm = (record: EffectRecord, payload: object, found: readonly unknown[] = [persons]) =>
    decide(
      "confirmStopped",
      { effect: record, evidence: found },
      { effect: "effect-a", by: "device", seen: "stopped", who: "stage", ...payload }
    )
  const looked = { by: "person", who: "mira", evidence: ["evidence-b"] }
  assert.match(confirm(effectAt("confirmed"), {}).error["remedy"], /requestStop first/)
  const over = effectAt("confirmed", { stop: stopOf({ state: "confirmed" }) })
  assert.deepEqual([confirm(over, {}).facts, confirm(over, {}).reply], [[], { ...over, replayed: true }])
  for (const stop of ["device", "person"] as const) {
    for (const was of ["requested", "unknown"] as const) {
      for (const seen of ["stopped", "moving", "unknown"] as const) {
        for (const by of ["device", "person"] as const) {
          const record = effectAt("confirmed", {
            declared: kind({ stop }),
            stop: stopOf({ state: was, summary: "before" })
          })
          const got = confirm(record, { seen, ...(by === "person" ? looked : {}) })
          const name = `${stop} ${was} ${seen} ${by}`
          if (by === "device" && stop === "person") {
            assert.equal(got.refused, "InvalidInput", name)
            continue
          }
          if (seen !== "stopped" && was === "unknown") {
            assert.deepEqual([got.refused, got.facts, got.reply], [undefined, [], record], name)
            continue
          }
          const stopped = seen === "stopped"
          assert.deepEqual(got.facts, [stopped ? "effect.stopConfirmed" : "effect.stopUnknown"], name)
          assert.deepEqual(
            got.reply,
            {
              ...record,
              stop: {
                ...record.stop,
                state: stopped ? "confirmed" : "unknown",
                confirmedBy: stopped ? by : null,
                who: stopped ? (by === "person" ? "mira" : "stage") : null,
                summary: seen === "moving" ? "it was seen to move" : "",
                evidence: by === "person" ? ["evidence-b"] : [],
                confirmedAt: stopped ? now : null
              },
              unresolved: !stopped,
              changedAt: now
            },
            name
          )
        }
      }
    }
  }
  const asked = effectAt("confirmed", { stop: stopOf() })
  assert.deepInclude(confirm(asked, { seen: "moving", summary: "a finger" }).reply["stop"], { summary: "a finger" })
  assert.match(confirm(asked, { ...looked, evidence: undefined }).error["message"], /a person names the evidence/)
  assert.equal(confirm(asked, looked, [executors]).refused, "InvalidInput")
  assert.equal(confirm(asked, looked, [undefined]).refused, "NotFound")
  assert.deepEqual(load("confirmStopped", { effect: "e", by: "device", seen: "stopped", who: "s" })["state"], {
    effect: undefined,
    evidence: []
  })
})

test("G61 that a model or a process ended is noted once each, beside what is known of the effect", () => {
  const noted = { by: "ada", summary: "gone", at: now - 1 }
  for (const state of states) {
    for (const what of ["model", "process"] as const) {
      const aside = what === "model" ? "process" : "model"
      const record = effectAt(state, { ended: { model: null, process: null, [aside]: noted } })
      const got = decide("noteEnded", record, { effect: "effect-a", what, by: "bob", summary: "ended" })
      assert.deepEqual(got.facts, [what === "model" ? "effect.modelCancelled" : "effect.processEnded"])
      assert.deepEqual(got.reply, {
        ...record,
        ended: { ...record.ended, [what]: { by: "bob", summary: "ended", at: now } },
        changedAt: now
      })
      const again = decide("noteEnded", record, { effect: "effect-a", what: aside, by: "bob", summary: "ended" })
      assert.deepEqual([again.facts, again.reply], [[], { ...record, replayed: true }])
    }
  }
})

// --- through the authority -------------------------------------------------------------------------------------------

test("G60 G61 effects are listed by goal and by provider, oldest first; what is no input is refused by the call's name", async () => {
  const bench = await newBench()
  const [one, two] = [await newGoal(bench), await newGoal(bench)]
  const plan = (id: string, of: string, provider: string, more: object = {}) =>
    bench.run(
      Effects.plan({ effect: id, goal: of, provider, kind: kind(), operation: { id }, summary: id, ...more } as never)
    )
  for (const [id, of, provider] of [
    ["e-b", one.id, "stage"],
    ["e-a", one.id, "stage"],
    ["e-c", one.id, "lamp"],
    ["e-d", two.id, "stage"]
  ] as const) {
    await plan(id, of, provider)
    bench.now += 1
  }
  const ids = ({ items }: { readonly items: readonly EffectRecord[] }) => items.map(({ id }) => id)
  assert.deepEqual(ids(await bench.run(Effects.list({ goal: one.id }))), ["e-b", "e-a", "e-c"])
  assert.deepEqual(ids(await bench.run(Effects.unresolved({ goal: one.id }))), [])
  for (const id of ["e-b", "e-a", "e-c", "e-d"]) {
    const handed = await bench.run(Effects.dispatch({ effect: id, operation: { id } }))
    assert.isNotNull(handed.driver)
    // The process that handed it over is this one: its own answer counts, and a second call is told that it is at it.
    assert.deepInclude(await bench.fails(Effects.dispatch({ effect: id, operation: { id } })), {
      _tag: "EffectInFlight",
      alive: true
    })
  }
  assert.deepEqual(ids(await bench.run(Effects.unresolved({ goal: one.id }))), ["e-a", "e-b", "e-c"])
  assert.deepEqual(ids(await bench.run(Effects.unresolved({ provider: "stage" }))), ["e-b", "e-a", "e-d"])
  const operated = { effect: "e", goal: one.id, summary: "s", operation: 1 }
  for (const wrong of [
    undefined,
    null,
    7,
    { ...operated, provider: 7, kind: kind() },
    { ...operated, provider: "p" }
  ]) {
    const refused = await bench.fails(Effects.plan(wrong as never))
    assert.deepInclude(refused, { _tag: "InvalidInput", command: "planEffect" })
    assert.include(refused.message, "`provider` is a text")
  }
  const noName = await bench.fails(Effects.plan({ ...operated, provider: "p", kind: { ...kind(), name: 7 } } as never))
  assert.include(noName.message, "`provider` is a text")
  const noJson = await bench.fails(Effects.plan({ ...operated, provider: "p", kind: kind(), operation: 1n } as never))
  assert.include(noJson.message, "no JSON value")
  for (const wrong of [undefined, null, 7, {}, { effect: 7 }]) {
    assert.equal((await bench.fails(Effects.dispatch(wrong as never)))._tag, "InvalidInput")
    assert.deepInclude(await bench.fails(Effects.answer(wrong as never)), {
      _tag: "InvalidInput",
      command: "answerEffect"
    })
  }
  assert.deepInclude(
    await bench.fails(Effects.plan({ effect: "e", goal: one.id, provider: "p", kind: kind(), summary: "s" } as never)),
    { _tag: "InvalidInput", command: "planEffect" }
  )
  assert.equal((await bench.run(Effects.answer({ effect: "e-b", attempt: 1, answer: "confirmed" }))).state, "confirmed")
})
