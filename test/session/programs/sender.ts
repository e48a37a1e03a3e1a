/**
 * A process that sends one delivery, so that a test may kill it: `node sender.ts STORE RECEIVER DELIVERY HOW`, where HOW is a
 * list of `keyed` and `blind` (no read-back). Prints the record, or the code of the error, as JSON.
 */
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { isCoppiceError } from "../../../src/base/CoppiceError.ts"
import { Authority } from "../../../src/governance/Authority.ts"
import { sendDelivery } from "../../../src/session/DeliveryDriver.ts"
import { socketProvider } from "../receiver.ts"

const [store, receiver, delivery, how] = process.argv.slice(2) as [string, string, string, string]
const authority = await openAuthority({ directory: store })
const provider = socketProvider(receiver, { keyed: how.includes("keyed"), readsBack: !how.includes("blind") })
const told = await Effect.runPromise(
  sendDelivery({ delivery, provider }).pipe(
    Effect.map(({ state, attempts, receipt, resolvedBy }): object => ({ state, attempts, receipt, resolvedBy })),
    Effect.catch((error) => Effect.succeed({ error: isCoppiceError(error) ? error.code : String(error) })),
    Effect.provideService(Authority, Authority.make(authority))
  )
)
console.log(JSON.stringify(told))
await authority.close()
