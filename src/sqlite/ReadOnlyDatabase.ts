/**
 * One SQLite file, opened to be read and nothing else.
 * Promise: loads nothing but Node, for programs that somebody waits for; a locked file throws SQLite's own error at once (`isBusyError`). Rules: L12.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Param, Row } from "./Database.ts"

export class ReadOnlyDatabase {
  readonly raw: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  constructor(path: string) {
    this.raw = new DatabaseSync(path, { readOnly: true })
  }

  get(sql: string, ...params: readonly Param[]): Row | undefined {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.raw.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement.get(...params) as Row | undefined
  }

  close(): void {
    this.#statements.clear()
    this.raw.close()
  }
}
