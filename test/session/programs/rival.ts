/** A second process that drives the same turn: `node rival.ts PLACE GOAL TODO FENCE`. Prints how its call ended. */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { commandHost } from "../../../providers/host-process/index.ts"
import { isCoppiceError } from "../../../src/base/CoppiceError.ts"
import { minimal } from "../../../src/minimal.ts"
import { driveTurn } from "../../../src/session/index.ts"
import { plainWork } from "../plainWork.ts"

const [place, goal, todo, fence] = process.argv.slice(2) as [string, string, string, string]
const ended = await Effect.runPromise(
  driveTurn(
    {
      goal: { id: goal, title: "Make the value right" },
      todo: { id: todo, title: "Write it" },
      agent: "ada",
      fence: JSON.parse(fence),
      host: commandHost("echo dispatched >> dispatches; echo right > value", { usd: 0 }),
      instruction: "write the value",
      findings: [],
      bound: { usd: 1, slots: 1 },
      timeLimitMs: 30_000,
      interrupted: "retry"
    },
    plainWork(place, join(place, "files"), { goal, todo })
  ).pipe(
    Effect.map(() => "done"),
    Effect.catch((error) => Effect.succeed(isCoppiceError(error) ? error.code : String(error))),
    Effect.provide(minimal({ store: join(place, "store") }))
  )
)
console.log(ended)
