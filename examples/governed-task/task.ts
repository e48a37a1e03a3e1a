/**
 * One bounded task on the minimal preset: a goal with a budget, a todo with a declared validator, one governed turn.
 * Promise: every command has a name of its own in this directory, so that a run after a crash finds what is there and goes on from
 * it; an agent that may have run is never started again unless that is asked for. Rules: J1; G2, G72, G80 to G82.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { processHost } from "../../providers/host-process/index.ts"
import {
  Acceptances,
  Agents,
  Authority,
  Goals,
  leaseHolds,
  Leases,
  Quota,
  Settlements,
  Todos,
  type TurnRecord,
  Turns
} from "../../src/governance/index.ts"
import { plainDirectory } from "../../src/host/index.ts"
import { driveTurn, type HostOutcome, resultFiles, type Settling } from "../../src/session/index.ts"
import { validate, validatorName } from "./validator.ts"

export interface TaskOptions {
  /** Where the store, the files and the results lie. */
  readonly place: string
  /** Whether an attempt that a crash interrupted is started again. */
  readonly retry: boolean
  /** The agent only says that it did the work. */
  readonly lazy: boolean
  readonly onProgress?: (text: string) => void
}

const agent = "adder"
const goalTitle = "The books of November"
const todoTitle = "Add up ledger.csv and write total.txt"

/** The plain directory, with the ledger in it. */
const filesOf = (place: string): string => {
  const files = join(place, "files")
  mkdirSync(files, { recursive: true })
  if (!existsSync(join(files, "ledger.csv")))
    writeFileSync(join(files, "ledger.csv"), "rent,40.00\npaper,12.50\nink,4.64\n")
  return files
}

/** What is to be done, and the authority to do it: the same goal, todo and lease however often it is asked for. */
const claimed = Effect.gen(function* () {
  const budget = { usd: 1, slots: 3 }
  const goal = yield* Goals.open({ commandId: "goal", title: goalTitle, budget })
  yield* Agents.register({ commandId: "agent", goal: goal.id, agentId: agent })
  const acceptance = { validator: validatorName }
  const todo = yield* Todos.add({ commandId: "todo", goal: goal.id, title: todoTitle, acceptance })
  const first = yield* Leases.acquire({ commandId: "claim", todo: todo.id, agent })
  const { state } = yield* Todos.get({ todo: todo.id })
  // Done work needs no lease. A claim that has ended since (45 minutes, say) is made anew.
  const held =
    state !== "open" ||
    (yield* Effect.match(leaseHolds(first.fence), { onSuccess: () => true, onFailure: () => false }))
  const { fence } = held ? first : yield* Leases.acquire({ todo: todo.id, agent, reason: "the first claim has ended" })
  return { goal, todo, fence }
})

const totalOf = (files: string): string | null => {
  const path = join(files, "total.txt")
  return existsSync(path) ? readFileSync(path, "utf8") : null
}

/** Where a turn runs and who judges it. */
const work = (place: string, files: string) => ({
  open: () => Effect.succeed(files),
  environment: (directory: string) => plainDirectory(directory),
  results: resultFiles(join(place, "results")),
  capture: () => Effect.sync(() => totalOf(files)),
  validate: (turn: TurnRecord) => Effect.map(validate(turn, files), ({ id }) => ({ acceptance: id as string | null })),
  settle: (turn: TurnRecord, _outcome: HostOutcome | null) =>
    Effect.gen(function* () {
      const acceptance = turn.verdict?.acceptance ?? null
      const { outcome } = yield* Acceptances.get({ acceptance: acceptance! })
      const done: Settling = {
        outcome: outcome === "passed" ? "accepted" : outcome,
        evidence: [],
        acceptance,
        todo: outcome === "passed" ? { action: "complete", continuation: { kind: "noFollowUp" } } : { action: "keep" }
      }
      return done
    })
})

/** Everything that the authority says of the task, as one answer. */
const readBack = (
  goal: string,
  todo: string,
  interrupted: { readonly message: string; readonly remedy: string } | null
) =>
  Effect.gen(function* () {
    const authority = yield* Authority
    const journal = yield* authority.journal({ limit: 10_000 })
    return {
      interrupted,
      goal: yield* Goals.get({ goal }),
      todo: yield* Todos.get({ todo }),
      turns: (yield* Turns.list({ goal })).items,
      acceptances: (yield* Acceptances.list({ goal })).items,
      settlements: (yield* Settlements.list({ goal })).items,
      quota: yield* Quota.status({ goal }),
      facts: journal.map(({ seq, at, type, entity }) => ({ seq, at, type, entity })),
      journal: yield* authority.verify
    }
  })

export type TaskReport = Effect.Success<ReturnType<typeof readBack>>

/** Starts the task or goes on with it, to its end, and reads it back. */
export const runTask = ({ place, retry, lazy, onProgress }: TaskOptions) =>
  Effect.gen(function* () {
    const files = filesOf(place)
    const { goal, todo, fence } = yield* claimed
    const driven = driveTurn(
      {
        goal: { id: goal.id, title: goal.title },
        todo: { id: todo.id, title: todo.title },
        agent,
        fence,
        host: processHost([process.execPath, join(import.meta.dirname, "agent.mjs"), ...(lazy ? ["lazy"] : [])]),
        instruction: todo.title,
        findings: [],
        bound: { usd: 0.2, slots: 1 },
        timeLimitMs: 60_000,
        interrupted: retry ? "retry" : "explain",
        ...(onProgress === undefined ? {} : { onProgress: ({ text }: { readonly text: string }) => onProgress(text) })
      },
      work(place, files)
    )
    const interrupted = yield* driven.pipe(
      Effect.as(null),
      Effect.catchTag("TurnInterrupted", ({ message }) =>
        Effect.succeed({ message, remedy: "Run it again with --retry: that is a new, labelled attempt." })
      )
    )
    return yield* readBack(goal.id, todo.id, interrupted)
  })
