/**
 * Gates: questions that stop some actions of some agents until somebody answers, and nobody else.
 * Promise: a question is asked once; its answer holds as far as it was meant to reach, whoever asks again; a missing local
 * capability is work to repair and never a question to the owner. Rules: G40, G41, G12; C66. The record: GateRecord.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import { IdText, Question, Reason, Scope } from "./Field.ts"
import {
  type Actor,
  capabilityClasses,
  countGates,
  decidedAnew,
  gateActions,
  type GateDecision,
  gateKinds,
  type GateRecord,
  gateTable,
  laneOf,
  mostDecisions,
  mostGates,
  questionDigest,
  type Reach,
  startingActions,
  stateAt,
  withDecisions
} from "./GateRecord.ts"
import { activeGoal, agentTable, loadGoal } from "./Goal.ts"
import {
  GateClosed,
  type GoalNotActive,
  type InvalidInput,
  type NotFound,
  notFound,
  OwnerOnly
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, invalidInput, oneOf, row } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { todoTable } from "./TodoRecord.ts"

// --- model -----------------------------------------------------------------------------------------------------------

/** A gate as it is shown; `state` holds for the time of the answer. */
export type Gate = Omit<GateRecord, "digest" | "mayStop">

const show = ({ digest: _digest, mayStop: _mayStop, ...gate }: GateRecord, now: number): Gate => {
  const state = stateAt(gate, now)
  return { ...gate, state, lapsesAt: state === "decided" ? gate.lapsesAt : null }
}

const some = <S extends Schema.Top>(item: S) =>
  Schema.Array(item).check(Schema.isMinLength(1), Schema.isMaxLength(1000))
const ActorField = Schema.Struct({ role: Schema.Literals(["person", "agent"]), name: IdText })

// --- asking ----------------------------------------------------------------------------------------------------------

const AskGate = Schema.Struct({
  goal: IdText,
  kind: Schema.Literals(gateKinds),
  question: Question,
  /** Whom it stops; absent: every agent. */
  agents: Schema.optional(some(IdText)),
  /** What it stops; absent: whatever would start something (`claim`, `dispatch`, `effect`). */
  actions: Schema.optional(some(Schema.Literals(gateActions))),
  /** Which todos it stops; absent: all of the goal. */
  todos: Schema.optional(some(IdText)),
  /** Only work that claims to write here. A write boundary names them. */
  writeScopes: Schema.optional(some(Scope)),
  /** What is missing: of a gate of kind `capability`, and of no other. */
  need: Schema.optional(Schema.Struct({ class: Schema.Literals(capabilityClasses), name: IdText })),
  /** The answers that are possible; absent: any. */
  choices: Schema.optional(some(IdText)),
  askedBy: Schema.optional(IdText)
})

const incomplete = (input: typeof AskGate.Type): string | undefined => {
  if ((input.kind === "capability") !== (input.need !== undefined)) {
    return "a gate of kind capability, and no other, names its need"
  }
  return input.kind === "writeBoundary" && input.writeScopes === undefined
    ? "a write boundary names its writeScopes"
    : undefined
}

const draft = (input: typeof AskGate.Type) => {
  const question = {
    kind: input.kind,
    question: input.question,
    need: input.need ?? null,
    agents: input.agents ?? null,
    actions: input.actions ?? startingActions,
    todos: input.todos ?? null,
    writeScopes: input.writeScopes ?? null
  }
  return { ...question, digest: questionDigest(question) }
}

const ask = handler({
  type: "askGate",
  payload: AskGate,
  *load(input) {
    const unknown: NotFound[] = []
    for (const id of input.agents ?? []) {
      const agent = yield* agentTable.first("goal = ? AND agent_id = ?", input.goal, id)
      if (agent === undefined) unknown.push(notFound("agent", id))
    }
    for (const id of input.todos ?? []) {
      const todo = yield* todoTable.first("id = ? AND goal = ?", id, input.goal)
      if (todo === undefined) unknown.push(notFound("todo", id))
    }
    let full = false
    for (const id of input.todos ?? [null]) {
      full ||= (yield* countGates(input.goal, id)) >= (id === null ? mostGates.everywhere : mostGates.todo)
    }
    return {
      goal: yield* loadGoal(input.goal),
      unknown: unknown[0],
      full,
      asked: yield* gateTable.first("goal = ? AND digest = ? AND state <> 'withdrawn'", input.goal, draft(input).digest)
    }
  },
  decide: ({ goal, unknown, full, asked }, input, { now, newId }) =>
    Result.gen(function* () {
      const why = incomplete(input)
      if (why !== undefined) return yield* Result.fail(invalidInput("askGate", why))
      if (goal === undefined) return yield* Result.fail(notFound("goal", input.goal))
      if (goal.state === "completed") yield* activeGoal(goal, goal.id)
      if (unknown !== undefined) return yield* Result.fail(unknown)
      if (asked !== undefined) return decided([], { ...show(asked, now), asked: false })
      if (full) {
        const most = `${mostGates.everywhere} gates about all work of a goal, or ${mostGates.todo} about one todo`
        return yield* Result.fail(invalidInput("askGate", `no more than ${most} wait: decide or withdraw some first`))
      }
      const gate: GateRecord = {
        id: newId("gate"),
        goal: goal.id,
        ...draft(input),
        lane: laneOf(input.kind, input.need ?? null),
        choices: input.choices ?? null,
        askedBy: input.askedBy ?? null,
        decisions: [],
        state: "open",
        lapsesAt: null,
        mayStop: true,
        withdrawn: null,
        openedAt: now,
        changedAt: now
      }
      return decided([fact("gate.opened", gate.id, gate)], { ...show(gate, now), asked: true })
    })
})

