/**
 * Goals, and the agents that are registered with them.
 * Promise: a goal below which nothing may start says so (`GoalNotActive`) to every lane alike; its budget holds real
 * limits only, zero among them. Rules: G10 (states), G13, G50; C56, C58. Sums of what was spent are in QuotaSum.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { BudgetSpec, IdText, limitMicros, Meter, Names, Title, toUsd, type Units } from "./Field.ts"
import { loadOpenGates } from "./GateRecord.ts"
import { BoundMissing, GoalNotActive, type NotFound, notFound } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, recordTable } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { loadObligations } from "./ObligationRecord.ts"

// --- model -----------------------------------------------------------------------------------------------------------

export type GoalState = "active" | "paused" | "stopped" | "completed"

/** A goal as it is kept and journaled. */
export interface GoalRecord {
  readonly id: string
  readonly title: string
  readonly state: GoalState
  readonly limitUsdMicros: number | null
  readonly limitSlots: number | null
  /** Limits of the further meters. */
  readonly limits: Partial<Units>
  /** The span in milliseconds that the limits hold for; null: the whole life of the goal. */
  readonly windowMs: number | null
  readonly requiredMeters: readonly Meter[]
  /** Why it was completed; null while it was not. */
  readonly closure: Closure | null
  readonly revision: number
  readonly openedAt: number
  readonly changedAt: number
}

/** The explicit end of a goal: why, and what shows it. */
export interface Closure {
  readonly reason: string
  /** Ids of recorded evidence. */
  readonly evidence: readonly string[]
  readonly closedAt: number
}

/** Added in step 3. */
export const goalTables = "ALTER TABLE goal ADD COLUMN closure TEXT;"

/**
 * A limit of dollars or slots that was not set is null, and says so; a further meter is named where it is limited. None is
 * ever read as zero, nor zero as unset.
 */
export interface Budget {
  readonly usd: number | null
  readonly slots: number | null
  readonly tokens?: number
  readonly wallMs?: number
  readonly computeMs?: number
  readonly attempts?: number
  /** Milliseconds; absent: the whole life. */
  readonly windowMs?: number
}

/** Limits as they are kept. */
export interface Limits {
  readonly units: Partial<Units>
  readonly windowMs: number | null
}

export interface Goal {
  readonly id: string
  readonly title: string
  readonly state: GoalState
  readonly budget: Budget
  readonly requiredMeters: readonly Meter[]
  readonly closure: Closure | null
  readonly revision: number
  readonly openedAt: number
}

export interface AgentRecord {
  readonly goal: string
  readonly agentId: string
  readonly capabilities: readonly string[]
  /** What this agent may use of the goal's budget; null: whatever that holds. */
  readonly budget: Limits | null
  readonly registeredAt: number
}

/** An agent as it is shown. */
export interface Agent extends Omit<AgentRecord, "budget"> {
  /** Its own limits; null: whatever the goal's budget holds. */
  readonly budget: Budget | null
}

export const goalTable = recordTable<GoalRecord>("goal", ["id"], {
  id: "value",
  title: "value",
  state: "value",
  limitUsdMicros: "value",
  limitSlots: "value",
  limits: "json",
  windowMs: "value",
  requiredMeters: "json",
  closure: "json",
  revision: "value",
  openedAt: "value",
  changedAt: "value"
})

export const agentTable = recordTable<AgentRecord>("agent", ["goal", "agentId"], {
  goal: "value",
  agentId: "value",
  capabilities: "json",
  budget: "json",
  registeredAt: "value"
})

export const limitsOf = (goal: GoalRecord): Limits => ({
  units: {
    ...(goal.limitUsdMicros === null ? {} : { usd: goal.limitUsdMicros }),
    ...(goal.limitSlots === null ? {} : { slots: goal.limitSlots }),
    ...goal.limits
  },
  windowMs: goal.windowMs
})

export const showLimits = ({ units, windowMs }: Limits): Budget => {
  const { usd, slots, ...further } = units
  return {
    usd: usd === undefined ? null : toUsd(usd),
    slots: slots ?? null,
    ...further,
    ...(windowMs === null ? {} : { windowMs })
  }
}

/** Limits that were asked for, in the units that are kept: what is finer than a unit is not granted. */
export const takeLimits = ({ usd, windowMs, ...whole }: BudgetSpec): Limits => ({
  units: { ...(usd === undefined ? {} : { usd: limitMicros(usd) }), ...given(whole) },
  windowMs: windowMs ?? null
})

