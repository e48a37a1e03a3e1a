/**
 * One governed turn on the minimal preset in a process of its own, so that a test may kill it:
 * `node turn.ts PLACE explain|retry`. It drives the turn, then drives it once more, and prints what both came to and
 * what the authority says as one JSON line. Every command has a fixed id: a rerun asks for the same things again.
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { processHost } from "../../../providers/host-process/index.ts"
import { isCoppiceError } from "../../../src/base/CoppiceError.ts"
import { Agents, Authority, Goals, Quota, Settlements, Todos, Turns } from "../../../src/governance/index.ts"
import { minimal } from "../../../src/minimal.ts"
import { driveTurn } from "../../../src/session/index.ts"
import { plainWork } from "../plainWork.ts"

const [place, interrupted] = process.argv.slice(2) as [string, "explain" | "retry"]
const files = join(place, "files")
mkdirSync(files, { recursive: true })

const worker = `request=$(cat); echo dispatched >> dispatches; echo right > value
key=$(printf %s "$request" | sed 's/.*"turnKey":"\\([^"]*\\)".*/\\1/')
printf '{"protocol":"coppice.turn","version":1,"turnKey":"%s","outcome":"completed","summary":"written","usage":{"usd":0.25}}' "$key"`

const program = Effect.gen(function* () {
  const goal = (yield* Goals.open({ commandId: "goal", title: "a value", budget: { usd: 5, slots: 5 } })).id
  yield* Agents.register({ commandId: "agent", goal, agentId: "ada" })
  const todo = (yield* Todos.add({ commandId: "todo", goal, title: "write it", acceptance: { validator: "callback" } }))
    .id
  const work = yield* Todos.nextWork({ commandId: "claim", goal, agent: "ada" })
  if (work._tag !== "claimed") return yield* Effect.die("not claimed")
  const drive = driveTurn(
    {
      goal: { id: goal, title: "a value" },
      todo: { id: todo, title: "write it" },
      agent: "ada",
      fence: work.lease.fence,
      host: processHost(["sh", "-c", worker]),
      instruction: "write it",
      findings: [],
      bound: { usd: 1, slots: 1 },
      timeLimitMs: 30_000,
      interrupted
    },
    plainWork(place, files, { goal, todo })
  ).pipe(
    Effect.map((done) => ({ turn: done.turn.id, settlement: done.settlement })),
    Effect.catch((error) => Effect.succeed({ error: isCoppiceError(error) ? error.code : String(error) }))
  )
  const first = yield* drive
  const second = yield* drive
  const authority = yield* Authority
  return {
    first,
    second,
    turns: (yield* Turns.list({ goal })).items,
    settlements: yield* Settlements.list({ goal }),
    quota: yield* Quota.status({ goal }),
    journal: yield* authority.verify,
    types: (yield* authority.journal({ limit: 1000 })).map((entry) => entry.type)
  }
})

const output = await Effect.runPromise(program.pipe(Effect.provide(minimal({ store: join(place, "store") }))))
console.log(JSON.stringify(output))
