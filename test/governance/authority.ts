/**
 * What the governance tests share: an authority on a real file in a directory of its own, driven by a settable clock.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { afterAll } from "vitest"
import {
  openAuthority,
  type OpenAuthorityOptions,
  type SqliteAuthority
} from "../../providers/authority-sqlite/index.ts"
import {
  Agents,
  Authority,
  type BudgetSpec,
  Goals,
  type Goal,
  type Lease,
  Leases,
  Todos,
  type TodoRecord
} from "../../src/governance/index.ts"

const made: string[] = []
const open: SqliteAuthority[] = []

afterAll(async () => {
  for (const store of open.splice(0)) await store.close()
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

export const newDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-authority-"))
  made.push(directory)
  return directory
}

export interface Bench {
  readonly store: SqliteAuthority
  readonly directory: string
  /** The time that decisions see; tests move it. */
  now: number
  /** Runs an effect against this authority and gives its success, or throws its failure. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, Authority>) => Promise<A>
  /** Runs an effect that must fail, and gives its error. */
  readonly fails: <A, E>(effect: Effect.Effect<A, E, Authority>) => Promise<E>
}

export const newBench = async (options: Partial<OpenAuthorityOptions> = {}): Promise<Bench> => {
  const directory = options.directory ?? newDirectory()
  const clock = { now: 1_800_000_000_000 }
  const store = await openAuthority({ durability: "normal", now: () => clock.now, ...options, directory })
  open.push(store)
  const service = Authority.make(store)
  const run = <A, E>(effect: Effect.Effect<A, E, Authority>) =>
    Effect.runPromise(Effect.provideService(effect, Authority, service))
  const fails = <A, E>(effect: Effect.Effect<A, E, Authority>) =>
    run(Effect.flip(effect) as Effect.Effect<E, A, Authority>)
  return Object.assign(clock, { store, directory, run, fails }) as Bench
}

/** A goal with a budget and a registered agent. */
export const newGoal = async (bench: Bench, budget: BudgetSpec = { usd: 10, slots: 10 }): Promise<Goal> => {
  const goal = await bench.run(Goals.open({ title: "Repair the ledger", budget }))
  await bench.run(Agents.register({ goal: goal.id, agentId: "ada" }))
  await bench.run(Agents.register({ goal: goal.id, agentId: "bob" }))
  return goal
}

export const newTodo = (bench: Bench, goal: Goal, more: object = {}): Promise<TodoRecord> =>
  bench.run(Todos.add({ goal: goal.id, title: "Find the fault", ...more }))

export const hold = (bench: Bench, todo: TodoRecord, agent = "ada", more: object = {}): Promise<Lease> =>
  bench.run(Leases.acquire({ todo: todo.id, agent, ...more }))

/** How many rows lie in the tables that every command touches. */
export const countRows = (directory: string): { journal: number; command: number; todo: number } => {
  const db = new DatabaseSync(join(directory, "authority.db"), { readOnly: true })
  const count = (table: string) => Number(db.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get()!["n"])
  const counted = { journal: count("journal"), command: count("command"), todo: count("todo") }
  db.close()
  return counted
}

/** A number that names a random test's run, printed when it fails and settable by COPPICE_SEED. */
export const seed = (): number => {
  const given = process.env["COPPICE_SEED"]
  const value = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given)
  console.log(`seed ${value} (set COPPICE_SEED to repeat)`)
  return value
}
