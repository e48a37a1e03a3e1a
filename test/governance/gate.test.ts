import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import {
  type Authority,
  Effects,
  type Gate,
  Gates,
  type GateAction,
  Goals,
  laneOf,
  Leases,
  Quota,
  type Reach,
  Settlements,
  Todos,
  type TodoRecord,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

const owner = { role: "person", name: "Vera" } as const
const machine = { role: "agent", name: "ada" } as const
const question = "May the schema of the store change?"

const ask = (bench: Bench, goal: { readonly id: string }, more: object = {}) =>
  bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question, ...more }))

const decide = (bench: Bench, gate: { readonly id: string }, allow: boolean, reach: Reach = { kind: "scope" }) =>
  bench.run(Gates.decide({ gate: gate.id, by: owner, allow, reason: "discussed", reach }))

const next = (bench: Bench, goal: { readonly id: string }, agent: string) =>
  bench.run(Todos.nextWork({ goal: goal.id, agent }))

const codeOf = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>): Promise<string> => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result) ? result.failure.code : "ok"
}

test("G40 C66 a user gate for agent A: A gets none of that work and is told which gate, and agent B goes on", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal, { agents: ["ada"] })
  const ada = await next(bench, goal, "ada")
  assert.deepInclude(ada, { _tag: "none", reason: "allWithheld", gated: [{ todo: null, gates: [gate.id] }] })
  assert.equal(ada._tag === "none" && ada.withheld.gated, 1)
  const named = await bench.fails(Leases.acquire({ todo: todo.id, agent: "ada" }))
  assert.deepInclude(named, {
    code: "GATED",
    agent: "ada",
    action: "claim",
    gates: [{ gate: gate.id, kind: "userDecision", lane: "owner", question, standing: "open", answer: null, by: null }]
  })
  const bob = await next(bench, goal, "bob")
  assert.deepInclude(bob, { _tag: "claimed", gated: [] })
})

test("G40 a gate on some todos leaves the agent its other work, best first, and names what it passed over", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const best = await newTodo(bench, goal, { priority: 9 })
  const other = await newTodo(bench, goal)
  const gate = await ask(bench, goal, { todos: [best.id] })
  const work = await next(bench, goal, "ada")
  assert.deepInclude(work, { _tag: "claimed", gated: [{ todo: best.id, gates: [gate.id] }] })
  assert.equal(work._tag === "claimed" && work.todo.id, other.id)
  await decide(bench, gate, true)
  const now = await next(bench, goal, "ada")
  assert.equal(now._tag === "claimed" && now.todo.id, best.id)
})

test("G40 G34 a write boundary stops what claims to write there, and nothing beside it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const inside = await newTodo(bench, goal, { writeScopes: ["src/billing/tax"] })
  const beside = await newTodo(bench, goal, { writeScopes: ["src/docs"] })
  const silent = await newTodo(bench, goal)
  const bare = { goal: goal.id, kind: "writeBoundary", question: "May billing change?" } as const
  assert.equal((await bench.fails(Gates.ask(bare))).code, "INVALID_INPUT")
  await bench.run(Gates.ask({ ...bare, writeScopes: ["src/billing/**"] }))
  const codes = []
  for (const todo of [inside, beside, silent]) {
    codes.push(await codeOf(bench, Leases.acquire({ todo: todo.id, agent: "ada" })))
  }
  assert.deepEqual(codes, ["GATED", "ok", "ok"])
})

