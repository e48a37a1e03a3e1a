/** What may become of a delivery, decided from its record alone, over every state; and the pages of its lists. Rules: G90, G91. */
import * as Result from "effect/Result"
import { assert, test } from "vitest"
import type { ProcessIdentity } from "../../../src/base/Spawn.ts"
import { deliveryHandlers, sentElsewhere } from "../../../src/governance/Delivery.ts"
import type { DeliveryRecord } from "../../../src/governance/DeliveryRecord.ts"
import { Deliveries, Todos } from "../../../src/governance/index.ts"
import { newBench, newGoal, newTodo } from "../authority.ts"
import { now } from "./records.ts"

const states = ["accepted", "dispatched", "confirmed", "unknown", "refused", "withdrawn"] as const
const me: ProcessIdentity = { pid: 10, startTime: "100", bootId: "boot", pidNamespace: null }
const other: ProcessIdentity = { pid: 11, startTime: "101", bootId: "boot", pidNamespace: null }
const third: ProcessIdentity = { pid: 12, startTime: "102", bootId: "boot", pidNamespace: null }
const origin = { destination: "d", channel: "c", requestId: "r" }

const delivery = (change: Partial<DeliveryRecord> = {}): DeliveryRecord => ({
  id: "dlv-a",
  goal: "goal-a",
  todo: "todo-a",
  origin,
  result: {
    outcome: "accepted",
    accepted: true,
    todoState: "done",
    effectId: "effect-a",
    settlement: null,
    candidate: null,
    evidence: [],
    spend: { usd: 0, slots: 0 }
  },
  state: "accepted",
  provider: null,
  attempts: 0,
  earlierOpen: false,
  fence: null,
  receipt: null,
  resolvedBy: null,
  reason: null,
  acceptedAt: now,
  dispatchedAt: null,
  resolvedAt: null,
  readAt: null,
  changedAt: now,
  ...change
})
const sent = (state: DeliveryRecord["state"], change: Partial<DeliveryRecord> = {}) =>
  delivery({ state, attempts: 2, provider: "mail", fence: other, ...change })
const active = { id: "goal-a", state: "active" }
const context = { now: now + 5, newId: (kind: string) => `${kind}-1`, newToken: () => "token" }

/** What a command decides about a record: its error's tag, or the record that it leaves and the facts that say so. */
const decide = (type: string, state: unknown, payload: object, observed?: object) => {
  const command = { id: "cmd", module: "work", type, payload, observed }
  const result = deliveryHandlers[type]!.decide({ payload, state }, command as never, context as never)
  if (Result.isFailure(result))
    return { refused: (result.failure as { readonly _tag: string })._tag, error: result.failure }
  const { events, reply } = result.success
  return {
    facts: events.map((event) => event.type),
    reply: reply as unknown as DeliveryRecord & { replayed?: boolean }
  }
}
const dispatch = (
  found: DeliveryRecord,
  payload: object = {},
  observed: object | null = { process: me, sender: null, alive: false }
) =>
  decide(
    "dispatchDelivery",
    { found, goal: active },
    { delivery: "dlv-a", provider: "mail", ...payload },
    observed ?? undefined
  )
const resolve = (found: DeliveryRecord, payload: object, instead: readonly DeliveryRecord[] = []) =>
  decide("resolveDelivery", { found, instead }, { delivery: "dlv-a", attempt: 2, by: "reply", ...payload })

test("G91 only what is accepted or of open fate is sent, in each state", () => {
  for (const state of states) {
    const got = dispatch(sent(state), { retry: "again" }, { process: other, sender: null, alive: false })
    if (state === "accepted" || state === "dispatched" || state === "unknown") {
      assert.deepEqual(got.facts, ["delivery.dispatched"], state)
      assert.deepInclude(got.reply, {
        state: "dispatched",
        attempts: 3,
        fence: other,
        earlierOpen: state !== "accepted",
        reason: "again",
        resolvedBy: null,
        resolvedAt: null,
        dispatchedAt: now + 5
      })
    } else assert.equal(got.refused, "DeliveryState", state)
  }
  assert.deepInclude(dispatch(delivery()).reply, { attempts: 1, reason: null, provider: "mail", earlierOpen: false })
  assert.equal(dispatch(delivery(), {}, null).refused, "InvalidInput")
  const [decidedState, stateOfOther] = [dispatch(sent("refused")), dispatch(sent("confirmed"))]
  assert.match(String((decidedState.error as { remedy?: string }).remedy), /changeOrigin/)
  assert.match(String((dispatch(sent("withdrawn")).error as { remedy?: string }).remedy), /changeOrigin/)
  assert.match(String((stateOfOther.error as { remedy?: string }).remedy), /Deliveries\.get/)
})

