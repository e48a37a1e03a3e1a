/** What the loop does next: what of its input is sound, and each lane with what it is about. Rules: G12, G15, G83. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import {
  type LoopReceipt,
  type LoopState,
  type LoopTodo,
  nextDisposition,
  type TurnBudget
} from "../../../src/governance/LoopController.ts"

const ready: LoopTodo = { todo: "todo-a", unreadable: [], gates: [] }
const state = (change: Partial<LoopState> = {}): LoopState => ({
  goal: "goal-a",
  agent: "ada",
  asOf: 10,
  goalState: "active",
  goalRevision: 2,
  open: [],
  turn: null,
  held: null,
  ready: null,
  withheld: null,
  movesAt: null,
  gates: [],
  accounts: [],
  ...change
})
const receipt = (change: Partial<LoopReceipt> = {}): LoopReceipt => ({
  goal: "goal-a",
  todo: "todo-a",
  outcome: "progress",
  todoState: "open",
  asOf: 10,
  ...change
})
type Fields = { readonly [field: string]: any }
const next = (of: unknown, given?: unknown, budget: unknown = { turns: 1 }): Fields => {
  const got = nextDisposition(given as LoopReceipt, of as LoopState, budget as TurnBudget)
  return (Result.isSuccess(got) ? got.success : got.failure) as Fields
}
const part = (kind: string, ...ids: readonly string[]) => ({ kind, count: ids.length, ids })
const gate = (id: string, lane: "owner" | "repair") => ({ id, lane, question: `${id}?` })
const withheld = { leased: 0, scopeConflict: 0, capability: 0, blocked: 0, deferred: 0, excluded: 0 }
const expected = (one: Fields) => [one["disposition"], one["reason"], one["about"]]

test("G83 input that is no state, receipt or budget is refused by name, whichever part of it", () => {
  const account = { agent: null, budget: {}, remaining: {}, window: null }
  const wrong: unknown[] = [undefined, null, 7, "state"]
  for (const field of ["goal", "agent", "goalState"]) wrong.push(state({ [field]: 7 }), state({ [field]: null }))
  for (const field of ["open", "gates", "accounts"])
    wrong.push(state({ [field]: null }), state({ [field]: {} }), state({ [field]: [7] }), state({ [field]: [null] }))
  for (const field of ["turn", "withheld"]) wrong.push(state({ [field]: 7 }), state({ [field]: undefined }))
  wrong.push(
    state({ open: [{ kind: "todo", count: 1 }] } as never),
    state({ open: [part("todo"), { kind: "todo", ids: "x" }] } as never)
  )
  for (const field of ["budget", "remaining"])
    wrong.push(state({ accounts: [account, { ...account, [field]: null }] } as never))
  for (const field of ["held", "ready"])
    for (const one of [
      7,
      undefined,
      { unreadable: [] },
      { gates: [] },
      { unreadable: [], gates: 7 },
      { unreadable: 7, gates: [] }
    ])
      wrong.push(state({ [field]: one }))
  for (const one of wrong) {
    const got = next(one)
    assert.deepInclude(got, { _tag: "InvalidInput", command: "Loop.next" })
    assert.match(got["message"], /`state` is not/)
  }
  for (const one of [null, 7, "receipt", {}, { goal: 7 }, []])
    assert.match(next(state(), one)["message"], /`receipt` is not/)
  for (const budget of [
    null,
    undefined,
    7,
    {},
    { turns: -1 },
    { turns: 1.5 },
    { turns: "1" },
    { turns: Number.POSITIVE_INFINITY }
  ]) {
    const got = nextDisposition(undefined, state(), budget as never)
    assert.isTrue(Result.isFailure(got) && /`turns` is a whole/.test(got.failure.message), JSON.stringify(budget))
  }
  assert.equal(
    next(state({ accounts: [account], open: [part("todo", "t")], gates: [gate("g", "owner")], ready } as never))[
      "_tag"
    ],
    undefined
  )
})

test("G83 stale input is an error: another goal or agent, an older state, an older revision, a todo that has ended", () => {
  const why = (given: Partial<LoopReceipt>, of: Partial<LoopState> = {}) =>
    next(state({ ready, ...of }), receipt(given))["why"]
  assert.equal(why({}), undefined)
  assert.equal(why({ goal: "goal-b" }), "goal")
  assert.equal(why({ agent: "ada" }), undefined)
  assert.equal(why({ agent: "bob" }), "agent")
  assert.deepEqual(
    [why({ asOf: 11 }), why({ asOf: 10 }), why({ asOf: 9 }), why({ asOf: undefined as never })],
    ["older", undefined, undefined, "older"]
  )
  assert.deepEqual(
    [why({ goalRevision: 3 }), why({ goalRevision: 2 }), why({ goalRevision: 1 })],
    ["revision", undefined, undefined]
  )
  for (const todoState of ["open", "deferred", "done", "superseded"] as const) {
    const ended = todoState === "done" || todoState === "superseded" ? "revision" : undefined
    assert.equal(why({ todoState }), ended, todoState)
    assert.equal(why({ todoState }, { ready: null, held: ready }), ended)
    assert.equal(why({ todoState }, { ready: { ...ready, todo: "todo-b" } }), undefined)
    assert.equal(why({ todoState }, { ready: null }), undefined)
  }
})

test("G10 G83 a pause or stop goes first, then a completed goal, the agent's own turn, and a turn budget that is used up", () => {
  const turn = { id: "turn-a", next: "run", alive: false, survivor: false } as const
  const busy = { turn, ready, open: [part("todo", "t-1", "t-2"), part("gate", "g")] }
  for (const goalState of ["paused", "stopped"] as const) {
    const got = next(state({ ...busy, goalState } as never), undefined, { turns: 0 })
    assert.deepEqual(expected(got), ["stop", goalState === "paused" ? "goalPaused" : "goalStopped", ["goal-a"]])
    assert.include(got["says"], "(2 todo, 1 gate)")
    assert.notInclude(next(state({ goalState }))["says"], "(")
  }
  assert.deepEqual(expected(next(state({ ...busy, open: [], goalState: "completed" }))), [
    "terminal",
    "goalCompleted",
    ["goal-a"]
  ])
  const open = next(state({ ...busy, goalState: "completed" } as never))
  assert.deepEqual(expected(open), ["repair", "unresolved", ["t-1", "t-2", "g"]])
  assert.include(open["says"], "2 todo, 1 gate")
  for (const [change, disposition, reason] of [
    [{ survivor: true, alive: true }, "userAction", "survivor"],
    [{ alive: true }, "wait", "turnRunning"],
    [{ alive: "unknown" }, "userAction", "executorUnseen"],
    [{}, "repair", "turnLeft"]
  ] as const)
    assert.deepEqual(
      expected(next(state({ ...busy, turn: { ...turn, ...change } } as never), undefined, { turns: 0 })),
      [disposition, reason, ["turn-a"]]
    )
  assert.deepEqual(expected(next(state({ ready }), receipt({ outcome: "staleContext" }), { turns: 0 })), [
    "replan",
    "turnBudget",
    ["goal-a"]
  ])
  const ran = next(state({ ready, open: [part("todo", "t")] as never }))
  assert.deepInclude(ran, { goal: "goal-a", agent: "ada", asOf: 10, todo: "todo-a" })
  assert.deepEqual(ran["open"], [part("todo", "t")])
})

test("G83 what the receipt asks for counts where the same todo would be next, or nothing else is", () => {
  const after = (given: Partial<LoopReceipt>, change: Partial<LoopState> = {}) =>
    next(state({ ready, ...change }), receipt(given))
  const other = { ready: { ...ready, todo: "todo-b" } }
  const table = [
    [{ outcome: "staleContext" }, "replan", "staleContext"],
    [{ outcome: "unavailable" }, "repair", "validatorUnavailable"],
    [{ claim: "userAction" }, "userAction", "hostAsks"],
    [{ claim: "repair" }, "repair", "hostSays"],
    [{ claim: "replan" }, "replan", "hostSays"],
    [{ claim: "wait" }, "wait", "hostWaits"]
  ] as const
  for (const [given, disposition, reason] of table) {
    assert.deepEqual(expected(after(given)), [disposition, reason, ["todo-a"]])
    assert.deepEqual(expected(after(given, { ready: null })), [disposition, reason, ["todo-a"]])
    const elsewhere = expected(after(given, other))
    assert.deepEqual(
      elsewhere,
      reason === "staleContext" ? [disposition, reason, ["todo-a"]] : ["runNow", "ready", ["todo-b"]]
    )
    if ("claim" in given) {
      assert.include(after(given)["says"], `: ${given.claim}.`)
      assert.deepEqual(expected(after({ ...given, outcome: "accepted" })), ["runNow", "ready", ["todo-a"]])
    }
  }
  for (const claim of [null, "done", undefined]) assert.equal(after({ claim } as never)["disposition"], "runNow")
})

test("G40 G41 G83 what would be run is stopped by its gates, then by what it cannot read; other work that is free goes before", () => {
  const run = (held: Partial<LoopTodo> | null, other: Partial<LoopTodo> | null = null) =>
    next(
      state({
        held: held === null ? null : { ...ready, ...held },
        ready: other === null ? null : { ...ready, todo: "todo-b", ...other }
      })
    )
  assert.deepEqual(expected(run({})), ["runNow", "held", ["todo-a"]])
  assert.include(run({})["says"], "is held and goes on")
  assert.include(run(null, {})["says"], "can be taken")
  assert.deepEqual(expected(run({}, {})), ["runNow", "held", ["todo-a"]])
  const [owner, repair] = [gate("o", "owner"), gate("r", "repair")]
  for (const stopped of [{ gates: [owner] }, { unreadable: ["s"] }]) {
    assert.deepEqual(expected(run(stopped, {})), ["runNow", "ready", ["todo-b"]])
    assert.equal(run(stopped, stopped)["disposition"], run(stopped)["disposition"])
  }
  const asked = run({ gates: [repair, owner], unreadable: ["s"] })
  assert.deepEqual(expected(asked), ["userAction", "gate", ["o"]])
  assert.include(asked["says"], "o?")
  const missing = run({ gates: [repair, gate("r2", "repair")] })
  assert.deepEqual(expected(missing), ["repair", "gate", ["r", "r2"]])
  assert.include(missing["says"], "r?")
  assert.deepEqual(expected(run({ unreadable: ["s-1", "s-2"] })), ["repair", "sourceUnreadable", ["s-1", "s-2"]])
})

test("G50 G83 what is used up waits for its window, or asks the owner; of several what no time gives back goes first", () => {
  const account = (change: object) => ({
    agent: null,
    budget: { usd: null, slots: null },
    remaining: { usd: null, slots: null },
    window: null,
    ...change
  })
  const asks = (accounts: readonly object[], bound?: object) =>
    next(state({ ready, accounts: accounts as never }), undefined, {
      turns: 1,
      ...(bound === undefined ? {} : { bound })
    })
  const window = { from: 1, to: 2 }
  const slots = (left: number, more: object = {}) =>
    account({ budget: { slots: 4 }, remaining: { slots: left }, ...more })
  assert.equal(asks([account({})])["disposition"], "runNow")
  assert.equal(asks([slots(1)])["disposition"], "runNow")
  const out = asks([slots(0)])
  assert.deepEqual(expected(out), ["userAction", "quotaExhausted", ["goal-a"]])
  assert.match(out["says"], /^The goal has too few slots left for a turn/)
  const agents = asks([slots(0, { agent: "ada", window })])
  assert.deepEqual(expected(agents), ["wait", "quotaWindow", ["ada"]])
  assert.match(agents["says"], /^Agent ada has too few slots left in its window/)
  // More than there ever is: no window gives it.
  assert.deepEqual(expected(asks([slots(4, { window })], { slots: 5 })), ["userAction", "quotaExhausted", ["goal-a"]])
  assert.deepEqual(expected(asks([slots(3, { window })], { slots: 4 })), ["wait", "quotaWindow", ["goal-a"]])
  assert.deepEqual(expected(asks([slots(0, { window }), slots(0, { agent: "ada" })])), [
    "userAction",
    "quotaExhausted",
    ["ada"]
  ])
  const usd = (limit: number, left: number) => account({ budget: { usd: limit }, remaining: { usd: left } })
  for (const [limit, left, bound, expectedRun] of [
    [0, 0, undefined, true],
    [5, 0, undefined, false],
    [5, 1, undefined, true],
    [5, 1, 1, true],
    [5, 1, 1.1, false],
    [0, 0, 0, true]
  ] as const)
    assert.equal(
      asks([usd(limit, left)], bound === undefined ? {} : { usd: bound })["disposition"] === "runNow",
      expectedRun,
      `${limit} ${left} ${bound}`
    )
  assert.equal(asks([account({ budget: { attempts: 1 }, remaining: { attempts: 0 } })])["reason"], "quotaExhausted")
  assert.equal(asks([account({ budget: { attempts: 1 }, remaining: {} })])["reason"], "quotaExhausted")
})

test("G12 G15 G83 where nothing can be run, who moves next: each lane in its order, with what it is about", () => {
  const idle = (change: Partial<LoopState> = {}) => next(state(change))
  const todos = part("todo", "t-1", "t-2")
  const all = [todos, part("obligation", "o-1"), part("unreadSource", "s-1")]
  assert.deepEqual(
    expected(
      idle({ gates: [gate("r", "repair"), gate("o", "owner")], open: [part("unreadableSource", "s")] } as never)
    ),
    ["userAction", "gate", ["o"]]
  )
  assert.deepEqual(expected(idle({ open: [...all, part("unreadableSource", "s-2"), part("effect", "e")] } as never)), [
    "repair",
    "sourceUnreadable",
    ["s-2"]
  ])
  const unresolved = idle({
    open: [...all, part("effect", "e-1", "e-2"), part("reservation", "r-1")],
    movesAt: 5
  } as never)
  assert.deepEqual(expected(unresolved), ["repair", "unresolved", ["e-1", "e-2", "r-1"]])
  assert.include(unresolved["says"], "2 effect, 1 reservation")
  const others = idle({ open: [...all, part("turn", "turn-b")], movesAt: 5 } as never)
  assert.deepEqual([...expected(others), others["until"]], ["wait", "othersWork", ["turn-b"], 5])
  for (const change of [{ leased: 1 }, { scopeConflict: 1 }]) {
    const busy = idle({ open: all, withheld: { ...withheld, ...change } } as never)
    assert.deepEqual([...expected(busy), busy["until"]], ["wait", "othersWork", [], null])
  }
  const timed = idle({ open: all, movesAt: 7, withheld } as never)
  assert.deepEqual([...expected(timed), timed["until"]], ["wait", "time", ["t-1", "t-2"], 7])
  assert.deepEqual(expected(idle({ movesAt: 7 })), ["wait", "time", []])
  const lacks = { ...withheld, capability: 1 }
  assert.deepEqual(expected(idle({ open: all, withheld: lacks } as never)), ["repair", "capability", ["t-1", "t-2"]])
  assert.deepEqual(expected(idle({ withheld: lacks } as never)), ["repair", "capability", []])
  for (const change of [
    { blocked: 1 },
    { deferred: 1 },
    { excluded: 1 },
    { blocked: 1, deferred: 1 },
    { blocked: 1, excluded: 1 },
    { capability: 0 }
  ])
    assert.deepEqual(
      expected(idle({ open: all, withheld: { ...lacks, ...change } } as never)),
      ["replan", "nothingMoves", ["t-1", "t-2"]],
      JSON.stringify(change)
    )
  assert.deepEqual(expected(idle({ open: all.slice(1) } as never)), ["replan", "obligation", ["o-1"]])
  assert.deepEqual(expected(idle({ open: all.slice(2) } as never)), ["repair", "sourceUnread", ["s-1"]])
  assert.deepEqual(expected(idle({ open: [part("plannedEffect", "e")] } as never)), ["repair", "unresolved", ["e"]])
  assert.deepEqual(expected(idle()), ["userAction", "closure", ["goal-a"]])
})
