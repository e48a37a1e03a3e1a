/**
 * Locks between processes: SQLite's own lock on an empty file, which dies with the process that holds it (as in a record's lock).
 * Promise: none is ever stale; waiting leaves the event loop free and ends with a cancellation; whoever holds it for writing is alone.
 * Rules: GW3, W11; C30, C31.
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { DatabaseSync } from "node:sqlite"
import { isBusyError } from "../../src/sqlite/Database.ts"

export type Access = "shared" | "alone"

const tryLock = (file: string, access: Access): DatabaseSync | undefined => {
  const held = new DatabaseSync(file, { timeout: 0 })
  try {
    if (access === "alone") held.exec("BEGIN EXCLUSIVE")
    else {
      held.exec("BEGIN")
      // A transaction takes its lock with the first statement that reads.
      held.prepare("SELECT count(*) FROM sqlite_schema").get()
    }
    return held
  } catch (error) {
    held.close()
    if (isBusyError(error)) return undefined
    throw error
  }
}

export class Locks {
  readonly #directory: string
  /** Within this process the waiting stand in line; between processes they ask again. */
  readonly #lines = new Map<string, Promise<unknown>>()
  constructor(directory: string) {
    this.#directory = directory
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  }

  async alone<A>(name: string, signal: AbortSignal | undefined, use: () => Promise<A>): Promise<A> {
    const before = this.#lines.get(name) ?? Promise.resolve()
    const mine = before.then(() => this.#held(name, "alone", signal, use))
    const settled = mine.catch(() => undefined)
    this.#lines.set(name, settled)
    try {
      return await mine
    } finally {
      if (this.#lines.get(name) === settled) this.#lines.delete(name)
    }
  }

  shared<A>(name: string, signal: AbortSignal | undefined, use: () => Promise<A>): Promise<A> {
    return this.#held(name, "shared", signal, use)
  }

  /** Undefined, and nothing done, when somebody else is at it. */
  async ifFree<A>(name: string, use: () => Promise<A>): Promise<A | undefined> {
    const held = tryLock(join(this.#directory, name), "alone")
    if (held === undefined) return undefined
    try {
      return await use()
    } finally {
      held.close()
    }
  }

  async #held<A>(name: string, access: Access, signal: AbortSignal | undefined, use: () => Promise<A>): Promise<A> {
    let held: DatabaseSync | undefined
    for (let wait = 2; held === undefined; wait = Math.min(wait * 1.5, 50)) {
      signal?.throwIfAborted()
      held = tryLock(join(this.#directory, name), access)
      if (held === undefined)
        await sleep(wait * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
    }
    try {
      return await use()
    } finally {
      held.close()
    }
  }
}
