/**
 * The record of a todo, and who may take it when.
 * Promise: deferred work with an unmet condition is never taken; each reason why an agent may not take a todo is named.
 * Rules: G20, G22. The commands are in Todo.ts and TodoEnd.ts, choosing among todos in NextWork.ts.
 */
import * as Result from "effect/Result"
import type { Origin } from "./DeliveryRecord.ts"
import type { AgentRecord } from "./Goal.ts"
import { NotEligible, RevisionConflict, TodoState } from "./GovernanceError.ts"
import { fact, recordTable } from "./Handler.ts"
import type { JournalEvent } from "./Module.ts"

/** What a completion leads to: exactly one of three (G21). */
export type ContinuationRecord =
  | { readonly kind: "successors"; readonly todos: readonly string[] }
  | { readonly kind: "goalStaysActive" }
  | { readonly kind: "noFollowUp" }

/** A todo as it is kept, journaled and shown. */
export interface TodoRecord {
  readonly id: string
  readonly goal: string
  readonly title: string
  readonly state: "open" | "deferred" | "done" | "superseded"
  /** Higher goes first. */
  readonly priority: number
  readonly dependsOn: readonly string[]
  /** Capabilities that an agent must have been registered with. */
  readonly capabilities: readonly string[]
  /** Relative paths that the work may write; a path covers what lies below it. Empty: nothing is claimed. */
  readonly writeScopes: readonly string[]
  readonly excludedAgents: readonly string[]
  /** Sources that have to be read for this work, by id (G14). */
  readonly requiredReads: readonly string[]
  /** When set, only a settlement accepted by this validator completes the todo. */
  readonly acceptance: { readonly validator: string } | null
  readonly deferredUntil: number | null
  readonly deferReason: string | null
  readonly continuation: ContinuationRecord | null
  readonly supersededBy: readonly string[] | null
  /** Where it was asked for and its result goes (G90); null: nowhere. */
  readonly origin: Origin | null
  readonly revision: number
  readonly addedAt: number
  readonly changedAt: number
}

export const todoTable = recordTable<TodoRecord>("todo", ["id"], {
  id: "value",
  goal: "value",
  title: "value",
  state: "value",
  priority: "value",
  dependsOn: "json",
  capabilities: "json",
  writeScopes: "json",
  excludedAgents: "json",
  requiredReads: "json",
  acceptance: "json",
  deferredUntil: "value",
  deferReason: "value",
  continuation: "json",
  supersededBy: "json",
  origin: "json",
  revision: "value",
  addedAt: "value",
  changedAt: "value"
})

/** A new revision of a todo. */
export const revised = (todo: TodoRecord, change: Partial<TodoRecord>, now: number): TodoRecord => ({
  ...todo,
  ...change,
  revision: todo.revision + 1,
  changedAt: now
})

/** Deferred with a time that has come: its condition is met, it may be taken like an open one. */
export const conditionMet = (todo: TodoRecord, now: number): boolean =>
  todo.state === "deferred" && todo.deferredUntil !== null && todo.deferredUntil <= now

export type Obstacle = "deferred" | "blocked" | "excluded" | "capability"

/** Why this agent may not take this todo now; empty when it may. Leases and write scopes are looked at apart. */
export const obstacles = (
  todo: TodoRecord,
  agent: AgentRecord,
  unmet: readonly string[],
  now: number
): readonly { readonly kind: Obstacle; readonly text: string }[] => {
  const found: { kind: Obstacle; text: string }[] = []
  if (todo.state === "deferred" && !conditionMet(todo, now)) found.push({ kind: "deferred", text: "it is deferred" })
  if (unmet.length > 0) found.push({ kind: "blocked", text: `it depends on ${unmet.join(", ")}` })
  if (todo.excludedAgents.includes(agent.agentId))
    found.push({ kind: "excluded", text: `${agent.agentId} is excluded` })
  const missing = todo.capabilities.filter((capability) => !agent.capabilities.includes(capability))
  if (missing.length > 0) found.push({ kind: "capability", text: `${agent.agentId} lacks ${missing.join(", ")}` })
  return found
}

/** The facts to write before a lease on this todo is granted (a deferred one whose time came opens again), or why not. */
export const claimable = (
  todo: TodoRecord,
  agent: AgentRecord,
  unmet: readonly string[],
  now: number
): Result.Result<readonly JournalEvent[], TodoState | NotEligible> => {
  if (todo.state === "done" || todo.state === "superseded") return Result.fail(todoState(todo))
  const found = obstacles(todo, agent, unmet, now)
  if (found.length > 0) {
    return Result.fail(
      new NotEligible({
        message: `Todo ${todo.id} cannot be taken by ${agent.agentId}: ${found.map((o) => o.text).join("; ")}.`,
        remedy: "Take other work with Todos.nextWork, or change the todo or the agent's registration.",
        todo: todo.id,
        agent: agent.agentId,
        reasons: found.map((o) => o.kind)
      })
    )
  }
  if (todo.state === "open") return Result.succeed([])
  const opened = revised(todo, { state: "open", deferredUntil: null, deferReason: null }, now)
  return Result.succeed([fact("todo.reopened", todo.id, opened)])
}

export const todoState = (todo: TodoRecord): TodoState =>
  new TodoState({
    message: `Todo ${todo.id} is ${todo.state}.`,
    remedy:
      todo.state === "done" || todo.state === "superseded"
        ? "That is final: add another todo for further work."
        : "Read the todo again and call what its state allows.",
    todo: todo.id,
    state: todo.state
  })

/** The todo when it is at the revision that the caller saw. */
export const atRevision = (todo: TodoRecord, expected: number): Result.Result<TodoRecord, RevisionConflict> =>
  todo.revision === expected
    ? Result.succeed(todo)
    : Result.fail(
        new RevisionConflict({
          message: `Todo ${todo.id} is at revision ${todo.revision}, not ${expected}.`,
          remedy: "Read the todo again, and decide with what it says now.",
          id: todo.id,
          expected,
          actual: todo.revision
        })
      )
