/**
 * The loop controller: what the loop over one agent's turns does next. Pure: it spends, launches and writes nothing.
 * Promise: a pause or stop is decided before every other lane; an exhausted turn budget asks for a new plan and ends nothing;
 * what is older than the receipt beside it is an error, never a disposition. Rules: G10, G12, G83, G86; C67, C72.
 */
import * as Result from "effect/Result"
import { type Amounts, type Meter, meters } from "./Field.ts"
import type { OpenPart } from "./Frontier.ts"
import type { GoalState } from "./Goal.ts"
import { type InvalidInput, LoopInputStale } from "./GovernanceError.ts"
import { invalidInput } from "./Handler.ts"
import type { Withheld } from "./NextWork.ts"
import type { AccountFigures } from "./QuotaSum.ts"
import type { SettlementOutcome } from "./SettlementRecord.ts"
import type { NextStep } from "./TurnRecord.ts"

// --- what it is given ------------------------------------------------------------------------------------------------

/** What the last turn came to: a settlement's receipt has these fields, and `claim` is the host's word for its iteration. */
export interface LoopReceipt {
  readonly goal: string
  readonly agent?: string
  readonly todo: string
  readonly outcome: SettlementOutcome
  readonly todoState: "open" | "deferred" | "done" | "superseded"
  /** The journal sequence as of which it holds. */
  readonly asOf: number
  /** The revision of the goal that its caller had seen. */
  readonly goalRevision?: number
  readonly claim?: string | null
}

/** The state of a goal as one agent's loop sees it, from one snapshot. `Loop.state` reads it. */
export interface LoopState {
  readonly goal: string
  readonly agent: string
  readonly asOf: number
  readonly goalState: GoalState
  readonly goalRevision: number
  /** All that keeps the goal open. */
  readonly open: readonly OpenPart[]
  /** The agent's open turn; `alive` as this process sees its driver and executor, `survivor`: a process was seen to survive it. */
  readonly turn: {
    readonly id: string
    readonly next: NextStep
    readonly alive: boolean | "unknown"
    readonly survivor: boolean
  } | null
  /** The todo that the loop itself holds, by the fence that it named. */
  readonly held: LoopTodo | null
  /** The best todo that the agent could be given now. */
  readonly ready: LoopTodo | null
  /** Why nothing could be given; null where something can. */
  readonly withheld: Withheld | null
  /** UTC milliseconds at which the first lease or deferral ends; null: nothing moves by time. */
  readonly movesAt: number | null
  /** Open gates that concern the agent. */
  readonly gates: readonly LoopGate[]
  /** What is used of the budgets that a turn of the agent counts in. */
  readonly accounts: readonly Pick<AccountFigures, "agent" | "budget" | "remaining" | "window">[]
}

/** A gate that is open, and who is to move. */
export interface LoopGate {
  readonly id: string
  readonly lane: "owner" | "repair"
  readonly question: string
}

/** A todo that could be run, with what stands in its way: required sources that cannot be read, gates that stop it. */
export interface LoopTodo {
  readonly todo: string
  readonly unreadable: readonly string[]
  readonly gates: readonly LoopGate[]
}

/** How many further turns the loop may run, and what one of them may cost at most where that is known. */
export interface TurnBudget {
  readonly turns: number
  readonly bound?: Amounts
}

// --- what it gives ---------------------------------------------------------------------------------------------------

type Lane =
  | { readonly disposition: "runNow"; readonly reason: "held" | "ready"; readonly todo: string }
  | {
      readonly disposition: "wait"
      readonly reason: "turnRunning" | "hostWaits" | "quotaWindow" | "othersWork" | "time"
      /** UTC milliseconds after which it is worth asking again; null: when something is committed. */
      readonly until: number | null
    }
  | {
      readonly disposition: "userAction"
      readonly reason: "survivor" | "executorUnseen" | "hostAsks" | "quotaExhausted" | "gate" | "closure"
    }
  | {
      readonly disposition: "repair"
      readonly reason:
        | "turnLeft"
        | "hostSays"
        | "validatorUnavailable"
        | "sourceUnreadable"
        | "sourceUnread"
        | "gate"
        | "capability"
        | "unresolved"
    }
  | {
      readonly disposition: "replan"
      readonly reason: "turnBudget" | "staleContext" | "hostSays" | "obligation" | "nothingMoves"
    }
  | { readonly disposition: "stop"; readonly reason: "goalPaused" | "goalStopped" }
  | { readonly disposition: "terminal"; readonly reason: "goalCompleted" }

