/** A process whose clock shows what it is told to, and which renews a lease. argv: directory, fence as JSON, UTC milliseconds. */
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { Authority, Leases } from "../../../src/governance/index.ts"

const [directory, fence, now] = process.argv.slice(2) as [string, string, string]
const store = await openAuthority({ directory, now: () => Number(now) })
const answer = await Effect.runPromise(
  Leases.renew({ fence: JSON.parse(fence) }).pipe(
    Effect.map(() => ({ code: "ok" })),
    Effect.catchTag("LeaseLost", ({ code, why }) => Effect.succeed({ code, why })),
    Effect.provideService(Authority, Authority.make(store))
  )
)
await store.close()
console.log(JSON.stringify(answer))
