/**
 * A process that does what it is told: each line of its input is a batch of calls, made together or one by one; each answer is one line of
 * its output, written before anything else happens. Its clocks show what the batch says. argv: directory.
 */
import { writeSync } from "node:fs"
import { createInterface } from "node:readline"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { currentIdentity } from "../../../src/base/ProcessIdentity.ts"
import { Authority } from "../../../src/governance/index.ts"
import { type Call, makeCall } from "../calls.ts"

const [directory] = process.argv.slice(2) as [string]
const clock = { now: 0, ms: 0 }
const store = await openAuthority({
  directory,
  durability: "normal",
  now: () => clock.now,
  monotonic: () => ({ boot: "one", ms: clock.ms }),
  busyBoundMs: 60_000
})
const service = Authority.make(store)
const say = (line: object) => writeSync(1, `${JSON.stringify(line)}\n`)

const make = async (call: Call) => say(await makeCall(service, call))

say({ identity: currentIdentity() })
for await (const line of createInterface({ input: process.stdin })) {
  const { now, ms, together, calls } = JSON.parse(line)
  Object.assign(clock, { now, ms })
  if (together === true) await Promise.all(calls.map(make))
  else for (const call of calls) await make(call)
  say({ done: true })
}
await store.close()