/** What to do next. `about` names what it is about by id, `says` is a sentence for people, `open` all that is still open. */
export type Disposition = Lane & {
  readonly goal: string
  readonly agent: string
  readonly asOf: number
  readonly about: readonly string[]
  readonly says: string
  readonly open: readonly OpenPart[]
}

// --- deciding --------------------------------------------------------------------------------------------------------

const stale = (why: LoopInputStale["why"], message: string): LoopInputStale =>
  new LoopInputStale({ why, message, remedy: "Read the state again with Loop.state, and decide with that." })

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const isTodo = (value: LoopTodo | null): boolean =>
  value === null || (isObject(value) && Array.isArray(value.unreadable) && Array.isArray(value.gates))

/** The state may come from plain JavaScript, or out of a file of an application. */
const isState = (state: LoopState): boolean =>
  isObject(state) &&
  [state.goal, state.agent, state.goalState].every((text) => typeof text === "string") &&
  [state.open, state.gates, state.accounts].every((list) => Array.isArray(list) && list.every(isObject)) &&
  [state.turn, state.withheld].every((part) => part === null || isObject(part)) &&
  state.open.every(({ ids }) => Array.isArray(ids)) &&
  state.accounts.every(({ budget, remaining }) => isObject(budget) && isObject(remaining)) &&
  isTodo(state.held) &&
  isTodo(state.ready)

/** The input when one part of it can be put beside the other. */
const sound = (
  receipt: LoopReceipt | undefined,
  state: LoopState,
  budget: TurnBudget
): Result.Result<undefined, LoopInputStale | InvalidInput> => {
  if (!isState(state)) return Result.fail(invalidInput("Loop.next", "`state` is not what Loop.state gave"))
  if (receipt !== undefined && !(isObject(receipt) && typeof receipt.goal === "string")) {
    return Result.fail(
      invalidInput("Loop.next", "`receipt` is not the receipt of a settlement; without one leave it out")
    )
  }
  if (!isObject(budget) || !Number.isSafeInteger(budget.turns) || budget.turns < 0) {
    return Result.fail(invalidInput("Loop.next", "`turns` is a whole number, 0 or more"))
  }
  if (receipt === undefined) return Result.succeed(undefined)
  const of = `The receipt is of goal ${receipt.goal}`
  if (receipt.goal !== state.goal) return Result.fail(stale("goal", `${of}, the state of goal ${state.goal}.`))
  if (receipt.agent !== undefined && receipt.agent !== state.agent) {
    return Result.fail(stale("agent", `${of} and agent ${receipt.agent}, the state of agent ${state.agent}.`))
  }
  if (!(state.asOf >= receipt.asOf)) {
    return Result.fail(stale("older", `The state is as of ${state.asOf}, the receipt as of ${receipt.asOf}.`))
  }
  if (receipt.goalRevision !== undefined && state.goalRevision < receipt.goalRevision) {
    return Result.fail(stale("revision", `${of} at revision ${receipt.goalRevision}, the state ${state.goalRevision}.`))
  }
  const final = receipt.todoState === "done" || receipt.todoState === "superseded"
  if (final && [state.held?.todo, state.ready?.todo].includes(receipt.todo)) {
    return Result.fail(stale("revision", `Todo ${receipt.todo} is ${receipt.todoState}, and the state would run it.`))
  }
  return Result.succeed(undefined)
}

interface Exhausted {
  readonly meter: Meter
  readonly agent: string | null
  /** `never`: a turn asks for more than the limit, which no time changes. */
  readonly ends: "withTime" | "never"
}

/** The meter of which a turn cannot be admitted: one of which it asks for more than there ever is goes first. */
const exhausted = ({ accounts }: LoopState, bound: Amounts | undefined): Exhausted | undefined => {
  const asked: Amounts = { slots: 1, attempts: 1, ...bound }
  const out = accounts.flatMap(({ agent, budget, remaining, window }) =>
    meters.flatMap((meter): readonly Exhausted[] => {
      const limit = budget[meter] ?? null
      if (limit === null) return []
      const left = remaining[meter] ?? 0
      const most = asked[meter]
      // A limit of 0 lets pass what costs nothing; of one that was used up, nobody knows that the next turn costs nothing.
      if (most === undefined ? limit === 0 || left > 0 : most <= left) return []
      return [{ meter, agent, ends: window === null || (most ?? 0) > limit ? "never" : "withTime" }]
    })
  )
  return out.find(({ ends }) => ends === "never") ?? out[0]
}

const part = (state: LoopState, kind: string): OpenPart | undefined => state.open.find((one) => one.kind === kind)

/** Parts that have a lane of their own below; whatever else is open is to be resolved. */
const known = new Set(["todo", "obligation", "turn", "gate", "unreadSource", "unreadableSource", "plannedEffect"])