const given = (amounts: { readonly [meter in Meter]?: number | undefined }): Partial<Units> =>
  Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount !== undefined))

const showAgent = (agent: AgentRecord): Agent => ({
  ...agent,
  budget: agent.budget === null ? null : showLimits(agent.budget)
})

export const showGoal = (goal: GoalRecord): Goal => ({
  id: goal.id,
  title: goal.title,
  state: goal.state,
  budget: showLimits(limitsOf(goal)),
  requiredMeters: goal.requiredMeters,
  closure: goal.closure,
  revision: goal.revision,
  openedAt: goal.openedAt
})

// --- rules -----------------------------------------------------------------------------------------------------------

export const loadGoal = (id: string): Load<GoalRecord | undefined> => goalTable.first("id = ?", id)

/** Obligations and open gates: what goes on waiting while a goal is not active. At most 100 of each. */
export type Waiting = GoalNotActive["waiting"]

const mostWaiting = 100

/** What waits with a goal that is not active; of an active one nothing is asked. */
export function* loadWaiting(goal: GoalRecord | undefined, now: number): Load<Waiting> {
  if (goal === undefined || goal.state === "active") return []
  const obligations = yield* loadObligations(goal.id, mostWaiting)
  const { items: gates } = yield* loadOpenGates(goal.id, now, mostWaiting)
  return [
    ...obligations.map(({ id }) => ({ kind: "obligation" as const, id })),
    ...gates.map(({ id }) => ({ kind: "gate" as const, id }))
  ]
}

const waitingWith = (waiting: Waiting): string => {
  const counted = (["obligation", "gate"] as const)
    .map((kind) => ({ kind, n: waiting.filter((one) => one.kind === kind).length }))
    .filter(({ n }) => n > 0)
    .map(({ kind, n }) => `${n} ${kind}${n === 1 ? "" : "s"}`)
  return counted.length === 0 ? "" : ` With it wait: ${counted.join(" and ")}.`
}

/** The goal, or why nothing may be admitted, dispatched or settled below it. */
export const activeGoal = (
  goal: GoalRecord | undefined,
  id: string,
  waiting: Waiting = []
): Result.Result<GoalRecord, NotFound | GoalNotActive> =>
  goal === undefined
    ? Result.fail(notFound("goal", id))
    : goal.state === "active"
      ? Result.succeed(goal)
      : Result.fail(
          new GoalNotActive({
            message: `Goal ${id} is ${goal.state}.${waitingWith(waiting)}`,
            remedy:
              goal.state === "completed"
                ? "A completed goal takes no more work: open another goal."
                : "Nothing starts or settles until the owner calls Goals.resume. What was running is kept, its cost is recorded.",
            goal: id,
            state: goal.state,
            waiting
          })
        )

export const knownAgent = (agent: AgentRecord | undefined, id: string): Result.Result<AgentRecord, NotFound> =>
  agent === undefined ? Result.fail(notFound("agent", id)) : Result.succeed(agent)

const OpenGoal = Schema.Struct({
  title: Title,
  budget: BudgetSpec,
  /** Meters without which the goal may not run. Those that the budget limits are required anyhow. */
  requiredMeters: Schema.optional(Schema.Array(Meter))
})

const open = handler({
  type: "openGoal",
  payload: OpenGoal,
  *load() {
    return undefined
  },
  decide: (_, input, { now, newId }) => {
    const { units, windowMs } = takeLimits(input.budget)
    const unlimited = (input.requiredMeters ?? []).find((meter) => units[meter] === undefined)
    if (unlimited !== undefined || Object.keys(units).length === 0) {
      const meter = unlimited ?? "usd"
      return Result.fail(
        new BoundMissing({
          message: `The budget of a new goal names no limit for ${meter}.`,
          remedy: "Give the limit as a number; 0 is a limit. A missing limit never means unlimited.",
          meter
        })
      )
    }
    const { usd, slots, ...limits } = units
    const goal: GoalRecord = {
      id: newId("goal"),
      title: input.title,
      state: "active",
      limitUsdMicros: usd ?? null,
      limitSlots: slots ?? null,
      limits,
      windowMs,
      requiredMeters: input.requiredMeters ?? [],
      closure: null,
      revision: 1,
      openedAt: now,
      changedAt: now
    }
    return Result.succeed(decided([fact("goal.opened", goal.id, goal)], showGoal(goal)))
  }
})

const ChangeGoal = Schema.Struct({ goal: IdText })

