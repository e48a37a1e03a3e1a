import * as Result from "effect/Result"
import { assert, test } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
import type { OpenPart } from "../../src/governance/Frontier.ts"
import {
  type Disposition,
  type Fence,
  Gates,
  Goals,
  Leases,
  Loop,
  type LoopReceipt,
  type LoopState,
  nextDisposition,
  Obligations,
  Quota,
  Sources,
  Todos,
  Turns,
  type TurnBudget,
  type Withheld
} from "../../src/governance/index.ts"
import { hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

const parts = (...kinds: readonly string[]): readonly OpenPart[] =>
  kinds.map((kind) => ({ kind, count: 1, ids: [`${kind}_1`] }))
const withheld = (change: Partial<Withheld> = {}): Withheld => ({
  unfinished: 1,
  leased: 0,
  deferred: 0,
  blocked: 0,
  excluded: 0,
  capability: 0,
  gated: 0,
  scopeConflict: 0,
  unreadable: 0,
  ...change
})
const todo = (id: string, change: object = {}) => ({ todo: id, unreadable: [], gates: [], ...change })
const question = { id: "gate_1", lane: "owner", question: "Which name?" } as const
const missing = { id: "gate_2", lane: "repair", question: "No bridge" } as const

/** An active goal with one todo that can be taken. */
const base: LoopState = {
  goal: "goal_1",
  agent: "ada",
  asOf: 10,
  goalState: "active",
  goalRevision: 1,
  open: parts("todo"),
  turn: null,
  held: null,
  ready: todo("todo_1"),
  withheld: null,
  movesAt: null,
  gates: [],
  accounts: [
    {
      agent: null,
      budget: { usd: 5, slots: 5 },
      remaining: { usd: 5, slots: 5 },
      window: null
    }
  ]
}
const nothingReady = (change: Partial<LoopState> = {}): LoopState => ({
  ...base,
  ready: null,
  withheld: withheld(),
  ...change
})
const account = (budget: object, remaining: object, windowed = false) => ({
  accounts: [{ agent: null, budget, remaining, window: windowed ? { ms: 1, from: 0, to: 1 } : null }] as never
})
const receipt = (change: Partial<LoopReceipt> = {}): LoopReceipt => ({
  goal: "goal_1",
  todo: "todo_1",
  outcome: "progress",
  todoState: "open",
  asOf: 9,
  ...change
})
const turn = (change: object = {}) => ({
  turn: { id: "turn_1", next: "validate" as const, alive: false as const, survivor: false, ...change }
})

const told = (result: ReturnType<typeof nextDisposition>): string =>
  Result.isSuccess(result)
    ? `${result.success.disposition} ${result.success.reason}`
    : `error ${"why" in result.failure ? result.failure.why : result.failure.code}`

type Case = readonly [expected: string, state: LoopState, receipt?: LoopReceipt | undefined, budget?: TurnBudget]

const everything = parts("todo", "obligation", "gate", "effect", "turn", "unreadSource")
const table: readonly Case[] = [
  // A pause or stop is before everything, an open obligation and a question too (C67).
  ["stop goalPaused", { ...base, goalState: "paused", open: everything, gates: [question], ...turn() }],
  ["stop goalPaused", { ...base, goalState: "paused" }, receipt({ outcome: "staleContext" }), { turns: 0 }],
  ["stop goalStopped", { ...base, goalState: "stopped", open: parts("obligation") }],
  ["stop goalStopped", { ...base, goalState: "stopped", ...turn({ alive: true }) }],
  ["terminal goalCompleted", nothingReady({ goalState: "completed", open: [] })],
  ["terminal goalCompleted", nothingReady({ goalState: "completed", open: [] }), undefined, { turns: 0 }],
  ["repair unresolved", nothingReady({ goalState: "completed", open: parts("effect") })],
  // The agent's own open turn.
  ["wait turnRunning", { ...base, ...turn({ alive: true }) }],
  ["userAction survivor", { ...base, ...turn({ alive: "unknown", survivor: true }) }],
  ["userAction executorUnseen", { ...base, ...turn({ alive: "unknown" }) }],
  ["repair turnLeft", { ...base, ...turn() }],
  ["repair turnLeft", { ...base, ...turn() }, undefined, { turns: 0 }],
  // The turn budget: a new plan, whatever is left, and never the end.
  ["replan turnBudget", base, undefined, { turns: 0 }],
  ["replan turnBudget", nothingReady({ open: [] }), undefined, { turns: 0 }],
  ["replan turnBudget", nothingReady({ open: parts("gate"), gates: [question] }), undefined, { turns: 0 }],
  // What the receipt asks for.
  ["replan staleContext", base, receipt({ outcome: "staleContext" })],
  ["replan staleContext", { ...base, ready: todo("todo_2") }, receipt({ outcome: "staleContext" })],
  ["userAction hostAsks", base, receipt({ claim: "userAction" })],
  ["repair hostSays", base, receipt({ claim: "repair" })],
  ["replan hostSays", base, receipt({ claim: "replan" })],
  ["wait hostWaits", base, receipt({ claim: "wait" })],
  ["wait hostWaits", nothingReady(), receipt({ claim: "wait" })],
  ["repair validatorUnavailable", base, receipt({ outcome: "unavailable" })],
  // Another todo is not held up by what the host says of this one.
  ["runNow ready", { ...base, ready: todo("todo_2") }, receipt({ claim: "userAction" })],
  ["runNow ready", { ...base, ready: todo("todo_2") }, receipt({ outcome: "unavailable" })],
  // A claim beside an acceptance is only a claim.
  [
    "runNow ready",
    { ...base, ready: todo("todo_2") },
    receipt({ outcome: "accepted", todoState: "done", claim: "wait" })
  ],
  ["runNow ready", base, receipt({ outcome: "failed", claim: "failed" })],
  ["runNow ready", base, receipt({ outcome: "inconclusive", claim: "completed" })],
  // Work that can be run.
  ["runNow ready", base],
  ["runNow held", { ...base, held: todo("todo_0") }],
  ["runNow held", nothingReady({ held: todo("todo_0") })],
  ["runNow ready", { ...base, held: todo("todo_0", { gates: [question] }) }],
  ["userAction gate", nothingReady({ held: todo("todo_0", { gates: [missing, question] }) })],
  ["repair gate", nothingReady({ held: todo("todo_0", { gates: [missing] }) })],
  ["repair sourceUnreadable", { ...base, ready: todo("todo_1", { unreadable: ["src_1"] }) }],
  ["runNow held", { ...base, ready: todo("todo_1", { unreadable: ["src_1"] }), held: todo("todo_0") }],
  // Gates of the agent that do not stop what it can take.
  ["runNow ready", { ...base, gates: [question, missing] }],
  // What the budget holds.
  ["userAction quotaExhausted", { ...base, ...account({ usd: 5, slots: 5 }, { usd: 5, slots: 0 }) }],
  ["userAction quotaExhausted", { ...base, ...account({ usd: 5, slots: 5 }, { usd: 0, slots: 5 }) }],
  ["userAction quotaExhausted", { ...base, ...account({ usd: null, slots: null, attempts: 3 }, { attempts: 0 }) }],
  [
    "userAction quotaExhausted",
    { ...base, ...account({ usd: 5, slots: 5 }, { usd: 2, slots: 5 }) },
    undefined,
    { turns: 1, bound: { usd: 3 } }
  ],
  [
    "runNow ready",
    { ...base, ...account({ usd: 5, slots: 5 }, { usd: 2, slots: 5 }) },
    undefined,
    { turns: 1, bound: { usd: 2 } }
  ],
  ["runNow ready", { ...base, ...account({ usd: 0, slots: 5 }, { usd: 0, slots: 5 }) }],
  [
    "runNow ready",
    { ...base, ...account({ usd: 5, slots: 5 }, { usd: 0, slots: 5 }) },
    undefined,
    { turns: 1, bound: { usd: 0 } }
  ],
  ["wait quotaWindow", { ...base, ...account({ usd: 5, slots: 5 }, { usd: 5, slots: 0 }, true) }],
  // More than a window ever holds: no time brings it, whatever else would be free again.
  [
    "userAction quotaExhausted",
    { ...base, ...account({ usd: 1, slots: 5 }, { usd: 1, slots: 5 }, true) },
    undefined,
    { turns: 1, bound: { usd: 2 } }
  ],
  [
    "userAction quotaExhausted",
    { ...base, ...account({ usd: 5, slots: 5, tokens: 10 }, { usd: 0, slots: 5, tokens: 10 }, true) },
    undefined,
    { turns: 1, bound: { usd: 1, tokens: 11 } }
  ],
  [
    "wait quotaWindow",
    { ...base, ...account({ usd: 1, slots: 5 }, { usd: 0.5, slots: 5 }, true) },
    undefined,
    { turns: 1, bound: { usd: 1 } }
  ],
  // Nothing can be run: who moves next.
  ["userAction gate", nothingReady({ open: parts("todo", "gate", "turn"), gates: [missing, question] })],
  ["repair gate", nothingReady({ open: parts("todo", "gate", "turn"), gates: [missing] })],
  ["repair sourceUnreadable", nothingReady({ open: parts("todo", "unreadableSource", "turn") })],
  ["repair unresolved", nothingReady({ open: parts("todo", "effect", "turn") })],
  ["repair unresolved", nothingReady({ open: parts("candidate") })],
  ["repair unresolved", nothingReady({ open: parts("something that comes later") })],
  ["wait othersWork", nothingReady({ open: parts("todo", "turn") })],
  ["wait othersWork", nothingReady({ withheld: withheld({ leased: 1 }), movesAt: 99 })],
  ["wait othersWork", nothingReady({ withheld: withheld({ scopeConflict: 1 }) })],
  ["wait time", nothingReady({ withheld: withheld({ deferred: 1 }), movesAt: 99 })],
  ["repair capability", nothingReady({ withheld: withheld({ capability: 1 }) })],
  ["replan nothingMoves", nothingReady({ withheld: withheld({ blocked: 1, capability: 1 }) })],
  ["replan nothingMoves", nothingReady({ withheld: withheld({ deferred: 1 }) })],
  ["replan nothingMoves", nothingReady({ withheld: withheld({ excluded: 1 }) })],
  [
    "replan obligation",
    nothingReady({ open: parts("obligation", "unreadSource"), withheld: withheld({ unfinished: 0 }) })
  ],
  ["repair sourceUnread", nothingReady({ open: parts("unreadSource"), withheld: withheld({ unfinished: 0 }) })],
  ["userAction closure", nothingReady({ open: [], withheld: withheld({ unfinished: 0 }) })],
  ["repair unresolved", nothingReady({ open: parts("gate"), withheld: withheld({ unfinished: 0 }) })],
  // What does not belong together is an error, before any lane.
  ["error older", { ...base, goalState: "paused", asOf: 8 }, receipt()],
  ["error older", { ...base, asOf: Number.NaN }, receipt()],
  ["error goal", base, receipt({ goal: "goal_2" })],
  ["error agent", base, receipt({ agent: "bob" })],
  ["error revision", base, receipt({ goalRevision: 2 })],
  ["error revision", base, receipt({ todoState: "done", outcome: "accepted" })],
  ["error revision", nothingReady({ held: todo("todo_1") }), receipt({ todoState: "superseded" })],
  ["error INVALID_INPUT", base, undefined, { turns: -1 }],
  ["error INVALID_INPUT", base, undefined, { turns: Number.NaN }],
  ["error INVALID_INPUT", base, undefined, { turns: 0.5 }]
]

test("G83 C67 C72 G10 every lane of the loop controller, in its order", () => {
  for (const [index, [expected, state, of, budget]] of table.entries()) {
    assert.equal(told(nextDisposition(of, state, budget ?? { turns: 3 })), expected, `row ${index}`)
  }
})

test("C67 G83 a pause says that it wins, and over what", () => {
  const state: LoopState = { ...base, goalState: "paused", open: parts("todo", "obligation") }
  const step = Result.getOrThrow(nextDisposition(undefined, state, { turns: 3 }))
  assert.equal(
    step.says,
    "The goal is paused, whatever else is open (1 todo, 1 obligation): nothing starts until Goals.resume."
  )
  assert.deepEqual(step.open, state.open)
})

test("G83 over random states: no end while something is open, nothing runs below a pause, one input gives one answer", () => {
  const start = seed()
  let at = start
  const random = (below: number): number => {
    at = (Math.imul(at, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((at / 2 ** 32) * below)
  }
  const one = <A>(values: readonly A[]): A => values[random(values.length)]!
  const some = <A>(values: readonly A[]): readonly A[] => values.filter(() => random(3) === 0)
  const any = (id: string) => todo(id, { unreadable: some(["src_1"]), gates: some([question, missing]) })
  const seen = new Set<string>()
  for (let n = 0; n < 20_000; n += 1) {
    const state: LoopState = {
      ...base,
      asOf: random(12),
      goalState: one(["active", "active", "active", "paused", "stopped", "completed"]),
      goalRevision: random(3),
      open: parts(...some(["todo", "obligation", "gate", "turn", "effect", "unreadSource", "unreadableSource"])),
      turn:
        one([null, null, null, turn(), turn({ alive: true }), turn({ alive: "unknown", survivor: random(2) === 0 })])
          ?.turn ?? null,
      held: one([null, null, any("todo_0")]),
      ready: one([null, any("todo_1")]),
      withheld: one([
        null,
        withheld({
          leased: random(2),
          deferred: random(2),
          blocked: random(2),
          capability: random(2),
          excluded: random(2)
        })
      ]),
      movesAt: one([null, 99]),
      gates: some([question, missing]),
      ...account({ usd: 5, slots: 5 }, { usd: random(3), slots: random(3) }, random(2) === 0)
    }
    const of = one([
      undefined,
      receipt({
        asOf: random(12),
        todo: one(["todo_0", "todo_1", "todo_2"]),
        outcome: one(["accepted", "progress", "failed", "inconclusive", "unavailable", "staleContext"]),
        todoState: one(["open", "done"]),
        claim: one([null, "completed", "wait", "repair", "userAction", "replan"]),
        goalRevision: random(3)
      })
    ])
    const budget = { turns: random(3) }
    const result = nextDisposition(of, state, budget)
    const label = `seed ${start}, state ${n}`
    assert.deepEqual(
      nextDisposition(structuredClone(of), structuredClone(state), structuredClone(budget)),
      result,
      label
    )
    seen.add(told(result).split(" ")[0]!)
    const older = of !== undefined && (state.asOf < of.asOf || state.goalRevision < of.goalRevision!)
    if (older) assert.isTrue(Result.isFailure(result), label)
    if (Result.isFailure(result)) continue
    const step: Disposition = result.success
    const halted = state.goalState === "paused" || state.goalState === "stopped"
    assert.equal(step.disposition === "stop", halted, label)
    if (step.disposition === "terminal") {
      assert.deepEqual([state.goalState, state.open.length], ["completed", 0], label)
    }
    if (step.disposition === "runNow") {
      assert.equal(state.goalState, "active", label)
      assert.isNull(state.turn, label)
      assert.isAbove(budget.turns, 0, label)
      const run = [state.held, state.ready].find((other) => other?.todo === step.todo)
      assert.deepEqual([run?.unreadable, run?.gates], [[], []], label)
    }
    if (budget.turns === 0 && state.goalState === "active" && state.turn === null) {
      assert.equal(step.disposition, "replan", label)
    }
    assert.isNotEmpty(step.says, label)
  }
  assert.deepEqual([...seen].toSorted(), [
    "error",
    "repair",
    "replan",
    "runNow",
    "stop",
    "terminal",
    "userAction",
    "wait"
  ])
})

test("G83 G7 the state is read at once and as of a sequence, and reading it or deciding on it changes nothing", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const first = await newTodo(bench, goal, { priority: 2 })
  const state = () => bench.run(Loop.state({ goal: goal.id, agent: "ada" }))
  const next = async (of?: LoopReceipt) => told(Loop.next(of, await state(), { turns: 3 }))
  const facts = async () => (await bench.store.journal({ after: 0, limit: 1000 })).length
  const before = await facts()
  const seen = await state()
  assert.deepInclude(seen, { goalState: "active", goalRevision: 1, turn: null, held: null, asOf: before })
  assert.deepEqual([seen.ready?.todo, seen.open.map(({ kind }) => kind)], [first.id, ["todo"]])
  assert.equal(await next(), "runNow ready")
  assert.equal(await facts(), before)
  const unknown = await bench.fails(Loop.state({ goal: goal.id, agent: "eve" }))
  assert.equal(unknown.code, "NOT_FOUND")

  // Another agent of the same work waits for the lease; the holder goes on by its fence, and by nothing less (G32).
  const { fence, expiresAt } = await hold(bench, first)
  assert.deepInclude(await state(), { held: null, ready: null, movesAt: expiresAt })
  assert.equal(await next(), "wait othersWork")
  const holder = await bench.run(Loop.state({ goal: goal.id, agent: "ada", fence }))
  assert.equal(told(Loop.next(undefined, holder, { turns: 1 })), "runNow held")
  const forged = await bench.run(Loop.state({ goal: goal.id, agent: "ada", fence: { ...fence, token: "x" } }))
  assert.isNull(forged.held)
  const others = await bench.run(Loop.state({ goal: goal.id, agent: "bob", fence }))
  assert.isNull(others.held)

  // Its own turn is in the way, and settled it is not.
  const admitted = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  assert.deepInclude((await state()).turn!, { id: admitted.id, next: "run", alive: false, survivor: false })
  assert.equal(await next(), "repair turnLeft")
  await bench.run(Turns.fail({ turn: admitted.id, reason: "not now", spend: { usd: 0 } }))
  await bench.run(Leases.release({ fence }))
  await bench.run(Todos.defer({ todo: first.id, reason: "later", until: bench.now + 1000 }))
  assert.deepInclude(await state(), { movesAt: bench.now + 1000 })
  assert.equal(await next(), "wait time")
  bench.now += 1000
  assert.equal(await next(), "runNow ready")
})

test("G83 G40 G41 C66 a gate sends the loop to whom it asks, and never stops another agent or other work", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const work = await newTodo(bench, goal)
  const ask = (more: object) => bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question: "q?", ...more }))
  const next = async (agent: string, fence?: Fence) => {
    const asked = fence === undefined ? { goal: goal.id, agent } : { goal: goal.id, agent, fence }
    return told(Loop.next(undefined, await bench.run(Loop.state(asked)), { turns: 3 }))
  }
  const gate = await ask({ agents: ["ada"] })
  assert.equal(await next("ada"), "userAction gate")
  assert.equal(await next("bob"), "runNow ready")
  const of = { by: { role: "person", name: "eve" }, answer: "no", reason: "r", reach: { kind: "scope" } } as const
  await bench.run(Gates.decide({ gate: gate.id, allow: false, ...of }))
  // A refusal is an answer: nothing is asked again, another plan is needed.
  assert.equal(await next("ada"), "replan nothingMoves")
  const { fence } = await hold(bench, work, "bob")
  assert.equal(await next("bob", fence), "runNow held")
  await ask({ kind: "capability", need: { class: "network", name: "proxy" }, actions: ["dispatch"], todos: [work.id] })
  assert.equal(await next("bob", fence), "repair gate")
  await newTodo(bench, goal)
  assert.equal(await next("bob", fence), "runNow ready")
})

