// node governance.ts STORE: governed work without a host or a workspace; your own code does the work. Run it twice: every command has
// a name of its own, so the second run finds what the first one did, and does nothing again.
import { createHash } from "node:crypto"
import { existsSync, statSync } from "node:fs"
import * as Effect from "effect/Effect"
import {
  Acceptances,
  Agents,
  Evidence,
  Gates,
  Goals,
  Leases,
  Quota,
  Settlements,
  Sources,
  Todos
} from "coppice/governance"
import { minimal } from "coppice/minimal"

const [store = "./coppice-store"] = process.argv.slice(2)
const digest = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`

if (process.argv.length > 3 || store.startsWith("-") || (existsSync(store) && !statSync(store).isDirectory())) {
  console.error("usage: node governance.ts [STORE], a directory")
  process.exit(2)
}

const program = Effect.gen(function* () {
  // What is to be done, by whom, and what it may cost. A limit of 0 is a limit; a missing one never means unlimited.
  const goal = yield* Goals.open({ commandId: "goal", title: "Clean up the ledger", budget: { usd: 1, slots: 10 } })
  const named = { goal: goal.id }
  const summary = Effect.gen(function* () {
    const { spent } = yield* Quota.status(named)
    return { goal: (yield* Goals.get(named)).state, todos: (yield* Todos.list(named)).total, usd: spent.usd }
  })
  if ((yield* Goals.get(named)).state === "completed") return yield* summary
  for (const agentId of ["ada", "bob"]) yield* Agents.register({ commandId: agentId, ...named, agentId })

  // What has to be read before work counts: a revision is a digest and a reference that never change.
  const rules = {
    name: "bookkeeping rules",
    digest: digest("never delete a booked entry"),
    ref: "wiki/rules#7",
    bytes: 27
  }
  const source = yield* Sources.register({ commandId: "rules", ...named, ...rules })

  // Two pieces of work. The second waits for the first, and only a named validator's verdict can complete it.
  const find = yield* Todos.add({ commandId: "find", ...named, title: "Find duplicates", requiredReads: [source.id] })
  const drop = { title: "Drop duplicates", dependsOn: [find.id], acceptance: { validator: "balance-check" } }
  const second = yield* Todos.add({ commandId: "drop", ...named, ...drop })

  // A question for the owner. It stops only what it names: ada may still look for duplicates.
  const gate = yield* Gates.ask({
    commandId: "ask",
    ...named,
    kind: "userDecision",
    question: "May duplicates be dropped?",
    todos: [second.id]
  })

  // Choosing work and taking it is one step. What comes back is the fence: whoever shows it is the holder. The receipt stays as it
  // was, the lease ends by its time: a run that goes on after that takes the same work again, under another name.
  const take = (name: string, agent: string) =>
    Effect.gen(function* () {
      const work = yield* Todos.nextWork({ commandId: name, ...named, agent })
      if (work._tag === "none") return yield* Effect.die(work)
      const todo = work.todo.id
      let { lease } = work
      while (lease.expiresAt <= Date.now() && (yield* Todos.get({ todo })).state === "open") {
        lease = yield* Leases.acquire({ commandId: `${name}, after ${lease.epoch}`, todo, agent })
      }
      return lease.fence
    })
  const adas = yield* take("take-1", "ada")
  yield* Sources.read({ commandId: "read", source: source.id, agent: "ada", revision: source.revision })
  // Settled once for an effect id, under whichever lease.
  yield* Settlements.settle({
    effectId: "find-duplicates",
    ...named,
    fence: adas,
    outcome: "progress",
    evidence: [],
    spend: { usd: 0.02 },
    todo: { action: "complete", continuation: { kind: "goalStaysActive" } }
  })

  // Nothing to do is never just that: it comes with the reason. Asking takes what there is, so it is asked only while there is nothing.
  if ((yield* Gates.get({ gate: gate.id })).decisions.length === 0) {
    const waiting = yield* Todos.nextWork({ commandId: "take-2", ...named, agent: "bob" })
    if (waiting._tag === "none") console.log("bob waits:", JSON.stringify(waiting.withheld))
  }
  const by = { role: "person", name: "owner" } as const
  yield* Gates.decide({
    commandId: "decide",
    gate: gate.id,
    by,
    allow: true,
    reason: "backed up",
    reach: { kind: "scope" }
  })
  const bobs = yield* take("take-3", "bob")

  // Who did the work never accepts it: a validator's evidence and verdict do.
  const seen = { kind: "verdict", digest: digest("balanced"), summary: "the books balance" }
  const producer = { role: "validator", name: "balance-check" } as const
  const evidence = yield* Evidence.record({ commandId: "evidence", ...named, todo: second.id, ...seen, producer })
  const files = digest("balance-check.ts")
  const verdict = yield* Acceptances.record({
    commandId: "verdict",
    ...named,
    todo: second.id,
    candidate: null,
    validator: { name: "balance-check", digestBefore: files, digestAfter: files },
    outcome: "passed",
    evidence: [evidence.id]
  })
  yield* Settlements.settle({
    effectId: "drop-duplicates",
    ...named,
    fence: bobs,
    outcome: "accepted",
    acceptance: verdict.id,
    evidence: [evidence.id],
    spend: { usd: 0.05 },
    todo: { action: "complete", continuation: { kind: "noFollowUp" } }
  })

  // The last todo does not end the goal: that is said, and refused while anything is open.
  yield* Goals.complete({ commandId: "complete", ...named, closure: { reason: "no duplicates are left" } })
  return yield* summary
})

console.log(JSON.stringify(await Effect.runPromise(program.pipe(Effect.provide(minimal({ store }))))))
