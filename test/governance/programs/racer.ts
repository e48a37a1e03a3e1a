/**
 * A process that tries to take each of the named todos once, a few at a time, and prints what it got and what it was refused with.
 * argv: directory, agent, how many at a time. Standard input: the ids as JSON. It waits for its line, so that all begin together.
 */
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { Authority, Leases } from "../../../src/governance/index.ts"

const [directory, agent, atOnce] = process.argv.slice(2) as [string, string, string]
const store = await openAuthority({ directory, durability: "normal" })
const service = Authority.make(store)
console.log("ready")
for await (const line of createInterface({ input: process.stdin })) {
  const won: string[] = []
  const refused: Record<string, number> = {}
  const attempt = (todo: string) =>
    Leases.acquire({ todo, agent }).pipe(
      Effect.map(() => void won.push(todo)),
      Effect.catch(({ code }) => Effect.sync(() => void (refused[code] = (refused[code] ?? 0) + 1)))
    )
  await Effect.runPromise(
    Effect.forEach(JSON.parse(line) as string[], attempt, { concurrency: Number(atOnce), discard: true }).pipe(
      Effect.provideService(Authority, service)
    )
  )
  console.log(JSON.stringify({ won, refused }))
  break
}
await store.close()