type Step = Lane & { readonly about: readonly string[]; readonly says: string }

const halted = ({ goal, goalState, open }: LoopState): Step | undefined => {
  if (goalState !== "paused" && goalState !== "stopped") return undefined
  const waits = open.map(({ kind, count }) => `${count} ${kind}`).join(", ")
  return {
    disposition: "stop",
    reason: goalState === "paused" ? "goalPaused" : "goalStopped",
    about: [goal],
    says: `The goal is ${goalState}, whatever else is open${waits === "" ? "" : ` (${waits})`}: nothing starts until Goals.resume.`
  }
}

const completed = (state: LoopState): Step | undefined => {
  if (state.goalState !== "completed") return undefined
  if (state.open.length === 0) {
    return {
      disposition: "terminal",
      reason: "goalCompleted",
      about: [state.goal],
      says: "The goal is completed, and nothing is open."
    }
  }
  return unresolved(state.open, "The goal is completed, and yet something is open")
}

const unresolved = (parts: readonly OpenPart[], what: string): Step => ({
  disposition: "repair",
  reason: "unresolved",
  about: parts.flatMap(({ ids }) => ids),
  says: `${what}: ${parts.map(({ kind, count }) => `${count} ${kind}`).join(", ")}. Read it back, or let a person decide it.`
})

/** The agent's own open turn goes before a new one. */
const inFlight = ({ turn }: LoopState): Step | undefined => {
  if (turn === null) return undefined
  const about = [turn.id]
  if (turn.survivor) {
    const says = "A process of the turn survived it: somebody has to see it gone, and say so with Turns.fail."
    return { disposition: "userAction", reason: "survivor", about, says }
  }
  if (turn.alive === true) {
    return { disposition: "wait", reason: "turnRunning", until: null, about, says: "A turn of this agent is running." }
  }
  if (turn.alive === "unknown") {
    const says = "Whether the turn's executor still runs cannot be seen from here: somebody has to see it gone."
    return { disposition: "userAction", reason: "executorUnseen", about, says }
  }
  const says = `A dead process left the turn; its next step is ${turn.next}. Take it over with Turns.resume.`
  return { disposition: "repair", reason: "turnLeft", about, says }
}

/** What the receipt asks for, where the same todo would be next or nothing else is. */
const asked = (receipt: LoopReceipt | undefined, next: LoopTodo | null): Step | undefined => {
  if (receipt === undefined) return undefined
  const about = [receipt.todo]
  if (receipt.outcome === "staleContext") {
    const says = "What was required changed while the turn ran: its result is kept, the work needs a new plan."
    return { disposition: "replan", reason: "staleContext", about, says }
  }
  if (receipt.outcome === "accepted" || (next !== null && next.todo !== receipt.todo)) return undefined
  if (receipt.outcome === "unavailable") {
    const says = "The validator was not available: repair it before more is spent on this todo."
    return { disposition: "repair", reason: "validatorUnavailable", about, says }
  }
  const says = `The host says of its iteration: ${receipt.claim}.`
  switch (receipt.claim) {
    case "userAction":
      return { disposition: "userAction", reason: "hostAsks", about, says }
    case "repair":
      return { disposition: "repair", reason: "hostSays", about, says }
    case "replan":
      return { disposition: "replan", reason: "hostSays", about, says }
    case "wait":
      return { disposition: "wait", reason: "hostWaits", until: null, about, says }
    default:
      return undefined
  }
}

/** Questions to a person go before repairs: they take longest. */
const gated = (gates: readonly LoopGate[]): Step | undefined => {
  const lane = gates.some((gate) => gate.lane === "owner") ? "owner" : "repair"
  const those = gates.filter((gate) => gate.lane === lane)
  if (those.length === 0) return undefined
  const about = those.map(({ id }) => id)
  return lane === "owner"
    ? { disposition: "userAction", reason: "gate", about, says: `A person has to decide: ${those[0]!.question}` }
    : {
        disposition: "repair",
        reason: "gate",
        about,
        says: `Something is missing here, and is repaired without asking: ${those[0]!.question}`
      }
}

const free = (one: LoopTodo | null): one is LoopTodo =>
  one !== null && one.unreadable.length === 0 && one.gates.length === 0

/** What is held goes on, unless something stops it and other work can be taken. */
const choose = ({ held, ready }: LoopState): LoopTodo | null => [held, ready].find(free) ?? held ?? ready

