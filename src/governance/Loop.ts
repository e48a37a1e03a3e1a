/**
 * What a loop over one agent's turns is decided by: the fresh state, read at once, and the decision on it.
 * Promise: one snapshot, with the sequence it holds for; reading it changes nothing; the decision is LoopController.ts, pure.
 * Rules: G7, G83.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type AsOf, type Authority, reader, type ReadError } from "./Authority.ts"
import type { Fence } from "./Field.ts"
import { loadFrontier } from "./Frontier.ts"
import {
  type GateRecord,
  loadEverywhere,
  loadNaming,
  loadOpenGates,
  occasionOf,
  stateAt,
  stopping
} from "./GateRecord.ts"
import { agentTable, loadGoal } from "./Goal.ts"
import { type NotFound, notFound } from "./GovernanceError.ts"
import { loadLease, passFence } from "./Lease.ts"
import { type LoopGate, type LoopState, type LoopTodo, nextDisposition } from "./LoopController.ts"
import type { Load } from "./Module.ts"
import { loadNextWork } from "./NextWork.ts"
import { figures, loadAccounts } from "./QuotaSum.ts"
import { loadMovesAt } from "./ReadyQueue.ts"
import { loadRequired } from "./SourceRecord.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"
import { lookAt, openTurn } from "./TurnFence.ts"
import { nextStep, type TurnRecord } from "./TurnRecord.ts"

const shown = ({ id, lane, question }: GateRecord): LoopGate => ({ id, lane, question })

/** How many open gates that name todos are looked at, the oldest first: one is enough to say whom to ask. */
const mostShown = 100

interface Asked {
  readonly goal: string
  readonly agent: string
  /** The fence under which the loop holds a todo, where it does: an agent's name alone is no holding (G32). */
  readonly fence?: Fence
}

type Snapshot = Omit<LoopState, "asOf" | "turn"> & { readonly turn: TurnRecord | null }

function* loopTodo(todo: TodoRecord, gates: readonly LoopGate[]): Load<LoopTodo> {
  const required = yield* loadRequired(todo)
  const dark = required.filter(({ state }) => state === "unreadable")
  return { todo: todo.id, unreadable: dark.map(({ id }) => id), gates }
}

/** What the loop holds: a live lease that its fence proves, on a todo that is open. */
function* loadHeld({ fence, goal, agent }: Asked, gates: readonly GateRecord[], now: number): Load<LoopTodo | null> {
  if (fence === undefined) return null
  const lease = passFence(yield* loadLease(fence.todo), fence, now)
  if (Result.isFailure(lease) || lease.success.owner !== agent) return null
  const todo = yield* todoTable.first("id = ? AND goal = ? AND state = 'open'", fence.todo, goal)
  if (todo === undefined) return null
  // What would stop its next turn: a refusal that stands, too.
  const use = { agent, action: "dispatch", todo, occasion: occasionOf(todo.id, lease.success.epoch) } as const
  const named = yield* loadNaming(todo.id)
  return yield* loopTodo(todo, stopping([...gates, ...named], use, now).map(shown))
}

function* loadSnapshot(input: Asked, now: number): Load<Snapshot | undefined> {
  const { goal: id, agent: agentId } = input
  const goal = yield* loadGoal(id)
  const agent = yield* agentTable.first("goal = ? AND agent_id = ?", id, agentId)
  if (goal === undefined || agent === undefined) return undefined
  const everywhere = yield* loadEverywhere(id)
  const { items: named } = yield* loadOpenGates(id, now, mostShown)
  const open = new Map([...everywhere, ...named].map((gate) => [gate.id, gate]))
  const work = yield* loadNextWork({ goal: id, agent: agentId }, now)
  return {
    goal: id,
    agent: agentId,
    goalState: goal.state,
    goalRevision: goal.revision,
    open: yield* loadFrontier(id, now),
    turn: (yield* openTurn(id, agentId)) ?? null,
    held: yield* loadHeld(input, everywhere, now),
    ready: work.best === undefined ? null : yield* loopTodo(work.best.todo, []),
    withheld: work.withheld ?? null,
    movesAt: yield* loadMovesAt(id, now),
    gates: [...open.values()]
      .filter((gate) => stateAt(gate, now) === "open" && (gate.agents === null || gate.agents.includes(agentId)))
      .map(shown),
    accounts: (yield* loadAccounts(goal, agent, now)).map((account) => figures(account, now))
  }
}

const read = reader(
  (input: Asked, { now }) => loadSnapshot(input, now),
  (input) => notFound("goal or agent", `${input.goal}/${input.agent}`)
)

/** The loop over the turns of one agent: its state, and what comes next (G83). */
export const Loop = {
  /**
   * The state of a goal for one agent's loop, from one snapshot; name the `fence` of the todo that the loop holds. Whether the
   * process of an open turn lives is looked at from this process, after the snapshot. Errors: `NotFound` (goal, or agent not
   * registered).
   */
  state: (input: Asked): Effect.Effect<LoopState & AsOf, NotFound | ReadError, Authority> =>
    Effect.gen(function* () {
      const { turn, ...state } = yield* read(input)
      if (turn === null) return { ...state, turn }
      const survivor = turn.failure?.class === "supervisionFailed"
      return { ...state, turn: { id: turn.id, next: nextStep(turn), alive: yield* lookAt(turn), survivor } }
    }),
  /**
   * What the loop does next, as a `Result`: see `nextDisposition`. Pure: it reads and writes nothing, so it can be asked as often
   * as one likes. Errors: `LoopInputStale` (read the state again), `InvalidInput`.
   */
  next: nextDisposition
}
