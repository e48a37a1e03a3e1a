/** The invariants' check is checked: each kind of damage is seen, and a sound store is not accused. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, test } from "vitest"
import { type JournalEntry, Leases, Quota, Settlements, Turns } from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"
import { factFaults } from "./factRules.ts"
import { checkInvariants, factsOf } from "./invariants.ts"

/** A store with a bit of everything. */
const newStore = async (): Promise<Bench> => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const first = await newTodo(bench, goal, { writeScopes: ["docs"] })
  const second = await newTodo(bench, goal, { writeScopes: ["src"] })
  const lease = await hold(bench, first, "ada")
  await hold(bench, second, "bob")
  const bound = { usd: 1, slots: 1 }
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence: lease.fence, bound }))
  await bench.run(Turns.fail({ turn: turn.id, reason: "r", spend: { usd: 0 } }))
  await bench.run(Quota.spend({ goal: goal.id, effectId: "e", spend: { usd: 2 } }))
  const renewed = await bench.run(Leases.renew({ fence: lease.fence }))
  await bench.run(
    Settlements.settle({
      effectId: "eff_1",
      goal: goal.id,
      fence: renewed.fence,
      outcome: "progress",
      evidence: [],
      spend: { usd: 1 },
      todo: { action: "complete", continuation: { kind: "noFollowUp" } }
    })
  )
  return bench
}

const damages: readonly (readonly [string, string, RegExp])[] = [
  ["a changed row", "UPDATE todo SET priority = 9", /table todo has a row that no fact gives/],
  ["a lost row", "DELETE FROM quota_event WHERE kind = 'spend'", /table quota_event lacks a row/],
  ["a lost receipt", "DELETE FROM command WHERE seq = 3", /has facts and no receipt/],
  ["a receipt of another fact", "UPDATE command SET seq = seq - 1 WHERE seq = 3", /the receipt of .* says 2/],
  ["a changed fact", "UPDATE journal SET entity = 'x' WHERE seq = 2", /broken at 2/],
  ["a fact out of time", "UPDATE journal SET at = 1 WHERE seq = 5", /dated before/],
  [
    "a command committed twice",
    "UPDATE journal SET command = (SELECT command FROM journal WHERE seq = 1) WHERE seq = 6",
    /committed twice/
  ]
]

test.each(damages)("G1 G2 G4 the check of the invariants sees %s", async (_, sql, fault) => {
  const bench = await newStore()
  assert.deepEqual(checkInvariants(bench.directory), [])
  await bench.store.close()
  const db = new DatabaseSync(join(bench.directory, "authority.db"))
  db.exec(sql)
  db.close()
  assert.match(checkInvariants(bench.directory).join("\n"), fault)
})

type Change = (facts: JournalEntry[]) => readonly JournalEntry[]

const changed =
  (type: string, change: object): Change =>
  (facts) =>
    facts.map((fact) => (fact.type === type ? { ...fact, data: { ...(fact.data as object), ...change } } : fact))

const repeated =
  (type: string, change: object = {}): Change =>
  (facts) => {
    const last = facts.findLast((fact) => fact.type === type)!
    const data = { ...(last.data as object), ...change }
    return [...facts, { ...last, seq: facts.length + 1, command: "cmd_again", data } as JournalEntry]
  }

const without =
  (type: string): Change =>
  (facts) =>
    facts.filter((fact) => fact.type !== type)

const lies: readonly (readonly [string, Change, RegExp])[] = [
  [
    "a lease granted over a live one",
    repeated("lease.acquired", { epoch: 2, version: 2, tokenDigest: "t" }),
    /over one that was live/
  ],
  ["an epoch that stood still", changed("lease.renewed", { epoch: 0 }), /took the epoch to 0/],
  ["a version that skipped", changed("lease.renewed", { version: 5 }), /the version of a lease skipped/],
  ["overlapping write scopes", changed("lease.acquired", { writeScopes: ["src/x", "src"] }), /write in one place/],
  [
    "a final todo opened again",
    repeated("todo.completed", { state: "open", revision: 9 }),
    /left its final state done/
  ],
  ["a revision that went back", repeated("todo.completed"), /revision of a todo went from 2 to 2/],
  [
    "an effect settled twice",
    (facts) =>
      repeated("settlement.settled")(facts).map((f) => (f.command === "cmd_again" ? { ...f, entity: "stl_2" } : f)),
    /was settled twice/
  ],
  [
    "work accepted without a verdict",
    changed("settlement.settled", { accepted: true, acceptance: "vrd_x" }),
    /accepted without a verdict/
  ],
  ["work without its cost", without("quota.spend"), /lies apart from its cost/],
  ["a finished todo that is still held", without("lease.released"), /is finished and its lease lives/],
  ["a phase that was jumped", changed("turn.failed", { phase: "settle" }), /turn.failed in phase admit/],
  [
    "two open turns of one agent",
    (facts) =>
      repeated("turn.admitted")(without("turn.failed")(facts) as JournalEntry[]).map((f) =>
        f.command === "cmd_again" ? { ...f, entity: "turn_2" } : f
      ),
    /two turns of one agent/
  ],
  [
    "more reserved than the limit",
    changed("goal.opened", { limitUsdMicros: 10 }),
    /is reserved than the goal's limit of 10/
  ],
  ["an amount that its event does not give", repeated("quota.spend"), /the events give/]
]

test.each(lies)("G20 G30 G34 G50 G72 G80 G81 the check of the facts sees %s", async (_, change, fault) => {
  const bench = await newStore()
  const facts = [...factsOf(bench.directory)]
  assert.deepEqual(factFaults(facts), [])
  assert.match(factFaults(change(facts)).join("\n"), fault)
})