test("G91 who sends is asked before another sends: himself, one that is dead, one that lives, one that nobody can see", () => {
  const again = { retry: "again" }
  const dead = sent("dispatched")
  // The sender himself, whatever is observed of anybody.
  assert.isDefined(dispatch(dead, again, { process: other, sender: other, alive: true }).reply)
  // Looked at, and dead or alive.
  assert.isDefined(dispatch(dead, again, { process: me, sender: other, alive: false }).reply)
  const alive = dispatch(dead, again, { process: me, sender: other, alive: true })
  assert.equal(alive.refused, "DeliveryInFlight")
  assert.match(String((alive.error as { remedy?: string }).remedy), /Wait/)
  // Not seen, or another one was looked at: unknown, until somebody says that it is gone.
  for (const seen of [
    { process: me, sender: null, alive: false },
    { process: me, sender: third, alive: false },
    { process: me, sender: other, alive: "unknown" }
  ]) {
    const unseen = dispatch(dead, again, seen)
    assert.equal(unseen.refused, "DeliveryInFlight")
    assert.match(String((unseen.error as { remedy?: string }).remedy), /seenGone/)
    assert.isDefined(dispatch(dead, { ...again, seenGone: "looked at the machine" }, seen).reply)
  }
  // A sender that lives is not argued away.
  assert.equal(
    dispatch(dead, { ...again, seenGone: "looked" }, { process: me, sender: other, alive: true }).refused,
    "DeliveryInFlight"
  )
  // The sending of an unknown one has ended: nobody is asked.
  assert.isDefined(dispatch(sent("unknown"), again, { process: me, sender: other, alive: true }).reply)
  // No sender was kept: nobody knows.
  assert.equal(dispatch(sent("dispatched", { fence: null }), again).refused, "DeliveryInFlight")
})

test("G91 sending again names its reason, and keeps its provider", () => {
  for (const state of ["dispatched", "unknown"] as const) {
    const mine = { process: other, sender: null, alive: false }
    assert.equal(dispatch(sent(state), {}, mine).refused, "InvalidInput")
    assert.equal(dispatch(sent(state), { retry: "" }, mine).refused, "InvalidInput")
    assert.equal(dispatch(sent(state), { retry: "r", provider: "post" }, mine).refused, "IdentityConflict")
  }
  assert.deepInclude(dispatch(sent("accepted"), { provider: "post" }).reply, { provider: "post" })
})

test("G91 who else may be sending: nobody but the process of a begun sending, which is not oneself", () => {
  for (const state of states) {
    if (state !== "dispatched") assert.isFalse(sentElsewhere(sent(state), me), state)
  }
  assert.isFalse(sentElsewhere(sent("dispatched"), other))
  assert.isFalse(sentElsewhere(sent("dispatched", { fence: null }), me))
  assert.notEqual(sentElsewhere(sent("dispatched", { fence: { ...me, bootId: "elsewhere" } }), other), undefined)
})

