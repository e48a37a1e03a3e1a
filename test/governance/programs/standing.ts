/**
 * A process that hands a delivery and an effect over and does not come back to them: `node standing.ts DIRECTORY DELIVERY EFFECT`. Prints who it is,
 * and waits to be ended.
 */
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { currentIdentity } from "../../../src/base/ProcessIdentity.ts"
import { Authority, Deliveries, Effects } from "../../../src/governance/index.ts"

const [directory, delivery, effect] = process.argv.slice(2) as [string, string, string]
const service = Authority.make(await openAuthority({ directory }))
await Effect.runPromise(
  Effect.andThen(Deliveries.dispatch({ delivery, provider: "chat" }), Effects.dispatch({ effect, operation: 1 })).pipe(
    Effect.provideService(Authority, service)
  )
)
console.log(JSON.stringify(currentIdentity()))
process.stdin.resume()
