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
import { repairRepository } from "../journey/RepairRepository.ts"
import type * as Journeys from "../journey/RepairRepository.ts"
import { type Calls, inMilliseconds, type Services } from "./Calls.ts"
import type { Coppice } from "./Coppice.ts"
import { badArgument } from "./Failure.ts"
import type {
  AgentSpec,
  CommandAttempt,
  CommandLine,
  ExploreRepairOptions,
  RepairProgress,
  RepairReport,
  RepairRepositoryOptions,
  Route
} from "./Repair.ts"
import { startTask, type Watching } from "./Task.ts"

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

const routeOf = (made: Hosts, { agent, ...route }: Route): Journey.Route => ({
  ...inMilliseconds(route, ["timeLimit"]),
  host: hostOf(made, agent)
})

const planOf = (
  made: Hosts,
  { routes, receiver, oracle, prepare, ...options }: ExploreRepairOptions,
  onProgress: NonNullable<Journey.RepairOptions["onProgress"]>
): Journey.RepairOptions => ({
  ...options,
  routes: routes.map((route) => routeOf(made, route)),
  ...(receiver === undefined ? {} : { receiver: routeOf(made, receiver) }),
  ...(prepare === undefined ? {} : { prepare: inMilliseconds(prepare, ["timeLimit"]) }),
  oracle: inMilliseconds(oracle, ["timeLimit"]),
  onProgress
})

const isLine = (attempt: CommandAttempt | CommandLine): attempt is CommandLine =>
  typeof attempt === "string" || Array.isArray(attempt)

const attemptOf = (made: Hosts, attempt: CommandAttempt | CommandLine): Journeys.CommandAttempt | CommandLine => {
  // What is no attempt at all is refused by the journey, in its own words.
  if (isLine(attempt) || typeof attempt !== "object" || attempt === null) return attempt
  const { command, ...rest } = inMilliseconds(attempt, ["timeLimit"])
  const plain = typeof command !== "object" || command === null || Array.isArray(command)
  return { ...rest, command: plain ? (command as CommandLine) : hostOf(made, command as AgentSpec) }
}

const repositoryPlanOf = (
  made: Hosts,
  { attempts, ...options }: RepairRepositoryOptions,
  onProgress: NonNullable<Journey.RepairOptions["onProgress"]>
): Journeys.RepairRepositoryOptions => ({
  ...inMilliseconds(options, ["timeLimit", "verifyTimeLimit", "prepareTimeLimit"]),
  attempts: Array.isArray(attempts) ? attempts.map((attempt) => attemptOf(made, attempt)) : [],
  onProgress
})

/** What `make` throws for a bad argument is a failure of the effect. */
const planned = <A>(make: () => A) => Effect.try({ try: make, catch: (error) => error })

export const repairCalls = (calls: Calls): Pick<Coppice, "exploreRepair" | "repairRepository"> => {
  /** A journey with its plan, made once the hosts are loaded. */
  const journey =
    <Options extends object, Plan>(
      plan: (made: Hosts, options: Options, tell: (step: RepairProgress) => void) => Plan,
      run: (plan: Plan) => Effect.Effect<RepairReport, unknown, Services>
    ) =>
    (options: Options, watch: Watching<RepairProgress> = {}) =>
      startTask<RepairReport, RepairProgress>(
        (tell, signal) =>
          calls.run(
            Effect.gen(function* () {
              if (typeof options !== "object" || options === null) {
                return yield* Effect.fail(badArgument("options", "This call takes one object.", "See its declaration."))
              }
              const made = yield* hosts
              return yield* run(yield* planned(() => plan(made, options, tell)))
            }),
            { signal }
          ),
        watch
      )
  return {
    exploreRepair: journey(planOf, exploreRepair),
    repairRepository: journey(repositoryPlanOf, repairRepository)
  }
}
