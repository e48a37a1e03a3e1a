/**
 * Effect's `SqlClient` over `node:sqlite`, for reading connections: queries of rooms and plugins.
 * Promise: the same service, names and compiler as Effect's own SQLite client, which has no release for Effect 4 yet (06); a
 * reading connection writes nothing, because the file is opened read-only. Rules: G1 (the Authority alone writes), 01.
 */
import type { SQLInputValue } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { Database, type StorageFailure } from "./Database.ts"

export interface SqlClientOptions {
  /** An existing file. */
  readonly filename: string
  readonly spanAttributes?: Readonly<Record<string, unknown>>
}

/** `node:sqlite` says `errcode` where Effect's classifier reads `errno`. */
const sqlError = (cause: unknown, operation: string): SqlError => {
  const error = cause as { errcode?: number; errno?: number }
  if (typeof error.errcode === "number" && error.errno === undefined) error.errno = error.errcode
  return new SqlError({ reason: classifySqliteError(cause, { message: "The statement failed", operation }) })
}

/** Rows of `node:sqlite` have no prototype; Effect's schemas and equality expect plain objects. */
const plain = (row: object): object => ({ ...row })

const connect = (db: Database): Connection => {
  const attempt = <A>(operation: string, run: () => A): Effect.Effect<A, SqlError> =>
    Effect.try({ try: run, catch: (cause) => sqlError(cause, operation) })
  const rows = (sql: string, params: readonly unknown[]): object[] =>
    (db.prepare(sql).all(...(params as SQLInputValue[])) as object[]).map(plain)
  const execute: Connection["execute"] = (sql, params, transform) =>
    Effect.map(
      attempt("execute", () => rows(sql, params)),
      (found) => (transform === undefined ? found : transform(found))
    )
  const values: Connection["executeValues"] = (sql, params) =>
    attempt("executeValues", () => rows(sql, params).map((row) => Object.values(row)))
  return {
    execute,
    executeRaw: (sql, params) => attempt("executeRaw", () => rows(sql, params)),
    executeStream: (sql, params, transform) =>
      Stream.unwrap(
        Effect.map(
          attempt("executeStream", () => db.raw.prepare(sql).iterate(...(params as SQLInputValue[]))),
          (found) => {
            const read = Stream.fromIteratorSucceed(found as IterableIterator<object>)
            return Stream.map(read, (row) => (transform === undefined ? plain(row) : transform([plain(row)])[0]))
          }
        )
      ),
    executeValues: values,
    executeValuesUnprepared: values,
    executeUnprepared: execute
  }
}

/** A client in a scope. Errors: `StorageFailure` when the file cannot be opened (see its remedy). */
export const make = (
  options: SqlClientOptions
): Effect.Effect<SqlClient.SqlClient, StorageFailure, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function* () {
    const db = yield* Effect.acquireRelease(
      Effect.try({
        try: () => Database.open(options.filename, { readOnly: true }),
        catch: (error) => error as StorageFailure
      }),
      (open) => Effect.sync(() => open.close())
    )
    const acquirers = SqlClient.makeSqliteAcquirers({
      connection: Effect.succeed(connect(db)),
      semaphore: yield* Semaphore.make(1),
      isTransaction: () => db.raw.isTransaction
    })
    return yield* SqlClient.make({
      ...acquirers,
      compiler: Statement.makeCompilerSqlite(),
      driver: "sqlite-node",
      spanAttributes: [...Object.entries(options.spanAttributes ?? {}), ["db.system.name", "sqlite"]]
    })
  })

/** The client as a layer. */
export const layer = (options: SqlClientOptions): Layer.Layer<SqlClient.SqlClient, StorageFailure> =>
  Layer.effect(SqlClient.SqlClient, make(options)).pipe(Layer.provide(Reactivity.layer))