const run = (state: LoopState, next: LoopTodo, budget: TurnBudget): Step => {
  const stopped = gated(next.gates)
  if (stopped !== undefined) return stopped
  if (next.unreadable.length > 0) {
    const says = `Todo ${next.todo} requires what cannot be read: make it readable, or let its owner retire it.`
    return { disposition: "repair", reason: "sourceUnreadable", about: next.unreadable, says }
  }
  const out = exhausted(state, budget.bound)
  if (out !== undefined) {
    const whose = out.agent === null ? "The goal" : `Agent ${out.agent}`
    const about = [out.agent ?? state.goal]
    return out.ends === "withTime"
      ? {
          disposition: "wait",
          reason: "quotaWindow",
          until: null,
          about,
          says: `${whose} has too few ${out.meter} left in its window: what was spent leaves it with time.`
        }
      : {
          disposition: "userAction",
          reason: "quotaExhausted",
          about,
          says: `${whose} has too few ${out.meter} left for a turn: it needs a smaller bound, or the owner opens a larger budget.`
        }
  }
  const held = next === state.held
  return {
    disposition: "runNow",
    reason: held ? "held" : "ready",
    todo: next.todo,
    about: [next.todo],
    says: held ? `Todo ${next.todo} is held and goes on.` : `Todo ${next.todo} can be taken.`
  }
}

/** Nothing can be run by this agent now: who or what moves next. */
const idle = (state: LoopState): Step => {
  const { withheld, movesAt } = state
  const waiting = gated(state.gates)
  if (waiting !== undefined) return waiting
  const dark = part(state, "unreadableSource")
  if (dark !== undefined) {
    const says = "A required source cannot be read: make it readable, or let its owner retire it."
    return { disposition: "repair", reason: "sourceUnreadable", about: dark.ids, says }
  }
  const others = state.open.filter(({ kind }) => !known.has(kind))
  if (others.length > 0) return unresolved(others, "Something has to be resolved first")
  if (part(state, "turn") !== undefined || (withheld?.leased ?? 0) + (withheld?.scopeConflict ?? 0) > 0) {
    const says = "Others work on what is left: it is worth asking again when they commit, or their leases end."
    return { disposition: "wait", reason: "othersWork", until: movesAt, about: part(state, "turn")?.ids ?? [], says }
  }
  if (movesAt !== null) {
    const says = "What is left was put aside until a time that is known."
    return { disposition: "wait", reason: "time", until: movesAt, about: part(state, "todo")?.ids ?? [], says }
  }
  if ((withheld?.capability ?? 0) > 0 && withheld!.blocked + withheld!.deferred + withheld!.excluded === 0) {
    const says = "What is left needs capabilities that this agent was not registered with."
    return { disposition: "repair", reason: "capability", about: part(state, "todo")?.ids ?? [], says }
  }
  const todos = part(state, "todo")
  if (todos !== undefined) {
    const says = "Nobody is working, and nothing of what is left can be given: what blocks it needs a new plan."
    return { disposition: "replan", reason: "nothingMoves", about: todos.ids, says }
  }
  const must = part(state, "obligation")
  if (must !== undefined) {
    const says = "Work must be attempted, and there is no todo for it."
    return { disposition: "replan", reason: "obligation", about: must.ids, says }
  }
  const unread = part(state, "unreadSource")
  if (unread !== undefined) {
    const says = "A required source has a revision that nobody has read: read it, and say so with Sources.read."
    return { disposition: "repair", reason: "sourceUnread", about: unread.ids, says }
  }
  if (state.open.length > 0) return unresolved(state.open, "Something has to be resolved first")
  const says = "Nothing is open: the goal is closed by Goals.complete, or gets more work. Neither happens by itself."
  return { disposition: "userAction", reason: "closure", about: [state.goal], says }
}

/**
 * What the loop does next. The first lane that applies: pause or stop; completed; the agent's own open turn; an exhausted turn
 * budget; what the receipt asks for; work that can be run; who else has to move. A receipt is given once, right after its turn.
 * Fails with `LoopInputStale` when the state is older than the receipt or of something else, and with `InvalidInput`.
 */
export const nextDisposition = (
  receipt: LoopReceipt | undefined,
  state: LoopState,
  budget: TurnBudget
): Result.Result<Disposition, LoopInputStale | InvalidInput> =>
  Result.map(sound(receipt, state, budget), () => {
    const next = choose(state)
    const spent: Step = {
      disposition: "replan",
      reason: "turnBudget",
      about: [state.goal],
      says: "The turns that were granted are used up: what is still to be done needs a new plan."
    }
    const step =
      halted(state) ??
      completed(state) ??
      inFlight(state) ??
      (budget.turns === 0 ? spent : undefined) ??
      asked(receipt, next) ??
      (next === null ? idle(state) : run(state, next, budget))
    return { ...step, goal: state.goal, agent: state.agent, asOf: state.asOf, open: state.open }
  })