/** Pausing and stopping twice is no error: the state is what was asked for, and no new fact is written. */
const change = (type: string, happened: string, to: GoalState): Handlers =>
  handler({
    type,
    payload: ChangeGoal,
    load: ({ goal }) => loadGoal(goal),
    decide: (goal, input, { now }) => {
      if (goal === undefined) return Result.fail(notFound("goal", input.goal))
      if (goal.state === to) return Result.succeed(decided([], showGoal(goal)))
      if (goal.state === "completed") return Result.map(activeGoal(goal, input.goal), () => decided([], showGoal(goal)))
      const next: GoalRecord = { ...goal, state: to, revision: goal.revision + 1, changedAt: now }
      return Result.succeed(decided([fact(happened, goal.id, next)], showGoal(next)))
    }
  })

const RegisterAgent = Schema.Struct({
  goal: IdText,
  agentId: IdText,
  capabilities: Schema.optional(Names),
  /** Limits for this agent below those of the goal; null takes them away. */
  budget: Schema.optional(Schema.NullOr(BudgetSpec))
})

const register = handler({
  type: "registerAgent",
  payload: RegisterAgent,
  *load(input) {
    return {
      goal: yield* loadGoal(input.goal),
      agent: yield* agentTable.first("goal = ? AND agent_id = ?", input.goal, input.agentId)
    }
  },
  decide: ({ goal, agent }, input, { now }) => {
    if (goal === undefined) return Result.fail(notFound("goal", input.goal))
    const next: AgentRecord = {
      goal: input.goal,
      agentId: input.agentId,
      capabilities: input.capabilities ?? agent?.capabilities ?? [],
      budget:
        input.budget === undefined ? (agent?.budget ?? null) : input.budget === null ? null : takeLimits(input.budget),
      registeredAt: agent?.registeredAt ?? now
    }
    return Result.succeed(decided([fact("agent.registered", input.agentId, next)], showAgent(next)))
  }
})

export const goalHandlers: Handlers = {
  ...open,
  ...change("pauseGoal", "goal.paused", "paused"),
  ...change("resumeGoal", "goal.resumed", "active"),
  ...change("stopGoal", "goal.stopped", "stopped"),
  ...register
}

// --- service ---------------------------------------------------------------------------------------------------------

/** Opening, pausing, resuming, stopping. Reading and completing goals is in GoalClosure.ts. */
export const goalCommands = {
  /**
   * Opens a goal. `budget.usd` in dollars, `budget.slots` as a whole number of turns, and further meters (`tokens`,
   * `wallMs`, `computeMs`, `attempts`) in whole units; at least one limit. `budget.windowMs` lets them hold for the last so many
   * milliseconds, both ends included, instead of the whole life of the goal.
   * Errors: `InvalidInput`, `BoundMissing` (a required limit is missing).
   */
  open: writer<typeof OpenGoal.Type, Goal, BoundMissing>("work", "openGoal"),
  /**
   * No new admission, dispatch or settlement until `resume`; what runs is kept (G10). Pausing twice is no error; pausing a stopped
   * goal makes it a paused one. Errors: `NotFound`, `GoalNotActive` (it is completed: open another goal).
   */
  pause: writer<typeof ChangeGoal.Type, Goal, NotFound | GoalNotActive>("work", "pauseGoal"),
  /** Makes a paused or stopped goal active again; an active one stays so. Errors: `NotFound`, `GoalNotActive` (it is completed). */
  resume: writer<typeof ChangeGoal.Type, Goal, NotFound | GoalNotActive>("work", "resumeGoal"),
  /**
   * Like `pause`, for good until resumed: the configured quota is kept (G10). Errors: `NotFound`, `GoalNotActive` (it is
   * completed).
   */
  stop: writer<typeof ChangeGoal.Type, Goal, NotFound | GoalNotActive>("work", "stopGoal")
}

/** Agents: who may be given work of a goal. Registering starts nothing (G13). */
export const Agents = {
  /** Registers an agent, or replaces its capabilities and its own limits; what is not named stays. Errors: `NotFound` (goal). */
  register: writer<typeof RegisterAgent.Type, Agent, NotFound>("work", "registerAgent"),
  /** The agents of a goal. */
  list: reader(function* (input: { readonly goal: string }): Load<{ readonly items: readonly Agent[] }> {
    return { items: (yield* agentTable.find("goal = ? ORDER BY agent_id", input.goal)).map(showAgent) }
  })
}
