/**
 * One governance suite over both presets: requirements, stale claims, stop, budget, replay, settlement. Each preset's
 * answers, with ids and times made comparable, must be the same; what they must be is asserted too.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { afterAll, assert, describe, test } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
import {
  Acceptances,
  Agents,
  Authority,
  type Authority as AuthorityService,
  Evidence,
  type Fence,
  Goals,
  Leases,
  Quota,
  Settlements,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { minimal } from "../../src/minimal.ts"
import { standard } from "../../src/standard.ts"

type Run = <A>(effect: Effect.Effect<A, any, AuthorityService>) => Promise<A>

interface Scene {
  readonly run: Run
  /** The code that an effect fails with, or "ok". */
  readonly code: (effect: Effect.Effect<unknown, any, AuthorityService>) => Promise<string>
  readonly goal: string
  readonly todo: string
  readonly fence: Fence
}

const digest = sha256("judge")
const bound = { usd: 1, slots: 1 }
const completed = {
  status: "ok",
  claim: "completed",
  summary: "done",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: true
} as const

/** Admits, executes, records and validates a turn; gives what settles it. */
const readyToSettle = async (s: Scene) => {
  const turn = await s.run(Turns.admit({ goal: s.goal, agent: "ada", fence: s.fence, bound }))
  await s.run(Turns.saveAttempt({ turn: turn.id, fence: s.fence }))
  await s.run(Turns.recordResult({ turn: turn.id, result: completed }))
  const of = { goal: s.goal, todo: s.todo, turn: turn.id }
  const verdict = { kind: "verdict", digest, summary: "ok", producer: { role: "validator", name: "judge" } } as const
  const evidence = await s.run(Evidence.record({ ...of, ...verdict }))
  const validator = { name: "judge", digestBefore: digest, digestAfter: digest }
  const acceptance = await s.run(
    Acceptances.record({ ...of, candidate: null, validator, outcome: "passed", evidence: [evidence.id] })
  )
  await s.run(Turns.recordVerdict({ turn: turn.id, acceptance: acceptance.id }))
  return {
    effectId: turn.effectId,
    goal: s.goal,
    fence: s.fence,
    turn: turn.id,
    outcome: "accepted",
    evidence: [],
    acceptance: acceptance.id,
    spend: { usd: 0.5 },
    todo: { action: "complete", continuation: { kind: "noFollowUp" } }
  } as const
}

const money = async (s: Scene) => {
  const { reserved, spent, remaining, owed } = await s.run(Quota.status({ goal: s.goal }))
  return { reserved: reserved.usd, spent: spent.usd, remaining: remaining.usd, owed: owed.length }
}

const cases: Record<string, (s: Scene) => Promise<unknown>> = {
  "a claim is one holder's: a second is refused, a stale fence writes nothing, a new holder goes on": async (s) => {
    const second = await s.code(Leases.acquire({ todo: s.todo, agent: "bob" }))
    await s.run(Leases.release({ fence: s.fence }))
    const { fence } = await s.run(Leases.acquire({ todo: s.todo, agent: "bob" }))
    const stale = await s.code(Turns.admit({ goal: s.goal, agent: "ada", fence: s.fence, bound }))
    const fresh = await s.code(Turns.admit({ goal: s.goal, agent: "bob", fence, bound }))
    assert.deepEqual([second, stale, fresh, fence.epoch], ["LEASE_HELD", "LEASE_LOST", "ok", s.fence.epoch + 1])
    return [second, stale, fresh, await money(s)]
  },
  "a bound beyond the budget is refused and nothing is held; a bound that the goal requires may not be missing": async (
    s
  ) => {
    const admit = (b: object) => s.code(Turns.admit({ goal: s.goal, agent: "ada", fence: s.fence, bound: b }))
    const answers = [await admit({ usd: 2.01 }), await admit({ slots: 1 }), await money(s), await admit({ usd: 2 })]
    assert.deepEqual(answers.slice(0, 2), ["QUOTA_EXCEEDED", "BOUND_MISSING"])
    assert.deepEqual(answers[2], { reserved: 0, spent: 0, remaining: 2, owed: 0 })
    assert.equal(answers[3], "ok")
    return [...answers, await money(s)]
  },
  "work is settled once: a replay gives the stored receipt, another payload conflicts, spend and todo change together":
    async (s) => {
      const content = await readyToSettle(s)
      const first = await s.run(Settlements.settle({ ...content, commandId: "settle" }))
      const again = await s.run(Settlements.settle({ ...content, commandId: "settle" }))
      const otherCommand = await s.run(Settlements.settle(content))
      const conflict = await s.code(Settlements.settle({ ...content, spend: { usd: 0.1 } }))
      const keyReuse = await s.code(Settlements.settle({ ...content, spend: { usd: 0.1 }, commandId: "settle" }))
      assert.deepEqual([first.replayed, again.replayed, otherCommand.replayed], [false, true, true])
      assert.deepEqual([again.id, otherCommand.id], [first.id, first.id])
      assert.deepEqual([conflict, keyReuse], ["IDENTITY_CONFLICT", "IDEMPOTENCY_KEY_REUSE"])
      const { total, accepted } = await s.run(Settlements.list({ goal: s.goal }))
      assert.deepEqual([total, accepted], [1, 1])
      assert.deepEqual(await money(s), { reserved: 0, spent: 0.5, remaining: 1.5, owed: 0 })
      const todo = await s.run(Todos.get({ todo: s.todo }))
      assert.equal(todo.state, "done")
      return [first, again, otherCommand, conflict, keyReuse, total, accepted, await money(s), todo.state]
    },
  "talk is no receipt: accepted without a passed verdict of this work is refused, and the turn stays to be settled":
    async (s) => {
      const content = await readyToSettle(s)
      const { acceptance: _, ...bare } = content
      const without = await s.code(Settlements.settle(bare))
      const unknown = await s.code(Settlements.settle({ ...content, acceptance: "vrd_nowhere" }))
      assert.deepEqual([without, unknown], ["ACCEPTANCE_INVALID", "NOT_FOUND"])
      const { phase } = await s.run(Turns.get({ turn: content.turn }))
      assert.equal(phase, "validate")
      return [without, unknown, phase, await s.code(Settlements.settle(content))]
    },
  "a stopped goal admits, dispatches and settles nothing; what ran is kept and settles after resume": async (s) => {
    const content = await readyToSettle(s)
    const other = (await s.run(Todos.add({ goal: s.goal, title: "another" }))).id
    await s.run(Goals.stop({ goal: s.goal }))
    const answers = [
      await s.code(Leases.acquire({ todo: other, agent: "bob" })),
      await s.code(Todos.nextWork({ goal: s.goal, agent: "bob" })),
      await s.code(Settlements.settle(content))
    ]
    assert.deepEqual(answers, ["GOAL_NOT_ACTIVE", "GOAL_NOT_ACTIVE", "GOAL_NOT_ACTIVE"])
    await s.run(Goals.resume({ goal: s.goal }))
    const settled = await s.code(Settlements.settle(content))
    assert.equal(settled, "ok")
    return [...answers, settled, await money(s)]
  }
}