test("G40 the same question is asked once: whatever order or spacing it comes in, the open gate or the standing decision comes back", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const first = await ask(bench, goal, { agents: ["ada", "bob"], actions: ["dispatch", "claim"] })
  const again = () =>
    ask(bench, goal, {
      question: `  ${question.replace(" ", "\n  ")}`,
      agents: ["bob", "ada", "bob"],
      actions: ["claim", "dispatch"]
    })
  assert.deepInclude(await again(), { id: first.id, asked: false, state: "open" })
  await decide(bench, first, false)
  const decided = await again()
  assert.deepInclude(decided, { id: first.id, asked: false, state: "decided" })
  assert.deepInclude(decided.decisions[0]!, { allow: false, answer: "no", reason: "discussed", by: owner })
  const opened = (await bench.store.journal({ after: 0, limit: 100 })).filter((entry) => entry.type === "gate.opened")
  assert.equal(opened.length, 1)
  const others = [
    { question: "May the name of the store change?" },
    { agents: ["ada"] },
    { actions: ["settle"] },
    { kind: "capability", need: { class: "network", name: "registry" } }
  ]
  const ids = new Set([first.id])
  for (const other of others) ids.add((await ask(bench, goal, other)).id)
  assert.equal(ids.size, 5)
})

test("G40 a refusal stands within its scope, names its decision, and a later decision replaces it", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal)
  await decide(bench, gate, false)
  const refused = await bench.fails(Leases.acquire({ todo: todo.id, agent: "bob" }))
  const error = refused as { readonly code: string; readonly gates: readonly object[]; readonly remedy: string }
  assert.equal(error.code, "GATED")
  assert.deepInclude(error.gates[0]!, { gate: gate.id, standing: "refused", answer: "no", by: "Vera" })
  assert.include(error.remedy, "stands")
  await decide(bench, gate, true, { kind: "todo", todo: todo.id })
  assert.equal(await codeOf(bench, Leases.acquire({ todo: todo.id, agent: "bob" })), "ok")
  const second = await newTodo(bench, goal)
  assert.equal(await codeOf(bench, Leases.acquire({ todo: second.id, agent: "bob" })), "GATED")
})

test("G40 once is one holding of one todo: every step under that lease passes, the next lease asks again", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal)
  const decided = await decide(bench, gate, true, { kind: "once" })
  assert.equal(decided.state, "decided")
  const { fence } = await hold(bench, todo)
  assert.equal((await bench.run(Gates.get({ gate: gate.id }))).state, "open")
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  await bench.run(Turns.fail({ turn: turn.id, reason: "tried", spend: { usd: 0 }, seenGone: "the test" }))
  const other = await newTodo(bench, goal)
  assert.equal(await codeOf(bench, Leases.acquire({ todo: other.id, agent: "ada" })), "GATED")
  await bench.run(Leases.release({ fence }))
  assert.equal(await codeOf(bench, Leases.acquire({ todo: todo.id, agent: "ada" })), "GATED")
  const pointless = Gates.decide({ gate: gate.id, by: owner, allow: false, reason: "no", reach: { kind: "once" } })
  assert.equal((await bench.fails(pointless)).code, "INVALID_INPUT")
})

test("G40 G36 until a time: it ends strictly there, the question is open again, and no earlier clock brings it back", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const [one, two] = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const gate = await ask(bench, goal)
  const at = bench.now + 1000
  const decided = await decide(bench, gate, true, { kind: "until", at })
  assert.deepInclude(decided, { state: "decided", lapsesAt: at })
  bench.now = at - 1
  await hold(bench, one)
  bench.now = at
  const refused = Leases.acquire({ todo: two.id, agent: "ada" })
  assert.equal(await codeOf(bench, refused), "GATED")
  bench.now = at - 500
  assert.equal(await codeOf(bench, refused), "GATED")
  const seen = await ask(bench, goal)
  assert.deepInclude(seen, { id: gate.id, asked: false, state: "open", lapsesAt: null })
  const late = Gates.decide({ gate: gate.id, by: owner, allow: true, reason: "r", reach: { kind: "until", at } })
  assert.equal((await bench.fails(late)).code, "INVALID_INPUT")
})

