/** A process that claims work until none is left, and prints what it got. argv: directory, goal, agent. */
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { Authority, Todos } from "../../../src/governance/index.ts"

const [directory, goal, agent] = process.argv.slice(2) as [string, string, string]
const store = await openAuthority({ directory, durability: "normal" })
const service = Authority.make(store)
const claimed: { todo: string; epoch: number }[] = []
const errors: string[] = []
let refusals = 0
for (;;) {
  const got = await Effect.runPromise(
    Todos.nextWork({ goal, agent }).pipe(
      Effect.catch((error) => {
        errors.push(error.code)
        return Effect.succeed(undefined)
      }),
      Effect.provideService(Authority, service)
    )
  )
  if (got === undefined || got._tag === "none") {
    refusals += 1
    break
  }
  claimed.push({ todo: got.todo.id, epoch: got.lease.epoch })
}
await store.close()
console.log(JSON.stringify({ claimed, errors, refusals }))