// --- answering -------------------------------------------------------------------------------------------------------

const DecideGate = Schema.Struct({
  gate: IdText,
  by: ActorField,
  /** Whether what the gate stops may happen. */
  allow: Schema.Boolean,
  /** The answer in words, or one of the gate's choices; `yes` or `no` when absent. */
  answer: Schema.optional(Reason),
  reason: Reason,
  reach: Schema.Union([
    Schema.Struct({ kind: Schema.Literal("once") }),
    Schema.Struct({ kind: Schema.Literal("todo"), todo: IdText }),
    Schema.Struct({ kind: Schema.Literal("scope") }),
    /** UTC milliseconds at which it ends. */
    Schema.Struct({ kind: Schema.Literal("until"), at: Schema.Int })
  ])
})

/** The gate while it stands, when this actor may speak for its lane. */
const answerable = (
  gate: GateRecord | undefined,
  id: string,
  by: Actor
): Result.Result<GateRecord, NotFound | GateClosed | OwnerOnly> => {
  if (gate === undefined) return Result.fail(notFound("gate", id))
  if (gate.state === "withdrawn") {
    return Result.fail(
      new GateClosed({
        message: `Gate ${id} was withdrawn.`,
        remedy: "Ask the question again with Gates.ask if it still matters.",
        gate: id
      })
    )
  }
  // Else whom it stops could let itself through.
  if (gate.lane === "owner" && by.role !== "person") {
    return Result.fail(
      new OwnerOnly({
        message: `Gate ${id} asks the owner; ${by.name} is an agent.`,
        remedy: "Let a person decide. Agents speak only for what they can repair (lane `repair`).",
        gate: id,
        by: by.name
      })
    )
  }
  return Result.succeed(gate)
}

/** Why the reach of a decision makes no sense for the gate. */
const unreachable = (gate: GateRecord, allow: boolean, reach: Reach, now: number): string | undefined => {
  switch (reach.kind) {
    case "once":
      return allow ? undefined : "a refusal is for a todo, for the scope or until a time: `once` would refuse nothing"
    case "todo":
      return gate.todos === null || gate.todos.includes(reach.todo)
        ? undefined
        : `gate ${gate.id} is not about todo ${reach.todo}`
    case "until":
      return now < reach.at ? undefined : "the time at which the decision would end has passed"
    case "scope":
      return undefined
  }
}

/** The occasions of used decisions that go on: the lease that used it is held. */
function* loadLive(decisions: readonly GateDecision[], now: number): Load<ReadonlySet<string>> {
  const live = new Set<string>()
  for (const { usedBy } of decisions) {
    if (usedBy === null) continue
    const at = usedBy.lastIndexOf("/")
    const held = yield* row(
      "SELECT 1 FROM lease WHERE todo = ? AND epoch = ? AND released_at IS NULL AND expires_at > ?",
      usedBy.slice(0, Math.max(0, at)),
      Number(usedBy.slice(at + 1)) || 0,
      now
    )
    if (held !== undefined) live.add(usedBy)
  }
  return live
}

const decide = handler({
  type: "decideGate",
  payload: DecideGate,
  *load(input, now) {
    const { reach } = input
    const gate = yield* gateTable.first("id = ?", input.gate)
    return {
      gate,
      live: yield* loadLive(gate?.decisions ?? [], now),
      todo: reach.kind === "todo" ? yield* todoTable.first("id = ?", reach.todo) : undefined
    }
  },
  decide: ({ gate: found, live, todo }, input, { now }) =>
    Result.gen(function* () {
      const gate = yield* answerable(found, input.gate, input.by)
      const { reach, allow } = input
      if (reach.kind === "todo" && todo?.goal !== gate.goal) return yield* Result.fail(notFound("todo", reach.todo))
      const why = unreachable(gate, allow, reach, now)
      if (why !== undefined) return yield* Result.fail(invalidInput("decideGate", why))
      const answer = input.answer ?? (allow ? "yes" : "no")
      if (allow && gate.choices !== null && !gate.choices.includes(answer)) {
        return yield* Result.fail(
          invalidInput("decideGate", `the answer is none of the gate's choices: ${gate.choices.join(", ")}`)
        )
      }
      const decision: GateDecision = {
        allow,
        answer,
        reason: input.reason,
        by: input.by,
        reach,
        decidedAt: now,
        usedBy: null
      }
      const decisions = decidedAnew(gate.decisions, decision, live, now)
      if (decisions.length > mostDecisions) {
        return yield* Result.fail(
          invalidInput(
            "decideGate",
            `gate ${gate.id} holds ${mostDecisions} decisions: decide for its scope, or ask about the rest with another gate`
          )
        )
      }
      const next = withDecisions(gate, decisions, now)
      return decided([fact("gate.decided", gate.id, next)], show(next, now))
    })
})

