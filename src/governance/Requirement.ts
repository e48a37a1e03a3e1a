/**
 * What a piece of work is required to be, as one digest: the goal, the todo's title, its validator, where it may write.
 * Promise: work that was begun under one requirement never counts as accepted under another, unless the validator ran against
 * the new one; what an edit changes beside these (priority, dependencies) makes nothing stale. Rules: G86; C72.
 */
import { digestJson, type Json } from "../base/Digest.ts"
import type { GoalRecord } from "./Goal.ts"
import type { TodoRecord } from "./TodoRecord.ts"

export const requirementOf = (goal: Pick<GoalRecord, "title">, todo: TodoRecord): string =>
  digestJson({
    goal: goal.title,
    title: todo.title,
    acceptance: todo.acceptance,
    writeScopes: todo.writeScopes
  } as unknown as Json)
