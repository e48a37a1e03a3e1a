/**
 * A process that claims or settles with 64 callers in flight and says when; its parent counts its fsyncs from outside (strace(1)).
 * argv: directory, file with the scene, `claim` or `settle`. Prints how many commands were committed, and the span of time.
 */
import { readFileSync } from "node:fs"
import { openAuthority } from "../providers/authority-sqlite/index.ts"
import { callsOf, runIn, type Scene } from "./governance-scene.ts"

const [directory = "", file = "", kind = "claim"] = process.argv.slice(2)
const scene = JSON.parse(readFileSync(file, "utf8")) as Scene
const store = await openAuthority({ directory })
const run = runIn(store)
const calls = callsOf(scene, kind === "settle" ? "settle" : "claim")
await run(calls[0]!)
const from = Date.now()
let commands = 0
for (let next = 1; next + 64 <= calls.length; next += 64) {
  const done = await Promise.all(calls.slice(next, next + 64).map(run))
  commands += done.filter(Boolean).length
}
const to = Date.now()
await store.close()
console.log(JSON.stringify({ commands, from, to }))