test("G91 what a sending may be resolved as, over every state, outcome, voice and attempt", () => {
  for (const state of states) {
    for (const outcome of ["confirmed", "unknown", "refused", "notSent"] as const) {
      for (const by of ["reply", "readBack", "person"] as const) {
        for (const attempt of [0, 1, 2, 3]) {
          const got = resolve(sent(state), { outcome, by, attempt })
          const name = `${state} ${outcome} ${by} ${attempt}`
          if (state === outcome) {
            assert.deepEqual([got.facts, got.reply?.replayed], [[], true], name)
            continue
          }
          const may =
            attempt >= 1 &&
            attempt <= 2 &&
            (outcome === "confirmed" ||
              (attempt === 2 && (state === "dispatched" || (state === "unknown" && by !== "reply"))))
          assert.equal(got.refused, may ? undefined : "DeliveryState", name)
          if (!may) continue
          assert.deepEqual(got.facts, [`delivery.${outcome}`], name)
          assert.deepInclude(
            got.reply,
            {
              state: outcome === "notSent" ? "accepted" : outcome,
              resolvedBy: by,
              resolvedAt: now + 5,
              earlierOpen: false
            },
            name
          )
        }
      }
    }
  }
})

test("G91 while an earlier attempt may have arrived a reply that says not here leaves it unknown; a read-back or a person decides", () => {
  const earlier = sent("dispatched", { earlierOpen: true })
  for (const outcome of ["refused", "notSent"] as const) {
    assert.deepInclude(resolve(earlier, { outcome }).reply, { state: "unknown", earlierOpen: true })
    const state = outcome === "notSent" ? "accepted" : "refused"
    for (const by of ["readBack", "person"])
      assert.deepInclude(resolve(earlier, { outcome, by }).reply, { state, earlierOpen: false })
  }
  assert.deepInclude(resolve(earlier, { outcome: "unknown" }).reply, { state: "unknown", earlierOpen: true })
  assert.deepInclude(resolve(earlier, { outcome: "confirmed", receipt: "r-1" }).reply, {
    earlierOpen: false,
    receipt: "r-1"
  })
  assert.deepInclude(resolve(sent("dispatched", { receipt: "r-0" }), { outcome: "unknown" }).reply, {
    receipt: "r-0",
    reason: null
  })
  assert.deepInclude(resolve(earlier, { outcome: "unknown", reason: "lost" }).reply, { reason: "lost" })
  const instead = delivery({ id: "dlv-b" })
  const late = resolve(sent("withdrawn"), { outcome: "confirmed" }, [instead])
  assert.deepEqual(late.facts, ["delivery.confirmed", "delivery.withdrawn"])
})

test("G91 reading confirms what was open, is a fact once, and is refused where nothing can be there; withdrawing ends only what was not sent", () => {
  for (const state of states) {
    const read = decide("readDelivery", sent(state, { earlierOpen: true }), { delivery: "dlv-a" })
    if (state === "dispatched" || state === "unknown") {
      assert.deepEqual(read.facts, ["delivery.confirmed", "delivery.readByUser"])
      assert.deepInclude(read.reply, { state: "confirmed", resolvedBy: "reader", readAt: now + 5, earlierOpen: false })
    } else if (state === "confirmed") {
      assert.deepEqual(read.facts, ["delivery.readByUser"])
      assert.deepInclude(read.reply, { resolvedBy: null, readAt: now + 5 })
    } else assert.equal(read.refused, "DeliveryState")
    const withdrawn = decide("withdrawDelivery", sent(state), { delivery: "dlv-a", reason: "no" })
    if (state === "accepted") assert.deepInclude(withdrawn.reply, { state: "withdrawn", reason: "no" })
    else assert.equal(withdrawn.refused, "DeliveryState")
  }
  assert.deepEqual(decide("readDelivery", sent("confirmed", { readAt: now }), { delivery: "dlv-a" }).facts, [])
})

test("G91 G22 the lists of deliveries give as many as they are asked for, and say whether there are others", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const ids: string[] = []
  for (let n = 0; n < 4; n += 1) {
    const todo = await newTodo(bench, goal, { origin: { ...origin, requestId: String(n) } })
    ids.push((await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))).delivery!)
    bench.now += 1
  }
  for (const limit of [1, 3, 4, 5]) {
    for (const list of [Deliveries.list({ goal: goal.id, limit }), Deliveries.undelivered({ goal: goal.id, limit })]) {
      const page = await bench.run(list)
      assert.deepEqual([page.items.map(({ id }) => id), page.more], [ids.slice(0, limit), limit < 4])
    }
  }
  const all = await bench.run(Deliveries.undelivered({}))
  assert.deepEqual([all.items.length, all.more], [4, false])
})