test("G40 each action asks its own gates inside its own commit: claim, dispatch, settle, complete", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const on = (action: GateAction) => ask(bench, goal, { question: `May it ${action}?`, actions: [action] })
  const claim = await on("claim")
  assert.equal(await codeOf(bench, Leases.acquire({ todo: todo.id, agent: "ada" })), "GATED")
  await decide(bench, claim, true)
  const { fence } = await hold(bench, todo)

  const admit = Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
  const dispatch = await on("dispatch")
  assert.equal(await codeOf(bench, admit), "GATED")
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).reserved.usd, 0)
  await decide(bench, dispatch, true)
  const turn = await bench.run(admit)
  await decide(bench, dispatch, false)
  assert.equal(await codeOf(bench, Turns.saveAttempt({ turn: turn.id, fence })), "GATED")
  assert.equal((await bench.run(Turns.get({ turn: turn.id }))).phase, "admit")
  await decide(bench, dispatch, true)
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  const result = {
    status: "ok",
    claim: "completed",
    summary: "done",
    failure: null,
    digest: null,
    usd: 0.5,
    wallMs: 1,
    provenGone: true
  } as const
  const complete = await on("complete")
  const settle = await on("settle")
  // What a turn cost and gave is recorded whatever is being asked.
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  await bench.run(Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "nothing declared" }))
  const settling = (outcome: "progress" | "failed", more: object) =>
    Settlements.settle({
      effectId: turn.effectId,
      goal: goal.id,
      fence,
      turn: turn.id,
      outcome,
      evidence: [],
      spend: { usd: 0.5 },
      todo: { action: "keep" },
      ...more
    })
  const done = { todo: { action: "complete", continuation: { kind: "noFollowUp" } } }
  const stopped = await bench.fails(settling("progress", done))
  assert.deepInclude(stopped, { code: "GATED", action: "complete" })
  const mine = { todo: todo.id, fence, continuation: { kind: "noFollowUp" } } as const
  assert.equal(await codeOf(bench, Todos.complete(mine)), "GATED")
  assert.equal((await bench.run(Turns.get({ turn: turn.id }))).next, "settle")
  await bench.run(settling("failed", {}))
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).spent.usd, 0.5)
  await decide(bench, complete, true)
  assert.equal((await bench.run(Todos.complete(mine))).state, "done")
  assert.equal((await bench.run(Gates.get({ gate: settle.id }))).state, "open")
})

test("G40 G60 an external effect is handed over only past the gates on effects: of its agent, and each effect once where that was said", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  // Equal operations wait for each other (G60): each moves elsewhere.
  const operation = (effect: string) => ({ axis: "x", to: effect })
  const kind = { name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" } as const
  const planned = (effect: string, more: object = {}) =>
    bench.run(
      Effects.plan({
        effect,
        goal: goal.id,
        provider: "stage",
        kind,
        operation: operation(effect),
        summary: "move",
        ...more
      })
    )
  const todo = await newTodo(bench, goal)
  const { fence } = await hold(bench, todo, "bob")
  await planned("of bob", { todo: todo.id, fence })
  await planned("first")
  await planned("second")
  const gate = await ask(bench, goal, { agents: ["ada"], actions: ["effect"] })
  const dispatch = (effect: string, more: object = {}) =>
    codeOf(bench, Effects.dispatch({ effect, operation: operation(effect), ...more }))
  // The effects of no todo are nobody's in particular: the gates of everybody hold for them.
  assert.deepEqual([await dispatch("first"), await dispatch("of bob", { fence })], ["GATED", "ok"])
  await decide(bench, gate, true, { kind: "once" })
  assert.deepEqual([await dispatch("first"), await dispatch("second")], ["ok", "GATED"])
})

test("G40 whoever completes work without saying who it is, is held to the gates of everybody", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  await ask(bench, goal, { agents: ["ada"], actions: ["complete"] })
  const completing = (more: object) =>
    codeOf(bench, Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" }, ...more }))
  assert.equal(await completing({}), "GATED")
  assert.equal(await completing({ agent: "ada" }), "GATED")
  assert.equal(await completing({ agent: "bob" }), "ok")
})