const WithdrawGate = Schema.Struct({ gate: IdText, by: ActorField, reason: Reason })

const withdraw = handler({
  type: "withdrawGate",
  payload: WithdrawGate,
  load: (input) => gateTable.first("id = ?", input.gate),
  decide: (found, input, { now }) =>
    Result.map(answerable(found, input.gate, input.by), (gate) => {
      const next: GateRecord = {
        ...gate,
        state: "withdrawn",
        lapsesAt: null,
        mayStop: false,
        withdrawn: { by: input.by, reason: input.reason },
        changedAt: now
      }
      return decided([fact("gate.withdrawn", gate.id, next)], show(next, now))
    })
})

export const gateHandlers: Handlers = { ...ask, ...decide, ...withdraw }

// --- service ---------------------------------------------------------------------------------------------------------

/** Gates: what has to be decided or repaired first, by whom, and for whom it stops what. */
export const Gates = {
  /**
   * Opens a gate, or finds it: the same question (kind, words, need, agents, actions, todos, write scopes) is asked once, and
   * asking again gives the gate with its decisions, `asked: false`. It stops only the agents, actions, todos and write scopes that
   * it names, until a decision that covers them allows it. `lane` says who is to move: the owner, or whoever repairs what is
   * missing here. A goal that is paused takes it too: it only makes less possible.
   * Errors: `InvalidInput` (a need without kind `capability`, a write boundary without scopes, or too many wait: 500 that name no
   * todo, 100 that name one), `NotFound` (goal, agent, todo),
   * `GoalNotActive` (completed goal).
   */
  ask: writer<typeof AskGate.Type, Gate & { readonly asked: boolean }, NotFound | GoalNotActive>("work", "askGate"),
  /**
   * Answers. `allow: false` keeps the actions stopped and names this decision. `reach` says how far it goes: `once` (one holding of one
   * todo, or one effect), `todo`, `scope` (whatever the gate is about), `until` a time in UTC milliseconds. A later decision
   * replaces an earlier one where both reach. Gates of lane `owner` take a person, those of lane `repair` an agent too.
   * Errors: `OwnerOnly` (an agent answers for the owner), `GateClosed` (withdrawn), `InvalidInput` (the answer is no choice, the reach
   * makes no sense, or the gate holds 100 decisions: `scope` replaces them all), `NotFound`.
   */
  decide: writer<typeof DecideGate.Type, Gate, OwnerOnly | GateClosed | InvalidInput | NotFound>("work", "decideGate"),
  /** Takes a question back for good; it stops nothing any more. Errors: `OwnerOnly`, `GateClosed`, `NotFound`. */
  withdraw: writer<typeof WithdrawGate.Type, Gate, OwnerOnly | GateClosed | NotFound>("work", "withdrawGate"),
  /** One gate with its decisions. Errors: `NotFound`. */
  get: reader(
    function* (input: { readonly gate: string }, { now }): Load<Gate | undefined> {
      const gate = yield* gateTable.first("id = ?", input.gate)
      return gate === undefined ? undefined : show(gate, now)
    },
    (input) => notFound("gate", input.gate)
  ),
  /**
   * Gates of a goal, oldest first; all, or those in one state or lane: `{ state: "open", lane: "owner" }` is what the owner is asked,
   * without what nobody waits for any more (every named todo is done or retired, or the goal is completed).
   */
  list: reader(function* (
    input: { readonly goal: string; readonly state?: Gate["state"]; readonly lane?: Gate["lane"] },
    { now }
  ): Load<{ readonly items: readonly Gate[] }> {
    const { state, lane } = input
    oneOf("state", state, ["open", "decided", "withdrawn"])
    oneOf("lane", lane, ["owner", "repair"])
    const goal = yield* loadGoal(input.goal)
    const asked = (gate: GateRecord) => gate.mayStop && goal?.state !== "completed"
    const found = yield* gateTable.find("goal = ? ORDER BY opened_at, id", input.goal)
    return {
      items: found.flatMap((gate) => {
        const shown = show(gate, now)
        const wanted = (state === undefined || shown.state === state) && (lane === undefined || shown.lane === lane)
        return wanted && (state !== "open" || asked(gate)) ? [shown] : []
      })
    }
  })
}
