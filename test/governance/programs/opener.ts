/**
 * A process that opens one goal under a given command id, prints the receipt, and is killed where COPPICE_CRASH_AT says.
 * argv: directory, command id, title.
 */
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { Authority, Goals } from "../../../src/governance/index.ts"

const [directory, commandId, title] = process.argv.slice(2) as [string, string, string]
const store = await openAuthority({ directory })
const receipt = await Effect.runPromise(
  Goals.open({ title, budget: { usd: 1 }, commandId }).pipe(Effect.provideService(Authority, Authority.make(store)))
)
await store.close()
console.log(JSON.stringify(receipt))