test("G40 a transfer to an agent that a gate stops is refused; the holder keeps its lease", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  await ask(bench, goal, { agents: ["bob"] })
  const { fence } = await hold(bench, todo)
  assert.equal(await codeOf(bench, Leases.transfer({ fence, to: "bob", reason: "shift ends" })), "GATED")
  assert.equal(await codeOf(bench, Leases.renew({ fence })), "ok")
})

test("G41 what is missing locally is a repair lane; only credentials and production access ask the owner", async () => {
  const need = (name: Parameters<typeof laneOf>[1]) => laneOf("capability", name)
  const local = ["network", "bridge", "tool", "runtime", "storage"] as const
  for (const each of local) assert.equal(need({ class: each, name: "x" }), "repair")
  for (const each of ["credential", "productionAccess"] as const)
    assert.equal(need({ class: each, name: "x" }), "owner")
  assert.equal(laneOf("userDecision", null), "owner")
  assert.equal(laneOf("writeBoundary", null), "owner")

  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const missing = (kind: "network" | "credential") =>
    ask(bench, goal, { kind: "capability", question: "It is missing.", need: { class: kind, name: "registry" } })
  const network = await missing("network")
  const key = await missing("credential")
  const list = async (lane: "owner" | "repair") =>
    (await bench.run(Gates.list({ goal: goal.id, state: "open", lane }))).items.map((gate) => gate.id)
  assert.deepEqual([await list("owner"), await list("repair")], [[key.id], [network.id]])

  const answers = (gate: Gate) =>
    Gates.decide({ gate: gate.id, by: machine, allow: true, reason: "it answers again", reach: { kind: "scope" } })
  assert.deepInclude(await bench.fails(answers(key)), { code: "OWNER_ONLY", by: "ada" })
  const withdrawn = await bench.fails(Gates.withdraw({ gate: key.id, by: machine, reason: "never mind" }))
  assert.equal(withdrawn.code, "OWNER_ONLY")
  await bench.run(Gates.withdraw({ gate: key.id, by: owner, reason: "not needed" }))
  const stopped = await bench.fails(Leases.acquire({ todo: todo.id, agent: "ada" }))
  assert.include(stopped.remedy, "Repair")
  await bench.run(answers(network))
  assert.equal(await codeOf(bench, Leases.acquire({ todo: todo.id, agent: "ada" })), "ok")
})

test("G40 a withdrawn question stops nothing and takes no answer; asked again it is a new one", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal)
  await bench.run(Gates.withdraw({ gate: gate.id, by: owner, reason: "settled in a meeting" }))
  const answer = Gates.decide({ gate: gate.id, by: owner, allow: true, reason: "r", reach: { kind: "scope" } })
  assert.equal((await bench.fails(answer)).code, "GATE_CLOSED")
  await hold(bench, todo)
  const again = await ask(bench, goal)
  assert.deepInclude(again, { asked: true, state: "open" })
  assert.notEqual(again.id, gate.id)
})

