/**
 * The composed journeys as plain async functions, over those of `src/journey`.
 * Promise: adds no rule; agents named as commands or functions become hosts of the host-process provider, which is loaded when
 * a journey first needs it. Rules: J2, P4, S50, S51, S54, W14.
 */
import * as Effect from "effect/Effect"
import { Assembly } from "../assembly/Assembly.ts"
import { protocolVersion } from "../host/TurnProtocol.ts"
import type { Host } from "../host/Host.ts"
import { exploreRepair } from "../journey/ExploreRepair.ts"
import type * as Journey from "../journey/RepairPlan.ts"
import { type Calls, milliseconds } from "./Calls.ts"
import type { Coppice } from "./Coppice.ts"
import { badArgument } from "./Failure.ts"
import type { AgentSpec, ExploreRepairOptions, RepairOracle, Route } from "./Repair.ts"
import { startTask } from "./Task.ts"

const hosts = Effect.flatMap(Assembly, ({ registry }) => registry.load("host-process", "an agent of a repair"))
type Hosts = Effect.Success<typeof hosts>

const hostOf = (made: Hosts, agent: AgentSpec): Host => {
  if ("program" in agent) return made.processHost(agent.program, agent.env === undefined ? {} : { env: agent.env })
  if ("command" in agent) {
    const { command, ...options } = agent
    return made.commandHost(command, options)
  }
  if ("turn" in agent) {
    return made.inProcessHost(agent.name, async ({ request, signal, onProgress }) => ({
      protocol: "coppice.turn",
      version: protocolVersion,
      turnKey: request.turnKey,
      ...(await agent.turn({ request, signal, say: (text) => onProgress({ coppice: "progress", text }) }))
    }))
  }
  throw badArgument(
    "agent",
    "An agent of a route is no program, command or function.",
    'For example `agent: { program: ["node", "agent.js"] }`.'
  )
}

const routeOf = (made: Hosts, { agent, timeLimit, ...route }: Route): Journey.Route => ({
  ...route,
  host: hostOf(made, agent),
  ...(timeLimit === undefined ? {} : { timeLimit: milliseconds("timeLimit", timeLimit) })
})

const oracleOf = ({ timeLimit, ...oracle }: RepairOracle): Journey.RepairOracle => ({
  ...oracle,
  ...(timeLimit === undefined ? {} : { timeLimit: milliseconds("timeLimit", timeLimit) })
})

const planOf = (
  made: Hosts,
  { routes, receiver, oracle, ...options }: ExploreRepairOptions,
  onProgress: NonNullable<Journey.RepairOptions["onProgress"]>
): Journey.RepairOptions => ({
  ...options,
  routes: routes.map((route) => routeOf(made, route)),
  ...(receiver === undefined ? {} : { receiver: routeOf(made, receiver) }),
  oracle: oracleOf(oracle),
  onProgress
})

/** What `make` throws for a bad argument is a failure of the effect. */
const planned = <A>(make: () => A) => Effect.try({ try: make, catch: (error) => error })

export const repairCalls = (calls: Calls): Pick<Coppice, "exploreRepair"> => ({
  exploreRepair: (options, watch = {}) =>
    startTask(
      (tell, signal) =>
        calls.run(
          Effect.gen(function* () {
            const made = yield* hosts
            return yield* exploreRepair(yield* planned(() => planOf(made, options, tell)))
          }),
          { signal }
        ),
      watch
    )
})
