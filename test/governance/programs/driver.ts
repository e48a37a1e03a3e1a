/**
 * A process that drives one turn to its end, or is killed right after the step named. Started again, it recovers.
 * argv: directory, goal, step after which it kills itself (or "none"). Prints what it found and what it did.
 * Every command id is derived from its step, as a host application would do it; a dispatch appends a line to a file.
 */
import { appendFileSync, existsSync, readFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { digestJson } from "../../../src/base/Digest.ts"
import {
  Acceptances,
  Authority,
  Candidates,
  Evidence,
  Settlements,
  Todos,
  Turns
} from "../../../src/governance/index.ts"

const [directory, goal, killAfter] = process.argv.slice(2) as [string, string, string]
const store = await openAuthority({ directory })
const service = Authority.make(store)
const did: string[] = []
const run = <A, E>(step: string, effect: Effect.Effect<A, E, Authority>): Promise<A> =>
  Effect.runPromise(Effect.provideService(effect, Authority, service)).then((value) => {
    did.push(step)
    if (step === killAfter) process.kill(process.pid, "SIGKILL")
    return value
  })

const digest = (text: string) => digestJson(text)
/** The host of this program is the program itself, so it ends with it. */
const guarantee = { diesWithParent: true, wholeTree: true }
const candidate = { tree: digest("tree"), parent: null }
const identity = digestJson(candidate)

const got = await run("claim", Todos.nextWork({ goal, agent: "ada", commandId: "d:claim" }))
if (got._tag !== "claimed") throw new Error("no work")
const fence = got.lease.fence
const admitted = await run("admit", Turns.admit({ goal, agent: "ada", fence, bound: { usd: 2 }, commandId: "d:admit" }))
const turn = admitted.id
const found = await run("resume", Turns.resume({ turn, fence }))
writeSync(1, `${JSON.stringify({ phase: found.phase, next: found.next })}\n`)
let next = found.next
const dispatches = join(directory, "dispatches")

if (next === "run") {
  const saved = await run("attempt", Turns.saveAttempt({ turn, fence, guarantee, commandId: "d:attempt" }))
  if (saved.replayed) throw new Error("would dispatch twice")
  appendFileSync(dispatches, `${turn}\n`)
  await run("dispatched", Turns.get({ turn }))
  next = "readBackOrRetry"
} else if (next === "readBackOrRetry") {
  // The host of this program leaves its answer where it can be read back; without one the attempt is made again, by name.
  if (!existsSync(dispatches)) {
    await run("retry", Turns.saveAttempt({ turn, fence, guarantee, retry: "no trace of the first dispatch" }))
    appendFileSync(dispatches, `${turn}\n`)
    await run("dispatched", Turns.get({ turn }))
  }
}
if (next === "readBackOrRetry") {
  const result = {
    status: "ok",
    claim: "completed",
    summary: "done",
    failure: null,
    digest: digest("result"),
    usd: 0.5,
    wallMs: 10,
    provenGone: true
  } as const
  await run("result", Turns.recordResult({ turn, result, commandId: "d:result" }))
  next = "validate"
}
if (next === "validate") {
  await run("plan", Candidates.plan({ goal, operationId: `op-${turn}`, turn }))
  await run("record", Candidates.record({ operationId: `op-${turn}`, identity, candidate }))
  const evidence: string[] = []
  for (const kind of ["patch", "verdict"]) {
    const recorded = await run(
      `evidence-${kind}`,
      Evidence.record({
        goal,
        turn,
        kind,
        digest: digest(kind),
        summary: kind,
        producer: { role: "evaluator", name: "oracle" },
        commandId: `d:evidence:${kind}`
      })
    )
    evidence.push(recorded.id)
  }
  const verdict = await run(
    "acceptance",
    Acceptances.record({
      goal,
      turn,
      candidate: identity,
      validator: { name: "oracle", digestBefore: digest("v"), digestAfter: digest("v") },
      outcome: "passed",
      evidence,
      commandId: "d:acceptance"
    })
  )
  await run("verdict", Turns.recordVerdict({ turn, acceptance: verdict.id, commandId: "d:verdict" }))
  next = "settle"
}
if (next === "settle") {
  const { verdict } = await run("read", Turns.get({ turn }))
  const acceptance = await run("read", Acceptances.get({ acceptance: verdict!.acceptance! }))
  await run(
    "settle",
    Settlements.settle({
      effectId: found.effectId,
      goal,
      fence,
      turn,
      outcome: "accepted",
      evidence: acceptance.evidence,
      acceptance: acceptance.id,
      candidate: identity,
      spend: { usd: 0.5 },
      todo: { action: "complete", continuation: { kind: "noFollowUp" } }
    })
  )
  next = "close"
}
if (next === "close") await run("close", Turns.close({ turn }))
const settlement = await run("read", Settlements.get({ effectId: found.effectId }))
await store.close()
const count = readFileSync(dispatches, "utf8").split("\n").length - 1
console.log(JSON.stringify({ turn, did, settlement, dispatches: count }))
