/**
 * A worker that takes todos and settles them, one after the other, with command ids derived from its name and the round, so
 * that after a kill the same program goes on where it was. Each answer is written out before the next question is asked.
 * argv: directory, goal, agent, rounds.
 */
import { writeSync } from "node:fs"
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { Authority, Quota, Settlements, Todos } from "../../../src/governance/index.ts"

const [directory, goal, agent, rounds] = process.argv.slice(2) as [string, string, string, string]
const store = await openAuthority({ directory, durability: "normal" })
const service = Authority.make(store)

/** Runs a write and acknowledges its receipt, without what tells a replay from a first answer. */
const told = async <A extends { readonly asOf: number; readonly replayed: boolean }, E>(
  commandId: string,
  effect: Effect.Effect<A, E, Authority>
): Promise<A> => {
  const answer = await Effect.runPromise(Effect.provideService(effect, Authority, service))
  const { replayed: _, ...receipt } = answer
  writeSync(1, `${JSON.stringify({ commandId, receipt })}\n`)
  return answer
}

for (let round = 0; round < Number(rounds); round += 1) {
  const id = (step: string) => `${agent}:${round}:${step}`
  const got = await told(id("take"), Todos.nextWork({ goal, agent, commandId: id("take") }))
  if (got._tag === "none") break
  const { fence } = got.lease
  const effectId = `eff:${got.todo.id}`
  const held = await told(
    id("reserve"),
    Quota.reserve({ goal, todo: got.todo.id, agent, effectId, bound: { usd: 1 }, fence, commandId: id("reserve") })
  )
  await told(
    id("settle"),
    Settlements.settle({
      effectId,
      goal,
      fence,
      outcome: "progress",
      evidence: [],
      reservation: held.id,
      spend: { usd: round % 3 === 2 ? "unknown" : 0.25 },
      todo: { action: "complete", continuation: { kind: "noFollowUp" } },
      commandId: id("settle")
    })
  )
}
await store.close()
