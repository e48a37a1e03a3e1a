/**
 * Writes the golden file of the present format: run once per released version, never again for an old one.
 * argv: a directory, and the file to write. `node test/governance/programs/golden.ts DIRECTORY test/golden/authority-v1.db`
 */
import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { digestJson } from "../../../src/base/Digest.ts"
import {
  Agents,
  Authority,
  Candidates,
  Effects,
  Evidence,
  Gates,
  Goals,
  Obligations,
  Packets,
  Quota,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../../../src/governance/index.ts"

const [directory, target] = process.argv.slice(2) as [string, string]
let now = 1_800_000_000_000
const store = await openAuthority({ directory, now: () => (now += 1000) })

const program = Effect.gen(function* () {
  const goal = yield* Goals.open({ title: "Repair the ledger", budget: { usd: 10, slots: 5 } })
  yield* Agents.register({ goal: goal.id, agentId: "ada", capabilities: ["node"] })
  yield* Todos.add({ goal: goal.id, title: "Find the fault", priority: 1, writeScopes: ["packages/core"] })
  yield* Todos.add({ goal: goal.id, title: "Write it down" })
  const got = yield* Todos.nextWork({ goal: goal.id, agent: "ada" })
  if (got._tag !== "claimed") return
  const { fence } = got.lease
  const turn = yield* Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 2 } })
  yield* Turns.saveAttempt({ turn: turn.id, fence })
  const result = {
    status: "ok",
    claim: "progress",
    summary: "half way",
    failure: null,
    digest: null,
    usd: "unknown",
    wallMs: 5,
    provenGone: true
  } as const
  yield* Turns.recordResult({ turn: turn.id, result })
  yield* Turns.recordVerdict({ turn: turn.id, acceptance: null, note: "no validator declared" })
  const evidence = yield* Evidence.record({
    goal: goal.id,
    turn: turn.id,
    kind: "log",
    digest: digestJson("log"),
    summary: "the test run",
    producer: { role: "validator", name: "tests" }
  })
  yield* Settlements.settle({
    effectId: turn.effectId,
    goal: goal.id,
    fence,
    turn: turn.id,
    outcome: "progress",
    evidence: [evidence.id],
    spend: { usd: "unknown" },
    todo: { action: "complete", continuation: { kind: "successors", todos: [{ title: "Finish it" }] } }
  })
  yield* Turns.close({ turn: turn.id })
  yield* Quota.spend({ goal: goal.id, effectId: "eff_advice", spend: { usd: 0.25 } })
  yield* Candidates.plan({ goal: goal.id, operationId: "op_1" })
  // What format 2 added: a window, further meters, an agent's own limits, a void.
  const second = yield* Goals.open({ title: "Second", budget: { usd: 5, tokens: 1000, windowMs: 3_600_000 } })
  yield* Agents.register({ goal: second.id, agentId: "bob", budget: { usd: 1 } })
  const bound = { usd: 0.5, tokens: 400 }
  yield* Quota.reserve({ goal: second.id, agent: "bob", effectId: "eff_held", bound })
  yield* Quota.spend({ goal: second.id, agent: "bob", effectId: "eff_kept", spend: { usd: 0.25, tokens: 100 } })
  const wrong = yield* Quota.spend({ goal: second.id, effectId: "eff_wrong", spend: { usd: 4, tokens: 9 } })
  yield* Quota.void({ reservation: wrong.id, reason: "billed twice" })
  // What format 3 added: sources, gates, obligations, packets, effects, deliveries, tokens in buckets.
  const third = yield* Goals.open({ title: "Third", budget: { usd: 5, tokens: 1000 } })
  const named = { goal: third.id }
  yield* Agents.register({ ...named, agentId: "cy" })
  const content = { digest: digestJson("rules"), ref: "wiki/rules#1", bytes: 5 }
  const source = yield* Sources.register({ ...named, name: "rules", ...content })
  const origin = { destination: "chat", channel: "general", requestId: "req_1" }
  const asked = yield* Todos.add({ ...named, title: "Asked for", requiredReads: [source.id], origin })
  yield* Sources.read({ source: source.id, agent: "cy", revision: 1 })
  yield* Obligations.open({ ...named, todo: asked.id, reason: "it was promised" })
  const ask = { kind: "userDecision", question: "May it be sent?", actions: ["settle"] } as const
  const gate = yield* Gates.ask({ ...named, ...ask })
  const by = { role: "person", name: "owner" } as const
  yield* Gates.decide({ gate: gate.id, by, allow: true, reason: "seen", reach: { kind: "scope" } })
  const held = yield* Todos.nextWork({ ...named, agent: "cy" })
  if (held._tag !== "claimed") return
  const again = yield* Turns.admit({ ...named, agent: "cy", fence: held.lease.fence, bound: { usd: 1, tokens: 500 } })
  const packet = yield* Packets.issue({ turn: again.id, fence: held.lease.fence })
  yield* Packets.acknowledge({ packet: packet.id, digest: packet.digest })
  yield* Turns.saveAttempt({ turn: again.id, fence: held.lease.fence })
  const usage = [{ id: "msg_1", cached: "apart", input: 10, cacheRead: 5, cacheWrite: 0, output: 7 }] as const
  yield* Turns.recordResult({ turn: again.id, result: { ...result, usd: 0.5 }, usage })
  yield* Turns.recordVerdict({ turn: again.id, acceptance: null, note: "no validator declared" })
  yield* Settlements.settle({
    ...named,
    effectId: again.effectId,
    fence: held.lease.fence,
    turn: again.id,
    outcome: "progress",
    evidence: [],
    spend: { usd: 0.5, tokens: 22 },
    todo: { action: "complete", continuation: { kind: "goalStaysActive" } }
  })
  const kind = { name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" } as const
  yield* Effects.plan({ ...named, effect: "eff_move", provider: "stage", kind, operation: { to: 1 }, summary: "move" })
})
await Effect.runPromise(Effect.provideService(program, Authority, Authority.make(store)))
await store.close()
const db = new DatabaseSync(join(directory, "authority.db"))
db.prepare("VACUUM INTO ?").run(target)
db.close()
