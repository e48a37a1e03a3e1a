/**
 * A pool's spawner and the session that it spawns, in processes of their own.
 * `node pool.ts spawner STORE GOAL AGENT LOG`: claims, and spawns a session only for what it got, with the lease in its environment.
 * `node pool.ts session STORE LOG`: works only under the lease that it carries; appends its todo to LOG. Prints how it ended.
 */
import { spawnSync } from "node:child_process"
import { appendFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import { openAuthority } from "../../../providers/authority-sqlite/index.ts"
import { isCoppiceError } from "../../../src/base/CoppiceError.ts"
import { Authority, Todos } from "../../../src/governance/index.ts"
import { carriedLease, carryLease } from "../../../src/session/CarriedLease.ts"

const [role, directory, ...rest] = process.argv.slice(2) as [string, string, ...string[]]
const store = await openAuthority({ directory })

const spawner = (goal: string, agent: string, log: string) =>
  Effect.map(Todos.nextWork({ goal, agent }), (work) => {
    if (work._tag !== "claimed") return "nothing to spawn for"
    const { stdout } = spawnSync(process.execPath, [import.meta.filename, "session", directory, log], {
      encoding: "utf8",
      env: { ...process.env, ...carryLease(work.lease.fence) }
    })
    return stdout.trim()
  })

const session = (log: string) =>
  Effect.map(carriedLease(process.env), ({ todo }) => {
    appendFileSync(log, `${todo}\n`)
    return `worked on ${todo}`
  })

const program: Effect.Effect<string, unknown, Authority> =
  role === "spawner" ? spawner(rest[0]!, rest[1]!, rest[2]!) : session(rest[0]!)
const said = await Effect.runPromise(
  program.pipe(
    Effect.catch((error) => Effect.succeed(isCoppiceError(error) ? error.code : String(error))),
    Effect.provideService(Authority, Authority.make(store))
  )
)
await store.close()
console.log(said)
