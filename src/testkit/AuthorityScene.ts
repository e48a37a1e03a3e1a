/**
 * What a scenario of the authority suite works with: a store of its own, a clock that it moves, and a few beginnings.
 * Promise: every answer goes into the transcript, as it was given; whatever was opened or started is ended. Rules: V2.
 */
import assert from "node:assert/strict"
import type * as Effect from "effect/Effect"
import {
  Agents,
  type Authority,
  type BudgetSpec,
  Evidence,
  type Fence,
  type Goal,
  Goals,
  type JournalEntry,
  type Lease,
  Leases,
  Quota,
  type TodoRecord,
  Todos
} from "../governance/index.ts"
import { sha256 } from "../base/Digest.ts"
import type { OpenedAuthority, OpenUnderTest, StoreUnderTest } from "./AuthorityUnderTest.ts"
import { endOf, type refusalOf, startWorker, type Worker } from "./AuthorityWorker.ts"

/** The fields of a refusal, as they travel. */
export type Refused = ReturnType<typeof refusalOf>

export interface Scene {
  readonly store: StoreUnderTest
  /** The time that decisions see. In a scenario with processes it is the system's, and moving it changes nothing. */
  readonly clock: { now: number }
  readonly opened: OpenedAuthority
  /** Runs an effect that must succeed. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, Authority>, on?: OpenedAuthority) => Promise<A>
  /** Runs an effect that must be refused with this code. */
  readonly refused: (
    code: string,
    effect: Effect.Effect<unknown, unknown, Authority>,
    on?: OpenedAuthority
  ) => Promise<Refused>
  /** A further handle on the same store. */
  readonly open: (options?: OpenUnderTest) => Promise<OpenedAuthority>
  /** Closes the first handle and opens the store again. */
  readonly reopen: () => Promise<void>
  readonly worker: () => Promise<Worker>
  /** Every fact so far, or those whose type begins so. */
  readonly facts: (prefix?: string) => Promise<readonly JournalEntry[]>
  /** Puts something into the transcript beside the answers. */
  readonly note: (value: unknown) => void
}

/** Opens a scene over a store; `end` ends everything in it. */
export const openScene = async (
  store: StoreUnderTest,
  settable: boolean
): Promise<{ readonly scene: Scene; readonly answers: readonly unknown[]; readonly end: () => Promise<void> }> => {
  const clock = { now: 1_800_000_000_000 }
  const handles = new Set<OpenedAuthority>()
  const workers: Worker[] = []
  const answers: unknown[] = []
  const open: Scene["open"] = async (options = {}) => {
    const handle = await store.open({ ...(settable ? { now: () => clock.now } : {}), ...options })
    handles.add(handle)
    return handle
  }
  const close = async (handle: OpenedAuthority) => {
    handles.delete(handle)
    await handle.close()
  }
  let opened = await open()
  const scene: Scene = {
    store,
    clock,
    get opened() {
      return opened
    },
    run: async (effect, on = opened) => {
      const end = await endOf(on, effect)
      answers.push("ok" in end ? end.ok : end.refused)
      if ("ok" in end) return end.ok
      throw new assert.AssertionError({ message: `Refused: ${end.refused.code}, ${String(end.refused["message"])}` })
    },
    refused: async (code, effect, on = opened) => {
      const end = await endOf(on, effect)
      answers.push("ok" in end ? end.ok : end.refused)
      assert.ok("refused" in end, `expected the refusal ${code}, and it was done`)
      assert.equal(end.refused.code, code, String(end.refused["message"]))
      assert.match(String(end.refused["remedy"]), /\S/, `${code} has no remedy`)
      return end.refused
    },
    open,
    reopen: async () => {
      await close(opened)
      opened = await open()
    },
    worker: async () => {
      const worker = await startWorker(store.worker!)
      workers.push(worker)
      return worker
    },
    facts: async (prefix = "") => (await allFacts(opened)).filter((fact) => fact.type.startsWith(prefix)),
    note: (value) => answers.push(value)
  }
  return {
    scene,
    answers,
    end: async () => {
      await Promise.all(workers.map((worker) => worker.kill()))
      for (const handle of handles) await close(handle)
    }
  }
}

/** The whole journal, by pages. */
export const allFacts = async (opened: OpenedAuthority): Promise<readonly JournalEntry[]> => {
  const all: JournalEntry[] = []
  for (;;) {
    const end = await endOf(opened, opened.authority.journal({ after: all.at(-1)?.seq ?? 0, limit: 1000 }))
    assert.ok("ok" in end, "the journal could not be read")
    if (end.ok.length === 0) return all
    all.push(...end.ok)
  }
}

// --- beginnings ------------------------------------------------------------------------------------------------------

/** A goal with the agents `ada` and `bob`. */
export const newGoal = async (scene: Scene, budget: BudgetSpec = { usd: 10, slots: 10 }): Promise<Goal> => {
  const goal = await scene.run(Goals.open({ title: "Repair the ledger", budget }))
  for (const agentId of ["ada", "bob"]) await scene.run(Agents.register({ goal: goal.id, agentId }))
  return goal
}

export const newTodo = (
  scene: Scene,
  goal: { readonly id: string },
  more: Partial<Omit<Parameters<typeof Todos.add>[0], "goal">> = {}
): Promise<TodoRecord> => scene.run(Todos.add({ title: "Find the fault", ...more, goal: goal.id }))

export const hold = (scene: Scene, todo: { readonly id: string }, agent = "ada"): Promise<Lease> =>
  scene.run(Leases.acquire({ todo: todo.id, agent }))

/** A goal, a todo in it, and `ada`'s lease on that. */
export const heldTodo = async (
  scene: Scene,
  more: Partial<Omit<Parameters<typeof Todos.add>[0], "goal">> = {}
): Promise<{ readonly goal: Goal; readonly todo: TodoRecord; readonly fence: Fence }> => {
  const goal = await newGoal(scene)
  const todo = await newTodo(scene, goal, more)
  return { goal, todo, fence: (await hold(scene, todo)).fence }
}

/** What a goal has reserved, spent and left, in dollars. */
export const money = async (scene: Scene, goal: { readonly id: string }) => {
  const { reserved, spent, remaining, owed } = await scene.run(Quota.status({ goal: goal.id }))
  return { reserved: reserved.usd, spent: spent.usd, remaining: remaining.usd, owed: owed.length }
}

/** Evidence of a validator's. */
export const validatorEvidence = (scene: Scene, goal: { readonly id: string }, kind = "verdict", more: object = {}) =>
  scene.run(
    Evidence.record({
      goal: goal.id,
      kind,
      digest: sha256(kind),
      summary: "what the validator saw",
      producer: { role: "validator", name: "judge" },
      ...more
    })
  )