test("G40 G50 what makes no sense is refused at the door: an answer that is no choice, an unknown agent or todo, a need without its kind", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const elsewhere = await newTodo(bench, await newGoal(bench))
  const asking = (more: object) => codeOf(bench, Gates.ask({ goal: goal.id, kind: "userDecision", question, ...more }))
  assert.equal(await asking({ agents: ["eve"] }), "NOT_FOUND")
  assert.equal(await asking({ todos: [elsewhere.id] }), "NOT_FOUND")
  assert.equal(await asking({ agents: [] }), "INVALID_INPUT")
  assert.equal(await asking({ actions: ["fly"] }), "INVALID_INPUT")
  assert.equal(await asking({ kind: "capability" }), "INVALID_INPUT")
  assert.equal(await asking({ need: { class: "tool", name: "make" } }), "INVALID_INPUT")
  const gate = await ask(bench, goal, { choices: ["postgres", "sqlite"], todos: [todo.id] })
  const answering = (more: object) =>
    codeOf(
      bench,
      Gates.decide({ gate: gate.id, by: owner, allow: true, reason: "r", reach: { kind: "scope" }, ...more })
    )
  assert.equal(await answering({}), "INVALID_INPUT")
  assert.equal(await answering({ answer: "oracle" }), "INVALID_INPUT")
  assert.equal(await answering({ answer: "sqlite", reach: { kind: "todo", todo: elsewhere.id } }), "NOT_FOUND")
  assert.equal(await answering({ answer: "sqlite", reason: "" }), "INVALID_INPUT")
  assert.equal(await answering({ answer: "sqlite" }), "ok")
})

// --- random histories against a small plain model --------------------------------------------------------------------

interface Model {
  readonly id: string
  readonly agents: readonly string[] | null
  readonly todos: readonly string[] | null
  readonly scopes: readonly string[] | null
  withdrawn: boolean
  /** Every decision that was ever given, oldest first. */
  readonly decisions: { readonly allow: boolean; readonly reach: Reach; used: string | null }[]
}

/** Whether the gate lets this pass, said as plainly as the rule: the latest decision that reaches here decides. */
const passes = (gate: Model, agent: string, todo: TodoRecord, epoch: number, now: number): boolean => {
  if (gate.withdrawn) return true
  if (gate.agents !== null && !gate.agents.includes(agent)) return true
  if (gate.todos !== null && !gate.todos.includes(todo.id)) return true
  if (gate.scopes !== null && !gate.scopes.some((scope) => todo.writeScopes.includes(scope))) return true
  for (const { allow, reach, used } of gate.decisions.toReversed()) {
    if (reach.kind === "scope") return allow
    if (reach.kind === "until" && now < reach.at) return allow
    if (reach.kind === "todo" && reach.todo === todo.id) return allow
    if (reach.kind === "once" && (used === null || used === `${todo.id}/${epoch}`)) return allow
  }
  return false
}