test("G83 G12 G14 C67 obligations, sources, budgets and pauses as the store has them", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench, { usd: 1, slots: 9 })
  const next = async (turns = 3) =>
    told(Loop.next(undefined, await bench.run(Loop.state({ goal: goal.id, agent: "ada" })), { turns }))
  assert.equal(await next(), "userAction closure")
  assert.equal(await next(0), "replan turnBudget")
  const obligation = await bench.run(Obligations.open({ goal: goal.id, reason: "promised" }))
  assert.equal(await next(), "replan obligation")
  await bench.run(Goals.pause({ goal: goal.id }))
  assert.equal(await next(), "stop goalPaused")
  await bench.run(Goals.resume({ goal: goal.id }))
  const content = { digest: sha256("one"), ref: "one", bytes: 3 }
  const source = await bench.run(Sources.register({ goal: goal.id, name: "n", ...content }))
  const work = await newTodo(bench, goal, { requiredReads: [source.id] })
  assert.equal(await next(), "runNow ready")
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "gone" }))
  assert.equal(await next(), "repair sourceUnreadable")
  await bench.run(Sources.markReadable({ source: source.id }))
  const reserved = await bench.run(Quota.reserve({ goal: goal.id, effectId: "e", bound: { usd: 1, slots: 1 } }))
  assert.equal(await next(), "userAction quotaExhausted")
  await bench.run(Quota.void({ reservation: reserved.id, reason: "r" }))
  await bench.run(
    Obligations.waive({ obligation: obligation.id, by: { role: "person", name: "eve" }, reason: "done elsewhere" })
  )
  await bench.run(Todos.complete({ todo: work.id, continuation: { kind: "noFollowUp" } }))
  assert.equal(await next(), "repair sourceUnread")
  await bench.run(Sources.read({ source: source.id, revision: 1, agent: "bob" }))
  assert.equal(await next(), "userAction closure")
})
