/**
 * The work that the governance rows are measured on: claims, and settlements of turns with candidate, evidence and verdict.
 * Promise: made through the public services only, so that it is what an application leaves in its store. Rules: G22, G72.
 */
import * as Effect from "effect/Effect"
import { openAuthority, type SqliteAuthority } from "../providers/authority-sqlite/index.ts"
import { digestJson } from "../src/base/Digest.ts"
import {
  Acceptances,
  Agents,
  Authority,
  Candidates,
  Evidence,
  Goals,
  Leases,
  Settlements,
  Todos,
  Turns
} from "../src/governance/index.ts"

export type Settle = Parameters<typeof Settlements.settle>[0]

export type Kind = "claim" | "settle"

export interface Scene {
  readonly goal: string
  readonly claims: number
  /** One settlement for each turn that waits for it. */
  readonly settlements: readonly Settle[]
}

/** Runs effects against an open store. */
export const runIn = (store: SqliteAuthority) => {
  const service = Authority.make(store)
  return <A, E>(effect: Effect.Effect<A, E, Authority>): Promise<A> =>
    Effect.runPromise(Effect.provideService(effect, Authority, service))
}

const digest = (text: string) => digestJson(text)

/** One turn, carried so far that only its settlement is missing. */
const settleable = (goal: string, number: number) =>
  Effect.gen(function* () {
    const agent = `agent-${number}`
    yield* Agents.register({ goal, agentId: agent })
    const todo = yield* Todos.add({ goal, title: `Settle ${number}`, writeScopes: [`src/part-${number}`] })
    const { fence } = yield* Leases.acquire({ todo: todo.id, agent })
    const turn = yield* Turns.admit({ goal, agent, fence, bound: { usd: 0.5, slots: 1 } })
    yield* Turns.saveAttempt({ turn: turn.id, fence })
    const result = {
      status: "ok",
      claim: "completed",
      summary: "done",
      failure: null,
      digest: null,
      usd: 0.25,
      wallMs: 1,
      provenGone: null
    } as const
    yield* Turns.recordResult({ turn: turn.id, result })
    const fields = { tree: digest(`tree ${number}`), parent: null }
    const candidate = digestJson(fields)
    yield* Candidates.plan({ goal, operationId: `op-${number}`, turn: turn.id })
    yield* Candidates.record({ operationId: `op-${number}`, identity: candidate, candidate: fields })
    const evidence = (kind: string) =>
      Evidence.record({
        goal,
        turn: turn.id,
        kind,
        digest: digest(kind),
        summary: `${kind} of ${number}`,
        producer: { role: "evaluator", name: "oracle" }
      })
    const [patch, verdict] = [yield* evidence("patch"), yield* evidence("verdict")]
    const acceptance = yield* Acceptances.record({
      goal,
      turn: turn.id,
      candidate,
      validator: { name: "oracle", digestBefore: digest("v"), digestAfter: digest("v") },
      outcome: "passed",
      evidence: [verdict.id]
    })
    yield* Turns.recordVerdict({ turn: turn.id, acceptance: acceptance.id })
    return {
      effectId: turn.effectId,
      goal,
      fence,
      turn: turn.id,
      outcome: "accepted",
      evidence: [patch.id],
      acceptance: acceptance.id,
      candidate,
      spend: { usd: 0.25 },
      todo: { action: "complete", continuation: { kind: "goalStaysActive" } }
    } satisfies Settle
  })

/** Writes a store with `claims` todos to be claimed and `settlements` turns to be settled. */
export const makeScene = async (directory: string, claims: number, settlements: number): Promise<Scene> => {
  const store = await openAuthority({ directory, durability: "disposable" })
  const run = runIn(store)
  const goal = (await run(Goals.open({ title: "Measure", budget: { usd: 1_000_000, slots: 1_000_000 } }))).id
  await run(Agents.register({ goal, agentId: "ada" }))
  const many = { concurrency: 256 } as const
  const waiting = await run(
    Effect.forEach(Array.from({ length: settlements }).keys(), (number) => settleable(goal, number), many)
  )
  await run(
    Effect.forEach(
      Array.from({ length: claims }).keys(),
      (number) => Todos.add({ goal, title: `Claim ${number}`, priority: number % 10 }),
      many
    )
  )
  await store.close()
  return { goal, claims, settlements: waiting }
}

/** All the commands that the scene is made for; each gives what it claimed or settled, undefined when it did not. */
export const callsOf = (scene: Scene, kind: Kind): readonly Effect.Effect<string | undefined, unknown, Authority>[] =>
  kind === "settle"
    ? scene.settlements.map((settle) =>
        Effect.map(Settlements.settle(settle), (done) => (done.accepted && !done.replayed ? done.id : undefined))
      )
    : Array.from({ length: scene.claims }, () =>
        Effect.map(Todos.nextWork({ goal: scene.goal, agent: "ada" }), (got) =>
          got._tag === "claimed" ? got.todo.id : undefined
        )
      )