/** Ids, tokens, digests and times differ from run to run: the n-th of each becomes its number. */
const comparable = (value: unknown): unknown => {
  const seen = new Map<string, string>()
  const name = (text: string): string => seen.get(text) ?? seen.set(text, `#${seen.size}`).get(text)!
  return JSON.parse(JSON.stringify(value), (key, item) => {
    if (typeof item === "number" && key.endsWith("At")) return "time"
    return typeof item === "string" && /^([a-z]+_[0-9a-f]{8}-|sha256:)/.test(item) ? name(item) : item
  })
}

const presets = { minimal, standard: (options: { store: string }) => standard(options) }
const answers: Record<string, Record<string, unknown>> = { minimal: {}, standard: {} }

for (const [preset, layer] of Object.entries(presets)) {
  describe(preset, () => {
    const place = mkdtempSync(join(tmpdir(), "coppice-parity-"))
    const runtime = ManagedRuntime.make(layer({ store: place }))
    const run: Run = (effect) => runtime.runPromise(effect)
    afterAll(async () => {
      await runtime.dispose()
      rmSync(place, { recursive: true, force: true })
    })

    for (const [title, body] of Object.entries(cases)) {
      test(`V2 [${preset}] ${title}`, async () => {
        const goal = (await run(Goals.open({ title: "parity", budget: { usd: 2, slots: 9 } }))).id
        for (const agentId of ["ada", "bob"]) await run(Agents.register({ goal, agentId }))
        const todo = (await run(Todos.add({ goal, title: "work", acceptance: { validator: "judge" } }))).id
        const { fence } = await run(Leases.acquire({ todo, agent: "ada" }))
        const code: Scene["code"] = (effect) =>
          run(effect).then(
            () => "ok",
            (error) => String(error.code)
          )
        const before = (await run(Effect.flatMap(Authority, (authority) => authority.verify))).entries
        const answer = await body({ run, code, goal, todo, fence })
        const facts = await run(Effect.flatMap(Authority, (authority) => authority.journal({ after: before })))
        const types = facts.map((fact) => `${fact.module} ${fact.type}`)
        answers[preset]![title] = comparable({ answer, types, data: facts.map((fact) => fact.data) })
      })
    }
  })
}

test("V2 [minimal] [standard] every answer and every journaled fact of that suite is the same in both presets", () => {
  assert.deepEqual(Object.keys(answers["minimal"]!), Object.keys(cases))
  const withoutSequence = (value: unknown) =>
    JSON.parse(JSON.stringify(value), (key, item) => (key === "asOf" ? 0 : item))
  assert.deepEqual(withoutSequence(answers["standard"]), withoutSequence(answers["minimal"]))
})
