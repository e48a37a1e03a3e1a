/**
 * What a todo is made of: the fields that its maker names, the record that they make, and what a completion leads to.
 * Promise: a new todo is open at revision 1, and names each required source once; a continuation is exactly one of three.
 * Rules: G14, G20, G21, G90. The record is in TodoRecord.ts, the commands in Todo.ts and TodoEnd.ts.
 */
import * as Schema from "effect/Schema"
import { Origin } from "./DeliveryRecord.ts"
import { IdText, Ids, Names, Scope, Title } from "./Field.ts"
import type { DecideContext } from "./Module.ts"
import { RequiredReads } from "./SourceRecord.ts"
import type { TodoRecord } from "./TodoRecord.ts"

const Priority = Schema.Int.check(Schema.isBetween({ minimum: -1000, maximum: 1000 }))

export const todoFields = {
  title: Title,
  priority: Schema.optional(Priority),
  dependsOn: Schema.optional(Ids),
  capabilities: Schema.optional(Names),
  writeScopes: Schema.optional(Schema.Array(Scope)),
  excludedAgents: Schema.optional(Names),
  /** Sources of the goal that have to be read for it (G14). */
  requiredReads: Schema.optional(RequiredReads),
  acceptance: Schema.optional(Schema.NullOr(Schema.Struct({ validator: IdText })))
}

/** Where it is asked for is said at its making; later only by a command of its own (G90, Delivery.ts). */
export const todoSpec = { ...todoFields, origin: Schema.optional(Schema.NullOr(Origin)) }

/** A todo to be made. */
export const TodoSpec = Schema.Struct(todoSpec)
export type TodoSpec = typeof TodoSpec.Type

/** What a completion leads to: exactly one of three (G21). */
export const Continuation = Schema.Union([
  Schema.Struct({
    kind: Schema.Literal("successors"),
    todos: Schema.Array(TodoSpec).check(Schema.isMinLength(1), Schema.isMaxLength(100))
  }),
  Schema.Struct({ kind: Schema.Literal("goalStaysActive") }),
  Schema.Struct({ kind: Schema.Literal("noFollowUp") })
])
export type Continuation = typeof Continuation.Type

/** The record of a todo that is made now. */
export const newTodo = (goal: string, spec: TodoSpec, { now, newId }: DecideContext): TodoRecord => ({
  id: newId("todo"),
  goal,
  title: spec.title,
  state: "open",
  priority: spec.priority ?? 0,
  dependsOn: spec.dependsOn ?? [],
  capabilities: spec.capabilities ?? [],
  writeScopes: spec.writeScopes ?? [],
  excludedAgents: spec.excludedAgents ?? [],
  requiredReads: [...new Set(spec.requiredReads ?? [])],
  acceptance: spec.acceptance ?? null,
  deferredUntil: null,
  deferReason: null,
  continuation: null,
  supersededBy: null,
  origin: spec.origin ?? null,
  revision: 1,
  addedAt: now,
  changedAt: now
})

/** The todos that a continuation makes. */
export const successorsOf = (continuation: Continuation): readonly TodoSpec[] =>
  continuation.kind === "successors" ? continuation.todos : []
