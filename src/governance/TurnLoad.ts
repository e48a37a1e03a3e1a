/**
 * What the commands of a turn read before they decide.
 * Promise: a turn with its goal, its lease and what is held for it, as they stand at one moment; before a dispatch also what may
 * forbid it. Rules: G14, G35, G40, G80.
 */
import * as Schema from "effect/Schema"
import { type GateRecord, loadGates } from "./GateRecord.ts"
import { type GoalRecord, loadGoal } from "./Goal.ts"
import { type LeaseRecord, loadLease } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { type ReservationRecord, reservationTable } from "./ReservationRecord.ts"
import { loadRequired, type SourceRecord } from "./SourceRecord.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"
import { type TurnRecord, turnTable } from "./TurnRecord.ts"

/** What an environment promises of an executor when its driver dies. */
export const Guarantee = Schema.Struct({ diesWithParent: Schema.Boolean, wholeTree: Schema.Boolean })

export interface TurnState {
  readonly turn: TurnRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly held: ReservationRecord | undefined
}

export function* loadTurn(id: string): Load<TurnState> {
  const turn = yield* turnTable.first("id = ?", id)
  if (turn === undefined) return { turn, goal: undefined, lease: undefined, held: undefined }
  return {
    turn,
    goal: yield* loadGoal(turn.goal),
    lease: yield* loadLease(turn.todo),
    held: yield* reservationTable.first("id = ?", turn.reservation)
  }
}

export interface DispatchState extends TurnState {
  readonly todo: TodoRecord | undefined
  readonly gates: readonly GateRecord[]
  /** What the todo requires to be read now. */
  readonly required: readonly SourceRecord[]
}

/** The same, with what decides whether its host may be started. */
export function* loadForDispatch(id: string): Load<DispatchState> {
  const state = yield* loadTurn(id)
  const { turn } = state
  if (turn === undefined) return { ...state, todo: undefined, gates: [], required: [] }
  const todo = yield* todoTable.first("id = ?", turn.todo)
  return { ...state, todo, gates: yield* loadGates(turn.goal, turn.todo), required: yield* loadRequired(todo) }
}
