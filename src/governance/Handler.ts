/**
 * How one command of a module is declared: its payload's schema, the rows it needs, its pure decision.
 * Promise: a payload reaches `decide` only after its schema accepted all of it, unknown fields refused; so the Effect
 * functions, the promise entry and a raw command pass the same door. Rules: G1, G50; C56.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { CoppiceError } from "../base/CoppiceError.ts"
import type { Json } from "../base/Digest.ts"
import type { Param, Row } from "../sqlite/Database.ts"
import { InvalidInput } from "./GovernanceError.ts"
import type { Command, DecideContext, Decision, JournalEvent, Load, Statement } from "./Module.ts"

export interface Handler {
  readonly load: (command: Command, context: { readonly now: number }) => Load<unknown>
  readonly decide: (state: any, command: Command, context: DecideContext) => Result.Result<Decision, CoppiceError>
}

export type Handlers = { readonly [type: string]: Handler }

type Loaded<P, S> = { readonly payload: P; readonly state: S } | { readonly refused: InvalidInput }

/** A command's declaration as a handler. `decide` is pure: see `AuthorityModule`. */
export const handler = <P, S>(spec: {
  readonly type: string
  readonly payload: Schema.Codec<P, any>
  readonly load: (payload: P, now: number) => Load<S>
  readonly decide: (
    state: S,
    payload: P,
    context: DecideContext,
    observed: Json | undefined
  ) => Result.Result<Decision, CoppiceError>
}): Handlers => {
  const decode = Schema.decodeUnknownResult(spec.payload, { onExcessProperty: "error" })
  return {
    [spec.type]: {
      *load(command, { now }): Load<Loaded<P, S>> {
        const decoded = decode(command.payload)
        if (Result.isFailure(decoded)) return { refused: invalidInput(spec.type, String(decoded.failure.message)) }
        return { payload: decoded.success, state: yield* spec.load(decoded.success, now) }
      },
      decide: (loaded: Loaded<P, S>, command, context) =>
        "refused" in loaded
          ? Result.fail(loaded.refused)
          : spec.decide(loaded.state, loaded.payload, context, command.observed)
    }
  }
}

export const invalidInput = (command: string, reason: string): InvalidInput =>
  new InvalidInput({
    message: `${command}: ${reason.replaceAll(/\s+/g, " ").slice(0, 400)}`,
    remedy: "Correct the named field. Nothing was changed.",
    command
  })

/** How many a list gives, 200 unless told. Thrown in a read, the refusal reaches the caller as it is. */
export const listLimit = (limit: number | undefined): number => {
  if (limit === undefined) return 200
  if (Number.isInteger(limit) && limit >= 1 && limit <= 10_000) return limit
  throw invalidInput("read", "`limit` is a whole number from 1 to 10,000")
}

/** A word by which a list is narrowed: one that names nothing would give an empty list, and that would read as "there is none". */
export const oneOf = <A extends string>(field: string, value: A | undefined, known: readonly A[]): void => {
  if (value === undefined || known.includes(value)) return
  throw invalidInput("read", `\`${field}\` is one of ${known.join(", ")}`)
}

/** A fact about an entity: its kind and what happened, as `todo.completed`, and the entity's record as it is now. */
export const fact = (type: string, entity: string, data: object): JournalEvent => ({ type, entity, data: data as Json })

/** Reads rows; to be used with `yield*` in a `load`. */
export function* rows(sql: string, ...params: readonly Param[]): Load<readonly Row[]> {
  return yield { sql, params }
}

/** Reads the first row. */
export function* row(sql: string, ...params: readonly Param[]): Load<Row | undefined> {
  return (yield { sql, params })[0]
}

/** How a record lies in its table: one column per field; arrays and objects as JSON text, booleans as 0 and 1. */
export interface RecordTable<R> {
  readonly read: (row: Row) => R
  /** Writes the record as it is now, whatever was there under its key. */
  readonly put: (record: R) => Statement
  readonly find: (where: string, ...params: readonly Param[]) => Load<readonly R[]>
  readonly first: (where: string, ...params: readonly Param[]) => Load<R | undefined>
}

const column = (field: string): string => field.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)

export const recordTable = <R extends object>(
  name: string,
  key: readonly (keyof R & string)[],
  fields: { readonly [K in keyof R]-?: "value" | "json" | "flag" }
): RecordTable<R> => {
  const entries = (Object.entries(fields) as [keyof R & string, "value" | "json" | "flag"][]).map(([field, kind]) => ({
    field,
    kind,
    column: column(field)
  }))
  const columns = entries.map((entry) => entry.column)
  const updates = entries.filter(({ field }) => !key.includes(field)).map((entry) => entry.column)
  const upsert =
    `INSERT INTO ${name} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")}) ` +
    `ON CONFLICT (${key.map(column).join(", ")}) DO UPDATE SET ${updates.map((c) => `${c} = excluded.${c}`).join(", ")}`
  const select = `SELECT ${columns.join(", ")} FROM ${name} WHERE `
  const read = (row: Row): R => {
    const record: Record<string, unknown> = {}
    for (const { field, kind, column } of entries) {
      const value = row[column]
      record[field] =
        kind === "flag" ? value === 1 : kind === "json" && value !== null ? JSON.parse(String(value)) : value
    }
    return record as R
  }
  const put = (record: R): Statement => ({
    sql: upsert,
    params: entries.map(({ field, kind }) => {
      const value = record[field] as unknown
      if (value === null || value === undefined) return null
      return kind === "flag" ? (value === true ? 1 : 0) : kind === "json" ? JSON.stringify(value) : (value as Param)
    })
  })
  const find = function* (where: string, ...params: readonly Param[]): Load<readonly R[]> {
    return (yield { sql: select + where, params }).map(read)
  }
  const first = function* (where: string, ...params: readonly Param[]): Load<R | undefined> {
    const found = (yield { sql: select + where, params })[0]
    return found === undefined ? undefined : read(found)
  }
  return { read, put, find, first }
}

/** A decision: its facts, and the reply that becomes the command's receipt. */
export const decided = (events: readonly JournalEvent[], reply: object): Decision => ({ events, reply: reply as Json })