test("G40 C66 random gates, decisions and agents: nextWork gives each agent what a plain model gives it, and each refusal names the gates", async () => {
  const start = seed()
  let state = start
  const pick = (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  const agents = ["ada", "bob"]
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todos: TodoRecord[] = []
  for (const scopes of [["a"], ["b"], ["a", "c"], [], ["d"], []]) {
    todos.push(await newTodo(bench, goal, { writeScopes: scopes, priority: pick(3) }))
    bench.now += 1
  }
  const epochs = new Map(todos.map((todo) => [todo.id, 0]))
  const gates: Model[] = []
  const order = todos.toSorted((a, b) => b.priority - a.priority || a.addedAt - b.addedAt)
  const stopped = (agent: string, todo: TodoRecord) =>
    gates.filter((gate) => !passes(gate, agent, todo, epochs.get(todo.id)! + 1, bench.now))
  for (let step = 0; step < 250; step += 1) {
    const where = `step ${step} of seed ${start}`
    const live = gates.filter((gate) => !gate.withdrawn)
    const move = pick(10)
    if (move === 0 && live.length < 5) {
      const scope = {
        agents: pick(2) === 0 ? null : [agents[pick(2)]!],
        todos: pick(2) === 0 ? null : [todos[pick(todos.length)]!.id, todos[pick(todos.length)]!.id],
        scopes: pick(3) === 0 ? [["a", "b", "d"][pick(3)]!] : null
      }
      const gate = await ask(bench, goal, {
        question: `Question ${step}?`,
        ...(scope.agents === null ? {} : { agents: scope.agents }),
        ...(scope.todos === null ? {} : { todos: scope.todos }),
        ...(scope.scopes === null ? {} : { writeScopes: scope.scopes })
      })
      gates.push({ id: gate.id, ...scope, withdrawn: false, decisions: [] })
    } else if (move <= 3 && live.length > 0) {
      const gate = live[pick(live.length)]!
      const todo = todos[pick(todos.length)]!
      const reach = [
        { kind: "scope" },
        { kind: "once" },
        { kind: "until", at: bench.now + 1 + pick(30) },
        { kind: "todo", todo: todo.id }
      ][pick(4)] as Reach
      const allow = reach.kind === "once" || pick(2) === 0
      if (reach.kind !== "todo" || gate.todos === null || gate.todos.includes(todo.id)) {
        await decide(bench, gate, allow, reach)
        // Said again before it was used, once is still once.
        const unused = gate.decisions.findIndex((old) => old.reach.kind === "once" && old.used === null)
        if (reach.kind === "once" && unused >= 0) gate.decisions.splice(unused, 1)
        gate.decisions.push({ allow, reach, used: null })
      }
    } else if (move === 4 && live.length > 0 && pick(3) === 0) {
      const gate = live[pick(live.length)]!
      await bench.run(Gates.withdraw({ gate: gate.id, by: owner, reason: "r" }))
      gate.withdrawn = true
    } else if (move === 5) {
      bench.now += pick(40)
    } else {
      const agent = agents[pick(2)]!
      const best = order.find((todo) => stopped(agent, todo).length === 0)
      const got = await next(bench, goal, agent)
      if (got._tag === "none") {
        assert.isUndefined(best, where)
        assert.equal(got.withheld.gated, todos.length, where)
        for (const one of got.gated.filter(({ todo }) => todo !== null)) {
          const todo = todos.find(({ id }) => id === one.todo)!
          assert.sameMembers(
            [...one.gates],
            stopped(agent, todo).map(({ id }) => id),
            where
          )
        }
        continue
      }
      assert.equal(got.todo.id, best?.id, where)
      const epoch = epochs.get(got.todo.id)! + 1
      for (const gate of gates) {
        const concerned =
          !gate.withdrawn &&
          (gate.agents === null || gate.agents.includes(agent)) &&
          (gate.todos === null || gate.todos.includes(got.todo.id)) &&
          (gate.scopes === null || gate.scopes.some((scope) => got.todo.writeScopes.includes(scope)))
        const decision = gate.decisions.findLast(
          ({ reach, used }) =>
            reach.kind === "scope" ||
            (reach.kind === "until" && bench.now < reach.at) ||
            (reach.kind === "todo" && reach.todo === got.todo.id) ||
            (reach.kind === "once" && used === null)
        )
        if (concerned && decision?.reach.kind === "once") decision.used = `${got.todo.id}/${epoch}`
      }
      epochs.set(got.todo.id, epoch)
      await bench.run(Leases.release({ fence: got.lease.fence }))
    }
  }
  assert.isTrue((await bench.store.verify()).ok)
})

test("G10 C67 a paused goal with an open gate: the pause goes first, and names what waits", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const gate = await ask(bench, goal)
  await bench.run(Goals.pause({ goal: goal.id }))
  const waiting = [{ kind: "gate", id: gate.id }]
  const calls = [
    Todos.nextWork({ goal: goal.id, agent: "ada" }),
    Leases.acquire({ todo: todo.id, agent: "ada" })
  ] as readonly Effect.Effect<unknown, any, Authority>[]
  for (const call of calls) assert.deepInclude(await bench.fails(call), { code: "GOAL_NOT_ACTIVE", waiting })
  // Who may go on is decided beside the pause, and changes nothing of it.
  await decide(bench, gate, true)
  assert.deepInclude(await bench.fails(calls[0]!), { code: "GOAL_NOT_ACTIVE", waiting: [] })
  await bench.run(Goals.resume({ goal: goal.id }))
  assert.equal((await next(bench, goal, "ada"))._tag, "claimed")
})
