/**
 * Calls one command's pure decision, or drives its load over rows that a test names: no store, no clock.
 * Rules: G1 (a decision is pure), and whatever its tests name.
 */
import { isAlive, type ProcessIdentity } from "../../../src/base/ProcessIdentity.ts"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Authority } from "../../../src/governance/Authority.ts"
import type { Handlers } from "../../../src/governance/Handler.ts"
import type { AuthorityStore, Command, JournalEvent, Load, Statement } from "../../../src/governance/Module.ts"
import type { Row } from "../../../src/sqlite/Database.ts"
import { context } from "./records.ts"

type Fields = { readonly [field: string]: any }

/** What a decision gave: the tag of its refusal and the refusal, or its facts and its reply. */
export interface Decided {
  readonly refused: string | undefined
  readonly error: Fields
  readonly events: readonly JournalEvent[]
  readonly facts: readonly string[]
  readonly reply: Fields
}

export const told = (result: Result.Result<unknown, object>): Decided => {
  if (Result.isFailure(result)) {
    const error = result.failure as Fields
    return { refused: String(error["_tag"]), error, events: [], facts: [], reply: {} }
  }
  const { events = [], reply = {} } = (result.success ?? {}) as { events?: readonly JournalEvent[]; reply?: Fields }
  return { refused: undefined, error: {}, events, facts: events.map(({ type }) => type), reply }
}

/** Decides a command over a state. */
export const decideBy =
  (handlers: Handlers) =>
  (type: string, state: unknown, payload: object, observed?: object): Decided => {
    const command = { id: "cmd", module: "work", type, payload, observed }
    return told(handlers[type]!.decide({ payload, state }, command as never, context()))
  }

/** A record as its table would give it. */
export const rowOf = ({ sql, params }: Statement): Row => {
  const columns = /\(([^)]*)\) VALUES/.exec(sql)![1]!.split(", ")
  return Object.fromEntries(columns.map((name, i) => [name, params[i] ?? null]))
}

/** Drives a load: every statement is answered by `answer`. Gives its state, and what it asked. */
export const loaded = <A>(
  load: Load<A>,
  answer: (sql: string, params: readonly unknown[]) => readonly Row[] | undefined
): { readonly state: A; readonly asked: readonly Statement[] } => {
  const asked: Statement[] = []
  let step = load.next()
  while (step.done !== true) {
    asked.push(step.value)
    step = load.next(answer(step.value.sql, step.value.params) ?? [])
  }
  return { state: step.value, asked }
}

/** The state that a command's load gives over these tables: each query by one equality (`id = ?`) finds its rows. */
export const loadBy =
  (handlers: Handlers) =>
  (
    type: string,
    payload: object,
    answer: (sql: string, params: readonly unknown[]) => readonly Row[] | undefined = () => [],
    now = 0
  ): Fields => {
    const command = { id: "cmd", module: "work", type, payload }
    const { state } = loaded(handlers[type]!.load(command as never, { now }), answer)
    return state as Fields
  }

/** Answers `FROM table WHERE column = ?` out of these rows. */
export const tables =
  (content: { readonly [table: string]: readonly Row[] }) =>
  (sql: string, params: readonly unknown[]): readonly Row[] => {
    const [, table, where] = /FROM (\w+) WHERE (.*)$/s.exec(sql) ?? []
    const found = content[table ?? ""] ?? []
    const conditions = [...(where ?? "").matchAll(/(\w+) = \?/g)].map((match) => match[1]!)
    return found.filter((row) => conditions.every((column, i) => row[column] === params[i]))
  }

/** An authority that keeps the commands it is given, and reads out of these tables. */
export const recording = (content: { readonly [table: string]: readonly Row[] } = {}) => {
  const commands: Command[] = []
  const store = {
    read: async (query: (context: { readonly now: number }) => Load<unknown>) => ({
      value: loaded(query({ now: 0 }), tables(content)).state,
      seq: 1
    }),
    isAlive: async (process: ProcessIdentity) => isAlive(process),
    commit: async (batch: readonly Command[]) => {
      commands.push(...batch)
      return [{ _tag: "Committed", replayed: false, reply: {}, seq: 1 }]
    }
  } as unknown as AuthorityStore
  const service = Authority.make(store)
  const run = <A, E>(effect: Effect.Effect<A, E, Authority>): Promise<A> =>
    Effect.runPromise(Effect.provideService(effect, Authority, service))
  return { commands, run }
}
